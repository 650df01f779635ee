"""The verdict and the bundle of evidence behind it: every file hashed, the verdict re-derivable.

Rules
1. The bundle holds all a verdict was made from: plan, documents, every run, the comparison.
2. The manifest lists each file's size and SHA-256; its root is kept with the stored verdict.
3. The verdict's digest covers plan, classes, run digests and findings: no id, no time. Anybody with
   the bundle can make it again; ``faults`` does.
"""

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec
from msgspec import Struct, structs

from processors.model.verdict import Verdict
from sidecar.canonical import canonical, sha256
from sidecar.gate.conclude import gate_input, verdict_digest
from sidecar.gate.policy import GatePolicy
from sidecar.gate.rules import decide
from sidecar.replay.record import EpisodeRecord
from sidecar.replay.run import Pins, ReplayResult

MANIFEST = "MANIFEST.json"
_PINS, _VERDICT, _CASES = "plan.json", "verdict.json", "comparison.json"
_POLICY = "gate-policy.json"


class FileEntry(Struct, frozen=True, kw_only=True):
    """One file of a bundle."""

    path: str
    size: int
    sha256: str


class Manifest(Struct, frozen=True, kw_only=True):
    """All files of a bundle but itself; ``root`` is the digest of the list."""

    format: str
    root: str
    files: tuple[FileEntry, ...]


class Bundle(Struct, frozen=True, kw_only=True):
    """A bundle before it is written: files by path, the manifest, and the verdict with its root."""

    files: dict[str, bytes]
    manifest: Manifest
    verdict: Verdict


def bundle(
    result: ReplayResult, verdict: Verdict, *, folder: str, policy: GatePolicy | None = None
) -> Bundle:
    """The files of the evidence; ``folder`` is where they will stand, as the verdict names it."""
    files: dict[str, bytes] = {
        _PINS: _json(result.pins),
        _POLICY: _json(policy or GatePolicy()),
        _CASES: _json(result.results),
        _VERDICT: _json(verdict),
        **{f"inputs/{_safe(name)}": data for name, data in result.files.items()},
    }
    for run in result.runs:
        files[run_path(run)] = _json(run)
    manifest = _manifest(files)
    evidence = {**verdict.evidence, "folder": folder, "root": manifest.root}
    return Bundle(
        files={**files, MANIFEST: _json(manifest)},
        manifest=manifest,
        verdict=structs.replace(verdict, evidence=evidence),
    )


def run_path(run: EpisodeRecord) -> str:
    """Where a run's record stands in the bundle."""
    return f"cases/{quote(run.case, safe='')}/{run.side}-{run.run}.json"


def faults(files: Mapping[str, bytes], verdict: Verdict) -> list[str]:
    """Everything in a bundle that does not hold; empty when all of it does."""
    if MANIFEST not in files:
        return [f"{MANIFEST} is missing"]
    try:
        manifest = msgspec.json.decode(files[MANIFEST], type=Manifest)
    except (msgspec.DecodeError, RecursionError) as error:
        return [f"{MANIFEST} cannot be read: {error}"]
    found = list(_file_faults(files, manifest))
    if manifest.root != verdict.evidence.get("root"):
        found.append("the manifest's root is not the one kept with the verdict")
    return found or _derivation_faults(files, verdict)


def _file_faults(files: Mapping[str, bytes], manifest: Manifest) -> list[str]:
    found = []
    if _root(manifest.files) != manifest.root:
        found.append("the manifest's root does not match its list")
    listed = {entry.path for entry in manifest.files}
    for entry in manifest.files:
        data = files.get(entry.path)
        if data is None:
            found.append(f"{entry.path} is missing")
        elif len(data) != entry.size or sha256(data) != entry.sha256:
            found.append(f"{entry.path} is not as it was written")
    found += [f"{path} is not in the manifest" for path in files if path not in {*listed, MANIFEST}]
    return found


def _derivation_faults(files: Mapping[str, bytes], verdict: Verdict) -> list[str]:
    try:
        pins = msgspec.json.decode(files[_PINS], type=Pins)
        policy = msgspec.json.decode(files[_POLICY], type=GatePolicy)
        runs = tuple(
            msgspec.json.decode(data, type=EpisodeRecord)
            for path, data in files.items()
            if path.startswith("cases/")
        )
    except (KeyError, msgspec.DecodeError, RecursionError) as error:
        return [f"the records cannot be read: {error}"]
    given = gate_input(pins, runs, policy, verdict.created_at_ns)
    decision = decide(given)
    again = verdict_digest(pins, given, decision)
    found = []
    if (decision.status, decision.exit_code) != (verdict.status, verdict.exit_code):
        found.append(f"the records come to {decision.status}, the verdict says {verdict.status}")
    if again != verdict.digest:
        found.append(f"the records come to digest {again}, the verdict says {verdict.digest}")
    return found


def _manifest(files: Mapping[str, bytes]) -> Manifest:
    entries = tuple(
        FileEntry(path=path, size=len(files[path]), sha256=sha256(files[path]))
        for path in sorted(files)
    )
    return Manifest(format="agenttwin-evidence/1", root=_root(entries), files=entries)


def _root(entries: tuple[FileEntry, ...]) -> str:
    return sha256(b"agenttwin-evidence/1\n" + canonical(msgspec.to_builtins(list(entries))))


def _safe(name: str) -> str:
    return "/".join(
        quote(part, safe=" ") for part in name.split("/") if part not in ("", ".", "..")
    )


def _json(value: Any) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=1) + b"\n"
