"""``sidecar dataset``: what agents were asked, kept in versions, to be asked again.

Rules
1. A version is never changed: what is added, edited or removed makes the next one.
2. What is left out is told, with why; where nothing at all could be used the exit code is 2.
3. What is exported as a suite has been read as one, with its twins, before it is printed.
"""

from pathlib import Path
from typing import Any

import click

from sidecar.app import datasets
from sidecar.app.dataset_runs import Wanted, read_lines
from sidecar.app.loading import load_config
from sidecar.cli.moments import instant
from sidecar.cli.options import common, emit, say, talk, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.evaluate.datasets.item import Item, plain_item
from sidecar.expression.document import read
from sidecar.plain import plain, plained
from sidecar.replay.dataset_items import read_expectations
from sidecar.store.datasets import DatasetSummary, DatasetVersion

_SHOWN = 5
_FILE = click.Path(path_type=Path)


@click.group("dataset")
def command() -> None:
    """Make datasets of traces, tapes and lines of JSON; list and export their versions.

    \b
    Example:
      $ sidecar dataset create refunds
      $ sidecar dataset add refunds --query outcome=contradicted,since=7d --twin twin.yaml
      refunds version 1: 12 added, 12 items
      $ sidecar dataset export refunds --output suite --twin twin.yaml > suite.yaml
    """


@command.command("create")
@click.argument("name", metavar="NAME")
@click.option("--project", default=None, help="Whose it is [default: the first project].")
@common()
def create(
    name: str, project: str | None, config: str | None, store: str | None, output: str
) -> None:
    """Make an empty dataset: version 0.

    \b
    Example:
      $ sidecar dataset create refunds
      refunds version 0: 0 items
    """
    loaded = load_config(config, store)
    made = datasets.create(loaded, datasets.project_of(loaded, project), name)
    emit(made, output, lambda: f"{plain(name)} version 0: 0 items")


@command.command("add")
@click.argument("name", metavar="NAME")
@click.option("--query", default="", metavar="QUERY", help="Stored traces, as store:QUERY.")
@click.option("--trace", "traces", multiple=True, metavar="ID", help="One; may be repeated.")
@click.option("--tape", "tapes", multiple=True, type=_FILE, help="A tape; may be repeated.")
@click.option(
    "--capture", "captures", multiple=True, type=_FILE, help="OTLP requests; may be repeated."
)
@click.option(
    "--jsonl",
    "lines",
    multiple=True,
    type=click.Path(allow_dash=True),
    help="Lines of JSON; - is stdin.",
)
@click.option(
    "--twin", "twins", multiple=True, type=_FILE, help="Twin of the tools; may be repeated."
)
@click.option("--expect", type=_FILE, default=None, help="YAML list of expectations for all.")
@click.option("--tag", "tags", multiple=True, help="Tag for all; may be repeated.")
@click.option("--split", default="", help="Split for all, e.g. test.")
@click.option("--remove", "removed", multiple=True, metavar="ITEM", help="Leave this one out.")
@click.option("--project", default=None, help="Whose it is [default: the first project].")
@common()
def add(
    name: str,
    lines: tuple[str, ...],
    expect: Path | None,
    project: str | None,
    config: str | None,
    store: str | None,
    output: str,
    **more: Any,
) -> int:
    """Add runs and lines of JSON to a dataset, as one new version.

    QUERY is service, trace, since, until, outcome or limit, each =VALUE, comma-separated. With a
    twin an item also has the world as its run had read it. A line with the item_id of an item that
    is there edits it. What asks the same as an item that is there is not added again.

    \b
    Example:
      $ sidecar dataset add refunds --trace 8dbc77aa01b2c3d4e5f60718293a4b5c --tag late
      refunds version 2: 1 added, 13 items
    """
    loaded = load_config(config, store)
    wanted = Wanted(
        lines=tuple(line for file in lines for line in _lines(file)),
        expect=read_expectations(_yaml(expect)) if expect is not None else (),
        **more,
    )
    found = datasets.add(loaded, datasets.project_of(loaded, project), name, wanted)
    for one in found.left_out:
        talk(f"left out: {one.run}: {one.why}")
    for note in found.notes:
        talk(note)
    emit(found, output, lambda: _added(found))
    nothing = not (found.added or found.edited or found.removed or found.duplicates)
    return ExitCode.UNDECIDED if found.left_out and nothing else ExitCode.GOOD


