"""``sidecar tape``: recorded runs: looked at, checked, asserted on, imported, written anew.

Rules
1. ``show``, ``verify`` and ``migrate`` need no store, no running sidecar and no server's extra.
2. A tape is read line by line and not held; what is left out is counted.
3. ``verify``: 0 sealed and sound, 1 something in it does not hold, 2 partial or of another major
   version, 3 no tape. Of several, the greatest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from sidecar import clock
from sidecar.canonical import NotCanonical
from sidecar.cli import tape_view
from sidecar.cli.options import common, emit, packaged, profiled, say, talk, to_json
from sidecar.cli.tape_coverage import coverage
from sidecar.cli.tape_diff import diff
from sidecar.cli.tape_expiry import expiring
from sidecar.cli.tape_record import record
from sidecar.cli.tape_replay import replay
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.gate.report.exhibit import tapes_of
from sidecar.gate.report.render import form_of, render
from sidecar.gate.report.seen import seen_report
from sidecar.outcome import Exits, Outcome, outcome_of, worst
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.examine import Examination
from sidecar.tape.files import Packaging, examine, migrate, read_tape
from sidecar.tape.model import SEAMS_OF, Event
from sidecar.tape.record import as_dict
from sidecar.tape.tape import MISSING

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.group()
def command() -> None:
    """Record, replay, show, verify, compare, assert on, import and migrate tapes.

    \b
    Example:
      $ sidecar tape record -o run.tape --capture redacted -- python agent.py "refund 12"
      $ sidecar tape replay run.tape --to new.tape -- python agent.py "refund 12"
      $ sidecar tape diff run.tape new.tape
    """


for _one in (record, replay, diff, coverage):
    command.add_command(_one)


@command.command()
@click.argument("tape", type=_FILE)
@click.option("--from", "first", type=click.IntRange(0), default=0, help="From this seq on.")
@click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="At most.")
@click.option("--kind", "kinds", type=click.Choice(list(SEAMS_OF)), multiple=True, help="Only it.")
@click.option("--event", type=click.IntRange(0), default=None, help="One event with its payloads.")
@profiled()
@common(outputs=("text", "json", "jsonl", "html"))
def show(
    tape: Path,
    first: int,
    limit: int,
    kinds: tuple[str, ...],
    event: int | None,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> None:
    """Show a tape: where it comes from, its events, and whether it is whole.

    A partial tape is shown as far as it goes. HTML is one file with every event, to be opened in
    a browser; --from, --limit and --kind are of the other forms.

    \b
    Example:
      $ sidecar tape show run.tape
      tape 0192…  sealed  5 events  fidelity L2  from sdk
        0  llm_call     provider  gpt-4o          ok
        1  tool_call    tool      issue_refund    unset
    """
    if output == "html":
        whole = read_tape(tape)
        say(render(seen_report(str(tape), whole, exits), "html", shown=tapes_of([whole])))
        return
    if event is not None:
        _show_event(tape, event, output, exits)
        return
    shown: list[Event] = []
    left_out = 0

    def take(one: Event) -> None:
        nonlocal left_out
        if one.seq < first or (kinds and one.kind not in kinds):
            return
        if len(shown) < limit:
            shown.append(one)
        else:
            left_out += 1

    found = examine(tape, take)
    if output == "jsonl":
        for one in shown:
            say(to_json(as_dict(one), indent=None))
        return
    value = {
        **exits.told(Outcome.OK),
        **_told(tape, found),
        "shown": [*map(as_dict, shown)],
        "left_out": left_out,
    }
    emit(value, output, lambda: tape_view.tape_text(found, shown, left_out))


@command.command()
@click.argument("tapes", nargs=-1, required=True, type=_FILE, metavar="TAPE...")
@profiled()
@common(outputs=("text", "json", "jsonl"))
def verify(
    tapes: Sequence[Path],
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Check tapes: every digest, every blob, the chain and the seal.

    Exits 1 when something does not hold, 2 when a tape is partial or of another major version.

    \b
    Example:
      $ sidecar tape verify run.tape
      run.tape holds: 5 events, exact sha256:7d5e…, behavior sha256:91aa…
    """
    told: list[dict[str, Any]] = []
    ends: list[Outcome] = []
    for path in tapes:
        try:
            found = examine(path)
        except SidecarError as error:
            ends.append(outcome_of(error.code))
            told.append({"tape": str(path), "state": "unreadable", "error": error.text()})
        else:
            ends.append(_end(found))
            told.append(_told(path, found))
    end = worst(ends)
    value = told if output == "jsonl" else {**exits.told(end), "tapes": told}
    emit(value, output, lambda: "\n".join(map(tape_view.verified_text, told)))
    return exits.code(end)


