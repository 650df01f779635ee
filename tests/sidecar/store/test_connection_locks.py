"""What one process has committed is not taken away by another that opens and closes the store."""

import contextlib
import sqlite3
import subprocess
import sys

import pytest

from sidecar.errors import StoreUnavailable
from sidecar.store.sqlite.connection import migrate, open_database

VISIT = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
connection.execute("INSERT INTO t VALUES ('theirs')")
connection.commit()
connection.close()
"""


@pytest.mark.requirement("REC-02")
def test_a_second_connection_of_ours_does_not_give_up_the_locks_of_the_first(tmp_path):
    path = tmp_path / "a.db"
    first = open_database(path)
    first.execute("CREATE TABLE t (word TEXT)")
    second = open_database(path)
    log = (tmp_path / "a.db-wal").stat().st_ino
    subprocess.run([sys.executable, "-c", VISIT, str(path)], check=True)
    assert (tmp_path / "a.db-wal").stat().st_ino == log
    first.execute("INSERT INTO t VALUES ('ours')")
    second.close()
    first.close()
    with sqlite3.connect(path) as reader:
        assert sorted(reader.execute("SELECT word FROM t")) == [("ours",), ("theirs",)]
    reader.close()


def test_a_new_store_is_its_owners_alone(tmp_path):
    open_database(tmp_path / "b.db").close()
    assert (tmp_path / "b.db").stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("name", ["a?mode=memory&x=", "b%41", "c#d", "e\udcff"])
def test_a_database_lies_where_its_path_says_whatever_a_uri_makes_of_it(tmp_path, name):
    path = tmp_path / name / "ledger.db"
    with contextlib.closing(open_database(path)) as connection:
        connection.execute("CREATE TABLE t (a)")
    assert path.stat().st_size > 0


def test_a_newer_program_that_migrates_between_a_look_and_the_lock_is_not_undone(tmp_path):
    path = tmp_path / "a.db"
    older = ["CREATE TABLE a (x);"]
    newer = [*older, "CREATE TABLE b (x);"]
    with (
        contextlib.closing(open_database(path)) as ours,
        contextlib.closing(open_database(path)) as theirs,
    ):

        def meanwhile(statement):
            if statement.startswith("BEGIN"):
                migrate(theirs, newer, path)

        ours.set_trace_callback(meanwhile)
        with pytest.raises(StoreUnavailable, match="schema 2, this program knows 1"):
            migrate(ours, older, path)
        ours.set_trace_callback(None)
        migrate(theirs, newer, path)
        assert theirs.execute("PRAGMA user_version").fetchone() == (2,)
