"""Resources, templates, prompts, completions and changes, with the official SDK on both sides."""

import asyncio
import json
from itertools import product
from pathlib import Path

import jsonschema_rs
import pytest
from mcp import MCPError
from mcp.shared.subscriptions import PromptsListChanged, ResourceUpdated, ToolsListChanged
from mcp_rig import AllowListed, Crm, definitions_of, gated, served, tools
from mcp_types import Completion, PromptReference, ResourceTemplateReference

from processors.model.principal import Principal
from sidecar.gateway.config import Match, McpServer, Tool
from sidecar.gateway.policy.result import denied
from sidecar.gateway.rpc.beside import covers, unusable_uri
from sidecar.gateway.rpc.pins import pinned

SCHEMA = jsonschema_rs.validator_for(
    json.loads((Path(__file__).parents[3] / "policies/schema/input.json").read_text())
)
VERSIONS = ("2025-06-18", "2025-11-25", "2026-07-28")
pytestmark = pytest.mark.requirement("MCP-01")
BESIDE = (
    Tool(name="customers", upstream="crm", class_="read", match=Match(resource="crm://customers/*")),
    Tool(name="secrets", upstream="crm", class_="read", match=Match(resource="crm://secrets/**")),
    Tool(name="letters", upstream="crm", class_="read", match=Match(prompt="letter_*")),
)  # fmt: skip
ADA, KEY = "crm://customers/ada", "crm://secrets/key"


class Library(Crm):
    """The CRM with something beside its tools; ``read`` is what was read."""

    def __init__(self):
        super().__init__()
        self.read = []

    def server(self):
        made = super().server()

        @made.resource(ADA, name="ada", description="Ada's file")
        def ada() -> str:
            self.read.append(ADA)
            return "Ada"

        @made.resource(KEY, name="key")
        def key() -> str:
            self.read.append(KEY)
            return "hush"

        @made.resource("internal://x", name="internal")
        def internal() -> str:
            self.read.append("internal")
            return "x"

        @made.resource("crm://customers/{name}", name="a customer")
        def customer(name: str) -> str:
            self.read.append(name)
            return f"customer {name}"

        @made.prompt(name="letter_of_thanks", description="Thanks a customer.")
        def thanks(name: str) -> str:
            self.read.append("letter_of_thanks")
            return f"Thank {name}."

        @made.prompt(name="dump")
        def dump() -> str:
            return "everything"

        @made.completion()
        async def complete(ref, argument, context):
            self.read.append(("complete", argument.value))
            return Completion(values=[argument.value + "da"])

        return made


def run(folder, scenario, *, speaks="2026-07-28", configured=None, **options):
    async def main():
        crm = Library()
        made = crm.server()
        async with asyncio.timeout(40), served(made, speaks) as port:
            reviewed = await definitions_of(port)
            given = {"configured": configured or (*tools(), *BESIDE), **options}
            async with gated(folder, port, reviewed, **given) as each:
                each.crm, each.made = crm, made
                await scenario(each)

    asyncio.run(main())


def code_of(refused):
    return refused.value.error.data["code"]


PAIRS = [
    pytest.param(*pair, marks=() if pair[0] == pair[1] else pytest.mark.full)
    for pair in product(VERSIONS, VERSIONS)
]


