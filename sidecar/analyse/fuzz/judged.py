"""A scenario run once on the twins, with one agent or several, and what is wrong with the run.

Rules
1. Every run goes through ``replay/direct``: the twins, the trace and the expectations of a replay.
2. What met a gap, or left a twin other than it was, is void: nothing is concluded from it.
3. The errands of several agents are serialisable when some order of running them one after another
   ends in the same world; the orders are run once a scenario. Where faults strike by the number of
   a call, other orders are other errands, and nothing is said of them.
"""

from collections.abc import Callable
from itertools import permutations
from typing import Any

import msgspec
from msgspec import Struct, structs

from sidecar.analyse.fuzz.signature import Failed, failure
from sidecar.analyse.together.moves import Ended, History, Stepped
from sidecar.analyse.together.oracles import conflicts, end_of, unserialised
from sidecar.analyse.together.run import CallTool, Limits, Table, play
from sidecar.analyse.together.schedule import At, Chooser, switching
from sidecar.replay.direct import DirectRun, run_direct
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Case, Scenario, Suite, cases

MakeAgent = Callable[[], Stepped]


class Ran(Struct, frozen=True, kw_only=True):
    """A run; ``failed`` is None where all is well, ``void`` says why nothing can be concluded."""

    run: DirectRun
    history: History
    failed: Failed | None
    void: str = ""


class Bench:
    """Where scenarios of one suite are run; worlds are used again."""

    def __init__(self, suite: Suite, group: TwinGroup, limits: Limits) -> None:
        self.suite = suite
        self.group = group
        self._limits = limits
        self._worlds = group.open()
        self._serial: dict[str, dict[tuple[str, ...], object]] = {}
        self.runs = 0

    def run(self, scenario: Scenario, make: MakeAgent, choose: Chooser | None = None) -> Ran:
        """Run it once; without a chooser by the scenario's own schedule."""
        run, history = self._once(scenario, make, choose or switching(scenario.schedule))
        void = _void(run)
        if void:
            self._worlds = self.group.open()
            return Ran(run=run, history=history, failed=None, void=void)
        found = conflicts(history, run.events, self.group)
        if not found and history.switches and not scenario.faults:
            serial = self._orders(scenario, make, history.agents)
            found = unserialised(history, end_of(run.events), serial)
        return Ran(run=run, history=history, failed=failure(run, history, found))

    def _once(
        self, scenario: Scenario, make: MakeAgent, choose: Chooser
    ) -> tuple[DirectRun, History]:
        self.runs += 1
        case = cases(structs.replace(self.suite, scenarios=(scenario,)))[0]
        requests = requests_of(case)
        kept: list[History] = []

        def agent(_: dict[str, Any], call: CallTool) -> str:
            table = Table(worlds=self._worlds, call=call)
            agents = {name: make() for name in requests}
            kept.append(play(agents, requests, table, choose, limits=self._limits))
            return said(kept[0])

        return run_direct(case, agent, self.group, self._worlds), kept[0]

    def _orders(
        self, scenario: Scenario, make: MakeAgent, agents: tuple[str, ...]
    ) -> dict[tuple[str, ...], object]:
        told = str(structs.replace(scenario, schedule=()))
        if told not in self._serial:
            ends: dict[tuple[str, ...], object] = {}
            for order in permutations(agents):
                run, _ = self._once(scenario, make, _in_order(order))
                ends[order] = end_of(run.events)
            self._serial[told] = ends
        return self._serial[told]


def requests_of(case: Case) -> dict[str, dict[str, Any]]:
    """What each agent of a case is given, by its name; a single one is named as the case."""
    if not case.agents:
        return {case.id: case.request()}
    return {
        one.name: {
            **case.request(),
            "input": one.input,
            "messages": list(one.messages),
            "agent": one.name,
        }
        for one in case.agents
    }


def said(history: History) -> str:
    """What the agents answered, a line each."""
    outputs = [one.output for one in history.ends.values() if isinstance(one, Ended)]
    texts = [
        one if isinstance(one, str) else msgspec.json.encode(_output(one), enc_hook=str).decode()
        for one in outputs
        if one is not None
    ]
    return "\n".join(texts)


def _output(value: Any) -> Any:
    return value.get("output", value) if isinstance(value, dict) else value


def _in_order(order: tuple[str, ...]) -> Chooser:
    def choose(at: At) -> str:
        return min(at.able, key=order.index)

    return choose


def _void(run: DirectRun) -> str:
    gap = next((event for event in run.events if event.kind == "gap"), None)
    if gap is not None:
        return f"twin_gap: {gap.tool}: {gap.detail}"
    return "" if run.clean else "twin_leak: the world was not as before"
