"""Names that were minted in a recording and are minted anew on a twin: one stands for the other.

Rules
1. A name is paired where a tool with effects answered: at the same place, under a member that is
   called an id, both new in their run, and not the same.
2. From then on the recorded name in an argument is the twin's, and a recorded result is compared as
   if it had the twin's name. Nothing else is taken for a name.
"""

import re
from collections.abc import Mapping
from typing import Any

_NAMED = re.compile(r"(?:^|_)(?:id|key|ref|reference|number|no|uuid)\Z")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")


class IdFlow:
    """The names of one run, recorded and on the twin."""

    def __init__(self) -> None:
        self._pairs: dict[str, str] = {}
        self._recorded: set[str] = set()
        self._answered: set[str] = set()

    @property
    def minted(self) -> int:
        """How many names stand for another."""
        return len(self._pairs)

    def mapped(self, value: Any) -> Any:
        """The value with recorded names as the twin's."""
        if not self._pairs:
            return value
        if isinstance(value, str):
            return self._pairs.get(value, value)
        if isinstance(value, Mapping):
            return {self._pairs.get(name, name): self.mapped(item) for name, item in value.items()}
        if isinstance(value, list):
            return [self.mapped(item) for item in value]
        return value

    def saw(self, recorded: Any, answered: Any, *, mints: bool) -> None:
        """Take in a recorded value and the twin's at its side; ``mints``: of a call with effects
        that went through on both."""
        if mints:
            self._pair(recorded, answered, "")
        self._recorded.update(_texts(recorded))
        self._answered.update(_texts(answered))

    def _pair(self, recorded: Any, answered: Any, name: str) -> None:
        if isinstance(recorded, Mapping) and isinstance(answered, Mapping):
            for member in recorded.keys() & answered.keys():
                self._pair(recorded[member], answered[member], str(member))
        elif isinstance(recorded, list) and isinstance(answered, list):
            for one, other in zip(recorded, answered, strict=False):
                self._pair(one, other, name)
        elif isinstance(recorded, str) and isinstance(answered, str) and recorded != answered:
            new = recorded not in self._recorded and answered not in self._answered
            if new and is_named(name):
                self._pairs.setdefault(recorded, answered)


def is_named(member: str) -> bool:
    """Whether a member is called as one that holds an id is."""
    return _NAMED.search(_CAMEL.sub("_", member).lower()) is not None


def _texts(value: Any) -> set[str]:
    if isinstance(value, str):
        return {value}
    if isinstance(value, Mapping):
        return set().union(*map(_texts, value.values())) | {str(name) for name in value}
    return set().union(*map(_texts, value)) if isinstance(value, list) else set()
