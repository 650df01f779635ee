"""What a detector hands in, before it is numbered and bounded."""

from collections.abc import Sequence

from msgspec import Struct

from processors.model.detection import DetectionCode, DetectionSeverity, Exhibit


class Found(Struct, frozen=True, kw_only=True):
    """A detection without its id; ``steps`` may be any number."""

    code: DetectionCode
    severity: DetectionSeverity
    sentence: str
    remedy: str
    steps: Sequence[str] = ()
    subjects: Sequence[str] = ()
    evidence: Sequence[Exhibit] = ()
    measures: dict[str, int] = {}
