"""The gateway's registry of a group of twins: the tools as in production, the twins as upstreams.

Rules
1. Which tools and upstreams these are says ``governed``, twin by twin.
"""

from sidecar.gateway.config import Upstream
from sidecar.gateway.registry import Registry
from sidecar.twins.governed import governed
from sidecar.twins.group import TwinGroup


def registry(group: TwinGroup) -> Registry:
    """The registry. Raises SidecarError that names every problem."""
    upstreams: dict[str, Upstream] = {}
    tools = []
    for twin in group.twins.values():
        some, declared = governed(twin.declaration)
        upstreams |= {one.name: one for one in some}
        tools += declared
    return Registry.from_config(list(upstreams.values()), tools, {})
