"""numpy's dice are recorded and played bit for bit, where the agent has numpy."""

import sys

import numpy as np
import pytest
from ambient_rig import asked, both, library

pytestmark = pytest.mark.requirement("TAP-02")
ENTROPY = ("entropy", "entropy_random", "entropy_numpy")
THINGS = np.array([object() for _ in range(9)], dtype=object)
LEGACY = np.random.RandomState(5)
DICE = np.random.default_rng(5)


def filled():
    into = np.empty(3)
    assert DICE.random(out=into) is into
    return into


def shuffled(dice, cards):
    dice.shuffle(cards)
    return cards


THROWS = {
    "numpy.random.rand": lambda: np.random.rand(2, 3),
    "numpy.random.randn": lambda: np.random.randn(),
    "numpy.random.randint": lambda: np.random.randint(0, 9, size=4),
    "numpy.random.choice": lambda: np.random.choice(["a", "bc"], 5),
    "numpy.random.permutation": lambda: np.random.permutation(7),
    "numpy.random.shuffle": lambda: shuffled(np.random, np.arange(9)),
    "RandomState.normal": lambda: LEGACY.normal(0, 1, (2, 2)),
    "RandomState.choice": lambda: LEGACY.choice(THINGS, 3),
    "Generator.random": filled,
    "Generator.integers": lambda: DICE.integers(0, 2**60, 3, dtype=np.uint64),
    "Generator.normal": lambda: DICE.normal(),
    "Generator.bytes": lambda: DICE.bytes(5),
    "Generator.choice": lambda: DICE.choice(THINGS),
    "Generator.permutation": lambda: DICE.permutation(THINGS),
    "Generator.permuted": lambda: DICE.permuted(np.arange(12).reshape(3, 4), axis=1),
    "Generator.multivariate_normal": lambda: DICE.multivariate_normal([0, 1], np.eye(2)),
    "Generator.shuffle": lambda: shuffled(DICE, list(THINGS)),
}


@pytest.mark.parametrize("name", THROWS)
def test_every_throw_comes_back_bit_for_bit(tmp_path, name):
    was, now, tape = both(tmp_path / "a.tape", ENTROPY, THROWS[name])
    assert type(now) is type(was)
    if isinstance(was, list):
        assert all(one is two for one, two in zip(now, was, strict=True))
    else:
        assert np.asarray(now).dtype == np.asarray(was).dtype
        assert np.array_equal(now, was)
    assert asked(tape) == [("entropy", name)]


def test_a_recorded_generator_throws_what_it_would_have_thrown(tmp_path):
    def throws(dice):
        return [dice.random(), dice.integers(5, size=3).tolist(), dice.choice(9), dice.random()]

    was, now, _ = both(tmp_path / "a.tape", ENTROPY, lambda: throws(np.random.default_rng(1)))
    assert was == now == throws(np.random.default_rng(1))


def test_a_library_keeps_its_dice_and_goes_on_with_the_agents(tmp_path):
    theirs = library(
        tmp_path,
        "import numpy as np\n"
        "def throw():\n    return [np.random.default_rng().random()]\n"
        "def throw_with(dice):\n    return dice.random()\n",
    )

    def agent():
        mine = np.random.default_rng()
        np.random.seed()
        said = [theirs.throw_with(mine), mine.integers(9), theirs.throw_with(mine)]
        return said, theirs.throw_with(np.random), theirs.throw()

    (was, shared, first), (now, again, second), tape = both(tmp_path / "a.tape", ENTROPY, agent)
    assert (was, shared) == (now, again)
    assert not set(first) & set(second)
    assert [name for _, name in asked(tape)] == [
        *("numpy.random.default_rng", "numpy.random.seed", "Generator.integers"),
    ]


def test_after_the_session_everything_is_what_it_was(tmp_path):
    def all_of():
        return [
            {k: v for k, v in vars(one).items() if k[0] != "_"}
            for one in (np.random, np.random.Generator, np.random.RandomState)
        ]

    before = all_of()
    both(tmp_path / "a.tape", ENTROPY, lambda: np.random.rand())
    assert all_of() == before


def test_numpy_is_imported_by_nobody_but_the_agent():
    import subprocess

    code = "import sys, sidecar.capture.seams.install as i\n"
    code += "import sidecar.capture.seams.entropy_numpy, sidecar.capture.seams.told\n"
    code += "sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-P", "-c", code], timeout=60).returncode == 0
