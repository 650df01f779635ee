"""``sidecar policy``: what it prints and how it ends."""

import io
import json
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from joserfc.jwk import OKPKey

from sidecar.__main__ import main
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.gateway.policy.files import load_bundle

ROOT = Path(__file__).parents[3]
CALL = {
    "resource": {"type": "tool", "id": "pay", "properties": {"registered_class": "irreversible"}},
    "action": {
        "properties": {"amount": "120.00", "currency": "EUR", "idempotency": {"key_present": True}}
    },
}


class Done:
    """How a command ended, run through the real entry point of this very process."""

    def __init__(self, returncode, stdout, stderr):
        self.returncode, self.stdout, self.stderr = returncode, stdout, stderr


@pytest.fixture
def sidecar(tmp_path, monkeypatch, capfd):
    def run(*arguments, input=""):
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(sys, "argv", ["sidecar", "policy", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(input.encode())))
        with pytest.raises(SystemExit) as ended:
            main()
        return Done(int(ended.value.code), *capfd.readouterr())

    return run


def bundle(folder, text):
    (folder / "bundle").mkdir()
    (folder / "bundle/a.rego").write_text(text)
    return folder / "bundle"


def test_the_default_bundle_is_checked_and_tested(sidecar, tmp_path):
    checked = sidecar("check", "--output", "json")
    assert (checked.returncode, checked.stderr) == (0, "")
    assert json.loads(checked.stdout) == {"revision": load_bundle().revision, "findings": []}
    tested = sidecar("test", ROOT / "policies")
    assert tested.returncode == 0
    assert tested.stdout.endswith("tests passed\n")


def test_a_call_is_judged_and_its_reasons_printed(sidecar, tmp_path):
    (tmp_path / "call.json").write_text(json.dumps(CALL))
    done = sidecar("decide", "--input", "call.json")
    assert done.returncode == 0
    assert done.stdout.startswith("require_approval  amount_needs_approval: it costs 120.00 EUR")
    piped = sidecar("decide", "--input", "-", "--output", "json", input="{}")
    assert json.loads(piped.stdout)["effect"] == "deny"


@pytest.mark.parametrize(
    ("text", "command", "code", "words"),
    [
        (
            "package agenttwin.v1\n\nx := http.send({})\n",
            "check",
            1,
            "a.rego:3: function: http.send",
        ),
        ("package a\n\nx := \n", "check", 3, "a.rego:4"),
        ("package a\n\nx := 1\n", "test", 2, "has no tests"),
        ("package a\n\ntest_x if 1 == 2\n", "test", 1, "data.a.test_x: fail"),
    ],
)
def test_faults_have_their_exit_code_and_say_where(sidecar, tmp_path, text, command, code, words):
    done = sidecar(command, bundle(tmp_path, text))
    assert done.returncode == code, done.stderr
    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [("{", 3, "not strict JSON"), ("[]", 3, "no JSON object"), ('{"a": 1, "a": 2}', 3, "twice")],
)
def test_an_input_that_is_no_document_is_a_usage_error(sidecar, tmp_path, content, code, words):
    done = sidecar("decide", "--input", "-", input=content)
    assert done.returncode == code and words in done.stderr


def test_no_answer_exits_2_and_a_missing_bundle_3(sidecar, tmp_path):
    allow_all = ROOT / "policies/examples/allow_all"
    done = sidecar("decide", allow_all, "--input", "-", input="{}")
    assert done.returncode == 2 and "policy_error" in done.stdout
    missing = sidecar("check", tmp_path / "absent")
    assert missing.returncode == 3 and "missing or no folder" in missing.stderr


def test_a_bundle_is_packed_signed_and_verified(sidecar, tmp_path):
    made = OKPKey.generate_key("Ed25519")
    (tmp_path / "key.pem").write_bytes(made.as_pem(private=True))
    (tmp_path / "public.pem").write_bytes(made.as_pem(private=False))
    signing = ("--signing-key", "key.pem", "--key-id", "ci", "--sequence", "3", "--expires", "90d")
    built = sidecar("build", ROOT / "policies", "--to", "b.tar.gz", *signing)
    assert (built.returncode, built.stderr) == (0, "")
    assert load_bundle().revision in built.stdout and "number 3, signed by ci" in built.stdout
    good = sidecar("verify", "b.tar.gz", "--key", "ci=public.pem", "--output", "json")
    assert json.loads(good.stdout)["sequence"] == 3 and good.returncode == 0
    for options, words in (
        (("--key", "other=public.pem"), "another key"),
        (("--key", "ci=public.pem", "--scope", "x"), "scope"),
    ):
        bad = sidecar("verify", "b.tar.gz", *options)
        assert bad.returncode == 1 and words in bad.stdout
    decided = sidecar("decide", "b.tar.gz", "--input", "-", input=json.dumps(CALL))
    assert decided.stdout.startswith("require_approval  amount_needs_approval")
    half = sidecar("build", ROOT / "policies", "--to", "c.tar.gz", "--signing-key", "key.pem")
    assert half.returncode == 3 and "--key-id" in half.stderr


@pytest.mark.parametrize("key", ["ci", "ci=", "=ci.pem"])
def test_a_key_without_its_name_or_file_is_told_how_keys_are_named(tmp_path, key):
    (tmp_path / "b.tar.gz").write_bytes(b"x")
    arguments = ["policy", "verify", str(tmp_path / "b.tar.gz"), "--key", key]
    result = CliRunner().invoke(root, arguments)
    assert isinstance(result.exception, SidecarError)
    assert "ID=FILE" in str(result.exception)
