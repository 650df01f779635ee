"""The embedded engine decides as a real OPA did on every document of the golden corpus.

``make_golden.py`` wrote it; where the shipped bundle has changed since, it is to be written again.
"""

import asyncio
import gzip
import json
from collections import Counter

import pytest
from make_golden import GOLDEN, HERE, ask, copied
from policy_rig import embedded_answers

from sidecar.canonical import canonical
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.result import read_answer

LEAST = 500
ENTRIES = {"decide": 0, "list": 1}


@pytest.fixture(scope="module")
def rows():
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    root = tmp_path_factory.mktemp("bundles")
    return {
        "shipped": copied(root / "shipped", None),
        "tuned": copied(root / "tuned", HERE / "tuned.yaml"),
    }


def theirs(row):
    """OPA's answer as ``embedded_answers`` tells one."""
    return "error" if "error" in row else row.get("result")


def test_the_corpus_was_made_over_the_bundles_as_they_are(rows, folders):
    made = {row["bundle"]: row["revision"] for row in rows}
    now = {name: load_bundle(folder).revision for name, folder in folders.items()}
    assert made == now, "run: python tests/policies/make_golden.py"


def test_the_corpus_has_every_effect_and_most_reasons(rows):
    assert len(rows) >= LEAST
    effects = Counter(row["result"]["effect"] for row in rows if "result" in row)
    assert min(effects[word] for word in ("allow", "allow_with_limits", "require_approval")) >= 60
    codes = {each["code"] for row in rows for each in row.get("result", {}).get("reasons", ())}
    assert codes >= {
        *("read_allowed", "write_allowed", "irreversible_allowed", "tool_visible"),
        *("amount_needs_approval", "currency_unknown", "cost_unknown", "tool_needs_approval"),
        *("untrusted_content", "outside_hours", "required_call_missing", "settings_malformed"),
        *("amount_too_large", "other_tenant", "tool_of_another_tenant", "argument_out_of_bounds"),
        *("idempotency_key_required", "tool_unlisted", "tool_denied", "agent_not_trusted"),
    }


@pytest.mark.requirement("GW-03")
@pytest.mark.parametrize("folded", [True, False])
@pytest.mark.parametrize("name", ["shipped", "tuned"])
def test_the_embedded_engine_decides_every_document_as_opa_did(rows, folders, name, folded):
    asked = [row for row in rows if row["bundle"] == name]
    documents = [row["input"] for row in asked]
    ours = asyncio.run(embedded_answers(folders[name], documents, folded=folded))
    for number, row in enumerate(asked):
        mine = ours[2 * number + ENTRIES[row["entry"]]]
        assert canonical(mine) == canonical(theirs(row)), (row, mine)


@pytest.mark.requirement("GW-02")
def test_every_golden_answer_is_one_the_gateway_can_keep(rows):
    for row in rows:
        if "result" in row:
            assert read_answer(row["result"]).error is None, row


@pytest.mark.requirement("GW-03")
def test_the_golden_answers_are_a_real_opas(rows, folders):
    sample = rows[:: len(rows) // 24]
    for row in sample:
        (answer,) = ask(folders[row["bundle"]], [(row["entry"], row["input"])])
        assert answer == {key: row[key] for key in ("result", "error") if key in row}
