"""``sidecar trace``: what agents did, from captures or from the store.

Rules
1. ``normalise`` needs no store and no running sidecar; content is kept whole.
2. One bad capture is reported on stderr and the others go on; the exit code is 1 at the end.
"""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

import click
import msgspec

from processors.model.span import Batch
from processors.model.step import Step
from processors.model.trace import AgentTrace
from sidecar import clock
from sidecar.cli.options import common, talk, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.otlp.decode import Signal, Undecodable, decode
from sidecar.pipeline.build import build

_REQUEST = re.compile(r"(\d+)\.(traces|logs)\.(binpb|json)")


class BadCapture(SidecarError):
    """A capture that cannot be read: which, and why."""


@click.group()
def command() -> None:
    """Normalise, list and show agent traces."""


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
                click.echo(to_json(as_json(trace, path), indent=None))
            elif output == "text":
                click.echo(as_text(trace, path))
            else:
                printed.append(as_json(trace, path))
    if output == "json":
        click.echo(json.dumps(printed, indent=2, ensure_ascii=False))
    if failed:
        click.get_current_context().exit(int(ExitCode.FAILED))


def as_json(trace: AgentTrace, capture: str | None = None) -> dict[str, object]:
    """The trace as JSON (docs/specs/trace.md), with ``capture`` where it came from a file."""
    plain: dict[str, object] = msgspec.to_builtins(trace, str_keys=True)
    return {"capture": capture, **plain} if capture is not None else plain


def as_text(trace: AgentTrace, capture: str) -> str:
    """A trace in one line, and its agent, model and tool steps in one line each."""
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
    batches = [_decoded(file) for file in _requests(Path(path))]
    merged = Batch(
        spans=tuple(span for batch in batches for span in batch.spans),
        logs=tuple(record for batch in batches for record in batch.logs),
        rejected=sum(batch.rejected for batch in batches),
    )
    if merged.rejected:
        talk(f"{path}: {merged.rejected} items could not be read and were left out")
    return build(merged, project="default", now_ns=clock.now_ns())


def _requests(path: Path) -> Iterable[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise BadCapture("no such file or folder", where=str(path), do="Give a capture's path.")
    stems: dict[str, Path] = {}
    for file in sorted(path.iterdir(), key=lambda file: file.name, reverse=True):
        match = _REQUEST.fullmatch(file.name)
        if match:  # .json comes before .binpb in this order, so that the latter wins
            stems[f"{match[1]}.{match[2]}"] = file
    if not stems:
        raise BadCapture(
            "no OTLP request", where=str(path), do="Name them NNNN.traces.binpb or NNNN.logs.json."
        )
    return [stems[stem] for stem in sorted(stems)]


def _decoded(file: Path) -> Batch:
    signal: Signal = "logs" if ".logs." in file.name else "traces"
    try:
        payload = file.read_bytes()
        return decode(signal, "json" if file.suffix == ".json" else "protobuf", payload)
    except (OSError, Undecodable) as error:
        raise BadCapture(str(error), where=str(file), do="Capture it again.") from error
