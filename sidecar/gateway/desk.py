"""What the gateway is made of: its ports, its settings, and the desk every call is served from."""

from collections.abc import Awaitable, Callable, Mapping

from msgspec import Struct, field

from sidecar.gateway.budget import Budget
from sidecar.gateway.config import Approvals, Mode, Subject
from sidecar.gateway.decisions.event import Decided
from sidecar.gateway.notify.notice import Notice
from sidecar.gateway.opening import House
from sidecar.gateway.probing import Probing, Rules
from sidecar.gateway.registry import Registry
from sidecar.gateway.settling import Settling
from sidecar.gateway.upstream import Addresses, PolicyPort, Upstreams
from sidecar.store.ledger import Claim, Signer
from sidecar.store.ports import GatewayLedger


class Ports(Struct, frozen=True, kw_only=True):
    """All the gateway reaches. ``unanchored``: the audit chain is not kept elsewhere as asked;
    ``addresses``: where an upstream would be dialled, asked where policy judges that; None where
    none is, as in a replay. ``notice`` has webhooks (one by name, or all) told of a decision, and
    says whether it will be; ``logs_decisions``: there is a decision log."""

    ledger: GatewayLedger
    registry: Registry
    policy: PolicyPort
    upstreams: Upstreams
    unanchored: Callable[[], bool] = lambda: False
    decided: Callable[[Decided], None] = lambda _: None
    addresses: Addresses | None = None
    notice: Callable[[Notice, str], bool] | None = None
    logs_decisions: bool = False


class Settings(Struct, frozen=True, kw_only=True):
    """What configuration says. ``gateway_id`` is in tokens: one gateway's are no other's.

    ``organisations``: the names of those each project belongs to.
    ``policy_sequence``: the number of the policy's release, where it has one. ``subjects``: what
    policy is told of principals, by id. ``probing``: when an agent tries denials.
    """

    mode: Mode = "enforce"
    accept_ephemeral_ledger: bool = False
    approvals: Approvals = Approvals()
    budgets: tuple[Budget, ...] = ()
    organisations: Mapping[str, tuple[str, ...]] = {}
    body_bytes_max: int = 1024**2
    gateway_id: str = "agenttwin-gateway"
    policy_sequence: int | None = None
    subjects: Mapping[str, Subject] = {}
    probing: Rules = Rules()


class Desk(Struct, frozen=True, kw_only=True):
    """What every call is served with. ``owner`` names this gateway's claims, ``running`` its calls
    that have not ended. Once it is ``draining``, for which ``drained`` waits, no call waits for a
    person or for another call any more: it is answered as it stands, and can be asked for again."""

    ports: Ports
    settings: Settings
    house: House
    signer: Signer
    owner: str
    now_ns: Callable[[], int]
    new_id: Callable[[], str]
    draining: Callable[[], bool]
    drained: Callable[[], Awaitable[object]]
    running: set[str] = field(default_factory=set)
    settling: Settling = field(default_factory=Settling)
    probing: Probing = field(default_factory=lambda: Probing(Rules()))

    def runs(self, claim: Claim) -> bool:
        """Whether somebody is still at a claim's call: known by process and lock, not by a clock.

        Another's claim that was not sent within its lease can be taken: the fence keeps it unsent.
        """
        if claim.owner == self.owner:
            return claim.call_id in self.running
        if claim.state == "claimed" and claim.lease_until_ns <= self.now_ns():
            return False
        return self.ports.ledger.owner_lives(claim.owner)
