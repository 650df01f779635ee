"""An OPA server as the engine: the embedded engine's answers, and a denial whatever goes wrong."""

import asyncio
import gzip
import json
import os
import signal
import time
from pathlib import Path

import pytest
from gateway_rig import rig
from opa_rig import ANSWER, engine, free_port, opa_server, reply, scripted

from sidecar.egress.client import Egress
from sidecar.egress.rules import Target
from sidecar.errors import SidecarError
from sidecar.gateway.config import Policy
from sidecar.gateway.policy import release
from sidecar.gateway.policy.files import default_bundle_path, load_bundle, read_files
from sidecar.gateway.policy.opa import OpaServer, Unanswered, read_data

pytest.importorskip("opa_client", reason="needs the extra opa (opa-python-client)")

GOLDEN = Path(__file__).parents[3] / "policies/golden_decisions.jsonl.gz"
DOCUMENT = {"resource": {"type": "tool", "id": "x", "properties": {"registered_class": "read"}}}
BUDGET_SECONDS = 0.2  # issue 5: whatever the engine does, a denial within 200 ms
RULES = b"""package agenttwin.v1

decide := {"effect": "deny", "reasons": [{"code": "x", "n": to_number(input.text)}]} if input.text

list := {"effect": "allow", "reasons": [{"code": "seen"}]}
"""


def archive_of(files=None):
    return release.make(read_files(default_bundle_path()) if files is None else files)


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    """The port of a real OPA with the shipped bundle."""
    with opa_server(archive_of(), tmp_path_factory.mktemp("opa")) as (port, _):
        yield port


def asking(port, scenario, **options):
    async def main():
        made = engine(port, **options)
        await made.start()
        try:
            return await scenario(made)
        finally:
            await made.stop()

    return asyncio.run(main())


@pytest.mark.requirement("GW-03")
def test_it_gives_the_golden_decisions_under_the_revision_of_the_same_bundle(real):
    with gzip.open(GOLDEN, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    rows = [row for row in rows if row["bundle"] == "shipped" and "result" in row][:120]

    async def scenario(made):
        asked = {"decide": made.decide, "list": made.visible}
        return [await asked[row["entry"]](row["input"]) for row in rows]

    answers = asking(real, scenario, deadline_ns=5_000_000_000)
    for row, answer in zip(rows, answers, strict=True):
        assert answer.error is None and answer.effect == row["result"]["effect"]
        wanted = [each["code"] for each in row["result"]["reasons"]]
        assert [reason.code for reason in answer.reasons] == wanted
    assert answers[0].revision == load_bundle().revision
    assert answers[0].engine == "opa/1.22.4"
    assert answers[0].input_digest.startswith("sha256:")


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T18")
def test_undefined_and_an_error_of_a_built_in_deny(tmp_path):
    with opa_server(archive_of({"a.rego": RULES}), tmp_path) as (port, _):

        async def scenario(made):
            asked = ({}, {"text": "zz"}, {"text": object()})
            return [await made.decide(each) for each in asked], await made.visible({})

        denials, seen = asking(port, scenario, deadline_ns=5_000_000_000)
    for denial, why in zip(denials, ("undefined", "500", "cannot be encoded"), strict=True):
        assert (denial.effect, denial.reasons[0].code) == ("deny", "policy_error")
        assert why in denial.error
    assert seen.effect == "allow"


async def hang(_writer):
    await asyncio.sleep(30)


async def crash(writer):
    writer.transport.abort()


async def late(writer):
    await asyncio.sleep(0.4)
    writer.write(reply(ANSWER))


async def drip(writer):
    for byte in reply(ANSWER):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.05)


