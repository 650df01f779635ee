"""Sealing of operational bytes: AES-256-GCM with one data key per project, wrapped by a master key.

Rules
1. A sealed text opens only with its project's key and the same associated data (what it is, whose
   it is);
   moved to another row or project it does not open.
2. The master key lives outside the data folder; only wrapped data keys are stored.
3. Nonces are 96 random bits, so one data key serves at most 2**32 seals (NIST SP 800-38D §8.3).
4. What does not open is an error with a name, never an empty value.
"""

from collections.abc import Callable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES = 32
_NONCE_BYTES = 12
_VERSION = b"\x01"

RandomBytes = Callable[[int], bytes]


class SealBroken(Exception):
    """The sealed bytes were altered, moved, or sealed under another key."""


class Sealer:
    """Seals and opens bytes under one data key. Safe to share between threads."""

    def __init__(self, data_key: bytes, random: RandomBytes) -> None:
        assert len(data_key) == KEY_BYTES
        self._cipher = AESGCM(data_key)
        self._random = random

    def seal(self, plaintext: bytes, aad: bytes) -> bytes:
        """Version, nonce, ciphertext and tag; ``aad`` is bound, not stored."""
        nonce = self._random(_NONCE_BYTES)
        return _VERSION + nonce + self._cipher.encrypt(nonce, plaintext, aad)

    def open(self, sealed: bytes, aad: bytes) -> bytes:
        """The plaintext. Raises SealBroken."""
        if sealed[:1] != _VERSION:
            raise SealBroken("the sealed bytes have an unknown version")
        nonce, rest = sealed[1 : 1 + _NONCE_BYTES], sealed[1 + _NONCE_BYTES :]
        try:
            return self._cipher.decrypt(nonce, rest, aad)
        except (InvalidTag, ValueError):
            raise SealBroken("the sealed bytes do not open with this project's key") from None


Sealers = Callable[[str], Sealer]


class Keyring:
    """The Sealer of each project; ``wrapped`` finds or makes a project's wrapped key."""

    def __init__(
        self,
        master: Sealer,
        wrapped: Callable[[str, Callable[[], bytes]], bytes],
        random: RandomBytes,
    ) -> None:
        self._master = master
        self._wrapped = wrapped
        self._random = random
        self._sealers: dict[str, Sealer] = {}

    def __call__(self, project: str) -> Sealer:
        """The project's Sealer. Raises SealBroken when another master key wrapped it."""
        sealer = self._sealers.get(project)
        if sealer is None:
            aad = b"data-key/1\n" + project.encode()
            wrapped = self._wrapped(
                project, lambda: self._master.seal(self._random(KEY_BYTES), aad)
            )
            sealer = Sealer(self._master.open(wrapped, aad), self._random)
            self._sealers[project] = sealer
        return sealer
