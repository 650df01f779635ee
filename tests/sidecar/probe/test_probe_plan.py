"""Which steps are asked about, with what, and what an answer proves."""

import msgspec
import pytest

from processors.model.evidence import Evidence
from processors.model.step import Message, Part, Step, Tool
from processors.model.trace import AgentTrace
from processors.verify.outcome import judge
from sidecar.errors import Problem
from sidecar.probe.config import HttpProbe, McpProbe, Probe, SqlProbe
from sidecar.probe.plan import ProbeReply, judge_response, load, plan

TRACE = "d" * 32
NOW = 10**15


def probe(**fields):
    base = {
        "name": "refund_in_ledger",
        "when": 'step.tool.name == "issue_refund"',
        "http": HttpProbe(upstream="shop", get="/orders/{arguments.order_id}"),
        "expect": "response.json.refunded == arguments.amount",
    }
    return Probe(**{**base, **fields})


def step(number, name="issue_refund", arguments=None, **fields):
    return Step(
        step_id=f"s{number}",
        kind="tool_call",
        name=name,
        tool=Tool(name=name, arguments=arguments),
        end_ns=10**9,
        status=fields.pop("status", "ok"),
        **fields,
    )


def planned(steps, *, evidence=(), **fields):
    trace = AgentTrace(trace_id=TRACE, steps=tuple(steps), evidence=tuple(evidence))
    return plan(trace, load([probe(**fields)]))


def answered(body, status=200, headers=(), arguments=None, **fields):
    (request,) = planned(
        [step(1, arguments=arguments or {"order_id": "A", "amount": 50})], **fields
    )
    reply = ProbeReply(status=status, headers=tuple(headers), body=body)
    return judge_response(request, reply, now_ns=NOW)


@pytest.mark.requirement("OUT-02")
def test_when_picks_the_steps_and_arguments_fill_the_address():
    steps = [
        Step(step_id="m", kind="model_call"),
        step(1, "lookup_order", {"order_id": "A"}),
        step(2, arguments={"order_id": "B-2", "amount": 5}),
    ]
    (request,) = planned(steps)
    assert (request.step_id, request.subject, request.upstream) == ("s2", "issue_refund", "shop")
    assert request.path_query == "/orders/B-2" and request.refused is None


def test_calls_that_were_never_made_are_not_asked_about():
    arguments = {"order_id": "A"}
    assert planned([step(1, arguments=arguments, status="requested_only")]) == ()
    assert planned([step(1, arguments=arguments, status="denied")]) == ()
    assert len(planned([step(1, arguments=arguments, status="denied", receipt_id="r")])) == 1


def test_what_the_gateway_read_goes_before_what_telemetry_shows():
    seen = Evidence(
        evidence_id="e",
        source="receipt",
        name="gateway",
        held=True,
        step_id="s1",
        data={"arguments": {"order_id": "GATEWAY"}},
    )
    (request,) = planned([step(1, arguments={"order_id": "SPAN"})], evidence=[seen])
    assert request.path_query == "/orders/GATEWAY"


def test_a_value_that_does_not_fit_refuses_the_question_but_says_so():
    (request,) = planned([step(1, arguments={"order_id": "../admin"})])
    assert request.refused == "url_value_refused"
    (request,) = planned([step(1)])
    assert request.refused == "url_value_missing"


def test_expressions_see_the_trace_and_histories_only_when_they_name_them():
    said = Message(role="user", parts=(Part(type="text", content="refund me"),))
    steps = [step(1, arguments={"order_id": "A"}, messages_in=(said,))]
    assert (
        len(planned(steps, when='trace.trace_id.startsWith("d") && step.kind == "tool_call"')) == 1
    )
    assert len(planned(steps, when='step.messages_in[0].role == "user"')) == 1
    assert len(planned(steps, when="size(trace.steps) == 1")) == 1


@pytest.mark.requirement("OUT-02")
@pytest.mark.parametrize(
    ("body", "held", "detail"),
    [
        (b'{"refunded": 50}', True, None),
        (b'{"refunded": 50.0}', True, None),
        (b'{"refunded": 49.99}', False, "expectation_not_met"),
        (b'{"refunded": null}', False, "expectation_not_met"),
        (b"{}", None, "expect_without_value"),
        (b"not json", None, "expect_without_value"),
        (b"[" * 50_000, None, "expect_without_value"),
        (b"[" * 100_000, None, "answer_too_large"),
        (b"[" + b"1," * 30_000 + b"1]", None, "answer_too_large"),
        (b"", None, "expect_without_value"),
    ],
)
def test_an_answer_holds_does_not_hold_or_tells_nothing(body, held, detail):
    found = answered(body)
    assert (found.held, found.detail) == (held, detail)
    assert (found.source, found.name, found.step_id) == ("probe", "refund_in_ledger", "s1")
    assert found.data["http_status"] == 200


@pytest.mark.parametrize("status", [401, 403, 408, 429, 500, 503])
def test_a_status_that_says_nothing_of_state_is_unknown(status):
    found = answered(b'{"refunded": 50}', status)
    assert (found.held, found.detail) == (None, f"http_{status}")
    looked = answered(b"", status, expect="response.status == 200")
    assert looked.held is False


def test_the_text_of_an_answer_too_large_to_be_read_as_json_is_seen():
    body = b"[" + b"1," * 30_000 + b"2]"
    assert answered(body, expect="response.text.endsWith(',2]')").held is True


def test_a_404_is_an_answer():
    assert answered(b"{}", 404, expect="response.status == 404").held is True


