"""Who is told of approvals by webhook."""

import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, undialable
from sidecar.errors import Problem

Event = Literal["requested", "vote", "resolved", "notice"]
_URL = re.compile(r"(https?://[^/?#]+)([!-\"$-~]*)\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class Webhook(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A receiver of signed messages. ``secret_file`` holds ``whsec_…`` secrets, one a line, the
    newest first; ``project``: only this one's requests, all where empty. ``notice`` are decisions
    of which policy has it told. Private addresses must be
    named in ``allow_cidrs``."""

    name: str
    url: str
    secret_file: str
    allow_cidrs: tuple[str, ...] = ()
    events: tuple[Event, ...] = ("requested", "resolved")
    project: str = ""
    timeout: str = "10s"

    @property
    def target(self) -> Target:
        """Where it is dialled."""
        split = _URL.match(self.url)
        return Target(
            name=f"webhook {self.name}",
            url=split[1] if split else self.url,
            allow_cidrs=self.allow_cidrs,
        )

    @property
    def path_query(self) -> str:
        """The rest of the URL, as it is sent."""
        split = _URL.match(self.url)
        rest = split[2] if split else ""
        return rest if rest.startswith("/") else f"/{rest}"

    def problems(self) -> Iterator[Problem]:
        """What is wrong with one webhook."""
        if not _NAME.match(self.name):
            yield Problem("name", f"{self.name!r} cannot be a webhook's name")
        if not self.secret_file:
            yield Problem("secret_file", "is empty; an unsigned message proves nothing")
        if not self.events:
            yield Problem("events", "names none")
        why = undialable(self.target)
        if why is None and _URL.match(self.url) is None:
            why = "is no http(s)://host[:port][/path][?query] in plain ASCII"
        if why is not None:
            yield Problem("url", why)
        try:
            duration_ns(self.timeout, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            yield Problem("timeout", str(error))
