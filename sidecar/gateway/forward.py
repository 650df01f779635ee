"""The gateway as a forward proxy: which upstream a target in absolute form is on.

**Rules**
1. A target is an upstream's by scheme, host, port and the path below the upstream's own, spelt as
   configured; what is no upstream's is not fetched.
2. The ``Host`` header says the same authority as the target, or the request is refused.
3. The agent's credential is in ``Proxy-Authorization``, as a bearer token or as the password of
   Basic: that is where a proxy's address carries it. ``Authorization`` is the tool's, and goes
   nowhere.

Source: RFC 9110 §7.6 and §11.7, RFC 9112 §3.2.
"""

import base64
import binascii
import re
from collections.abc import Iterable

from msgspec import Struct

from sidecar.egress.rules import Endpoint, Target, TargetRefused, read_target
from sidecar.gateway.problem import Refused

CREDENTIAL = "proxy-authorization"
CHALLENGE = 'Basic realm="sidecar"'
_ABSOLUTE = re.compile(r"(?i:(http|https)://)([^/?#]*)(/[^#]*)?\Z", re.DOTALL)
_AUTHORITY = re.compile(r"(?:[A-Za-z0-9_.-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?\Z")


class Absolute(Struct, frozen=True, kw_only=True):
    """A target in absolute form: what it is below, and its raw path with query."""

    origin: Endpoint
    raw_path: str


def read_absolute(raw: str, host: str) -> Absolute:
    """A raw target and its Host header, if both say one thing. Raises Refused."""
    match = _ABSOLUTE.match(raw)
    if match is None or not _AUTHORITY.match(match[2]) or not _AUTHORITY.match(host):
        raise Refused(400, "target_malformed", "the target is no http://host[:port]/path")
    scheme = match[1].lower()
    origin, meant = (_origin(scheme, each) for each in (match[2], host))
    if (origin.host, origin.port) != (meant.host, meant.port):
        raise Refused(400, "host_mismatch", "the target and the Host header name two hosts")
    return Absolute(origin=origin, raw_path=match[3] or "/")


def below(target: Absolute, upstreams: Iterable[Target]) -> tuple[str, str] | None:
    """The name of the upstream a target is on, and the raw path below it; None where it is none's.

    Of two upstreams of one authority the one with the longer path counts.
    """
    found: tuple[str, str] | None = None
    longest = -1
    for each in upstreams:
        endpoint = read_target(each)
        base = endpoint.base_path
        rest = target.raw_path.removeprefix(base)
        inside = target.raw_path.startswith(base) and rest.startswith("/")
        if _same(endpoint, target.origin) and inside and len(base) > longest:
            found, longest = (each.name, rest), len(base)
    return found


def credential(value: str | None) -> str | None:
    """``Proxy-Authorization`` as an ``Authorization`` with a bearer token."""
    scheme, _, text = (value or "").strip().partition(" ")
    if scheme.lower() != "basic":
        return value
    try:
        _, _, password = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return value
    return f"Bearer {password}"


def _same(one: Endpoint, other: Endpoint) -> bool:
    return (one.scheme, one.host, one.port) == (other.scheme, other.host, other.port)


def _origin(scheme: str, authority: str) -> Endpoint:
    try:
        return read_target(Target(name="target", url=f"{scheme}://{authority}"))
    except TargetRefused as error:
        raise Refused(400, "target_malformed", str(error)) from error
