"""What a fault rule says: which fault, for which tool, when, and how much of it.

Rules
1. These records are the format of ``faults:`` in twins and suites; a key a fault does not use is a
   problem, not a comment.
2. The 20 names that AgentTwin gave its faults are understood as what they mean here (``ALIASES``).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

from msgspec import Struct, field, structs

from processors.model.twin import EventKind
from processors.value import duration_ns
from sidecar.errors import Problem
from sidecar.expression.cel import ExpressionInvalid, compile_expression
from sidecar.twins.chance import Delay, delay_faults
from sidecar.twins.names import FUNCTIONS
from sidecar.twins.payloads import PAYLOADS

FaultKind = Literal[
    "timeout_before",
    "timeout_after",
    "lie_success",
    "lie_failure",
    "http_403",
    "http_422",
    "http_429",
    "http_500_before",
    "http_500_after",
    "http_503",
    "stale_read",
    "duplicate_delivery",
    "reorder",
    "malformed_json",
    "truncated",
    "missing_field",
    "renamed_field",
    "wrong_type",
    "replaced_answer",
    "repeated_answer",
    "partial_write",
    "permission_revoked",
    "cross_tenant_row",
    "slow",
    "hang",
    "dropped_connection",
    "injected_content",
    "crash_between_effect_and_receipt",
]
Alias = Literal[
    "timeout_before_mutation",
    "timeout_after_mutation",
    "rate_limit",
    "http_500",
    "semantic_bad_response",
    "delay",
    "partial_response",
    "stale_response",
    "duplicate_response",
    "auth_denied",
    "transient_unavailable",
    "permanent_unavailable",
    "inconsistent_state",
    "success_without_mutation",
    "message_duplication",
    "non_retryable_error",
]
FOREVER = "forever"
ALIASES: Mapping[str, tuple[FaultKind, Mapping[str, Any]]] = {
    "timeout_before_mutation": ("timeout_before", {}),
    "timeout_after_mutation": ("timeout_after", {}),
    "rate_limit": ("http_429", {}),
    "http_500": ("http_500_before", {}),
    "semantic_bad_response": ("replaced_answer", {}),
    "delay": ("slow", {}),
    "partial_response": ("truncated", {}),
    "stale_response": ("stale_read", {}),
    "duplicate_response": ("repeated_answer", {}),
    "auth_denied": ("http_403", {}),
    "transient_unavailable": ("http_503", {}),
    "permanent_unavailable": ("http_503", {"window": FOREVER}),
    "inconsistent_state": ("partial_write", {}),
    "success_without_mutation": ("lie_success", {}),
    "message_duplication": ("duplicate_delivery", {}),
    "non_retryable_error": ("http_422", {}),
}
_KEYS: Mapping[str, frozenset[str]] = {
    "http_429": frozenset({"retry_after"}),
    "http_503": frozenset({"retry_after", "window"}),
    "stale_read": frozenset({"versions", "lag"}),
    "duplicate_delivery": frozenset({"times"}),
    "missing_field": frozenset({"field"}),
    "renamed_field": frozenset({"field", "to"}),
    "wrong_type": frozenset({"field"}),
    "replaced_answer": frozenset({"body"}),
    "partial_write": frozenset({"effects", "status"}),
    "slow": frozenset({"delay"}),
    "hang": frozenset({"phase"}),
    "dropped_connection": frozenset({"phase"}),
    "injected_content": frozenset({"field", "payload", "text"}),
    "crash_between_effect_and_receipt": frozenset({"window"}),
}
_ALWAYS = frozenset({"fault", "tool", "id", "when"})
_WHILE_VARIABLES = frozenset({"arguments", "call", "flags", "now"})


class After(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event that must have happened before, ``times`` times: of a tool (``*``: any), of a kind
    (empty: answered or unanswered), or the firing of a fault rule.
    """

    tool: str = "*"
    kind: EventKind | Literal[""] = ""
    rule: str = ""
    times: int = 1


