"""The tools an agent may see of a server, and how many are withheld and why.

**Rules**
1. Listed is what is reviewed, unchanged, granted to the credential and visible to policy: the same
   that a call is checked for again.
2. The order is that of the names. What is given of a tool is what was reviewed of it.
3. Nothing visible where there is something is an error that says why, not an empty list.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from sidecar.gateway.protocol import method_of
from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.rpc.beside import Listing, covers, fits
from sidecar.gateway.rpc.definition import COVERED
from sidecar.gateway.rpc.driver import Definitions, standing

TTL_MS = 5_000


class Beside(Struct, frozen=True, kw_only=True):
    """An item of a list beside the tools': what is told of it, and the entry it falls under."""

    name: str
    shown: dict[str, Any]
    entry: RegisteredTool


def offer_beside(
    listing: Listing, entries: Sequence[RegisteredTool], found: Sequence[Any]
) -> tuple[tuple[Beside, ...], int]:
    """The items that may be shown if policy agrees, by name, and how many no entry is for.

    What stands twice under one name is nothing at all.
    """
    known: dict[str, Any] = {}
    twice: set[str] = set()
    for each in found:
        name = each.get(listing.by) if isinstance(each, dict) else None
        if isinstance(name, str):
            twice |= {name} & known.keys()
            known[name] = each
    offered = []
    for name in sorted(known.keys() - twice):
        entry = entry_of(entries, name)
        if entry is not None:
            shown = {key: known[name][key] for key in listing.fields if key in known[name]}
            offered.append(Beside(name=name, shown=shown, entry=entry))
    return tuple(offered), len(found) - len(offered)


def entry_of(entries: Sequence[RegisteredTool], name: str) -> RegisteredTool | None:
    """The entry that is for a name: the first in configuration's order."""
    return next((each for each in entries if covers(each.config.match, name)), None)


def first_of(
    registered: Iterable[RegisteredTool], like: RegisteredTool, arguments: Mapping[str, Any]
) -> RegisteredTool | None:
    """The entry that is for what is asked for, of the server and method that another is of: the
    first in configuration's order."""
    place = (like.config.upstream, method_of(like.config.match))
    of_method = (
        each for each in registered if place == (each.config.upstream, method_of(each.config.match))
    )
    return next((each for each in of_method if fits(each.config.match, arguments)), None)


def listed_beside(
    listing: Listing, seen: Sequence[Beside], withheld: Mapping[str, int]
) -> dict[str, Any]:
    """The result of a list beside the tools'."""
    result: dict[str, Any] = {
        "resultType": "complete",
        listing.member: [each.shown for each in seen],
        "ttlMs": TTL_MS,
        "cacheScope": "private",
    }
    if withheld:
        result["_meta"] = {"agenttwin/withheld": dict(withheld)}
    return result


class Offer(Struct, frozen=True, kw_only=True):
    """The tools that may be shown if policy agrees, and how many are withheld, by reason."""

    tools: tuple[RegisteredTool, ...]
    withheld: dict[str, int]


def offer(server: str, registered: Sequence[RegisteredTool], found: Definitions) -> Offer:
    """What there is to be shown of a server."""
    withheld: Counter[str] = Counter()
    pinned: dict[str, RegisteredTool] = {}
    known = {tool.config.match.tool: tool for tool in registered if tool.config.match.tool}
    for name, tool in sorted(known.items()):
        stands = standing(server, name, tool.config.definition, found)
        if stands == "pinned":
            pinned[name] = tool
        else:
            withheld[stands] += 1
    if new := len(found.keys() - known.keys()):
        withheld["new"] = new
    return Offer(tools=tuple(pinned.values()), withheld=dict(withheld))


def listed(
    seen: Sequence[RegisteredTool], found: Definitions, withheld: Mapping[str, int]
) -> dict[str, Any]:
    """The result of ``tools/list``."""
    shown = [found[tool.config.match.tool] for tool in seen]
    tools = [{key: each[key] for key in COVERED if key in each} for each in shown]
    result: dict[str, Any] = {
        "resultType": "complete",
        "tools": tools,
        "ttlMs": TTL_MS,
        "cacheScope": "private",
    }
    if withheld:
        result["_meta"] = {"agenttwin/withheld": dict(withheld)}
    return result
