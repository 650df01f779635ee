"""The policy engine the configuration names."""

from collections.abc import Set
from functools import partial
from pathlib import Path

from processors.value import duration_ns
from sidecar import clock
from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.errors import SidecarError
from sidecar.gateway.config import Policy
from sidecar.gateway.driver import Gateway
from sidecar.gateway.policy.bundle import BundleInvalid
from sidecar.gateway.policy.files import load_release
from sidecar.gateway.policy.live.client import Second
from sidecar.gateway.policy.live.driver import LivePolicy, PolicyWatch
from sidecar.gateway.policy.opa import OpaServer
from sidecar.gateway.policy.release import Release, ReleaseInvalid, Terms, make, read, read_key
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.store.ports import PolicyBook
from sidecar.store.standing import person
from sidecar.telemetry import POLICY_STALE, log

PolicyEngine = LivePolicy | OpaServer
KEPT = "policy-active.tar.gz"
_LOG = log("policy")


def policy_parts(
    policy: Policy,
    loaded: Loaded,
    own_ports: Set[int] = frozenset(),
    book: PolicyBook | None = None,
) -> tuple[PolicyEngine, Release | None]:
    """The engine the configuration names, and the release it is to decide by (None: whatever an
    OPA server has). ``book``: where people decide on looser ones. Raises SidecarError for a bundle
    that cannot be used.
    """
    deadline_ns = duration_ns(policy.deadline)
    if policy.engine == "embedded":
        release = open_release(policy, loaded)
        if book is not None and policy.loosening == "refuse":
            watched = duration_ns(policy.watch) > 0
            release = standing_release(release, book, _kept_file(loaded), watched=watched)
        live = LivePolicy(
            release,
            lambda each: PolicyWorker(each.bundle, deadline_ns=deadline_ns, folds=policy.fold),
            remember=policy.remember,
            accept_loosening=policy.loosening == "accept",
            shadow=_shadow(policy, loaded),
            second=_second(policy, loaded, own_ports),
            stale_ns_max=duration_ns(policy.max_stale),
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


def standing_release(
    wanted: Release, book: PolicyBook, kept: Path, *, watched: bool = True
) -> Release:
    """What a sidecar starts on: not a bundle that waits for people, or that they denied, but the
    one before it, as it was kept. Raises SidecarError where that is not at hand.

    Nor is it another bundle in the same place, where one is ``watched`` for: a start has nothing
    to judge it by, so it is judged once it is looked at.
    """
    offer, active = book.policy_offer(), book.active_policy()
    revision = wanted.bundle.revision
    waits = offer is not None and offer.state in ("pending", "denied")
    if not waits or offer is None or offer.before != active or revision == active:
        return wanted
    if revision != offer.revision and not watched:
        return wanted
    try:
        found = read(kept.read_bytes(), Terms(), 0)
    except (OSError, ReleaseInvalid) as error:
        raise _not_kept(kept) from error
    if found.bundle.revision != active:
        raise _not_kept(kept)
    return found


def keep_release(release: Release, kept: Path) -> None:
    """Keep what decides, so that a start finds it while a looser one waits for people."""
    try:
        fresh = kept.with_suffix(".new")
        fresh.write_bytes(make(release.files, sequence=release.sequence))
        fresh.replace(kept)
    except (OSError, BundleInvalid) as error:
        _LOG.error("policy_not_kept", why=str(error))


def _kept_file(loaded: Loaded) -> Path:
    return Path(loaded.store_folder) / KEPT


def _not_kept(kept: Path) -> SidecarError:
    return SidecarError(
        "the policy bundle waits for two people to approve it, and the one before it was not kept",
        where=str(kept),
        do="Put the bundle before it back at policy.bundle; or set policy.loosening to accept.",
    )


def follow_policy(
    policy: PolicyEngine,
    gateway: Gateway,
    config: Policy,
    loaded: Loaded,
    book: PolicyBook | None = None,
) -> PolicyWatch | None:
    """From now on the gateway activates what the policy changes to; what looks for a change of the
    embedded engine's bundle, if that is wanted.
    """
    if isinstance(policy, OpaServer):
        policy.on_change = gateway.activate_policy
        return None
    policy.activate = gateway.activate_policy
    policy.activate_approved = partial(gateway.activate_policy, loosens=True)
    policy.keep = partial(keep_release, kept=_kept_file(loaded))
    POLICY_STALE.set_function(lambda: policy.stale_ns / 1e9)
    rest_ns = duration_ns(config.watch)
    if not rest_ns or not config.bundle:  # the bundle that ships changes with the program only
        return None
    policy.keep(policy.release)
    owners = {key.id: tuple(map(person, key.owners)) for key in config.signing.keys}
    return PolicyWatch(
        policy,
        lambda: open_release(config, loaded),
        rest_ns / 1e9,
        book=book if config.loosening == "refuse" else None,
        signers=lambda key_id: (person(key_id), *owners.get(key_id, ())),
    )


def _second(policy: Policy, loaded: Loaded, own_ports: Set[int]) -> Second | None:
    """The OPA server that is asked beside, where there is one."""
    said = policy.compare
    if not said.url:
        return None
    server = OpaServer(
        said.target,
        Egress(own_ports=own_ports),
        deadline_ns=duration_ns(policy.deadline),
        token=_token(Path(loaded.path(said.token_file))) if said.token_file else "",
    )
    return Second(server, share=said.share, strict=said.irreversible == "deny")


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
