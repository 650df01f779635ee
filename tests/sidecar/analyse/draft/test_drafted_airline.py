"""A draft of recorded airline runs: what of them it answers, and that it answers nothing else."""

import gzip
import json
from pathlib import Path

import pytest
from draft_rig import onto

from sidecar.analyse.draft.draft import draft
from sidecar.analyse.draft.heldout import held_out
from sidecar.analyse.draft.model import Asked
from sidecar.replay.import_tau import tau_runs
from sidecar.replay.taped import run_of

pytestmark = pytest.mark.requirement("TWN-06")

RUNS = Path(__file__).parents[5] / "shared" / "corpora" / "tau-airline" / "runs.jsonl.gz"
ASKED = {"think": Asked(class_="read")}


@pytest.fixture(scope="module")
def runs():
    if not RUNS.exists():
        pytest.skip("needs ../shared (corpora/tau-airline), which is absent here")
    return [run_of(one) for one in tau_runs(gzip.decompress(RUNS.read_bytes()), "full")]


def test_the_airlines_reads_are_drafted_and_what_it_does_by_rules_unseen_is_left_out(runs):
    found = draft(runs, asked=ASKED)
    entities = found.document["entities"]
    assert len(entities["users"]["rows"]) == 20 and len(entities["reservations"]["rows"]) == 61
    assert entities["reservations"]["key"] == "reservation_id"
    assert set(entities["users"]["rows"][0]) == {"user_id", "record"}  # it does not hold its name
    alone = {name for name, rules in found.tools().items() if not rules}
    assert {"book_reservation", "cancel_reservation", "update_reservation_flights"} <= alone
    assert not {"get_user_details", "get_reservation_details", "search_direct_flight"} & alone
    assert not found.twin().problems


def test_its_rows_are_those_of_the_world_before_any_run(runs):
    """The world is never shown to the draft: only runs that read and changed it."""
    world = json.loads(gzip.decompress((RUNS.parent / "reservations.json.gz").read_bytes()))
    for row in draft(runs, asked=ASKED).document["entities"]["reservations"]["rows"]:
        assert row == world[row["reservation_id"]]


@pytest.mark.full
def test_of_runs_held_out_what_is_answered_is_answered_as_recorded(runs):
    """Each trial of the 25 tasks on a draft of the other three: 577 calls in all."""
    answered = gaps = 0
    for trial in range(4):
        aside = [one for one in runs if one.name.endswith(f"-{trial}")]
        others = [one for one in runs if one not in aside]
        assert len(aside) == 25
        equal, missing, otherwise = onto(draft(others, asked=ASKED), aside)
        assert not otherwise
        answered, gaps = answered + len(equal), gaps + len(missing)
    assert answered + gaps == 577 and answered >= 300
    one = held_out(runs, asked=ASKED)
    assert one is not None and (one.runs, one.drafted_from) == (20, 80)
    assert one.equal == one.answered > 0
    assert one.answered + one.gaps + one.given + one.unknown == one.calls
