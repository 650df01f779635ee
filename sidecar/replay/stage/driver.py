"""The stage of a replay: the real gateway in twin mode, the real receiver, and the twins behind
them.

Rules
1. An episode is named by its token alone, on every listener; when the episode ends the token dies.
2. The gateway's machine, ledger and policy are those of production; only the upstreams are twins.
3. A request that the registry does not know is a TwinGap of its episode, besides being refused.
4. The scripted approver decides through the ledger's vote, as a principal of its own, by what it is
   shown; it decides when it is asked, so that an agent cannot come too early.
5. What an episode left is taken once its last call has ended.
"""

import asyncio
import json
import socket
from collections import defaultdict
from collections.abc import Mapping
from typing import cast

from msgspec import Struct

from processors.model.call import Approval, ReceiptFact
from processors.model.principal import Presented, Principal
from processors.model.span import Batch
from sidecar import clock
from sidecar.evaluate.judging.driver import Judge
from sidecar.gateway import approval as approvals
from sidecar.gateway.config import Approvals
from sidecar.gateway.desk import Ports, Settings
from sidecar.gateway.driver import Gateway
from sidecar.gateway.http import GatewayServer
from sidecar.gateway.request import ToolReply, ToolRequest
from sidecar.gateway.upstream import Audience, PolicyPort
from sidecar.identity.keys import (
    EpisodeClaims,
    Unauthenticated,
    bearer,
    mint_episode,
    read_episode,
)
from sidecar.listen.address import split_address
from sidecar.otlp.decode import Undecodable, decode
from sidecar.receive.config import Config as ReceiveConfig
from sidecar.receive.http import HttpReceiver
from sidecar.replay.config import Config
from sidecar.replay.conversation.llm import PlayedUsers
from sidecar.replay.environment import Addresses
from sidecar.replay.shown import shown_arguments
from sidecar.store.journal import JournalEntry, JournalFull
from sidecar.store.ledger import Ballot, Pace, Seen
from sidecar.store.ports import GatewayLedger
from sidecar.twins.driver import TwinUpstreams
from sidecar.twins.group import GroupEpisode, TwinGroup
from sidecar.twins.registry import registry
from sidecar.twins.scenario import ApprovalRule

OWN_LOOPBACK = "127.0.0.77"
TELEMETRY_BYTES_MAX = 32 * 1024**2
_FACTS_AT_ONCE = 1000
_SETTLE_SECONDS = 35.0


class StagePorts(Struct, frozen=True, kw_only=True):
    """What a stage is built from. The ledger is the replay's own, never production's; without a
    ``judge``, semantic expectations are skipped. ``terms``: where it listens, and agents elsewhere.
    """

    ledger: GatewayLedger
    policy: PolicyPort
    approvals: Approvals
    episode_key: bytes
    judge: Judge | None = None
    users: PlayedUsers | None = None
    terms: Config = Config()


class Taken(Struct, frozen=True, kw_only=True):
    """What the stage knows of an ended episode."""

    facts: tuple[ReceiptFact, ...]
    telemetry: Batch
    undecodable: int


def own_loopback() -> str:
    """A loopback address of our own where the system has the whole of 127/8 (Linux).

    HTTP clients pass by the proxy for whole hosts, not for ports. With an address that nobody else
    uses, telemetry and the gateway pass by, and no local service of the agent's does.
    """
    with socket.socket() as probe:
        try:
            probe.bind((OWN_LOOPBACK, 0))
        except OSError:
            return "127.0.0.1"
    return OWN_LOOPBACK


def _host(listen: str) -> str:
    """The address at which agents of this machine find a listener."""
    if not listen:
        return own_loopback()
    host, _ = split_address(listen)
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 (compared, not bound)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


