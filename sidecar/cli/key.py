"""``sidecar key``: create, list, rotate and revoke API keys; rotate keys of seals and of digests.

Rules
1. A value to look for is read from standard input, never from an argument: arguments are seen by
   other processes and kept by shells.
"""

import sys
from typing import Any

import click

from processors.model.principal import KeyKind, StoredKey
from processors.redact.terms import KINDS, Kind
from sidecar import clock
from sidecar.app import minting, opening, rotating
from sidecar.app.loading import load_config
from sidecar.cli.moments import Duration
from sidecar.cli.options import common, emit, talk
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.identity.keys import KEY_KINDS, KeyTerms
from sidecar.identity.projects import project_name
from sidecar.identity.roles import ROLES
from sidecar.identity.wanted import Wanted, key_state, key_terms
from sidecar.plain import plained
from sidecar.store.signing import AHEAD_SECONDS, LOOK_SECONDS


@click.group("key")
def command() -> None:
    """Create, list, rotate and revoke API keys; rotate the keys that seal and redact.

    \b
    Example:
      $ sidecar key create --kind agent --project default
      sk_agent_4f0c2a9be1d37a55_… (shown once)
    """


@command.command("create")
@click.option("--kind", type=click.Choice(list(KEY_KINDS)), help="What it may do.")
@click.option("--role", type=click.Choice(list(ROLES)), help="Instead of --kind: a person's role.")
@click.option("--project", help="The tenant everything done with it belongs to.")
@click.option("--organisation", help="Instead of --project: all projects of an organisation.")
@click.option("--name", default="", help="Whose it is; keys of one name are one person's.")
@click.option("--owner", default="", help="An agent's: who answers for it, and never approves it.")
@click.option(
    "--on-behalf-of", default="", help="An agent's: for whom it acts, who never approves it."
)
@click.option("--tool", "tools", multiple=True, help="The only tool an agent may call; repeatable.")
@click.option("--expires", "lifetime_ns", type=Duration(), help="How long it lives, e.g. 90d.")
@common()
def create(
    config: str | None, store: str | None, output: str, lifetime_ns: int | None, **given: Any
) -> None:
    """Create a key and print it once; only its hash is stored.

    \b
    Example:
      $ sidecar key create --role reviewer --project default --name ana --expires 90d
      sk_approver_77aa0c12be934f10_… (shown once)
    """
    loaded = load_config(config, store)
    expires_at_ns = None if lifetime_ns is None else clock.now_ns() + lifetime_ns
    terms = key_terms(
        Wanted(**given),
        organisations=[each.name for each in loaded.config.organisations],
        expires_at_ns=expires_at_ns,
    )
    with opening.open_keys(loaded) as keys:
        text, row = minting.create_key(keys, terms)
    emit({"key": text, **_shown(row)}, output, lambda: text)
    whose = f"project {row.project}" if row.organisation is None else f"all of {row.organisation}"
    talk(f"{row.kind} key {row.key_id} of {whose}: store it now, it is not shown again")
    if row.organisation is None:
        _warn_of_stranger(loaded, row.project)


@command.command("rotate")
@click.argument("key_id")
@click.option(
    "--overlap",
    "overlap_ns",
    type=Duration(),
    default="24h",
    show_default=True,
    help="How long the secret before still opens; 0s ends it at once.",
)
@common()
def rotate(
    key_id: str, overlap_ns: int, config: str | None, store: str | None, output: str
) -> None:
    """Give a key a new secret and print it once; it stays the same caller.

    \b
    Example:
      $ sidecar key rotate 4f0c2a9be1d37a55 --overlap 1h
      sk_agent_4f0c2a9be1d37a55_… (shown once)
    """
    loaded = load_config(config, store)
    with opening.open_keys(loaded, make=False) as keys:
        made = minting.rotate_key(keys, key_id, overlap_ns)
    if made is None:
        raise SidecarError(
            f"there is no key {key_id} that could be rotated",
            do="List the ids with: sidecar key list",
        )
    text, row = made
    emit({"key": text, **_shown(row)}, output, lambda: text)
    talk(f"{row.kind} key {key_id}: store it now, it is not shown again")


