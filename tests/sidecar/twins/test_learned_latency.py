"""Latency learned from durations that were seen: what it draws is distributed as they were."""

import msgspec
import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from sidecar.twins.chance import Spread, delay_faults, drawn_ns, learned
from sidecar.twins.declaration import Declaration
from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.twin import Twin
from sidecar.twins.world import World

pytestmark = pytest.mark.requirement("TWN-04")

MS = 1_000_000
DURATIONS = st.lists(st.integers(0, 60_000 * MS), min_size=1, max_size=60)


@given(DURATIONS)
def test_quantiles_are_those_of_numpy_and_no_delay_is_outside_what_was_seen(took_ns):
    spread = learned(took_ns)
    assert delay_faults(spread) == []
    grid = numpy.linspace(0, 1, len(spread.quantiles))
    told = [float(one.removesuffix("ms")) * MS for one in spread.quantiles]
    assert told == pytest.approx(list(numpy.quantile(took_ns, grid)), abs=1000)
    drawn = drawn_ns(spread, 1, "latency", "x")
    assert min(took_ns) - 1000 <= drawn <= max(took_ns) + 1000


def test_what_is_drawn_is_distributed_as_what_was_seen():
    seen = [int(MS * one) for one in stats.lognorm(0.8, scale=40).rvs(400, random_state=7)]
    spread = learned(seen)
    drawn = [drawn_ns(spread, 5, "latency", f"shop|get|{n}") for n in range(400)]
    assert stats.ks_2samp(seen, drawn).pvalue > 0.05
    assert stats.ks_2samp([one * 2 for one in seen], drawn).pvalue < 0.001


def twin(latency):
    tool = {"name": "get", "match": {"method": "GET", "path": "/a"}, "class": "read"}
    other = {**tool, "name": "other", "match": {"method": "GET", "path": "/b"}}
    value = {"twin": "shop", "tools": [{**tool, "latency": latency}, other]}
    made = msgspec.convert(value, Declaration)
    assert made.problems() == []
    return Twin(made)


def took(seed, calls):
    made = twin({"quantiles": ["10ms", "20ms", "400ms"]})
    world = World(made.declaration)
    episode = Episode(made, world, Setting(agent="a", seed=seed))
    found = []
    for tool in calls:
        before_ns = world.now_ns
        episode.call(Call(tool=tool, arguments={}))
        if tool == "get":
            found.append(world.now_ns - before_ns)
    return found


def test_a_call_takes_what_its_seed_name_and_number_say_whatever_stands_beside_it():
    alone = took(3, ["get"] * 5)
    assert took(3, ["other", "get", "other", "other", "get", "get", "other", "get", "get"]) == alone
    assert took(4, ["get"] * 5) != alone
    assert len(set(alone)) == 5 and all(10 * MS <= one <= 400 * MS for one in alone)


@pytest.mark.parametrize(
    ("spread", "where", "says"),
    [
        (Spread(), "", "either a median or quantiles"),
        (Spread(quantiles=("2ms", "1ms")), "quantiles.1", "shorter than the one before"),
        (Spread(quantiles=("soon",)), "quantiles.0", "not a duration"),
        (Spread(median="1s", quantiles=("1s",)), "", "no median"),
    ],
)
def test_quantiles_that_are_none_are_told(spread, where, says):
    ((found, text),) = delay_faults(spread)
    assert found == where and says in text


def test_a_spread_without_quantiles_is_written_as_it_was_before_there_were_any():
    made = twin({"median": "10ms", "sigma": 0.2}).declaration.written()
    assert made["tools"][0]["latency"] == {"median": "10ms", "sigma": 0.2, "max": ""}
    learned = twin({"quantiles": ["1ms", "2ms"]}).declaration.written()
    assert learned["tools"][0]["latency"]["quantiles"] == ("1ms", "2ms")
