"""The ports of the stores: narrow protocols that callers type against; ``app`` picks the backend.

Rules
1. A write returns only when it is durable. A store that cannot do so raises StoreUnavailable.
2. Reads are synchronous and see committed state only.
3. Each owner's ports stand together; a caller asks for the narrowest one it needs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from processors.model.call import Approval, Receipt
from processors.model.trace import AgentTrace
from processors.model.verdict import Verdict
from sidecar.store.budget import Hold, Standing
from sidecar.store.datasets import (
    DatasetChange,
    DatasetSummary,
    DatasetVersion,
    Erasure,
    KeptItem,
    Outliving,
)
from sidecar.store.durable import Accepted, Attempted, Disposal, DurableCall, DurableQuery, Lease
from sidecar.store.episodes import KeptEpisode, ReplayRun, RunProgress, ShardClaim
from sidecar.store.glass import BreakGlass, GlassBallot
from sidecar.store.journal import DamagedRecord, JournalEntry, JournalRecord
from sidecar.store.ledger import (
    AuditEntry,
    AuditHead,
    Ballot,
    CallOutcome,
    CallQuery,
    CallRow,
    Checkpoint,
    Claim,
    Counted,
    Fact,
    Fence,
    Intent,
    IntentResult,
    KeptAnswer,
    OpenedCall,
    Pace,
    Scope,
    Seen,
    Signer,
    StoredSigningKey,
    TrafficQuery,
)
from sidecar.store.noted import Note
from sidecar.store.outbox import Advance, Progress, Waiting
from sidecar.store.pages import PageKind, PageState
from sidecar.store.policy import PolicyBallot, PolicyOffer
from sidecar.store.signing import KnownKey
from sidecar.store.stop import BOTH, LiftBallot, Stop, StopKind
from sidecar.store.traces import (
    Due,
    Intake,
    OpenTrace,
    PartKind,
    Publication,
    Retention,
    TraceQuery,
    TraceSummary,
)
from sidecar.store.verdicts import VerdictQuery, VerdictSummary


class Sink(Protocol):
    """Where receivers put what they accept."""

    async def append(self, entry: JournalEntry) -> None:
        """Returns when the entry is durable. Raises JournalFull or StoreUnavailable."""
        ...


class JournalReader(Protocol):
    """The pipeline's view of the journal."""

    @property
    def journal_id(self) -> str:
        """Which journal this is; a new one has a new id."""
        ...

    def records_after(
        self, seq: int, *, count_max: int, bytes_max: int
    ) -> list[JournalRecord | DamagedRecord]:
        """The records that follow ``seq``, in order; at least one if there is one."""
        ...


class Cursors(Protocol):
    """Where a source's cursor stands; what lies at or before it has been taken in."""

    def cursor(self, name: str) -> int:
        """The position, 0 for a source never read."""
        ...


class Dropped(Protocol):
    """What the pipeline durably counted."""

    def dropped(self) -> Mapping[str, int]:
        """What it set aside or left out since the store was made, by reason."""
        ...


class OpenTraces(Cursors, Protocol):
    """The pipeline's working state: sealed parts of open traces, and what is due."""

    async def take_in(self, intake: Intake) -> None:
        """Store parts and move the cursor in one transaction. Raises CursorMoved."""
        ...

    def due(self, due: Due) -> list[OpenTrace]:
        """Open traces to publish, the longest silent first."""
        ...

    def parts(self, opened: OpenTrace) -> list[tuple[PartKind, bytes]]:
        """Kind and payload of all parts of an open trace, in order of intake."""
        ...

    async def publish(self, publications: Sequence[Publication]) -> int:
        """Add revisions where content changed; the number added. Idempotent."""
        ...

    async def expire(self, now_ns: int, limit: int) -> int:
        """Forget the telemetry of up to ``limit`` published traces; the number of traces."""
        ...

    async def prune(self, retention: Retention) -> int:
        """Delete published revisions that are too old, some at a time; the number deleted."""
        ...

    def facts_digest(self, project: str, trace_id: str) -> str | None:
        """``facts_digest`` of a trace's newest revision."""
        ...

    def sent(self, open_id: int) -> bytes:
        """Digests of what of an open trace was put into the outbox, 16 bytes each."""
        ...


