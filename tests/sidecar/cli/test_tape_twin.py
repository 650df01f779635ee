"""``sidecar tape replay --mode twin``: one tape's calls on twins."""

import json

import click
import pytest
from click.testing import CliRunner
from recordings_rig import ORDER, tape

from sidecar.cli.tape import command
from sidecar.errors import SidecarError

pytestmark = pytest.mark.requirement("REP-01")

TWIN = """\
twin: shop
entities:
  orders: {key: id, rows: [{id: A-1, open: true}]}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    preconditions:
      - {require: 'row("orders", arguments.order_id) != null', status: 404}
    response: {body: 'row("orders", arguments.order_id)'}
"""
READ = ("get_order", {"order_id": "A-1"}, ORDER)


@pytest.fixture
def replayed(tmp_path, monkeypatch):
    (tmp_path / "twin.yaml").write_text(TWIN)
    monkeypatch.chdir(tmp_path)

    def run(*calls, more=(), output="json", **how):
        (tmp_path / "a.tape").unlink(missing_ok=True)
        tape(tmp_path / "a.tape", *calls, **how)
        words = ("replay", "a.tape", "--mode", "twin", "--twin", "twin.yaml", "--output", output)
        done = CliRunner().invoke(command, [*words, *more], standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, json.loads(done.stdout) if output == "json" else done.output

    return run


def test_a_tape_whose_calls_the_twin_answers_alike_is_as_recorded(replayed):
    code, told = replayed(READ, READ)
    assert (code, told["outcome"], told["drift"], told["calls"]) == (0, "ok", [], 2)


def test_another_result_and_another_end_are_drifts_with_their_place(replayed):
    other = ("get_order", {"order_id": "A-1"}, {**ORDER, "open": False})
    missing = ("get_order", {"order_id": "B-2"}, ORDER)
    code, told = replayed(other, missing)
    assert (code, told["outcome"]) == (2, "diverged")
    first, second = told["drift"]
    assert (first["kind"], first["places"]) == ("RESULT", ["/open"])
    assert (second["kind"], second["status"]) == ("ERROR_KIND", 404)
    _, text = replayed(other, missing, output="text")
    assert "RESULT at 2, get_order: /open" in text and "2 parted from the recording" in text


def test_what_the_twin_does_not_have_or_the_tape_does_not_hold_decides_nothing(replayed):
    with pytest.raises(SidecarError, match="its fidelity is L") as refused:
        replayed(READ, capture="off")
    assert refused.value.code == 2
    code, told = replayed(("open_order", {"order_id": "A-1"}, {}))
    assert (code, told["drift"][0]["kind"]) == (2, "ERROR_KIND")  # a service without that tool


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--", "python", "agent.py"), "has no agent"),
        (("--fork", "3"), "--fork is of another mode"),
        (("--live", "tool"), "--live is of another mode"),
    ],
)
def test_what_is_of_another_mode_is_refused(replayed, more, says):
    with pytest.raises(click.UsageError, match=says):
        replayed(READ, more=more)
