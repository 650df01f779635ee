"""What does not hold in a bundle: its bytes, its signatures, its verdict.

**Rules**
1. Bytes first: a file that is not as it was written is named, and nothing is concluded from it.
2. The statements say nothing that the bundle does not: they are made again and compared.
3. The verdict is made again from the runs alone (``derive``), in a process of its own where there
   is one (``process.py``): a run with a tool that the plan does not know, a receipt of another
   side-effect class, a conclusion that is not what its scores come to, or a record in another's
   place holds nothing.
4. Everything wrong is a sentence that names its place; nothing here raises.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from msgspec import Struct

from processors.model.verdict import Verdict
from sidecar.canonical import NotCanonical, sha256
from sidecar.evaluate.score import concluded
from sidecar.gate import dsse
from sidecar.gate import evidence as names
from sidecar.gate.circumstances import Circumstances
from sidecar.gate.conclude import Folded, fold, gate_input, verdict_of
from sidecar.gate.evidence import FORMAT, MANIFEST, STATEMENTS, FileEntry, Manifest, root_of
from sidecar.gate.given import GateInput
from sidecar.gate.policy import GatePolicy
from sidecar.gate.rerun import runs_of
from sidecar.gate.spelling import encoded, parts
from sidecar.gate.statement import Made, statements
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.run import Pins

_UNREADABLE = (
    *(msgspec.DecodeError, NotCanonical, ValueError, LookupError, RecursionError),
    *(TypeError, AttributeError, ArithmeticError),
)
"""What a stranger's bundle does to its reader: below a record, shapes are nobody's word."""
_OUTSIDE = ("folder", "root", "signed_by")
"""What the stored verdict knows of its bundle, and the one inside cannot."""


FAULTS_MAX = 100


class Derived(Struct, frozen=True, kw_only=True):
    """What the runs of a bundle come to; ``faults``: why they come to nothing."""

    digest: str = ""
    status: str | None = None
    faults: tuple[str, ...] = ()


class Integrity(Struct, frozen=True, kw_only=True):
    """``signers`` are the ids of the keys whose signatures hold; ``root`` that of the files."""

    faults: tuple[str, ...]
    root: str = ""
    files: tuple[FileEntry, ...] = ()
    signers: tuple[str, ...] = ()
    verdict: Verdict | None = None


def integrity(files: Mapping[str, bytes]) -> Integrity:
    """Whether a bundle is as it was signed."""
    found = [*_file_faults(files)]
    if found:
        return Integrity(faults=tuple(found))
    manifest = msgspec.json.decode(files[MANIFEST], type=Manifest)
    root = manifest.root
    try:
        verdict = msgspec.json.decode(files[names.VERDICT], type=Verdict)
        signers = _signers(files, verdict, root)
    except _UNREADABLE as error:
        return Integrity(faults=(f"{STATEMENTS} does not hold: {error}",), root=root)
    return Integrity(faults=(), root=root, files=manifest.files, signers=signers, verdict=verdict)


def derive(files: Mapping[str, bytes]) -> Derived:
    """The verdict that the runs of a bundle come to, and its digest.

    ``files`` are asked for one at a time, runs in order, and no run is held once it is taken in.
    """
    strange: dict[str, None] = {}
    try:
        pins = msgspec.json.decode(files[names.PINS], type=Pins)
        policy = msgspec.json.decode(files[names.POLICY], type=GatePolicy)
        tools = msgspec.json.decode(files[names.TOOLS], type=dict[str, str])
        said = msgspec.json.decode(files[names.VERDICT], type=Verdict)
        folded = _folded(pins, _known(runs_of(files, pins), tools, strange))
        if strange:
            return Derived(faults=_few(strange))
        around = msgspec.json.decode(files[names.CIRCUMSTANCES], type=Circumstances)
        given = gate_input(pins, folded, policy, said.created_at_ns, around)
        made = verdict_of(
            pins, folded, given, verdict_id=said.verdict_id, now_ns=said.created_at_ns
        )
    except _UNREADABLE as error:
        return Derived(faults=_few(strange) or (f"the records cannot be read: {error}",))
    return Derived(
        digest=made.digest, status=made.status, faults=tuple(_unlike(files, made, said, given))
    )


def _few(faults: Iterable[str]) -> tuple[str, ...]:
    """What is wrong of a hundred thousand runs fits no screen."""
    found = tuple(faults)
    more = len(found) - FAULTS_MAX
    return (*found[:FAULTS_MAX], f"and {more} more") if more > 0 else found


def _folded(pins: Pins, runs: Iterator[EpisodeRecord]) -> Folded:
    """The runs taken in. What stands in a wrong place comes out of turn: the rest is looked at all
    the same, so that all of it is told."""
    try:
        return fold(pins, runs)
    except ValueError:
        deque(runs, maxlen=0)
        raise


def _known(
    runs: Iterable[tuple[str, EpisodeRecord]], tools: Mapping[str, str], strange: dict[str, None]
) -> Iterator[EpisodeRecord]:
    """The runs as they come; what is strange of them is noted, each thing once."""
    for path, run in runs:
        strange.update(dict.fromkeys((*_misplaced(path, run), *_strange(path, run, tools))))
        yield run


def needs_statistics(files: Mapping[str, bytes]) -> bool:
    """Whether ``derive`` will load them; yes where that cannot be read."""
    try:
        policy = msgspec.json.decode(files[names.POLICY], type=GatePolicy)
        fixed = msgspec.json.decode(files[names.PINS], type=Pins).deterministic
    except _UNREADABLE:
        return True
    return not fixed or policy.tokens > 0 or policy.latency_ms > 0


def verdict_faults(found: Derived, verdict: Verdict) -> Iterator[str]:
    """Where the derived verdict is not the one that was given."""
    yield from found.faults
    if found.faults:
        return
    if found.status != verdict.status:
        yield f"the records come to {found.status}, the verdict says {verdict.status}"
    if found.digest != verdict.digest:
        yield f"the records come to digest {found.digest}, the verdict says {verdict.digest}"


def stored_faults(inside: Verdict, root: str, stored: Verdict) -> Iterator[str]:
    """Where a bundle is not the one of a stored verdict."""
    if root != stored.evidence.get("root"):
        yield "the manifest's root is not the one kept with the verdict"
    kept = {name: one for name, one in stored.evidence.items() if name not in _OUTSIDE}
    same = msgspec.structs.replace(stored, evidence=kept)
    if encoded(same) != encoded(inside):
        yield f"{names.VERDICT} is not the verdict that is stored"


def keys_of(files: Mapping[str, bytes]) -> dict[str, Ed25519PublicKey]:
    """The public keys of a bundle by id. Raises DsseInvalid."""
    found = [dsse.read_public(data) for path, data in files.items() if path.startswith(names.KEYS)]
    return {dsse.keyid(one): one for one in found}


def _file_faults(files: Mapping[str, bytes]) -> Iterator[str]:
    for name in (MANIFEST, STATEMENTS):
        if name not in files:
            yield f"{name} is missing"
            return
    try:
        manifest = msgspec.json.decode(files[MANIFEST], type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        yield f"{MANIFEST} cannot be read: {error}"
        return
    if manifest.format != FORMAT:
        yield f"{MANIFEST} is of format {manifest.format!r}; this program reads {FORMAT}"
        return
    if root_of(manifest.files) != manifest.root or encoded(manifest) != files[MANIFEST]:
        yield f"{MANIFEST} is not as it was written: its root does not match its list"
    listed = {entry.path for entry in manifest.files}
    if [entry.path for entry in manifest.files] != sorted(listed):
        yield f"{MANIFEST} is not as it was written: its list is out of order"
    for entry in manifest.files:
        data = files.get(entry.path)
        if data is None:
            yield f"{entry.path} is missing"
        elif len(data) != entry.size or sha256(data) != entry.sha256:
            yield f"{entry.path} is not as it was written"
    known = {*listed, MANIFEST, STATEMENTS}
    yield from (f"{path} is not in the manifest" for path in files if path not in known)


def _signers(files: Mapping[str, bytes], verdict: Verdict, root: str) -> tuple[str, ...]:
    keys = keys_of(files)
    pins = msgspec.json.decode(files[names.PINS], type=Pins)
    text = files[STATEMENTS]
    if not text.endswith(b"\n"):
        raise dsse.DsseInvalid("its last line is cut")
    envelopes = [dsse.opened(line) for line in text[:-1].split(b"\n")]
    payloads = [dsse.payload(one) for one in envelopes]
    made = Made(
        tools=msgspec.json.decode(files[names.TOOLS], type=dict[str, str]),
        commit=_commit(payloads),
    )
    if tuple(payloads) != statements(pins, verdict, root, made):
        raise dsse.DsseInvalid("it does not say what the bundle holds")
    several = {dsse.signers(one, keys) for one in envelopes}
    if len(several) != 1:
        raise dsse.DsseInvalid("its statements are signed by different keys")
    return several.pop()


def _commit(payloads: Iterable[bytes]) -> str:
    for one in payloads:
        value = msgspec.json.decode(one)
        for subject in value.get("subject", ()) if isinstance(value, dict) else ():
            if found := subject.get("digest", {}).get("gitCommit"):
                return str(found)
    return ""


def _misplaced(path: str, run: EpisodeRecord) -> Iterator[str]:
    if names.run_path(run) != path and not path.startswith(names.SLIM):
        yield f"{path}: it holds run {run.run} of the {run.side} of {run.case}"
    found = concluded(run.scores)
    if found != run.conclusion:
        yield f"{path}: its scores come to {found}, it says {run.conclusion}"


def _strange(place: str, run: EpisodeRecord, tools: Mapping[str, str]) -> Iterator[str]:
    recorded = run.agent.ending == "recorded"
    for event in run.events:
        if event.tool not in tools and event.kind != "gap":
            yield f"{place}: there is no tool {event.tool!r} in {names.TOOLS}"
    for one in run.receipts:
        known = tools.get(one.tool)
        if known is None and not recorded:
            yield f"{place}: there is no tool {one.tool!r} in {names.TOOLS}"
        elif known is not None and known != one.class_:
            yield f"{place}: {one.tool} was {one.class_}, {names.TOOLS} says {known}"


def _unlike(
    files: Mapping[str, bytes], made: Verdict, said: Verdict, given: GateInput
) -> Iterator[str]:
    if not _is_spelt(given, files.get(names.INPUT, b"")):
        yield f"{names.INPUT} is not what the records come to"
    if not _is_spelt(given.results, files.get(names.CASES, b"")):
        yield f"{names.CASES} is not what the records come to"
    if made.digest == said.digest and encoded(made) != encoded(said):
        yield f"{names.VERDICT} says more than the records come to"


def _is_spelt(value: Any, data: bytes) -> bool:
    """Whether these are a record's bytes, without making them all at once."""
    seen, at = memoryview(data), 0
    for part in parts(value):
        if seen[at : at + len(part)] != part:
            return False
        at += len(part)
    return at == len(data)
