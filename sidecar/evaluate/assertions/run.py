"""Assertions about a whole run: its end, its cost, its output, its claim."""

import json
from collections.abc import Iterable
from typing import Any, Final

from sidecar.evaluate.assertions.finding import Finding, broken, held, unasked
from sidecar.evaluate.assertions.specs import (
    BudgetWithin,
    ClaimVerified,
    OutputSchema,
    TerminatesWithin,
    validator,
)
from sidecar.evaluate.assertions.view import View, no_content, unseen
from sidecar.tape.model import Event
from sidecar.tape.tape import MISSING

_SECOND_NS: Final = 1_000_000_000
_TOKENS: Final = ("input", "output")
_COST: Final = "cost_usd_micros"


def terminates_within(one: TerminatesWithin, view: View) -> Finding:
    """The terminal event is the offence where it is too late; the limit's event where none came."""
    for event in view.events:
        if event.kind == "terminal" and event.seq < one.events:
            return held(f"it ends at {event.seq}", event.seq)
        if event.kind == "terminal":
            return broken(f"it ends at {event.seq}, expected below {one.events}", event.seq)
    if len(view.events) >= one.events:
        seq = min(one.events, view.last_seq)
        return broken(f"it had not ended at {seq}, expected below {one.events}", seq)
    return unseen(view) or broken("it never ends", view.last_seq)


def budget_within(one: BudgetWithin, view: View) -> Finding:
    """The event at which a sum first passes its limit is the offence."""
    offences: list[tuple[int, str]] = []
    unknown: list[Finding] = []
    models = [event for event in view.events if event.kind == "llm_call"]
    for name, limit, amounts in (
        ("tool_calls", one.tool_calls, [(call.seq, 1) for call in view.calls()]),
        ("model_calls", one.model_calls, [(event.seq, 1) for event in models]),
        ("tokens", one.tokens, _used(models, _TOKENS)),
        ("cost_usd_micros", one.cost_usd_micros, _used(models, (_COST,))),
    ):
        if limit is None:
            continue
        total = 0
        for seq, amount in amounts:
            total += amount or 0
            if total > limit:
                offences.append((seq, f"{name} come to {_sum(amounts)}, at most {limit} expected"))
                break
        if any(amount is None for _, amount in amounts):
            unknown.append(unasked("usage", f"not every model call says its {name}"))
    if one.seconds is not None:
        _time(one.seconds, view, offences, unknown)
    if offences:
        seq, said = min(offences)
        return broken(said, seq)
    if unknown:
        return unknown[0]
    return unseen(view) or held("within every limit")


def output_schema(one: OutputSchema, view: View) -> Finding:
    """The event whose content is not valid is the offence."""
    checked = []
    for event in view.events:
        if one.tool is None:
            if event.kind != "terminal":
                continue
            value = view.payload(event, "out")
            if value is not MISSING:
                value = value.get("output", MISSING) if isinstance(value, dict) else MISSING
        elif event.kind == "tool_result" and event.name == one.tool and event.st == "ok":
            value = view.payload(event, "out")
        else:
            continue
        if value is MISSING:
            return no_content("the output" if one.tool is None else f"a result of {one.tool}")
        if (wrong := _invalid(one, value)) is not None:
            return broken(wrong, event.seq)
        checked.append(event.seq)
    if (unknown := unseen(view)) is not None:
        return unknown
    if not checked:
        return unasked("content", f"there is no {one.tool or 'output'} to check")
    return held(f"valid, {len(checked)} looked at", *checked)


def claim_verified(_: ClaimVerified, view: View) -> Finding:
    """The terminal event is the offence where what it claims was not so."""
    terminal = next((event for event in view.events if event.kind == "terminal"), None)
    if terminal is None:
        return unseen(view) or unasked("claim", "there is no end that could claim anything")
    said = view.payload(terminal, "out")
    if said is MISSING:
        return no_content("what the run claims")
    claimed = said.get("claimed") if isinstance(said, dict) else None
    claims = claimed if isinstance(claimed, list) else [claimed]
    if not {"success", "failure"} & {one for one in claims if isinstance(one, str)}:
        return unasked("claim", "the run claims nothing")
    verified = said.get("verified")
    if "success" not in claims:
        return held("the run claims no success", terminal.seq)
    if verified in ("verified_failure", "contradicted"):
        return broken(f"success is claimed, and it is {verified}", terminal.seq)
    if verified != "verified_success":
        return unasked("unverified", "success is claimed, and nobody looked whether it is so")
    if view.tape.header.source == "sdk":
        # What an agent's own process writes may lower an outcome and never raise it.
        return unasked("not_independent", "success is claimed and verified by the agent itself")
    return held("success is claimed and verified", terminal.seq)


def _used(models: Iterable[Event], keys: tuple[str, ...]) -> list[tuple[int, int | None]]:
    return [
        (
            event.seq,
            sum(event.use.get(key, 0) for key in keys)
            if any(key in event.use for key in keys)
            else None,
        )
        for event in models
    ]


def _sum(amounts: Iterable[tuple[int, int | None]]) -> int:
    return sum(amount or 0 for _, amount in amounts)


def _time(
    limit: float, view: View, offences: list[tuple[int, str]], unknown: list[Finding]
) -> None:
    starts = [event.t["start"] for event in view.events if "start" in event.t]
    if not starts:
        unknown.append(unasked("times", "no event says when it was"))
        return
    first = min(starts)
    for event in view.events:
        at = event.t.get("end", event.t.get("start", first))
        if at - first > limit * _SECOND_NS:
            offences.append(
                (event.seq, f"{(at - first) / _SECOND_NS:g} s have gone by, at most {limit:g}")
            )
            return


def _invalid(one: OutputSchema, value: Any) -> str | None:
    if one.parse:
        if not isinstance(value, str):
            return "the output is no text"
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return "the output is no JSON"
    error = next(validator(one.schema).iter_errors(value), None)
    if error is None:
        return None
    # The validator's own message would quote content; place and rule do not.
    place = "/".join(map(str, error.instance_path)) or "it"
    rule = "/".join(map(str, error.schema_path))
    return f"{place} does not fit {rule}"
