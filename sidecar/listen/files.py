"""The certificate of one listener, in its files: read, checked, and read again when they change.

**Rules**
1. What cannot be used stops the start, with the file and what to do; later it changes nothing, and
   is told once for each change of the files.
2. A renewal replaces all of it, authorities for clients too: one that was taken out is trusted no
   more. Connections that are open stay.
3. TLS 1.2 is the least.
"""

import os
import ssl
from collections.abc import Callable
from pathlib import Path
from threading import Lock

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    PublicFormat,
    load_pem_private_key,
)
from msgspec import Struct
from msgspec.structs import replace

from sidecar.errors import SidecarError
from sidecar.listen.config import ClientAuth, Tls

LOOK_SECONDS = 5.0
"""How often the files are looked at; over gRPC they are looked at for each connection."""

_MODES = {
    "none": ssl.CERT_NONE,
    "optional": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_Signature = tuple[tuple[int, int, int] | None, ...]


class Material(Struct, frozen=True, kw_only=True):
    """What a listener shows and whom it trusts, as PEM."""

    certificate: bytes
    key: bytes
    client_ca: bytes
    client_auth: ClientAuth
    expires_at_s: int


Tell = Callable[[str, SidecarError | None], None]
"""Told ``certificate_renewed``, or ``certificate_refused`` and why."""


def _tell_nobody(_: str, __: SidecarError | None) -> None:
    pass


class Certificate:
    """The certificate of a listener. Safe from any thread.

    ``where``: the configuration key, for errors. ``now_s``: seconds since the epoch. ``context`` is
    the server side of TLS with what is in use. Raises SidecarError where the files are unusable.
    """

    def __init__(
        self,
        tls: Tls,
        *,
        where: str,
        now_s: Callable[[], float],
        tell: Tell = _tell_nobody,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        self._tls = tls
        self._where = where
        self._now_s = now_s
        self._tell = tell
        self._lock = Lock()
        self.look_seconds = look_seconds
        self._seen = self._signature()
        self.material, self.context = self._read()

    def renewed(self) -> bool:
        """Whether the files changed to something usable, which is used from now on."""
        with self._lock:
            seen = self._signature()
            if seen == self._seen:
                return False
            self._seen = seen
            try:
                self.material, self.context = self._read()
            except SidecarError as error:
                self._tell("certificate_refused", error)
                return False
        self._tell("certificate_renewed", None)
        return True

    def _read(self) -> tuple[Material, ssl.SSLContext]:
        tls = self._tls
        material = Material(
            certificate=_bytes(tls.cert_file, f"{self._where}.cert_file"),
            key=_bytes(tls.key_file, f"{self._where}.key_file"),
            client_ca=_bytes(tls.client_ca_file, f"{self._where}.client_ca_file")
            if tls.client_auth != "none"
            else b"",
            client_auth=tls.client_auth,
            expires_at_s=0,
        )
        expires_at_s = _checked(tls, material, now_s=self._now_s())
        context = _context(tls, material, self._where)
        return replace(material, expires_at_s=expires_at_s), context

    def _signature(self) -> _Signature:
        return tuple(
            map(_state, (self._tls.cert_file, self._tls.key_file, self._tls.client_ca_file))
        )


def _state(file: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)  # noqa: PTH116 - follows the links that a mounted secret is made of
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _bytes(file: str, where: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError as error:
        raise SidecarError(
            f"{where} cannot be read: {error.strerror}",
            where=file,
            do="Put the PEM file there, readable for the sidecar's user.",
        ) from None


def _checked(tls: Tls, material: Material, *, now_s: float) -> int:
    """When the certificate expires, in seconds since the epoch. Raises SidecarError."""
    leaf = _certificates(material.certificate, tls.cert_file)[0]
    if leaf.not_valid_after_utc.timestamp() <= now_s:
        raise SidecarError(
            f"the certificate expired at {leaf.not_valid_after_utc:%Y-%m-%dT%H:%M:%SZ}",
            where=tls.cert_file,
            do="Renew it.",
        )
    if leaf.not_valid_before_utc.timestamp() > now_s:
        raise SidecarError(
            f"the certificate is not valid before {leaf.not_valid_before_utc:%Y-%m-%dT%H:%M:%SZ}",
            where=tls.cert_file,
            do="Check the clock of this machine, and the certificate.",
        )
    if _public(_key(material.key, tls.key_file)) != _public_of(leaf):
        raise SidecarError(
            f"the key does not belong to the certificate in {tls.cert_file}",
            where=tls.key_file,
            do="Put the certificate's own key there; the chain begins with that certificate.",
        )
    if material.client_auth != "none":
        _certificates(material.client_ca, tls.client_ca_file)
    return int(leaf.not_valid_after_utc.timestamp())


def _certificates(pem: bytes, file: str) -> list[x509.Certificate]:
    try:
        return x509.load_pem_x509_certificates(pem)
    except ValueError:
        raise SidecarError(
            "there is no certificate in PEM form", where=file, do="Convert it: openssl x509."
        ) from None


def _key(pem: bytes, file: str) -> object:
    try:
        return load_pem_private_key(pem, None)
    except TypeError:
        raise SidecarError(
            "the private key is encrypted",
            where=file,
            do="Decrypt it, and let only the sidecar's user read it: openssl pkey.",
        ) from None
    except (ValueError, UnsupportedAlgorithm):
        raise SidecarError(
            "there is no private key in PEM form", where=file, do="Convert it: openssl pkey."
        ) from None


def _public(key: object) -> bytes:
    public = getattr(key, "public_key", lambda: None)()
    assert public is not None, "every private key has a public one"
    encoded: bytes = public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return encoded


def _public_of(leaf: x509.Certificate) -> bytes:
    return leaf.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _context(tls: Tls, material: Material, where: str) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    context.verify_mode = _MODES[material.client_auth]
    try:
        context.load_cert_chain(tls.cert_file, tls.key_file, password=_no_password)
        if material.client_auth != "none":
            context.load_verify_locations(cadata=material.client_ca.decode("ascii", "replace"))
    except (ssl.SSLError, OSError, ValueError) as error:
        said = getattr(error, "reason", None) or getattr(error, "strerror", None) or "unusable"
        raise SidecarError(
            f"TLS cannot be set up: {said}", where=where, do="Check the files it names."
        ) from None
    return context


def _no_password() -> str:
    return ""  # an encrypted key is refused before; nobody is asked at a terminal
