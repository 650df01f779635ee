"""gRPC's way out: a channel to an address that was vetted, under the name that was asked for.

**Rules**
1. The channel's target is the vetted literal, so that gRPC resolves nothing itself; the name goes
   into ``:authority`` and, with TLS, into the check of the certificate.
2. No proxy from the environment, no service config from DNS, no retries of gRPC's own: one call is
   one attempt.
"""

import grpc
from grpc.aio import Channel

from sidecar.egress.rules import Endpoint

_ANSWER_BYTES_MAX = 4 * 1024**2


def open_channel(endpoint: Endpoint, address: str, *, ca: bytes | None = None) -> Channel:
    """A channel to one vetted address of an endpoint; ``ca`` replaces the system's roots (PEM)."""
    literal = f"ipv6:[{address}]" if ":" in address else f"ipv4:{address}"
    target = f"{literal}:{endpoint.port}"
    options = [
        ("grpc.default_authority", endpoint.authority),
        ("grpc.enable_http_proxy", 0),
        ("grpc.enable_retries", 0),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.use_local_subchannel_pool", 1),
        ("grpc.max_send_message_length", -1),
        ("grpc.max_receive_message_length", _ANSWER_BYTES_MAX),
    ]
    if endpoint.scheme == "http":
        return grpc.aio.insecure_channel(target, options=options)
    options.append(("grpc.ssl_target_name_override", endpoint.host))
    credentials = grpc.ssl_channel_credentials(root_certificates=ca)
    return grpc.aio.secure_channel(target, credentials, options=options)
