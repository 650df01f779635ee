"""Plans of recordings: with the twin that they bear, or with their own answers."""

import pytest
from recordings_rig import tape

from sidecar.app.loading import load_config
from sidecar.app.planning import DRAFT, Named, plan_of
from sidecar.errors import SidecarError
from sidecar.replay.planning import Asked
from sidecar.replay.reference import read_reference

pytestmark = pytest.mark.requirement("REP-01")


def read(order):
    return ("get_order", {"order_id": order}, {"id": order, "open": True})


@pytest.fixture
def planned(tmp_path):
    loaded = load_config(None, f"sqlite:///{tmp_path / 'data'}")

    def plan(suite, *twins, project="default"):
        asked = Asked(
            project=project,
            candidate=read_reference("cmd:true", option="--candidate", python="python"),
        )
        return plan_of(loaded, Named(suite=str(suite), twins=twins, now_ns=1), asked)

    return plan


def test_the_twin_that_recordings_bear_is_drafted_from_them_and_pinned(tmp_path, planned):
    for number in range(4):
        tape(tmp_path / "tapes" / f"{number}.tape", *(read(f"A-{n}") for n in range(5)))
    made = planned(tmp_path / "tapes", DRAFT)
    assert made.plan.group.has_state and made.plan.group.tools == {"get_order": "read"}
    assert made.notes[0].startswith("drafted from the recordings: ")
    assert made.plan.files["drafted.yaml"].startswith(b"# Drafted from 4 recorded runs")
    assert planned(tmp_path / "tapes", DRAFT).plan.suite_digest == made.plan.suite_digest


def test_where_too_little_is_recorded_tools_answer_as_recorded(tmp_path, planned):
    paid = ("issue_refund", {"order_id": "A-1", "amount": 5}, {"refund_id": "R-1"})
    tape(tmp_path / "tapes" / "a.tape", read("A-1"), paid)
    made = planned(tmp_path / "tapes", DRAFT)
    assert not made.plan.group.has_state
    assert made.notes[0] == "no twin can be drafted: too little is recorded of issue_refund"
    assert "tools answer as they were recorded" in made.notes[1]


def test_what_a_recording_answers_is_pinned_by_the_plan(tmp_path, planned):
    tape(tmp_path / "one" / "a.tape", read("A-1"))
    tape(tmp_path / "two" / "a.tape", ("get_order", {"order_id": "A-1"}, {"open": False}))
    digests = {planned(tmp_path / name).plan.suite_digest for name in ("one", "two")}
    assert len(digests) == 2


def test_no_twin_is_called_as_tools_that_answer_from_a_recording_are(tmp_path, planned):
    tape(tmp_path / "tapes" / "a.tape", read("A-1"))
    twin = tmp_path / "twin.yaml"
    twin.write_text(
        "twin: recorded\ntools:\n"
        "  - {name: get_order, match: {method: GET, path: /o}, response: {body: '1'}}\n"
    )
    with pytest.raises(SidecarError, match="'recorded' is what tools that answer as recorded"):
        planned(tmp_path / "tapes", twin)


@pytest.mark.parametrize(
    "query",
    [
        "store:project=other",
        "store:service=a,service=b",
        "store:",
        "store:service=",
        "store:limit=10000000",
        "store:outcome=verified_success' OR '1'='1",
        "store:since=now",
        "store:trace",
    ],
)
def test_a_query_says_nothing_but_what_it_may(planned, query):
    with pytest.raises(SidecarError) as refused:
        planned(query)
    assert refused.value.code == 3
