"""The control API's desk, and what it tells of the sidecar itself."""

from collections.abc import Callable
from contextlib import AsyncExitStack, closing
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as distribution_version

from sidecar import clock
from sidecar.app.opening import open_backend
from sidecar.config import Config, Loaded
from sidecar.control.changes import Bench
from sidecar.control.documents import PolicyDocument, ProjectDocument, Version
from sidecar.control.operations import API_VERSION
from sidecar.control.reads import House, Views, tool_document
from sidecar.control.worker import CallDesk, Desk
from sidecar.gateway.registry import Registry
from sidecar.identity.driver import Authenticate
from sidecar.store.backend import (
    Ledger,
)
from sidecar.store.envelope import Keyring

DISTRIBUTION = "agenttwin-sidecar"


def open_desk(
    stack: AsyncExitStack,
    loaded: Loaded,
    who: Authenticate,
    *,
    ledger: Ledger,
    calls: CallDesk,
    ring: Keyring,
    house: House,
) -> Desk:
    """What both wires of the control API ask, over connections of its own: nobody's list holds up
    the gateway's."""
    stores = stack.enter_context(open_backend(loaded))
    keys = stack.enter_context(closing(stores.keys()))
    views = Views(
        ledger=stack.enter_context(closing(stores.read_ledger(ring))),
        traces=stack.enter_context(closing(stores.traces())),
        published=stack.enter_context(closing(stores.published())),
        verdicts=stack.enter_context(closing(stores.verdicts(write=False))),
        keys=keys,
        house=house,
    )
    bench = Bench(keys=keys, random=clock.random_bytes)
    return Desk(
        views,
        bench,
        ledger,
        who,
        calls,
        approvals=loaded.config.approvals,
        policy_approvers=loaded.config.policy.approvers,
    )


def open_house(config: Config, registry: Registry, revision: Callable[[], str]) -> House:
    """What the control API tells of the sidecar itself."""
    mode, rules = config.gateway.mode, config.approvals
    shown = {
        project.name: ProjectDocument(
            name=project.name,
            role="",
            capture=project.content.capture,
            traces_retention=project.retention.traces,
            content_retention=project.retention.content,
        )
        for project in (config.project(""), *config.projects)
    }
    try:
        version = distribution_version(DISTRIBUTION)
    except PackageNotFoundError:  # run from a folder that was never installed
        version = "unknown"
    return House(
        version=Version(name=DISTRIBUTION, version=version, api=API_VERSION),
        policy=PolicyDocument(
            engine=config.policy.engine,
            revision=revision(),
            mode=mode,
            approvers=rules.approvers,
            approvals_expire=rules.expires,
            approvals_execute_within=rules.execute_within,
            distinct_from=rules.distinct_from,
        ),
        tools=tuple(tool_document(registry.tools[name], mode) for name in sorted(registry.tools)),
        projects=shown,
        project=shown[""],
        revision=revision,
        budgets=config.budgets,
        organisations=config.organisations_of,
    )
