"""Which tool-call step of a trace each gateway call belongs to.

Rules
1. A step that bears one of the call's receipt ids already has it.
2. The span that was current when the agent called the gateway decides: it is the tool's span, or a
   span inside it (an HTTP client's). An agent's or a model's span only names where to look.
3. Else the same tool by name, among steps no call has: equal arguments before compatible before
   unknown ones; then a step that was running at the time; then one below the span of rule 2; then
   in order of start. Arguments that differ fit only a step that was running at the time.
4. A further call of the same action (a retry inside the tool, a token presented, a replay) goes to
   the step that has the first, when no other step is free for it. Of two that had an effect the
   second does so only while that step was running: else nobody reported it.
5. For each call at most ``_NEAR`` free steps around its time are weighed: the cost stays linear.

Source: docs/specs/outcome.md, "Receipts and steps".
"""

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from msgspec import Struct

from processors.model.step import Step
from processors.verify.calls import Call
from processors.verify.subjects import plain, spellings

_NEAR: Final = 12
_SLACK_NS: Final = 20_000_000
_HOPS_MAX: Final = 64
_sorted_json = json.JSONEncoder(sort_keys=True).encode
_quoted = json.encoder.encode_basestring_ascii
_WRITTEN: Final[dict[type, Callable[[Any], str]]] = {
    str: _quoted,
    int: int.__repr__,
    bool: lambda value: "true" if value else "false",
    type(None): lambda _: "null",
}


def argument_key(value: Any) -> str | None:
    """Text that is equal for equal arguments (1 equals 1.0, the order of members is nothing)."""
    if value is None:
        return None
    return _flat(value) or _sorted_json(_plain_numbers(value))


def _flat(value: Any) -> str | None:
    """The text of an object of plain members, which most arguments are: an encoder made for each
    costs more than the writing. None for anything else."""
    if type(value) is not dict:
        return None
    try:
        parts = [
            f"{_quoted(name)}: {_WRITTEN[type(item)](item)}" for name, item in sorted(value.items())
        ]
    except (KeyError, TypeError):  # nested, a float, a name that is no text
        return None
    return f"{{{', '.join(parts)}}}"


