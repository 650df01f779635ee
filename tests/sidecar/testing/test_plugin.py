"""The pytest plugin, run by pytest itself in a project of its own."""

import importlib
import json
import os
import pkgutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import pytest

from sidecar.capture import seams
from sidecar.tape.compose import Fact
from sidecar.tape.files import TapeWriter, read_tape
from sidecar.tape.model import Header
from sidecar.testing import taped as loaded_once
from sidecar.testing import tapes

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.requirement("SDK-02")
ROOT = Path(__file__).parents[3]
AGENT = """
    import time

    def agent(again=1):
        for _ in range(again):
            found = time.time()
        return found
"""
TEST = """
    import myagent

    def test_it(tape):
        tape.output(myagent.agent({arguments}))
"""
CALLS = """
    import pytest
    from sidecar.evaluate.assertions.factories import *

    @pytest.mark.tape("run.tape", mode="check", assertions=[{assertions}])
    def test_calls():
        pass
"""


@pytest.fixture
def project(pytester):
    """A project with an agent; ``run`` runs its tests with the plugin."""
    pytester.makepyfile(myagent=AGENT)
    pytester.makeini("[pytest]\naddopts = --strict-markers\nfilterwarnings = error\n")
    return pytester


def run(project, *arguments):
    return project.runpytest_inprocess(
        "-p",
        "sidecar.testing.pytest",
        "-p",
        "no:schemathesis",
        "-p",
        "no:cacheprovider",
        *arguments,
    )


# pytester forgets what is imported within a run: it would be anew each time, and half of it twice.
assert loaded_once
for each in pkgutil.iter_modules(seams.__path__, f"{seams.__name__}."):
    if not each.ispkg:
        with suppress(ImportError):  # a seam of a library that is not here
            importlib.import_module(each.name)


def ends(result, **counts):
    result.assert_outcomes(**counts)
    return "\n".join(result.outlines)


def taped(project, arguments="", *more, record="none"):
    project.makepyfile(test_run=TEST.format(arguments=arguments))
    return run(project, f"--tape-record={record}", *more)


def tape(folder, *, events=4, taint=(), fidelity="L2", sealed=True):
    """A run of shell calls."""
    path = folder / "run.tape"
    path.unlink(missing_ok=True)
    with TapeWriter(path, Header(tape_id="t", fidelity=fidelity, taint=taint)) as writer:
        for number in range(events):
            call = Fact(kind="tool_call", seam="tool", name="shell", input={"n": number})
            seq = writer.event(call)
            writer.event(
                Fact(kind="tool_result", seam="tool", name="shell", status="ok", cause=(seq,))
            )
        writer.event(Fact(kind="terminal", status="ok"))
        if sealed:
            writer.seal()


@pytest.mark.row("R3")
def test_a_test_is_recorded_once_and_then_replayed_from_its_tape(project):
    said = ends(taped(project, record="once"), passed=1)
    place = project.path / "tapes" / "test_run" / "test_it.tape"
    assert "tape recorded: tapes/test_run/test_it.tape" in said
    recorded = place.read_bytes()
    assert read_tape(place).examination.holds
    for _ in range(2):
        ends(taped(project, record="once"), passed=1)
    assert place.read_bytes() == recorded
    ends(taped(project, record="all"), passed=1)
    assert place.read_bytes() != recorded


LIBRARY = """
    import myagent, pytest
    from sidecar.testing import tapes

    def test_more():
        with tapes.replay("run.tape") as run:
            myagent.agent(2)

    def test_swallowed():
        with tapes.replay("run.tape") as run:
            try:
                myagent.agent(2)
            except BaseException:
                pass

    def test_less():
        with tapes.replay("run.tape") as run:
            pass

    def test_partial():
        with tapes.replay("partial.tape") as run:
            pass

    def test_own_failure():
        with tapes.replay("run.tape") as run:
            raise ValueError("own")
"""


def test_a_drift_through_the_library_is_told_without_our_own_lines(project):
    with tapes.record("run.tape", roots=[project.path]) as made:
        project.syspathinsert()
        made.output(importlib.import_module("myagent").agent())
    Path("partial.tape").write_bytes(Path("run.tape").read_bytes()[:-40])
    project.makepyfile(test_run=LIBRARY)
    said = ends(run(project, "--tb=short"), failed=5)
    places = {
        line.rpartition(":")[0].rpartition(":")[0] for line in said.splitlines() if ": in " in line
    }
    assert places == {"test_run.py", "myagent.py"}
    assert said.count("Drifted") >= 3 and "Incomparable" in said and "ValueError: own" in said


