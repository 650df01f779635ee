"""What an agent process is given in its environment (interfaces.md), and what is kept from it.

Rules
1. The caller's environment passes through, but for ``SIDECAR_*``: those are ours to set.
2. Tools are reached through the gateway: by its URL, or by ``http_proxy``. Telemetry and the
   gateway itself are never sent through the proxy.
3. The episode's token is the agent's credential everywhere: gateway and telemetry.
"""

import hashlib
from collections.abc import Mapping
from urllib.parse import quote

from msgspec import Struct

from processors.model.names import BAGGAGE_EPISODE


class Addresses(Struct, frozen=True, kw_only=True):
    """Where one replay listens: the gateway in twin mode, and the OTLP receiver; ``elsewhere`` is
    how the gateway is reached from other machines, if not so."""

    host: str
    gateway_port: int
    otlp_port: int
    elsewhere: str = ""

    @property
    def gateway_url(self) -> str:
        """The gateway, for agents that run elsewhere."""
        return self.elsewhere or f"http://{self.host}:{self.gateway_port}"


class Identity(Struct, frozen=True, kw_only=True):
    """One episode's names: its id, its signed token, and the trace it is to join."""

    episode: str
    token: str
    trace_id: str
    span_id: str


def identity(episode: str, token: str) -> Identity:
    """The names of an episode; trace and span id are made of its id."""
    made = hashlib.sha256(f"agenttwin-trace/1\n{episode}".encode()).hexdigest()
    return Identity(episode=episode, token=token, trace_id=made[:32], span_id=made[32:48])


def agent_environment(
    inherited: Mapping[str, str],
    declared: Mapping[str, str],
    addresses: Addresses,
    who: Identity,
) -> dict[str, str]:
    """The whole environment of one agent process."""
    kept = {name: text for name, text in inherited.items() if not name.startswith("SIDECAR_")}
    kept = {**kept, **declared}
    direct = ",".join(kept.get(name, "") for name in ("NO_PROXY", "no_proxy")).split(",")
    no_proxy = ",".join(dict.fromkeys([*filter(None, direct), addresses.host]))
    gateway = f"http://{addresses.host}:{addresses.gateway_port}"
    proxy = f"http://agent:{quote(who.token, safe='')}@{addresses.host}:{addresses.gateway_port}"
    baggage = f"{BAGGAGE_EPISODE}={quote(who.token, safe='')}"
    return {
        **kept,
        "NO_PROXY": no_proxy,
        "no_proxy": no_proxy,
        "SIDECAR_GATEWAY_URL": gateway,
        "SIDECAR_AGENT_KEY": who.token,
        "HTTP_PROXY": proxy,
        "http_proxy": proxy,
        "TRACEPARENT": f"00-{who.trace_id}-{who.span_id}-01",
        "BAGGAGE": baggage,
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{addresses.host}:{addresses.otlp_port}",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_HEADERS": f"authorization=Bearer%20{quote(who.token, safe='')}",
    }
