"""What the approval pages keep between two requests of a browser, whichever sidecar serves them.

**Rules**
1. A state is found by the digest of a random text that only a browser has; the text is kept
   nowhere. What it holds is sealed, bound to its kind and digest.
2. It is there until it runs out, is dropped, or gives way to newer ones: of each kind there are
   ``most`` at once.
"""

from typing import Literal

from msgspec import Struct

PageKind = Literal["session", "login"]
PageRow = tuple[str, bytes, int, int]
"""Owner, sealed content, when it was used, when it runs out."""


class PageState(Struct, frozen=True, kw_only=True):
    """One state: ``owner`` is whose it is, empty while nobody is; ``content`` is what is sealed."""

    digest: str
    kind: PageKind
    owner: str = ""
    content: bytes
    used_at_ns: int
    expires_at_ns: int


def page_aad(kind: PageKind, digest: str) -> bytes:
    """What a seal is bound to."""
    return f"page/1\n{kind}\n{digest}".encode()
