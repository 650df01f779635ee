"""Twins written in Python behind the same pipeline as declared ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sidecar.errors import SidecarError
from sidecar.twins.declaration import Fault, When
from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.files import load_twins
from sidecar.twins.world import World

pytestmark = pytest.mark.requirement("TWN-01")

HEAD = """\
twin: shop
clock: {start: "2026-01-05T09:00:00Z", step: 1s}
entities:
  orders:
    key: id
    schema: {type: object, required: [id, left], properties: {left: {type: integer}}}
    rows: [{id: o1, left: 40}, {id: o2, left: 10}]
  refunds: {key: id}
"""
TOOLS = """\
tools:
  - {name: get_order, match: {method: GET, path: "/orders/{id}"}, class: read%s}
  - name: refund
    match: {method: POST, path: "/orders/{id}/refunds"}
    permission: refunds.write
    arguments: {schema: {type: object, required: [id, amount]}}
%s"""
DECLARED = HEAD + TOOLS % (
    """, let: {order: 'row("orders", arguments.id)'},
     preconditions: [{require: 'order != null', status: 404, body: {error: '"none"'}}],
     response: {body: order}""",
    """\
    effect_key: arguments.id
    let: {order: 'row("orders", arguments.id)', refund_id: 'next_id("RF")'}
    preconditions:
      - {require: 'order != null', status: 404, body: {error: '"none"'}}
      - {require: 'arguments.amount <= order.left', body: {error: '"too much"'}}
    effects:
      - {op: insert, entity: refunds, values: {id: refund_id, of: arguments.id}}
      - {op: increment, entity: orders, key: arguments.id, field: left, by: 0 - arguments.amount}
    response: {status: 201, body: {refund_id: refund_id}}
""",
)
CODED = HEAD + "code: {file: shop.py}\n" + TOOLS % ("", "")
CODE = """\
from sidecar.twins.coded import Answer, Refusal

def order(realm, arguments):
    found = realm.row("orders", arguments["id"])
    if found is None:
        raise Refusal(Answer(status=404, value={"error": "none"}))
    return found

def refund(realm, arguments):
    found = order(realm, arguments)
    name = realm.next_id("RF")
    realm.insert("refunds", {"id": name, "of": arguments["id"]})
    if arguments["amount"] > found["left"]:
        raise Refusal(Answer(status=409, value={"error": "too much"}))
    realm.replace("orders", {**found, "left": found["left"] - arguments["amount"]})
    return Answer(status=201, value={"refund_id": name}, effect=arguments["id"])

