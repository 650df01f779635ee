"""The tools an agent may see of a server, and how many are withheld and why.

**Rules**
1. Listed is what is reviewed, unchanged, granted to the credential and visible to policy: the same
   that a call is checked for again.
2. The order is that of the names. What is given of a tool is what was reviewed of it.
3. Nothing visible where there is something is an error that says why, not an empty list.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from sidecar.gateway.registry import RegisteredTool
from sidecar.gateway.rpc.definition import COVERED
from sidecar.gateway.rpc.driver import Definitions, standing

TTL_MS = 5_000


class Offer(Struct, frozen=True, kw_only=True):
    """The tools that may be shown if policy agrees, and how many are withheld, by reason."""

    tools: tuple[RegisteredTool, ...]
    withheld: dict[str, int]


def offer(server: str, registered: Sequence[RegisteredTool], found: Definitions) -> Offer:
    """What there is to be shown of a server."""
    withheld: Counter[str] = Counter()
    pinned: dict[str, RegisteredTool] = {}
    known = {tool.config.match.tool: tool for tool in registered}
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
