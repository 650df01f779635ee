"""The agent's dice are recorded and played; everybody else's are thrown as ever."""

import os
import pickle
import random
import secrets
import threading
import uuid
from random import choice
from random import random as toss
from uuid import uuid4

import pytest
from ambient_rig import asked, both, library, with_seams
from capture_rig import recorded, replayed, session_of
from capture_rig import run as run_in

from sidecar.capture.modes import ToolsPlayer
from sidecar.capture.plan import Plan
from sidecar.capture.record import redactor_of
from sidecar.tape.codec import DEFAULT, Codecs

pytestmark = pytest.mark.requirement("TAP-02")
ENTROPY = ("entropy", "entropy_random")
DICE = random.Random(7)
SYSTEM = random.SystemRandom()


class Thing:
    pass


class Loaded(random.Random):
    def random(self):
        return super().random() / 2


THINGS = [Thing() for _ in range(20)]
THROWS = {
    "os.urandom": lambda: os.urandom(16),
    "uuid.uuid1": lambda: uuid.uuid1(),
    "uuid.uuid4": lambda: uuid4(),
    "uuid.getnode": lambda: uuid.getnode(),
    "secrets.token_bytes": lambda: secrets.token_bytes(8),
    "secrets.token_hex": lambda: secrets.token_hex(),
    "secrets.token_urlsafe": lambda: secrets.token_urlsafe(12),
    "secrets.randbelow": lambda: secrets.randbelow(10**30),
    "secrets.randbits": lambda: secrets.randbits(200),
    "secrets.choice": lambda: secrets.choice(THINGS),
    "random.random": lambda: toss(),
    "random.uniform": lambda: random.uniform(1, 9),
    "random.triangular": lambda: random.triangular(5, 5, 5),
    "random.randint": lambda: random.randint(1, 10**20),
    "random.randrange": lambda: random.randrange(0, 100, 3),
    "random.getrandbits": lambda: random.getrandbits(100),
    "random.randbytes": lambda: random.randbytes(9),
    "random.gauss": lambda: random.gauss(0, 1),
    "random.normalvariate": lambda: random.normalvariate(0, 1),
    "random.lognormvariate": lambda: random.lognormvariate(0, 1),
    "random.expovariate": lambda: random.expovariate(1.5),
    "random.vonmisesvariate": lambda: random.vonmisesvariate(0, 1),
    "random.gammavariate": lambda: random.gammavariate(1, 1),
    "random.betavariate": lambda: random.betavariate(1, 1),
    "random.paretovariate": lambda: random.paretovariate(1),
    "random.weibullvariate": lambda: random.weibullvariate(1, 1),
    "random.getstate": lambda: random.getstate(),
    "random.choice": lambda: choice(THINGS),
    "random.choices": lambda: random.choices(THINGS, range(1, 21), k=5),
    "random.sample": lambda: random.sample(THINGS, 5, counts=[2] * 20),
    "Random.random": lambda: DICE.random(),
    "Random.randint": lambda: DICE.randint(1, 6),
    "Random.choice": lambda: DICE.choice(THINGS),
    "Random.sample": lambda: DICE.sample(THINGS, k=3),
    "SystemRandom.random": lambda: SYSTEM.random(),
    "SystemRandom.getrandbits": lambda: SYSTEM.getrandbits(70),
    "SystemRandom.randint": lambda: SYSTEM.randint(1, 10**9),
    "SystemRandom.choice": lambda: SYSTEM.choice(THINGS),
}


@pytest.mark.parametrize("name", THROWS)
@pytest.mark.row("R25")
def test_every_throw_comes_back_as_it_was_and_in_its_type(tmp_path, name):
    was, now, tape = both(tmp_path / "a.tape", ENTROPY, lambda: [THROWS[name]() for _ in range(2)])
    assert now == was
    assert [type(one) for one in now] == [type(one) for one in was]
    assert asked(tape) == [("entropy", name)] * 2


def test_a_shuffle_leaves_the_agents_own_objects_in_the_same_order(tmp_path):
    def agent():
        cards = THINGS.copy()
        random.shuffle(cards)
        DICE.shuffle(cards)
        return cards

    was, now, tape = both(tmp_path / "a.tape", ENTROPY, agent)
    assert was == now != THINGS
    assert asked(tape) == [("entropy", "random.shuffle"), ("entropy", "Random.shuffle")]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_recorded_generator_throws_what_it_would_have_thrown(tmp_path, seed):
    def throws(dice):
        cards = list("abcdefgh")
        dice.shuffle(cards)
        return [
            *(dice.random(), dice.gauss(0, 1), dice.randint(1, 99), dice.choice("abc"), cards),
            *(dice.choices("abc", [1, 2, 3], k=4), dice.sample(range(50), 6), dice.getrandbits(80)),
        ]

    plain = throws(random.Random(seed))
    was, now, _ = both(tmp_path / "a.tape", ENTROPY, lambda: throws(random.Random(seed)))
    assert was == now == plain


