"""``sidecar audit``: is the chain as it was written, and the chain itself.

Rules
1. ``verify`` reads everything, names the first bad entry and exits 1; a good chain exits 0.
2. A public key from elsewhere (``--public-key``, ``--keys``) replaces the store's: who rewrote the
   store cannot also have chosen it. Checkpoints kept elsewhere (``--checkpoints``) say what the
   chain was.
3. An export is verified without a store, a configuration or a running sidecar (``--export``).
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from sidecar.app import opening
from sidecar.app.loading import load_config
from sidecar.cli.options import common, emit, say, to_json
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway import keyset
from sidecar.gateway.audit import RECEIPT_KINDS, Fault, Verified, missing, verify, witnessed
from sidecar.gateway.checkpoint.document import NotACheckpoint, Witness, read
from sidecar.gateway.exported import Exported, NotAnExport
from sidecar.gateway.signing import key_id
from sidecar.store.backend import LedgerReader
from sidecar.store.ledger import AuditEntry, CallQuery, Checkpoint
from sidecar.store.ports import AuditTrail

_PAGE = 1000


@click.group()
def command() -> None:
    """Verify and export the audit chain.

    \b
    Example:
      $ sidecar audit verify
      good: 128 entries, head sha256:9f2c…
    """


@command.command("verify")
@click.option(
    "--public-key",
    "pinned",
    multiple=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with a gateway's Ed25519 public key in base64 (32 bytes); may be given again.",
)
@click.option(
    "--keys",
    "key_set",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file with a gateway's public keys, as sidecar audit keys prints them.",
)
@click.option(
    "--checkpoints",
    type=click.Path(dir_okay=False, path_type=Path),
    help="A file of checkpoints that an anchor kept: the chain must bear all of them out.",
)
@click.option(
    "--export",
    "exported",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Verify this export (sidecar audit export) instead of a store.",
)
@common()
def verify_(
    pinned: tuple[Path, ...],
    key_set: Path | None,
    checkpoints: Path | None,
    exported: Path | None,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """Check every hash, signature and place of the chain against its signed head.

    \b
    Example:
      $ sidecar audit verify
      good: 128 entries, head sha256:9f2c…
    """
    keys = {kid: public for each in pinned for kid, public in _pinned(each).items()}
    keys |= {} if key_set is None else _key_set(key_set)
    if exported is not None:
        found, used = _verify_export(exported, checkpoints, keys)
    else:
        with opening.open_ledger(load_config(config, store)) as ledger, ledger.snapshot():
            used = keys or ledger.public_keys()
            head, calls = ledger.audit_head(), bool(ledger.list_calls(CallQuery(limit=1)))
            witness = Witness([*_kept(ledger), *_read_checkpoints(checkpoints)], used)
            found = verify(witness.watch(_entries(ledger)), head, used)
            found = witnessed(missing(found, head, calls=calls), witness.fault())
    emit(_shown(found, used), output, lambda: _text(found))
    if found.fault is not None:
        click.get_current_context().exit(int(ExitCode.FAILED))


@command.command("keys")
@common(outputs=("json",), default="json")
def keys_(config: str | None, store: str | None, output: str) -> None:  # noqa: ARG001
    """Print every public key that signs or signed, as a JSON Web Key Set.

    \b
    Example:
      $ sidecar audit keys > keys.json
      $ sidecar audit verify --export chain.jsonl --keys keys.json
      good: 128 entries, head sha256:9f2c…
    """
    with opening.open_ledger(load_config(config, store)) as ledger:
        say(to_json(keyset.document(ledger.signing_keys())))


@command.command()
@click.option("--receipts", is_flag=True, help="Only the receipts, each as it was signed.")
@common(outputs=("jsonl",), default="jsonl")
def export(receipts: bool, config: str | None, store: str | None, output: str) -> None:  # noqa: ARG001
    """Print every entry, one JSON object a line, then the signed head.

    \b
    Example:
      $ sidecar audit export > chain.jsonl
      $ sidecar audit verify --export chain.jsonl
      good: 128 entries, head sha256:9f2c…
    """
    with opening.open_ledger(load_config(config, store)) as ledger, ledger.snapshot():
        if receipts:
            for entry in _entries(ledger):
                if entry.kind in RECEIPT_KINDS:
                    say(to_json(_body(entry.body)["receipt"], indent=None))
            return
        for entry in _entries(ledger):
            say(to_json(_entry(entry), indent=None))
        head, keys = ledger.audit_head(), ledger.public_keys()
    if head is not None:
        document = {
            "head": head.seq,
            "hash": head.hash,
            "signed_at_ns": str(head.signed_at_ns),
            "kid": head.kid,
            "public_keys": {kid: base64.b64encode(key).decode() for kid, key in keys.items()},
            "public_key": base64.b64encode(keys[head.kid]).decode(),
            "signature": base64.b64encode(head.signature).decode(),
        }
        say(json.dumps(document))


def _entries(ledger: AuditTrail) -> Iterator[AuditEntry]:
    after = -1  # an entry at a place below 1 is a fault to be found, not to be skipped
    while page := ledger.entries_after(after, _PAGE):
        yield from page
        after = page[-1].seq


def _verify_export(
    file: Path, checkpoints: Path | None, pinned: Mapping[str, bytes]
) -> tuple[Verified, Mapping[str, bytes]]:
    """An export holds its keys in its last line: it is read twice, once to know them."""
    try:
        with file.open(encoding="utf-8") as lines:
            read = Exported(lines)
            for _ in read.entries():
                pass
        keys = pinned or read.keys
        with file.open(encoding="utf-8") as lines:
            again = Exported(lines)
            witness = Witness(_read_checkpoints(checkpoints), keys)
            found = verify(witness.watch(again.entries()), read.head, keys)
    except (OSError, UnicodeDecodeError, NotAnExport) as error:
        raise SidecarError(
            f"the export cannot be read: {error}",
            where=str(file),
            do="Give what sidecar audit export printed, whole.",
        ) from None
    if found.fault is None and found.entries == 0:
        return Verified(
            entries=0, hash=found.hash, fault=Fault(index=1, what="the export is empty")
        ), keys
    return witnessed(found, witness.fault()), keys


def _kept(ledger: LedgerReader) -> Iterator[Checkpoint]:
    after = 0
    while page := ledger.checkpoints_after(after, _PAGE):
        yield from page
        after = page[-1].seq


def _read_checkpoints(file: Path | None) -> list[Checkpoint]:
    if file is None:
        return []
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
        return [read(each) for each in lines if each.strip()]
    except (OSError, UnicodeDecodeError, NotACheckpoint) as error:
        raise SidecarError(
            f"the checkpoints cannot be read: {error}",
            where=str(file),
            do="Give the file that an anchor of audit.anchors has written.",
        ) from None


def _key_set(file: Path) -> Mapping[str, bytes]:
    try:
        return keyset.read(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, keyset.NotAKeySet) as error:
        raise SidecarError(
            f"the key set cannot be read: {error}",
            where=str(file),
            do="Give what sidecar audit keys printed.",
        ) from None


def _pinned(file: Path) -> Mapping[str, bytes]:
    try:
        public = base64.b64decode(file.read_text().strip(), validate=True)
    except (OSError, binascii.Error, UnicodeDecodeError) as error:
        raise SidecarError(
            f"the public key cannot be read: {error}",
            where=str(file),
            do="Give 32 bytes in base64, as GET /v1/audit/head tells them.",
        ) from None
    return {key_id(public): public}


def _entry(entry: AuditEntry) -> dict[str, Any]:
    return {
        "seq": entry.seq,
        "at_ns": str(entry.at_ns),
        "project": entry.project,
        "kind": entry.kind,
        "body": _body(entry.body),
        "prev": entry.prev,
        "hash": entry.hash,
    }


def _body(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text  # altered; verify says where


def _shown(found: Verified, keys: Mapping[str, bytes]) -> dict[str, Any]:
    fault = found.fault
    return {
        "good": fault is None,
        "entries": found.entries,
        "hash": found.hash,
        "first_bad_index": fault.index if fault else None,
        "what": fault.what if fault else None,
        "keys": sorted(keys),
    }


def _text(found: Verified) -> str:
    if found.fault is None:
        return f"good: {found.entries} entries, head {found.hash}"
    return f"BAD at entry {found.fault.index}: {found.fault.what} ({found.entries} good before it)"
