"""The gateway's configuration: upstreams, the tool registry, policy, approvals, budgets."""

import ipaddress
import re
from collections.abc import Iterator
from typing import Literal

from msgspec import Struct, field

from processors.model.names import SideEffectClass
from processors.model.principal import StepUp
from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar.egress.rules import Target, undialable
from sidecar.errors import Problem
from sidecar.gateway.amount import read_amount
from sidecar.gateway.budget import Priced
from sidecar.gateway.content import is_header, may_be_ours, merged, never_forwarded
from sidecar.gateway.pointer import is_pointer
from sidecar.gateway.probing import Rules
from sidecar.gateway.resource import is_resource
from sidecar.gateway.webhook import Webhook
from sidecar.listen.config import Tls
from sidecar.store.ledger import Pace

Mode = Literal["enforce", "observe", "twin"]
ATTEMPTS_MAX = 100
BODY_BYTES_MOST = 64 * 1024**2
_REMEMBER_MOST = 10_000
PROBING_MOST = 1000
_OPA_LEAST_NS, _OPA_MOST_NS = 50_000_000, 150_000_000
RESERVED_UPSTREAMS = frozenset({"v1", "mcp", "healthz", "access"})
_PAGES = re.compile(r"https?://[A-Za-z0-9.:\[\]-]+(?:/[A-Za-z0-9._~/-]*)?\Z")
_PIN = re.compile(r"sha256/[A-Za-z0-9+/]{43}=\Z")
LABEL = re.compile(r"[a-z][a-z0-9_]{0,39}\Z")
_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,63}\Z")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


