"""Whatever is sent to a twin server is answered, and never by a failure of its own."""

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from twin_server_rig import KEY, serving

pytestmark = pytest.mark.requirement("TWN-01")
SETTINGS = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
NAMES = ("name", "agent", "permissions", "seed", "faults", "state", "clear", "flags", "now", "life")
SOME = st.sampled_from(["", "shop", "orders", "refund", "*", "1h", "2026-01-05T09:00:00Z", "A-1"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | SOME,
    lambda each: (
        st.lists(each, max_size=3)
        | st.dictionaries(SOME | st.sampled_from(["id", "fault", "tool", "when"]), each, max_size=4)
    ),
    max_leaves=8,
)
FAULT = st.fixed_dictionaries(
    {"fault": st.sampled_from(["slow", "http_503", "stale_read", "reorder", "partial_write"]),
     "tool": st.sampled_from(["*", "refund"])},
    optional={"delay": JSON, "window": JSON, "lag": JSON, "versions": JSON, "when": JSON},
)  # fmt: skip


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shop"), silence_seconds=0.05) as running:
        yield running


def emptied(shop):
    for name in shop.hall.names:
        status, said = shop.lead("DELETE", f"/{name}")
        assert status == 200 and said["clean"], said


@SETTINGS
@given(
    wanted=st.dictionaries(st.sampled_from(NAMES), JSON, max_size=4)
    | st.builds(lambda some: {"faults": some}, st.lists(FAULT, max_size=2))
)
def test_any_wish_is_an_episode_or_is_refused(shop, wanted):
    status, opened = shop.lead("POST", "", wanted)
    assert status in (201, 400, 422), opened
    if status == 201:
        name = opened["episode"]
        try:
            body = json.dumps({"amount": "1.00"}).encode()
            sent = {"Content-Type": "application/json"}
            answered, _, _ = shop.ask(
                "POST", "/shop/orders/A-1/refunds", body, token=opened["token"], headers=sent
            )
            assert answered < 500 or answered in (500, 501, 503)
        except OSError:
            pass  # a fault may leave it unanswered
        for what, asked in (
            ("pause", {}),
            ("step", {}),
            ("forward", {"by": "90d"}),
            ("resume", {}),
        ):
            assert shop.lead("POST", f"/{name}/{what}", asked)[0] in (200, 422)
        assert shop.lead("GET", f"/{name}/events")[0] == 200
    emptied(shop)


@SETTINGS
@given(body=st.binary(max_size=200) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_body_gets_an_answer_on_every_path(shop, body):
    token = shop.open()
    sent = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25"}
    for path, key in (
        ("/mcp", token),
        ("/shop/orders/A-1/refunds", token),
        ("/v1/episodes/none/forward", KEY),
    ):
        status, _, _ = shop.ask("POST", path, body, token=key, headers=sent)
        assert status < 500, (path, body)
    emptied(shop)


@SETTINGS
@given(params=st.dictionaries(st.sampled_from(["name", "arguments", "_meta", "task"]), JSON))
def test_any_call_of_a_tool_is_a_result_or_an_error_of_the_protocol(shop, params):
    token = shop.open()
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    sent = {"MCP-Protocol-Version": "2025-11-25"}
    status, _, said = shop.ask("POST", "/mcp", body, token=token, headers=sent)
    assert status < 500 and ("result" in json.loads(said)) != ("error" in json.loads(said))
    emptied(shop)
