"""The gateway's registry of a group of twins: the tools as in production, the twins as upstreams.

Rules
1. A tool is declared to the gateway as its twin declares it: class, match, idempotency, reconcile,
   cost.
2. The arguments' schema stays the twin's: the service refuses, as it would.
"""

from msgspec import structs

from sidecar.gateway.config import Idempotency, Tool, Upstream
from sidecar.gateway.registry import Registry
from sidecar.twins.declaration import Tool as TwinTool
from sidecar.twins.group import TwinGroup
from sidecar.twins.twin import Twin


def registry(group: TwinGroup) -> Registry:
    """The registry. Raises SidecarError that names every problem."""
    upstreams: dict[str, Upstream] = {}
    tools = []
    for twin in group.twins.values():
        for tool in twin.declaration.tools:
            name = upstream_name(twin, tool)
            upstreams[name] = Upstream(name=name, url="http://twin.invalid")
            tools.append(_declared(tool, name))
    return Registry.from_config(list(upstreams.values()), tools, {})


def upstream_name(twin: Twin, tool: TwinTool) -> str:
    """The upstream a tool is reached at: its own, else the twin's, else the twin's name."""
    return tool.upstream or twin.declaration.upstream or twin.name


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
