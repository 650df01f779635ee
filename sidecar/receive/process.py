"""The process that looks at large bodies: one comes in, its counts go out. Run by ``client``.

**Rules**
1. It keeps nothing and writes nothing but counts, or why a body is none; a body's text never.
2. It ends when its standard input ends, and within a second of its parent.
3. It runs below the priority of tool calls.

A request is a head, the length of a question and of a body (two u32), then both; an answer is one
line of JSON (``Told``).
"""

import os
import signal as signals
import struct
import sys
import threading
from typing import BinaryIO, Literal

import msgspec
from msgspec import Struct

from sidecar.otlp.check import check
from sidecar.otlp.errors import TooMany, Undecodable
from sidecar.otlp.limits import Limits
from sidecar.receive.memory import keep_buffers
from sidecar.store.journal import Encoding, Signal

HEAD = struct.Struct(">II")
_NICENESS = 10
_WATCH_SECONDS = 1.0


class Asked(Struct, frozen=True):
    """What to look at a body as."""

    signal: Signal
    encoding: Encoding
    limits: Limits


class Told(Struct, frozen=True):
    """Counts of a body, or the ``why`` of its refusal under ``kind``."""

    accepted: int = 0
    rejected: int = 0
    kind: Literal["checked", "undecodable", "too_many", "fault"] = "checked"
    why: str = ""


def main(parent: int) -> None:
    """Answer until standard input ends. ``parent`` is the process id to end with."""
    for number in (signals.SIGINT, signals.SIGTERM):
        # A terminal's Ctrl-C and a supervisor's end reach every process: the parent drains first.
        signals.signal(number, signals.SIG_IGN)
    os.nice(_NICENESS)
    keep_buffers()
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    incoming, outgoing = sys.stdin.buffer, sys.stdout.buffer
    while (asked := _read(incoming)) is not None:
        outgoing.write(msgspec.json.encode(_look(*asked)) + b"\n")
        outgoing.flush()


def _read(incoming: BinaryIO) -> tuple[Asked, bytes] | None:
    head = incoming.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    question, body = HEAD.unpack(head)
    asked = incoming.read(question)
    payload = incoming.read(body)
    if len(payload) < body:
        return None
    return msgspec.json.decode(asked, type=Asked), payload


def _look(asked: Asked, payload: bytes) -> Told:
    try:
        checked = check(asked.signal, asked.encoding, payload, asked.limits)
    except Undecodable as error:
        return Told(kind="undecodable", why=str(error))
    except TooMany as error:
        return Told(kind="too_many", why=str(error))
    except Exception as error:
        return Told(kind="fault", why=type(error).__name__)
    return Told(checked.accepted, checked.rejected)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        threading.Event().wait(_WATCH_SECONDS)
    os._exit(0)
