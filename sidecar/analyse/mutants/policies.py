"""Policies made wrong: a rule gone, a word turned round, a threshold ten times as large.

**Rules**
1. What a mutant would decide on the calls of the suite as it is tells which cases it touches: where
   it decides all of them alike, no case can notice.
2. A bundle made wrong has a revision of its own.
"""

from collections.abc import Iterator, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from processors.model.names import Effect
from sidecar.analyse.mutants.model import Mutant
from sidecar.canonical import sha256
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.policy.sayings import Definition, Saying, without


class Turned(Struct, frozen=True):
    """A word that is another instead, wherever it is said for these reasons alone."""

    set: str
    code: str
    effect: Effect

    def answer(self, said: PolicyAnswer) -> PolicyAnswer:
        """The answer as the mutant gives it."""
        spoke = "allow" if said.effect == "allow_with_limits" else said.effect
        if spoke != self.set or {one.code for one in said.reasons} != {self.code}:
            return said
        return replace(said, effect=self.effect, approval=None, limits={})


def turned(sayings: tuple[Saying, ...]) -> Iterator[tuple[Mutant, Turned]]:
    """Each live reason with its word turned round."""
    for one in sayings:
        if one.live and one.code:
            strict = one.set != "allow"
            operator = "allow_instead" if strict else "deny_instead"
            mutant = Mutant(operator=operator, target="policy", place=f"{one.set}:{one.code}")
            yield mutant, Turned(one.set, one.code, "allow" if strict else "deny")


def dropped(bundle: Bundle, definitions: tuple[Definition, ...]) -> Iterator[tuple[Mutant, Bundle]]:
    """The bundle without each of its live rules."""
    for one in definitions:
        place = f"{one.set} {one.file}:{one.line}"
        yield Mutant(operator="drop_rule", target="policy", place=place), without(bundle, one)


def loosened(bundle: Bundle) -> Iterator[tuple[Mutant, Bundle]]:
    """The bundle with each amount of its data ten times as large."""
    for path, amount in _amounts(bundle.data, ()):
        made = _with(bundle.data, path, format(amount * 10, "f"))
        place = ".".join(path)
        revision = sha256(f"{bundle.revision} tenfold {place}".encode())
        yield (
            Mutant(operator="threshold_tenfold", target="policy", place=place),
            replace(bundle, data=made, revision=revision),
        )


def _amounts(value: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Decimal]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from _amounts(item, (*path, str(key)))
    elif isinstance(value, str):
        try:
            amount = Decimal(value)
        except InvalidOperation:
            return
        if amount.is_finite() and amount > 0:
            yield path, amount


def _with(data: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = path
    return {**data, name: _with(data[name], tuple(rest), value) if rest else value}
