"""What coverage is counted from, gathered: a bundle of evidence or a suite just run, the registry,
the policy, and what production did.

Rules
1. A bundle that is not as it was written covers nothing: exit code 2.
2. Nothing of a bundle is run: of a twin that is written in Python, what its document says counts.
3. Runs that another revision of the policy decided say nothing of the configured one.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from sidecar.analyse.coverage.given import Given, concluded, expectations
from sidecar.app import opening, replaying
from sidecar.app.policy import open_release
from sidecar.config import Loaded
from sidecar.errors import ExitCode, SidecarError, StoreUnavailable
from sidecar.expression.document import convert, read
from sidecar.gate import evidence as names
from sidecar.gate.examine import integrity
from sidecar.gate.rerun import runs_of
from sidecar.gateway.policy.driver import sayings_of
from sidecar.gateway.policy.sayings import Saying
from sidecar.replay.driver import Progress, ReplayPlan, replay
from sidecar.replay.record import EpisodeRecord, Side
from sidecar.replay.run import Pins
from sidecar.store.traces import TraceQuery
from sidecar.twins.declaration import Declaration
from sidecar.twins.scenario import Case, Suite, cases

BATCH = 200


class Ran(Struct, frozen=True, kw_only=True):
    """Runs, and what is known of the suite they are of. ``revision`` is the policy's that decided,
    empty where no gateway took part."""

    suite: str
    runs: tuple[EpisodeRecord, ...]
    tools: dict[str, SideEffectClass]
    revision: str
    declarations: tuple[Declaration, ...] = ()
    cases: tuple[Case, ...] = ()
    fairness: tuple[str, ...] = ()


def of_bundle(files: Mapping[str, bytes], where: str) -> Ran:
    """The runs of a bundle of evidence. Raises SidecarError (exit 2) where it does not hold."""
    whole = integrity(files)
    if whole.faults:
        raise SidecarError(
            f"the evidence does not hold: {whole.faults[0]}",
            where=where,
            do="See all of it: sidecar gate verify.",
            code=ExitCode.UNDECIDED,
        )
    pins = msgspec.json.decode(files[names.PINS], type=Pins)
    suite, declarations = _documents(files)
    return Ran(
        suite=pins.suite,
        runs=tuple(run for _, run in runs_of(files, pins)),
        tools=msgspec.json.decode(files[names.TOOLS], type=dict[str, SideEffectClass]),
        revision=pins.policy_revision,
        declarations=declarations,
        cases=cases(suite) if suite else (),
        fairness=tuple(one.id for one in suite.fairness) if suite else (),
    )


def of_plan(
    plan: ReplayPlan, fairness: tuple[str, ...], loaded: Loaded, progress: Progress | None
) -> Ran:
    """The candidate of a plan, run now through the gateway. Raises SidecarError."""

    async def whole() -> tuple[tuple[EpisodeRecord, ...], str]:
        async with replaying.replay_ports(loaded) as ports:
            made = await replay(plan, ports, progress=progress)
            return tuple(made.runs), ports.policy.revision

    runs, revision = asyncio.run(whole())
    return Ran(
        suite=plan.suite,
        runs=runs,
        tools=plan.group.tools,
        revision=revision,
        declarations=tuple(twin.declaration for twin in plan.group.twins.values()),
        cases=plan.cases,
        fairness=fairness,
    )


def given(
    several: Sequence[Ran],
    loaded: Loaded,
    *,
    side: Side,
    traffic: Sequence[AgentTrace] | None,
    regressions: Sequence[str],
) -> Given:
    """All of it together. Raises SidecarError where the policy cannot be read."""
    every = tuple(run for one in several for run in one.runs)
    twins = {name: grade for one in several for name, grade in one.tools.items()}
    registry = {one.name: one.class_ for one in loaded.config.gateway.tools}
    own = concluded(every, side)
    of_side = [run for run in every if run.side == side]
    sayings, unknown = _policy(several, loaded)
    made = tuple(case for one in several for case in one.cases)
    return Given(
        tools={**twins, **registry},
        twin_tools=twins,
        runs=own,
        both=concluded(every, None),
        left_out=len(of_side) - len(own),
        declarations=tuple({one.twin: one for ran in several for one in ran.declarations}.values()),
        cases=made,
        fairness=tuple(rule for one in several for rule in one.fairness),
        sayings=sayings,
        policy_unknown=unknown,
        traffic=None if traffic is None else tuple(traffic),
        regressions=tuple(regressions),
        expected=expectations(made),
    )


def stored_traffic(loaded: Loaded, query: TraceQuery) -> tuple[AgentTrace, ...] | None:
    """The newest traces of a store, ``query.limit`` at most; None where there is no store."""
    found: list[AgentTrace] = []
    try:
        with opening.open_traces(loaded) as traces:
            while len(found) < query.limit:
                page = traces.list_traces(
                    replace(query, limit=min(BATCH, query.limit - len(found)))
                )
                read_now = (traces.get_trace(one.trace_id, one.project) for one in page)
                found += [trace for trace in read_now if trace is not None]
                if len(page) < BATCH:
                    break
                query = replace(query, after=(page[-1].started_ns, page[-1].trace_id))
    except StoreUnavailable:
        return None
    return tuple(found)


def _policy(several: Iterable[Ran], loaded: Loaded) -> tuple[tuple[Saying, ...], str]:
    revisions = {one.revision for one in several}
    if "" in revisions:
        return (), "no gateway took part in these runs, so no policy decided anything"
    policy = loaded.config.policy
    if policy.engine != "embedded" and not policy.bundle:
        return (), "the rules are an OPA server's own: name its bundle as policy.bundle"
    bundle = open_release(policy, loaded).bundle
    if revisions != {bundle.revision}:
        other = ", ".join(sorted(revisions - {bundle.revision}))
        return (), f"the runs were decided by policy {other}, the configured one is another"
    return asyncio.run(sayings_of(bundle)), ""


def _documents(files: Mapping[str, bytes]) -> tuple[Suite | None, tuple[Declaration, ...]]:
    """The suite and twins among the documents that a plan was read from."""
    suite: Suite | None = None
    declarations: list[Declaration] = []
    for path, data in files.items():
        if not path.startswith(names.INPUTS) or not path.endswith((".yaml", ".yml", ".json")):
            continue
        document = read(data.decode("utf-8"), name=path)
        if not isinstance(document.value, dict):
            continue
        if "scenarios" in document.value:
            suite = convert(document, Suite)
        elif "twin" in document.value:
            declarations.append(_with_schemas(convert(document, Declaration), files))
    return suite, tuple(declarations)


def _with_schemas(twin: Declaration, files: Mapping[str, bytes]) -> Declaration:
    """The twin with the row schemas that stand in files of their own."""
    entities = {}
    for name, entity in twin.entities.items():
        if set(entity.schema) == {"file"}:
            path = next((one for one in files if one.endswith(f"/{entity.schema['file']}")), "")
            schema = read(files[path].decode("utf-8"), name=path).value if path else {}
            entity = replace(entity, schema=schema if isinstance(schema, dict) else {})
        entities[name] = entity
    return replace(twin, entities=entities)
