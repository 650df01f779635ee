"""Claims: what the agent said happened, in its final answer and in ``agenttwin.claim.*``.

Rules
1. A claim proves nothing; ``contradict`` and ``outcome`` set it against evidence.
2. A sentence yields a claim only through a phrase of ``phrases`` that ``naming`` can bind to a tool
   of the trace or the registry, or to the run as a whole (subject None): docs/specs/claims.md.
3. What cannot be bound is no claim: silence is safer than a claim the agent did not make.
4. One claim a subject, status, source and sentence. Success and failure of one subject may both
   stand: an answer may speak of two targets.
5. The same trace gives the same claims, ids included.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Literal

from msgspec import Struct

from processors.model.evidence import Claim
from processors.model.names import CLAIM_STATUS, CLAIM_SUBJECT, CLAIM_TEXT, SideEffectClass
from processors.model.step import Step
from processors.model.trace import AgentTrace
from processors.verify import phrases
from processors.verify.clauses import expand, fragments, sentences
from processors.verify.naming import Nameable, Unbound, Words, bind, nameables, resolve
from processors.verify.phrases import Phrase
from processors.verify.subjects import is_past, stem, stems

ClaimStatus = Literal["success", "failure", "unknown"]

ANSWER_CHARACTERS_MAX = 20_000
_STATUS_WORDS: dict[str, ClaimStatus] = {
    **dict.fromkeys(("success", "succeeded", "successful", "ok", "true", "done"), "success"),
    **dict.fromkeys(("completed", "confirmed"), "success"),
    **dict.fromkeys(("failure", "failed", "fail", "error", "false", "denied"), "failure"),
}


class _Context(Struct, frozen=True, kw_only=True):
    before: str
    topic: str
    last: "_Said | None"


class _Said(Struct, frozen=True, kw_only=True):
    subject: str | None
    status: ClaimStatus
    rule: str


def claims(
    trace: AgentTrace, tools: Mapping[str, SideEffectClass] | None = None
) -> tuple[Claim, ...]:
    """Every claim of a trace: those of attributes in the steps' order, then the final answer's.

    ``tools`` are the registry's names and classes; a claim may name a tool that was never called.
    """
    if not trace.final_output and not any(_declares(step) for step in trace.steps):
        return ()
    known = nameables(trace, tools or {})
    unique: dict[tuple[str | None, ...], Claim] = {}
    for claim in (*_declared(trace.steps, known), *_spoken(trace.final_output, known)):
        key = (claim.subject, claim.status, claim.source, claim.text)
        if key not in unique:
            unique[key] = _numbered(claim, len(unique) + 1)
    return tuple(unique.values())


def _numbered(claim: Claim, number: int) -> Claim:
    return Claim(
        claim_id=f"claim-{number}",
        subject=claim.subject,
        status=claim.status,
        source=claim.source,
        rule=claim.rule,
        step_id=claim.step_id,
        text=claim.text,
    )


def _declares(step: Step) -> bool:
    return CLAIM_SUBJECT in step.attributes or CLAIM_STATUS in step.attributes


def _declared(steps: Iterable[Step], known: Sequence[Nameable]) -> Iterator[Claim]:
    for step in steps:
        attributes = step.attributes
        if not _declares(step):
            continue
        subject, text = attributes.get(CLAIM_SUBJECT), attributes.get(CLAIM_TEXT)
        word = str(attributes.get(CLAIM_STATUS, "")).strip().lower()
        yield Claim(
            claim_id="",
            subject=resolve(subject, known) if isinstance(subject, str) and subject else None,
            status=_STATUS_WORDS.get(word, "unknown"),
            source="attribute",
            rule="A1",
            step_id=step.step_id,
            text=text if isinstance(text, str) else None,
        )


def _spoken(answer: str | None, known: Sequence[Nameable]) -> Iterator[Claim]:
    topic = ""  # the clause that "it" points back to
    for sentence in sentences((answer or "")[:ANSWER_CHARACTERS_MAX]):
        if sentence.rstrip("\"')]*_ ").endswith("?"):
            continue
        clauses = fragments(expand(sentence))
        for said in _sentence(clauses, topic, known):
            yield Claim(
                claim_id="",
                subject=said.subject,
                status=said.status,
                source="final_answer",
                rule=said.rule,
                text=sentence,
            )
        topic = " ".join(clause for clause, _ in clauses)


def _sentence(
    clauses: list[tuple[str, bool]], topic: str, known: Sequence[Nameable]
) -> Iterator[_Said]:
    before = ""  # clauses without an act of their own: their nouns belong to the next act
    last: _Said | None = None
    conditional = False
    for clause, strong in clauses:
        conditional = conditional and not strong
        rest = phrases.CONDITION_SENTENCE.search(clause)
        here = phrases.CONDITION_CLAUSE.search(clause)
        free = min((match.start() for match in (rest, here) if match), default=len(clause))
        said = None
        if not conditional:
            context = _Context(before=before, topic=topic, last=None if strong else last)
            said = _clause(clause[:free], context, known)
        if said is not None:
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
        subject = _meant(Words(act=None, object=words, others=words), "", known) or (None,)
        return _Said(subject=subject[0], status="failure", rule="F0")
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
    subject = _meant(words, context.topic, known)
    if subject is None:
        return None
    told = f"{context.before} {clause[: match.end()]}"
    status: ClaimStatus = "unknown" if phrases.UNSURE.search(told) else phrase.polarity
    return _Said(subject=subject[0], status=status, rule=phrase.id)


def _meant(said: Words, topic: str, known: Sequence[Nameable]) -> tuple[str | None] | None:
    """The subject in a one-tuple, None when unbound; "it" takes the words of the clause before.

    An object that names a tool itself points nowhere: in "note that your refund has been processed"
    the word "that" is no pronoun.
    """
    tries = [said]
    named = stems(said.object)
    pointing = phrases.POINTING & {*said.object, *said.others}
    if topic and pointing and not any(tool.core & named for tool in known):
        back = topic.split()
        wider = Words(act=said.act, object=[*said.object, *back], others=[*said.others, *back])
        tries.insert(0, wider)
    for words in tries:
        try:
            return (bind(words, known),)
        except Unbound:
            continue
    return None
