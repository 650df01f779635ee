"""The probes' configuration (key ``probes``): evidence to gather after a trace."""

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.errors import Problem


class HttpProbe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A GET at a gateway upstream (``upstream`` + path) or at a ``url`` with ``allow_cidrs``."""

    get: str = ""
    upstream: str = ""
    url: str = ""
    allow_cidrs: tuple[str, ...] = ()


class Probe(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One probe: ``when`` picks steps (CEL: step, trace), ``expect`` judges (CEL: step, trace,
    arguments, response). ``deadline`` bounds one try; ``until`` is how long state may take to
    settle."""

    name: str
    when: str
    http: HttpProbe
    expect: str
    deadline: str = "5s"
    until: str = "0s"

    @property
    def deadline_ns(self) -> int:
        """``deadline`` in nanoseconds."""
        return duration_ns(self.deadline)

    @property
    def until_ns(self) -> int:
        """``until`` in nanoseconds."""
        return duration_ns(self.until)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below the probe."""
        found = []
        for key, least_ns in (("deadline", TIMEOUT_LEAST_NS), ("until", 0)):
            try:
                duration_ns(getattr(self, key), least_ns=least_ns)
            except ValueError as error:
                found.append(Problem(key, str(error)))
        if bool(self.http.upstream) == bool(self.http.url):
            found.append(Problem("http", "name either upstream (with get) or url, not both"))
        if self.http.upstream and not self.http.get:
            found.append(Problem("http.get", "is missing"))
        return found
