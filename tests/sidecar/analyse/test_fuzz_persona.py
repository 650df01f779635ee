"""Who asks: the same errand in other people's writing, with what is meant untouched."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.campaign import Plan, campaign
from sidecar.analyse.fuzz.draft import draft
from sidecar.analyse.fuzz.driver import agent
from sidecar.analyse.fuzz.mutations import Asks, Speaks
from sidecar.analyse.fuzz.operators import pool
from sidecar.analyse.fuzz.wording import STYLES, spoken
from sidecar.analyse.together.moves import History
from sidecar.twins.files import load_suite

ERRAND = (
    "Please refund the kettle of order ORD-7 in full, EUR 49.00, and do not mail bob@example.com."
)
WORDS = st.lists(
    st.one_of(
        st.sampled_from(
            ["please", "not", "the", "never", "refund", "Order", "thank", "you,", "no"]
        ),
        st.from_regex(r"[A-Z]{2,3}-\d{1,4}", fullmatch=True),
        st.from_regex(r"\d{1,4}\.\d\d", fullmatch=True),
        st.text(st.characters(codec="utf-8", categories=["Ll"]), min_size=1, max_size=9),
    ),
    min_size=1,
    max_size=12,
).map(" ".join)


@pytest.mark.requirement("FUZ-01")
@pytest.mark.parametrize("style", STYLES)
def test_every_habit_changes_the_writing_and_nothing_that_is_meant(style):
    said = spoken(ERRAND, style, frozenset({"kettle"}))
    assert said != ERRAND
    for exact in ("ORD-7", "EUR", "49.00", "bob@example.com", "kettle"):
        assert exact in said
    assert re.search(r"\bnot\b", said, re.IGNORECASE)
    assert said == spoken(ERRAND, style, frozenset({"kettle"}))


@pytest.mark.requirement("FUZ-01")
@settings(max_examples=60, deadline=None)
@given(text=WORDS, style=st.sampled_from(sorted(STYLES)))
def test_numbers_names_and_noes_are_kept_in_their_order(text, style):
    said = spoken(text, style, frozenset())

    def meant(of):
        words = [word.strip(".,!>") for word in of.split()]
        kept = [word for word in words if re.search(r"\d", word)]
        return kept, [word.lower() for word in words if word.lower() in ("not", "never", "no")]

    kept, noes = meant(said)
    assert (kept, noes) == meant(text)


TWIN = """\
twin: shop
entities: {orders: {key: id, rows: [{id: ORD-7, open: true}]}}
tools:
  - name: close
    match: {method: POST, path: "/orders/{id}/close"}
    class: write
    effects: [{op: set, entity: orders, key: arguments.id, values: {open: false}}]
"""
SUITE = """\
suite: closing
twins: [twin.yaml]
scenarios:
  - id: closes
    input: Please close the order ORD-7.
    expect: [{type: state, entity: orders, key: ORD-7, equals: {open: false}}]
  - id: asks
    input: {text: "Please close it, the order ORD-7.", by: ada}
    expect: [{type: state, entity: orders, key: ORD-7, equals: {open: false}}]
  - {id: wordless, input: {order: ORD-7}, expect: [{type: toolCalled, tool: close}]}
"""


def literal(request, call):
    """Only understands one way to write."""
    said = request["input"]
    text = said.get("text", "close the order") if isinstance(said, dict) else said
    if "close" in text:
        call("close", {"id": "ORD-7"})
    return "Done."


@pytest.fixture
def shop(tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    return load_suite(tmp_path / "suite.yaml")


def base_of(loaded, number):
    history = History(agents=(), moves=(), ends={}, switches=())
    return Base(
        draft=draft(loaded.suite.scenarios[number], loaded.group),
        group=loaded.group,
        history=history,
    )


@pytest.mark.requirement("FUZ-01")
def test_a_persona_speaks_whatever_the_errand_has_become(shop):
    base = base_of(shop, 0)
    made = {name for name in pool(base) if name.startswith("persona/")}
    assert made == {f"persona/{style}" for style in STYLES} - {"persona/mistyping"} or made == {
        f"persona/{style}" for style in STYLES
    }
    loud = Speaks(operator="shouting", style="shouting")
    other = Asks(operator="paraphrase", input="Would you close ORD-7, please?")
    assert loud.apply(other.apply(base.draft)).scenario.input == "WOULD YOU CLOSE ORD-7, PLEASE?!!!"
    assert loud.layer == "persona" and loud.right == "same"
    inside = loud.apply(base_of(shop, 1).draft).scenario.input
    assert inside == {"text": "PLEASE CLOSE IT, THE ORDER ORD-7.!!!", "by": "ada"}
    wordless = base_of(shop, 2)
    assert loud.apply(wordless.draft) == wordless.draft
    assert not any(name.startswith("persona/") for name in pool(wordless))


@pytest.mark.requirement("FUZ-01")
def test_an_agent_that_reads_one_way_of_writing_is_found(shop):
    made = campaign(
        Plan(
            suite=shop.suite,
            group=shop.group,
            agent=agent(f"py:{__name__}:literal", option="--agent"),
            layers=("persona",),
            episodes=40,
        )
    )
    while made.discovery.episodes < 40:
        made.step()
    found = made.report().findings
    assert found and found[0].signature.rule.startswith("state")
    assert {one.style for one in found[0].genome} <= {"shouting", "mistyping"}
