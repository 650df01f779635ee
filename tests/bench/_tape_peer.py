"""agentos-platform's record and replay of model calls, in the frameworks' interpreter: microseconds
of CPU an event, as JSON. Arguments: how many, a folder."""

import json
import sys
import time

from agentos.replay import (
    Recorder,
    Replayer,
    RunHeader,
    SeamKind,
    TraceReader,
    TraceWriter,
    intercept,
    use_interceptor,
)
from agentos.replay.provider import provider_input, provider_seam_codecs


def calls(count, answer):
    for number in range(count):
        text = f"Refund order {number}, please."
        given = provider_input(
            provider="demo",
            model="scripted-1",
            messages=[{"role": "user", "content": text}],
            tools=[],
            temperature=0.0,
            max_tokens=100,
            agent_name="refunds",
        )
        intercept(SeamKind.PROVIDER, "agent.py:main", given, lambda: answer, name="scripted-1")


def main():
    count, folder = int(sys.argv[1]), sys.argv[2]
    answer = json.loads(sys.argv[3])
    header = RunHeader.new(
        git_sha=None,
        git_dirty=False,
        seam_codecs=provider_seam_codecs(),
        labels={},
        target=["agent.py"],
        stores_input_blobs=True,
    )
    begun = time.process_time()
    with TraceWriter(folder, header) as writer:
        recorder = Recorder(writer, store_inputs=True)
        with use_interceptor(recorder):
            calls(count, answer)
        path, blobs = writer.path, writer.blobs
    recorded = time.process_time() - begun
    begun = time.process_time()
    reader = TraceReader(path)
    replayer = Replayer(reader.events, blobs, header=reader.header)
    loaded = time.process_time() - begun
    begun = time.process_time()
    with use_interceptor(replayer):
        calls(count, answer)
    played = time.process_time() - begun
    assert replayer.live_calls == 0 and len(replayer.consumed) == count
    print(json.dumps({"record": recorded, "load": loaded, "play": played}))


main()
