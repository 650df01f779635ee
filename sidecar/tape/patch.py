"""RFC 6902: a JSON Patch applied to a value.

Rules
1. The value is changed in place (what was given is copied once, by ``Patched``); after a patch that
   fails it is not to be used.
2. What all patches together put in is bounded: a patch may copy a value into itself many times.
"""

from typing import Any, Final

from sidecar.canonical import canonical

NODES_MAX: Final = 1_000_000


class PatchFailed(ValueError):
    """The patch is none, or does not fit the value."""


class Patched:
    """A value under patches; ``value`` is what it has become."""

    def __init__(self, value: Any) -> None:
        self._nodes = 0
        self._root: dict[str, Any] = {}
        self._root[""] = self._copy(value)

    @property
    def value(self) -> Any:
        """The value after every patch so far."""
        return self._root[""]

    def apply(self, patch: Any) -> None:
        """Every operation in its order. Raises PatchFailed."""
        if not isinstance(patch, list):
            raise PatchFailed("a patch is a list of operations")
        for one in patch:
            try:
                self._apply(one)
            except (KeyError, IndexError, TypeError, AttributeError) as error:
                raise PatchFailed("an operation that does not fit the state") from error

    def _apply(self, one: dict[str, Any]) -> None:
        name, path, root = one["op"], _steps(one["path"]), self._root
        if name == "test":
            if canonical(_at(root, path)) != canonical(one["value"]):
                raise PatchFailed("a test in the patch does not hold")
        elif name == "remove":
            _take(root, path)
        elif name == "add":
            _put(root, path, self._copy(one["value"]))
        elif name == "replace":
            new = self._copy(one["value"])
            _take(root, path)
            _put(root, path, new)
        elif name == "copy":
            _put(root, path, self._copy(_at(root, _steps(one["from"]))))
        elif name == "move":
            source = _steps(one["from"])
            if len(path) > len(source) and path[: len(source)] == source:
                raise PatchFailed("a value cannot be moved into itself")
            _put(root, path, _take(root, source))
        else:
            raise PatchFailed("an operation that RFC 6902 does not have")

    def _copy(self, value: Any) -> Any:
        self._nodes += 1
        if self._nodes > NODES_MAX:
            raise PatchFailed(f"the patches put in more than {NODES_MAX} values")
        if isinstance(value, dict):
            return {key: self._copy(item) for key, item in value.items()}
        return [self._copy(item) for item in value] if isinstance(value, list) else value


def _steps(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise PatchFailed("a path that is no JSON Pointer")
    return [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")]


def _at(root: Any, path: list[str]) -> Any:
    for step in path:
        root = root[_index(step, len(root) - 1)] if isinstance(root, list) else root[step]
    return root


def _take(root: Any, path: list[str]) -> Any:
    parent, last = _at(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        return parent.pop(_index(last, len(parent) - 1))
    return parent.pop(last)


def _put(root: Any, path: list[str], value: Any) -> None:
    parent, last = _at(root, path[:-1]), path[-1]
    if isinstance(parent, list):
        parent.insert(len(parent) if last == "-" else _index(last, len(parent)), value)
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        raise PatchFailed("a path through what holds nothing")


def _index(step: str, most: int) -> int:
    if not (step.isascii() and step.isdigit()) or (step[0] == "0" and step != "0"):
        raise PatchFailed("a path whose index is none")
    if int(step) > most:
        raise PatchFailed("a path beyond the end of a list")
    return int(step)
