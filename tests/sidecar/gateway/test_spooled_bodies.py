"""Bodies beyond memory: on disk while their call lasts, sealed, hashed, and sent with a length."""

import asyncio
import hashlib
import io
import json
import os

import aiohttp
import pytest
from aiohttp import web
from gateway_rig import AllowAll, rig
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from processors.model.call import Reason
from sidecar.gateway.config import Config, Match, Tool
from sidecar.gateway.desk import Settings
from sidecar.gateway.multipart import Multipart, NotMultipart, boundary_of
from sidecar.gateway.policy.result import PolicyAnswer
from sidecar.gateway.spool.files import Spools

MiB = 1024**2
pytestmark = pytest.mark.requirement("GW-05")


class Watched(AllowAll):
    """Allows, and keeps what it was asked."""

    def __init__(self):
        self.asked = []

    async def decide(self, document):
        self.asked.append(document)
        return PolicyAnswer(effect="allow", reasons=(Reason(code="x"),), revision=self.revision)


class Sink:
    """An upstream that keeps the size, digest and framing of what it is sent."""

    def __init__(self):
        self.got = []
        self.early = False

    async def answer(self, request):
        if self.early:
            return web.json_response({"error": "too large"}, status=413)
        digest, size = hashlib.sha256(), 0
        async for chunk in request.content.iter_any():
            digest.update(chunk)
            size += len(chunk)
        framing = (request.headers.get("Content-Length"), request.headers.get("Transfer-Encoding"))
        self.got.append((request.method, size, f"sha256:{digest.hexdigest()}", framing))
        return web.json_response({"size": size})


TOOLS = (
    Tool(name="upload", upstream="payments", class_="write", timeout="10s",
         match=Match(method="POST", path="/files")),
    Tool(name="look", upstream="payments", class_="read", timeout="10s",
         match=Match(method="POST", path="/look")),
)  # fmt: skip


def run(folder, scenario, *, spools=True, bytes_max=4 * MiB, **options):
    async def main():
        sink = Sink()
        runner = web.ServerRunner(web.Server(sink.answer, access_log=None))
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        kept = Spools(folder) if spools is True else spools
        policy = Watched()
        settings = Settings(accept_ephemeral_ledger=True, body_bytes_max=bytes_max)
        given = {"spools": kept or None, "settings": settings, "policy": policy, **options}
        try:
            async with (
                asyncio.timeout(40),
                rig(
                    folder, upstream_url=url, tools_of=TOOLS, body_bytes_max=bytes_max, **given
                ) as each,
            ):
                each.sink, each.spools, each.policy = sink, kept, policy
                await scenario(each)
        finally:
            await runner.cleanup()

    asyncio.run(main())


async def post(each, data, path="/payments/files", key=None, **headers):
    """One POST; its status, answer and headers."""
    sent = {"Authorization": f"Bearer {each.agent}", **headers}
    if key:
        sent["Idempotency-Key"] = key
    url = f"http://127.0.0.1:{each.server.port}{path}"
    if isinstance(data, bytes):
        data = io.BytesIO(data)
    async with each.http.post(url, data=data, headers=sent) as answer:
        return answer.status, json.loads(await answer.read()), answer.headers


def form(content, boundary, note="to Ada"):
    """A form as a browser writes it."""
    head = 'Content-Disposition: form-data; name="'
    body = (
        f'--{boundary}\r\n{head}note"\r\n\r\n{note}\r\n--{boundary}\r\n'
        f'{head}file"; filename="a.bin"\r\nContent-Type: application/octet-stream\r\n\r\n'
    ).encode()
    return body + content + f"\r\n--{boundary}--\r\n".encode()


def typed(boundary):
    return {"Content-Type": f"multipart/form-data; boundary={boundary}"}


@pytest.mark.row("T56")
def test_a_form_beyond_memory_is_judged_by_its_parts_and_sent_as_the_bytes_it_came_as(tmp_path):
    content = os.urandom(2 * MiB)
    body = form(content, "one")

    async def scenario(each):
        status, said, headers = await post(each, body, key="k", **typed("one"))
        assert (status, said) == (200, {"size": len(body)})
        digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
        assert each.sink.got == [("POST", len(body), digest, (str(len(body)), None))]
        (asked,) = each.policy.asked
        assert asked["arguments"] == {
            "note": "to Ada",
            "file": {
                "filename": "a.bin", "media_type": "application/octet-stream",
                "size": len(content), "digest": f"sha256:{hashlib.sha256(content).hexdigest()}",
            },
        }  # fmt: skip
        receipt = each.ledger.get_receipt(headers["Gateway-Receipt"])
        assert receipt.request_digest == digest
        # Its client chooses another boundary each time it tries again: it is the same action.
        _, _, again = await post(each, form(content, "two"), key="k", **typed("two"))
        assert again["Idempotent-Replayed"] == "true"
        changed = bytes([content[0] ^ 1]) + content[1:]
        status, said, _ = await post(each, form(changed, "one"), key="k", **typed("one"))
        assert (status, said["code"]) == (422, "key_reused")
        assert len(each.sink.got) == 1 and each.spools._open == 0

    run(tmp_path, scenario)


