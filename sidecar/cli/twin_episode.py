"""``sidecar twin episode``: what an operator does to the episodes of a twin server.

Rules
1. Each command is one request with the control key; a refusal exits 3 with the server's words.
2. The end of an episode that is void exits 2: nothing may be concluded from it.
"""

import functools
import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import quote

import click
import msgspec

from sidecar.cli.options import common, emit
from sidecar.errors import ExitCode, SidecarError
from sidecar.expression.document import read
from sidecar.plain import plain
from sidecar.twins import timeline
from sidecar.twins.files import load_suite
from sidecar.twins.scenario import cases
from sidecar.twins.serving.files import key_of

F = TypeVar("F", bound=Callable[..., Any])
_TIMEOUT_SECONDS = 30
_EVENTS_MOST = 100_000


class Server:
    """A twin server as an operator reaches it."""

    def __init__(self, url: str, key: str) -> None:
        if not url.startswith(("http://", "https://")):
            raise SidecarError("it is not http:// or https://", where="--url")
        self._url = url.rstrip("/")
        self._key = key

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        """One request; ``path`` below ``/v1/episodes``. Raises SidecarError."""
        request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
            f"{self._url}/v1/episodes{path}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"},
        )
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
                return json.load(response)
        except urllib.error.HTTPError as error:
            with error:
                raise SidecarError(_said(error.read()), where=self._url) from None
        except (OSError, ValueError) as error:
            raise SidecarError(
                f"the twin server does not answer: {getattr(error, 'reason', error)}",
                where=self._url,
                do="Start it with sidecar twin serve, or correct --url.",
            ) from None


def _said(body: bytes) -> str:
    try:
        problem = json.loads(body)
        return f"{problem['detail']} ({problem['code']})"
    except (ValueError, KeyError, TypeError):
        return "it is no twin server"


def _asking(function: F) -> F:
    """Make a function of ``server`` and ``output`` a command."""

    @functools.wraps(function)
    def run(
        *,
        url: str,
        key_file: Path,
        config: str | None,  # noqa: ARG001
        store: str | None,  # noqa: ARG001
        **rest: Any,
    ) -> Any:
        return function(server=Server(url, key_of(key_file, make=False)), **rest)

    made = common()(cast(F, run))
    made = click.option(
        "--key-file",
        type=click.Path(path_type=Path, dir_okay=False),
        required=True,
        help="The control key that sidecar twin serve --key-file made.",
    )(made)
    return click.option(
        "--url", default="http://127.0.0.1:4330", show_default=True, help="Of the twin server."
    )(made)


_NAMED = click.argument("name")


@click.group("episode")
def episode() -> None:
    """Open episodes on a twin server, look at them, lead their time, and end them.

    \b
    Example:
      $ sidecar twin episode open --key-file twin.key --agent refund-agent
      ep1.WyIwMTk…
    """


@episode.command("open")
@click.option("--name", default="", help="Of the episode [default: made up].")
@click.option("--agent", default=None, help="Whose token it is, as permissions and events name it.")
@click.option("--seed", type=int, default=None, help="Of chance and faults [default: 0].")
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    help="YAML: permissions, faults, state, clear, flags, now, life, as docs/specs/twin.md says.",
)
@click.option(
    "--scenario",
    nargs=2,
    type=(click.Path(path_type=Path, dir_okay=False), str),
    default=None,
    metavar="SUITE ID",
    help="Begin as a scenario of a suite begins: its world, permissions, faults, seed.",
)
@_asking
def open_(
    server: Server,
    name: str,
    agent: str | None,
    seed: int | None,
    source: Path | None,
    scenario: tuple[Path, str] | None,
    output: str,
) -> None:
    """Open an episode and print its token, which the agent sends as its credential.

    What is given beside --scenario, in the file of --from or by an option, takes its place.

    \b
    Example:
      $ sidecar twin episode open --key-file twin.key --from world.yaml --seed 7
      ep1.WyIwMTk…
    """
    wanted = _of_scenario(*scenario) if scenario is not None else {}
    wanted |= _read(source) if source is not None else {}
    given = {"name": name or None, "agent": agent, "seed": seed}
    wanted |= {key: value for key, value in given.items() if value is not None}
    opened = server.ask("POST", "", wanted)
    emit(opened, output, lambda: opened["token"])


@episode.command("list")
@_asking
def list_(server: Server, output: str) -> None:
    """List the open episodes.

    \b
    Example:
      $ sidecar twin episode list --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:04.000Z  12 events
    """
    found = server.ask("GET", "")
    emit(found, output, lambda: "\n".join(map(_line, found["episodes"])) or "no open episodes")


@episode.command("show")
@_NAMED
@_asking
def show(server: Server, name: str, output: str) -> None:
    """Show where an episode stands, and what differs from its start.

    \b
    Example:
      $ sidecar twin episode show smoke --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:04.000Z  12 events
      orders A-1: {"refunded": "0.00"} -> {"refunded": "49.00"}
    """
    found = server.ask("GET", _path(name))
    emit(found, output, lambda: "\n".join(_end_lines(found)))


@episode.command("events")
@_NAMED
@_asking
def events(server: Server, name: str, output: str) -> None:
    """List what happened in an episode, as the twins recorded it.

    \b
    Example:
      $ sidecar twin episode events smoke --key-file twin.key
      0  answered  issue_refund  201
    """
    found: list[dict[str, Any]] = []
    following: int | None = 0
    while following is not None and len(found) < _EVENTS_MOST:
        page = server.ask("GET", f"{_path(name)}/events?after={following}")
        found += page["events"]
        following = page["next"]
    emit({"events": found}, output, lambda: "\n".join(map(_event_line, found)) or "no events")


