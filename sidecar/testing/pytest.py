"""pytest plugin: a test's agent is replayed from a tape, and the tape is asserted on.

**Rules**
1. A test is touched only when it asks: with the fixture ``tape``, or a mark that names a tape.
   Whatever else is needed is imported then, and not before.
2. Nothing is recorded unless ``--tape-record`` says so.
3. A drift or an assertion that does not hold is a FAILURE; a tape that is missing, damaged or
   cannot be compared, and what cannot be decided, is an ERROR; nothing that could be asked, a SKIP.
4. A test that fails by itself fails with its own words, and leaves its tape as it was.

How it is used: docs/howto/tape-tests.md.
"""

import functools
import hashlib
import inspect
import os
import re
import tempfile
from collections.abc import Callable, Generator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:  # imported where a test asks for a tape
    from sidecar.capture.play import Drifted
    from sidecar.testing.taped import TapedTest, Wanted

_TAPED: Final = pytest.StashKey["TapedTest"]()
_UNDECIDED: Final = pytest.StashKey[str]()
_MARK: Final = "tape"
_KEYWORDS: Final = frozenset(
    {"mode", "assertions", "capture", "agent", "strict", "patches", "live"}
)
_FOLDER: Final = pytest.StashKey["tempfile.TemporaryDirectory[str]"]()
_NAME_MAX: Final = 120
_SKIPPED, _RECORDED, _EXPIRED = "tape_skipped", "tape_recorded", "tape_expired"


def pytest_addoption(parser: pytest.Parser) -> None:
    """What pytest is asked of tapes: options, and ini keys."""
    group = parser.getgroup("tapes", "tapes of agents (agenttwin-sidecar)")
    group.addoption(
        "--tape-record",
        choices=("none", "once", "all"),
        default="none",
        help="record no tape and fail without one (none, the default), those that are not there "
        "(once), or all anew (all)",
    )
    group.addoption(
        "--tape-strict",
        action="store_true",
        help="an assertion on a tape that could not be asked is a failure",
    )
    group.addoption(
        "--tape-fail-if-expired",
        action="store_true",
        help="a tape past its expires_at is an error",
    )
    parser.addini(
        "tape_expires", "how long a recorded tape lasts, as 90d [default: for ever]", default=""
    )
    parser.addini(
        "tape_roots", "folders of the agents' own files [default: rootdir]", "paths", default=[]
    )


def pytest_configure(config: pytest.Config) -> None:
    """The mark is known, so that ``--strict-markers`` stays silent."""
    config.addinivalue_line(
        "markers",
        "tape(path, mode='strict', assertions=(), capture='redacted', agent='agent', strict=False, "
        "patches=(), live=()): run the test against a tape of its agent, and assert on the tape",
    )


def pytest_report_header(config: pytest.Config) -> str | None:
    """That tapes are being recorded, where they are."""
    record = config.getoption("--tape-record")
    return None if record == "none" else f"tapes: recording ({record})"


@pytest.fixture
def tape(request: pytest.FixtureRequest) -> "TapedTest":
    """The test's tape (``sidecar.testing.taped.TapedTest``): ``expect``, ``output``, ``events``."""
    return _taped(request.node)


