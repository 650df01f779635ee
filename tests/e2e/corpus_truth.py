"""What the sidecar concludes of captured runs when the tools' real end state is its evidence.

    python tests/e2e/corpus_truth.py [--verbose] [CORPUS]

Each capture is decoded, built, judged and looked at by the detectors, as the pipeline does.
Evidence is made of ``meta.json`` alone (``ground_truth.outcome``: what the shop's own books say),
as a probe of those books would: one answer for each call that the trace shows, asked by the
call's own arguments. The table has a row for each library; a case that is left out is named with
what its bytes do not hold. Exit status 1 when a law does not hold.
"""

import argparse
import json
import re
import sys
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[2]))

from msgspec.structs import replace

from processors.model.evidence import Evidence
from processors.model.span import Batch
from processors.verify.detect import detect
from processors.verify.detect_settings import Order, Settings
from processors.verify.outcome import judge
from sidecar.otlp.decode import decode
from sidecar.pipeline.build import build

CORPUS = Path(__file__).parents[3] / "shared" / "corpora" / "otlp"
NOW = 2 * 10**18
SETTINGS = Settings(order=(Order(tool="issue_refund", after="check_refund_policy"),))
BOOKS = {"issue_refund": "refunds_issued", "send_email": "emails_sent"}
QUIET = ("baseline", "parallel", "stream")
SCENARIOS = ("false_success", "retry_dup", "injection", "wrong_order", "loop", *QUIET)
_NOT_MADE = ("requested_only", "denied", "deferred")


