"""A recorded run as replay, fidelity and drafting read it: its calls, what was said, how it ended.

Rules
1. A run says the same whether it is read from a tape or from the facts a tape would be made of.
2. What was not kept is not made up: a result is None, a duration or a status is None.
3. A call is ``unknown`` where nobody knows whether it had its effect, ``kept_out`` where it never
   reached the service.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

from msgspec import Struct

from sidecar.replay.import_tape import Imported
from sidecar.replay.import_tau import BENCHMARK, TASK
from sidecar.tape.compose import NOTHING
from sidecar.tape.moment import nanoseconds
from sidecar.tape.tape import MISSING, Tape
from sidecar.tape.value import decoded

Ended = Literal["ok", "refused", "unknown", "kept_out"]
_KEPT_OUT = ("denied", "deferred", "requested_only")


class TapedCall(Struct, frozen=True, kw_only=True):
    """One recorded tool call; ``result`` is what it answered, None where that was not kept.

    ``http_status``, ``error`` (a class such as ``http_409``) and ``took_ns`` where they were told.
    ``repeated``: a gateway gave the answer of an earlier call again, and the service saw nothing.
    """

    seq: int
    tool: str
    arguments: Any
    result: Any = None
    ended: Ended = "ok"
    http_status: int | None = None
    error: str = ""
    took_ns: int | None = None
    repeated: bool = False

    @property
    def reached(self) -> bool:
        """Whether the service saw the call."""
        return self.ended != "kept_out" and not self.repeated


class TapedRun(Struct, frozen=True, kw_only=True):
    """What a tape tells of a run. ``actions`` None: nobody said where the world should end.

    ``cut_off``: the run was stopped before it had come to an end. ``at_ns``: when it was recorded,
    0 where nobody knows.
    """

    name: str
    task: str
    calls: tuple[TapedCall, ...]
    said: tuple[str, ...]
    actions: tuple[tuple[str, dict[str, Any]], ...] | None
    outputs: tuple[str, ...]
    verified: str
    cut_off: bool = False
    at_ns: int = 0


class _Told(Struct, frozen=True, kw_only=True):
    """An event as both sources tell it; payloads are Python values, None where not kept."""

    seq: int
    kind: str
    agent: str
    name: str
    status: str
    given: Any
    answer: Any
    cause: tuple[int, ...]
    error: str
    start_ns: int | None
    end_ns: int | None
    attributes: Mapping[str, Any]


def taped_run(name: str, tape: Tape) -> TapedRun:
    """What a tape tells of its run."""
    events = (
        _Told(
            seq=event.seq,
            kind=event.kind,
            agent=event.agent,
            name=event.name,
            status=event.st,
            given=_payload(tape, event, "in"),
            answer=_payload(tape, event, "out"),
            cause=event.cause,
            error=event.err.type if event.err is not None else "",
            start_ns=event.t.get("start"),
            end_ns=event.t.get("end"),
            attributes=event.attr,
        )
        for event in tape.events
    )
    task = tape.header.labels.get("task", name)
    return _run(name, task, nanoseconds(tape.header.captured_at), events)


def run_of(imported: Imported, kept: Callable[[Any], Any] = lambda value: value) -> TapedRun:
    """The run of which a tape could be made; ``kept`` is what redaction leaves of a payload."""
    events = (
        _Told(
            seq=seq,
            kind=fact.kind,
            agent=fact.agent,
            name=fact.name,
            status=fact.status,
            given=None if fact.input is NOTHING else kept(fact.input),
            answer=None if fact.output is NOTHING else kept(fact.output),
            cause=fact.cause,
            error=fact.error[0] if fact.error is not None else "",
            start_ns=fact.start_ns,
            end_ns=fact.end_ns,
            attributes=fact.attributes,
        )
        for seq, fact in enumerate(imported.facts)
    )
    header = imported.header
    task = header.labels.get("task", imported.name)
    return _run(imported.name, task, nanoseconds(header.captured_at), events)


def _run(name: str, task: str, at_ns: int, events: Iterable[_Told]) -> TapedRun:
    told = list(events)
    results = {one.cause[0]: one for one in told if one.kind == "tool_result" and one.cause}
    calls, said, verified, wanted, cut_off = [], [], "unverified", None, False
    for event in told:
        if event.kind == "tool_call":
            calls.append(_call(event, results.get(event.seq)))
        elif event.kind == "llm_call":
            answer = event.answer
            text = answer.get("content") if isinstance(answer, dict) else answer
            said += [text] if isinstance(text, str) else []
        elif event.kind == "terminal":
            ending, cut_off = event.answer, event.status == "cancelled"
            verified = str(ending.get("verified")) if isinstance(ending, dict) else verified
        elif event.kind == "decision" and (event.agent, event.name) == (BENCHMARK, TASK):
            wanted = event.answer
    wanted = wanted if isinstance(wanted, dict) else None
    return TapedRun(
        name=name,
        task=task,
        calls=tuple(calls),
        said=tuple(said),
        actions=None if wanted is None else tuple(_action(one) for one in wanted["actions"]),
        outputs=() if wanted is None else tuple(wanted["outputs"]),
        verified=verified,
        cut_off=cut_off,
        at_ns=at_ns,
    )


def _call(event: _Told, result: _Told | None) -> TapedCall:
    status = _http_status(result)
    return TapedCall(
        seq=event.seq,
        tool=event.name,
        arguments=event.given,
        result=_result(result),
        ended=_ended(result, status),
        http_status=status,
        error="" if result is None else result.error,
        took_ns=_took_ns(event, result),
        repeated=result is not None and _phase(result) == "replayed",
    )


def _result(result: _Told | None) -> Any:
    if result is None:
        return None
    gateway = result.attributes.get("gateway")
    digest = gateway.get("response") if isinstance(gateway, Mapping) else None
    # Of an answer that was not kept a gateway tells the digest alone.
    only_a_digest = digest is not None and result.answer == {"digest": digest}
    return None if only_a_digest else result.answer


def _ended(result: _Told | None, status: int | None) -> Ended:
    if result is None or result.status == "cancelled" or result.error == "outcome_unknown":
        return "unknown"
    if result.status == "unset" and result.answer is None:
        return "unknown"  # a span says nothing of its status where all went well, or nothing at all
    if result.status in _KEPT_OUT:
        return "kept_out"
    if status is not None and status >= 500:
        return "unknown"
    if status is not None:
        return "refused" if status >= 400 else "ok"
    if _phase(result) == "executed":  # a gateway saw no answer of the service's
        return "unknown"
    return "refused" if result.status == "error" else "ok"


def _phase(result: _Told) -> str:
    """How far a call came, where a gateway tells."""
    gateway = result.attributes.get("gateway")
    return str(gateway.get("phase") or "") if isinstance(gateway, Mapping) else ""


def _http_status(result: _Told | None) -> int | None:
    """The service's own status, where a gateway or the error's class tells it."""
    if result is None:
        return None
    gateway = result.attributes.get("gateway")
    told = gateway.get("upstream_status") if isinstance(gateway, Mapping) else None
    if isinstance(told, int) and not isinstance(told, bool):
        return told
    head, _, number = result.error.rpartition("_")
    return int(number) if head == "http" and number.isdecimal() and len(number) == 3 else None


def _took_ns(event: _Told, result: _Told | None) -> int | None:
    if result is None or event.start_ns is None or result.end_ns is None:
        return None
    took_ns = result.end_ns - event.start_ns
    return took_ns if took_ns >= 0 else None


def _action(one: Any) -> tuple[str, dict[str, Any]]:
    return one["tool"], one["arguments"]


def _payload(tape: Tape, event: Any, side: str) -> Any:
    value = tape.payload(event, side)
    return None if value is MISSING else decoded(value)
