"""Which facts a bundle reads that cost something to have: they are had only where it does.

**Rules**
1. Reading errs on the side of more: a rule that refers to the whole of ``input``, or to a part of
   it that is computed, reads every fact.
2. A fact that is not read is not in the document at all: what is absent was not looked for, and is
   never told as none.
3. A count is of what the ledger says was done, by credential; nothing an agent says of itself
   enters it. The calls of a session without a trace are those of the agent's without one.

Source: gateway.md §2.5, §6.9.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Literal, Protocol, get_args

from processors.model.names import SideEffectClass
from sidecar.gateway.policy.rego import Path, RegoModule
from sidecar.store.ledger import Counted, OpenedCall

Fact = Literal["counters.session", "counters.minute", "counters.hour", "counters.day", "addresses"]
FACTS: frozenset[Fact] = frozenset(get_args(Fact))
WINDOWS_NS: dict[Fact, int] = {
    "counters.session": 86_400 * 10**9,
    "counters.minute": 60 * 10**9,
    "counters.hour": 3_600 * 10**9,
    "counters.day": 86_400 * 10**9,
}
"""How far back each counts. A session with a trace is counted from its start."""
_ADDRESSES: Path = ("input", "context", "network", "resolved_ips")
_CLASSES: tuple[SideEffectClass, ...] = get_args(SideEffectClass)


def read_facts(modules: Iterable[RegoModule]) -> frozenset[Fact]:
    """The facts that these modules read."""
    inputs = {path for module in modules for rule in module.rules for path in rule.inputs}
    return frozenset(fact for fact in FACTS if any(_meet(_place(fact), path) for path in inputs))


class Counts(Protocol):
    """What of the ledger is counted."""

    def counted(self, call: OpenedCall, since_ns: int, *, session: bool) -> list[Counted]:
        """How many calls a principal made since then, by tool; ``session``: of its session."""
        ...


def counters(book: Counts, call: OpenedCall, reads: frozenset[Fact], now_ns: int) -> dict[str, Any]:
    """The counters that are read, as a policy sees them. Raises StoreUnavailable."""
    found = {}
    for fact, window_ns in WINDOWS_NS.items():
        if fact in reads:
            window = fact.partition(".")[2]
            counted = book.counted(call, now_ns - window_ns, session=window == "session")
            found[window] = counts(counted)
    return found


def counts(counted: Sequence[Counted]) -> dict[str, Any]:
    """What one counter says: ``calls`` that had or may have had their effect, by class and by
    tool, and how many were ``refused``."""
    made = {each.tool: 0 for each in counted if each.made}
    classes = dict.fromkeys(_CLASSES, 0)
    for each in counted:
        if each.made:
            made[each.tool] += each.made
            classes[each.class_] += each.made
    return {
        "calls": sum(made.values()),
        "refused": sum(each.refused for each in counted),
        "classes": classes,
        "tools": made,
    }


def missing(document: dict[str, Any], reads: frozenset[Fact]) -> bool:
    """Whether a document lacks a fact that is read: it was made for another bundle."""
    if not reads:
        return False
    context = document.get("context")
    context = context if isinstance(context, dict) else {}
    counters, network = context.get("counters") or {}, context.get("network") or {}
    wanted = {fact.partition(".")[2] for fact in reads if fact != "addresses"}
    return not wanted <= counters.keys() or ("addresses" in reads and "resolved_ips" not in network)


def _place(fact: Fact) -> Path:
    if fact == "addresses":
        return _ADDRESSES
    return ("input", "context", *fact.split("."))


def _meet(place: Path, path: Path) -> bool:
    shorter = min(len(place), len(path))
    return place[:shorter] == path[:shorter]
