"""Probes by SQL against a real Postgres: what holds, what is refused, what is merely unknown."""

import asyncio
import socket
import ssl
from pathlib import Path

import hostile_postgres_rig as hostile
import pytest
from postgres_rig import database, shared
from tls_rig import Authority, write

from processors.model.step import Step, Tool
from processors.model.trace import AgentTrace
from sidecar.egress.client import Egress
from sidecar.probe.config import Database, Probe, SqlProbe
from sidecar.probe.driver import Askers, run
from sidecar.probe.plan import load, plan
from sidecar.probe.sql.client import SqlAsker

ARGUMENTS = {"order_id": "A-1", "amount": "60.00", "number": 7, "at": "2026-01-05T10:00:00+00:00"}
SCHEMA = """
    CREATE TABLE refunds (order_id text, number int, amount numeric(12, 2), made timestamptz,
                          note jsonb);
    INSERT INTO refunds VALUES ('A-1', 7, 60.00, '2026-01-05T10:00:00Z', '{"by": "bot"}');
    GRANT SELECT ON refunds TO looker;
"""


@pytest.fixture(scope="module")
def shop():
    """The port and name of a database with one refund, and a role that may only read it."""
    server = shared()
    for role in ("looker", "writer", "noter", "heir"):
        server.execute(f"DROP ROLE IF EXISTS {role}")
        server.execute(f"CREATE ROLE {role} LOGIN")
    with database(migrated=False) as url:
        name = url.rsplit("/", 1)[1]
        for statement in filter(str.strip, SCHEMA.split(";")):
            server.execute(statement, database=name)
        server.execute("GRANT SELECT, INSERT ON refunds TO writer", database=name)
        server.execute("GRANT SELECT, UPDATE (note) ON refunds TO noter", database=name)
        server.execute("GRANT SELECT ON refunds TO heir", database=name)
        server.execute("ALTER ROLE heir NOINHERIT")
        server.execute("GRANT writer TO heir")
        yield server, name
        server.execute("DROP OWNED BY looker, writer, noter, heir", database=name)


def asked(shop, query, parameters=(), expect="size(rows) == 1", *, role="looker", **fields):
    server, name = shop
    found = Database(
        name="shop",
        url=f"postgresql://{role}@{fields.pop('host', '127.0.0.1')}"
        f":{fields.pop('port', server.port)}/{name}",
        allow_cidrs=fields.pop("allow", ("127.0.0.0/8",)),
        tls=fields.pop("tls", "off"),
        ca_file=fields.pop("ca_file", ""),
    )
    tool = Tool(name="issue_refund", arguments=fields.pop("arguments", ARGUMENTS))
    step = Step(step_id="s1", kind="tool_call", name=tool.name, status="ok", tool=tool)
    trace = AgentTrace(trace_id="e" * 32, steps=(step,))

    probe = Probe(
        name="p",
        when="true",
        sql=SqlProbe(database="shop", query=query, parameters=tuple(parameters)),
        expect=expect,
        **fields,
    )

    async def here(_host, _port):
        return ["127.0.0.1"]

    async def scenario():
        egress = Egress(resolve=here)
        sql = SqlAsker([found], egress, Path())
        try:
            (evidence,) = await run(plan(trace, load([probe])), Askers(http=sql, sql=sql, mcp=sql))
            return evidence
        finally:
            await sql.close()
            await egress.close()

    return asyncio.run(scenario())


BY_ORDER = "SELECT * FROM refunds WHERE order_id = $1"


@pytest.mark.requirement("OUT-02")
def test_rows_are_judged_with_their_exact_values(shop):
    expect = (
        "rows[0].amount == arguments.amount && rows[0].number == 7 &&"
        ' rows[0].note.by == "bot" && rows[0].made.startsWith("2026-01-05T10:00:00")'
    )
    found = asked(shop, BY_ORDER, ["arguments.order_id"], expect)
    assert (found.held, found.detail, found.data["rows"]) == (True, None, 1)


def test_what_is_not_there_does_not_hold(shop):
    found = asked(shop, "SELECT 1 FROM refunds WHERE order_id = 'none'")
    assert (found.held, found.detail) == (False, "expectation_not_met")


