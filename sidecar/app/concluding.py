"""A replay from its options to the verdict that is kept, for the command and for the library.

**Rules**
1. The verdict is stored, its evidence written and its log continued before anybody is told.
2. Nothing is printed here; what is to be said of captured traffic goes to ``note``.
"""

import asyncio
import importlib.metadata
import sys
from collections.abc import Callable
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from msgspec import Struct

from processors.model.verdict import Verdict
from processors.value import TIMEOUT_LEAST_NS, duration_ns
from sidecar import clock
from sidecar.app import opening, replaying
from sidecar.app.attesting import made_here
from sidecar.app.planning import Named, plan_of
from sidecar.app.repeating import repeated
from sidecar.app.surrounding import surroundings
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.gate.chain import entry_of
from sidecar.gate.conclude import fold, gate_input, verdict_of
from sidecar.gate.evidence import bundle
from sidecar.gate.files import append_log, last_told_ns, log_path, remove_parts, write_bundle
from sidecar.gate.policy import GatePolicy
from sidecar.identity.projects import project_name
from sidecar.replay.driver import Progress, ReplayPlan
from sidecar.replay.planning import Asked
from sidecar.replay.reference import read_reference
from sidecar.replay.run import ReplayResult


class Wanted(Struct, frozen=True, kw_only=True):
    """What is to be replayed, as ``sidecar replay`` is asked for it. ``deadline``: "" = the
    suite's."""

    suite: str
    candidate: str
    baseline: str | None = None
    twins: tuple[Path, ...] = ()
    state: Path | None = None
    project: str | None = None
    deterministic: bool = False
    agent: str = ""
    deadline: str = ""


class Kept(Struct, frozen=True, kw_only=True):
    """How a verdict is held, signed, and where it is put."""

    policy: GatePolicy
    keys: tuple[Ed25519PrivateKey, ...]
    folder: Path | None


def planned(loaded: Loaded, wanted: Wanted, note: Callable[[str], object]) -> ReplayPlan:
    """What is to be run. Raises SidecarError."""
    named = Named(suite=wanted.suite, twins=wanted.twins, state=wanted.state, now_ns=clock.now_ns())
    made = plan_of(loaded, named, _asked(loaded, wanted))
    for said in made.notes:
        note(said)
    return made.plan


def judge(
    loaded: Loaded, plan: ReplayPlan, how: Kept, *, jobs: int = 0, progress: Progress | None = None
) -> Verdict:
    """Run a plan, and keep the verdict on it. Raises SidecarError; inside no event loop."""
    return keep(loaded, plan, asyncio.run(_run(loaded, plan, how.policy, jobs, progress)), how)


def _asked(loaded: Loaded, wanted: Wanted) -> Asked:
    if wanted.deadline:
        try:
            duration_ns(wanted.deadline, least_ns=TIMEOUT_LEAST_NS)
        except ValueError as error:
            raise SidecarError(str(error), where="--deadline") from None
    baseline = wanted.baseline
    python = sys.executable
    return Asked(
        project=_project(loaded, wanted.project),
        candidate=read_reference(wanted.candidate, option="--candidate", python=python),
        baseline=read_reference(baseline, option="--baseline", python=python) if baseline else None,
        deterministic=wanted.deterministic,
        deadline=wanted.deadline,
        agent=wanted.agent,
        program_version=importlib.metadata.version("agenttwin-sidecar"),
    )


def _project(loaded: Loaded, named: str | None) -> str:
    if named is None:
        return loaded.config.projects[0].name
    return project_name(named, where="--project")


async def _run(
    loaded: Loaded, plan: ReplayPlan, policy: GatePolicy, jobs: int, progress: Progress | None
) -> ReplayResult:
    async with replaying.replay_ports(loaded) as ports:
        return await repeated(plan, ports, policy, concurrency=jobs, progress=progress)


def keep(loaded: Loaded, plan: ReplayPlan, result: ReplayResult, how: Kept) -> Verdict:
    """The verdict on a result, with its evidence written and its log continued."""
    store = Path(loaded.store_folder) / "evidence"
    # A clock that was set back ends no quarantine later, and makes no verdict older than the last.
    now_ns = max(clock.now_ns(), last_told_ns(log_path(store, plan.project)))
    policy = how.policy
    folded = fold(result.pins, result.runs)
    around = surroundings(loaded, plan, result, policy)
    given = gate_input(result.pins, folded, policy, now_ns, around)
    verdict = verdict_of(result.pins, folded, given, verdict_id=clock.new_id(), now_ns=now_ns)
    folder = _folder(loaded, how) / verdict.verdict_id
    whole = bundle(
        result,
        given,
        verdict,
        folder=str(folder),
        made=made_here(dict(plan.group.tools), Path.cwd()),
        keys=how.keys,
    )
    sealed = write_bundle(whole, folder)
    append_log(log_path(store, verdict.project), entry_of(sealed.verdict, sealed.manifest.root))
    with opening.open_verdicts(loaded, write=True) as verdicts:
        verdicts.add_verdict(sealed.verdict)
    return sealed.verdict


def tidied(loaded: Loaded, how: Kept) -> list[Path]:
    """The folders that replays which were killed had begun to write evidence into, removed."""
    return remove_parts(_folder(loaded, how))


def _folder(loaded: Loaded, how: Kept) -> Path:
    return how.folder or Path(loaded.store_folder) / "evidence"
