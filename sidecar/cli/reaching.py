"""What ``sidecar doctor`` looks at outside: the services that are dialled, the secrets beside them.

Rules
1. A service is dialled and hung up on: nothing is sent but a TLS hello, and to a database not even
   that.
2. A file with a secret is read, and nothing of it is told.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

from msgspec import Struct

from sidecar.cli.found import Check, good
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.egress.rules import Endpoint, LeadsBack, Target, TargetRefused
from sidecar.gateway.config import Upstream
from sidecar.listen.address import split_address

DECLARED = "identity.keys."
"""How the checks of declared keys' files begin."""
_DIAL_SECONDS = 3.0
_LATER = "until then calls to it answer 502."
_UNSEEN = "until then what it is asked stays unknown."


class _Service(Struct, frozen=True, kw_only=True):
    """Something to dial; ``later`` is what happens while it is away."""

    name: str
    target: Target
    ca_file: str = ""
    later: str = _LATER
    secure: bool = True


def services(loaded: Loaded) -> Iterator[_Service]:
    """Everything the configuration has the sidecar dial."""
    config = loaded.config
    for upstream in _upstreams(loaded):
        yield _Service(
            name=f"upstream {upstream.name}", target=upstream.target, ca_file=upstream.tls.ca_file
        )
    for exporter in config.export:
        yield _Service(
            name=f"exporter {exporter.title}",
            target=exporter.target,
            ca_file=exporter.otlp.ca_file,
            later="until then what is for it waits in its queue.",
        )
    for provider in config.identity.oidc:
        yield _Service(
            name=f"oidc {provider.name}",
            target=provider.target,
            ca_file=provider.ca_file,
            later="until then its tokens open nothing.",
        )
    for database in config.databases:
        yield _Service(
            name=f"database {database.name}",
            target=database.target,
            ca_file=database.ca_file,
            later=_UNSEEN,
            secure=False,
        )
    for probe in config.probes:
        way = probe.mcp or (probe.http if probe.http is not None and probe.http.url else None)
        if way is not None:
            target = Target(name=probe.name, url=way.url, allow_cidrs=way.allow_cidrs)
            yield _Service(name=f"probe {probe.name}", target=target, later=_UNSEEN)
    if config.claims.llm.url:
        later = "until then answers are read by the rules alone."
        yield _Service(name="claims.llm", target=config.claims.llm.target, later=later)


def _upstreams(loaded: Loaded) -> tuple[Upstream, ...]:
    """What tools live on, MCP servers among it."""
    config = loaded.config.gateway
    return (*config.upstreams, *(server.upstream for server in config.mcp))


def secret_files(loaded: Loaded) -> Iterator[tuple[str, str]]:
    """The files of secrets that are read when they are needed: what for, and the path."""
    config = loaded.config
    for index, key in enumerate(config.identity.keys):
        yield f"{DECLARED}{index}", key.file
    for upstream in _upstreams(loaded):
        if upstream.credential is not None:
            yield f"upstream {upstream.name}", upstream.credential.file
        if upstream.tls.key_file:
            yield f"upstream {upstream.name}", upstream.tls.key_file
    for database in config.databases:
        if database.password_file:
            yield f"database {database.name}", database.password_file
    for probe in config.probes:
        if probe.mcp is not None and probe.mcp.credential is not None:
            yield f"probe {probe.name}", probe.mcp.credential.file
    if config.claims.llm.credential_file:
        yield "claims.llm", config.claims.llm.credential_file
    if config.replay.agents.credential is not None:
        yield "replay.agents", config.replay.agents.credential.file


def secrets(loaded: Loaded) -> Iterator[Check]:
    """Whether each can be read, and by whom else."""
    for name, file in secret_files(loaded):
        path = loaded.path(file)
        do = "Mount the secret there, or correct the path."
        try:
            empty, mode = not path.read_text("utf-8").strip(), path.stat().st_mode
        except OSError as error:
            what = f"its secret {path} cannot be read: {error.strerror}"
            yield Check(name=name, state="wrong", what=what, do=do)
        except UnicodeDecodeError:
            yield Check(name=name, state="wrong", what=f"its secret {path} is not text", do=do)
        else:
            if empty:
                yield Check(name=name, state="wrong", what=f"its secret {path} is empty", do=do)
            elif mode & 0o007:
                what = f"every user of this machine can read its secret {path}"
                yield Check(name=name, state="warning", what=what, do=f"chmod 0400 {path}")


async def reached(loaded: Loaded) -> AsyncIterator[Check]:
    """Whether each service is there."""
    addresses = (address for _, address in loaded.config.addresses() if address)
    own_ports = {split_address(address)[1] for address in addresses}
    egress = Egress(own_ports=own_ports - {0})
    try:
        for service in services(loaded):
            try:
                path = str(loaded.path(service.ca_file)) if service.ca_file else None
                tls = ssl.create_default_context(cafile=path)
            except OSError as error:
                do = "Name a PEM file with the authority's certificate."
                what = f"its ca_file cannot be used: {error.strerror or error}"
                yield Check(name=service.name, state="wrong", what=what, do=do)
                continue
            yield await _reached(egress, service, tls)
    finally:
        await egress.close()


async def _reached(egress: Egress, service: _Service, tls: ssl.SSLContext) -> Check:
    name, target = service.name, service.target
    try:
        endpoint, addresses = await egress.vetted(target, deadline_ns=int(_DIAL_SECONDS * 1e9))
    except LeadsBack as error:
        do = "Name the service itself, not a listener of the sidecar."
        return Check(name=name, state="wrong", what=str(error), do=do)
    except TargetRefused as error:
        do = "Correct the URL, or name the address range in allow_cidrs if it is meant."
        return Check(name=name, state="wrong", what=str(error), do=do)
    except TimeoutError:
        do = "Check the name servers this machine asks."
        return Check(
            name=name, state="wrong", what=f"{target.name} does not resolve in time", do=do
        )
    secure = service.secure and endpoint.scheme == "https"
    for address in addresses:
        fault = await _dialled(endpoint, address, tls if secure else None)
        if fault is None:
            return good(name, f"{endpoint.host} answers at {address}:{endpoint.port}")
    what = f"{endpoint.host}:{endpoint.port} is not reached: {fault}"
    do = f"Start it, or correct its address; {service.later}"
    return Check(name=name, state="warning", what=what, do=do)


async def _dialled(endpoint: Endpoint, address: str, tls: ssl.SSLContext | None) -> str | None:
    """Why a connection cannot be made; None where it can. Nothing is sent but a TLS hello."""
    name = endpoint.host if tls is not None else None
    try:
        async with asyncio.timeout(_DIAL_SECONDS):
            _, writer = await asyncio.open_connection(
                address, endpoint.port, ssl=tls, server_hostname=name
            )
    except TimeoutError:
        return f"no connection in {_DIAL_SECONDS:.0f} s"
    except OSError as error:
        return error.strerror or str(error)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()
    return None