@pytest.mark.row("T3", "T5")
@pytest.mark.parametrize(("client", "server"), PAIRS)
def test_each_version_lists_and_reads_what_is_registered_and_allowed(tmp_path, client, server):
    policy = AllowListed(hidden={"secrets"}, denied={"secrets"})

    async def scenario(each):
        async with each.client(client) as agent:
            found = await agent.list_resources()
            assert [str(item.uri) for item in found.resources] == [ADA]
            assert found.resources[0].description == "Ada's file"
            assert found.meta["agenttwin/withheld"] == {"unlisted": 1, "denied": 1}
            templates = await agent.list_resource_templates()
            assert [t.uri_template for t in templates.resource_templates] == [
                "crm://customers/{name}"
            ]
            prompts = await agent.list_prompts()
            assert [item.name for item in prompts.prompts] == ["letter_of_thanks"]
            answer = await agent.read_resource(ADA)
            assert answer.contents[0].text == "Ada"
            assert (await agent.read_resource("crm://customers/eve")).contents[0].text
            got = await agent.get_prompt("letter_of_thanks", {"name": "Ada"})
            assert got.messages[0].content.text == "Thank Ada."
            ref = PromptReference(name="letter_of_thanks")
            done = await agent.complete(ref, {"name": "name", "value": "a"})
            assert done.completion.values == ["ada"]
            ref = ResourceTemplateReference(uri="crm://customers/{name}")
            done = await agent.complete(ref, {"name": "name", "value": "e"})
            assert done.completion.values == ["eda"]
            with pytest.raises(MCPError) as refused:
                await agent.read_resource(KEY)
            assert code_of(refused) == "not_this_one"
            for asking in (
                agent.read_resource("internal://x"),
                agent.get_prompt("dump"),
                agent.complete(PromptReference(name="dump"), {"name": "a", "value": "x"}),
            ):
                with pytest.raises(MCPError) as refused:
                    await asking
                assert (refused.value.error.code, code_of(refused)) == (-32602, "no_such_tool")
        assert each.crm.read == [
            ADA, "eve", "letter_of_thanks", ("complete", "a"), ("complete", "e")
        ]  # fmt: skip

    run(tmp_path, scenario, speaks=server, policy=policy)


@pytest.mark.row("T4")
@pytest.mark.requirement("GW-02")
def test_policy_sees_method_and_uri_and_each_reading_leaves_a_receipt(tmp_path):
    policy = AllowListed()
    listed = []
    visible = policy.visible

    async def watched(document):
        listed.append(document.get("mcp"))
        return await visible(document)

    policy.visible = watched

    async def scenario(each):
        async with each.client("2026-07-28") as agent:
            await agent.list_resources()
            read = await agent.read_resource(ADA)
            await agent.get_prompt("letter_of_thanks", {"name": "Ada"})
        assert {"method": "resources/list", "uri": ADA} in listed
        first, second = policy.asked
        SCHEMA.validate(first), SCHEMA.validate(second)
        assert first["mcp"] == {"method": "resources/read", "uri": ADA}
        assert first["action"]["name"] == "resources/read"
        assert first["resource"]["id"] == "customers"
        assert first["action"]["properties"]["class"] == "read"
        assert second["mcp"] == {"method": "prompts/get", "name": "letter_of_thanks"}
        assert second["arguments"]["arguments"] == {"name": "Ada"}
        receipt = each.ledger.get_receipt(read.meta["agenttwin/gateway-receipt"])
        assert (receipt.tool, receipt.class_, receipt.effect) == ("customers", "read", "confirmed")
        assert (read.ttl_ms, read.cache_scope) == (0, "private")

    run(tmp_path, scenario, policy=policy)


def test_a_credential_for_some_entries_sees_and_reads_no_others(tmp_path):
    async def scenario(each):
        narrow = each.credential("agent", name="reader", tools=("customers",))
        async with each.client("2026-07-28", credential=narrow) as agent:
            assert [item.name for item in (await agent.list_resources()).resources] == ["ada"]
            assert (await agent.list_prompts()).prompts == []
            with pytest.raises(MCPError) as refused:
                await agent.read_resource(KEY)
            assert code_of(refused) == "tool_not_granted"

    run(tmp_path, scenario)


def test_where_nothing_is_registered_the_methods_are_not_there(tmp_path):
    async def scenario(each):
        async with each.client("2026-07-28") as agent:
            assert agent.server_capabilities.resources is None
            for asking in (
                agent.list_resources(), agent.read_resource(ADA), agent.list_prompts(),
                agent.get_prompt("dump"), agent.list_resource_templates(),
            ):  # fmt: skip
                with pytest.raises(MCPError) as refused:
                    await asking
                assert refused.value.error.code == -32601
        assert each.crm.read == []

    run(tmp_path, scenario, configured=tools())


