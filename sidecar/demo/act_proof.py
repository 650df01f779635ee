"""The last act: every id shown resolves with the command a reader would type, and the audit chain
holds.

Rules
1. The commands are run as processes, with ``--store`` alone, as somebody would who has only the
   folder.
"""

from concurrent.futures import ThreadPoolExecutor

from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.processes import python
from sidecar.demo.stage import Stage

COMMAND_SECONDS = 60.0
_AT_ONCE = 2


def play(stage: Stage, ids: Ids) -> Act:
    """Resolve every id and verify the chain."""
    commands = [
        *(["trace", "show", one] for one in ids.traces),
        *(["calls", "show", one] for one in ids.calls),
        *(["approvals", "show", one] for one in ids.approvals),
        *(["gate", "show", one] for one in ids.verdicts),
        ["audit", "verify"],
    ]
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        codes = list(pool.map(lambda one: _code(stage, *one), enumerate(commands)))
    *shows, verify = codes
    unresolved = [" ".join(command) for command, code in zip(commands, shows, strict=False) if code]
    return Act(
        name="proof",
        story=("Everything above can be looked up by its id:", *hints(stage, ids)),
        checks=(
            Check(
                name="every trace, call, approval and verdict id resolves",
                held=not unresolved,
                detail="; ".join(unresolved) or f"{len(shows)} looked up",
            ),
            Check(name="the audit chain verifies", held=verify == 0, detail=f"exit code {verify}"),
        ),
    )


def _code(stage: Stage, number: int, command: list[str]) -> int:
    words = python("sidecar", *command, "--store", stage.store_url)
    code, _ = stage.run(f"proof-{number}", words).finish(seconds=COMMAND_SECONDS)
    return code


def hints(stage: Stage, ids: Ids) -> list[str]:
    """The commands for a reader, one of each kind."""
    kinds = (
        ("trace", ids.traces),
        ("calls", ids.calls),
        ("approvals", ids.approvals),
        ("gate", ids.verdicts),
    )
    lines = [
        f"sidecar {kind} show {found[-1]} --store {stage.store_url}"
        for kind, found in kinds
        if found
    ]
    return [*lines, f"sidecar audit verify --store {stage.store_url}"]
