"""The policy engine the configuration names."""

from collections.abc import Set
from pathlib import Path

from processors.value import duration_ns
from sidecar import clock
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.gateway.config import Policy
from sidecar.gateway.driver import Gateway
from sidecar.gateway.policy.files import load_release
from sidecar.gateway.policy.live.driver import LivePolicy, PolicyWatch
from sidecar.gateway.policy.opa import OpaServer
from sidecar.gateway.policy.release import Release, ReleaseInvalid, Terms, read_key
from sidecar.gateway.policy.worker import PolicyWorker

PolicyEngine = LivePolicy | OpaServer


def policy_parts(
    policy: Policy, loaded: Loaded, own_ports: Set[int] = frozenset()
) -> tuple[PolicyEngine, Release | None]:
    """The engine the configuration names, and the release it is to decide by (None: whatever an
    OPA server has). Raises SidecarError for a bundle that cannot be used.
    """
    deadline_ns = duration_ns(policy.deadline)
    if policy.engine == "embedded":
        release = open_release(policy, loaded)
        live = LivePolicy(
            release,
            lambda each: PolicyWorker(each.bundle, deadline_ns=deadline_ns),
            remember=policy.remember,
            accept_loosening=policy.loosening == "accept",
            shadow=_shadow(policy, loaded),
        )
        return live, release
    expected = open_release(policy, loaded) if policy.bundle else None
    server = OpaServer(
        policy.target,
        Egress(own_ports=own_ports),
        deadline_ns=deadline_ns,
        expected=expected.bundle.revision if expected else "",
        token=_token(Path(loaded.path(policy.token_file))) if policy.token_file else "",
    )
    return server, expected


def policy_port(policy: Policy, loaded: Loaded) -> PolicyEngine:
    """The engine alone. Raises SidecarError for a bundle that cannot be used."""
    return policy_parts(policy, loaded)[0]


def open_release(policy: Policy, loaded: Loaded) -> Release:
    """The configured bundle, its signature checked where that is wanted. Raises SidecarError."""
    path = loaded.path(policy.bundle) if policy.bundle else ""
    return load_release(path, _terms(policy, loaded), clock.now_ns() // 1_000_000_000)


def follow_policy(
    policy: PolicyEngine, gateway: Gateway, config: Policy, loaded: Loaded
) -> PolicyWatch | None:
    """From now on the gateway activates what the policy changes to; what looks for a change of the
    embedded engine's bundle, if that is wanted.
    """
    if isinstance(policy, OpaServer):
        policy.on_change = gateway.activate_policy
        return None
    policy.activate = gateway.activate_policy
    rest_ns = duration_ns(config.watch)
    if not rest_ns or not config.bundle:  # the bundle that ships changes with the program only
        return None
    return PolicyWatch(policy, lambda: open_release(config, loaded), rest_ns / 1e9)


def _shadow(policy: Policy, loaded: Loaded) -> Release | None:
    """The bundle to try, which need not be signed: it decides nothing."""
    return load_release(loaded.path(policy.shadow), Terms(), 0) if policy.shadow else None


def _terms(policy: Policy, loaded: Loaded) -> Terms:
    keys = []
    for key in policy.signing.keys:
        path = Path(loaded.path(key.file))
        try:
            keys.append(read_key(key.id, path.read_bytes()))
        except (OSError, ReleaseInvalid) as error:
            raise SidecarError(
                f"a key that signs policy bundles cannot be read: {error}", where=str(path)
            ) from error
    return Terms(keys=tuple(keys), scope=policy.signing.scope)


def _token(path: Path) -> str:
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SidecarError(
            "the token for the OPA server cannot be read", where=str(path), do="Write it there."
        ) from error
    if not text or not text.isprintable() or " " in text:
        raise SidecarError("the token for the OPA server is no token", where=str(path))
    return text
