"""Codex, Gemini CLI and Claude Code: steps from records alone, one trace for each session."""

import msgspec
import pytest
from telemetry_rig import MS, START, event, one, only, span, steps, traces

from processors.model.span import LogRecord, Scope


def record(
    name, at=0, *, service="cli", trace=None, parent=None, body=None, scope="", **attributes
):
    keys = {key.replace("__", "."): value for key, value in attributes.items()}
    return LogRecord(
        trace_id=trace,
        span_id=parent,
        time_ns=START + at * MS,
        event_name=name,
        body=body,
        attributes=keys,
        scope=Scope(name=scope),
        resource={"service.name": service},
    )


def codex(name, at, session="s1", **attributes):
    return record(f"codex.{name}", at, conversation__id=session, **attributes)


def codex_run(session="s1", at=0):
    return (
        codex("conversation_starts", at, session, provider_name="openai"),
        codex("user_prompt", at + 1, session, prompt="[REDACTED]"),
        codex(
            "sse_event",
            at + 20,
            session,
            event__kind="response.completed",
            input_token_count="120",
            output_token_count="18",
            cached_token_count="64",
            model="gpt-5",
        ),
        codex(
            "tool_decision",
            at + 22,
            session,
            tool_name="shell",
            call_id=f"c-{session}",
            decision="approved",
            source="user",
        ),
        codex(
            "tool_result",
            at + 40,
            session,
            tool_name="shell",
            call_id=f"c-{session}",
            arguments='{"command": ["ls"]}',
            duration_ms="10",
            success="true",
            output="a.txt",
        ),
    )


@pytest.mark.requirement("NRM-01")
def test_codex_tells_its_steps_by_records_alone():
    (trace,) = traces(*codex_run())
    assert (trace.conversation_id, trace.service.name) == ("s1", "cli")
    model = only(trace, "model_call")
    assert (model.usage.input, model.usage.output, model.usage.cache_read) == (120, 18, 64)
    call = only(trace, "tool_call")
    assert (call.tool.arguments, call.tool.result, call.status) == (
        {"command": ["ls"]},
        "a.txt",
        "ok",
    )
    assert (call.end_ns - call.start_ns) == 10 * MS
    decision = only(trace, "human_input")
    assert (decision.decision.effect, decision.decision.source) == ("allow", "emitter")


def test_sessions_are_runs_of_their_own_whatever_the_order_or_repetition():
    items = (*codex_run("s1"), *codex_run("s2", at=5))
    there = traces(*items)
    assert [trace.conversation_id for trace in there] == ["s1", "s2"]
    assert traces(*reversed((*items, *items))) == there
    assert (
        len(
            traces(
                *codex_run(), record("codex.user_prompt", 3, service="other", conversation__id="s1")
            )
        )
        == 2
    )


def test_a_refused_call_is_denied_whether_or_not_a_result_follows():
    refusal = codex(
        "tool_decision", 1, tool_name="shell", call_id="c1", decision="denied", source="config"
    )
    result = codex(
        "tool_result", 2, tool_name="shell", call_id="c1", success="false", output="rejected"
    )
    for items in ((refusal,), (refusal, result), (result, refusal)):
        (trace,) = traces(*items)
        assert only(trace, "tool_call").status == "denied"
        assert only(trace, "policy_decision").decision.effect == "deny"


def test_a_request_that_failed_is_a_failed_model_call_and_one_that_did_not_is_none():
    failed = codex("api_request", 1, http__response__status_code="500", error__message="boom")
    fine = codex("api_request", 2, http__response__status_code="200")
    (trace,) = traces(failed, fine)
    assert only(trace, "model_call").error.message == "boom"


def test_gemini_cli_tells_call_result_and_decision_in_one_record():
    def gemini(name, at, **attributes):
        return record(f"gemini_cli.{name}", at, session__id="g", **attributes)

    (trace,) = traces(
        gemini(
            "api_response",
            10,
            model="gemini-x",
            input_token_count=100,
            output_token_count=10,
            thoughts_token_count=5,
            cached_content_token_count=40,
            duration_ms=8,
        ),
        gemini(
            "tool_call",
            20,
            function_name="read_file",
            function_args='{"path": "a"}',
            success=True,
            decision="auto_accept",
            duration_ms=3,
        ),
        gemini(
            "tool_call",
            30,
            function_name="write_file",
            function_args='{"path": "a"}',
            success=False,
            decision="reject",
        ),
        gemini(
            "tool_call",
            40,
            function_name="run",
            function_args="{}",
            success=False,
            error="no such command",
            error_type="tool_execution",
        ),
        gemini(
            "conseca.verdict", 50, verdict="deny", verdict_rationale="too risky", tool_name="run"
        ),
        gemini("api_error", 60, model="gemini-x", error="quota", error_type="429"),
    )
    good, bad = steps(trace, "model_call")
    assert (good.usage.input, good.usage.output, good.usage.cache_read) == (100, 15, 40)
    assert (bad.status, bad.error.message) == ("error", "quota")
    assert [step.status for step in steps(trace, "tool_call")] == ["ok", "denied", "error"]
    verdict = only(trace, "policy_decision")
    assert (verdict.decision.effect, verdict.decision.reasons) == ("deny", ("too risky",))


