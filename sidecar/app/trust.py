"""TLS of the upstreams that have an authority, or a certificate for the gateway, of their own."""

import ssl

from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gateway.config import UpstreamTls


def upstream_tls(loaded: Loaded) -> dict[str, ssl.SSLContext]:
    """How upstreams with TLS of their own are verified and shown who asks. Raises SidecarError."""
    config = loaded.config.gateway
    found = {}
    for upstream in (*config.upstreams, *(server.upstream for server in config.mcp)):
        given = upstream.tls
        if given == UpstreamTls():
            continue
        files = [str(loaded.path(file)) if file else None for file in _files(given)]
        try:
            context = ssl.create_default_context(cafile=files[0])
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if files[1] is not None:
                context.load_cert_chain(files[1], files[2])
        except OSError as error:
            raise SidecarError(
                f"the TLS files of the upstream {upstream.name!r} cannot be used: "
                f"{error.strerror or error}",
                where=", ".join(file for file in files if file),
                do="Name PEM files: an authority's certificate, or a certificate and its key.",
            ) from None
        found[upstream.name] = context
    return found


def _files(given: UpstreamTls) -> tuple[str, str, str]:
    return given.ca_file, given.cert_file, given.key_file
