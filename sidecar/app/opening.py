"""The stores the configuration names, opened for one command or for the server."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache
from pathlib import Path

from sidecar.app.sealing import keyring, master_key, wrong_seal
from sidecar.config import Loaded
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.store.backend import (
    Backend,
    DatasetStore,
    EpisodesStore,
    KeyBook,
    LedgerReader,
    PublishedStore,
    TracesStore,
    VerdictStore,
)
from sidecar.store.envelope import Keyring, SealBroken
from sidecar.store.location import Location, read_location
from sidecar.store.sqlite.backend import LEDGER, TRACES, SqliteBackend

JOURNAL = "journal.db"


def _location(loaded: Loaded) -> Location:
    """The database, with the password of ``store.password_file``. Raises SidecarError."""
    store = loaded.config.store
    if not store.password_file:
        return read_location(store.url)
    path = loaded.path(store.password_file)
    try:
        return read_location(store.url, path.read_text().rstrip("\r\n"))
    except OSError as error:
        raise SidecarError(
            f"the database's password cannot be read: {error.strerror}",
            where=str(path),
            do="Correct store.password_file.",
        ) from None
    except UnicodeDecodeError:
        raise SidecarError(
            "the database's password is not UTF-8",
            where=str(path),
            do="Correct store.password_file.",
        ) from None


@contextmanager
def open_backend(loaded: Loaded) -> Iterator[Backend]:
    """The stores the configuration names. Raises SidecarError."""
    on_postgres = loaded.config.store.on_postgres
    stores: Backend = _postgres(loaded) if on_postgres else SqliteBackend(Path(loaded.store_folder))
    with closing(stores):
        yield stores


def _postgres(loaded: Loaded) -> Backend:
    try:  # imported here: the driver comes with the extra ``postgres``
        from sidecar.store.postgres.backend import PostgresBackend
    except ImportError as error:
        raise _no_driver(error) from None
    return PostgresBackend(_location(loaded), folder=Path(loaded.store_folder))


def _no_driver(error: ImportError) -> SidecarError:
    return SidecarError(
        f"the driver of a store on Postgres is not installed: {error}",
        where="configuration key store.url",
        do="Install agenttwin-sidecar[postgres].",
    )


@contextmanager
def open_keys(loaded: Loaded, *, make: bool = True) -> Iterator[KeyBook]:
    """The key store of the ledger; ``make``: made when absent, else StoreUnavailable is raised."""
    with open_backend(loaded) as stores, closing(stores.keys(make=make)) as keys:
        yield keys


@contextmanager
def open_traces(loaded: Loaded) -> Iterator[TracesStore]:
    """The published traces, read only. Raises StoreUnavailable where there is no store."""
    with open_backend(loaded) as stores, closing(stores.traces()) as traces:
        yield traces


@contextmanager
def open_published(loaded: Loaded) -> Iterator[PublishedStore]:
    """Published revisions in their order. Raises StoreUnavailable where there is no store."""
    with open_backend(loaded) as stores, closing(stores.published()) as published:
        yield published


@contextmanager
def open_ledger(loaded: Loaded) -> Iterator[LedgerReader]:
    """The gateway's ledger, read only; the seal key is read when something sealed is shown.

    Raises StoreUnavailable where there is no store.
    """
    with ExitStack() as stack:
        stores = stack.enter_context(open_backend(loaded))

        @cache
        def ring() -> Keyring:
            return keyring(stack.enter_context(closing(stores.keys())), master_key(loaded))

        ledger = stack.enter_context(closing(stores.read_ledger(lambda project: ring()(project))))
        try:
            yield ledger
        except SealBroken:
            raise wrong_seal("what is asked for", loaded) from None


@contextmanager
def open_verdicts(loaded: Loaded, *, write: bool = False) -> Iterator[VerdictStore]:
    """The gate's verdicts; ``write`` makes the store when absent. Raises StoreUnavailable."""
    with open_backend(loaded) as stores, closing(stores.verdicts(write=write)) as verdicts:
        yield verdicts


@contextmanager
def open_datasets(loaded: Loaded, *, write: bool = False) -> Iterator[DatasetStore]:
    """The datasets; ``write`` makes the store when absent. Raises StoreUnavailable."""
    with open_backend(loaded) as stores, closing(stores.datasets(write=write)) as datasets:
        if not write:
            _newest(stores)
        yield datasets


def _newest(stores: Backend) -> None:
    """Raises SidecarError where the traces' schema lacks what this program reads of it."""
    for schema in stores.schemas():
        if schema.name == "traces" and schema.pending:
            raise SidecarError(
                f"the store has not got {', '.join(schema.pending)} yet",
                do="Bring it up to date: sidecar store migrate.",
            )


@contextmanager
def open_episodes(loaded: Loaded) -> Iterator[EpisodesStore]:
    """The replays in shards; the store is made when absent. Raises StoreUnavailable."""
    with open_backend(loaded) as stores, closing(stores.episodes(write=True)) as episodes:
        yield episodes


def existing(loaded: Loaded) -> Path:
    """The data folder of a child. Raises StoreUnavailable rather than making a store anew.

    The parent made all of them: what is missing was taken away, and stands in for nothing empty.
    """
    folder = Path(loaded.store_folder)
    for name in (JOURNAL,) if loaded.config.store.on_postgres else (LEDGER, JOURNAL, TRACES):
        if not (folder / name).exists():
            raise StoreUnavailable(
                "the store was deleted while it was in use",
                where=str(folder / name),
                do="Stop the sidecar, put the data folder back, and start again.",
            )
    return folder
