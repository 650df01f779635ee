"""A campaign: mutate, run, name the failure, and for a new one confirm, shrink and draft it.

Rules
1. An episode is a function of the suite, the agent, the seed and the episodes before it: the same
   seed finds the same.
2. Of a hundred episodes sixty are guided (mutants of what brought something new, other orders of
   conflicting calls), twenty walk a covering array, twenty are drawn uniformly: those alone tell
   how much is unseen.
3. A mutant counts only where it is valid: the reference passes it; errands together pass one after
   another. Others are counted as invalid, never as found.
4. A scenario that fails as it is, is told so and not mutated.
"""

from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct, structs

from sidecar.analyse.fuzz.archive import Archive
from sidecar.analyse.fuzz.base import Base
from sidecar.analyse.fuzz.curve import Discovery, Point
from sidecar.analyse.fuzz.dice import Dice
from sidecar.analyse.fuzz.draft import draft
from sidecar.analyse.fuzz.feedback import covered
from sidecar.analyse.fuzz.judged import Bench, MakeAgent, Ran
from sidecar.analyse.fuzz.mutations import AnyMutation, Genome, Joined, Switched
from sidecar.analyse.fuzz.operators import Pool, covering, drawn, of_row, pool, swarm
from sidecar.analyse.fuzz.right import expecting, kept, tells
from sidecar.analyse.fuzz.shrink import shrink
from sidecar.analyse.fuzz.signature import Failed, Signature
from sidecar.analyse.together.run import Limits
from sidecar.analyse.together.schedule import Chooser, at_random, by_priority, reversals
from sidecar.errors import SidecarError
from sidecar.twins.group import TwinGroup
from sidecar.twins.scenario import Scenario, Suite

Arm = Literal["guided", "combinatorial", "uniform"]
CONFIRM = 5
_SWARM_EVERY = 50
_GENES_MAX = 4
_POINTS = 20


class Plan(Struct, frozen=True, kw_only=True):
    """What to fuzz. ``layers`` (all when empty) limits the operators; ``depth`` is PCT's."""

    suite: Suite
    group: TwinGroup
    agent: MakeAgent
    reference: MakeAgent | None = None
    seed: int = 0
    episodes: int = 2000
    strength: int = 2
    depth: int = 3
    layers: tuple[str, ...] = ()
    limits: Limits = Limits()


class Finding(Struct, frozen=True, kw_only=True):
    """One failure, shrunk. ``hits`` of ``CONFIRM`` runs failed so; ``whole`` as in ``Shrunk``."""

    signature: Signature
    detail: str
    base: str
    genome: Genome
    scenario: Scenario
    episode: int
    arm: Arm
    hits: int
    replays: int
    whole: bool


class AsItIs(Struct, frozen=True, kw_only=True):
    """A scenario that is not mutated, since it fails, or is void, as it is."""

    scenario: str
    why: str
    void: bool = False


class Report(Struct, frozen=True, kw_only=True):
    """What a campaign came to; ``episodes`` are those of the arms, ``runs`` all of them."""

    seed: int
    episodes: int
    runs: int
    findings: tuple[Finding, ...]
    as_it_is: tuple[AsItIs, ...]
    curve: tuple[Point, ...]
    unseen: float | None
    chao1: float
    invalid: int
    void: int
    unconfirmed: int
    cells: int
    reference: bool
    bases: int


class _Aimed(Struct, frozen=True):
    base: str
    genome: Genome
    arm: Arm


