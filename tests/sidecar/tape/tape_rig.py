"""Tapes for tests: facts from hypothesis, written and read back."""

from hypothesis import strategies as st
from msgspec.structs import replace

from sidecar.tape.codec import Codec, Codecs, Projection
from sidecar.tape.compose import Composer, Fact
from sidecar.tape.examine import Examiner
from sidecar.tape.files import TapeWriter
from sidecar.tape.model import SEAMS_OF, Blob, Header
from sidecar.tape.record import as_line, blob_of

SAFE = 2**53 - 1
TEXTS = st.text(
    st.characters(exclude_categories=["Cs"]),
    max_size=12,
)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-SAFE, SAFE)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
VALUES = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)
END = Fact(kind="terminal", status="ok")
HEADER = Header(tape_id="t-1", captured_at="2026-07-01T12:00:00.000000000Z")


@st.composite
def facts(draw, least=0, most=8):
    """Facts of several agents with causes among the earlier ones, and a terminal one."""
    found = []
    for seq in range(draw(st.integers(least, most))):
        kind = draw(st.sampled_from([kind for kind in SEAMS_OF if kind != "terminal"]))
        cause = draw(st.sets(st.integers(0, seq - 1), max_size=2)) if seq else ()
        found.append(
            Fact(
                kind=kind,
                seam=draw(st.sampled_from(SEAMS_OF[kind])),
                agent=draw(st.sampled_from("ab")),
                name=draw(st.sampled_from(["read", "write"])),
                input=draw(VALUES),
                output=draw(VALUES),
                status=draw(st.sampled_from(["ok", "error"])),
                error=draw(st.none() | st.tuples(st.just("ValueError"), TEXTS)),
                cause=tuple(sorted(cause)),
                start_ns=draw(st.integers(0, 10**18)),
            )
        )
    return [*found, Fact(kind="terminal", output={"status": "ok"}, status="ok")]


def before(facts_):
    """Which events come before which: causes, and all of the agent's where there are none."""
    edges = []
    for seq, fact in enumerate(facts_):
        same = {n for n in range(seq) if facts_[n].agent == fact.agent}
        edges.append(set(fact.cause) or same)
    for seq, fact in enumerate(facts_):  # nothing passes a barrier of its agent
        for later in range(seq):
            if facts_[later].agent == fact.agent and not facts_[later].cause:
                edges[seq].add(later)
    return edges


@st.composite
def interleaved(draw):
    """A run, and the same run in another permitted order."""
    run = draw(facts(least=2))[:-1]
    edges, placed, turned = before(run), {}, []
    while len(placed) < len(run):
        free = [n for n in range(len(run)) if n not in placed and edges[n] <= placed.keys()]
        one = draw(st.sampled_from(free))
        placed[one] = len(placed)
        cause = tuple(sorted(placed[n] for n in run[one].cause))
        turned.append(replace(run[one], cause=cause))
    return [*run, END], [*turned, END]


def lines(facts_, *, packed=True, header=HEADER, store=None, seal=True, **more):
    """The lines of a tape, made without a file; blobs go into ``store`` where not packed."""
    waiting = []

    def put(digest, data):
        if not packed:
            store[digest] = data
        waiting.append(as_line(blob_of(digest, data, packed=packed)))

    composer = Composer(header, put, **more)
    waiting.append(as_line(composer.begin()))
    composer.put_codecs()
    for fact in facts_:
        event = composer.event(fact)
        if event is not None:
            waiting.append(as_line(event))
    if seal:
        waiting.append(as_line(composer.seal()))
    return waiting


def examined(lines_, store=None):
    """What an examiner says of lines."""
    examiner = Examiner(lambda blob: (store or {}).get(blob.id))
    for line in lines_:
        examiner.feed(line)
        if examiner.stopped:
            break
    return examiner.finish()


def split(data):
    """Bytes as lines, as a file gives them."""
    return data.splitlines(keepends=True)


def written(path, facts_, **more):
    """A sealed tape in a file; its examination."""
    with TapeWriter(path, more.pop("header", HEADER), **more) as tape:
        for fact in facts_:
            tape.event(fact)
        return tape.seal()


def codecs(seam="tool", **projections):
    """Codecs of one seam."""
    given = {key: Projection(**value) for key, value in projections.items()}
    return Codecs({seam: Codec(seam=seam, **given)})


RUN = [
    Fact(
        kind="llm_call",
        seam="provider",
        agent="a",
        name="gpt",
        input={"messages": ["long " * 600]},
        output={"id": "r1", "text": "ok"},
        status="ok",
    ),
    Fact(kind="tool_call", seam="tool", agent="a", name="refund", input={"order": "A-1"}),
    Fact(
        kind="tool_result",
        seam="tool",
        agent="a",
        name="refund",
        output={"refunded": 49, "blob": b"\x00\xff"},
        status="ok",
        cause=(1,),
    ),
    Fact(kind="error", agent="a", name="boom", error=("ValueError", "it broke "), cause=(2,)),
    Fact(kind="terminal", output={"status": "ok"}, status="ok"),
]
__all__ = ["RUN", "Blob", "codecs", "examined", "facts", "interleaved", "lines", "split", "written"]
