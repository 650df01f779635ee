"""``approvals``, ``calls`` and ``audit`` on a store that a real gateway wrote."""

import asyncio
import base64
import json
import shutil
import sqlite3
import threading
from contextlib import closing

import pytest
from click.testing import CliRunner
from control_rig import control
from gateway_rig import MASTER, rig

from sidecar import clock
from sidecar.app.loading import load_config
from sidecar.cli import asking
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.gateway.config import Durable
from sidecar.identity.driver import Identity
from sidecar.store.durable import DurableQuery

BOTH = {"acme": ("another", "default")}
PUT_OFF = {"durable": Durable(attempts=1, backoff="10ms")}


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store with a read, a refund, and a refund that waits for approval."""
    folder = tmp_path_factory.mktemp("ledger") / "data"
    folder.mkdir()
    (folder.parent / "data.seal-key").write_text(MASTER.hex())

    async def main():
        async with rig(folder, tool_changes=PUT_OFF) as each:
            await each.ask("GET", "/payments/orders/17")
            done = await each.refund("17", key="a")
            asked = await each.refund("17", key="b", amount=500)
            return done.headers["gateway-receipt"], asked.json["approval"]["id"]

    return folder, *asyncio.run(main())


@pytest.fixture
def store(written, tmp_path, monkeypatch):
    """A copy of it, to read or to tamper with."""
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "data"
    shutil.copytree(written[0], folder)
    shutil.copy(written[0].parent / "data.seal-key", tmp_path)
    return folder


def sidecar(store, *arguments):
    result = CliRunner().invoke(root, [*arguments, "--store", f"sqlite:///{store}"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


def tamper(store, *statements):
    with closing(sqlite3.connect(store / "ledger.db")) as connection:
        for each in statements:
            connection.execute(each)
        connection.commit()


@pytest.mark.requirement("AUD-01")
@pytest.mark.parametrize(
    ("statements", "index"),
    [
        ((), None),
        (("UPDATE audit SET body = replace(body, '201', '202') WHERE seq = 6",), 6),
        (("UPDATE audit SET at_ns = at_ns + 1 WHERE seq = 4",), 4),
        (("DELETE FROM audit WHERE seq = 5",), 5),
        (
            (
                "UPDATE audit SET seq = -2 WHERE seq = 2",
                "UPDATE audit SET seq = 2 WHERE seq = 3",
                "UPDATE audit SET seq = 3 WHERE seq = -2",
            ),
            2,
        ),
        (("DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",), 8),
        (("DELETE FROM audit",), 1),
        (("DELETE FROM audit_head",), 1),
        (("UPDATE audit SET seq = 0 WHERE seq = 1",), 1),
        (("UPDATE audit_head SET signature = zeroblob(64)",), 8),
        (("DELETE FROM signing_key",), 4),
    ],
)
def test_verify_names_the_first_bad_entry_and_exits_1(store, statements, index):
    tamper(store, *statements)
    code, out = sidecar(store, "audit", "verify", "--output", "json")
    found = json.loads(out)
    assert (code, found["good"]) == ((0, True) if index is None else (1, False))
    assert found["first_bad_index"] == index
    code, text = sidecar(store, "audit", "verify")
    assert text.startswith("good: 8 entries" if index is None else f"BAD at entry {index}:")


def test_a_pinned_key_replaces_the_stores(store, tmp_path):
    with closing(sqlite3.connect(store / "ledger.db")) as connection:
        (public,) = connection.execute("SELECT public FROM signing_key").fetchone()
    pinned = tmp_path / "key"
    pinned.write_text(base64.b64encode(public).decode())
    assert sidecar(store, "audit", "verify", "--public-key", str(pinned))[0] == 0
    pinned.write_text(base64.b64encode(bytes(32)).decode())
    assert sidecar(store, "audit", "verify", "--public-key", str(pinned))[0] == 1
    pinned.write_text("nonsense!")
    with pytest.raises(SidecarError, match="public key"):
        sidecar(store, "audit", "verify", "--public-key", str(pinned))


def test_verify_without_a_store_is_no_verdict(tmp_path):
    with pytest.raises(SidecarError, match="no store") as raised:
        sidecar(tmp_path / "nothing", "audit", "verify")
    assert raised.value.code == 3


@pytest.mark.requirement("RCP-01")
def test_receipts_are_exported_as_they_were_signed(store):
    from sidecar.gateway.receipt import is_genuine
    from sidecar.store.receipts import from_document

    code, out = sidecar(store, "audit", "export", "--receipts")
    receipts = [from_document(json.loads(line)) for line in out.splitlines()]
    phases = [each.phase for each in receipts]
    assert (code, phases) == (0, ["executed", "authorised", "executed", "refused"])
    with closing(sqlite3.connect(store / "ledger.db")) as connection:
        keys = dict(connection.execute("SELECT kid, public FROM signing_key").fetchall())
    assert all(is_genuine(each, keys) for each in receipts)


def test_export_prints_every_entry_and_the_head(store):
    code, out = sidecar(store, "audit", "export")
    lines = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and [line.get("seq") for line in lines] == [*range(1, 9), None]
    assert lines[-1]["head"] == 8
    kinds = [line["kind"] for line in lines[:-1]]
    assert kinds == [
        *("signing_key_created", "policy_activated", "key_created"),
        *("executed", "authorised", "executed", "approval_requested", "refused"),
    ]


@pytest.mark.requirement("RCP-01")
def test_calls_are_listed_and_shown_with_their_receipts(store, written):
    code, out = sidecar(store, "calls", "list", "--output", "json")
    calls = json.loads(out)
    assert code == 0 and [call["tool"] for call in calls] == [
        *("issue_refund", "issue_refund"),
        "get_order",
    ]
    done = next(call for call in calls if call["state"] == "completed")
    code, out = sidecar(store, "calls", "show", done["call_id"], "--output", "json")
    shown = json.loads(out)
    assert [each["phase"] for each in shown["receipts"]] == ["authorised", "executed"]
    assert shown["receipts"][1]["receipt_id"] == written[1]
    _, text = sidecar(store, "calls", "show", done["call_id"])
    assert "effect confirmed" in text and "upstream_status: 201" in text
    _, text = sidecar(store, "calls", "list", "--tool", "get_order")
    assert len(text.splitlines()) == 1 and "get_order" in text
    assert sidecar(store, "calls", "list", "--state", "unknown")[1] == "no calls\n"
    with pytest.raises(SidecarError, match="no call"):
        sidecar(store, "calls", "show", "nothing")


def test_approvals_are_listed_and_shown_as_they_stand(store, written):
    code, out = sidecar(store, "approvals", "list", "--output", "json", "--status", "pending")
    (pending,) = json.loads(out)
    assert code == 0 and pending["approval_id"] == written[2]
    _, text = sidecar(store, "approvals", "show", written[2])
    assert "amount = 500" in text and "pending" in text
    assert sidecar(store, "approvals", "list", "--status", "denied")[1] == "no approvals\n"
    with pytest.raises(SidecarError, match="no approval"):
        sidecar(store, "approvals", "show", "nothing")


class Live:
    """A gateway with its control API in a thread of its own, as `sidecar serve` would run it."""

    def __init__(self, folder, organisations=None):
        self.folder = folder
        self._organisations = organisations
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()))

    def __enter__(self):
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_):
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(30)

    async def _known(self, shown):
        identity = Identity(self._each.keys, clock.now_ns, organisations=self._organisations)
        return await identity(shown)

    def person(self, name, **terms):
        """The key of one more who may decide."""
        return self._each.member("reviewer", "approver", name=name, **terms)

    def keep_busy(self, done):
        """Make calls until told to stop."""

        async def calls():
            number = 0
            while not done.is_set():
                number += 1
                await self._each.refund("17", key=f"busy{number}")

        asyncio.run_coroutine_threadsafe(calls(), self._loop).result(60)

    async def _serve(self):
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        known = self._known if self._organisations else None
        async with control(self.folder, tool_changes=PUT_OFF, authenticate=known) as each:
            self.url = f"http://127.0.0.1:{each.web.port}"
            self.approver, self.admin = each.approver, each.admin
            self.agent, self._each = each.agent, each
            asked = await each.refund("17", key="c", amount=600)
            self.approval_id = asked.json["approval"]["id"]
            lost = await each.refund("drop", key="d")
            self.lost_id = each.ledger.get_receipt(lost.headers["gateway-receipt"]).call_id
            self.letters = []
            for order in ("s422-x", "s422-y"):
                put_off = await each.refund(order, key=order, Prefer="respond-async")
                self.letters.append(put_off.json["call"]["id"])
            while len(each.ledger.list_durable(DurableQuery(state="dead"))) < 2:
                await asyncio.sleep(0.01)
            self._ready.set()
            await self._stop.wait()


def test_verify_is_right_while_a_gateway_writes(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Live(store) as live:
        done = threading.Event()
        busy = threading.Thread(target=live.keep_busy, args=(done,))
        busy.start()
        try:
            codes = [sidecar(store, "audit", "verify")[0] for _ in range(15)]
        finally:
            done.set()
            busy.join(30)
    assert codes == [0] * 15


@pytest.mark.requirement("APR-01")
def test_approve_and_deny_go_to_the_running_sidecar_with_the_approvers_key(
    store, written, monkeypatch, tmp_path
):
    monkeypatch.chdir(tmp_path)
    with Live(store) as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        decide = ("--reason", "checked", "--key", live.approver)
        code, out = sidecar(store, "approvals", "approve", live.approval_id, *decide)
        assert (code, out) == (0, f"{live.approval_id} approved\n")
        code, out = sidecar(store, "approvals", "deny", written[2], *decide, "--output", "json")
        assert json.loads(out)["status"] == "denied"
        with pytest.raises(SidecarError, match="approval_denied"):
            sidecar(store, "approvals", "approve", written[2], *decide)
        refused = (
            (live.agent, r"\(forbidden\).*key of a person"),
            ("nonsense", r"\(unauthenticated\).*sidecar key list"),
        )
        for key, problem in refused:
            with pytest.raises(SidecarError, match=problem):
                sidecar(
                    store, "approvals", "approve", live.approval_id, "--reason", "x", "--key", key
                )
    with pytest.raises(SidecarError, match="does not answer"):
        sidecar(store, "approvals", "approve", live.approval_id, *decide)


@pytest.mark.requirement("APR-01")
def test_what_a_person_may_not_decide_is_not_blamed_on_their_key(store, monkeypatch, tmp_path):
    with Live(tmp_path / "live") as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        own = live.person("refund-agent")
        with pytest.raises(SidecarError, match="self_approval") as refused:
            sidecar(store, "approvals", "approve", live.approval_id, "--reason", "x", "--key", own)
    assert "sidecar key create" not in refused.value.text()


@pytest.mark.requirement("APR-01")
@pytest.mark.requirement("KIL-01")
def test_a_person_of_several_projects_says_in_which_they_act(store, monkeypatch, tmp_path):
    with Live(tmp_path / "live", BOTH) as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        both = (
            "--reason",
            "checked",
            "--key",
            live.person("dora", project="", organisation="acme"),
        )
        there = ("--project", "default")
        with pytest.raises(SidecarError, match=r"no_such_approval.*--project"):
            sidecar(store, "approvals", "approve", live.approval_id, *both)
        _, out = sidecar(store, "approvals", "approve", live.approval_id, *both, *there)
        assert out.endswith(f"{live.approval_id} approved\n")
        assert sidecar(store, "release", "kill", *both)[1].endswith("kill project another\n")
        monkeypatch.setenv("SIDECAR_CLIENT_PROJECT", "default")
        assert sidecar(store, "release", "kill", *both)[1].endswith("kill project default\n")
        with pytest.raises(SidecarError, match="forbidden"):
            sidecar(store, "release", "kill", *both, "--project", "a&b")


@pytest.mark.requirement("KIL-01")
@pytest.mark.parametrize(
    ("scope", "name", "doubtful"),
    [
        ("--tool", "issue_refund", False),
        ("--tool", "issue_refunds", True),
        ("--agent", "0123456789abcdef", False),
        ("--agent", "key:0123456789abcdef", False),
        ("--agent", "oidc:corp:bot", False),
        ("--agent", "refund-bot", True),
    ],
)
def test_a_stop_of_what_is_not_known_stands_and_says_so(
    store, monkeypatch, tmp_path, capsys, scope, name, doubtful
):
    with Live(tmp_path / "live") as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        stop = ("release", "freeze", scope, name, "--reason", "x", "--key", live.approver)
        done = CliRunner().invoke(root, [*stop, "--store", f"sqlite:///{store}"])
    assert done.exit_code == 0 and name in done.stdout
    assert ("warning: " in done.stderr) == doubtful


@pytest.mark.requirement("IDM-01")
def test_a_person_says_what_became_of_a_call_nobody_knows_of(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Live(store) as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        code, out = sidecar(store, "calls", "list", "--state", "unknown")
        assert code == 0 and live.lost_id in out
        say = ("calls", "resolve", live.lost_id, "--reason", "it is in the books", "--outcome")
        with pytest.raises(SidecarError, match="forbidden"):
            sidecar(store, *say, "done", "--key", live.agent)
        code, out = sidecar(store, *say, "done", "--key", live.approver)
        assert code == 0 and out.endswith(f"{live.lost_id} done\n")  # after the gateway's own log
        with pytest.raises(SidecarError, match="not_unknown"):
            sidecar(store, *say, "not-done", "--key", live.approver)
        assert sidecar(store, "calls", "list", "--state", "unknown")[1] == "no calls\n"
        assert "reason" in sidecar(store, "calls", "resolve", live.lost_id, "--help")[1]


@pytest.mark.requirement("DUR-01")
def test_dead_letters_are_listed_shown_requeued_and_discarded(store, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    with Live(store) as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        again, away = live.letters
        code, out = sidecar(store, "calls", "list", "--durable", "dead")
        assert code == 0 and again in out and away in out and "upstream_422" in out
        assert "dead" in sidecar(store, "calls", "show", away)[1]
        said = ("--reason", "looked at it", "--key", live.approver)
        code, out = sidecar(store, "calls", "discard", away, *said)
        assert code == 0 and f"{away} discarded" in out
        code, out = sidecar(store, "calls", "requeue", again, *said, "--output", "json")
        assert code == 0 and '"attempts": 0' in out
        with pytest.raises(SidecarError, match="no_dead_letter"):
            sidecar(store, "calls", "requeue", away, *said)
        with pytest.raises(SidecarError, match="forbidden"):
            sidecar(store, "calls", "requeue", again, "--reason", "x", "--key", live.agent)


def test_deciding_needs_a_key_and_a_reason(store, written):
    with pytest.raises(SidecarError, match="no key"):
        sidecar(store, "approvals", "approve", written[2], "--reason", "x")
    assert sidecar(store, "approvals", "approve", written[2], "--key", "k")[0] != 0


@pytest.mark.parametrize("command", ["list", "show"])
def test_the_wrong_seal_key_is_said_with_where_and_what_to_do(store, written, command):
    (store.parent / "data.seal-key").write_text("ab" * 32)
    arguments = ["approvals", command, *([written[2]] if command == "show" else [])]
    with pytest.raises(SidecarError, match=r"seal key is not the one .*data\.seal-key.*Put back"):
        sidecar(store, *arguments)


@pytest.mark.requirement("KIL-01")
def test_kill_and_freeze_go_to_the_running_sidecar_and_two_people_unkill(
    store, monkeypatch, tmp_path
):
    with Live(tmp_path / "live") as live:
        monkeypatch.setenv("SIDECAR_CLIENT_URL", live.url)
        ann, ada = (
            ("--key", live.approver, "--reason", "twice"),
            ("--key", live.admin, "--reason", "ok"),
        )
        code, out = sidecar(store, "release", "freeze", "--tool", "issue_refund", *ann)
        assert code == 0 and out.endswith("freeze tool issue_refund\n")
        assert sidecar(store, "release", "unfreeze", "--tool", "issue_refund", *ada)[1].endswith(
            ": lifted\n"
        )
        sidecar(store, "release", "kill", *ann)
        _, out = sidecar(store, "release", "unkill", *ann)
        assert out.endswith("kill project default: 1 of 2 to lift it\n")
        with pytest.raises(SidecarError, match="voted to lift it already"):
            sidecar(store, "release", "unkill", *ann)
        _, listed = sidecar(tmp_path / "live", "release", "status")
        assert [line.split()[1] for line in listed.splitlines()] == ["kill", "freeze"]
        assert "stands: twice" in listed
        assert sidecar(store, "release", "unkill", *ada)[1].endswith(
            "kill project default: lifted\n"
        )
        with pytest.raises(SidecarError, match="no such kill"):
            sidecar(store, "release", "unkill", *ada)
        with pytest.raises(SidecarError, match="no permission"):
            sidecar(store, "release", "kill", "--key", live.agent, "--reason", "x")
        with pytest.raises(SidecarError, match="not of both"):
            sidecar(store, "release", "kill", "--agent", "a", "--tool", "t", *ann)
    assert sidecar(store, "release", "status") == (0, "nothing is stopped\n")


@pytest.mark.parametrize(
    ("listen", "told"), [("127.0.0.1:5000", True), ("127.0.0.1:9", False), ("127.0.0.1:0", False)]
)
def test_who_asks_at_a_port_that_is_not_the_configured_one_is_told(listen, told, tmp_path):
    file = tmp_path / "sidecar.yaml"
    file.write_text(
        f"control: {{listen: '{listen}'}}\nclient: {{url: 'http://127.0.0.1:9', key: sk}}\n"
    )
    with pytest.raises(SidecarError, match="does not answer") as raised:
        asking.control(load_config(str(file), None), "/v1/approvals")
    assert (f"control.listen is {listen}" in raised.value.text()) is told


@pytest.mark.row("I")
@pytest.mark.requirement("AUD-01")
def test_an_export_is_verified_by_a_key_set_from_before_and_after_a_rotation(store, tmp_path):
    code, first = sidecar(store, "audit", "keys")
    assert code == 0
    code, made = sidecar(store, "key", "rotate-signing", "--output", "json")
    assert code == 0
    code, both = sidecar(store, "audit", "keys")
    kids = [[each["kid"] for each in json.loads(said)["keys"]] for said in (first, both)]
    assert kids[1] == [json.loads(made)["kid"], *kids[0]]
    (tmp_path / "chain.jsonl").write_text(sidecar(store, "audit", "export")[1])
    export = ("audit", "verify", "--export", str(tmp_path / "chain.jsonl"), "--output", "json")
    for said, expected in ((first, 0), (both, 0), ({"keys": json.loads(both)["keys"][:1]}, 1)):
        file = tmp_path / "keys.json"
        file.write_text(said if isinstance(said, str) else json.dumps(said))
        ran = CliRunner().invoke(root, [*export, "--keys", str(file)])
        assert ran.exit_code == expected, ran.output


def test_a_signing_key_without_a_successor_is_not_revoked_nor_rotated_too_soon(store):
    (kid,) = (each["kid"] for each in json.loads(sidecar(store, "audit", "keys")[1])["keys"])
    for arguments in (("revoke-signing", kid), ("revoke-signing", "none")):
        ran = CliRunner().invoke(root, ["key", *arguments, "--store", f"sqlite:///{store}"])
        assert isinstance(ran.exception, SidecarError)
    ran = CliRunner().invoke(
        root, ["key", "rotate-signing", "--ahead", "5s", "--store", f"sqlite:///{store}"]
    )
    assert ran.exit_code != 0
