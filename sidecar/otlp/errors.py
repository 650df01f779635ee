"""What OTLP bytes can do wrong.

Rules
1. A request that is no OTLP at all is Undecodable; anything less keeps what can be kept.
2. A request of more parts than one may have is TooMany: it is refused before memory is spent on it.
"""


class Undecodable(ValueError):
    """The bytes are not an OTLP request of that signal and encoding; the text says why."""


class TooMany(ValueError):
    """The request has more items or parts than one may have; the text says how many it may."""
