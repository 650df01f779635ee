"""Tool names as subjects: which spellings are one tool, what its class is, which words name it.

Rules
1. Two names are one tool when they agree in lower case with ``-`` and space as ``_``, or when one
   is the other behind a namespace (``crm.issue_refund``, ``mcp__crm__issue_refund``,
   ``Refunds-issue_refund``; ``issue-refund`` is one name, not ``refund`` in a namespace ``issue``).
2. A tool's class is the registry's word, else the receipt's. A tool that neither knows is a read
   when its name begins with a reading verb; any other may have an effect, save a framework's own
   means of answering or handing over (``final_answer``, ``transfer_to_refund_agent``).
3. Words are compared by stem, so that ``refunded`` and ``refunds`` are ``refund``; a verb stands
   for its synonyms (docs/specs/claims.md lists them).
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import TypeVar

from processors.model.names import SideEffectClass

T = TypeVar("T")
_REMEMBERED_MAX = 8192
_REMEMBERED_CHARACTERS_MAX = 80


class _Memory(dict[str, T]):
    """What a function gave for short texts; it forgets all when it is full."""

    def __init__(self, function: Callable[[str], T]) -> None:
        super().__init__()
        self._function = function

    def __missing__(self, text: str) -> T:
        found = self._function(text)
        if len(text) <= _REMEMBERED_CHARACTERS_MAX:
            if len(self) >= _REMEMBERED_MAX:
                self.clear()
            self[text] = found
        return found


def remembering(function: Callable[[str], T]) -> Callable[[str], T]:
    """The same function of a name or a word, which remembers short ones: they repeat."""
    return _Memory(function).__getitem__


def words(text: str) -> frozenset[str]:
    """The words of a list written as text."""
    return frozenset(text.split())


def pairs(text: str) -> dict[str, str]:
    """The ``from=to`` pairs of a list written as text."""
    return {left: right for left, _, right in (pair.partition("=") for pair in text.split())}


READING_VERBS = words(
    "get list search find lookup look check read fetch query view show describe count retrieve"
    " calculate compute think validate verify inspect browse analyse analyze summarise summarize"
    " load select explain recall"
)
_ANSWERS = words("final_answer final_result finish finish_task submit_final_answer")
_HANDOVER = re.compile(
    r"(?:transfer|hand_?off|hand_?over|delegate)_(?:back_|work_)?to_(?:\w*_)?"
    r"(?:agents?|coworker|assistant|humans?|supervisor|team|operator)\Z|handoff\Z|hand_off\Z"
)
_SEPARATORS = re.compile(r"[./:]|__|-")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_WORD = re.compile(r"[a-z]+")
_IRREGULAR_PAST = pairs(
    "sent=send paid=pay made=make done=do did=do bought=buy sold=sell gave=give given=give"
    " took=take taken=take wrote=write written=write found=find got=get held=hold withdrew=withdraw"
    " withdrawn=withdraw went=go gone=go put=put set=set cut=cut reset=reset chosen=choose"
    " chose=choose lent=lend told=tell begun=begin undid=undo undone=undo"
)
_IRREGULAR_NOUN = pairs(
    "subscription=subscribe removal=remove withdrawal=withdraw approval=approve delivery=deliver"
)
_IRREGULAR = _IRREGULAR_PAST | _IRREGULAR_NOUN
# suffix, what stands in its place, letters that must remain
_SUFFIXES = (
    *(("ications", "i", 3), ("ication", "i", 3), ("ations", "", 4), ("ation", "", 4)),
    *(("ions", "", 3), ("ion", "", 3), ("ments", "", 3), ("ment", "", 3), ("ings", "", 3)),
    *(("ing", "", 3), ("ies", "i", 3), ("ied", "i", 3), ("ed", "", 3), ("es", "", 3), ("s", "", 3)),
    ("y", "i", 3),
)
_SYNONYMS = (
    "update change modify edit adjust amend alter",
    "cancel void revoke",
    "delete remove erase",
    "create add generate",
    "book reserve",
    "refund reimburse",
    "find lookup look get fetch retrieve search",
    "notify inform alert",
    "transfer move wire escalate",
    "charge bill debit",
    "approve authorise authorize",
    "email mail",
    "pay settle",
    "schedule plan",
    "reject decline deny",
    "enable activate",
    "disable deactivate",
    "deploy release",
    "upload attach",
)


@remembering
def plain(name: str) -> str:
    """A tool's name in the one spelling that is compared."""
    return name.lower().replace("-", "_").replace(" ", "_")


