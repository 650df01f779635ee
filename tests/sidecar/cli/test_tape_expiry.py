"""Tapes past their time, tapes cut off, and what an agent throws while it is imported."""

import pytest
from agent_rig import AgentFolder

from sidecar.tape.files import examine, read_tape

AGENT = """
import random, time
AT_IMPORT = random.random()
def main():
    for _ in range(3):
        time.time()
    print(AT_IMPORT)
main()
"""
IN_TIME = "assertions: [{spec: terminates_within, args: {events: 100}}]"


@pytest.fixture
def agent(tmp_path):
    found = AgentFolder(tmp_path)
    found.write(AGENT)
    return found


@pytest.mark.row("R12")
@pytest.mark.requirement("TAP-01")
def test_a_tape_past_its_time_is_told_and_decides_nothing_where_only_fresh_ones_count(
    agent, tmp_path
):
    assert agent.record(options=("--expires", "1s")).code == 0
    header = read_tape(tmp_path / "run.tape").header
    assert header.expires_at[17:19] != header.captured_at[17:19]
    assert agent.record(options=("--expires", "90d"), tape="fresh.tape").code == 0
    agent.write(IN_TIME, "asked.yaml")
    old = (tmp_path / "run.tape").read_text().replace(header.expires_at, header.captured_at)
    assert not examine(tmp_path / "run.tape").header.has_expired(0)
    (tmp_path / "old.tape").write_text(old)

    told = agent.replay(tape="old.tape", options=("--fail-if-expired",))
    assert (told.code, told.out) == (2, "")
    assert f"it was to be recorded anew by {header.captured_at} at old.tape" in told.err
    asked = ("tape", "assert", "fresh.tape", "old.tape", "--assertions", "asked.yaml")
    told = agent.sidecar(*asked, "--fail-if-expired", "--output", "json")
    assert told.code == 2
    assert [one["outcome"] for one in told.json["tapes"]] == ["pass", "undecided"]
    assert "expired" in told.json["tapes"][1]["error"]
    told = agent.replay(tape="fresh.tape", options=("--fail-if-expired",))
    assert (told.code, told.err.split(",")[0]) == (0, "fresh.tape: as recorded")
    assert agent.sidecar("tape", "record", "-o", "x", "--expires", "soon", "--", "true").code == 3


@pytest.mark.row("R26")
@pytest.mark.requirement("REP-01")
def test_a_run_that_was_cut_off_is_no_drift_and_its_beginning_can_be_gone_on_from(agent, tmp_path):
    assert agent.record().code == 0
    whole = (tmp_path / "run.tape").read_bytes()
    (tmp_path / "cut.tape").write_bytes(whole[: whole.rindex(b'{"') - 40])
    told = agent.replay(tape="cut.tape")
    assert (told.code, told.json["outcome"], told.json["drift"]["kind"]) == (
        *(2, "incomparable", "INCOMPARABLE"),
    )
    assert told.json["drift"]["reason"].startswith("PARTIAL")
    told = agent.replay(tape="cut.tape", options=("--fork", "3", "--output", "json"))
    assert (told.code, told.json["outcome"]) == (0, "ok"), told.out


@pytest.mark.row("R30")
@pytest.mark.requirement("TAP-02")
def test_what_an_agent_throws_while_it_is_imported_is_on_the_tape(agent):
    recorded = agent.record()
    again = agent.replay(options=())
    assert recorded.code == again.code == 0
    assert recorded.out == again.out
