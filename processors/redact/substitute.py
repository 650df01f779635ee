"""What stands in place of a datum: its kind, a keyed digest of it, or nothing of its text at all.

Rules
1. ``tok:<kind>:<key id><digest>`` is HMAC-SHA-256 of ``kind|value`` cut to 12 bytes,
   ``hmac:<kind>:<key id><digest>`` the whole one of the value. Bytes are written as letters a to p.
2. Equal values of a kind give equal tokens however they were written: ``canonical`` of a detector
   takes away spaces, case and the name before a secret.
3. Without the key nothing leads back from a digest, and nothing can be tried out against it.

Source: RFC 2104; the form of tokens is that of the tapes' redaction.
"""

import hmac
import re
from typing import Final

from processors.redact.terms import KEY_ID_CHARACTERS, KINDS, Action, Kind, Terms, letters

DROPPED: Final = "[dropped]"
BY_KEY: Final = "[secret]"
TOKEN_BYTES: Final = 12
_KINDS: Final = "|".join(KINDS)
_DIGEST = re.compile(
    rf"tok:(?:{_KINDS}):[a-p]{{{KEY_ID_CHARACTERS + 2 * TOKEN_BYTES}}}"
    rf"|hmac:(?:{_KINDS}):[a-p]{{{KEY_ID_CHARACTERS + 64}}}"
)
_MASK = re.compile(rf"\[(?:{_KINDS}|dropped)\]\Z")
SUBSTITUTED: Final = re.compile(rf"(\[(?:{_KINDS}|dropped)\]|{_DIGEST.pattern})")


class Substitutes:
    """Replaces data on a project's terms."""

    def __init__(self, terms: Terms) -> None:
        assert terms.key is not None or not terms.keyed, "hash and tokenise need a key"
        self._actions = terms.actions
        self._key = terms.key

    def action(self, kind: Kind) -> Action:
        """What is done with a datum of this kind."""
        return self._actions.get(kind, "mask")

    def of(self, kind: Kind, value: str) -> str:
        """What stands in its place. ``value`` is in its canonical form."""
        action = self.action(kind)
        if action == "drop":
            return DROPPED
        if action == "mask":
            return f"[{kind}]"
        assert self._key is not None
        if action == "tokenise":
            digest = self._digest(f"{kind}|{value}")[:TOKEN_BYTES]
            return f"tok:{kind}:{self._key.key_id}{letters(digest)}"
        return f"hmac:{kind}:{self._key.key_id}{letters(self._digest(value))}"

    def _digest(self, text: str) -> bytes:
        assert self._key is not None
        return hmac.digest(self._key.secret, text.encode("utf-8", "surrogatepass"), "sha256")


def is_substitute(text: str) -> bool:
    """Whether a whole text is what this file puts in place of a datum."""
    return _MASK.match(text) is not None or _DIGEST.fullmatch(text) is not None


def digests(text: str) -> list[tuple[int, int]]:
    """Where digests of ours stand in a text: their kinds' names are no names of secrets."""
    if "tok:" not in text and "hmac:" not in text:
        return []
    return [match.span() for match in _DIGEST.finditer(text)]
