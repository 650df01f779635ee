"""Keys that the configuration names by file: what a platform gives an agent and its sidecar.

Rules
1. Such a key is valid while it is declared, in every process that runs that configuration; the
   store knows nothing of it.
2. What the store says of a key of the same id goes first: revoked there is revoked.
3. The kind is the declaration's; what the text calls itself gives no rights, but must agree, so
   that two files swapped by mistake are found.
"""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from processors.model.principal import KeyKind, Role, StoredKey
from sidecar.identity.keys import KeyStore, row_of_text


class DeclaredKey(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A key in a file, made by ``sidecar key generate``. ``name``: whose it is; keys of one name
    are one person's. ``tools``: the only ones an agent may call, all where empty. ``owner``: who
    answers for an agent, ``on_behalf_of``: for whom it acts, by name; neither approves its calls.
    """

    file: str
    kind: KeyKind
    project: str
    name: str = ""
    role: Role | None = None
    tools: tuple[str, ...] = ()
    owner: str = ""
    on_behalf_of: str = ""

    def read(self, text: str, *, now_ns: int) -> StoredKey:
        """The key's row, from its file's text. Raises ValueError, never quoting the text."""
        row = row_of_text(text.strip(), now_ns=now_ns)
        if row is None:
            raise ValueError("holds no key; make one with: sidecar key generate")
        if row.kind != self.kind:
            raise ValueError(f"holds a key of kind {row.kind}, not {self.kind}")
        return replace(
            row,
            project=self.project,
            name=self.name,
            role=self.role,
            tools=self.tools,
            owner=self.owner,
            on_behalf_of=self.on_behalf_of,
        )


class DeclaredKeys:
    """A ``KeyStore`` of declared keys over that of stored ones."""

    def __init__(self, declared: Mapping[str, StoredKey], stored: KeyStore) -> None:
        self._declared = declared
        self._stored = stored

    def find_key(self, key_id: str) -> StoredKey | None:
        """The key of that id, revoked or not."""
        found = self._stored.find_key(key_id)
        return found if found is not None else self._declared.get(key_id)
