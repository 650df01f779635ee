"""Calls over MCP become tapes as all others do."""

import asyncio
from contextlib import closing

import pytest
from click.testing import CliRunner
from gateway_rig import MASTER
from mcp_rig import Crm, definitions_of, gated, served
from traffic_rig import READ, TRACE, parent

from sidecar.cli.root import root
from sidecar.store.sqlite.backend import SqliteBackend
from sidecar.tape.files import read_tape

CALLS = (
    ("find_customer", {"name": "Ada"}, {}),
    ("add_note", {"customer": "Ada", "text": "called"}, {"Idempotency-Key": "a"}),
)


@pytest.mark.full  # a server of MCP's own SDK
@pytest.mark.requirement("TAP-03")
def test_calls_over_mcp_are_on_the_tape_with_what_the_server_said(tmp_path):
    folder = tmp_path / "store" / "data"
    folder.mkdir(parents=True)
    (folder.parent / "data.seal-key").write_text(MASTER.hex())

    async def main():
        async with asyncio.timeout(40), served(Crm().server()) as port:
            reviewed = await definitions_of(port)
            async with gated(folder, port, reviewed) as each:
                for name, given, key in CALLS:
                    message, headers = mcp_call(name, given, key)
                    _, _, answer = await each.post(message, headers=headers)
                    assert "result" in answer, answer

    asyncio.run(main())
    with closing(SqliteBackend(folder)) as backend:
        backend.migrate_traces()
    (tmp_path / "sidecar.yaml").write_text("projects: [{name: default, content: {capture: full}}]")
    arguments = [
        *("tape", "import", f"store:trace={TRACE}", "--format", "store", "--to", str(tmp_path)),
        *("--store", f"sqlite:///{folder}", "--config", str(tmp_path / "sidecar.yaml")),
    ]
    assert CliRunner().invoke(root, arguments, standalone_mode=False).return_value == 0
    tape = read_tape(tmp_path / f"{TRACE}.tape")
    calls = [one for one in tape.events if one.kind in ("tool_call", "tool_result")]
    assert [(one.kind, one.name, one.st) for one in calls] == [
        ("tool_call", "find_customer", "unset"),
        ("tool_result", "find_customer", "ok"),
        ("tool_call", "add_note", "unset"),
        ("tool_result", "add_note", "ok"),
    ]
    assert tape.payload(calls[2], "in") == {"customer": "Ada", "text": "called"}
    assert "result" in tape.payload(calls[3], "out")


def mcp_call(name, arguments, headers):
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": name, "arguments": arguments, "_meta": meta},
    }  # fmt: skip
    named = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name}
    return message, {**named, **parent(READ), **headers}
