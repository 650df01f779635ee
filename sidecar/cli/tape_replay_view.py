"""A replay of a tape, as ``sidecar tape replay`` tells it (docs/specs/replay-tape.md)."""

from collections.abc import Container
from pathlib import Path
from typing import Any, Final

from sidecar.capture.comparable import fingerprints
from sidecar.capture.match import slower
from sidecar.cli.tape_diff_view import Side, diff_told
from sidecar.cli.tape_effect import effect_line
from sidecar.outcome import Exits
from sidecar.plain import plain
from sidecar.replay.diff import compare
from sidecar.replay.diff.model import Diff
from sidecar.tape.files import known_codecs
from sidecar.tape.model import Event
from sidecar.tape.tape import Tape

_CHANGES_MAX: Final = 200


def diffed(recorded: Tape, new: Tape) -> Diff:
    """What a new tape differs in from the one it was played from."""
    return compare(recorded, new, known_codecs(recorded))


def compared(
    path: Path,
    recorded: Tape,
    new: Tape,
    found: Diff,
    to: Path | None,
    live: Container[str | None] = (),
) -> dict[str, Any]:
    """The new tape's digests, and what it differs in, in JSON; ``live``: seams that were."""
    sides = Side(str(path), recorded), Side(str(to or "replayed"), new)
    told = diff_told(found, sides, _CHANGES_MAX, Exits())
    told = {key: item for key, item in told.items() if key not in ("profile", "exit_code")}
    computed = new.examination.computed
    pairs = [
        (recorded.events[row.seq_l], new.events[row.seq_r])
        for one in found.agents
        for row in one.rows
        if row.seq_l is not None and row.seq_r is not None
    ]
    return {
        "fingerprint": list(fingerprints(recorded.header, new.header)),
        "latency": [
            other.seq for one, other in pairs if other.seam in live and slower(one, _took(other))
        ],
        "events": len(new.events),
        "exact_digest": computed.exact_digest,
        "behavior_digest": computed.behavior_digest,
        "diff": told,
    }


def _took(event: Event) -> int:
    return event.t.get("end", 0) - event.t.get("start", 0)


def lines_of(value: dict[str, Any], fault: str | None, *, begun: bool) -> list[str]:
    """How it went, in a line or two. ``begun``: an agent had taken the tape."""
    tape, drift = plain(value["tape"]), value.get("drift")
    if fault is not None:
        return [f"error: {plain(fault)}"]
    if value["outcome"] == "timeout":
        return ["error: the agent was ended at its deadline (--timeout)"]
    if value["target_signal"] is not None:
        return [f"error: {value['target_signal']} ended the agent"]
    if value["outcome"] == "target_crash":
        return [f"{tape}: the agent failed by itself (exit {value['target_exit']})"]
    if value["outcome"] == "shown":
        return [f"{tape}: {_parted(value)}", *_further(value)]
    if drift is not None:
        where = f"seq {drift['seq']}"
        event = f"{drift['event_kind'] or ''} {plain(drift['name'] or '')}".strip()
        what = f" ({event})" if event else ""
        said = f"{tape}: {drift['kind']} at {where}{what}: {plain(drift['reason'])}"
        return [said, *_asked(value, drift)]
    if value["outcome"] == "ok":
        how = "as recorded" if value["mode"] == "strict" else f"as its mode says ({value['mode']})"
        failed = f"; the agent failed as it did then (exit {value['target_exit']})"
        return [f"{tape}: {how}, {value['events']} events{failed if value['target_exit'] else ''}"]
    if begun:
        return [
            f"error: the agent ended (exit {value['target_exit']}) without its exit handlers, as "
            "by os._exit: what it did until then is no verdict"
        ]
    return [
        "error: nothing was replayed: no Python process ran a file of the agent's own. "
        "Name their folder with --root; python -E and -I cannot be seen."
    ]


def _asked(value: dict[str, Any], drift: dict[str, Any]) -> list[str]:
    """Where in the agent it was asked, and how to see what."""
    lines = []
    if drift.get("asked_from"):
        lines.append(f"  asked from {plain(drift['asked_from'])}")
    if any(one["places"] for one in drift["candidates"]):
        new = value.get("to")
        see = f"sidecar tape diff {plain(value['tape'])} {plain(new or 'NEW')}"
        lines.append(f"  to see what it asked: {'' if new else '--to NEW, then '}{see}")
    return lines


def shown(value: dict[str, Any]) -> list[str]:
    """Beside it: where the new run differs, and what was not from the tape."""
    lines = []
    if value["taint"]:
        lines.append(f"tainted: {', '.join(value['taint'])}; nothing may be concluded from it")
    done = value.get("done") or {}
    for key, said in (
        ("live", "live"),
        ("beyond", "beyond the tape"),
        ("repeated", "answered again"),
        ("stubbed", "asked for and not carried out"),
    ):
        counts = done.get(key) or {}
        if counts:
            told = ", ".join(f"{plain(name)} {count}" for name, count in sorted(counts.items()))
            lines.append(f"{said}: {told}")
    diff = value.get("diff")
    first = diff["first_divergence"] if diff else None
    if first is not None:
        seqs = " and ".join(
            "-" if seq is None else str(seq) for seq in (first["seq_l"], first["seq_r"])
        )
        kinds = ", ".join(first["drift"])
        lines.append(f"first divergence: {first['kind']} ({kinds}) at seq {seqs}")
    if "effect" in value:
        lines.append(effect_line(value["effect"]))
    if value.get("fingerprint"):
        lines.append(f"FINGERPRINT: another {', '.join(value['fingerprint'])} than recorded")
    if value.get("latency"):
        lines.append(f"LATENCY: {len(value['latency'])} events took twice as long as recorded")
    if diff and diff["noise"]:
        lines.append(f"noise: {diff['noise']} events differ only in what does not count")
    return lines


def _parted(value: dict[str, Any]) -> str:
    done = value.get("done") or {}
    first = f"the first change is at seq {done.get('parted')}"
    if (value.get("diff") or {}).get("outcome") == "identical":
        return f"{first}, and changes nothing: as recorded, {value['events']} events"
    if done.get("stopped"):
        return f"{first}; it ends where {plain(done['stopped'])}"
    return f"{first}; {value['events']} events instead of {value['recorded_events']}"


def _further(value: dict[str, Any]) -> list[str]:
    """Where a changed run ended because the tape knows no more, and how it goes on."""
    drift = value.get("drift")
    if drift is None or not (value.get("done") or {}).get("stopped"):
        return []
    lines = [f"  asked from {plain(drift['asked_from'])}"] if drift.get("asked_from") else []
    if drift["event_kind"] == "llm_call":
        lines.append("  to go on from there with the real model: --live provider --controls 0")
    return lines
