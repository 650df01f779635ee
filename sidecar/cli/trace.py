"""``sidecar trace``: what agents did, from captures or from the store.

Rules
1. ``normalise`` needs no store and no running sidecar; content is kept whole. The others read the
   store, running or not; what they print has passed redaction.
2. One bad capture is reported on stderr and the others go on; the exit code is 1 at the end.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from processors.model.names import OutcomeStatus
from processors.model.span import Batch
from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli import trace_view
from sidecar.cli.moments import HELP, Moment
from sidecar.cli.options import common, emit, say, show_lines, talk, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.otlp.files import BadCapture, decoded, requests_of
from sidecar.pipeline.build import build
from sidecar.plain import plain_lines, plained
from sidecar.store.traces import TraceQuery

_TAIL_SECONDS = 0.25
_TAIL_MAX = 256


@click.group()
def command() -> None:
    """Normalise, list, show and follow agent traces.

    \b
    Example:
      $ sidecar trace list --service refund-agent --since 24h --outcome contradicted
      STARTED                   TRACE     SERVICE             STEPS  REV  OUTCOME
      2026-07-01 12:00:00.123Z  8dbc77…   refund-agent 1.3.0  9      1    contradicted (…)
    """


@command.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@common(outputs=("jsonl", "json", "text"), default="text")
def normalise(paths: Sequence[str], config: str | None, store: str | None, output: str) -> None:  # noqa: ARG001
    """Turn captured OTLP requests into agent traces.

    PATH is a request (NNNN.traces.binpb, NNNN.logs.json, …) or a folder of them; of one stem the
    .binpb is read. Each trace is printed with the PATH it came from as `capture`.

    \b
    Example:
      $ sidecar trace normalise ./capture --output text
      ./capture  trace 8dbc…  refund-agent  complete  7 steps  702 in, 102 out
    """
    failed = 0
    printed: list[dict[str, object]] = []
    for path in paths:
        try:
            traces = _normalised(path)
        except BadCapture as error:
            talk(error.text())
            failed += 1
            continue
        for trace in traces:
            if output == "jsonl":
                say(to_json(as_json(trace, path), indent=None))
            elif output == "text":
                say(plain_lines(as_text(trace, path)))
            else:
                printed.append(as_json(trace, path))
    if output == "json":
        say(to_json(printed))
    if failed:
        click.get_current_context().exit(int(ExitCode.FAILED))


@command.command("list")
@click.option("--service", default=None, help="Only this OpenTelemetry service's.")
@click.option(
    "--since", "since_ns", type=Moment(), default=None, help=f"Started at or after. {HELP}"
)
@click.option(
    "--until", "until_ns", type=Moment(), default=None, help="Started before; as --since."
)
@click.option(
    "--outcome", type=click.Choice(get_args(OutcomeStatus)), default=None, help="Only this outcome."
)
@click.option("--project", default=None, help="Only this project's.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="At most.")
@common(outputs=("text", "json", "jsonl"))
def list_(config: str | None, store: str | None, output: str, **wanted: Any) -> None:
    """List published traces, the newest start first.

    \b
    Example:
      $ sidecar trace list --service refund-agent --since 24h --outcome contradicted
      STARTED                   TRACE     SERVICE             STEPS  REV  OUTCOME
      2026-07-01 12:00:00.123Z  8dbc77…   refund-agent 1.3.0  9      1    contradicted (…)
    """
    with opening.open_traces(load_config(config, store)) as traces:
        found = traces.list_traces(TraceQuery(**wanted))
    if output == "text":
        show_lines(trace_view.list_lines(found))
        if not found:
            click.echo(
                "A trace is listed once nothing comes for assemble.idle (default 30s).", err=True
            )
    else:
        emit(found, output, str)


@command.command()
@click.argument("trace_id")
@click.option("--project", default=None, help="Whose, where two projects have one trace id.")
@click.option("--revision", type=click.IntRange(1), default=None, help="[default: the newest]")
@click.option("--all", "every_step", is_flag=True, help="Also spans of kind other.")
@common()
def show(
    trace_id: str,
    config: str | None,
    store: str | None,
    output: str,
    every_step: bool,
    **which: Any,
) -> None:
    """Show a trace: its steps as a tree, with decisions, claims, evidence and outcome.

    \b
    Example:
      $ sidecar trace show 8dbc77aa01b2c3d4e5f60718293a4b5c
    """
    with opening.open_traces(load_config(config, store)) as traces:
        found = traces.get_trace(trace_id.lower(), **which)
    if found is None:
        raise SidecarError(
            "there is no such trace", where=trace_id, do="List the ids with: sidecar trace list"
        )
    if output == "text":
        show_lines(trace_view.trace_lines(found, every_step=every_step))
    else:
        emit(found, output, str)


@command.command()
@click.option("--service", default=None, help="Only this OpenTelemetry service's.")
@click.option(
    "--outcome", type=click.Choice(get_args(OutcomeStatus)), default=None, help="Only this outcome."
)
@click.option("--project", default=None, help="Only this project's.")
@common(outputs=("text", "jsonl"))
def tail(config: str | None, store: str | None, output: str, **wanted: Any) -> None:
    """Follow traces as they are published, each revision in a line, until Ctrl-C.

    \b
    Example:
      $ sidecar trace tail --outcome contradicted
      2026-07-01 12:00:31.002Z  8dbc77…  refund-agent 1.3.0  9 steps  rev 1  contradicted (…)
    """
    query = TraceQuery(**wanted, limit=_TAIL_MAX)
    with opening.open_published(load_config(config, store)) as published:
        place = published.place()
        talk("following what is published from now on; end with Ctrl-C")
        try:
            while True:
                place, found = published.after(place, query)
                for summary in found:
                    if output == "jsonl":
                        heard = say(to_json(summary, indent=None))
                    else:
                        heard = show_lines([trace_view.tail_line(summary)])
                    if not heard:
                        return
                if len(found) < _TAIL_MAX:
                    time.sleep(_TAIL_SECONDS)
        except KeyboardInterrupt:
            return


def as_json(trace: AgentTrace, capture: str | None = None) -> dict[str, object]:
    """The trace as JSON (docs/specs/trace.md), with ``capture`` where it came from a file."""
    plain: dict[str, object] = msgspec.to_builtins(trace, str_keys=True)
    return {"capture": capture, **plain} if capture is not None else plain


def as_text(trace: AgentTrace, capture: str) -> str:
    """A trace in one line, and its agent, model and tool steps in one line each."""
    trace = plained(trace)
    usage = trace.usage_total
    head = (
        f"{capture}  trace {trace.trace_id}  {trace.service.name or '-'}  {trace.completeness}  "
        f"{len(trace.steps)} steps  {usage.input or 0} in, {usage.output or 0} out"
    )
    lines = [_step_line(step) for step in trace.steps if step.kind != "other"]
    answer = [f"  answer: {trace.final_output}"] if trace.final_output else []
    return "\n".join([head, *lines, *answer])


def _step_line(step: Step) -> str:
    detail = f"  {json.dumps(step.tool.arguments, ensure_ascii=False)}" if step.tool else ""
    return f"  {step.kind:<10} {step.name}{detail}  {step.status}"


def _normalised(path: str) -> tuple[AgentTrace, ...]:
    batches = [decoded(file) for file in requests_of(Path(path))]
    merged = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(record for batch in batches for record in batch.logs),
        rejected=sum(batch.rejected for batch in batches),
    )
    if merged.rejected:
        talk(f"{path}: {merged.rejected} items could not be read and were left out")
    return build(merged, project="default", now_ns=clock.now_ns())
