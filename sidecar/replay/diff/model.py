"""What a comparison of two tapes comes to (docs/specs/diff.md; the field names are a contract)."""

from typing import Literal

from msgspec import Struct

from sidecar import outcome
from sidecar.tape.drift import Drift, Place

Outcome = Literal["identical", "differ", "incomparable"]
Change = Literal[
    "same",
    "insert",
    "delete",
    "replaced",
    "input_changed",
    "output_changed",
    "status_changed",
    "reordered",
]
Reason = Literal["CODEC", "REDACTOR", "FIDELITY", "BROKEN", "TAINTED", "PARTIAL"]

ENDS: dict[Outcome, outcome.Outcome] = {
    "identical": outcome.Outcome.OK,
    "differ": outcome.Outcome.FAILED,
    "incomparable": outcome.Outcome.UNDECIDED,
}


class Incomparable(Struct, frozen=True):
    """Why nothing may be concluded; ``side``: left, right or both."""

    reason: Reason
    side: str
    detail: str


class Row(Struct, frozen=True, kw_only=True):
    """One event of both tapes, or of one; ``consequence``: it stands behind the divergence."""

    agent: str
    seq_l: int | None
    seq_r: int | None
    kind: Change
    consequence: bool = False
    noise: bool = False


class Divergence(Struct, frozen=True, kw_only=True):
    """Where an agent's runs part. ``places`` is None where content was not kept."""

    agent: str
    seq_l: int | None
    seq_r: int | None
    kind: Change
    drift: tuple[Drift, ...]
    changed: tuple[str, ...]
    places: tuple[Place, ...] | None
    more_places: bool
    suspects_l: tuple[int, ...]
    suspects_r: tuple[int, ...]


class Agent(Struct, frozen=True, kw_only=True):
    """One agent's events: common ones, and where it first diverges."""

    agent: str
    common: int
    left: int
    right: int
    first_divergence: Divergence | None
    rows: tuple[Row, ...]


class Diff(Struct, frozen=True, kw_only=True):
    """The comparison. ``header`` names what of the headers differs; it decides nothing."""

    outcome: Outcome
    incomparable: tuple[Incomparable, ...]
    compared: Literal["content", "structure", "nothing"]
    first_divergence: Divergence | None
    agents: tuple[Agent, ...]
    noise: int
    header: tuple[str, ...]
    duration_ns_l: int
    duration_ns_r: int
