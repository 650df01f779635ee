"""What ``sidecar doctor`` looks at: one function a thing, each with what it found and a remedy.

Rules
1. Nothing is changed and no request is sent: a store is read, a port is tried and let go, a target
   is dialled and hung up on.
2. ``wrong`` is what a start would fail on, or what could not work once started; ``warning`` is what
   a careful operator would change. Each says what to do.
3. A check that cannot be made because another failed says so by not being there.
"""

import http.client
import os
import shutil
import socket
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from processors.model.principal import KeyKind, StoredKey
from processors.value import duration_ns
from sidecar import clock
from sidecar.app import known, listening, opening, people, policy, sealing
from sidecar.cli.found import Check, good, wrong
from sidecar.cli.reaching import DECLARED, reached, secrets
from sidecar.config import Config, Loaded
from sidecar.errors import SidecarError
from sidecar.listen.address import split_address
from sidecar.store.glass import state_of

_DIAL_SECONDS = 3.0
_SOON_NS = 7 * 24 * 3600 * 10**9
_EARLIEST_NS = 1_704_067_200 * 10**9  # 2024-01-01: no sidecar is older
_SKEW_NS = 5 * 60 * 10**9
_TRIALS = 5
_GLASSES_MAX = 1000
_ANYWHERE = frozenset({"0.0.0.0", "::"})  # noqa: S104 - looked at, not bound


async def examine(loaded: Loaded) -> AsyncIterator[Check]:
    """Every check behind a configuration that loads, in the order of a start."""
    for check in (*_clock(), *_seal(loaded), *_store(loaded), *_ports(loaded.config)):
        yield check
    for check in _certificates(loaded):
        yield check
    yield await _policy(loaded)
    read = list(secrets(loaded))
    if not any(each.state == "wrong" and each.name.startswith(DECLARED) for each in read):
        for check in _declared(loaded):
            yield check
    for check in read:
        yield check
    async for check in reached(loaded):
        yield check


def _clock() -> Iterator[Check]:
    now_ns = clock.now_ns()
    shown = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(now_ns / 1e9))
    if now_ns < _EARLIEST_NS:
        yield Check(
            name="clock",
            state="wrong",
            what=f"it is said to be {shown}: approvals, keys and retention would go by that",
            do="Set the clock, and keep it by NTP.",
        )
    else:
        yield good("clock", shown)


def _seal(loaded: Loaded) -> Iterator[Check]:
    try:
        path = sealing.seal_key_path(loaded)
        sealing.master_key(loaded)
    except SidecarError as error:
        yield wrong("seal key", error)
        return
    if path.stat().st_mode & 0o007:
        yield Check(
            name="seal key",
            state="warning",
            what=f"every user of this machine can read {path}",
            do=f"chmod 0400 {path}",
        )
    else:
        yield good("seal key", str(path))


def _store(loaded: Loaded) -> Iterator[Check]:
    folder = Path(loaded.store_folder)
    yield _room(loaded, folder)
    try:
        # Opening the keys makes what is missing: only a ledger that is whole is opened.
        with opening.open_backend(loaded) as stores:
            ledger = next(each for each in stores.schemas() if each.name == "ledger")
        if not ledger.number:
            where = folder if not loaded.config.store.on_postgres else "the database"
            yield good("store", f"{where} is empty; the first start makes it")
            return
        if ledger.pending:
            added = ", ".join(ledger.pending)
            yield good("store", f"the first start brings its ledger up to date: {added}")
            return
        with opening.open_keys(loaded) as keys:
            stored = keys.list_keys()
            master = sealing.master_key(loaded)
            names = [project.name for project in loaded.config.projects]
            sealing.check_keyring(sealing.keyring(keys, master), names, loaded, make=False)
    except SidecarError as error:
        yield wrong("store", error)
        return
    yield good("store", f"opens; {len(stored)} keys are stored")
    yield from _keys(loaded, stored)
    yield from _reviews(loaded)


def _reviews(loaded: Loaded) -> Iterator[Check]:
    """Glasses that were broken and that nobody has reviewed."""
    try:
        with opening.open_ledger(loaded) as ledger:
            listed = ledger.list_glasses(None, _GLASSES_MAX)
    except SidecarError as error:
        yield wrong("break-glass", error)
        return
    due = [each for each in listed if state_of(each, clock.now_ns()) == "broken"]
    if due:
        since = time.gmtime(min(each.opened_at_ns for each in due) / 1e9)
        yield Check(
            name="break-glass",
            state="warning",
            what=f"{len(due)} reviews are open, since {time.strftime('%Y-%m-%d %H:%M:%SZ', since)}",
            do="See sidecar approvals glasses --open, and close each: sidecar approvals"
            " review-glass ID",
        )


def _declared(loaded: Loaded) -> Iterator[Check]:
    try:
        found = people.declared_keys(loaded)
    except SidecarError as error:
        yield wrong("identity.keys", error)
        return
    if found:
        yield good("identity.keys", f"{len(found)} keys are declared by file")


def _room(loaded: Loaded, folder: Path) -> Check:
    """Whether the data folder can be written and has the room the journal may take."""
    there = next(each for each in (folder, *folder.resolve().parents) if _seen(each))
    if not os.access(there, os.W_OK | os.X_OK):
        return Check(
            name="data folder",
            state="wrong",
            what=f"{there} cannot be written by user {os.getuid()}",
            do="Give the folder to the user the sidecar runs as, or name another in store.url.",
        )
    free, wanted = shutil.disk_usage(there).free, loaded.config.receive.journal.bytes_max
    told = f"{folder}: {free // 2**20} MiB are free"
    if free < wanted:
        return Check(
            name="data folder",
            state="warning",
            what=f"{told}, and the journal alone may take {wanted // 2**20} MiB",
            do="Give it a larger disk, or lower receive.journal.bytes_max.",
        )
    return good("data folder", told)


