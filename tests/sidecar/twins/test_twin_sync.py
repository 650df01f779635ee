"""State of production into twins: rows from SQLite, Postgres, HTTP and files become a snapshot with
source, time, version and digest, in which no declared secret stands.
"""

import http.server
import json
import sqlite3
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner
from postgres_rig import database, shared
from suite_rig import AGENT

from sidecar.cli.root import root
from sidecar.cli.twin import command
from sidecar.errors import SidecarError
from sidecar.twins.files import load_twins
from sidecar.twins.state.files import versions, with_state
from sidecar.twins.sync.files import Read, load_sync, write_snapshot
from sidecar.twins.sync.rows import hidden

pytestmark = pytest.mark.requirement("TWN-07")
TWIN = """\
twin: shop
secrets: [orders.iban, orders.buyer.pin]
state: {age_max: 1h}
entities:
  orders:
    key: id
    schema:
      type: object
      required: [id, paid]
      properties: {id: {type: string}, paid: {type: string}, iban: {}, buyer: {}}
  prices: {key: sku, schema: {type: object, required: [sku]}}
tools:
  - name: get_order
    match: {method: GET, path: "/orders/{order_id}"}
    class: read
    response: {body: 'row("orders", arguments.order_id)'}
"""
SQLITE = """\
sync: shop
twins: [twin.yaml]
databases: [{name: shop, url: "sqlite:///shop.db"}]
entities:
  orders:
    sql: {database: shop, query: "SELECT no, paid, iban FROM orders WHERE paid > $1", parameters: ["1"]}
    columns: {no: id, paid: paid, iban: iban}
"""  # noqa: E501


FINITE = "SELECT no, paid, iban FROM orders WHERE paid > $1"
ENDLESS = (
    "WITH RECURSIVE n(no) AS (VALUES($1) UNION ALL SELECT no FROM n) "
    "SELECT no, no AS paid, no AS iban FROM n WHERE no = 'x'"
)


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "twin.yaml").write_text(TWIN)
    with sqlite3.connect(tmp_path / "shop.db") as made:
        made.execute("CREATE TABLE orders (no TEXT, paid TEXT, iban TEXT, made_by BLOB)")
        rows = [("A-2", "5.00", "DE02-5555"), ("A-1", "49.00", "DE01-4444"), ("A-3", "0.00", None)]
        made.executemany("INSERT INTO orders VALUES (?, ?, ?, x'00')", rows)
    made.close()
    return tmp_path


def synchronised(folder, text, *options):
    """The exit code or what was raised, stdout, stderr."""
    (folder / "sync.yaml").write_text(text)
    given = ["sync", str(folder / "sync.yaml"), "--out", str(folder / "world"), *options]
    ended = CliRunner().invoke(command, given, standalone_mode=False)
    if isinstance(ended.exception, SidecarError):
        raise ended.exception
    assert ended.exception is None, ended.exception
    return ended.stdout, ended.stderr


def rows(folder, version=1, entity="orders"):
    return json.loads((folder / "world" / str(version) / f"{entity}.json").read_text())


def group(folder):
    return with_state(load_twins([folder / "twin.yaml"]).group, folder / "world")


def test_rows_of_a_sqlite_file_become_a_snapshot_with_its_source(folder):
    said, _ = synchronised(folder, SQLITE, "--output", "json")
    told = json.loads(said)
    assert (told["version"], told["sync"]) == (1, "shop")
    assert told["entities"]["orders"] | {"taken_at": ""} == {
        "source": "sql shop",
        "taken_at": "",
        "rows": 2,
        "digest": told["entities"]["orders"]["digest"],
        "secrets": ["iban", "buyer.pin"],
    }
    assert [one["id"] for one in rows(folder)] == ["A-1", "A-2"], "bound, and in order of keys"
    found = group(folder)
    assert found.state.version == 1
    assert found.open()["shop"].row("orders", "A-1")["paid"] == "49.00"


def test_no_secret_is_in_a_snapshot_and_its_canaries_are_the_same_each_time(folder):
    synchronised(folder, SQLITE)
    synchronised(folder, SQLITE)
    everything = b"".join(one.read_bytes() for one in (folder / "world").rglob("*.json"))
    assert b"DE01-4444" not in everything and b"DE02-5555" not in everything
    first, second = rows(folder), rows(folder, 2)
    assert first == second
    assert first[0]["iban"].startswith("canary-") and first[0]["iban"] != first[1]["iban"]
    digests = [json.loads((folder / "world" / n / "snapshot.json").read_text()) for n in "12"]
    assert digests[0]["digest"] == digests[1]["digest"]
    assert [one["version"] for one in digests] == [1, 2]


