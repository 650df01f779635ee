"""Coverage: the eight surfaces of a suite's runs.

**Rules**
1. Surfaces stand side by side; nothing is summed over them.
2. Without a run that came to a conclusion nothing is covered, and that is told apart from a suite
   that tried and missed.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from sidecar.analyse.coverage.dependencies import dependency_surface
from sidecar.analyse.coverage.failures import failure_surface, regression_surface
from sidecar.analyse.coverage.faults import fault_surface
from sidecar.analyse.coverage.given import Given
from sidecar.analyse.coverage.outcomes import outcome_surface
from sidecar.analyse.coverage.policy import policy_surface
from sidecar.analyse.coverage.surface import Surface, SurfaceName
from sidecar.analyse.coverage.tools import critical_surface, tool_surface

SCHEMA: Final = "coverage/1.0.0"


class Coverage(Struct, frozen=True, kw_only=True):
    """``runs`` that came to a conclusion, ``left_out`` those that did not; ``traffic`` is how many
    production traces weigh, None where none was named."""

    surfaces: tuple[Surface, ...]
    runs: int
    left_out: int
    traffic: int | None = None


def coverage(given: Given) -> Coverage:
    """All surfaces, in their order."""
    return Coverage(
        surfaces=(
            tool_surface(given),
            critical_surface(given),
            policy_surface(given),
            failure_surface(given),
            regression_surface(given),
            dependency_surface(given),
            fault_surface(given),
            outcome_surface(given),
        ),
        runs=len(given.runs),
        left_out=given.left_out,
        traffic=None if given.traffic is None else len(given.traffic),
    )


def below(found: Coverage, floors: Mapping[SurfaceName, float]) -> tuple[str, ...]:
    """Where a surface covers less than its floor, a share of its items; what is not known does."""
    told = []
    for one in found.surfaces:
        floor = floors.get(one.surface)
        if floor is None:
            continue
        if one.unknown:
            told.append(f"{one.surface}: nothing is known, and {floor:.0%} is asked for")
        elif one.covered < floor * one.total:
            told.append(f"{one.surface}: {one.covered} of {one.total}, below {floor:.0%}")
    return tuple(told)
