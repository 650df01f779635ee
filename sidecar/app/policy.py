"""The policy engine the configuration names."""

from processors.value import duration_ns
from sidecar.config import Loaded
from sidecar.gateway.config import Policy
from sidecar.gateway.policy.files import load_bundle
from sidecar.gateway.policy.worker import PolicyWorker


def policy_port(policy: Policy, loaded: Loaded) -> PolicyWorker:
    """The engine the configuration names. Raises SidecarError for a bundle that cannot be used."""
    bundle = load_bundle(loaded.path(policy.bundle) if policy.bundle else "")
    return PolicyWorker(bundle, deadline_ns=duration_ns(policy.deadline))
