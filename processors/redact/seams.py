"""Texts that stand one after the other and are read as one: blocks of a message.

Rules
1. A datum that two blocks share is seen only where they are read together. Where that finds more
   than each alone, all of their text stands in the first of them, masked, and the others are empty.
   What one hides alone stays hidden: beside another text a datum may look like none.
2. A block that loses its whole text by itself (drop) ends what is read together.
3. Doing it twice changes nothing: what was put together is read with nothing behind it.
"""

from collections.abc import Callable, Iterator, Sequence

from processors.redact.masker import Masker
from processors.redact.substitute import BY_KEY, DROPPED


def joined(
    texts: Sequence[str | None], kept: Sequence[str | None], masker: Masker
) -> list[str | None]:
    """``kept``, each text masked alone, with what is seen only over a seam; None ends a run."""
    found = list(kept)
    for run in _runs(texts, lambda text: text is not None and masker.mask(text) != DROPPED):
        before = [text for text in (texts[place] for place in run) if text is not None]
        whole = masker.together(before)
        if whole is None:
            continue
        if [masker.mask(text) for text in before] != [kept[place] for place in run]:
            whole = BY_KEY  # one of them lost more than its patterns say: it is JSON with secrets
        found[run[0] : run[-1] + 1] = [whole, *("" for _ in run[1:])]
    return found


def _runs(texts: Sequence[str | None], fits: Callable[[str | None], bool]) -> Iterator[range]:
    """The places of two and more texts in a row that fit."""
    start = 0
    for place in range(len(texts) + 1):
        if place == len(texts) or not fits(texts[place]):
            if place - start > 1:
                yield range(start, place)
            start = place + 1
