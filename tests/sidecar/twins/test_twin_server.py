"""Twins served by themselves over real HTTP: whose call it is, what the wire does, and what an
operator can do to an episode.
"""

import http.client
import json
import threading

import pytest
from twin_server_rig import KEY, serving

from sidecar import clock
from sidecar.identity.keys import EpisodeClaims, mint_episode
from sidecar.twins.serving.driver import Limits

pytestmark = pytest.mark.requirement("TWN-01")
REFUND = ("POST", "/shop/orders/A-1/refunds", {"amount": "9.00"})


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("shop")) as running:
        yield running


def test_a_call_goes_through_the_twins_pipeline_with_its_key(shop):
    token = shop.open(permissions=["refunds.write"])
    assert shop.call(token, "GET", "/shop/orders/A-1") == (200, {"id": "A-1", "paid": "49.00"})
    key = {"Idempotency-Key": '"k-1"'}
    first = shop.call(token, *REFUND, headers=key)
    assert first == (201, {"refund_id": "RF-1", "at": "2026-01-05T09:00:01.000Z"})
    assert shop.call(token, *REFUND, headers=key) == first
    other = shop.call(token, "POST", REFUND[1], {"amount": "8.00"}, headers=key)
    assert (other[0], other[1]["error"]) == (422, "idempotency_key_reused")
    wrong = shop.call(token, "POST", REFUND[1], {"amount": "much"})
    assert (wrong[0], wrong[1]["error"]) == (422, "invalid_arguments")
    powerless = shop.open(permissions=[])
    assert shop.call(powerless, *REFUND)[1]["error"] == "permission_denied"


def test_what_no_twin_declares_is_a_gap_of_its_episode_alone(shop):
    token, other = shop.open(name="gap"), shop.open(name="whole")
    status, said = shop.call(token, "DELETE", "/shop/orders/A-1?secret=s-1234")
    assert (status, said["error"]) == (501, "twin_gap")
    assert "s-1234" not in json.dumps(shop.lead("GET", "/gap/events")[1])
    assert shop.call(token, "GET", "/elsewhere/orders")[0] == 501
    shop.call(other, "GET", "/shop/orders/A-1")
    ended = shop.lead("POST", "/gap/close", {})[1]
    assert ended["void"].startswith("twin_gap: shop: no twin declares DELETE /shop/orders/A-1")
    assert shop.lead("POST", "/whole/close", {})[1]["void"] is None


def test_two_episodes_at_once_never_see_each_other(shop):
    tokens = [shop.open(name=f"side-{number}") for number in range(2)]
    answers = [[], []]

    def agent(number):
        for _ in range(20):
            answers[number].append(shop.call(tokens[number], *REFUND)[1]["refund_id"])

    threads = [threading.Thread(target=agent, args=(number,)) for number in range(2)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert answers == [[f"RF-{n}" for n in range(1, 21)]] * 2
    for number in range(2):
        rows = shop.lead("GET", f"/side-{number}/rows?entity=refunds")[1]["rows"]
        assert len(rows) == 20
        assert shop.lead("DELETE", f"/side-{number}")[1]["clean"] is True


@pytest.mark.parametrize("path", ["/shop/orders/A-1", "/v1/episodes", "/anything"])
def test_nobody_is_served_without_a_credential(shop, path):
    status, headers, body = shop.ask("GET", path)
    assert status == 401
    assert headers["WWW-Authenticate"].startswith("Bearer")
    assert json.loads(body)["code"] == "unauthenticated"


def test_a_token_opens_its_own_open_episode_and_nothing_else(shop):
    token = shop.open(name="own")
    assert shop.ask("GET", "/v1/episodes", token=token)[0] == 401
    assert shop.ask("POST", "/v1/episodes/own/rewind", {"calls": 1}, token=token)[0] == 401
    assert shop.ask("GET", "/shop/orders/A-1", token=KEY)[0] == 401
    forged = mint_episode(
        EpisodeClaims(episode="own", project="twin", agent="a", expires_at_ns=clock.now_ns() * 2),
        key=b"another key of thirty-two bytes!",
    )
    for bad in (forged, token[:-2] + "AA", "ep1.", "ep1.e30.e30", "x" * 5000):
        assert shop.ask("GET", "/shop/orders/A-1", token=bad)[0] == 401, bad
    shop.lead("POST", "/own/close", {})
    again = shop.open(name="own")
    status, said = shop.call(token, "GET", "/shop/orders/A-1")
    assert (status, said["code"]) == (401, "unauthenticated")
    assert "ended" in said["detail"]
    assert shop.call(again, "GET", "/shop/orders/A-1")[0] == 200


def test_a_token_may_come_in_baggage_and_expires(shop):
    token = shop.open()
    carried = {
        "baggage": f"other=1,agenttwin-episode={token}",
        "Authorization": "Bearer agents-own",
    }
    assert shop.ask("GET", "/shop/orders/A-1", headers=carried)[0] == 200
    short = shop.open(life="0.0001ms")
    status, said = shop.call(short, "GET", "/shop/orders/A-1")
    assert (status, "expired" in said["detail"]) == (401, True)


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b'{"amount": "1.00", "amount": "2.00"}', "application/json", 400),
        (b'{"amount": NaN}', "application/json", 400),
        (b"[" * 100_000, "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"order_id": "A-2", "amount": "1.00"}', "application/json", 400),
        (b"x" * (1024**2 + 1), "application/json", 413),
        (b"{}", "application/octet-stream", 415),
    ],
)
def test_a_hostile_body_is_refused_and_reaches_no_twin(shop, body, kind, status):
    token = shop.open(name=f"hostile-{status}")
    try:
        found = shop.ask("POST", REFUND[1], body, token=token, headers={"Content-Type": kind})
        assert found[0] == status, found
        assert shop.lead("GET", f"/hostile-{status}/events")[1]["events"] == []
    finally:
        shop.lead("DELETE", f"/hostile-{status}")


