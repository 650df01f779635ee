"""``sidecar key``: what may be asked of a new key, rotation, and what a list says."""

import asyncio
import json

import pytest
from click.testing import CliRunner

from processors.model.principal import Presented
from sidecar.app import opening, people
from sidecar.app.loading import load_config
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.identity.keys import Unauthenticated

CONFIG = """\
projects: [{name: a}, {name: b}]
organisations: [{name: acme, projects: [a, b]}]
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "sidecar.yaml").write_text(CONFIG)
    return tmp_path


def key(*arguments):
    result = CliRunner().invoke(root, ["key", *arguments, "--output", "json"])
    if isinstance(result.exception, SidecarError):
        raise result.exception
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def who(text):
    loaded = load_config(None, None)
    with opening.open_keys(loaded) as keys:
        return asyncio.run(
            people.open_identity(loaded, keys)(Presented(authorization=f"Bearer {text}"))
        )


def test_a_key_has_the_limits_it_was_made_with():
    made = key("create", "--kind", "agent", "--project", "a", "--tool", "refund", "--expires", "1h")
    assert who(made["key"]).tools == ("refund",)
    assert made["expires_at_ns"] - made["created_at_ns"] == pytest.approx(3600 * 10**9, rel=0.01)
    over = key("create", "--kind", "reader", "--project", "a", "--expires", "0s")
    with pytest.raises(Unauthenticated, match="expired"):
        who(over["key"])
    states = [
        line.split()[3] for line in CliRunner().invoke(root, ["key", "list"]).stdout.splitlines()
    ]
    assert states == ["active", "expired"]


@pytest.mark.parametrize(
    ("role", "kind"),
    [("owner", "admin"), ("admin", "admin"), ("engineer", "reader"), ("reviewer", "approver"),
     ("viewer", "reader")],
)  # fmt: skip
def test_a_key_may_be_made_for_a_role(role, kind):
    made = key("create", "--role", role, "--project", "a", "--name", "ana")
    found = who(made["key"])
    assert (found.kind, found.role, found.name) == (kind, role, "ana")


def test_an_agents_key_says_who_answers_for_it():
    made = key("create", "--kind", "agent", "--project", "a", "--owner", "ana")
    assert made["owner"] == who(made["key"]).owner == "ana"


def test_a_key_of_an_organisation_is_one_in_each_of_its_projects():
    made = key("create", "--kind", "admin", "--organisation", "acme")
    assert [grant.project for grant in who(made["key"]).grants] == ["a", "b"]
    [line] = CliRunner().invoke(root, ["key", "list"]).stdout.splitlines()
    assert "acme/*" in line


@pytest.mark.requirement("OPS-01")
def test_a_rotated_key_is_the_same_caller_with_two_secrets_for_a_while():
    old = key("create", "--kind", "agent", "--project", "a")
    new = key("rotate", old["key_id"], "--overlap", "1h")
    assert new["key"] != old["key"] and who(new["key"]) == who(old["key"])
    [row] = key("list")
    assert row["previous_until_ns"] == new["previous_until_ns"] and "secret" not in str(row)
    at_once = key("rotate", old["key_id"], "--overlap", "0s")
    assert who(at_once["key"])
    for ended in (old, new):
        with pytest.raises(Unauthenticated):
            who(ended["key"])


def test_a_key_that_is_not_there_or_revoked_is_not_rotated():
    made = key("create", "--kind", "agent", "--project", "a")
    key("revoke", made["key_id"])
    for key_id in (made["key_id"], "f" * 16):
        with pytest.raises(SidecarError, match="could be rotated"):
            key("rotate", key_id)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--project", "a"), "a kind or a role"),
        (("--kind", "reader", "--role", "owner", "--project", "a"), "a kind or a role"),
        (("--kind", "agent"), "of a project or of an organisation"),
        (("--kind", "admin", "--project", "a", "--organisation", "acme"), "of a project or of an"),
        (("--kind", "admin", "--organisation", "evil"), "no organisation"),
        (("--kind", "agent", "--organisation", "acme"), "of one project"),
        (("--kind", "agent", "--project", "a b"), "cannot be a project's name"),
        (("--kind", "reader", "--project", "a", "--tool", "x"), "only an agent's"),
        (("--kind", "reader", "--project", "a", "--owner", "x"), "only an agent has an owner"),
        (("--kind", "agent", "--project", "a", "--tool", "x,y"), "no tool's name"),
    ],
)
def test_what_no_key_can_be_is_refused(arguments, said, folder):
    with pytest.raises(SidecarError) as caught:
        key("create", *arguments)
    assert said in caught.value.what and caught.value.where
    assert not (folder / "sidecar-data").exists()


@pytest.mark.parametrize(
    "asked",
    [
        ("create", "--kind", "agent"),
        ("rotate-data",),
        ("rotate-redaction",),
        ("digest", "--kind", "email"),
    ],
    ids=lambda asked: asked[0],
)
def test_a_project_that_is_not_configured_is_warned_of_because_it_may_be_misspelt(asked, folder):
    (folder / "sidecar-data.seal-key").write_text("ab" * 32)
    said = {
        project: CliRunner().invoke(
            root, ["key", *asked, "--project", project], input="bob@example.com"
        )
        for project in ("a", "aa")
    }
    assert {each.exit_code for each in said.values()} == {0}, said
    assert "warning: there is no project aa in projects" in said["aa"].stderr
    assert "warning" not in said["a"].stderr


@pytest.mark.parametrize("asked", [("list",), ("revoke", "0" * 16), ("rotate", "0" * 16)])
def test_keys_of_a_store_that_is_not_there_are_not_none_and_no_store_is_made(asked, folder):
    with pytest.raises(SidecarError, match="there is no store"):
        key(*asked, "--store", "sqlite:///misspelt")
    assert not (folder / "misspelt").exists()