def test_without_a_word_to_record_a_tape_that_is_not_there_is_an_error_and_none_is_made(project):
    said = ends(taped(project), errors=1)
    assert said.count("there is no tape at tapes/test_run/test_it.tape. Record it: pytest") == 1
    assert "During handling" not in said
    assert not (project.path / "tapes").exists()


def test_a_drift_is_a_failure_that_says_where_and_what_was_near(project):
    taped(project, record="once")
    said = ends(taped(project, "again=2"), failed=1)
    assert "tape tapes/test_run/test_it.tape: EXTRA_CALL at 3 (decision time.time)" in said
    assert "  asked from myagent.py:5 in agent" in said
    assert "    1 decision time.time ok" in said
    assert "record it again: pytest --tape-record=all 'test_run.py::test_it'" in said
    for noise in ("Traceback", "sidecar/testing", "During handling"):
        assert noise not in said


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ("pass", "MISSING_CALL at 1 (decision time.time)"),
        ("tape.output((myagent.agent(), 'more'))", "OUTPUT at 2 (terminal): the run ended in"),
        ("myagent.agent()", "OUTPUT at 2 (terminal): the run did not say what it answered"),
    ],
)
def test_what_was_recorded_and_does_not_come_again_is_a_failure(project, body, word):
    taped(project, record="once")
    project.makepyfile(test_run=f"import myagent\n\ndef test_it(tape):\n    {body}")
    assert word in ends(run(project), failed=1)


def test_a_drift_that_the_agent_swallows_fails_all_the_same(project):
    taped(project, record="once")
    project.makepyfile(
        test_run="""
        import myagent

        def test_it(tape):
            try:
                myagent.agent(again=3)
            except BaseException:
                pass
        """
    )
    assert "EXTRA_CALL at 3" in ends(run(project), failed=1)


def test_a_test_that_fails_by_itself_says_so_and_leaves_its_tape(project):
    taped(project, record="once")
    place = project.path / "tapes" / "test_run" / "test_it.tape"
    before = place.read_bytes()
    project.makepyfile(test_run="def test_it(tape):\n    assert 'this' == 'that'")
    for record in ("none", "all"):
        said = ends(run(project, f"--tape-record={record}"), failed=1)
        assert "'this' == 'that'" in said and "MISSING_CALL" not in said
    assert place.read_bytes() == before
    assert [one.name for one in place.parent.iterdir()] == ["test_it.tape"]


def test_a_tape_that_cannot_be_replayed_is_an_error_and_no_failure(project):
    taped(project, record="once")
    place = project.path / "tapes" / "test_run" / "test_it.tape"
    place.write_bytes(place.read_bytes()[:-30])
    assert "PARTIAL: the tape is not sealed" in ends(taped(project), errors=1)
    place.write_text("no tape\n")
    assert "tapes/test_run/test_it.tape" in ends(taped(project), errors=1)


@pytest.mark.requirement("ASR-01")
def test_an_assertion_that_does_not_hold_fails_with_the_first_event_that_offends(project):
    tape(project.path)
    (project.path / "own.yaml").write_text(
        json.dumps(
            {"assertions": [{"id": "short", "spec": "terminates_within", "args": {"events": 3}}]}
        )
    )
    project.makepyfile(
        test_calls=CALLS.format(assertions="max_repeats(2, 'shell'), 'own.yaml', never_calls('rm')")
    )
    said = ends(run(project), failed=1)
    assert "tape run.tape: of 3 assertions 1 hold" in said
    assert "max_repeats-1 does not hold at 4: shell is called 4 times, at most 2 expected" in said
    assert '  > 4 tool_call shell {"n": 2}' in said and '    2 tool_call shell {"n": 1}' in said
    assert "short does not hold at 8: it ends at 8, expected below 3" in said


