"""A registry drafted from captured traffic: spans of HTTP calls that an agent made.

**Rules**
1. One entry per method and path, where segments that are plainly identifiers are parameters; how
   often each was seen is said beside it.
2. Only what was seen is in it: no schema is guessed from a few calls.
"""

import re
from collections import Counter
from collections.abc import Iterable
from urllib.parse import unquote

from processors.model.span import Span
from sidecar.gateway.draft.tool import Draft, DraftTool, class_of, name_of, unique

_CLIENT = 3
_URL = re.compile(r"(?i:(https?))://([A-Za-z0-9._-]+)(?::([0-9]+))?(/[^?#]*)?")
_IDENTIFIER = re.compile(
    r"(?i:[0-9]+|[0-9a-f]{8}-[0-9a-f-]{27}|[0-9a-f]{12,}|(?=.*[0-9])[A-Za-z]{1,8}[-_][A-Za-z0-9-]+)\Z"
)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


class Seen(Draft, frozen=True, kw_only=True):
    """A draft, and the upstreams it speaks of: name and address."""

    upstreams: dict[str, str]


def draft_traffic(spans: Iterable[Span]) -> Seen:
    """The entries for what the spans of HTTP clients called."""
    calls: Counter[tuple[str, str, str]] = Counter()
    upstreams: dict[str, str] = {}
    unread = 0
    for span in spans:
        method = span.attributes.get("http.request.method") or span.attributes.get("http.method")
        url = span.attributes.get("url.full") or span.attributes.get("http.url")
        if span.kind != _CLIENT or not isinstance(method, str):
            continue
        match = _URL.match(url) if isinstance(url, str) else None
        if match is None or method.upper() not in _METHODS:
            unread += 1
            continue
        scheme, host, port, path = match.groups()
        address = f"{scheme.lower()}://{host.lower()}" + (f":{port}" if port else "")
        name = name_of(f"{host} {port or ''}")
        upstreams[name] = address
        calls[(name, method.upper(), _template(path or "/"))] += 1
    tools = [_tool(*key, times) for key, times in sorted(calls.items())]
    left_out = (f"{unread} calls without a whole URL or with another method",) if unread else ()
    return Seen(tools=unique(tools), left_out=left_out, upstreams=upstreams)


def _tool(upstream: str, method: str, path: str, times: int) -> DraftTool:
    plain = re.sub(r"\{[^}]*\}", "", path)
    return DraftTool(
        name=name_of(f"{method} {plain}"),
        upstream=upstream,
        match={"method": method, "path": path},
        class_=class_of(method),
        notes=(f"seen {times} times",),
    )


def _template(path: str) -> str:
    segments, number = [], 0
    for segment in path.split("/")[1:]:
        text = unquote(segment)
        if _IDENTIFIER.match(text) or "{" in text or "}" in text:
            number += 1
            segments.append("{id}" if number == 1 else f"{{id{number}}}")
        else:
            segments.append(text)
    return "/" + "/".join(segments)
