"""What ``sidecar doctor`` found: one check, in words, with its remedy."""

from typing import Literal

from msgspec import Struct

from sidecar.errors import SidecarError

State = Literal["good", "warning", "wrong"]


class Check(Struct, frozen=True, kw_only=True):
    """One thing looked at: ``name``, its state, what was found, and what to ``do`` about it."""

    name: str
    state: State
    what: str
    do: str = ""


def good(name: str, what: str) -> Check:
    """Nothing to do."""
    return Check(name=name, state="good", what=what)


def wrong(name: str, error: SidecarError) -> Check:
    """A fault that names its own remedy."""
    what = f"{error.what}, at {error.where}" if error.where else error.what
    return Check(name=name, state="wrong", what=what, do=error.do)
