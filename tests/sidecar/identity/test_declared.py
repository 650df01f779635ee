"""Keys that the configuration names by file: valid while declared, as declared, never more."""

import json
import os

import pytest
from click.testing import CliRunner

from processors.model.principal import StoredKey
from sidecar.app import people
from sidecar.app.loading import load_config
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.identity.declared import DeclaredKey, DeclaredKeys
from sidecar.identity.keys import Unauthenticated, authenticate

NOW = 1_800_000_000_000_000_000


class Stored:
    """The keys of a store, by id."""

    def __init__(self, *rows):
        self._rows = {row.key_id: row for row in rows}

    def find_key(self, key_id):
        return self._rows.get(key_id)


def generated(kind):
    done = CliRunner().invoke(root, ["key", "generate", "--kind", kind, "--output", "json"])
    assert done.exit_code == 0, done.output
    return json.loads(done.stdout)["key"]


def who(text, declared, *stored):
    row = declared.read(text, now_ns=NOW)
    keys = DeclaredKeys({row.key_id: row}, Stored(*stored))
    return authenticate(f"Bearer {text}", keys, now_ns=NOW)


@pytest.mark.requirement("REC-05")
def test_a_generated_key_is_what_its_declaration_says():
    declared = DeclaredKey(file="f", kind="agent", project="shop", name="bot", tools=("refund",))
    principal = who(generated("agent"), declared)
    assert (principal.kind, principal.project, principal.name) == ("agent", "shop", "bot")
    assert principal.tools == ("refund",)


def test_no_two_generated_keys_are_alike():
    assert len({generated("approver") for _ in range(5)}) == 5


def test_a_key_that_the_store_revoked_stays_revoked():
    text = generated("agent")
    declared = DeclaredKey(file="f", kind="agent", project="shop")
    row = declared.read(text, now_ns=NOW)
    revoked = StoredKey(
        key_id=row.key_id,
        kind="agent",
        project="shop",
        name="",
        secret_sha256=row.secret_sha256,
        created_at_ns=NOW,
        revoked_at_ns=NOW,
    )
    with pytest.raises(Unauthenticated, match="revoked"):
        who(text, declared, revoked)


@pytest.mark.parametrize(
    ("text", "why"), [("", "no key"), ("sk_agent_nonsense", "no key"), ("swapped", "of kind agent")]
)
def test_a_file_without_the_right_key_stops_the_start_and_is_not_quoted(tmp_path, text, why):
    text = generated("agent") if text == "swapped" else text
    (tmp_path / "approver").write_text(text + "\n")
    (tmp_path / "seal").write_text(os.urandom(32).hex())
    (tmp_path / "sidecar.yaml").write_text(
        "seal: {key_file: seal}\nidentity: {keys: [{file: approver, kind: approver,"
        " project: default}]}\n"
    )
    loaded = load_config(str(tmp_path / "sidecar.yaml"), None)
    with pytest.raises(SidecarError, match=why) as raised:
        people.open_identity(loaded, Stored())
    shown = str(raised.value)
    assert not text or text not in shown


def test_a_file_that_is_not_there_is_named(tmp_path):
    (tmp_path / "sidecar.yaml").write_text(
        "identity: {keys: [{file: gone, kind: agent, project: default}]}\n"
    )
    loaded = load_config(str(tmp_path / "sidecar.yaml"), None)
    with pytest.raises(SidecarError) as raised:
        people.open_identity(loaded, Stored())
    assert "gone" in str(raised.value.where)


def test_a_declaration_of_a_project_that_is_not_there_is_refused_with_its_line(tmp_path):
    (tmp_path / "sidecar.yaml").write_text(
        "identity:\n  keys:\n    - {file: f, kind: agent, project: other}\n"
    )
    with pytest.raises(SidecarError, match="there is no project 'other'"):
        load_config(str(tmp_path / "sidecar.yaml"), None)
