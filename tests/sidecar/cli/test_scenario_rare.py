"""``sidecar scenario fuzz --rare`` as it is typed: probabilities, and a greatest one to hold to."""

import json

import click
import pytest
from click.testing import CliRunner

from sidecar.cli.root import root
from sidecar.errors import SidecarError

TWIN = """\
twin: bank
entities: {payments: {key: id, rows: []}}
tools:
  - name: pay
    match: {method: POST, path: /payments}
    class: write
    idempotency: false
    let: {id: 'next_id("P")'}
    effects: [{op: insert, entity: payments, values: {id: id}}]
    response: {body: {id: id}}
"""
SUITE = """\
suite: pays
twins: [twin.yaml]
scenarios:
  - id: twice
    input: pay
    faults: [{fault: timeout_before, tool: pay, when: {probability: 0.02}}]
    expect: [{type: state, that: 'count("payments", {}) == 1'}]
"""
AGENT = """\
def patient(request, call):
    if call("pay", {}).status is None:
        call("pay", {})
    return "Done."
"""


@pytest.fixture
def fuzz(tmp_path, monkeypatch):
    (tmp_path / "twin.yaml").write_text(TWIN)
    (tmp_path / "suite.yaml").write_text(SUITE)
    (tmp_path / "patient_payer.py").write_text(AGENT)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))

    def run(*more):
        words = ["scenario", "fuzz", "suite.yaml", "--agent", "py:patient_payer:patient", *more]
        done = CliRunner().invoke(root, words, standalone_mode=False)
        if done.exception is not None:
            raise done.exception
        return done.return_value, done.stdout

    return run


@pytest.mark.requirement("FUZ-03")
def test_how_likely_a_scenario_fails_is_told_with_its_interval(fuzz):
    code, said = fuzz("--rare", "400", "--output", "json")
    told = json.loads(said)
    (one,) = told["scenarios"]
    made = one["estimate"]
    # Twice in a row: 0.02 squared.
    assert code == 0 and made["lower"] <= 4e-4 <= made["upper"]
    assert made["plain"] > 400 and made["tilts"][0]["declared"] == 0.02
    text = fuzz("--rare", "40")[1]
    assert text.startswith("pays: how likely an episode fails, faults as declared")
    assert "timeout_before:pay: declared 0.02, drawn" in text


@pytest.mark.requirement("FUZ-03")
@pytest.mark.parametrize(("most", "code"), [("0.01", 0), ("0.00001", 1), ("0.0004", 2)])
def test_a_greatest_probability_is_held_to(fuzz, most, code):
    assert fuzz("--rare", "300", "--rare-max", most)[0] == code


@pytest.mark.requirement("FUZ-03")
def test_what_cannot_be_meant_is_refused(fuzz, tmp_path):
    with pytest.raises(click.UsageError, match="is of --rare"):
        fuzz("--rare-max", "0.1")
    (tmp_path / "suite.yaml").write_text(SUITE.replace("probability: 0.02", "callNumber: 1"))
    with pytest.raises(SidecarError, match="nothing is rare"):
        fuzz("--rare", "40")
