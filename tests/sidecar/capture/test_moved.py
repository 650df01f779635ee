"""Strict replay for a bisection: what a refactor moved is found again, or told to be no verdict."""

import itertools

import pytest
from capture_rig import recorded, run, session_of

from sidecar.capture.modes import player_of
from sidecar.capture.order import outcome_of
from sidecar.capture.plan import Plan
from sidecar.capture.play import Drifted
from sidecar.capture.record import redactor_of
from sidecar.capture.seams.session import current
from sidecar.capture.seams.sites import Site
from sidecar.tape.codec import DEFAULT, Codecs

pytestmark = pytest.mark.requirement("BIS-01")


def at(place, given):
    """A tool called in a function of that name."""
    x = current().enter(
        kind="tool_call", seam="tool", name="echo", given=given, site=Site("agent", place)
    )
    if not x.played:
        x.done({"echo": given})


def here(given):
    at("here", given)


def there(given):
    at("there", given)


def yonder(given):
    at("yonder", given)


def tick(place="tick"):
    x = current().enter(
        kind="decision", seam="clock", name="tick", site=Site("agent", place), label="tick"
    )
    if not x.played:
        x.done(1)


def tock():
    tick("tock")


def replayed(tape, agent, *, moved=True):
    player = player_of(Plan(moved=moved), tape, redactor_of("full"), Codecs(DEFAULT))
    session = session_of(player=player)
    try:
        run(session, agent)
    except Drifted:
        pass
    return session


def outcome(tape, agent, **more):
    return outcome_of(replayed(tape, agent, **more).drift)


def of(*calls):
    """An agent that makes calls: a function and what it is given."""

    def agent():
        for call, *given in calls:
            call(*given)

    return agent


def test_what_was_moved_is_as_recorded(tmp_path):
    tape = recorded(tmp_path / "a.tape", of((here, "a"), (tick,), (here, "b")))
    moved = of((there, "a"), (tock,), (there, "b"))
    assert outcome(tape, moved, moved=False) == "miss"
    session = replayed(tape, moved)
    assert session.drift is None
    assert session.tally.digest() == tape.seal.exact_digest


def test_what_was_moved_and_asks_otherwise_has_left_its_tape(tmp_path):
    tape = recorded(tmp_path / "a.tape", of((here, "a"), (here, "b")))
    session = replayed(tape, of((there, "a"), (there, "c")))
    assert (session.drift.kind, outcome_of(session.drift)) == ("ARGS", "diverged")
    assert outcome(tape, of((there, "a"))) == "miss"


def test_several_that_moved_are_told_apart_by_their_order(tmp_path):
    tape = recorded(tmp_path / "a.tape", of((here, "a"), (there, "b"), (here, "c")))
    swapped = {here: there, there: yonder}
    again = of(
        *((swapped[call], given) for call, given in zip((here, there, here), "abc", strict=True))
    )
    # ``there`` is known to the tape, and was taken for itself.
    assert outcome(tape, again) != "ok"
    tape = recorded(tmp_path / "b.tape", of((here, "a"), (here, "b"), (there, "c")))
    assert outcome(tape, of((yonder, "a"), (yonder, "b"), (there, "c"))) == "ok"


def test_where_what_moved_cannot_be_told_there_is_no_verdict(tmp_path):
    tape = recorded(tmp_path / "a.tape", of((here, "a"), (there, "b")))
    assert outcome(tape, of((yonder, "b"), (there, "a"))) == "incomparable"
    # One of two calls at a site moved away.
    tape = recorded(tmp_path / "b.tape", of((here, "a"), (here, "b")))
    assert outcome(tape, of((here, "a"), (there, "b"))) == "incomparable"


def test_a_call_more_is_no_move(tmp_path):
    tape = recorded(tmp_path / "a.tape", of((here, "a"), (tick,)))
    for more in (
        of((here, "a"), (there, "x"), (tick,)),
        of((there, "a"), (here, "a"), (tick,)),
        of((here, "a"), (tock,), (tick,)),
        of((here, "a"), (tick,), (tick,)),
        of((here, "a"), (tick,), (tock,)),
    ):
        assert outcome(tape, more) in ("miss", "diverged")


def test_only_a_strict_replay_takes_moves():
    assert Plan(mode="tools", moved=True).problems() == [
        "only in the mode strict call sites may have moved"
    ]
    assert Plan(moved=True).problems() == []


@pytest.mark.parametrize("names", [*itertools.permutations("abc")])
def test_a_whole_module_that_was_renamed_is_found_again(tmp_path, names):
    def agent_of(*functions):
        return of(*((function, name) for function, name in zip(functions, names, strict=True)))

    tape = recorded(tmp_path / "a.tape", agent_of(here, there, here))
    assert outcome(tape, agent_of(yonder, there, yonder)) == "ok"
