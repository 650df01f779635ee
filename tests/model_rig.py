"""Scripted servers of models and of plain HTTP, as clients meet them: answers, streams, mishaps.

``with ModelServer() as server: server.say(chat("hello"))``: an openai client at ``server.openai``
(an anthropic one at ``server.anthropic``) gets that answer to its next request, whatever it asks.
``server.on("GET", "/weather", Reply(...))`` answers a path each time; ``server.asked`` came.
"""

import gzip
import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

WAIT_SECONDS = 20
CUT = object()  # the connection is closed in the midst
MODEL = "scripted-1"


class Hold:
    """The server waits here until it is let go; ``reached`` says that it does."""

    def __init__(self):
        self.reached, self._go = threading.Event(), threading.Event()

    def wait(self):
        self.reached.set()
        assert self._go.wait(WAIT_SECONDS)

    def go(self):
        self._go.set()


@dataclass
class Reply:
    """One answer. ``body``: JSON value, text or bytes; ``parts``: a stream's bytes, holds, CUT."""

    body: object = None
    status: int = 200
    headers: dict = field(default_factory=dict)
    parts: list | None = None
    gzipped: bool = False
    times: int = 1


@dataclass
class Asked:
    method: str
    path: str
    headers: dict
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)


class ModelServer:
    """A server on this machine, on a free port or that of another that has stopped."""

    def __init__(self, port=0):
        self.asked, self._script, self._routes, self._port = [], [], {}, port
        self._lock = threading.Lock()
        self._server = None

    def __enter__(self):
        rig = self

        class Handler(_Handler):
            server_rig = rig

        self._server = ThreadingHTTPServer(("127.0.0.1", self._port), Handler)
        self._server.daemon_threads = True
        self._server.block_on_close = False
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.01,), daemon=True
        )
        self._thread.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        """Shut down; afterwards its port refuses."""
        if self._server is not None:
            self._url = self.url  # the port stays known
            server, self._server = self._server, None
            server.shutdown()
            server.server_close()
            self._thread.join(WAIT_SECONDS)

    @property
    def url(self):
        if self._server is not None:
            self._url = f"http://127.0.0.1:{self._server.server_port}"
        return self._url

    @property
    def port(self):
        return int(self.url.rpartition(":")[2])

    @property
    def openai(self):
        return f"{self.url}/v1"

    @property
    def anthropic(self):
        return self.url

    def say(self, *replies):
        """Answer the next requests so, in order."""
        self._script += replies

    def on(self, method, path, reply):
        """Answer a path each time; ``reply`` may be a function of ``Asked``."""
        self._routes[method, path] = reply

    def next(self, asked):
        with self._lock:
            self.asked.append(asked)
            route = self._routes.get((asked.method, asked.path.partition("?")[0]))
            if route is not None:
                return route(asked) if callable(route) else route
            if not self._script:
                return Reply({"error": {"message": "nothing is scripted"}}, status=500)
            reply = self._script[0]
            reply.times -= 1
            if reply.times <= 0:
                self._script.pop(0)
            return reply


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # a head and a body are two writes

    def _handle(self):
        length = int(self.headers.get("content-length") or 0)
        body = self.rfile.read(length) if length else self._chunked()
        headers = {name.lower(): value for name, value in self.headers.items()}
        reply = self.server_rig.next(Asked(self.command, self.path, headers, body))
        try:
            self._answer(reply)
        except (ConnectionError, BrokenPipeError):
            self.close_connection = True  # the client went

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = _handle

    def _chunked(self):
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return b""
        found = b""
        while size := int(self.rfile.readline().strip(), 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return found

    def _answer(self, reply):
        if reply.parts is not None and reply.parts[:1] == [CUT]:
            self.close_connection = True
            return
        if reply.parts is not None and isinstance(reply.parts[0], Hold):
            reply.parts[0].wait()
        headers = {"content-type": "application/json", **reply.headers}
        if reply.parts is None:
            data = _bytes(reply.body)
            if reply.gzipped:
                data = gzip.compress(data, mtime=0)
                headers["content-encoding"] = "gzip"
            headers["content-length"] = str(len(data))
            self._head(reply.status, headers)
            if self.command != "HEAD":
                self.wfile.write(data)
            return
        headers.setdefault("transfer-encoding", "chunked")
        self._head(reply.status, headers)
        for part in reply.parts:
            if part is CUT:
                self.close_connection = True
                return
            if isinstance(part, Hold):
                part.wait()
                continue
            self.wfile.write(b"%x\r\n%b\r\n" % (len(part), part))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")

    def _head(self, status, headers):
        self.send_response(status)
        for name, value in headers.items():
            for one in value if isinstance(value, list) else [value]:
                self.send_header(name, one)
        self.end_headers()

    def log_message(self, *_):
        return


def _bytes(body):
    if body is None:
        return b""
    if isinstance(body, bytes):
        return body
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def sse(*events, done=False, holds=()):
    """A stream of server-sent events: dicts, or pairs of event name and dict.

    ``holds``: ``{place: Hold or CUT}``, before the event of that place.
    """
    holds, parts = dict(holds), []
    for place, event in enumerate(events):
        if place in holds:
            parts.append(holds[place])
        name, data = event if isinstance(event, tuple) else (None, event)
        head = f"event: {name}\n" if name else ""
        parts.append(f"{head}data: {json.dumps(data, separators=(',', ':'))}\n\n".encode())
    if len(events) in holds:
        parts.append(holds[len(events)])
    if done:
        parts.append(b"data: [DONE]\n\n")
    return Reply(parts=parts, headers={"content-type": "text/event-stream"})


# ---- chat completions


def chat(text="", *, calls=(), model=MODEL):
    """An answer of chat completions; ``calls``: ``[(tool, arguments), …]``."""
    message = {"role": "assistant", "content": text or None}
    if calls:
        message["tool_calls"] = [_tool_call(n, *call) for n, call in enumerate(calls)]
    return Reply(
        {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1700000000,
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "message": message,
                    "finish_reason": "tool_calls" if calls else "stop",
                    "logprobs": None,
                }
            ],
            "usage": {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13},
        }
    )


