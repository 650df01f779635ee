"""Whatever process is killed, whenever: no acknowledged span is lost, and none is there twice.

Downstream none is lost either; a window may come twice, which is what "at least once" says.
"""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from kill_rounds import FAULTS, play


@pytest.mark.requirement("REC-02")
@pytest.mark.requirement("REC-06")
@pytest.mark.parametrize(
    "rounds",
    [pytest.param(3, id="3 rounds"), pytest.param(30, id="30 rounds", marks=pytest.mark.full)],
)
def test_kill_9_of_any_process_loses_and_doubles_nothing(tmp_path, rounds):
    counted, killed = play(tmp_path, rounds, seed=20260701)
    assert [counted[kind] for kind in FAULTS] == [0, 0, 0], counted
    assert counted["acknowledged"] > 20 * rounds
    assert min(killed.values()) >= rounds // 15