class Outbox(Protocol):
    """What exporters are to send, each at its own place."""

    def position(self, name: str) -> int:
        """The last item an exporter has passed; beyond all while another sidecar sends for it."""
        ...

    def sends(self, name: str) -> bool:
        """Whether this process is still the one to send for an exporter; asked before each send."""
        ...

    def items_after(self, seq: int, *, count_max: int, bytes_max: int) -> list[Waiting]:
        """The items that follow ``seq``, in order; at least one if there is one."""
        ...

    async def advance(self, step: Advance) -> bool:
        """Move a cursor and count; False when it has been moved further, or another sends now."""
        ...


class ExportProgress(Protocol):
    """How the exporters do."""

    def progress(self) -> list[Progress]:
        """One entry an exporter, by name."""
        ...


class Traces(Protocol):
    """Published traces, for people, replay and the gate."""

    def list_traces(self, query: TraceQuery) -> list[TraceSummary]:
        """The newest revision of each matching trace, newest start first."""
        ...

    def get_trace(
        self, trace_id: str, project: str | None = None, revision: int | None = None
    ) -> AgentTrace | None:
        """One revision, by default the newest. Raises SidecarError where two projects have it."""
        ...

    def revisions(self, trace_id: str, project: str) -> list[TraceSummary]:
        """All revisions of a trace, oldest first; none where there is no such trace."""
        ...


class TraceReader(Traces, Cursors, Dropped, Protocol):
    """Published traces, and how the pipeline does that publishes them."""


class Published(Protocol):
    """Published revisions in the order in which they were published."""

    def place(self) -> int:
        """The place of the last revision there is, 0 where there is none."""
        ...

    def after(self, place: int, query: TraceQuery) -> tuple[int, list[TraceSummary]]:
        """The next place, and the matching revisions up to it."""
        ...


class Verdicts(Protocol):
    """Gate verdicts."""

    def add_verdict(self, verdict: Verdict) -> None:
        """Keep it; durable on return."""
        ...

    def get_verdict(self, verdict_id: str, project: str | None = None) -> Verdict | None:
        """The verdict of that id (or of the one id that starts so), or None."""
        ...

    def list_verdicts(self, query: VerdictQuery) -> list[VerdictSummary]:
        """Matching verdicts, newest first."""
        ...


class Datasets(Protocol):
    """Versioned datasets."""

    def create_dataset(self, first: DatasetVersion) -> bool:
        """Make a dataset; False where there is one of that name."""
        ...

    def change_dataset(self, change: DatasetChange) -> bool:
        """Add a version; False, with nothing written, where another came first."""
        ...

    def list_datasets(
        self, project: str | None = None, *, after: tuple[str, str] | None = None, limit: int = 50
    ) -> list[DatasetSummary]:
        """The newest version of each, by project and name; ``after`` those two."""
        ...

    def dataset_versions(self, project: str, name: str) -> list[DatasetVersion]:
        """All versions, oldest first; none where there is no such dataset."""
        ...

    def dataset_items(self, project: str, name: str, version: int) -> list[KeptItem]:
        """The items of a version, in their order."""
        ...

    def holding(self, project: str, trace_id: str) -> list[tuple[str, str]]:
        """Dataset and item of what still says something that a trace said."""
        ...

    def outliving(self) -> list[Outliving]:
        """Which datasets still say what traces said that are kept no longer."""
        ...

    def erase_items(self, erasure: Erasure) -> int:
        """Erase what items say; of how many. Idempotent."""
        ...