def _seen(path: Path) -> bool:
    """Whether something is there that we may know of."""
    try:
        return path.exists()
    except OSError:  # a folder above it is closed to us
        return False


def _keys(loaded: Loaded, stored: list[StoredKey]) -> Iterator[Check]:
    config, now_ns = loaded.config, clock.now_ns()
    live = [
        key
        for key in stored
        if key.revoked_at_ns is None and (key.expires_at_ns is None or key.expires_at_ns > now_ns)
    ]
    elsewhere = bool(config.identity.oidc or config.identity.mtls)
    for project in config.projects:
        for kind in _needed(loaded):
            declared = any(
                key.kind == kind and key.project == project.name for key in config.identity.keys
            )
            held = any(key.kind == kind and key.project == project.name for key in live)
            if not (declared or held or elsewhere):
                yield Check(
                    name="keys",
                    state="warning",
                    what=f"project {project.name} has no {kind} key: nobody can act as one",
                    do=f"sidecar key create --kind {kind} --project {project.name}",
                )
    for key in live:
        if key.expires_at_ns is not None and key.expires_at_ns - now_ns < _SOON_NS:
            yield Check(
                name="keys",
                state="warning",
                what=f"key {key.key_id} ({key.kind} of {key.project}) expires within 7 days",
                do="Create another and hand it out before then.",
            )
    if any(key.created_at_ns > now_ns + _SKEW_NS for key in stored):
        yield Check(
            name="clock",
            state="wrong",
            what="keys in the store were made later than it is now: the clock was set back",
            do="Set the clock, and keep it by NTP.",
        )


def _needed(loaded: Loaded) -> tuple[KeyKind, ...]:
    """The kinds of keys without which nothing happens here."""
    held = any(tool.class_ == "irreversible" for tool in known.known_tools(loaded).tools)
    return ("agent", "approver") if held else ("agent",)


def _ports(config: Config) -> Iterator[Check]:
    running = _answers(config.metrics.listen)
    for key, address in config.addresses():
        if not address:
            continue
        host, port = split_address(address)
        fault = _unbindable(host, port)
        if fault is None:
            yield good(key, f"{address} is free")
        elif running:
            yield good(key, f"{address} is held; a sidecar answers on {config.metrics.listen}")
        else:
            do = "Stop what uses the port, or configure another address."
            yield Check(name=key, state="wrong", what=f"cannot listen on {address}: {fault}", do=do)


def _certificates(loaded: Loaded) -> Iterator[Check]:
    for key, tls in loaded.config.certificates():
        try:
            found = listening.open_certificate(loaded, key, tls)
        except SidecarError as error:
            yield wrong(key, error)
            continue
        if found is None:
            continue
        left_ns = found.material.expires_at_s * 10**9 - clock.now_ns()
        until = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(found.material.expires_at_s))
        if left_ns < _SOON_NS:
            do = "Renew it; a running sidecar takes the new files by itself."
            yield Check(name=key, state="warning", what=f"the certificate ends {until}", do=do)
        else:
            yield good(key, f"the certificate is good until {until}")


def _unbindable(host: str, port: int) -> str | None:
    """Why a socket cannot be bound there; None where it can."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            return error.strerror or str(error)
    return None


def _answers(address: str) -> bool:
    """Whether a sidecar's health answers there."""
    if not address or split_address(address)[1] == 0:
        return False
    host, port = split_address(address)
    there = "127.0.0.1" if host in _ANYWHERE else host
    # Straight there: by no proxy of the environment, and wherever it might lead further.
    asking = http.client.HTTPConnection(there, port, timeout=_DIAL_SECONDS)
    try:
        asking.request("GET", "/healthz")
        return bool(asking.getresponse().read(16) == b"ok\n")
    except (OSError, ValueError, http.client.HTTPException):
        return False  # whatever speaks there, it is no sidecar
    finally:
        asking.close()


async def _policy(loaded: Loaded) -> Check:
    try:
        worker, release = policy.policy_parts(loaded.config.policy, loaded)
        await worker.start()
    except SidecarError as error:
        return wrong("policy", error)
    try:
        started = clock.monotonic_ns()
        for _ in range(_TRIALS):
            await worker.decide({})
        each_ms = (clock.monotonic_ns() - started) / _TRIALS / 1e6
    finally:
        await worker.stop()
    told = f"bundle {worker.revision[:12]} decides in {each_ms:.1f} ms"
    if each_ms * 1e6 > duration_ns(loaded.config.policy.deadline) / 2:
        return Check(
            name="policy",
            state="warning",
            what=f"{told}, more than half of policy.deadline ({loaded.config.policy.deadline})",
            do="Give the machine more room, or the policy a longer deadline.",
        )
    ends_s = release.expires_s if release is not None else None
    if ends_s is not None and ends_s * 10**9 - clock.now_ns() < _SOON_NS:
        until = time.strftime("%Y-%m-%d %H:%M:%SZ", time.gmtime(ends_s))
        return Check(
            name="policy",
            state="warning",
            what=f"{told}, and is good until {until} only",
            do="Release it anew; policy.max_stale after that nothing is allowed any more.",
        )
    return good("policy", told)