@remembering
def spellings(name: str) -> tuple[str, ...]:
    """The plain name and its tails behind each namespace separator, longest first."""
    tails = [plain(name)]
    for match in _SEPARATORS.finditer(name):
        tail = plain(name[match.end() :])
        hyphenated = match[0] == "-" and "_" not in tail
        if tail and not hyphenated and tail not in tails:
            tails.append(tail)
    return tuple(tails)


def same_tool(left: str, right: str) -> bool:
    """Whether two names are one tool (rule 1)."""
    return plain(left) in spellings(right) or plain(right) in spellings(left)


def registered(name: str, tools: Mapping[str, SideEffectClass]) -> str | None:
    """The registry's own name for a tool, or None where it does not list it."""
    if name in tools:
        return name
    by_plain, by_spelling = _index(tuple(tools))
    for spelling in spellings(name):
        if spelling in by_plain:
            return by_plain[spelling]
    return by_spelling.get(plain(name))


@lru_cache(16)
def _index(tools: tuple[str, ...]) -> tuple[dict[str, str], dict[str, str]]:
    """A registry's names by plain name, and by any of their spellings."""
    by_plain = {plain(tool): tool for tool in tools}
    by_spelling: dict[str, str] = {}
    for tool in tools:
        for spelling in spellings(tool):
            by_spelling.setdefault(spelling, tool)
    return by_plain, by_spelling


@remembering
def is_reading(name: str) -> bool:
    """Whether a name neither registry nor receipt knows begins with a reading verb (rule 2)."""
    words = split_words(spellings(name)[-1] if name else "")
    return bool(words) and words[0] in READING_VERBS


@remembering
def is_control(name: str) -> bool:
    """Whether an undeclared tool is a framework's way to answer or to hand over, not an act."""
    tail = spellings(name)[-1] if name else ""
    return tail in _ANSWERS or _HANDOVER.match(tail) is not None


@remembering
def split_words(name: str) -> tuple[str, ...]:
    """The lower-case words of ``issue_refund``, ``issueRefund`` or ``Refunds-issue``."""
    return tuple(_WORD.findall(_CAMEL.sub(" ", name).lower()))


def is_past(word: str) -> bool:
    """Whether a lower-case word is a past tense or past participle."""
    return word in _IRREGULAR_PAST or (
        word.endswith("ed") and len(word) > 3 and not word.endswith("eed")
    )


_BY_LAST_LETTER = {
    letter: tuple(row for row in _SUFFIXES if row[0].endswith(letter)) for letter in "sgndty"
}


def _bare(word: str) -> str:
    word = _IRREGULAR.get(word, word)
    for suffix, instead, remain in _BY_LAST_LETTER.get(word[-1:], ()):
        if len(word) - len(suffix) >= remain and word.endswith(suffix):
            word = word[: -len(suffix)] + instead
            if word[-1] == "y" and len(word) > 3:  # deployed = deploy
                word = word[:-1] + "i"
            break
    if len(word) > 3 and word[-1] == "e":
        word = word[:-1]
    if len(word) > 3 and word[-1] == word[-2] and word[-1] not in "aeiou":
        word = word[:-1]
    return word


_STEM_OF = {_bare(word): _bare(group.split()[0]) for group in _SYNONYMS for word in group.split()}


@remembering
def stem(word: str) -> str:
    """The stem of a lower-case word, a synonym's stem being that of its group's first word."""
    bare = _bare(word)
    return _STEM_OF.get(bare, bare)


def stems(words: Iterable[str]) -> frozenset[str]:
    """The stems of some words."""
    return frozenset(stem(word) for word in words)