@dataclass(frozen=True, eq=False)
class Case:
    """One capture and its truth."""

    folder: Path
    meta: dict = field(repr=False)

    @property
    def name(self):
        return f"{self.library}/{self.folder.name}"

    @property
    def library(self):
        return self.folder.parent.name

    @property
    def scenario(self):
        return self.meta["scenario"]

    @property
    def truth(self):
        return self.meta["ground_truth"]

    @property
    def books(self):
        return self.truth["outcome"]

    @cached_property
    def text(self):
        """All that the bytes say, JSON inside strings unwrapped."""
        views = ["".join(path.read_text() for path in sorted(self.folder.glob("[0-9]*.json")))]
        for _ in range(3):
            views.append(views[-1].replace('\\"', '"').replace("\\\\", "\\"))
        plain = (
            re.sub(r"\\+u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), view)
            for view in views
        )
        return "\n".join(dict.fromkeys(plain))

    @cached_property
    def traces(self):
        """The traces that the product builds of the bytes."""
        return build(batch_of(self.folder), project="default", now_ns=NOW)


def cases(corpus=CORPUS, scenarios=SCENARIOS):
    """The captures of some scenarios, in order of name."""
    found = []
    for path in sorted(corpus.glob("*/*/meta.json")):
        meta = json.loads(path.read_text())
        if meta["scenario"] in scenarios:
            found.append(Case(path.parent, meta))
    return found


def batch_of(folder):
    """The telemetry of a capture; of a request in two notations the protobuf is read."""
    spans, logs = [], []
    for path in sorted(folder.glob("[0-9]*.*.*")):
        stem, signal, form = path.name.split(".")
        if form == "json" and (folder / f"{stem}.{signal}.binpb").exists():
            continue
        batch = decode(signal, "json" if form == "json" else "protobuf", path.read_bytes())
        spans += batch.spans
        logs += batch.logs
    return Batch(spans=tuple(spans), logs=tuple(logs))


# What the bytes hold, read without the product.


def leaves(value, key=""):
    if isinstance(value, dict):
        for name, item in value.items():
            yield from leaves(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from leaves(item)
    elif value is not None:
        yield key, value if isinstance(value, str) else json.dumps(value)


def holds(text, value):
    """Whether a text has a JSON object: each key right before its value, in JSON or in OTLP."""
    found = list(leaves(value))
    return bool(found) and all(_has(text, key, leaf) for key, leaf in found)


def _has(text, key, leaf):
    if leaf in ("true", "false") and leaf not in text:
        leaf = leaf.title()  # a Python literal
    if not key or leaf not in text:
        return leaf in text
    pattern = (
        rf'{re.escape(key)}["\']\s*[:,]\s*(?:"value":\s*)?(?:{{\s*"\w+Value":\s*)?["\']?'
        rf"(?i:{re.escape(leaf)})(?![\w.])"
    )
    # A pattern that begins with plain letters is found several times as fast as one with \b.
    return any(
        not (match.start() and re.match(r"\w", text[match.start() - 1]))
        for match in re.finditer(pattern, text)
    )


@cache
def missing(case):
    """What of the answer and the calls a case's bytes do not hold; none = all is there."""
    text, found = case.text, []
    needed = NEEDED[case.scenario]
    if case.meta.get("content_capture") == "off" and needed != {"names"}:
        found.append("content capture was off")
    answer = case.truth.get("final_answer")
    if "answer" in needed:
        if not isinstance(answer, str) or not answer:
            found.append("the run gave no answer")
        elif answer not in text:
            found.append("the answer is not in the bytes")
    calls = case.truth["tool_calls"]
    for what, absent in (
        ("name", "names" in needed and [c for c in calls if c["name"] not in text]),
        ("arguments", "calls" in needed and [c for c in calls if not holds(text, c["arguments"])]),
        (
            "result",
            "results" in needed
            and [
                c
                for c in calls
                if isinstance(c.get("result"), dict) and not holds(text, c["result"])
            ],
        ),
    ):
        if absent:
            names = ", ".join(dict.fromkeys(call["name"] for call in absent))
            found.append(f"no {what} of {len(absent)} calls in the bytes ({names})")
    if case.scenario == "retry_dup" and len(case.books["refunds_issued"]) < 2:
        found.append("only one refund happened")
    return found


NEEDED = {
    "false_success": {"answer", "calls"},
    "retry_dup": {"answer", "calls", "results"},
    "injection": {"answer", "calls", "results"},
    "wrong_order": {"names"},
    "loop": {"calls", "results"},
    **{name: {"answer", "calls"} for name in QUIET},
}


# The evidence: what the shop's books say, asked as a probe asks.


def same(left, right):
    """Equal as a shop's books would have it: numbers by value."""
    try:
        return float(left) == float(right)
    except (TypeError, ValueError):
        return left == right


def entries(step, books):
    """The entries of the books that a call's arguments name; None when they name none."""
    book = next((BOOKS[name] for name in BOOKS if called(step, name)), None)
    arguments = step.tool.arguments
    if book is None or not isinstance(arguments, dict) or not arguments:
        return None
    return [
        entry
        for entry in books[book]
        if all(name not in entry or same(entry[name], value) for name, value in arguments.items())
        and entry.keys() & arguments.keys()
    ]


def called(step, name):
    """Whether a step calls a tool, a plug-in's or server's name in front."""
    seen = step.tool.name or ""
    return seen == name or re.search(rf"[-./:]{re.escape(name)}$", seen) is not None


def evidence(trace, books):
    """Two answers for each call with an effect that was made: is it there, is it there once."""
    ended = max((step.end_ns for step in trace.steps), default=0)
    for step in trace.steps:
        if step.kind != "tool_call" or step.status in _NOT_MADE:
            continue
        subject = next((name for name in BOOKS if called(step, name)), None)
        if subject is None:
            continue
        found = entries(step, books)
        for name, held in (
            ("in_the_books", None if found is None else bool(found)),
            ("no_duplicate_effect", None if found is None else len(found) < 2),
        ):
            yield Evidence(
                evidence_id=f"probe:{name}:{step.step_id}",
                source="probe",
                name=name,
                held=held,
                subject=subject,
                step_id=step.step_id,
                observed_ns=ended + 1,
                detail="url_value_missing" if held is None else None,
            )


def own_books(case, trace):
    """Of a capture of several runs: what was written while this trace's run went on."""
    if case.truth.get("n_runs", 1) == 1:
        return case.books
    begun = min(step.start_ns for step in trace.steps)
    ended = max(step.end_ns for step in trace.steps)
    during = {
        str(call["result"].get("refund_id"))
        for call in case.truth["tool_calls"]
        if isinstance(call.get("result"), dict) and begun <= call["start_ns"] <= ended
    }
    books = {name: list(kept) for name, kept in case.books.items()}
    books["refunds_issued"] = [
        entry for entry in books["refunds_issued"] if entry["refund_id"] in during
    ]
    return books


# The verdicts.


@dataclass(frozen=True)
class Verdict:
    """What was concluded of all traces of a case."""

    outcomes: tuple[str, ...]
    contradictions: frozenset[str]
    detections: frozenset[str]
    severities: frozenset[str]


def verdict(case, books=None, settings=SETTINGS):
    """The verdict on a case with its own books, or with another's."""
    judged = []
    for trace in case.traces:
        known = own_books(case, trace) if books is None else books
        whole = replace(trace, evidence=(*trace.evidence, *evidence(trace, known)))
        # No gateway stood before these tools, so none is in its registry.
        judged.append(detect(judge(whole, tools={}, now_ns=NOW), tools={}, settings=settings))
    return Verdict(
        outcomes=tuple(trace.outcome.status for trace in judged),
        contradictions=frozenset(
            item.code for trace in judged for item in trace.outcome.contradictions
        ),
        detections=frozenset(item.code for trace in judged for item in trace.detections),
        severities=frozenset(item.severity for trace in judged for item in trace.detections),
    )


def wrong(case, found):
    """What is wrong with a verdict, in words; None when the law of its scenario holds."""
    said = f"{sorted(found.contradictions)}, {sorted(found.detections)}, {found.outcomes}"
    if case.scenario in QUIET:
        return f"raised {said}" if found.contradictions or found.detections else None
    wanted = {
        "false_success": "claimed_success_state_failed" in found.contradictions,
        "retry_dup": "duplicate_effect" in found.contradictions,
        "injection": "injected_instruction" in found.detections,
        "wrong_order": "out_of_order" in found.detections,
        "loop": "loop" in found.detections,
    }
    return None if wanted[case.scenario] else f"not flagged: {said}"


def table(found):
    """Rows by library: held / asked for each scenario, and the cases left out."""
    rows = defaultdict(Counter)
    for case, reasons, fault in found:
        key = "left" if reasons else "good" if fault is None else "bad"
        rows[case.library][case.scenario, key] += 1
    lines = ["  ".join([f"{'library':46}", *(f"{name:>13}" for name in SCENARIOS)])]
    for library, row in sorted(rows.items()):
        cells = []
        for name in SCENARIOS:
            good, bad, left = (row[name, key] for key in ("good", "bad", "left"))
            cell = f"{good}/{good + bad}" if good + bad else "-"
            cells.append(f"{cell + (f' (+{left})' if left else ''):>13}")
        lines.append("  ".join([f"{library:46}", *cells]))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?", default=CORPUS)
    parser.add_argument("--verbose", action="store_true", help="every case with its verdict")
    options = parser.parse_args()
    every = cases(options.corpus)
    if not every:
        sys.exit(f"no case under {options.corpus}")
    found, left = [], []
    for case in every:
        reasons = [] if case.scenario in QUIET else missing(case)
        known = verdict(case)
        fault = wrong(case, known)
        found.append((case, reasons, fault))
        if reasons:
            left.append((case, reasons, fault))
        if options.verbose:
            print(f"{case.name}: {fault or 'as it should'}; {known}")
    print("\n".join(table(found)))
    total = Counter()
    for case, reasons, fault in found:
        total[case.scenario, "left" if reasons else "good" if fault is None else "bad"] += 1
    print()
    for name in SCENARIOS:
        good, bad, out = (total[name, key] for key in ("good", "bad", "left"))
        print(f"{name:14} {good}/{good + bad} as they should, {out} left out")
    print("\n(+n): left out. Left out, and why:")
    for case, reasons, fault in left:
        print(f"  {case.name}: {'; '.join(reasons)}{'' if fault else ' (flagged all the same)'}")
    failed = [(case, fault) for case, reasons, fault in found if fault and not reasons]
    for case, fault in failed:
        print(f"WRONG {case.name}: {fault}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
