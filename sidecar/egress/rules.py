"""What a target's URL may say, and what to make of the addresses its name resolves to.

**Rules**
1. A host is a strict dotted quad, a bracketed IPv6 literal without zone, or an ASCII name whose
   last label is not numeric: ``2130706433``, ``0x7f.1`` and ``127.1`` are refused, since resolvers
   read them as addresses.
2. No userinfo, query, fragment, backslash or control character; the port is a number from 1 to
   65535.
3. One bad address among the answers refuses the name; so do no answer and more than 16.
"""

import ipaddress
import re
from collections.abc import Sequence
from functools import lru_cache

from msgspec import Struct

from sidecar.egress.address import Network, read_networks, refusal

ANSWERS_MAX = 16
_REMEMBERED_MAX = 4096  # every call asks of the same few
_URL = re.compile(r"(https?)://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?(/[^?#]*)?\Z")
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\Z")
_NUMERIC = re.compile(r"(?:0x[0-9a-f]*|[0-9]+)\Z")
_QUAD = re.compile(r"(?:(?:0|[1-9][0-9]{0,2})\.){3}(?:0|[1-9][0-9]{0,2})\Z")


class TargetRefused(ValueError):
    """The target's URL or an address of it is not to be dialled; the message says why."""


class LeadsBack(TargetRefused):
    """The target is what the sidecar itself listens on."""


class Target(Struct, frozen=True, kw_only=True):
    """Somewhere to dial: a name for messages, a base URL, the ranges it may resolve to. ``pins``:
    the public keys its certificate may have, if not any: ``sha256/`` and the base64 of the digest
    of its SubjectPublicKeyInfo (as in RFC 7469)."""

    name: str
    url: str
    allow_cidrs: tuple[str, ...] = ()
    pins: tuple[str, ...] = ()


class Endpoint(Struct, frozen=True, kw_only=True):
    """A target read: ``host`` lower-case without brackets; ``literal`` where it is an address
    already.
    """

    name: str
    scheme: str
    host: str
    port: int
    base_path: str
    literal: bool
    allow: tuple[Network, ...]
    pins: tuple[str, ...] = ()

    @property
    def authority(self) -> str:
        """The Host header: the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        default = {"http": 80, "https": 443}[self.scheme]
        return host if self.port == default else f"{host}:{self.port}"


@lru_cache(maxsize=_REMEMBERED_MAX)
def read_target(target: Target) -> Endpoint:
    """The endpoint of a target. Raises TargetRefused."""
    match = _URL.match(target.url)
    if match is None:
        raise TargetRefused(f"{target.name}: the url is not http(s)://host[:port][/path]")
    scheme, host, port, path = match.groups()
    number = int(port) if port else {"http": 80, "https": 443}[scheme]
    if not 0 < number < 65536:
        raise TargetRefused(f"{target.name}: there is no port {number}")
    try:
        allow = read_networks(target.allow_cidrs)
    except ValueError as error:
        raise TargetRefused(f"{target.name}: allow_cidrs: {error}") from error
    name, literal = _host(target.name, host.lower())
    return Endpoint(
        name=target.name,
        scheme=scheme,
        host=name,
        port=number,
        base_path=(path or "").rstrip("/"),
        literal=literal,
        allow=allow,
        pins=target.pins,
    )


def undialable(target: Target, *, ranges: bool = True) -> str | None:
    """Why a target can never be dialled, as far as its URL tells; None where it may be.

    Without ``ranges``, ``allow_cidrs`` is not looked at.
    """
    try:
        endpoint = read_target(target if ranges else Target(name=target.name, url=target.url))
        if endpoint.literal and ranges:
            vet(endpoint, (endpoint.host,))
    except TargetRefused as error:
        return str(error)
    return None


def leads_back(endpoint: Endpoint, host: str, port: int) -> bool:
    """Whether an endpoint is what a listener on ``host`` and ``port`` receives.

    Only what can be told without resolving a name; the rest is checked when it is dialled.
    """
    if endpoint.port != port:
        return False
    if endpoint.host == host.lower():
        return True
    return _is_here(endpoint.host) and _is_here(host)


def _is_here(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host.lower() == "localhost"
    return address.is_loopback or address.is_unspecified


def vet(endpoint: Endpoint, answers: Sequence[str]) -> tuple[str, ...]:
    """The addresses to dial, in the resolver's order, each once. Raises TargetRefused."""
    addresses = tuple(dict.fromkeys(answers))
    if not addresses:
        raise TargetRefused(f"{endpoint.name}: {endpoint.host} has no address")
    if len(addresses) > ANSWERS_MAX:
        raise TargetRefused(
            f"{endpoint.name}: {endpoint.host} has more than {ANSWERS_MAX} addresses"
        )
    for address in addresses:
        why = _refusal(address, endpoint.allow)
        if why is not None:
            raise TargetRefused(f"{endpoint.name}: {endpoint.host} is {why}")
    return addresses


@lru_cache(maxsize=_REMEMBERED_MAX)
def _refusal(address: str, allow: tuple[Network, ...]) -> str | None:
    return refusal(address, allow)


def _host(target: str, host: str) -> tuple[str, bool]:
    if host.startswith("["):
        return _literal(target, host[1:-1])
    host = host.removesuffix(".")
    if _QUAD.match(host):
        return _literal(target, host)
    labels = host.split(".")
    if _NUMERIC.match(labels[-1]):
        raise TargetRefused(
            f"{target}: {host!r} is an address in disguise; write it as a dotted quad"
        )
    if len(host) > 253 or not all(_LABEL.match(label) for label in labels):
        raise TargetRefused(f"{target}: {host!r} is no host name")
    return host, False


def _literal(target: str, host: str) -> tuple[str, bool]:
    try:
        return str(ipaddress.ip_address(host)), True
    except ValueError as error:
        raise TargetRefused(f"{target}: {error}") from error
