"""``sidecar gate``: verdicts that were given, why, and whether their evidence still holds."""

from pathlib import Path

import click

from processors.model.verdict import Verdict
from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli.moments import instant
from sidecar.cli.options import common, emit, say, to_json
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.gate.evidence import faults
from sidecar.gate.files import read_bundle
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
@common(outputs=("text", "json", "junit", "markdown", "sarif", "html"))
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
@click.argument("verdict_id", metavar="ID")
@click.option(
    "--evidence",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Where the evidence is now [default: where it was written].",
)
@common()
def verify(
    verdict_id: str, evidence: Path | None, config: str | None, store: str | None, output: str
) -> int:
    """Check a verdict's evidence: every file's hash, and the verdict made again from the records.

    Exits 1 when something does not hold.

    \b
    Example:
      $ sidecar gate verify 0192
      0192… holds: 41 files, root sha256:7d5e…
    """
    loaded = load_config(config, store)
    verdict = _find(loaded, verdict_id)
    files = read_bundle(evidence or _folder(loaded, verdict))
    found = faults(files, verdict)
    value = {
        "verdict_id": verdict.verdict_id,
        "holds": not found,
        "faults": found,
        "files": len(files),
        "root": verdict.evidence.get("root"),
    }
    emit(value, output, lambda: _verified(verdict, found, len(files)))
    return ExitCode.FAILED if found else ExitCode.GOOD


def shown(
    verdict: Verdict, output: str, exits: Exits | None = None, exit_code: int | None = None
) -> str:
    """A verdict in a form of ``--output``; how it exits, where the command exits by it."""
    if output == "json":
        return to_json(verdict)
    if output in _RENDER:
        return _RENDER[output](verdict)
    return render(verdict_report(verdict, exits, exit_code), form_of(output))


def _verified(verdict: Verdict, found: list[str], files: int) -> str:
    if found:
        told = [f"  {plain(one)}" for one in found]
        return "\n".join([f"{verdict.verdict_id} does not hold:", *told])
    return f"{verdict.verdict_id} holds: {files} files, root {verdict.evidence.get('root')}"


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
