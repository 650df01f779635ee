"""The replay's configuration: where its gateway is found, and how agents that run elsewhere are
reached."""

import re

from msgspec import Struct

from sidecar.egress.rules import Target, undialable
from sidecar.errors import Problem
from sidecar.gateway.config import Credential
from sidecar.gateway.content import may_be_ours
from sidecar.listen.address import split_address

_URL = re.compile(r"https?://[A-Za-z0-9._-]+(?::[0-9]{1,5})?|https?://\[[0-9A-Fa-f:.]+\](?::\d+)?")
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 (what is refused without gateway_url)


class Agents(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Agents that a replay asks over HTTP (``url:``). Private addresses must be named in
    ``allow_cidrs``; ``credential`` is a header that they want to see, its value in ``file``."""

    allow_cidrs: tuple[str, ...] = ()
    credential: Credential | None = None


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``replay``. ``gateway``: where the gateway of a replay listens; empty is a free port on a
    loopback address of its own. ``gateway_url``: how agents elsewhere reach it, if not so."""

    gateway: str = ""
    gateway_url: str = ""
    agents: Agents = Agents()

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``replay``."""
        found = []
        host = ""
        if self.gateway:
            try:
                host, _ = split_address(self.gateway)
            except ValueError as error:
                found.append(Problem("gateway", str(error)))
        if self.gateway_url and _URL.fullmatch(self.gateway_url.rstrip("/")) is None:
            found.append(Problem("gateway_url", "is not http(s)://host[:port]"))
        if host in _ANYWHERE and not self.gateway_url:
            text = f"must say how agents reach it: {host} is no address to call"
            found.append(Problem("gateway_url", text))
        why = undialable(
            Target(name="", url="http://agent.invalid", allow_cidrs=self.agents.allow_cidrs)
        )
        if why is not None:
            found.append(Problem("agents.allow_cidrs", why.removeprefix(": allow_cidrs: ")))
        shown = self.agents.credential
        if shown is not None and not may_be_ours(shown.header):
            text = f"{shown.header!r} is no header that a credential can be in"
            found.append(Problem("agents.credential.header", text))
        return found
