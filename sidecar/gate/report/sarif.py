"""A report as SARIF 2.1.0, within the limits of the places that show it.

**Rules**
1. One run; at most ``RESULTS_MAX`` results, failures first, and a notification that says how many
   were left out. Texts and steps are bounded too.
2. A result is a failure (``error``, or ``warning`` where it decides nothing). A skip or an error of
   a case is no result but a notification of the run; a passing case is neither.
3. The events around the first that offends are its code flow: one thread flow, never longer than
   ``STEPS_MAX``, cut evenly around that event.
4. A result's partial fingerprint is its failure's signature, so that one failure is one alert.
5. Nothing of a tape is a link, a placeholder or markup: only ``text`` is used, its brackets and
   braces escaped.
"""

import json
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import quote

from sidecar.gate.report.model import Case, Report, Run, Step
from sidecar.plain import plain, plain_json

SCHEMA_URI: Final = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)
RESULTS_MAX: Final = 5_000
STEPS_MAX: Final = 1_000
NOTIFICATIONS_MAX: Final = 1_000
RULES_MAX: Final = 1_000
TEXT_MAX: Final = 2_000
FINGERPRINT: Final = "agenttwinFailure/v1"
_BASE: Final = "SRCROOT"
_OTHER: Final = "other"


def render(report: Report, version: str = "") -> str:
    """The SARIF text; ``version`` is this program's, where it is to be told."""
    return plain_json(json.dumps(document(report, version), indent=2, ensure_ascii=False))


def document(report: Report, version: str = "") -> dict[str, Any]:
    """The same as JSON-like values."""
    failed = [case for case in report.cases if case.status == "fail"]
    failed.sort(key=lambda case: not case.counts)  # what decides comes first
    shown = failed[:RESULTS_MAX]
    rules = _rules(shown)
    driver = {
        "name": "agenttwin-sidecar",
        **({"semanticVersion": version} if version else {}),
        "rules": [_rule(name) for name in rules],
        "notifications": [{"id": name} for name in ("skip", "error", "left-out", "note")],
    }
    return {
        "$schema": SCHEMA_URI,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {"driver": driver},
                "automationDetails": {"id": f"sidecar/{report.command.replace(' ', '-')}/"},
                "originalUriBaseIds": {
                    _BASE: {"description": {"text": "where the command was run"}}
                },
                "artifacts": [_artifact(run) for run in report.runs],
                "invocations": [_invocation(report, len(failed) - len(shown))],
                "results": [_result(case, rules, report) for case in shown],
                "columnKind": "unicodeCodePoints",
                "properties": {
                    "outcome": report.outcome,
                    "profile": report.profile,
                    "schema": report.schema,
                    "resultsLeftOut": len(failed) - len(shown),
                },
            }
        ],
    }


def _result(case: Case, rules: dict[str, int], report: Report) -> dict[str, Any]:
    name = _rule_name(case, rules)
    weak = "" if case.counts else ("quarantined: " if case.quarantined else "warning: ")
    seq = f" (seq {case.seq})" if case.seq is not None else ""
    drift = f" [{', '.join(case.drift)}]" if case.drift else ""
    result: dict[str, Any] = {
        "ruleId": name,
        "ruleIndex": rules[name],
        "kind": "fail",
        "level": "error" if case.counts else "warning",
        "message": _message(f"{weak}{case.id}: {case.detail}{drift}{seq}"),
        "locations": [_location(case, report)],
        "properties": {"agent": plain(case.agent), "seq": case.seq, "group": plain(case.group)},
    }
    if case.signature:
        result["partialFingerprints"] = {FINGERPRINT: case.signature}
    if case.steps:
        result["codeFlows"] = [{"threadFlows": [_thread_flow(case, report)]}]
    return result


