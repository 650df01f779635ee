"""``python -m sidecar.replay.recorded.worker TAPE``: a recording as an agent process.

Rules
1. It makes the recorded calls in their order, through the gateway, and gives the recorded answer:
   what becomes of them now is the twins' and the policy's word.
2. A name that a twin mints stands for the recorded one in later calls (``idflow``); nothing else of
   an argument changes.
3. Where an answer is not the recorded one, that is told on stderr, with the first place: the agent
   would have read another world.
"""

import os
import sys
from pathlib import Path
from typing import Any

import msgspec

from sidecar.evaluate.matching import same
from sidecar.replay.acts import pointer
from sidecar.replay.calling.client import ToolCaller
from sidecar.replay.idflow import IdFlow
from sidecar.replay.import_tape import parsed
from sidecar.replay.recorded.trace import recorded_trace
from sidecar.tape.files import read_tape


def main(path: Path) -> int:
    """Make the calls of a tape; exit status 0."""
    trace = recorded_trace(read_tape(path), path.stem)
    keys = {one.step_id: one.data.get("key") for one in trace.evidence}
    made = {one.step_id for one in trace.evidence if one.held}
    call, flow = ToolCaller(os.environ), IdFlow()
    steps = [one for one in trace.steps if one.kind == "tool_call" and one.tool is not None]
    for number, step in enumerate(steps, start=1):
        assert step.tool is not None
        arguments = step.tool.arguments
        key = keys.get(step.step_id)
        reply = call(
            step.name,
            flow.mapped(arguments) if isinstance(arguments, dict) else {},
            f"tape-{str(key)[:48]}" if key else f"tape-{number}",
        )
        kept = step.tool.result
        recorded = parsed(kept) if isinstance(kept, str) else kept
        through = reply.status is not None and reply.status < 400
        flow.saw(recorded, reply.value, mints=through and step.step_id in made)
        if recorded is not None and not same(flow.mapped(recorded), reply.value):
            where = pointer(flow.mapped(recorded), reply.value) or "/"
            said = f"call {number}, {step.name}: the answer is not the recorded one"
            sys.stderr.write(f"{said}, first at {where}\n")
    _say(trace.final_output)
    return 0


def _say(output: Any) -> None:
    sys.stdout.write("\n" + msgspec.json.encode({"output": output}).decode() + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
