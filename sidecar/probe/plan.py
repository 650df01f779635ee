"""Probes: which steps to ask the world about, what to ask, and what to make of the answer.

Rules
1. Everything that can be wrong with a probe's configuration is found at load.
2. A probe looks at the steps for which its ``when`` is true; a ``when`` without a value (a member
   the step does not have) is not true. Calls that were never made are not asked about.
3. The arguments are those the gateway read, else those the telemetry shows, before redaction.
4. ``expect`` true is held, false is not held; what could not be asked, read or evaluated is unknown
   with a code. So is an answer that says nothing of the state (401, 403, 408, 429, 5xx), unless
   ``expect`` looks at ``response.status`` itself.
5. An answer older than the step's end (its ``Age``) says nothing of the step.
"""

import json
from collections.abc import Mapping, Sequence
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
from sidecar.probe.config import Probe
from sidecar.probe.template import Template, TemplateInvalid, ValueRefused, read_template

_NEVER_MADE = ("requested_only", "denied", "deferred")
_BULKY: Final = ("messages_in", "messages_out", "output")
_WHEN_SEES = frozenset({"step", "trace"})
_EXPECT_SEES = _WHEN_SEES | {"arguments", "response"}
_SILENT_STATUSES = frozenset({401, 403, 407, 408, 425, 429})


class LoadedProbe(Struct, frozen=True, kw_only=True):
    """A probe ready to use. ``upstream`` names a gateway upstream, else ``target`` is its own.

    ``when_names`` and ``expect_names`` are the variables that the expressions use.
    """

    name: str
    when: Expression
    when_names: frozenset[str]
    expect: Expression
    expect_names: frozenset[str]
    template: Template
    upstream: str | None
    target: Target | None
    deadline_ns: int
    until_ns: int


class ProbeRequest(Struct, frozen=True, kw_only=True):
    """One question about one step. ``refused`` is the code of why it cannot be asked."""

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


def _loaded(where: str, probe: Probe) -> LoadedProbe:
    for problem in probe.problems():
        raise Problem(f"{where}.{problem.path}", problem.text)
    http = probe.http
    origin, path = (None, http.get) if http.upstream else _split(where, http.url)
    key = "get" if http.upstream else "url"
    try:
        template = read_template(path)
    except TemplateInvalid as error:
        raise Problem(f"{where}.http.{key}", str(error)) from error
    target = None
    if origin is not None:
        target = Target(name=probe.name, url=origin, allow_cidrs=http.allow_cidrs)
        try:
            read_target(target)
        except TargetRefused as error:
            raise Problem(f"{where}.http", str(error)) from error
    when = _expression(f"{where}.when", probe.when, _WHEN_SEES)
    expect = _expression(f"{where}.expect", probe.expect, _EXPECT_SEES)
    return LoadedProbe(
        name=probe.name,
        when=when,
        when_names=_uses(when),
        expect=expect,
        expect_names=_uses(expect),
        template=template,
        upstream=http.upstream or None,
        target=target,
        deadline_ns=probe.deadline_ns,
        until_ns=probe.until_ns,
    )


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
    names = probe.expect_names | probe.template.roots
    bindings = views.bindings(names, step, probe.expect.text)
    path_query, refused = "", None
    try:
        path_query = probe.template.fill(bindings)
    except ValueRefused as error:
        refused = str(error)
    return ProbeRequest(
        probe=probe.name,
        step_id=step.step_id,
        subject=step.tool.name if step.tool is not None else None,
        upstream=probe.upstream,
        target=probe.target,
        path_query=path_query,
        refused=refused,
        expect=probe.expect,
        bindings=bindings,
        ended_ns=step.end_ns,
        deadline_ns=probe.deadline_ns,
        until_ns=probe.until_ns,
    )


def judge_response(
    request: ProbeRequest, reply: ProbeReply, *, now_ns: int, attempts: int = 1
) -> Evidence:
    """What an answer proves about the step."""
    headers = _joined(reply.headers)
    observed_ns = now_ns - _age_ns(headers)
    data = {"http_status": reply.status, "attempts": attempts}
    if _says_nothing(request, reply):
        return unknown(request, f"http_{reply.status}", now_ns=now_ns, data=data)
    if observed_ns < request.ended_ns:
        return unknown(request, "stale", now_ns=now_ns, data=data)
    text = reply.body.decode("utf-8", "replace")
    response = {
        "status": reply.status,
        "headers": headers,
        "json": _json(reply.body),
        "text": text,
    }
    try:
        held = request.expect.holds({**request.bindings, "response": response})
    except ExpressionFailed:
        return unknown(request, "expect_without_value", now_ns=now_ns, data=data)
    detail = None if held else "expectation_not_met"
    return _evidence(request, held, detail, observed_ns, data)


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


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None
