"""httpx, requests, urllib3, urllib and aiohttp: what they get is recorded, and got again."""

import asyncio
import http.client
import io
import json
import urllib.error
import urllib.request

import aiohttp
import httpx
import pytest
import requests
import urllib3
from model_rig import CUT, Hold, ModelServer, Reply, chat, chat_stream, sse
from wires_rig import Twice, events, twice

from sidecar.capture.exchange import is_secret

JSON = {"city": "Oslo", "degrees": 7.0, "rain": [1, 2.50, True, None], "Zürich": "é"}
PRETTY = Reply(json.dumps(JSON, indent=2) + "\n")


def by_httpx(server):
    with httpx.Client(base_url=server.url) as client:
        found = client.get("/weather", params={"q": "Oslo"})
        posted = client.post("/orders", json={"n": 1})
    return found.text, found.json(), found.status_code, posted.text, dict(found.headers)["x-a"]


async def by_httpx_async(server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        found = await client.get("/weather", params={"q": "Oslo"})
        posted = await client.post("/orders", json={"n": 1})
    return found.text, found.json(), found.status_code, posted.text, found.headers["x-a"]


def by_requests(server):
    with requests.Session() as session:
        found = session.get(f"{server.url}/weather", params={"q": "Oslo"})
        posted = session.post(f"{server.url}/orders", json={"n": 1})
    return found.text, found.json(), found.status_code, posted.text, found.headers["x-a"]


def by_urllib3(server):
    with urllib3.PoolManager() as pool:
        found = pool.request("GET", f"{server.url}/weather", fields={"q": "Oslo"})
        posted = pool.request("POST", f"{server.url}/orders", json={"n": 1})
    text = found.data.decode()
    return text, json.loads(text), found.status, posted.data.decode(), found.headers["x-a"]


def by_urllib(server):
    with urllib.request.urlopen(f"{server.url}/weather?q=Oslo") as answer:
        text, status, header = answer.read().decode(), answer.status, answer.headers["x-a"]
    headers = {"Content-Type": "application/json"}
    asked = urllib.request.Request(f"{server.url}/orders", b'{"n": 1}', headers)
    with urllib.request.urlopen(asked) as answer:
        posted = answer.read().decode()
    return text, json.loads(text), status, posted, header


def by_http_client(server):
    connection = http.client.HTTPConnection(server.url.removeprefix("http://"))
    connection.request("GET", "/weather?q=Oslo")
    answer = connection.getresponse()
    text, status, header = answer.read().decode(), answer.status, answer.getheader("x-a")
    connection.request("POST", "/orders", '{"n": 1}', {"content-type": "application/json"})
    posted = connection.getresponse().read().decode()
    connection.close()
    return text, json.loads(text), status, posted, header


async def by_aiohttp(server):
    async with aiohttp.ClientSession(server.url) as session:
        async with session.get("/weather", params={"q": "Oslo"}) as found:
            text, status, header = await found.text(), found.status, found.headers["x-a"]
        async with session.post("/orders", json={"n": 1}) as answer:
            posted = await answer.text()
    return text, json.loads(text), status, posted, header


CLIENTS = (
    by_httpx,
    by_httpx_async,
    by_requests,
    by_urllib3,
    by_urllib,
    by_http_client,
    by_aiohttp,
)


DECODING = [agent for agent in CLIENTS if agent not in (by_urllib, by_http_client)]


@pytest.mark.parametrize(
    ("agent", "gzipped"),
    [
        *((one, False) for one in CLIENTS),
        *(pytest.param(one, True, marks=pytest.mark.full) for one in DECODING),
    ],
)
@pytest.mark.requirement("TAP-02")
def test_an_exchange_is_a_call_and_its_result_and_comes_back_to_the_letter(
    tmp_path, agent, gzipped
):
    weather = Reply(PRETTY.body, headers={"x-a": "1"}, gzipped=gzipped)
    routes = [("GET", "/weather", weather), ("POST", "/orders", Reply({"id": 5}, status=201))]
    run = twice(tmp_path, agent, routes=routes)
    first, second = events(run.tape, "tool_call")
    assert first.seam == second.seam == "http"
    asked = run.tape.payload(first, "in")
    assert (asked["method"], asked["query"], asked["body"]) == ("GET", {"q": ["Oslo"]}, None)
    assert asked["url"] == f"{run.server.url}/weather"
    assert run.tape.payload(second, "in")["body"] == {"n": 1}
    result, made = events(run.tape, "tool_result")
    assert result.cause == (first.seq,)
    given = run.tape.payload(result, "out")
    assert (given["status"], given["headers"]["x-a"]) == (200, "1")
    assert given["body"] == JSON
    assert run.tape.payload(made, "out")["status"] == 201
    text, value, status, posted, header = run.same()
    assert (text, value, status, posted, header) == (PRETTY.body, JSON, 200, '{"id": 5}', "1")


@pytest.mark.full
def test_bytes_that_a_client_leaves_encoded_are_encoded_again(tmp_path):
    def agent(server):
        import gzip

        with urllib.request.urlopen(f"{server.url}/weather") as answer:
            return gzip.decompress(answer.read()), answer.headers["content-encoding"]

    run = twice(tmp_path, agent, Reply(PRETTY.body, gzipped=True))
    (result,) = events(run.tape, "tool_result")
    assert run.tape.payload(result, "out")["body"] == JSON
    assert run.same() == (PRETTY.body.encode(), "gzip")


SECRETS = {
    "Authorization": "Bearer abcdefghijklmnop",
    "X-Goog-Api-Key": "AIzaSecretSecret",
    "Cookie": "session=abcdefghijkl",
    "X-Auth-Token": "tokentoken",
}


def with_secrets(server):
    url = server.url.replace("http://", "http://user:hunter22hunter@")
    found = requests.get(f"{url}/weather?api_key=querysecret1&q=1", headers=SECRETS)
    return dict(found.cookies), found.headers["x-session-token"] is not None


def test_credentials_and_cookies_are_never_on_a_tape_even_in_full(tmp_path):
    headers = {"set-cookie": "sid=topsecretcookie; Path=/; HttpOnly", "x-session-token": "hidden1"}
    run = twice(tmp_path, with_secrets, Reply({"ok": True}, headers=headers))
    text = run.path.read_bytes()
    for secret in (*SECRETS.values(), "hunter22", "querysecret1", "topsecretcookie", "hidden1"):
        assert secret.removeprefix("Bearer ").encode() not in text, secret
    session = run.replay()
    assert session.drift is None
    assert run.seen == [({"sid": "topsecretcookie"}, True), ({"sid": "[secret]"}, True)]


def errors_of(kind):
    """What an agent is told when nobody answers, and when the server hangs up."""

    def httpx_(server):
        for path in ("/down", "/cut"):
            try:
                httpx.get(_to(server, path))
            except httpx.TransportError as error:
                yield type(error).__name__, str(error), str(error.request.url)

    def requests_(server):
        for path in ("/down", "/cut"):
            try:
                requests.get(_to(server, path))
            except requests.RequestException as error:
                yield type(error).__name__, str(error)

    def urllib_(server):
        for path in ("/down", "/cut"):
            try:
                urllib.request.urlopen(_to(server, path))
            except (urllib.error.URLError, http.client.HTTPException) as error:
                yield type(error).__name__, str(error)

    return {"httpx": httpx_, "requests": requests_, "urllib": urllib_}[kind]


def _to(server, path):
    return f"http://127.0.0.1:1{path}" if path == "/down" else f"{server.url}{path}"


@pytest.mark.parametrize("kind", ["httpx", "requests", "urllib"])
def test_connections_that_fail_raise_what_they_raised(tmp_path, kind):
    agent = errors_of(kind)
    run = twice(
        tmp_path, lambda server: list(agent(server)), routes=[("GET", "/cut", Reply(parts=[CUT]))]
    )
    assert [event.st for event in events(run.tape, "tool_result")] == ["error", "error"]
    assert len(run.same()) == 2


async def aiohttp_errors(server):
    told = []
    async with aiohttp.ClientSession() as session:
        for path in ("/down", "/cut"):
            try:
                await session.post(_to(server, path), data=b"x")
            except aiohttp.ClientError as error:
                told.append((type(error).__name__, str(error)))
    return told


def test_connections_of_aiohttp_that_fail_raise_what_they_raised(tmp_path):
    run = twice(tmp_path, aiohttp_errors, routes=[("POST", "/cut", Reply(parts=[CUT]))])
    names = [name for name, _ in run.same()]
    assert names == ["ClientConnectorError", "ServerDisconnectedError"]


BROKEN = sse({"n": 1}, {"n": 2}, holds={2: CUT})


def broken_httpx(server):
    got = []
    try:
        with httpx.stream("GET", f"{server.url}/events") as answer:
            got += answer.iter_lines()
    except httpx.RemoteProtocolError as error:
        return got, str(error)


def broken_requests(server):
    got = []
    try:
        with requests.get(f"{server.url}/events", stream=True) as answer:
            got += answer.iter_lines()
    except requests.exceptions.ChunkedEncodingError as error:
        return got, str(error)


async def broken_aiohttp(server):
    got = []
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/events") as answer:
        try:
            async for line in answer.content:
                got.append(line)
        except aiohttp.ClientPayloadError as error:
            return got, str(error)


@pytest.mark.full
@pytest.mark.parametrize("agent", [broken_httpx, broken_requests, broken_aiohttp])
def test_a_stream_that_breaks_off_breaks_off_again_after_the_same_pieces(tmp_path, agent):
    run = twice(tmp_path, agent, routes=[("GET", "/events", BROKEN)])
    (result,) = events(run.tape, "tool_result")
    assert result.st == "error"
    assert len(result.chunks) == 2
    got, text = run.same()
    assert len(got) == 4
    assert text


def slow_httpx(server):
    try:
        httpx.get(f"{server.url}/slow", timeout=0.05)
    except httpx.ReadTimeout as error:
        return str(error)


def slow_requests(server):
    try:
        requests.get(f"{server.url}/slow", timeout=0.05)
    except requests.ReadTimeout as error:
        return str(error).partition(",")[0]


@pytest.mark.full
@pytest.mark.parametrize("agent", [slow_httpx, slow_requests])
def test_a_timeout_is_one_again_without_the_wait(tmp_path, agent):
    hold = Hold()
    with ModelServer() as server:
        run = Twice(tmp_path, agent)
        server.on("GET", "/slow", Reply(parts=[hold, b"late"]))
        run.record(server)
        hold.go()
    assert run.same()


def first_then_let_go(read):
    """An agent that lets the server go on only once it has the first piece."""

    def agent(server):
        pieces = []
        for piece in read(server):
            pieces.append(piece)
            server.hold.go()
        return pieces

    return agent


def stream_httpx(server):
    with httpx.stream("GET", f"{server.url}/events") as answer:
        yield from answer.iter_lines()


def stream_requests(server):
    with requests.get(f"{server.url}/events", stream=True) as answer:
        yield from answer.iter_lines(chunk_size=4096)


def stream_urllib(server):
    with urllib.request.urlopen(f"{server.url}/events") as answer:
        yield from answer


@pytest.mark.parametrize("read", [stream_httpx, stream_requests, stream_urllib])
@pytest.mark.row("R6")
def test_a_piece_is_passed_on_before_the_next_one_is_sent(tmp_path, read):
    run = Twice(tmp_path, first_then_let_go(read))
    with ModelServer() as server:
        server.hold = Hold()
        server.on("GET", "/events", sse({"n": 1}, {"n": 2}, holds={1: server.hold}))
        run.record(server)  # would not end if the first piece waited for the second
    (result,) = events(run.tape, "tool_result")
    assert [run.tape.blob(piece) for piece in result.chunks] == [
        {"data": '{"n":1}'},
        {"data": '{"n":2}'},
    ]
    assert len(run.same()) == 4


async def stream_aiohttp(server):
    pieces = []
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/events") as answer:
        async for piece in answer.content.iter_any():
            pieces.append(piece)
            server.hold.go()
    return pieces


def test_a_piece_is_passed_on_by_aiohttp_before_the_next_one_is_sent(tmp_path):
    run = Twice(tmp_path, stream_aiohttp)
    with ModelServer() as server:
        server.hold = Hold()
        server.on("GET", "/events", sse({"n": 1}, {"n": 2}, holds={1: server.hold}))
        run.record(server)
    assert run.same() == [b'data: {"n":1}\n\n', b'data: {"n":2}\n\n']


def stops_early(server, count=1):
    with httpx.stream("GET", f"{server.url}/events") as answer:
        lines = answer.iter_lines()
        return [next(lines) for _ in range(count)]


@pytest.mark.full
def test_who_stopped_reading_may_stop_there_again_and_not_read_on(tmp_path):
    hold = Hold()
    with ModelServer() as server:
        run = Twice(tmp_path, stops_early)
        server.on("GET", "/events", sse({"n": 1}, {"n": 2}, holds={1: hold}))
        run.record(server)
        hold.go()
    (result,) = events(run.tape, "tool_result")
    assert (result.st, len(result.chunks)) == ("cancelled", 1)
    assert run.same() == ['data: {"n":1}']
    further = run.replay(lambda server: stops_early(server, count=3))
    assert further.drift.kind == "EXTRA_CALL"
    assert "more of the answer" in further.drift.reason


def forms(server, boundary=None, change=""):
    url = f"{server.url}/up"
    requests.post(url, data={"q": "a" + change, "password": "hunter22"})
    requests.post(url, files={"f": ("a.txt", io.BytesIO(b"text" + change.encode()))})
    httpx.post(url, files={"f": ("b.bin", b"\x00\xff")}, data={"n": "1"})
    httpx.post(url, content=iter([b"by ", b"parts"]))
    return "done"


@pytest.mark.full
def test_forms_are_taken_apart_and_boundaries_are_no_content(tmp_path):
    run = twice(tmp_path, forms, routes=[("POST", "/up", Reply({}))], capture="redacted")
    bodies = [run.tape.payload(event, "in")["body"] for event in events(run.tape, "tool_call")]
    assert bodies[0] == {"form": {"q": ["a"], "password": ["[secret]"]}}
    assert bodies[1] == {"multipart": [{"filename": "a.txt", "field": {"f": "text"}}]}
    assert bodies[2]["multipart"][0] == {"field": {"n": "1"}}
    file = bodies[2]["multipart"][1]
    assert file["field"] == {"f": {"$b64": "AP8="}}
    assert bodies[3] == "by parts"
    assert run.server.asked[3].body == b"by parts"
    assert run.same() == "done"
    assert run.replay(lambda server: forms(server, change="b")).drift.kind == "ARGS"


async def uploads(server):
    async def parts():
        yield b"by "
        yield b"parts"

    async with aiohttp.ClientSession(server.url) as session:
        async with session.post("/up", data=parts()):
            pass
        form = aiohttp.FormData({"n": "1"})
        form.add_field("f", io.BytesIO(b"text"), filename="a.txt")
        async with session.post("/up", data=form) as answer:
            await answer.read()
    return "done"


@pytest.mark.full
def test_aiohttp_sends_what_was_recorded_of_a_body_that_can_be_read_once(tmp_path):
    run = twice(tmp_path, uploads, routes=[("POST", "/up", Reply({}))])
    assert run.server.asked[0].body == b"by parts"
    assert b'filename="a.txt"' in run.server.asked[1].body
    bodies = [run.tape.payload(event, "in")["body"] for event in events(run.tape, "tool_call")]
    assert bodies[0] == "by parts"
    assert [part["field"] for part in bodies[1]["multipart"]] == [{"n": "1"}, {"f": "text"}]
    assert run.same() == "done"


def leaves_open(server):
    return httpx.Client().stream("GET", f"{server.url}/a").__enter__().status_code


@pytest.mark.full
def test_an_answer_that_is_never_read_or_closed_is_on_the_tape_by_its_end(tmp_path):
    run = twice(tmp_path, leaves_open, routes=[("GET", "/a", Reply({"a": 1}))])
    (result,) = events(run.tape, "tool_result")
    assert run.tape.payload(result, "out")["status"] == 200
    assert run.same() == 200
    read = run.replay(lambda server: httpx.get(f"{server.url}/a").json())
    assert read.drift.kind == "EXTRA_CALL"


def redirected(server):
    found = httpx.get(f"{server.url}/old", follow_redirects=True)
    other = requests.get(f"{server.url}/old")
    return found.json(), other.json(), len(found.history), len(other.history)


@pytest.mark.full
def test_a_redirect_is_an_exchange_of_its_own(tmp_path):
    moved = Reply(None, status=302, headers={"location": "/new"})
    routes = [("GET", "/old", moved), ("GET", "/new", Reply({"here": 1}))]
    run = twice(tmp_path, redirected, routes=routes)
    assert len(events(run.tape, "tool_call")) == 4
    assert run.same() == ({"here": 1}, {"here": 1}, 1, 1)


def heads(server):
    head = requests.head(f"{server.url}/thing")
    gone = httpx.delete(f"{server.url}/thing")
    return head.status_code, head.text, head.headers["content-length"], gone.status_code, gone.text


@pytest.mark.full
def test_answers_without_a_body(tmp_path):
    routes = [
        ("HEAD", "/thing", Reply("0123456789")),
        ("DELETE", "/thing", Reply(None, status=204)),
    ]
    run = twice(tmp_path, heads, routes=routes)
    assert run.same() == (200, "", "10", 204, "")


def text_and_bytes(server):
    text = requests.get(f"{server.url}/text")
    data = httpx.get(f"{server.url}/data")
    return text.text, text.encoding, data.content


@pytest.mark.full
def test_text_and_bytes_come_back_as_they_are(tmp_path):
    latin = Reply("é".encode("latin-1"), headers={"content-type": "text/plain; charset=latin-1"})
    png = Reply(b"\x89PNG\r\n\x1a\n\x00", headers={"content-type": "image/png"})
    run = twice(tmp_path, text_and_bytes, routes=[("GET", "/text", latin), ("GET", "/data", png)])
    assert run.same() == ("é", "latin-1", b"\x89PNG\r\n\x1a\n\x00")


def models_by(post):
    def agent(server):
        asked = {"model": "m", "messages": [{"role": "user", "content": "hello"}]}
        return post(f"{server.openai}/chat/completions", asked)

    return agent


@pytest.mark.full
@pytest.mark.parametrize(
    "post",
    [
        lambda url, asked: requests.post(url, json=asked).json(),
        lambda url, asked: httpx.post(url, json=asked).json(),
        lambda url, asked: json.loads(
            urllib.request.urlopen(urllib.request.Request(url, json.dumps(asked).encode())).read()
        ),
    ],
)
@pytest.mark.requirement("SDK-02")
def test_a_models_endpoint_asked_by_any_client_is_a_models_call(tmp_path, post):
    run = twice(tmp_path, models_by(post), chat("hello"))
    (event,) = events(run.tape, "llm_call")
    assert (event.seam, event.name) == ("provider", "m")
    assert run.same()["choices"][0]["message"]["content"] == "hello"


@pytest.mark.full
def test_a_models_stream_by_requests_is_kept_by_its_events(tmp_path):
    def agent(server):
        asked = {"model": "m", "stream": True, "messages": []}
        with requests.post(f"{server.openai}/chat/completions", json=asked, stream=True) as answer:
            return list(answer.iter_lines())

    run = twice(tmp_path, agent, chat_stream("a", "b"))
    (event,) = events(run.tape, "llm_call")
    assert len(event.chunks) == 6
    assert run.tape.payload(event, "out")["choices"][0]["message"]["content"] == "ab"
    assert len(run.same()) == 12


def overlapping(server):
    with httpx.Client(base_url=server.url) as client:
        first, second = (
            client.send(client.build_request("GET", f"/n/{n}"), stream=True) for n in (1, 2)
        )
        return [json.loads(one.read()) for one in (first, second)]


def test_answers_that_overlap_in_one_line_of_execution_are_each_their_calls(tmp_path):
    routes = [("GET", f"/n/{n}", Reply({"n": n})) for n in (1, 2)]
    run = twice(tmp_path, overlapping, routes=routes)
    assert run.same() == [{"n": 1}, {"n": 2}]


async def in_parallel(server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        found = await asyncio.gather(*(client.get(f"/n/{n}") for n in range(4)))
    return [one.json() for one in found]


@pytest.mark.row("R14", "R20")
def test_exchanges_at_the_same_time_each_get_their_own_answer(tmp_path):
    routes = [("GET", f"/n/{n}", Reply({"n": n})) for n in range(4)]
    run = twice(tmp_path, in_parallel, routes=routes)
    session = run.replay()
    assert session.drift is None
    assert run.seen[1] == run.seen[0] == [{"n": n} for n in range(4)]


async def overlapping_async(server):
    async with httpx.AsyncClient(base_url=server.url) as client:
        found = []
        for n in (1, 2):
            request = client.build_request("GET", f"/n/{n}")
            found.append(await client.send(request, stream=True))
        texts = [json.loads(await one.aread()) for one in found]
    session = aiohttp.ClientSession(server.url)
    async with session, session.get("/n/1") as first, session.get("/n/2") as second:
        return texts, await second.json(), await first.json()


@pytest.mark.full
@pytest.mark.row("R1", "R14")
def test_the_same_of_one_task(tmp_path):
    routes = [("GET", f"/n/{n}", Reply({"n": n})) for n in (1, 2)]
    run = twice(tmp_path, overlapping_async, routes=routes)
    assert run.same() == ([{"n": 1}, {"n": 2}], {"n": 2}, {"n": 1})


TELEMETRY = """
import http.client, urllib.request
import httpx, requests

def tell(url):
    told = [httpx.post(url, json={}).status_code, requests.post(url, json={}).status_code]
    with urllib.request.urlopen(url, b"{}") as answer:
        return [*told, answer.status]
"""


def test_what_a_library_tells_its_maker_is_not_the_agents(tmp_path):
    told = {"__name__": "langsmith.client"}
    exec(compile(TELEMETRY, "langsmith/client.py", "exec"), told)
    routes = [("POST", "/traces", Reply({}, status=202))]
    run = twice(tmp_path, lambda server: told["tell"](f"{server.url}/traces"), routes=routes)
    assert events(run.tape, "tool_call") == []
    assert len(run.server.asked) == 3
    session = run.replay()
    assert (session.drift, session.refused) == (None, 3)
    assert run.seen == [[202, 202, 202], [200, 200, 200]]


def test_a_module_of_the_agents_own_is_no_telemetry_whatever_its_name(tmp_path):
    own = {"__name__": "agents.tracing.send"}
    exec(compile(TELEMETRY, __file__, "exec"), own)
    routes = [("POST", "/traces", Reply({}, status=202))]
    run = twice(tmp_path, lambda server: own["tell"](f"{server.url}/traces"), routes=routes)
    assert len(events(run.tape, "tool_call")) == 3
    assert run.same() == [202, 202, 202]


@pytest.mark.full
@pytest.mark.parametrize("agent", [by_httpx, by_requests, by_urllib])
def test_a_body_beyond_the_bound_passes_and_the_tape_says_that_it_is_not_kept(
    tmp_path, monkeypatch, agent
):
    monkeypatch.setattr("sidecar.capture.exchange.BODY_BYTES_MAX", 20)
    weather = Reply(PRETTY.body, headers={"x-a": "1"})
    routes = [("GET", "/weather", weather), ("POST", "/orders", Reply({"id": 5}, status=201))]
    run = twice(tmp_path, agent, routes=routes)
    assert run.seen[0][0] == PRETTY.body
    assert run.tape.seal.counters.truncated == 1
    assert run.replay().drift is not None


def test_a_fault_of_the_recorder_is_never_the_agents(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("ours")

    for place in ("bodies.answered", "pieces.payload_of", "exchange._query"):
        monkeypatch.setattr(f"sidecar.capture.{place}", fails)

    def agent(server):
        found = requests.get(f"{server.url}/a?b=1").json()
        with httpx.stream("GET", f"{server.url}/events") as answer:
            return found, list(answer.iter_lines())

    routes = [("GET", "/a", Reply({"a": 1})), ("GET", "/events", sse({"n": 1}))]
    run = twice(tmp_path, agent, routes=routes)
    assert run.seen == [({"a": 1}, ['data: {"n":1}', ""])]
    assert run.tape.seal.counters.truncated == 2


async def listens_httpx(server, heard):
    client = httpx.AsyncClient()
    async with client, client.stream("GET", f"{server.url}/events") as answer:
        async for line in answer.aiter_lines():
            heard(line)


async def listens_aiohttp(server, heard):
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/events") as answer:
        async for piece in answer.content.iter_any():
            heard(piece)


@pytest.mark.full
@pytest.mark.parametrize("listens", [listens_httpx, listens_aiohttp])
def test_who_was_stopped_while_waiting_for_more_waits_again(tmp_path, listens):
    async def agent(server):
        heard, first = [], asyncio.Event()
        task = asyncio.create_task(
            listens(server, lambda piece: heard.append(piece) or first.set())
        )
        await first.wait()
        await asyncio.sleep(0)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            return heard

    hold = Hold()
    with ModelServer() as server:
        run = Twice(tmp_path, agent)
        server.on("GET", "/events", sse({"n": 1}, {"n": 2}, holds={1: hold}))
        run.record(server)
        hold.go()
    (result,) = events(run.tape, "tool_result")
    assert (result.st, len(result.chunks)) == ("cancelled", 1)
    assert run.replay().drift is None
    assert run.seen[1] == run.seen[0]


@pytest.mark.full
def test_a_call_that_the_agent_gave_up_is_given_up_again(tmp_path):
    async def agent(server):
        async with httpx.AsyncClient(base_url=server.url) as client:
            try:
                await asyncio.wait_for(client.get("/slow"), 0.05)
            except TimeoutError:
                return (await client.get("/fast")).json()

    hold = Hold()
    with ModelServer() as server:
        run = Twice(tmp_path, agent)
        server.on("GET", "/slow", Reply(parts=[hold, b"late"]))
        server.on("GET", "/fast", Reply({"fast": True}))
        run.record(server)
        hold.go()
    assert [event.st for event in events(run.tape, "tool_result")] == ["cancelled", "ok"]
    assert run.same() == {"fast": True}


HIDDEN = "Authorization x-api-key X-Goog-Api-Key key sid X-Amz-Signature access_token Auth"
SHOWN = "country_code Idempotency-Key max_tokens sort_key pageToken next_page_token author monkey"


@pytest.mark.parametrize(
    ("name", "hidden"),
    [(one, True) for one in HIDDEN.split()] + [(one, False) for one in SHOWN.split()],
)
def test_which_names_say_credential(name, hidden):
    assert is_secret(name) is hidden


def test_attempts_of_urllib3_are_exchanges_and_a_replay_does_not_wait(tmp_path, monkeypatch):
    slept = []
    monkeypatch.setattr("urllib3.util.retry.time.sleep", slept.append)

    def agent(server):
        again = urllib3.Retry(3, backoff_factor=10, status_forcelist=[503])
        with requests.Session() as session:
            session.mount("http://", requests.adapters.HTTPAdapter(max_retries=again))
            return session.get(f"{server.url}/a").json()

    run = twice(tmp_path, agent, Reply({}, status=503), Reply({}, status=503), Reply({"a": 1}))
    assert [event.st for event in events(run.tape, "tool_result")] == ["error", "error", "ok"]
    assert slept
    slept.clear()
    assert run.same() == {"a": 1}
    assert slept == []