@command.command("erase")
@click.option(
    "--trace", "traces", multiple=True, metavar="ID", help="What was made from it; repeatable."
)
@click.option("--item", "items", multiple=True, metavar="ITEM", help="This item; repeatable.")
@click.option("--project", default=None, help="Whose it is [default: the first project].")
@common()
def erase(
    traces: tuple[str, ...],
    items: tuple[str, ...],
    project: str | None,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Erase what items say, in every dataset and version of a project, for good.

    The item stays, with its digest and its link: what a version was can still be told. One that was
    edited counts once for each edit. Exit code 2 where there is nothing under a name that is given:
    a mistyped one erases nothing.

    \b
    Example:
      $ sidecar dataset erase --trace 8dbc77aa01b2c3d4e5f60718293a4b5c
      1 item says nothing any more
    """
    if not traces and not items:
        raise SidecarError("there is nothing to erase", where="--trace, --item", do="Name one.")
    loaded = load_config(config, store)
    whose = datasets.project_of(loaded, project)
    done = datasets.erase(loaded, whose, traces=traces, items=items)
    word = "item says" if done.erased == 1 else "items say"
    emit(done, output, lambda: f"{done.erased} {word} nothing any more")
    for name in done.nothing:
        talk(f"nothing of project {whose} is from {name}, or it says nothing any more already")
    return ExitCode.UNDECIDED if done.nothing else ExitCode.GOOD


@command.command("list")
@click.argument("name", metavar="[NAME]", required=False)
@click.option("--project", default=None, help="Only this project's [of NAME: the first project's].")
@common(outputs=("text", "json", "jsonl"))
def list_(
    name: str | None, project: str | None, config: str | None, store: str | None, output: str
) -> None:
    """List datasets with their newest versions, or the versions of one.

    \b
    Example:
      $ sidecar dataset list
      refunds  version 2  13 items  2026-11-30T09:14:02Z  sha256:5b1e…
    """
    loaded = load_config(config, store)
    if name is None:
        named = None if project is None else datasets.project_of(loaded, project)
        found = datasets.listed(loaded, named)
        emit(found, output, lambda: "\n".join(map(_line, found)) or "no datasets")
        return
    versions = datasets.versions(loaded, datasets.project_of(loaded, project), name)
    emit(versions, output, lambda: "\n".join(map(_line, versions)))


@command.command("export")
@click.argument("name", metavar="NAME")
@click.option("--version", type=click.IntRange(0), default=None, help="[default: the newest]")
@click.option("--tag", "tags", multiple=True, help="Only items with this tag; may be repeated.")
@click.option("--split", default="", help="Only items of this split.")
@click.option(
    "--twin", "twins", multiple=True, type=_FILE, help="Twin of the suite; may be repeated."
)
@click.option("--agent", default="", help="Name that policy knows the suite's agent by.")
@click.option("--to", type=_FILE, default=None, help="File to be written [default: stdout].")
@click.option("--project", default=None, help="Whose it is [default: the first project].")
@common(outputs=("jsonl", "suite", "json"), default="jsonl")
def export(
    name: str,
    version: int | None,
    tags: tuple[str, ...],
    split: str,
    twins: tuple[Path, ...],
    agent: str,
    to: Path | None,
    project: str | None,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Write a version's items as lines of JSON, or as a suite that replay and scenario run take.

    Twins are named in the suite relative to --to, or to the folder this is called in.

    \b
    Example:
      $ sidecar dataset export refunds --output suite --twin twin.yaml --to suite.yaml
      $ sidecar scenario run suite.yaml --agent "cmd:agent --version 1.3.0"
    """
    loaded = load_config(config, store)
    found = datasets.exported(loaded, datasets.project_of(loaded, project), name, version)
    if found.erased:
        talk(f"{len(found.erased)} items say nothing more: what they said was erased")
    items = [one for one in found.items if _wanted(one, tags, split)]
    if output == "suite":
        text = datasets.suite_text(found.version, items, twins, agent, to)
    elif twins or agent:
        raise SidecarError("only a suite has twins and an agent", where="--output", do="suite.")
    elif output == "json":
        text = to_json({"version": found.version, "items": [plain_item(one) for one in items]})
    else:
        text = datasets.lines_text(items)
    if to is not None:
        datasets.write(to, text)
        talk(f"{len(items)} items of version {found.version.version} written to {to}")
    elif text:
        say(text.rstrip("\n"))
    return ExitCode.GOOD


def _wanted(item: Item, tags: tuple[str, ...], split: str) -> bool:
    return (not tags or bool(set(tags) & set(item.tags))) and (not split or item.split == split)


def _lines(path: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    try:
        with click.open_file(path, "rb") as file:
            return read_lines(file.read().decode("utf-8"), path)
    except OSError as error:
        raise SidecarError(f"the file cannot be read: {error.strerror}", where=path) from None
    except UnicodeDecodeError:
        raise SidecarError("it is not UTF-8 text", where=path) from None


def _yaml(path: Path) -> Any:
    try:
        return read(path.read_text(encoding="utf-8"), name=str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise SidecarError(f"the file cannot be read: {error}", where=str(path)) from None


def _added(found: datasets.Added) -> str:
    found = plained(found)
    told = [
        f"{len(some)} {word}"
        for word, some in (
            ("added", found.added),
            ("edited", found.edited),
            ("removed", found.removed),
            ("there already", found.duplicates),
            ("left out", found.left_out),
        )
        if some
    ]
    head = f"{found.name} version {found.version}: {', '.join([*told, f'{found.items} items'])}"
    return f"{head}\n  {found.digest}"


def _line(one: DatasetSummary | DatasetVersion) -> str:
    one = plained(one)
    erased = getattr(one, "erased", 0)
    words = [
        *([] if one.project == "default" else [one.project]),
        one.name,
        f"version {one.version}",
        f"{one.items} items" + (f" ({erased} erased)" if erased else ""),
        instant(one.created_at_ns),
        one.digest,
    ]
    return "  ".join(words)
