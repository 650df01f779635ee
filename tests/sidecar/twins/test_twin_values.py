"""What a twin keeps or answers is JSON: anything else is a gap or a fault of its code: void."""

import json

import pytest

from sidecar.twins.episode import Call, Episode, Setting
from sidecar.twins.files import load_twins
from sidecar.twins.world import World

pytestmark = pytest.mark.requirement("TWN-01")

HEAD = """\
twin: shop
flags: {seen: 1.0}
entities: {orders: {key: id, rows: [{id: A, at: 1.0}]}}
queues: {letters: {}}
"""
DECLARED = (
    HEAD
    + """\
tools:
  - {name: ask, match: {method: GET, path: /ask}, class: read, response: {body: {it: '%s'}}}
  - name: row
    match: {method: POST, path: /row}
    effects: [{op: set, entity: orders, key: '"A"', values: {at: '%s'}}]
  - {name: flag, match: {method: POST, path: /flag}, effects: [{op: set, flag: seen, value: '%s'}]}
  - name: letter
    match: {method: POST, path: /letter}
    effects: [{op: enqueue, queue: letters, message: ['%s']}]
  - {name: named, match: {method: POST, path: /named}, effect_key: '%s'}
"""
)
CODED = (
    HEAD
    + """\
code: {file: shop.py}
tools: [{name: act, match: {method: POST, path: /act}}]
"""
)
CODE = """\
import sys
from sidecar.twins.coded import Answer, Refusal

def act(realm, arguments):
    %s

TOOLS = {"act": act}
"""


def called(folder, text, tool):
    (folder / "twin.yaml").write_text(text)
    twin = load_twins([folder / "twin.yaml"]).group.twins["shop"]
    world = World(twin.declaration)
    reply = Episode(twin, world, Setting()).call(Call(tool=tool, arguments={}))
    return reply, world


def kept(world):
    return json.dumps([world.tables, world.flags, world.queue("letters")], allow_nan=False)


@pytest.mark.parametrize("tool", ["ask", "row", "flag", "letter", "named"])
@pytest.mark.parametrize("wrong", ["0.0/0.0", "1.0/0.0", "[-1.0/0.0]", "{1: 2}", '{"a": {1: 2}}'])
def test_what_is_no_value_of_json_is_a_gap(tmp_path, tool, wrong):
    reply, world = called(tmp_path, DECLARED.replace("%s", wrong), tool)
    assert (reply.status, reply.value["error"]) == (501, "twin_gap")
    assert wrong.strip("[]") in reply.value["detail"] or wrong in reply.value["detail"]
    assert kept(world) == kept(called(tmp_path, DECLARED.replace("%s", "1"), "ask")[1])


@pytest.mark.parametrize(
    ("written", "told"),
    [
        ("timestamp(now)", "2026-01-01T00:00:00Z"),
        ('duration("3s")', "PT3S"),
        ('b"abc"', "YWJj"),
        ('[1.5, null, {"b": timestamp(now)}]', [1.5, None, {"b": "2026-01-01T00:00:00Z"}]),
    ],
)
def test_moments_lengths_and_bytes_are_kept_as_the_text_that_json_has(tmp_path, written, told):
    text = DECLARED.replace("%s", written)
    assert called(tmp_path, text, "ask")[0].value == {"it": told}
    assert called(tmp_path, text, "row")[1].tables["orders"]["A"]["at"] == told
    letters = json.loads(kept(called(tmp_path, text, "letter")[1]))[2]
    assert list(letters.values()) == [[told]]


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("return Answer(status=99999)", "status is 99999"),
        ('return Answer(status="200")', "status is '200'"),
        ("raise Refusal(Answer(status=7))", "status is 7"),
        ("return Answer(text=5)", "text is of type int"),
        ('return Answer(headers=(("X-A", "a\\r\\nb: c"),))', "the header 'X-A' cannot stand"),
        ("return {1, 2}", "a value of type set"),
        ("return {1: 2}", "a name in it is of type int"),
        ('return [float("nan")]', "nan is no number of JSON"),
        ("return object()", "a value of type object"),
        ("sys.exit(3)", "SystemExit: 3"),
    ],
)
def test_code_that_answers_what_cannot_be_sent_is_at_fault_itself(tmp_path, does, said):
    (tmp_path / "shop.py").write_text(CODE % does)
    reply, _ = called(tmp_path, CODED, "act")
    assert (reply.status, reply.value["error"]) == (501, "twin_error")
    assert said in reply.value["detail"]


@pytest.mark.parametrize(
    "does",
    [
        'realm.replace("orders", {"id": "A", "at": float("inf")})',
        'realm.insert("orders", {"id": "B", "at": object()})',
        'realm.set_flag("seen", {1: 2})',
    ],
)
def test_code_keeps_nothing_that_json_does_not_have(tmp_path, does):
    (tmp_path / "shop.py").write_text(CODE % does)
    reply, world = called(tmp_path, CODED, "act")
    assert (reply.status, reply.value["error"]) == (501, "twin_gap")
    assert "cannot be kept" in reply.value["detail"]
    assert world.tables["orders"] == {"A": {"id": "A", "at": 1.0}}
    assert world.flags == {"seen": 1.0}