@pytest.mark.requirement("ASR-01")
@pytest.mark.parametrize(
    ("made", "assertions", "more", "counts", "words"),
    [
        ({}, "never_calls('rm')", (), {"passed": 1}, ""),
        ({}, "output_schema({}, 'other')", (), {"skipped": 1}, ""),
        ({}, "output_schema({}, 'other')", ("--tape-strict",), {"failed": 1}, "could not be asked"),
        ({}, "never_calls('rm'), claim_verified()", (), {"passed": 1}, "1 assertions could not be"),
        ({"sealed": False}, "never_calls('rm')", (), {"passed": 1, "errors": 1}, "[partial]"),
        ({"taint": ("x",)}, "never_calls('rm')", (), {"passed": 1, "errors": 1}, "[tainted]"),
    ],
)  # fmt: skip
def test_a_skip_and_an_error_are_told_apart_from_a_failure(
    project, made, assertions, more, counts, words
):
    tape(project.path, **made)
    project.makepyfile(test_calls=CALLS.format(assertions=assertions))
    assert words in ends(run(project, *more), **counts)


def test_a_test_asks_more_of_its_tape_in_its_body(project):
    tape(project.path)
    project.makepyfile(
        test_calls="""
        import pytest
        from sidecar.evaluate.assertions.factories import never_calls

        @pytest.mark.tape("run.tape", mode="check")
        def test_calls(tape):
            assert len(tape.events) == 9
            tape.expect(never_calls("shell"))
        """
    )
    assert "never_calls-1 does not hold at 0: shell is executed" in ends(run(project), failed=1)


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        ('"run.tape", mode="twin"', "mode is one of strict, check, tools, shadow, counterfactual"),
        ('"run.tape", capture="off"', "capture is redacted or full"),
        ('"run.tape", mode="check", live=["provider"]', "patches and live are of another mode"),
        ('"run.tape", mode="counterfactual"', "has patches"),
        ('"run.tape", moed="check"', "pytest.mark.tape takes a path and"),
        ('"run.tape", mode="check", assertions=["none.yaml"]', "the assertions cannot be read"),
        ('"run.tape", mode="check", assertions=[len]', "is no assertion"),
        ('"run.tape", mode="check", assertions=7', "is no assertion"),
        ('"run.tape", mode="counterfactual", patches=[7]', "patches are made by"),
        ('"run.tape", mode="tools", live="provider"', "PARTIAL"),
        ('"run.tape", mode="tools", live="all"', "live names seams: provider"),
        ('"run.tape", agent=7', "are texts without NUL"),
        (r'"run\0.tape"', "are texts without NUL"),
        ("7", "the path of pytest.mark.tape is a text"),
    ],
)
def test_a_mark_that_is_wrong_is_an_error_that_says_how(project, mark, said):
    tape(project.path, sealed="PARTIAL" not in said)
    project.makepyfile(
        test_calls=f"import pytest\n@pytest.mark.tape({mark})\ndef test_calls(tape):\n    pass"
    )
    found = ends(run(project), errors=1)
    assert said in found and "Error:" not in found


@pytest.mark.full
def test_tests_of_unittest_are_replayed_too(project):
    code = """
        import unittest

        import pytest

        import myagent

        class TestIt(unittest.TestCase):
            @pytest.mark.tape("own.tape")
            def test_it(self):
                myagent.agent({again})
    """
    project.makepyfile(test_unit=code.format(again=""))
    ends(run(project, "--tape-record=once"), passed=1)
    ends(run(project), passed=1)
    project.makepyfile(test_unit=code.format(again="again=2"))
    assert "EXTRA_CALL" in ends(run(project), failed=1)


ASYNC = """
    import asyncio
    import pytest
    import myagent

    async def act(number):
        await asyncio.sleep(0)
        return myagent.agent(number)

    @pytest.fixture(scope="module")
    def anyio_backend():
        return "asyncio"

    @pytest.mark.anyio
    async def test_it(tape):
        tape.output(await asyncio.gather(act(1), act({again})))
"""


AFTER = """
    @pytest.fixture(scope="module", autouse=True)
    async def shared(anyio_backend):
        yield 1

    @pytest.mark.anyio
    async def test_after(shared):
        assert shared == 1
"""


def test_async_tests_are_replayed_too(project):
    project.makepyfile(test_run=ASYNC.format(again=1))
    ends(run(project, "--tape-record=once"), passed=1)
    ends(run(project), passed=1)


def test_an_async_test_fails_where_it_leaves_its_tape_and_those_after_it_run(project):
    project.makepyfile(test_run=ASYNC.format(again=1) + AFTER)
    ends(run(project, "--tape-record=once"), passed=2)
    project.makepyfile(test_run=ASYNC.format(again=2) + AFTER)
    assert "EXTRA_CALL at " in ends(run(project), failed=1, passed=1)