class When(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """When a fault fires: all that is given must hold."""

    call_number: int | None = None
    call_numbers: tuple[int, ...] | None = None
    first_n: int | None = None
    every_call: bool = False
    args_match: dict[str, Any] | None = None
    probability: float | None = None
    after: After | None = None
    while_: str = field(name="while", default="")


class Fault(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A fault rule; ``tool`` may be ``*``. What else it says depends on the fault."""

    fault: FaultKind | Alias
    tool: str
    id: str = ""
    when: When = When()
    retry_after: int = 1
    window: str = ""
    phase: Literal["before", "after"] = "before"
    times: int = 2
    effects: int = 1
    status: Literal[200, 500] = 500
    versions: int = 0
    lag: str = ""
    field: str = ""
    to: str = ""
    payload: str = ""
    text: str = ""
    delay: Delay = ""
    body: Any = None


def plain(fault: Fault) -> Fault:
    """The rule by the name it has here; one that has such a name already is itself."""
    found = ALIASES.get(fault.fault)
    if found is None:
        return fault
    kind, given = found
    return structs.replace(fault, fault=kind, **given)


def fault_problems(path: str, faults: Sequence[Fault], tools: Sequence[str]) -> Iterator[Problem]:
    """What is wrong with a list of fault rules for these tools."""
    ids: set[str] = set()
    for index, fault in enumerate(faults):
        where = f"{path}.{index}"
        if fault.tool != "*" and fault.tool not in tools:
            known = ", ".join(tools)
            yield Problem(f"{where}.tool", f"there is no tool {fault.tool!r}; known: {known}")
        if fault.id and fault.id in ids:
            yield Problem(f"{where}.id", f"{fault.id!r} stands twice")
        ids.add(fault.id)
        yield from _when_problems(f"{where}.when", fault.when, tools)
        yield from _key_problems(where, fault)
        yield from _value_problems(where, fault)


def _when_problems(path: str, when: When, tools: Sequence[str]) -> Iterator[Problem]:
    if when.probability is not None and not 0 <= when.probability <= 1:
        yield Problem(f"{path}.probability", "must be between 0 and 1")
    numbers = [*(when.call_numbers or ()), when.call_number or 1, when.first_n or 1]
    if any(number < 1 for number in numbers):
        yield Problem(path, "counts calls from 1")
    if when.after is not None:
        if when.after.times < 1:
            yield Problem(f"{path}.after.times", "counts events from 1")
        if when.after.tool not in ("*", *tools):
            yield Problem(f"{path}.after.tool", f"there is no tool {when.after.tool!r}")
    if when.while_:
        try:
            compile_expression(when.while_, variables=_WHILE_VARIABLES, functions=FUNCTIONS)
        except ExpressionInvalid as error:
            yield Problem(f"{path}.while", str(error))


def _key_problems(where: str, fault: Fault) -> Iterator[Problem]:
    kind = plain(fault).fault
    usable = _ALWAYS | _KEYS.get(kind, frozenset())
    for one in structs.fields(Fault):
        given = getattr(fault, one.name)
        if one.name not in usable and given != one.default:
            yield Problem(f"{where}.{one.name}", f"means nothing to {fault.fault}")


def _value_problems(where: str, fault: Fault) -> Iterator[Problem]:
    if fault.retry_after < 0:
        yield Problem(f"{where}.retry_after", "must not be negative")
    if fault.times < 2 or fault.times > 100:
        yield Problem(f"{where}.times", "is how often the call is delivered: 2 to 100")
    if fault.effects < 0:
        yield Problem(f"{where}.effects", "is how many effects happen: 0 or more")
    if fault.versions < 0:
        yield Problem(f"{where}.versions", "must not be negative")
    if fault.versions and fault.lag:
        yield Problem(where, "is stale by versions or by a lag, not by both")
    for name, text in (("window", fault.window), ("lag", fault.lag)):
        yield from _duration_problems(f"{where}.{name}", "" if text == FOREVER else text)
    if fault.lag == FOREVER:
        yield Problem(f"{where}.lag", "must be a duration")
    yield from _needed(where, plain(fault))


def _needed(where: str, fault: Fault) -> Iterator[Problem]:
    if fault.fault == "slow":
        for name, text in delay_faults(fault.delay):
            yield Problem(f"{where}.delay.{name}".rstrip("."), text)
    if fault.fault == "renamed_field" and fault.field and fault.to == fault.field:
        yield Problem(f"{where}.to", "is the name it has")
    if fault.fault != "injected_content":
        return
    if bool(fault.text) == bool(fault.payload):
        yield Problem(where, "needs either payload (a name) or text")
    if fault.payload and fault.payload not in PAYLOADS:
        known = ", ".join(PAYLOADS)
        yield Problem(f"{where}.payload", f"there is no payload {fault.payload!r}; known: {known}")


def _duration_problems(path: str, text: str) -> Iterator[Problem]:
    try:
        if text:
            duration_ns(text)
    except ValueError as error:
        yield Problem(path, str(error))


KINDS: tuple[str, ...] = get_args(FaultKind)
