"""What the gateway is made of: its ports, its settings, and the desk every call is served from."""

from collections.abc import Callable

from msgspec import Struct

from sidecar.gateway.config import Approvals, Mode
from sidecar.gateway.opening import House
from sidecar.gateway.registry import Registry
from sidecar.gateway.upstream import PolicyPort, Upstreams
from sidecar.store.ledger import Signer
from sidecar.store.ports import GatewayLedger


class Ports(Struct, frozen=True, kw_only=True):
    """All the gateway reaches."""

    ledger: GatewayLedger
    registry: Registry
    policy: PolicyPort
    upstreams: Upstreams


class Settings(Struct, frozen=True, kw_only=True):
    """What configuration says. ``gateway_id`` is in tokens: one gateway's are no other's."""

    mode: Mode = "enforce"
    accept_ephemeral_ledger: bool = False
    approvals: Approvals = Approvals()
    body_bytes_max: int = 1024**2
    gateway_id: str = "agenttwin-gateway"


class Desk(Struct, frozen=True, kw_only=True):
    """What every call is served with. ``owner`` names this gateway's claims."""

    ports: Ports
    settings: Settings
    house: House
    signer: Signer
    owner: str
    now_ns: Callable[[], int]
    new_id: Callable[[], str]