def test_a_canary_says_nothing_of_the_value_and_is_of_its_kind():
    def canary(value):
        (row,) = hidden([{"id": 1, "a": [{"pin": value}]}], "x", "id", ["a.pin", "gone"])
        return row["a"][0]["pin"]

    assert canary("1234") == canary("9999") and canary(1234) == canary(1.5)
    assert isinstance(canary(1234), int) and isinstance(canary({"deep": 1}), str)
    assert canary(None) is None
    assert hidden([{"id": 1, "a": 7}], "x", "id", ["a.pin"]) == [{"id": 1, "a": 7}]


def test_a_secret_in_a_text_that_nobody_takes_apart_is_no_snapshot(folder):
    text = SQLITE.replace(
        "paid, iban FROM", "json_object('pin', 'p-4711') AS buyer, paid, iban FROM"
    )
    text = text.replace("iban: iban}", "iban: iban, buyer: buyer}")
    with pytest.raises(
        SidecarError, match=r"row 0 has a text where buyer\.pin should be"
    ) as caught:
        synchronised(folder, text)
    assert "p-4711" not in str(caught.value)
    assert list((folder / "world").glob("*")) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("WHERE paid > $1", "WHERE paid > $1 OR no = 'A-3'"), ""),
        (("columns: {no: id,", "rows_max: 1\n    columns: {no: id,"), "more than 1 rows"),
        (("SELECT no,", "SELECT NULL AS no,"), "row 0 has no id"),
        (("SELECT no,", "SELECT 'A' AS no,"), "that another row has"),
        (("columns: {no: id,", "columns: {number: id,"), "has no column 'number'; known: iban, no"),
        (("SELECT no, paid", "SELECT no, 1 AS paid"), "do not fit its schema: orders.0.paid"),
        (("FROM orders", "FROM secrets"), "the query is refused: no such table"),
        (("SELECT no, paid, iban FROM", "SELECT no, no, iban FROM"), "names a column twice"),
        (("SELECT no,", "SELECT load_extension('x') AS no,"), "the query is refused"),
        ((FINITE, ENDLESS), "the deadline passed"),
        (("shop.db", "gone.db"), "there is no such database file"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_state_writes_nothing_and_tells_no_value(folder, change, said):
    text = SQLITE.replace(*change).replace("columns:", "deadline: 200ms\n    columns:", 1)
    assert text != SQLITE
    if not said:
        synchronised(folder, text)
        assert len(rows(folder)) == 3
        return
    with pytest.raises(SidecarError) as caught:
        synchronised(folder, text)
    assert said in str(caught.value)
    assert "DE01" not in str(caught.value)
    assert list((folder / "world").glob("*")) == []


@pytest.mark.parametrize(
    "query",
    [
        "DELETE FROM orders RETURNING no, paid, iban",
        "SELECT no, paid, iban FROM orders; DROP TABLE orders",
        "PRAGMA user_version",
        "ATTACH 'x.db' AS x",
    ],
)
def test_a_source_is_only_read(folder, query):
    text = SQLITE.replace("SELECT no, paid, iban FROM orders WHERE paid > $1", query)
    with pytest.raises(SidecarError, match=r"must be one SELECT|asks for"):
        synchronised(folder, text.replace(', parameters: ["1"]', ""))
    cte = "WITH x AS (SELECT 1) DELETE FROM orders"
    with pytest.raises(SidecarError, match="the query is refused"):
        synchronised(folder, SQLITE.replace("SELECT no, paid, iban FROM orders", cte))
    with sqlite3.connect(folder / "shop.db") as kept:
        assert kept.execute("SELECT count(*) FROM orders").fetchone() == (3,)
    kept.close()


def test_all_problems_of_a_sync_file_are_told_with_their_lines(folder):
    text = """\
sync: shop
twins: [twin.yaml]
databases: [{name: shop, url: "sqlite:///"}, {name: far, url: mysql://x}]
entities:
  orders: {columns: {a: paid, b: paid}}
  nothing: {file: x.json}
  prices:
    sql: {database: other, query: "DELETE FROM x", parameters: [1]}
    rows_max: 0
    deadline: never
"""
    with pytest.raises(SidecarError) as caught:
        synchronised(folder, text)
    lines = [
        line.split("sync.yaml:")[1].split(" ")[:2] for line in caught.value.what.splitlines()[1:]
    ]
    assert lines == [
        ["3:", "databases.0.url"],
        ["3:", "databases.1.url"],
        ["5:", "entities.orders"],
        ["5:", "entities.orders.columns"],
        ["5:", "entities.orders.columns"],
        ["6:", "entities.nothing"],
        ["9:", "entities.prices.rows_max"],
        ["10:", "entities.prices.deadline"],
        ["8:", "entities.prices.sql.parameters"],
        ["8:", "entities.prices.sql.query"],
        ["8:", "entities.prices.sql.database"],
    ]


def test_files_are_sources_too_and_a_secret_that_nobody_declared_is_told(folder):
    (folder / "orders.csv").write_text("\ufeffid,paid,api_key\nA-9,1.00,k-1\n")
    (folder / "prices.json").write_text('{"S-1": {"cents": 7}}')
    text = "sync: s\ntwins: [twin.yaml]\nentities:\n"
    text += "  orders: {file: orders.csv}\n  prices: {file: prices.json}\n"
    said, warned = synchronised(folder, text)
    assert "orders      1 rows  file orders.csv" in said
    assert warned == (
        "orders.api_key looks like a secret and is not declared one: "
        "its values are in the snapshot\n"
    )
    assert rows(folder, entity="prices") == [{"cents": 7, "sku": "S-1"}]
    (folder / "orders.csv").write_text("id,paid\nA-9,1.00,more\n")
    with pytest.raises(SidecarError, match="row 0 has not as many values"):
        synchronised(folder, text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "orders: it is empty: not even a head names the columns"),
        ("id,paid,paid\nA-9,1.00,2.00\n", "orders: its head names 'paid' twice"),
    ],
)
def test_a_table_that_broke_off_or_says_a_column_twice_is_no_state(folder, text, said):
    (folder / "orders.csv").write_text(text)
    sync = "sync: shop\ntwins: [twin.yaml]\nentities:\n  orders: {file: orders.csv}\n"
    with pytest.raises(SidecarError, match=said):
        synchronised(folder, sync)
    assert not (folder / "world" / "1").exists()


