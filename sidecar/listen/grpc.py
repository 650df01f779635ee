"""How a gRPC server of ours gets its port: in clear, or with a certificate that is followed."""

from typing import Any, cast

import grpc
from grpc.aio import Server

from sidecar.listen.files import Certificate, Material


def bind(server: Server, address: str, tls: Certificate | None) -> int:
    """Let a server listen; the bound port. Raises RuntimeError where it cannot.

    The files are looked at for each new connection. Rule 3 of ``files`` is gRPC's own: it speaks no
    TLS before 1.2.
    """
    if tls is None:
        return server.add_insecure_port(address)

    def renewed() -> grpc.ServerCertificateConfiguration:
        # None is gRPC's word for "as before", which its type does not say.
        return _configuration(tls.material) if tls.renewed() else cast(Any, None)

    credentials = grpc.dynamic_ssl_server_credentials(
        _configuration(tls.material),
        renewed,
        require_client_authentication=tls.material.client_auth == "required",
    )
    return server.add_secure_port(address, credentials)


def _configuration(material: Material) -> grpc.ServerCertificateConfiguration:
    return grpc.ssl_server_certificate_configuration(
        [(material.key, material.certificate)], root_certificates=material.client_ca or None
    )
