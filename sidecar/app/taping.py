"""What the stores keep of agents' runs, handed over to be written as tapes."""

import hashlib
import hmac
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from processors.model.call import ReceiptFact
from processors.model.names import Capture
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.redact.terms import Terms
from sidecar import clock
from sidecar.app import opening
from sidecar.app.sealing import keyring, master_key, redaction_keys
from sidecar.config import Loaded
from sidecar.errors import SidecarError, StoreUnavailable
from sidecar.replay.import_otlp import taped
from sidecar.replay.import_tape import Imported, MaskingRedactor, NoRedactor
from sidecar.replay.import_traffic import Alias, traffic
from sidecar.replay.query import StoreQuery
from sidecar.replay.traffic import Asked, Kept, Made, put_together, said
from sidecar.store.backend import LedgerReader, TracesStore
from sidecar.store.glass import PEOPLE
from sidecar.store.ledger import Fact, TrafficQuery
from sidecar.tape.value import decoded, encoded

_CAPTURES: tuple[Capture, ...] = ("off", "redacted", "full")
NO_TRACE = "no_trace"
_RECEIPTS_MAX = 100_000
"""Of one run: what comes behind them is a gap of its tape."""


class Runs(Struct):
    """Runs of one project as tapes. ``left_out``: calls that belong to no run, by reason."""

    redactor: MaskingRedactor | NoRedactor
    found: Iterator[Imported]
    left_out: Counter[str]


@contextmanager
def stored_runs(loaded: Loaded, query: StoreQuery, capture: Capture) -> Iterator[Runs]:
    """The runs that a query names, as tapes under a capture (``capture_of``).

    Raises SidecarError.
    """
    assert query.project is not None
    left_out: Counter[str] = Counter()
    with (
        opening.open_traces(loaded) as traces,
        opening.open_ledger(loaded) as ledger,
        ledger.snapshot(),
    ):
        reading = _Reading(traces, ledger, query, left_out)
        alias = _alias(loaded, query.project)
        yield Runs(
            redactor=_redactor(loaded, query.project, capture),
            found=(_taped(one, capture, alias) for one in reading.runs()),
            left_out=left_out,
        )


def stored_traces(loaded: Loaded, query: StoreQuery) -> list[AgentTrace]:
    """The published traces that a query names, the oldest first. What no span tells of a gateway
    call, its arguments and the answer still kept, is the gateway's word, redacted as the project
    has it.

    Raises SidecarError.
    """
    assert query.project is not None
    capture = loaded.config.project(query.project).content.capture
    with opening.open_traces(loaded) as traces:
        ids = [query.trace] if query.trace is not None else _listed(traces, query)
        found = [traces.get_trace(name, query.project) for name in ids]
        known = [trace for trace in reversed(found) if trace is not None]
        if capture == "off" or not any(map(_lacks_a_result, known)):
            return known
        redactor = _redactor(loaded, query.project, capture)
        try:
            with opening.open_ledger(loaded) as ledger, ledger.snapshot():
                reading = _Reading(traces, ledger, query, Counter())
                return [reading.filled(trace, redactor) for trace in known]
        except StoreUnavailable:  # there was no gateway, so there is nothing to add
            return known


def _listed(traces: TracesStore, query: StoreQuery) -> list[str]:
    return [one.trace_id for one in traces.list_traces(query)]


def _lacks_a_result(trace: AgentTrace) -> bool:
    """Whether the gateway may know more of a call than the trace says."""
    return any(
        step.tool is not None and (step.tool.result is None or step.tool.arguments is None)
        for step in trace.steps
    )


def _taped(one: Kept, capture: Capture, alias: Alias) -> Imported:
    if not one.facts and one.trace is not None:
        return taped(one.trace, capture)
    return traffic(one, capture, alias)