def test_a_snapshot_that_was_changed_since_or_is_half_written_is_none(folder):
    synchronised(folder, SQLITE)
    half = folder / "world" / "2"
    half.mkdir()
    (half / "orders.json").write_text("[]")
    (folder / "world" / ".new-1").mkdir()
    assert group(folder).state.version == 1
    path = folder / "world" / "1" / "orders.json"
    path.write_text(path.read_text().replace("49.00", "50.00"))
    with pytest.raises(SidecarError, match="not what the snapshot was made with"):
        group(folder)
    (folder / "world" / "1" / "snapshot.json").write_text('{"format": "x"}')
    with pytest.raises(SidecarError, match="it is no snapshot"):
        group(folder)


def test_synchronisations_at_once_each_get_a_version_of_their_own(folder):
    (folder / "sync.yaml").write_text(SQLITE)
    loaded = load_sync(folder / "sync.yaml")
    some = Read(source="sql shop", taken_at_ns=1, rows=[{"id": "A-1", "paid": "1"}], secrets=())
    made = []

    def write():
        made.extend(write_snapshot(loaded, {"orders": some}, folder / "world") for _ in range(8))

    threads = [threading.Thread(target=write) for _ in range(4)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(one.version for one in made) == versions(folder / "world") == [*range(1, 33)]
    assert group(folder).state.version == 32
    (folder / "world" / "33").mkdir()
    (folder / "world" / "33" / "notes.txt").write_text("mine")
    with pytest.raises(SidecarError, match="the snapshot cannot be written"):
        write_snapshot(loaded, {"orders": some}, folder / "world")
    assert not list((folder / "world").glob(".new-*"))


def test_an_old_state_is_told_with_its_age_and_decides_nothing_by_itself(folder):
    synchronised(folder, SQLITE)
    found = group(folder)
    taken = found.state.taken_at_ns
    fresh, old = (found.state_of(taken + hours * 3600 * 10**9) for hours in (0, 2))
    assert (fresh["version"], fresh["age_seconds"], fresh["stale"]) == (1, 0, [])
    assert old["age_seconds"] == 7200
    assert old["stale"][0].startswith("shop: its state (version 1) is of ")
    assert old["stale"][0].endswith("7200 s ago: more than 1h")
    without = load_twins([folder / "twin.yaml"]).group.state_of(taken)
    assert "of no snapshot" in without["stale"][0]


# -- HTTP --


@contextmanager
def answering(status, body):
    """A server that answers so; its port and what it was asked."""
    asked = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            asked.append((self.path, self.headers.get("X-Key")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port, asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def over_http(port, rows="response.items", cidrs='["127.0.0.0/8"]'):
    return (
        "sync: s\ntwins: [twin.yaml]\nentities:\n  orders:\n    http:\n"
        f'      url: "http://127.0.0.1:{port}"\n      path: /export?all=1\n      rows: {rows}\n'
        f"      allow_cidrs: {cidrs}\n      credential: {{header: X-Key, file: key}}\n"
    )


def test_rows_of_an_answer_over_http_come_through_egress_with_their_credential(folder):
    (folder / "key").write_text("s3cret\n")
    body = json.dumps({"items": [{"id": "A-1", "paid": "2.00", "buyer": {"pin": 4711}}]}).encode()
    with answering(200, body) as (port, asked):
        synchronised(folder, over_http(port))
        assert asked == [("/export?all=1", "s3cret")]
        (row,) = rows(folder)
        assert row["buyer"]["pin"] >= 10**9
        with pytest.raises(SidecarError, match=r"http\.rows is no list"):
            synchronised(folder, over_http(port, "response"))
        with pytest.raises(SidecarError, match=r"http\.rows has no value"):
            synchronised(folder, over_http(port, "response.none"))
        (folder / "key").unlink()
        with pytest.raises(SidecarError, match="credential's file cannot be read"):
            synchronised(folder, over_http(port))
    assert len(asked) == 3


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [(500, b"[]", "it answered 500"), (200, b"{", "no JSON"), (302, b"", "it answered 302")],
)
def test_an_answer_that_is_none_is_told(folder, status, body, said):
    (folder / "key").write_text("k")
    with answering(status, body) as (port, _), pytest.raises(SidecarError, match=said):
        synchronised(folder, over_http(port))


def test_an_address_that_is_not_allowed_is_not_asked(folder):
    (folder / "key").write_text("k")
    with answering(200, b"[]") as (port, asked):
        with pytest.raises(SidecarError, match=r"entities\.orders\.http\.url"):
            synchronised(folder, over_http(port, cidrs="[]"))
        assert asked == []


# -- Postgres --


@pytest.fixture(scope="module")
def shop():
    """A real Postgres with 1,203 orders, and a role that may only read."""
    server = shared()
    for role in ("syncer", "changer"):
        server.execute(f"DROP ROLE IF EXISTS {role}")
        server.execute(f"CREATE ROLE {role} LOGIN")
    with database(migrated=False) as url:
        name = url.rsplit("/", 1)[1]
        for statement in (
            "CREATE TABLE orders (no text, paid numeric(12, 2), iban text, day date)",
            "INSERT INTO orders SELECT 'A-' || lpad(n::text, 4, '0'), n, 'DE' || n, "
            "'2026-01-05' FROM generate_series(1, 1203) n",
            "GRANT SELECT ON orders TO syncer",
            "GRANT SELECT, UPDATE ON orders TO changer",
        ):
            server.execute(statement, database=name)
        yield server, name
        server.execute("DROP OWNED BY syncer, changer", database=name)


def over_sql(shop, query, *, role="syncer", parameters="", cidrs='["127.0.0.0/8"]'):
    server, name = shop
    return (
        "sync: s\ntwins: [twin.yaml]\ndatabases:\n"
        f'  - {{name: pg, url: "postgresql://{role}@127.0.0.1:{server.port}/{name}", tls: off, '
        f"allow_cidrs: {cidrs}}}\nentities:\n  orders:\n    columns: {{no: id, paid: paid}}\n"
        f'    sql: {{database: pg, query: "{query}"{parameters}}}\n'
    )


def test_more_rows_than_one_answer_holds_are_asked_for_in_pages(folder, shop):
    synchronised(folder, over_sql(shop, "SELECT no, paid FROM orders"))
    found = rows(folder)
    assert len(found) == 1203
    assert found[0] == {"id": "A-0001", "paid": "1.00"}
    assert [one["id"] for one in found] == sorted(one["id"] for one in found)


def test_values_are_bound_and_a_page_too_large_is_halved(folder, shop):
    query = "SELECT no, repeat('x', 4000) AS paid FROM orders WHERE paid <= $1"
    synchronised(folder, over_sql(shop, query, parameters=', parameters: ["1000.5"]'))
    assert len(rows(folder)) == 1000
    injected = ', parameters: ["1; DROP TABLE orders"]'
    with pytest.raises(SidecarError, match="sql_value_does_not_fit"):
        synchronised(folder, over_sql(shop, query, parameters=injected))


@pytest.mark.full
@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("SELECT no, paid FROM orders UNION ALL SELECT no, paid FROM orders", "another row has"),
        ("SELECT NULL::text AS no, paid FROM orders", "has no no, which names the row"),
        ("SELECT paid FROM orders", "in vain: query_refused"),
        ("SELECT no, paid, pg_sleep(9)::text FROM orders", "no_whole_answer|in time"),
        ("SELECT no, paid FROM orders) AS x; DELETE FROM orders; SELECT (1", "must be one SELECT"),
        ("WITH x AS (DELETE FROM orders RETURNING *) SELECT * FROM x", "in vain"),
    ],
)
def test_a_query_that_gives_no_state_is_told_and_changes_nothing(folder, shop, query, said):
    text = over_sql(shop, query).replace("    columns:", "    deadline: 5s\n    columns:")
    with pytest.raises(SidecarError, match=said):
        synchronised(
            folder, text.replace("deadline: 5s", "deadline: 2s") if "sleep" in query else text
        )
    assert not (folder / "world").exists() or list((folder / "world").iterdir()) == []
    synchronised(folder, over_sql(shop, "SELECT no, paid FROM orders"))
    assert len(rows(folder)) == 1203


