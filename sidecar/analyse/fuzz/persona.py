"""Operators on who asks: the same errand as other people would write it."""

from collections.abc import Iterator

from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.mutations import AnyMutation, Speaks
from sidecar.analyse.fuzz.wording import STYLES, spoken, text_of


def personas(base: Base) -> Iterator[AnyMutation]:
    """Each habit that makes another text of the errand."""
    said = text_of(base.draft.scenario.input)
    if said is None:
        return
    keys = base.draft.keys()
    for style in STYLES:
        if spoken(said, style, keys) != said:
            yield Speaks(operator=style, style=style)
