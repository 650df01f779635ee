"""Budgets of teams and organisations, and how all of them are shown."""

import asyncio
import json

import pytest
from click.testing import CliRunner
from gateway_rig import MASTER, AllowAll, Settings, rig
from ledger_rig import BACKENDS, NOW, call, intent, ledgers, run
from msgspec import structs

from sidecar import clock
from sidecar.cli.root import root
from sidecar.gateway import allowance
from sidecar.gateway.budget import Budget
from sidecar.identity.keys import mint
from sidecar.store.budget import Hold, Named
from sidecar.store.ledger import Committed, NotCommitted

TEAM = Budget(scope="team", limit="50", currency="EUR", window="month", name="team")
ORG = Budget(scope="organisation", limit="100", currency="EUR", window="month", name="org")
CALLS = Budget(scope="agent", limit="9", unit="calls")
BELONG = {"default": ("acme",), "second": ("acme",), "third": ("other", "acme")}


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as made:
        yield made


def credential(each, project="default", owner=""):
    text, row = mint(
        "agent", project, "", id_bytes=clock.random_bytes(8),
        secret_bytes=clock.random_bytes(32), now_ns=clock.now_ns(),
    )  # fmt: skip
    each.keys.add_key(structs.replace(row, owner=owner))
    return text


def served(folder, scenario, *budgets, **options):
    settings = Settings(accept_ephemeral_ledger=True, budgets=budgets, organisations=BELONG)

    async def main():
        async with rig(folder, policy=AllowAll(), settings=settings, **options) as each:
            return await scenario(each)

    return asyncio.run(main())


@pytest.mark.row("T50")
@pytest.mark.requirement("BUD-01")
def test_agents_of_one_owner_share_a_budget_and_those_of_another_have_their_own(tmp_path):
    async def scenario(each):
        one, two, other = (credential(each, owner=name) for name in ("ana", "ana", "ben"))
        got = [
            (await each.refund("17", key=f"k{n}", amount=30, credential=who)).status
            for n, who in enumerate((one, two, other, two))
        ]
        assert got == [201, 429, 201, 429]

    served(tmp_path, scenario, TEAM)


@pytest.mark.row("T50")
@pytest.mark.requirement("BUD-01")
def test_projects_of_one_organisation_share_a_budget_and_one_of_none_has_none(tmp_path):
    async def scenario(each):
        asked = [("default", 60), ("second", 60), ("second", 40), ("third", 1), ("alone", 99)]
        got = [
            (await each.refund("17", key=f"k{n}", amount=amount,
                               credential=credential(each, project=project))).status
            for n, (project, amount) in enumerate(asked)
        ]  # fmt: skip
        assert got == [201, 429, 201, 429, 201]

    served(tmp_path, scenario, ORG)


def test_what_projects_share_is_one_account_and_no_projects_own(store):
    shared = Hold(budget="o", subject="acme", unit="EUR", amount="60", limit="100", shared=True)

    async def take(opened, name, project, hold):
        made = call(name, key_hash=name, project=project)
        return await opened.commit_intent(intent(made, holds=(hold,)))

    async def scenario(opened):
        assert isinstance(await take(opened, "a", "p", shared), Committed)
        full = await take(opened, "b", "q", shared)
        assert isinstance(full, NotCommitted) and full.over.left == "40"
        own = structs.replace(shared, shared=False)
        assert isinstance(await take(opened, "c", "p", own), Committed)
        assert [each.held for each in opened.standings("q", [shared, own], NOW)] == ["60", "0"]
        named = [(each.project, each.subject) for each in opened.budget_names("p")]
        assert named == [("", "acme"), ("p", "acme")]
        assert [each.project for each in opened.budget_names("q")] == [""]
        assert [each.project for each in opened.budget_names()] == ["", "p"]

    run(store, scenario)


def test_a_project_sees_its_own_accounts_and_those_of_its_organisations():
    known = [
        Named(project="", budget="org", subject="acme", unit="EUR"),
        Named(project="", budget="org", subject="other", unit="EUR"),
        Named(project="p", budget="team", subject="ana", unit="EUR"),
        Named(project="p", budget="gone", subject="", unit="EUR"),
        Named(project="p", budget="team", subject="ana", unit="USD"),
    ]

    def seen(project):
        found = allowance.asked(
            (TEAM, ORG), known, NOW, project=project, organisations={"p": ("acme",)}
        )
        return [(budget.name, whose, hold.subject) for budget, whose, hold in found]

    assert seen("p") == [("org", "", "acme"), ("team", "p", "ana")]
    assert seen("q") == [("team", "p", "ana")]  # the store gives no other project's
    assert seen(None) == [("org", "", "acme"), ("org", "", "other"), ("team", "p", "ana")]


CONFIG = """\
budgets:
  - {scope: team, limit: "50", currency: EUR, window: month, name: team}
  - {scope: agent, limit: "9", unit: calls}
  - {scope: tool, limit: "1", currency: USD}
seal: {key_file: data.seal-key}
"""


@pytest.mark.requirement("BUD-01")
def test_the_command_lists_what_is_used_held_and_left_and_until_when(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    folder.mkdir()
    (tmp_path / "data.seal-key").write_text(MASTER.hex())
    (tmp_path / "sidecar.yaml").write_text(CONFIG)

    async def scenario(each):
        who = credential(each, owner="ana")
        assert (await each.refund("17", key="a", amount=30, credential=who)).status == 201
        lost = await each.refund("late503", key="b", amount=15, credential=who)
        assert lost.json["code"] == "outcome_unknown"
        return f"key:{who.split('_')[2]}"

    agent = served(folder, scenario, TEAM, CALLS, ledger_path=folder / "ledger.db")

    def told(*arguments):
        ran = CliRunner().invoke(root, ["budgets", *arguments, "--store", f"sqlite:///{folder}"])
        assert ran.exit_code == 0, (ran.output, ran.exception)
        return ran.stdout

    calls, team = json.loads(told("list", "--output", "json"))
    assert (calls["subject"], calls["used"], calls["left"]) == (agent, "2", "7")
    assert calls["window_ends_at_ns"] is None and calls["window"] == "24h"
    assert {name: team[name] for name in ("subject", "limit", "used", "held", "left")} == {
        "subject": "ana", "limit": "50", "used": "30", "held": "15", "left": "5",
    }  # fmt: skip
    assert int(team["window_ends_at_ns"]) > clock.now_ns() and not team["overdrawn"]
    assert "used 30 + held 15 of 50" in told("show", "team")
    assert json.loads(told("show", "tool USD 24h", "--output", "json")) == []
    assert told("list", "--project", "elsewhere").strip() == "no budget was used"
    ran = CliRunner().invoke(root, ["budgets", "show", "nothing"])
    assert ran.exit_code != 0
