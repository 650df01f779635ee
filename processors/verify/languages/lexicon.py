"""What a language's words say of an act: the form that German, Spanish and Chinese tables share.

Rules
1. A word has senses. A sense is a kind (an act's form, a noun, a marker) and, for acts and nouns,
   the English words that tool names are compared with.
2. Tables are data: ``acts`` reads one line an act, ``english | infinitives | past forms | nouns``,
   ``nouns`` and ``markers`` one line a meaning. What no table lists says nothing.
3. What the kinds come to is ``grammar``'s matter and the same in each language.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

from msgspec import Struct

Kind = Literal[
    "past",  # a participle: says that the act is over once an auxiliary stands with it
    "did",  # a finite past form: says so by itself
    "verb",  # any other form of the act
    "noun",  # a thing, or the act as a thing (Erstattung)
    "aux",  # the auxiliary of perfect and past passive (habe, wurde, fue, 已)
    "could",  # managed to (konnte, pude)
    "can",  # is able to (kann, puedo)
    "will",  # future, wish, offer, duty, passive present
    "not",
    "fail",  # failed, was declined
    "done",  # complete, successful
    "whole",  # done, alone in a clause: of the run as a whole
    "aside",  # pending, being processed, long ago, another's act: the clause says nothing
    "unsure",
    "if",  # a condition: what follows in the sentence is none
    "said",  # what the user said
    "again",  # a further attempt
    "nothing",  # a word that only looks like another (为了)
]


class Sense(Struct, frozen=True):
    """One meaning of a word; ``english`` are the words of tool names it stands for."""

    kind: Kind
    english: tuple[str, ...] = ()


Senses = Mapping[str, tuple[Sense, ...]]


class Language(Struct, frozen=True, kw_only=True):
    """A language's tables.

    ``cut`` finds the ends of clauses; its group ``weak`` matches a conjunction over which an
    auxiliary carries ("storniert und erstattet"). ``words`` gives the senses of a clause in order.
    ``usual`` are words that tell the language; ``plain`` prepares a sentence before it is cut.
    """

    code: str
    cut: re.Pattern[str]
    words: Callable[[str], list[tuple[Sense, ...]]]
    usual: frozenset[str]
    plain: Callable[[str], str]
    translations: Mapping[str, str]


def acts(table: str, forms: Callable[[str, str], Iterable[tuple[str, Kind]]]) -> Senses:
    """The senses of a table of acts; ``forms(column, word)`` tells what a written form stands for.

    ``column`` is ``verb``, ``past`` or ``noun``.
    """
    found: dict[str, list[Sense]] = defaultdict(list)
    for line in table.strip().splitlines():
        english, *columns = (part.strip() for part in line.split("|"))
        for column, cell in zip(("verb", "past", "noun"), columns, strict=False):
            for word in cell.split():
                for form, kind in forms(column, word):
                    sense = Sense(kind, tuple(english.split()))
                    if sense not in found[form]:
                        found[form].append(sense)
    return {word: tuple(senses) for word, senses in found.items()}


def nouns(table: str) -> Senses:
    """The senses of a table of nouns, ``english words | words of the language`` a line."""
    found: dict[str, tuple[Sense, ...]] = {}
    for line in table.strip().splitlines():
        english, _, words = line.partition("|")
        for word in words.split():
            found[word] = (Sense("noun", tuple(english.split())),)
    return found


def markers(table: str) -> Senses:
    """The senses of a table of markers, ``kinds | words`` a line; ``_`` stands for a space."""
    found: dict[str, tuple[Sense, ...]] = {}
    for line in table.strip().splitlines():
        kinds, _, words = line.partition("|")
        senses = tuple(Sense(kind) for kind in kinds.split())  # type: ignore[arg-type]
        for word in words.split():
            found[word.replace("_", " ")] = senses
    return found


def together(*tables: Senses) -> dict[str, tuple[Sense, ...]]:
    """One table of several; a word in more than one has all its senses."""
    found: dict[str, tuple[Sense, ...]] = {}
    for table in tables:
        for word, senses in table.items():
            found[word] = found.get(word, ()) + senses
    return found


def translated(senses: Senses) -> dict[str, str]:
    """The English of words that may stand in a tool's name: those with one meaning as an act."""
    found = {}
    for word, several in senses.items():
        english = {one.english[0] for one in several if one.english}
        if len(english) == 1 and word.isascii() and len(word) > 4:
            found[word] = english.pop()
    return found
