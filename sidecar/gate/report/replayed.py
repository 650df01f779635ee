"""A replay of a tape as a report: one case, and where the run left its tape or went another way."""

from collections.abc import Mapping
from typing import Any, Final

from sidecar.gate.report.compared import partings
from sidecar.gate.report.model import Case, Outcome, Parting, Report, Status, report
from sidecar.gate.report.signature import signature
from sidecar.gate.report.trail import event_at, run_of, steps_at
from sidecar.outcome import Profile
from sidecar.replay.diff.model import Diff
from sidecar.tape.tape import Tape

_STATUS: Final[Mapping[str, Status]] = {
    "ok": "pass",
    "shown": "pass",
    "diverged": "fail",
    "miss": "fail",
    "target_crash": "fail",
}
_SAID: Final[Mapping[str, str]] = {
    "ok": "as recorded",
    "shown": "the changed run was shown",
    "target_crash": "the agent failed by itself",
    "timeout": "the agent was ended at its deadline",
}


def replayed_report(
    value: Mapping[str, Any],
    recorded: Tape,
    *,
    new: Tape | None = None,
    found: Diff | None = None,
) -> Report:
    """The report of what ``tape replay`` tells in JSON; ``found`` compares the tape with a new one.

    A run that was to be another (mode counterfactual and the like) is no failure for being so.
    """
    drift = value.get("drift")
    outcome: Outcome = value["outcome"]
    profile: Profile = value["profile"]
    runs = [run_of(str(value["tape"]), recorded, "recorded")]
    if new is not None:
        runs.append(run_of(str(value.get("to") or "replayed"), new, "replayed"))
    parting: Parting | None = None
    if found is not None and new is not None:
        parting = partings(found, recorded, new)
    return report(
        command="tape replay",
        title=f"{value['tape']}: {_said(value)}",
        outcome=outcome,
        profile=profile,
        exit_code=value["exit_code"],
        runs=tuple(runs),
        cases=(_case(value, drift, recorded),),
        first_divergence=parting,
        notes=tuple(f"tainted: {one}" for one in value["taint"]),
        facts={
            name: str(value[name])
            for name in ("mode", "events", "recorded_events", "exact_digest")
            if value.get(name) is not None
        },
    )


def _case(value: Mapping[str, Any], drift: Mapping[str, Any] | None, recorded: Tape) -> Case:
    status = _STATUS.get(value["outcome"], "error")
    seq = int(drift["seq"]) if drift is not None and status == "fail" else None
    event = event_at(recorded, seq)
    kinds = () if drift is None or status == "pass" else (str(drift["kind"]),)
    rule = f"replay/{kinds[0].lower()}" if kinds else f"replay/{value['outcome']}"
    candidates = [] if drift is None else drift.get("candidates", [])
    return Case(
        id=str(value["mode"]),
        group=str(value["tape"]),
        rule=rule,
        status=status,
        detail=_said(value, place=False) + (_nearest(candidates) if seq is not None else ""),
        code="" if status in ("pass", "fail") else str(value["outcome"]),
        run=0,
        agent="" if drift is None else str(drift.get("agent") or ""),
        seq=seq,
        drift=kinds if status == "fail" else (),
        signature=""
        if status == "pass"
        else signature(
            rule,
            agent="" if drift is None else str(drift.get("agent") or ""),
            event=event,
            drift=kinds,
            pointers=[
                place for one in candidates if one["why"] == "here" for place in one["places"] or ()
            ],
        ),
        steps=steps_at(recorded, seq),
    )


def _said(value: Mapping[str, Any], *, place: bool = True) -> str:
    drift = value.get("drift")
    if drift is not None and value["outcome"] != "shown":
        event = f"{drift['event_kind'] or ''} {drift['name'] or ''}".strip()
        what = f" ({event})" if event else ""
        if drift["kind"] == "INCOMPARABLE":
            return f"{drift['kind']}: {drift['reason']}"
        if not place:  # the case says kind and seq itself
            return f"{event or 'the run'}: {drift['reason']}"
        return f"{drift['kind']} at seq {drift['seq']}{what}: {drift['reason']}"
    if value["target_signal"] is not None:
        return f"{value['target_signal']} ended the agent"
    return _SAID.get(value["outcome"], f"no verdict ({value['outcome']})")


def _nearest(candidates: list[Mapping[str, Any]]) -> str:
    said = []
    for one in candidates:
        places = one["places"]
        where = f", differs at {', '.join(place or '/' for place in places)}" if places else ""
        used = ", used already" if one["used"] else ""
        said.append(f"seq {one['seq']} {one['name']} ({one['why']}{used}{where})")
    return f"; nearest: {'; '.join(said)}" if said else ""
