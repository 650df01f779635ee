"""The gateway's ledger on Postgres: claims, approvals, calls, signing keys, audit chain.

**Rules**
1. ``commit_intent`` and ``record`` are one transaction each (``transactions``): durable whole, or
   not at all. Whoever writes has its turn (``chain``), in whichever sidecar; what shares a turn
   shares a commit (``writer``).
2. Arguments, stored answers, approval summaries and private keys are sealed before they reach SQL,
   each bound to its row.
3. A claim of a process that died is an orphan, known by its lock (``owner``).
4. A commit whose answer was lost with the connection may have taken place. What a caller may then
   do again is safe: an outcome is recorded once, a claim that nobody is at is taken over, and
   nothing is sent without ``mark_sent`` having answered.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from processors.model.call import Approval
from sidecar.errors import StoreUnavailable
from sidecar.store.durable import Accepted, Attempted, Disposal, Lease
from sidecar.store.envelope import Sealers
from sidecar.store.glass import BreakGlass, GlassBallot
from sidecar.store.ledger import (
    ApprovalUse,
    Ballot,
    CallOutcome,
    Checkpoint,
    Claim,
    Fence,
    Intent,
    IntentResult,
    Pace,
    Seen,
    Signer,
    StoredSigningKey,
)
from sidecar.store.news.process import News, Watch
from sidecar.store.noted import Note
from sidecar.store.owners.files import Owners
from sidecar.store.pages import PageKind, PageState
from sidecar.store.policy import Activation, PolicyBallot, PolicyOffer
from sidecar.store.postgres import (
    approvals,
    calls,
    claims,
    durables,
    owner,
    pages,
    stops,
    transactions,
    vault,
)
from sidecar.store.postgres.chain import Turn
from sidecar.store.postgres.connection import WRITE_SECONDS, Connection, Database
from sidecar.store.postgres.ledger_reader import PostgresLedgerReader
from sidecar.store.postgres.presence import HOLD_SECONDS, Presence
from sidecar.store.postgres.text import storable
from sidecar.store.postgres.writer import Writer
from sidecar.store.reading import GatewayReads, GatewayStatements, anchor_state, told_state
from sidecar.store.sealing import (
    GATEWAY_SEAL,
    ApprovalRow,
    open_approval,
    open_key,
    open_page,
    seal_answer,
    seal_arguments,
    seal_key,
    seal_page,
    seal_request,
    seal_summary,
    secret_aad,
)
from sidecar.store.standing import AskedTooOften, KeyMoved, Undone
from sidecar.store.stop import BOTH, LiftBallot, Stop, StopKind

LOOK_SECONDS = 2.0
"""How long a wait for a notification lasts at most: it tells soon, the look tells surely."""


_STATEMENTS = GatewayStatements(
    find_claim=claims.find,
    claim_of=claims.find_of,
    key_revoked=approvals.is_revoked,
    prior_tools=calls.prior_tools,
    counted=calls.counted,
    counted_in_session=calls.counted_in_session,
    opened_call=calls.find_opened,
    stop_of=stops.of_call,
)


class PostgresLedger(GatewayReads, PostgresLedgerReader):
    """The whole ledger, over a database with an up-to-date schema."""

    gateway_statements = _STATEMENTS

    ephemeral = False

    def __init__(
        self,
        database: Database,
        sealers: Sealers,
        *,
        folder: Path | None = None,
        grace_seconds: float = owner.GRACE_SECONDS,
        look_seconds: float = LOOK_SECONDS,
    ) -> None:
        super().__init__(database, sealers)
        self._writer = Writer(database)
        self._news = News()
        self._presence = Presence(database, approvals.CHANNEL, heard=self._news.tell)
        self._grace_seconds = grace_seconds
        self._look_seconds = look_seconds
        self._own: list[str] = []
        self._here = Owners(folder / "ledger" if folder is not None else None)
        self._warmed: set[str] = set()
        self._closed = False

    @property
    def where(self) -> str:
        """The ledger for people."""
        return f"{self._database.where} schema {self._database.schema}"

    @property
    def listening(self) -> bool:
        """Whether notifications arrive now; they do soon after the first wait."""
        return self._presence.listening

    def close(self) -> None:
        """Let go of locks and names. Safe to call twice. The database is its opener's."""
        if self._closed:
            return
        self._closed = True
        told = False
        try:
            told = self._database.wait(self._let_go(), 2 * WRITE_SECONDS)
        finally:
            self._here.close(remove=told)

    async def check(self) -> None:
        """Raises StoreUnavailable where nothing can be recorded or read."""
        await self._database.check()

    def use_signer(self, signer: Signer) -> None:
        """Sign audit heads with this key; nothing can be recorded before."""
        self._writer.signer = signer

    async def find_or_add_signing_key(self, made: StoredSigningKey) -> StoredSigningKey:
        """The key that signs when ``made`` was made, else ``made``. Raises SealBroken."""
        sealer = await asyncio.to_thread(self._sealers, GATEWAY_SEAL)
        sealed = seal_key(made, sealer)
        found = await self._writer.run(lambda turn: vault.find_or_add_key(turn, sealed))
        return open_key(found, sealer)

    async def find_or_add_secret(self, name: str, made: bytes) -> bytes:
        """A named secret of the gateway, ``made`` if there was none. Raises SealBroken."""
        sealer = await asyncio.to_thread(self._sealers, GATEWAY_SEAL)
        aad = secret_aad(name)
        sealed = sealer.seal(made, aad)
        found = await self._writer.run(lambda turn: vault.find_or_add_state(turn, name, sealed))
        return sealer.open(found, aad)

    async def activate_policy(
        self, revision: str, now_ns: int, sequence: int | None = None, *, loosens: bool = False
    ) -> bool:
        """Intents decided under any other revision are refused from now on, in every sidecar.

        False, and nothing is changed, where a release with that number is rolled back, or one that
        ``loosens`` is not approved.
        """
        wanted = Activation(revision=revision, sequence=sequence, loosens=loosens)
        return await self._writer.run(
            lambda turn: transactions.activate_policy(turn, wanted, now_ns)
        )

    async def note(self, note: Note) -> bool:
        """Append an entry about the gateway itself; False where its state stands already."""
        return await self._writer.run(lambda turn: transactions.note(turn, note))

    async def offer_policy(self, made: PolicyOffer) -> PolicyOffer:
        """Have people vote on a looser revision; the offer that stands."""
        return await self._writer.run(lambda turn: transactions.offer_policy(turn, made))

    async def vote_policy(self, ballot: PolicyBallot) -> str | None:
        """Count a vote on the offer: None, or the code of why it does not count."""
        return await self._writer.run(lambda turn: transactions.vote_policy(turn, ballot))

    def hold_owner(self, name: str) -> None:
        """Claims made under this name are alive until ``close`` or this process's death.

        Who of this data folder died before is known to be dead from now on, without the grace.
        """
        gone = self._here.dead()
        if gone:
            self._database.run_sync(lambda connection: owner.remove(connection, gone))
        self._here.hold(name)
        self._database.run_sync(lambda connection: owner.register(connection, name))
        self._database.wait(self._presence.hold(owner.lock_name(name)), HOLD_SECONDS + 1)
        self._own.append(name)

    def owner_lives(self, name: str) -> bool:
        """Whether the process that made claims under this name still runs."""
        return name in self._own or not self._dead([name])

    def leads(self, role: str) -> bool:
        """Whether this sidecar is the one that does a work of which one is enough."""
        return self._database.wait(self._presence.lead(f"lead {role}"), WRITE_SECONDS)

    def orphans(self, limit: int = 1000) -> list[Claim]:
        """Open claims of owners that are dead, oldest first."""
        owners = self._read(claims.owners_of_open)
        dead = self._dead([each for each in owners if each not in self._own])
        if not dead:
            return []
        return self._read(lambda connection: claims.open_of(connection, sorted(dead), limit))

    def open_claims(self, owner: str, limit: int = 1000) -> list[Claim]:
        """Open claims of one owner, oldest first."""
        return self._read(lambda connection: claims.open_of(connection, [owner], limit))

    def unresolved(self, limit: int = 1000) -> list[Claim]:
        """Claims whose outcome is unknown, oldest first."""
        return self._read(lambda connection: claims.in_state(connection, ("unknown",), limit))

    async def commit_intent(self, intent: Intent) -> IntentResult:
        """The one final transaction. Raises StoreUnavailable when it cannot be durable."""
        await self._warm(intent.call.project)
        arguments = seal_arguments(self._sealers, intent.call)
        try:
            return await self._writer.run(
                lambda turn: transactions.commit_intent(turn, intent, arguments)
            )
        except Undone as undone:
            return undone.result

    async def mark_sent(self, claim: Fence, now_ns: int, kinds: Sequence[StopKind] = BOTH) -> bool:
        """Durably sent from here on; False when the claim is another's, or a stop stands."""
        return await self._database.run(
            lambda connection: claims.mark_sent(connection, claim, now_ns, kinds)
        )

    async def queue_durable(self, taken: Accepted) -> bool:
        """Take a durable call on; False when there is one with its key."""
        await self._warm(taken.call.project)
        sealed = seal_request(self._sealers, taken.call)
        return await self._writer.run(lambda turn: transactions.queue(turn, taken, sealed))

    async def lease_durable(self, wanted: Lease) -> bool:
        """Take the lease of a durable call that has not moved since it was seen."""
        return await self._database.run(lambda connection: durables.lease(connection, wanted))

    async def end_durable(self, ended: Attempted) -> bool:
        """What came of an attempt; False when the lease is another's."""
        return await self._writer.run(lambda turn: transactions.end_durable(turn, ended))

    async def prune_durable(self, before_ns: int, limit: int) -> int:
        """Delete durable calls that were done or discarded before then; how many."""
        return await self._database.run(
            lambda connection: durables.prune(connection, before_ns, limit)
        )

    async def dispose_durable(self, disposal: Disposal) -> bool:
        """A person's word on a dead letter; False when it is none."""
        return await self._writer.run(lambda turn: transactions.dispose(turn, disposal))

    async def checkpoint(self, now_ns: int) -> Checkpoint | None:
        """Sign the end of the chain, to be kept elsewhere; None if it has not moved."""
        return await self._writer.run(lambda turn: turn.checkpoint(now_ns))

    async def set_anchored(self, name: str, seq: int) -> None:
        """An anchor has all checkpoints up to this place."""
        state = anchor_state(name)
        await self._writer.run(lambda turn: vault.set_state(turn, state, str(seq).encode()))

    async def open_glass(self, wanted: BreakGlass, ballot: GlassBallot) -> str | None:
        """Sign a glass and keep it with its first vote: None, or the code of why not."""
        return await self._writer.run(lambda turn: transactions.open_glass(turn, wanted, ballot))

    async def break_glass(self, ballot: GlassBallot, lasts_ns: int) -> str | None:
        """The second vote, which approves the request: None, or the code of why it does not."""
        return await self._writer.run(lambda turn: transactions.break_glass(turn, ballot, lasts_ns))

    async def review_glass(self, ballot: GlassBallot) -> str | None:
        """Close a glass's review: None, or the code of why it stays open."""
        return await self._writer.run(lambda turn: transactions.review_glass(turn, ballot))

    async def keep_page(self, state: PageState, most: int) -> None:
        """Keep a state; of its kind the ``most`` lately used ones stay."""
        await self._warm(GATEWAY_SEAL)
        row = seal_page(self._sealers, state)
        await self._database.transact(lambda c: pages.keep(c, row, state.used_at_ns, most))

    async def find_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """A state that has not run out, opened. Raises SealBroken."""
        row = await self._database.run(lambda c: pages.find(c, kind, digest, now_ns))
        return open_page(self._sealers, kind, digest, row)

    async def use_page(self, digest: str, now_ns: int, expires_at_ns: int) -> None:
        """Note that a state is used, so that it runs out then."""
        await self._database.run(lambda c: pages.use(c, digest, now_ns, expires_at_ns))

    async def take_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """The same as ``find_page``, once. Raises SealBroken."""
        row = await self._database.run(lambda c: pages.take(c, kind, digest, now_ns))
        return open_page(self._sealers, kind, digest, row)

    async def drop_page(self, digest: str, owner: str = "") -> None:
        """Drop a state, and all of an owner where one is named."""
        await self._database.run(lambda c: pages.drop(c, digest, owner))

    async def set_stop(self, stop: Stop) -> Stop:
        """The stop, set and durable; or the one like it that stands already."""
        return await self._writer.run(lambda turn: transactions.set_stop(turn, stop))

    async def lift_stop(self, ballot: LiftBallot) -> str | None:
        """Count a vote to lift a stop: None, or the code of why it does not count."""
        return await self._writer.run(lambda turn: transactions.lift_stop(turn, ballot))

    async def record(self, outcome: CallOutcome) -> bool:
        """Receipt, claim's end, holds, restored approval. False, with nothing written, when the
        claim is another's or has ended. Raises StoreUnavailable; may be asked again then."""
        await self._warm(outcome.call.project)
        arguments = seal_arguments(self._sealers, outcome.call)
        answer = seal_answer(self._sealers, outcome)
        return await self._writer.run(
            lambda turn: transactions.record(turn, outcome, arguments, answer)
        )

    async def forget(self, now_ns: int, limit: int, since_ns: int = 0) -> int:
        """Drop up to ``limit`` expired answers and claims; how many."""
        return await self._database.run(
            lambda connection: claims.forget(connection, now_ns, limit, since_ns)
        )

    async def ask_approval(
        self, wanted: Approval, pace: Pace | None = None, *, seen: Seen | None = None
    ) -> Approval:
        """The request for this action and key: ``wanted`` if there is none yet. AskedTooOften,
        KeyMoved."""
        await self._warm(wanted.project)
        summary = seal_summary(self._sealers, wanted)
        row = await self._writer.run(
            lambda turn: transactions.ask(turn, wanted, summary, pace, seen)
        )
        if row is None:
            raise AskedTooOften
        if row == "key_moved":
            raise KeyMoved
        return open_approval(row, self._sealers)

    @contextmanager
    def approval_news(self, approval_id: str | None = None) -> Iterator[Watch]:
        """Watch one request, or all, whichever sidecar changes it."""
        if not self._presence.listening:
            self._database.wait(self._listen(), WRITE_SECONDS)
        with self._news.watch(approval_id) as watching:
            yield watching

    async def expire_approvals(self, now_ns: int) -> int | None:
        """Resolve what has run out; when the next one will, None where nothing waits."""
        due = await self._database.run(approvals.next_to_run_out)
        if due is None or due > now_ns:
            return due
        await self._writer.run(lambda turn: transactions.expire(turn, now_ns))
        return await self._database.run(approvals.next_to_run_out)

    async def approval_after(
        self, seen: Approval, *, poll_seconds: float, seconds: float
    ) -> Approval:
        """The request once it is no longer as seen, or as it is after a while, at most ``seconds``.

        Told by notification; looked at every ``poll_seconds`` while those do not arrive.
        """
        watched = self._database.submit(self._watched(seen, poll_seconds, seconds))
        row = await asyncio.wrap_future(watched)
        return open_approval(row, self._sealers) if row else seen

    async def told_until(self, name: str, seq: int) -> None:
        """Move the place of somebody who is told of approvals, never back."""

        async def move(turn: Turn) -> None:
            found = await vault.get_state(turn.connection, told_state(name))
            if found is None or int(found) < seq:
                await vault.set_state(turn, told_state(name), str(seq).encode())

        await self._writer.run(move)

    async def vote(self, ballot: Ballot) -> str | None:
        """Count a vote: None, or the code of why it does not count (``vote_repeated``, …)."""
        if not storable(ballot.approval_id, ballot.project):
            return "no_such_approval"
        return await self._writer.run(lambda turn: transactions.vote(turn, ballot))

    async def take_token(self, project: str, approval_id: str, now_ns: int) -> bool:
        """True once for an approved request: its token may be told now."""
        return await self._writer.run(
            lambda turn: approvals.take_token(turn, project, approval_id, now_ns)
        )

    def consume_approval(
        self, use: ApprovalUse, *, project: str, requester: str, by: str, now_ns: int
    ) -> str | None:
        """Spend an approval outside an intent; None when done, else why not. Blocks."""
        return self._writer.run_sync(
            lambda turn: approvals.consume(
                turn, use, project=project, requester=requester, by=by, now_ns=now_ns
            )
        )

    async def _watched(
        self, seen: Approval, poll_seconds: float, seconds: float
    ) -> ApprovalRow | None:
        async def look(connection: Connection) -> ApprovalRow | None:
            return await approvals.find(connection, seen.project, seen.approval_id)

        with self._presence.told(seen.approval_id) as moved:
            row = await self._database.read_here(look)
            if row is None or (row[0].status, row[0].votes) != (seen.status, seen.votes):
                return row
            most = self._look_seconds if self._presence.listening else poll_seconds
            try:
                async with asyncio.timeout(min(most, seconds)):
                    await moved.wait()
            except TimeoutError:
                pass  # looked at below, as after a notification
            return await self._database.read_here(look)

    async def _listen(self) -> None:
        self._presence.start()

    async def _let_go(self) -> bool:
        """Whether everybody can know from now on."""
        await self._presence.close()
        try:
            if self._own:
                await self._database.here(lambda connection: owner.remove(connection, self._own))
        except StoreUnavailable:
            return False  # the locks went with their connection: others find out after the grace
        return True

    def _dead(self, owners: list[str]) -> set[str]:
        schema, grace = self._database.schema, self._grace_seconds
        return self._database.run_sync(
            lambda connection: owner.dead_among(connection, schema, owners, grace)
        )

    async def _warm(self, project: str) -> None:
        """A project's first sealing makes its key, which is a write: not on the event loop."""
        if project not in self._warmed:
            await asyncio.to_thread(self._sealers, project)
            self._warmed.add(project)
