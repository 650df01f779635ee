"""The gateway as a protected resource: who its tokens have to be meant for, and where a client that
has none learns who gives them.

**Rules**
1. What the resource is, configuration says (``gateway.resource``); nothing of a request does.
2. A token has to be meant for the gateway, or for the very MCP server it is shown to: one for
   another resource opens nothing, whoever made it.
3. The answer to a client without a credential is the same for every name: it tells of no server
   whether there is one.

Source: RFC 9728; RFC 8707 §2; RFC 6750 §3; Model Context Protocol 2026-07-28, "Authorization".
"""

import re
from collections.abc import Sequence
from typing import Any, Final

METADATA: Final = "/.well-known/oauth-protected-resource"
_MCP = re.compile(r"/mcp/[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_URL = re.compile(r"https?://[A-Za-z0-9.\[\]:-]+\Z")


def is_resource(url: str) -> bool:
    """Whether a URL can name a gateway: scheme and authority, nothing more."""
    return _URL.match(url) is not None


def audiences(resource: str, raw_path: str) -> tuple[str, ...]:
    """Who a token shown at a path may be meant for; empty where no resource is configured."""
    if not resource:
        return ()
    return (resource, resource + raw_path) if _MCP.match(raw_path) else (resource,)


def metadata(resource: str, raw_path: str, issuers: Sequence[str]) -> dict[str, Any] | None:
    """The metadata at a path; None where that is none's."""
    path = raw_path.removeprefix(METADATA)
    if not resource or path == raw_path or not (path == "" or _MCP.match(path)):
        return None
    found: dict[str, Any] = {
        "resource": resource + path,
        "resource_name": "AgentTwin gateway",
        "bearer_methods_supported": ["header"],
    }
    return {**found, "authorization_servers": list(issuers)} if issuers else found


def challenge(resource: str, raw_path: str, *, shown: bool) -> str:
    """What a caller without a good credential is asked for; ``shown``: it had one that was none."""
    said = 'Bearer realm="sidecar"'
    if shown:
        said += ', error="invalid_token"'
    if resource:
        path = raw_path if _MCP.match(raw_path) else ""
        said += f', resource_metadata="{resource}{METADATA}{path}"'
    return said