class Episodes(Protocol):
    """Replays in shards: who works on what, and what came of each episode."""

    def begin_run(self, run: ReplayRun) -> ReplayRun:
        """Keep a run and its shards; the one of that name where there is one."""
        ...

    def find_run(self, run_id: str) -> ReplayRun | None:
        """The run of that name, or None."""
        ...

    def claim_shard(
        self, run_id: str, owner: str, *, now_ns: int, until_ns: int
    ) -> ShardClaim | None:
        """Take the lease of a shard that nobody has; None where there is none now."""
        ...

    def extend_claim(self, claim: ShardClaim, until_ns: int) -> bool:
        """Move the end of a lease (the past gives it back); False where it is another's now."""
        ...

    def finish_shard(self, claim: ShardClaim, episodes: Sequence[KeptEpisode], took_ns: int) -> int:
        """Keep what came of a shard, whoever has its lease by now; how many were new."""
        ...

    def run_progress(self, run_id: str) -> RunProgress:
        """How far a run is."""
        ...

    def episodes_of(self, run_id: str, *, after: int = -1) -> Iterator[KeptEpisode]:
        """The episodes of a run in order of their places, read a page at a time."""
        ...

    def end_run(self, run_id: str, verdict_id: str) -> None:
        """Note the verdict, and let go of shards and episodes."""
        ...


class Claims(Protocol):
    """One tool call's life in the ledger."""

    def find_claim(self, scope: Scope) -> Claim | None:
        """The claim of a scope with its opened answer."""
        ...

    def prior_tools(self, call: OpenedCall) -> tuple[str, ...]:
        """Tools whose calls by this principal in this trace had their effect, in order."""
        ...

    def counted(self, call: OpenedCall, since_ns: int, *, session: bool) -> list[Counted]:
        """How many calls this principal made since then, by tool; ``session``: of this trace."""
        ...

    def standings(self, project: str, holds: Sequence[Hold], now_ns: int) -> list[Standing]:
        """How the budgets that these holds would take from stand now."""
        ...

    async def commit_intent(self, intent: Intent) -> IntentResult:
        """The one final transaction {policy, key, approval, holds, authorisation}."""
        ...

    async def mark_sent(self, claim: Fence, now_ns: int, kinds: Sequence[StopKind] = BOTH) -> bool:
        """Durably sent from here on; False when the claim is another's, or a stop of one of these
        kinds stands."""
        ...

    def stop_of(self, call: OpenedCall) -> str | None:
        """The code of the stop (``killed``, ``frozen``) that a call falls under now, or None."""
        ...

    async def record(self, outcome: CallOutcome) -> bool:
        """Receipt and end of the claim; False, with nothing written, when it is another's."""
        ...


class Recovery(Protocol):
    """What is left of calls whose process died, or whose outcome is unknown."""

    def hold_owner(self, owner: str) -> None:
        """Claims made under this name are alive until this process dies."""
        ...

    def key_revoked(self, principal: str) -> bool:
        """Whether this principal's key has been revoked."""
        ...

    def owner_lives(self, owner: str) -> bool:
        """Whether the process that made claims under this name still runs."""
        ...

    def leads(self, role: str) -> bool:
        """Whether this process does a work of which one is enough, among all on this ledger."""
        ...

    def orphans(self, limit: int = 1000) -> list[Claim]:
        """Open claims of owners that are dead."""
        ...

    def open_claims(self, owner: str, limit: int = 1000) -> list[Claim]:
        """Open claims of one owner, oldest first."""
        ...

    def unresolved(self, limit: int = 1000) -> list[Claim]:
        """Claims whose outcome is unknown."""
        ...

    async def forget(self, now_ns: int, limit: int, since_ns: int = 0) -> int:
        """Drop up to ``limit`` stored answers that have expired, and claims kept long enough; how
        many. What is unknown is never dropped. ``since_ns``: until then it has been done."""
        ...

    def claim_of(self, call_id: str) -> Claim | None:
        """The claim whose present attempt a call made."""
        ...

    def opened_call(self, call_id: str) -> OpenedCall | None:
        """A call as it was opened, with its arguments."""
        ...