UNSAID = {"result": ANSWER["result"]}
FAULTS = {
    "hangs": (hang, "within 100 ms"),
    "crashes": (crash, "cannot be asked"),
    "late": (late, "within 100 ms"),
    "drips": (drip, "within 100 ms"),
    "no JSON": (reply(b"{"), "no JSON"),
    "a page": (reply(b"<html>", kind="text/html"), "no JSON"),
    "no object": (reply([]), "no OPA"),
    "no provenance": (reply(UNSAID), "no OPA"),
    "no bundle": (reply({"provenance": {"version": "1"}, **UNSAID}), "no bundle"),
    "no revision": (
        reply({"provenance": {"version": "1", "bundles": {"b": {}}}, **UNSAID}),
        "no revision",
    ),
    "not found": (reply(b"404 page not found", "404 Not Found", "text/plain"), "404"),
    "unauthorised": (reply({"code": "unauthorized"}, "401 Unauthorized"), "401 unauthorized"),
    "its fault": (reply({"code": "internal_error"}, "500 Internal Server Error"), "500"),
    "overloaded": (reply(b"", "503 Service Unavailable"), "503"),
    "redirects": (
        b"HTTP/1.1 302 Found\r\nLocation: /v1/data/x\r\nContent-Length: 0\r\n\r\n",
        "302",
    ),
    "cut off": (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", "within 100 ms"),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.6\r\n", "cannot be asked"),
    "unknown effect": (reply({**ANSWER, "result": {"effect": "ALLOW"}}), "not usable"),
    "true": (reply({**ANSWER, "result": True}), "not usable"),
    "nothing": (reply({"provenance": ANSWER["provenance"]}), "undefined"),
}


@pytest.mark.requirement("GW-04")
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.row("T11", "T16", "T17", "T19", "G")
def test_whatever_it_does_denies_in_time_is_asked_once_and_the_next_is_good(fault):
    step, why = FAULTS[fault]

    async def main():
        async with scripted() as server:
            made = engine(server.port)
            await made.start()
            server.steps.append(step)
            before, started = len(server.seen), time.monotonic()
            denial = await made.decide(DOCUMENT)
            took, asked = time.monotonic() - started, len(server.seen) - before
            good = await made.decide(DOCUMENT)
            await made.stop()
            return denial, took, asked, good

    denial, took, asked, good = asyncio.run(main())
    assert (denial.effect, denial.reasons[0].code) == ("deny", "policy_error")
    assert why in denial.error
    assert took < BUDGET_SECONDS
    assert asked == 1
    assert good.effect == "allow"


@pytest.mark.requirement("GW-04")
@pytest.mark.row("T16", "T17", "G")
def test_a_gateway_denies_while_the_real_server_hangs_or_is_gone_and_lives(tmp_path):
    folder, port = tmp_path / "opa", free_port()
    folder.mkdir()

    async def scenario():
        with opa_server(archive_of(), folder, port) as (_, process):
            made = engine(port, deadline_ns=150_000_000)
            async with rig(tmp_path, policy=made) as each:
                found = [await each.refund("1", key="a")]
                os.kill(process.pid, signal.SIGSTOP)
                os.waitid(os.P_PID, process.pid, os.WSTOPPED)
                started = time.monotonic()
                found.append(await each.refund("2", key="b"))
                took = time.monotonic() - started
                os.kill(process.pid, signal.SIGCONT)
                found.append(await each.refund("3", key="c"))
                process.kill()
                process.wait()
                found.append(await each.refund("4", key="d"))
                seen = made.answering
                with opa_server(archive_of(), folder, port):
                    found.append(await each.refund("4", key="d"))
                    return found, took, seen, each.shop.effects()

    found, took, seen, effects = asyncio.run(scenario())
    assert [reply.status for reply in found] == [201, 503, 201, 503, 201]
    assert {found[1].json["code"], found[3].json["code"]} == {"policy_error"}
    assert took < 1.0 and not seen
    assert effects == 3


@pytest.mark.row("CVE-2025-46569")
def test_the_path_is_constant_whatever_a_tool_is_called():
    names = ["x/../../v1/policies", "a?b", "%2e%2e", "data.x", "ü", "a\r\nHost: b"]

    async def main():
        async with scripted() as server:
            made = engine(server.port)
            await made.start()
            for name in names:
                await made.decide({"resource": {"id": name}})
            await made.visible({"resource": {"id": names[0]}})
            await made.stop()
            return server.seen

    seen = asyncio.run(main())
    lines = {head.split("\r\n")[0] for head, _ in seen[1:-1]}
    query = "provenance=true&strict-builtin-errors=true"
    assert lines == {f"POST /v1/data/agenttwin/v1/decide?{query} HTTP/1.1"}
    assert seen[-1][0].startswith(f"POST /v1/data/agenttwin/v1/list?{query} HTTP/1.1\r\n")
    assert [body["input"]["resource"]["id"] for _, body in seen[1:-1]] == names


