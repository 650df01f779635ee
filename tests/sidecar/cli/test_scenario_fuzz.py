"""``sidecar scenario fuzz`` as it is typed."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import sidecar.demo.fuzzing as shipped
from sidecar.cli.root import root
from sidecar.errors import SidecarError

pytestmark = pytest.mark.requirement("FUZ-01")
MEMO = Path(shipped.__file__).parent / "memo" / "suite.yaml"
AGENTS = "py:sidecar.demo.fuzzing.memo.agents"


def fuzz(*more, suite=MEMO):
    run = CliRunner().invoke(root, ["scenario", "fuzz", str(suite), *more], standalone_mode=False)
    if run.exception is not None:
        raise run.exception
    return run.return_value, run.stdout


def test_what_is_found_is_told_with_its_curve_and_written(tmp_path):
    bad, more = f"{AGENTS}:obedient", ("--reference", f"{AGENTS}:careful", "--budget", "20")
    code, said = fuzz("--agent", bad, *more, "--to", str(tmp_path), "--output", "json")
    told = json.loads(said)
    assert (code, told["episodes"], told["seed"]) == (1, 20, 0)
    assert [one["rule"] for one in told["findings"]] == ["toolNotCalled:pay_invoice"]
    assert told["curve"][-1]["signatures"] == 1
    found = told["findings"][0]["file"]
    again, text = fuzz("--agent", bad, "--budget", "0", suite=found)
    assert again == 1
    assert text.startswith("FAILS") and "fails as it is" in text
    assert fuzz("--agent", f"{AGENTS}:careful", "--budget", "0", suite=found)[0] == 0


def test_nothing_found_writes_nothing_and_exits_0(tmp_path):
    code, said = fuzz(
        *("--agent", f"{AGENTS}:careful", "--reference", f"{AGENTS}:careful"),
        *("--budget", "20", "--to", str(tmp_path / "found"), "--seed", "3"),
    )
    assert code == 0
    assert said.startswith("NOTHING  memo: 0 failures in 20 episodes")
    assert "seed 3" in said
    assert not (tmp_path / "found").exists()


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--agent", "cmd:agent", "names no callable"),
        ("--agent", "py:no_such_module:run", "cannot be loaded"),
        ("--budget", "much", "is no budget"),
    ],
)
def test_what_cannot_be_meant_is_refused(option, value, said):
    with pytest.raises(SidecarError, match=said):
        fuzz("--agent", f"{AGENTS}:careful", option, value)
