"""Who signs evidence, and what is said of where it was made."""

import importlib.metadata
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

import processors
import sidecar
from sidecar.app.sealing import write_new
from sidecar.canonical import digest, sha256
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gate import dsse
from sidecar.gate.statement import Made

EVALUATORS = ("sidecar/evaluate", "sidecar/gate", "sidecar/replay", "processors/verify")
_GIT_SECONDS = 5.0


def signing_keys(loaded: Loaded, named: Sequence[Path]) -> tuple[Ed25519PrivateKey, ...]:
    """The keys of these files; without any the store's own, made once. Raises SidecarError."""
    if named:
        found = tuple(_read(path) for path in named)
        if len({dsse.keyid(one.public_key()) for one in found}) != len(found):
            raise SidecarError("the same key signs twice", where="--signing-key")
        return found
    path = key_path(loaded)
    if not path.exists():
        write_new(
            path,
            dsse.private_pem(Ed25519PrivateKey.generate()),
            what="the key that signs evidence",
            do="Make the folder writable, or name a key with --signing-key.",
        )
    return (_read(path),)


def key_path(loaded: Loaded) -> Path:
    """Where the store's own key lies: beside the data folder, never in it."""
    folder = Path(os.path.abspath(loaded.store_folder))  # noqa: PTH100 (a link is a name)
    return folder.parent / f"{folder.name}.evidence-key"


def trusted_keys(named: Sequence[Path]) -> dict[str, Ed25519PublicKey]:
    """Public keys by id. Raises SidecarError."""
    found = {}
    for path in named:
        try:
            key = dsse.read_public(path.read_bytes())
        except OSError as error:
            raise SidecarError(
                f"the key cannot be read: {error.strerror}", where=str(path)
            ) from None
        except dsse.DsseInvalid as error:
            raise SidecarError(
                str(error), where=str(path), do="Name a public Ed25519 key in PEM."
            ) from None
        found[dsse.keyid(key)] = key
    return found


def made_here(tools: dict[str, str], folder: Path) -> Made:
    """The tools, the commit of ``folder`` where it is one's work tree, and what is installed."""
    return Made(tools=tools, commit=_commit(folder), environment=environment())


def environment() -> dict[str, Any]:
    """The interpreter, the machine's kind, each package with its version, and our evaluators."""
    packages = {
        (one.metadata["Name"] or "").lower(): one.version
        for one in importlib.metadata.distributions()
    }
    return {
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": sys.platform,
        "machine": platform.machine(),
        "packages": dict(sorted(packages.items())),
        "evaluators": {name: _code(name) for name in EVALUATORS},
    }


def _code(name: str) -> str:
    """The digest of a package's source: which evaluators these are, whatever version they say."""
    top, _, rest = name.partition("/")
    (root,) = (sidecar if top == "sidecar" else processors).__path__
    files = sorted((Path(root) / rest).rglob("*.py"))
    listed = [[path.relative_to(root).as_posix(), sha256(path.read_bytes())] for path in files]
    return digest(listed, domain="agenttwin-code/1")


def _commit(folder: Path) -> str:
    """The commit checked out in a folder; empty where there is none or it was changed since."""
    try:
        head = _git(folder, "rev-parse", "HEAD")
        return "" if _git(folder, "status", "--porcelain", "--untracked-files=no") else head
    except (OSError, subprocess.SubprocessError):
        return ""


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(  # noqa: S603
        ["git", *words],  # noqa: S607
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=_GIT_SECONDS,
        check=True,
    )
    return done.stdout.strip()


def _read(path: Path) -> Ed25519PrivateKey:
    try:
        return dsse.read_private(path.read_bytes())
    except OSError as error:
        raise SidecarError(f"the key cannot be read: {error.strerror}", where=str(path)) from None
    except dsse.DsseInvalid as error:
        raise SidecarError(
            str(error),
            where=str(path),
            do="Make one with: openssl genpkey -algorithm ed25519 -out FILE",
        ) from None
