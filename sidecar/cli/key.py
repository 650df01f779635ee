"""``sidecar key``: create, list and revoke API keys."""

import click

from processors.model.principal import KeyKind, StoredKey
from sidecar import app
from sidecar.cli.options import common, emit, talk
from sidecar.errors import SidecarError
from sidecar.identity.keys import KEY_KINDS


@click.group("key")
def command() -> None:
    """Create, list and revoke API keys.

    \b
    Example:
      $ sidecar key create --kind agent --project default
      sk_agent_4f0c2a9be1d37a55_… (shown once)
    """


@command.command("create")
@click.option("--kind", type=click.Choice(list(KEY_KINDS)), required=True, help="What it may do.")
@click.option("--project", required=True, help="The tenant everything done with it belongs to.")
@click.option("--name", default="", help="A name for people.")
@common()
def create(
    kind: KeyKind, project: str, name: str, config: str | None, store: str | None, output: str
) -> None:
    """Create a key and print it once; only its hash is stored."""
    loaded = app.load_config(config, store)
    with app.open_keys(loaded) as keys:
        text, row = app.create_key(keys, kind=kind, project=project, name=name)
    emit({"key": text, **_shown(row)}, output, lambda: text)
    talk(f"{kind} key {row.key_id} of project {project}: store it now, it is not shown again")


@command.command("list")
@click.option("--project", default=None, help="Only this project's.")
@common()
def list_(project: str | None, config: str | None, store: str | None, output: str) -> None:
    """List keys, without their secrets."""
    loaded = app.load_config(config, store)
    with app.open_keys(loaded) as keys:
        rows = keys.list_keys(project)
    emit([_shown(row) for row in rows], output, lambda: "\n".join(map(_line, rows)) or "no keys")


@command.command("revoke")
@click.argument("key_id")
@common()
def revoke(key_id: str, config: str | None, store: str | None, output: str) -> None:
    """Revoke a key; it is refused from the next request on."""
    loaded = app.load_config(config, store)
    with app.open_keys(loaded) as keys:
        if not app.revoke_key(keys, key_id):
            raise SidecarError(
                f"there is no key {key_id}", do="List the ids with: sidecar key list"
            )
    emit({"key_id": key_id, "revoked": True}, output, lambda: f"{key_id} revoked")


def _shown(row: StoredKey) -> dict[str, object]:
    return {
        "key_id": row.key_id,
        "kind": row.kind,
        "project": row.project,
        "name": row.name,
        "created_at_ns": row.created_at_ns,
        "revoked_at_ns": row.revoked_at_ns,
    }


def _line(row: StoredKey) -> str:
    state = "revoked" if row.revoked_at_ns is not None else "active"
    return f"{row.key_id}  {row.kind:8}  {row.project:16}  {state:8}  {row.name}"
