"""``sidecar store``: bring it up to date, back it up, delete what is kept no longer.

Rules
1. A backup is told good only when all of it is on the disk.
2. What was sealed stays sealed: the seal key is in no backup, and the command says so.
"""

from pathlib import Path

import click

from sidecar import clock
from sidecar.app import opening, pruning, sealing
from sidecar.app.loading import load_config
from sidecar.cli.options import common, emit, talk
from sidecar.store.upkeep import BackupManifest, SchemaState


@click.group("store")
def command() -> None:
    """Migrate, back up and prune the store.

    \b
    Example:
      $ sidecar store backup /backups/2026-11-30
      ledger.db   1.2 MB  sha256:9f2c…
      traces.db  48.0 MB  sha256:41aa…
    """


@command.command("migrate")
@click.option("--dry-run", is_flag=True, help="Only show what would be done.")
@common()
def migrate(dry_run: bool, config: str | None, store: str | None, output: str) -> None:
    """Make the store, or bring its schemas up to date; a starting sidecar does the same.

    \b
    Example:
      $ sidecar store migrate --dry-run
      ledger  schema 2 of 2
      traces  schema 1 of 2: would add lists
    """
    with opening.open_backend(load_config(config, store)) as stores:
        before = stores.schemas()
        if not dry_run:
            stores.migrate()
        after = before if dry_run else stores.schemas()
    shown = [
        {
            "name": was.name,
            "schema": now.number,
            "newest": now.newest,
            "pending": now.pending,
            "added": was.pending[: max(0, now.number - was.number)],
        }
        for was, now in zip(before, after, strict=True)
    ]
    lines = [_state(was, now) for was, now in zip(before, after, strict=True)]
    emit(shown, output, lambda: "\n".join(lines))


@command.command("backup")
@click.argument("folder", type=click.Path(path_type=Path))
@common()
def backup(folder: Path, config: str | None, store: str | None, output: str) -> None:
    """Copy the whole store, as it is at one moment, into a new FOLDER; a sidecar may run.

    On SQLite: copies of the files, to be put back into an empty data folder. On Postgres: a dump by
    pg_dump, to be put back by pg_restore. Digests are in manifest.json and SHA256SUMS.

    \b
    Example:
      $ sidecar store backup /backups/monday
      ledger.db          1.2 MB  sha256:9f2c…
      $ cd /backups/monday && sha256sum --check SHA256SUMS
      ledger.db: OK
    """
    loaded = load_config(config, store)
    with opening.open_backend(loaded) as stores:
        manifest = stores.backup(str(folder), clock.now_ns())
    emit(manifest, output, lambda: _files(manifest))
    talk(f"the seal key is not in it: keep {sealing.seal_key_path(loaded)} elsewhere")
    if manifest.kind == "postgres":
        talk("what receivers have acknowledged and not yet handed on lies in their own journals")


@command.command("prune")
@common()
def prune(config: str | None, store: str | None, output: str) -> None:
    """Delete what projects keep no longer (retention); a running sidecar does so by itself.

    \b
    Example:
      $ sidecar store prune
      128 revisions and the telemetry of 940 traces are gone
    """
    gone = pruning.prune_store(load_config(config, store))
    emit(gone, output, lambda: _gone(gone))


def _gone(gone: pruning.Pruned) -> str:
    lines = [f"{gone.revisions} revisions and the telemetry of {gone.telemetry} traces are gone"]
    if gone.items:
        lines.append(f"what {gone.items} items of datasets said is erased")
    for one in gone.outliving:
        lines.append(
            f"dataset {one.name} of project {one.project} still says what traces said that are gone"
            f" ({one.items} items)"
        )
    return "\n".join(lines)


def _state(was: SchemaState, now: SchemaState) -> str:
    line = f"{now.name:7} schema {now.number} of {now.newest}"
    if now.number > now.newest:
        return f"{line}: made by a newer program"
    if now.pending:
        return f"{line}: would add {', '.join(now.pending)}"
    return f"{line}: added {', '.join(was.pending)}" if was.pending else line


def _files(manifest: BackupManifest) -> str:
    return "\n".join(
        f"{file.name:12} {file.size_bytes / 1e6:9.1f} MB  sha256:{file.sha256}"
        for file in manifest.files
    )
