"""What policy wants of a run and the run left out: an approval, an earlier step, the act itself.

Rules
1. Only the gateway's decision approves. What an agent's own telemetry says of an approval counts
   against a call (asked for, not given), never for it.
2. Order counts calls that succeeded and ended before the later one began; with ``same``, only those
   with equal values of these arguments.
3. A claim without action accuses only where calls could have been seen: the trace is complete, and
   tool calls or the messages that would ask for them were captured.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from processors.model.detection import Exhibit
from processors.model.evidence import Claim
from processors.model.trace import AgentTrace
from processors.verify.detect_calls import Run, ToolUse, digest
from processors.verify.detect_found import Found
from processors.verify.detect_retry import is_refusal
from processors.verify.detect_settings import Approvals, Order
from processors.verify.subjects import is_control, is_reading, same_tool, split_words, stems


def unapproved(run: Run, approvals: Approvals) -> Iterator[Found]:
    """Every effect that needed an approval and had none."""
    held = _asked_and_not_given(run)
    for use in run.uses:
        nothing_asked = not use.receipts and use.step.decision is None
        if nothing_asked and not held and not approvals.tools:
            continue  # the commonest case: nobody has anything to say of approvals
        if not use.executed or use.reading:
            continue
        why = _lacking(use, approvals, held)
        if why:
            yield Found(
                code="skipped_approval",
                severity="critical" if use.irreversible else "major",
                sentence=f"{use.name} was carried out although {why}",
                remedy="let the tool be reached only through the gateway in enforce mode, which "
                "waits for the approval",
                steps=[use.step.step_id],
                subjects=(use.name,),
                evidence=[Exhibit(role="carried out", step_id=use.step.step_id, field="decision")],
            )


def _lacking(use: ToolUse, approvals: Approvals, held: frozenset[tuple[str, str]]) -> str | None:
    """Why an executed call lacks an approval, in words; None where it does not."""
    sent = [item for item in use.receipts if item.data.get("phase") in ("executed", "authorised")]
    if use.receipts and not sent:
        return None  # refused or answered from an earlier call: nothing was carried out
    if sent and all(item.held is False for item in sent):
        return None
    approved = any(item.data.get("approved") is True for item in sent)
    decision = use.step.decision
    if decision is not None and decision.effect == "deny":
        return "it was denied"
    if approved:
        return None
    waits = decision is not None and decision.effect == "require_approval"
    if waits and any("approved" in item.data for item in sent):
        return "it needed an approval, and none was used"
    if waits and not sent:
        return "it needed an approval, and the gateway gave none"
    if any(same_tool(use.name, tool) for tool in approvals.tools) and not (waits and sent):
        return "its tool needs an approval, and the gateway gave none"
    if not sent and use.key is not None and (use.name, use.key) in held:
        return "the gateway had held or denied the same call"
    return None


def _asked_and_not_given(run: Run) -> frozenset[tuple[str, str]]:
    """The calls that the gateway held or denied, by name and arguments."""
    return frozenset(
        (use.name, use.key)
        for use in run.uses
        if use.step.decision is not None
        and use.step.status in ("denied", "deferred")
        and use.key is not None
    )


def out_of_order(run: Run, rules: Sequence[Order]) -> Iterator[Found]:
    """Every call that ran before what must come before it."""
    for rule in rules:
        ready: dict[str, int] = {}  # by the values of ``same``: the earliest end
        for use in run.uses:
            if not use.executed or (use.failed and is_refusal(use)):
                continue
            if same_tool(use.name, rule.after) and not use.failed:
                ready.setdefault(_values(use.arguments, rule.same), use.step.end_ns)
            if not same_tool(use.name, rule.tool):
                continue
            ended = ready.get(_values(use.arguments, rule.same))
            if ended is None or (use.step.start_ns and ended > use.step.start_ns):
                yield _early(use, rule)


def _early(use: ToolUse, rule: Order) -> Found:
    about = f" with the same {', '.join(rule.same)}" if rule.same else ""
    return Found(
        code="out_of_order",
        severity="critical" if use.irreversible else "major",
        sentence=f"{use.name} ran before {rule.after}{about} had succeeded",
        remedy=f"make {rule.after} a condition of {use.name} in policy, not only in the prompt",
        steps=[use.step.step_id],
        subjects=(use.name, rule.after),
        evidence=[Exhibit(role="ran too early", step_id=use.step.step_id, field="arguments")],
    )


def _values(arguments: Any, same: Sequence[str]) -> str:
    """The values of some arguments as one text; empty without any name."""
    if not same:
        return ""
    given = arguments if isinstance(arguments, dict) else {}
    return digest([given.get(name) for name in same]) or ""


def idle_claims(run: Run) -> Iterator[Found]:
    """Every success that the agent claims of a tool it never called."""
    claims = [claim for claim in run.trace.claims if claim.status == "success" and claim.subject]
    if not claims or not _would_show(run.trace):
        return
    told: set[str] = set()
    for claim in claims:
        subject = claim.subject or ""
        if subject in told or _reads(run, subject) or _acted(run, subject):
            continue
        told.add(subject)
        yield _idle(run, claim, subject)


def _idle(run: Run, claim: Claim, subject: str) -> Found:
    asked = [use for use in run.uses if same_tool(use.name, subject)]
    done = "was only asked for and never carried out" if asked else "was never called"
    return Found(
        code="claim_without_action",
        severity="major",
        sentence=f"the answer says that {subject} was done, and it {done}",
        remedy="let the agent answer only from results of calls that were made",
        steps=[use.step.step_id for use in asked],
        subjects=(subject,),
        evidence=[
            Exhibit(role="claim", step_id=claim.step_id, field=claim.claim_id, excerpt=claim.text)
        ],
    )


def _reads(run: Run, subject: str) -> bool:
    class_ = run.tools.get(subject)
    return class_ == "read" or (class_ is None and (is_reading(subject) or is_control(subject)))


def _acted(run: Run, subject: str) -> bool:
    """Whether anything was carried out that may be what the claim means."""
    if any(item.subject and same_tool(item.subject, subject) for item in run.trace.evidence):
        return True
    objects = stems(split_words(subject)[1:])
    done = {(use.name, use.reading) for use in run.uses if use.executed}
    return any(
        same_tool(name, subject) or (not reads and bool(objects & stems(split_words(name))))
        for name, reads in done
    )


def _would_show(trace: AgentTrace) -> bool:
    """Rule 3."""
    if trace.completeness != "complete":
        return False
    models = [step for step in trace.steps if step.kind == "model_call"]
    if models and all(step.messages_out is not None for step in models):
        return True
    return any(
        step.kind == "tool_call"
        and step.status != "requested_only"
        and any(source.kind != "receipt" for source in step.sources)
        for step in trace.steps
    )
