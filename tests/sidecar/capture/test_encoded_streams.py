"""Streams that come compressed, in encodings an agent's library knows or not; and redacted."""

import zlib

import aiohttp
import httpx
import httpx2
import openai
import pytest
import requests
import zstandard
from model_rig import Reply, chat
from wires_rig import events, twice

EVENTS = [b'data: {"n":1}\n\n', b'data: {"n":2}\n\n']


def packed(encoding):
    """The events, each of which can be decoded when it comes."""
    if encoding == "zstd":
        packer = zstandard.ZstdCompressor().compressobj()
        parts = [
            packer.compress(one) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) for one in EVENTS
        ]
        last = packer.flush()
    else:
        packer = zlib.compressobj(wbits=31 if encoding == "gzip" else 15)
        parts = [packer.compress(one) + packer.flush(zlib.Z_SYNC_FLUSH) for one in EVENTS]
        last = packer.flush()
    headers = {"content-type": "text/event-stream", "content-encoding": encoding}
    return Reply(parts=[*parts, last], headers=headers)


def by_httpx(library):
    def agent(server):
        with library.stream("GET", f"{server.url}/events") as answer:
            return list(answer.iter_lines()), answer.headers.get("content-encoding")

    return agent


def by_requests(server):
    with requests.get(f"{server.url}/events", stream=True) as answer:
        return list(answer.iter_lines()), answer.headers.get("content-encoding")


async def by_aiohttp(server):
    async with aiohttp.ClientSession() as session, session.get(f"{server.url}/events") as answer:
        return [line async for line in answer.content], answer.headers.get("content-encoding")


AGENTS = [by_httpx(httpx), by_httpx(httpx2), by_requests, by_aiohttp]


@pytest.mark.full
@pytest.mark.parametrize("agent", AGENTS)
@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_compressed_stream_is_kept_and_played_as_it_is_read(tmp_path, agent, encoding):
    run = twice(tmp_path, agent, routes=[("GET", "/events", packed(encoding))])
    (result,) = events(run.tape, "tool_result")
    assert [run.tape.blob(piece)["data"] for piece in result.chunks] == ['{"n":1}', '{"n":2}']
    lines, header = run.same()
    assert (len(lines), header) == (4, encoding)


@pytest.mark.full
@pytest.mark.parametrize("agent", [by_httpx(httpx), by_requests])
def test_an_encoding_is_known_where_the_agents_library_knows_it(tmp_path, agent):
    run = twice(tmp_path, agent, routes=[("GET", "/events", packed("zstd"))])
    assert run.replay().drift is None
    (lines, header), (again, header_again) = run.seen
    assert lines == again
    assert header == "zstd"
    if lines[0] in ('data: {"n":1}', b'data: {"n":1}'):
        assert header_again is None  # decoded once, and not encoded again
    else:
        assert header_again == "zstd"  # this urllib3 has no decoder: it is as it came


SECRET = "sk-test-abcdefghijklmnop1234"


def repeats(server):
    client = openai.OpenAI(base_url=server.openai, api_key=SECRET)
    first = client.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
    said = first.choices[0].message.content
    again = [{"role": "user", "content": f"you said {said}"}]
    return said, client.chat.completions.create(model="m", messages=again).choices[
        0
    ].message.content


@pytest.mark.full
@pytest.mark.row("R9", "R10")
def test_what_was_redacted_of_an_answer_is_no_drift_where_it_is_asked_again(tmp_path):
    replies = chat(f"mail ann@example.org with {SECRET}"), chat("Done.")
    run = twice(tmp_path, repeats, *replies, capture="redacted")
    text = run.path.read_bytes()
    assert SECRET.encode() not in text
    assert b"ann@example.org" not in text
    assert run.replay().drift is None
    assert run.seen[1] == ("mail [email] with [api_key]", "Done.")
