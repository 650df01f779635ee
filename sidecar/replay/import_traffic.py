"""Gateway traffic as tapes: each call through the gateway, joined to what telemetry tells of it.

**Rules**
1. A call is, in order: the policy's ``decision``, the ``human_input`` of each vote on its approval,
   ``tool_call``, an ``error`` where no answer of the tool came, ``tool_result``. Span and receipt
   of one call are one call: the receipt says what happened, the span where it stands.
2. Refused before anything was sent is ``denied``, waiting for approval ``deferred``. A call whose
   answer nobody knows is in flight: it has no result.
3. No credential is looked at. Of a key its digest is told, of a person a pseudonym. Whose trace a
   call belongs to is the caller's word; by whose credential it was made is the gateway's.
4. Where no content of a result is kept, the digest of its bytes stands for it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec.structs import replace

from processors.model.call import Receipt
from processors.model.names import Capture
from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar.replay.import_otlp import Facts, agent_of, gaps_of, models_of, present, terminal
from sidecar.replay.import_tape import Imported, file_name, lowered
from sidecar.replay.traffic import Asked, Kept, Made, is_spanless, pieces, put_together, said
from sidecar.tape.compose import Fact
from sidecar.tape.model import AgentBuild, Fidelity, Header, Status
from sidecar.tape.moment import moment

MAPPING: Final = "agenttwin-traffic/1"
NO_SPANS: Final = "no_spans"
_PROGRAMS: Final = frozenset({"agent", "episode"})
_WAITS: Final = ("approval_required",)
Alias = Callable[[str], str]
"""A pseudonym of a person, equal for equal people of one project."""


def traffic(kept: Kept, capture: Capture, alias: Alias) -> Imported:
    """The tape of a run of which the gateway has calls."""
    trace, made = put_together(kept)
    spanless = is_spanless(trace)
    gaps = gaps_of(trace) - ({"missing_root"} if spanless else set())
    gaps |= {"trace_over_limit"} if kept.cut else set()
    named = kept.trace is not None or any(fact.receipt.trace_id for fact in kept.facts)
    revisions = {fact.receipt.policy_revision for fact in kept.facts} - {""}
    facts = _Traffic(trace, made, kept.asked, alias, spanless=spanless)
    events = facts.made()
    header = Header(
        tape_id=f"proxy-{kept.project}-{kept.session}",
        run_id=kept.session if not named else trace.conversation_id,
        trace_ids=(trace.trace_ids or (trace.trace_id,)) if named else (),
        source="proxy",
        # What the gateway saw is whole without spans; that more may have happened is the gap.
        fidelity=lowered(_fidelity(trace, made), tuple(gaps), capture),
        gaps=tuple(sorted(gaps | ({NO_SPANS} if spanless else set()))),
        mapping=MAPPING,
        agent=AgentBuild(name=trace.service.name, version=trace.service.version),
        models=models_of(trace),
        policy=revisions.pop() if len(revisions) == 1 else None,
        tenant=kept.project,
        captured_at=moment(min((fact.start_ns for fact in events if fact.start_ns), default=0)),
    )
    return Imported(name=file_name(kept.session), header=header, facts=events, pieces=facts.pieces)


class _Traffic(Facts):
    """The events of one run, the gateway's among them."""

    def __init__(
        self,
        trace: AgentTrace,
        made: Mapping[str, Made],
        asked: tuple[Asked, ...],
        alias: Alias,
        *,
        spanless: bool,
    ) -> None:
        super().__init__(trace)
        self.pieces: dict[int, list[str]] = {}
        self._made, self._spanless, self._alias = made, spanless, alias
        self._words = {one.approval.approval_id: _words(one, alias) for one in asked}
        self._waiting: dict[str, tuple[Step, int]] = {}
        self._ends: dict[str, int] = {}

    def _terminal(self) -> Fact:
        last = terminal(self._trace)
        if not self._spanless:
            return last
        return replace(last, output={**last.output, "reason": "the gateway does not see the end"})

    def _close(self, now_ns: int | None) -> None:
        super()._close(now_ns)
        for approval_id, (step, seq) in self._waiting.items():
            self._votes_on(approval_id, step, (seq,), now_ns)

    def _call(self, step: Step) -> None:
        made = self._made.get(step.step_id)
        if made is None:
            super()._call(step)
        elif not made.receipt.tool:
            self._add(step, Fact(kind="error", seam="tool", status="error", error=_error(made)))
        else:
            self._through_gateway(step, made)

    def _through_gateway(self, step: Step, made: Made) -> None:
        receipt = made.receipt
        timed: dict[str, Any] = {"start_ns": receipt.started_at_ns, "name": receipt.tool}
        asked = Fact(
            kind="tool_call", seam="tool", attributes=_call_facts(made, self._alias), **timed
        )
        if (given := _arguments(step, made)) is not None:
            asked = replace(asked, input=given)
        before = self._ends.get(made.after or "")
        cause = (before,) if before is not None else self._cause(step, asked, agent_of(step))
        if receipt.decision_id and receipt.phase != "replayed":  # nobody decided that one anew
            decided = self._add(step, replace(_decision(receipt), cause=cause, **timed))
            cause = (decided,)
        if receipt.approval_id is not None and receipt.phase != "refused":
            cause += self._votes_on(receipt.approval_id, step, cause, receipt.finished_at_ns)
        seq = self._add(step, replace(asked, cause=cause))
        self._ends[step.step_id] = seq
        if receipt.approval_id is not None:
            self._waiting.setdefault(receipt.approval_id, (step, seq))
        if step.end_ns > step.start_ns:
            self._open.append((step.end_ns, seq, step))
        else:
            self._result(seq, step)

    def _result(self, seq: int, step: Step) -> None:
        made = self._made.get(step.step_id)
        if made is None:
            super()._result(seq, step)
            return
        timed: dict[str, Any] = {"cause": (seq,), "end_ns": made.receipt.finished_at_ns}
        if _is_lost(made):
            lost = Fact(kind="error", seam="tool", status="error", error=_error(made), **timed)
            self._add(step, replace(lost, attributes={"gateway": {"effect": made.known.effect}}))
        if made.told is None and not made.spanned:
            return
        result = Fact(
            kind="tool_result",
            seam="tool",
            name=made.receipt.tool,
            status=_status(step, made),
            error=_error(made),
            attributes=_result_facts(made),
            **timed,
        )
        if (found := _output(made)) is not None:
            result = replace(result, output=found)
        self._ends[step.step_id] = self._add(step, result)
        if made.answer is not None and (parts := pieces(made.answer)):
            self.pieces[self._ends[step.step_id]] = parts

    def _votes_on(
        self, approval_id: str, step: Step, cause: tuple[int, ...], until_ns: int | None
    ) -> tuple[int, ...]:
        """Write the votes on an approval that had been cast by then (None: all); their seqs."""
        words = self._words.get(approval_id, [])
        found: list[int] = []
        while words and (until_ns is None or (words[0].start_ns or 0) <= until_ns):
            found.append(self._add(step, replace(words.pop(0), cause=cause)))
        return tuple(found)


