"""Principal: who is calling. The tenant of everything a caller does is the credential's project."""

from msgspec import Struct

from processors.model.names import PrincipalKind


class Principal(Struct, frozen=True, kw_only=True):
    """An authenticated caller; ``id`` is stable and public, the secret is nowhere."""

    id: str
    kind: PrincipalKind
    project: str
    name: str = ""
    episode: str | None = None