class Stage:
    """Start once; ``open`` an episode, ``take`` what it left, ``stop`` at the end."""

    def __init__(self, group: TwinGroup, ports: StagePorts, project: str) -> None:
        self._ports = ports
        self._project = project
        self._episodes: dict[str, GroupEpisode] = {}
        self._rules: dict[str, tuple[ApprovalRule, ...]] = {}
        self._facts: dict[str, list[ReceiptFact]] = defaultdict(list)
        self._facts_seq = 0
        self._collector = _Collector()
        tools = registry(group)
        self._gateway = _TwinGateway(
            Ports(
                ledger=_with_approver(ports.ledger, ports.approvals, self._rules, self._episodes),
                registry=tools,
                policy=ports.policy,
                upstreams=TwinUpstreams(tools, self._episodes),
            ),
            Settings(mode="twin", accept_ephemeral_ledger=True, approvals=ports.approvals),
            self._episodes,
        )
        self._host = _host(ports.terms.gateway)
        listen = ports.terms.gateway or f"{self._host}:0"
        self._server = GatewayServer(self._gateway, self._authenticate, listen=listen)
        self._receiver = HttpReceiver(
            ReceiveConfig(grpc="", http=f"{_bracketed(self._host)}:0"),
            self._collector,
            self._authenticate,
        )

    async def start(self) -> None:
        """Open the ledger's keys and both listeners on free ports."""
        await self._gateway.start()
        await self._server.start()
        await self._receiver.start()

    async def stop(self) -> None:
        """Close both listeners; safe without start and twice."""
        await self._receiver.stop()
        await self._server.stop()

    @property
    def addresses(self) -> Addresses:
        """Where the listeners are."""
        return Addresses(
            host=_bracketed(self._host),
            gateway_port=self._server.port,
            otlp_port=self._receiver.port,
            elsewhere=self._ports.terms.gateway_url.rstrip("/"),
        )

    def open(
        self, name: str, episode: GroupEpisode, rules: tuple[ApprovalRule, ...], *, agent: str
    ) -> str:
        """Let an episode begin; its token, which lives until ``take``."""
        self._episodes[name] = episode
        self._rules[name] = rules
        claims = EpisodeClaims(
            episode=name,
            project=self._project,
            agent=agent,
            expires_at_ns=clock.now_ns() + 24 * 3600 * 10**9,
        )
        return mint_episode(claims, key=self._ports.episode_key)

    async def take(self, name: str) -> Taken:
        """End an episode: no further call of it is honoured; what it left."""
        await self._gateway.settle(name)
        del self._episodes[name], self._rules[name]
        self._drain_facts()
        telemetry, undecodable = self._collector.take(name)
        return Taken(
            facts=tuple(self._facts.pop(name, ())), telemetry=telemetry, undecodable=undecodable
        )

    def _drain_facts(self) -> None:
        while facts := self._ports.ledger.facts_after(self._facts_seq, _FACTS_AT_ONCE):
            for fact in facts:
                self._facts_seq = fact.seq
                if fact.receipt.episode is not None:
                    joined = ReceiptFact(receipt=fact.receipt, arguments=fact.arguments)
                    self._facts[fact.receipt.episode].append(joined)

    async def _authenticate(self, presented: Presented) -> Principal:
        token = bearer(presented.authorization)
        claims = read_episode(token, key=self._ports.episode_key, now_ns=clock.now_ns())
        if claims.episode not in self._episodes:
            raise Unauthenticated("the episode has ended")
        return Principal(
            id=f"episode:{claims.episode}",
            kind="episode",
            project=claims.project,
            name=claims.agent,
            episode=claims.episode,
        )


class _TwinGateway(Gateway):
    """The gateway, which also knows which episodes have calls on their way, and what was a gap."""

    def __init__(
        self, ports: Ports, settings: Settings, episodes: Mapping[str, GroupEpisode]
    ) -> None:
        super().__init__(ports, settings)
        self._of_episodes = episodes
        self._under_way: dict[str, set[asyncio.Task[ToolReply]]] = defaultdict(set)

    async def call(
        self, request: ToolRequest, principal: Principal, audience: Audience | None = None
    ) -> ToolReply:
        """One tool call; see Gateway."""
        name = principal.episode or ""
        task = asyncio.ensure_future(super().call(request, principal, audience))
        self._under_way[name].add(task)
        task.add_done_callback(self._under_way[name].discard)
        reply = await asyncio.shield(task)
        if reply.status == 404 and name in self._of_episodes:
            self._note_gap(request, reply, self._of_episodes[name])
        return reply

    async def settle(self, episode: str) -> None:
        """Wait for the episode's calls that are on their way (an agent may be gone before them)."""
        waiting = self._under_way.pop(episode, set())
        if waiting:
            await asyncio.wait(waiting, timeout=_SETTLE_SECONDS)

    @staticmethod
    def _note_gap(request: ToolRequest, reply: ToolReply, episode: GroupEpisode) -> None:
        try:
            code = json.loads(reply.body).get("code")
        except (ValueError, RecursionError, AttributeError):
            return
        if code in ("no_such_tool", "no_such_upstream"):
            where = f"{request.method} /{request.upstream}{request.raw_path}"
            episode.gap(request.upstream, f"no twin declares {where}")


