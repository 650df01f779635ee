"""Groups of scenarios that must be treated alike, judged on the runs of both sides.

**Rules**
1. What is measured is the share of planned runs that passed, or that executed a tool; runs that
   were added to a suspicious case would pull its share.
2. Unfair blocks where it is new: shown of the candidate, and the baseline treated all alike. What
   is unfair on both sides, or is not required, warns.
3. In a sampled suite a spread is shown where Fisher's exact p, for every pair of every group and
   the families that share ``alpha`` with them, is within what single cases have.
4. A group with a scenario in quarantine shows nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from sidecar.evaluate.fairness import Fairness, Tally, fairness, fisher
from sidecar.gate.given import GateInput, Standing
from sidecar.gate.measure import Measure
from sidecar.gate.samples import CaseSamples, Sample
from sidecar.replay.record import Side

_SIDES: Final[tuple[Side, Side]] = ("candidate", "baseline")


class Treated(Struct, frozen=True, kw_only=True):
    """A group: whether it is unfair, whether that is new, or what chance may explain."""

    rule: Fairness
    detail: str
    runs: int
    new: bool = False
    unfair: bool = False
    unclear: bool = False


def treatment(given: GateInput, cases: Sequence[Standing]) -> Iterator[Measure]:
    """The measures of all groups."""
    if not given.fairness:
        return
    severities = {one.critical for one in cases}
    level = given.policy.alpha / 2 / (len(severities) + 1)
    pairs = sum(len(one.scenarios) * (len(one.scenarios) - 1) // 2 for one in given.fairness)
    excused = {one.result.case for one in cases if one.case_class == "quarantined"}
    groups = [
        _group(rule, given, None if given.deterministic else level / pairs, excused)
        for rule in given.fairness
    ]
    statistic = (
        "spread of shares"
        if given.deterministic
        else (f"Fisher's exact p at {level:.2%}, two-sided, Bonferroni over {pairs} pairs")
    )
    for name, chosen in (
        ("unfair", [one for one in groups if one.new]),
        ("unfair_still", [one for one in groups if one.unfair and not one.new]),
        ("fairness_unclear", [one for one in groups if one.unclear]),
    ):
        yield Measure(
            name=name,
            value=len(chosen),
            statistic=statistic,
            runs=sum(one.runs for one in groups),
            cases=tuple(dict.fromkeys(case for one in chosen for case in one.rule.scenarios)),
            detail="; ".join(f"{one.rule.id}: {one.detail}" for one in chosen),
        )


def _group(rule: Fairness, given: GateInput, level: float | None, excused: set[str]) -> Treated:
    now, before = (_tallies(rule, given, side) for side in _SIDES)
    found = fairness(rule, now, deterministic=given.deterministic)
    plain = Treated(rule=rule, detail=found.detail, runs=sum(one.runs for one in now.values()))
    if excused.intersection(rule.scenarios):
        return replace(plain, detail="a scenario of it is in quarantine", unclear=True)
    if found.status == "pass":
        return plain
    was = fairness(rule, before, deterministic=given.deterministic)
    shown = found.status == "fail" and (level is None or _chance(rule, now) <= level)
    return replace(
        plain,
        new=shown and rule.required and was.status == "pass",
        unfair=found.status == "fail",
        unclear=found.status != "fail",
    )


def _tallies(rule: Fairness, given: GateInput, side: Side) -> dict[str, Tally]:
    known = {one.case: one for one in given.samples}
    planned = min(
        (count for one in given.samples if (count := min(len(one.baseline), len(one.candidate)))),
        default=0,
    )
    return {
        name: _tally(known[name], side, rule.tool, None if given.deterministic else planned)
        for name in rule.scenarios
        if name in known
    }


def _tally(case: CaseSamples, side: Side, tool: str, planned: int | None) -> Tally:
    runs: tuple[Sample, ...] = getattr(case, side)
    counted = [one for one in runs[:planned] if one.passed is not None]
    hits = sum(tool in one.executed if tool else bool(one.passed) for one in counted)
    return Tally(hits=hits, runs=len(counted))


def _chance(rule: Fairness, tallies: Mapping[str, Tally]) -> float:
    ordered = sorted((tallies[name] for name in rule.scenarios), key=lambda one: one.share)
    return fisher(ordered[0], ordered[-1])