def chat_stream(*texts, calls=(), holds=(), model=MODEL):
    """The same, streamed: a chunk a text, or a tool call's arguments in two halves."""
    events = [_chunk({"role": "assistant", "content": ""}, model=model)]
    events += [_chunk({"content": text}, model=model) for text in texts]
    for number, (name, arguments) in enumerate(calls):
        written = json.dumps(arguments)
        begun = {**_tool_call(number, name, {}), "index": number}
        begun["function"] = {"name": name, "arguments": ""}
        events.append(_chunk({"tool_calls": [begun]}, model=model))
        for half in (written[: len(written) // 2], written[len(written) // 2 :]):
            piece = {"index": number, "function": {"arguments": half}}
            events.append(_chunk({"tool_calls": [piece]}, model=model))
    events.append(_chunk({}, finish="tool_calls" if calls else "stop", model=model))
    usage = {"prompt_tokens": 9, "completion_tokens": len(texts), "total_tokens": 9 + len(texts)}
    events.append({**_chunk({}, model=model), "choices": [], "usage": usage})
    return sse(*events, done=True, holds=holds)


def _tool_call(number, name, arguments):
    return {
        "id": f"call_{number}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }


def _chunk(delta, *, finish=None, model=MODEL):
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": model,
        "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
    }


def embeddings(*vectors):
    data = [
        {"object": "embedding", "index": n, "embedding": list(vector)}
        for n, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": 3, "total_tokens": 3}
    return Reply({"object": "list", "data": data, "model": MODEL, "usage": usage})


# ---- responses


def response(text="", *, calls=(), model=MODEL):
    """An answer of the responses endpoint."""
    return Reply(_response(text, calls, model))


def response_stream(*texts, holds=(), model=MODEL):
    """The same, streamed."""
    begun = {**_response("", (), model), "status": "in_progress", "output": []}
    whole = _response("".join(texts), (), model)
    item = whole["output"][0]
    place = {"item_id": item["id"], "output_index": 0}
    part = {"type": "output_text", "text": "", "annotations": []}
    empty = {**item, "content": [], "status": "in_progress"}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **place, "content_index": 0, "part": part},
        *(
            {"type": "response.output_text.delta", **place, "content_index": 0, "delta": text}
            for text in texts
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    numbered = [{**event, "sequence_number": n} for n, event in enumerate(events)]
    return sse(*((event["type"], event) for event in numbered), holds=holds)


def _response(text, calls, model):
    output = [
        {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": f"call_{number}",
            "name": name,
            "arguments": json.dumps(arguments),
            "status": "completed",
        }
        for number, (name, arguments) in enumerate(calls)
    ]
    if text or not calls:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        said = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({**said, "content": content})
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1700000000,
        "status": "completed",
        "model": model,
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "temperature": 1.0,
        "usage": {
            "input_tokens": 9,
            "input_tokens_details": {"cached_tokens": 2},
            "output_tokens": 4,
            "output_tokens_details": {"reasoning_tokens": 1},
            "total_tokens": 13,
        },
    }


# ---- messages


def message(text="", *, calls=(), model=MODEL):
    """An answer of the messages endpoint."""
    content = [{"type": "text", "text": text}] if text else []
    content += [
        {"type": "tool_use", "id": f"toolu_{n}", "name": name, "input": arguments}
        for n, (name, arguments) in enumerate(calls)
    ]
    return Reply(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "stop_reason": "tool_use" if calls else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 9, "output_tokens": 4},
        }
    )


def message_stream(*texts, calls=(), holds=(), model=MODEL):
    """The same, streamed."""
    begun = {**message(model=model).body, "content": [], "stop_reason": None}
    events = [{"type": "message_start", "message": begun}]
    place = 0
    if texts:
        block = {"type": "text", "text": ""}
        events.append({"type": "content_block_start", "index": 0, "content_block": block})
        for text in texts:
            delta = {"type": "text_delta", "text": text}
            events.append({"type": "content_block_delta", "index": 0, "delta": delta})
        events.append({"type": "content_block_stop", "index": 0})
        place = 1
    for number, (name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        index = place + number
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        written = json.dumps(arguments)
        for half in (written[: len(written) // 2], written[len(written) // 2 :]):
            delta = {"type": "input_json_delta", "partial_json": half}
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    events.append({"type": "message_delta", "delta": stop, "usage": {"output_tokens": 4}})
    events.append({"type": "message_stop"})
    return sse(*((event["type"], event) for event in events), holds=holds)


def overloaded(status=429, **headers):
    """An answer that clients try again after; ``retry_after`` in seconds."""
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    body = {"error": {"message": "try later", "type": "rate_limit", "code": None, "param": None}}
    return Reply(body, status=status, headers=named)