class _Reading:
    """Both stores, read for one query. Every read names the project."""

    def __init__(
        self, traces: TracesStore, ledger: LedgerReader, query: StoreQuery, left_out: Counter[str]
    ) -> None:
        assert query.project is not None
        self._traces, self._ledger, self._query = traces, ledger, query
        self._project: str = query.project
        self._left_out = left_out

    def runs(self) -> Iterator[Kept]:
        """What is kept of each run, the newest first; those without telemetry behind them."""
        query = self._query
        if query.trace is not None:
            yield self._named(query.trace.lower())
            return
        seen: set[str] = set()
        for summary in self._traces.list_traces(query):
            trace = self._traces.get_trace(summary.trace_id, self._project)
            if trace is not None:
                seen.update((trace.trace_id, *trace.trace_ids))
                yield self._of_trace(trace)
        if query.service is None and query.outcome is None:
            yield from self._untold(seen)
            yield from self._loose()

    def filled(self, trace: AgentTrace, redactor: MaskingRedactor | NoRedactor) -> AgentTrace:
        """The trace with what the gateway keeps of its calls, as ``redactor`` leaves it."""
        _, made = put_together(self._of_trace(trace))
        known: dict[str, Made] = {}
        for name, one in made.items():  # of several calls in a span the last that was answered
            if one.answer is not None or name not in known:
                known[name.partition("#")[0]] = one

        def kept(value: Any) -> Any:
            return decoded(redactor.value(encoded(value)))

        def whole(step: Step) -> Step:
            one = known.get(step.step_id)
            if one is None or step.tool is None:
                return step
            tool = step.tool
            if tool.arguments is None and one.arguments is not None:
                tool = replace(tool, arguments=kept(one.arguments))
            if tool.result is None and one.answer is not None:
                tool = replace(tool, result=kept(said(one.answer)))
            return replace(step, tool=tool)

        return replace(trace, steps=tuple(whole(step) for step in trace.steps))

    def _named(self, trace_id: str) -> Kept:
        trace = self._traces.get_trace(trace_id, self._project)
        found = self._kept(trace_id) if trace is None else self._of_trace(trace)
        if trace is None and not found.facts:
            raise SidecarError(
                "there is no such trace in this project",
                where=trace_id,
                do="List the ids with: sidecar trace list",
            )
        return found

    def _of_trace(self, trace: AgentTrace) -> Kept:
        ids = dict.fromkeys((trace.trace_id, *trace.trace_ids))
        parts = [self._kept(each) for each in ids]
        return Kept(
            project=self._project,
            session=trace.trace_id,
            trace=trace,
            facts=tuple(fact for part in parts for fact in part.facts),
            answers=tuple(answer for part in parts for answer in part.answers),
            asked=tuple(asked for part in parts for asked in part.asked),
            cut=any(part.cut for part in parts),
        )

    def _untold(self, seen: set[str]) -> Iterator[Kept]:
        """Traces of which no telemetry has been published: not yet, or never."""
        query = self._query
        until_ns = clock.now_ns() if query.until_ns is None else query.until_ns
        since_ns, project = query.since_ns or 0, self._project
        for trace_id in self._ledger.trace_ids_of(project, since_ns, until_ns, query.limit):
            if trace_id not in seen and self._traces.get_trace(trace_id, project) is None:
                yield self._kept(trace_id)

    def _loose(self) -> Iterator[Kept]:
        """Calls without a trace, episode by episode; the others are counted."""
        query = self._query
        wanted = TrafficQuery(
            project=self._project, since_ns=query.since_ns, until_ns=query.until_ns
        )
        episodes: defaultdict[str, list[ReceiptFact]] = defaultdict(list)
        outside: set[str] = set()
        for fact in self._all(wanted):
            if fact.receipt.episode:
                told = ReceiptFact(receipt=fact.receipt, arguments=fact.arguments)
                episodes[fact.receipt.episode].append(told)
            else:
                outside.add(fact.receipt.call_id)
        if outside:
            self._left_out[NO_TRACE] += len(outside)
        for episode in sorted(episodes):
            yield self._with_asked(
                Kept(project=self._project, session=episode, facts=tuple(episodes[episode]))
            )

    def _all(self, query: TrafficQuery) -> Iterator[Fact]:
        while found := self._ledger.facts_of(query):
            yield from found
            query = replace(query, after=found[-1].seq)

    def _kept(self, trace_id: str) -> Kept:
        wanted = TrafficQuery(project=self._project, trace_id=trace_id, limit=_RECEIPTS_MAX + 1)
        found = self._ledger.facts_of(wanted)
        facts = (ReceiptFact(receipt=one.receipt, arguments=one.arguments) for one in found)
        kept = Kept(
            project=self._project,
            session=trace_id,
            facts=tuple(facts)[:_RECEIPTS_MAX],
            cut=len(found) > _RECEIPTS_MAX,
        )
        if not kept.facts:
            return kept
        answers = tuple(self._ledger.answers_of(self._project, trace_id))
        return self._with_asked(replace(kept, answers=answers))

    def _with_asked(self, kept: Kept) -> Kept:
        ids = dict.fromkeys(
            fact.receipt.approval_id for fact in kept.facts if fact.receipt.approval_id is not None
        )
        asked = tuple(one for each in ids if (one := self._asked(each)) is not None)
        return replace(kept, asked=asked)

    def _asked(self, approval_id: str) -> Asked | None:
        found = self._ledger.find_approval(approval_id, self._project)
        if found is None:
            return None
        if found.glass_id:
            glass = self._ledger.find_glass(found.glass_id, self._project)
            votes = glass.as_votes() if glass is not None else ()
            return Asked(approval=found, votes=votes, needed=PEOPLE)
        return Asked(approval=found, votes=found.votes, needed=found.approvers_min)


def capture_of(loaded: Loaded, project: str, asked: Capture | None) -> Capture:
    """What of content a project's tapes hold; ``asked`` may be less. Raises SidecarError."""
    kept = loaded.config.project(project).content.capture
    if asked is None:
        return kept
    if _CAPTURES.index(asked) > _CAPTURES.index(kept):
        raise SidecarError(
            f"project {project} keeps content as {kept!r}, so a tape cannot hold more",
            where=f"--capture {asked}",
            do="Leave it out, or set projects[].content.capture for what comes.",
        )
    return asked


def _redactor(loaded: Loaded, project: str, capture: Capture) -> MaskingRedactor | NoRedactor:
    if capture == "full":
        return NoRedactor()
    return MaskingRedactor(replace(terms_of(loaded, project), capture="redacted"))


def terms_of(loaded: Loaded, project: str) -> Terms:
    """The project's terms of redaction, with its key where digests are made.

    Raises SidecarError.
    """
    terms = loaded.config.project(project).content.terms
    if not terms.keyed:
        return terms
    with opening.open_keys(loaded, make=False) as keys:
        ring = keyring(keys, master_key(loaded))
        return replace(terms, key=redaction_keys(keys, ring).current(project, clock.now_ns()))


def _alias(loaded: Loaded, project: str) -> Alias:
    """People by a digest under the seal key, which is read when the first is met."""

    @cache
    def key() -> bytes:
        return hashlib.blake2b(b"tape/1\n" + project.encode(), key=master_key(loaded)).digest()

    def of(principal: str) -> str:
        return f"tok:approver:{hmac.new(key(), principal.encode(), 'sha256').hexdigest()[:12]}"

    return of
