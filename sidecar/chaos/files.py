"""The folder of one gateway under proof: its configuration, seal key, and what it is armed with."""

import json
from pathlib import Path

from sidecar.chaos.plan import Step, Upstream

CONFIG = "sidecar.yaml"
_ARMED = "armed"
_TOOLS = (
    ("read_order", "read", "GET", "/orders/{order_id}"),
    ("issue_refund", "irreversible", "POST", "/orders/{order_id}/refunds"),
    ("add_note", "write", "POST", "/orders/{order_id}/notes"),
)
_RECIPE = {
    "get": "/found?key={idempotency_key}",
    "done": "size(response.json.found) > 0",
    "settle": "200ms",
}


def make_folder(folder: Path) -> None:
    """A new folder."""
    folder.mkdir()


def prepare(folder: Path, upstream: Upstream, *, port: int, store: str, seal_key: str) -> Path:
    """Write what a gateway is started with; the configuration file. YAML takes JSON as it is."""
    tools = []
    for name, class_, method, path in _TOOLS:
        tool: dict[str, object] = {
            "name": name,
            "upstream": "shop",
            "class": class_,
            "match": {"method": method, "path": path},
            "timeout": "5s",
        }
        if class_ == "irreversible":
            tool["cost"] = {"amount": "arguments.amount", "currency": "arguments.currency"}
        if class_ != "read":
            tool["idempotency"] = {"upstream_idempotent": upstream == "keyed"}
            if upstream == "recipe":
                tool["reconcile"] = _RECIPE
        tools.append(tool)
    shop = {"name": "shop", "url": f"http://127.0.0.1:{port}", "allow_cidrs": ["127.0.0.0/8"]}
    document = {
        "seal": {"key_file": "seal-key"},
        "store": {"url": store or "sqlite:///data", **({"local": "data"} if store else {})},
        "policy": {"deadline": "5s"},
        # Where the proof is made may be a file system in memory: what that means is not at issue.
        "gateway": {
            "listen": "127.0.0.1:0",
            "upstreams": [shop],
            "tools": tools,
            "accept_ephemeral_ledger": True,
        },
    }
    file = folder / CONFIG
    file.write_text(json.dumps(document))
    (folder / "seal-key").write_text(seal_key)
    return file


def arm(folder: Path, step: Step | None) -> None:
    """From now on the gateway of this folder kills itself at a step; None: nowhere."""
    if step is None:
        (folder / _ARMED).unlink(missing_ok=True)
    else:
        (folder / _ARMED).write_text(step)


def armed(folder: Path) -> str:
    """The step to die at, empty for none."""
    try:
        return (folder / _ARMED).read_text()
    except FileNotFoundError:
        return ""