def test_a_request_with_two_readings_is_refused_and_its_connection_closed(shop):
    token = shop.open()
    head = f"POST {REFUND[1]} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {token}\r\n"
    twice = "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"
    smuggled = shop.raw((head + twice).encode() + b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n")
    assert b" 400 Bad Request\r\n" in smuggled
    assert b"ok\n" not in smuggled


def test_an_episode_takes_no_calls_without_end(tmp_path):
    with serving(tmp_path, limits=Limits(events_max=3, episodes_max=1)) as running:
        token = running.open()
        statuses = [running.call(token, "GET", "/shop/orders/A-1")[0] for _ in range(5)]
        assert statuses == [200, 200, 200, 429, 429]
        assert running.lead("POST", "", {})[1]["code"] == "episodes_full"


def test_an_episode_whose_token_has_expired_makes_room_for_another(tmp_path):
    with serving(tmp_path, limits=Limits(episodes_max=1)) as running:
        running.open(name="old", life="0.0001ms")
        running.open(name="new")
        assert running.hall.names == ["new"]


# -- what an operator does --


@pytest.mark.requirement("TWN-04")
def test_time_is_paused_stepped_moved_on_and_taken_back(shop):
    token = shop.open(name="time")
    shop.call(token, *REFUND)
    assert shop.lead("GET", "/time")[1]["timers"] == 1
    paused = shop.lead("POST", "/time/pause", {})[1]
    shop.call(token, "GET", "/shop/orders/A-1")
    assert shop.lead("GET", "/time")[1]["now"] == paused["now"] == "2026-01-05T09:00:01.000Z"
    stepped = shop.lead("POST", "/time/step", {})[1]
    assert (stepped["stepped"], stepped["now"]) == (True, "2026-01-05T09:00:10.000Z")
    assert shop.lead("POST", "/time/step", {})[1]["stepped"] is False
    shop.lead("POST", "/time/resume", {})
    moved = shop.lead("POST", "/time/forward", {"by": "2h"})[1]
    assert moved["now"] == "2026-01-05T11:00:10.000Z"
    shop.call(token, *REFUND)
    assert len(shop.lead("GET", "/time/rows?entity=refunds")[1]["rows"]) == 2
    back = shop.lead("POST", "/time/rewind", {"calls": 1})[1]
    assert back["now"] == "2026-01-05T11:00:10.000Z"
    assert len(shop.lead("GET", "/time/rows?entity=refunds")[1]["rows"]) == 1
    assert shop.call(token, *REFUND)[1]["refund_id"] == "RF-2"
    shop.lead("POST", "/time/rewind", {"calls": 99})
    assert shop.lead("GET", "/time")[1]["changes"] == []


@pytest.mark.requirement("TWN-03")
def test_an_end_tells_what_changed_and_takes_everything_back(shop):
    token = shop.open(name="end", state={"orders": [{"id": "B-7", "paid": "1.00"}]}, seed=7)
    shop.call(token, "POST", "/shop/orders/B-7/refunds", {"amount": "1.00"})
    ended = shop.lead("POST", "/end/close", {})[1]
    assert (ended["void"], ended["clean"], ended["timers"]) == (None, True, 0)
    assert [(one["entity"], one["key"]) for one in ended["changes"]] == [
        ("refunds", "RF-1"),
        ("orders", "B-7"),
    ]
    assert ended["twins"]["shop"]["digest"].startswith("sha256:")
    assert shop.lead("GET", "/end")[1]["code"] == "no_such_episode"
    token = shop.open(name="end")
    assert shop.call(token, "GET", "/shop/orders/B-7")[0] == 404
    at_once = shop.lead("DELETE", "/end")[1]
    assert at_once["clean"] is True


def test_events_are_told_in_pages_and_no_agent_can_write_one(shop):
    token = shop.open(name="pages")
    for _ in range(3):
        shop.call(token, "GET", "/shop/orders/A-1")
    found = shop.lead("GET", "/pages/events?after=1")[1]
    assert [one["seq"] for one in found["events"]] == [1, 2]
    assert found["next"] is None
    assert shop.lead("POST", "/pages/events", {"kind": "answered"})[1]["code"] == "no_such_action"
    assert shop.lead("GET", "/pages/events?after=-1")[1]["code"] == "argument_invalid"


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"sead": 7}, "sead is unknown"),
        ({"name": "../x"}, "cannot be an episode's name"),
        ({"state": {"shops": []}}, "there is no entity 'shops'"),
        ({"state": {"orders": [{"id": 1}]}}, "state.orders.0"),
        ({"flags": {"open": True}}, "there is no flag 'open'"),
        ({"faults": [{"fault": "http_429", "tool": "pay"}]}, "there is no tool 'pay'"),
        ({"faults": [{"fault": "http_418", "tool": "*"}]}, "must be one of"),
        ({"now": "tomorrow"}, "is not a time"),
        ({"life": "30d"}, "at most 7d"),
    ],
)
def test_a_wish_that_is_wrong_says_what_and_opens_nothing(shop, wanted, said):
    before = len(shop.lead("GET", "")[1]["episodes"])
    status, problem = shop.lead("POST", "", wanted)
    assert (status, problem["code"]) == (422, "episode_invalid")
    assert said in problem["detail"]
    assert len(shop.lead("GET", "")[1]["episodes"]) == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("PUT", "", None, 405),
        ("POST", "", b"[]", 400),
        ("POST", "", b'{"seed": 1, "seed": 2}', 400),
        ("POST", "/led/jump", {}, 404),
        ("POST", "/led/forward", {"by": "soon"}, 422),
        ("POST", "/led/forward", {"by": 5}, 422),
        ("POST", "/led/rewind", {"calls": 0}, 422),
        ("POST", "/led/rewind", {"calls": True}, 422),
        ("POST", "/led/pause", {"for": "ever"}, 422),
        ("GET", "/led/rows?entity=shops", None, 404),
        ("GET", "/led/rows", None, 404),
        ("GET", "/led/else", None, 404),
        ("GET", "/gone", None, 404),
        ("GET", "/a/b/c", None, 404),
    ],
)
def test_what_an_operator_gets_wrong_is_told(shop, method, path, body, status):
    if "led" not in shop.hall.names:
        shop.open(name="led")
    found, said = shop.lead(method, path, body)
    assert (found, bool(said["detail"])) == (status, True)


