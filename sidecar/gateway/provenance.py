"""Where the content an agent has seen comes from: labels for policy to judge a call by.

**Rules**
1. A label comes from the registry (``returns`` of a tool that was called before in the session) or
   from the caller (header ``Agenttwin-Provenance``). A caller can add labels, never take one away:
   what an agent says of itself may only make its treatment stricter.
2. A tool that is called before but registered no more has the label ``unregistered``.

Source: gateway.md §2.5 (``context.provenance``), §1.2 (CaMeL).
"""

from collections.abc import Iterable

from sidecar.gateway.config import LABEL
from sidecar.gateway.content import Headers
from sidecar.gateway.problem import Refused
from sidecar.gateway.registry import Registry

PROVENANCE = "agenttwin-provenance"
UNREGISTERED = "unregistered"
_LABELS_MAX = 20


def told(headers: Headers) -> tuple[str, ...]:
    """The labels the caller adds: lower_snake_case words between commas. Raises Refused."""
    said = [value for name, value in headers if name.lower() == PROVENANCE]
    labels = [label.strip() for value in said for label in value.split(",")]
    if len(labels) > _LABELS_MAX or not all(LABEL.match(label) for label in labels):
        raise Refused(
            400,
            "provenance_malformed",
            f"Agenttwin-Provenance is at most {_LABELS_MAX} lower_snake_case words between commas",
            next_action="request",
        )
    return tuple(sorted(set(labels)))


def labels_of(
    prior_tools: Iterable[str], registry: Registry, also: Iterable[str]
) -> tuple[str, ...]:
    """The labels of the tools called before, and those told; sorted."""
    found = set(also)
    for name in set(prior_tools):
        tool = registry.tools.get(name)
        found.update(tool.config.returns if tool is not None else (UNREGISTERED,))
    return tuple(sorted(found))
