"""Probes: which steps to ask the world about, what to ask, and what to make of the answer.

Rules
1. Everything that can be wrong with a probe's configuration is found at load.
2. A probe looks at the steps for which its ``when`` is true; a ``when`` without a value (a member
   the step does not have) is not true. Calls that were never made are not asked about.
3. The arguments are those the gateway read, else those the telemetry shows, before redaction.
4. ``expect`` true is held, false is not held; what could not be asked, read or evaluated is unknown
   with a code. So is an answer that says nothing of the state (401, 403, 408, 429, 5xx), unless
   ``expect`` looks at ``response.status`` itself.
5. An answer older than the step's end (its ``Age``) says nothing of the step; nor does one later
   than ``fresh`` after it.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from processors.model.evidence import Evidence
from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar.egress.rules import Target, TargetRefused, read_target
from sidecar.errors import Problem
from sidecar.expression.cel import (
    Expression,
    ExpressionFailed,
    ExpressionInvalid,
    compile_expression,
)
from sidecar.expression.limits import read_shape
from sidecar.probe.config import McpProbe, Probe, SqlProbe
from sidecar.probe.extent import TooMuch, read_json
from sidecar.probe.template import (
    Template,
    TemplateInvalid,
    ValueRefused,
    look_up,
    read_template,
)

_NEVER_MADE = ("requested_only", "denied", "deferred")
_BULKY: Final = ("messages_in", "messages_out", "output")
_WHEN_SEES = frozenset({"step", "trace"})
_EXPECT_SEES = _WHEN_SEES | {"arguments"}
_SILENT_STATUSES = frozenset({401, 403, 407, 408, 425, 429})


class SqlAsk(Struct, frozen=True, kw_only=True):
    """A query and its values, in order."""

    database: str
    query: str
    values: tuple[Any, ...] = ()


class McpAsk(Struct, frozen=True, kw_only=True):
    """A resource of a server; the credential's header, and the file its value is read from."""

    resource: str
    credential: tuple[str, str] | None = None


class LoadedProbe(Struct, frozen=True, kw_only=True):
    """A probe ready to use. ``upstream`` names a gateway upstream, else ``target`` is its own.
    ``template``: the path and query of HTTP, the URI of an MCP resource, None for SQL.

    ``when_names`` and ``expect_names`` are the variables that the expressions use.
    """

    name: str
    when: Expression
    when_names: frozenset[str]
    expect: Expression
    expect_names: frozenset[str]
    template: Template | None
    upstream: str | None
    target: Target | None
    sql: SqlProbe | None
    mcp: McpProbe | None
    deadline_ns: int
    until_ns: int
    stable_ns: int
    fresh_ns: int | None


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """One question about one step: by ``sql``, by ``mcp``, else by HTTP. ``refused`` is the code of
    why it cannot be asked."""

    probe: str
    step_id: str
    subject: str | None
    upstream: str | None
    target: Target | None
    path_query: str
    refused: str | None
    expect: Expression
    bindings: dict[str, Any]
    ended_ns: int
    deadline_ns: int
    until_ns: int
    stable_ns: int = 0
    fresh_ns: int | None = None
    sql: SqlAsk | None = None
    mcp: McpAsk | None = None

    @property
    def seat(self) -> str:
        """What is asked, by name: those who ask the same one wait for each other."""
        if self.sql is not None:
            return f"sql {self.sql.database}"
        if self.mcp is not None:
            return f"mcp {self.probe}"
        return f"http {self.upstream or self.probe}"


