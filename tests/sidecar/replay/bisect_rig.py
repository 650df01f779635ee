"""Bisections in process: orders, oracles that follow from a culprit, and a loop that runs them."""

import random

from sidecar.replay.bisect.model import Asked, Conclusion, Run
from sidecar.replay.bisect.order import Order, set_of
from sidecar.replay.bisect.step import next_step


def drive(order, asked, oracle, *, most=2000):
    """The conclusion, and every run that led to it."""
    runs = []
    while len(runs) < most:
        step = next_step(order, asked, runs)
        if isinstance(step, Conclusion):
            return step, runs
        runs.append(
            Run(point=step.point, verdict=oracle(step.point), purpose=step.purpose, of=step.of)
        )
    raise AssertionError(f"no conclusion after {most} runs")


def chain(count):
    return Order([[], *([one] for one in range(count - 1))])


def graph(count, seed, *, merges=0.3):
    """A history with one root and one tip, in which some points have two parents."""
    dice = random.Random(seed)
    parents = [[]]
    tips = {0}
    for point in range(1, count):
        found = {dice.randrange(max(0, point - 6), point)}
        if dice.random() < merges:
            found.add(dice.choice(sorted(tips)))
        parents.append(sorted(found))
        tips -= found
        tips.add(point)
    parents.append(sorted(tips))
    return Order(parents)


def ask(order, **more):
    """A bisection between the first point and the last."""
    return Asked(goods=(0,), bad=len(order) - 1, floor=set_of([0]), **more)


def monotone(order, culprit, skipped=()):
    """The oracle of a behaviour that one point introduced."""
    above = order.above(culprit)

    def oracle(point):
        if point in skipped:
            return "skip"
        return "bad" if above >> point & 1 else "good"

    return oracle


def unsteady(order, culprit, dice, rate, spurious=0.0):
    """The same where it shows at a rate, and elsewhere at a spurious one."""
    above = order.above(culprit)

    def oracle(point):
        return "bad" if dice.random() < (rate if above >> point & 1 else spurious) else "good"

    return oracle