@pytest.hookimpl(trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A mark that names a tape counts without the fixture."""
    mark = item.get_closest_marker(_MARK)
    if mark is not None and mark.args and _TAPED not in item.stash:
        _taped(item)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """The test's body against its tape, then what is asserted of the tape."""
    taped = item.stash.get(_TAPED, None)
    if taped is None:
        return (yield)
    from sidecar.capture.play import Drifted
    from sidecar.testing.driver import Incomparable

    folder = item.stash[_FOLDER] = tempfile.TemporaryDirectory(prefix="tape-")
    taped.keep_in(folder.name)
    left: Drifted | None = None
    found = None
    if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
        item.obj = _failing(item, taped)
    try:
        with taped.running():
            found = yield
    except Drifted as error:
        left = error
    except Incomparable as error:
        item.stash[_UNDECIDED] = f"tape {taped.path}: {error.text()}"
        return None
    if left is not None:
        pytest.fail(_drift_text(item, taped, left), pytrace=False)
    try:
        _conclude(item, taped)
    finally:
        taped.drop()
    return found


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    """What could not be decided is an error, apart from the test that passed."""
    found = yield
    folder = item.stash.get(_FOLDER, None)
    if folder is not None:
        folder.cleanup()
    text = item.stash.get(_UNDECIDED, "")
    if text:
        pytest.fail(text, pytrace=False)  # outside of the call it is reported as an ERROR
    return found


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tapes that were recorded or have expired, and assertions that could not be asked."""
    told: dict[str, list[Any]] = {_RECORDED: [], _SKIPPED: [], _EXPIRED: []}
    for report in terminalreporter.stats.get("passed", []):
        for name, value in getattr(report, "user_properties", ()):
            if name in told and getattr(report, "when", "") == "call":
                told[name].append(value)
    for path in told[_RECORDED]:
        terminalreporter.write_line(f"tape recorded: {path}")
    for path in dict.fromkeys(told[_EXPIRED]):
        terminalreporter.write_line(f"tape expired: {path} (record it again: --tape-record=all)")
    if told[_SKIPPED]:
        count = sum(map(int, told[_SKIPPED]))
        terminalreporter.write_line(
            f"tapes: {count} assertions could not be asked (-rP tells why; --tape-strict fails)"
        )


def _failing(item: pytest.Function, taped: "TapedTest") -> Callable[..., Any]:
    """An async test that fails where it leaves its tape: what runs the loops of tests takes a
    failure of pytest's for the end of one test, and any other BaseException for its own."""
    real = item.obj

    @functools.wraps(real)
    async def test(**arguments: Any) -> Any:
        from sidecar.capture.play import Drifted

        text = ""
        try:
            return await real(**arguments)
        except Drifted as error:
            text = _drift_text(item, taped, error)
        pytest.fail(text, pytrace=False)

    return test


def _taped(item: pytest.Item) -> "TapedTest":
    """The item's tape, found or made; what is wrong with it is an ERROR of the set-up."""
    known = item.stash.get(_TAPED, None)
    if known is not None:
        return known
    from sidecar.errors import SidecarError
    from sidecar.testing.taped import TapedTest

    why = ""
    try:
        made = TapedTest(_wanted(item), item.config.getoption("--tape-record"))
    except SidecarError as error:
        why = error.text()
    if why:  # outside of the except: pytest would tell both, one as the other's context
        pytest.fail(why, pytrace=False)
    item.stash[_TAPED] = made
    return made


def _wanted(item: pytest.Item) -> "Wanted":
    from sidecar import clock
    from sidecar.testing.taped import Wanted

    mark = item.get_closest_marker(_MARK)
    given = dict(mark.kwargs) if mark is not None else {}
    args = mark.args if mark is not None else ()
    if len(args) > 1 or given.keys() - _KEYWORDS:
        known = ", ".join(sorted(_KEYWORDS))
        pytest.fail(f"pytest.mark.tape takes a path and {known}", pytrace=False)
    if args and not isinstance(args[0], str | os.PathLike):
        pytest.fail("the path of pytest.mark.tape is a text", pytrace=False)
    folder = item.path.parent
    path = folder / os.fspath(args[0]) if args else folder / "tapes" / _file_name(item)
    return Wanted(
        path=os.path.relpath(path) if path.is_relative_to(os.getcwd()) else str(path),  # noqa: PTH109
        assertions=tuple(
            folder / one if isinstance(one, str) else one for one in _several(given, "assertions")
        ),
        roots=_roots(item),
        patches=_several(given, "patches"),
        live=_several(given, "live"),
        lasts_ns=_lasts(item),
        now_ns=clock.now_ns(),
        fresh=item.config.getoption("--tape-fail-if-expired"),
        **given,
    )


def _lasts(item: pytest.Item) -> int | None:
    """How long a tape lasts that is recorded now."""
    from processors.value import duration_ns

    said = str(item.config.getini("tape_expires"))
    try:
        return duration_ns(said) if said else None
    except ValueError as error:
        pytest.fail(f"tape_expires: {error}", pytrace=False)


def _several(given: dict[str, Any], name: str) -> tuple[Any, ...]:
    """What a mark says several of, or one."""
    said = given.pop(name, ())
    return tuple(said) if isinstance(said, list | tuple) else (said,)


def _conclude(item: pytest.Item, taped: "TapedTest") -> None:
    checked = taped.checked(strict=item.config.getoption("--tape-strict"))
    if checked is not None and checked.outcome == "fail":
        pytest.fail(checked.text(), pytrace=False)
    skipped = checked is not None and checked.skipped
    if checked is not None and checked.outcome == "undecided" and not skipped:
        item.stash[_UNDECIDED] = checked.text()
        return
    if taped.recorded:
        _keep(item, taped)
    elif taped.expired:
        item.user_properties.append((_EXPIRED, taped.path))
    if checked is None:
        return
    if skipped:
        pytest.skip(checked.text())
    left = sum(one.finding.status == "skip" for one in checked.found)
    if left:
        item.user_properties.append((_SKIPPED, left))
        item.add_report_section("call", "tape", checked.text())


def _keep(item: pytest.Item, taped: "TapedTest") -> None:
    from sidecar.errors import SidecarError

    try:
        taped.keep()
    except SidecarError as error:
        pytest.fail(error.text(), pytrace=False)
    item.user_properties.append((_RECORDED, taped.path))


def _drift_text(item: pytest.Item, taped: "TapedTest", error: "Drifted") -> str:
    from sidecar.testing.told import drift_text

    again = f"pytest --tape-record=all {item.nodeid!r}"
    lines = drift_text(taped.path, error.drift, taped.tape, again).splitlines()
    place = ""
    if error.drift.asked is not None:
        roots = [str(root) for root in _roots(item)]
        place = _asked_from(error.__traceback__, roots, str(item.config.rootpath))
    return "\n".join([lines[0], *([place] if place else []), *lines[1:]])


def _asked_from(trace: TracebackType | None, roots: Sequence[str], folder: str) -> str:
    """The last line of the agent's own files that led to a drift, told from ``folder``."""
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        own = any(code.co_filename.startswith(root + os.sep) for root in roots)
        if own and "site-packages" not in code.co_filename:
            file = code.co_filename.removeprefix(folder + os.sep)
            found = f"  asked from {file}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return found


def _roots(item: pytest.Item) -> tuple[Any, ...]:
    """Folders of the agents' own files."""
    return tuple(item.config.getini("tape_roots")) or (item.config.rootpath,)


def _file_name(item: pytest.Item) -> str:
    """``test_refund/test_it-a-1.tape`` of a test in ``test_refund.py``.

    Where a name cannot be that of a file as it is, a digest says which: no two tests share a tape.
    """
    said = item.nodeid.partition("::")[2]
    test, _, parameters = said.partition("[")
    spelt = f"{test.replace('::', '-')}-{parameters.removesuffix(']')}".removesuffix("-")
    name = re.sub("[^A-Za-z0-9_.-]+", "-", spelt).strip("-.")[:_NAME_MAX]
    if name != spelt:
        digest = hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()
        name = f"{name}-{digest[:8]}"
    return f"{item.path.stem}/{name}.tape"