def _thread_flow(case: Case, report: Report) -> dict[str, Any]:
    steps = _around(case.steps, case.seq)
    return {
        "message": _message(f"{len(steps)} events around the first that offends"),
        "locations": [
            {
                "executionOrder": number,
                "importance": "essential" if step.seq == case.seq else "important",
                "location": {**_location(case, report, step.seq), "message": _message(step.text)},
            }
            for number, step in enumerate(steps, 1)
        ],
    }


def _around(steps: Sequence[Step], seq: int | None) -> Sequence[Step]:
    if len(steps) <= STEPS_MAX:
        return steps
    at = next((place for place, one in enumerate(steps) if one.seq == seq), 0)
    start = min(max(at - STEPS_MAX // 2, 0), len(steps) - STEPS_MAX)
    return steps[start : start + STEPS_MAX]


def _location(case: Case, report: Report, seq: int | None = None) -> dict[str, Any]:
    number = case.run if case.run is not None and case.run < len(report.runs) else None
    place = case.seq if seq is None else seq
    name = "/".join(
        part for part in (case.agent, f"seq {place}" if place is not None else "") if part
    )
    location: dict[str, Any] = {
        "logicalLocations": [{"fullyQualifiedName": plain(name or case.group or case.id)}]
    }
    if number is not None:
        location["physicalLocation"] = {
            "artifactLocation": {**_uri(report.runs[number].name), "index": number},
            "region": {"startLine": 1},
        }
    return location


def _invocation(report: Report, left_out: int) -> dict[str, Any]:
    told = [
        _notification(case.status, f"{case.id}: {case.detail} [{case.code}]")
        for case in report.cases
        if case.status in ("skip", "error")
    ]
    more = len(told) - NOTIFICATIONS_MAX
    told = told[:NOTIFICATIONS_MAX]
    if more > 0:
        told.append(_notification("left-out", f"{more} more skips and errors are left out"))
    if left_out:
        told.append(_notification("left-out", f"{left_out} more failures are left out"))
    told += [_notification("note", note) for note in report.notes[:NOTIFICATIONS_MAX]]
    return {
        "executionSuccessful": report.outcome not in _FAULTS,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": told,
    }


def _notification(kind: str, text: str) -> dict[str, Any]:
    level = {"error": "error", "left-out": "warning"}.get(kind, "note")
    return {"descriptor": {"id": kind}, "level": level, "message": _message(text)}


def _rules(cases: Sequence[Case]) -> dict[str, int]:
    names = sorted({_name(case) for case in cases})
    if len(names) > RULES_MAX:
        names = [*names[: RULES_MAX - 1], _OTHER]
    return {name: number for number, name in enumerate(names)}


def _rule_name(case: Case, rules: dict[str, int]) -> str:
    name = _name(case)
    return name if name in rules else _OTHER


def _name(case: Case) -> str:
    return plain(case.rule or "finding")[:255]


def _rule(name: str) -> dict[str, Any]:
    return {"id": name, "shortDescription": _message(name)}


def _artifact(run: Run) -> dict[str, Any]:
    digest = run.exact_digest.removeprefix("sha256:")
    known = {"exactDigest": plain(digest)} if digest else {}
    return {
        "location": _uri(run.name),
        "roles": ["analysisTarget"],
        "properties": {"role": plain(run.role), "state": plain(run.state), **known},
    }


def _uri(name: str) -> dict[str, Any]:
    """A path as a URI reference; a relative one is relative to where the command was run."""
    path = quote(name.encode("utf-8", "surrogateescape").replace(b"\\", b"/"), safe="/")
    if path.startswith("/"):
        return {"uri": f"file://{path}"}
    return {"uri": path or ".", "uriBaseId": _BASE}


def _message(text: str) -> dict[str, str]:
    said = plain(text)
    cut = said if len(said) <= TEXT_MAX else said[: TEXT_MAX - 1] + "…"
    for sign in "\\[]":  # section 3.11.6: these make a link
        cut = cut.replace(sign, f"\\{sign}")
    return {"text": cut.replace("{", "{{").replace("}", "}}") or "-"}


_FAULTS: Final = ("usage", "config", "timeout", "internal")
