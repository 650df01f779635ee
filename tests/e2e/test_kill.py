"""Whatever process is killed, whenever: no acknowledged span is lost, and none is there twice."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kill_rounds import play


@pytest.mark.requirement("REC-02")
@pytest.mark.requirement("REC-06")
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(3, id="3 rounds"), pytest.param(20, id="20 rounds", marks=pytest.mark.full)],
)
def test_kill_9_of_any_process_loses_and_doubles_nothing(tmp_path, rounds):
    counted, killed = play(tmp_path, rounds, seed=20260701)
    assert (counted["missing"], counted["twice"]) == (0, 0), counted
    assert counted["acknowledged"] > 50 * rounds
    assert min(killed.values()) >= rounds // 10