def test_time_stays_within_the_years_that_can_be_written(shop):
    shop.open(name="late", now="9999-01-01T00:00:00Z")
    assert shop.lead("POST", "/late/forward", {"by": "3650d"})[0] == 422
    assert shop.lead("GET", "/late")[1]["now"] == "9999-01-01T00:00:00.000Z"


@pytest.mark.parametrize("now", ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00+23:00"])
def test_time_that_cannot_be_written_is_a_gap_and_the_episode_can_be_ended(shop, now):
    token = shop.open(name="edge", now=now)
    answers = [shop.call(token, "GET", "/shop/orders/A-1") for _ in range(3)]
    assert (answers[-1][0], answers[-1][1]["error"]) == (501, "twin_gap")
    assert shop.lead("POST", "/edge/step", {})[0] == 200
    ended = shop.lead("POST", "/edge/close", {})[1]
    assert "virtual time has left the years" in ended["void"] and ended["clean"]


# -- faults on the wire --


def faulty(shop, fault, **more):
    tool = "refund" if fault in ("timeout_after", "lie_success") else "*"
    return shop.open(faults=[{"fault": fault, "tool": tool, "when": {"callNumber": 1}, **more}])


@pytest.mark.requirement("TWN-02")
@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("dropped_connection", {}),
        ("dropped_connection", {"phase": "after"}),
        ("crash_between_effect_and_receipt", {}),
    ],
)
def test_a_broken_connection_is_broken_and_the_effect_is_as_the_table_says(shop, fault, more):
    token = faulty(shop, fault, **more)
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        shop.call(token, *REFUND)
    name = shop.hall.names[-1]
    rows = shop.lead("GET", f"/{name}/rows?entity=refunds")[1]["rows"]
    assert len(rows) == (0 if fault == "dropped_connection" and not more else 1)


