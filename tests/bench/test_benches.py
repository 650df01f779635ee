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
    "tapes": ["--events", "200", "--requests", "10", "--runs", "2"],
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


@pytest.mark.full
@pytest.mark.row("L")
def test_the_gateways_benchmark_shows_every_path_beside_its_peers_with_its_budget(tmp_path):
    command = [sys.executable, str(HERE / "gateway.py"), *LEAST["gateway"]]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    shown = ran.stdout
    for path in ("allow, read", "allow, irreversible", "deny, gateway", "replayed", "pending"):
        assert path in shown, shown
    for figure in ("p50", "p95", "p99", "c=1", "c=16", "/s", "bare proxy", "budget"):
        assert figure in shown, shown
    assert "nginx + OPA" in shown or "nginx" in ran.stderr + shown, "what is missing is said"
