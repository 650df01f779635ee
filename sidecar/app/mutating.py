"""A suite against its mutants: the configured policy, the engine on others, and the agent."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from processors.value import duration_ns
from sidecar.analyse.mutants.driver import Campaign, score
from sidecar.analyse.mutants.judging import Score
from sidecar.analyse.mutants.model import Target
from sidecar.app import replaying
from sidecar.app.parts import start
from sidecar.app.policy import open_release
from sidecar.config import Loaded
from sidecar.gateway.policy.bundle import Bundle
from sidecar.gateway.policy.worker import PolicyWorker
from sidecar.gateway.upstream import PolicyPort
from sidecar.replay.driver import ReplayPlan
from sidecar.replay.shards.process.called import load
from sidecar.replay.worker import takes_tools

DEADLINE = "5s"


async def mutation_score(
    plan: ReplayPlan,
    loaded: Loaded,
    *,
    seed: int,
    targets: Sequence[Target],
    operators: Sequence[str],
    progress: Callable[[int, int], None] | None,
) -> Score:
    """The score of a plan's suite. Raises SidecarError, StoreUnavailable."""
    policy = loaded.config.policy
    embedded = policy.engine == "embedded"
    candidate = plan.candidate
    callable_ = candidate.kind in ("py", "call") and takes_tools(candidate.argv)
    reference = candidate.text.partition(":")[2]
    async with replaying.replay_ports(loaded) as ports:
        return await score(
            Campaign(
                plan=plan,
                ports=ports,
                agent=load(reference, str(Path.cwd())) if callable_ else None,
                bundle=open_release(policy, loaded).bundle if embedded else None,
                started=_started,
                targets=tuple(targets),
                seed=seed,
                operators=tuple(operators),
                progress=progress,
            )
        )


@asynccontextmanager
async def _started(bundle: Bundle) -> AsyncIterator[PolicyPort]:
    """The engine on another bundle. Raises SidecarError where it may not decide."""
    async with AsyncExitStack() as stack:
        worker = PolicyWorker(bundle, deadline_ns=duration_ns(DEADLINE))
        await start(stack, worker)
        yield worker
