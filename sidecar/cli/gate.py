"""``sidecar gate``: verdicts that were given, why, and whether their evidence still holds."""

from collections.abc import Mapping
from pathlib import Path

import click

from processors.model.verdict import Verdict
from sidecar.app import opening
from sidecar.app.attesting import trusted_keys
from sidecar.app.loading import load_config
from sidecar.cli.moments import instant
from sidecar.cli.options import common, emit, say, to_json
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.gate.files import log_path, read_bundle, read_log
from sidecar.gate.process import Stored, Verified, verify_bundle
from sidecar.gate.report import verdict_markdown, verdict_text
from sidecar.gate.report.render import form_of, render
from sidecar.gate.report.verdict import verdict_report
from sidecar.outcome import Exits
from sidecar.plain import plain, plained
from sidecar.store.verdicts import VerdictQuery, VerdictSummary

_RENDER = {"text": verdict_text.render, "markdown": verdict_markdown.render}


@click.group()
def command() -> None:
    """Show, explain and verify gate verdicts.

    \b
    Example:
      $ sidecar gate verify 0192…
      0192… holds: 41 files, root sha256:7d5e…
    """


@command.command("list")
@click.option("--project", default=None, help="Only this project's.")
@click.option("--suite", default=None, help="Only this suite's.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@common(outputs=("text", "json", "jsonl"))
def list_(
    project: str | None,
    suite: str | None,
    limit: int,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """List verdicts, newest first.

    \b
    Example:
      $ sidecar gate list --suite refunds --limit 1
      2026-11-30T09:14:02Z  BLOCK      0192…  refunds  1.4.0 / 1.3.1
    """
    loaded = load_config(config, store)
    with opening.open_verdicts(loaded) as verdicts:
        found = verdicts.list_verdicts(VerdictQuery(project=project, suite=suite, limit=limit))
    emit(found, output, lambda: "\n".join(map(_line, found)) or "no verdicts")


@command.command()
@click.argument("verdict_id", metavar="ID")
@common(outputs=("text", "json", "junit", "markdown", "sarif", "github", "html"))
def show(verdict_id: str, config: str | None, store: str | None, output: str) -> None:
    """Show a verdict; ID may be its beginning, where that is unique.

    \b
    Example:
      $ sidecar gate show 0192
      BLOCK  refunds: 1.4.0 against 1.3.1
        9 cases: 2 new critical, 1 regressed, 6 unchanged
        …
    """
    verdict = _find(load_config(config, store), verdict_id)
    say(shown(verdict, output))


@command.command()
@click.argument("verdict_id", metavar="ID")
@common()
def explain(verdict_id: str, config: str | None, store: str | None, output: str) -> None:
    """Explain a verdict: every case, every rule that fired with its operands, what was pinned.

    \b
    Example:
      $ sidecar gate explain 0192
      BLOCK  refunds: 1.4.0 against 1.3.1
      …
      rules that fired
        …
    """
    verdict = _find(load_config(config, store), verdict_id)
    emit(verdict, output, lambda: verdict_text.explain(verdict))


@command.command()
@click.argument("what", metavar="ID|PATH")
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where the evidence of ID is now [default: where it was written].",
)
@click.option(
    "--key",
    "keys",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="Public key (PEM) that must have signed it; may be repeated.",
)
@common()
def verify(
    what: str,
    evidence: Path | None,
    keys: tuple[Path, ...],
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Check evidence: every byte, its signatures, and the verdict made again in a clean process.

    ID is a stored verdict: its evidence must be the one it was stored with, and the log must say
    so. PATH is a bundle, wherever it came from: no store is needed. Without --key a signature
    shows that nothing was changed since, not whose it is. Exits 1 when something does not hold.

    \b
    Example:
      $ sidecar gate verify 0192
      0192… holds: 41 files, root sha256:7d5e…
    """
    trusted = trusted_keys(keys)
    if _is_folder(what):
        found = verify_bundle(read_bundle(Path(what)), trusted)
    else:
        loaded = load_config(config, store)
        verdict = _find(loaded, what)
        log = read_log(log_path(Path(loaded.store_folder) / "evidence", verdict.project))
        files = read_bundle(evidence or _folder(loaded, verdict))
        found = verify_bundle(files, trusted, Stored(verdict=verdict, log=log))
    emit(found, output, lambda: _verified(found))
    return ExitCode.GOOD if found.holds else ExitCode.FAILED


def bundle_of(what: str, loaded: Loaded) -> Mapping[str, bytes]:
    """The files of a folder of evidence, or of a stored verdict's. Raises SidecarError."""
    if _is_folder(what):
        return read_bundle(Path(what))
    return read_bundle(_folder(loaded, _find(loaded, what)))


def shown(
    verdict: Verdict, output: str, exits: Exits | None = None, exit_code: int | None = None
) -> str:
    """A verdict in a form of ``--output``; how it exits, where the command exits by it."""
    if output == "json":
        return to_json(verdict)
    if output in _RENDER:
        return _RENDER[output](verdict)
    return render(verdict_report(verdict, exits, exit_code), form_of(output))


def _verified(found: Verified) -> str:
    named = found.verdict_id or "the bundle"
    if not found.holds:
        return "\n".join([f"{named} does not hold:", *(f"  {plain(one)}" for one in found.faults)])
    lines = [
        f"{named} holds: {found.files} files, root {found.root}",
        f"  {found.status or 'UNDECIDED'} again from the records, digest {found.digest}",
    ]
    for keyid in found.signed_by:
        known = "" if keyid in found.trusted else " (whose key it is was not asked: name it, --key)"
        lines.append(f"  signed by {keyid}{known}")
    return "\n".join(lines)


def _is_folder(what: str) -> bool:
    """Whether it names a bundle, its manifest missing or not; an ID is no folder here."""
    try:
        return Path(what).is_dir()
    except OSError:  # longer than any name
        return False


def _folder(loaded: Loaded, verdict: Verdict) -> Path:
    """Where the evidence lies: in the store, wherever that was moved to, else where it was put."""
    inside = Path(loaded.store_folder) / "evidence" / verdict.verdict_id
    return inside if inside.is_dir() else Path(str(verdict.evidence.get("folder", "")))


def _find(loaded: Loaded, verdict_id: str) -> Verdict:
    with opening.open_verdicts(loaded) as verdicts:
        verdict = verdicts.get_verdict(verdict_id)
    if verdict is None:
        raise SidecarError(
            f"there is no one verdict {verdict_id}", do="List them with: sidecar gate list"
        )
    return verdict


def _line(one: VerdictSummary) -> str:
    one = plained(one)
    when, word = instant(one.created_at_ns), one.status or "UNDECIDED"
    return f"{when}  {word:<9}  {one.verdict_id}  {one.suite}  {one.candidate} / {one.baseline}"
