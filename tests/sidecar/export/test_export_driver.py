"""Exporters over a real outbox, to real gRPC and HTTP downstreams that fail in every way."""

import asyncio
import contextlib
import hashlib
import time

import pytest
from export_rig import Asked, GrpcSink, HttpSink, until

from processors.model.span import Span
from sidecar import clock
from sidecar.export.client import open_lane
from sidecar.export.config import Batch, Credential, Exporter, Otlp, Retry
from sidecar.export.driver import export
from sidecar.otlp.encode import encode_spans
from sidecar.store.envelope import Sealer
from sidecar.store.outbox import Lane, Outgoing
from sidecar.store.sqlite.outbox import SqliteExportProgress, SqliteOutbox, prepare_outbox
from sidecar.store.sqlite.traces import SqliteOpenTraces, migrate_traces
from sidecar.store.traces import CursorMove, Intake

LOOPBACK = ("127.0.0.0/8",)
SOON = Retry(initial="20ms", max="50ms")


def sealers(project):
    return Sealer(hashlib.sha256(project.encode()).digest(), clock.random_bytes)


def exporter(sink, name="a", **more):
    protocol = "http" if isinstance(sink, HttpSink) else "grpc"
    given = {"endpoint": sink.url, "protocol": protocol, "allow_cidrs": LOOPBACK, "retry": SOON}
    return Exporter(name=name, otlp=Otlp(**{**given, **more}))


class Running:
    """Exporters at work in this process: an outbox, lanes, and what the tallies say."""

    def __init__(self, folder, exporters, bytes_max=1 << 30):
        self.folder, self.exporters = folder, exporters
        self.path = folder / "traces.db"
        migrate_traces(self.path)
        prepare_outbox(self.path, [Lane(name=e.title, bytes_max=bytes_max) for e in exporters])
        self.opened = SqliteOpenTraces(self.path, sealers=sealers)
        self.watch = SqliteExportProgress(self.path)

    async def put(self, *names, project="p", size=0):
        """One outbox item of one span for each name."""
        before = self.opened.cursor("j")
        items = tuple(
            Outgoing(project=project, signal="traces", items=1, payload=span(name, size))
            for name in names
        )
        move = CursorMove(name="j", before=before, after=before + 1)
        await self.opened.take_in(Intake(move=move, exports=items, now_ns=clock.now_ns()))

    def tallies(self, name="a"):
        entry = next(each for each in self.watch.progress() if each.name == name)
        return {tally.fate: tally.items for tally in entry.tallies}

    def idle(self, name="a"):
        return next(each for each in self.watch.progress() if each.name == name).oldest_ns is None

    async def until(self, probe, seconds=15):
        end = time.monotonic() + seconds
        while not probe():
            assert time.monotonic() < end, f"not within {seconds} s"
            await asyncio.sleep(0.01)

    @contextlib.asynccontextmanager
    async def at_work(self):
        outbox = SqliteOutbox(self.path, sealers=sealers)
        lanes = [open_lane(each, self.folder, frozenset()) for each in self.exporters]
        stop = asyncio.Event()
        task = asyncio.create_task(export(lanes, outbox, lambda: 0.5, stop))
        try:
            yield
        finally:
            stop.set()
            await task
            outbox.close()

    def close(self):
        self.opened.close()
        self.watch.close()


def span(name, size=0):
    attributes = {"pad": "x" * size} if size else {}
    one = Span(
        trace_id=clock.random_bytes(16).hex(),
        span_id=clock.random_bytes(8).hex(),
        name=name,
        attributes=attributes,
    )
    return encode_spans([one])


@pytest.fixture
def running(tmp_path):
    made = []

    def make(*exporters, **more):
        made.append(Running(tmp_path, exporters, **more))
        return made[-1]

    yield make
    for each in made:
        each.close()


def send(run, *names, **put):
    """Put spans in and run until exporter ``a`` has passed them all."""

    async def scenario():
        await run.put(*names, **put)
        async with run.at_work():
            await run.until(run.idle)

    asyncio.run(scenario())


