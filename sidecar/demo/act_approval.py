"""The act about a person: a large refund is held, somebody else approves it, and the token is worth
one call.

Rules
1. While the call is held nothing has reached the shop; that is counted, not assumed.
2. The agent's own key is tried on the approval first, and must be refused.
3. The token is then presented again by whoever might have got hold of it: under a second key
   (refused) and under its own key (the stored answer, no second refund).
"""

import json
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from sidecar.demo import evidence, ledger, prompts
from sidecar.demo.approvals import Approver, Held
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.errand import Run, run
from sidecar.demo.shop import Order
from sidecar.demo.stage import Stage
from sidecar.demo.tool_client import Exchange
from sidecar.demo.toolbox import UPSTREAM
from sidecar.demo.wire import Answer, send

ORDER = "ORD-1002"
TOTAL = "480.00"


class _Witnessed(Struct, frozen=True, kw_only=True):
    """What was seen while the call was held: requests at the shop, the agent's try to approve."""

    held: Held
    requests: int
    own_try: Answer


def play(stage: Stage) -> Act:
    """The act."""
    stage.place(Order(order_id=ORDER, item="Coffee grinder", total=TOTAL))
    witnessed: list[_Witnessed] = []
    done = run(
        stage,
        prompts.BASELINE,
        f"The grinder never worked. Please refund order {ORDER}.",
        on_held=lambda held: witnessed.append(_witness(stage, held)),
    )
    trace = evidence.published(
        stage, done.trace_id, lambda t: t.outcome.status == "verified_success"
    )
    ids = Ids(
        traces=(trace.trace_id,),
        calls=evidence.call_ids(stage, done.receipt_ids()),
        approvals=tuple(held.approval_id for held in done.held),
    )
    if not witnessed:
        return _not_held(stage, done, ids)
    sent = next(x for x in done.calls("issue_refund") if x.token is not None)
    second = _present(stage, sent, key=f"{sent.key}-second")
    same = _present(stage, sent, key=str(sent.key))
    checks = (
        *_held_checks(witnessed[0], done),
        *_token_checks(second, same),
        Check(
            name="the shop's database has one refund",
            held=ledger.count(stage.shop_database, ORDER).amounts == (TOTAL,),
            detail=f"counted {ledger.count(stage.shop_database, ORDER).refunds}",
        ),
    )
    return Act(
        name="approval", story=_story(witnessed[0], done, second, same), checks=checks, ids=ids
    )


def _witness(stage: Stage, held: Held) -> _Witnessed:
    approver = Approver(stage.url("control.listen"), stage.keys.approver)
    return _Witnessed(
        held=held,
        requests=ledger.count(stage.shop_database, ORDER).requests,
        own_try=approver.try_to_approve(held, "let me through", key=stage.keys.agent),
    )


def _present(stage: Stage, sent: Exchange, *, key: str) -> Answer:
    """The approved request once more, byte for byte, under ``key``."""
    return send(
        "POST",
        f"{stage.url('gateway.listen')}/{UPSTREAM}{sent.path}",
        key=stage.keys.agent,
        headers={"Idempotency-Key": key, "Approval-Token": str(sent.token)},
        body=json.dumps(sent.sent).encode(),
    )


def _held_checks(seen: _Witnessed, done: Run) -> Iterator[Check]:
    first = done.calls("issue_refund")[0]
    yield Check(
        name="the refund was held",
        held=(first.status, first.code) == (403, "approval_required"),
        detail=f"the agent got {first.status} {first.code}",
    )
    yield Check(
        name="nothing reached the shop while it was held",
        held=seen.requests == 0,
        detail=f"counted {seen.requests} request(s)",
    )
    yield Check(
        name="the agent's own key cannot approve",
        held=seen.own_try.status == 403,
        detail=f"control API: {seen.own_try.status} {seen.own_try.problem.get('code', '')}",
    )


def _token_checks(second: Answer, same: Answer) -> Iterator[Check]:
    code = second.problem.get("code")
    yield Check(
        name="the token under a second key is refused",
        held=(second.status, code) == (403, "approval_mismatch"),
        detail=f"{second.status} {code}",
    )
    replayed = same.headers.get("idempotent-replayed", "")
    yield Check(
        name="the token under its own key gets the stored answer",
        held=200 <= same.status < 300 and replayed.lower() == "true",
        detail=f"{same.status}, Idempotent-Replayed: {replayed or 'absent'}",
    )


def _story(seen: _Witnessed, done: Run, second: Answer, same: Answer) -> tuple[str, ...]:
    refund: Any = same.value if isinstance(same.value, dict) else {}
    return (
        f"Agent {done.version} asks for a refund of EUR {TOTAL}. Policy wants a person's word:",
        f"the call is held, as approval {seen.held.approval_id}.",
        "The approver is shown:",
        *(f"  | {line}" for line in seen.held.summary.splitlines()),
        "The agent tries to approve it itself and is refused; the shift lead approves, with a key"
        " of another kind.",
        f"The agent sends the same call with its token and tells the customer: {done.output}",
        f"Somebody presents the token under a second key: {second.problem.get('detail', '')}",
        f"Under its own key it gets the first answer again: refund {refund.get('refund_id')}.",
    )


def _not_held(stage: Stage, done: Run, ids: Ids) -> Act:
    """What is to be told when no call was held: right only under a policy of the caller's own."""
    last = done.calls("issue_refund")[-1:] or done.exchanges[-1:]
    answer = f"{last[0].status} {last[0].code or 'ok'}" if last else "no call"
    counted = ledger.count(stage.shop_database, ORDER)
    own = stage.options.policy is not None
    return Act(
        name="approval",
        story=(
            f"Agent {done.version} asks for a refund of EUR {TOTAL}. It was NOT held: {answer}.",
            "No person was asked; there is no approval." if own else "The default policy failed.",
            f"It told the customer: {done.output}",
        ),
        checks=(
            Check(
                name="the refund was held",
                held=None if own else False,
                detail="the policy given with --policy does not hold it" if own else answer,
            ),
            Check(
                name="the shop's database has at most one refund",
                held=counted.refunds <= 1,
                detail=f"counted {counted.refunds}",
            ),
        ),
        ids=ids,
    )
