"""How a listener's address is written: ``127.0.0.1:4317``, ``[::1]:4317``, ``localhost:0``."""

import re

_ADDRESS = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^:\[\]]+)):(\d{1,5})")


def split_address(address: str) -> tuple[str, int]:
    """Host and port of ``127.0.0.1:4317`` or ``[::1]:4317``. Raises ValueError."""
    match = _ADDRESS.fullmatch(address)
    if match is None or int(match[3]) > 65535:
        raise ValueError(f"{address!r} is not host:port")
    return match[1] or match[2], int(match[3])
