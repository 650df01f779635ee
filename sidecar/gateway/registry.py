"""The tool registry: which request is which tool, and all that is known of the tool beforehand.

**Rules**
1. A request is a tool by upstream, method and canonical path, and by nothing the caller says of it.
   No match is refused; there is no default tool.
2. Literal segments win over parameters; two tools with one pattern are refused at load, and so is
   everything else that can be known then: schemas, cost expressions, durations.
3. Segments are compared decoded, so that ``%21`` cannot dodge a ``!``.
4. ``tool_digest`` covers all that decides how a tool is treated; a changed tool has another digest.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

import jsonschema_rs
import msgspec
from msgspec import Struct

from processors.value import duration_ns
from sidecar.canonical import NotCanonical, digest
from sidecar.errors import Problem, SidecarError
from sidecar.expression.cel import Expression, ExpressionInvalid, compile_expression
from sidecar.gateway.config import Cost, Durable, Tool, Upstream
from sidecar.gateway.problem import Refused
from sidecar.gateway.reconcile import wrong_recipe
from sidecar.gateway.target import segments

_PARAMETER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}\Z")
_METHOD = re.compile(r"[A-Z]+\Z")
_COST_VARIABLES = frozenset({"arguments"})
_DONE_VARIABLES = frozenset({"response", "idempotency_key"})
_SETTLE_LEAST_NS = 60_000_000_000


class CostModel(Struct, frozen=True, kw_only=True):
    """What a call costs, as expressions over ``arguments``."""

    amount: Expression
    currency: Expression | None


class Backoff(Struct, frozen=True, kw_only=True):
    """How a durable call is tried again; lengths in nanoseconds."""

    attempts: int
    first_ns: int
    most_ns: int
    deadline_ns: int


class RegisteredTool(Struct, frozen=True, kw_only=True):
    """One tool, compiled. ``template`` holds literal segments and ``{parameter}`` ones, decoded."""

    config: Tool
    template: tuple[str, ...]
    schema: jsonschema_rs.Validator | None
    cost: CostModel | None
    done: Expression | None
    tool_digest: str
    timeout_ns: int
    key_retention_ns: int
    duplicate_window_ns: int
    backoff: Backoff | None
    settle_ns: int

    @property
    def name(self) -> str:
        """The tool's name in configuration, policy and receipts."""
        return self.config.name


class Matched(Struct, frozen=True, kw_only=True):
    """The tool a request is, and the decoded values of its path parameters."""

    tool: RegisteredTool
    path_arguments: dict[str, str]


def compiled_tools(
    tools: Sequence[Tool], schemas: Mapping[str, Any]
) -> tuple[list[RegisteredTool], list[Problem]]:
    """The tools that compile, and what is wrong with the others, dotted from the root."""
    problems: list[Problem] = []
    compiled = [
        _compile(tool, f"gateway.tools.{index}", schemas, problems)
        for index, tool in enumerate(tools)
    ]
    return compiled, [*problems, *_ambiguities(compiled)]


