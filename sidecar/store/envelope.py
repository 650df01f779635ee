"""Sealing of operational bytes: AES-256-GCM with a project's data keys, wrapped by a master key.

Rules
1. A sealed text opens only with its project's key and the same associated data (what it is, whose
   it is); moved to another row or project it does not open.
2. The master key lies outside the data folder; only wrapped data keys are stored.
3. Nonces are 96 random bits, so one data key serves at most 2**32 seals (NIST SP 800-38D §8.3).
   After a rotation what is new is sealed with the new key; what was sealed before still opens.
4. What does not open is an error with a name, never an empty value.
"""

from collections.abc import Callable
from typing import Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_FIRST = b"\x01"  # sealed with a project's first key
_NUMBERED = b"\x02"  # two bytes follow: the number of the key
_NUMBER_BYTES = 2
# How often a project's Sealer is asked for until it is looked whether another process has rotated.
_LOOK_EVERY = 256

RandomBytes = Callable[[int], bytes]


class SealBroken(Exception):
    """The sealed bytes were altered, moved, or sealed under another key."""


class Sealer:
    """Seals and opens bytes under a project's data keys. Safe to share between threads.

    ``number`` is that of ``data_key``; ``find`` gives the key of another number, None for one that
    there never was.
    """

    def __init__(
        self,
        data_key: bytes,
        random: RandomBytes,
        *,
        number: int = 0,
        find: Callable[[int], bytes | None] | None = None,
    ) -> None:
        assert len(data_key) == KEY_BYTES
        self._random = random
        self._number = number
        self._find = find
        self._ciphers = {number: AESGCM(data_key)}
        self._head = _head(number)

    def seal(self, plaintext: bytes, aad: bytes) -> bytes:
        """Head, nonce, ciphertext and tag; ``aad`` is bound, not stored."""
        nonce = self._random(_NONCE_BYTES)
        sealed = self._ciphers[self._number].encrypt(nonce, plaintext, _bound(self._head, aad))
        return self._head + nonce + sealed

    def open(self, sealed: bytes, aad: bytes) -> bytes:
        """The plaintext. Raises SealBroken."""
        number = _number_of(sealed)
        head = _head(number)
        nonce, rest = sealed[len(head) :][:_NONCE_BYTES], sealed[len(head) + _NONCE_BYTES :]
        try:
            return self._cipher(number).decrypt(nonce, rest, _bound(head, aad))
        except (InvalidTag, ValueError):
            raise SealBroken("the sealed bytes do not open with this project's key") from None

    def _cipher(self, number: int) -> AESGCM:
        cipher = self._ciphers.get(number)
        if cipher is None:
            key = self._find(number) if self._find is not None else None
            if key is None:
                raise SealBroken("the sealed bytes name a key this project never had")
            cipher = self._ciphers[number] = AESGCM(key)
        return cipher


def _head(number: int) -> bytes:
    return _NUMBERED + number.to_bytes(_NUMBER_BYTES, "big") if number else _FIRST


def _bound(head: bytes, aad: bytes) -> bytes:
    return aad if head == _FIRST else head + aad


def _number_of(sealed: bytes) -> int:
    if sealed[:1] == _FIRST:
        return 0
    number = int.from_bytes(sealed[1 : 1 + _NUMBER_BYTES], "big")
    if sealed[:1] != _NUMBERED or number == 0:
        raise SealBroken("the sealed bytes have an unknown version")
    return number


Sealers = Callable[[str], Sealer]


class DataKeys(Protocol):
    """Where wrapped data keys lie. A project's first has the number 0."""

    def newest_data_key(self, project: str, make: Callable[[], bytes]) -> tuple[int, bytes]:
        """Number and wrapped key of the newest; ``make`` gives the first when there is none."""
        ...

    def numbered_data_key(self, project: str, number: int) -> bytes | None:
        """One wrapped key."""
        ...

    def add_data_key(self, project: str, make: Callable[[int], bytes], now_ns: int) -> int:
        """Store what ``make`` wraps under the next number; that number."""
        ...


class Keyring:
    """The Sealer of each project."""

    def __init__(self, master: Sealer, keys: DataKeys, random: RandomBytes) -> None:
        self._master = master
        self._keys = keys
        self._random = random
        self._sealers: dict[str, tuple[int, Sealer]] = {}
        self._uses: dict[str, int] = {}

    def __call__(self, project: str) -> Sealer:
        """The project's Sealer. Raises SealBroken when another master key wrapped its key."""
        uses = self._uses[project] = self._uses.get(project, -1) + 1
        held = self._sealers.get(project)
        if held is not None and uses % _LOOK_EVERY:
            return held[1]
        number, wrapped = self._keys.newest_data_key(project, lambda: self._wrapped(project, 0))
        if held is None or held[0] != number:
            key = self._unwrapped(project, number, wrapped)
            sealer = Sealer(
                key, self._random, number=number, find=lambda other: self._found(project, other)
            )
            held = self._sealers[project] = (number, sealer)
        return held[1]

    def check(self, project: str) -> None:
        """Open the first key of a project that has one; makes none. Raises SealBroken."""
        self._found(project, 0)

    def rotate(self, project: str, now_ns: int) -> int:
        """Seal with a new key from now on; its number. Raises SealBroken.

        Other processes follow within ``_LOOK_EVERY`` seals.
        """
        self(project)
        number = self._keys.add_data_key(project, lambda n: self._wrapped(project, n), now_ns)
        self._sealers.pop(project, None)
        return number

    def _wrapped(self, project: str, number: int) -> bytes:
        return self._master.seal(self._random(KEY_BYTES), _key_binding(project, number))

    def _unwrapped(self, project: str, number: int, wrapped: bytes) -> bytes:
        return self._master.open(wrapped, _key_binding(project, number))

    def _found(self, project: str, number: int) -> bytes | None:
        wrapped = self._keys.numbered_data_key(project, number)
        return None if wrapped is None else self._unwrapped(project, number, wrapped)


def _key_binding(project: str, number: int) -> bytes:
    if number == 0:
        return b"data-key/1\n" + project.encode()
    return f"data-key/2\n{number}\n{project}".encode()
