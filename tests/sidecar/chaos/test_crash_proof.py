"""``sidecar chaos crash-proof``: what it proves, and that it finds what it is there to find."""

import json
from random import Random

import pytest
from click.testing import CliRunner
from msgspec import structs
from postgres_rig import database
from spoiled_ledger import busy_at_first, without_intent

from sidecar.chaos.plan import CLASSES, LEFT, STEPS, UPSTREAMS, Case, cases, may_end, may_leave
from sidecar.chaos.proof import Attempt, Found, Store, conclude, lines
from sidecar.cli.chaos import command

CELLS = 3 * 9 * 2 + 6  # upstreams, steps, classes with effects; and the steps of a read


def proved(*arguments, spoil=None):
    ran = CliRunner().invoke(command, ["crash-proof", "--output", "json", *arguments], obj=spoil)
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    return ran.exit_code, json.loads(ran.stdout)


def case(step="after_send", upstream="plain", class_="irreversible", turn=0):
    return Case(number=1, upstream=upstream, step=step, class_=class_, turn=turn)


def found(of=None, **changes):
    attempt = Attempt(call_id="c1", phases=("authorised", "executed"))
    fields = {
        "case": of or case(), "killed": True, "left": "sent", "state": "unknown", "effects": 1,
        "answered": 409, "attempts": (attempt,),
    }  # fmt: skip
    return Found(**{**fields, **changes})


def test_every_step_upstream_and_class_is_tried_before_any_is_tried_twice():
    planned = cases(2 * CELLS, Random(7))
    for half in (planned[:CELLS], planned[CELLS:]):
        assert len({(each.upstream, each.step, each.class_) for each in half}) == CELLS
    assert {each.step for each in planned} == set(STEPS)
    assert {each.upstream for each in planned} == set(UPSTREAMS)
    assert {each.class_ for each in planned} == set(CLASSES)
    assert len({each.trace_id for each in planned}) == len(planned)
    assert cases(9, Random(7)) == planned[:9] != cases(9, Random(8))


def test_only_what_is_documented_may_be_left_and_may_come_of_it():
    assert all(may_leave(case(step), state) for step in STEPS for state in LEFT[step])
    assert not may_leave(case("after_send"), "completed")
    assert not may_leave(case("after_send"), None)
    assert may_end(case(), "sent", "unknown") and not may_end(case(), "sent", "completed")
    assert not may_end(case(upstream="keyed"), "sent", "unknown")
    assert may_end(case(upstream="recipe"), "sent", "resolved_done")
    assert not may_end(case(), "claimed", "unknown")
    shared = structs.replace(case("after_send", upstream="recipe"), shared=True)
    for left, end in (("unknown", "resolved_done"), ("resolved_done", "resolved_done"),
                      ("resolved_not_done", "completed")):  # fmt: skip
        assert may_leave(shared, left) and may_end(shared, left, end)
        assert not may_leave(structs.replace(shared, shared=False), left)
    assert not may_leave(shared, "failed_safe") and not may_end(shared, "resolved_done", "unknown")
    claimed = structs.replace(case("after_claim"), shared=True)
    assert may_leave(claimed, "failed_safe") and may_end(claimed, "failed_safe", "completed")
    assert not may_leave(claimed, "unknown")
    read = case("after_response", class_="read")
    assert may_leave(read, None) and not may_leave(read, "sent") and may_end(read, None, None)


@pytest.mark.parametrize(
    ("changes", "counted"),
    [
        ({}, (0, 0, 0)),
        ({"effects": 2}, (1, 0, 1)),
        ({"attempts": (Attempt(call_id="c1", phases=("authorised",)),)}, (0, 1, 0)),
        ({"attempts": ()}, (0, 1, 0)),
        ({"state": "completed"}, (0, 0, 1)),
        ({"left": None}, (0, 0, 1)),
        ({"answered": 201}, (0, 0, 1)),
        ({"answered": 0}, (0, 0, 1)),
        ({"orphans": 1}, (0, 0, 0)),
    ],
)
def test_whatever_counts_against_it_is_counted_and_it_does_not_hold(changes, counted):
    proof = conclude([found(**changes)], [], seed=1)
    documented = round((1 - proof.documented_rate) * 1)
    assert (proof.duplicate_effects, proof.lost_receipts, documented) == counted
    assert proof.holds == (not changes)
    assert ("DOES NOT HOLD" in lines(proof)) == bool(changes)


