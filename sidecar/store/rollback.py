"""Which release of the policy may follow which: the number of the newest is kept, and never falls.

**Rules**
1. A release with a lower number than was active before is refused, and so is another release under
   the same number.
2. What has no number (a folder, an unsigned archive) is not asked: signing says who may decide, and
   gives everything a number.
"""

POLICY_NEWEST = "policy_newest"
"""The state's name: ``<number> <revision>`` of the newest release that was ever active."""


def newest(revision: str, sequence: int) -> bytes:
    """The state after a release is activated."""
    return f"{sequence} {revision}".encode()


def is_rolled_back(state: bytes | None, revision: str, sequence: int) -> bool:
    """Whether activating that release would go back behind the newest."""
    if state is None:
        return False
    number, _, known = state.decode().partition(" ")
    return sequence < int(number) or (sequence == int(number) and revision != known)