@command.command("generate")
@click.option("--kind", type=click.Choice(list(KEY_KINDS)), required=True, help="What it may do.")
@click.option("--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
def generate(kind: KeyKind, output: str) -> None:
    """Print a key that no store knows: a secret to mount, named in identity.keys.

    \b
    Example:
      $ kubectl create secret generic sidecar \\
          --from-literal=agent-key=$(sidecar key generate --kind agent)
    """
    text, row = minting.new_key(KeyTerms(kind=kind))
    emit({"key": text, "key_id": row.key_id, "kind": kind}, output, lambda: text)


@command.command("list")
@click.option("--project", default=None, help="Only this project's.")
@common()
def list_(project: str | None, config: str | None, store: str | None, output: str) -> None:
    """List keys, without their secrets.

    \b
    Example:
      $ sidecar key list --project default
      4f0c2a9be1d37a55  agent     default           active    refunds
    """
    loaded = load_config(config, store)
    with opening.open_keys(loaded, make=False) as keys:
        rows = keys.list_keys(project)
    emit([_shown(row) for row in rows], output, lambda: "\n".join(map(_line, rows)) or "no keys")


@command.command("revoke")
@click.argument("key_id")
@common()
def revoke(key_id: str, config: str | None, store: str | None, output: str) -> None:
    """Revoke a key; it is refused from the next request on.

    \b
    Example:
      $ sidecar key revoke 4f0c2a9be1d37a55
      4f0c2a9be1d37a55 revoked
    """
    loaded = load_config(config, store)
    with opening.open_keys(loaded, make=False) as keys:
        if not minting.revoke_key(keys, key_id):
            raise SidecarError(
                f"there is no key {key_id}", do="List the ids with: sidecar key list"
            )
    emit({"key_id": key_id, "revoked": True}, output, lambda: f"{key_id} revoked")


@command.command("rotate-redaction")
@click.option("--project", required=True, help="Whose digests (hash, tokenise) get a new key.")
@click.option(
    "--overlap",
    "overlap_ns",
    type=Duration(),
    default="30d",
    show_default=True,
    help="How long the key before can still be used to look for a value.",
)
@common()
def rotate_redaction(
    project: str, overlap_ns: int, config: str | None, store: str | None, output: str
) -> None:
    """Make a project's digests with a new key; the running sidecar follows by itself.

    Digests begin with the id of their key. Equal values have equal digests under one key only.

    \b
    Example:
      $ sidecar key rotate-redaction --project default --overlap 14d
      mpabklcd
    """
    project_name(project, where="--project")
    loaded = load_config(config, store)
    key = rotating.rotate_redaction_key(loaded, project, overlap_ns)
    emit({"project": project, "key_id": key.key_id}, output, lambda: key.key_id)
    talk(f"project {project}: digests are made with key {key.key_id} from now on")
    _warn_of_stranger(loaded, project)


@command.command("rotate-data")
@click.option("--project", required=True, help="Whose operational bytes get a new key.")
@common()
def rotate_data(project: str, config: str | None, store: str | None, output: str) -> None:
    """Seal with a new data key; what was sealed before still opens.

    \b
    Example:
      $ sidecar key rotate-data --project default
      1
    """
    project_name(project, where="--project")
    loaded = load_config(config, store)
    number = rotating.rotate_data_key(loaded, project)
    emit({"project": project, "number": number}, output, lambda: str(number))
    talk(f"project {project}: data key {number} seals from now on")
    _warn_of_stranger(loaded, project)


@command.command("rotate-signing")
@click.option(
    "--ahead",
    "ahead_ns",
    type=Duration(),
    default=f"{AHEAD_SECONDS:.0f}s",
    show_default=True,
    help="How long the new key is known before it signs.",
)
@common()
def rotate_signing(ahead_ns: int, config: str | None, store: str | None, output: str) -> None:
    """Sign receipts, tokens and the audit chain with a new key; running sidecars follow.

    What the key before has signed stays good, until it is revoked (revoke-signing).

    \b
    Example:
      $ sidecar key rotate-signing
      ed25519-0f3c2a9be1d37a55
    """
    if ahead_ns < 2 * LOOK_SECONDS * 1e9:
        raise click.BadParameter(
            f"running sidecars look every {LOOK_SECONDS:.0f} s: twice that at the least",
            param_hint="--ahead",
        )
    kid, from_ns = rotating.rotate_signing_key(load_config(config, store), ahead_ns)
    emit({"kid": kid, "signs_from_ns": str(from_ns)}, output, lambda: kid)
    talk(f"{kid} signs in {ahead_ns / 1e9:.0f} s, in every sidecar on this store")
    talk("verifiers elsewhere need the new key set: sidecar audit keys")


@command.command("revoke-signing")
@click.argument("kid")
@common()
def revoke_signing(kid: str, config: str | None, store: str | None, output: str) -> None:
    """Revoke a signing key that another has followed for a while.

    Approval tokens that it signed are refused; what it signed in the audit chain before stays good,
    and nothing that it signs afterwards is.

    \b
    Example:
      $ sidecar key revoke-signing ed25519-77aa0c12be934f10
      ed25519-77aa0c12be934f10 revoked
    """
    if not rotating.revoke_signing_key(load_config(config, store), kid):
        raise SidecarError(
            f"there is no signing key {kid} that another has followed for {AHEAD_SECONDS:.0f} s",
            do="List them with: sidecar audit keys; give it a successor with: "
            "sidecar key rotate-signing",
        )
    emit({"kid": kid, "revoked": True}, output, lambda: f"{kid} revoked")


@command.command("digest")
@click.option("--project", required=True, help="Whose keys.")
@click.option("--kind", type=click.Choice(list(KINDS)), required=True, help="What the value is.")
@common()
def digest(project: str, kind: Kind, config: str | None, store: str | None, output: str) -> None:
    """Read a value from standard input and print its digests, to look for it in traces.

    One for each key that has not retired, the one in use first.

    \b
    Example:
      $ printf bob@example.com | sidecar key digest --project default --kind email
      tok:email:mpabklcd…  hmac:email:mpabklcd…
    """
    project_name(project, where="--project")
    value = sys.stdin.read().strip()
    if not value:
        raise SidecarError("there is no value on standard input", do="Pipe it in.")
    loaded = load_config(config, store)
    found = rotating.digests_of(loaded, project, kind, value)
    emit(found, output, lambda: "\n".join(f"{item.token}  {item.hash}" for item in found))
    _warn_of_stranger(loaded, project)


def _warn_of_stranger(loaded: Loaded, project: str) -> None:
    """A misspelt project is a tenant of its own; the store takes any."""
    if project not in {each.name for each in loaded.config.projects}:
        talk(
            f"warning: there is no project {project} in projects of the configuration: "
            "what is done in it follows the defaults"
        )


def _shown(row: StoredKey) -> dict[str, object]:
    return {
        "key_id": row.key_id,
        "kind": row.kind,
        "role": row.role,
        "project": row.project,
        "organisation": row.organisation,
        "name": row.name,
        "owner": row.owner,
        "on_behalf_of": row.on_behalf_of,
        "tools": row.tools,
        "created_at_ns": row.created_at_ns,
        "expires_at_ns": row.expires_at_ns,
        "revoked_at_ns": row.revoked_at_ns,
        "previous_until_ns": row.previous_until_ns,
    }


def _line(row: StoredKey) -> str:
    row = plained(row)
    whose = row.project if row.organisation is None else f"{row.organisation}/*"
    return (
        f"{row.key_id}  {row.role or row.kind:8}  {whose:16}  "
        f"{key_state(row, clock.now_ns()):8}  {row.name}"
    )
