"""The folder of one gateway under proof: its configuration, seal key, and what it is armed with;
and its processes as files.
"""

import json
from collections.abc import Iterable
from pathlib import Path

from msgspec import Struct

from sidecar.chaos.plan import Case, Upstream

CONFIG = "sidecar.yaml"
POLICY = "policy"
_ARMED = "armed"
_ANY_PORT = "127.0.0.1:0"
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
_RULES = """package agenttwin.v1

decide := {"effect": "allow", "reasons": [{"code": "under_proof"}]} if input.resource.id

list := {"effect": "allow", "reasons": [{"code": "under_proof"}]} if input.resource.id
"""


def make_folder(folder: Path) -> None:
    """A new folder."""
    folder.mkdir()


class Ground(Struct, frozen=True, kw_only=True):
    """What a gateway stands on. ``host`` and ``allowed`` are of the upstream; ``bundle`` is the
    folder of the policy, the one that ships where empty."""

    port: int
    seal_key: str
    store: str = ""
    host: str = "127.0.0.1"
    allowed: tuple[str, ...] = ("127.0.0.0/8",)
    timeout: str = "30s"
    deadline: str = "5s"
    bundle: str = ""


def prepare(folder: Path, upstream: Upstream, ground: Ground) -> Path:
    """Write what a gateway is started with; the configuration file. YAML takes JSON as it is.

    Beside it lies ``POLICY``, a bundle that is loaded soon, for who starts hundreds of gateways.
    """
    tools = []
    for name, class_, method, path in _TOOLS:
        tool: dict[str, object] = {
            "name": name,
            "upstream": "shop",
            "class": class_,
            "match": {"method": method, "path": path},
            "timeout": ground.timeout,
        }
        if class_ == "irreversible":
            tool["cost"] = {"amount": "arguments.amount", "currency": "arguments.currency"}
        if class_ != "read":
            tool["idempotency"] = {"upstream_idempotent": upstream == "keyed"}
            if upstream == "recipe":
                tool["reconcile"] = _RECIPE
        tools.append(tool)
    url = f"http://{ground.host}:{ground.port}"
    shop = {"name": "shop", "url": url, "allow_cidrs": list(ground.allowed)}
    store = ground.store
    document = {
        "seal": {"key_file": "seal-key"},
        "store": {"url": store or "sqlite:///data", **({"local": "data"} if store else {})},
        "policy": {"deadline": ground.deadline, "bundle": ground.bundle},
        # Where the proof is made may be a file system in memory: what that means is not at issue.
        "gateway": {
            "listen": _ANY_PORT,
            "upstreams": [shop],
            "tools": tools,
            "accept_ephemeral_ledger": True,
        },
        # Of a whole sidecar: each life has ports of its own.
        "receive": {"grpc": _ANY_PORT, "http": _ANY_PORT},
        "control": {"listen": _ANY_PORT, "grpc": _ANY_PORT},
        "metrics": {"listen": _ANY_PORT},
    }
    if store:
        (folder / "data").mkdir(exist_ok=True)  # what is local to this gateway
    file = folder / CONFIG
    file.write_text(json.dumps(document))
    (folder / "seal-key").write_text(ground.seal_key)
    (folder / POLICY).mkdir(exist_ok=True)
    (folder / POLICY / "policy.rego").write_text(_RULES)
    return file


def arm(folder: Path, case: Case | None) -> None:
    """From now on the gateway of this folder kills itself at this case's step, and at no other
    call's; None: nowhere."""
    if case is None:
        (folder / _ARMED).unlink(missing_ok=True)
    else:
        (folder / _ARMED).write_text(f"{case.step} {case.trace_id} {case.order}")


def armed(folder: Path) -> tuple[str, ...]:
    """The step to die at, the trace and the order of the call it is of; nothing for none."""
    try:
        return tuple((folder / _ARMED).read_text().split())
    except FileNotFoundError:
        return ()


def running_children_of(pid: int) -> list[int]:
    """The processes a process has started and that run programs of their own. Linux; else none.

    One that has forked and not yet executed is left out: its parent waits for it, and would for
    ever if it were stopped there.
    """
    found: list[int] = []
    own = _command(pid)
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            found += map(int, task.read_text().split())
        except OSError:
            continue  # that thread has just ended
    return [child for child in found if _command(child) not in (own, b"")]


def still_running(pids: Iterable[int]) -> int:
    """How many of these processes run; one that ended and that nobody has waited for does not."""
    return sum(bool(_command(pid)) for pid in pids)


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
