"""Claims spoken in an answer: its sentences, clause by clause, in four languages.

Rules
1. An English sentence yields a claim only through a phrase of ``phrases``; a German, Spanish or
   Chinese one only through a row of ``languages.grammar``. Other languages yield none.
2. What cannot be bound to a tool of the trace or the registry, or to the run as a whole (subject
   None), is no claim: silence is safer than a claim the agent did not make.
3. Amounts and identifiers are those of the claim's own clause, and of clauses before it that have
   no act of their own; a sentence with one claim lends it all its identifiers.
4. A sentence is read in the language of most of its words; one without any telling word is read in
   the answer's.
5. What an English sentence claims does not hang on which digits are in it, for no tool is told by a
   digit: short sentences are remembered without theirs, a bounded number of them.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final

from msgspec import Struct, structs

from processors.model.evidence import Claim, ClaimStatus
from processors.verify import grammar, phrases
from processors.verify.amounts import Money, money, objects, part, summed
from processors.verify.certainty import confidence
from processors.verify.clauses import asks, bare, expand, fragments, sentences
from processors.verify.languages.lexicon import Language
from processors.verify.naming import Nameable, Unbound, Words, acting, bind
from processors.verify.phrases import Phrase
from processors.verify.subjects import is_past, stem, stems

ANSWER_CHARACTERS_MAX: Final = 20_000
_SENTENCE_MAX: Final = 300
_TOPIC_MAX: Final = 300
NO_DIGITS: Final = str.maketrans("123456789", "000000000")
_FIGURE: Final = re.compile(r"\d[\d.,]*")


class _Context(Struct, frozen=True, kw_only=True):
    before: str
    topic: str
    last: "_Said | None"


class _Said(Struct, frozen=True, kw_only=True):
    """What a clause says. ``scope`` is the text that belongs to it, ``masked`` where its digits are
    left open; ``place`` tells that of an English one: its first clause, its last, how much of that.
    """

    subject: str | None
    status: ClaimStatus
    rule: str
    scope: str = ""
    place: tuple[int, int, int] = (0, 0, 0)
    pointed: bool = False
    masked: bool = False


class Tools:
    """The tools words may mean, equal only to itself: a short key for what is remembered."""

    __slots__ = ("known",)

    def __init__(self, known: Sequence[Nameable]) -> None:
        self.known = known


_tools = lru_cache(256)(Tools)


def spoken(answer: str | None, known: Sequence[Nameable]) -> Iterator[Claim]:
    """The claims of an answer in order; ids are given by the caller."""
    told = (answer or "")[:ANSWER_CHARACTERS_MAX]
    if not told:
        return
    usual, mixed = grammar.languages_of(told)
    tools = _tools(tuple(known))
    topic = ""  # the clause that "it" points back to
    for sentence in sentences(told):
        if asks(sentence):
            continue
        language = grammar.language_of(sentence, usual) if mixed else None
        if language is None:
            said, topic = _english(sentence, topic, tools)
        else:
            said, topic = _foreign(sentence, language, topic, known)
        if said:
            yield from _claims(sentence, said, language.code if language else "en", known)


def _english(sentence: str, topic: str, tools: Tools) -> tuple[Sequence[_Said], str]:
    """The claims of a sentence, and the topic for the next one's "it", without its digits."""
    whole, _ = part(sentence, "en")
    short = len(whole) <= _SENTENCE_MAX and len(topic) <= _TOPIC_MAX
    read = remembered_english if short else read_english
    said, about = read(whole.translate(NO_DIGITS), topic, tools)
    if not said or len(_FIGURE.findall(sentence)) < 2:  # one figure is found without its digits
        return said, about
    clauses = [clause for clause, _ in fragments(expand(whole))]
    return [
        structs.replace(one, scope=_scope(clauses, *one.place), masked=False) for one in said
    ], about


def _scope(clauses: Sequence[str], first: int, last: int, characters: int) -> str:
    return f"{' '.join(clauses[first:last])} {clauses[last][:characters]}"


def read_english(sentence: str, topic: str, tools: Tools) -> tuple[tuple[_Said, ...], str]:
    """What an English sentence says of tools, and the topic for the next one's "it"."""
    clauses = fragments(expand(sentence))
    found = list(_sentence(clauses, topic, tools.known))
    parts = [clause for clause, _ in clauses]
    said = [structs.replace(one, scope=_scope(parts, *one.place), masked=True) for one in found]
    return tuple(said), " ".join(parts)


remembered_english = lru_cache(4096)(read_english)
_bare_scope = lru_cache(1024)(bare)


def _foreign(
    sentence: str, language: Language, topic: str, known: Sequence[Nameable]
) -> tuple[list[_Said], str]:
    whole, _ = part(sentence, language.code)
    found, topic = grammar.read(whole, language, topic, known)
    said = [
        _Said(
            subject=one.subject,
            status=one.status,
            rule=one.rule,
            scope=one.clause,
            pointed=one.pointed,
        )
        for one in found
    ]
    return said, topic


def _claims(
    sentence: str, said: Sequence[_Said], language: str, known: Sequence[Nameable]
) -> Iterator[Claim]:
    plain = unicodedata.normalize("NFKC", sentence) if language == "zh" else sentence
    whole, some = part(plain, language)
    amounts = money(whole, language)
    named = objects(whole, amounts)
    for one in said:
        alone = len(said) == 1
        amount = _only(
            [
                item
                for item in amounts
                if _within(item.text, one, language) or (alone and summed(whole, item))
            ]
        )
        counted = some if one.status == "success" and one is said[0] else None
        yield Claim(
            claim_id="",
            subject=one.subject,
            status=one.status,
            source="final_answer",
            rule=one.rule,
            text=sentence,
            action=acting(one.subject, known),
            objects=tuple(item for item in named if alone or _within(item, one, language)),
            amount=amount.amount if amount else None,
            currency=amount.currency if amount else None,
            count=counted[0] if counted else None,
            total=counted[1] if counted else None,
            confidence=confidence(
                one.rule,
                hedged=one.status == "unknown",
                pointed=one.pointed,
                whole=one.subject is None,
            ),
            language=language,
        )


