"""How a recorded call ended, as replay, fidelity and drafting read it."""

import pytest

from sidecar.replay.import_tape import Imported
from sidecar.replay.taped import run_of
from sidecar.tape.compose import Fact
from sidecar.tape.model import Header

pytestmark = pytest.mark.requirement("TWN-05", "TWN-06")

MS = 1_000_000


def ended(how, error=None, output="x", **gateway):
    attributes = {"gateway": gateway} if gateway else {}
    facts = [
        Fact(kind="tool_call", seam="tool", name="pay", input={"n": 1}, start_ns=5 * MS),
        Fact(
            kind="tool_result",
            seam="tool",
            name="pay",
            output=output,
            status=how,
            error=error,
            cause=(0,),
            end_ns=17 * MS,
            attributes=attributes,
        ),
    ]
    (call,) = run_of(Imported(name="r", header=Header(), facts=facts)).calls
    return call


@pytest.mark.parametrize(
    ("call", "how", "http", "reached"),
    [
        (ended("ok"), "ok", None, True),
        (ended("error", ("ToolError", None)), "refused", None, True),
        (ended("error", ("http_409", None)), "refused", 409, True),
        (ended("error", ("http_503", None)), "unknown", 503, True),
        (ended("cancelled"), "unknown", None, True),
        (ended("unset"), "ok", None, True),
        (ended("unset", output=None), "unknown", None, True),
        (ended("denied"), "kept_out", None, False),
        (ended("deferred", phase="refused", status=403), "kept_out", None, False),
        (ended("ok", phase="executed", upstream_status=201), "ok", 201, True),
        (ended("error", phase="executed", upstream_status=404), "refused", 404, True),
        (ended("error", phase="executed", status=409), "unknown", None, True),
        (ended("ok", phase="replayed", status=200), "ok", None, False),
    ],
)
def test_an_end_is_the_services_own_where_a_gateway_tells_it(call, how, http, reached):
    assert (call.ended, call.http_status, call.reached) == (how, http, reached)
    assert call.took_ns == 12 * MS


def test_a_call_without_a_result_is_one_whose_end_nobody_knows():
    facts = [Fact(kind="tool_call", seam="tool", name="pay", input={"n": 1})]
    (call,) = run_of(Imported(name="r", header=Header(), facts=facts)).calls
    assert (call.ended, call.result, call.took_ns) == ("unknown", None, None)


def test_a_digest_alone_is_no_answer():
    digest = "sha256:" + "0" * 64
    assert ended("ok", output={"digest": digest}, response=digest).result is None
    assert ended("ok", output={"digest": digest}).result == {"digest": digest}
