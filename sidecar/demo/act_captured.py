"""The act about captured traffic: what customers really asked becomes scenarios for the next
version.

Rules
1. One more customer is served first, whose refund is not due and is declined: what a good version
   did not do is an expectation of the next one.
2. It needs content: with capture off there is nothing to replay, and the command must say so with
   exit code 2.
3. The baseline is what was recorded; the baseline version is not run again.
"""

from collections.abc import Iterator

from processors.model.verdict import Verdict
from sidecar.demo import act_gate, evidence, ledger, prompts
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.errand import Run, run
from sidecar.demo.shop import Order
from sidecar.demo.stage import Stage

QUERY = "store:service=refund-agent,since=1h"
UNDECIDED = 2
LATE = "ORD-1005"
_STATUS = {"1.2.4": "PASS", "1.3.0": "BLOCK", "1.3.1": "PASS"}


def play(stage: Stage, candidate: str) -> Act:
    """Serve the last customer, then replay what this run's customers asked."""
    stage.place(Order(order_id=LATE, item="Iron", total="55.00", days_since_delivery=45))
    asked = f"I have changed my mind, please refund order {LATE}."
    declined = run(stage, prompts.BASELINE, asked)
    evidence.published(stage, declined.trace_id, bool)
    if stage.options.capture == "off":
        return _refused(stage, candidate, declined)
    return _replayed(stage, candidate, declined)


def _replayed(stage: Stage, candidate: str, declined: Run) -> Act:
    what = [QUERY, "--twin", str(stage.files / "twin.yaml"), "--deterministic"]
    verdict, code = act_gate.judge(stage, "captured", what, candidate=candidate, baseline=None)
    return Act(
        name="captured",
        story=(
            *_told(declined),
            f"{_total(verdict)} requests of this run become scenarios; the twin's orders are",
            "those the agent had read. What it did then, and did not do, is expected.",
            f"Verdict on {candidate}: {verdict.status} (exit code {code}).",
            *act_gate.lines(verdict.failures),
        ),
        checks=(
            *_declined_check(stage),
            *_verdict_checks(stage, verdict, code, _STATUS[candidate]),
        ),
        ids=Ids(traces=(declined.trace_id,), verdicts=(verdict.verdict_id,)),
    )


def _refused(stage: Stage, candidate: str, declined: Run) -> Act:
    what = [QUERY, "--twin", str(stage.files / "twin.yaml")]
    child = act_gate.start(stage, "captured", what, candidate=candidate, baseline=None)
    code, _ = child.finish(seconds=act_gate.GATE_SECONDS)
    return Act(
        name="captured",
        story=(
            *_told(declined),
            "Capture is off: the texts were never kept, so there is nothing to replay.",
            f"`sidecar replay {QUERY}` says: {child.last_words()}",
        ),
        checks=(
            *_declined_check(stage),
            Check(
                name="without content it cannot decide, and says so",
                held=code == UNDECIDED,
                detail=f"exit code {code}",
            ),
        ),
        ids=Ids(traces=(declined.trace_id,)),
    )


def _told(declined: Run) -> Iterator[str]:
    yield f"One more customer, 45 days after delivery. Agent {declined.version} tells them:"
    yield declined.output


def _declined_check(stage: Stage) -> Iterator[Check]:
    counted = ledger.count(stage.shop_database, LATE)
    yield Check(
        name="the late order was not refunded",
        held=counted.requests == 0,
        detail=f"counted {counted.refunds}",
    )


def _verdict_checks(stage: Stage, verdict: Verdict, code: int, want: str) -> Iterator[Check]:
    own = stage.options.policy is not None
    yield Check(
        name="every customer's request became a scenario",
        held=_total(verdict) == 5,
        detail=f"{_total(verdict)}",
    )
    yield Check(
        name=f"the gate says {want}",
        held=verdict.status == want or (None if own else False),
        detail=f"{verdict.status}",
    )
    yield Check(
        name="the exit code is that of the verdict",
        held=code == verdict.exit_code,
        detail=str(code),
    )


def _total(verdict: Verdict) -> int:
    return sum(verdict.counts.values())
