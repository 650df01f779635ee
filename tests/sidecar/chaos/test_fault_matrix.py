"""``sidecar chaos fault-matrix``: what it says, and that it finds what it is there to find."""

import json

import pytest
from click.testing import CliRunner
from spoiled_ledger import without_intent

from sidecar.chaos.matrix import CLASSES, ROWS, Seen, conclude, judge, lines
from sidecar.cli.chaos import command

ROW = {row.name: row for row in ROWS}


def tried(*names, spoil=None):
    asked = [part for name in names for part in ("--row", name)]
    ran = CliRunner().invoke(command, ["fault-matrix", "--output", "json", *asked], obj=spoil)
    assert ran.exit_code in (0, 1), (ran.output, ran.exception)
    return ran.exit_code, json.loads(ran.stdout)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_only_what_is_documented_passes(row):
    good = Seen(started=row.starts, answers=row.answers, effects=(row.effects,) * len(row.answers))
    assert judge(row, good).faults == ()
    assert judge(row, Seen(started=not row.starts)).faults
    if not row.starts:
        return
    assert len(row.answers) == len(CLASSES)
    for place, class_ in enumerate(CLASSES):
        answers = [*row.answers]
        answers[place] = (201, "")
        (fault,) = judge(row, Seen(started=True, answers=tuple(answers))).faults
        assert fault.startswith(f"{class_}: 201, not ")
        effects = [0, 0, 0]
        effects[place] = row.effects + 1
        wrong = Seen(started=True, answers=row.answers, effects=tuple(effects))
        assert judge(row, wrong).faults == (
            f"{class_}: {row.effects + 1} effects, not {row.effects} at most",
        )


def test_one_fault_or_no_row_is_no_proof():
    row = ROW["tool_away"]
    good = judge(row, Seen(started=True, answers=row.answers))
    bad = judge(row, Seen(started=False))
    assert conclude((good,)).holds and "holds: 1 of 1" in lines(conclude((good,)))
    assert not conclude((good, bad)).holds and "DOES NOT HOLD" in lines(conclude((good, bad)))
    assert not conclude(()).holds


def test_a_failure_that_is_not_tabled_is_a_usage_error():
    ran = CliRunner().invoke(command, ["fault-matrix", "--row", "earthquake"])
    assert ran.exit_code == 2 and "earthquake" in ran.output


@pytest.mark.full
@pytest.mark.requirement("GW-04")
def test_a_broken_gateway_answers_as_documented():
    code, matrix = tried("tool_breaks_off", "wrong_seal_key")
    assert (code, [row["faults"] for row in matrix["rows"]]) == (0, [[], []])


@pytest.mark.full
@pytest.mark.requirement("GW-04")
def test_every_row_of_the_fail_matrix_is_as_documented():
    code, matrix = tried()
    assert [row["faults"] for row in matrix["rows"]] == [[] for _ in ROWS]
    assert code == 0 and matrix["holds"]


@pytest.mark.full
@pytest.mark.requirement("GW-04")
def test_a_gateway_without_a_write_ahead_intent_is_found():
    code, matrix = tried("ledger_locked", spoil=without_intent)
    (row,) = matrix["rows"]
    assert code == 1 and row["seen"]["effects"] == [0, 1, 1]
