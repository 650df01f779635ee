"""Two hundred hostile requests: what is sent, on which wire, and what must be answered.

A batch holds a sound span, the hostile item and another sound span, all of one trace that is named
by the row's number; ``items`` are the span ids that must be found in the store afterwards.
"""

import gzip
import json
import struct
import zlib
from functools import cache

import zstandard
from msgspec import Struct

from sidecar.otlp.wire import encoded, field

OK = "ok"
PROTOBUF, JSON = "application/x-protobuf", "application/json"
MB = 1 << 20
DEEP = 10_000
MANY = 1_000_000


class Row(Struct, frozen=True, kw_only=True):
    """One request. ``answer``: OK or a gRPC code's name; HTTP's status follows, or is ``http``.

    ``rejected``: the count in partial_success. ``body`` makes the bytes from the row's trace id.
    ``raw``: bytes for a bare connection, where any answer will do.
    """

    name: str
    body: object = None
    answer: str = OK
    http: int | None = None
    rejected: int = 0
    kept: bool = True
    signal: str = "traces"
    wires: tuple[str, ...] = ("http", "grpc")
    type_: str | None = PROTOBUF
    coding: str | None = None
    method: str = "POST"
    path: str | None = None
    key: str | None = "agent"
    raw: tuple[str, bytes] | None = None
    neighbours: bool = True


def ids(trace, number, parent=None):
    """The id fields of a span."""
    made = field(1, trace) + field(2, number.to_bytes(8, "big"))
    return made + (field(4, parent.to_bytes(8, "big")) if parent else b"")


def text(value):
    return field(1, value)


def attribute(key, value):
    return field(1, key) + field(2, value)


def fixed(number, value):
    return encoded(number << 3 | 1) + struct.pack("<Q", value)


def sound(trace, number, operation):
    """A span that becomes a step."""
    times = fixed(7, 1_760_000_000_000_000_000 + number) + fixed(8, 1_760_000_000_000_001_000)
    kind = field(9, attribute(b"gen_ai.operation.name", text(operation)))
    return ids(trace, number, None if number == 1 else 1) + field(5, operation) + times + kind


def group(*items, resource=b"", scope=b""):
    """A request of one scope."""
    parts = b"".join(field(2, item) for item in items)
    own = field(1, scope) if scope else b""
    return field(1, (field(1, resource) if resource else b"") + field(2, own + parts))


def batch(trace, item, **around):
    """The hostile item between its neighbours."""
    first, last = sound(trace, 1, b"invoke_agent"), sound(trace, 3, b"chat")
    return group(first, item, last, **around)


def span(*parts):
    """A row's body: span 2 with these fields beside its ids."""
    return lambda trace: batch(trace, ids(trace, 2, 1) + b"".join(parts))


def nested(number, levels=DEEP):
    """An AnyValue of lists in lists (5), or of objects in objects (6)."""
    value = text(b"end")
    for _ in range(levels):
        value = (
            field(5, field(1, value)) if number == 5 else field(6, field(1, attribute(b"k", value)))
        )
    return value


@cache
def many(number):
    """A million attributes under a field's number, each with a key of its own."""
    key, head = encoded(1 << 3 | 2), encoded(number << 3 | 2)
    return b"".join(
        b"%c%c%c%c%b" % (head[0], len(name) + 2, key[0], len(name), name)
        for name in (b"%d" % n for n in range(MANY))
    )


