"""Documents a bundle is tried on before it decides anything: made of the words it is written with.

**Rules**
1. A document says one word of the policy or its data wherever it may, for each class, and for the
   irreversible one without an idempotency key too: so that rules about that word are evaluated.
2. Documents are made as real ones are, and are bounded in number whatever the bundle.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from processors.model.call import Action
from processors.model.principal import Principal
from sidecar.gateway.policy.document import (
    Situation,
    ToolFacts,
    document,
    encode,
    list_document,
)
from sidecar.gateway.policy.process import DECIDE, LIST
from sidecar.gateway.policy.rego import walk

WORDS_MAX = 40
WORD_CHARS_MAX = 200
_CALLS = (
    *(("read", True), ("write", True), ("irreversible", True), ("irreversible", False)),
    ("unlisted", True),
)
_AMOUNTS = (None, "0.01", "1000000")


def words(trees: Iterable[Any], data: Any) -> tuple[str, ...]:
    """The texts of the policy, then those of its data: at most ``WORDS_MAX``."""
    written = {
        node["value"]
        for tree in trees
        for tag, node in walk(tree)
        if tag in ("String", "RawString") and isinstance(node.get("value"), str)
    }
    found = [*sorted(written), *sorted(set(_texts(data)) - written)]
    short = [word for word in found if 0 < len(word) <= WORD_CHARS_MAX]
    # Names first: what a rule compares with is short, what it answers with is a sentence.
    short.sort(key=lambda word: (" " in word, len(word)))
    return tuple(short[:WORDS_MAX])


def probes(said: Iterable[str]) -> tuple[tuple[int, bytes], ...]:
    """(DECIDE or LIST, encoded document) about those words."""
    return tuple((kind, encode(made)) for kind, made in _documents(("probe", *said)))


def _documents(said: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, word in enumerate(said):
        who = Principal(id=f"key:{word}", kind="agent", project=word, name=word)
        for place, (class_, keyed) in enumerate(_CALLS):
            amount = _AMOUNTS[(number + place) % len(_AMOUNTS)]
            situation = Situation(
                time_ns=1,
                request_id="probe",
                session_id=word if keyed else None,
                key_present=keyed,
                prior_tools=(word,) * keyed,
                provenance=(word,) * keyed,
            )
            yield DECIDE, document(_action(word, class_, amount), who, situation)
        tool = ToolFacts(name=word, upstream=word, class_="read", tool_digest=word)
        yield LIST, list_document(tool, who, Situation(time_ns=1, request_id="probe"))


def _action(word: str, class_: Any, amount: str | None) -> Action:
    return Action(
        tenant=word,
        agent=f"key:{word}",
        tool=word,
        upstream=word,
        class_=class_,
        method="POST",
        path=f"/{word}",
        arguments={word: word, "value": word, "amount": amount},
        cost_amount=amount,
        cost_currency="EUR" if amount else None,
    )


def _texts(value: Any) -> Iterator[str]:
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict):
            waiting += [*item, *item.values()]
        elif isinstance(item, list):
            waiting += item
