"""The tool registry and the probes, read and compiled."""

from typing import Any

from msgspec.structs import replace

from sidecar.app.known import known_tools, priced, read_json_file
from sidecar.config import Loaded
from sidecar.errors import Problem, SidecarError
from sidecar.gateway.budget import problems as budget_problems
from sidecar.gateway.config import Upstream
from sidecar.gateway.registry import Registry, compiled_tools
from sidecar.gateway.rpc.pins import Pinned
from sidecar.probe.plan import LoadedProbe, faults
from sidecar.probe.plan import load as load_probes


def open_registry(loaded: Loaded) -> Registry:
    """The tool registry with its schemas and credentials read from files. Raises SidecarError."""
    config = loaded.config.gateway
    schemas = {
        tool.arguments.schema: _read_schema(loaded, tool.arguments.schema)
        for tool in config.tools
        if tool.arguments.schema
    }
    found = known_tools(loaded)
    if found.problems:
        raise SidecarError(
            "the tools of MCP servers cannot be used: " + "; ".join(map(str, found.problems)),
            where=loaded.file or "",
            do="Correct these entries; sidecar tools draft makes them from a server.",
        )
    given = [*config.upstreams, *(server.upstream for server in config.mcp)]
    upstreams = [resolved(loaded, upstream) for upstream in given]
    return Registry.from_config(upstreams, found.tools, {**schemas, **found.schemas})


def open_probes(loaded: Loaded) -> tuple[LoadedProbe, ...]:
    """The configured probes, compiled. Raises SidecarError."""
    try:
        return load_probes(loaded.config.probes)
    except Problem as problem:
        raise SidecarError(f"a probe cannot be used: {problem}", where=loaded.file or "") from None


def costly_problems(loaded: Loaded) -> list[Problem]:
    """What is wrong with schemas, costs, recipes and probes: found by reading and compiling."""
    found: list[Problem] = []
    schemas: dict[str, Any] = {}
    for index, tool in enumerate(loaded.config.gateway.tools):
        name = tool.arguments.schema
        if name and name not in schemas:
            try:
                schemas[name] = _read_schema(loaded, name)
            except SidecarError as error:
                schemas[name] = True  # told once, here; any value fits this schema
                found.append(
                    Problem(f"gateway.tools.{index}.arguments.schema", f"{error.what}: {name}")
                )
    try:
        made = known_tools(loaded)
    except SidecarError as error:
        found.append(Problem("gateway.mcp", f"{error.what}: {error.where}"))
    else:
        found += made.problems
        found += compiled_tools(made.tools, {**schemas, **made.schemas})[1]
        found += _unpriced(loaded, made)
    for index, probe in enumerate(loaded.config.probes):
        if not probe.problems():  # the others were told already
            found += faults(f"probes.{index}", probe)
    return found


def resolved(loaded: Loaded, upstream: Upstream) -> Upstream:
    """The upstream with its credential's file as a path from here."""
    if upstream.credential is None:
        return upstream
    file = str(loaded.path(upstream.credential.file))
    return replace(upstream, credential=replace(upstream.credential, file=file))


def _unpriced(loaded: Loaded, made: Pinned) -> list[Problem]:
    """What budgets say of the tools that only definitions tell of; the others were told already."""
    budgets = loaded.config.budgets
    told = budget_problems(budgets, loaded.config.gateway.priced)
    found = budget_problems(budgets, priced(made.tools))
    return [Problem(f"budgets.{each.path}", each.text) for each in found if each not in told]


def _read_schema(loaded: Loaded, name: str) -> Any:
    return read_json_file(loaded, name, "a tool's schema", "arguments.schema in gateway.tools")
