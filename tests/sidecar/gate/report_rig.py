"""Tapes and reports for tests, with a hostile text in every field that one may have."""

from msgspec.structs import replace

from sidecar.gate.report.compared import compared_report
from sidecar.gate.report.model import Attempt, Case, Run, report
from sidecar.replay.diff import compare
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, read_tape, tape_codecs
from sidecar.tape.model import SEAMS_OF, AgentBuild, Header

EVIL = (
    "</script><script>window.ran=1</script><img src=x onerror=window.ran=1>"
    "![x](http://e.example/x) @all `*_[]|# www.e.example <!-- ]]> \x1b[2J\x00\u202e\u2028"
    " javascript:window.ran=1 {{7*7}} \"' &lt;"
)


def tape(path, *, amount=1, name="pay", agent="a", events=6, status="ok", label="x"):
    """A sealed tape of calls with results."""
    with TapeWriter(path, Header(tape_id=path.stem, labels={"l": label})) as writer:
        for number in range(events):
            value = {"n": number, "amount": amount if number == 3 else 0, "note": label}
            err = (label, label) if status == "error" else None
            call = Fact(kind="tool_call", seam="tool", agent=agent, name=name, input=value)
            seq = writer.event(call)
            writer.event(
                Fact(
                    kind="tool_result", seam="tool", agent=agent, name=name, output={"ok": label},
                    status=status, cause=(seq,), error=err,
                )
            )  # fmt: skip
        writer.event(Fact(kind="terminal", agent=agent, output={"output": label}, status="ok"))
        writer.seal()
    return read_tape(path)


def hostile_tape(path, *, amount=1):
    """A tape with a hostile text wherever one may stand."""
    head = Header(
        tape_id=EVIL, run_id=EVIL, trace_ids=(EVIL,), gaps=(EVIL,), mapping=EVIL, seed=EVIL,
        models=(EVIL,), argv=(EVIL,), labels={EVIL: EVIL}, taint=(EVIL,), tenant=EVIL,
        agent=AgentBuild(name=EVIL, version=EVIL),
    )  # fmt: skip
    with TapeWriter(path, head) as writer:
        for kind in ("llm_call", "tool_call", "tool_result", "human_input", "error"):
            writer.event(
                Fact(
                    kind=kind, seam=SEAMS_OF[kind][0], agent=EVIL, name=EVIL, status="error",
                    input={EVIL: [EVIL, amount]}, output={EVIL: EVIL * 100}, error=(EVIL, EVIL),
                    attributes={EVIL: EVIL}, usage={EVIL: 1},
                )
            )  # fmt: skip
        writer.event(Fact(kind="terminal", agent=EVIL, output={"output": EVIL}, status="ok"))
        writer.seal()
    return read_tape(path)


def long_tape(short, events):
    """A tape in memory with as many events as wanted, all alike."""
    one = short.events[0]
    several = tuple(replace(one, seq=seq) for seq in range(min(events, 20_000)))
    whole, rest = divmod(events, len(several))
    return replace(short, events=several * whole + several[:rest])


def diff_report(tmp_path, **other):
    """Two tapes, their diff, and its report."""
    one, two = tape(tmp_path / "a.tape"), tape(tmp_path / "b.tape", **{"amount": 2, **other})
    found = compare(one, two, tape_codecs(one))
    return one, two, found, compared_report(found, ("a.tape", one), ("b.tape", two))


def evil_report():
    """Every text of a report is hostile, save those of closed lists."""
    cases = tuple(
        Case(
            id=f"{EVIL}{status}", group=EVIL, rule=EVIL, status=status, owner=EVIL, until=EVIL,
            quarantined=True, detail=EVIL, code=EVIL, agent=EVIL, run=0, seq=3, drift=(EVIL,),
            attempts=(Attempt(status="pass", detail=EVIL), Attempt(status="fail", detail=EVIL)),
        )
        for status in ("pass", "fail", "skip", "error")
    )  # fmt: skip
    run = Run(name=EVIL, role=EVIL, tape_id=EVIL, fidelity=EVIL, exact_digest=EVIL)
    lost = Run(name=EVIL, state="unreadable", error=EVIL)
    return report(
        command="tape assert", title=EVIL, outcome="fail", exit_code=1, runs=(run, lost),
        cases=cases, notes=(EVIL,), facts={EVIL: EVIL},
    )  # fmt: skip
