"""Asking the running sidecar's control API, for commands that act as a person.

Rules
1. A decision goes to the running sidecar with the person's own key: who decides is known there.
2. What is refused exits 3 with the sidecar's own words and a remedy; a key is never repeated.
"""

import json
import ssl
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import quote, urlsplit

from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.listen.address import split_address

_TIMEOUT_SECONDS = 30
_REMEDIES = {
    "unauthenticated": "Give a key that is not revoked or expired: sidecar key list",
    "forbidden": "Decide with the key of a person whose role may: "
    "sidecar key create --kind approver --project PROJECT",
    "no_such_approval": "List them with: sidecar approvals list; where your key is for several "
    "projects, name the right one with --project",
}


def control(loaded: Loaded, path: str, body: dict[str, Any] | None = None) -> Any:
    """One request to the running sidecar's control API. Raises SidecarError."""
    client = loaded.config.client
    if not client.key:
        raise SidecarError(
            "there is no key to decide with",
            where="--key, SIDECAR_CLIENT_KEY or client.key",
            do="Make one with: sidecar key create --kind approver --project PROJECT",
        )
    if not client.url.startswith(("http://", "https://")):
        raise SidecarError("client.url is not http:// or https://", where="client.url")
    request = urllib.request.Request(  # noqa: S310 - the scheme is checked above
        client.url.rstrip("/") + _in_project(path, client.project),
        data=None if body is None else json.dumps(body).encode(),
        headers={"Authorization": f"Bearer {client.key}", "Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=_tls(loaded))
    )
    try:
        with opener.open(request, timeout=_TIMEOUT_SECONDS) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            detail, code = _problem(error.read())
            raise SidecarError(
                f"{detail} ({code})", where=client.url + path, do=_REMEDIES.get(code, "")
            ) from None
    except (OSError, ValueError) as error:
        raise SidecarError(
            f"the sidecar does not answer: {getattr(error, 'reason', error)}",
            where=client.url,
            do=f"Start it with sidecar serve, or correct client.url{_elsewhere(loaded)}.",
        ) from None


def _elsewhere(loaded: Loaded) -> str:
    """Where this configuration has the control API, when that is not where was asked."""
    listen = loaded.config.control.listen
    asked = urlsplit(loaded.config.client.url)
    default = 443 if asked.scheme == "https" else 80
    if not listen or split_address(listen)[1] in (0, asked.port or default):
        return ""
    return f" (control.listen is {listen})"


def _tls(loaded: Loaded) -> ssl.SSLContext:
    """How the control listener's certificate is verified. Raises SidecarError."""
    file = loaded.config.client.ca_file
    try:
        return ssl.create_default_context(cafile=str(loaded.path(file)) if file else None)
    except OSError as error:
        raise SidecarError(
            f"client.ca_file cannot be used: {error.strerror or error}",
            where=str(loaded.path(file)),
            do="Name a PEM file with the certificate of who signed the listener's.",
        ) from None


def _in_project(path: str, project: str) -> str:
    if not project:
        return path
    return f"{path}{'&' if '?' in path else '?'}project={quote(project, safe='')}"


def _problem(body: bytes) -> tuple[str, str]:
    """What the sidecar said, and its code."""
    try:
        problem = json.loads(body)
        return str(problem["detail"]), str(problem["code"])
    except (ValueError, KeyError, TypeError):
        return "the sidecar refused", "no reason given"


def in_path(name: str, of: str) -> str:
    """An id that may stand in a path as it is; ``of`` says whose. Raises SidecarError."""
    if not name.isalnum():
        raise SidecarError(f"{name!r} is not {of}'s id")
    return name
