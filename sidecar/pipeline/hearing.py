"""The optional extractor of claims: its configuration (key ``claims``), and what it may spend.

Rules
1. Off unless ``claims.llm.url`` is set: an answer leaves the process only where someone said so.
2. A budget of calls an hour bounds what it costs; beyond it answers are read by rules alone, and
   the miss is counted.
"""

from urllib.parse import urlsplit

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, TargetRefused, read_target
from sidecar.errors import Problem

_HOUR_NS = 3_600_000_000_000


class LlmExtractor(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A chat-completions endpoint (OpenAI's API), its ``model``, and bounds.

    ``url`` is the API's base (``https://host/v1``); ``credential_file`` holds the bearer key.
    ``deadline`` bounds one call, ``calls_per_hour`` all of them, ``characters_max`` what is sent of
    an answer, ``tokens_max`` what may come back.
    """

    url: str = ""
    model: str = ""
    credential_file: str = ""
    allow_cidrs: tuple[str, ...] = ()
    deadline: str = "10s"
    calls_per_hour: int = 600
    characters_max: int = 8_000
    tokens_max: int = 800

    @property
    def deadline_ns(self) -> int:
        """``deadline`` in nanoseconds."""
        return duration_ns(self.deadline)

    @property
    def target(self) -> Target:
        """Where it is, for egress."""
        return Target(name="claims.llm", url=self.url, allow_cidrs=self.allow_cidrs)

    def problems(self) -> list[Problem]:
        """What is wrong with the values."""
        if not self.url:
            return []
        found = []
        try:
            duration_ns(self.deadline, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            found.append(Problem("deadline", str(error)))
        try:
            read_target(self.target)
        except TargetRefused as error:
            found.append(Problem("url", str(error)))
        if urlsplit(self.url).query:
            found.append(Problem("url", "may not have a query"))
        if not self.model:
            found.append(Problem("model", "is missing"))
        for name in ("calls_per_hour", "characters_max", "tokens_max"):
            if getattr(self, name) < 1:
                found.append(Problem(name, "must be at least 1"))
        return found


class Claims(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How claims are found beside the rules of docs/specs/claims.md."""

    llm: LlmExtractor = LlmExtractor()

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``claims``."""
        return [Problem(f"llm.{item.path}", item.text) for item in self.llm.problems()]


class Budget:
    """Calls of the last hour, counted by the hour they fall into."""

    def __init__(self, calls_per_hour: int) -> None:
        self._most = calls_per_hour
        self._hour = -1
        self._spent = 0

    def take(self, now_ns: int) -> bool:
        """Whether one more call may be made now; if so it is taken."""
        hour = now_ns // _HOUR_NS
        if hour != self._hour:
            self._hour, self._spent = hour, 0
        if self._spent >= self._most:
            return False
        self._spent += 1
        return True
