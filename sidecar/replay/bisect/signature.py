"""What a failure must say to be the one that is looked for."""

from collections.abc import Callable

import re2

from sidecar.errors import SidecarError


def signature(pattern: str) -> Callable[[str], bool]:
    """Whether an output has the pattern, in time linear in it. Raises SidecarError."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options)
    except re2.error:
        raise SidecarError("it is no regular expression of RE2", where="--signature") from None
    return lambda output: compiled.search(output) is not None