def test_a_library_goes_on_with_the_agents_generator_from_where_it_was(tmp_path):
    theirs = library(tmp_path, "import random\ndef throw(dice):\n    return dice.random()\n")

    def agent():
        random.seed(11)
        mine, fresh = random.Random(), random.Random(3)
        fresh.seed()
        return [
            *(theirs.throw(mine), mine.random(), theirs.throw(mine)),
            *(theirs.throw(fresh), fresh.choice("ab"), theirs.throw(fresh)),
            *(random.random(), theirs.throw(random), random.sample(range(9), 4)),
            theirs.throw(random),
        ]

    was, now, tape = both(tmp_path / "a.tape", ENTROPY, agent)
    assert was == now
    assert [name for _, name in asked(tape)] == [
        *("random.Random", "Random.seed", "Random.random", "Random.choice"),
        *("random.random", "random.sample"),
    ]


def test_so_it_does_in_a_mode_in_which_dice_beyond_the_tape_are_real(tmp_path):
    theirs = library(tmp_path, "def throw(dice):\n    return dice.random()\n")
    got = []

    def agent():
        dice = random.Random(5)
        got.append([theirs.throw(dice), dice.random(), theirs.throw(dice)])

    run = with_seams(ENTROPY, agent)
    tape = recorded(tmp_path / "a.tape", run)
    player = ToolsPlayer(Plan(mode="tools"), tape, redactor_of("full"), Codecs(DEFAULT))
    run_in(session_of(player=player), run)
    assert got[0] == got[1]


def test_a_library_keeps_its_dice(tmp_path):
    theirs = library(
        tmp_path,
        "import os, random, secrets, uuid\n"
        "def throw():\n"
        "    return [os.urandom(8), random.random(), random.Random().random(), uuid.uuid4(),\n"
        "            secrets.token_hex(), random.SystemRandom().randint(0, 10**9)]\n",
    )
    was, now, tape = both(tmp_path / "a.tape", ENTROPY, theirs.throw)
    assert not [one for one, two in zip(was, now, strict=True) if one == two]
    assert asked(tape) == []


def test_a_generator_of_the_agents_own_kind_is_played(tmp_path):
    def agent():
        dice = Loaded()
        return [
            dice.choice(range(10**6)),
            dice.random(),
            dice.uniform(0, 1),
            isinstance(dice, Loaded),
        ]

    was, now, _ = both(tmp_path / "a.tape", ENTROPY, agent)
    assert now == was
    assert now[1] < 0.5


def test_another_throw_is_a_drift(tmp_path):
    faces = [6]
    agent = with_seams(ENTROPY, lambda: random.randint(1, faces[0]))
    tape = recorded(tmp_path / "a.tape", agent)
    faces[0] = 20
    assert replayed(tape, agent).drift.kind == "ARGS"


@pytest.mark.parametrize(
    "throw",
    [
        lambda: random.randrange(0),
        lambda: random.choice([]),
        lambda: random.sample([1], 5),
        lambda: random.sample({1, 2}, 1),
        lambda: os.urandom(-1),
        lambda: secrets.choice([]),
    ],
)
def test_what_is_refused_is_refused_again(tmp_path, throw):
    def agent():
        try:
            return throw()
        except Exception as error:
            return type(error), error.args

    was, now, _ = both(tmp_path / "a.tape", ENTROPY, agent)
    assert was == now
    assert isinstance(was[0], type)


def test_threads_of_the_agent_throw_their_own(tmp_path):
    def agent():
        found = {}
        threads = [
            threading.Thread(target=lambda n=n: found.update({n: [random.random(), uuid4()]}))
            for n in range(4)
        ]
        for one in threads:
            one.start()
            one.join()
        return found

    was, now, _ = both(tmp_path / "a.tape", ENTROPY, agent)
    assert was == now


def test_after_the_session_everything_is_what_it_was(tmp_path):
    def all_of():
        classes = [dict(vars(one)) for one in (random.Random, random.SystemRandom)]
        return [*(dict(vars(one)) for one in (random, secrets, uuid, os)), *classes]

    before = all_of()
    kept = []

    def agent():
        kept.append(random.choice)
        return pickle.loads(pickle.dumps(DICE)).getstate() == DICE.getstate()

    was, now, _ = both(tmp_path / "a.tape", ENTROPY, agent)
    assert was is now is True
    assert all_of() == before
    assert toss is random.random
    assert kept[0]([1]) == 1
