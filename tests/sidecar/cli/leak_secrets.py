"""Made-up secrets of twelve kinds, and every form in which one may still be lying somewhere."""

import base64
import json
import random
import string
from urllib.parse import quote, quote_plus

import re2
from msgspec import Struct

_ALNUM = string.ascii_letters + string.digits


class Secret(Struct, frozen=True):
    """``text`` is what is planted; ``core`` the part of it that must be nowhere afterwards."""

    kind: str
    text: str
    core: str


def secrets(each=4, seed=7):
    """``each`` secrets of every kind; the same ones for one seed."""
    dice = random.Random(seed)
    made = []
    for kind, make in _MAKERS.items():
        for _ in range(each):
            made.append(_secret(kind, make(dice)))
    dice.shuffle(made)
    return made


def _secret(kind, made):
    text, core = made if isinstance(made, tuple) else (made, made)
    return Secret(kind, text, core)


def _some(dice, count, letters=_ALNUM):
    return "".join(dice.choice(letters) for _ in range(count))


def _card(dice):
    body = "4" + _some(dice, 14, string.digits)
    return body + _luhn_digit(body)


def _luhn_digit(body):
    total = 0
    for place, digit in enumerate(reversed(body)):
        value = int(digit) * (2 - place % 2)
        total += value - 9 if value > 9 else value
    return str(-total % 10)


def _iban(dice):
    body = _some(dice, 18, string.digits)
    check = 98 - int(body + "131400") % 97  # DE = 13 14
    return f"DE{check:02d}{body}"


def _jwt(dice):
    head = base64.urlsafe_b64encode(b'{"alg":"HS256"}').decode().rstrip("=")
    body = base64.urlsafe_b64encode(json.dumps({"sub": _some(dice, 9)}).encode()).decode()
    return f"{head}.{body.rstrip('=')}.{_some(dice, 24)}"


def _named(dice):
    value = _some(dice, 11) + "7"
    return f"password={value}", value


def _address(dice):
    value = _some(dice, 12)
    return f"postgres://app:{value}@db.internal:5432/shop", value


def _pem(dice):
    value = _some(dice, 60)
    return f"-----BEGIN PRIVATE KEY-----\n{value}\n-----END PRIVATE KEY-----", value


def _bearer(dice):
    value = _some(dice, 20) + "9"
    return f"Bearer {value}", value


_MAKERS = {
    "email": lambda d: f"{_some(d, 9, string.ascii_lowercase)}@{_some(d, 6, 'bcdfgh')}.example",
    "card": _card,
    "iban": _iban,
    "phone": lambda d: f"+49 170 {_some(d, 7, string.digits)}",
    "ssn": lambda d: f"{d.randint(100, 665)}-{d.randint(10, 99)}-{d.randint(1000, 9999)}",
    "api_key": lambda d: f"sk-proj-{_some(d, 24)}",
    "aws_key": lambda d: f"AKIA{_some(d, 16, string.ascii_uppercase + string.digits)}",
    "jwt": _jwt,
    "bearer": _bearer,
    "secret": _named,
    "credential": _address,
    "private_key": _pem,
}


def forms(core):
    """A secret's bytes: plain, JSON-escaped, percent-encoded, base64 at each offset, UTF-16."""
    texts = {core, json.dumps(core)[1:-1], quote(core), quote(core, safe=""), quote_plus(core)}
    texts.add("".join(f"\\u{ord(char):04x}" for char in core))
    found = {text.encode() for text in texts}
    found |= {core.encode("utf-16-le"), core.encode("utf-16-be")}
    for raw in (core.encode(), core.encode("utf-16-le")):
        for offset in range(3):
            packed = base64.b64encode(b"\0" * offset + raw)
            middle = packed[4 if offset else 0 : (offset + len(raw)) // 3 * 4]
            found |= {middle, middle.replace(b"+", b"-").replace(b"/", b"_")}
    return found


class Search:
    """Finds any form of any of some secrets in bytes, in one pass."""

    def __init__(self, planted):
        self._of = {form: secret for secret in planted for form in forms(secret.core)}
        alternatives = b"|".join(re2.escape(form) for form in self._of)
        options = re2.Options()
        options.encoding = re2.Options.Encoding.LATIN1
        options.max_mem = 1 << 28
        self._pattern = re2.compile(alternatives, options)

    def found(self, data):
        """What is there: (secret, form, surroundings) of up to five places."""
        places = []
        for match in self._pattern.finditer(data):
            around = data[max(0, match.start() - 60) : match.end() + 20]
            places.append((self._of[match[0]], match[0], around))
            if len(places) == 5:
                break
        return places