def test_a_token_goes_with_every_question():
    async def main():
        async with scripted() as server:
            made = engine(server.port, token="t0ken")
            await made.start()
            await made.decide({})
            await made.stop()
            return server.seen

    for head, _ in asyncio.run(main()):
        assert "authorization: bearer t0ken\r\n" in head.lower()


def saying(revision):
    return {**ANSWER, "provenance": {"version": "1", "bundles": {"b": {"revision": revision}}}}


def test_a_changed_revision_is_made_known_before_an_answer_of_it_is_given():
    async def main():
        async with scripted() as server:
            made, told = engine(server.port), []

            async def changed():
                told.append(made.revision)

            await made.start()
            made.on_change = changed
            server.steps += [saying("r2"), saying("r2")]
            first, second = await made.decide({}), await made.decide({})
            await made.stop()
            return told, first, second

    told, first, second = asyncio.run(main())
    assert told == ["r2"]
    assert (first.revision, second.revision, first.error) == ("r2", "r2", None)


def test_another_revision_than_the_expected_one_denies():
    async def main():
        async with scripted() as server:
            made = engine(server.port, expected="r1")
            await made.start()
            server.steps.append(saying("r2"))
            denial, good = await made.decide({}), await made.decide({})
            await made.stop()
            return denial, good

    denial, good = asyncio.run(main())
    assert denial.effect == "deny" and "not the expected" in denial.error
    assert good.effect == "allow"


def test_several_bundles_make_one_revision_and_each_must_have_one():
    bundles = {"b": {"revision": "2"}, "a": {"revision": "1"}}
    answer = read_data({"provenance": {"version": "1", "bundles": bundles}})
    assert (answer.revision, answer.defined) == ("a=1,b=2", False)
    for bad in ({"a": {"revision": ""}}, {"a": None}, {"a": {"revision": 1}}, [], {}):
        with pytest.raises(Unanswered):
            read_data({"provenance": {"version": "1", "bundles": {**bad} if bad else bad}})


@pytest.mark.parametrize("expected", ["", "r9"])
def test_without_a_server_that_has_the_bundle_it_does_not_start(expected):
    async def main():
        async with scripted() as server:
            made = engine(server.port if expected else free_port(), expected=expected)
            with pytest.raises(SidecarError) as caught:
                await made.start()
            return caught.value, await made.decide({})

    error, denial = asyncio.run(main())
    assert error.where == "policy.url"
    assert denial.effect == "deny" and "stopped" in denial.error


def test_an_address_outside_its_ranges_is_never_dialled():
    async def main():
        async with scripted() as server:
            target = Target(name="policy", url=f"http://127.0.0.1:{server.port}")
            with pytest.raises(SidecarError):
                await OpaServer(target, Egress(), start_seconds=0.0).start()
            return server.seen

    assert asyncio.run(main()) == []


@pytest.mark.parametrize(
    ("said", "paths"),
    [
        ({}, []),
        ({"url": "http://127.0.0.1:1"}, ["url"]),
        ({"engine": "opa"}, ["url"]),
        ({"engine": "opa", "url": "http://127.0.0.1:8181"}, ["url"]),
        (
            {"engine": "opa", "url": "http://127.0.0.1:8181", "allow_cidrs": ("127.0.0.1/32",)},
            [],
        ),
        (
            {
                "engine": "opa",
                "url": "http://127.0.0.1:8181",
                "allow_cidrs": ("127.0.0.1/32",),
                "deadline": "200ms",
            },
            ["deadline"],
        ),
    ],
)
def test_a_configuration_that_cannot_work_is_named(said, paths):
    assert [problem.path for problem in Policy(**said).problems()] == paths