TOOLS = {"get_order": order, "refund": refund}
"""


def loaded(folder, text, code=None):
    folder.mkdir(exist_ok=True)
    (folder / "twin.yaml").write_text(text)
    if code is not None:
        (folder / "shop.py").write_text(code)
    return load_twins([folder / "twin.yaml"])


def only(twins):
    return next(iter(twins.group.twins.values()))


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    folder = tmp_path_factory.mktemp("twins")
    return only(loaded(folder / "d", DECLARED)), only(loaded(folder / "c", CODED, CODE))


KINDS = ["timeout_before", "timeout_after", "lie_success", "http_500_after", "http_429"]
calls = st.lists(
    st.tuples(
        st.sampled_from(["get_order", "refund"]),
        st.sampled_from(["o1", "o2", "o9"]),
        st.sampled_from([1, 7, 30]),
        st.sampled_from(["", "k1", "k2"]),
    ),
    max_size=8,
)
faults = st.lists(
    st.builds(
        Fault,
        fault=st.sampled_from(KINDS),
        tool=st.sampled_from(["refund", "*"]),
        when=st.builds(When, probability=st.sampled_from([0, 0.5, 1])),
    ),
    max_size=2,
)


@settings(max_examples=60, deadline=None)
@given(calls, faults, st.booleans())
def test_code_and_declaration_stand_behind_one_pipeline(both, asked, rules, allowed):
    seen = []
    for twin in both:
        permissions = frozenset({"*"} if allowed else {"orders.read"})
        setting = Setting(permissions=permissions, faults=tuple(rules), seed=3)
        run = Episode(twin, World(twin.declaration), setting)
        replies = [
            run.call(Call(tool=tool, arguments={"id": name, "amount": amount}, key=key))
            for tool, name, amount, key in asked
        ]
        told = [(one.kind, one.tool, one.status, one.changes, one.effect_key) for one in run.events]
        seen.append((replies, told, run.changes(), run.close()))
    assert seen[0] == seen[1]
    assert seen[0][3]


def episode(twins):
    twin = only(twins)
    return Episode(twin, World(twin.declaration), Setting(seed=3))


def call(run, tool="get_order", **arguments):
    return run.call(Call(tool=tool, arguments=arguments))


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("raise KeyError('x')", "error", 501),
        ("realm.delete('orders', 'o1')", "error", 501),
        ("realm.insert('orders', {'id': 'o1', 'left': 1})", "gap", 501),
        ("realm.insert('orders', {'id': 'o3'})", "gap", 501),
        ("realm.delete('orders', 'o9')", "gap", 501),
        ("realm.row('nothing', 1)", "error", 501),
    ],
)
def test_code_that_breaks_voids_its_case_and_leaves_nothing(tmp_path, body, kind, status):
    code = CODE.replace(
        'found = realm.row("orders", arguments["id"])\n    if', f"{body}\n    found = 1\n    if"
    )
    run = episode(loaded(tmp_path, CODED, code))
    assert call(run, id="o1").status == status
    assert run.events[-1].kind == kind
    assert run.changes() == () and run.close()


def test_a_row_that_code_edits_in_place_is_a_leak(tmp_path):
    code = CODE.replace("    return found\n", "    found['left'] = 0\n    return found\n")
    run = episode(loaded(tmp_path, CODED, code))
    call(run, id="o1")
    assert not run.close()


def test_draws_depend_on_seed_stream_and_call_alone(tmp_path):
    code = CODE.replace("return found\n", "return [realm.draw('a'), realm.draw('b'), realm.now]\n")
    twins = loaded(tmp_path, CODED, code)
    first, again = episode(twins), episode(twins)
    one, two = call(first, id="o1").value, call(first, id="o1").value
    assert call(again, id="o1").value == one
    assert len({*one[:2], *two[:2]}) == 4 and all(0 <= n < 1 for n in (*one[:2], *two[:2]))


def test_evidence_names_the_code_and_its_digest_is_the_twins_too(tmp_path):
    declared = loaded(tmp_path / "d", DECLARED)
    coded = loaded(tmp_path / "c", CODED, CODE)
    other = loaded(tmp_path / "o", CODED, CODE + "# changed\n")
    assert declared.group.code() == {}
    assert coded.group.code()["shop"].startswith("shop.py sha256:")
    assert coded.files["shop.py"] == CODE.encode()
    assert coded.group.digests() != other.group.digests()


@pytest.mark.parametrize(
    ("text", "code", "says"),
    [
        (CODED, "TOOLS = 3", "has no TOOLS"),
        (CODED, "import nothing_of_that_name", "nothing_of_that_name"),
        (CODED, CODE + "TOOLS['swim'] = order\n", "'swim', which is no tool here"),
        (CODED, CODE + "del TOOLS['refund']\n", "refund has neither code nor a response"),
        (DECLARED + "code: {file: shop.py}\n", CODE, "get_order is written in shop.py"),
        (CODED.replace("shop.py", "gone.py"), CODE, "cannot be read"),
        (CODED.replace("{file: shop.py}", "{}"), CODE, "either a file or a module"),
        (CODED.replace("{file: shop.py}", "{module: no.such}"), CODE, "No module named 'no'"),
    ],
)
def test_bad_code_is_told_when_the_twin_is_loaded(tmp_path, text, code, says):
    with pytest.raises(SidecarError) as caught:
        loaded(tmp_path, text, code)
    assert says in str(caught.value)
