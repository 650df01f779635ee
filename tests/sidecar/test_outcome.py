"""The exit codes: the whole matrix, and what is no verdict."""

from itertools import product

import pytest

from sidecar.outcome import CODES, PROFILES, Exits, Outcome, exits_of, outcome_of, worst

# The table of replay.md 3(b): ci and gate, git, git under --bisect, gate-s0.
MATRIX = {
    Outcome.OK: (0, 0, 2, 0),
    Outcome.FAILED: (1, 2, 2, 3),
    Outcome.WARNED: (0, 125, 125, 2),
    Outcome.DIVERGED: (2, 2, 0, 3),
    Outcome.UNDECIDED: (2, 125, 125, 3),
    Outcome.USAGE: (3, 125, 125, 3),
    Outcome.TARGET_CRASH: (1, 125, 125, 3),
    Outcome.INTERNAL: (3, 125, 125, 3),
}


@pytest.mark.requirement("XIT-01")
def test_the_matrix_is_that_of_the_design():
    assert MATRIX.keys() == set(Outcome) and set(PROFILES) == CODES.keys()
    for outcome, (ci, git, bisect, gate_s0) in MATRIX.items():
        assert Exits().code(outcome) == Exits(profile="gate").code(outcome) == ci
        assert Exits(profile="git").code(outcome) == git
        assert Exits(profile="git", bisect=True).code(outcome) == bisect
        assert Exits(profile="gate-s0").code(outcome) == gate_s0


@pytest.mark.requirement("XIT-01")
def test_what_is_said_and_how_it_exits_agree():
    for outcome, profile in product(Outcome, PROFILES):
        told = Exits(profile=profile).told(outcome, "word")
        assert told == {
            "outcome": "word",
            "profile": profile,
            "exit_code": CODES[profile][outcome],
        }
    assert Exits().told(Outcome.OK)["outcome"] == "ok"


@pytest.mark.requirement("XIT-01")
def test_a_warning_has_its_own_code_where_it_would_be_good():
    for profile, code in (("ci", 7), ("gate", 7), ("git", 125), ("gate-s0", 2)):
        assert Exits(profile=profile, warn_exit=7).code(Outcome.WARNED) == code
    assert Exits(warn_exit=7).code(Outcome.OK) == 0


@pytest.mark.requirement("XIT-01")
@pytest.mark.parametrize("ended", [1, 3, 126, 127, 137, -9, -11, -15, 255])
def test_an_end_that_means_nothing_is_ours(ended):
    assert Exits(profile="git").ended(ended) == 125
    for known in (0, 2, 125):
        assert Exits(profile="git").ended(known) == known


@pytest.mark.requirement("XIT-01")
def test_the_profile_is_read_from_a_command_line_that_cannot_be_read():
    def read(*arguments):
        found = exits_of(arguments)
        return found.profile, found.bisect

    assert read("tape", "nonsense", "--profile", "git") == ("git", False)
    assert read("tape", "replay", "--profile=git", "--bisect", "x") == ("git", True)
    assert read("--profile", "ci", "--profile", "gate-s0") == ("gate-s0", False)
    # What stands behind -- is another program's, and what is no profile is none.
    assert read("tape", "replay", "--", "a", "--profile", "git") == ("ci", False)
    assert read("tape", "--profile", "nonsense") == ("ci", False)
    assert read("tape", "--profile") == ("ci", False)
    assert read("tape", "--bisect") == ("ci", False)


@pytest.mark.requirement("XIT-01")
def test_of_several_the_weightiest_counts():
    assert worst([Outcome.OK, Outcome.FAILED, Outcome.UNDECIDED]) is Outcome.UNDECIDED
    assert worst([Outcome.USAGE, Outcome.DIVERGED]) is Outcome.USAGE
    assert worst([], Outcome.UNDECIDED) is Outcome.UNDECIDED
    codes = [Exits().code(one) for one in Outcome]
    assert codes == sorted(codes)
    assert [outcome_of(code) for code in (0, 1, 2, 3, 99)] == [
        *(Outcome.OK, Outcome.FAILED, Outcome.UNDECIDED, Outcome.USAGE, Outcome.USAGE)
    ]