def claude(name, at, **attributes):
    return record(
        name,
        at,
        scope="com.anthropic.claude_code.events",
        body=f"claude_code.{name}",
        session__id="k",
        **attributes,
    )


def test_claude_codes_records_are_steps_and_its_bare_tokens_leave_the_cache_out():
    (trace,) = traces(
        claude("user_prompt", 1, prompt="<REDACTED>"),
        claude(
            "api_request",
            30,
            model="claude-x",
            input_tokens="10",
            output_tokens="5",
            cache_read_tokens="100",
            cache_creation_tokens="20",
            duration_ms="20",
        ),
        claude("tool_decision", 31, tool_name="Bash", decision="accept", source="config"),
        claude(
            "tool_result",
            40,
            tool_name="Bash",
            success="true",
            tool_use_id="toolu_1",
            tool_parameters='{"bash_command": "ls"}',
        ),
        claude(
            "tool_decision",
            41,
            tool_name="Write",
            decision="reject",
            source="user_reject",
            tool_use_id="toolu_2",
        ),
        claude("api_error", 50, model="claude-x", error="overloaded", status_code="529"),
    )
    good, bad = steps(trace, "model_call")
    assert (good.usage.input, good.usage.cache_read, good.usage.cache_write) == (130, 100, 20)
    assert bad.error.type == "529"
    ran, refused = steps(trace, "tool_call")
    assert (ran.tool.arguments, ran.status, refused.status) == (
        {"bash_command": "ls"},
        "ok",
        "denied",
    )
    assert only(trace, "policy_decision").decision.reasons == ("config",)
    assert only(trace, "human_input").decision.effect == "deny"


def spans_of_claude():
    def beta(number, name, attributes=None, **place):
        return span(
            number,
            f"claude_code.{name}",
            attributes={"span.type": name, "session.id": "k", **(attributes or {})},
            **place,
        )

    request = {
        "model": "claude-x",
        "input_tokens": 10,
        "output_tokens": 5,
        "cache_read_tokens": 100,
        "request_id": "req_1",
    }
    call = {"tool_name": "Bash", "tool_use_id": "toolu_1", "full_command": "ls"}
    return beta, request, call


def test_b46_tool_and_execution_of_one_id_are_one_call_with_the_output_of_the_event():
    beta, request, call = spans_of_claude()
    trace = one(
        beta(1, "interaction", took=60),
        beta(2, "llm_request", request, parent=1, took=9),
        beta(
            3,
            "tool",
            call,
            parent=1,
            at=10,
            took=20,
            events=(event("tool.output", output="a.txt"),),
        ),
        beta(
            4,
            "tool.blocked_on_user",
            {"decision": "accept", "source": "user_temporary"},
            parent=3,
            at=11,
        ),
        beta(5, "tool.execution", {"tool_use_id": "toolu_1", "success": "true"}, parent=3, at=15),
    )
    step = only(trace, "tool_call")
    assert (step.tool.name, step.tool.result) == ("Bash", "a.txt")
    assert only(trace, "human_input").decision.effect == "allow"
    assert only(trace, "agent").agent.name == "claude_code"
    assert trace.usage_total.input == 110


def test_b47_requests_without_an_interaction_are_still_a_run():
    beta, request, _ = spans_of_claude()
    trace = one(beta(1, "llm_request", request))
    assert only(trace, "model_call").usage.input == 110


def test_records_inside_a_trace_belong_to_it_and_do_not_double_its_spans():
    beta, _, call = spans_of_claude()
    trace_id, span_id = f"{1:032x}", f"{1:016x}"
    record_ = claude(
        "tool_result", 30, tool_name="Bash", success="true", tool_use_id="toolu_1", duration_ms="15"
    )
    inside = msgspec.structs.replace(record_, trace_id=trace_id, span_id=span_id)
    trace = one(
        beta(1, "interaction", took=60), beta(3, "tool", call, parent=1, at=10, took=20), inside
    )
    assert only(trace, "tool_call").tool.name == "Bash"
    assert trace.completeness == "complete"


def test_b49_no_user_is_guessed():
    (trace,) = traces(claude("user_prompt", 1, prompt="hi", user__email="a@b.c"))
    assert trace.conversation_id == "k"


@pytest.mark.parametrize(
    "name", ["codex.tool_result", "gemini_cli.tool_call", "claude_code.tool_result"]
)
def test_records_without_anything_stay_harmless(name):
    (trace,) = traces(record(name))
    assert only(trace, "tool_call").status == "unset"


def test_an_unknown_record_makes_no_step():
    assert traces(record("codex.startup_phase", conversation__id="s")) == ()