def protobuf_rows():
    """Bodies that both wires take."""
    for cut in (0.05, 0.2, 0.4, 0.6, 0.8, 0.95):
        yield Row(
            name=f"cut off at {cut}",
            body=lambda trace, cut=cut: (w := span()(trace))[: int(len(w) * cut)],
            answer="INVALID_ARGUMENT",
        )
    for name, junk in {
        "text": b"hello world",
        "an HTML page": b"<html><body>hi</body></html>",
        "JSON as protobuf": b'{"resourceSpans": []}',
        "a varint without end": b"\xff" * 40,
        "field number 0": b"\x02\x01x",
        "wire type 6": b"\x0e\x01",
        "wire type 7": b"\x0f\x01",
        "a length beyond the end": b"\x0a\xff\xff\xff\xff\x0f",
        "a length of 2^63": b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
        "an end of a group": b"\x0c",
        "a group without end": b"\x0b\x08\x01",
        "ten thousand open groups": b"\x0b" * DEEP,
        "gzip inside gzip": gzip.compress(gzip.compress(b"x" * 100)),
        "noise": bytes(range(255, 0, -1)) * 9,
    }.items():
        yield Row(name=name, body=lambda _, junk=junk: junk, answer="INVALID_ARGUMENT")
    for name, junk in {
        "nothing": b"",
        "an empty group": b"\x0a\x00",
        "a thousand empty groups": b"\x0a\x00" * 1000,
        "an empty scope": group(),
        "unknown fields only": field(99, b"x" * 1000) + b"\xf8\x07\x01",
        "a group that is torn": field(1, b"\x12\x7f"),
        "a scope that is torn": field(1, field(2, b"\x12\x7f")),
        "an empty span": group(b""),
    }.items():
        lost = int("torn" in name or "span" in name)
        yield Row(name=name, body=lambda _, junk=junk: junk, rejected=lost, neighbours=False)
    yield from id_rows()
    yield from text_rows()
    yield from large_rows()
    yield from value_rows()
    yield from time_rows()
    yield from tree_rows()


def id_rows():
    """Items without usable ids: left out, counted, their neighbours kept."""
    for name, trace_id, span_id in (
        ("no ids", None, None),
        ("no trace id", None, b"s" * 8),
        ("no span id", b"t" * 16, None),
        ("ids of zeros", bytes(16), bytes(8)),
        ("a span id of zeros", b"t" * 16, bytes(8)),
        ("a trace id of 15 bytes", b"t" * 15, b"s" * 8),
        ("a span id of 9 bytes", b"t" * 16, b"s" * 9),
        ("ids in hex", b"74" * 16, b"73" * 8),
        ("ids in base64", b"dHR0dHR0dHR0dHR0dHR0dA==", b"c3Nzc3Nzc3M="),
        ("a megabyte of trace id", b"t" * MB, b"s" * 8),
    ):
        item = (field(1, trace_id) if trace_id is not None else b"") + (
            field(2, span_id) if span_id is not None else b""
        )
        yield Row(
            name=name, body=lambda trace, item=item: batch(trace, item), rejected=1, kept=False
        )
    torn = lambda trace: batch(trace, ids(trace, 2)[:-3])  # noqa: E731
    yield Row(name="a torn span", body=torn, rejected=1, kept=False)


def text_rows():
    """Text that is no UTF-8, wherever text may stand: nothing is lost but the bytes."""
    bad = b"a\xff\xfe\x80b"
    yield Row(name="bad UTF-8 in a name", body=span(field(5, bad)))
    yield Row(name="bad UTF-8 in a key", body=span(field(9, attribute(bad, text(b"v")))))
    yield Row(name="bad UTF-8 in a value", body=span(field(9, attribute(b"k", text(bad)))))
    yield Row(name="bad UTF-8 in a status", body=span(field(15, field(2, bad))))
    yield Row(name="bad UTF-8 in an event", body=span(field(11, field(2, bad))))
    yield Row(name="bad UTF-8 in a trace state", body=span(field(3, bad)))
    inner = field(5, field(1, text(bad)))
    yield Row(name="bad UTF-8 in a list", body=span(field(9, attribute(b"k", inner))))
    own = field(1, attribute(b"service.name", text(bad)))
    yield Row(name="bad UTF-8 in a resource", body=lambda t: batch(t, ids(t, 2), resource=own))
    yield Row(name="bad UTF-8 in a scope", body=lambda t: batch(t, ids(t, 2), scope=field(1, bad)))
    yield Row(name="NUL and control characters", body=span(field(5, bytes(range(32)))))
    yield Row(name="a torn attribute", body=span(field(9, b"\x0a\x7f")))
    yield Row(name="a torn event", body=span(field(11, b"\x12\x7f")))
    yield Row(name="a torn status", body=span(field(15, b"\x12\x7f")))


