"""How a trace is shown to people: a list of lines, and one trace as a tree of its steps.

Rules
1. Everything shown is in the trace: nothing is looked up, nothing concluded.
2. The same lines with and without colour; colour only says again what the words say.
3. Nothing in a trace starts a line, save lines of the answer, indented below ``answer``.
4. Steps of kind ``other`` are shown where they lead to one that is not, or when all are asked for.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from processors.model.detection import Detection
from processors.model.evidence import Claim, Evidence
from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar.plain import plain, plained
from sidecar.store.traces import TraceSummary

Line = tuple[str, str]
"""A line's text and its style (``rich``); an empty style is plain."""

_TEXT_MAX = 120
_NAME_WIDTH = 46
OUTCOME_STYLES = {
    "verified_success": "green",
    "verified_failure": "red",
    "contradicted": "bold red",
    "indeterminate": "yellow",
}
_STATUS_STYLES = {"error": "red", "denied": "red", "deferred": "yellow", "cancelled": "yellow"}
_HELD = {True: "held", False: "did not hold", None: "could not be seen"}


def list_lines(summaries: Sequence[TraceSummary]) -> list[Line]:
    """One line a trace, newest first, under a heading."""
    summaries = plained(summaries)
    if not summaries:
        return [("no traces", "")]
    rows = [("STARTED", "TRACE", "SERVICE", "STEPS", "REV", "OUTCOME"), *map(_row, summaries)]
    widths = [max(len(row[column]) for row in rows) for column in range(5)]
    styles = ["bold", *(OUTCOME_STYLES.get(item.outcome, "") for item in summaries)]
    return [
        ("  ".join((*(cell.ljust(w) for cell, w in zip(row, widths, strict=False)), row[5])), style)
        for row, style in zip(rows, styles, strict=True)
    ]


def trace_lines(trace: AgentTrace, *, every_step: bool) -> list[Line]:
    """A whole trace: heading, outcome, tree of steps, claims, evidence, what was found, answer."""
    answer = trace.final_output.split("\n") if trace.final_output else []
    trace = plained(trace)
    return [
        *_heading(trace),
        *_steps(trace, every_step),
        *_section("claims", map(_claim, trace.claims)),
        *_section("evidence", map(_evidence, trace.evidence)),
        *_section(
            "contradictions",
            (f"{item.code}: {item.detail}" for item in trace.outcome.contradictions),
            "red",
        ),
        *_section("detections", map(_detection, trace.detections), "yellow"),
        *_section("warnings", (f"{item.code}: {item.detail}" for item in trace.warnings)),
        *_section("answer", answer),
    ]


def tail_line(item: TraceSummary) -> Line:
    """A revision in the line that tells of its publication."""
    item = plained(item)
    _, trace_id, service, steps, revision, outcome = _row(item)
    published = _moment(item.published_ns)
    text = f"{published}  {trace_id}  {service}  {steps} steps  rev {revision}  {outcome}"
    return text, OUTCOME_STYLES.get(item.outcome, "")


def _row(item: TraceSummary) -> tuple[str, ...]:
    outcome: str = item.outcome
    if item.contradictions:
        outcome += f" ({', '.join(dict.fromkeys(item.contradictions))})"
    service = f"{item.service or '-'} {item.version or ''}".strip()
    moment = _moment(item.started_ns)
    return moment, item.trace_id, service, str(item.steps), str(item.revision), outcome


def _heading(trace: AgentTrace) -> Iterator[Line]:
    service = " ".join(filter(None, (trace.service.name or "-", trace.service.version)))
    yield f"trace {trace.trace_id}", "bold"
    yield (
        f"  {service}  project {trace.project}  revision {trace.revision}  {trace.completeness}",
        "",
    )
    yield f"  outcome {trace.outcome.status}", OUTCOME_STYLES.get(trace.outcome.status, "")
    begun, ended = _bounds(trace.steps)
    usage = trace.usage_total
    tokens = f"; {usage.input or 0} tokens in, {usage.output or 0} out" if usage.input else ""
    yield f"  started {_moment(begun)}, took {_seconds(ended - begun)}{tokens}", ""