SHOP = """
    import pytest
    from sidecar.capture.plan import Patch
    from sidecar.evaluate.assertions.factories import never_calls

    def agent(llm, tools):
        if tools.get_order(order=1) == "open":
            return tools.issue_refund(order=1)

    @pytest.mark.tape("shop.tape")
    def test_record(tape):
        tape.call(agent, tools=dict(get_order=lambda order: "open", issue_refund=lambda order: 1))

    @pytest.mark.tape(
        "shop.tape", mode="counterfactual", assertions=[never_calls("issue_refund")],
        patches=[Patch(what="result", name="get_order", value={value!r})],
    )
    def test_closed(tape):
        tape.call({agent})
"""


@pytest.mark.requirement("REP-03")
def test_a_changed_tape_is_tested_and_what_cannot_be_compared_is_an_error(project):
    project.makepyfile(test_closed_shop=SHOP.format(value="closed", agent="agent"))
    ends(run(project, "--tape-record=once"), passed=2)
    assert [one.name for one in project.path.glob("*.tape")] == ["shop.tape"]
    project.makepyfile(test_closed_shop=SHOP.format(value="open", agent="agent"))
    said = ends(run(project), passed=1, failed=1)
    assert "never_calls-1 does not hold at" in said and "issue_refund is executed" in said
    project.makepyfile(test_closed_shop=SHOP.format(value="closed", agent="lambda llm, tools: 1"))
    said = ends(run(project), passed=2, errors=1)
    assert "tape shop.tape: PREFIX: the run ended before anything that the plan changes" in said


@pytest.mark.full
def test_parameters_have_a_tape_each(project):
    project.makepyfile(
        test_run="""
        import pytest, myagent

        @pytest.mark.parametrize("again", [1, 2])
        def test_it(tape, again):
            tape.output(myagent.agent(again))
        """
    )
    ends(run(project, "--tape-record=once"), passed=2)
    found = sorted(one.name for one in (project.path / "tapes" / "test_run").iterdir())
    assert found == ["test_it-1.tape", "test_it-2.tape"]
    ends(run(project), passed=2)


def test_no_two_tests_share_a_tape_whatever_they_are_called(project):
    names = ["a b", "a/b", "a-b", "a::b", "a[b", "a b ", "-a-b", "", "...", "../../a", "x" * 300]
    project.makepyfile(
        test_run=f"""
        import pytest, myagent

        @pytest.mark.parametrize("again", range({len(names)}), ids={names})
        def test_it(tape, again):
            tape.output(again)

        class TestIt:
            def test_it(self, tape):
                tape.output(-1)
        """
    )
    ends(run(project, "--tape-record=all"), passed=len(names) + 1)
    found = sorted(one.name for one in (project.path / "tapes" / "test_run").iterdir())
    assert len(found) == len(names) + 1
    assert {"test_it-a-b.tape", "test_it.tape", "TestIt-test_it.tape"} < {*found}
    ends(run(project), passed=len(names) + 1)


def test_a_test_that_changes_the_working_directory_has_its_tape_all_the_same(project):
    project.makepyfile(
        test_run="""
        import random

        def test_it(tape, tmp_path, monkeypatch):
            monkeypatch.chdir(tmp_path)
            tape.output([random.randbytes(9000), random.random()])
            assert not list(tmp_path.iterdir())
        """
    )
    ends(run(project, "--tape-record=once"), passed=1)
    ends(run(project), passed=1)
    assert len(list((project.path / "tapes" / "test_run").iterdir())) == 1