def test_an_explicit_action_is_held_to_what_its_entry_is_for(tmp_path):
    async def scenario(each):
        async def ask(uri):
            body = {"tool": "customers", "arguments": {"uri": uri}}
            url = f"http://127.0.0.1:{each.server.port}/v1/actions"
            bearer = {"Authorization": f"Bearer {each.agent}"}
            return await each.http.post(url, json=body, headers=bearer)

        assert (await ask("internal://x")).json()["code"] == "arguments_invalid"
        elsewhere = (await ask(KEY)).json()
        assert (elsewhere["code"], "secrets" in elsewhere["detail"]) == ("no_such_tool", False)
        assert (await ask("crm://customers/..")).status_code == 502  # fits, and is nobody's
        assert (await ask(ADA)).status_code == 200
        assert each.crm.read == [ADA]

    run(tmp_path, scenario)


def test_an_explicit_action_cannot_choose_a_laxer_entry(tmp_path):
    strict = Tool(name="ada", upstream="crm", class_="read", match=Match(resource=ADA))
    configured = (*tools(), strict, *BESIDE)

    async def scenario(each):
        async def ask(tool, uri):
            body = {"tool": tool, "arguments": {"uri": uri}}
            url = f"http://127.0.0.1:{each.server.port}/v1/actions"
            bearer = {"Authorization": f"Bearer {each.agent}"}
            return (await each.http.post(url, json=body, headers=bearer)).json().get("code")

        assert await ask("ada", ADA) == "not_this_one"
        assert await ask("customers", ADA) == "no_such_tool"
        assert await ask("customers", "crm://customers/bob") is None
        assert each.crm.read == ["bob"]

    run(tmp_path, scenario, configured=configured, policy=AllowListed(denied={"ada"}))


class Late(AllowListed):
    """Gives no answer about Ada's file; ``most`` is how many questions it had at a time."""

    def __init__(self):
        super().__init__()
        self.asked_now = self.most = 0

    async def visible(self, document):
        self.asked_now += 1
        self.most = max(self.most, self.asked_now)
        await asyncio.sleep(0)
        self.asked_now -= 1
        late = document.get("mcp", {}).get("uri") == ADA
        return denied("it was late") if late else await super().visible(document)


def test_what_policy_gives_no_answer_about_is_withheld_and_not_called_denied(tmp_path):
    policy = Late()

    async def scenario(each):
        async with each.client("2026-07-28") as agent:
            found = await agent.list_resources()
            assert [str(item.uri) for item in found.resources] == [KEY]
            withheld = found.meta["agenttwin/withheld"]
            assert withheld == {"unlisted": 1, "policy_error": 1}
        [tool] = [tool for tool in each.gateway.registry.tools.values() if tool.name == "secrets"]
        who = Principal(kind="agent", id="key:1", project="default")
        policy.most = 0
        seen = await asyncio.gather(*(each.gateway.sees(tool, who) for _ in range(100)))
        assert all(seen) and policy.most == 8  # a long list leaves the calls of others their turn

    run(tmp_path, scenario, policy=policy)


def test_a_listener_hears_of_what_it_may_see_and_of_nothing_else(tmp_path):
    policy = AllowListed(hidden={"secrets"})

    async def scenario(each):
        async with (
            each.client("2026-07-28") as agent,
            agent.listen(
                tools_list_changed=True, prompts_list_changed=True,
                resource_subscriptions=[ADA, KEY, "internal://x"],
            ) as listening,
        ):  # fmt: skip
            honoured = listening.honored
            assert honoured.resource_subscriptions == [ADA]
            assert (honoured.tools_list_changed, honoured.prompts_list_changed) == (True, True)
            assert not honoured.resources_list_changed
            bus = each.made._subscriptions
            for event in (
                ResourceUpdated(uri=KEY), ResourceUpdated(uri=ADA), PromptsListChanged(),
                ToolsListChanged(),
            ):  # fmt: skip
                await bus.publish(event)
            heard = [await anext(listening) for _ in range(3)]
            assert heard == [ResourceUpdated(uri=ADA), PromptsListChanged(), ToolsListChanged()]
            policy.hidden.add("customers")  # from now on it is not to be seen
            await bus.publish(ResourceUpdated(uri=ADA))
            await bus.publish(ToolsListChanged())
            assert await anext(listening) == ToolsListChanged()

    run(tmp_path, scenario, policy=policy)


