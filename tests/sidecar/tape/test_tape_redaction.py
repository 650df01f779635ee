"""The laws of redaction on a tape, and that nothing planted stays."""

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tape_rig import HEADER, RUN, VALUES, codecs, written

from sidecar.canonical import canonical
from sidecar.tape.codec import Projection, Projector
from sidecar.tape.compose import Fact
from sidecar.tape.files import examine, read_tape
from sidecar.tape.redaction import Redactor, Rule
from sidecar.tape.value import decoded, encoded

KEY = b"k" * 32
SECRETS = st.sampled_from(
    [
        "mail ada@example.com now",
        "Bearer abcdef0123456789",
        "sk-abcdefghijklmnop1234",
        "eyJhbGciOi.eyJzdWIiOi.c2ln",
        "card 4111 1111 1111 1111",
        "-----BEGIN PRIVATE KEY-----\nMIIE\n-----END PRIVATE KEY-----",
        '{"password": "hunter22", "x": ["ada@example.com"]}',
        '{"password": "hunter22", "password": null}',
        '{"password": "hunter2',
        "Bearer Bearer Bearer abcdefghijk",
        "a@b.co.a@b.co@a@b.co",
        "https://x.example/a?api_key=hunter22&x=1;password=hunter22,token=token=hunter22",
        "postgresql://ada:hunter22@db/x and https://hunter22@x.example",
        "password==hunter22",
        'DB_PASSWORD="hunter22" and token = \'hunter22 x\'; --api-key hunter22 --pwd "hunter22"',
        "a: 1\n- password: hunter22\nX-Api-Key: hunter22\nAuthorization: Basic hunter22=",
        "{'password': 'hunter22', 'dbPassword': \"hunter22\"} -H 'X-Token: hunter22'",
        'password: "hunter22 --token hunter22',
    ]
)
KEYS = st.sampled_from(["password", "API-Key", "x", "email", "ada@example.com", "bob@example.com"])
PLANTED = st.recursive(
    SECRETS | st.integers(0, 2**53 - 1) | st.none() | st.booleans() | VALUES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
MODES = st.sampled_from(["drop", "mask", "hash", "tokenise"])


def redactor(mode="mask", forms="mask", key=KEY, paths=("/x/*",)):
    rules = [Rule(mode=mode, class_="name", path=path) for path in paths]
    return Redactor([*rules, Rule(mode=mode, class_="mail", key="email")], forms=forms, key=key)


@pytest.mark.requirement("TAP-01")
@given(PLANTED, MODES, MODES)
def test_redacting_twice_changes_nothing(value, mode, forms):
    redact = redactor(mode, forms).value
    once = redact(value)
    assert canonical(redact(once)) == canonical(once)


@given(PLANTED, MODES, MODES)
def test_the_same_value_gives_the_same_result_whatever_the_order_of_keys(value, mode, forms):
    turned = json.loads(json.dumps(value))
    if isinstance(turned, dict):
        turned = dict(reversed(turned.items()))
    one, other = redactor(mode, forms).value(value), redactor(mode, forms).value(turned)
    assert canonical(one) == canonical(other)


@pytest.mark.requirement("TAP-01")
@given(PLANTED, MODES, st.sampled_from(["/x", "/**/x", "/*", "/password", "/*/*"]))
def test_redaction_commutes_with_a_codec(value, mode, path):
    redact = redactor(mode, paths=()).value
    project = Projector(Projection(volatile=(path,), unordered=("/**",))).project
    assert canonical(project(redact(value))) == canonical(project(redact(project(value))))


@given(PLANTED)
def test_nothing_planted_stays(value):
    text = json.dumps(redactor().value(value))
    for secret in ("ada@example.com", "abcdef0123456789", "sk-abcdefghij", "hunter2", "4111 1111"):
        assert secret not in text


@pytest.mark.parametrize("open_, close", [("[", "]"), ('{"password":', "}")])
def test_a_text_nested_deeply_is_hidden_not_a_crash(open_, close):
    for depth in (90, 300, 900, 5000):
        text = open_ * depth + '"hunter22"' + close * depth
        after = redactor().text(text)
        assert "hunter22" not in after or open_ == "["


PADDING = "and so on, " * 40


@pytest.mark.parametrize("around", ["{}", PADDING + "{} " + PADDING])
@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("a?my_api_key=abc&x=1", "a?my_api_key=[secret]&x=1"),
        ("X-Token=abc;PASSWORD=def", "X-Token=[secret];PASSWORD=[secret]"),
        ("max_tokens=5 opinion=good =x pin =1", "max_tokens=5 opinion=good =x pin =1"),
        ("a1 4111111111111111.", "a1 [card]."),
        ("4111111111111112", "4111111111111112"),
        ("redis://u:p@h/0", "redis://[credential]@h/0"),
        ("Bearer abcdefghij", "Bearer [bearer]"),
        ("bearer of news", "bearer of news"),
        ("ghp_" + "a" * 36, "[api_key]"),
        ('DB_PASSWORD="a b"; PGPASSWORD=c', 'DB_PASSWORD="[secret]"; PGPASSWORD=[secret]'),
        ("token = 'a\\'b' apiKey => \"c\"", "token = '[secret]' apiKey => \"[secret]\""),
        ("password: \"a\" {'pin': 'b'}", "password: \"[secret]\" {'pin': '[secret]'}"),
        (
            "run --token a --api-key=b -pwd 'c d' --x",
            "run --token [secret] --api-key=[secret] -pwd '[secret]' --x",
        ),
        ("-H 'X-Api-Key: a' --token-limit 5", "-H 'X-Api-Key: [secret]' --token-limit 5"),
        (
            "the token: is here, password='' max_tokens: \"5\"",
            "the token: is here, password='' max_tokens: \"5\"",
        ),
    ],
)
def test_each_form_is_found_in_short_texts_and_in_long_ones(text, after, around):
    assert redactor().text(around.format(text)) == around.format(after)


