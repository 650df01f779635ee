"""The TypeScript twin of the SDK gives what the SDK gives: its own tests, and the two compared."""

import json
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import make_forms
import make_vectors
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from node_rig import TYPESCRIPT, node
from tier import examples

from sidecar.canonical import NotCanonical, canonical
from sidecar.sdk.idempotency import idempotency_key
from sidecar.sdk.redact import Redactor, redact
from sidecar.tape.value import encoded

Ask = Callable[[str, Any], Any]
KEYED = Redactor(forms="tokenise", key=b"k" * 32)
PIECES = st.sampled_from(
    [
        *(
            "password",
            "api_key",
            "--token",
            "dbPassword",
            "Cookie",
            "pin",
            "PİN",
            "name",
            "authorızation",
        ),
        *(
            ": ",
            "=",
            " = ",
            ' = "',
            "'",
            '"',
            "\n",
            " ",
            "\t",
            "{",
            "}",
            "[",
            "]",
            ",",
            "\\",
            "\u00a0",
        ),
        *(
            "a@b.example",
            "4111 1111 1111 1111",
            "sk-abcdefghijklmnopqrstu",
            "Bearer abcdefghij",
            "://",
        ),
        *(
            "eyJhbGci.eyJzdWIi.c2ln",
            "ann:pw@",
            "[secret]",
            "tok:secret:0123456789ab",
            "x" * 120,
            "é😀",
            "ſK",
        ),
        *(
            "-----BEGIN PRIVATE KEY-----",
            "-----END PRIVATE KEY-----",
            '{"token": "x"}',
            "\x1f",
            "\u2028",
        ),
    ]
)
TEXTS = st.lists(PIECES | st.text(max_size=3), max_size=12).map("".join)
KEYS = st.sampled_from(
    ["password", "user", "Api-Key", "$b64", "$int", "a@b.example", "1", "__proto__"]
)
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | TEXTS, inner, max_size=3),
    max_leaves=8,
)
EXAMPLES = settings(
    max_examples=examples(120),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(scope="module")
def twin() -> Iterator[Ask]:
    """Asks the twin, in one process of node."""
    command = [node(), str(TYPESCRIPT / "twin.mjs")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
    ) as process:
        assert process.stdin is not None and process.stdout is not None

        def ask(what: str, value: Any) -> Any:
            process.stdin.write(json.dumps({"ask": what, "value": value}) + "\n")
            process.stdin.flush()
            return json.loads(process.stdout.readline())

        yield ask
        process.stdin.close()


@pytest.mark.requirement("SDK-01")
def test_the_twins_own_tests_pass() -> None:
    command = [node(), "--test", *map(str, sorted(TYPESCRIPT.glob("*.test.mjs")))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout[-8000:]


def test_what_both_tests_read_is_what_the_sdk_gives() -> None:
    assert make_vectors.PLACE.read_text() == make_vectors.text(), "run make_vectors.py"


def test_the_twin_knows_the_redactors_own_patterns() -> None:
    assert make_forms.PLACE.read_text() == make_forms.forms(), "run make_forms.py"


@pytest.mark.requirement("SDK-01")
@EXAMPLES
@given(value=VALUES | TEXTS)
def test_both_redact_alike(twin: Ask, value: Any) -> None:
    assert twin("redact", value) == _told(redact(value))
    assert twin("tokenise", value) == _told(redact(value, KEYED))


@pytest.mark.requirement("SDK-01")
@EXAMPLES
@given(value=VALUES)
def test_both_have_one_canonical_form_and_one_key(twin: Ask, value: Any) -> None:
    expected = _told(value)
    assert twin("canonical", value) == expected
    if "is" in expected:
        assert twin("key", value) == {"is": idempotency_key("run", "tool", value)}


def _told(value: Any) -> dict[str, Any]:
    """A value in canonical form, as the twin tells it."""
    try:
        return {"is": canonical(encoded(value)).decode()}
    except NotCanonical:
        return {"refused": True}
