"""``sidecar calls``: tool calls that went through the gateway, and their receipts."""

from typing import Any, get_args

import click
import msgspec

from processors.model.call import Receipt
from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli.asking import control, in_path
from sidecar.cli.moments import instant
from sidecar.cli.options import common, deciding, emit, show_lines
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.plain import plain, plained
from sidecar.store.durable import DurableCall, DurableQuery, DurableState
from sidecar.store.ledger import CallQuery, CallRow, ClaimState
from sidecar.store.receipts import to_document


@click.group()
def command() -> None:
    """List and show tool calls and their receipts, and say what became of unknown ones.

    \b
    Example:
      $ sidecar calls list --state unknown
      2026-11-30T09:14:02Z  0192…  issue_refund  409  unknown  outcome_unknown
    """


@command.command("list")
@click.option("--project", default=None, help="Only this project's.")
@click.option("--tool", default=None, help="Only this tool's.")
@click.option("--trace", default=None, help="Only calls of this trace.")
@click.option("--state", type=click.Choice(get_args(ClaimState)), help="Only claims in this state.")
@click.option("--durable", type=click.Choice(get_args(DurableState)), help="Durable calls instead.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True)
@common(outputs=("text", "json", "jsonl"))
def list_(
    project: str | None,
    tool: str | None,
    trace: str | None,
    state: ClaimState | None,
    durable: DurableState | None,
    limit: int,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """List calls, newest first; with --durable dead the dead letters.

    \b
    Example:
      $ sidecar calls list --state unknown
      2026-11-30T09:14:02Z  0192…  issue_refund  409  unknown  outcome_unknown
    """
    if durable is not None:
        wanted = DurableQuery(project=project, state=durable, limit=limit)
        with opening.open_ledger(load_config(config, store)) as ledger:
            letters = ledger.list_durable(wanted)
        emit(letters, output, lambda: "\n".join(map(_letter, letters)) or "no calls")
        return
    query = CallQuery(project=project, tool=tool, trace_id=trace, state=state, limit=limit)
    with opening.open_ledger(load_config(config, store)) as ledger:
        found = ledger.list_calls(query)
    emit(found, output, lambda: "\n".join(map(_line, found)) or "no calls")


@command.command()
@click.argument("call_id")
@common()
def show(call_id: str, config: str | None, store: str | None, output: str) -> None:
    """Show one call with its receipts, oldest first; or how a durable call stands.

    \b
    Example:
      $ sidecar calls show 0192…
      2026-11-30T09:14:02Z  0192…  issue_refund  409  unknown  outcome_unknown
        receipt 0193…  executed  effect unknown
          …
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        found, letter = ledger.get_call(call_id), ledger.find_durable(call_id)
        stands = found if letter is None else letter
        if stands is None:
            raise SidecarError(
                f"there is no call {call_id}", do="List them with: sidecar calls list"
            )
        receipts = map(ledger.get_receipt, found.receipts if found else ())
        held = [each for each in receipts if each is not None]
    if output == "text":
        line = _line(stands) if isinstance(stands, CallRow) else _letter(stands)
        show_lines([(line, "bold"), *_receipts(held)])
    else:
        shown: dict[str, Any] = msgspec.to_builtins(stands)
        emit({**shown, "receipts": [to_document(each) for each in held]}, output, str)


@command.command()
@click.argument("call_id")
@click.option(
    "--outcome",
    type=click.Choice(["done", "not-done"]),
    required=True,
    help="done: it had its effect. not-done: it had none and never will.",
)
@deciding(why="How you know")
def resolve(
    call_id: str,
    outcome: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Say what became of a call whose outcome is unknown.

    Look it up where the effect would be first. After not-done the same key makes the call again;
    after done it is answered that the call was made.

    \b
    Example:
      $ sidecar calls resolve 0192… --outcome not-done --reason "no refund in the ledger"
      0192… not-done
    """
    path = f"/v1/calls/{in_path(call_id, 'a call')}/resolve"
    said = {"outcome": outcome.replace("-", "_"), "reason": reason}
    found = control(loaded, path, said)
    emit(found, output, lambda: plain(f"{found['call_id']} {outcome}"))


def _dispose(action: str, durable_id: str, reason: str, loaded: Loaded, output: str) -> None:
    path = f"/v1/durable-calls/{in_path(durable_id, 'a call')}/{action}"
    found = control(loaded, path, {"reason": reason})
    emit(found, output, lambda: plain(f"{found['durable_id']} {found['state']}"))


@command.command()
@click.argument("durable_id")
@deciding()
def requeue(
    durable_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Try a dead letter again from the start, as the same call with the same key.

    \b
    Example:
      $ sidecar calls requeue 0192… --reason "the tool is up again"
      0192… waiting
    """
    _dispose(
        "requeue",
        durable_id,
        reason,
        loaded,
        output,
    )


@command.command()
@click.argument("durable_id")
@deciding()
def discard(
    durable_id: str,
    reason: str,
    loaded: Loaded,
    output: str,
) -> None:
    """Put a dead letter away for good, or cancel what waits; its request is deleted.

    \b
    Example:
      $ sidecar calls discard 0192… --reason "refunded by hand"
      0192… discarded
    """
    _dispose(
        "discard",
        durable_id,
        reason,
        loaded,
        output,
    )


def _letter(call: DurableCall) -> str:
    call = plained(call)
    started, made = instant(call.created_at_ns), f"{call.attempts} attempts"
    return f"{started}  {call.durable_id}  {call.tool}  {call.state}  {made}  {call.code or ''}"


def _line(call: CallRow) -> str:
    call = plained(call)
    # Neither a stored answer given again nor a call to be made later is a denial: none was decided.
    undecided = call.phase in ("replayed", "accepted")
    decided = call.phase if undecided else call.decision_effect
    code = call.code or decided
    tool = call.tool or "(no tool)"
    started = instant(call.started_at_ns)
    return f"{started}  {call.call_id}  {tool}  {call.status}  {call.effect}  {code}"


def _receipts(receipts: list[Receipt]) -> list[tuple[str, str]]:
    lines: list[tuple[str, str]] = []
    for each in receipts:
        document = to_document(each)
        lines.append((f"  receipt {each.receipt_id}  {each.phase}  effect {each.effect}", "bold"))
        lines += [
            (f"    {name}: {_shown(value)}", "")
            for name, value in document.items()
            if value not in (None, "", []) and name not in ("receipt_id", "phase", "effect")
        ]
    return lines


def _shown(value: Any) -> str:
    return plain(", ".join(map(str, value)) if isinstance(value, list) else str(value))
