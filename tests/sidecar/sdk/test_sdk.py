"""What an agent's own process uses: claims, idempotency keys, redaction before export."""

import subprocess
import sys
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult

from processors.model import names
from processors.model.step import Step, Tool
from processors.verify.declared import declared
from sidecar.canonical import NotCanonical
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import Sites
from sidecar.sdk.claims import EVENT, claim
from sidecar.sdk.client import RedactingExporter, tell
from sidecar.sdk.idempotency import Keys, idempotency_key
from sidecar.sdk.redact import Redactor, Rule, redact, redact_attributes
from sidecar.tape.redaction import UNREADABLE

pytestmark = pytest.mark.requirement("SDK-01")
SECRET = "sk-live-4eC39HqLyjWDarjtT1zdp7dc"


class Kept:
    """An exporter that keeps the bytes it would send."""

    def __init__(self):
        self.sent, self.flushed, self.closed = [], 0, 0

    def export(self, spans):
        self.sent.append(encode_spans(spans))
        return SpanExportResult.SUCCESS

    def shutdown(self):
        self.closed += 1

    def force_flush(self, timeout_millis=0):
        self.flushed += 1
        return True


def tracer(exporter):
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("t")


def test_a_claim_is_read_as_it_was_made():
    said = claim(
        "issue_refund", "success", action="refund", objects=["A-1"], amount=Decimal("12.50"),
        currency="EUR", confidence=0.9, text="refunded",
    )  # fmt: skip
    step = Step(
        step_id="s", kind="tool_call", name="issue_refund", attributes=said,
        tool=Tool(name="issue_refund"),
    )  # fmt: skip
    (read,) = declared([step], [])
    assert (read.status, read.action, read.objects) == ("success", "refund", ("A-1",))
    assert (read.amount, read.currency, read.confidence) == ("12.5", "EUR", 0.9)
    assert names.CLAIM_EVENT == EVENT and names.CLAIM_SUBJECT in said


@pytest.mark.parametrize(
    ("arguments", "more"),
    [
        (("", "success"), {}),
        (("t", "done"), {}),
        (("t", "success"), {"amount": 0.1}),
        (("t", "success"), {"amount": "1e3"}),
        (("t", "success"), {"currency": "EUR"}),
        (("t", "success"), {"amount": 1, "currency": "euro"}),
        (("t", "success"), {"confidence": 1.5}),
        (("t", "success"), {"objects": "order-17"}),  # would be eight of a letter
    ],
)
def test_a_claim_that_nobody_could_read_is_refused(arguments, more):
    with pytest.raises(ValueError):
        claim(*arguments, **more)


def test_a_claim_is_told_on_the_span_of_an_agent_that_has_opentelemetry():
    kept = Kept()
    assert tell(claim("t", "success")) is False  # no span
    with tracer(kept).start_as_current_span("run"):
        assert tell(claim("issue_refund", "failure", amount=3)) is True
    (event,) = kept.sent[0].resource_spans[0].scope_spans[0].spans[0].events
    assert event.name == "agenttwin.claim"
    assert {one.key for one in event.attributes} == {
        *(f"agenttwin.claim.{name}" for name in ("subject", "status", "amount")),
    }


def test_a_claim_stands_in_the_terminal_event_of_a_tape_that_is_recorded():
    session = Session(Sites(()))
    session.begin()
    try:
        tell(claim("t", "success"))
        tell(claim("u", "failure"))
        assert session.output == {"claimed": ["failure", "success"]}
    finally:
        session.end()


def test_a_key_is_the_same_in_a_second_try_and_another_for_every_other_action():
    first, second = Keys("ticket-1"), Keys("ticket-1")
    made = [first.next("refund", {"order": 1}), first.next("refund", {"order": 1})]
    assert made == [second.next("refund", {"order": 1.0}), second.next("refund", {"order": 1})]
    others = [
        idempotency_key("ticket-2", "refund", {"order": 1}),
        idempotency_key("ticket-1", "cancel", {"order": 1}),
        idempotency_key("ticket-1", "refund", {"order": 2}),
    ]
    assert len({*made, *others}) == 5
    assert all(len(one) == 48 and one.isascii() and one.isprintable() for one in made)


@pytest.mark.parametrize("arguments", [("", "t"), ("r", "")])
def test_a_key_needs_a_run_and_a_tool(arguments):
    with pytest.raises(ValueError):
        idempotency_key(*arguments)
    with pytest.raises(NotCanonical):
        idempotency_key("r", "t", {"x": float("nan")})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(("a", "token", "b")), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=25, deadline=None)
@given(VALUES)
def test_redacting_twice_changes_nothing(value):
    once = redact({"v": value, "note": f"Bearer {SECRET}"})
    assert redact(once) == once and SECRET not in str(once)


def test_what_cannot_be_looked_at_goes():
    assert redact(object()) == UNREADABLE
    assert redact_attributes({"x": [object()]}) == {"x": UNREADABLE}


def test_spans_leave_without_secrets_whichever_part_holds_them():
    kept = Kept()
    exporter = RedactingExporter(kept)
    with pytest.raises(KeyError), tracer(exporter).start_as_current_span(f"call {SECRET}") as span:
        span.set_attribute("http.request.header.authorization", ("Basic abcdef",))
        span.set_attribute("gen_ai.input.messages", f'[{{"password": "hunter2", "n": "{SECRET}"}}]')
        span.set_attribute("tokens", 12)
        span.add_event(f"e {SECRET}", {"body": SECRET})
        raise KeyError(SECRET)
    sent = kept.sent[0].SerializeToString()
    for secret in (SECRET, "hunter2", "abcdef"):
        assert secret.encode() not in sent
    (span,) = kept.sent[0].resource_spans[0].scope_spans[0].spans
    plain = {one.key: one.value for one in span.attributes}
    assert plain["tokens"].int_value == 12
    assert plain["http.request.header.authorization"].array_value.values[0].string_value
    exporter.force_flush()
    exporter.shutdown()
    assert (kept.flushed, kept.closed, exporter.refused) == (1, 1, 0)


def test_rules_of_ones_own_count_and_a_span_that_cannot_be_read_is_not_sent():
    own = Redactor([Rule(mode="drop", key="order")])
    assert redact({"order": "A-1"}, own) == {"order": "[dropped]"}
    kept = Kept()
    exporter = RedactingExporter(kept)
    exporter.export([object()])
    assert exporter.refused == 1 and len(kept.sent[0].resource_spans) == 0


def test_the_sdk_brings_neither_the_server_nor_opentelemetry():
    code = (
        "import sys, sidecar.sdk.claims, sidecar.sdk.client, sidecar.sdk.idempotency\n"
        "heavy = {'processors', 'aiohttp', 'grpc', 'opentelemetry', 'yaml', 'rich', 'google'}\n"
        "print(sorted(heavy & {name.partition('.')[0] for name in sys.modules}))"
    )
    found = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True)
    assert found.stdout.strip() == "[]", found.stderr