def test_nothing_of_a_large_body_can_be_read_on_the_disk_and_nothing_stays(tmp_path):
    marked = b"4111-1111-1111-1111" * 100_000

    async def main():
        spools = Spools(tmp_path, memory_bytes_max=1024)

        async def rest():
            yield marked

        spooled = await spools.take(b"", rest(), "application/octet-stream", 4 * MiB)
        assert not list(tmp_path.iterdir())  # it has no name
        spooled._file.seek(0)
        assert b"4111" not in spooled._file.read()
        assert b"".join([piece async for piece in spooled.chunks()]) == marked
        assert spooled.digest == f"sha256:{hashlib.sha256(marked).hexdigest()}"
        spooled._file.seek(300_000)
        spooled._file.write(b"x")
        with pytest.raises(OSError, match="not what was written"):
            [piece async for piece in spooled.chunks()]
        spooled.close()
        spooled.close()
        assert spools._open == 0

    asyncio.run(main())


@pytest.mark.parametrize("chunked", [False, True])
def test_what_cannot_be_kept_refuses_its_call(tmp_path, chunked):
    body = b"x" * (2 * MiB)

    async def pieces():
        for _ in range(8):
            yield body[: MiB // 2]

    def sent():
        return pieces() if chunked else body

    async def scenario(each):
        kind = {"Content-Type": "application/octet-stream"}
        status, said, _ = await post(each, sent(), path="/payments/look", **kind)
        assert (status, said["code"]) == expected
        assert not each.sink.got

    expected = (503, "spool_failed")
    run(tmp_path, scenario, spools=Spools(tmp_path / "is not there"))
    expected = (411, "length_required") if chunked else (413, "body_too_large")
    run(tmp_path, scenario, spools=None)
    full = Spools(tmp_path)
    full._open = 16
    expected = (503, "spool_full")
    run(tmp_path, scenario, spools=full)


@pytest.mark.full
def test_a_full_disk_refuses_the_call_and_the_gateway_lives(tmp_path):
    full = "/dev/full"

    async def scenario(each):
        each.spools._file = lambda: open(full, "w+b", buffering=0)  # noqa: SIM115
        kind = {"Content-Type": "application/octet-stream"}
        status, said, _ = await post(each, b"x" * (2 * MiB), path="/payments/look", **kind)
        assert (status, said["code"]) == (503, "spool_failed")
        status, _, _ = await post(each, b"x", path="/payments/look", **kind)
        assert status == 200 and each.spools._open == 0

    run(tmp_path, scenario)


def test_what_is_larger_than_it_may_be_is_refused_whether_it_says_so_or_not(tmp_path):
    async def pieces():
        for _ in range(5):
            yield b"x" * MiB

    async def scenario(each):
        kind = {"Content-Type": "application/octet-stream"}
        for data in (b"x" * (5 * MiB), pieces()):
            try:
                status, said, _ = await post(each, data, path="/payments/look", **kind)
            except aiohttp.ClientError:
                continue  # it was hung up on while it was still sending
            assert (status, said["code"]) == (413, "body_too_large")
        assert not each.sink.got and each.spools._open == 0

    run(tmp_path, scenario)


def test_json_beyond_memory_and_what_policy_cannot_read_are_refused(tmp_path):
    large = json.dumps({"text": "x" * (2 * MiB)}).encode()

    async def scenario(each):
        for data, kind, code in (
            (large, "application/json", "body_too_large"),
            (b"a=" + b"x" * (2 * MiB), "application/x-www-form-urlencoded", "body_too_large"),
            (large, "application/octet-stream", "media_type_unreadable"),
            (form(b"x" * (2 * MiB), "b") + b"more", typed("b")["Content-Type"], "form_malformed"),
        ):
            status, said, _ = await post(each, data, key="k", **{"Content-Type": kind})
            assert status in (400, 413, 415) and said["code"] == code, kind
        assert not each.sink.got and each.spools._open == 0
        status, said, _ = await post(
            each, large, path="/payments/look", **{"Content-Type": "application/octet-stream"}
        )
        assert (status, said["size"]) == (200, len(large))  # a read without a schema is opaque

    run(tmp_path, scenario)


def test_an_upstream_that_answers_early_is_heard_and_not_sent_the_rest(tmp_path):
    async def scenario(each):
        each.sink.early = True
        kind = {"Content-Type": "application/octet-stream"}
        status, said, _ = await post(each, b"x" * (4 * MiB), path="/payments/look", **kind)
        assert (status, said) == (413, {"error": "too large"})

    run(tmp_path, scenario)


def test_a_caller_that_leaves_does_not_take_the_body_of_a_call_with_effects_with_it(tmp_path):
    body = form(b"x" * (3 * MiB), "b")

    async def scenario(each):
        call = asyncio.ensure_future(post(each, body, key="k", **typed("b")))
        while each.spools._open == 0 and not call.done():
            await asyncio.sleep(0)
        while not each.policy.asked and not call.done():
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        while not each.sink.got:
            await asyncio.sleep(0.005)
        assert each.sink.got[0][1] == len(body)
        while each.spools._open:
            await asyncio.sleep(0.005)

    run(tmp_path, scenario)


def read(body, boundary="b", size=1):
    reader = Multipart(boundary_of(typed(boundary)["Content-Type"]))
    for start in range(0, len(body), size):
        reader.feed(body[start : start + size])
    return reader.end()


@given(st.binary(max_size=60), st.text("ab -\r\n", max_size=20), st.integers(1, 40))
def test_a_form_is_the_same_however_it_arrives(content, note, size):
    if b"--b" in content or "--b" in note:
        return
    text, file = read(form(content, "b", note), size=size)
    assert (text.name, text.text, file.size) == ("note", note, len(content))
    assert file.digest == f"sha256:{hashlib.sha256(content).hexdigest()}"


DISPOSED = b'Content-Disposition: form-data; name="a"'
ODD = {
    "a preamble": b"hello\r\n--b\r\n" + DISPOSED + b"\r\n\r\nx\r\n--b--",
    "an epilogue": b"--b\r\n" + DISPOSED + b"\r\n\r\nx\r\n--b--\r\nbye",
    "no end": b"--b\r\n" + DISPOSED + b"\r\n\r\nx\r\n--b\r\n",
    "a bare line feed": b"--b\n" + DISPOSED + b"\n\nx\n--b--",
    "no parts": b"--b--",
    "nothing": b"",
    "a boundary that goes on": b"--b\r\n" + DISPOSED + b"\r\n\r\nx\r\n--bx\r\n--b--",
    "two dispositions": b"--b\r\n" + DISPOSED + b"\r\n" + DISPOSED + b"\r\n\r\nx\r\n--b--",
    "a transfer encoding": b"--b\r\n" + DISPOSED
    + b"\r\nContent-Transfer-Encoding: base64\r\n\r\nx\r\n--b--",
    "a folded head": b"--b\r\nContent-Disposition: form-data;\r\n name=\"a\"\r\n\r\nx\r\n--b--",
    "an unquoted name": b"--b\r\nContent-Disposition: form-data; name=a\r\n\r\nx\r\n--b--",
    "an escaped quote": b'--b\r\nContent-Disposition: form-data; name="a\\"b"\r\n\r\nx\r\n--b--',
    "an extended file name": b"--b\r\n" + DISPOSED + b"; filename*=utf-8''x\r\n\r\nx\r\n--b--",
    "a form in a form": b"--b\r\n" + DISPOSED
    + b"\r\nContent-Type: multipart/mixed; boundary=c\r\n\r\nx\r\n--b--",
    "an attachment": b'--b\r\nContent-Disposition: attachment; name="a"\r\n\r\nx\r\n--b--',
    "a long head": b"--b\r\n" + DISPOSED + b"x" * 5000 + b"\r\n\r\nx\r\n--b--",
    "too many parts": (b"--b\r\n" + DISPOSED + b"\r\n\r\nx\r\n") * 101 + b"--b--",
}  # fmt: skip


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("size", [1, 10_000])
def test_a_form_with_more_than_one_reading_is_refused(name, size):
    with pytest.raises(NotMultipart):
        read(ODD[name], size=size)


KINDS = (
    "", "; boundary=a b", '; boundary="', "; boundary=a; charset=utf-8", "; boundary=" + "x" * 71,
)  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_a_type_without_one_usable_boundary_is_refused(kind):
    with pytest.raises(NotMultipart):
        boundary_of(f"multipart/form-data{kind}")
    assert boundary_of("application/json") is None


@pytest.mark.parametrize("size", [0, 64 * MiB + 1])
def test_the_bound_itself_is_bounded(size):
    (problem,) = structs.replace(Config(), body_bytes_max=size).problems()
    assert problem.path == "body_bytes_max"
