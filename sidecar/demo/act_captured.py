"""The act about captured traffic: what customers really asked becomes scenarios for the next
version.

Rules
1. It needs content: with capture off there is nothing to replay, and the command must say so with
   exit code 2.
2. The query names this run's service and time, so that nothing else is judged.
"""

from sidecar.demo import act_gate, prompts
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.processes import python
from sidecar.demo.stage import Stage

QUERY = "store:service=refund-agent,since=1h"
UNDECIDED = 2


def play(stage: Stage, candidate: str) -> Act:
    """Replay what the demo's own customers asked."""
    return (
        _refused(stage, candidate)
        if stage.options.capture == "off"
        else _replayed(stage, candidate)
    )


def _replayed(stage: Stage, candidate: str) -> Act:
    what = [QUERY, "--twin", str(stage.files / "twin.yaml"), "--deterministic"]
    verdict, code = act_gate.judge(stage, "captured", what, candidate=candidate)
    total = sum(verdict.counts.values())
    return Act(
        name="captured",
        story=(
            f"{total} customer requests of this run become scenarios; the twin's orders are what",
            f"the agent had read before its first write. {candidate} against {prompts.BASELINE}:",
            f"Verdict: {verdict.status} (exit code {code}).",
            *act_gate.lines(verdict.failures),
        ),
        checks=(
            Check(name="traffic became scenarios", held=total > 0, detail=f"{total}"),
            Check(
                name="the exit code is that of the verdict",
                held=code == verdict.exit_code,
                detail=str(code),
            ),
        ),
        ids=Ids(verdicts=(verdict.verdict_id,)),
    )


def _refused(stage: Stage, candidate: str) -> Act:
    child = stage.run(
        "captured",
        python(
            *("sidecar", "replay", QUERY, "--twin", str(stage.files / "twin.yaml")),
            *("--candidate", act_gate.reference(stage, candidate)),
            *("--config", str(stage.config_file)),
        ),
    )
    code, _ = child.finish(seconds=act_gate.GATE_SECONDS)
    return Act(
        name="captured",
        story=(
            "Capture is off: the texts were never kept, so there is nothing to replay.",
            f"`sidecar replay {QUERY}` says: {child.last_words()}",
        ),
        checks=(
            Check(
                name="without content it cannot decide, and says so",
                held=code == UNDECIDED,
                detail=f"exit code {code}",
            ),
        ),
    )
