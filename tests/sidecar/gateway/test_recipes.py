"""A recipe that does not ask about the one call is refused before it can say "not done" of it."""

import pytest

from sidecar.gateway.config import Match, Reconcile, Tool
from sidecar.gateway.reconcile import question, wrong_recipe
from sidecar.gateway.registry import compiled_tools

FINDS = "size(response.json.refunds) > 0"
SAME = "response.json.refunds.exists(r, r.key == idempotency_key)"


@pytest.mark.parametrize(
    ("get", "done", "said"),
    [
        ("/refunds?key={idempotency-key}", FINDS, "brace"),
        ("/refunds?key={idempotency_key", FINDS, "brace"),
        ("/refunds?key={ idempotency_key }", FINDS, "brace"),
        ("/refunds?key=idempotency_key}", FINDS, "brace"),
        ("/refunds?key={idempotencykey}", FINDS, "knows no {idempotencykey}"),
        ("/refunds?key={order_id}", FINDS, "{arguments.NAME}"),
        ("/refunds?key=the-key", FINDS, "asks about no call"),
        ("refunds?key={idempotency_key}", FINDS, "/"),
        ("/refunds?{idempotency_key}", FINDS, "="),
    ],
)
def test_what_asks_about_no_one_call_is_refused_at_its_place(get, done, said):
    tool = Tool(
        name="issue_refund",
        upstream="shop",
        match=Match(method="POST", path="/refunds"),
        class_="irreversible",
        reconcile=Reconcile(get=get, done=done),
    )
    _, (problem,) = compiled_tools([tool], {})
    assert problem.path == "gateway.tools.0.reconcile.get" and said in problem.text


@pytest.mark.parametrize(
    ("get", "done"),
    [
        ("/refunds?key={idempotency_key}", FINDS),
        ("/orders/{arguments.order_id}/refunds", FINDS),
        ("/refunds", SAME),
    ],
)
def test_what_asks_about_the_call_is_taken_and_can_be_asked(get, done):
    assert wrong_recipe(get, done) is None
    assert question(get, idempotency_key="k", arguments={"order_id": "A-1"})
