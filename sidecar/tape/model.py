"""The records of a tape: header, event, blob, seal (docs/specs/tape.md).

**Rules**
1. ``kind`` says what an event means, ``seam`` where nondeterminism entered; ``SEAMS_OF`` is the
   whole table of which goes with which.
2. ``t``, ``use``, ``attr`` and ``inl`` are in no digest but the chain's: they are not identity.
3. Fields that this version does not know are kept (``more``), kinds and seams it does not know are
   refused.
4. An event says nothing of how its tape is packaged.
"""

from typing import Any, Final, Literal

from msgspec import Struct, field

from sidecar.tape.moment import nanoseconds

MAJOR: Final = 1
SCHEMA: Final = "tape/1.0.0"
SEQ_MAX: Final = 2**53 - 1

Kind = Literal[
    "llm_call",
    "tool_call",
    "tool_result",
    "state_patch",
    "decision",
    "human_input",
    "error",
    "terminal",
]
Seam = Literal["provider", "tool", "clock", "entropy", "env", "http", "fs", "scheduler", "human"]
Status = Literal["ok", "error", "denied", "cancelled", "deferred", "requested_only", "unset"]
Fidelity = Literal["L0", "L1", "L2", "L3"]
Source = Literal["sdk", "proxy", "otlp", "import:tau", "import:vcr", "fuzz"]

_ALL: Final[tuple[Seam | None, ...]] = (
    "provider",
    "tool",
    "clock",
    "entropy",
    "env",
    "http",
    "fs",
    "scheduler",
    "human",
)
SEAMS_OF: Final[dict[Kind, tuple[Seam | None, ...]]] = {
    "llm_call": ("provider",),
    "tool_call": ("tool", "http", "fs"),
    "tool_result": ("tool", "http", "fs"),
    "state_patch": ("tool", "fs"),
    "decision": ("clock", "entropy", "env", "scheduler", None),
    "human_input": ("human",),
    "error": (*_ALL, None),
    "terminal": (None,),
}


class RedactorId(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Which redactor a tape passed, in which version, under which key (by id)."""

    id: str
    version: str
    key_id: str | None = None


class Git(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The commit the agent ran from, and whether its tree had changes."""

    sha: str
    dirty: bool = False


class AgentBuild(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The agent's name and version, and the digest of its manifest."""

    name: str | None = None
    version: str | None = None
    manifest: str | None = None


class Origin(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Another tape that this one comes from, and the event it branches at."""

    tape_id: str
    exact_digest: str | None = None
    seq: int | None = None


class Header(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The first record: where the tape comes from and under which rules its digests were made.

    ``codecs`` maps seams to the digest of their codec, whose definition is a blob of the tape.
    ``gaps`` are reasons for which the fidelity is lower than the content alone would make it.
    """

    schema: str = field(default=SCHEMA)
    tape_id: str = ""
    run_id: str | None = None
    trace_ids: tuple[str, ...] = ()
    source: Source = "sdk"
    fidelity: Fidelity = "L0"
    gaps: tuple[str, ...] = ()
    mapping: str | None = None
    seed: str | None = None
    git: Git | None = None
    agent: AgentBuild | None = None
    models: tuple[str, ...] = ()
    toolset: str | None = None
    prompts: tuple[str, ...] = ()
    policy: str | None = None
    env: str | None = None
    redactor: RedactorId | None = None
    codecs: dict[str, str] = {}
    volatile: str | None = None
    argv: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    replayed_from: Origin | None = None
    derived_from: Origin | None = None
    anchor: Origin | None = None
    taint: tuple[str, ...] = ()
    tenant: str = "default"
    captured_at: str = "1970-01-01T00:00:00.000000000Z"
    expires_at: str | None = None
    more: dict[str, Any] = field(default_factory=dict)

    def has_expired(self, now_ns: int) -> bool:
        """Whether the tape was to be recorded anew by then."""
        return self.expires_at is not None and nanoseconds(self.expires_at) <= now_ns


class EventError(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What failed: the exception's class, and the digest of its redacted message."""

    type: str
    message: str | None = None


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One event. ``in_``, ``out``: digests of the redacted canonical payloads.

    ``in_n``, ``out_n``: of what the codec leaves of them, where that differs; ``in_b``: with
    identifiers mapped by where they were minted, where that differs again. ``chunks``: a streamed
    answer's pieces in order. ``inl``: payloads that are small, as they are. ``t``: start and end in
    nanoseconds after the header's ``captured_at``.
    """

    seq: int
    kind: Kind
    v: int = 1
    seam: Seam | None = None
    site: str = ""
    ord: int = 0
    agent: str = ""
    cause: tuple[int, ...] = ()
    lam: int = 0
    name: str = ""
    in_: str | None = field(default=None, name="in")
    out: str | None = None
    in_n: str | None = None
    out_n: str | None = None
    in_b: str | None = None
    chunks: tuple[str, ...] = ()
    st: Status = "unset"
    err: EventError | None = None
    inl: dict[str, Any] = {}
    t: dict[str, int] = {}
    use: dict[str, int] = {}
    attr: dict[str, Any] = {}
    more: dict[str, Any] = field(default_factory=dict)


class Blob(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A payload by its digest; ``data`` (base64, of gzip where ``gz``) only in a packed tape."""

    id: str
    size: int
    data: str | None = None
    gz: bool = False


class Blobs(Struct, frozen=True, kw_only=True):
    """How many blobs a tape has, of how many bytes, and the root of their manifest."""

    n: int
    bytes: int
    root: str


class Counters(Struct, frozen=True, kw_only=True):
    """What was not kept: events dropped, payloads too large, events after the terminal one."""

    dropped: int
    truncated: int
    after_terminal: int


NO_COUNTERS: Final = Counters(dropped=0, truncated=0, after_terminal=0)


class LeakScan(Struct, frozen=True, kw_only=True):
    """How many redacted values were looked for in the finished tape, and how many were found."""

    sought: int
    found: int


class Seal(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The last record: what the whole tape comes to."""

    events: int
    exact_digest: str
    behavior_digest: str
    blobs: Blobs
    chain: str
    counters: Counters
    leaks: LeakScan | None = None
    more: dict[str, Any] = field(default_factory=dict)


Record = Header | Event | Blob | Seal


def goes_with(kind: Kind, seam: Seam | None) -> bool:
    """Whether an event of this kind may enter at this seam."""
    return seam in SEAMS_OF[kind]