def test_a_listener_whose_key_is_revoked_or_whose_gateway_leaves_hears_no_more(tmp_path):
    async def scenario(each):
        async with (
            each.client("2026-07-28") as agent,
            agent.listen(tools_list_changed=True) as listening,
        ):
            each.gateway.drain()
            assert [event async for event in listening] == []

    async def revoked(each):
        from sidecar import clock

        async with (
            each.client("2026-07-28") as agent, agent.listen(tools_list_changed=True) as listening
        ):  # fmt: skip
            (row,) = [key for key in each.keys.list_keys() if key.name == "support-agent"]
            each.keys.revoke_key(row.key_id, clock.now_ns())
            await each.made._subscriptions.publish(ToolsListChanged())
            assert [event async for event in listening] == []

    run(tmp_path, scenario)
    (tmp_path / "b").mkdir()
    run(tmp_path / "b", revoked)


def test_for_a_server_of_before_nothing_is_agreed_to_and_so_many_may_listen(tmp_path):
    async def scenario(each):
        async with (
            each.client("2026-07-28") as agent,
            agent.listen(tools_list_changed=True) as listening,
        ):
            assert not listening.honored.tools_list_changed
            assert [event async for event in listening] == []

    async def many(each):
        async with each.client("2026-07-28") as agent:
            async with (
                agent.listen(tools_list_changed=True), agent.listen(tools_list_changed=True),
                agent.listen(tools_list_changed=True), agent.listen(tools_list_changed=True),
            ):  # fmt: skip
                with pytest.raises(MCPError) as refused:
                    async with agent.listen(tools_list_changed=True):
                        pass
                assert code_of(refused) == "too_many_wait"
            async with agent.listen(tools_list_changed=True) as again:
                assert again.honored.tools_list_changed

    run(tmp_path, scenario, speaks="2025-11-25")
    (tmp_path / "b").mkdir()
    run(tmp_path / "b", many)


FITS = {
    "crm://customers/*": ("crm://customers/ada", "crm://customers/{name}"),
    "file:///docs/**": (
        "file:///docs/a/b.md",
        "file:///docs/{+path}",
        "file:///docs/a?from=http://x/y&to=..",
        "file:///docs/..a/b..c/...",
        "file:///docs/50%25",
    ),
}
OTHERS = {
    "crm://customers/*": (
        "crm://customers/", "crm://customers/a/b", "crm://customers", "x", "",
        "crm://customers/..;a", "crm://customers/..?a", "crm://customers/%252e%252e",
    ),
    "file:///docs/**": (
        "file:///docs/../etc/passwd", "file:///docs/%2e%2e/etc/passwd", "file:///docs/a%2Fb",
        "file:///docs/..", "file:///docs/a\\b", "file:///docs/\x00", "file:///docs/a b",
        "file:///docs/é", "file:///docs/a/./b", "FILE:///docs/a", "file:///docs/a\n",
        "file:///docs/a?/../../etc/passwd", "file:///docs/..#a", "file:///docs/a#/../../etc/passwd",
        "file:///docs/..;a/etc/passwd", "file:///docs/%2e%2e%3fa", "file:///docs/%2e.%3ba/etc",
        "file:///docs/%252e%252e/etc/passwd", "file:///docs/..%25252fetc%25252fpasswd",
        "file:///docs//etc/passwd", "file:///docs/a//b", "file:////docs/a",
        "file:///docs/" + "a" * 2048, "xfile:///docs/a",
    ),
}  # fmt: skip


@pytest.mark.parametrize("pattern", FITS)
def test_a_pattern_is_for_what_can_be_read_in_one_way_only(pattern):
    for uri in FITS[pattern]:
        assert covers(Match(resource=pattern), uri), uri
    for uri in OTHERS[pattern]:
        assert not covers(Match(resource=pattern), uri), uri
    assert unusable_uri(None) and not covers(Match(), "x")


def test_an_entry_that_is_no_read_or_has_no_usable_name_is_told_at_the_start():
    server = McpServer(name="crm", url="http://127.0.0.1:9/mcp")

    def wrong(**fields):
        given = {"name": "x", "upstream": "crm", "match": Match(prompt="*"), "class_": "read"}
        return [p.text for p in pinned((server,), (Tool(**{**given, **fields}),), {}).problems]

    assert wrong() == []
    assert "say class: read" in wrong(class_="irreversible")[0]
    assert "no empty or dotted part" in wrong(name="../x")[0]
