"""Replays of suites from code: what ``sidecar replay`` does, and the verdict as a record.

::

    verdict = suites.replay("suite.yaml", candidate="cmd:agent --version 1.3.0",
                            baseline="cmd:agent --version 1.2.4")
    assert verdict.status in ("PASS", "WARN"), suites.text(verdict)

**Rules**
1. It is the command's own path: the verdict is stored and its evidence written, and ``sidecar gate
   show|verify`` finds it.
2. What cannot be decided has the status None and is no pass.
"""

from collections.abc import Sequence

from processors.model.verdict import Verdict
from sidecar import clock
from sidecar.app.attesting import signing_keys
from sidecar.app.concluding import Kept, Wanted, judge, planned
from sidecar.app.loading import load_config
from sidecar.gate.files import read_policy
from sidecar.gate.policy import GatePolicy
from sidecar.gate.report.render import Form, render
from sidecar.gate.report.verdict import verdict_report
from sidecar.testing.files import StrPath, path_of

__all__ = ["Verdict", "replay", "text"]


def replay(
    suite: StrPath,
    *,
    candidate: str,
    baseline: str | None = None,
    twins: Sequence[StrPath] = (),
    config: StrPath | None = None,
    store: str | None = None,
    gate: StrPath | None = None,
    project: str | None = None,
    deterministic: bool = False,
    agent: str = "",
    deadline: str = "",
    jobs: int = 0,
    evidence: StrPath | None = None,
) -> Verdict:
    """Run a suite, or captured traffic (``store:QUERY``), against twins: the gate's verdict.

    Everything as ``sidecar replay`` takes it: ``candidate`` and ``baseline`` are references
    (``cmd:…``, ``py:…``), ``gate`` a gate.yaml, ``deadline`` of one episode (``30s``), ``jobs``
    episodes at once (0: the suite's). Raises SidecarError for what cannot be run; not to be called
    in an event loop that runs.
    """
    loaded = load_config(None if config is None else str(config), store)
    wanted = Wanted(
        suite=str(suite),
        candidate=candidate,
        baseline=baseline,
        twins=tuple(map(path_of, twins)),
        project=project,
        deterministic=deterministic,
        agent=agent,
        deadline=deadline,
    )
    how = Kept(
        policy=GatePolicy() if gate is None else read_policy(path_of(gate), clock.now_ns()),
        keys=signing_keys(loaded, ()),
        folder=None if evidence is None else path_of(evidence),
    )
    return judge(loaded, planned(loaded, wanted, lambda _: None), how, jobs=jobs)


def text(verdict: Verdict, form: Form = "text") -> str:
    """A verdict as a report of any form (docs/specs/report.md)."""
    return render(verdict_report(verdict), form)