class ProbeReply(Struct, frozen=True, kw_only=True):
    """A whole answer, header names in lower case."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def load(probes: Sequence[Probe]) -> tuple[LoadedProbe, ...]:
    """The probes of a configuration, compiled. Raises Problem naming the place (probes.0.when)."""
    seen: set[str] = set()
    for index, probe in enumerate(probes):
        if probe.name in seen:
            raise Problem(f"probes.{index}.name", f"{probe.name!r} is named twice")
        seen.add(probe.name)
    return tuple(_loaded(f"probes.{index}", probe) for index, probe in enumerate(probes))


def faults(where: str, probe: Probe) -> Iterator[Problem]:
    """Everything that does not compile, each at its place; the values themselves are in order."""
    for compiled in (_place, _when, _expect):
        try:
            compiled(where, probe)
        except Problem as problem:
            yield problem


def _loaded(where: str, probe: Probe) -> LoadedProbe:
    for problem in probe.problems():
        raise Problem(f"{where}.{problem.path}", problem.text)
    template, target = _place(where, probe)
    when, expect = _when(where, probe), _expect(where, probe)
    return LoadedProbe(
        name=probe.name,
        when=when,
        when_names=_uses(when),
        expect=expect,
        expect_names=_uses(expect),
        template=template,
        upstream=(probe.http.upstream or None) if probe.http is not None else None,
        target=target,
        sql=probe.sql,
        mcp=probe.mcp,
        deadline_ns=probe.deadline_ns,
        until_ns=probe.until_ns,
        stable_ns=probe.stable_ns,
        fresh_ns=probe.fresh_ns,
    )


def _when(where: str, probe: Probe) -> Expression:
    return _expression(f"{where}.when", probe.when, _WHEN_SEES)


def _expect(where: str, probe: Probe) -> Expression:
    answer = "rows" if probe.sql is not None else "response"
    return _expression(f"{where}.expect", probe.expect, _EXPECT_SEES | {answer})


def _place(where: str, probe: Probe) -> tuple[Template | None, Target | None]:
    """What is asked for, and where if it is not at an upstream or a database."""
    if probe.sql is not None:
        return None, None
    origin: str | None = None
    if probe.mcp is not None:
        key, text, origin = "mcp.resource", probe.mcp.resource, probe.mcp.url
        ranges = probe.mcp.allow_cidrs
    else:
        http = probe.http
        assert http is not None, "one way to ask is there: problems"
        ranges = http.allow_cidrs
        if http.upstream:
            key, text = "http.get", http.get
        else:
            key, (origin, text) = "http.url", _split(where, http.url)
    try:
        template = read_template(text, uri=probe.mcp is not None)
    except TemplateInvalid as error:
        raise Problem(f"{where}.{key}", str(error)) from error
    if origin is None:
        return template, None
    target = Target(name=probe.name, url=origin, allow_cidrs=ranges)
    try:
        read_target(target)
    except TargetRefused as error:
        raise Problem(f"{where}.{key}", str(error)) from error
    return template, target


def _split(where: str, url: str) -> tuple[str, str]:
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise Problem(f"{where}.http.url", str(error)) from error
    if "{" in parts.netloc or "{" in parts.scheme:
        raise Problem(f"{where}.http.url", "may have values in path and query only")
    query = f"?{parts.query}" if parts.query else ""
    return f"{parts.scheme}://{parts.netloc}", (parts.path or "/") + query


def _expression(where: str, text: str, variables: frozenset[str]) -> Expression:
    try:
        return compile_expression(text, variables=variables)
    except ExpressionInvalid as error:
        raise Problem(where, str(error)) from error


def plan(trace: AgentTrace, probes: Sequence[LoadedProbe]) -> tuple[ProbeRequest, ...]:
    """The questions to ask about a trace with its receipts attached, nothing redacted."""
    if not probes:
        return ()
    views = _Views(trace)
    return tuple(
        _request(probe, step, views)
        for probe in probes
        for step in trace.steps
        if _was_made(step) and _picked(probe, step, views)
    )


def _was_made(step: Step) -> bool:
    return step.status not in _NEVER_MADE or step.receipt_id is not None


class _Views:
    """Steps and trace as expressions see them; built when first needed."""

    def __init__(self, trace: AgentTrace) -> None:
        self._trace = trace
        self._whole: dict[str, Any] | None = None
        self._steps: dict[str, dict[str, Any]] = {}
        self._arguments = {
            item.step_id: item.data["arguments"]
            for item in trace.evidence
            if item.source == "receipt" and isinstance(item.data.get("arguments"), dict)
        }

    def bindings(self, names: frozenset[str], step: Step, text: str) -> dict[str, Any]:
        """Those of step, trace and arguments that ``names`` holds, for an expression's text."""
        found: dict[str, Any] = {}
        if "step" in names:
            found["step"] = self._step(step, text)
        if "trace" in names:
            found["trace"] = self._all()
        if "arguments" in names:
            found["arguments"] = self.arguments(step)
        return found

    def arguments(self, step: Step) -> dict[str, Any]:
        """Rule 3; an empty object where they are unknown."""
        own = step.tool.arguments if step.tool is not None else None
        found = self._arguments.get(step.step_id, own)
        return found if isinstance(found, dict) else {}

    def _step(self, step: Step, text: str) -> dict[str, Any]:
        # Histories are large and rarely asked for: only an expression that names them gets them.
        if any(name in text for name in _BULKY):
            whole: dict[str, Any] = msgspec.to_builtins(step)
            return whole
        if step.step_id not in self._steps:
            slim = msgspec.structs.replace(step, messages_in=None, messages_out=None, output=None)
            self._steps[step.step_id] = msgspec.to_builtins(slim)
        return self._steps[step.step_id]

    def _all(self) -> dict[str, Any]:
        if self._whole is None:
            self._whole = msgspec.to_builtins(self._trace)
        return self._whole


def _uses(expression: Expression) -> frozenset[str]:
    return frozenset(name.text for name in read_shape(expression.text).variables)


def _picked(probe: LoadedProbe, step: Step, views: _Views) -> bool:
    bindings = views.bindings(probe.when_names, step, probe.when.text)
    try:
        return probe.when.holds({"step": None, "trace": None, **bindings})
    except ExpressionFailed:
        return False


