"""Every benchmark still runs: a figure comes from a command that anyone can run."""

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LEAST = {
    "collector": ["--requests", "2"],
    "episodes": ["--sizes", "200"],
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


@pytest.mark.full
@pytest.mark.requirement("CRV-01")
def test_a_replays_memory_does_not_grow_with_its_episodes(tmp_path):
    """Records are folded one at a time: 9,000 more would take 100 MB if they were held."""
    command = [sys.executable, str(HERE / "episodes.py"), "--sizes", "3000", "12000"]
    ran = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=580)
    assert ran.returncode == 0, ran.stderr[-2000:]
    rows = [line.split() for line in ran.stdout.splitlines() if line.strip()[:1].isdigit()]
    (small, large) = ((int(row[0]), int(row[4])) for row in rows)
    assert (small[0], large[0]) == (3000, 12000), ran.stdout
    assert large[1] - small[1] < 24, ran.stdout
