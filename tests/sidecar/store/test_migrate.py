"""Which migrations a store still needs, and which programs may use it."""

import pytest

from sidecar.store.migrate import NOTHING, Applied, SchemaTooNew, after, numbered, pending

FILES = [("0002_b.sql", "CREATE TABLE b ();"), ("0001_a.sql", "CREATE TABLE a ();")]
BREAKING = ("0003_c.sql", "-- oldest: 3\nDROP TABLE a;")


def test_migrations_come_in_the_order_of_their_numbers():
    assert [(each.number, each.name) for each in numbered(FILES)] == [(1, "a"), (2, "b")]


@pytest.mark.parametrize(
    "files",
    [
        [("0002_b.sql", "")],
        [*FILES, ("0004_d.sql", "")],
        [*FILES, ("0002_again.sql", "")],
        [("1_a.sql", "")],
        [("0001-a.sql", "")],
    ],
)
def test_a_gap_a_double_or_another_name_is_refused(files):
    with pytest.raises(ValueError, match="migration"):
        numbered(files)


def test_what_is_pending_follows_what_is_applied():
    known = numbered(FILES)
    assert [each.number for each in pending(known, NOTHING)] == [1, 2]
    assert [each.number for each in pending(known, Applied(number=1, oldest=0))] == [2]
    assert pending(known, Applied(number=2, oldest=0)) == ()


def test_a_newer_schema_is_used_while_it_only_adds_and_refused_from_then_on():
    known, newer = numbered(FILES), numbered([*FILES, BREAKING])
    added = Applied(number=5, oldest=0)
    assert pending(known, added) == ()
    broken = after(Applied(number=2, oldest=0), newer[2])
    assert broken == Applied(number=3, oldest=3)
    with pytest.raises(SchemaTooNew, match="at least schema 3; this one knows 2"):
        pending(known, broken)
    assert pending(newer, broken) == ()


def test_an_additive_migration_after_a_breaking_one_does_not_let_old_programs_back_in():
    newer = numbered([*FILES, BREAKING, ("0004_d.sql", "CREATE TABLE d ();")])
    assert after(Applied(number=3, oldest=3), newer[3]) == Applied(number=4, oldest=3)