@pytest.mark.parametrize(
    ("condition", "value"),
    [
        ("number = $1", "arguments.number"),
        ("amount = $1", "arguments.amount"),
        ("made = $1", "arguments.at"),
        ("order_id = $1::text", "arguments.order_id"),
    ],
)
def test_values_are_bound_as_the_type_of_their_place(shop, condition, value):
    found = asked(shop, f"SELECT 1 FROM refunds WHERE {condition}", [value])
    assert (found.held, found.detail) == (True, None)


def test_a_value_is_never_read_as_sql(shop):
    found = asked(shop, BY_ORDER, ["arguments.order_id"], arguments={"order_id": "' OR '1'='1"})
    assert found.held is False


@pytest.mark.parametrize(
    ("query", "parameters", "code"),
    [
        (
            "SELECT 1 FROM refunds WHERE number = $1",
            ["arguments.order_id"],
            "sql_value_does_not_fit",
        ),
        ("SELECT 1 FROM refunds WHERE order_id = $1", ["arguments.none"], "sql_value_missing"),
        ("SELECT 1 FROM nothing", [], "query_refused"),
        ("SELECT 1; SELECT 2", [], "query_refused"),
        ("WITH x AS (DELETE FROM refunds RETURNING 1) SELECT * FROM x", [], "not_a_read"),
        ("SELECT pg_read_file('/etc/passwd')", [], "not_permitted"),
        ("SELECT g FROM generate_series(1, 5000) g", [], "too_many_rows"),
        ("SELECT repeat('x', 2000000)", [], "answer_too_large"),
        ("SELECT repeat('x', 20000) FROM generate_series(1, 100)", [], "answer_too_large"),
        ("SELECT array_fill(1, ARRAY[30000])", [], "answer_too_large"),
        (f"SELECT {', '.join(['1'] * 300)}", [], "too_many_columns"),
        ("SELECT nextval('nothing')", [], "query_refused"),
    ],
)
def test_what_cannot_be_answered_is_unknown_with_its_code(shop, query, parameters, code):
    found = asked(shop, query, parameters)
    assert (found.held, found.detail) == (None, code)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT '20000-01-01'::timestamptz AS a",
        "SELECT '4000-01-01 BC'::date AS a",
        "SELECT ('1' || repeat('0', 6000))::jsonb AS a",
        "SELECT (repeat('[', 3000) || repeat(']', 3000))::jsonb AS a",
    ],
)
def test_a_value_that_cannot_be_read_leaves_the_state_unknown(shop, query):
    found = asked(shop, query)
    assert (found.held, found.detail) == (None, "answer_unreadable")


@pytest.mark.parametrize("role", ["writer", "sidecar", "noter", "heir"])
def test_a_role_that_can_write_is_not_used(shop, role):
    found = asked(shop, BY_ORDER, ["arguments.order_id"], role=role)
    assert (found.held, found.detail) == (None, "role_can_write")


ACT = "(text) RETURNS int LANGUAGE sql AS 'SELECT 1'"
OWN = "LANGUAGE plpgsql AS 'BEGIN END'"


@pytest.fixture
def acting(shop):
    """Makes functions in a schema of its own that the role ``looker`` may use, and undoes it."""
    server, name = shop

    def make(*statements):
        for statement in statements:
            server.execute(statement, database=name)

    make("CREATE SCHEMA acts", "GRANT USAGE ON SCHEMA acts TO looker")
    yield make
    make("DROP SCHEMA acts CASCADE", "ALTER ROLE looker INHERIT")


@pytest.mark.requirement("OUT-02")
@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE FUNCTION acts.act{ACT} SECURITY DEFINER"],
        ["CREATE PROCEDURE acts.act() LANGUAGE sql AS 'SELECT 1' SECURITY DEFINER"],
        [
            f"CREATE FUNCTION acts.act{ACT} SECURITY DEFINER",
            "REVOKE EXECUTE ON FUNCTION acts.act FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION acts.act TO looker",
        ],
    ],
    ids=["anybody's", "procedure", "granted"],
)
def test_a_role_that_may_call_what_runs_with_anothers_rights_is_not_used(shop, acting, statements):
    acting(*statements)
    found = asked(shop, BY_ORDER, ["arguments.order_id"])
    assert (found.held, found.detail) == (None, "role_can_act")


