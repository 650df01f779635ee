"""``sidecar tools``: the registry of tools, and drafts of one from what is there already."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import yaml

from sidecar.app.loading import load_config
from sidecar.app.tools import open_registry
from sidecar.cli.options import common, emit, talk
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway.config import McpServer
from sidecar.gateway.draft.openapi import NotOpenApi, draft_openapi
from sidecar.gateway.draft.server import Stands, draft_server
from sidecar.gateway.draft.tool import Draft, as_yaml
from sidecar.gateway.draft.traffic import draft_traffic
from sidecar.otlp.files import decoded, requests_of
from sidecar.plain import plain
from sidecar.telemetry import configure_logging

_OUT = click.option(
    "--out",
    type=click.Path(file_okay=False),
    default=".",
    show_default=True,
    help="Folder for the files the draft names.",
)


@click.group("tools")
def command() -> None:
    """List the registered tools; draft a registry from OpenAPI, an MCP server or traffic.

    \b
    Example:
      $ sidecar tools list
      NAME          CLASS         MODE     UPSTREAM  MATCH
      issue_refund  irreversible  enforce  payments  POST /orders/{order_id}/refunds
    """


@command.command("list")
@click.option("--live", is_flag=True, help="Ask MCP servers what they define now; exit 1 on drift.")
@common()
def list_(config: str | None, store: str | None, output: str, live: bool) -> None:
    """List the tools of the configuration.

    \b
    Example:
      $ sidecar tools list --live
      crm/add_note: drifted (description)
    """
    loaded = load_config(config, store)
    if live:
        from sidecar.app import drafting  # only who asks a server needs what asking takes

        configure_logging()
        stands = drafting.standings_now(loaded)
        emit(stands, output, lambda: "\n".join(map(_stands_text, stands)) or "no MCP servers")
        if any(each.standing != "pinned" for each in stands):
            raise click.exceptions.Exit(ExitCode.FAILED)
        return
    shown = _shown(loaded)
    emit(shown, output, lambda: _table(shown))


@command.group("draft")
def draft() -> None:
    """Draft entries of gateway.tools, for a person to read and correct.

    \b
    Example:
      $ sidecar tools draft openapi payments.json --upstream payments > tools.yaml
    """


@draft.command("openapi")
@click.argument("spec", type=click.Path(exists=True, dir_okay=False))
@click.option("--upstream", required=True, help="The name of the upstream in gateway.upstreams.")
@_OUT
def openapi(spec: str, upstream: str, out: str) -> None:
    """Draft from an OpenAPI 3 document (JSON or YAML); writes a schema for each tool.

    \b
    Example:
      $ sidecar tools draft openapi payments.json --upstream payments --out . > tools.yaml
    """
    try:
        document = yaml.safe_load(Path(spec).read_text(encoding="utf-8"))
        found = draft_openapi(document, upstream)
    except (yaml.YAMLError, UnicodeDecodeError, NotOpenApi) as error:
        what = str(error).splitlines()[0] if isinstance(error, NotOpenApi) else "it cannot be read"
        raise SidecarError(
            f"this is no OpenAPI document: {what}", where=spec, do="Give an OpenAPI 3 document."
        ) from None
    _print(found, _write_schemas(found, Path(out)))


@draft.command("mcp")
@click.argument("server")
@_OUT
@common(outputs=("text",))
def mcp(server: str, out: str, config: str | None, store: str | None, output: str) -> None:  # noqa: ARG001
    """Draft from an MCP server of gateway.mcp; writes its definitions for review.

    Definitions that are there already are not written over: they may be the reviewed ones.

    \b
    Example:
      $ sidecar tools draft mcp crm --out . > tools.yaml
      wrote crm.tools.json: read it, then name it as definitions in gateway.mcp
    """
    from sidecar.app import drafting  # only who asks a server needs what asking takes

    configure_logging()
    loaded = load_config(config, store)
    named = _server(loaded, server)
    listed = drafting.defined_now(loaded, named)
    file = Path(out) / f"{named.name}.tools.json"
    _write(file, {"tools": listed})
    talk(f"wrote {file}: read it, then name it as definitions in gateway.mcp")
    _print(draft_server(named.name, listed), {})


@draft.command("traffic")
@click.argument("paths", nargs=-1, required=True, type=click.Path(exists=True))
def traffic(paths: Sequence[str]) -> None:
    """Draft from captured OTLP requests: the HTTP calls that agents made.

    \b
    Example:
      $ sidecar tools draft traffic captures/ > tools.yaml
    """
    files = [file for path in paths for file in requests_of(Path(path))]
    seen = draft_traffic(span for file in files for span in decoded(file).spans)
    lines = ["upstreams:"] if seen.upstreams else []
    for name, address in sorted(seen.upstreams.items()):
        lines.append(f"  - {{name: {json.dumps(name)}, url: {json.dumps(address)}}}")
    if lines:
        emit(None, "text", lambda: "\n".join(lines))
    _print(seen, {})


def _print(found: Draft, schemas: dict[str, str]) -> None:
    emit(None, "text", lambda: as_yaml(found, schemas))
    if not found.tools:
        raise SidecarError(
            "nothing could be drafted",
            where="; ".join(found.left_out[:3]) or "the source",
            do="Give a source that calls or describes tools.",
            code=ExitCode.UNDECIDED,
        )


def _write_schemas(found: Draft, folder: Path) -> dict[str, str]:
    files = {}
    for tool in found.tools:
        if tool.schema is not None:
            files[tool.name] = f"schemas/{tool.name}.json"
            _write(folder / files[tool.name], tool.schema)
    return files


def _write(file: Path, content: Any) -> None:
    """Write a file of a draft; never over another: that one may be what a person has reviewed."""
    text = json.dumps(content, indent=2, ensure_ascii=True) + "\n"
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        if not file.exists():
            file.write_text(text, encoding="utf-8")
        elif not _says(file, content):
            raise SidecarError(
                "the draft is another than the file that is there, which is left as it is",
                where=str(file),
                do="Give another folder as --out and compare the two, or move the file away.",
            )
    except OSError as error:
        raise SidecarError(
            f"a file of the draft cannot be written: {error.strerror}",
            where=str(file),
            do="Give another folder as --out.",
        ) from None


def _says(file: Path, content: Any) -> bool:
    try:
        return bool(json.loads(file.read_bytes()) == content)
    except (ValueError, RecursionError):
        return False


def _server(loaded: Loaded, name: str) -> McpServer:
    for server in loaded.config.gateway.mcp:
        if server.name == name:
            return server
    raise SidecarError(
        f"there is no MCP server {name!r}",
        where="configuration key gateway.mcp",
        do="Name one of its entries; give a new one its url and allow_cidrs there first.",
    )


def _shown(loaded: Loaded) -> list[dict[str, str]]:
    config = loaded.config.gateway
    registry = open_registry(loaded)
    rows = []
    for name in sorted(registry.tools):
        tool = registry.tools[name].config
        mode = tool.mode or ("enforce" if tool.class_ == "irreversible" else config.mode)
        if config.mode == "twin":
            mode = "twin"
        given = tool.match
        match = given.tool or given.resource or given.prompt or f"{given.method} {given.path}"
        rows.append(
            {
                "name": name,
                "class": tool.class_,
                "mode": mode,
                "upstream": tool.upstream,
                "match": match,
                "definition": tool.definition,
                "digest": registry.tools[name].tool_digest,
            }
        )
    return rows


def _table(rows: Sequence[dict[str, str]]) -> str:
    columns = ("name", "class", "mode", "upstream", "match")
    lines = [tuple(column.upper() for column in columns)]
    lines += [tuple(plain(row[column]) for column in columns) for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )


def _stands_text(each: Stands) -> str:
    parts = f" ({', '.join(each.changed)})" if each.changed else ""
    notes = f"; look twice: {', '.join(each.notes)}" if each.notes else ""
    return plain(f"{each.server}/{each.tool}: {each.standing}{parts}{notes}")