@pytest.mark.parametrize("kind", [GrpcSink, HttpSink])
@pytest.mark.parametrize("compression", ["gzip", "none"])
def test_what_waits_is_delivered_with_headers_and_credential(tmp_path, running, kind, compression):
    (tmp_path / "key").write_text("Bearer s3cret\n")
    with kind() as sink:
        run = running(
            exporter(
                sink,
                compression=compression,
                headers={"X-Team": "refunds"},
                credential=Credential(header="Authorization", file="key"),
            )
        )
        send(run, "a", "b", "c")
        assert sink.names() == ["a", "b", "c"]
        headers = {key.lower(): value for key, value in sink.asked[0][2].items()}
        assert headers["authorization"] == "Bearer s3cret" and headers["x-team"] == "refunds"
    assert run.tallies() == {"sent": 3}


@pytest.mark.parametrize(
    "sink",
    [
        lambda: GrpcSink(14, 4, 1, 10, 11, 15, None),
        lambda: HttpSink(503, 502, 504, 429, None),
    ],
)
def test_what_may_be_taken_later_is_sent_again_until_it_is(running, sink):
    with sink() as found:
        run = running(exporter(found))
        send(run, "a")
        assert found.names() == ["a"]
        assert len(found.asked) > 4
    assert run.tallies() == {"sent": 1}


@pytest.mark.parametrize(
    "sink",
    [
        lambda: GrpcSink(Asked(8, 0.7), None),
        lambda: GrpcSink(Asked(14, 0.7), None),
        lambda: HttpSink(Asked(429, 1), None),
        lambda: HttpSink(Asked(503, 1), None),
    ],
)
def test_a_downstream_that_asks_for_time_gets_it(running, sink):
    with sink() as found:
        send(running(exporter(found)), "a")
        first, second = found.moments
        assert second - first >= 0.69
        assert found.names() == ["a"]


@pytest.mark.parametrize(
    ("sink", "fate"),
    [
        (lambda: GrpcSink(16), "grpc_16"),
        (lambda: GrpcSink(12), "grpc_12"),
        (lambda: GrpcSink(8), "grpc_8"),
        (lambda: HttpSink(401), "http_401"),
        (lambda: HttpSink(404), "http_404"),
        (lambda: HttpSink(307), "http_307"),
        (lambda: HttpSink(500), "http_500"),
    ],
)
def test_what_is_refused_for_good_is_counted_by_its_answer_and_holds_nobody_up(running, sink, fate):
    with sink() as found:
        run = running(exporter(found))
        send(run, "a")
        assert len(found.asked) == 1
    assert run.tallies() == {fate: 1}


@pytest.mark.parametrize(("kind", "code"), [(GrpcSink, 3), (HttpSink, 400), (HttpSink, 413)])
def test_one_bad_item_sinks_no_other(running, kind, code):
    def picky(request):
        names = [s.name for g in request.resource_spans for c in g.scope_spans for s in c.spans]
        return code if "bad" in names else None

    with kind(picky) as sink:
        run = running(exporter(sink))
        send(run, *"abc", "bad", *"defgh")
        assert sink.names() == list("abcdefgh")
    assert run.tallies() == {"sent": 8, f"{'grpc' if kind is GrpcSink else 'http'}_{code}": 1}


@pytest.mark.parametrize("kind", [GrpcSink, HttpSink])
def test_partial_success_is_counted_and_not_sent_again(running, kind):
    with kind(rejecting=2) as sink:
        run = running(exporter(sink))
        send(run, *"abcde")
        assert len(sink.asked) == 1
    assert run.tallies() == {"sent": 3, "rejected": 2}


def test_a_downstream_that_is_down_delays_no_other_and_loses_nothing(running):
    with GrpcSink() as up, GrpcSink() as gone:
        port = gone.port
    down = exporter(gone, name="down")

    async def scenario(up):
        run = running(exporter(up), down)
        async with run.at_work():
            for n in range(20):
                await run.put(f"s{n:02}")
            await run.until(run.idle)
            assert not run.idle("down")
            with GrpcSink(port=port) as back:
                await run.until(lambda: run.idle("down"))
                return run, back

    with GrpcSink() as up:
        run, back = asyncio.run(scenario(up))
        expected = [f"s{n:02}" for n in range(20)]
        assert up.names() == back.names() == expected
    assert run.tallies("down") == run.tallies("a") == {"sent": 20}


