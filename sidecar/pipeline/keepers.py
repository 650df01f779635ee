"""Each project's keeping, made once: what repeats from trace to trace is looked at once.

Rules
1. A project's memory is its own; so is its key.
2. A rotated key is taken up within ``_LOOK_EVERY`` traces of the project; until then digests are
   made with the one before, which has not retired.
3. Memories are bounded, and so is their number: the one that was made first goes first.
"""

from collections.abc import Callable

from msgspec.structs import replace

from processors.redact.keeping import Keeping
from processors.redact.rules import keeping
from processors.redact.terms import RedactionKey, Terms

KeyOf = Callable[[str], RedactionKey]
_LOOK_EVERY = 64
_KEPT_MAX = 16


class Keepers:
    """``key_of`` tells the key in use of a project; it is asked only where digests are made."""

    def __init__(self, key_of: KeyOf | None = None) -> None:
        self._key_of = key_of
        self._kept: dict[str, tuple[Terms, Keeping]] = {}
        self._uses: dict[str, int] = {}

    def of(self, project: str, terms: Terms) -> Keeping | None:
        """How a project's content is kept on its terms; None keeps everything."""
        if terms.capture == "full":
            return None
        kept = self._kept.get(project)
        if kept is None or (terms.keyed and self._is_time(project)):
            kept = self._renewed(project, self._with_key(project, terms), kept)
        return kept[1]

    def _is_time(self, project: str) -> bool:
        uses = self._uses[project] = self._uses.get(project, 0) + 1
        return uses % _LOOK_EVERY == 0

    def _with_key(self, project: str, terms: Terms) -> Terms:
        if not terms.keyed:
            return terms
        assert self._key_of is not None, "hash and tokenise need the project's key"
        return replace(terms, key=self._key_of(project))

    def _renewed(
        self, project: str, terms: Terms, kept: tuple[Terms, Keeping] | None
    ) -> tuple[Terms, Keeping]:
        if kept is not None and kept[0] == terms:
            return kept
        made = keeping(terms)
        assert made is not None
        self._kept.pop(project, None)
        while len(self._kept) >= _KEPT_MAX:
            self._kept.pop(next(iter(self._kept)))
        found = self._kept[project] = (terms, made)
        return found
