"""What a backend gives the composition root: every store, behind the ports callers type against.

**Rules**
1. A backend opens, makes and migrates; it decides nothing.
2. Who opens a store closes it; what they share (files, a pool) is closed with the backend.
3. ``keys``, ``ledger`` and what has ``write`` make the store where there is none. Readers, and
   ``keys`` without ``make``, raise StoreUnavailable then: an empty store stands in for nothing.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from processors.model.call import Approval
from processors.model.principal import StoredKey
from sidecar.store.budget import Hold, Named, Standing
from sidecar.store.durable import DurableCall, DurableQuery
from sidecar.store.envelope import DataKeys, Sealers
from sidecar.store.glass import BreakGlass
from sidecar.store.outbox import Lane
from sidecar.store.policy import PolicyOffer
from sidecar.store.ports import (
    AuditTrail,
    Calls,
    Checked,
    Datasets,
    Episodes,
    ExportProgress,
    Facts,
    GatewayLedger,
    OpenTraces,
    Outbox,
    Published,
    TraceReader,
    Traffic,
    Verdicts,
)
from sidecar.store.redaction import StoredRedactionKeys
from sidecar.store.sealing import SealedKey
from sidecar.store.stop import Stop
from sidecar.store.traces import Bounds
from sidecar.store.upkeep import BackupManifest, SchemaState


class Closing(Protocol):
    """What is opened is closed."""

    def close(self) -> None:
        """Let go. Safe to call twice."""
        ...


class KeyBook(DataKeys, StoredRedactionKeys, Closing, Protocol):
    """Credentials, and the keys that seal."""

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        ...

    def list_keys(self, project: str | None = None) -> list[StoredKey]:
        """All keys, oldest first, of one project or of all."""
        ...

    def add_key(self, key: StoredKey) -> None:
        """Store a new key."""
        ...

    def rotate_key(self, key_id: str, secret_sha256: str, previous_until_ns: int) -> bool:
        """Give a key a new secret; False when there is no such key, or it is revoked."""
        ...

    def revoke_key(self, key_id: str, now_ns: int) -> bool:
        """Revoke a key; False when there is none."""
        ...

    def add_signing_key(self, key: SealedKey, signs_from_ns: int) -> bool:
        """Make a signing key known that signs from then on; False where there is none to follow."""
        ...

    def revoke_signing_key(self, kid: str, now_ns: int, settled_ns: int) -> bool:
        """Revoke a signing key that another has followed at ``settled_ns``; False if none has."""
        ...

    def drop_retired_redaction_keys(self, now_ns: int) -> int:
        """Delete the keys whose time is over; how many."""
        ...


class LedgerReader(AuditTrail, Calls, Facts, Traffic, Closing, Protocol):
    """The ledger for lists, shows and verifiers."""

    def active_policy(self) -> str | None:
        """The policy revision that intents must have been decided under."""
        ...

    def policy_offer(self) -> PolicyOffer | None:
        """The looser policy that people vote on, or voted on last."""
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

    def budget_names(self, project: str | None = None, limit: int = 1000) -> list[Named]:
        """The accounts of a project and those that projects share, or all."""
        ...

    def standings(self, project: str, holds: Sequence[Hold], now_ns: int) -> list[Standing]:
        """How the budgets that these holds would take from stand now."""
        ...

    def find_glass(self, glass_id: str, project: str | None = None) -> BreakGlass | None:
        """One glass with its votes, as stored."""
        ...

    def list_glasses(self, project: str | None = None, limit: int = 100) -> list[BreakGlass]:
        """Glasses, those whose review is open first, then the newest."""
        ...

    def find_stop(self, stop_id: str, project: str) -> Stop | None:
        """One stop with the votes to lift it."""
        ...

    def list_stops(self, project: str | None = None, limit: int = 100) -> list[Stop]:
        """Kill switches and freezes, those that stand first, then the newest."""
        ...

    def find_durable(self, durable_id: str, project: str | None = None) -> DurableCall | None:
        """One durable call, without its request."""
        ...

    def list_durable(self, query: DurableQuery) -> list[DurableCall]:
        """Durable calls that match, newest first, without their requests."""
        ...

    def snapshot(self) -> AbstractContextManager[None]:
        """All reads inside see the ledger as it was at the first of them, whoever writes."""
        ...


class Ledger(GatewayLedger, Checked, Closing, Protocol):
    """The ledger for the gateway."""


class TracesStore(TraceReader, Closing, Protocol):
    """Published traces, and how far the pipeline is."""


class PublishedStore(Published, Closing, Protocol):
    """Published revisions in their order."""


class OpenTracesStore(OpenTraces, Closing, Protocol):
    """The pipeline's working state."""


class OutboxStore(Outbox, Closing, Protocol):
    """What exporters are to send."""


class ProgressReader(ExportProgress, Closing, Protocol):
    """How the exporters do."""


class VerdictStore(Verdicts, Closing, Protocol):
    """Gate verdicts."""


class DatasetStore(Datasets, Closing, Protocol):
    """Datasets."""


class EpisodesStore(Episodes, Closing, Protocol):
    """Replays in shards."""


class Backend(Closing, Protocol):
    """Every store but the journal, which stays in files beside its receiver.

    ``source`` names the pipeline of one sidecar among those that share the stores.
    """

    def keys(self, *, make: bool = True) -> KeyBook:
        """The keys; without ``make`` those of a store that is there."""
        ...

    def ledger(self, sealers: Sealers) -> Ledger:
        """The ledger."""
        ...

    def read_ledger(self, sealers: Sealers) -> LedgerReader:
        """The ledger, to read."""
        ...

    def migrate_traces(self) -> None:
        """Make the traces where there are none, and bring them up to date."""
        ...

    def traces(self, source: str | None = None) -> TracesStore:
        """Published traces."""
        ...

    def published(self) -> PublishedStore:
        """Published revisions."""
        ...

    def open_traces(self, sealers: Sealers, bounds: Bounds, source: str) -> OpenTracesStore:
        """The pipeline's working state."""
        ...

    def prepare_outbox(self, lanes: Sequence[Lane], source: str) -> int:
        """Make a sidecar's places those of ``lanes``; requests forgotten with what nobody has."""
        ...

    def outbox(self, sealers: Sealers, source: str) -> OutboxStore:
        """What exporters are to send."""
        ...

    def export_progress(self) -> ProgressReader:
        """How the exporters do."""
        ...

    def schemas(self) -> tuple[SchemaState, ...]:
        """Which schemas there are, and what this program would add."""
        ...

    def migrate(self) -> None:
        """Make what is not there and bring the rest up to date. Raises StoreUnavailable."""
        ...

    def backup(self, folder: str, made_at_ns: int) -> BackupManifest:
        """Copy everything, as it is at one moment, into a new folder. Raises SidecarError."""
        ...

    def verdicts(self, *, write: bool) -> VerdictStore:
        """Gate verdicts."""
        ...

    def datasets(self, *, write: bool) -> DatasetStore:
        """Datasets."""
        ...

    def episodes(self, *, write: bool) -> EpisodesStore:
        """Replays in shards."""
        ...
