"""Who callers are: keys, certificates, tokens."""

import ssl
from collections.abc import Set
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

from processors.model.principal import StoredKey
from sidecar import clock
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.identity.certificate import CertificateGrants
from sidecar.identity.declared import DeclaredKeys
from sidecar.identity.driver import Authenticate, Identity
from sidecar.identity.keys import KeyStore

if TYPE_CHECKING:
    from sidecar.identity.http import OidcTokens


def open_identity(
    loaded: Loaded, keys: KeyStore, tokens: "OidcTokens | None" = None
) -> Authenticate:
    """Who callers are, by keys, by tokens, and by what is configured of certificates."""
    config = loaded.config
    return Identity(
        DeclaredKeys(declared_keys(loaded), keys),
        clock.now_ns,
        organisations={each.name: each.projects for each in config.organisations},
        certificates=CertificateGrants(config.identity.mtls),
        tokens=tokens,
        remote=config.store.on_postgres,
    )


def open_tokens(loaded: Loaded, stack: AsyncExitStack, own_ports: Set[int]) -> "OidcTokens | None":
    """The identity providers, each asked through a way out of its own; None where there are none.

    Raises SidecarError.
    """
    if not loaded.config.identity.oidc:
        return None  # without, a token is no form of key
    # JOSE is loaded by who asked for it.
    from sidecar.identity.http import ANSWER_BYTES_MAX, KeySource, OidcTokens
    from sidecar.identity.login.http import CodeLogin

    sources, logins = [], []
    for index, provider in enumerate(loaded.config.identity.oidc):
        tls = None
        if provider.ca_file:
            path = loaded.path(provider.ca_file)
            try:
                tls = ssl.create_default_context(cafile=str(path))
            except OSError as error:
                raise SidecarError(
                    f"the provider's ca_file cannot be used: {error.strerror or error}",
                    where=f"{path}, configuration key identity.oidc.{index}.ca_file",
                    do="Name a PEM file with the authority's certificate.",
                ) from None
        egress = Egress(own_ports=own_ports, tls=tls, response_bytes_max=ANSWER_BYTES_MAX)
        stack.push_async_callback(egress.close)
        sources.append((provider, KeySource(provider, egress, clock.monotonic_ns)))
        if provider.login is not None:
            file = provider.login.secret_file
            logins.append(CodeLogin(provider, egress, str(loaded.path(file)) if file else ""))
    organisations = {each.name: each.projects for each in loaded.config.organisations}
    return OidcTokens(sources, clock.now_ns, organisations, logins)


def declared_keys(loaded: Loaded) -> dict[str, StoredKey]:
    """The keys that the configuration names by file, by id. Raises SidecarError."""
    found: dict[str, StoredKey] = {}
    for index, declared in enumerate(loaded.config.identity.keys):
        path = loaded.path(declared.file)
        try:
            row = declared.read(path.read_text(encoding="utf-8"), now_ns=clock.now_ns())
        except OSError as error:
            why = f"cannot be read: {error.strerror}"
        except UnicodeDecodeError:
            why = "is not text"
        except ValueError as error:
            why = str(error)
        else:
            found[row.key_id] = row
            continue
        raise SidecarError(
            f"the file of a declared key {why}",
            where=f"{path}, configuration key identity.keys.{index}.file",
            do="Mount the secret, or take the entry out.",
        )
    return found
