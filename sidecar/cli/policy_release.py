"""``sidecar policy build`` and ``verify``: bundles packed, signed, and checked again."""

from pathlib import Path

import click

from processors.value import duration_ns
from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.cli.options import common, emit
from sidecar.cli.policy_against import verify_against
from sidecar.errors import ExitCode, SidecarError
from sidecar.gateway.policy.bundle import BundleInvalid
from sidecar.gateway.policy.files import broken, default_bundle_path, read_archive, read_files
from sidecar.gateway.policy.release import (
    Release,
    ReleaseInvalid,
    SigningKey,
    Terms,
    make,
    read,
    read_key,
)
from sidecar.plain import plain

_SECOND_NS = 1_000_000_000


@click.command("build")
@click.argument("folder", required=False)
@click.option("--to", "target", type=click.Path(dir_okay=False), required=True, help="The archive.")
@click.option(
    "--sequence", type=click.IntRange(1, 2**53 - 1), help="Its number: higher than any before."
)
@click.option(
    "--signing-key",
    type=click.Path(exists=True, dir_okay=False),
    help="Private key (PEM: Ed25519, P-256 or RSA) that signs it; needs --key-id and --sequence.",
)
@click.option("--key-id", default="", help="The name of the key in policy.signing.keys.")
@click.option("--scope", default="", help="What it is signed for (policy.signing.scope).")
@click.option("--expires", default="", metavar="DURATION", help="How long it is valid, as 90d.")
@common()
def build(
    folder: str | None,
    target: str,
    sequence: int | None,
    signing_key: str | None,
    key_id: str,
    scope: str,
    expires: str,
    config: str | None,
    store: str | None,
    output: str,
) -> None:
    """Pack a bundle into one archive, for this sidecar and for an OPA server alike.

    \b
    Example:
      $ sidecar policy build policies/ --to bundle.tar.gz
      bundle.tar.gz  sha256:280bce3e…  not signed
    """
    if signing_key is not None and not (key_id and sequence):
        raise SidecarError("a signed bundle needs --key-id and --sequence", where="--signing-key")
    signer = _key(key_id, signing_key) if signing_key is not None else None
    root = Path(folder) if folder is not None else _configured(config, store)
    expires_s = clock.now_ns() // _SECOND_NS + _duration_s(expires) if expires else None
    try:
        files = read_files(root or default_bundle_path())
        archive = make(files, sequence=sequence, signer=signer, scope=scope, expires_s=expires_s)
        made = read(archive, Terms(), 0)
        Path(target).write_bytes(archive)
    except (BundleInvalid, ReleaseInvalid) as error:
        raise broken(root or default_bundle_path(), str(error)) from error
    except OSError as error:
        raise SidecarError(f"cannot be written: {error.strerror}", where=target) from error
    _emit_release(target, made, key_id if signer else None, output)


@click.command("verify")
@click.argument("archive", type=click.Path(exists=True, dir_okay=False), required=False)
@click.option(
    "--key",
    "keys",
    multiple=True,
    metavar="ID=FILE",
    help="A public key (PEM) that may have signed it; may be given several times.",
)
@click.option("--scope", default="", help="What it must be signed for.")
@click.option(
    "--against",
    default="",
    metavar="URL",
    help="Instead: ask this OPA server what the decision log says was decided.",
)
@click.option(
    "--log",
    "log_file",
    type=click.Path(exists=True, dir_okay=False),
    help="The decision log (audit.decisions.file); only inputs that are told whole are asked.",
)
@click.option(
    "--allow-cidr",
    "cidrs",
    multiple=True,
    metavar="CIDR",
    help="A private range that the OPA server may be in, as 127.0.0.1/32.",
)
@click.option("--limit", type=click.IntRange(1), help="How many decisions at most.")
@common()
def verify(
    archive: str | None,
    keys: tuple[str, ...],
    scope: str,
    against: str,
    log_file: str | None,
    cidrs: tuple[str, ...],
    limit: int | None,
    config: str | None,  # noqa: ARG001 - every command takes it
    store: str | None,  # noqa: ARG001
    output: str,
) -> None:
    """Check an archive's signature, files and time; exit 1 where it may not decide. Or --against an
    OPA server: whether it decides as the log says; exit 1 where something differs, 2 where nothing
    could be compared or not all was answered.

    \b
    Example:
      $ sidecar policy verify --against https://opa.example --log decisions.jsonl
      1200 compared, 0 differ, 0 not answered, 3 hidden
    """
    if bool(against) != bool(log_file) or bool(against) == bool(archive):
        raise SidecarError(
            "give an archive and its --key, or --against and --log", where="sidecar policy verify"
        )
    if against and log_file:
        verify_against(against, log_file, cidrs, limit, output)
        return
    if archive is None or not keys:
        raise SidecarError("an archive is checked with a --key", where="--key")
    named = [key.partition("=") for key in keys]
    terms = Terms(keys=tuple(_key(name, file) for name, _, file in named), scope=scope)
    try:
        release = read(read_archive(Path(archive)), terms, clock.now_ns() // _SECOND_NS)
    except ReleaseInvalid as error:
        fault = str(error)
        emit({"archive": archive, "fault": fault}, output, lambda: plain(f"{archive}: {fault}"))
        raise click.exceptions.Exit(ExitCode.FAILED) from error
    _emit_release(archive, release, release.key_id, output)


def _emit_release(file: str, release: Release, key_id: str | None, output: str) -> None:
    shown = {
        "archive": file,
        "revision": release.bundle.revision,
        "sequence": release.sequence,
        "key_id": key_id,
    }
    signed = f"number {release.sequence}, signed by {key_id}" if key_id else "not signed"
    emit(shown, output, lambda: f"{plain(file)}  {release.bundle.revision}  {plain(signed)}")


def _key(name: str, file: str) -> SigningKey:
    if not name or not file:
        raise SidecarError("a key is named as ID=FILE", where="--key")
    try:
        return read_key(name, Path(file).read_bytes())
    except (OSError, ReleaseInvalid) as error:
        raise SidecarError(f"the key cannot be read: {error}", where=file) from error


def _duration_s(text: str) -> int:
    try:
        return duration_ns(text) // _SECOND_NS
    except ValueError as error:
        raise SidecarError(str(error), where="--expires") from error


def _configured(config: str | None, store: str | None) -> Path | None:
    loaded = load_config(config, store)
    configured = loaded.config.policy.bundle
    return Path(loaded.path(configured)) if configured else None
