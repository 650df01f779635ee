"""Given: all that coverage is counted from.

**Rules**
1. Only runs that came to a conclusion cover anything: void and incomplete ones show nothing.
2. ``runs`` are those of the side that is looked at, ``both`` also the other's: a failure that the
   baseline alone met was provoked all the same.
3. Tools are those of the registry, of the twins, and those seen in production.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from msgspec import Struct, field

from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.observed import Observed, ToolCall, tool_calls
from sidecar.gateway.policy.sayings import Saying
from sidecar.replay.record import EpisodeRecord, Side
from sidecar.twins.declaration import Declaration
from sidecar.twins.scenario import Case

REGRESSIONS: Final = ("regression*", "planted:*")
"""Tags of scenarios that are known regressions."""


class Given(Struct, frozen=True, kw_only=True):
    """``cases`` are the suite's, empty for captured traffic; ``traffic`` is production's, None
    where nobody named any. ``sayings`` are what the policy can say; ``policy_unknown`` why not.
    """

    tools: dict[str, SideEffectClass]
    runs: tuple[EpisodeRecord, ...]
    both: tuple[EpisodeRecord, ...]
    left_out: int = 0
    twin_tools: dict[str, SideEffectClass] = {}
    declarations: tuple[Declaration, ...] = ()
    cases: tuple[Case, ...] = ()
    fairness: tuple[str, ...] = ()
    sayings: tuple[Saying, ...] = ()
    policy_unknown: str = ""
    traffic: tuple[AgentTrace, ...] | None = None
    regressions: tuple[str, ...] = REGRESSIONS
    expected: dict[str, tuple[Expectation, ...]] = field(default_factory=dict)

    def calls(self, run: EpisodeRecord) -> list[ToolCall]:
        """The calls of a run that prove something."""
        return tool_calls(
            Observed(
                trace=run.trace,
                tools=self.tools,
                receipts={one.receipt_id: one for one in run.receipts},
                events=run.events,
            )
        )

    @property
    def acting(self) -> tuple[str, ...]:
        """The tools with effects."""
        return tuple(name for name, grade in self.tools.items() if grade != "read")

    def judged(self) -> Iterator[tuple[EpisodeRecord, Expectation]]:
        """Each required expectation of a case that a run was judged by, with the run."""
        for run in self.runs:
            known = {one.id: one for one in self.expected.get(run.case, ())}
            for score in run.scores:
                expectation = known.get(score.expectation)
                if expectation is not None and score.required and score.status in ("pass", "fail"):
                    yield run, expectation


def concluded(runs: Iterable[EpisodeRecord], side: Side | None) -> tuple[EpisodeRecord, ...]:
    """The runs of a side (None: both) that show something."""
    return tuple(
        one
        for one in runs
        if (side is None or one.side == side)
        and one.void is None
        and one.conclusion != "incomplete"
    )


def by_key(pairs: Iterable[tuple[str, str]]) -> dict[str, tuple[str, ...]]:
    """Which cases cover what, from pairs of both."""
    found: dict[str, dict[str, None]] = {}
    for key, case in pairs:
        found.setdefault(key, {})[case] = None
    return {key: tuple(cases) for key, cases in found.items()}


def expectations(cases: Sequence[Case]) -> dict[str, tuple[Expectation, ...]]:
    """What each case expects, by its id."""
    return {one.id: tuple(one.expect) for one in cases}
