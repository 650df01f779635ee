"""A real sidecar on signed policy: it starts on the newest release, and changes as it serves."""

import json
import os
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest
from joserfc.jwk import OKPKey
from sidecar_process import CONFIG, SidecarProcess

from sidecar.gateway.policy.files import default_bundle_path

pytestmark = pytest.mark.full  # real processes

SIGNED = CONFIG + (
    "policy: {bundle: bundle.tar.gz, watch: 100ms, "
    "signing: {keys: [{id: ci, file: public.pem}], scope: shop}}\n"
)


@pytest.fixture
def place(tmp_path):
    key = OKPKey.generate_key("Ed25519")
    (tmp_path / "key.pem").write_bytes(key.as_pem(private=True))
    (tmp_path / "public.pem").write_bytes(key.as_pem(private=False))
    shutil.copytree(default_bundle_path(), tmp_path / "rules")
    made = SidecarProcess(tmp_path, SIGNED)
    yield made
    made.stop()


def release(place, number, *, settings=None, scope="shop"):
    """A signed archive in the bundle's place; the revision it has."""
    if settings is not None:
        (place.folder / "rules/data.yaml").write_text(settings)
    told = place.run(
        *("policy", "build", "rules", "--to", "new.tar.gz", "--sequence", str(number)),
        *("--signing-key", "key.pem", "--key-id", "ci", "--scope", scope),
    )
    (place.folder / "new.tar.gz").replace(place.folder / "bundle.tar.gz")
    return told.split()[1]


def until_said(place, text, seconds=30):
    ends = time.monotonic() + seconds
    while text not in place.errors():
        assert time.monotonic() < ends, place.errors()[-3000:]
        time.sleep(0.05)


def refuses(place):
    """What a sidecar says that does not start."""
    command = ["sidecar", "serve"]
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=place.folder,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 3, done.stderr
    return done.stderr


@pytest.mark.requirement("GW-04")
def test_only_the_newest_signed_release_starts_and_another_takes_over_while_it_serves(place):
    settings = (place.folder / "rules/data.yaml").read_text()
    release(place, 1, scope="other")
    assert "signed for another scope" in refuses(place)
    shutil.copy(place.folder / "bundle.tar.gz", place.folder / "old.tar.gz")
    first = release(place, 4)
    place.start()
    second = release(place, 5, settings=settings.replace("denied: []", "denied: [drop_table]"))
    assert first != second
    until_said(place, second)
    assert "policy_changed" in place.errors()
    place.run("policy", "build", "rules", "--to", "bundle.tar.gz")
    until_said(place, "is not signed")
    release(place, 3, settings=settings)
    until_said(place, "release 3 of the policy is not the newest")
    place.process.terminate()
    place.reap()
    assert "release 3 of the policy is not the newest" in refuses(place)
    release(place, 6)
    place.start()
    assert place.process.poll() is None


RULES = """package agenttwin.v1

decide := {"effect": "EFFECT", "reasons": [{"code": "said_so"}]} if input.resource.id

list := {"effect": "allow", "reasons": [{"code": "seen"}]} if input.resource.id
"""
WATCHED = CONFIG.replace('gateway: {listen: "127.0.0.1:0"}', """\
gateway:
  listen: "127.0.0.1:0"
  accept_ephemeral_ledger: true
  upstreams: [{name: shop, url: "http://127.0.0.1:9", allow_cidrs: ["127.0.0.1/32"]}]
  tools: [{name: pay, upstream: shop, class: write, match: {method: POST, path: /pay}}]
policy: {bundle: loose, watch: 100ms}""")  # fmt: skip


def test_a_looser_policy_waits_for_two_people_across_restarts(tmp_path):
    bundle = tmp_path / "loose"
    bundle.mkdir()

    def write(effect):
        (bundle / "new").write_text(RULES.replace("EFFECT", effect))
        (bundle / "new").replace(bundle / "decide.rego")

    write("deny")
    place = SidecarProcess(tmp_path, WATCHED)
    try:
        place.start()
        agent, number = place.key(), iter(range(99))

        def pay():
            request = urllib.request.Request(
                f"http://{place.addresses['gateway.listen']}/shop/pay", data=b"{}",
                headers={"Authorization": f"Bearer {agent}", "Content-Type": "application/json",
                         "Idempotency-Key": f"k{next(number)}"},
            )  # fmt: skip
            with pytest.raises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(request, timeout=20)
            with refused.value as answer:
                return json.load(answer)["code"]

        def people(name, *arguments):
            told = place.run(
                *("key", "create", "--kind", "approver", "--project", "default"),
                *("--name", name, "--output", "json"),
            )
            key = json.loads(told)["key"]
            url = f"http://{place.addresses['control.listen']}"
            done = subprocess.run(
                [sys.executable, "-m", "sidecar", "policy", *arguments, "--key", key],
                cwd=place.folder, capture_output=True, text=True, timeout=60,
                env={**os.environ, "SIDECAR_CLIENT_URL": url},
            )  # fmt: skip
            return done.returncode, done.stdout + done.stderr

        assert pay() == "said_so"
        write("allow")
        until_said(place, "policy_loosening_not_activated")
        assert pay() == "said_so"
        for _ in range(2):  # the second time it is killed
            place.process.kill()
            place.reap()
            place.start()
            assert pay() == "said_so"
        code, told = people("Ann", "pending")
        assert code == 0 and "1 loosened" in told, told
        revision = told.split()[0]
        code, told = people("Ann", "approve", revision, "--reason", "read")
        assert code == 0 and "1 of 2 approved" in told, told
        code, told = people("ann", "approve", revision, "--reason", "again")
        assert code == 3 and "vote_repeated" in told, told
        assert pay() == "said_so"
        code, told = people("Bob", "approve", revision, "--reason", "read it too")
        assert code == 0 and told.startswith(f"{revision}  approved"), told
        until_said(place, "policy_changed")
        assert pay() == "upstream_unreachable"
        place.process.kill()
        place.reap()
        place.start()
        assert pay() == "upstream_unreachable"
        kinds = [json.loads(line)["kind"] for line in place.run("audit", "export").splitlines()
                 if '"kind"' in line]  # fmt: skip
        assert kinds.count("policy_vote") == 2 and kinds.count("policy_offered") == 1
    finally:
        place.stop()
