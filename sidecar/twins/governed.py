"""A twin's tools as the gateway is told of them, and what the gateway would refuse of them.

Rules
1. A tool is declared to the gateway as its twin declares it: class, match, idempotency, reconcile,
   cost.
2. The arguments' schema stays the twin's: the service refuses, as it would.
3. What the gateway refuses in its configuration is a problem of the twin, at the twin's own line: a
   twin without problems can be served and replayed.
"""

from collections.abc import Iterator, Sequence

from msgspec import structs

from sidecar.errors import Problem
from sidecar.gateway.config import RESERVED_UPSTREAMS, Config, Idempotency, Tool, Upstream
from sidecar.gateway.registry import compiled_tools
from sidecar.twins.declaration import Declaration
from sidecar.twins.declaration import Tool as TwinTool

_ROOT = "gateway."
_URL = "http://twin.invalid"  # nothing is dialled: the twin answers


def upstream_name(declaration: Declaration, tool: TwinTool) -> str:
    """The upstream a tool is reached at: its own, else the twin's, else the twin's name."""
    return tool.upstream or declaration.upstream or declaration.twin


def governed(declaration: Declaration) -> tuple[list[Upstream], list[Tool]]:
    """The upstreams and tools of a twin, in the order of its tools."""
    tools = [_declared(tool, upstream_name(declaration, tool)) for tool in declaration.tools]
    names = dict.fromkeys(tool.upstream for tool in tools)
    return [Upstream(name=name, url=_URL) for name in names], tools


def gateway_problems(declaration: Declaration) -> list[Problem]:
    """What the gateway would refuse, with the dotted paths of the twin."""
    upstreams, tools = governed(declaration)
    config = Config(mode="twin", upstreams=tuple(upstreams), tools=tuple(tools))
    all_found = config.problems()
    found = [one for one in all_found if one.path.startswith("tools.")]
    if not found:  # what is wrong there cannot be compiled
        found = [
            Problem(one.path.removeprefix(_ROOT), one.text) for one in compiled_tools(tools, {})[1]
        ]
    refused = {
        upstreams[int(one.path.split(".")[1])].name
        for one in all_found
        if one.path.startswith("upstreams.") and one.path.endswith(".name")
    }
    return [*_upstream_problems(declaration, refused), *found]


def same_requests(declarations: Sequence[Declaration]) -> list[str]:
    """Which tools of several twins one request would be, where each twin alone is right."""
    tools = [tool for one in declarations for tool in governed(one)[1]]
    return [
        f"{tools[int(one.path.split('.')[2])].name!r}: its match {one.text}"
        for one in compiled_tools(tools, {})[1]
    ]


def _upstream_problems(declaration: Declaration, refused: set[str]) -> Iterator[Problem]:
    told = set()
    for index, tool in enumerate(declaration.tools):
        name = upstream_name(declaration, tool)
        own = f"tools.{index}.upstream" if tool.upstream else ""
        where = own or ("upstream" if declaration.upstream else "twin")
        if name in refused and where not in told:
            told.add(where)
            reserved = f"; {', '.join(sorted(RESERVED_UPSTREAMS))} are paths of the gateway's own"
            why = reserved if name in RESERVED_UPSTREAMS else ""
            yield Problem(where, f"{name!r} cannot be an upstream's name{why}")


def _declared(tool: TwinTool, upstream: str) -> Tool:
    keyed = tool.idempotency
    declared = Tool(
        name=tool.name,
        upstream=upstream,
        match=tool.match,
        class_=tool.class_,
        idempotency=keyed if isinstance(keyed, Idempotency) else Idempotency(),
        reconcile=tool.reconcile,
        cost=tool.cost,
        timeout=tool.timeout,
    )
    if tool.no_effect_statuses is None:
        return declared
    return structs.replace(declared, no_effect_statuses=tool.no_effect_statuses)
