"""What the words of a German, Spanish or Chinese answer come to: one rule table for all three.

Rules
1. A clause is what it has of each kind of word (``lexicon``); the first rule of ``RULES`` whose
   needs are there and whose bars are not decides. Failure comes before success: a negated act must
   never be read as its positive part.
2. A condition, and what the user said, silence the rest of the sentence; a question says nothing.
3. Over a weak conjunction an auxiliary carries: "habe storniert und erstattet".
4. Which tool is meant is ``naming``'s matter, in English words: the tables translate.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from processors.verify.languages.chinese import CHINESE
from processors.verify.languages.german import GERMAN
from processors.verify.languages.lexicon import Kind, Language, Sense
from processors.verify.languages.spanish import SPANISH
from processors.verify.naming import Nameable, Unbound, Words, bind
from processors.verify.subjects import words

Status = Literal["success", "failure", "unknown"]

LANGUAGES: Final = (GERMAN, SPANISH, CHINESE)
_CARRIED: Final = frozenset[Kind](["aux", "could", "can", "will", "not"])
_ENGLISH = words("the your has been is was i we of to and for not have are it this with you on")
_OTHERS = (GERMAN.usual | SPANISH.usual) - _ENGLISH - words("die in an on he no me")
_MARKS = str.maketrans(dict.fromkeys(',.;:!?()*"', " "))
_CHINESE = re.compile("[\u4e00-\u9fff]")
_KANA = re.compile("[\u3040-\u30ff]")
_SHARED = words("ticket tickets meeting upgrade deployment email mail service deployt actual")
_SHORT: Final = 7
_WHOLE: Final = frozenset(["do", "complete", "process"])


class Rule(Struct, frozen=True, kw_only=True):
    """One row: of each of ``needs`` one kind must be there, and none of ``bars``.

    ``act`` are the kinds whose word is the act, in order of preference; without one of them the
    nouns alone tell. ``short``: only in a clause of few words.
    """

    id: str
    status: Literal["success", "failure"]
    needs: tuple[frozenset[Kind], ...]
    bars: frozenset[Kind] = frozenset()
    act: tuple[Kind, ...] = ()
    short: bool = False


def _kinds(*names: Kind) -> frozenset[Kind]:
    return frozenset(names)


_NO = _kinds("not", "fail")
RULES: Final = (
    Rule(
        id="G1",
        status="failure",
        needs=(_kinds("not"), _kinds("could", "can"), _kinds("verb", "past", "did", "noun")),
        act=("verb", "past", "did"),
    ),
    Rule(
        id="G2",
        status="failure",
        needs=(_kinds("fail"), _kinds("noun", "verb", "past", "did")),
        bars=_kinds("not", "will"),
        act=("past", "verb"),
    ),
    Rule(
        id="G3",
        status="failure",
        needs=(_kinds("not"), _kinds("done"), _kinds("noun", "past")),
        bars=_kinds("will"),
    ),
    Rule(
        id="G4",
        status="failure",
        needs=(_kinds("not"), _kinds("aux"), _kinds("past")),
        bars=_kinds("will", "fail"),
        act=("past",),
    ),
    Rule(
        id="G5",
        status="failure",
        needs=(_kinds("not"), _kinds("did")),
        bars=_kinds("will", "fail"),
        act=("did",),
    ),
    Rule(
        id="G6",
        status="success",
        needs=(_kinds("aux"), _kinds("past")),
        bars=_NO | _kinds("will", "can", "could"),
        act=("past",),
    ),
    Rule(
        id="G7",
        status="success",
        needs=(_kinds("did"),),
        bars=_NO | _kinds("will", "can"),
        act=("did",),
    ),
    Rule(
        id="G8",
        status="success",
        needs=(_kinds("could"), _kinds("verb", "past")),
        bars=_NO,
        act=("verb", "past"),
    ),
    Rule(
        id="G9",
        status="success",
        needs=(_kinds("noun"), _kinds("done", "past")),
        bars=_NO | _kinds("will", "can"),
        act=("past",),
        short=True,
    ),
    Rule(
        id="G0",
        status="success",
        needs=(_kinds("whole"),),
        bars=_NO | _kinds("will", "can", "noun"),
        short=True,
    ),
)


class Found(Struct, frozen=True, kw_only=True):
    """A claim of one clause; ``pointed`` where the clause before had to tell what is meant."""

    subject: str | None
    status: Status
    rule: str
    clause: str
    pointed: bool = False


class _Clause(Struct, frozen=True, kw_only=True):
    senses: list[tuple[Sense, ...]]
    kinds: frozenset[Kind]
    text: str
    weak: bool


def languages_of(text: str) -> tuple[Language | None, bool]:
    """The language of a whole answer, and whether its sentences must be looked at one by one."""
    if not text.isascii():
        return language_of(text), True
    own = _telling(text)
    usual = _most(own, None)
    return usual, usual is not None or not own.isdisjoint(_OTHERS)


def language_of(text: str, usual: Language | None = None) -> Language | None:
    """The language of a text; None = English, or one nobody reads here.

    ``usual`` is that of the text around it, for one without any telling word.
    """
    if not text.isascii() and _CHINESE.search(text):
        return None if _KANA.search(text) else CHINESE
    return _most(_telling(text), usual)


def _most(own: frozenset[str], usual: Language | None) -> Language | None:
    german, spanish = len(own & GERMAN.usual), len(own & SPANISH.usual)
    english = len(own & _ENGLISH)
    if not (german or spanish or english):
        return usual or _by_act(own)
    if max(german, spanish) <= english:
        return None
    return GERMAN if german >= spanish else SPANISH


def _by_act(own: frozenset[str]) -> Language | None:
    """The language whose tables alone have a word of a text that holds no telling word."""
    for language in (GERMAN, SPANISH):
        for word in own - _SHARED:
            senses = language.words(word)
            if any(one.kind in ("past", "did", "noun", "whole") for one in (senses or [()])[0]):
                return language
    return None


def _telling(text: str) -> frozenset[str]:
    return frozenset(text.lower().translate(_MARKS).split())


def read(
    sentence: str, language: Language, topic: str, known: Sequence[Nameable]
) -> tuple[list[Found], str]:
    """The claims of one sentence, and the topic for the next one's "it".

    ``topic`` holds the English words of the nouns of the clause before this sentence.
    """
    found: list[Found] = []
    about = topic.split()
    silent = unsure = False
    for clause in _clauses(language.plain(sentence), language):
        silent = silent or bool(clause.kinds & {"if", "said"})
        if not silent and "aside" not in clause.kinds:
            said = _claims(clause, about, known, unsure)
            unsure = not said and (unsure or "unsure" in clause.kinds)
            found += said
        about = _nouns(clause) or about
    return found, " ".join(about)


def _clauses(sentence: str, language: Language) -> Iterator[_Clause]:
    start, weak = 0, False
    before: frozenset[Kind] = frozenset()
    ends = [*language.cut.finditer(sentence), None]
    for end in ends:
        text = sentence[start : end.start() if end else len(sentence)].strip(" .!?。")
        senses = [senses for senses in language.words(text) if senses or language.code != "zh"]
        kinds = frozenset(one.kind for senses in senses for one in senses)
        if weak and not kinds & (_CARRIED - {"not"}):
            kinds |= before & _CARRIED
        if text:
            yield _Clause(senses=senses, kinds=kinds, text=text, weak=weak)
            before = kinds
        if end:
            start, weak = end.end(), end["weak"] is not None


def _claims(
    clause: _Clause, about: list[str], known: Sequence[Nameable], unsure: bool
) -> list[Found]:
    for rule in RULES:
        if not all(clause.kinds & need for need in rule.needs) or clause.kinds & rule.bars:
            continue
        if rule.short and len(clause.senses) > _SHORT:
            continue
        if rule.status == "failure" and "again" in clause.kinds:
            return []
        meant = _meant(clause, rule, about, known)
        if meant is not None:
            subject, pointed = meant
            hedged = unsure or "unsure" in clause.kinds
            status: Status = "unknown" if hedged else rule.status
            return [
                Found(
                    subject=subject,
                    status=status,
                    rule=rule.id,
                    clause=clause.text,
                    pointed=pointed,
                )
            ]
    return []


def _meant(
    clause: _Clause, rule: Rule, about: list[str], known: Sequence[Nameable]
) -> tuple[str | None, bool] | None:
    """The subject and whether it was pointed at; None where nothing known is meant."""
    if rule.id == "G0":
        return None, False
    named = _nouns(clause)
    acts = _acts(clause, rule)
    for act, own in acts:
        objects = [word for word in named if word not in own]
        for object_, pointed in ((objects, False), ([*objects, *about], True)):
            try:
                return bind(Words(act=act, object=object_, others=object_), known), pointed
            except Unbound:
                continue
    if not acts or rule.id in ("G1", "G2", "G3", "G9"):
        try:
            return bind(Words(act=None, object=named, others=named), known), False
        except Unbound:
            return None
    alone = {*named} <= {*acts[0][1], "it"}
    if alone and acts[0][0] in _WHOLE and len(clause.senses) <= _SHORT and not about:
        return None, False
    return None


def _acts(clause: _Clause, rule: Rule) -> list[tuple[str, tuple[str, ...]]]:
    """The act words in order of likelihood: the first behind the auxiliary, then the others."""
    marker = max(
        (
            place
            for place, senses in enumerate(clause.senses)
            if any(one.kind in ("aux", "could", "can", "not") for one in senses)
        ),
        default=-1,
    )
    found = [
        (place < marker, rule.act.index(one.kind), place, one.english)
        for place, senses in enumerate(clause.senses)
        for one in senses
        if one.kind in rule.act
    ]
    return [(english[0], english) for _, _, _, english in sorted(found)]


def _nouns(clause: _Clause) -> list[str]:
    """The English words of all nouns and acts of a clause, in order."""
    return [
        word for senses in clause.senses for one in senses if one.english for word in one.english
    ]