@pytest.mark.requirement("TWN-02")
def test_half_a_body_is_half_a_body(shop):
    token = faulty(shop, "truncated")
    with pytest.raises(http.client.IncompleteRead) as caught:
        shop.call(token, "GET", "/shop/orders/A-1")
    assert caught.value.partial == b'{"id":"A-1","'
    assert shop.call(token, "GET", "/shop/orders/A-1")[0] == 200


@pytest.mark.requirement("TWN-02")
def test_bytes_that_are_no_json_come_as_they_are(shop):
    status, _, body = shop.ask("GET", "/shop/orders/A-1", token=faulty(shop, "malformed_json"))
    assert (status, body) == (200, b'{"id":"A-1","paid":"49.00",]')
    late = shop.ask("GET", "/shop/orders/A-1", token=faulty(shop, "http_429", retry_after=7))
    assert (late[0], late[1]["retry-after"]) == (429, "7")


@pytest.mark.requirement("TWN-02")
def test_a_call_that_is_not_answered_holds_nobody_else_and_ends_in_time(tmp_path):
    with serving(tmp_path, silence_seconds=0.2) as running:
        token = running.open(faults=[{"fault": "timeout_after", "tool": "refund"}])
        with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
            running.call(token, *REFUND)
        assert len(running.lead("GET", f"/{running.hall.names[0]}/rows?entity=refunds")[1]["rows"])


@pytest.mark.requirement("TWN-02")
def test_a_held_call_ends_when_its_caller_leaves_and_when_the_server_does(tmp_path):
    ended = []
    with serving(tmp_path, silence_seconds=60) as running:
        token = running.open(faults=[{"fault": "hang", "tool": "*"}])
        with pytest.raises(TimeoutError):
            running.call(token, "GET", "/shop/orders/A-1", timeout=0.2)
        other = running.open()
        assert running.call(other, "GET", "/shop/orders/A-1")[0] == 200
        raised = threading.Event()

        def wait():
            try:
                running.call(token, "GET", "/shop/orders/A-1", timeout=30)
            except (http.client.HTTPException, OSError) as error:
                ended.append(type(error))
            raised.set()

        asking = threading.Thread(target=wait)
        asking.start()
        while len(running.hall.seat(running.hall.names[0]).episode.events) < 4:
            assert not raised.is_set()
    asking.join(10)
    assert ended and ended[0] is not TimeoutError


def test_a_twin_whose_code_fails_is_a_void_episode_and_a_server_that_goes_on(tmp_path):
    (tmp_path / "shop.py").write_text(
        "def get_order(realm, arguments):\n    raise KeyError('secret-1')\n"
        "TOOLS = {'get_order': get_order}\n"
    )
    text = "twin: shop\ncode: {file: shop.py}\nentities: {orders: {key: id}}\ntools:\n"
    text += '  - {name: get_order, match: {method: GET, path: "/orders"}, class: read}\n'
    with serving(tmp_path, text) as running:
        token = running.open(name="failing")
        status, said = running.call(token, "GET", "/shop/orders")
        assert (status, said["error"]) == (501, "twin_error")
        assert running.lead("POST", "/failing/close", {})[1]["void"].startswith("twin_error")
        assert running.call(running.open(), "GET", "/shop/orders")[0] == 501


def test_code_that_edits_a_row_in_place_harms_its_own_episode_and_no_other(tmp_path):
    (tmp_path / "shop.py").write_text(
        "def spoil(realm, arguments):\n"
        "    realm.row('orders', 'A-1')['paid'] = 'spoilt'\n"
        "def get_order(realm, arguments):\n    return realm.row('orders', 'A-1')\n"
        "TOOLS = {'spoil': spoil, 'get_order': get_order}\n"
    )
    text = "twin: shop\ncode: {file: shop.py}\n"
    text += "entities: {orders: {key: id, rows: [{id: A-1, paid: yes}]}}\ntools:\n"
    text += "  - {name: get_order, match: {method: GET, path: /order}, class: read}\n"
    text += "  - {name: spoil, match: {method: POST, path: /order}, class: write}\n"
    with serving(tmp_path, text) as running:
        spoiling, other = running.open(name="spoiling"), running.open(name="other")
        assert running.call(spoiling, "POST", "/shop/order")[0] == 200
        assert running.call(other, "GET", "/shop/order")[1]["paid"] == "yes"
        ended = running.lead("POST", "/spoiling/close", {})[1]
        assert (ended["clean"], ended["void"].partition(":")[0]) == (False, "twin_leak")
        assert running.lead("POST", "/other/close", {})[1]["clean"] is True
        assert running.call(running.open(), "GET", "/shop/order")[1]["paid"] == "yes"
