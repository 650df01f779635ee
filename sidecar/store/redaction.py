"""Keys of redaction's digests: one in use a project, earlier ones until they retire.

Rules
1. A key is sealed with its project's data key, bound to its project and id.
2. A project's first key is made when it is first asked for, whichever process asks first.
3. After a rotation new digests are made with the new key; the earlier one stays for ``overlap``, so
   that a value can still be looked for among digests made before. Then it is deleted, and nothing
   can be tried out against those digests any more.
"""

from collections.abc import Callable
from typing import Protocol

from msgspec import Struct

from processors.redact.terms import KEY_ID_CHARACTERS, RedactionKey, letters
from sidecar.store.envelope import KEY_BYTES, RandomBytes, Sealers


class SealedRedactionKey(Struct, frozen=True, kw_only=True):
    """A key as it is kept; ``retires_at_ns`` is None for the one in use."""

    project: str
    key_id: str
    sealed: bytes
    created_at_ns: int
    retires_at_ns: int | None = None


class LiveKey(Struct, frozen=True, kw_only=True):
    """A key that can be used, and until when."""

    key: RedactionKey
    created_at_ns: int
    retires_at_ns: int | None = None


class StoredRedactionKeys(Protocol):
    """Where the keys lie."""

    def redaction_keys(self, project: str) -> list[SealedRedactionKey]:
        """All keys of a project, the one in use first, then the newest."""
        ...

    def find_or_add_redaction_key(
        self, project: str, make: Callable[[], SealedRedactionKey]
    ) -> SealedRedactionKey:
        """The key in use, made when there is none yet."""
        ...

    def replace_redaction_key(self, new: SealedRedactionKey, retires_at_ns: int) -> None:
        """Put a new key in use; the one that was retires then. Those retired before are deleted."""
        ...


class RedactionKeys:
    """A project's keys, opened."""

    def __init__(self, stored: StoredRedactionKeys, sealers: Sealers, random: RandomBytes) -> None:
        self._stored = stored
        self._sealers = sealers
        self._random = random

    def current(self, project: str, now_ns: int) -> RedactionKey:
        """The key in use, made when there is none yet. Raises SealBroken."""
        found = self._stored.find_or_add_redaction_key(project, lambda: self._made(project, now_ns))
        return self._opened(found)

    def live(self, project: str, now_ns: int) -> list[LiveKey]:
        """Every key that has not retired, the one in use first. Raises SealBroken."""
        self.current(project, now_ns)
        return [
            LiveKey(
                key=self._opened(stored),
                created_at_ns=stored.created_at_ns,
                retires_at_ns=stored.retires_at_ns,
            )
            for stored in self._stored.redaction_keys(project)
            if stored.retires_at_ns is None or stored.retires_at_ns > now_ns
        ]

    def rotate(self, project: str, *, overlap_ns: int, now_ns: int) -> RedactionKey:
        """A new key in use; the one before stays for ``overlap_ns``. Raises SealBroken."""
        self.current(project, now_ns)
        made = self._made(project, now_ns)
        self._stored.replace_redaction_key(made, now_ns + overlap_ns)
        return self._opened(made)

    def _made(self, project: str, now_ns: int) -> SealedRedactionKey:
        key_id = letters(self._random(KEY_ID_CHARACTERS // 2))
        sealed = self._sealers(project).seal(self._random(KEY_BYTES), _binding(project, key_id))
        return SealedRedactionKey(
            project=project, key_id=key_id, sealed=sealed, created_at_ns=now_ns
        )

    def _opened(self, stored: SealedRedactionKey) -> RedactionKey:
        binding = _binding(stored.project, stored.key_id)
        secret = self._sealers(stored.project).open(stored.sealed, binding)
        return RedactionKey(key_id=stored.key_id, secret=secret)


def _binding(project: str, key_id: str) -> bytes:
    return f"redaction-key/1\n{project}\n{key_id}".encode()
