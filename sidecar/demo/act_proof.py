"""The last act: every id shown resolves, and the audit chain holds.

Rules
1. What a reader is told to type is run first, as it stands, with ``--store`` alone.
2. The ids that no printed command names are looked up in the store as ``show`` does.
"""

import shlex
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from sidecar.app import opening
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.processes import python
from sidecar.demo.stage import Stage

COMMAND_SECONDS = 60.0
_AT_ONCE = 2


def play(stage: Stage, ids: Ids) -> Act:
    """Run the commands, look the other ids up."""
    commands = hints(stage, ids)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        codes = list(pool.map(lambda one: _code(stage, *one), enumerate(commands)))
    failed = [
        f"{words}: exit code {code}" for words, code in zip(commands, codes, strict=True) if code
    ]
    lost = list(_lost(stage, ids))
    return Act(
        name="proof",
        story=("Everything above can be looked up by its id:", *commands),
        checks=(
            Check(
                name="these commands end with exit code 0, the audit chain verifies",
                held=not failed,
                detail="; ".join(failed) or f"{len(codes)} run",
            ),
            Check(
                name="every trace, call, approval and verdict id resolves",
                held=not lost,
                detail="; ".join(lost) or f"{sum(map(len, _kinds(ids).values()))} looked up",
            ),
        ),
    )


def _code(stage: Stage, number: int, command: str) -> int:
    words = python(*shlex.split(command))
    code, _ = stage.run(f"proof-{number}", words).finish(seconds=COMMAND_SECONDS)
    return code


def _lost(stage: Stage, ids: Ids) -> Iterator[str]:
    """The ids that the store does not know."""
    with (
        opening.open_traces(stage.loaded) as traces,
        opening.open_ledger(stage.loaded) as ledger,
        opening.open_verdicts(stage.loaded) as verdicts,
    ):
        finds = (
            ("trace", ids.traces, traces.get_trace),
            ("call", ids.calls, ledger.get_call),
            ("approval", ids.approvals, ledger.find_approval),
            ("verdict", ids.verdicts, verdicts.get_verdict),
        )
        for kind, wanted, find in finds:
            yield from (f"{kind} {one}" for one in wanted if find(one) is None)


def _kinds(ids: Ids) -> dict[str, tuple[str, ...]]:
    return {
        "trace": ids.traces,
        "calls": ids.calls,
        "approvals": ids.approvals,
        "gate": ids.verdicts,
    }


def hints(stage: Stage, ids: Ids) -> list[str]:
    """The commands for a reader, one of each kind."""
    store = shlex.quote(stage.store_url)
    shows = [
        f"sidecar {kind} show {found[-1]} --store {store}"
        for kind, found in _kinds(ids).items()
        if found
    ]
    return [*shows, f"sidecar audit verify --store {store}"]