def test_a_recording_that_could_not_be_replayed_takes_no_place(project):
    taped(project, record="once")
    place = project.path / "tapes" / "test_run" / "test_it.tape"
    before = place.read_bytes()
    project.makepyfile(test_run="def test_it(tape):\n    tape.output(object())")
    said = ends(run(project, "--tape-record=all"), failed=1)
    assert "PARTIAL" in said and "tape recorded" not in said
    assert place.read_bytes() == before and len(list(place.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("asserted", "counts"),
    [
        ("terminates_within(1)", {"failed": 1}),
        ("output_schema({}, 'other')", {"skipped": 1}),
        ("state_invariant('state.x')", {"skipped": 1}),
        ("terminates_within(9)", {"passed": 1}),
    ],
)
def test_a_tape_takes_its_place_only_when_what_is_asserted_of_it_holds(project, asserted, counts):
    place = project.path / "tapes" / "test_run" / "test_it.tape"
    taped(project, record="once")
    before = place.read_bytes()
    project.makepyfile(
        test_run=f"""
        import myagent
        from sidecar.evaluate.assertions.factories import *

        def test_it(tape):
            tape.expect({asserted})
            tape.output(myagent.agent(2))
        """
    )
    said = ends(run(project, "--tape-record=all"), **counts)
    failed = "failed" in counts
    assert (place.read_bytes() == before) is failed
    assert ("tape recorded" in said) is ("passed" in counts)
    assert [one.name for one in place.parent.iterdir()] == [place.name]


def test_a_project_that_does_not_use_tapes_sees_nothing_of_the_plugin(project):
    project.makeini("[pytest]\nmarkers = tape: ours\nfilterwarnings = error\n")
    project.makepyfile(
        test_own="""
        import sys
        import pytest

        @pytest.fixture
        def tape():
            return "sticky"

        @pytest.mark.tape
        def test_it(tape):
            assert tape == "sticky"
        """
    )
    ends(run(project), passed=1)


def test_the_plugin_imports_nothing_else_of_ours_until_a_test_asks():
    code = (
        "import sys, sidecar.testing.pytest\n"
        "print(sorted(name for name in sys.modules if name.partition('.')[0] in"
        " ('sidecar', 'processors', 'msgspec')))"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "['sidecar', 'sidecar.testing', 'sidecar.testing.pytest']"


def test_tapes_are_tested_without_the_packages_of_the_server():
    code = (
        "import sys\n"
        "for name in ('orjson', 'aiohttp', 'grpc', 'google', 'cryptography', 'opentelemetry',"
        " 'structlog', 'zstandard', 'rich', 're2'): sys.modules[name] = None\n"
        "from sidecar.testing import taped, tapes\n"
        "print(tapes.factories.never_calls('rm').tools)"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "('rm',)", found.stderr


def test_its_entry_point_has_its_own_name_so_that_naming_it_too_is_one_plugin():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    name = "sidecar.testing.pytest"
    assert project["entry-points"]["pytest11"] == {name: name}


@pytest.mark.full  # another interpreter
@pytest.mark.parametrize("more", [(), ("-p", "sidecar.testing.pytest")])
def test_an_installed_plugin_is_there_by_itself(project, monkeypatch, more):
    info = project.path / "lib" / "agenttwin_sidecar_test-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: agenttwin-sidecar-test\nVersion: 1\n"
    )
    name = "sidecar.testing.pytest"
    (info / "entry_points.txt").write_text(f"[pytest11]\n{name} = {name}\n")
    monkeypatch.setenv("PYTHONPATH", f"{ROOT}{os.pathsep}{info.parent}")
    project.makepyfile(test_run=TEST.format(arguments=""))
    found = project.runpytest_subprocess(*more, "-p", "no:schemathesis", "--tape-record=once")
    found.assert_outcomes(passed=1)
    assert (project.path / "tapes" / "test_run" / "test_it.tape").exists()


@pytest.mark.full  # two more interpreters
def test_workers_of_xdist_record_and_replay_beside_one_another(project):
    code = """
        import pytest, myagent

        @pytest.mark.parametrize("again", range(1, 9))
        def test_it(tape, again):
            tape.output(myagent.agent(again))
    """
    project.makepyfile(test_run=code)
    plugins = ("-p", "sidecar.testing.pytest", "-p", "no:schemathesis")
    found = project.runpytest_subprocess(*plugins, "-n", "2", "--tape-record=once", timeout=60)
    found.assert_outcomes(passed=8)
    assert "\n".join(found.outlines).count("tape recorded: tapes/test_run/test_it-") == 8
    again = project.runpytest_subprocess(*plugins, "-n", "2", timeout=60)
    again.assert_outcomes(passed=8)


@pytest.mark.row("R12")
def test_a_tape_past_its_time_is_named_and_an_error_where_that_is_asked_for(project):
    project.makeini("[pytest]\naddopts = --strict-markers\ntape_expires = 1ms\n")
    ends(taped(project, record="once"), passed=1)
    said = ends(taped(project), passed=1)
    assert "tape expired: tapes/test_run/test_it.tape (record it again: --tape-record=all)" in said
    said = ends(taped(project, "", "--tape-fail-if-expired"), errors=1)
    assert "the tape has expired: it was to be recorded anew by " in said
    project.makeini("[pytest]\ntape_expires = soon\n")
    assert "tape_expires: " in ends(taped(project), errors=1)
