"""``/readyz`` tells the truth, and what cannot be kept is not acknowledged."""

import contextlib
import http.client
import os
import signal
import sqlite3
import time

import pytest
from serving import EPHEMERAL, serving, wait_for
from test_serve import post_json, status

TOOL = """
  upstreams: [{name: shop, url: "http://127.0.0.1:9", allow_cidrs: ["127.0.0.1/32"]}]
  tools:
    - {name: refund, upstream: shop, match: {method: POST, path: /refunds}, class: irreversible}
control:"""
CONFIG = EPHEMERAL.replace("\ncontrol:", TOOL)


def readiness(told):
    address = told["addresses"]["metrics.listen"]
    with contextlib.closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        connection.request("GET", "/readyz")
        with contextlib.closing(connection.getresponse()) as answer:
            return answer.status, answer.read().decode()


def telemetry(told):
    return post_json(f"http://{told['addresses']['receive.http']}/v1/traces", told["keys"]["agent"])


def refund(told, key):
    headers = {
        "authorization": f"Bearer {told['keys']['agent']}",
        "content-type": "application/json",
        "idempotency-key": key,
    }
    url = f"http://{told['addresses']['gateway.listen']}/shop/refunds"
    return status("POST", url, b'{"a": 1}', headers)


def unready(told, word):
    def check():
        found, text = readiness(told)
        return found == 503 and word in text and text

    return wait_for(check)


@pytest.mark.requirement("REC-01")
@pytest.mark.requirement("GW-05")
@pytest.mark.parametrize("name", ["ledger.db", "journal.db", "traces.db"])
def test_a_store_that_is_deleted_is_told_and_nothing_is_acknowledged_into_it(tmp_path, name):
    with serving(tmp_path, CONFIG) as (_, told):
        assert readiness(told) == (200, "ready\n")
        assert telemetry(told) == 200
        folder = tmp_path / told["data_folder"]
        (folder / name).unlink()
        text = unready(told, "was deleted while it was in use")
        assert told["data_folder"] not in text
        if name != "traces.db":  # requests are kept in the journal, for when the traces are back
            assert telemetry(told) == 503
        if name == "ledger.db":
            assert refund(told, "one-key-of-sixteen") == 503


@pytest.mark.full  # it waits for a lock
def test_a_locked_journal_is_told_and_answered_in_time_and_over_when_it_is_over(tmp_path):
    with serving(tmp_path, CONFIG) as (_, told):
        path = tmp_path / told["data_folder"] / "journal.db"
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            started = time.monotonic()
            assert telemetry(told) == 503
            assert time.monotonic() - started < 5
            unready(told, "journal: the store cannot be used")
            other.execute("ROLLBACK")
        wait_for(lambda: readiness(told)[0] == 200)
        assert telemetry(told) == 200


def test_a_pipeline_that_does_not_come_back_is_told(tmp_path):
    with serving(tmp_path, CONFIG) as (_, told):
        traces = tmp_path / told["data_folder"] / "traces.db"
        traces.unlink()
        os.kill(told["pids"]["pipeline"], signal.SIGKILL)
        unready(told, "pipeline: its process is not running")
        assert not traces.exists()
