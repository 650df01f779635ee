"""The model and the tools that an agent ``agent(llm, tools)`` is given: each call is a crossing.

**Rules**
1. What is behind them is given with them, or nothing is: then only a tape answers.
2. A request that a replay's plan changes is changed here, before it is looked up or sent.
3. What failed fails again, as the class of that name where it is loaded, else as ``Failed``.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Literal

from sidecar.capture.plan import Patch
from sidecar.capture.seams.raising import rebuilt
from sidecar.capture.seams.session import Session, active, current
from sidecar.tape.compose import NOTHING, Fact
from sidecar.tape.value import address, encoded, payload

Real = Callable[..., Any]
_KIND_OF: Final[dict[str, tuple[Any, Any]]] = {
    "provider": ("llm_call", "provider"),
    "tool": ("tool_call", "tool"),
    "human": ("human_input", "human"),
}


class Failed(Exception):
    """A call failed on the tape with a class that is not loaded here; the text is the tape's."""


class NotGiven(LookupError):
    """Nothing real is behind a call that went live."""


class Llm:
    """A model: ``llm(messages=[…], model="…")``, or ``llm({…})``; the answer as it was given."""

    def __init__(self, real: Real | None = None, changes: Sequence[Patch] = ()) -> None:
        self._real, self._changes = real, tuple(changes)

    def __call__(self, request: Mapping[str, Any] | None = None, /, **more: Any) -> Any:
        """Ask."""
        given: Any = {**(request or {}), **more}
        for one in self._changes:
            given = one.request(given)
        name = str(given.get("model", "llm"))
        return _crossed("provider", name, given, _bound(self._real, given))


class Tools:
    """Tools by name: ``tools.read(order=1)`` or ``tools["read"](order=1)``.

    ``decide``, ``human`` and ``state`` are what they say and no tools; one of such a name is asked
    for by ``tools["decide"]``. Who answers for people is ``human`` among the real tools.
    """

    def __init__(self, real: Mapping[str, Real] | None = None) -> None:
        self._real = dict(real or {})

    def __getitem__(self, name: str) -> Real:
        real = self._real.get(name)

        def call(**arguments: Any) -> Any:
            return _crossed("tool", name, arguments, _bound(real, **arguments))

        return call

    def __getattr__(self, name: str) -> Real:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def decide(self, name: str, value: Any) -> Any:
        """A decision of the agent's configuration, ``value`` unless a replay says another."""
        return _entered("decision", None, name, NOTHING, lambda: value)

    def human(self, name: str, request: Any) -> Any:
        """What a person says to a request."""
        return _crossed("human", name, request, _bound(self._real.get("human"), name, request))

    def state(self, name: str, patch: Sequence[Mapping[str, Any]], before: Any, after: Any) -> None:
        """Tell that the world changed: an RFC 6902 patch, and the state on both sides of it."""
        session = active()
        if session is None:
            return
        digests = [address(payload(encoded(one))) for one in (before, after)]
        told = {"patch": [*patch], "before": digests[0], "after": digests[1]}
        session.note(
            Fact(
                kind="state_patch",
                seam="tool",
                agent=session.agent,
                name=name,
                output=told,
                cause=session.lane().frontier,
            )
        )


def called(agent: Real, session: Session, llm: Llm, tools: Tools) -> None:
    """Call an agent; what it returns is the run's output.

    A mapping of ``output`` and at most ``claimed``, ``verified`` and ``reason`` says all of these.
    """
    said = agent(llm, tools)
    known = {"output", "claimed", "verified", "reason"}
    if isinstance(said, Mapping) and "output" in said and said.keys() <= known:
        session.output.update(said)
    else:
        session.output["output"] = said


def _bound(real: Real | None, *words: Any, **more: Any) -> Real | None:
    return None if real is None else partial(real, *words, **more)


def _crossed(seam: Literal["provider", "tool", "human"], name: str, given: Any, real: Any) -> Any:
    kind, where = _KIND_OF[seam]

    def absent() -> Any:
        raise NotGiven(f"there is no real {seam} {name}: give one, or replay from a tape")

    return _entered(kind, where, name, given, real or absent)


def _entered(kind: Any, seam: Any, name: str, given: Any, real: Callable[[], Any]) -> Any:
    session = current()
    if session is None:
        return real()
    # A model is not told apart by its name: another model at the same place is a change of it.
    label = "" if seam == "provider" else name
    x = session.enter(kind=kind, seam=seam, name=name, given=given, label=label)
    if x.played:
        if x.error is not None:
            raise rebuilt(x.error, Failed)
        return x.out
    try:
        with x.inside():
            got = real()
    except BaseException as error:
        x.failed(error)
        raise
    x.done(got)
    return got
