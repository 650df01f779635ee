"""Key ``audit``: how often the chain's end is signed for keeping elsewhere, and where that is."""

from msgspec import Struct

from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.gateway.decisions.event import Rule

_LEAST_NS = 1_000_000_000


class Anchor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Somewhere checkpoints are kept that who can change the store cannot change: a ``file`` that
    is appended to, or a ``command`` that gets one checkpoint a line and exits 0 when it has them.
    """

    name: str
    file: str = ""
    command: tuple[str, ...] = ()
    timeout: str = "30s"


class DecisionLog(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Decisions in OPA's shape, one a line: into ``file``, none where it is empty. ``hide`` names
    values of the input by JSON pointer."""

    file: str = ""
    hide: tuple[Rule, ...] = ()
    labels: dict[str, str] = {}


class Audit(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``checkpoint``: how often. ``lag_max``: for how long an anchor may be behind before calls
    with effects are refused."""

    checkpoint: str = "60s"
    anchors: tuple[Anchor, ...] = ()
    lag_max: str = "24h"
    decisions: DecisionLog = DecisionLog()

    @property
    def every_seconds(self) -> float:
        """``checkpoint`` in seconds."""
        return duration_ns(self.checkpoint) / 1e9

    @property
    def lag_max_ns(self) -> int:
        """``lag_max`` in nanoseconds."""
        return duration_ns(self.lag_max)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``audit``."""
        found = [
            *_duration("checkpoint", self.checkpoint),
            *_duration("lag_max", self.lag_max),
        ]
        for index, rule in enumerate(self.decisions.hide):
            if not rule.pointer.startswith("/"):
                text = "must be a JSON pointer into the input, such as /arguments/card"
                found.append(Problem(f"decisions.hide.{index}.pointer", text))
        seen: set[str] = set()
        for index, anchor in enumerate(self.anchors):
            where = f"anchors.{index}"
            found += _duration(f"{where}.timeout", anchor.timeout)
            if bool(anchor.file) == bool(anchor.command):
                found.append(Problem(where, "names a file or a command, one of them"))
            if not anchor.name or anchor.name in seen:
                found.append(Problem(f"{where}.name", "must be there and of one anchor"))
            seen.add(anchor.name)
        return found


def _duration(path: str, text: str) -> list[Problem]:
    try:
        duration_ns(text, least_ns=_LEAST_NS)
    except ValueError as error:
        return [Problem(path, str(error))]
    return []
