"""A bundle between two processes: the one that judges asks for its files, one at a time.

**Rules**
1. A frame is its size, eight bytes big-endian, and MessagePack. First come the names of all files;
   then each question is a name, and each reply the bytes; what is said last is what came of it.
2. Neither side holds a file that it is done with.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import IO, Final, TypeVar

import msgspec
from msgspec import Struct

from sidecar.gate.examine import Derived

_SIZE: Final = 8
_T = TypeVar("_T")


class Said(Struct, frozen=True, kw_only=True):
    """What the one that judges says: which file it wants, or what it comes to."""

    wants: str = ""
    derived: Derived | None = None


class Asking(Mapping[str, bytes]):
    """A bundle that somebody else holds."""

    def __init__(self, replies: IO[bytes], questions: IO[bytes]) -> None:
        self._replies = replies
        self._questions = questions
        names = _read(replies, list[str])
        if names is None:
            raise EOFError("no bundle came")
        self._names = dict.fromkeys(names)

    def __getitem__(self, name: str) -> bytes:
        if name not in self._names:
            raise KeyError(name)
        _write(self._questions, Said(wants=name))
        data = _read(self._replies, bytes)
        if data is None:
            raise EOFError(f"{name} did not come")
        return data

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def tell(self, derived: Derived) -> None:
        """Say what the bundle comes to."""
        _write(self._questions, Said(derived=derived))


def answered(
    names: list[str],
    read: Callable[[str], bytes],
    questions: IO[bytes],
    replies: IO[bytes],
) -> Derived | None:
    """Answer whoever asks for files, until it says what they come to; None where it says nothing.

    Raises msgspec.DecodeError for what is no question, OSError where it is gone.
    """
    _write(replies, names)
    while (said := _read(questions, Said)) is not None:
        if said.derived is not None:
            return said.derived
        _write(replies, read(said.wants))
    return None


def _write(wire: IO[bytes], value: object) -> None:
    frame = msgspec.msgpack.encode(value)
    wire.write(len(frame).to_bytes(_SIZE, "big"))
    wire.write(frame)
    wire.flush()


def _read(wire: IO[bytes], kind: type[_T]) -> _T | None:
    size = wire.read(_SIZE)
    if len(size) < _SIZE:
        return None
    data = wire.read(int.from_bytes(size, "big"))
    return msgspec.msgpack.decode(data, type=kind)