@pytest.mark.parametrize(
    "statements",
    [
        [f"CREATE FUNCTION acts.act{ACT}"],
        [f"CREATE FUNCTION acts.act{ACT} STABLE SECURITY DEFINER"],
        [f"CREATE FUNCTION acts.act() RETURNS trigger {OWN} SECURITY DEFINER"],
        [f"CREATE FUNCTION acts.act() RETURNS event_trigger {OWN} SECURITY DEFINER"],
        [
            f"CREATE FUNCTION acts.act{ACT} SECURITY DEFINER",
            "REVOKE EXECUTE ON FUNCTION acts.act FROM PUBLIC",
        ],
        [
            f"CREATE FUNCTION acts.act{ACT} SECURITY DEFINER",
            "REVOKE USAGE ON SCHEMA acts FROM looker",
        ],
    ],
    ids=["own rights", "stable", "trigger", "event trigger", "revoked", "out of reach"],
)
def test_functions_that_a_role_cannot_act_by_do_not_matter(shop, acting, statements):
    acting(*statements)
    found = asked(shop, BY_ORDER, ["arguments.order_id"])
    assert (found.held, found.detail) == (True, None)


def test_what_a_role_may_become_counts_for_what_it_may_call(shop, acting):
    server, name = shop
    server.execute("DROP ROLE IF EXISTS actor")
    server.execute("CREATE ROLE actor")
    try:
        acting(
            f"CREATE FUNCTION acts.act{ACT} SECURITY DEFINER",
            "REVOKE EXECUTE ON FUNCTION acts.act FROM PUBLIC",
            "GRANT EXECUTE ON FUNCTION acts.act TO actor",
            "GRANT USAGE ON SCHEMA acts TO actor",
        )
        before = asked(shop, BY_ORDER, ["arguments.order_id"])
        acting("ALTER ROLE looker NOINHERIT", "GRANT actor TO looker")
        after = asked(shop, BY_ORDER, ["arguments.order_id"])
    finally:
        server.execute("DROP OWNED BY actor", database=name)
        server.execute("DROP ROLE actor")
    assert (before.held, after.held, after.detail) == (True, None, "role_can_act")


@pytest.mark.parametrize("role", ["pg_signal_backend", "pg_execute_server_program"])
def test_a_role_that_postgres_lets_do_more_than_read_is_not_used(shop, role):
    server, _ = shop
    server.execute(f"GRANT {role} TO looker")
    try:
        found = asked(shop, BY_ORDER, ["arguments.order_id"])
    finally:
        server.execute(f"REVOKE {role} FROM looker")
    assert (found.held, found.detail) == (None, "role_can_write")


def test_a_query_that_takes_too_long_is_cut_off(shop):
    found = asked(shop, "SELECT pg_sleep(30)", deadline="300ms")
    assert (found.held, found.detail) == (None, "no_whole_answer")


def test_an_address_that_is_not_named_is_never_dialled(shop):
    found = asked(shop, BY_ORDER, ["arguments.order_id"], allow=("10.0.0.0/8",))
    assert (found.held, found.detail) == (None, "unreachable")


def test_a_server_that_is_away_is_unknown(shop):
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    found = asked(shop, BY_ORDER, ["arguments.order_id"], port=port)
    assert (found.held, found.detail) == (None, "unreachable")


def test_a_server_without_tls_is_not_asked_where_tls_is_wanted(shop):
    found = asked(shop, BY_ORDER, ["arguments.order_id"], tls="require")
    assert (found.held, found.detail) == (None, "unreachable")


@pytest.mark.parametrize(
    ("host", "held", "code"), [("shop.test", True, None), ("other.test", None, "unreachable")]
)
def test_tls_proves_the_name_that_was_configured(shop, tmp_path, host, held, code):
    authority = Authority()
    (tmp_path / "ca.pem").write_bytes(authority.pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*write(tmp_path, authority.issue("dns:shop.test")))
    with hostile.server(hostile.behind_tls(context, shop[0].port)) as port:
        ca_file = str(tmp_path / "ca.pem")
        found = asked(shop, "SELECT 1", port=port, host=host, tls="require", ca_file=ca_file)
    assert (found.held, found.detail) == (held, code)


def test_state_that_settles_late_is_waited_for(shop):
    query = (
        "SELECT 1 WHERE now() > (SELECT max(backend_start) FROM pg_stat_activity"
        " WHERE application_name LIKE 'agenttwin%') AND random() < 0.3"
    )
    found = asked(shop, query, until="20s")
    assert found.held is True
