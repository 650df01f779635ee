"""A verdict as in-toto statements (Statement v1): for anybody's tools, and for ours.

**Rules**
1. The subject is the bundle's root, and the commit it was made from where there is one: whoever
   holds the signature holds every byte of the bundle.
2. ``test-result/v0.1`` is for generic consumers; no verdict is FAILED there, never PASSED.
3. ``agent-gate/v1`` is the whole decision. What is said in a statement is in the bundle too, and
   is compared with it.
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from processors.model.verdict import Verdict
from sidecar.replay.run import Pins

STATEMENT: Final = "https://in-toto.io/Statement/v1"
TEST_RESULT: Final = "https://in-toto.io/attestation/test-result/v0.1"
AGENT_GATE: Final = "https://agenttwin.dev/attestation/agent-gate/v1"
NOT_IN_DIGEST: Final = ("episode", "duration_ms", "started_at_ns", "too_slow", "latency_ms")
"""What differs between two runs of equal behaviour, and so is in no decision digest."""
_RESULTS: Final = {"PASS": "PASSED", "WARN": "WARNED", "BLOCK": "FAILED", None: "FAILED"}
_GREEN: Final = frozenset({"unchanged", "improved"})


class Made(Struct, frozen=True, kw_only=True):
    """What a bundle was made with: the tools' side-effect classes, and where it ran."""

    tools: dict[str, str]
    commit: str = ""
    environment: dict[str, Any] = {}


def statements(pins: Pins, verdict: Verdict, root: str, made: Made) -> tuple[bytes, ...]:
    """The payloads to be signed, in their order."""
    subject: list[dict[str, Any]] = [{"name": "bundle", "digest": _named(root)}]
    if made.commit:
        subject.append({"name": "source", "digest": {"gitCommit": made.commit}})
    found = (
        (TEST_RESULT, _test_result(pins, verdict)),
        (AGENT_GATE, _agent_gate(pins, verdict, made)),
    )
    return tuple(
        msgspec.json.encode(
            {"_type": STATEMENT, "subject": subject, "predicateType": kind, "predicate": value}
        )
        for kind, value in found
    )


def _test_result(pins: Pins, verdict: Verdict) -> dict[str, Any]:
    passed: list[str] = []
    warned: list[str] = []
    failed: list[str] = []
    for case in verdict.evidence.get("cases", []):
        green = case["class"] in _GREEN and case["candidate"] == "passed"
        into = passed if green else warned if case["class"] == "quarantined" else failed
        into.append(case["case"])
    return {
        "result": _RESULTS[verdict.status],
        "configuration": [
            {"name": "suite", "digest": _named(pins.suite_digest)},
            {"name": "gate-policy", "digest": _named(verdict.evidence["gate_policy"])},
            {"name": "policy", "digest": _named(pins.policy_revision)},
            *({"name": f"twin:{name}", "digest": _named(one)} for name, one in pins.twins.items()),
        ],
        "passedTests": passed,
        "warnedTests": warned,
        "failedTests": failed,
    }


def _agent_gate(pins: Pins, verdict: Verdict, made: Made) -> dict[str, Any]:
    return {
        "verdict": verdict.verdict_id,
        "project": verdict.project,
        "suite": {"name": pins.suite, "version": pins.suite_version, "digest": pins.suite_digest},
        "baseline": verdict.baseline,
        "candidate": verdict.candidate,
        "status": verdict.status,
        "exitCode": verdict.exit_code,
        "decisionDigest": verdict.digest,
        "notInDigest": NOT_IN_DIGEST,
        "counts": verdict.counts,
        "rules": msgspec.to_builtins(verdict.findings),
        "statistics": verdict.evidence.get("measures", []),
        "deterministic": pins.deterministic,
        "seeds": pins.seeds,
        "tools": made.tools,
        "createdAtNs": verdict.created_at_ns,
        "program": pins.program_version,
    }


def _named(digest: str) -> dict[str, str]:
    kind, _, value = digest.partition(":")
    return {kind: value} if value else {"agenttwin": digest}


def said(statement: Mapping[str, Any]) -> str:
    """The predicate type; empty of what is no statement."""
    return str(statement.get("predicateType", "")) if statement.get("_type") == STATEMENT else ""