def test_headers_and_text_are_seen():
    expect = 'response.headers["x-state"] == "a, b" && response.text.contains("done")'
    headers = [("x-state", "a"), ("x-state", "b")]
    assert answered(b"all done", headers=headers, expect=expect).held is True


@pytest.mark.requirement("OUT-02")
def test_an_answer_older_than_the_step_is_stale():
    age = str((NOW - 10**9) // 10**9 + 5)
    found = answered(b'{"refunded": 50}', headers=[("age", age)])
    assert (found.held, found.detail) == (None, "stale")
    assert answered(b'{"refunded": 50}', headers=[("age", "3")]).held is True
    assert answered(b'{"refunded": 50}', headers=[("age", "x" * 30)]).held is True


@pytest.mark.parametrize(
    ("fields", "where", "why"),
    [
        ({"when": "step.tool.name =="}, "probes.0.when", "CEL"),
        ({"when": "arguments.x == 1"}, "probes.0.when", "arguments"),
        ({"expect": "rows == 1"}, "probes.0.expect", "rows"),
        ({"http": HttpProbe(upstream="shop", get="orders")}, "probes.0.http.get", "start with /"),
        ({"http": HttpProbe(url="http://{arguments.h}/x")}, "probes.0.http.url", "path and query"),
        ({"http": HttpProbe(url="ftp://host/x")}, "probes.0.http.url", "http"),
        ({"http": HttpProbe()}, "probes.0.http", "either"),
        ({"deadline": "soon"}, "probes.0.deadline", "duration"),
    ],
)
def test_what_is_wrong_with_a_probe_is_said_at_load_with_its_place(fields, where, why):
    with pytest.raises(Problem) as raised:
        load([probe(**fields)])
    assert raised.value.path == where and why in raised.value.text


def test_two_probes_of_one_name_are_refused():
    with pytest.raises(Problem, match="named twice"):
        load([probe(), probe()])


def test_no_probes_ask_nothing():
    assert plan(AgentTrace(trace_id=TRACE, steps=(step(1),)), ()) == ()


@pytest.mark.requirement("OUT-02")
def test_state_looked_at_later_than_it_speaks_for_the_step_is_unknown():
    at = NOW - 10**9
    assert answered(b'{"refunded": 50}', fresh=f"{at // 10**6 + 1}ms").held is True
    found = answered(b'{"refunded": 50}', fresh="5s")
    assert (found.held, found.detail) == (None, "too_late")


@pytest.mark.parametrize(
    ("fields", "where"),
    [
        ({"http": None}, "http"),
        ({"sql": SqlProbe(database="d", query="SELECT 1")}, "http"),
        ({"http": None, "sql": SqlProbe(database="d", query="DELETE FROM t")}, "sql.query"),
        ({"http": None, "sql": SqlProbe(database="d", query="SELECT $1")}, "sql.parameters"),
        (
            {
                "http": None,
                "sql": SqlProbe(database="d", query="SELECT $2", parameters=("step.x",)),
            },
            "sql.parameters",
        ),
        (
            {"http": None, "sql": SqlProbe(database="d", query="SELECT $1", parameters=("x",))},
            "sql.parameters.0",
        ),
        (
            {"http": None, "sql": SqlProbe(database="d", query="SELECT '{arguments.x}'")},
            "sql.query",
        ),
        ({"http": None, "mcp": McpProbe(url="http://10.0.0.1/mcp", resource="a:b")}, "mcp.url"),
        ({"stable_for": "soon"}, "stable_for"),
        ({"fresh": "never"}, "fresh"),
    ],
)
def test_what_cannot_be_asked_is_refused_naming_the_place(fields, where):
    with pytest.raises(Problem) as raised:
        load([probe(**fields)])
    assert raised.value.path == f"probes.0.{where}"


def test_an_expectation_sees_the_answer_of_its_own_way():
    sql = {"http": None, "sql": SqlProbe(database="d", query="SELECT 1")}
    assert load([probe(**sql, expect="size(rows) == 1")])
    with pytest.raises(Problem, match="response"):
        load([probe(**sql, expect="response.status == 200")])
    with pytest.raises(Problem, match="rows"):
        load([probe(expect="size(rows) == 1")])


def test_an_mcp_resource_is_a_uri_whose_values_are_encoded():
    mcp = {
        "http": None,
        "mcp": McpProbe(
            url="http://127.0.0.1/mcp",
            resource="crm://orders/{arguments.order_id}",
            allow_cidrs=("127.0.0.0/8",),
        ),
    }
    (request,) = planned([step(1, arguments={"order_id": "A 1"})], **mcp)
    assert request.mcp.resource == "crm://orders/A%201"
    (request,) = planned([step(1, arguments={"order_id": "../x"})], **mcp)
    assert request.refused == "url_value_refused"


@pytest.mark.requirement("OUT-02")
def test_a_step_that_says_it_ends_in_the_future_is_looked_at_all_the_same():
    late = AgentTrace(
        trace_id=TRACE,
        steps=(
            msgspec.structs.replace(
                step(1, arguments={"order_id": "A", "amount": 50}), end_ns=NOW * 9
            ),
        ),
    )
    (request,) = plan(late, load([probe()]))
    found = judge_response(
        request, ProbeReply(status=200, headers=(), body=b'{"refunded": 0}'), now_ns=NOW
    )
    assert (found.held, found.detail) == (False, "expectation_not_met")
    judged = judge(
        msgspec.structs.replace(late, evidence=(found,), final_output="I refunded EUR 50."),
        tools={},
        now_ns=NOW,
    )
    assert judged.outcome.status == "contradicted"
