"""Shared by all tests: hypothesis profiles, and no test may reach beyond this machine."""

import gc
import os
import socket
import sys
import threading

import pytest
import structlog
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "fast")
# By what a caller's environment says of CI and of terminals pytest, click and rich print otherwise.
for each in ("CI", "BUILD_NUMBER", "GITHUB_ACTIONS", "COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
    os.environ.pop(each, None)
# Hundreds of tests start a process of ours: without bytecode each compiles the whole program anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
gc.disable()  # while tests are collected, which all stay: there is nothing to be freed

_connect = socket.socket.connect


def _guarded(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = address[0]
        if not (host.startswith("127.") or host in ("::1", "localhost", "0.0.0.0")):
            raise AssertionError(f"a test reached for {address}; only 127.0.0.1 is allowed")
    return _connect(self, address)


@pytest.fixture(autouse=True)
def _postgres_given_back(request):
    yield
    if request.config.getoption("--two-gateways"):
        import gateway_rig

        gateway_rig.forget_places()


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", _guarded)


@pytest.fixture(autouse=True)
def _log_as_it_was(monkeypatch):
    """A command that runs in this process sets the log up for the process: not for later tests."""
    configure, was = structlog.configure, structlog.get_config()
    uncached = {"cache_logger_on_first_use": False}  # a logger that is kept would keep its form
    monkeypatch.setattr(structlog, "configure", lambda **given: configure(**given | uncached))
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    yield
    configure(**was)


def pytest_addoption(parser):
    parser.addoption(
        "--two-gateways",
        action="store_true",
        help="gateway tests run on two gateways that share one Postgres, not on one with SQLite",
    )


def pytest_configure(config):
    if config.getoption("--two-gateways"):
        import gateway_rig

        gateway_rig.TWO_GATEWAYS = True


def pytest_collection_finish():
    gc.freeze()
    gc.enable()


# The files that take longest come first, so that no worker is left with one at the end.
LONGEST = (
    *("test_demo.py", "test_replay_runs.py", "test_serve.py", "test_driver.py", "test_hostile.py"),
    *("test_export.py", "test_replay_commands.py", "test_agent.py", "test_readiness.py"),
    *("test_collector.py", "test_export_driver.py", "test_doctor.py", "test_mcp.py"),
    *("test_crash.py", "test_leaks.py", "test_fail_matrix.py", "test_postgres_ledger.py"),
    *("test_root.py", "test_ingest.py", "test_ledger_store.py", "test_settling.py"),
    *("test_trace_store.py", "test_serve_peers.py", "test_odd_answers.py", "test_any_order.py"),
)


def pytest_collection_modifyitems(items):
    """Sorted by file, the order within one kept."""
    place = {name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path.name, len(place)))
