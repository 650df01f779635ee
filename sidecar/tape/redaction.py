"""Redaction in a light process: by place, by key and by form, before anything is hashed.

**Rules**
1. Redacting twice changes nothing; the same value under the same key gives the same result.
2. Leaves are edited: the shape of a value and its keys stay, below a secret's key too, so that a
   codec's places mean the same before and after. A text that is JSON is edited by its leaves, never
   by pattern over the whole.
3. A token keeps equality inside one tenant and nothing else: ``tok:<class>:<12 hex>`` of
   HMAC-SHA256 under the tenant's key over class and canonical value. ``hash`` keeps all 64.
4. An integer that JSON cannot hold is a number, whatever its digits look like; bytes that are a
   text are redacted as one.
5. What was replaced by place or key is told to who asks (``seen``), for the leak scan.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal, Protocol, get_args

import msgspec
from msgspec import Struct

from sidecar.canonical import NotCanonical, canonical
from sidecar.tape.model import RedactorId
from sidecar.tape.paths import REMOVED, Paths, States
from sidecar.tape.value import DEPTH_MAX, decoded, encoded, marked

Mode = Literal["drop", "mask", "hash", "tokenise"]
KEY_BYTES_MIN: Final = 32
UNREADABLE: Final = "[unreadable]"
DROPPED: Final = "[dropped]"
_MODES: Final = get_args(Mode)
_CLASS: Final = re.compile(r"[a-z][a-z_]{0,31}")
_OURS: Final = re.compile(
    r"tok:[a-z_]{1,32}:[0-9a-f]{12}|hmac:[a-z_]{1,32}:[0-9a-f]{64}|\[[a-z_]{1,32}\]"
)
_PASSES_MAX: Final = 8
_LEAK_CHARACTERS_MIN: Final = 8
_STARTS: Final = ("{", "[", '"')
SECRET_KEYS: Final = (
    *("authorization", "proxy_authorization", "api_key", "apikey", "x_api_key", "password"),
    *("passwd", "pwd", "passphrase", "secret", "client_secret", "token", "access_token"),
    *("refresh_token", "id_token", "session_token", "cookie", "set_cookie", "private_key"),
    *("access_key", "secret_key", "credential", "credentials", "otp", "cvv", "cvc", "pin"),
)
_SECRETS: Final = frozenset(SECRET_KEYS)
# Class, pattern, which group of it is the datum, and words without one of which (in lower case) a
# text is not looked at: a pattern costs ten times what looking for a word does. Each starts at a
# word's start and is bounded, so that no text takes longer than its length.
_FORMS: Final[tuple[tuple[str, re.Pattern[str], int, tuple[str, ...]], ...]] = (
    (
        "private_key",
        re.compile(
            r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?"
            r"(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)",
            re.DOTALL,
        ),
        0,
        ("private key",),
    ),
    ("jwt", re.compile(r"(?<![\w-])eyJ[\w-]{5,4096}\.[\w-]{5,8192}\.[\w-]{0,2048}"), 0, ("eyj",)),
    (
        "api_key",
        re.compile(
            r"(?<![\w-])(?:(?:sk|pk|rk)[-_][\w-]{16,256}|AKIA[0-9A-Z]{16}|gh[pousr]_\w{30,255}"
            r"|xox[abprs]-[\w-]{10,256})(?![\w-])"
        ),
        0,
        (
            "sk-",
            "sk_",
            "pk-",
            "pk_",
            "rk-",
            "rk_",
            "akia",
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "xox",
        ),
    ),
    (
        "bearer",
        re.compile(r"(?i)(?<!\w)bearer[ \t]{1,4}(?!tok:|hmac:)([\w.~+/=-]{8,8192})"),
        1,
        ("bearer",),
    ),
    (
        "email",
        re.compile(r"(?<![\w.%+-])[\w.%+-]{1,64}@[A-Za-z0-9-]{1,63}(?:\.[A-Za-z0-9-]{1,63}){1,8}"),
        0,
        ("@",),
    ),
    (
        "secret",  # in a text that begins as JSON and is cut off
        re.compile(
            '(?i)"(?:' + "|".join(SECRET_KEYS).replace("_", "[-_]") + ')"[ \t\n]{0,8}:[ \t\n]{0,8}"'
            r'(?!\[[a-z_]{1,32}\]|tok:|hmac:)((?:[^"\\]|\\.){1,8192})'
        ),
        1,
        ('"',),
    ),
    (
        "credential",  # scheme://user:password@host
        re.compile(r"(?<=://)(?!\[|tok:|hmac:)([^\s/@?#]{1,512})(?=@)"),
        1,
        ("://",),
    ),
    ("card", re.compile(r"(?<![\w-])[0-9](?:[ -]?[0-9]){12,18}(?![\w-])"), 0, ()),
)

# One look at a short text; a long one holds one of these anyway.
_SHORT: Final = 256
_MAYBE: Final = re.compile(
    r"[@=\"]|eyJ|-----|://|[bB][eE][aA][rR]|[spr]k[-_]|AKIA|gh[pousr]_|xox|"
    r"[0-9](?:[ -]?[0-9]){12}"
)
# Where a name may be followed by its value, in a text that is no JSON: which of these names are a
# secret's is asked of the name, and only then is its value looked at.
_HIDDEN: Final = r"\[[a-z_]{1,32}\]|tok:|hmac:"
_TAILS: Final = re.compile(  # of a text in lower case: how such a name ends, and what follows it
    r"(?:pass(?:word|wd|phrase)|pwd|secret|token|cookie|key|credentials?|otp|cvv|cvc|pin"
    r"|authorization)(?:[\"']?[ \t]{0,8}[:=]|[ \t])"
)
_HEADS: Final = re.compile(
    # name = "value", name: 'value', "name": "value", "name" => "value"
    r"(?<![\w-])(?P<named>[A-Za-z0-9_-]{2,64})[\"']?[ \t]{0,8}(?:=>|:?=|:)[ \t]{0,8}(?=[\"'])"
    # --name value, --name "value"
    r"|(?<![\w-])(?P<option>--?[A-Za-z][\w-]{1,63})[ \t]{1,4}(?![-|])"
    # a line of its own: name: value
    r"|^[ \t]{0,64}(?:- )?(?P<line>[A-Za-z0-9_-]{2,64}):[ \t]{1,8}"
    r"(?:(?:basic|digest|token)[ \t]{1,4})?"
    r"(?=[^\s\"'\[{|>#]\S{0,8191}[ \t]{0,64}$)"
    # a header in quotes: -H "name: value"
    r"|(?<=[\"'])(?P<quoted>[A-Za-z0-9_-]{2,64}):[ \t]{1,8}(?:(?:basic|digest|token)[ \t]{1,4})?"
    r"(?=[^\s\"'\[{|>#][^\s\"']{0,8191}[\"'])",
    re.MULTILINE | re.IGNORECASE,
)
_VALUES: Final = re.compile(
    rf"""(?!{_HIDDEN})(?:"(?!{_HIDDEN})((?:[^"\\\n]|\\.){{1,8192}})"""
    rf"""|'(?!{_HIDDEN})((?:[^'\\\n]|\\.){{1,8192}})|([^\s"'][^\s&;"'<>]{{0,8191}}))"""
)
_LINE: Final = re.compile(rf"(?!{_HIDDEN})()()(\S{{1,8192}})")
_ENDS: Final = ("password", "passwd", "secret", "token", "apikey")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_THIRTEEN: Final = re.compile(r"[0-9](?:[ -]?[0-9]){12}")
_WORD_BEFORE: Final = re.compile(r"[A-Za-z0-9_-]{2,64}\Z")
_ASSIGNED: Final = re.compile(r"(?!\[[a-z_]{1,32}\]|tok:|hmac:)[^\s&;,\"'<>]{1,8192}")


class Rule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What becomes of values at a ``path``, or under a ``key`` (``-`` and case do not matter)."""

    mode: Mode
    class_: str = msgspec.field(default="secret", name="class")
    path: str | None = None
    key: str | None = None


class Redacts(Protocol):
    """What a tape's writer asks of a redactor."""

    @property
    def identity(self) -> RedactorId:
        """Id, version and key id; two that differ make tapes incomparable."""
        ...

    def value(self, value: Any, seen: set[str] | None = None) -> Any:
        """An encoded value redacted."""
        ...


class Redactor:
    """A redactor of rules, and of the forms this program knows.

    ``forms`` is the mode for what is found by form; ``key`` (32 bytes) is needed where any mode is
    ``hash`` or ``tokenise``.
    """

    def __init__(
        self,
        rules: Sequence[Rule] = (),
        *,
        forms: Mode = "mask",
        key: bytes | None = None,
        key_id: str | None = None,
    ) -> None:
        modes = (forms, *(rule.mode for rule in rules))
        for mode in modes:
            if mode not in _MODES:
                raise ValueError(f"{mode} is no mode: {', '.join(_MODES)}")
        if {"hash", "tokenise"} & {*modes} and not isinstance(key, bytes | bytearray):
            raise ValueError("hash and tokenise need a key of 32 bytes")
        if key is not None and len(key) < KEY_BYTES_MIN:
            raise ValueError(f"a key has 32 bytes, not {len(key)}: a short one can be guessed")
        for rule in rules:
            if (rule.path is None) == (rule.key is None):
                raise ValueError("a rule names a path or a key")
            if not _CLASS.fullmatch(rule.class_):
                raise ValueError(f"{rule.class_}: a class is a lower-case word")
        self._key, self._forms = key or b"", forms
        self._by_path = [rule for rule in rules if rule.path is not None]
        self._paths = Paths(str(rule.path) for rule in self._by_path)
        by_key = {name: Rule(mode=forms, key=name) for name in SECRET_KEYS}
        by_key |= {_normal(str(rule.key)): rule for rule in rules if rule.key is not None}
        self._by_key = by_key
        named = (_ASSIGNED, _HEADS, _VALUES, _LINE)
        known = [*(one.pattern for one in (*named, *(form[1] for form in _FORMS))), *_ENDS]
        told = canonical([forms, [msgspec.to_builtins(rule) for rule in rules], SECRET_KEYS, known])
        version = f"2:{hashlib.sha256(told).hexdigest()[:12]}"
        self._identity = RedactorId(id="agenttwin-light", version=version, key_id=key_id)

    @property
    def identity(self) -> RedactorId:
        """Its id, its version with a digest of rules and forms, and its key's id."""
        return self._identity

    def value(self, value: Any, seen: set[str] | None = None) -> Any:
        """An encoded value redacted."""
        found = self._value(value, self._paths.start, 0, seen)
        return None if found is REMOVED else found

    def text(self, text: str, seen: set[str] | None = None) -> str:
        """A text redacted, by its leaves where it is JSON."""
        return self._text(text, 0, seen)

    def _value(self, value: Any, states: States, depth: int, seen: set[str] | None) -> Any:
        if states:
            here = self._paths.ends(states)
            if here:
                rule = next(rule for rule in self._by_path if rule.path == here[0])
                return self._replaced(rule, value, seen)
        if depth > DEPTH_MAX:
            return UNREADABLE
        if isinstance(value, str):
            return self._text(value, depth, seen)
        if isinstance(value, dict):
            mark = marked(value)
            if mark is not None:
                return self._bytes(value, depth, seen) if mark == "$b64" else value
            return self._object(
                value, lambda key, item: self._member(key, item, states, depth, seen)
            )
        if isinstance(value, list):
            return [
                self._value(item, self._paths.step(states, place), depth + 1, seen)
                for place, item in enumerate(value)
            ]
        return value

    def _object(self, value: dict[str, Any], member: Callable[[str, Any], Any]) -> dict[str, Any]:
        names = {key: self._forms_in(key) for key in value}
        ordered = sorted(value) if any(key != name for key, name in names.items()) else value
        found: dict[str, Any] = {}
        for key in ordered:
            name, number = names[key], 2
            while name in found or (name != key and name in value):
                name, number = f"{names[key]}#{number}", number + 1
            found[name] = member(key, value[key])
        return found

    def _member(
        self, key: str, item: Any, states: States, depth: int, seen: set[str] | None
    ) -> Any:
        below = self._paths.step(states, key)
        rule = self._by_key.get(_normal(key))
        if rule is not None and not self._paths.ends(below):
            return self._replaced(rule, item, seen)
        return self._value(item, below, depth + 1, seen)

    def _replaced(self, rule: Rule, value: Any, seen: set[str] | None) -> Any:
        if value is None or value == "" or isinstance(value, bool):
            return value
        if isinstance(value, dict) and marked(value) is None:
            return self._object(value, lambda _, item: self._replaced(rule, item, seen))
        if isinstance(value, list):
            return [self._replaced(rule, item, seen) for item in value]
        if isinstance(value, str) and (value == DROPPED or _OURS.fullmatch(value)):
            return value
        if seen is not None and isinstance(value, str) and len(value) >= _LEAK_CHARACTERS_MIN:
            seen.add(value)
        return self._instead(rule.mode, rule.class_, value)

    def _instead(self, mode: Mode, class_: str, value: Any) -> str:
        if mode == "drop":
            return DROPPED
        if mode == "mask":
            return f"[{class_}]"
        told = (
            class_.encode() + b"|" + (value.encode() if isinstance(value, str) else _spelt(value))
        )
        found = hmac.new(self._key, told, hashlib.sha256).hexdigest()
        return f"hmac:{class_}:{found}" if mode == "hash" else f"tok:{class_}:{found[:12]}"

    def _bytes(self, value: dict[str, Any], depth: int, seen: set[str] | None) -> dict[str, Any]:
        """Bytes that are a text are redacted as that text."""
        data = decoded(value)
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return value
        after = self._text(text, depth, seen)
        return value if after == text else dict(encoded(after.encode()))

    def _text(self, text: str, depth: int, seen: set[str] | None) -> str:
        if text.lstrip()[:1] in _STARTS:
            repeated: list[bool] = []
            try:
                parsed = json.loads(text, object_pairs_hook=lambda pairs: _pairs(pairs, repeated))
            except (ValueError, RecursionError):
                return self._forms_in(text)
            try:
                after = self._value(parsed, frozenset(), depth + 1, seen)
            except RecursionError:
                return UNREADABLE
            if after == parsed and not repeated:
                return text
            return json.dumps(after, ensure_ascii=False, separators=(",", ":"))
        return self._forms_in(text)

    def _forms_in(self, text: str) -> str:
        if len(text) <= _SHORT and _MAYBE.search(text) is None and not _may_name(text):
            return text
        for _ in range(_PASSES_MAX):
            after = self._assignments(text)
            if _may_name(after):
                after = self._named(after)
            folded = after.lower()
            for class_, pattern, group, needles in _FORMS:
                if not any(needle in folded for needle in needles or _digits(after)):
                    continue
                after = pattern.sub(partial(self._form, class_=class_, group=group), after)
            if after == text:
                return text
            if self._forms == "drop":
                return DROPPED
            text = after
        return UNREADABLE

    def _assignments(self, text: str) -> str:
        """Values of ``key=value`` replaced: in a query, a form, a connection string."""
        parts: list[str] = []
        place, equals = 0, text.find("=")
        while equals >= 0:
            word = None
            if text[equals - 1 : equals].isalnum():
                word = _WORD_BEFORE.search(text, max(place, equals - 64), equals)
            value = _ASSIGNED.match(text, equals + 1) if word and names_secret(word[0]) else None
            if value is not None:
                parts += (
                    text[place : value.start()],
                    self._instead(self._forms, "secret", value[0]),
                )
                place = value.end()
            equals = text.find("=", max(place, equals + 1))
        return "".join((*parts, text[place:])) if parts else text

    def _named(self, text: str) -> str:
        """Values replaced that stand in quotes, behind an option, or alone in a line with a name
        that is a secret's."""
        parts: list[str] = []
        place, head = 0, _HEADS.search(text)
        while head is not None:
            start = head.end()
            if names_secret(head[head.lastgroup or 0]):
                values = _LINE if head.lastgroup == "line" else _VALUES
                value = values.match(text, head.end())
                if value is not None:
                    group = value.lastindex or 0
                    instead = self._instead(self._forms, "secret", value[group])
                    parts += (text[place : value.start(group)], instead)
                    place = start = value.end()
            head = _HEADS.search(text, start)
        return "".join((*parts, text[place:])) if parts else text

    def _form(self, found: re.Match[str], class_: str, group: int) -> str:
        datum = found[group]
        if class_ == "card" and not _is_card(datum):
            return found[0]
        instead = self._instead(self._forms, class_, datum)
        return found[0][: found.start(group) - found.start()] + instead


def _pairs(pairs: list[tuple[str, Any]], repeated: list[bool]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        repeated.append(True)  # the text shows more than the value does
    return found


def _may_name(text: str) -> bool:
    """Whether a secret's name may stand in a text, with a value behind it."""
    if not (":" in text or "-" in text or "=" in text):
        return False
    return _TAILS.search(text.lower()) is not None


def _digits(text: str) -> tuple[str, ...]:
    """What a card's form does not do without: thirteen digits; beginning with one, it is fast."""
    found = _THIRTEEN.search(text)
    return () if found is None else (found[0],)


def names_secret(word: str) -> bool:
    """Whether a word ends in a secret's key: ``my_api_key``, ``--X-Token``, ``dbPassword``."""
    if _normal(word).endswith(_ENDS):
        return True
    parts = _normal(_CAMEL.sub("_", word)).split("_")
    return any("_".join(parts[start:]) in _SECRETS for start in range(len(parts)))


def _normal(key: str) -> str:
    return key.lower().replace("-", "_")


def _spelt(value: Any) -> bytes:
    try:
        return canonical(value)
    except NotCanonical:
        return repr(value).encode(errors="replace")


def _is_card(text: str) -> bool:
    digits = [int(one) for one in text if one.isdigit()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0
