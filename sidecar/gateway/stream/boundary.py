"""Where a word of ours may stand between the events of a stream.

**Rules**
1. Only after a whole event (an empty line) or before the first: anywhere else it would become part
   of what the tool says.
"""

KEEP_ALIVE = b": ka\n\n"
EVENTS = "text/event-stream"
_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")
_KEPT = 4


class Boundary:
    """Follows a stream of events by its last bytes."""

    def __init__(self) -> None:
        self._tail = b""

    def see(self, data: bytes) -> None:
        """What was passed on."""
        self._tail = (self._tail + data)[-_KEPT:]

    @property
    def between_events(self) -> bool:
        """Whether nothing has been said, or an event has just ended."""
        return not self._tail or self._tail.endswith(_ENDS)


def is_events(content_type: str) -> bool:
    """Whether a content type is that of server-sent events."""
    return content_type.partition(";")[0].strip().lower() == EVENTS
