"""A registered tool's calls in the words of MCP: which of its methods they are, and of what.

**Rules**
1. What a call is, its tool's path says: ``/<method>/<name>``. Nothing of the request decides it.
"""

from collections.abc import Mapping
from typing import Any, Literal

from sidecar.gateway.config import Match

Kind = Literal["resource", "prompt"]

CALL, READ, GET, COMPLETE = "tools/call", "resources/read", "prompts/get", "completion/complete"


def kind_of(match: Match) -> Kind | None:
    """Whether an entry is for resources or prompts; None where it is for neither."""
    if match.resource:
        return "resource"
    return "prompt" if match.prompt else None


def method_of(match: Match) -> str:
    """The method of the protocol that a registered tool's calls are."""
    return "/".join(match.path[1:].split("/")[:2])


def asked_of(match: Match, arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """What policy sees of MCP in a call; None where the call is none of MCP's."""
    if match.tool:
        return {"method": CALL, "name": match.tool}
    if kind_of(match) is None:
        return None
    method = method_of(match)
    said = arguments.get("ref") if method == COMPLETE else arguments
    found = said if isinstance(said, Mapping) else {}
    key = "uri" if match.resource else "name"
    return {"method": method, key: found.get(key, "")}
