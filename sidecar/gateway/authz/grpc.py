"""Envoy's external authorisation: decisions of the gateway for requests that a mesh carries itself.

**Rules**
1. Only a decision is made: nothing is claimed, approved, reserved, sent or settled here. Every
   answer says what is not promised (``x-agenttwin-not-promised``).
2. The agent's credential in the request is the one that counts, and is taken out of it; without a
   good one nothing is told.
3. Whatever goes wrong is a refusal. Envoy's own ``failure_mode_allow`` has to be off.
"""

from typing import Any

import grpc
from grpc.aio import ServicerContext

from processors.model.principal import Presented, Principal
from sidecar.errors import StoreUnavailable
from sidecar.gateway.authz.check import NOT_PROMISED, Checked, as_request, nowhere
from sidecar.gateway.authz.client import SERVICE, Unreadable, allowed, read_check, refused
from sidecar.gateway.authz.driver import judge
from sidecar.gateway.driver import Gateway
from sidecar.gateway.outcome import own_fault, store_failed
from sidecar.gateway.problem import Refusal, Refused, render
from sidecar.gateway.resource import audiences
from sidecar.identity.driver import Authenticate
from sidecar.identity.keys import ProviderUnavailable, Unauthenticated
from sidecar.identity.roles import Forbidden, require
from sidecar.telemetry import Faults

_FAULTS = Faults("ext_authz")
_ENFORCEMENT = {
    "x-agenttwin-enforcement": "decision-only",
    "x-agenttwin-not-promised": ", ".join(NOT_PROMISED),
}
_REMOVED = ("authorization", "proxy-authorization", "approval-token")


class ExtAuthz:
    """Answers Envoy's checks by one gateway; ``handlers`` go to a gRPC server."""

    def __init__(
        self,
        gateway: Gateway,
        authenticate: Authenticate,
        *,
        irreversible: bool = False,
        resource: str = "",
    ) -> None:
        self._gateway = gateway
        self._authenticate = authenticate
        self._irreversible = irreversible
        self._resource = resource

    @property
    def handlers(self) -> grpc.GenericRpcHandler:
        """The service."""
        method: Any = grpc.unary_unary_rpc_method_handler(self.check)
        return grpc.method_handlers_generic_handler(SERVICE, {"Check": method})

    async def check(self, data: bytes, _context: "ServicerContext[bytes, bytes] | None") -> bytes:
        """One CheckRequest; a CheckResponse."""
        try:
            return await self._checked(data)
        except Refused as error:
            return _refused(error)
        except StoreUnavailable:
            return _rendered(store_failed())
        except Exception as error:
            _FAULTS.record("internal_fault", error)
            return _rendered(own_fault())

    async def _checked(self, data: bytes) -> bytes:
        try:
            checked = read_check(data)
        except Unreadable as error:
            raise Refused(400, "message_unreadable", str(error)) from error
        principal = await self._principal(checked)
        targets = {name: each.target for name, each in self._gateway.registry.upstreams.items()}
        try:
            request = as_request(checked, targets)
        except Refused as error:
            request = nowhere(error)
        judged = await judge(self._gateway, request, principal, irreversible=self._irreversible)
        if judged.refusal is None:
            return allowed({"gateway-decision": judged.decision_id, **_ENFORCEMENT}, _REMOVED)
        headers = {**dict(judged.refusal.headers), **_ENFORCEMENT}
        return refused(judged.refusal.status, judged.code, headers, judged.refusal.body)

    async def _principal(self, checked: Checked) -> Principal:
        shown = Presented(
            authorization=checked.headers.get("authorization"),
            audiences=audiences(self._resource, ""),
        )
        try:
            principal = await self._authenticate(shown)
            require(principal, "tools.call")
        except Unauthenticated as error:
            raise Refused(401, "unauthenticated", str(error)) from None
        except Forbidden as error:
            raise Refused(403, "forbidden", str(error)) from None
        except ProviderUnavailable:
            said = "the identity provider cannot be asked now"
            raise Refused(503, "identity_unavailable", said, next_action="retry") from None
        return principal


def _refused(error: Refused) -> bytes:
    return _rendered(error.refusal())


def _rendered(refusal: Refusal) -> bytes:
    _, body = render(refusal)
    headers = {"content-type": "application/problem+json", **_ENFORCEMENT}
    return refused(refusal.status, refusal.code, headers, body)
