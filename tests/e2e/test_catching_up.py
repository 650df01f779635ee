"""Slow is waited on, stuck is told."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from catching_up import until_none


class World:
    """Time that passes with each count, and what each count finds; the last one for ever."""

    def __init__(self, *found, count_seconds=0):
        self.found, self.count_seconds = list(found), count_seconds
        self.at, self.counts = 0.0, 0

    def left(self):
        self.at += self.count_seconds
        self.counts += 1
        return self.found.pop(0) if len(self.found) > 1 else self.found[0]

    def pause(self, seconds):
        self.at += seconds

    def run(self, seconds):
        return until_none(self.left, seconds, now=lambda: self.at, pause=self.pause)


def test_who_comes_nearer_is_waited_on_however_long_it_takes():
    world = World(*range(50, -1, -1), count_seconds=9)
    assert world.run(10) == 0
    assert world.at > 400


def test_who_gets_nowhere_for_that_long_has_stopped():
    world = World(9, 7, 7)
    assert world.run(10) == 7
    assert world.at == pytest.approx(10.5)


def test_to_and_fro_is_no_progress():
    world = World(*[5, 6] * 100)
    assert world.run(10) in (5, 6)
    assert world.at < 12


def test_one_count_that_takes_longer_than_that_is_not_the_last():
    world = World(3, 0, count_seconds=60)
    assert world.run(10) == 0


def test_what_cannot_be_counted_is_tried_again_and_is_no_progress():
    assert World(None, None, 4, 0).run(10) == 0
    assert World(None).run(10) is None


def test_who_is_there_already_is_not_waited_on():
    world = World(0)
    assert (world.run(10), world.counts, world.at) == (0, 1, 0)
