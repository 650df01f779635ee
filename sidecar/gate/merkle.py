"""The root of a tree of hashes over a list, as RFC 6962 (2.1) makes it.

A leaf and a node are told apart by their first byte, so that neither passes for the other.
"""

import hashlib
from collections.abc import Sequence


def root(leaves: Sequence[bytes]) -> str:
    """``sha256:<hex>``; that of no leaves is the hash of nothing."""
    return "sha256:" + _tree(leaves).hex()


def _tree(leaves: Sequence[bytes]) -> bytes:
    if not leaves:
        return hashlib.sha256(b"").digest()
    level = [hashlib.sha256(b"\x00" + leaf).digest() for leaf in leaves]
    while len(level) > 1:  # pairs from the left; the odd one goes up as it is: the same tree
        pairs = [level[at : at + 2] for at in range(0, len(level), 2)]
        level = [
            hashlib.sha256(b"\x01" + pair[0] + pair[1]).digest() if len(pair) == 2 else pair[0]
            for pair in pairs
        ]
    return level[0]
