"""The gateway's ledger in one SQLite file: claims, approvals, calls, signing keys, audit chain.

**Rules**
1. ``commit_intent`` and ``record`` are one transaction each (``transactions``): durable whole, or
   not at all. One writer thread commits for all; nothing commits on the event loop. An intent
   outlives the process at once, and a loss of power from ``mark_sent`` on: before that nothing was
   sent, and without it nothing was claimed either.
2. Arguments, stored answers, approval summaries and private keys are sealed before they reach SQL,
   each bound to its row.
3. A claim of a process that died is an orphan from that moment on, known by its lock, not by time.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TypeVar

from processors.model.call import Approval
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
from sidecar.store.reading import GatewayReads, GatewayStatements, anchor_state, told_state
from sidecar.store.sealing import (
    GATEWAY_SEAL,
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
from sidecar.store.sqlite import approvals, calls, claims, durables, pages, stops, vault
from sidecar.store.sqlite.chain import Chain
from sidecar.store.sqlite.connection import migrate, open_database
from sidecar.store.sqlite.ephemeral import is_ephemeral
from sidecar.store.sqlite.ledger_reader import SqliteLedgerReader
from sidecar.store.sqlite.scripts import LEDGER, scripts
from sidecar.store.sqlite.transactions import Transactions
from sidecar.store.sqlite.writer import Writer
from sidecar.store.standing import AskedTooOften, KeyMoved, Undone
from sidecar.store.stop import BOTH, LiftBallot, Stop, StopKind

T = TypeVar("T")

LOOK_SECONDS = 2.0
"""How often who waits looks for what another process may have committed to the file."""


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


class SqliteLedger(GatewayReads, SqliteLedgerReader):
    """The whole ledger. ``:memory:`` is allowed, and is ephemeral."""

    gateway_statements = _STATEMENTS

    def __init__(
        self, path: Path | str, sealers: Sealers, *, busy_timeout_ms: int | None = None
    ) -> None:
        connection = open_database(path)
        migrate(connection, scripts(LEDGER), path)
        calls.prepare(connection)
        if busy_timeout_ms is not None:
            connection.execute(f"PRAGMA busy_timeout={int(busy_timeout_ms)}")
        self._chain = Chain(str(path))
        self._jobs = Transactions(self._chain)
        self._writer = Writer(
            connection, str(path), self._chain.sign_head, anew=self._chain.look_again
        )
        self._memory = path == ":memory:"
        self.where = str(path)
        self._owners = Owners(None if self._memory else Path(path))
        self._warmed: set[str] = set()
        self._news = News()
        self.ephemeral = is_ephemeral(path)
        if self._memory:
            self._sealers = sealers  # the one connection there is serves reads too
        else:
            super().__init__(path, sealers)

    def close(self) -> None:
        """Finish what is queued and let go of the file. Safe to call twice."""
        self._writer.close()
        self._owners.close()
        if not self._memory:
            super().close()

    async def check(self) -> None:
        """Raises StoreUnavailable where nothing can be recorded or read."""
        await self._writer.check()
        self.audit_head()

    def use_signer(self, signer: Signer) -> None:
        """Sign audit heads with this key; nothing can be recorded before."""
        self._chain.use_signer(signer)

    async def find_or_add_signing_key(self, made: StoredSigningKey) -> StoredSigningKey:
        """The key that signs when ``made`` was made, else ``made``. Raises SealBroken."""
        sealer = self._sealers(GATEWAY_SEAL)
        sealed = seal_key(made, sealer)
        found = await self._writer.run(lambda c: vault.find_or_add_key(c, sealed))
        return open_key(found, sealer)

    async def find_or_add_secret(self, name: str, made: bytes) -> bytes:
        """A named secret of the gateway, ``made`` if there was none. Raises SealBroken."""
        sealer = self._sealers(GATEWAY_SEAL)
        aad = secret_aad(name)
        sealed = sealer.seal(made, aad)
        found = await self._writer.run(lambda c: vault.find_or_add_state(c, name, sealed))
        return sealer.open(found, aad)

    async def activate_policy(
        self, revision: str, now_ns: int, sequence: int | None = None, *, loosens: bool = False
    ) -> bool:
        """Intents decided under any other revision are refused from now on.

        False, and nothing is changed, where a release with that number is rolled back, or one that
        ``loosens`` is not approved.
        """
        wanted = Activation(revision=revision, sequence=sequence, loosens=loosens)
        return await self._writer.run(lambda c: self._jobs.activate_policy(c, wanted, now_ns))

    async def offer_policy(self, made: PolicyOffer) -> PolicyOffer:
        """Have people vote on a looser revision; the offer that stands."""
        return await self._writer.run(lambda c: self._jobs.offer_policy(c, made))

    async def vote_policy(self, ballot: PolicyBallot) -> str | None:
        """Count a vote on the offer: None, or the code of why it does not count."""
        return await self._writer.run(lambda c: self._jobs.vote_policy(c, ballot))

    async def note(self, note: Note) -> bool:
        """Append an entry about the gateway itself; False where its state stands already."""
        return await self._writer.run(lambda c: self._jobs.note(c, note))

    def hold_owner(self, owner: str) -> None:
        """Claims made under this name are alive until ``close`` or this process's death."""
        self._owners.hold(owner)

    def owner_lives(self, owner: str) -> bool:
        """Whether the process that made claims under this name still runs."""
        return self._owners.lives(owner)

    def leads(self, role: str) -> bool:  # noqa: ARG002
        """True: who shares a file is on one machine, and what several do there is done once."""
        return True

    def orphans(self, limit: int = 1000) -> list[Claim]:
        """Open claims of owners that are dead, oldest first."""
        rows = self._read(lambda c: claims.in_state(c, ("claimed", "sent"), limit))
        return [claim for claim, _ in rows if not self._owners.lives(claim.owner)]

    def open_claims(self, owner: str, limit: int = 1000) -> list[Claim]:
        """Open claims of one owner, oldest first."""
        return self._read(lambda c: claims.open_of(c, owner, limit))

    def unresolved(self, limit: int = 1000) -> list[Claim]:
        """Claims whose outcome is unknown, oldest first."""
        rows = self._read(lambda c: claims.in_state(c, ("unknown",), limit))
        return [claim for claim, _ in rows]

    async def commit_intent(self, intent: Intent) -> IntentResult:
        """The one final transaction. Raises StoreUnavailable when it cannot be durable."""
        await self._warm(intent.call.project)
        arguments = seal_arguments(self._sealers, intent.call)
        try:
            # Nothing follows from it before it is marked sent, and that commit is on the disk with
            # all before it.
            done: IntentResult = await self._writer.run(
                lambda c: self._jobs.commit_intent(c, intent, arguments),
                soon=True,
                then=partial(claims.marked, intent) if intent.marks else None,
            )
        except Undone as undone:
            return undone.result
        if intent.approval is not None:
            self._news.tell(intent.approval.approval_id)
        return done

    async def mark_sent(self, claim: Fence, now_ns: int, kinds: Sequence[StopKind] = BOTH) -> bool:
        """Durably sent from here on; False when the claim is another's, or a stop stands."""
        return await self._writer.run(
            lambda c: claims.mark_sent(c, claim, now_ns, kinds), single=True
        )

    async def queue_durable(self, taken: Accepted) -> bool:
        """Take a durable call on; False when there is one with its key."""
        await self._warm(taken.call.project)
        sealed = seal_request(self._sealers, taken.call)
        return await self._writer.run(lambda c: self._jobs.queue(c, taken, sealed))

    async def lease_durable(self, wanted: Lease) -> bool:
        """Take the lease of a durable call that has not moved since it was seen."""
        return await self._writer.run(lambda c: durables.lease(c, wanted))

    async def end_durable(self, ended: Attempted) -> bool:
        """What came of an attempt; False when the lease is another's."""
        return await self._writer.run(lambda c: self._jobs.end_durable(c, ended))

    async def prune_durable(self, before_ns: int, limit: int) -> int:
        """Delete durable calls that were done or discarded before then; how many."""
        return await self._writer.run(lambda c: durables.prune(c, before_ns, limit))

    async def dispose_durable(self, disposal: Disposal) -> bool:
        """A person's word on a dead letter; False when it is none."""
        return await self._writer.run(lambda c: self._jobs.dispose(c, disposal))

    async def checkpoint(self, now_ns: int) -> Checkpoint | None:
        """Sign the end of the chain, to be kept elsewhere; None if it has not moved."""
        return await self._writer.run(lambda c: self._chain.checkpoint(c, now_ns))

    async def set_anchored(self, name: str, seq: int) -> None:
        """An anchor has all checkpoints up to this place."""
        state = anchor_state(name)
        await self._writer.run(lambda c: vault.set_state(c, state, str(seq).encode()))

    async def open_glass(self, wanted: BreakGlass, ballot: GlassBallot) -> str | None:
        """Sign a glass and keep it with its first vote: None, or the code of why not."""
        code = await self._writer.run(lambda c: self._jobs.open_glass(c, wanted, ballot))
        self._news.tell(wanted.approval_id)
        return code

    async def break_glass(self, ballot: GlassBallot, lasts_ns: int) -> str | None:
        """The second vote, which approves the request: None, or the code of why it does not."""
        code = await self._writer.run(lambda c: self._jobs.break_glass(c, ballot, lasts_ns))
        self._news.tell(None)
        return code

    async def review_glass(self, ballot: GlassBallot) -> str | None:
        """Close a glass's review: None, or the code of why it stays open."""
        code = await self._writer.run(lambda c: self._jobs.review_glass(c, ballot))
        self._news.tell(None)
        return code

    async def keep_page(self, state: PageState, most: int) -> None:
        """Keep a state; of its kind the ``most`` lately used ones stay."""
        await self._warm(GATEWAY_SEAL)
        row = seal_page(self._sealers, state)
        await self._writer.run(lambda c: pages.keep(c, row, state.used_at_ns, most))

    async def find_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """A state that has not run out, opened. Raises SealBroken."""
        row = self._read(lambda c: pages.find(c, kind, digest, now_ns))
        return open_page(self._sealers, kind, digest, row)

    async def use_page(self, digest: str, now_ns: int, expires_at_ns: int) -> None:
        """Note that a state is used, so that it runs out then."""
        await self._writer.run(lambda c: pages.use(c, digest, now_ns, expires_at_ns))

    async def take_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """The same as ``find_page``, once. Raises SealBroken."""
        row = await self._writer.run(lambda c: pages.take(c, kind, digest, now_ns))
        return open_page(self._sealers, kind, digest, row)

    async def drop_page(self, digest: str, owner: str = "") -> None:
        """Drop a state, and all of an owner where one is named."""
        await self._writer.run(lambda c: pages.drop(c, digest, owner))

    async def set_stop(self, stop: Stop) -> Stop:
        """The stop, set and durable; or the one like it that stands already."""
        return await self._writer.run(lambda c: self._jobs.set_stop(c, stop))

    async def lift_stop(self, ballot: LiftBallot) -> str | None:
        """Count a vote to lift a stop: None, or the code of why it does not count."""
        return await self._writer.run(lambda c: self._jobs.lift_stop(c, ballot))

    async def record(self, outcome: CallOutcome) -> bool:
        """Receipt, claim's end, holds, restored approval. False, with nothing written, when the
        claim is another's or has ended. Raises StoreUnavailable."""
        await self._warm(outcome.call.project)
        # A call with a claim is known since its intent, with its arguments.
        claimed = outcome.end is not None
        arguments = None if claimed else seal_arguments(self._sealers, outcome.call)
        answer = seal_answer(self._sealers, outcome)
        done = await self._writer.run(
            lambda c: self._jobs.record(c, outcome, arguments, answer),
            single=not claimed and outcome.resolution is None,
            soon=_had_no_effect(outcome),
        )
        if outcome.end is not None and outcome.end.restore_approval:
            self._news.tell(None)
        return done

    async def forget(self, now_ns: int, limit: int, since_ns: int = 0) -> int:
        """Drop up to ``limit`` expired answers and claims; how many."""
        return await self._writer.run(lambda c: claims.forget(c, now_ns, limit, since_ns))

    async def ask_approval(
        self, wanted: Approval, pace: Pace | None = None, *, seen: Seen | None = None
    ) -> Approval:
        """The request for this action and key: ``wanted`` if there is none yet. AskedTooOften,
        KeyMoved."""
        await self._warm(wanted.project)
        summary = seal_summary(self._sealers, wanted)
        row = await self._writer.run(lambda c: self._jobs.ask(c, wanted, summary, pace, seen))
        if row is None:
            raise AskedTooOften
        if row == "key_moved":
            raise KeyMoved
        if row[0].approval_id == wanted.approval_id:
            self._news.tell(wanted.approval_id)
        return open_approval(row, self._sealers)

    async def approval_after(
        self,
        seen: Approval,
        *,
        poll_seconds: float,  # noqa: ARG002 - this process's own news always arrives
        seconds: float,
    ) -> Approval:
        """The request once it is no longer as seen, or as it is after a while, at most ``seconds``.

        What another process commits to the file is not told, and looked for.
        """
        with self._news.watch(seen.approval_id) as watching:
            found = self.find_approval(seen.approval_id, seen.project) or seen
            if (found.status, found.votes) != (seen.status, seen.votes):
                return found
            await watching.moved(min(LOOK_SECONDS, seconds))
        return self.find_approval(seen.approval_id, seen.project) or seen

    def approval_news(self, approval_id: str | None = None) -> AbstractContextManager[Watch]:
        """Watch one request, or all; what another process commits to the file is not told."""
        return self._news.watch(approval_id)

    async def expire_approvals(self, now_ns: int) -> int | None:
        """Resolve what has run out; when the next one will, None where nothing waits."""
        due = self._read(approvals.next_to_run_out)
        if due is None or due > now_ns:
            return due
        for approval_id in await self._writer.run(lambda c: self._jobs.expire(c, now_ns)):
            self._news.tell(approval_id)
        return self._read(approvals.next_to_run_out)

    async def told_until(self, name: str, seq: int) -> None:
        """Move the place of somebody who is told of approvals, never back."""

        def move(connection: sqlite3.Connection) -> None:
            found = vault.get_state(connection, told_state(name))
            if found is None or int(found) < seq:
                vault.set_state(connection, told_state(name), str(seq).encode())

        await self._writer.run(move)

    async def vote(self, ballot: Ballot) -> str | None:
        """Count a vote: None, or the code of why it does not count (``vote_repeated``, …)."""
        code = await self._writer.run(lambda c: self._jobs.vote(c, ballot))
        self._news.tell(ballot.approval_id)
        return code

    async def take_token(self, project: str, approval_id: str, now_ns: int) -> bool:
        """True once for an approved request: its token may be told now."""
        return await self._writer.run(
            lambda c: approvals.take_token(c, project, approval_id, now_ns)
        )

    def consume_approval(
        self, use: ApprovalUse, *, project: str, requester: str, by: str, now_ns: int
    ) -> str | None:
        """Spend an approval outside an intent; None when done, else why not. Blocks."""
        return self._writer.run_sync(
            lambda c: approvals.consume(
                c, use, project=project, requester=requester, by=by, now_ns=now_ns
            )
        )

    async def _warm(self, project: str) -> None:
        """A project's first sealing makes its key, which is a write: not on the event loop."""
        if project not in self._warmed:
            await asyncio.to_thread(self._sealers, project)
            self._warmed.add(project)

    def _read(self, query: Callable[..., T], *values: object) -> T:
        if self._memory:
            return self._writer.run_sync(lambda connection: query(connection, *values))
        return super()._read(query, *values)


def _had_no_effect(outcome: CallOutcome) -> bool:
    """Whether nothing in the world came of it: then its receipt need not wait for the disk. It
    outlives this process all the same, and a loss of power with the next commit that waits."""
    nothing = outcome.receipt.phase in ("refused", "replayed") or outcome.call.class_ == "read"
    return nothing and outcome.end is None and outcome.resolution is None
