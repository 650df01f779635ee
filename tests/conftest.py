"""Shared by all tests: hypothesis profiles, and no test may reach beyond this machine."""

import os
import socket

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "fast", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("ci", settings.get_profile("fast"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "fast")

_connect = socket.socket.connect


def _guarded(self, address):
    if self.family in (socket.AF_INET, socket.AF_INET6):
        host = address[0]
        if not (host.startswith("127.") or host in ("::1", "localhost", "0.0.0.0")):
            raise AssertionError(f"a test reached for {address}; only 127.0.0.1 is allowed")
    return _connect(self, address)


@pytest.fixture(autouse=True)
def _only_this_machine(monkeypatch):
    monkeypatch.setattr(socket.socket, "connect", _guarded)
