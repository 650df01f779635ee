"""Where operators have a place: what the runs as they are read, did and answered.

**Rules**
1. A place is a tool (and an argument) that some run called, or could have called, and the cases in
   which the mutant does something. An operator without a place makes no mutant.
2. Other rows and texts come from the suite's own runs, drawn by seed, operator, place and case.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

from processors.model.names import SideEffectClass
from sidecar.analyse.fuzz.dice import Dice
from sidecar.analyse.mutants.model import Heard, Mutant, Shown


class Known(Struct, frozen=True, kw_only=True):
    """The suite's runs as they are, by case; the tools; and which texts are keys of which rows."""

    runs: dict[str, Shown]
    tools: dict[str, SideEffectClass]
    keys: dict[str, str]
    seed: int = 0

    def acts(self, tool: str) -> bool:
        """Whether a call of it may change the world."""
        return self.tools.get(tool, "irreversible") != "read"

    def effects(self, run: Shown) -> tuple[Heard, ...]:
        """The calls of a run that made an effect, as it was told."""
        return tuple(one for one in run.heard if self.acts(one.tool) and one.succeeded)

    def another(self, operator: str, case: str, value: str) -> str | None:
        """Another row's key of the same kind; None where there is none."""
        kind = self.keys.get(value)
        others = sorted(one for one, of in self.keys.items() if of == kind and one != value)
        return Dice(self.seed, f"{operator}|{case}|{value}").pick(others) if others else None

    def other_text(self, tool: str, argument: str, value: str) -> str:
        """Another text that the suite has for the argument, else a longer one."""
        texts = {
            one.arguments.get(argument)
            for run in self.runs.values()
            for one in run.heard
            if one.tool == tool
        }
        others = sorted(one for one in texts if isinstance(one, str) and one != value)
        if others:
            return Dice(self.seed, f"text|{tool}|{argument}|{value}").pick(others)
        return f"{value} (another)"

    def model(self, case: str, tool: str) -> Heard | None:
        """A call of another case that made an effect with this tool."""
        return next(
            (
                one
                for name, run in self.runs.items()
                if name != case
                for one in self.effects(run)
                if one.tool == tool
            ),
            None,
        )

    def answer(self, case: str, *, done: bool) -> str | None:
        """What another case answered that did something, or that did nothing, about this one."""
        own = self.ids(case)
        for name, run in self.runs.items():
            acted = bool(self.effects(run))
            theirs = self.ids(name)
            if name == case or acted != done or not (own and theirs) or not run.answer:
                continue
            if theirs[0] in run.answer:
                return run.answer.replace(theirs[0], own[0])
        return None

    def ids(self, case: str) -> list[str]:
        """The rows that a run named, in order."""
        return [
            value
            for one in self.runs[case].heard
            for value in one.arguments.values()
            if isinstance(value, str) and value in self.keys
        ]


def agent_mutants(known: Known) -> Iterator[Mutant]:
    """Every mutant of the agent."""
    called = _by_tool(known)
    for tool, cases in called.items():
        acting = known.acts(tool)
        yield _at("duplicate", tool, cases)
        if not acting:
            yield _at("skip_check", tool, cases)
            yield from _filled("believe_old", tool, _otherwise(known, tool, cases))
            yield from _filled("skip_confirmation", tool, _confirmed(known, tool, cases))
            yield from _filled("act_first", tool, _before(known, tool, cases))
            continue
        did = [case for case in cases if any(one.tool == tool for one in _effects(known, case))]
        failed = [case for case in cases if _failed(known, case, tool)]
        idle = [case for case, run in known.runs.items() if not known.effects(run)]
        idle = [case for case in idle if known.ids(case)] if did else []
        yield from _filled("claim_without_act", tool, did)
        yield from _filled("drop_key", tool, [case for case in did if _keyed(known, case, tool)])
        yield from _filled("retry_blindly", tool, failed)
        yield from _filled("act_anyway", tool, idle)
    yield from _arguments(known)
    for name, done in (("claim_success", False), ("claim_failure", True)):
        cases = [
            case
            for case, run in known.runs.items()
            if bool(known.effects(run)) == done and known.answer(case, done=not done) is not None
        ]
        yield from _filled(name, "", cases)
    yield _at("say_nothing", "", list(known.runs))
    yield from _filled("disclose", "", [case for case, run in known.runs.items() if run.heard])