class Watching(Protocol):
    """A watcher's end of news."""

    async def moved(self, seconds: float) -> None:
        """Returns as soon as there is news since the last return, at the latest after a while."""
        ...


class DurableBook(Protocol):
    """Calls that the gateway makes for agents that do not wait."""

    async def queue_durable(self, taken: Accepted) -> bool:
        """Take a durable call on, with its receipt; False when there is one with its key."""
        ...

    def durable_of(self, scope: Scope) -> DurableCall | None:
        """The durable call of a key, without its request."""
        ...

    def find_durable(self, durable_id: str, project: str | None = None) -> DurableCall | None:
        """One durable call, without its request."""
        ...

    def due_durable(self, now_ns: int, limit: int) -> list[DurableCall]:
        """Waiting calls whose time has come, with their requests."""
        ...

    async def lease_durable(self, wanted: Lease) -> bool:
        """Take the lease of a durable call that has not moved since it was seen."""
        ...

    async def end_durable(self, ended: Attempted) -> bool:
        """What came of an attempt; False when the lease is another's."""
        ...

    def list_durable(self, query: DurableQuery) -> list[DurableCall]:
        """Durable calls that match, newest first, without their requests."""
        ...

    async def prune_durable(self, before_ns: int, limit: int) -> int:
        """Delete durable calls that were done or discarded before then; how many."""
        ...

    async def dispose_durable(self, disposal: Disposal) -> bool:
        """A person's word on a dead letter; False when it is none."""
        ...


class ApprovalBook(Protocol):
    """Requests for approval and the votes on them."""

    async def ask_approval(
        self, wanted: Approval, pace: Pace | None = None, *, seen: Seen | None = None
    ) -> Approval:
        """The request for this action and key: ``wanted`` if there is none yet.

        Raises AskedTooOften where the requester has asked more than its pace allows, KeyMoved where
        the key's claim is not as ``seen`` (None: there was none): nobody is asked for a call that
        was made meanwhile.
        """
        ...

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under; None before any."""
        ...

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored."""
        ...

    def list_approvals(
        self,
        project: str | None = None,
        limit: int = 100,
        after: tuple[int, str] | None = None,
    ) -> list[Approval]:
        """Requests, newest first; ``after`` a moment and id of the list."""
        ...

    async def approval_after(
        self, seen: Approval, *, poll_seconds: float, seconds: float
    ) -> Approval:
        """The request once it is no longer as seen, or as it is after a while, at most ``seconds``.

        Looked at every ``poll_seconds`` where no notification arrives.
        """
        ...

    def approval_news(self, approval_id: str | None = None) -> AbstractContextManager[Watching]:
        """Watch one request, or all: told of what any sidecar on this ledger commits.

        What another process does to a file is not told: who watches also looks now and then.
        """
        ...

    async def expire_approvals(self, now_ns: int) -> int | None:
        """Resolve what has run out; when the next one will, None where nothing waits."""
        ...

    async def vote(self, ballot: Ballot) -> str | None:
        """Count a vote: None, or the code of why it does not count."""
        ...

    async def take_token(self, project: str, approval_id: str, now_ns: int) -> bool:
        """True once for an approved request: its token may be told now."""
        ...


class GlassBook(Protocol):
    """Break-glass: two people in the approvers' place."""

    def find_glass(self, glass_id: str, project: str | None = None) -> BreakGlass | None:
        """One glass with its votes, as stored."""
        ...

    async def open_glass(self, wanted: BreakGlass, ballot: GlassBallot) -> str | None:
        """Sign a glass and keep it with its first vote: None, or the code of why not."""
        ...

    async def break_glass(self, ballot: GlassBallot, lasts_ns: int) -> str | None:
        """The second vote, which approves the request for ``lasts_ns`` at most: None, or the code
        of why it does not count."""
        ...

    async def review_glass(self, ballot: GlassBallot) -> str | None:
        """Close a glass's review: None, or the code of why it stays open."""
        ...