def large_rows():
    """What would take memory by what it says, or by how it is written."""
    for number, kind in ((5, "lists"), (6, "objects")):
        deep = attribute(b"k", nested(number))
        yield Row(name=f"ten thousand {kind} deep", body=span(field(9, deep)))
        yield Row(name=f"{kind} deep in an event", body=span(field(11, field(3, deep))))
        yield Row(name=f"{kind} deep in a link", body=span(field(13, field(4, deep))))
        yield Row(
            name=f"{kind} deep in a resource",
            body=lambda t, deep=deep: batch(t, ids(t, 2), resource=field(1, deep)),
        )
    yield Row(name="a million attributes", body=lambda t: span(many(9))(t))
    yield Row(name="a million empty attributes", body=lambda t: span(b"\x4a\x00" * MANY)(t))
    yield Row(name="a million empty events", body=lambda t: span(b"\x5a\x00" * MANY)(t))
    yield Row(name="a million empty links", body=lambda t: span(b"\x6a\x00" * MANY)(t))
    yield Row(
        name="a million attributes of an event",
        body=lambda t: span(field(11, many(3)))(t),
    )
    yield Row(
        name="a million attributes of a resource",
        body=lambda t: batch(t, ids(t, 2), resource=many(1)),
    )
    for number, inner in ((5, b"\x0a\x00"), (6, b"\x0a\x00")):
        value = field(number, inner * (9 * MB // 2))
        yield Row(
            name=f"nine megabytes of empty values ({number})",
            body=lambda t, value=value: span(field(9, attribute(b"k", value)))(t),
        )
    yield Row(name="a name of ten megabytes", body=lambda t: span(field(5, b"n" * 10 * MB))(t))
    long = lambda t: span(field(9, attribute(b"k", text(b"v" * 15 * MB))))(t)  # noqa: E731
    yield Row(name="a value of fifteen megabytes", body=long)
    key = lambda t: span(field(9, attribute(b"k" * 5 * MB, text(b"v"))))(t)  # noqa: E731
    yield Row(name="a key of five megabytes", body=key)
    hundred = b"".join(field(9, attribute(b"%d" % n, text(b"v" * 150_000))) for n in range(100))
    yield Row(name="a hundred values of 150 KB", body=lambda t: span(hundred)(t))
    for name, body in (
        ("nine million empty spans", field(1, field(2, b"\x12\x00" * 9 * MB))),
        ("nine million empty groups", b"\x0a\x00" * 9 * MB),
        ("nine million empty scopes", field(1, b"\x12\x00" * 9 * MB)),
        ("sixty thousand spans", group(*[ids(b"m" * 16, n + 1) for n in range(60_000)])),
    ):
        yield Row(name=name, body=lambda _, body=body: body, answer="INVALID_ARGUMENT", http=413)


def value_rows():
    """Values that are valid and odd."""
    nan = encoded(4 << 3 | 1)
    for name, double in (("NaN", "nan"), ("infinity", "inf"), ("minus infinity", "-inf")):
        value = nan + struct.pack("<d", float(double))
        yield Row(name=name, body=span(field(9, attribute(b"k", value))))
    yield Row(name="a value of no kind", body=span(field(9, attribute(b"k", b""))))
    yield Row(
        name="an integer of -2^63",
        body=span(field(9, attribute(b"k", b"\x18" + b"\x80" * 9 + b"\x01"))),
    )
    yield Row(
        name="bytes of every kind",
        body=span(field(9, attribute(b"k", field(7, bytes(range(256)))))),
    )
    yield Row(
        name="a thousand times one key", body=span(field(9, attribute(b"k", text(b"v"))) * 1000)
    )
    for index in ("2147483648", "9223372036854775807", "-1", "1" * 1000, "1e9", "٣", "", "0x10"):
        key = f"llm.input_messages.{index}.message.content".encode()
        inner = field(9, attribute(key, text(b"v")))
        yield Row(name=f"flattened index {index[:20]!r}", body=span(inner))
    sparse = b"".join(
        field(9, attribute(f"gen_ai.prompt.{n * 7_000_001}.content".encode(), text(b"v")))
        for n in range(2000)
    )
    yield Row(name="two thousand sparse indexes", body=span(sparse))
    for name, junk in (
        ("JSON that nests", b"[" * 100_000),
        ("JSON of a bomb", b'{"a":' * 50_000 + b"1" + b"}" * 50_000),
        ("JSON of long numbers", b"[" + b"9" * 500_000 + b"]"),
        ("Python that nests", b"(" * 50_000),
    ):
        key = field(9, attribute(b"gen_ai.input.messages", text(junk)))
        kind = field(9, attribute(b"gen_ai.operation.name", text(b"chat")))
        yield Row(name=name + " in a message", body=span(key + kind))


def time_rows():
    """Clocks that are wrong."""
    now = 1_760_000_000_000_000_000
    for name, start, end in (
        ("no times", 0, 0),
        ("the year 1970", 1, 2),
        ("the year 2262", 2**63 - 2, 2**63 - 1),
        ("2^63", 2**63, 2**63 + 1),
        ("2^64 - 1", 2**64 - 1, 2**64 - 1),
        ("an end before the start", now, now - 5_000_000_000),
        ("an end in 1970", now, 1),
        ("milliseconds", now // 10**6, now // 10**6 + 5),
    ):
        yield Row(name=f"times: {name}", body=span(fixed(7, start) + fixed(8, end)))


def tree_rows():
    """Spans that do not make a tree."""
    yield Row(name="its own parent", body=lambda t: batch(t, ids(t, 2, 2)))
    yield Row(
        name="two parents of each other",
        body=lambda t: group(
            sound(t, 1, b"invoke_agent"), ids(t, 2, 4), ids(t, 4, 2), sound(t, 3, b"chat")
        ),
    )
    yield Row(name="the same span twice", body=lambda t: batch(t, ids(t, 2, 1)) * 2)
    yield Row(
        name="one id for a thousand spans",
        body=lambda t: group(
            sound(t, 1, b"invoke_agent"),
            *[ids(t, 2, 1) + field(5, b"n%d" % n) for n in range(1000)],
            sound(t, 3, b"chat"),
        ),
    )
    yield Row(
        name="a chain of two thousand",
        body=lambda t: group(
            sound(t, 1, b"invoke_agent"),
            *[ids(t, n, n - 1) for n in range(4, 2004)],
            ids(t, 2, 1),
            sound(t, 3, b"chat"),
        ),
    )
    yield Row(
        name="a kind and a status of 2^31 - 1",
        body=span(b"\x30\xff\xff\xff\xff\x07", field(15, b"\x18\xff\xff\xff\xff\x07")),
    )
    yield Row(name="dropped counts of 2^32 - 1", body=span(b"\x50\xff\xff\xff\xff\x0f"))
    loop = field(1, b"t" * 16) + field(2, b"s" * 8)
    yield Row(name="links to everywhere", body=span(field(13, loop) * 500))
    yield Row(name="links to nowhere", body=span(field(13, b"") * 500))


def logs_rows():
    """Log records as hostile as the spans."""
    where = field(9, b"t" * 16) + field(10, b"s" * 8)
    for name, item in {
        "an empty record": b"",
        "a record nine thousand deep": where + field(5, nested(5, 9000)),
        "a record with bad UTF-8": where + field(5, text(b"\xff\xfe")),
        "a record of ten megabytes": where + field(5, text(b"x" * 10 * MB)),
        "a record with half an id": field(9, b"t" * 7),
        "a record of 2^64 - 1": fixed(1, 2**64 - 1) + where,
    }.items():
        yield Row(name=name, signal="logs", body=lambda _, i=item: group(i), neighbours=False)
    yield Row(
        name="a torn record",
        signal="logs",
        body=lambda _: group(where[:-3]),
        rejected=1,
        neighbours=False,
    )
    yield Row(
        name="a million attributes of a record",
        signal="logs",
        body=lambda _: group(where + many(6)),
        neighbours=False,
    )
    yield Row(
        name="metrics of nine million empty points",
        signal="metrics",
        body=lambda _: field(1, field(2, field(2, field(5, b"\x0a\x00" * 9 * MB)))),
        answer="INVALID_ARGUMENT",
        http=413,
    )
    yield Row(
        name="metrics that are no metrics",
        signal="metrics",
        body=lambda _: b"hello",
        answer="INVALID_ARGUMENT",
    )


def json_span(trace, number, fields="", parent=1):
    """Span as JSON text; ``fields`` is more of it, from its comma on."""
    kind = {1: "invoke_agent", 3: "chat"}.get(number, "x")
    made = {
        "traceId": trace.hex(), "spanId": f"{number:016x}", "name": kind,
        "startTimeUnixNano": "1760000000000000000",
    }  # fmt: skip
    if number != 1:
        made["parentSpanId"] = f"{parent:016x}"
    if number in (1, 3):
        made["attributes"] = [{"key": "gen_ai.operation.name", "value": {"stringValue": kind}}]
    return json.dumps(made)[:-1] + fields + "}"


def json_batch(trace, item):
    """The hostile item between its neighbours, as JSON text."""
    spans = ",".join((json_span(trace, 1), item, json_span(trace, 3)))
    return ('{"resourceSpans":[{"scopeSpans":[{"spans":[' + spans + "]}]}]}").encode(
        "utf-8", "surrogatepass"
    )


def json_rows():
    """The JSON encoding, which has its own ways to be wrong."""

    def row(name, body, **more):
        more.setdefault("neighbours", False)
        return Row(name=f"JSON: {name}", body=body, wires=("http",), type_=JSON, **more)

    def item(name, text_of, **more):
        body = lambda trace: json_batch(trace, text_of(trace))  # noqa: E731
        return row(name, body, neighbours=True, **more)

    def fields(name, more):
        return item(name, lambda trace: json_span(trace, 2, more))

    for name, junk in {
        "nothing": b"",
        "null": b"null",
        "a list": b"[]",
        "a number": b"7",
        "a text": b'"x"',
        "cut off": b'{"resourceSpans":[{"scopeSp',
        "half a text": b'{"resourceSpans":"',
        "spans that are a number": b'{"resourceSpans":[{"scopeSpans":[{"spans":5}]}]}',
        "groups that are an object": b'{"resourceSpans":{}}',
        "UTF-16": '{"resourceSpans":[]}'.encode("utf-16"),
        "protobuf": span()(b"t" * 16),
        "a hundred thousand brackets": b"[" * 100_000,
        "two values": b"{} {}",
    }.items():
        yield row(name, lambda _, junk=junk: junk, answer="INVALID_ARGUMENT")
    for name, junk in {
        "an empty object": b"{}",
        "empty lists": b'{"resourceSpans":[{"scopeSpans":[{"spans":[]}]}]}',
        "nulls": b'{"resourceSpans":[{"resource":null,"scopeSpans":null}, null]}',
        "names of the original": b'{"resource_spans":[{"scope_spans":[{"spans":[]}]}]}',
    }.items():
        yield row(name, lambda _, junk=junk: junk)
    yield row(
        "six hundred thousand objects",
        lambda _: b'{"resourceSpans":[' + b"{}," * 600_000 + b"{}]}",
        answer="INVALID_ARGUMENT",
        http=413,
    )
    yield row(
        "four million numbers",
        lambda _: b'{"resourceSpans":[{"scopeSpans":[{"spans":[' + b"1," * 4 * MB + b"1]}]}]}",
        answer="INVALID_ARGUMENT",
        http=413,
    )
    for name, junk in (
        ("null", "null"), ("a number", "7"), ("a list", "[]"), ("a text", '"span"'),
        ("an object without ids", "{}"),
        ("base64 ids", '{"traceId":"dHR0dHR0dHR0dHR0dHR0dA==","spanId":"c3Nzc3Nzc3M="}'),
        ("ids that are numbers", '{"traceId":1,"spanId":2}'),
        ("ids of other letters", '{"traceId":"' + "g" * 32 + '","spanId":"' + "g" * 16 + '"}'),
    ):  # fmt: skip
        yield item(f"an item that is {name}", lambda _, j=junk: j, rejected=1, kept=False)
    upper = lambda t: json_span(t, 2).replace(t.hex(), t.hex().upper())  # noqa: E731
    yield item("ids in capitals", upper)
    value = ',"attributes":[{"key":"k","value":%s}]'
    for name, inner in (
        ("NaN", '{"doubleValue":NaN}'),
        ("Infinity as text", '{"doubleValue":"Infinity"}'),
        ("null as a double", '{"doubleValue":null}'),
        ("1e400", '{"doubleValue":1e400}'),
        ("an integer of a thousand digits", '{"intValue":"' + "9" * 1000 + '"}'),
        ("an integer that is an object", '{"intValue":{"low":1,"high":2}}'),
        ("two kinds at once", '{"stringValue":"a","intValue":"1"}'),
        ("no kind", "{}"),
        ("an unknown kind", '{"whatValue":1}'),
        ("a lone surrogate", '{"stringValue":"\\ud800"}'),
        ("a NUL", '{"stringValue":"\\u0000"}'),
        ("ten thousand lists", '{"arrayValue":{"values":[' * DEEP + "]}}" * DEEP),
        ("a list that is a number", '{"arrayValue":5}'),
        ("a value that is a text", '"v"'),
    ):
        yield fields(f"a value of {name}", value % inner)
    yield fields("attributes that are an object", ',"attributes":{"k":"v"}')
    yield fields("attributes without keys", ',"attributes":[{"value":{"stringValue":"v"}}]')
    yield fields("keys twice", ',"name":"one","name":"two"')
    yield fields("times that are texts", ',"startTimeUnixNano":"soon","endTimeUnixNano":"later"')
    yield fields("times below zero", ',"startTimeUnixNano":-5,"endTimeUnixNano":"-6"')
    yield fields("times of 2^64", ',"startTimeUnixNano":"18446744073709551616"')
    yield fields(
        "a kind by name and a status by name",
        ',"kind":"SPAN_KIND_CLIENT","status":{"code":"STATUS_CODE_ERROR"}',
    )
    yield fields("events that are texts", ',"events":["e",null,7,{}]')
    yield fields("links that are texts", ',"links":["l",null,{}]')
    lots = ",".join(f'{{"key":"{n}","value":{{"intValue":"1"}}}}' for n in range(200_000))
    yield fields("two hundred thousand attributes", f',"attributes":[{lots}]')


def http_rows():
    """What only HTTP can do wrong."""
    sound_body = span()

    def row(name, body=sound_body, **more):
        return Row(name=name, body=body, wires=("http",), neighbours=False, **more)

    for type_ in (
        None,
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/grpc",
        ";;",
        "é",
    ):
        yield row(f"content type {type_!r}", type_=type_, answer="INVALID_ARGUMENT", http=415)
    for coding in ("br", "zip", "gzip, gzip", "compress", "*"):
        yield row(f"coding {coding!r}", coding=coding, answer="INVALID_ARGUMENT", http=415)
    yield row("gzip that is none", coding="gzip", answer="INVALID_ARGUMENT")
    packed = lambda t: gzip.compress(sound_body(t))  # noqa: E731
    yield row("gzip cut off", lambda t: packed(t)[:-9], coding="gzip", answer="INVALID_ARGUMENT")
    broken = lambda t: packed(t)[:-6] + b"abcdef"  # noqa: E731
    yield row("gzip with a wrong sum", broken, coding="gzip", answer="INVALID_ARGUMENT")
    tail = lambda t: packed(t) + b"tail"  # noqa: E731
    yield row("gzip with a tail", tail, coding="gzip", answer="INVALID_ARGUMENT")
    yield row("two members of gzip", lambda t: packed(t) + packed(t), coding="gzip")
    yield from zstd_rows(row, sound_body)
    for method in ("GET", "PUT", "DELETE", "PATCH", "OPTIONS"):
        yield row(f"method {method}", method=method, answer="UNIMPLEMENTED", http=405)
    for path in (
        "/",
        "/v1/spans",
        "/v1/traces/",
        "/v1/traces/../../etc/passwd",
        "//v1/traces",
        "/v2/traces",
    ):
        yield row(f"path {path}", path=path, answer="NOT_FOUND", http=404)
    bare = "POST /v1/traces HTTP/1.1\r\nHost: x\r\n"
    for name, raw in {
        "HTTP/2's preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "noise": bytes(range(256)) * 40,
        "a header of a megabyte": (bare + "X: " + "x" * MB + "\r\n\r\n").encode(),
        "ten thousand headers": (bare + "X: y\r\n" * DEEP + "\r\n").encode(),
        "two lengths": (bare + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd").encode(),
        "a length and chunks": (bare + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n").encode(),  # noqa: E501
        "a length below zero": (bare + "Content-Length: -1\r\n\r\n").encode(),
        "a chunk of 2^64": (bare + "Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nx").encode(),  # noqa: E501
        "half a request": bare.encode(),
    }.items():  # fmt: skip
        yield row(f"HTTP: {name}", raw=("http", raw))


def zstd_rows(row, sound_body):
    """zstd, which HTTP alone may carry: frames that are broken, and frames that say too much."""
    pack = zstandard.ZstdCompressor(write_checksum=True).compress
    head = b"\x28\xb5\x2f\xfd"  # RFC 8878 3.1.1: magic, then descriptor, window, blocks
    # A block header: last, type (0 raw, 1 one byte repeated), size; and one that says 128 KiB.
    last, long = b"\x01\x00\x00", b"\x02\x00\x10a"
    for name, body in {
        "zstd that is none": sound_body,
        "zstd cut off": lambda t: pack(sound_body(t))[:-9],
        "zstd cut off in its head": lambda t: pack(sound_body(t))[:5],
        "zstd with a wrong sum": lambda t: pack(sound_body(t))[:-4] + b"abcd",
        "zstd with a tail": lambda t: pack(sound_body(t)) + b"tail",
        "zstd of a hundred frames": lambda t: pack(sound_body(t)) + pack(b"") * 99,
        "zstd with a window of two gigabytes": lambda _: head + b"\x00\xa8" + last,
        "zstd with a window of nine megabytes": lambda _: head + b"\x00\x69" + last,
        "zstd of 2^60 bytes in one segment": lambda _: head + b"\xe0" + bytes(7) + b"\x10" + last,
        "zstd with a dictionary": lambda _: head + b"\x01\x58\x07" + last,
        "zstd to skip two gigabytes": lambda _: b"\x50\x2a\x4d\x18\x00\x00\x00\x80" + bytes(MB),
        "zstd of a million empty blocks": lambda _: head + b"\x00\x58" + bytes(3 * MANY),
        "zstd inside zstd": lambda t: pack(pack(sound_body(t))),
    }.items():
        yield row(name, body, coding="zstd", answer="INVALID_ARGUMENT")
    for name, body in {
        "a hundred megabytes of zeros in zstd": lambda _: pack(bytes(100 * MB)),
        "256 gigabytes in zstd": lambda _: head + b"\x00\x58" + long * (2 * MB),
        "111 megabytes in frames of zstd": lambda _: (head + b"\x00\x58" + long * 9 + last) * 99,
    }.items():
        yield row(name, body, coding="zstd", answer="INVALID_ARGUMENT", http=413)
    yield row("two frames of zstd", lambda t: pack(sound_body(t)) * 2, coding="zstd")


def grpc_rows():
    """What only gRPC can do wrong: HTTP/2 garbage on its port."""
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

    def frame(kind, payload=b"", flags=0, stream=0, length=None):
        size = len(payload) if length is None else length
        return size.to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload

    settings = frame(4)
    for name, raw in {
        "an HTTP/1.1 request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "a TLS hello": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(500),
        "noise": bytes(range(256)) * 40,
        "a preface and noise": preface + bytes(range(256)) * 40,
        "half a preface": preface[:10],
        "a frame of sixteen megabytes": preface + settings + frame(0, b"x" * 100, length=0xFFFFFF),
        "data on no stream": preface + settings + frame(0, b"x", stream=0),
        "data on a stream that is not open": preface + settings + frame(0, b"x", stream=99),
        "an unknown kind of frame": preface + settings + frame(200, b"x" * 100) * 100,
        "headers that are no HPACK": preface + settings + frame(1, b"\xff" * 200, 4, 1),
        "headers without end": preface + settings + frame(1, b"\x82", 0, 1) + frame(9, b"\x82" * 100, 0, 1) * 200,  # noqa: E501
        "ten thousand pings": preface + settings + frame(6, bytes(8)) * DEEP,
        "ten thousand settings": preface + frame(4, b"\x00\x04\x00\x00\xff\xff") * DEEP,
        "a window of 2^31": preface + settings + frame(8, b"\xff\xff\xff\xff"),
        "a thousand resets": preface + settings + b"".join(frame(1, b"\x82\x86\x84", 5, 2 * n + 1) + frame(3, bytes(4), stream=2 * n + 1) for n in range(1000)),  # noqa: E501
        "a goodbye at once": preface + settings + frame(7, bytes(8)),
        "settings with an impossible size": preface + frame(4, b"\x00\x05\x00\x00\x00\x01"),
    }.items():  # fmt: skip
        yield Row(name=f"HTTP/2: {name}", raw=("grpc", raw), neighbours=False)
    for path in ("/x/Export", "/opentelemetry.proto.collector.trace.v1.TraceService/Import", "/"):
        yield Row(
            name=f"method {path}", body=span(), path=path, answer="UNIMPLEMENTED",
            wires=("grpc",), neighbours=False,
        )  # fmt: skip


def shared_rows():
    """Credentials, sizes and bombs, on both wires."""
    for name, key, answer in (
        ("no key", None, "UNAUTHENTICATED"),
        ("a key that is none", "sk_agent_nonsense", "UNAUTHENTICATED"),
        ("another agent's key", "sk_agent_0123456789abcdef_" + "A" * 43, "UNAUTHENTICATED"),
        ("a reader's key", "reader", "PERMISSION_DENIED"),
        ("a key of a megabyte's length", "sk_agent_" + "A" * 4000, "UNAUTHENTICATED"),
    ):
        yield Row(name=name, body=span(), key=key, answer=answer, neighbours=False)
    for name, body in {
        "a hundred megabytes of zeros": lambda t: bytes(100 * MB),
        "a hundred megabytes of spans": lambda t: span()(t) * (100 * MB // len(span()(t))),
    }.items():
        for coding, pack in (
            ("gzip", lambda raw: gzip.compress(raw, 1)),
            ("deflate", lambda raw: zlib.compress(raw, 1)),
        ):
            yield Row(
                name=f"{name} in {coding}",
                body=lambda t, body=body, pack=pack: pack(body(t)),
                coding=coding,
                answer="INVALID_ARGUMENT",
                http=413,
                neighbours=False,
            )
    yield Row(
        name="twenty-one megabytes",
        body=lambda _: bytes(21 * MB),
        answer="RESOURCE_EXHAUSTED",
        http=413,
        neighbours=False,
    )


def rows():
    """All of them."""
    for part in (protobuf_rows, logs_rows, json_rows, http_rows, grpc_rows, shared_rows):
        yield from part()


STATUSES = {
    OK: 200, "INVALID_ARGUMENT": 400, "UNAUTHENTICATED": 401, "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404, "UNIMPLEMENTED": 405, "RESOURCE_EXHAUSTED": 413,
}  # fmt: skip
