"""JSON pointers (RFC 6901) to members that are left out."""

from typing import Any

Parts = tuple[str, ...]


def is_pointer(text: str) -> bool:
    """Whether it is a pointer to something inside a value."""
    escapes = text.replace("~0", "").replace("~1", "")
    return text.startswith("/") and len(text) > 1 and "~" not in escapes


def parts(pointer: str) -> Parts:
    """The names a pointer goes by, unescaped."""
    named = pointer.removeprefix("/").split("/")
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in named)


def without(value: Any, pointers: tuple[Parts, ...]) -> Any:
    """The value without the members of objects that are pointed at; lists are left as they are."""
    if not isinstance(value, dict):
        return value
    kept = {}
    for name, member in value.items():
        below = tuple(each[1:] for each in pointers if each[0] == name)
        if () not in below:
            kept[name] = without(member, below) if below else member
    return kept
