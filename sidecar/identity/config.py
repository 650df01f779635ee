"""Who is who: organisations, client certificates and identity providers, as configured.

Rules
1. A provider is trusted for what its entry grants and for nothing else: a token that no grant fits
   opens nothing.
2. Only signatures by a provider's public keys count: neither ``none`` nor a shared secret can be
   configured.
"""

import ipaddress
import re
from collections.abc import Iterable, Iterator
from typing import Literal

from msgspec import Struct

from processors.model.principal import KeyKind, Role
from processors.value import duration_ns
from sidecar.egress.rules import Target, TargetRefused, read_target, undialable
from sidecar.errors import Problem
from sidecar.identity.declared import DeclaredKey
from sidecar.identity.projects import wrong_project_name
from sidecar.identity.roles import KIND_OF_ROLE

Algorithm = Literal[
    "RS256",
    "RS384",
    "RS512",
    "PS256",
    "PS384",
    "PS512",
    "ES256",
    "ES384",
    "ES512",
    "EdDSA",
    "Ed25519",
]
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_SKEW_MAX_NS = 5 * 60 * 10**9
_SECOND_NS = 10**9


class Organisation(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Projects that belong together: who has a role in it has that role in each of them."""

    name: str
    projects: tuple[str, ...]


class CertificateGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who a verified client certificate stands for, by one of its alternative names.

    ``san``: a URI (``spiffe://…``) or a DNS name, exactly. ``tools``: the only ones an agent may
    call. ``name``: the person or agent; who has the same one is the same. ``owner``: who answers
    for an agent, ``on_behalf_of``: for whom it acts, by name; neither approves its calls.
    """

    san: str
    project: str
    kind: KeyKind = "agent"
    role: Role | None = None
    name: str = ""
    tools: tuple[str, ...] = ()
    owner: str = ""
    on_behalf_of: str = ""


class ClaimGrant(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a token with a claim of that value may do: ``kind`` agent, or a ``role``, in a
    ``project`` or in all of an ``organisation``.

    ``claim``: a name, or a path with dots (``realm_access.roles``); a list counts where it holds
    the value.
    """

    claim: str
    value: str
    project: str = ""
    organisation: str = ""
    kind: Literal["agent"] | None = None
    role: Role | None = None


class Login(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How people sign in to the approval pages at a provider: this sidecar's ``client_id`` there,
    and the file with its secret, if it has one. The provider sends them back to
    ``<approvals.pages>/approvals/signed-in``."""

    client_id: str
    secret_file: str = ""
    scopes: tuple[str, ...] = ("openid", "profile", "email")


class Provider(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An OpenID Connect provider. ``audience`` must be in a token's ``aud``; ``clock_skew``: how
    far our clocks may be apart; ``lifetime_max``: how much longer a token may be good for, since
    none can be revoked; ``name_claim`` says who a person is, ``on_behalf_of_claim`` for whom an
    agent acts (such as ``act.sub`` or ``user``; empty: that is not said). ``jwks_url`` replaces
    discovery.
    """

    name: str
    issuer: str
    audience: str
    grants: tuple[ClaimGrant, ...]
    algorithms: tuple[Algorithm, ...] = ("RS256", "ES256")
    clock_skew: str = "30s"
    lifetime_max: str = "24h"
    name_claim: str = "sub"
    on_behalf_of_claim: str = ""
    jwks_url: str = ""
    allow_cidrs: tuple[str, ...] = ()
    ca_file: str = ""
    login: Login | None = None

    @property
    def target(self) -> Target:
        """Where its keys are looked for."""
        return Target(name=f"oidc {self.name}", url=self.issuer, allow_cidrs=self.allow_cidrs)

    @property
    def knows_agents(self) -> bool:
        """Whether a token of it can be an agent's."""
        return any(grant.kind == "agent" for grant in self.grants)

    def problems(self) -> Iterator[Problem]:
        """What is wrong with one provider."""
        if not _NAME.match(self.name):
            yield Problem("name", f"{self.name!r} is no name")
        if not self.audience:
            yield Problem("audience", "is empty; any token of the provider would do")
        if not self.algorithms:
            yield Problem("algorithms", "names none")
        for key, url in (("issuer", self.issuer), ("jwks_url", self.jwks_url)):
            if url:
                yield from _url_problems(key, replaced(self.target, url))
        if not self.issuer:
            yield Problem("issuer", "is empty")
        yield from _durations(self)
        if self.login is not None and self.login.client_id != self.audience:
            yield Problem("login.client_id", "is not the audience, which id tokens are made for")
        if self.login is not None and "openid" not in self.login.scopes:
            yield Problem("login.scopes", "has no openid; there would be no id token")
        if not self.grants:
            yield Problem("grants", "names none; no token would open anything")
        for index, grant in enumerate(self.grants):
            yield from _below(f"grants.{index}", _grant_problems(grant))


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Credentials besides the keys in the store."""

    keys: tuple[DeclaredKey, ...] = ()
    mtls: tuple[CertificateGrant, ...] = ()
    oidc: tuple[Provider, ...] = ()

    def problems(
        self, projects: Iterable[str], organisations: Iterable[Organisation]
    ) -> list[Problem]:
        """What is wrong with the values, dotted below ``identity``."""
        known, names = set(projects), {each.name for each in organisations}
        found: list[Problem] = []
        for index, key in enumerate(self.keys):
            found += _below(f"keys.{index}", _key_problems(key, known))
        seen: set[str] = set()
        for index, each in enumerate(self.mtls):
            found += _below(f"mtls.{index}", _certificate_problems(each, known, seen))
        titles: set[str] = set()
        issuers: set[tuple[str, str]] = set()
        for index, provider in enumerate(self.oidc):
            here = [*provider.problems()]
            if provider.name in titles:
                here.append(Problem("name", f"{provider.name!r} is named twice"))
            if (provider.issuer, provider.audience) in issuers:
                here.append(Problem("issuer", "stands twice with the same audience"))
            titles.add(provider.name)
            issuers.add((provider.issuer, provider.audience))
            for place, grant in enumerate(provider.grants):
                here += _below(f"grants.{place}", _unknown_names(grant, known, names))
            found += _below(f"oidc.{index}", here)
        return found


def organisation_problems(
    organisations: Iterable[Organisation], projects: Iterable[str]
) -> Iterator[Problem]:
    """What is wrong with the organisations, dotted below ``organisations``."""
    known = set(projects)
    owners: dict[str, str] = {}
    seen: set[str] = set()
    for index, each in enumerate(organisations):
        if wrong_project_name(each.name) is not None:
            yield Problem(f"{index}.name", f"{each.name!r} is no name")
        if each.name in seen:
            yield Problem(f"{index}.name", f"{each.name!r} is named twice")
        seen.add(each.name)
        if not each.projects:
            yield Problem(f"{index}.projects", "names none")
        for project in each.projects:
            if project not in known:
                yield Problem(f"{index}.projects", f"there is no project {project!r} in projects")
            elif owners.setdefault(project, each.name) != each.name:
                text = f"{project!r} belongs to {owners[project]!r} already"
                yield Problem(f"{index}.projects", text)


def replaced(target: Target, url: str) -> Target:
    """The same target at another URL."""
    return Target(name=target.name, url=url, allow_cidrs=target.allow_cidrs)


def _certificate_problems(
    grant: CertificateGrant, projects: set[str], seen: set[str]
) -> Iterator[Problem]:
    if not grant.san or "*" in grant.san:
        yield Problem("san", "is one URI or DNS name, without wildcards")
    if grant.san.lower() in seen:
        yield Problem("san", f"{grant.san!r} stands twice")
    seen.add(grant.san.lower())
    yield from _place_problems(grant, projects)


def _key_problems(key: DeclaredKey, projects: set[str]) -> Iterator[Problem]:
    if not key.file:
        yield Problem("file", "is empty; name the file that holds the key")
    if key.tools and key.kind != "agent":
        yield Problem("tools", "limits agents only")
    yield from _place_problems(key, projects)


def _place_problems(grant: CertificateGrant | DeclaredKey, projects: set[str]) -> Iterator[Problem]:
    if grant.project not in projects:
        yield Problem("project", f"there is no project {grant.project!r} in projects")
    if grant.role is not None and KIND_OF_ROLE[grant.role] != grant.kind:
        yield Problem("role", f"{grant.role} is a credential of kind {KIND_OF_ROLE[grant.role]}")
    if grant.on_behalf_of and grant.kind != "agent":
        yield Problem("on_behalf_of", "only an agent acts on behalf of a person")


def _grant_problems(grant: ClaimGrant) -> Iterator[Problem]:
    if not grant.claim:
        yield Problem("claim", "is empty")
    if bool(grant.project) == bool(grant.organisation):
        yield Problem("project", "name a project or an organisation, one of them")
    if (grant.kind is None) == (grant.role is None):
        yield Problem("role", "name a role, or kind: agent, one of them")
    if grant.kind is not None and grant.organisation:
        yield Problem("organisation", "an agent belongs to one project")


def _unknown_names(
    grant: ClaimGrant, projects: set[str], organisations: set[str]
) -> Iterator[Problem]:
    if grant.project and grant.project not in projects:
        yield Problem("project", f"there is no project {grant.project!r} in projects")
    if grant.organisation and grant.organisation not in organisations:
        yield Problem("organisation", f"there is no organisation {grant.organisation!r}")


def _url_problems(key: str, target: Target) -> Iterator[Problem]:
    why = undialable(target)
    if why is not None:
        yield Problem(key, why)
        return
    try:
        endpoint = read_target(target)
    except TargetRefused as error:
        yield Problem(key, str(error))
        return
    if endpoint.scheme == "http" and not _is_loopback(endpoint.host):
        yield Problem(key, "must be https://: whoever can change the answer can forge every token")


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _durations(provider: Provider) -> Iterator[Problem]:
    for key, text in (
        ("clock_skew", provider.clock_skew),
        ("lifetime_max", provider.lifetime_max),
    ):
        try:
            value = duration_ns(text)
        except ValueError as error:
            yield Problem(key, str(error))
            continue
        if key == "clock_skew" and value > _SKEW_MAX_NS:
            yield Problem(key, "must be at most 5m")
        if key == "lifetime_max" and value < _SECOND_NS:
            yield Problem(key, "must be at least 1s")


def _below(prefix: str, problems: Iterable[Problem]) -> list[Problem]:
    return [Problem(f"{prefix}.{each.path}", each.text) for each in problems]