def _words(asked: Asked, alias: Alias) -> list[Fact]:
    """The votes on one approval in order; that which made it approved says ``approve``."""
    approval, found, granted = asked.approval, [], 0
    for vote in sorted(asked.votes, key=lambda vote: (vote.voted_at_ns, vote.voter)):
        granted += vote.decision == "approve"
        word = "vote" if vote.decision == "approve" and granted != asked.needed else vote.decision
        output = {
            "approver": alias(vote.voter),
            "action_hash": approval.action_hash,
            "expires_at": moment(approval.execute_by_ns),
            "decision": word,
        }
        fact = Fact(
            kind="human_input",
            seam="human",
            name=approval.tool,
            output=output,
            status="ok",
            start_ns=vote.voted_at_ns,
            end_ns=vote.voted_at_ns,
            attributes={"gateway": {"approval": approval.approval_id}},
        )
        found.append(fact)
    return found


def _decision(receipt: Receipt) -> Fact:
    output = {
        "subtype": "policy_decision",
        "effect": receipt.decision_effect,
        "reasons": list(receipt.reasons),
        "source": "gateway",
    }
    told = {"decision": receipt.decision_id, "policy": receipt.policy_revision or None}
    return Fact(kind="decision", output=output, status="ok", attributes=_told(told))


def _call_facts(made: Made, alias: Alias) -> dict[str, Any]:
    receipt = made.receipt
    caller = receipt.principal
    return _told(
        {
            "call": receipt.call_id,
            "principal": caller if receipt.principal_kind in _PROGRAMS else alias(caller),
            "action": receipt.action_hash,
            "attempt": receipt.attempt,
            "key": receipt.key_hash,
            "approval": receipt.approval_id,
            "request": receipt.request_digest or made.known.request_digest,
            "enforcement": None if receipt.enforcement == "enforce" else receipt.enforcement,
        }
    )


def _result_facts(made: Made) -> dict[str, Any]:
    receipt = made.receipt
    return _told(
        {
            "receipt": receipt.receipt_id,
            "phase": receipt.phase,
            "effect": made.known.effect,
            "resolved": made.known.code if made.known is not receipt else None,
            "status": receipt.status,
            "upstream_status": receipt.upstream_status,
            "response": receipt.response_digest,
        }
    )


def _told(said: Mapping[str, Any]) -> dict[str, Any]:
    return {"gateway": {key: item for key, item in said.items() if item is not None}}


def _arguments(step: Step, made: Made) -> Any:
    if made.arguments is not None:
        return made.arguments
    return step.tool.arguments if step.tool is not None else None


def _output(made: Made) -> Any:
    if made.answer is not None:
        return said(made.answer)
    if made.result is not None:
        return made.result
    digest = made.receipt.response_digest
    return None if digest is None else {"digest": digest}


def _status(step: Step, made: Made) -> Status:
    """How the call ended for the agent; by the span alone where no receipt of its answer exists."""
    receipt = made.told
    if receipt is None:
        return step.status if step.status in ("ok", "cancelled") else "error"
    if receipt.phase == "refused":
        waits = receipt.decision_effect == "require_approval" and receipt.code in _WAITS
        return "deferred" if waits else "denied"
    return "ok" if receipt.status < 400 else "error"


def _error(made: Made) -> tuple[str, str | None] | None:
    receipt = made.told
    if receipt is None:
        return ("outcome_unknown", None)
    if receipt.status < 400:
        return None
    return (receipt.code or f"http_{receipt.status}", None)


def _is_lost(made: Made) -> bool:
    """Whether the call was made, or may have been, and no answer of the tool came."""
    receipt = made.receipt
    if receipt.phase == "authorised" or made.told is None:
        return True
    return receipt.phase == "executed" and receipt.upstream_status is None and receipt.status >= 400


def _fidelity(trace: AgentTrace, made: Mapping[str, Made]) -> Fidelity:
    known: list[bool] = []
    for step in trace.steps:
        one = made.get(step.step_id)
        if one is None:
            known += present(step)
            continue
        if not one.receipt.tool:
            continue
        known.append(_arguments(step, one) is not None)
        if _status(step, one) == "ok":
            known.append(one.answer is not None or one.result is not None)
    return "L2" if all(known) else "L1"
