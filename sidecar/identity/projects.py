"""What a project may be called: one grammar for configuration, keys and commands.

Rules
1. A name goes into tokens, metrics, file names and digests: 1 to 64 of ASCII letters, digits,
   ``.``, ``_`` and ``-``, a letter or digit first.
"""

import re

from sidecar.errors import SidecarError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")


def wrong_project_name(name: str) -> str | None:
    """Why a text is no project's name; None where it is one."""
    if _NAME.match(name):
        return None
    said = f"{name[:80]!r} cannot be a project's name"
    return f"{said}: write 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first"


def project_name(name: str, *, where: str) -> str:
    """The same name. Raises SidecarError where it is none."""
    why = wrong_project_name(name)
    if why is not None:
        raise SidecarError(why, where=where, do="Name a project as in the configuration.")
    return name
