"""No descriptors left: what watches over children and stores waits, and is there when they are."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
LINGERING = "import sys\n\n\ndef main():\n    sys.stdin.read()\n"
SCENARIO = """
    import asyncio, os, resource, signal, sys
    from sidecar.gateway.policy.files import load_bundle
    from sidecar.gateway.policy.worker import PolicyWorker
    from sidecar.pipeline.process import PipelineProcess
    from sidecar.telemetry import REGISTRY, configure_logging

    async def until(condition):
        async with asyncio.timeout(30):
            while not condition():
                await asyncio.sleep(0.02)

    def failures():
        return REGISTRY.get_sample_value("sidecar_task_failures_total", {"task": "pipeline"}) or 0

    async def main():
        process = PipelineProcess("lingering:main", b"settings")
        policy = PolicyWorker(load_bundle())
        await process.start()
        await policy.start()
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        dead = process.pid
        # Children's ends are closed when they die, so a few descriptors come back: take all.
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
        os.kill(process.pid, signal.SIGKILL)
        for pid in policy.pids:
            os.kill(pid, signal.SIGKILL)
        await until(lambda: failures() >= 2 and not policy.answering)
        assert (await policy.decide({})).error, "nothing decides, so it is denied"
        assert process.pid is None
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await until(lambda: process.pid not in (None, dead) and policy.answering)
        answer = await policy.decide({})
        assert answer.error is None and answer.effect == "deny", answer
        await process.stop()
        await policy.stop()
        print("recovered")

    configure_logging(json_lines=True)
    asyncio.run(main())
"""


@pytest.mark.requirement("GW-02")
def test_a_spell_without_descriptors_ends_no_watch(tmp_path):
    (tmp_path / "lingering.py").write_text(LINGERING)
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(SCENARIO)],
        env={"PATH": "", "PYTHONPATH": f"{ROOT}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "recovered\n", done.stderr
    assert "Traceback" not in done.stderr