def test_a_slow_downstream_delays_no_other(running):
    def slow(_):
        time.sleep(1.0)

    async def scenario(quick, sluggish):
        run = running(exporter(quick), exporter(sluggish, name="slow"))
        async with run.at_work():
            started = time.monotonic()
            for n in range(10):
                await run.put(f"s{n}")
            await run.until(run.idle)
            took = time.monotonic() - started
            await run.until(lambda: run.idle("slow"))
            return took

    with GrpcSink() as quick, HttpSink(slow) as sluggish:
        assert asyncio.run(scenario(quick, sluggish)) < 1.0
        assert quick.names() == sluggish.names()


def test_one_that_never_answers_is_given_up_in_time_and_asked_again(running):
    hang = [True]

    def once(_):
        if hang.pop() if hang else False:
            time.sleep(2)

    with GrpcSink(once) as sink:
        run = running(exporter(sink, timeout="300ms"))
        started = time.monotonic()
        send(run, "a")
        assert time.monotonic() - started < 1.9
        # The late answer may have been a yes: at least once, and here twice.
        until(lambda: sink.names() == ["a", "a"])
    assert run.tallies() == {"sent": 1}


def test_a_queue_that_is_full_gives_up_the_oldest_counts_them_and_goes_on(running):
    async def scenario():
        run = running(exporter(gone), bytes_max=5000)
        for n in range(60):
            await run.put(f"s{n:02}")
        run.kept = 60 - run.tallies()["queue_full"]
        with GrpcSink(port=gone.port) as back:
            async with run.at_work():
                await run.until(run.idle)
            return run, back.names()

    with GrpcSink() as gone:
        pass
    run, names = asyncio.run(scenario())
    assert 0 < run.kept < 60
    assert names == [f"s{n:02}" for n in range(60 - run.kept, 60)]
    assert run.tallies() == {"queue_full": 60 - run.kept, "sent": run.kept}


def test_an_exporter_sends_only_its_signals_and_projects(running):
    async def scenario(sink):
        run = running(exporter(sink, projects=("shop",)), exporter(sink, "m", signals=("metrics",)))
        async with run.at_work():
            await run.put("ours", project="shop")
            await run.put("theirs", project="bank")
            await run.until(lambda: run.idle() and run.idle("m"))
        return run

    with GrpcSink() as sink:
        run = asyncio.run(scenario(sink))
        assert sink.names() == ["ours"]
    assert (run.tallies(), run.tallies("m")) == ({"sent": 1}, {})


def test_requests_keep_to_their_size(running):
    with HttpSink() as sink:
        run = running(exporter(sink, batch=Batch(bytes_max=16 * 1024), compression="none"))
        send(run, *[f"s{n:02}" for n in range(20)], size=5000)
        assert len(sink.names()) == 20
        assert max(request.ByteSize() for _, request, _ in sink.asked) <= 16 * 1024


def test_a_credential_is_read_anew_and_a_missing_one_loses_nothing(tmp_path, running):
    async def scenario(sink):
        credential = Credential(header="authorization", file="key")
        run = running(exporter(sink, credential=credential))
        async with run.at_work():
            await run.put("a")
            await asyncio.sleep(0.1)
            assert sink.asked == []
            (tmp_path / "key").write_text("one")
            await run.until(run.idle)
            (tmp_path / "key").write_text("two")
            await run.put("b")
            await run.until(run.idle)

    with GrpcSink() as sink:
        asyncio.run(scenario(sink))
        assert [headers["authorization"] for _, _, headers in sink.asked] == ["one", "two"]


@pytest.mark.parametrize("protocol", ["grpc", "http"])
def test_a_name_that_resolves_to_what_is_not_named_is_never_dialled(running, protocol):
    async def scenario(sink):
        endpoint = f"http://localhost:{sink.port}"
        run = running(exporter(sink, endpoint=endpoint, protocol=protocol, allow_cidrs=()))
        async with run.at_work():
            await run.put("a")
            await asyncio.sleep(0.3)
            assert not run.idle()

    with GrpcSink() if protocol == "grpc" else HttpSink() as sink:
        asyncio.run(scenario(sink))
        assert sink.asked == []


def test_nothing_secret_and_no_content_is_logged(running, tmp_path, capsys):
    (tmp_path / "key").write_text("Bearer s3cret")
    credential = Credential(header="authorization", file="key")
    with GrpcSink(14, 3) as sink:
        send(running(exporter(sink, credential=credential)), "customer-4711")
    said = capsys.readouterr()
    assert "export_failed" in said.out + said.err
    assert "s3cret" not in said.out + said.err and "4711" not in said.out + said.err