class Registry:
    """All tools and upstreams; immutable. Build one with ``from_config``."""

    def __init__(self, tools: Sequence[RegisteredTool], upstreams: Mapping[str, Upstream]) -> None:
        self.upstreams = dict(upstreams)
        self.tools = {tool.name: tool for tool in tools}
        self._authorities = {name: _authority(each.url) for name, each in self.upstreams.items()}
        self._places = {name: _place(each.url) for name, each in self.upstreams.items()}
        on_mcp = [tool.config for tool in tools if tool.config.match.on_mcp]
        self._servers = frozenset(config.upstream for config in on_mcp)
        self._routes: dict[tuple[str, str], list[RegisteredTool]] = {}
        for tool in sorted(tools, key=_specificity):
            key = (tool.config.upstream, tool.config.match.method)
            self._routes.setdefault(key, []).append(tool)

    @classmethod
    def from_config(
        cls, upstreams: Sequence[Upstream], tools: Sequence[Tool], schemas: Mapping[str, Any]
    ) -> "Registry":
        """The registry of a configuration; ``schemas`` maps ``arguments.schema`` names to JSON
        Schemas.

        Raises SidecarError naming every problem.
        """
        compiled, problems = compiled_tools(tools, schemas)
        if problems:
            raise SidecarError(
                "the tool registry cannot be used: " + "; ".join(str(each) for each in problems),
                where="gateway.tools",
                do="Correct these entries.",
            )
        return cls(compiled, {upstream.name: upstream for upstream in upstreams})

    @property
    def servers(self) -> frozenset[str]:
        """The names of upstreams that are MCP servers with tools here."""
        return self._servers

    def match(self, upstream: str, method: str, path: str) -> Matched:
        """The tool behind a canonical path. Raises Refused 404. A HEAD is its GET where that is a
        read.
        """
        if upstream not in self.upstreams:
            raise Refused(404, "no_such_upstream", f"there is no upstream {upstream!r}")
        given = segments(path)
        for tool in self._candidates(upstream, method):
            found = _fit(tool.template, given)
            if found is not None:
                return Matched(tool=tool, path_arguments=found)
        raise Refused(
            404,
            "no_such_tool",
            f"no tool is registered for {method} {path} on {upstream!r}; "
            "what is not in gateway.tools is not sent",
        )

    def authority(self, upstream: str) -> str | None:
        """Host and port of an upstream, None where there is no such upstream (twins)."""
        return self._authorities.get(upstream)

    def place(self, upstream: str) -> tuple[str, str, int] | None:
        """Scheme, host and port that an upstream's calls go to, None where there is no such
        upstream (twins)."""
        return self._places.get(upstream)

    def host(self, upstream: str) -> str | None:
        """The host an upstream's calls go to, None where there is no such upstream (twins)."""
        found = self._places.get(upstream)
        return None if found is None else found[1]

    def _candidates(self, upstream: str, method: str) -> list[RegisteredTool]:
        found = self._routes.get((upstream, method), [])
        if method == "HEAD":
            gets = self._routes.get((upstream, "GET"), [])
            return found + [tool for tool in gets if tool.config.class_ == "read"]
        return found


def _authority(url: str) -> str | None:
    return urlsplit(url).netloc.rpartition("@")[2] or None


