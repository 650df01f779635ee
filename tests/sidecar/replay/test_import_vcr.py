"""VCR cassettes become tapes: interactions at the HTTP seam, model calls at the provider's."""

import base64
import gzip
import json

import pytest
import yaml

from sidecar.replay.import_tape import Unimportable
from sidecar.replay.import_vcr import cassette

GET = {
    "request": {
        "method": "GET",
        "uri": "https://user:pw@shop.example/orders/1?api_key=sekret&x=1",
        "body": None,
        "headers": {"Authorization": ["Bearer abcdefghijkl"], "Accept": ["a", "b"]},
    },
    "response": {
        "status": {"code": 200, "message": "OK"},
        "headers": {"Content-Encoding": ["gzip"], "Content-Type": ["application/json"]},
        "body": {"string": gzip.compress(b'{"id": 1, "total": 25.0}', mtime=0)},
    },
}
POST = {
    "request": {
        "method": "POST",
        "uri": "https://api.openai.com/v1/chat/completions",
        "body": '{"model": "gpt-4o", "messages": [{"role": "user", "content": "hi"}]}',
        "headers": {"Authorization": ["Bearer abcdefghijkl"]},
    },
    "response": {
        "status": {"code": 429, "message": "Too Many Requests"},
        "headers": {},
        "body": {"string": '{"error": "slow down"}'},
    },
}


def of(*interactions, **more):
    return yaml.safe_dump({"interactions": list(interactions), "version": 1, **more}).encode()


@pytest.mark.requirement("TAP-03")
def test_an_interaction_is_a_call_and_its_result():
    found = cassette(of(GET), "orders.one", "redacted")
    call, result, terminal = found.facts
    assert (call.kind, call.seam, call.name) == ("tool_call", "http", "GET shop.example/orders/1")
    assert call.input == {
        "method": "GET",
        "url": "https://shop.example/orders/1",
        "query": {"api_key": ["sekret"], "x": ["1"]},
        "headers": {"authorization": "Bearer abcdefghijkl", "accept": ["a", "b"]},
        "body": None,
    }
    assert (result.kind, result.cause, result.site) == ("tool_result", (0,), call.site)
    assert result.output["body"] == {"id": 1, "total": 25}
    assert terminal.kind == "terminal"
    assert found.header.fidelity == "L2" and found.header.source == "import:vcr"


@pytest.mark.requirement("TAP-03")
@pytest.mark.row("R5")
def test_a_models_endpoint_is_a_model_call_and_a_retry_keeps_its_order():
    good = json.loads(json.dumps(POST))
    good["response"] |= {"status": {"code": 200, "message": "OK"}}
    found = cassette(of(POST, good), "x", "full")
    first, second, _ = found.facts
    assert (first.kind, first.name, first.status) == ("llm_call", "gpt-4o", "error")
    assert first.error == ("HTTP 429", "Too Many Requests")
    assert (second.kind, second.status) == ("llm_call", "ok")
    assert first.input["messages"] == [{"role": "user", "content": "hi"}]


def test_json_cassettes_and_their_forms_of_bodies_are_read():
    one = json.loads(json.dumps(POST))
    one["response"]["body"] = {"base64_string": base64.b64encode(b"\xff\xfe").decode()}
    text = json.dumps({"version": 1, "interactions": [one]}).encode()
    assert cassette(text, "x", "full").facts[0].output == b"\xff\xfe"
    ruby = {"http_interactions": [POST], "recorded_with": "VCR 6.2.0"}
    found = cassette(yaml.safe_dump(ruby).encode(), "x", "full")
    assert found.header.labels == {"recorded_with": "VCR 6.2.0"}


def test_old_text_tags_are_text():
    text = of(POST).replace(b"method: POST", b"method: !!python/unicode 'POST'")
    assert cassette(text, "x", "full").facts[0].kind == "llm_call"


def bomb():
    lines = ["a: &a0 [x, x]"] + [f"b{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 30)]
    return "\n".join([*lines, "interactions: [*a29]"]).encode()


def inflating():
    one = json.loads(json.dumps({**GET, "response": {**GET["response"], "body": None}}))
    one["response"]["body"] = {"string": gzip.compress(b"0" * (64 * 1024 * 1024))}
    return of(one)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"interactions: 3",
        b"interactions: [3]",
        b"interactions: [{request: {}, response: {}}]",
        b"!!python/object/apply:os.system ['true']",
        b"interactions: !!python/name:os.system",
        b"{",
        b"{" * 100_000,
        bomb(),
        inflating(),
    ],
    ids=range(10),
)
def test_what_is_no_cassette_or_made_to_harm_is_refused(text):
    with pytest.raises(Unimportable):
        cassette(text, "x", "full")


def test_a_name_is_no_path():
    assert cassette(of(GET), "../../etc/passwd", "full").name == "-..-etc-passwd"
