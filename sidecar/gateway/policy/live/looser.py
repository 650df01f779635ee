"""Whether an answer of the same effect asks less than another: its limits, terms and obligations.

**Rules**
1. What one answer demands the other must demand too, as strictly or more; anything else is looser.
2. What cannot be told to be as strict (another currency, a value that is no amount, a changed
   property of an obligation) is looser.
"""

from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

from processors.model.call import ApprovalTerms
from processors.model.principal import StepUp
from sidecar.gateway.amount import read_amount
from sidecar.gateway.policy.result import PolicyAnswer

_MOST = ("max_amount", "count", "timeout_ms", "max_response_bytes")
_OF_WHOM = "agent"
"""Of whom a limit over time is counted where nothing is said."""


def looser(before: PolicyAnswer, after: PolicyAnswer) -> bool:
    """Whether the later answer asks less than the earlier one of the same effect."""
    return not (
        _limits_kept(before.limits, after.limits)
        and _terms_kept(before.approval, after.approval)
        and all(
            any((kept.type, kept.properties) == (each.type, each.properties)
                for kept in after.obligations)
            for each in before.obligations
        )
    )  # fmt: skip


def _limits_kept(before: dict[str, Any], after: dict[str, Any]) -> bool:
    if "currency" in before and before["currency"] != after.get("currency"):
        return False
    for name in _MOST:
        if name in before and not _at_most(after.get(name), before[name]):
            return False
    if "allowed_hosts" in before and not _among(
        after.get("allowed_hosts"), before["allowed_hosts"]
    ):
        return False
    return (
        _each_kept(before.get("spend", ()), after.get("spend", ()), _window_kept("limit", "scope"))
        and _each_kept(before.get("rate", ()), after.get("rate", ()), _window_kept("n", "key"))
        and _each_kept(before.get("arguments", ()), after.get("arguments", ()), _argument_kept)
    )


def _each_kept(
    before: Sequence[dict[str, Any]],
    after: Sequence[dict[str, Any]],
    kept: Callable[[dict[str, Any], dict[str, Any]], bool],
) -> bool:
    return all(any(kept(each, other) for other in after) for each in before)


def _window_kept(most: str, whom: str) -> Callable[[dict[str, Any], dict[str, Any]], bool]:
    """Whether a limit over time is kept: of the same whom and window, and no more."""

    def kept(before: dict[str, Any], after: dict[str, Any]) -> bool:
        same = before["window_s"] == after["window_s"]
        of_same = before.get(whom, _OF_WHOM) == after.get(whom, _OF_WHOM)
        return same and of_same and _at_most(after[most], before[most])

    return kept


def _argument_kept(before: dict[str, Any], after: dict[str, Any]) -> bool:
    if before["name"] != after["name"]:
        return False
    if "one_of" in before and not _among(after.get("one_of"), before["one_of"]):
        return False
    if "max" in before and not _at_most(after.get("max"), before["max"]):
        return False
    return "min" not in before or _at_most(before["min"], after.get("min"))


def _terms_kept(before: ApprovalTerms | None, after: ApprovalTerms | None) -> bool:
    if before is None or after is None:
        return before is None
    return (
        after.min >= before.min
        and (not before.roles or (bool(after.roles) and _among(after.roles, before.roles)))
        and _no_longer(after.ttl_s, before.ttl_s)
        and _no_longer(after.execute_s, before.execute_s)
        and _sign_in_kept(before.step_up, after.step_up)
    )


def _sign_in_kept(before: StepUp | None, after: StepUp | None) -> bool:
    if before is None or after is None:
        return before is None
    return (
        (not before.acr or (bool(after.acr) and _among(after.acr, before.acr)))
        and _among(before.amr, after.amr)
        and _no_longer(after.max_age_s, before.max_age_s)
    )


def _no_longer(after: int | None, before: int | None) -> bool:
    return before is None or (after is not None and after <= before)


def _among(some: Sequence[Any] | None, all_: Sequence[Any]) -> bool:
    """Whether all of some are there; equal in kind too (``1`` is not ``true``)."""
    return some is not None and all(
        any(type(one) is type(other) and one == other for other in all_) for one in some
    )


def _at_most(value: Any, most: Any) -> bool:
    amount, bound = _amount(value), _amount(most)
    return amount is not None and bound is not None and amount <= bound


def _amount(value: Any) -> Decimal | None:
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    return read_amount(str(value))