def _only(amounts: Sequence[Money]) -> Money | None:
    """The amount of a clause; None where it names none, or several that differ."""
    return amounts[0] if len({item.amount for item in amounts}) == 1 else None


def _within(word: str, one: _Said, language: str) -> bool:
    """Whether a word of the sentence stands in a clause; a clause of none is the whole sentence."""
    if language == "zh":
        return unicodedata.normalize("NFKC", word).lower() in one.scope
    if one.masked:
        return f" {bare(word.translate(NO_DIGITS))} " in f" {_bare_scope(one.scope)} "
    return not one.scope or f" {bare(word)} " in f" {bare(one.scope)} "


def _sentence(
    clauses: list[tuple[str, bool]], topic: str, known: Sequence[Nameable]
) -> Iterator[_Said]:
    before = ""  # clauses without an act of their own: their nouns belong to the next act
    first = 0  # the earliest of these
    last: _Said | None = None
    conditional = False
    for number, (clause, strong) in enumerate(clauses):
        conditional = conditional and not strong
        rest = phrases.CONDITION_SENTENCE.search(clause)
        here = phrases.CONDITION_CLAUSE.search(clause)
        free = min((match.start() for match in (rest, here) if match), default=len(clause))
        said = None
        if not conditional:
            context = _Context(before=before, topic=topic, last=None if strong else last)
            said = _clause(clause[:free], context, known)
        if said is not None:
            said = structs.replace(said, place=(first, number, free))
            first = number + 1
            yield said
        before, last = ("" if said else f"{before} {clause}".strip()), said
        topic = clause if said else topic
        if rest:
            return
        conditional = conditional or here is not None


def _clause(clause: str, context: _Context, known: Sequence[Nameable]) -> _Said | None:
    if phrases.DONE.match(clause):
        return _Said(subject=None, status="success", rule="S0")
    for phrase in phrases.possible(clause):
        if phrase.follows and (context.last is None or context.last.rule not in phrase.follows):
            continue
        for match in phrase.pattern.finditer(clause):
            if _stands(phrase, match, context, known):
                said = _bound(phrase, match, context, known)
                if said is not None:
                    return said
    if phrases.WRONG.search(clause):
        words = clause.split()
        meant = _meant(Words(act=None, object=words, others=words), "", known) or (None, False)
        return _Said(subject=meant[0], status="failure", rule="F0")
    return None


def _stands(
    phrase: Phrase, match: re.Match[str], context: _Context, known: Sequence[Nameable]
) -> bool:
    """Whether a phrase found is meant: not a wish, a habit, another's word or a further attempt."""
    verb, clause = match["verb"], match.string
    if phrase.past and not is_past(verb):
        return False
    if phrases.REPORTED.search(clause, 0, match.start()):
        return False
    if phrase.polarity == "failure":
        own_act = any(stem(verb) in tool.core for tool in known)
        return not (phrases.AGAIN.search(clause) or (phrase.id == "F6" and own_act))
    if phrases.PRESENT.match(match[0]) and phrases.HABIT.search(clause):
        return False
    if phrases.PAST.match(match[0]) and phrases.BACKGROUND.search(clause):
        return False
    lead, rest = clause[: match.start()].split(), clause[match.end() :].split()
    if phrases.NOT_SAID & {*lead, *context.before.split()} or phrases.NONE & set(rest[:1]):
        return False
    return not (phrases.MODAL & set(lead[-3:]) or lead[-1:] == ["to"])


def _bound(
    phrase: Phrase, match: re.Match[str], context: _Context, known: Sequence[Nameable]
) -> _Said | None:
    clause, (start, end) = match.string, match.span("verb")
    before, after = clause[:start], clause[end:]
    if phrase.id == "F7":
        object_ = clause[start:].split()
    elif phrase.object_first or (phrases.BE.search(match[0]) and phrase.id != "S3"):
        object_ = [*phrases.head(context.before), *phrases.head(before)]
    else:
        object_ = phrases.head(after)
    words = Words(
        act=None if phrase.generic else match["verb"],
        object=object_,
        others=f"{context.before} {before} {after}".split(),
    )
    meant = _meant(words, context.topic, known)
    if meant is None:
        return None
    told = f"{context.before} {clause[: match.end()]}"
    status: ClaimStatus = "unknown" if phrases.UNSURE.search(told) else phrase.polarity
    return _Said(subject=meant[0], status=status, rule=phrase.id, pointed=meant[1])


def _meant(said: Words, topic: str, known: Sequence[Nameable]) -> tuple[str | None, bool] | None:
    """The subject and whether it was pointed at; None when unbound.

    "it" takes the words of the clause before.

    An object that names a tool itself points nowhere: in "note that your refund has been processed"
    the word "that" is no pronoun.
    """
    tries = [(said, False)]
    named = stems(said.object)
    pointing = phrases.POINTING & {*said.object, *said.others}
    if topic and pointing and not any(tool.core & named for tool in known):
        back = topic.split()
        wider = Words(act=said.act, object=[*said.object, *back], others=[*said.others, *back])
        tries.insert(0, (wider, True))
    for words, back_pointed in tries:
        try:
            return bind(words, known), back_pointed
        except Unbound:
            continue
    return None
