"""What headers say of a call, and what a refusal looks like."""

import json

import pytest

from sidecar.gateway.problem import Refusal, Refused, render
from sidecar.gateway.request import (
    Preferences,
    episode_token,
    idempotency_key,
    preferences,
    single,
    trace_context,
)
from sidecar.gateway.response import clean


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("abc-123", "abc-123"),
        ('"abc 123"', "abc 123"),
        ('"a\\"b\\\\c"', 'a"b\\c'),
        ("x" * 255, "x" * 255),
        ("  padded  ", "padded"),
    ],
)
def test_a_key_is_a_bare_token_or_a_quoted_string(text, key):
    assert idempotency_key((("Idempotency-Key", text),), "Idempotency-Key") == key


@pytest.mark.parametrize("text", ["", '""', "a b", "x" * 256, "é", '"unfinished', '"a"b"', "a\tb"])
def test_any_other_key_is_refused(text):
    with pytest.raises(Refused) as refused:
        idempotency_key((("idempotency-key", text),), "Idempotency-Key")
    assert (refused.value.status, refused.value.code) == (400, "idempotency_key_invalid")


def test_a_deciding_header_stands_once():
    assert single((), "a") is None
    with pytest.raises(Refused):
        single((("A", "1"), ("a", "1")), "a")


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        ((), Preferences()),
        (("respond-async",), Preferences(respond_async=True)),
        (("wait=7",), Preferences(wait_s=7)),
        (("Respond-Async, wait = 90; foo",), Preferences(respond_async=True, wait_s=55)),
        (("handling=strict", "wait=3"), Preferences(wait_s=3)),
        (("wait=-1", "wait=x"), Preferences()),
    ],
)
def test_preferences_are_read_and_unknown_ones_ignored(values, wanted):
    assert preferences(tuple(("Prefer", value) for value in values)) == wanted


@pytest.mark.parametrize(
    ("value", "trace"),
    [
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", True),
        ("cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more", True),
        ("ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", False),
        ("00-" + "0" * 32 + "-00f067aa0ba902b7-01", False),
        ("00-4bf92f3577b34da6a3ce929d0e0e4736-" + "0" * 16 + "-01", False),
        ("00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", False),
        ("nonsense", False),
    ],
)
def test_a_traceparent_counts_only_when_it_is_one(value, trace):
    found = trace_context((("traceparent", value),))
    assert (found.trace_id is not None) is trace


def test_the_episode_is_found_in_baggage():
    headers = (("baggage", "a=b, agenttwin-episode=ep1.x%2Ey ; p=q"),)
    assert episode_token(headers) == "ep1.x.y"
    assert episode_token((("baggage", "a=b"),)) is None


def test_a_refusal_is_a_problem_document_with_the_members_of_the_interface():
    approval = {"id": "ap", "status": "pending"}
    refusal = Refusal(
        status=403, code="approval_required", detail="wait", next_action="request",
        retry_after=3, approval=approval,
    )  # fmt: skip
    headers, body = render(refusal, decision_id="d", reasons=("amount",))
    assert dict(headers) == {
        "content-type": "application/problem+json",
        "cache-control": "no-store",
        "retry-after": "3",
        "location": "/v1/approvals/ap",
    }
    assert json.loads(body) == {
        "type": "urn:agenttwin:problem:approval_required",
        "title": "Forbidden",
        "status": 403,
        "code": "approval_required",
        "detail": "wait",
        "decision_id": "d",
        "reasons": ["amount"],
        "next_action": "request",
        "retry_after": 3,
        "approval": approval,
    }


def test_an_upstream_cannot_speak_for_us_and_hop_by_hop_headers_end():
    given = (
        *(("Content-Type", "a/b"), ("Gateway-Receipt", "forged"), ("Idempotent-Replayed", "true")),
        *(("Connection", "close, X-Hop"), ("X-Hop", "1"), ("Set-Cookie", "a=b"), ("X-Kept", "1")),
        *(("Transfer-Encoding", "chunked"), ("Content-Length", "3"), ("Server", "x")),
    )
    assert clean(given) == (("content-type", "a/b"), ("x-kept", "1"))
