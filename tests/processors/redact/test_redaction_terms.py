"""Drop, mask, hash and tokenise by kind, keys by name, and the laws that hold for all of them."""

import base64
import json
import re
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from processors.redact.leaves import masked, masked_text
from processors.redact.masker import Masker, Memory
from processors.redact.rules import keeping, redact
from processors.redact.terms import ACTIONS, KINDS, RedactionKey, Terms

KEY = RedactionKey(key_id="abcdefgh", secret=b"k" * 32)
OTHER = RedactionKey(key_id="hgfedcba", secret=b"o" * 32)

SECRETS = {
    "email": ["bob@example.com", "eve.adams+x@mail.example.org"],
    "card": ["4242 4242 4242 4242", "5555555555554444"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819"],
    "phone": ["+49 170 1234567", "(555) 123-4567"],
    "ssn": ["078-05-1120"],
    "api_key": ["sk-proj-abcdefghijklmnop1234", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"],
    "aws_key": ["AKIAIOSFODNN7EXAMPLE"],
    "jwt": ["eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl"],
    "bearer": ["Bearer abc.def-123456"],
    "credential": ["https://user:hunter22@"],
    "secret": ["password=hunter22", "api_key: tr0ub4dor"],
    "private_key": ["-----BEGIN PRIVATE KEY-----\nMIIabc\n-----END PRIVATE KEY-----"],
}
PLANTED = [(kind, text) for kind, texts in SECRETS.items() for text in texts]


def terms(action="tokenise", key=KEY, **others):
    return Terms(capture="redacted", actions=dict.fromkeys(KINDS, action), key=key, **others)


def masking(action="tokenise", key=KEY):
    return Masker(terms(action, key))


def test_every_kind_has_a_sample():
    assert set(SECRETS) == set(KINDS)


@pytest.mark.requirement("RED-01")
@pytest.mark.parametrize(("kind", "text"), PLANTED)
def test_each_action_puts_its_own_thing_in_a_datums_place(kind, text):
    sentence = f"see {text} there"
    assert masking("mask").mask(sentence) == f"see [{kind}] there"
    assert masking("drop").mask(sentence) == "[dropped]"
    token = re.fullmatch(rf"see tok:{kind}:([a-p]{{32}}) there", masking().mask(sentence))
    assert token and token[1].startswith(KEY.key_id)
    hashed = re.fullmatch(rf"see hmac:{kind}:([a-p]{{72}}) there", masking("hash").mask(sentence))
    assert hashed and hashed[1].startswith(KEY.key_id)


def test_kinds_are_told_apart_and_the_rest_is_masked():
    mixed = Masker(Terms(capture="redacted", actions={"email": "tokenise"}, key=KEY))
    after = mixed.mask("bob@example.com pays with 4242424242424242")
    assert re.fullmatch(r"tok:email:[a-p]{32} pays with \[card\]", after)


def test_a_keyed_action_without_a_key_is_a_programming_error():
    with pytest.raises(AssertionError):
        keeping(Terms(capture="redacted", actions={"email": "hash"}))


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ("4242 4242 4242 4242", "4242-4242-4242-4242"),
        ("DE89 3704 0044 0532 0130 00", "DE89370400440532013000"),
        ("Bob@Example.com", "bob@example.com"),
        ("password=hunter22", "my passwd is hunter22"),
        ("Bearer abc.def-123456", "bearer   abc.def-123456"),
    ],
)
def test_one_datum_however_written_has_one_token(left, right):
    found = [re.search(r"tok:\w+:[a-p]{32}", masking().mask(text))[0] for text in (left, right)]
    assert found[0] == found[1]


@pytest.mark.requirement("RED-02")
def test_a_secret_has_one_token_by_its_key_and_in_a_text():
    by_key = masked({"password": "hunter22"}, masking())["password"]
    assert by_key in masking().mask("password=hunter22")


@pytest.mark.requirement("RED-02")
@given(st.sampled_from(PLANTED), st.sampled_from(PLANTED))
def test_tokens_are_equal_exactly_where_values_are(left, right):
    after = [masking().mask(text) for _, text in (left, right)]
    assert (after[0] == after[1]) == (left == right)


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("action", ["hash", "tokenise"])
def test_another_tenants_key_gives_another_token(action):
    text = "bob@example.com"
    assert masking(action).mask(text) != masking(action, OTHER).mask(text)
    assert masking(action).mask(text) == masking(action).mask(text)