def _arguments(known: Known) -> Iterator[Mutant]:
    found: dict[tuple[str, str, str], dict[str, None]] = {}
    for case, run in known.runs.items():
        for one in run.heard:
            for argument, value in one.arguments.items():
                for operator in _kinds(known, one.tool, value, case):
                    found.setdefault((operator, one.tool, argument), {})[case] = None
    for (operator, tool, argument), cases in found.items():
        yield Mutant(
            operator=operator, target="agent", tool=tool, place=argument, cases=tuple(cases)
        )


def _kinds(known: Known, tool: str, value: Any, case: str) -> Iterator[str]:
    if isinstance(value, str) and value in known.keys:
        if known.another("wrong_entity", case, value) is not None:
            yield "wrong_entity"
    elif known.acts(tool):
        if larger(value, times=1, plus=True) is not None:
            yield "amount_off_by_one"
            yield "amount_tenfold"
        elif isinstance(value, str):
            yield "wrong_text"


def larger(value: Any, *, times: int, plus: bool) -> Any:
    """A number (or a text that is one) times so much, or plus one of its last place; else None."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        number = Decimal(str(value))
    except InvalidOperation:
        return None
    if not number.is_finite():
        return None
    made = number * times
    if plus:
        made += Decimal(1).scaleb(int(number.as_tuple().exponent))
    if isinstance(value, str):
        return format(made, "f")
    return type(value)(made)


def _by_tool(known: Known) -> dict[str, list[str]]:
    found: dict[str, dict[str, None]] = {}
    for case, run in known.runs.items():
        for one in run.heard:
            found.setdefault(one.tool, {})[case] = None
    return {tool: list(cases) for tool, cases in sorted(found.items())}


def _effects(known: Known, case: str) -> tuple[Heard, ...]:
    return known.effects(known.runs[case])


def _failed(known: Known, case: str, tool: str) -> bool:
    return any(one.tool == tool and not one.succeeded for one in known.runs[case].heard)


def _keyed(known: Known, case: str, tool: str) -> bool:
    return any(one.tool == tool and one.key for one in known.runs[case].heard)


def _otherwise(known: Known, tool: str, cases: Iterable[str]) -> list[str]:
    """The cases in which the tool answered otherwise than in the first of them."""
    first: Mapping[str, Any] | None = None
    found = []
    for case in cases:
        heard = next(one for one in known.runs[case].heard if one.tool == tool)
        if first is None and heard.succeeded:
            first = {"value": heard.value}
        elif first is not None and heard.value != first["value"]:
            found.append(case)
    return found


def _confirmed(known: Known, tool: str, cases: Iterable[str]) -> list[str]:
    """The cases in which the tool is called after an effect that succeeded."""
    found = []
    for case in cases:
        heard = known.runs[case].heard
        done = next((at for at, one in enumerate(heard) if one in _effects(known, case)), None)
        if done is not None and any(one.tool == tool for one in heard[done + 1 :]):
            found.append(case)
    return found


def _before(known: Known, tool: str, cases: Iterable[str]) -> list[str]:
    """The cases in which the tool is called, and an effect comes later."""
    found = []
    for case in cases:
        heard = known.runs[case].heard
        at = next(at for at, one in enumerate(heard) if one.tool == tool)
        if any(one in _effects(known, case) for one in heard[at + 1 :]):
            found.append(case)
    return found


def _filled(operator: str, tool: str, cases: Iterable[str]) -> Iterator[Mutant]:
    chosen = tuple(cases)
    if chosen:
        yield _at(operator, tool, chosen)


def _at(operator: str, tool: str, cases: Iterable[str]) -> Mutant:
    return Mutant(operator=operator, target="agent", tool=tool, cases=tuple(cases))