def _plain_numbers(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain_numbers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_numbers(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value if value is None or isinstance(value, str | int | float) else str(value)


class _Wanted(Struct, frozen=True):
    """A call that looks for a step: its arguments' key, and the step whose span called."""

    call: Call
    key: str | None
    scope: str | None


class Pairing:
    """The steps of one trace, indexed; ``pair`` finds each call's step."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = {step.step_id: step for step in steps}
        self._by_span: dict[tuple[str | None, str | None], str] = {}
        self._by_receipt: dict[str, str] = {}
        self._free: dict[str, list[tuple[int, int, Step]]] = defaultdict(list)
        self._argument_keys: dict[str, str | None] = {}
        self._of_action: dict[str, list[str]] = defaultdict(list)
        self._taken: set[str] = set()
        self._effective: set[str] = set()
        for number, step in enumerate(steps):
            self._index(number, step)
        for bucket in self._free.values():
            bucket.sort(key=lambda item: item[:2])

    def _index(self, number: int, step: Step) -> None:
        is_tool = step.kind == "tool_call" and step.tool is not None
        for source in step.sources:
            if source.kind in ("span", "log") and source.span_id is not None:
                place = (source.trace_id, source.span_id)
                if is_tool or place not in self._by_span:
                    self._by_span[place] = step.step_id
            if source.kind == "receipt" and source.ref is not None:
                self._by_receipt[source.ref] = step.step_id
        if step.receipt_id is not None:
            self._by_receipt[step.receipt_id] = step.step_id
        if is_tool and step.tool is not None:
            for spelling in spellings(step.tool.name or step.name):
                self._free[spelling].append((step.start_ns, number, step))
            self._argument_keys[step.step_id] = argument_key(step.tool.arguments)

    def pair(self, calls: Sequence[Call]) -> dict[str, str]:
        """Step id by receipt id of each call that has a step. ``calls`` in order of start."""
        found: dict[str, str] = {}
        later: list[Call] = []
        for call in calls:
            step_id = self._certain(call)
            if step_id is None:
                later.append(call)
            else:
                self._take(call, step_id, found)
        for call in later:
            step_id = self._likely(call)
            if step_id is not None:
                self._take(call, step_id, found)
        return found

    def place(self, call: Call) -> str | None:
        """The step that owns the span from which the gateway was called, or None."""
        return self._by_span.get((call.last.trace_id, call.last.span_id))

    def _take(self, call: Call, step_id: str, found: dict[str, str]) -> None:
        found[call.last.receipt_id] = step_id
        self._of_action[call.last.action_hash].append(step_id)
        self._taken.add(step_id)
        if call.has_effect:
            self._effective.add(step_id)

    def _certain(self, call: Call) -> str | None:
        for receipt_id in call.receipt_ids:
            if receipt_id in self._by_receipt:
                return self._by_receipt[receipt_id]
        step_id = self.place(call)
        for _ in range(_HOPS_MAX):
            step = self._steps.get(step_id or "")
            if step is None or step.kind in ("agent", "model_call"):
                return None
            if step.kind == "tool_call":
                return step.step_id
            step_id = step.parent_step_id
        return None

    def _likely(self, call: Call) -> str | None:
        wanted = _Wanted(call, argument_key(call.arguments), self.place(call))
        near = self._near(call)
        keys = self._argument_keys
        equal = [item for item in near if wanted.key and keys[item[2].step_id] == wanted.key]
        ranked = (
            (self._fit(wanted, step), -number, step.step_id) for _, number, step in equal or near
        )
        best = max(ranked, default=None)
        if best is not None and best[0][0] > 0:
            return best[2]
        for step_id in reversed(self._of_action.get(call.last.action_hash, [])):
            second = call.has_effect and step_id in self._effective
            if not second or self._running(call, self._steps[step_id]):
                return step_id
        return None

    def _near(self, call: Call) -> list[tuple[int, int, Step]]:
        """The free steps of the tool's name that are first, and those around the call's time."""
        names = dict.fromkeys((plain(call.last.tool), *spellings(call.last.tool)))
        near: dict[str, tuple[int, int, Step]] = {}
        for name in names:
            bucket = self._free.get(name)
            if not bucket:
                continue
            if len(bucket) > 1:
                bucket[:] = [item for item in bucket[:_NEAR] if self._is_free(item)] + bucket[
                    _NEAR:
                ]
            middle = bisect_left(bucket, (call.last.started_at_ns + 1, -1), key=lambda i: i[:2])
            for item in (*bucket[:_NEAR], *bucket[max(0, middle - _NEAR) : middle + 2]):
                if self._is_free(item):
                    near[item[2].step_id] = item
        return list(near.values())

    def _is_free(self, item: tuple[int, int, Step]) -> bool:
        return item[2].step_id not in self._taken

    def _fit(self, wanted: _Wanted, step: Step) -> tuple[int, bool, bool]:
        """How well a free step of the right name fits: (arguments 0 to 4, running, below scope)."""
        scope = wanted.scope
        running = self._running(wanted.call, step)
        arguments = self._argument_fit(wanted, step)
        if arguments == 0 and running:
            arguments = 1
        return arguments, running, scope is not None and self._below(step, scope)

    def _argument_fit(self, wanted: _Wanted, step: Step) -> int:
        key, arguments = self._argument_keys[step.step_id], wanted.call.arguments
        if arguments is None or key is None:
            return 2
        if key == wanted.key:
            return 4
        own = step.tool.arguments if step.tool is not None else None
        if not isinstance(own, dict):
            return 2
        return 3 if _compatible(own, arguments) else 0

    def _running(self, call: Call, step: Step) -> bool:
        at = call.last.started_at_ns
        return step.start_ns - _SLACK_NS <= at <= step.end_ns + _SLACK_NS

    def _below(self, step: Step, scope: str) -> bool:
        step_id: str | None = step.step_id
        for _ in range(_HOPS_MAX):
            if step_id == scope:
                return True
            above = self._steps.get(step_id or "")
            if above is None:
                return False
            step_id = above.parent_step_id
        return False


def _compatible(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Whether two argument objects share a name and differ in none that they share."""
    shared = left.keys() & right.keys()
    return bool(shared) and all(
        left[name] == right[name] or argument_key(left[name]) == argument_key(right[name])
        for name in shared
    )