class StopBook(Protocol):
    """Kill switches and freezes."""

    async def set_stop(self, stop: Stop) -> Stop:
        """The stop, set and durable; or the one like it that stands already."""
        ...

    async def lift_stop(self, ballot: LiftBallot) -> str | None:
        """Count a vote to lift a stop: None, or the code of why it does not count."""
        ...


class Notes(Protocol):
    """What is done to the gateway itself, for the audit chain."""

    async def note(self, note: Note) -> bool:
        """Append the entry, durably; False where its state stands already."""
        ...


class PolicyBook(Protocol):
    """Looser policies, on which people vote."""

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under; None before any."""
        ...

    def policy_offer(self) -> PolicyOffer | None:
        """The looser policy that people vote on, or voted on last."""
        ...

    async def offer_policy(self, made: PolicyOffer) -> PolicyOffer:
        """Have people vote on a looser revision; the offer that stands."""
        ...

    async def vote_policy(self, ballot: PolicyBallot) -> str | None:
        """Count a vote on the offer: None, or the code of why it does not count."""
        ...


class PageBook(Protocol):
    """What the approval pages keep between two requests of a browser."""

    async def keep_page(self, state: PageState, most: int) -> None:
        """Keep a state; of its kind the ``most`` lately used ones stay."""
        ...

    async def find_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """A state that has not run out, opened. Raises SealBroken."""
        ...

    async def use_page(self, digest: str, now_ns: int, expires_at_ns: int) -> None:
        """Note that a state is used, so that it runs out then."""
        ...

    async def take_page(self, kind: PageKind, digest: str, now_ns: int) -> PageState | None:
        """The same as ``find_page``, once. Raises SealBroken."""
        ...

    async def drop_page(self, digest: str, owner: str = "") -> None:
        """Drop a state, and all of an owner where one is named."""
        ...


class PeoplesBook(ApprovalBook, GlassBook, PageBook, StopBook, PolicyBook, Notes, Protocol):
    """What people decide: approvals, what is stopped, and looser policies."""


class ApprovalEvents(Protocol):
    """What the chain says of approvals, for those who are told of it; and time's end of them."""

    def leads(self, role: str) -> bool:
        """Whether this process does a work of which one is enough, among all on this ledger."""
        ...

    def find_approval(self, approval_id: str, project: str | None = None) -> Approval | None:
        """A request as stored."""
        ...

    def approval_news(self, approval_id: str | None = None) -> AbstractContextManager[Watching]:
        """Watch one request, or all."""
        ...

    async def expire_approvals(self, now_ns: int) -> int | None:
        """Resolve what has run out; when the next one will, None where nothing waits."""
        ...

    def audit_end(self) -> tuple[int, str, AuditHead | None]:
        """Place and hash of the last entry, and the signed head, of one moment."""
        ...

    def approval_entries(self, seq: int, limit: int) -> list[AuditEntry]:
        """Entries about approvals that follow ``seq``, in order."""
        ...

    def told_place(self, name: str) -> int | None:
        """The place until which somebody of that name has been told; None before the first."""
        ...

    async def told_until(self, name: str, seq: int) -> None:
        """Move the place of somebody, never back."""
        ...


