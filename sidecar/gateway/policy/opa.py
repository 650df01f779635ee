"""An OPA server as the policy engine: one question, one attempt, one short deadline.

**Rules**
1. Whatever the server does, the caller has an answer within the deadline: late, refused, malformed,
   undefined, an error of a built-in, or of a bundle that says no revision: a denial.
2. The path is one of two constants: nothing of a call ever becomes part of a URL. Built-in errors
   are strict. Nothing is asked twice, no redirect is followed.
3. It is dialled by ``egress`` only: its address is vetted and pinned like any upstream's.
4. The revision is that of OPA's own bundles, told with each answer. A changed one is made known
   (``on_change``) before an answer of it is given; where one is expected, another denies.
5. There is no other engine to fall back on.

Source: gateway.md §3.1, §5.2, §5.3. OPA's Data API, ``?provenance`` and ``?strict-builtin-errors``.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import orjson
from msgspec import Struct

from sidecar.clock import monotonic_ns
from sidecar.egress.client import Egress, EgressFailed
from sidecar.egress.rules import Target
from sidecar.errors import SidecarError
from sidecar.gateway.policy.document import encode, input_digest
from sidecar.gateway.policy.facts import FACTS, Fact
from sidecar.gateway.policy.result import PolicyAnswer, denied, read_answer
from sidecar.telemetry import DECISION_SECONDS, log

DECIDE, LIST = "decide", "list"
PACKAGE = "agenttwin.v1"
START_SECONDS = 10.0
_PARAMETERS = {"provenance": "true", "strict-builtin-errors": "true"}
_PAUSE_SECONDS = 0.25
_WATCH_SECONDS = 1.0
_log = log("policy")


class Unanswered(Exception):
    """OPA gave no usable answer; the message says why."""


class OpaAnswer(Struct, frozen=True, kw_only=True):
    """A read answer of the Data API; ``defined`` false where there is no ``result``."""

    defined: bool
    value: Any
    revision: str
    version: str


class OpaServer:
    """Decides by an OPA server. ``start`` it, ``decide``, ``stop`` it; all in one event loop.

    ``expected`` is the one revision that may decide, empty for whichever OPA has. ``token`` goes as
    a bearer token. The ``egress`` is its own and closed with it.
    """

    def __init__(
        self,
        target: Target,
        egress: Egress,
        *,
        deadline_ns: int = 100_000_000,
        expected: str = "",
        token: str = "",
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.on_change: Callable[[], Awaitable[None]] = _nobody
        self._target = target
        self._egress = egress
        self._deadline_ns = deadline_ns
        self._expected = expected
        self._token = token
        self._start_seconds = start_seconds
        self._client: Any = None
        self._revision = expected
        self._answering = False
        self._watching: asyncio.Task[None] | None = None

    @property
    def revision(self) -> str:
        """The revision of OPA's bundles when it was last asked."""
        return self._revision

    @property
    def reads(self) -> frozenset[Fact]:
        """All facts: what OPA's bundle reads is not known here."""
        return FACTS

    @property
    def answering(self) -> bool:
        """Whether OPA answered when it was last asked."""
        return self._answering

    async def start(self) -> None:
        """Wait for OPA and learn its revision. Raises SidecarError."""
        await self.open()
        ends_ns = monotonic_ns() + int(self._start_seconds * 1e9)
        while True:
            try:
                await self._learn()
            except Unanswered as error:
                if monotonic_ns() >= ends_ns:
                    await self.stop()
                    raise _unusable(str(error)) from error
                await asyncio.sleep(_PAUSE_SECONDS)
            else:
                return

    async def open(self) -> None:
        """Make ready to ask, without waiting for OPA. Raises SidecarError without its client."""
        self._client = _client(self._target, self._egress, self._deadline_ns, self._token)

    async def stop(self) -> None:
        """Close what is open. Safe twice, and without start."""
        self._client = None
        self._answering = False
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
            self._watching = None
        await self._egress.close()

    async def decide(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on an action's document; without one a denial with ``error``."""
        return await self._ask(DECIDE, document)

    async def visible(self, document: dict[str, Any]) -> PolicyAnswer:
        """The policy's answer on whether a principal may see a tool."""
        return await self._ask(LIST, document)

    async def _ask(self, entry: str, document: dict[str, Any]) -> PolicyAnswer:
        try:
            payload = encode(document)
        except TypeError as error:
            return self._signed(denied(f"the document cannot be encoded: {error}"), b"", "")
        try:
            with DECISION_SECONDS.time():
                answer = await self._question(entry, document)
        except Unanswered as error:
            _log.warning("policy_gave_no_answer", why=str(error))
            self._watch()
            return self._signed(denied(str(error)), payload, "")
        if answer.revision != self._revision:
            self._revision = answer.revision
            await self.on_change()
        read = (
            read_answer(answer.value)
            if answer.defined
            else denied("the policy has no answer (undefined)")
        )
        return self._signed(read, payload, answer.version)

    async def _question(self, entry: str, document: dict[str, Any]) -> OpaAnswer:
        if self._client is None:
            raise Unanswered("the policy engine is stopped")
        try:
            async with asyncio.timeout(self._deadline_ns / 1e9):
                raw = await self._client.query_rule(document, PACKAGE, entry, _PARAMETERS)
        except TimeoutError:
            milliseconds = self._deadline_ns / 1e6
            why = f"OPA gave no answer within {milliseconds:.0f} ms"
            raise Unanswered(why) from None
        except EgressFailed as error:
            raise Unanswered(f"OPA cannot be asked: {error.reason}") from error
        answer = read_data(raw)
        if self._expected and answer.revision != self._expected:
            raise Unanswered(f"OPA has the bundle {answer.revision[:80]!r}, not the expected one")
        self._answering = True
        return answer

    def _signed(self, answer: PolicyAnswer, payload: bytes, version: str) -> PolicyAnswer:
        return msgspec.structs.replace(
            answer,
            revision=self._revision,
            engine=f"opa/{version}" if version else "opa",
            input_digest=input_digest(payload),
        )

    async def _learn(self) -> None:
        answer = await self._question(LIST, {})
        if answer.revision != self._revision:
            self._revision = answer.revision
            await self.on_change()

    def _watch(self) -> None:
        """After a failure: ask until OPA answers again, so that readiness comes back by itself."""
        self._answering = False
        if self._client is not None and self._watching is None:
            self._watching = asyncio.ensure_future(self._keep_asking())

    async def _keep_asking(self) -> None:
        try:
            while not self._answering:
                await asyncio.sleep(_WATCH_SECONDS)
                try:
                    await self._learn()
                except Unanswered as error:
                    _log.info("policy_still_silent", why=str(error))
                except Exception as error:  # what follows a changed revision may fail: try again
                    self._answering = False
                    _log.error("policy_revision_not_activated", fault=error)
        finally:
            self._watching = None


def read_data(raw: Any) -> OpaAnswer:
    """An answer of the Data API with its provenance. Raises Unanswered."""
    provenance = raw.get("provenance") if isinstance(raw, dict) else None
    if not isinstance(provenance, dict):
        raise Unanswered("what answers there is no OPA: it says no provenance")
    version = provenance.get("version")
    bundles = provenance.get("bundles")
    if not isinstance(version, str) or not isinstance(bundles, dict) or not bundles:
        raise Unanswered("OPA has no bundle (sidecar policy build makes one)")
    revisions = {
        name: bundle.get("revision") if isinstance(bundle, dict) else None
        for name, bundle in bundles.items()
    }
    if not all(isinstance(revision, str) and revision for revision in revisions.values()):
        raise Unanswered("a bundle of OPA has no revision (sidecar policy build makes one)")
    found = sorted(f"{name}={revision}" for name, revision in revisions.items())
    (only, *others) = revisions.values()
    return OpaAnswer(
        defined="result" in raw,
        value=raw.get("result"),
        revision=",".join(found) if others else str(only),
        version=version[:40],
    )


class _Client(Protocol):
    """What of opa-python-client is used."""

    async def query_rule(
        self, input_data: Any, package_path: str, rule_name: str, query_params: dict[str, str]
    ) -> Any:
        """POST of an input to a rule; the decoded answer."""
        ...


def _client(target: Target, egress: Egress, deadline_ns: int, token: str) -> _Client:
    """opa-python-client over our egress: it makes URL and body, ``_Session`` sends them, once."""
    try:
        from opa_client import AsyncOpaClient  # an extra, and heavy
    except ImportError:
        raise SidecarError(
            "the engine opa needs the package opa-python-client, which is not installed",
            where="policy.engine",
            do="pip install 'agenttwin-sidecar[opa]'",
        ) from None
    client = AsyncOpaClient(retries=0, timeout=deadline_ns / 1e9)
    client._session = _Session(target, egress, deadline_ns, token, client.root_url)
    found: _Client = client
    return found


class _Session:
    """In the place of the client's aiohttp session: the same verb, by way of egress."""

    def __init__(
        self, target: Target, egress: Egress, deadline_ns: int, token: str, root_url: str
    ) -> None:
        self._target = target
        self._egress = egress
        self._deadline_ns = deadline_ns
        self._root = root_url.removesuffix("/v1")
        self._headers = [("content-type", "application/json")]
        if token:
            self._headers.append(("authorization", f"Bearer {token}"))

    async def request(self, method: str, url: str, *, json: Any) -> "_Response":
        """One attempt. Raises EgressFailed."""
        reply = await self._egress.request(
            self._target,
            method,
            url.removeprefix(self._root),
            self._headers,
            orjson.dumps(json),
            deadline_ns=2 * self._deadline_ns,  # the one deadline is _question's
            reuse=True,
        )
        return _Response(reply.status, reply.body)


class _Response:
    """The part of an aiohttp response that the client looks at."""

    def __init__(self, status: int, body: bytes) -> None:
        self.status = status
        self._body = body

    def raise_for_status(self) -> None:
        """Raises Unanswered for anything but 200."""
        if self.status == 200:
            return
        try:
            said = orjson.loads(self._body)
            code = str(said.get("code", "")) if isinstance(said, dict) else ""
        except orjson.JSONDecodeError:
            code = ""
        raise Unanswered(f"OPA answered {self.status} {code[:60]}".rstrip())

    async def json(self) -> Any:
        """The body, decoded. Raises Unanswered."""
        try:
            return orjson.loads(self._body)
        except orjson.JSONDecodeError:
            raise Unanswered("what OPA answered is no JSON") from None

    async def release(self) -> None:
        """Nothing is held: the answer is whole."""


def _unusable(why: str) -> SidecarError:
    return SidecarError(
        f"the OPA server cannot decide: {why}",
        where="policy.url",
        do="Start OPA with a bundle that has a revision (sidecar policy build), and name its "
        "address range in policy.allow_cidrs.",
    )


async def _nobody() -> None:
    """Where nobody wants to know."""
