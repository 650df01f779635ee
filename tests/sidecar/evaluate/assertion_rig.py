"""Tapes in memory for tests of assertions."""

from sidecar.tape.compose import Composer, Fact
from sidecar.tape.examine import Examiner
from sidecar.tape.model import Blob, Event, Header
from sidecar.tape.record import as_line
from sidecar.tape.tape import Tape
from sidecar.tape.value import address, encoded, payload

START = "2026-07-01T12:00:00.000000000Z"


def taped(*facts, seal=True, keep=(), contents=True, **header):
    """A tape of facts as a reader has it; ``keep``: further values as its blobs."""
    blobs, lines, dropped = {}, [], header.pop("dropped", 0)

    def put(digest, data):
        blobs[digest] = data

    composer = Composer(
        Header(tape_id="t-1", captured_at=START, **{"source": "proxy", **header}),
        put,
        content=contents,
    )
    lines.append(as_line(composer.begin()))
    composer.put_codecs()
    for value in keep:
        composer.put(value)
    events = [composer.event(fact) for fact in facts]
    lines += [as_line(event) for event in events]
    for digest, data in blobs.items():
        lines.insert(1, as_line(Blob(id=digest, size=len(data))))
    if dropped:
        composer.drop(dropped)
    if seal:
        lines.append(as_line(composer.seal()))
    examiner = Examiner(lambda blob: blobs.get(blob.id))
    read = [record for line in lines if isinstance(record := examiner.feed(line), Event)]
    found = examiner.finish()
    return Tape(
        header=found.header,
        events=tuple(read),
        seal=found.seal,
        examination=found,
        blobs=frozenset(blobs),
        get=blobs.get,
    )


def call(name, arguments=None, agent="a", **more):
    """A tool call."""
    return Fact(
        kind="tool_call", seam="tool", agent=agent, name=name, input=arguments or {}, **more
    )


def result(name, cause, output=None, status="ok", agent="a"):
    """Its result."""
    return Fact(
        kind="tool_result",
        seam="tool",
        agent=agent,
        name=name,
        output=output,
        cause=(cause,),
        status=status,
    )


def model(**usage):
    """A call of a model."""
    return Fact(kind="llm_call", seam="provider", agent="a", name="gpt", usage=usage)


def approval(tool, decision="approved", **more):
    """What a person decided."""
    return Fact(kind="human_input", seam="human", name=tool, output={"decision": decision, **more})


def end(**output):
    """The terminal event."""
    return Fact(kind="terminal", status="ok", output=output)


def patch(operations, before, after, world=""):
    """A change of state; ``before`` and ``after`` are the states themselves."""
    digest = [address(payload(encoded(each))) for each in (before, after)]
    told = {"patch": operations, "before": digest[0], "after": digest[1]}
    return Fact(kind="state_patch", seam="tool", name=world, output=told)