@episode.command("rows")
@_NAMED
@click.argument("entity")
@_asking
def rows(server: Server, name: str, entity: str, output: str) -> None:
    """List the rows of an entity as they are now.

    \b
    Example:
      $ sidecar twin episode rows smoke orders --key-file twin.key
      {"order_id": "A-1", "status": "refunded"}
    """
    found = server.ask("GET", f"{_path(name)}/rows?entity={quote(entity, safe='')}")
    emit(found, output, lambda: "\n".join(map(_json, found["rows"])) or "no rows")


@episode.command("pause")
@_NAMED
@_asking
def pause(server: Server, name: str, output: str) -> None:
    """Stop an episode's clock: calls take no time from now on.

    \b
    Example:
      $ sidecar twin episode pause smoke --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:04.000Z  12 events  paused
    """
    _act(server, name, "pause", {}, output)


@episode.command("resume")
@_NAMED
@_asking
def resume(server: Server, name: str, output: str) -> None:
    """Let an episode's clock run again.

    \b
    Example:
      $ sidecar twin episode resume smoke --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:04.000Z  12 events
    """
    _act(server, name, "resume", {}, output)


@episode.command("step")
@_NAMED
@_asking
def step(server: Server, name: str, output: str) -> None:
    """Go to an episode's next timer and let it fire.

    \b
    Example:
      $ sidecar twin episode step smoke --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:06.000Z  13 events
    """
    _act(server, name, "step", {}, output)


@episode.command("forward")
@_NAMED
@click.argument("by")
@_asking
def forward(server: Server, name: str, by: str, output: str) -> None:
    """Move an episode's clock on by a duration; what is due until then happens.

    \b
    Example:
      $ sidecar twin episode forward smoke 2h --key-file twin.key
      smoke  refund-agent  2026-01-05T11:00:06.000Z  13 events
    """
    _act(server, name, "forward", {"by": by}, output)


@episode.command("rewind")
@_NAMED
@click.argument("calls", type=click.IntRange(1))
@_asking
def rewind(server: Server, name: str, calls: int, output: str) -> None:
    """Take back an episode's last calls: they did not happen, and are not recorded.

    \b
    Example:
      $ sidecar twin episode rewind smoke 1 --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:03.000Z  11 events
    """
    _act(server, name, "rewind", {"calls": calls}, output)


@episode.command("close")
@_NAMED
@click.option("--at-once", is_flag=True, help="Without letting happen what is still on its way.")
@_asking
def close(server: Server, name: str, at_once: bool, output: str) -> None:
    """End an episode: what is on its way happens, the end state is told, everything is taken back.

    Exit 2 where the episode is void: a gap, a fault of the twin's own, or a leak.

    \b
    Example:
      $ sidecar twin episode close smoke --key-file twin.key
      smoke  refund-agent  2026-01-05T09:00:06.000Z  13 events
      orders A-1: {"refunded": "0.00"} -> {"refunded": "49.00"}
    """
    path = _path(name)
    ended = server.ask("DELETE", path) if at_once else server.ask("POST", f"{path}/close", {})
    emit(ended, output, lambda: "\n".join(_end_lines(ended)))
    if ended["void"] is not None:
        raise click.exceptions.Exit(ExitCode.UNDECIDED)


def _act(server: Server, name: str, what: str, asked: dict[str, Any], output: str) -> None:
    found = server.ask("POST", f"{_path(name)}/{what}", asked)
    emit(found, output, lambda: _line(found))


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SidecarError(f"it cannot be read: {error.strerror}", where=str(path)) from None
    except UnicodeDecodeError:
        raise SidecarError("it is not UTF-8 text", where=str(path)) from None
    value = read(text, name=str(path)).value
    if not isinstance(value, dict):
        raise SidecarError("it is no mapping", where=str(path))
    return value


def _of_scenario(suite: Path, name: str) -> dict[str, Any]:
    """An episode that begins as a scenario does."""
    loaded = load_suite(suite)
    case = next((one for one in cases(loaded.suite) if one.id == name), None)
    if case is None:
        known = ", ".join(one.id for one in loaded.suite.scenarios)
        raise SidecarError(f"there is no scenario {name!r}; known: {known}", where=str(suite))
    beginning = case.beginning
    now = {} if beginning.now_ns is None else {"now": timeline.text(beginning.now_ns)}
    return {
        "agent": loaded.suite.agent or loaded.suite.suite,
        "permissions": list(case.permissions),
        "seed": case.seed,
        "faults": msgspec.to_builtins(case.faults),
        "state": msgspec.to_builtins(beginning.rows),
        "clear": list(beginning.clear),
        "flags": beginning.flags,
        **now,
    }


def _path(name: str) -> str:
    return f"/{quote(name, safe='')}"


def _line(found: dict[str, Any]) -> str:
    parts = [found["episode"], found["agent"], found["now"], f"{found['events']} events"]
    parts += ["paused"] if found["paused"] else []
    parts += [f"void: {found['void']}"] if found["void"] is not None else []
    return plain("  ".join(parts))


def _end_lines(found: dict[str, Any]) -> list[str]:
    changes = [
        plain(f"{one['entity']} {one['key']}: {_json(one['before'])} -> {_json(one['after'])}")
        for one in found["changes"]
    ]
    return [_line(found), *changes]


def _event_line(one: dict[str, Any]) -> str:
    status = "-" if one["status"] is None else str(one["status"])
    said = one.get("detail") or one.get("fault") or ""
    return plain(f"{one['seq']}  {one['kind']}  {one['tool']}  {status}  {said}".rstrip())


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
