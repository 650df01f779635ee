"""A real sidecar on signed policy: it starts on the newest release, and changes as it serves."""

import shutil
import subprocess
import sys
import time

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
