"""Every benchmark still runs: a figure comes from a command that anyone can run."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LEAST = {
    "collector": ["--requests", "2"],
    "gateway": ["--calls", "20", "--rounds", "1"],
    "pipeline": ["--requests", "2"],
    "receive": ["--seconds", "0.2", "--rounds", "1"],
}
BENCHES = sorted(
    path.stem for path in HERE.glob("*.py") if not path.stem.startswith(("_", "test_"))
)


@pytest.mark.full
@pytest.mark.parametrize("name", BENCHES)
def test_a_benchmark_runs_and_prints_figures(name, tmp_path):
    command = [sys.executable, str(HERE / f"{name}.py"), *LEAST.get(name, [])]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert any(character.isdigit() for character in ran.stdout)
