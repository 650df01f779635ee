"""What OTLP bytes can do wrong.

Rules
1. A request that is no OTLP at all is Undecodable; anything less keeps what can be kept.
"""


class Undecodable(ValueError):
    """The bytes are not an OTLP request of that signal and encoding; the text says why."""