@command.command("assert")
@click.argument("tapes", nargs=-1, required=True, type=_FILE, metavar="TAPE...")
@click.option(
    "--assertions",
    type=_FILE,
    required=True,
    metavar="FILE",
    help="What must hold, as YAML (docs/specs/tape-assertions.md).",
)
@click.option("--strict", is_flag=True, help="What could not be asked (SKIP) fails.")
@expiring
@profiled()
@common(outputs=("text", "json", "jsonl", "markdown", "junit", "sarif", "github", "html"))
def assert_(
    tapes: Sequence[Path],
    assertions: Path,
    strict: bool,
    fresh: bool,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> int:
    """Judge tapes by assertions; a failure names the first event that offends.

    Exits 0 when all hold, 1 when one fails, 2 when it cannot be decided (a tape that is partial,
    tainted or does not hold, an assertion in error, or nothing that could be asked), 3 when the
    assertions or a tape cannot be read.

    \b
    Example:
      $ sidecar tape assert run.tape --assertions assertions.yaml
      run.tape: fail
        FAIL  no-loop  at 12  shell is called 6 times, at most 3 expected
    """
    # Imported here: the other commands do without the server's extra.
    from sidecar.cli.tape_assert import concluded, judged, reported, text_of
    from sidecar.evaluate.assertions.files import read_assertions

    named, now_ns = read_assertions(assertions), clock.now_ns()
    told = []
    for number, path in enumerate(tapes):
        one = judged(path, named, now_ns, strict=strict, fresh=fresh, exits=exits)
        told.append(one if output == "html" else one.settled(number))
    value = concluded(told, strict=strict, exits=exits)
    if output in ("text", "jsonl"):
        emit(value["tapes"], output, lambda: text_of(value))
    else:
        shown = tapes_of([one.judged.tape for one in told])
        say(render(reported(told, value, exits), form_of(output), own=value, shown=shown))
    code: int = value["exit_code"]
    return code


@command.command("migrate")
@click.argument("tape", type=_FILE)
@click.option("--to", type=_FILE, required=True, help="The new tape; it must not be there.")
@packaged
@click.option(
    "--codecs",
    type=click.Choice(["tape", "current"]),
    default="tape",
    show_default=True,
    help="Compare by the tape's own codecs, or by this version's.",
)
@profiled()
@common()
def migrate_(
    tape: Path,
    to: Path,
    packaging: Packaging,
    codecs: str,
    exits: Exits,
    config: str | None,  # noqa: ARG001
    store: str | None,  # noqa: ARG001
    output: str,
) -> None:
    """Write a tape anew: in this version's terms, or in another packaging.

    Where only the packaging changes, every digest stays. Else the new tape says what it is derived
    from. What does not hold is not migrated.

    \b
    Example:
      $ sidecar tape migrate run.tape --to shared/run.tape --packaging store
      shared/run.tape: 5 events, sealed; nothing but its packaging changed
    """
    wanted = Codecs(DEFAULT) if codecs == "current" else None
    found, reasons = migrate(tape, to, packaging, tape_id=clock.new_id(), codecs=wanted)
    value = {**exits.told(Outcome.OK), **_told(to, found), "changed": reasons}
    emit(value, output, lambda: tape_view.migrated_text(str(to), found, reasons))


@command.command("import")
@click.argument("paths", nargs=-1, required=True, metavar="PATH...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["otlp", "tau", "vcr", "store"]),
    required=True,
    help="OTLP captures, tau-bench runs, VCR cassettes, or what the store keeps of runs: stored "
    "traces and gateway traffic; PATH is store:QUERY then.",
)
@click.option(
    "--to",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="Folder for the tapes; made if it is not there.",
)
@packaged
@click.option(
    "--capture",
    type=click.Choice(["off", "redacted", "full"]),
    default=None,
    help="Content: digests only, with data masked, or whole [default: redacted; of the store what "
    "the project keeps, and never more].",
)
@click.option("--project", default=None, help="Whose runs of the store [default: the first].")
@profiled()
@common(outputs=("text", "json", "jsonl"))
def import_(
    paths: Sequence[str],
    form: str,
    to: Path,
    packaging: Packaging,
    capture: str | None,
    project: str | None,
    exits: Exits,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Make tapes of what others recorded; each says how far it may be trusted (fidelity).

    One bad PATH is reported and does not stop the others (exit 1 at the end). Of the store, a
    QUERY is as for `sidecar replay`; gateway calls are joined to their trace within the project,
    and calls that belong to no run are counted on stderr.

    \b
    Example:
      $ sidecar tape import ./capture --format otlp --to tapes
      tapes/8dbc77….tape  L2  14 events
      $ sidecar tape import store:since=24h --format store --to tapes
    """
    # Imported here: the other commands do without the server's extra.
    from sidecar.cli.tape_import import imported

    kept = None
    if form == "store":
        from sidecar.cli.tape_traffic import FromStore

        kept = FromStore(config, store, project, capture)
    try:
        to.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise SidecarError(f"the folder cannot be made: {error.strerror}", where=str(to)) from None
    told: list[dict[str, Any]] = []
    made: set[Path] = set()
    failed = False
    for path in paths:
        try:
            tapes = (
                imported(Path(path), form, to, packaging, capture or "redacted", made)
                if kept is None
                else kept.written(path, to, packaging, made)
            )
            for tape in tapes:
                told.append(_told(tape, examine(tape)))
        except StoreUnavailable:
            raise  # no PATH's fault
        except SidecarError as error:
            talk(f"error: {error.text()}")
            failed = True
    if kept is not None and kept.bare and told:
        talk(kept.bare)
    left_out = kept.left_out if kept is not None else {}
    for reason, calls in sorted(left_out.items()):
        talk(f"{calls} calls belong to no run and were left out: {reason}")
    end = Outcome.FAILED if failed else Outcome.OK
    value = {**exits.told(end), "tapes": told, "left_out": dict(left_out)}
    emit(
        told if output == "jsonl" else value,
        output,
        lambda: "\n".join(map(tape_view.imported_text, told)),
    )
    return exits.code(end)


def _show_event(path: Path, seq: int, output: str, exits: Exits) -> None:
    tape = read_tape(path)
    if seq >= len(tape.events):
        raise SidecarError(
            f"there is no event {seq}", where=str(path), do=f"It has {len(tape.events)}."
        )
    event = tape.events[seq]
    value = {**exits.told(Outcome.OK), **as_dict(event)}
    for side in ("in", "out"):
        try:
            payload = tape.payload(event, side)
            to_json(payload if payload is not MISSING else None)
        except (NotCanonical, RecursionError):  # `verify` says what is wrong with it
            value[f"{side}_unreadable"] = True
            continue
        if payload is not MISSING:
            value[f"{side}_payload"] = payload
    emit([value] if output == "jsonl" else value, output, lambda: to_json(_told_once(value)))


def _told_once(value: dict[str, Any]) -> dict[str, Any]:
    """An event without the inline form of the payloads that it is told with."""
    inline = value.get("inl", {})
    left = {side: one for side, one in inline.items() if f"{side}_payload" not in value}
    rest = {name: one for name, one in value.items() if name != "inl"}
    return {**rest, "inl": left} if left else rest


def _end(found: Examination) -> Outcome:
    if found.faults:
        return Outcome.FAILED
    return Outcome.OK if found.holds else Outcome.UNDECIDED


def _told(path: Path, found: Examination) -> dict[str, Any]:
    """One tape in JSON; the keys are fixed (docs/specs/tape.md)."""
    return {
        "tape": str(path),
        "state": found.state,
        "holds": found.holds,
        "cut": found.cut,
        "events": found.events,
        "fidelity": found.header.fidelity,
        "exact_digest": found.computed.exact_digest,
        "behavior_digest": found.computed.behavior_digest,
        "blobs": msgspec.to_builtins(found.computed.blobs),
        "faults": msgspec.to_builtins(found.faults),
        "more_faults": found.more_faults,
        "unchecked": found.unchecked,
        "expired": found.header.has_expired(clock.now_ns()),
        "header": as_dict(found.header),
        "seal": None if found.seal is None else as_dict(found.seal),
    }
