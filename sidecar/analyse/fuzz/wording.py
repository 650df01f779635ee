"""Words: where an input has them, and how people with a habit of writing would put them.

**Rules**
1. What is asked stays: a word with a digit, an ``@``, two capitals, or that is a row's key is an
   identifier, an amount or an address, and no persona touches it. A word that says no is neither
   taken away nor mistyped.
2. A persona is a function of the text alone: the same text is said the same way every time, and
   what other operators made of the errand is said that way too.
3. These are habits of writing, not people: what somebody means is the goal's business.
"""

import hmac
import re
from collections.abc import Callable, Mapping
from typing import Any, Final

_NAMES: Final = ("text", "message", "request", "goal", "prompt", "question", "task")
_TOKEN: Final = re.compile(r"\S+")
_EXACT: Final = re.compile(r"\d|@|[A-Z]{2}|[_/\\{}\[\]<>=:#]")
_POLITE: Final = frozenset(
    {"please", "kindly", "hi", "hello", "dear", "thanks", "thank", "you", "could", "would"}
)
_NOES: Final = frozenset({"no", "not", "never", "none", "nothing", "without", "cannot"})
_ARTICLES: Final = frozenset({"a", "an", "the"})
_SMALL_TALK: Final = (
    "Good morning, I hope this finds you well, the weather here has been dreadful for weeks and my"
    " sister is visiting, so forgive me if I am a little all over the place today."
)
_ASIDE: Final = (
    "Anyway, sorry for the long message, my neighbour always says that I write too much, and he has"
    " a point, though his own letters are just as long."
)


def _each(text: str, keep: frozenset[str], change: Callable[[str, int], str]) -> str:
    """Every word changed that may be, with its place; what stands between stays."""
    place = 0

    def changed(found: re.Match[str]) -> str:
        nonlocal place
        place += 1
        word = found[0]
        bare = word.strip(".,;:!?()\"'")
        return word if _EXACT.search(word) or bare in keep else change(word, place)

    return " ".join(_TOKEN.sub(changed, text).split())


def _shouting(text: str, keep: frozenset[str]) -> str:
    return _each(text, keep, lambda word, _: word.upper()) + "!!!"


def _hurried(text: str, keep: frozenset[str]) -> str:
    return _each(text, keep, lambda word, _: re.sub(r"[.,;!?]", "", word).lower())


def _mistyping(text: str, keep: frozenset[str]) -> str:
    def slip(word: str, place: int) -> str:
        mac = hmac.digest(word.encode(), str(place).encode(), "sha256")
        if len(word) < 5 or not word.isalpha() or word.lower() in _NOES or mac[0] % 2:
            return word
        at = 1 + mac[1] % (len(word) - 3)
        return word[:at] + word[at + 1] + word[at] + word[at + 2 :]

    return _each(text, keep, slip)


def _terse(text: str, keep: frozenset[str]) -> str:
    def drop(word: str, _: int) -> str:
        return "" if word.strip(".,;:!?").lower() in _POLITE else word

    return _each(text, keep, drop) or text


def _learner(text: str, keep: frozenset[str]) -> str:
    def drop(word: str, _: int) -> str:
        return "" if word.lower() in _ARTICLES else word

    return (_each(text, keep, drop) or text) + " Excuse please my English."


def _hesitant(text: str, keep: frozenset[str]) -> str:
    def pause(word: str, place: int) -> str:
        return f"{word} um," if place % 4 == 0 else word

    return f"So, uh, {_each(text, keep, pause)}"


def _rambling(text: str, _: frozenset[str]) -> str:
    return f"{_SMALL_TALK} {text} {_ASIDE}"


def _forwarding(text: str, _: frozenset[str]) -> str:
    quoted = "\n".join(f"> {line}" for line in text.splitlines() or [text])
    return f"See below.\n\n---------- Forwarded message ---------\n{quoted}"


def _mixing(text: str, _: frozenset[str]) -> str:
    return f"Guten Tag! {text} Muchas gracias, 谢谢."


STYLES: Final[Mapping[str, Callable[[str, frozenset[str]], str]]] = {
    "shouting": _shouting,
    "hurried": _hurried,
    "mistyping": _mistyping,
    "terse": _terse,
    "learner": _learner,
    "hesitant": _hesitant,
    "rambling": _rambling,
    "forwarding": _forwarding,
    "mixing_languages": _mixing,
}


def spoken(text: str, style: str, keys: frozenset[str]) -> str:
    """A text as somebody with that habit writes it; ``keys`` are words that stay as they are."""
    return STYLES[style](text, keys)


def text_of(value: Any) -> str | None:
    """The words of an input; None where it has none."""
    if isinstance(value, dict):
        value = next((value[name] for name in _NAMES if name in value), None)
    return value if isinstance(value, str) and value.strip() else None


def with_text(value: Any, words: str) -> Any:
    """An input that has words, with these in their place."""
    if not isinstance(value, dict):
        return words
    return {**value, next(name for name in _NAMES if name in value): words}
