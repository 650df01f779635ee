"""Tools of MCP servers are known to all parts that ask about tools, as those of HTTP are."""

import json

import pytest
from click.testing import CliRunner

from sidecar.app.known import classes
from sidecar.app.loading import load_config
from sidecar.app.stages import pipeline_rules
from sidecar.cli.root import root
from sidecar.config import load
from sidecar.errors import SidecarError
from sidecar.gateway.config import Match, Tool

FIND = {"name": "find_customer", "inputSchema": {"type": "object"}}
DROP = {**FIND, "name": "delete_customer", "annotations": {"destructiveHint": True}}
CONFIG = """\
gateway:
  mcp:
    - {name: crm, url: "http://127.0.0.1:9/mcp", allow_cidrs: [127.0.0.0/8], definitions: crm.json}
  tools:
    - {name: lookup, upstream: crm, class: read, match: {tool: find_customer}}
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "crm.json").write_text(json.dumps({"tools": [FIND, DROP]}))
    (tmp_path / "sidecar.yaml").write_text(CONFIG)
    return tmp_path


@pytest.mark.requirement("MCP-01")
def test_the_pipeline_knows_the_class_of_every_reviewed_tool(folder):
    assert pipeline_rules(load()).tools == {
        "lookup": "read", "find_customer": "read",
        "crm/delete_customer": "irreversible", "delete_customer": "irreversible",
    }  # fmt: skip


def test_of_two_tools_with_one_plain_name_the_stricter_counts_and_a_tool_of_that_name_before():
    one = Tool(name="a", upstream="crm", class_="irreversible", match=Match(tool="add"))
    other = Tool(name="b", upstream="erp", class_="read", match=Match(tool="add"))
    assert classes([one, other])["add"] == classes([other, one])["add"] == "irreversible"
    plain = Tool(name="add", upstream="shop", class_="write", match=Match(method="GET", path="/"))
    assert classes([one, plain])["add"] == "write"


BUDGET = "budgets: [{scope: project, limit: '10', currency: EUR, window: 24h}]\n"


@pytest.mark.requirement("BUD-01")
def test_a_budget_under_which_a_reviewed_tool_could_never_be_called_is_told_at_the_start(folder):
    (folder / "sidecar.yaml").write_text(CONFIG + BUDGET)
    load_config(None, None)  # which reads no definitions
    with pytest.raises(SidecarError) as refused:
        load_config(None, None, thorough=True)
    assert "the irreversible tool crm/delete_customer falls under this budget" in str(refused.value)
    drop = "{name: drop, upstream: crm, match: {tool: delete_customer}, cost: {amount: '0'}}"
    (folder / "sidecar.yaml").write_text(f"{CONFIG}    - {drop}\n{BUDGET}")
    load_config(None, None, thorough=True)


def test_an_mcp_server_that_is_the_sidecar_itself_is_refused_as_any_upstream(folder):
    (folder / "sidecar.yaml").write_text(CONFIG.replace(":9/", ":4319/"))
    with pytest.raises(SidecarError) as refused:
        load()
    assert "gateway.mcp.0.url leads back to the sidecar itself" in str(refused.value)


@pytest.mark.requirement("MCP-01")
def test_the_list_of_tools_names_them_all(folder):
    told = CliRunner().invoke(root, ["tools", "list", "--output", "json"])
    rows = {row["name"]: row for row in json.loads(told.output)}
    assert rows.keys() == {"lookup", "crm/delete_customer"}
    assert rows["crm/delete_customer"]["class"] == "irreversible"
    assert rows["crm/delete_customer"]["definition"].startswith("sha256:")
