"""Terms: on what terms a project keeps content, kind by kind and key by key.

Rules
1. ``actions`` says what stands in place of a datum of each kind; one that is not named is masked.
2. ``mask`` puts its kind there, ``hash`` and ``tokenise`` a keyed digest that is equal for equal
   values of one project under one key, ``drop`` takes the whole text that holds it.
3. ``deny`` wins over ``allow``, and both over what the program knows of a key.
4. A digest begins with its key's id: values told apart before and after a rotation say why.
"""

from collections.abc import Mapping
from typing import Final, Literal, get_args

from msgspec import Struct

from processors.model.names import Capture

Action = Literal["drop", "mask", "hash", "tokenise"]
Kind = Literal[
    "private_key",
    "jwt",
    "aws_key",
    "api_key",
    "bearer",
    "credential",
    "secret",
    "email",
    "iban",
    "card",
    "ssn",
    "phone",
]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
ACTIONS: Final[tuple[Action, ...]] = get_args(Action)
KEYED: Final[frozenset[Action]] = frozenset({"hash", "tokenise"})
KEY_ID_CHARACTERS: Final = 8
_LETTERS: Final = bytes.maketrans(b"0123456789abcdef", b"abcdefghijklmnop")


class RedactionKey(Struct, frozen=True, kw_only=True):
    """A project's key for digests: ``key_id`` is eight letters, ``secret`` 32 random bytes."""

    key_id: str
    secret: bytes


class Terms(Struct, frozen=True, kw_only=True):
    """What of a project's content is kept, and how a datum in it is replaced.

    ``allow`` and ``deny`` hold attribute keys, exact or ending in ``*``. ``key`` is needed where an
    action is ``hash`` or ``tokenise``.
    """

    capture: Capture = "off"
    actions: Mapping[Kind, Action] = {}
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    key: RedactionKey | None = None

    @property
    def keyed(self) -> bool:
        """Whether digests are made, so that a key is needed."""
        return not KEYED.isdisjoint(self.actions.values())


def letters(digest: bytes) -> str:
    """Bytes as letters a to p, two a byte: no detector takes them for a number or a key."""
    return digest.hex().encode().translate(_LETTERS).decode()