class Credential(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A header the gateway adds for an upstream; its value is the content of ``file``."""

    header: str
    file: str


class UpstreamTls(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For an upstream on https: PEM files of its own authority, and of what the gateway shows it.

    ``pins``: the public keys its certificate may have (``sha256/<base64>`` of the key's
    SubjectPublicKeyInfo, RFC 7469); any that its authority vouches for where there are none.
    """

    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""
    pins: tuple[str, ...] = ()


class Upstream(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A service that tools live on. Private addresses must be named in ``allow_cidrs``."""

    name: str
    url: str
    allow_cidrs: tuple[str, ...] = ()
    credential: Credential | None = None
    tls: UpstreamTls = UpstreamTls()

    @property
    def target(self) -> Target:
        """Where it is dialled."""
        return Target(
            name=self.name, url=self.url, allow_cidrs=self.allow_cidrs, pins=self.tls.pins
        )


class McpServer(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An MCP server (streamable HTTP), reached at ``/mcp/<name>``.

    ``definitions``: a JSON file with its tools as reviewed, in the form of a ``tools/list`` result;
    what is not in it, or is another now, is withheld. ``refresh``: how old its list may get.
    """

    name: str
    url: str
    allow_cidrs: tuple[str, ...] = ()
    credential: Credential | None = None
    tls: UpstreamTls = UpstreamTls()
    definitions: str = ""
    refresh: str = "60s"

    @property
    def upstream(self) -> Upstream:
        """Where it is dialled, as an upstream."""
        return Upstream(
            name=self.name,
            url=self.url,
            allow_cidrs=self.allow_cidrs,
            credential=self.credential,
            tls=self.tls,
        )


class ExtAuthz(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Envoy's external authorisation on ``control.grpc``: decisions only.

    ``irreversible``: such calls may be allowed too, though nothing here keeps them from being made
    twice.
    """

    on: bool = False
    irreversible: bool = False


class Authzen(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """OpenID AuthZEN on the gateway's port (``/access/v1/evaluation``): decisions only.

    ``irreversible``: such calls may be allowed too, though nothing here keeps them from being made
    twice.
    """

    on: bool = False
    irreversible: bool = False


class Match(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which requests are this tool: method, and a path template such as ``/orders/{order_id}``; or
    ``tool``, its name on an MCP server; or ``resource`` or ``prompt``, a pattern of the URIs or
    names there (``*`` any characters but ``/``, ``**`` any)."""

    method: str = ""
    path: str = ""
    tool: str = ""
    resource: str = ""
    prompt: str = ""

    @property
    def on_mcp(self) -> bool:
        """Whether it is something of an MCP server."""
        return bool(self.tool or self.resource or self.prompt)


class Arguments(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``schema``: a JSON Schema file, relative to the configuration file."""

    schema: str = ""


class Idempotency(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """``header`` is what the agent's key comes in, and what the upstream's own goes in; another
    ``upstream_header``, or a member of its JSON body (``upstream_field``), where it looks there.
    ``upstream_form``: what its key looks like. ``derive`` lets the gateway make the key from
    trace and step ids when the agent sends none.

    ``upstream_retention``: how long an idempotent upstream remembers a key; ``retention`` must not
    exceed it. ``volatile``: JSON pointers to arguments that change with every try, such as a
    timestamp. ``duplicate_window``: calls without a key are taken, and the same one again within
    it is refused; empty: irreversible calls without a key are refused.
    """

    header: str = "Idempotency-Key"
    upstream_header: str = ""
    upstream_field: str = ""
    upstream_form: Literal["text", "uuid"] = "text"
    retention: str = "24h"
    derive: bool = False
    upstream_idempotent: bool = False
    upstream_retention: str = "24h"
    volatile: tuple[str, ...] = ()
    duplicate_window: str = ""


class Reconcile(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to find out whether a call with an unknown outcome happened: a GET and a CEL ``done``.

    ``settle``: how long after an attempt "not done" proves nothing, because the upstream may still
    be at work on it; empty is the larger of twice the tool's ``timeout`` and 60 s.
    """

    get: str
    done: str
    settle: str = ""


class Cost(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """CEL over ``arguments``: what a call costs.

    ``max`` is what budgets reserve where the cost is not known beforehand; ``settle`` a JSON
    pointer to the amount in the tool's answer that was really spent.
    """

    amount: str
    currency: str = ""
    max: str = ""
    settle: str = ""


class Tokens(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The tokens a call uses: at most ``max``; ``settle`` a JSON pointer to how many it did."""

    max: str
    settle: str = ""


class Durable(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Calls of this tool that come with ``Prefer: respond-async`` are made until they have an end:
    up to ``attempts`` times, ``backoff`` apart at first, twice as long each time up to
    ``backoff_max``, and not beyond ``deadline``."""

    attempts: int = 8
    backoff: str = "1s"
    backoff_max: str = "5m"
    deadline: str = "24h"


class StepUpRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the sign-in of who approves a tool's calls must be, as their identity provider says it:
    an ``acr`` that is one of these, an ``amr`` that has all of these, no longer ago than
    ``max_age``. What is empty is not demanded."""

    acr: tuple[str, ...] = ()
    amr: tuple[str, ...] = ()
    max_age: str = ""

    @property
    def demand(self) -> tuple[StepUp, ...]:
        """The demand, none where the rule is empty."""
        if not (self.acr or self.amr or self.max_age):
            return ()
        age_s = duration_ns(self.max_age) // 10**9 if self.max_age else None
        return (StepUp(acr=self.acr, amr=self.amr, max_age_s=age_s),)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``step_up``."""
        found = [
            Problem(key, "has an empty value")
            for key, values in (("acr", self.acr), ("amr", self.amr))
            if not all(values)
        ]
        try:
            if self.max_age and duration_ns(self.max_age) < 10**9:
                found.append(Problem("max_age", "must be at least 1s"))
        except ValueError as error:
            found.append(Problem("max_age", str(error)))
        return found


class Tool(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One tool of the registry.

    ``policy_failure``: what a read gets while policy has no usable answer; what has effects is
    denied then.
    ``concurrency_max``: how many of its calls may be on their way in one gateway, 0 any number.
    ``definition``: the digest of its reviewed definition, where it is on an MCP server and
    ``mcp.definitions`` does not say. ``headers``: those that mean something to it: judged, hashed
    and sent on, as no others are. ``returns``: labels of what its results may carry to the
    agent, such as ``untrusted``; policy sees those of all tools called before in the session.
    ``step_up``: what the sign-in of who approves its calls must be, besides what policy demands.
    """

    name: str
    upstream: str
    match: Match
    class_: SideEffectClass = field(name="class", default="irreversible")
    mode: Mode | None = None
    policy_failure: Literal["deny", "allow"] = "deny"
    arguments: Arguments = Arguments()
    idempotency: Idempotency = Idempotency()
    reconcile: Reconcile | None = None
    durable: Durable | None = None
    cost: Cost | None = None
    tokens: Tokens | None = None
    timeout: str = "30s"
    concurrency_max: int = 0
    definition: str = ""
    headers: tuple[str, ...] = ()
    returns: tuple[str, ...] = ()
    step_up: StepUpRule = StepUpRule()
    no_effect_statuses: tuple[int, ...] = (
        *(400, 401, 403, 404, 405, 406, 411, 413, 414, 415, 422, 429),
    )


class Probing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``gateway.probing``: an agent of which policy denies so many different calls of one tool
    within ``window`` is frozen, until a person lifts that; 0 denials: never."""

    denials: int = 20
    window: str = "10m"

    @property
    def rules(self) -> Rules:
        """The same, for the gateway."""
        return Rules(denials=self.denials, window_ns=duration_ns(self.window))

    def problems(self) -> Iterator[Problem]:
        """What is wrong with the values, dotted below ``gateway.probing``."""
        if not 0 <= self.denials <= PROBING_MOST:
            yield Problem("denials", f"must be 0 to {PROBING_MOST}")
        try:
            duration_ns(self.window, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            yield Problem("window", str(error))


class Config(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``gateway``. ``body_bytes_max``: at most 64 MiB; above 1 MiB a body is on disk.

    ``resource``: the URL at which agents reach the gateway, such as ``https://gateway.example``.
    With it, tokens of identity providers have to be meant for it, or for
    ``<resource>/mcp/<server>`` at that server, and clients are told where to get one (RFC 9728).
    """

    listen: str = "127.0.0.1:4319"
    resource: str = ""
    mode: Mode = "enforce"
    upstreams: tuple[Upstream, ...] = ()
    tools: tuple[Tool, ...] = ()
    mcp: tuple[McpServer, ...] = ()
    body_bytes_max: int = 1024**2
    accept_ephemeral_ledger: bool = False
    ext_authz: ExtAuthz = ExtAuthz()
    probing: Probing = Probing()
    authzen: Authzen = Authzen()
    tls: Tls = Tls()

    @property
    def priced(self) -> tuple[Priced, ...]:
        """What budgets need to know of the tools."""
        return tuple(
            Priced(name=tool.name, class_=tool.class_, costs=tool.cost is not None)
            for tool in self.tools
        )

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``gateway``."""
        tls = [Problem(f"tls.{each.path}", each.text) for each in self.tls.problems()]
        tls += [Problem(f"probing.{each.path}", each.text) for each in self.probing.problems()]
        if not 0 < self.body_bytes_max <= BODY_BYTES_MOST:
            text = f"must be 1 to {BODY_BYTES_MOST} (64 MiB)"
            tls.append(Problem("body_bytes_max", text))
        if self.resource and not is_resource(self.resource):
            tls.append(Problem("resource", "is no http(s)://host[:port] without a path"))
        return [*self._upstream_problems(), *self._tool_problems(), *self._mcp_problems(), *tls]

    def _mcp_problems(self) -> list[Problem]:
        found = []
        for index, server in enumerate(self.mcp):
            try:
                duration_ns(server.refresh, least_ns=TIMEOUT_LEAST_NS)
            except ValueError as error:
                found.append(Problem(f"mcp.{index}.refresh", str(error)))
        return found

    def _upstream_problems(self) -> list[Problem]:
        found: list[Problem] = []
        seen: set[str] = set()
        listed = [(f"upstreams.{index}", each) for index, each in enumerate(self.upstreams)]
        listed += [(f"mcp.{index}", each.upstream) for index, each in enumerate(self.mcp)]
        for where, upstream in listed:
            if upstream.name in RESERVED_UPSTREAMS or not _NAME.match(upstream.name):
                found.append(
                    Problem(f"{where}.name", f"{upstream.name!r} cannot be an upstream's name")
                )
            if upstream.name in seen:
                found.append(Problem(f"{where}.name", f"{upstream.name!r} is named twice"))
            seen.add(upstream.name)
            cidrs = list(_cidr_problems(f"{where}.allow_cidrs", upstream.allow_cidrs))
            found += cidrs
            if upstream.credential and not may_be_ours(upstream.credential.header):
                text = f"{upstream.credential.header!r} is no header that a credential can be in"
                found.append(Problem(f"{where}.credential.header", text))
            given = upstream.tls
            if bool(given.cert_file) != bool(given.key_file):
                found.append(Problem(f"{where}.tls", "cert_file and key_file go together"))
            for pin in given.pins:
                if not _PIN.match(pin):
                    text = f"{pin!r} is no pin: sha256/ and the base64 of a SHA-256 digest"
                    found.append(Problem(f"{where}.tls.pins", text))
            if given != UpstreamTls() and not upstream.url.startswith("https://"):
                found.append(Problem(f"{where}.tls", "is for an upstream on https"))
            why = undialable(upstream.target, ranges=not cidrs)
            if why is not None:
                found.append(Problem(f"{where}.url", why))
        return found

    def _tool_problems(self) -> list[Problem]:
        found: list[Problem] = []
        names: set[str] = set()
        servers = {server.name for server in self.mcp}
        upstreams = {upstream.name for upstream in self.upstreams} | servers
        places: tuple[Upstream | McpServer, ...] = (*self.upstreams, *self.mcp)
        credentials = {
            each.name: merged(each.credential.header)
            for each in places
            if each.credential is not None
        }
        for index, tool in enumerate(self.tools):
            where = f"tools.{index}"
            if tool.name in names:
                found.append(Problem(f"{where}.name", f"{tool.name!r} is named twice"))
            names.add(tool.name)
            found += _idempotency_problems(f"{where}.idempotency", tool.idempotency)
            found += _durable_problems(f"{where}.durable", tool)
            if tool.upstream not in upstreams and self.mode != "twin":
                found.append(
                    Problem(f"{where}.upstream", f"there is no upstream {tool.upstream!r}")
                )
            if tool.concurrency_max < 0:
                found.append(Problem(f"{where}.concurrency_max", "must be 0 or more"))
            found += _header_problems(where, tool, credentials.get(tool.upstream))
            if tool.headers and tool.upstream in servers:
                text = "a tool of an MCP server gets no headers of the caller"
                found.append(Problem(f"{where}.headers", text))
            found += _match_problems(f"{where}.match", tool, on_mcp=tool.upstream in servers)
            for key, text in (
                ("timeout", tool.timeout),
                ("reconcile.settle", (tool.reconcile and tool.reconcile.settle) or "0s"),
            ):
                least_ns = 0 if key == "reconcile.settle" else TIMEOUT_LEAST_NS
                try:
                    duration_ns(text, least_ns=least_ns)
                except ValueError as error:
                    found.append(Problem(f"{where}.{key}", str(error)))
            found += _cost_problems(where, tool)
            found += [
                Problem(f"{where}.step_up.{each.path}", each.text)
                for each in tool.step_up.problems()
            ]
            if tool.policy_failure == "allow" and tool.class_ != "read":
                text = "only a read may be let through without policy's answer"
                found.append(Problem(f"{where}.policy_failure", text))
            for place, label in enumerate(tool.returns):
                if not LABEL.match(label):
                    found.append(Problem(f"{where}.returns.{place}", "is no lower_snake_case word"))
            if tool.mode == "twin":
                found.append(Problem(f"{where}.mode", "is enforce or observe"))
        return found


def _cost_problems(where: str, tool: Tool) -> Iterator[Problem]:
    for key, said in (("cost", tool.cost), ("tokens", tool.tokens)):
        if said is None:
            continue
        if said.max and read_amount(said.max) is None:
            yield Problem(f"{where}.{key}.max", "must be plain decimal text such as 12.50")
        if said.settle and not said.settle.startswith("/"):
            text = "must be a JSON pointer such as /usage/total"
            yield Problem(f"{where}.{key}.settle", text)


def _header_problems(where: str, tool: Tool, credential: str | None) -> Iterator[Problem]:
    """A tool's headers that are ours, or that its server could take for one of ours."""
    key = tool.idempotency.header
    if not may_be_ours(key) or merged(key) in (credential, "authorization", "cookie"):
        yield Problem(f"{where}.idempotency.header", f"{key!r} is no header that a key can be in")
    theirs = tool.idempotency.upstream_header
    if theirs and (not may_be_ours(theirs) or merged(theirs) in (credential, "authorization")):
        text = f"{theirs!r} is no header that a key can be in"
        yield Problem(f"{where}.idempotency.upstream_header", text)
    taken = {merged(key), credential, merged(theirs)}
    for name in tool.headers:
        plain = name == name.lower() and is_header(name, "")
        if not plain or never_forwarded(name) or merged(name) in taken:
            text = f"{name!r} is no lower-case name of a header that is sent on"
            yield Problem(f"{where}.headers", text)
        taken.add(merged(name))


def _match_problems(where: str, tool: Tool, *, on_mcp: bool) -> Iterator[Problem]:
    match = tool.match
    if on_mcp:
        named = sum(bool(each) for each in (match.tool, match.resource, match.prompt))
        if match.method or match.path or named != 1:
            text = "names what is on an MCP server by tool, resource or prompt, and by nothing else"
            yield Problem(where, text)
        return
    if match.on_mcp:
        key = next(key for key in ("tool", "resource", "prompt") if getattr(match, key))
        yield Problem(f"{where}.{key}", f"{tool.upstream!r} is no MCP server")
    if not match.path.startswith("/"):
        yield Problem(f"{where}.path", "must start with /")


def _idempotency_problems(path: str, rules: Idempotency) -> Iterator[Problem]:
    for position, pointer in enumerate(rules.volatile):
        if not is_pointer(pointer):
            yield Problem(f"{path}.volatile.{position}", f"{pointer!r} is no JSON pointer: /name")
    if rules.upstream_field and not _FIELD.match(rules.upstream_field):
        text = f"{rules.upstream_field!r} is no name of a member"
        yield Problem(f"{path}.upstream_field", text)
    lengths = {}
    for name in ("retention", "upstream_retention", "duplicate_window"):
        text = getattr(rules, name)
        if name == "duplicate_window" and not text:
            continue
        try:
            lengths[name] = duration_ns(text, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            yield Problem(f"{path}.{name}", str(error))
    remembered = lengths.get("upstream_retention", 0)
    if rules.upstream_idempotent and 0 < remembered < lengths.get("retention", 0):
        yield Problem(
            f"{path}.retention",
            "exceeds upstream_retention: a call would be sent again after the upstream has "
            "forgotten its key",
        )


def _durable_problems(path: str, tool: Tool) -> Iterator[Problem]:
    rules = tool.durable
    if rules is None:
        return
    if tool.class_ == "read":
        yield Problem(path, "is for calls with effects: a read is simply asked again")
    if not 1 <= rules.attempts <= ATTEMPTS_MAX:
        yield Problem(f"{path}.attempts", f"must be 1 to {ATTEMPTS_MAX}")
    for name in ("backoff", "backoff_max", "deadline"):
        try:
            duration_ns(getattr(rules, name), least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            yield Problem(f"{path}.{name}", str(error))


def _cidr_problems(path: str, cidrs: tuple[str, ...]) -> Iterator[Problem]:
    for position, cidr in enumerate(cidrs):
        try:
            ipaddress.ip_network(cidr)
        except ValueError as error:
            yield Problem(f"{path}.{position}", str(error))


class BundleKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A public key (PEM: Ed25519, P-256 or RSA) that may sign bundles, by the id it signs under.
    ``owners``: who signs with it, by name; none of them approves what it signed."""

    id: str
    file: str
    owners: tuple[str, ...] = ()


class Signing(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``policy.signing``: with ``keys``, only a bundle that one of them signed, for ``scope``,
    decides, and never one with a lower number than was active before."""

    keys: tuple[BundleKey, ...] = ()
    scope: str = ""


class Subject(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What policy is told of a principal beside its credential: ``trust``, a word, and ``labels``.

    ``id`` is the principal's, such as ``key:<id>``.
    """

    id: str
    trust: str = ""
    labels: dict[str, str] = {}


class Compare(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``policy.compare``: an OPA server with the same bundle that is asked a ``share`` of the
    decisions (0 to 1) too; with ``irreversible: deny`` every irreversible call, which both must
    answer alike."""

    url: str = ""
    allow_cidrs: tuple[str, ...] = ()
    token_file: str = ""
    share: float = 0.01
    irreversible: Literal["tell", "deny"] = "tell"

    @property
    def target(self) -> Target:
        """Where the OPA server is dialled."""
        return Target(name="policy compare", url=self.url, allow_cidrs=self.allow_cidrs)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``policy.compare``."""
        if not self.url:
            said = {
                "allow_cidrs": bool(self.allow_cidrs),
                "token_file": bool(self.token_file),
                "irreversible": self.irreversible != "tell",
            }
            return [Problem(name, "goes with url") for name in said if said[name]]
        cidrs = list(_cidr_problems("allow_cidrs", self.allow_cidrs))
        why = undialable(self.target, ranges=not cidrs)
        found = [*cidrs, *([Problem("url", why)] if why is not None else [])]
        if not 0 <= self.share <= 1:
            found.append(Problem("share", "must be 0 to 1"))
        return found


class Policy(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``policy``: the embedded engine with a bundle, or an OPA server.

    ``bundle``: the folder or archive that decides, empty for the one that ships with the program.
    With the engine ``opa`` it is the one that the server must have, and empty for whichever it has;
    ``url`` is the server's, ``allow_cidrs`` the ranges it may be in, ``token_file`` holds a bearer
    token for it, and ``deadline`` is 50 to 150 ms.

    ``watch``: how often the embedded engine's bundle is looked at for a change (``0s``: never). A
    changed one first judges the last ``remember`` decisions; ``loosening`` says whether it decides
    even where it is less strict. ``shadow``: a bundle that is tried beside it and decides nothing.
    ``subjects``: what it is told of principals.

    A looser bundle decides once two people have approved it: anybody who may decide on approvals,
    or only those that ``approvers`` names. ``max_stale``: for how long a bundle decides that could
    not be refreshed, or is out of its time; then nothing is allowed. ``fold``: which bundles the
    embedded engine evaluates folded with their data: those whose rules ship with the program, all,
    or none.
    """

    engine: Literal["embedded", "opa"] = "embedded"
    bundle: str = ""
    deadline: str = "100ms"
    url: str = ""
    allow_cidrs: tuple[str, ...] = ()
    token_file: str = ""
    signing: Signing = Signing()
    watch: str = "5s"
    remember: int = 200
    loosening: Literal["refuse", "accept"] = "refuse"
    shadow: str = ""
    subjects: tuple[Subject, ...] = ()
    approvers: tuple[str, ...] = ()
    max_stale: str = "24h"
    fold: Literal["shipped", "always", "never"] = "shipped"
    compare: Compare = Compare()

    @property
    def target(self) -> Target:
        """Where the OPA server is dialled."""
        return Target(name="policy", url=self.url, allow_cidrs=self.allow_cidrs)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``policy``."""
        found = []
        try:
            deadline_ns = duration_ns(self.deadline, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            found.append(Problem("deadline", str(error)))
        else:
            if self.engine == "opa" and not _OPA_LEAST_NS <= deadline_ns <= _OPA_MOST_NS:
                found.append(Problem("deadline", "must be 50ms to 150ms with an OPA server"))
        for name in ("watch", "max_stale"):
            try:
                duration_ns(getattr(self, name))
            except ValueError as error:
                found.append(Problem(name, str(error)))
        if not 0 <= self.remember <= _REMEMBER_MOST:
            found.append(Problem("remember", f"must be 0 to {_REMEMBER_MOST}"))
        for name, said in (("shadow", self.shadow), ("compare.url", self.compare.url)):
            if said and self.engine != "embedded":
                found.append(Problem(name, "is for the embedded engine"))
        found += [Problem(f"compare.{each.path}", each.text) for each in self.compare.problems()]
        return [
            *found,
            *self._server_problems(),
            *self._signing_problems(),
            *_subject_problems(self.subjects),
        ]

    def _signing_problems(self) -> list[Problem]:
        names = [key.id for key in self.signing.keys]
        found = [
            Problem(f"signing.keys.{place}.id", "is empty or there twice")
            for place, name in enumerate(names)
            if not name or name in names[:place]
        ]
        if names and not self.bundle:
            found.append(
                Problem("bundle", "must be a signed archive where policy.signing has keys")
            )
        return found

    def _server_problems(self) -> list[Problem]:
        if self.engine == "embedded":
            said = {"url": self.url, "allow_cidrs": self.allow_cidrs, "token_file": self.token_file}
            return [Problem(name, "is for the engine opa") for name in said if said[name]]
        cidrs = list(_cidr_problems("allow_cidrs", self.allow_cidrs))
        why = undialable(self.target, ranges=not cidrs)
        return [*cidrs, *([Problem("url", why)] if why is not None else [])]


def _subject_problems(subjects: tuple[Subject, ...]) -> Iterator[Problem]:
    seen: set[str] = set()
    for place, subject in enumerate(subjects):
        where = f"subjects.{place}"
        if not subject.id or subject.id in seen:
            yield Problem(f"{where}.id", "is empty or there twice")
        seen.add(subject.id)
        if subject.trust and not LABEL.match(subject.trust):
            yield Problem(f"{where}.trust", "is no lower_snake_case word")
        for name in subject.labels:
            if not LABEL.match(name):
                yield Problem(f"{where}.labels.{name}", "is no lower_snake_case word")


class Fatigue(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How much people are asked: per ``window``, one person approves at most ``approvals_max``
    requests, and one agent makes at most ``requests_max``. Denials are not limited."""

    approvals_max: int = 120
    requests_max: int = 120
    window: str = "1h"

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``approvals.fatigue``."""
        found = [
            Problem(key, "must be at least 1")
            for key, value in (
                ("approvals_max", self.approvals_max),
                ("requests_max", self.requests_max),
            )
            if value < 1
        ]
        try:
            duration_ns(self.window, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            found.append(Problem("window", str(error)))
        return found

    @property
    def person(self) -> Pace:
        """How often a person approves."""
        return Pace(most=self.approvals_max, window_ns=duration_ns(self.window))

    @property
    def agent(self) -> Pace:
        """How often an agent asks."""
        return Pace(most=self.requests_max, window_ns=duration_ns(self.window))


class BreakGlassRule(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Who may break the glass on a request whose approvers cannot be had: two of ``people``, each a
    name, a role or a kind as in policy's ``approval.roles``; nobody where there are none. Both have
    ``expires`` to do it, and the call as long after that at most."""

    people: tuple[str, ...] = ()
    expires: str = "5m"

    @property
    def expires_ns(self) -> int:
        """``expires`` in nanoseconds."""
        return duration_ns(self.expires)


class Approvals(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Key ``approvals``: how many approvers, how long they may take (``expires``), and for how long
    after that the call may be made (``execute_within``).

    ``pages``: the URL at which people reach the control port, such as
    ``https://sidecar.example``; empty is ``control.listen``.
    """

    approvers: int = 1
    expires: str = "10m"
    execute_within: str = "10m"
    distinct_from: tuple[Literal["requester", "owner", "on_behalf_of"], ...] = (
        *("requester", "owner", "on_behalf_of"),
    )
    fatigue: Fatigue = Fatigue()
    break_glass: BreakGlassRule = BreakGlassRule()
    pages: str = ""
    webhooks: tuple[Webhook, ...] = ()

    @property
    def expires_ns(self) -> int:
        """``expires`` in nanoseconds."""
        return duration_ns(self.expires)

    @property
    def execute_within_ns(self) -> int:
        """``execute_within`` in nanoseconds."""
        return duration_ns(self.execute_within)

    def problems(self) -> list[Problem]:
        """What is wrong with the values, dotted below ``approvals``."""
        found = []
        for key, text in (("expires", self.expires), ("execute_within", self.execute_within)):
            try:
                duration_ns(text, least_ns=TIMEOUT_LEAST_NS)
            except ValueError as error:
                found.append(Problem(key, str(error)))
        found += self._glass_problems()
        if self.approvers < 1:
            found.append(Problem("approvers", "must be at least 1"))
        for index, each in enumerate(self.webhooks):
            found += [Problem(f"webhooks.{index}.{p.path}", p.text) for p in each.problems()]
            if each.name in {before.name for before in self.webhooks[:index]}:
                found.append(Problem(f"webhooks.{index}.name", f"{each.name!r} is named twice"))
        if self.pages and not _PAGES.match(self.pages):
            found.append(Problem("pages", "is no http:// or https:// URL without query"))
        found += [Problem(f"fatigue.{each.path}", each.text) for each in self.fatigue.problems()]
        return found

    def _glass_problems(self) -> Iterator[Problem]:
        try:
            lasts_ns = duration_ns(self.break_glass.expires, least_ns=TIMEOUT_LEAST_NS)
            named = bool(self.break_glass.people)
            if named and lasts_ns > min(self.expires_ns, self.execute_within_ns):
                text = "is longer than expires or execute_within; it is the shortest of them"
                yield Problem("break_glass.expires", text)
        except ValueError as error:
            yield Problem("break_glass.expires", str(error))
        if not all(self.break_glass.people):
            yield Problem("break_glass.people", "has an empty name")
