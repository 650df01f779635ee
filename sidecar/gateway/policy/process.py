"""The policy engine's child process: frames in, answers out. Started by ``worker``, run as a
script.

**Rules**
1. It imports the engine and the standard library, nothing of ours: it starts in a few ten
   milliseconds.
2. It holds one bundle for life. A frame is answered in order of arrival; the engine's panics
   (``BaseException``) are answered as errors, and then the process ends, since the engine's state
   is unknown.
3. It ends with its parent: by signal where the kernel can, and at the end of the socket.
4. Input is JSON text only: the engine crashes on deep Python objects, and refuses deep JSON.

Frames: length of what follows (u32), request id (u64), kind (u8), payload. Kinds to the child: 0
load, 1 decide, 2 list, 3 tree, 4 the value of a rule, 5 whether other orders of the modules decide
otherwise; from it: 0 answer, 1 error, 2 error and the end of the process.
"""

import contextlib
import ctypes
import io
import json
import os
import resource
import signal
import socket
import struct
import sys
import time
from typing import Any

HEAD = struct.Struct(">IQB")
LOAD, DECIDE, LIST, TREE, RULE, ORDERS = 0, 1, 2, 3, 4, 5
ANSWER, ERROR, LAST = 0, 1, 2
RULES = {DECIDE: "data.agenttwin.v1.decide", LIST: "data.agenttwin.v1.list"}
ORDERS_SECONDS = 5.0  # what is not tried by then is not tried
ADDRESS_SPACE_BYTES = 4 * 1024**3  # the wheel alone reserves 1 GiB
_PR_SET_PDEATHSIG = 1


def main(descriptor: int, parent: int) -> None:
    """Serve the socket until it ends. ``parent`` is the process id to die with."""
    _confine(parent)
    connection = socket.socket(fileno=descriptor)
    incoming = io.BufferedReader(socket.SocketIO(connection, "r"), 1 << 18)
    engine: Any = None
    while True:
        frame = _receive(incoming)
        if frame is None:
            return
        identity, kind, payload = frame
        status, answer = ANSWER, b""
        try:
            if kind == LOAD:
                engine = _load(payload)
            elif kind == ORDERS:
                answer = _differing(payload)
            else:
                answer = _evaluate(engine, kind, payload)
        except BaseException as error:
            status = ERROR if isinstance(error, Exception) else LAST
            answer = _first_line(error)
        _send(connection, identity, status, answer)
        if status == LAST:
            _drain(incoming)
            return


def _load(payload: bytes) -> Any:
    import regorus  # here, so that the parent can read the constants without loading the engine

    bundle = json.loads(payload)
    engine = _engine(regorus, bundle["modules"], bundle["data"])
    if bundle["warm"]:
        engine.set_input_json("{}")
        for rule in RULES.values():
            with contextlib.suppress(
                RuntimeError
            ):  # the first evaluation compiles; its answer is unused
                engine.eval_rule_as_json(rule)
    return engine


def _engine(regorus: Any, modules: list[list[str]], data: Any) -> Any:
    engine = regorus.Engine()
    for path, text in modules:
        engine.add_policy(path, text)
    engine.add_data_json(json.dumps(data))
    return engine


def _differing(payload: bytes) -> bytes:
    """The first document on which the orders do not all decide the same, as JSON; else null."""
    import regorus

    asked = json.loads(payload)
    texts = dict(asked["modules"])
    engines = [
        _engine(regorus, [[path, texts[path]] for path in order], asked["data"])
        for order in asked["orders"]
    ]
    ends = time.monotonic() + ORDERS_SECONDS
    *whole, last = engines
    for kind, document in asked["documents"]:
        said = {_told(engine, RULES[kind], document) for engine in whole}
        said.add(_told(last, RULES[kind], _part(document, asked["members"])))
        if len(said) > 1:
            return bytes(document, "utf-8")
        if time.monotonic() > ends:
            break
    return b"null"


def _part(document: str, members: list[str] | None) -> str:
    if members is None:
        return document
    there = json.loads(document)
    return json.dumps({name: there[name] for name in members if name in there})


def _told(engine: Any, rule: str, document: str) -> str:
    engine.set_input_json(document)
    try:
        return str(engine.eval_rule_as_json(rule))
    except RuntimeError:
        return "error"


def _evaluate(engine: Any, kind: int, payload: bytes) -> bytes:
    if kind == TREE:
        return str(engine.get_ast_as_json()).encode()
    if kind == RULE:
        engine.set_input_json("{}")
        return str(engine.eval_rule_as_json(payload.decode("utf-8"))).encode()
    engine.set_input_json(payload.decode("utf-8"))
    return str(engine.eval_rule_as_json(RULES[kind])).encode()


def _confine(parent: int) -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        # A terminal's Ctrl-C and a supervisor's end reach every process: the parent drains first.
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died before the line above
        os._exit(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def _receive(incoming: "io.BufferedReader[socket.SocketIO]") -> tuple[int, int, bytes] | None:
    head = incoming.read(HEAD.size)
    if len(head) < HEAD.size:
        return None
    length, identity, kind = HEAD.unpack(head)
    payload = incoming.read(length - 9)
    return (identity, kind, payload) if len(payload) == length - 9 else None


def _drain(incoming: "io.BufferedReader[socket.SocketIO]") -> None:
    """Wait for the parent to close: ending with frames unread would reset the last answer away."""
    while incoming.read(1 << 16):
        pass


def _send(connection: socket.socket, identity: int, status: int, answer: bytes) -> None:
    connection.sendall(HEAD.pack(9 + len(answer), identity, status) + answer)


def _first_line(error: BaseException) -> bytes:
    text = str(error).partition("Stack backtrace")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip(" |^")]
    return " ".join(lines)[:2000].encode("utf-8", "replace") or type(error).__name__.encode()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