PIECES = st.one_of(
    st.text(max_size=10),
    st.sampled_from([text for _, text in PLANTED]),
    st.sampled_from(
        ["@", ".", "+", " ", "tok:", "[email]", "Bearer ", "://", "=", "%40", "\\u0040"]
    ),
    st.sampled_from(PLANTED).map(lambda item: quote(item[1], safe="")),
    st.sampled_from(PLANTED).map(lambda item: base64.b64encode(item[1].encode()).decode()),
)
TEXTS = st.lists(PIECES, max_size=5).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(TEXTS | st.sampled_from(["password", "token"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@pytest.mark.requirement("RED-02")
@given(VALUES, st.sampled_from(ACTIONS))
def test_redacting_twice_changes_nothing_and_once_is_always_the_same(value, action):
    once = masked(value, masking(action))
    assert masked(once, masking(action)) == once
    assert masked(value, masking(action)) == once


@pytest.mark.requirement("RED-02")
@given(VALUES, st.sampled_from(ACTIONS))
def test_redacting_commutes_with_nesting_in_json(value, action):
    if not isinstance(value, dict | list):
        return
    inner = masked(value, masking(action))
    text = json.dumps(value)
    assert json.loads(masked_text(text, masking(action))) == inner
    outer = json.dumps({"a": text, "b": [text]})
    after = json.loads(masked_text(outer, masking(action)))
    assert json.loads(after["a"]) == inner and json.loads(after["b"][0]) == inner


def written(text):
    """A secret as it may come: plain, escaped, quoted, packed, and one in the other."""
    escaped = "".join(f"\\u{ord(char):04x}" for char in text)
    packed = base64.b64encode(text.encode()).decode()
    yield from (text, json.dumps(text), escaped, quote(text, safe=""), json.dumps({"a": text}))
    yield quote(quote(text, safe=""), safe="")
    yield f"https://api.example/v1?q={quote(text, safe='')}&page=2#{quote(text, safe='')}"
    if len(text) >= 12:
        yield from (packed, packed.rstrip("="), base64.urlsafe_b64encode(text.encode()).decode())
        yield base64.b64encode(text.encode("utf-16")).decode()
        yield base64.b64encode(json.dumps({"mail": text}).encode()).decode()
        yield f"data:text/plain;base64,{packed}"


def traces_of(text):
    """Every way in which a text may still be there."""
    yield from (text, json.dumps(text)[1:-1], quote(text), quote(text, safe=""))
    for encoded in (text.encode(), text.encode("utf-16-le"), text.encode("utf-16-be")):
        for offset in range(3):
            packed = base64.b64encode(b"\0" * offset + encoded).decode()
            yield packed[4 if offset else 0 : len(packed) // 4 * 4 - 4]


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.parametrize(("kind", "secret"), PLANTED)
def test_nothing_of_a_planted_secret_is_left_however_it_is_written(kind, secret, action):
    bare = secret.split("=")[-1].split(": ")[-1] if kind == "secret" else secret
    for form in written(secret):
        for text in (form, f"before {form} after", f'{{"note": {json.dumps(form)}}}'):
            after = masked_text(text, masking(action))
            for trace in traces_of(bare):
                assert trace not in after, (text, after)


@pytest.mark.requirement("RED-01")
def test_bytes_are_read_as_text_or_go():
    def packed(raw):
        return {"$b64": base64.b64encode(raw).decode()}

    after = masked({"raw": packed(b"mail bob@example.com")}, masking("mask"))
    assert base64.b64decode(after["raw"]["$b64"]) == b"mail [email]"
    wide = masked(packed("mail bob@example.com".encode("utf-16")), masking("mask"))
    assert base64.b64decode(wide["$b64"]) == b"mail [email]"
    assert masked(packed(b"\xff\xd8\xff\xe0jpeg"), masking("mask")) == "[binary]"
    assert masked(packed(b"harmless"), masking("mask")) == packed(b"harmless")


@pytest.mark.parametrize(
    "text",
    [
        "0af7651916cd43dd8448eb211c80319c",
        "gen_ai_conversation_identifier_of_the_agent",
        "100 % of 20 %ile, 50%25",
        base64.b64encode(b"an ordinary sentence that holds nothing at all").decode(),
        base64.b64encode(bytes(range(128, 256))).decode(),
        "https://api.example/v1/orders?page=2&sort=date%20desc",
        "git@github is a handle",
    ],
)
def test_what_only_looks_encoded_stays(text):
    assert masking().mask(text) == text


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("https://token@cache/x", "[credential]cache/x"),
        ("redis://:hunter22@cache:6379", "[credential]cache:6379"),
        ("https://u:p@ss@cache/", "[credential]cache/"),
        ("https://h.example/p?token=abc&x=1", "https://h.example/p?token=[secret]&x=1"),
        (
            "https://h.example/p?X-Amz-Signature=9f8e",
            "https://h.example/p?X-Amz-Signature=[secret]",
        ),
        ('say {\\"password\\": \\"hunter22\\"}', 'say {\\"[secret]"}'),
        ("bob\\\\u0040example.com", "[email]"),
    ],
)
def test_addresses_and_escaped_json_are_searched(text, after):
    assert masking("mask").mask(text) == after


def test_text_that_is_quoted_without_end_goes_whole():
    text = "bob@example.com"
    for _ in range(20):
        text = quote(text, safe="")
    assert "example" not in masking().mask(text.replace("%25", "%2525"))


@pytest.mark.requirement("RED-02")
@pytest.mark.parametrize(("kind", "secret"), PLANTED)
def test_a_secret_glued_to_words_by_a_stream_of_pieces_is_found(kind, secret):
    bare = secret.split("=")[-1].split(": ")[-1] if kind == "secret" else secret
    glued = f"look{secret}Look" if kind != "ssn" else f"look{secret}look"
    after = masking().mask(glued)
    assert bare not in after
    if kind in ("card", "iban", "ssn", "aws_key"):
        assert masking().mask(secret) in after


def attributes(given_terms, values):
    step = Step(step_id="s", kind="other", attributes=values)
    trace = redact(AgentTrace(trace_id="c" * 32, steps=(step,)), given_terms)
    return trace.steps[0].attributes


@pytest.mark.requirement("RED-01")
def test_unknown_keys_fail_closed_and_a_project_may_allow_and_deny():
    values = {
        "acme.order.id": "A-1001",
        "acme.order.mail": "bob@example.com",
        "acme.customer.name": "Bob Miller",
        "input.value": "refund for bob@example.com",
        "http.route": "/orders",
        "http.request.header.authorization": "raw",
        "seven": 7,
    }
    plain = attributes(Terms(capture="redacted"), values)
    assert plain == {
        "acme.order.id": "[redacted]",
        "acme.order.mail": "[redacted]",
        "acme.customer.name": "[redacted]",
        "input.value": "refund for [email]",
        "http.route": "/orders",
        "http.request.header.authorization": "[secret]",
        "seven": "[redacted]",
    }
    chosen = Terms(
        capture="redacted", allow=("acme.*", "seven"), deny=("acme.customer.*", "http.route")
    )
    assert attributes(chosen, values) == {
        **plain,
        "acme.order.id": "A-1001",
        "acme.order.mail": "[email]",
        "http.route": "[redacted]",
        "seven": 7,
    }
    off = Terms(capture="off", allow=("acme.order.*",), deny=("http.route",))
    kept = attributes(off, values)
    assert (kept["acme.order.id"], kept["acme.order.mail"]) == ("A-1001", "[email]")
    assert (kept["http.route"], kept["input.value"]) == ("[redacted]", "[redacted]")


@pytest.mark.requirement("RED-02")
@given(VALUES, st.sampled_from(ACTIONS))
def test_one_memory_for_many_traces_gives_what_each_alone_gives(value, action):
    keep = keeping(terms(action))
    step = Step(step_id="s", kind="tool_call", tool=Tool(name="t", arguments=value, result=value))
    trace = AgentTrace(trace_id="c" * 32, steps=(step, step))
    alone = redact(trace, terms(action))
    assert redact(trace, terms(action), keep) == redact(trace, terms(action), keep) == alone
    assert redact(alone, terms(action)) == alone


def test_a_memory_is_bounded_by_texts_and_by_characters():
    memory = Memory(texts_max=10, characters_max=1000)
    for number in range(100):
        memory.keep(f"{number}", None)
        assert len(memory.known) <= 10
    for number in range(100):
        memory.keep(f"{number}" * 50, "x" * 20)
        assert sum(len(text) + len(after or "") for text, after in memory.known.items()) <= 1000
