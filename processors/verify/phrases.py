"""The phrases by which an agent says that something was done, or was not: the rule table of claims.

Rules
1. Every phrase has an id; docs/specs/claims.md documents each, and a test keeps both equal.
2. A phrase needs a finished act: perfect or past tense, or an outcome word. Future, offers, wishes,
   conditions, questions and reports of what others said or did are not claims.
3. A phrase's ``verb`` group is the act; the words around it are its object. What tool they mean is
   ``naming``'s matter.
4. A pattern sees one clause in the form ``clauses`` gives it, never a whole answer.
5. One RE2 ``Set`` says first which phrases can be in a clause at all; most clauses hold none.
"""

import re
from typing import Literal

import re2
from msgspec import Struct

from processors.verify.subjects import words

Polarity = Literal["success", "failure"]

_ADVERBS = (
    r"(?:(?:now|just|already|successfully|also|finally|automatically|fully|both|all|then|therefore"
    r"|promptly|since|duly|indeed|officially|only|actually|ever|yet|even|still|manually"
    r"|immediately|properly|correctly) )*"
)
_PERFECT = rf"(?:has|have|had) {_ADVERBS}been {_ADVERBS}"
_STATE = rf"(?:is|are|was|were|got) {_ADVERBS}"
_PASSIVE = rf"(?:{_PERFECT}|{_STATE})"
_WHO = r"(?:i|we|our team|the team|our system|the system|the agent|support)"
_VERB = r"(?P<verb>[a-z]+)"
_OBJECT_FIRST = words("F6 S4 S6 S7 S8 S9")
_TROUBLE = r"(?:error|problem|issue|trouble|failure|difficulty|difficulties)"


class Phrase(Struct, frozen=True, kw_only=True):
    """One rule: what it says when ``pattern`` is found.

    ``past``: the verb must be a past form. ``generic``: the verb names no act, the object decides.
    ``follows``: only right after a claim by one of these rules, without a comma between.
    """

    id: str
    polarity: Polarity
    pattern: re.Pattern[str]
    past: bool = False
    generic: bool = False
    follows: tuple[str, ...] = ()

    @property
    def object_first(self) -> bool:
        """Whether the object stands before the act: "the refund failed", "refund issued"."""
        return self.id in _OBJECT_FIRST


def _success(name: str, pattern: str, *, past: bool = False, generic: bool = False) -> Phrase:
    return Phrase(
        id=name, polarity="success", pattern=re.compile(pattern), past=past, generic=generic
    )


def _failure(name: str, pattern: str, *, past: bool = False, generic: bool = False) -> Phrase:
    return Phrase(
        id=name, polarity="failure", pattern=re.compile(pattern), past=past, generic=generic
    )


# Failure first: a negated act must never be read as its positive part.
PHRASES: tuple[Phrase, ...] = (
    _failure(
        "F1",
        r"\b(?:unable|not able|failed|impossible|not possible|not permitted|not allowed"
        rf"|not authori[sz]ed|refused|declined) (?:for (?:me|us) )?to {_ADVERBS}(?:be )?{_VERB}",
    ),
    _failure(
        "F2",
        rf"\b(?:(?:could|can|did|do|does|would) not|will not be able to) {_ADVERBS}"
        rf"(?:be able to |have been |have |be |been )?{_ADVERBS}{_VERB}",
    ),
    _failure(
        "F3",
        rf"\b(?:has|have|had|is|are|was|were) not {_ADVERBS}(?:been )?{_ADVERBS}{_VERB}",
        past=True,
    ),
    _failure("F4", rf"\b(?:no|none|neither|nothing)\b[^.]{{0,80}}?\b{_PASSIVE}{_VERB}", past=True),
    _failure("F5", rf"\b{_WHO} (?:have |has )?never {_ADVERBS}{_VERB}", past=True),
    _failure(
        "F6",
        r"(?<!not )\b(?P<verb>fail(?:ed|s)?|declined|rejected|denied|refused|blocked|unsuccessful"
        r"|incomplete|errored|timed out|not successful|not complete|not completed|not go through"
        r"|not gone through)\b(?! to\b)",
        generic=True,
    ),
    _failure(
        "F7",
        r"\b(?:there (?:was|is|were|has been)|encountered|experienced|ran into|due to|because of"
        rf"|faced|had|returned) (?:(?!no )[a-z]+ ){{0,3}}?{_TROUBLE} "
        rf"(?:while|when|in|with|during|trying to) {_VERB}",
        generic=True,
    ),
    Phrase(
        id="F8",
        polarity="failure",
        pattern=re.compile(rf"^{_ADVERBS}{_VERB}"),
        follows=("F1", "F2", "F8"),
    ),
    _success("S1", rf"\b{_PASSIVE}{_VERB}", past=True),
    _success(
        "S2",
        rf"\b{_WHO} {_ADVERBS}(?:have |has |had )?{_ADVERBS}(?:went ahead and )?{_VERB}",
        past=True,
    ),
    _success(
        "S3",
        rf"\b(?:(?:was|were|been) {_ADVERBS}able to|managed to|succeeded in) {_ADVERBS}{_VERB}",
    ),
    _success(
        "S4",
        rf"\b{_PASSIVE}(?P<verb>complete|successful|done|through|confirmed|final|on its way"
        r"|on the way|a success)\b",
        generic=True,
    ),
    _success(
        "S5",
        rf"^{_ADVERBS}{_VERB} "
        r"(?:(?:the|a|an|your|you|it|this|that|both|all)\b|\d|[a-z]+ [a-z]*-?\d)",
        past=True,
    ),
    _success(
        "S6",
        rf"(?<!you )(?<!they )(?<!being )(?<!be )(?<!not )\b{_VERB}(?: successfully)?$",
        past=True,
    ),
    _success(
        "S7",
        r"\b(?P<verb>went through|gone through|succeeded)\b",
        generic=True,
    ),
    _success("S8", r"(?<!to )(?<!not )\b(?P<verb>complete|successful)$", generic=True),
    _success(
        "S9",
        rf"^(?:your |the |an? )?[a-z]+(?: of [a-z0-9 ]{{1,30}}?)? {_VERB} (?:to|for|via|on|at)\b"
        r"(?!.*\b(?:is|are|takes?|will|can|may|must|should)\b)",
        past=True,
    ),
)


