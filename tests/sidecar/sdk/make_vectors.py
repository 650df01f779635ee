"""Write vectors.json: what the SDK gives for given inputs, read by its tests in both languages."""

import json
import sys
from pathlib import Path
from typing import Any

from sidecar.canonical import canonical
from sidecar.sdk.claims import claim
from sidecar.sdk.idempotency import Keys, idempotency_key
from sidecar.sdk.redact import Redactor, Rule, redact, redact_attributes
from sidecar.tape.value import encoded

PLACE = Path(__file__).with_name("vectors.json")
CARD = "4111 1111 1111 1111"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"

VALUES: list[Any] = [
    *(None, True, 0, -7, 25.0, 0.1, 1e-7, 5e-324, 1.5e20, 1e21, 1e300, 2**53 - 1),
    *("", "plain", 'tab\tline\nquote" back\\ del\x7f é 漢 😀 \u2028', [], {}, [[], {}, None]),
    {"b": 1, "a": [1, {"z": None, "y": False}], "é": 2, "😀": 3, "\ufb33": 4, "10": 5, "9": 6},
    *({"$b64": "AA=="}, {"$int": "12"}, {"$obj": {}}, {"$b64": 1, "more": 2}),
    {"__proto__": 1, "constructor": {"toString": "x"}},
]
TEXTS: list[Any] = [
    *(
        "nothing here",
        "write to ann.b@mail.example.org today",
        f"card {CARD}.",
        "card 4111111111111112",
    ),
    *(f"Bearer {JWT}", "sk-abcdefghijklmnopqrstuvwxyz012345", "AKIAABCDEFGHIJKLMNOP"),
    *("ghp_" + "a1" * 18, "xoxb-1234567890-abcdef", "bearer abcdefgh12345678"),
    "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nxyz\n-----END RSA PRIVATE KEY----- after",
    *("-----BEGIN PRIVATE KEY-----\ncut off", "postgres://ann:s3cret@db:5432/x?sslmode=off"),
    *(
        "https://x.example/?api_key=abcdef&page=2",
        "password=hunter22; user=ann",
        "PGPASSWORD=abc psql",
    ),
    *(
        '{"password": "hunter22", "n": 1.0, "big": 12345678901234567890, "e": 1e5}',
        '["a@b.example"]',
    ),
    *(
        '{"a": 1, "a": 2, "token": "x"}',
        '{"token": "cut of',
        '"a@b.example"',
        '{"$int": "4111111111111111"}',
    ),
    *("curl -H 'X-Api-Key: abcdef' --token s3cret-value http://x", "api_key: abcdef\nname: ann"),
    *(
        'secret = "many words here"',
        "dbPassword: 'hunter22'",
        "the token is there",
        "pin:",
        "PİN: 1234",
    ),
    *(
        "naïve@example.org",
        "\u2028password: hunter22\u2028",
        "token=[secret]",
        "token=tok:secret:0123456789ab",
    ),
    *("x" * 300 + " a@b.example " + "y" * 300, '\u00a0{"token": "x"}', "12345678901234567"),
    {
        "user": {
            "e-mail": "a@b.example",
            "Password": {"old": "abcdefgh", "new": ["abc", None, True, 7]},
        }
    },
    {"a@b.example": 1, "c@d.example": 2, "[email]": 3},
    {
        "headers": {"Authorization": "Basic YW5uOnNlY3JldA=="},
        "text": '{"inner": "{\\"pin\\": 1234}"}',
    },
    [1.5, True, None, {"cvv": 123, "otp": ""}],
]
ATTRIBUTES: list[dict[str, Any]] = [
    {
        "http.request.header.authorization": "Basic abc",
        "gen_ai.usage.input_tokens": 3,
        "user.password": ["a"],
    },
    {
        "gen_ai.input.messages": '[{"role":"user","content":"I am ann@mail.example.org"}]',
        "token": 12,
    },
]
RULES: list[dict[str, Any]] = [
    {"mode": "tokenise", "class": "person", "path": "/user/*"},
    {"mode": "hash", "key": "E-Mail"},
    {"mode": "drop", "class": "note", "path": "/**/note"},
]
RULED: list[Any] = [
    {"user": {"name": "Ann", "age": 41, "e_mail": "a@b.example", "tags": ["x", {"deep": "y"}]}},
    {"lines": [{"note": "keep out", "sum": 1.25}, {"note": {"a": "b"}}], "e-mail": "é@b.example"},
    *(
        "a@b.example",
        {"user": {"id": 2**60, "score": 1.5, "none": None}},
        [{"note": "x"}, "no note"],
    ),
]
CLAIMS: list[dict[str, Any]] = [
    {"subject": "refund", "status": "success"},
    {
        "subject": "refund",
        "status": "failure",
        "action": "create",
        "objects": ["order:1", "order:2"],
    },
    {"subject": "x", "status": "unknown", "amount": "-12.50", "currency": "EUR", "confidence": 0.5},
    {"subject": "x", "status": "success", "amount": 12, "text": "done"},
    *({"subject": "", "status": "success"}, {"subject": "x", "status": "maybe"}),
    {"subject": "x", "status": "success", "amount": "1e3"},
    {"subject": "x", "status": "success", "amount": 1.5},
    {"subject": "x", "status": "success", "currency": "EUR"},
    {"subject": "x", "status": "success", "amount": "1", "currency": "eur"},
    {"subject": "x", "status": "success", "confidence": 1.1},
    {"subject": "x", "status": "success", "objects": "order-17"},
]
ACTIONS: list[Any] = [
    ("ticket-7", "issue_refund", {"order_id": "A-1", "amount": 25.0}),
    *(("ticket-7", "issue_refund", {"amount": 25, "order_id": "A-1"}), ("r", "t", None)),
    ("r", "t", [2**60, "é😀", {"a": {"b": [1e21, 0.1]}}]),
]


