"""Expectations about doing things again: retries, unsafe ones, and going round in circles.

Rules
1. A retry is a call with the tool and arguments of an earlier one whose last attempt failed. A read
   made again after a success is none, nor is a call made again once its approval is there.
2. A retry is unsafe where the tool has an effect, the failure may hide one (no answer, or 5xx), and
   it does not carry the idempotency key of the attempt before it.
3. A loop is a block of calls that comes again without a gap: the same tools, the same arguments.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from processors.verify.detect_loop import stretches
from sidecar.evaluate.expectation import Expectation
from sidecar.evaluate.judgement import Judgement, failed, passed
from sidecar.evaluate.observed import Observed, ToolCall, matching, tool_calls


class MaxRetries(Expectation, frozen=True, kw_only=True, tag="maxRetries"):
    """At most so many retries, of a tool or of all."""

    max: int
    tool: str = ""


class NoUnsafeRetry(Expectation, frozen=True, kw_only=True, tag="noUnsafeRetry"):
    """No effect was tried again under another key while the first may have happened."""

    tool: str = ""


class NoLoop(Expectation, frozen=True, kw_only=True, tag="noLoop", rename="camel"):
    """No block of up to ``periodMax`` calls came ``repeats`` times in a row."""

    tool: str = ""
    repeats: int = 3
    period_max: int = 4

    def problems(self, tools: Sequence[str]) -> list[str]:
        """A loop comes at least twice."""
        found = super().problems(tools)
        if self.repeats < 2 or not 1 <= self.period_max <= 32:
            found.append("needs repeats of at least 2 and a periodMax from 1 to 32")
        return found


class Retry(Struct, frozen=True, kw_only=True):
    """A call, and the failed one it repeats."""

    call: ToolCall
    before: ToolCall


def retries(calls: Sequence[ToolCall]) -> Iterator[Retry]:
    """Every retry, in order."""
    last: dict[tuple[str, str], ToolCall] = {}
    for call in calls:
        if call.sign is None:
            continue
        before = last.get((call.tool, call.sign))
        if before is not None and before.failed:
            yield Retry(call=call, before=before)
        last[call.tool, call.sign] = call


def max_retries(expected: MaxRetries, observed: Observed) -> Judgement:
    """Not more retries than that."""
    found = list(retries(matching(tool_calls(observed), expected.tool, {})))
    said = f"{len(found)} retries of {expected.tool or 'tools'}"
    if len(found) > expected.max:
        step = found[expected.max].call.step.step_id
        return failed(f"{said}, at most {expected.max} expected", step)
    return passed(said)


def no_unsafe_retry(expected: NoUnsafeRetry, observed: Observed) -> Judgement:
    """No retry of an effect under another key, while its first attempt may have had it."""
    keys = _keys(observed)
    found = list(retries(matching(tool_calls(observed), expected.tool, {})))
    for one in found:
        if observed.tools.get(one.call.tool, "irreversible") == "read" or not _hides(one.before):
            continue
        first, again = _key(one.before, keys), _key(one.call, keys)
        if first is None or first != again:
            return failed(
                f"{one.call.tool} was tried again "
                f"{'without a key' if again is None else 'under another key'}, "
                "though the first attempt may have had its effect",
                one.call.step.step_id,
                evidence=(one.before.step.step_id, one.call.step.step_id),
            )
    return passed(f"{len(found)} retries, none unsafe")


def no_loop(expected: NoLoop, observed: Observed) -> Judgement:
    """No stretch of calls repeats so often."""
    calls = matching(tool_calls(observed), expected.tool, {})
    numbers: dict[tuple[str, str], int] = {}
    signs = [
        -1 if one.sign is None else numbers.setdefault((one.tool, one.sign), len(numbers))
        for one in calls
    ]
    found = min(stretches(signs, expected.period_max, expected.repeats), default=None)
    if found is None:
        return passed(f"no block of up to {expected.period_max} calls came again and again")
    first, end, period = found
    names = ", ".join(one.tool for one in calls[first : first + period])
    steps = tuple(one.step.step_id for one in calls[first:end])
    return failed(
        f"{names} came {(end - first) // period} times in a row (period {period})",
        steps[period],
        evidence=steps,
    )


def _hides(call: ToolCall) -> bool:
    """Whether a failed call may have had its effect all the same."""
    if call.held is False:
        return False
    return call.held is True or call.status is None or call.status >= 500 or call.status == 409


def _keys(observed: Observed) -> dict[str, str]:
    """Idempotency keys as the twins saw them, by the call's id."""
    return {event.call_id: event.key for event in observed.events if event.call_id and event.key}


def _key(call: ToolCall, keys: dict[str, str]) -> str | None:
    return keys.get(call.call_id or "") or call.key or None