def test_a_role_that_can_write_is_not_asked_nor_an_address_that_is_not_allowed(folder, shop):
    with pytest.raises(SidecarError, match="role_can_write"):
        synchronised(folder, over_sql(shop, "SELECT no, paid FROM orders", role="changer"))
    with pytest.raises(SidecarError, match=r"databases\.0\.url"):
        synchronised(folder, over_sql(shop, "SELECT no, paid FROM orders", cidrs="[]"))


def test_a_served_twin_has_the_synchronised_state(folder):
    synchronised(folder, SQLITE)
    from sidecar.app.twinning import group_of

    served = group_of([folder / "twin.yaml"], Path(folder / "world"))
    assert served.open()["shop"].count("orders") == 2


# -- into a verdict --

JUDGED = """\
suite: orders
twins: [twin.yaml]
state: world
deterministic: true
scenarios:
  - id: reads
    input: A-1
    expect: [{type: toolCalled, tool: get_order}, {type: outputContains, text: open}]
"""


@pytest.mark.full
def test_a_verdict_says_which_state_its_twins_had_and_that_it_is_too_old(folder, monkeypatch):
    from sidecar.testing import suites

    synchronised(folder, SQLITE)
    monkeypatch.chdir(folder)
    (folder / "agent.py").write_text(AGENT)
    (folder / "suite.yaml").write_text(JUDGED)
    reference = f"cmd:{sys.executable} agent.py good"
    aged(folder / "world" / "1" / "snapshot.json")
    verdict = suites.replay("suite.yaml", baseline=reference, candidate=reference)
    assert verdict.status == "WARN", suites.text(verdict)
    state = verdict.evidence["twin_state"]
    assert (state["version"], state["taken_at"]) == (1, "2020-01-01T00:00:00.000Z")
    assert state["stale"][0].endswith(" s ago: more than 1h")
    shown = CliRunner().invoke(root, ["gate", "explain", verdict.verdict_id]).stdout
    assert "twin state" in shown and "ago: more than 1h" in shown


def aged(path):
    """A snapshot as if it had been taken on another day."""
    said = json.loads(path.read_text())
    path.write_text(json.dumps({**said, "taken_at": "2020-01-01T00:00:00.000Z"}))


def test_a_suite_or_a_sync_file_whose_state_cannot_be_used_is_found_by_the_check(folder):
    (folder / "suite.yaml").write_text(JUDGED)
    (folder / "sync.yaml").write_text(SQLITE.replace("$1", "$2"))
    files = [str(folder / "suite.yaml"), str(folder / "sync.yaml")]
    ended = CliRunner().invoke(command, ["check", *files], standalone_mode=False)
    assert ended.return_value == 1
    assert "the folder has no state of these twins" in ended.stdout
    assert "sync.yaml:6: problem: entities.orders.sql.parameters" in ended.stdout
    assert ended.stdout.splitlines()[-1].startswith("1 twin, 1 suite, 1 sync file: 2 problems")