class Campaign:
    """A campaign under way; ``step`` runs an episode, ``report`` tells what it came to."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.bench = Bench(plan.suite, plan.group, plan.limits)
        self._bases: dict[str, Base] = {}
        self._pools: dict[str, Pool] = {}
        self._rows: list[_Aimed] = []
        self._orders: list[_Aimed] = []
        self._tried: set[str] = set()
        self._pairs: dict[tuple[str, tuple[str, ...]], bool] = {}
        self._archive = Archive()
        self.discovery = Discovery()
        self._findings: list[Finding] = []
        self._as_it_is: list[AsItIs] = []
        self._curve: list[Point] = []
        self._counts = {"invalid": 0, "void": 0, "unconfirmed": 0}
        self._begin()

    @property
    def found(self) -> Sequence[Finding]:
        """What was found so far."""
        return self._findings

    @property
    def runnable(self) -> bool:
        """Whether anything can be mutated."""
        return bool(self._bases)

    def step(self) -> Finding | None:
        """Run the next episode; the finding where it was a new one."""
        number = self.discovery.episodes
        aimed = self._aimed(number)
        scenario = self._written(aimed.base, aimed.genome)
        ran = self.bench.run(scenario, self._plan.agent, self._chooser(aimed, scenario, number))
        genome = _scheduled(aimed.genome, ran)
        failed = ran.failed
        if ran.void:
            self._counts["void"] += 1
        elif failed is not None and not self._counts_as(failed, aimed.base, genome):
            self._counts["invalid"] += 1
            failed = None
        if not ran.void:
            self._learn(aimed.base, genome, ran, failed)
        key = failed.signature.key if failed is not None else None
        new = self.discovery.add(key, uniform=aimed.arm == "uniform")
        self._mark()
        if not new or failed is None:
            return None
        return self._kept(aimed, genome, failed, number + 1)

    def report(self) -> Report:
        """What the campaign came to so far."""
        point = self.discovery.point(len(self._archive.seen))
        curve = self._curve
        if not curve or curve[-1].episodes != point.episodes:
            curve = [*curve, point]
        return Report(
            seed=self._plan.seed,
            episodes=self.discovery.episodes,
            runs=self.bench.runs,
            findings=tuple(self._findings),
            as_it_is=tuple(self._as_it_is),
            curve=tuple(curve),
            unseen=point.unseen,
            chao1=self.discovery.chao1(),
            cells=len(self._archive),
            reference=self._plan.reference is not None,
            bases=len(self._bases),
            **self._counts,
        )

    def _begin(self) -> None:
        plan = self._plan
        drafts = {one.id: draft(one, plan.group) for one in plan.suite.scenarios}
        for scenario in plan.suite.scenarios:
            ran = self.bench.run(scenario, plan.agent)
            if ran.void or ran.failed is not None or ran.run.conclusion != "passed":
                self._as_it_is.append(_not_mutated(scenario, ran))
                continue
            peers = tuple(
                (other, drafts[other.id].tables)
                for other in plan.suite.scenarios
                if other.id != scenario.id
            )
            base = Base(
                draft=drafts[scenario.id], group=plan.group, history=ran.history, peers=peers
            )
            known = {
                name: some
                for name, some in pool(base).items()
                if not plan.layers or name.partition("/")[0] in plan.layers
            }
            if known:
                self._bases[scenario.id] = base
                self._pools[scenario.id] = known
                self._archive.seen |= covered(
                    ran.run, ran.history, None, base=ran.history, expect=scenario.expect
                )
        self._rows = list(self._arrays())

    def _arrays(self) -> Iterator[_Aimed]:
        """The rows of every base's array, one of each in turn."""
        plan = self._plan
        arrays = {}
        for name, base in self._bases.items():
            known = self._pools[name]
            rows = covering(known, base, strength=plan.strength, salt=str(plan.seed))
            dice = Dice(plan.seed, f"array|{name}")
            arrays[name] = [genome for row in rows if (genome := of_row(row, known, dice))]
        for place in range(max(map(len, arrays.values()), default=0)):
            for name, genomes in arrays.items():
                if place < len(genomes):
                    yield _Aimed(name, genomes[place], "combinatorial")

    def _aimed(self, number: int) -> _Aimed:
        dice = Dice(self._plan.seed, f"episode|{number}")
        chance = dice.chance()
        if chance >= 0.8:
            return self._uniform(dice)
        if chance >= 0.6 and self._rows:
            return self._rows.pop(0)
        return self._guided(dice, number)

    def _uniform(self, dice: Dice) -> _Aimed:
        name = dice.pick(sorted(self._bases))
        known = self._pools[name]
        genome = [drawn(known, sorted(known), dice) for _ in range(1 + dice.below(3))]
        return _Aimed(name, _once_each(genome), "uniform")

    def _guided(self, dice: Dice, number: int) -> _Aimed:
        if self._orders and dice.chance() < 0.5:
            return self._orders.pop(0)
        elite = self._archive.next()
        name = elite.base if elite is not None else dice.pick(sorted(self._bases))
        known = self._pools[name]
        swarming = Dice(self._plan.seed, f"swarm|{number // _SWARM_EVERY}|{name}")
        names = swarm(sorted(known), swarming)
        genome = list(elite.genome) if elite is not None else []
        if genome and (len(genome) >= _GENES_MAX or dice.chance() < 0.4):
            genome.pop(dice.below(len(genome)))
        genome.append(drawn(known, names, dice))
        return _Aimed(name, _once_each(genome), "guided")

    def _chooser(self, aimed: _Aimed, scenario: Scenario, number: int) -> Chooser | None:
        if not scenario.agents or any(isinstance(one, Switched) for one in aimed.genome):
            return None
        seed = Dice(self._plan.seed, f"schedule|{number}").below(2**32)
        if aimed.arm == "uniform":
            return at_random(seed)
        length = 2 * max(len(self._bases[aimed.base].history.moves), 1)
        return by_priority(seed, depth=self._plan.depth, length=length)

    def _written(self, name: str, genome: Genome) -> Scenario:
        made = self._bases[name].draft
        for one in sorted(genome, key=_joined_first):
            made = one.apply(made)
        return expecting(made.written(), genome, reference=self._plan.reference is not None)

    def _counts_as(self, failed: Failed, name: str, genome: Genome) -> bool:
        """Whether a failure is the agent's."""
        known = self._plan.reference is not None
        return tells(failed.signature.mode, genome, reference=known) and self._valid(name, genome)

    def _valid(self, name: str, genome: Genome) -> bool:
        """Whether the mutant could be done right."""
        plain = tuple(one for one in genome if not isinstance(one, Switched))
        joined = tuple(one for one in plain if isinstance(one, Joined))
        if joined and not self._agreeing(name, joined):
            return False
        if self._plan.reference is None:
            return True
        ran = self.bench.run(self._written(name, plain), self._plan.reference)
        return not ran.void and ran.failed is None

    def _agreeing(self, name: str, joined: tuple[Joined, ...]) -> bool:
        """Whether the errands pass one after another, with no other mutation."""
        place = (name, tuple(one.name for one in joined))
        if place not in self._pairs:
            ran = self.bench.run(self._written(name, joined), self._plan.agent)
            self._pairs[place] = not ran.void and ran.failed is None
        return self._pairs[place]

    def _learn(self, name: str, genome: Genome, ran: Ran, failed: Failed | None) -> None:
        base, last = self._bases[name], ran.history.moves[-1:]
        features = covered(
            ran.run,
            ran.history,
            failed,
            base=base.history,
            expect=base.draft.scenario.expect,
        )
        fired = [one.fault for one in ran.run.events if one.kind == "fault_fired" and one.fault]
        cell = (
            failed.signature.mode if failed is not None else "none",
            last[0].asked.tool if last else "",
            fired[-1] if fired else "",
        )
        self._archive.add(cell, name, genome, features)
        if len(ran.history.agents) > 1 and failed is None:
            self._reorder(name, genome, ran)

    def _reorder(self, name: str, genome: Genome, ran: Ran) -> None:
        plain = tuple(one for one in genome if not isinstance(one, Switched))
        for switches in reversals(ran.history):
            other = (*plain, *(Switched(operator="switch", switch=one) for one in switches))
            told = f"{name} {other}"
            if told not in self._tried:
                self._tried.add(told)
                self._orders.append(_Aimed(name, other, "guided"))

    def _kept(self, aimed: _Aimed, genome: Genome, failed: Failed, episode: int) -> Finding | None:
        key = failed.signature.key
        hits = sum(self._fails(aimed.base, genome, key) for _ in range(CONFIRM))
        if hits == 0:
            self._counts["unconfirmed"] += 1
            return None
        times = 1 if hits == CONFIRM else CONFIRM
        least = 1 if times == 1 else max(1, hits // 2)

        def fails(smaller: Genome) -> bool:
            shown = sum(self._fails(aimed.base, smaller, key) for _ in range(times))
            return shown >= least and self._valid(aimed.base, smaller)

        shrunk = shrink(genome, fails, times=times)
        scenario = self._written(aimed.base, shrunk.genome)
        ran = self.bench.run(scenario, self._plan.agent)
        told = ran.failed.detail if ran.failed is not None else failed.detail
        finding = Finding(
            signature=failed.signature,
            detail=told,
            base=aimed.base,
            genome=shrunk.genome,
            scenario=kept(
                structs.replace(scenario, id=f"{aimed.base}-{key}", title=told, severity="critical")
            ),
            episode=episode,
            arm=aimed.arm,
            hits=hits,
            replays=shrunk.replays,
            whole=shrunk.whole,
        )
        self._findings.append(finding)
        return finding

    def _fails(self, name: str, genome: Genome, key: str) -> bool:
        ran = self.bench.run(self._written(name, genome), self._plan.agent)
        return ran.failed is not None and not ran.void and ran.failed.signature.key == key

    def _mark(self) -> None:
        done = self.discovery.episodes
        if done * _POINTS // max(self._plan.episodes, 1) > len(self._curve):
            self._curve.append(self.discovery.point(len(self._archive.seen)))


def campaign(plan: Plan) -> Campaign:
    """A campaign with the scenarios run as they are. Raises SidecarError where it has nothing."""
    made = Campaign(plan)
    if plan.episodes and not made.runnable:
        why = "; ".join(f"{one.scenario}: {one.why}" for one in made.report().as_it_is)
        raise SidecarError(
            f"no scenario passes as it is, so there is nothing to mutate: {why}",
            do="Give an agent that passes the suite, or more layers.",
        )
    return made


def _scheduled(genome: Genome, ran: Ran) -> Genome:
    """The genome with the switches that its run made."""
    plain = tuple(one for one in genome if not isinstance(one, Switched))
    switches = (Switched(operator="switch", switch=one) for one in ran.history.switches)
    return (*plain, *switches)


def _joined_first(one: AnyMutation) -> bool:
    return not isinstance(one, Joined)


def _once_each(genome: Sequence[AnyMutation]) -> Genome:
    """Without repetitions, and with at most one errand beside."""
    made: dict[str, AnyMutation] = {}
    for one in genome:
        made["beside" if isinstance(one, Joined) else str(one)] = one
    return tuple(made.values())


def _not_mutated(scenario: Scenario, ran: Ran) -> AsItIs:
    if ran.void:
        return AsItIs(scenario=scenario.id, why=ran.void, void=True)
    if ran.failed is not None:
        return AsItIs(scenario=scenario.id, why=f"fails as it is: {ran.failed.detail}")
    return AsItIs(scenario=scenario.id, why="is incomplete without a gateway", void=True)