class SigningKeys(Protocol):
    """Keys, secrets and the active policy of the gateway."""

    @property
    def ephemeral(self) -> bool:
        """Whether the ledger is lost with the process or the machine's memory."""
        ...

    def use_signer(self, signer: Signer) -> None:
        """Sign audit heads with this key; nothing can be recorded before."""
        ...

    async def find_or_add_signing_key(self, made: StoredSigningKey) -> StoredSigningKey:
        """The key that signs when ``made`` was made, ``made`` if there is none."""
        ...

    async def find_or_add_secret(self, name: str, made: bytes) -> bytes:
        """A named secret, ``made`` if there was none."""
        ...

    async def activate_policy(
        self, revision: str, now_ns: int, sequence: int | None = None, *, loosens: bool = False
    ) -> bool:
        """Intents decided under any other revision are refused from now on.

        ``sequence`` is the release's number: False, and nothing is changed, where a newer one was
        active before (``rollback``); and where it ``loosens`` and is not approved (``policy``).
        """
        ...


class AuditTrail(Protocol):
    """The hash-chained log."""

    def entries_after(self, seq: int, limit: int) -> list[AuditEntry]:
        """Entries that follow ``seq``, in order."""
        ...

    def audit_end(self) -> tuple[int, str, AuditHead | None]:
        """Place and hash of the last entry, and the signed head, of one moment."""
        ...

    def audit_head(self) -> AuditHead | None:
        """The signed head."""
        ...

    def public_keys(self) -> dict[str, bytes]:
        """Every signing key's public half, by key id."""
        ...

    def signing_keys(self) -> list[KnownKey]:
        """Every signing key, the newest first."""
        ...

    def checkpoints_after(self, seq: int, limit: int) -> list[Checkpoint]:
        """Signed checkpoints of places that follow ``seq``, in order."""
        ...


class CheckpointBook(AuditTrail, Protocol):
    """Checkpoints of the chain, and how far they are kept elsewhere."""

    def leads(self, role: str) -> bool:
        """Whether this process does a work of which one is enough, among all on this ledger."""
        ...

    async def checkpoint(self, now_ns: int) -> Checkpoint | None:
        """Sign the end of the chain; None if it has not moved since the last time."""
        ...

    def anchored(self, name: str) -> int:
        """The place up to which an anchor has the checkpoints."""
        ...

    async def set_anchored(self, name: str, seq: int) -> None:
        """An anchor has all checkpoints up to this place."""
        ...


class Calls(Protocol):
    """Calls and receipts, to be read."""

    def list_calls(self, query: CallQuery) -> list[CallRow]:
        """Calls that match, newest first."""
        ...

    def get_call(self, call_id: str, project: str | None = None) -> CallRow | None:
        """One call with its receipts' ids."""
        ...

    def get_receipt(self, receipt_id: str, project: str | None = None) -> Receipt | None:
        """One receipt as it stands in the chain."""
        ...


class Traffic(Protocol):
    """What is kept of calls, trace by trace, to be put together again."""

    def facts_of(self, query: TrafficQuery) -> list[Fact]:
        """Receipts of one trace's calls in order, with opened arguments."""
        ...

    def answers_of(self, project: str, trace_id: str) -> list[KeptAnswer]:
        """The answers still kept of one trace's calls."""
        ...

    def trace_ids_of(self, project: str, since_ns: int, until_ns: int, limit: int) -> list[str]:
        """The traces that had calls in a while, the newest first."""
        ...


class Facts(Protocol):
    """What the pipeline tails of the ledger."""

    def facts_after(self, seq: int, limit: int) -> list[Fact]:
        """Receipts that follow ``seq``, with opened arguments."""
        ...


class Checked(Protocol):
    """What can say whether it works."""

    async def check(self) -> None:
        """Raises StoreUnavailable where nothing can be recorded or read."""
        ...


class GatewayLedger(
    Claims,
    Recovery,
    ApprovalBook,
    GlassBook,
    PageBook,
    ApprovalEvents,
    StopBook,
    PolicyBook,
    SigningKeys,
    CheckpointBook,
    Calls,
    Facts,
    DurableBook,
    Notes,
    Protocol,
):
    """All of the ledger, as the gateway needs it."""

    @property
    def where(self) -> str:
        """The ledger for people: its file, or its database and schema."""
        ...