def _without_looking(pattern: str) -> str:
    """A pattern without looks ahead and behind, which RE2 has not: it matches at least as much."""
    wide, at = "", 0
    while at < len(pattern):
        look = _LOOK.match(pattern, at)
        if look is None:
            wide, at = wide + pattern[at], at + 1
            continue
        at, depth = look.end(), 1
        while depth:
            depth += (pattern[at] == "(") - (pattern[at] == ")")
            at += 2 if pattern[at] == "\\" else 1
    return wide


def _prefilter() -> "re2.Set":
    found = re2.Set.SearchSet()
    for phrase in PHRASES:
        found.Add(_without_looking(phrase.pattern.pattern))
    found.Compile()
    return found


_LOOK = re.compile(r"\(\?<?[!=]")
_SET = _prefilter()


def possible(clause: str) -> list[Phrase]:
    """The phrases that may be in a clause, in the table's order; the others certainly are not."""
    return [PHRASES[number] for number in sorted(_SET.Match(clause) or ())]


DONE = re.compile(
    r"^(?:(?:it|that|this|everything|all) is )?(?:now )?"
    r"(?:done|all done|all set|success|completed|complete|finished|taken care of)$"
)
WRONG = re.compile(
    r"\b(?:something (?:has gone|went) wrong|an? (?:[a-z]+ )?error (?:has )?occurred)\b"
)
UNSURE = re.compile(
    r"\b(?:maybe|perhaps|probably|possibly|presumably|likely|apparently|seems?|appears?|i think"
    r"|i believe|i guess|i assume|not sure|unsure|uncertain|not certain|do not know|not say"
    r"|not confirm|not verify|not tell|unclear|unknown|whether)\b"
)
MODAL = words("will shall would should may might must could")
REPORTED = re.compile(
    r"\b(?:you|the customer|the user|they|he|she) (?:have |has |had |already |also )*"
    r"(?:said|say|says|mentioned|told|claimed|stated|reported|wrote)\b"
)
AGAIN = re.compile(
    r"\b(?:another|again|second|third|twice|duplicate|additional|any more|further|more than)\b"
)
CONDITION_SENTENCE = re.compile(
    r"\b(?:if|unless|in case|assuming|provided that|providing|suppose)\b"
)
CONDITION_CLAUSE = re.compile(
    r"\b(?:once|until|till|as soon as|whenever|when|after (?:it|this|that|you|your|the)"
    r"|please (?:confirm|check|verify|tell))\b"
)
# Present tense with one of these tells what usually happens, not what happened.
HABIT = re.compile(
    r"\b(?:within|usually|typically|normally|generally|always|each|every|per|only)\b"
)
PRESENT = re.compile(r"(?:is|are) (?!now )")
# Simple past with one of these tells the state of things, not what the agent did.
BACKGROUND = re.compile(
    r"\b(?:on (?:\d|jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec|mon|tue|wed|thu|fri|sat|sun)"
    r"|ago|yesterday|within the last|by the (?:airline|customer|user|seller|merchant|bank|carrier)"
    r"|at the time|more than|originally|previously|earlier|before|last (?:week|month|year))"
    r"|^(?:since|as)\b"
)
PAST = re.compile(r"(?:was|were|had)\b")
NONE = words("no none nothing neither")
NOT_SAID = words("no none neither nothing never without how what why")
POINTING = words("it this that they them these those which")

BE = re.compile(r"\b(?:be|been|is|are|was|were|got) (?!able to)")
_PREPOSITION = re.compile(
    r"\b(?:of|to|for|on|in|from|with|about|at|by|into|onto|via|under|that|which|you)\b"
)


def head(text: str) -> list[str]:
    """The words of a noun phrase before its first preposition: "the refund" of "the refund for A".

    What follows a last "that" counts too: "I can confirm that your refund …".
    """
    _, _, told = text.rpartition(" that ")
    return [
        word
        for part in ((text, told) if told else (text,))
        for word in _PREPOSITION.split(part.strip(), maxsplit=1)[0].split()
    ]
