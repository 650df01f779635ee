"""A report as JSON: its fixed keys, and beside them what the command tells on its own account."""

import json
from typing import Any

import msgspec

from sidecar.gate.report.model import Report
from sidecar.plain import plain_json


def render(report: Report, own: dict[str, Any] | None = None) -> str:
    """The JSON text. Raises ValueError where the command's own keys say another thing."""
    return plain_json(json.dumps(told(report, own), indent=2, ensure_ascii=False))


def told(report: Report, own: dict[str, Any] | None = None) -> dict[str, Any]:
    """The same as JSON-like values."""
    found, more = _listed(msgspec.to_builtins(report)), _listed(own or {})
    if differing := [key for key, value in more.items() if found.get(key, value) != value]:
        raise ValueError(f"two values of {', '.join(differing)}")
    return {**found, **more}


def _listed(value: dict[str, Any]) -> dict[str, Any]:
    """With lists for tuples: what JSON makes of it."""
    found: dict[str, Any] = json.loads(json.dumps(value))
    return found
