"""What may be wrong with a tape, in words of a closed set.

**Rules**
1. A file that is no tape, or of another major version, is refused (``TapeUnreadable``); a tape that
   ends early is a partial tape, and read.
2. What does not hold in a tape is a ``Fault``: data, with a code of ``FaultCode``; never content.
"""

from typing import Literal

from msgspec import Struct

from sidecar.errors import ExitCode, SidecarError

FaultCode = Literal[
    "line",
    "chain",
    "count",
    "exact_digest",
    "behavior_digest",
    "blob_root",
    "blob_missing",
    "blob_content",
    "payload",
    "projection",
    "order",
    "cause",
    "kind_seam",
    "terminal",
    "after_seal",
    "leak",
]


class TapeUnreadable(SidecarError):
    """The bytes are no tape this program can read."""


class TapeIncomparable(TapeUnreadable):
    """It is a tape, but of a kind nothing may be concluded from here; exit 2."""

    def __init__(self, what: str, *, where: str = "", do: str = "") -> None:
        super().__init__(what, where=where, do=do, code=ExitCode.UNDECIDED)


def placed(error: TapeUnreadable, where: str) -> TapeUnreadable:
    """The same refusal, of a file that has a name."""
    kind = TapeIncomparable if isinstance(error, TapeIncomparable) else TapeUnreadable
    return kind(error.what, where=where, do=error.do)


class Fault(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that does not hold; ``seq`` is the event's, ``detail`` ours to tell."""

    code: FaultCode
    detail: str
    seq: int | None = None