def _place(url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return (
        parts.scheme,
        parts.hostname or "",
        parts.port or (443 if parts.scheme == "https" else 80),
    )


def parameter(segment: str) -> str | None:
    """The name of the parameter a template's segment is; None where it is literal."""
    match = _PARAMETER.match(segment)
    return match[1] if match else None


def _fit(template: tuple[str, ...], given: tuple[str, ...]) -> dict[str, str] | None:
    if len(template) != len(given):
        return None
    found: dict[str, str] = {}
    for wanted, segment in zip(template, given, strict=True):
        parameter = _PARAMETER.match(wanted)
        if parameter is None:
            if wanted != segment:
                return None
        elif not segment:
            return None
        else:
            found[parameter[1]] = segment
    return found


def _specificity(tool: RegisteredTool) -> tuple[bool, ...]:
    return tuple(_PARAMETER.match(segment) is not None for segment in tool.template)


def _compile(
    tool: Tool, where: str, schemas: Mapping[str, Any], problems: list[Problem]
) -> RegisteredTool:
    schema = schemas.get(tool.arguments.schema) if tool.arguments.schema else None
    if tool.arguments.schema and schema is None:
        problems.append(
            Problem(f"{where}.arguments.schema", f"{tool.arguments.schema!r} is missing")
        )
    field, required = tool.idempotency.upstream_field, schema if isinstance(schema, dict) else {}
    if field and field in required.get("required", ()):
        text = f"the schema of its arguments requires {field!r}, which the gateway fills in"
        problems.append(Problem(f"{where}.idempotency.upstream_field", text))
    if tool.reconcile and (why := wrong_recipe(tool.reconcile.get, tool.reconcile.done)):
        problems.append(Problem(f"{where}.reconcile.get", why))
    return RegisteredTool(
        config=tool,
        template=_template(tool, where, problems),
        schema=_validator(schema, f"{where}.arguments.schema", problems),
        cost=_cost(tool.cost, f"{where}.cost", problems),
        done=_expression(
            tool.reconcile.done if tool.reconcile else "",
            _DONE_VARIABLES,
            f"{where}.reconcile.done",
            problems,
        ),
        tool_digest=_digest(tool, schema, where, problems),
        timeout_ns=duration_ns(tool.timeout),
        key_retention_ns=duration_ns(tool.idempotency.retention),
        backoff=_backoff(tool.durable),
        duplicate_window_ns=_duration_or_none(tool.idempotency.duplicate_window),
        settle_ns=_settle_ns(tool),
    )


def _duration_or_none(text: str) -> int:
    return duration_ns(text) if text else 0


def _backoff(durable: Durable | None) -> Backoff | None:
    if durable is None:
        return None
    return Backoff(
        attempts=durable.attempts,
        first_ns=duration_ns(durable.backoff),
        most_ns=duration_ns(durable.backoff_max),
        deadline_ns=duration_ns(durable.deadline),
    )


def _settle_ns(tool: Tool) -> int:
    if tool.reconcile is not None and tool.reconcile.settle:
        return duration_ns(tool.reconcile.settle)
    return max(2 * duration_ns(tool.timeout), _SETTLE_LEAST_NS)


def _digest(tool: Tool, schema: Any, where: str, problems: list[Problem]) -> str:
    try:
        return digest(
            {"v": 1, "tool": msgspec.to_builtins(tool), "schema": schema}, domain="agwt/1"
        )
    except NotCanonical as error:
        problems.append(Problem(where, f"has no canonical form: {error}"))
        return ""


def _template(tool: Tool, where: str, problems: list[Problem]) -> tuple[str, ...]:
    if not _METHOD.match(tool.match.method):
        problems.append(Problem(f"{where}.match.method", f"{tool.match.method!r} is no method"))
    template = tuple(tool.match.path[1:].split("/"))
    names = [match[1] for segment in template if (match := _PARAMETER.match(segment))]
    if len(names) != len(set(names)):
        problems.append(Problem(f"{where}.match.path", "names a parameter twice"))
    for segment in template:
        if ("{" in segment or "}" in segment) and not _PARAMETER.match(segment):
            problems.append(
                Problem(
                    f"{where}.match.path", f"{segment!r}: a parameter is a whole segment, {{name}}"
                )
            )
    return template


def _validator(schema: Any, where: str, problems: list[Problem]) -> jsonschema_rs.Validator | None:
    if schema is None:
        return None
    try:
        return jsonschema_rs.validator_for(
            schema,
            offline=True,  # a $ref must not become a request
            pattern_options=jsonschema_rs.RegexOptions(),  # linear time
            mask="the value",  # refusals do not repeat arguments
        )
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        problems.append(Problem(where, str(error).splitlines()[0]))
        return None


def _cost(cost: Cost | None, where: str, problems: list[Problem]) -> CostModel | None:
    if cost is None:
        return None
    amount = _expression(cost.amount, _COST_VARIABLES, f"{where}.amount", problems)
    currency = _expression(cost.currency, _COST_VARIABLES, f"{where}.currency", problems)
    return CostModel(amount=amount, currency=currency) if amount else None


def _expression(
    text: str, variables: frozenset[str], where: str, problems: list[Problem]
) -> Expression | None:
    if not text:
        return None
    try:
        return compile_expression(text, variables=variables)
    except ExpressionInvalid as error:
        problems.append(Problem(where, str(error)))
        return None


def _ambiguities(tools: Sequence[RegisteredTool]) -> list[Problem]:
    seen: dict[tuple[Any, ...], str] = {}
    found: list[Problem] = []
    for index, tool in enumerate(tools):
        shape = tuple("{}" if _PARAMETER.match(part) else part for part in tool.template)
        key = (tool.config.upstream, tool.config.match.method, shape)
        if key in seen:
            found.append(
                Problem(f"gateway.tools.{index}.match", f"is the same as that of {seen[key]!r}")
            )
        seen[key] = tool.name
    return found
