"""TLS of one listener, as configured; without a certificate it speaks in clear."""

from collections.abc import Iterator
from typing import Literal

from msgspec import Struct

from sidecar.errors import Problem

ClientAuth = Literal["none", "optional", "required"]


class Tls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """PEM files, read again when they change. ``cert_file`` holds the chain, the listener's own
    certificate first.

    ``client_auth``: whether a client certificate is asked for, and whether one must be shown; it is
    verified against ``client_ca_file``, which may hold several authorities.
    """

    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    client_auth: ClientAuth = "none"

    @property
    def on(self) -> bool:
        """Whether the listener speaks TLS."""
        return bool(self.cert_file)

    def problems(self, *, grpc: bool = False) -> Iterator[Problem]:
        """What is wrong with the values. ``grpc``: the listener is one of gRPC's."""
        if bool(self.cert_file) != bool(self.key_file):
            missing = "key_file" if self.cert_file else "cert_file"
            yield Problem(missing, "is missing: a certificate and its key come together")
        if not self.cert_file and (self.client_ca_file or self.client_auth != "none"):
            yield Problem("cert_file", "is missing: clients show certificates over TLS only")
        if self.client_auth != "none" and not self.client_ca_file:
            yield Problem("client_ca_file", "is missing: nothing would verify client certificates")
        if self.client_auth == "none" and self.client_ca_file:
            yield Problem("client_auth", "is none, so client_ca_file would not be used")
        if grpc and self.client_auth == "optional":
            text = "must be none or required: gRPC cannot ask for a certificate and do without"
            yield Problem("client_auth", text)
