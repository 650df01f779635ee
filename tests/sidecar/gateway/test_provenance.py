"""Content of others that an agent has seen makes its irreversible calls wait for a person."""

import asyncio

import pytest
from gateway_rig import PRICE, rig

from sidecar.gateway.config import Match, Tool
from sidecar.gateway.problem import Refused
from sidecar.gateway.provenance import labels_of, told
from sidecar.gateway.registry import Registry

TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
THIRD = "00-6bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
OTHER = "00-5bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        ([], ()),
        (["untrusted"], ("untrusted",)),
        (["web, mail", "web"], ("mail", "web")),
    ],
)
def test_labels_are_words_between_commas(values, labels):
    assert told([("Agenttwin-Provenance", value) for value in values]) == labels


@pytest.mark.parametrize(
    "value", ["", "a,,b", "Untrusted", "a b", "un-trusted", "é", ",".join(["a"] * 21)]
)
def test_what_is_no_label_is_refused_and_not_left_out(value):
    with pytest.raises(Refused) as caught:
        told([("agenttwin-provenance", value)])
    assert (caught.value.status, caught.value.code) == (400, "provenance_malformed")


def test_labels_are_those_of_the_tools_called_before_and_those_told():
    match = Match(method="GET", path="/a")
    tool = Tool(name="fetch", upstream="u", match=match, returns=("untrusted", "web"))
    registry = Registry.from_config((), (tool,), {})
    assert labels_of(("fetch", "fetch"), registry, ("mail",)) == ("mail", "untrusted", "web")
    assert labels_of((), registry, ()) == ()
    assert labels_of(("gone",), registry, ()) == ("unregistered",)


@pytest.mark.requirement("GW-02")
def test_after_untrusted_content_an_irreversible_call_waits_for_a_person(tmp_path):
    async def scenario():
        changes = {"cost": PRICE, "returns": ("untrusted",)}
        async with rig(tmp_path, tool_changes=changes) as each:
            before = await each.refund("1", key="a", traceparent=TRACE)
            noted = await each.ask(
                "POST", "/payments/orders/1/notes", key="n", json={}, traceparent=TRACE
            )
            after = await each.refund("2", key="b", traceparent=TRACE)
            elsewhere = await each.refund("3", key="c", traceparent=OTHER)
            said = await each.refund(
                "4", key="d", traceparent=THIRD, agenttwin_provenance="untrusted"
            )
            odd = await each.refund("5", key="e", agenttwin_provenance="not a label")
            return before, noted, after, elsewhere, said, odd, each.shop.effects()

    before, noted, after, elsewhere, said, odd, effects = asyncio.run(scenario())
    assert [before.status, noted.status, elsewhere.status] == [201, 201, 201]
    assert (after.status, after.json["code"]) == (403, "approval_required")
    assert (said.status, said.json["code"]) == (403, "approval_required")
    assert (odd.status, odd.json["code"]) == (400, "provenance_malformed")
    assert effects == 3