def _request(probe: LoadedProbe, step: Step, views: _Views) -> ProbeRequest:
    names = probe.expect_names | _roots(probe)
    bindings = views.bindings(names, step, probe.expect.text)
    path_query, sql, mcp, refused = "", None, None, None
    try:
        if probe.sql is not None:
            sql = _sql_ask(probe.sql, bindings)
        else:
            assert probe.template is not None
            path_query = probe.template.fill(bindings)
            mcp = _mcp_ask(probe.mcp, path_query) if probe.mcp is not None else None
    except ValueRefused as error:
        refused = str(error)
    return ProbeRequest(
        probe=probe.name,
        step_id=step.step_id,
        subject=step.tool.name if step.tool is not None else None,
        upstream=probe.upstream,
        target=probe.target,
        path_query=path_query,
        sql=sql,
        mcp=mcp,
        refused=refused,
        expect=probe.expect,
        bindings=bindings,
        ended_ns=step.end_ns,
        deadline_ns=probe.deadline_ns,
        until_ns=probe.until_ns,
        stable_ns=probe.stable_ns,
        fresh_ns=probe.fresh_ns,
    )


def _roots(probe: LoadedProbe) -> frozenset[str]:
    if probe.sql is not None:
        return frozenset(value.partition(".")[0] for value in probe.sql.parameters)
    return probe.template.roots if probe.template is not None else frozenset()


def _sql_ask(sql: SqlProbe, bindings: Mapping[str, Any]) -> SqlAsk:
    values = []
    for name in sql.parameters:
        value = look_up(name.split("."), bindings)
        if value is None:
            raise ValueRefused("sql_value_missing")
        if not isinstance(value, str | int | float):
            raise ValueRefused("sql_value_not_scalar")
        values.append(value)
    return SqlAsk(database=sql.database, query=sql.query, values=tuple(values))


def _mcp_ask(mcp: McpProbe, resource: str) -> McpAsk:
    credential = (mcp.credential.header, mcp.credential.file) if mcp.credential else None
    return McpAsk(resource=resource, credential=credential)


def judge_response(
    request: ProbeRequest, reply: ProbeReply, *, now_ns: int, attempts: int = 1
) -> Evidence:
    """What an answer proves about the step."""
    headers = _joined(reply.headers)
    observed_ns = now_ns - _age_ns(headers)
    data = {"http_status": reply.status, "attempts": attempts}
    if _says_nothing(request, reply):
        return unknown(request, f"http_{reply.status}", now_ns=now_ns, data=data)
    text = reply.body.decode("utf-8", "replace")
    try:
        said = read_json(text)
    except TooMuch:
        if "json" in request.expect.text:
            return unknown(request, "answer_too_large", now_ns=now_ns, data=data)
        said = None
    response = {"status": reply.status, "headers": headers, "json": said, "text": text}
    return judge_answer(request, "response", response, at_ns=observed_ns, now_ns=now_ns, data=data)


def judge_answer(
    request: ProbeRequest,
    name: str,
    answer: Any,
    *,
    at_ns: int,
    now_ns: int,
    data: Mapping[str, Any],
) -> Evidence:
    """What an answer of state at ``at_ns`` proves; ``expect`` sees it under ``name``."""
    # A step that says it ends in the future cannot make every look at its state too early.
    ended_ns = min(request.ended_ns, now_ns)
    if at_ns < ended_ns:
        return unknown(request, "stale", now_ns=now_ns, data=data)
    if request.fresh_ns is not None and at_ns > ended_ns + request.fresh_ns:
        return unknown(request, "too_late", now_ns=now_ns, data=data)
    try:
        held = request.expect.holds({**request.bindings, name: answer})
    except ExpressionFailed:
        return unknown(request, "expect_without_value", now_ns=now_ns, data=data)
    detail = None if held else "expectation_not_met"
    return _evidence(request, held, detail, at_ns, dict(data))


def unknown(
    request: ProbeRequest, code: str, *, now_ns: int, data: Mapping[str, Any] | None = None
) -> Evidence:
    """Evidence that could not be had, and the code of why."""
    return _evidence(request, None, code, now_ns, dict(data or {}))


def _evidence(
    request: ProbeRequest, held: bool | None, detail: str | None, at_ns: int, data: dict[str, Any]
) -> Evidence:
    return Evidence(
        evidence_id=f"probe:{request.probe}:{request.step_id}",
        source="probe",
        name=request.probe,
        held=held,
        subject=request.subject,
        step_id=request.step_id,
        observed_ns=at_ns,
        detail=detail,
        data=data,
    )


def _says_nothing(request: ProbeRequest, reply: ProbeReply) -> bool:
    looks_itself = "response.status" in request.expect.text
    return not looks_itself and (reply.status in _SILENT_STATUSES or reply.status >= 500)


def _age_ns(headers: Mapping[str, str]) -> int:
    age = headers.get("age", "").strip()
    return int(age) * 1_000_000_000 if age.isascii() and age.isdigit() and len(age) < 10 else 0


def _joined(headers: Sequence[tuple[str, str]]) -> dict[str, str]:
    joined: dict[str, str] = {}
    for name, value in headers:
        joined[name] = f"{joined[name]}, {value}" if name in joined else value
    return joined
