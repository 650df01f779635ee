"""What a replay is handed."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from msgspec.structs import replace

from sidecar import clock
from sidecar.app.judging import open_judge, open_users
from sidecar.app.parts import start
from sidecar.app.policy import policy_port
from sidecar.config import Loaded
from sidecar.replay.config import Config
from sidecar.replay.stage.driver import StagePorts
from sidecar.store.envelope import KEY_BYTES, Sealer
from sidecar.store.sqlite.ledger import SqliteLedger


@asynccontextmanager
async def replay_ports(loaded: Loaded) -> AsyncIterator[StagePorts]:
    """What a replay needs: a ledger of its own that goes with it, and the configured policy.

    Nothing waits for the policy but the replay, so a busy machine must not become a denial.
    """
    data_key = clock.random_bytes(KEY_BYTES)
    sealer = Sealer(data_key, clock.random_bytes)
    policy = policy_port(replace(loaded.config.policy, deadline="5s"), loaded)
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(TemporaryDirectory(prefix="sidecar-replay-"))
        ledger = SqliteLedger(Path(folder) / "ledger.db", lambda _: sealer)
        stack.callback(ledger.close)
        await start(stack, policy)
        judge = await stack.enter_async_context(open_judge(loaded))
        users = await stack.enter_async_context(open_users(loaded))
        yield StagePorts(
            ledger=ledger,
            policy=policy,
            approvals=loaded.config.approvals,
            episode_key=clock.random_bytes(32),
            judge=judge,
            users=users,
            terms=_terms(loaded),
        )


def _terms(loaded: Loaded) -> Config:
    """The configured terms, with the credential's file as a path from here."""
    terms = loaded.config.replay
    shown = terms.agents.credential
    if shown is None:
        return terms
    found = replace(shown, file=str(loaded.path(shown.file)))
    return replace(terms, agents=replace(terms.agents, credential=found))


async def policy_revision(loaded: Loaded) -> str:
    """The revision of the policy that a replay decides by."""
    policy = policy_port(loaded.config.policy, loaded)
    if not policy.revision:  # an OPA server tells when it is asked
        async with AsyncExitStack() as stack:
            await start(stack, policy)
    return policy.revision