def _steps(trace: AgentTrace, every_step: bool) -> Iterator[Line]:
    shown = trace.steps if every_step else _leading_somewhere(trace.steps)
    known = {step.step_id for step in shown}
    below: dict[str | None, list[Step]] = {}
    for step in shown:
        parent = step.parent_step_id if step.parent_step_id in known else None
        below.setdefault(parent, []).append(step)
    yield "steps", "bold"
    begun, _ = _bounds(trace.steps)
    # An explicit stack: traces may be deeper than Python's.
    stack = _level(below.get(None, ()), "")
    while stack:
        step, lead, branch = stack.pop()
        yield f"{lead}{branch}{_step(step, begun, lead)}", _STATUS_STYLES.get(step.status, "")
        inner = lead + ("   " if branch.startswith("└") else "│  ")
        stack += _level(below.get(step.step_id, ()), inner)
    hidden = len(trace.steps) - len(shown)
    if hidden:
        yield f"  and {hidden} other spans (--all shows them)", "dim"


def _level(steps: Sequence[Step], lead: str) -> list[tuple[Step, str, str]]:
    """Siblings with their branches, last first, as a stack wants them."""
    last = len(steps) - 1
    return [(step, lead, "└─ " if number == last else "├─ ") for number, step in enumerate(steps)][
        ::-1
    ]


def _leading_somewhere(steps: Sequence[Step]) -> list[Step]:
    """Steps that are not ``other``, and the others above them."""
    by_id = {step.step_id: step for step in steps}
    kept: set[str] = set()
    for step in steps:
        if step.kind == "other":
            continue
        node: Step | None = step
        while node is not None and node.step_id not in kept:
            kept.add(node.step_id)
            node = by_id.get(node.parent_step_id or "")
    return [step for step in steps if step.step_id in kept]


def _step(step: Step, begun_ns: int, lead: str) -> str:
    name = f"{step.kind} {_short(step.name, 40)}"
    offset = _seconds(step.start_ns - begun_ns) if step.start_ns else "-"
    took = _seconds(step.end_ns - step.start_ns) if step.end_ns and step.start_ns else "-"
    width = max(_NAME_WIDTH - len(lead), len(name))
    return f"{name.ljust(width)} +{offset:>8} {took:>8}  {step.status}{_details(step)}"


def _details(step: Step) -> str:
    found = []
    if step.model is not None and (step.model.response_model or step.model.request_model):
        found.append(str(step.model.response_model or step.model.request_model))
    if step.tool is not None and step.tool.arguments is not None:
        found.append(_value(step.tool.arguments))
    if step.decision is not None:
        reasons = f" ({', '.join(step.decision.reasons)})" if step.decision.reasons else ""
        found.append(f"{step.decision.source} said {step.decision.effect}{reasons}")
    if step.receipt_id is not None:
        found.append(f"receipt {step.receipt_id}")
    if step.error is not None and (step.error.message or step.error.type):
        found.append(_short(str(step.error.message or step.error.type), _TEXT_MAX))
    return "".join(f"  {item}" for item in found)


def _claim(claim: Claim) -> str:
    said = f': "{_short(claim.text, _TEXT_MAX)}"' if claim.text else ""
    return f"{claim.subject or 'the run'} {claim.status} ({claim.source}, rule {claim.rule}){said}"


def _evidence(item: Evidence) -> str:
    parts = [f"{item.source} {item.name}: {_HELD[item.held]}"]
    if item.subject:
        parts.append(f"about {item.subject}")
    if item.receipt_id:
        parts.append(f"receipt {item.receipt_id}")
    if item.detail:
        parts.append(_short(item.detail, _TEXT_MAX))
    return ", ".join(parts)


def _detection(item: Detection) -> str:
    told = f"{item.severity} {item.code}: {item.sentence}"
    shown = next((one.excerpt for one in item.evidence if one.excerpt), None)
    return f'{told} ("{_short(shown, _TEXT_MAX)}")' if shown else told


def _section(name: str, items: Any, style: str = "") -> Iterator[Line]:
    lines = [(f"  {plain(item)}", style) for item in items]
    if lines:
        yield name, "bold"
        yield from lines


def _bounds(steps: Sequence[Step]) -> tuple[int, int]:
    begun = min((step.start_ns for step in steps if step.start_ns), default=0)
    ended = max((step.end_ns for step in steps if step.end_ns), default=begun)
    return begun, max(ended, begun)


def _moment(time_ns: int) -> str:
    if not time_ns:
        return "-"
    moment = datetime.fromtimestamp(time_ns / 1e9, UTC)
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{time_ns // 1_000_000 % 1000:03d}Z"


def _seconds(time_ns: int) -> str:
    return f"{time_ns / 1e9:.3f} s"


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return _short(text, _TEXT_MAX)


def _short(text: str, length: int) -> str:
    """One line of at most ``length`` characters, nothing in it that moves a terminal's cursor."""
    line = plain(text)
    return line if len(line) <= length else line[: length - 1] + "…"