def vectors() -> dict[str, Any]:
    """Inputs and what comes of them, by what is done."""
    ruled = Redactor([Rule(**_named(rule)) for rule in RULES], forms="tokenise", key=b"k" * 32)
    keys = Keys("run")
    series = [("t", 1), ("t", 1), ("u", 1), ("t", 2), ("t", 1)]
    return {
        "canonical": [[one, canonical(encoded(one)).decode()] for one in VALUES],
        "redact": [[one, redact(one)] for one in TEXTS],
        "attributes": [[one, redact_attributes(one)] for one in ATTRIBUTES],
        "rules": {
            "rules": RULES,
            "forms": "tokenise",
            "key": "k" * 32,
            "version": ruled.identity.version,
            "cases": [[one, redact(one, ruled)] for one in RULED],
        },
        "claims": [[one, _claimed(one)] for one in CLAIMS],
        "keys": [[*action, idempotency_key(*action)] for action in ACTIONS],
        "series": [[*one, keys.next(*one)] for one in series],
    }


def _named(rule: dict[str, Any]) -> dict[str, Any]:
    return {"class_" if key == "class" else key: value for key, value in rule.items()}


def _claimed(said: dict[str, Any]) -> Any:
    rest = {key: value for key, value in said.items() if key not in ("subject", "status")}
    try:
        return claim(said["subject"], said["status"], **rest)
    except ValueError:
        return None  # refused


def text() -> str:
    """The file's text."""
    parts = []
    for name, rows in vectors().items():
        inner = rows["cases"] if isinstance(rows, dict) else rows
        lines = ",\n".join(f"   {json.dumps(row)}" for row in inner)
        if isinstance(rows, dict):
            head = ", ".join(f'"{key}": {json.dumps(rows[key])}' for key in rows if key != "cases")
            parts.append(f' "{name}": {{{head}, "cases": [\n{lines}\n ]}}')
        else:
            parts.append(f' "{name}": [\n{lines}\n ]')
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    PLACE.write_text(text())
    sys.stdout.write(f"{PLACE.name}\n")