class _Collector:
    """Telemetry of open episodes, decoded, in memory: the receiver's sink in replay."""

    def __init__(self) -> None:
        self._batches: dict[str, list[Batch]] = defaultdict(list)
        self._bytes: dict[str, int] = defaultdict(int)
        self._undecodable: dict[str, int] = defaultdict(int)

    async def append(self, entry: JournalEntry) -> None:
        """Take a request in. Raises JournalFull when an episode has sent too much."""
        name = entry.principal.removeprefix("episode:")
        self._bytes[name] += len(entry.payload)
        if self._bytes[name] > TELEMETRY_BYTES_MAX:
            raise JournalFull(retry_after_s=3600)
        if entry.signal == "metrics":
            return  # a run is judged by what it did; what it measured of itself is no evidence
        try:
            self._batches[name].append(decode(entry.signal, entry.encoding, entry.payload))
        except Undecodable:
            self._undecodable[name] += 1

    def take(self, name: str) -> tuple[Batch, int]:
        """All of an episode's telemetry, and how many requests could not be read; forgotten
        then.
        """
        batches = self._batches.pop(name, [])
        self._bytes.pop(name, None)
        whole = Batch(
            spans=tuple(span for batch in batches for span in batch.spans),
            logs=tuple(one for batch in batches for one in batch.logs),
        )
        return whole, self._undecodable.pop(name, 0)


class _ApprovingLedger:
    """The ledger with a scripted approver who is told of each request as it is made."""

    def __init__(
        self,
        ledger: GatewayLedger,
        terms: Approvals,
        rules: Mapping[str, tuple[ApprovalRule, ...]],
        episodes: Mapping[str, GroupEpisode],
    ) -> None:
        self._ledger = ledger
        self._episodes = episodes
        self._terms = terms
        self._rules = rules

    def __getattr__(self, name: str) -> object:
        return getattr(self._ledger, name)

    async def ask_approval(
        self, wanted: Approval, pace: Pace | None = None, *, seen: Seen | None = None
    ) -> Approval:
        """The request, decided when the scenario's approver decides it."""
        asked = await self._ledger.ask_approval(wanted, pace, seen=seen)
        rule = self._fitting(asked)
        if asked.status != "pending" or rule is None or rule.decision == "none":
            return asked
        episode = self._episodes.get(asked.requester.removeprefix("episode:"))
        if episode is not None:
            episode.wait_for_person(asked.tool)
        for number in range(1, asked.approvers_min + 1):
            await self._vote(asked, rule, number)
        # The agent is told that its request waits; it finds the decision when it asks again.
        return asked

    def _fitting(self, asked: Approval) -> ApprovalRule | None:
        rules = self._rules.get(asked.requester.removeprefix("episode:"), ())
        shown = shown_arguments(asked.summary)
        return next((rule for rule in rules if rule.fits(asked.tool, shown)), None)

    async def _vote(self, asked: Approval, rule: ApprovalRule, number: int) -> None:
        name = rule.by if number == 1 else f"{rule.by}-{number}"
        voter = Principal(id=f"scripted:{name}", kind="approver", project=asked.project, name=name)
        if approvals.why_not_eligible(asked, voter, self._terms) is not None or (
            rule.decision == "none"
        ):
            return
        await self._ledger.vote(
            Ballot(
                project=asked.project,
                approval_id=asked.approval_id,
                voter=voter.id,
                voter_name=voter.name,
                decision=rule.decision,
                reason=rule.reason,
                shown_digest=asked.shown_digest,
                now_ns=clock.now_ns(),
            )
        )


def _with_approver(
    ledger: GatewayLedger,
    terms: Approvals,
    rules: Mapping[str, tuple[ApprovalRule, ...]],
    episodes: Mapping[str, GroupEpisode],
) -> GatewayLedger:
    # It forwards everything but one method, which the checker cannot see.
    return cast(GatewayLedger, _ApprovingLedger(ledger, terms, rules, episodes))