def test_a_kill_that_was_not_made_proves_nothing_and_is_no_fault_once_it_was_made():
    missed = found(killed=False, left=None, state="completed", answered=201)
    again = found(case(turn=1))
    proof = conclude([missed, again], [], seed=1)
    assert proof.holds and (proof.kills, proof.not_made) == (1, 1)
    assert proof.states == {"unknown": 1} and proof.documented_rate == 1.0
    assert "not made and tried again: 1" in lines(proof)
    never = conclude([missed], [], seed=1)
    assert not never.holds and never.kills == 0 and "was not killed" in never.faults[0]
    twice = conclude([found(killed=False, effects=2), again], [], seed=1)
    assert not twice.holds and twice.duplicate_effects == 1


def test_a_case_is_played_again_under_another_key_and_in_another_trace():
    first, second = case(), case(turn=1)
    assert first.order != second.order and first.trace_id != second.trace_id
    assert len(second.trace_id) == 32


def test_so_many_of_the_kills_as_wanted_are_of_whole_sidecars():
    planned = cases(40, Random(7), whole=4)
    assert sum(each.whole for each in planned) == 4
    assert [(each.step, each.upstream) for each in planned] == [
        (each.step, each.upstream) for each in cases(40, Random(7))
    ]
    assert all(each.whole for each in cases(3, Random(7), whole=9))


def test_a_broken_chain_and_a_proof_of_nothing_do_not_hold():
    broken = Store(where="plain", entries=3, fault="the audit chain breaks at 4: its hash")
    assert not conclude([found()], [broken], seed=1).holds
    assert not conclude([], [], seed=1).holds


@pytest.mark.requirement("IDM-02")
def test_gateways_killed_at_steps_of_a_call_make_no_second_effect_and_lose_no_receipt():
    code, proof = proved("--iterations", "2", "--seed", "1590")
    assert (code, proof["faults"]) == (0, [])
    assert proof["steps"] == {"after_send": 1, "mid_send": 1}
    assert (proof["kills"], proof["documented_rate"]) == (2, 1.0)
    assert (proof["duplicate_effects"], proof["lost_receipts"]) == (0, 0)


@pytest.mark.row("T33")
@pytest.mark.requirement("IDM-02")
def test_with_the_write_ahead_intent_taken_out_the_same_command_fails():
    """T33: the claim must be the first durable write."""
    code, proof = proved("--iterations", "1", "--seed", "12", spoil=without_intent)
    assert code == 1 and not proof["holds"]
    assert proof["steps"] == {"before_outcome": 1} and proof["duplicate_effects"] == 1


@pytest.mark.full
@pytest.mark.row("A", "T33")
@pytest.mark.requirement("IDM-02")
def test_a_whole_sidecar_is_killed_with_its_children_and_its_missing_intent_is_found():
    code, proof = proved("--iterations", str(CELLS), "--whole", "12")
    assert (code, proof["faults"]) == (0, [])
    assert (proof["kills"], proof["whole"]) == (CELLS, 12)
    code, proof = proved("--iterations", "1", "--whole", "1", "--seed", "12", spoil=without_intent)
    assert (code, proof["whole"], proof["duplicate_effects"]) == (1, 1, 1)


@pytest.mark.full
@pytest.mark.row("A")
def test_a_gateway_that_refuses_the_call_is_killed_at_the_next_try_and_said_so():
    code, proof = proved("--iterations", "1", "--seed", "139", spoil=busy_at_first)
    assert (code, proof["faults"]) == (0, [])
    assert (proof["kills"], proof["not_made"]) == (1, 1)


@pytest.mark.full
@pytest.mark.row("A", "T34")
@pytest.mark.requirement("IDM-02")
def test_500_kills_make_no_second_effect_and_lose_no_receipt():
    """Row A, T34: whatever step a call dies at, the next life answers for it."""
    code, proof = proved()
    assert (code, proof["faults"]) == (0, [])
    assert proof["whole"] == 50
    assert (proof["kills"], proof["documented_rate"]) == (500, 1.0)
    assert (proof["duplicate_effects"], proof["lost_receipts"]) == (0, 0)
    assert set(proof["steps"]) == set(STEPS)
    by = {row["upstream"].partition(" ")[0]: row for row in proof["upstreams"]}
    assert by["keyed"]["recovered"] == by["keyed"]["kills"]
    assert by["recipe"]["recovered"] == by["recipe"]["kills"]
    assert 0 < by["plain"]["recovered"] < by["plain"]["kills"]


@pytest.mark.full
@pytest.mark.row("A")
@pytest.mark.requirement("IDM-02")
def test_gateways_killed_on_one_postgres_make_no_second_effect_and_lose_no_receipt():
    with database() as url:
        code, proof = proved("--iterations", str(CELLS), "--store", url)
    assert (code, proof["faults"]) == (0, [])
    assert (proof["kills"], proof["duplicate_effects"], proof["lost_receipts"]) == (CELLS, 0, 0)
