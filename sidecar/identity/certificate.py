"""Client certificates: which alternative name stands for which principal.

Rules
1. Names are exact: a URI as written, a DNS name whatever its case. There are no wildcards, and a
   subject's common name is nobody's.
2. A certificate whose names stand for two principals is refused: who is calling must be certain.
"""

from collections.abc import Sequence

from processors.model.principal import Authn, Principal
from sidecar.identity.config import CertificateGrant
from sidecar.identity.keys import Unauthenticated


def name_of(san: str) -> str:
    """A configured ``san`` as the wires tell it: ``uri:…`` or ``dns:…``."""
    return f"uri:{san}" if "://" in san else f"dns:{san.lower()}"


class CertificateGrants:
    """The principals of verified certificates."""

    def __init__(self, grants: Sequence[CertificateGrant]) -> None:
        self._principals = {name_of(each.san): _principal(each) for each in grants}

    def principal(self, names: Sequence[str]) -> Principal:
        """The one principal that the names stand for. Raises Unauthenticated."""
        asked = [each.lower() if each.startswith("dns:") else each for each in names]
        found = {each: self._principals[each] for each in asked if each in self._principals}
        if not found:
            raise Unauthenticated("the client certificate stands for nobody here")
        if len(found) > 1:
            raise Unauthenticated("the client certificate stands for more than one principal")
        return next(iter(found.values()))


def _principal(grant: CertificateGrant) -> Principal:
    return Principal(
        id=f"mtls:{grant.san}",
        kind=grant.kind,
        project=grant.project,
        name=grant.name or grant.san,
        role=grant.role,
        tools=grant.tools,
        owner=grant.owner,
        on_behalf_of=grant.on_behalf_of,
        authn=Authn(method="certificate"),
    )