def test_a_value_alone_in_a_line_with_a_secrets_name_is_found():
    text = "db:\n  - password: a1\n    tokens: 5\nAuthorization: Basic YTpi\n"
    after = "db:\n  - password: [secret]\n    tokens: 5\nAuthorization: Basic [secret]\n"
    assert redactor().text(text) == after


def test_no_text_of_names_takes_longer_than_its_length():
    def seconds(text):
        started = time.process_time()
        redactor().text(text)
        return time.process_time() - started

    for piece in (
        'token: "',
        "password = '",
        "--token ",
        "pin",
        "token:",
        "a-",
        "\ntoken: x ",
        "'k: ",
    ):
        assert seconds(piece * (100_000 // len(piece))) < 2


@pytest.mark.requirement("TAP-01")
@pytest.mark.parametrize("mode", ["drop", "mask", "hash", "tokenise"])
def test_a_large_integer_is_a_number_and_bytes_are_what_text_they_are(mode):
    redact = Redactor(forms=mode, key=KEY).value
    card = 1764533333000000017 // 10 * 10  # 19 digits, of which a tenth passes a card's check
    for number in range(card, card + 20):
        assert decoded(redact(encoded({"at": number}))) == {"at": number}
    for data in (b"\xff\x00", b"plain", bytes(range(200, 256)), b"card"):
        assert decoded(redact(encoded([data]))) == [data]
    (found,) = decoded(redact(encoded([b"mail ada@example.com now"])))
    assert b"ada@example.com" not in found
    assert found == redact("mail ada@example.com now").encode()


@pytest.mark.requirement("TAP-01")
def test_bytes_under_a_secrets_key_are_replaced_whole():
    value = encoded({"password": b"\xffhunter22", "pin": 2**60})
    once = Redactor().value(value)
    assert once == {"password": "[secret]", "pin": "[secret]"}
    assert Redactor().value(once) == once


def test_a_token_keeps_equality_inside_a_tenant_and_nothing_else():
    one, other = redactor("tokenise"), redactor("tokenise", key=b"o" * 32)
    token = one.value({"email": "someone"})["email"]
    assert token.startswith("tok:mail:") and len(token) == len("tok:mail:") + 12
    assert token == one.value({"email": "someone"})["email"]
    assert token != one.value({"email": "someone else"})["email"]
    assert token != other.value({"email": "someone"})["email"]
    assert one.value({"email": 25})["email"] == one.value({"email": 25.0})["email"]


def test_keyed_modes_need_a_key_and_rules_name_one_thing():
    with pytest.raises(ValueError, match="key"):
        Redactor([Rule(mode="hash", key="x")])
    for short in (b"", b"k" * 31, "k" * 32):  # a text is no key, and a short one can be guessed
        with pytest.raises(ValueError, match="32 bytes"):
            Redactor([Rule(mode="hash", key="x")], key=short)
    with pytest.raises(ValueError, match="path or a key"):
        Redactor([Rule(mode="mask", key="x", path="/x")])


def test_a_mode_that_is_none_is_refused_and_makes_no_digest_without_a_key():
    with pytest.raises(ValueError, match="tokenize is no mode: drop, mask, hash, tokenise"):
        Redactor(forms="tokenize")
    with pytest.raises(ValueError, match="keep is no mode"):
        Redactor([Rule(mode="keep", key="x")])


def test_two_redactors_of_other_rules_are_told_apart():
    assert redactor("mask").identity.version != redactor("drop").identity.version


@pytest.mark.requirement("TAP-01")
@pytest.mark.parametrize("packaging", ["packed", "store"])
@pytest.mark.row("R8")
def test_what_is_redacted_is_nowhere_on_disk(tmp_path, packaging):
    secret = "hunter2-hunter2"
    header = replace(
        HEADER,
        argv=("agent.py", "--password", secret, f"--api-key={secret}", "mail ada@example.com"),
        labels={"token": secret, "who": "ada@example.com"},
        run_id="run of ada@example.com",
    )
    run = [
        Fact(
            kind="llm_call",
            seam="provider",
            input={"headers": {"Authorization": secret}, "text": "long " * 2000},
            output={"password": secret},
            error=("Boom", "no such person: ada@example.com"),
            attributes={"cookie": secret},
        ),
        RUN[-1],
    ]
    seal = written(tmp_path / "a.tape", run, header=header, packaging=packaging)
    assert seal.leaks.sought == 1 and seal.leaks.found == 0
    tape = read_tape(tmp_path / "a.tape")
    kept = [tape.get(digest) for digest in tape.blobs] + [(tmp_path / "a.tape").read_bytes()]
    assert not any(secret.encode() in data or b"ada@" in data for data in kept)
    assert tape.payload(tape.events[0], "in")["headers"] == {"Authorization": "[secret]"}


@pytest.mark.parametrize("where", ["input", "name"])
@pytest.mark.row("R8")
def test_a_secret_that_stands_elsewhere_too_is_found_before_the_seal(tmp_path, where):
    secret = 'hunter"2-hunter'
    leak = {"input": {"text": f"psst {secret} " * 500}, "name": "x"}
    if where == "name":
        leak = {"name": f"psst {secret}"}
    run = [
        Fact(kind="tool_call", seam="tool", **leak),
        Fact(kind="tool_call", seam="tool", input={"password": secret}),
        RUN[-1],
    ]
    seal = written(tmp_path / "a.tape", run, packaging="store")
    assert seal.leaks.found == 1
    found = examine(tmp_path / "a.tape")
    assert [fault.code for fault in found.faults] == ["leak"] and not found.holds


def test_a_tape_without_content_holds_digests_only(tmp_path):
    written(tmp_path / "a.tape", RUN, content=False, codecs=codecs(output={"volatile": ("/at",)}))
    written(tmp_path / "b.tape", RUN, codecs=codecs(output={"volatile": ("/at",)}))
    bare, full = read_tape(tmp_path / "a.tape"), read_tape(tmp_path / "b.tape")
    assert bare.examination.holds and len(bare.blobs) == 1
    assert bare.seal.exact_digest == full.seal.exact_digest
    assert bare.seal.behavior_digest == full.seal.behavior_digest
    assert b"long long" not in (tmp_path / "a.tape").read_bytes()
