"""Checkpoints and anchors: what was kept elsewhere tells a rewritten, forked or cut-off chain."""

import asyncio
import json
import shutil
import sqlite3
import sys
from contextlib import closing

import pytest
from click.testing import CliRunner
from gateway_rig import MASTER, AllowAll, rig
from ledger_rig import BACKENDS, NOW, call, intent, ledgers, outcome
from ledger_rig import run as on_ledger
from msgspec import structs

from sidecar import clock
from sidecar.cli.root import root
from sidecar.errors import SidecarError
from sidecar.gateway.checkpoint.config import Anchor, Audit
from sidecar.gateway.checkpoint.document import NotACheckpoint, line, read
from sidecar.gateway.checkpoint.driver import Checkpoints
from sidecar.store.ledger import entry_hash, head_document

FILE = Anchor(name="worm", file="anchor.jsonl")


def run(folder, scenario, **options):
    async def main():
        async with rig(folder, policy=AllowAll(), **options) as each:
            return await scenario(each)

    return asyncio.run(main())


def sidecar(*arguments):
    result = CliRunner().invoke(root, list(map(str, arguments)))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.stdout


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A store with two checkpoints, the file an anchor kept, and an export."""
    folder = tmp_path_factory.mktemp("chain")
    data = folder / "data"
    data.mkdir()
    (folder / "data.seal-key").write_text(MASTER.hex())

    async def scenario(each):
        keeper = Checkpoints(each.ledger, Audit(anchors=(FILE,)), folder=folder)
        for key in "abc":
            await each.refund("17", key=key)
            await keeper.turn()
        await keeper.turn()

    run(data, scenario, ledger_path=data / "ledger.db")  # the file is what is verified
    code, out = sidecar("audit", "export", "--store", f"sqlite:///{data}")
    assert code == 0
    (folder / "export.jsonl").write_text(out)
    return folder


@pytest.fixture
def kept(written, tmp_path):
    shutil.copytree(written, tmp_path / "w")
    return tmp_path / "w"


def audit(kept, *more):
    return sidecar("audit", "verify", "--store", f"sqlite:///{kept / 'data'}", *more)


def forge(kept, *, keep):
    """Rewrite the chain from a place on as one who has the store and its signing key would."""
    from gateway_rig import keyring

    from sidecar.gateway import signing
    from sidecar.store.sealing import GATEWAY_SEAL, SealedKey, open_key
    from sidecar.store.sqlite.keys import SqliteKeys

    path = kept / "data" / "ledger.db"
    with closing(SqliteKeys(path)) as keys, closing(sqlite3.connect(path)) as connection:
        row = connection.execute(
            "SELECT kid, public, sealed, created_at_ns FROM signing_key"
        ).fetchone()
        named = dict(zip(("kid", "public", "sealed", "created_at_ns"), row, strict=True))
        stored = open_key(SealedKey(**named), keyring(keys)(GATEWAY_SEAL))
        signer = signing.SigningKey(stored)
        connection.execute("DELETE FROM audit_checkpoint")
        connection.execute("DELETE FROM audit WHERE seq > ?", (keep,))
        seq, prev = connection.execute(
            "SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"
        ).fetchone()
        body = '{"lie":true}'
        hash_ = entry_hash(prev, seq=seq + 1, at_ns=1, project="", kind="x", body=body)
        connection.execute(
            "INSERT INTO audit VALUES (?, 1, '', 'x', ?, ?, ?)", (seq + 1, body, prev, hash_)
        )
        signature = signer.sign(head_document(seq + 1, hash_, 1))
        connection.execute(
            "UPDATE audit_head SET seq = ?, hash = ?, signed_at_ns = 1, signature = ?",
            (seq + 1, hash_, signature),
        )
        connection.commit()
    return signer


@pytest.mark.requirement("AUD-01")
def test_every_checkpoint_is_anchored_once_and_borne_out_by_the_chain(kept):
    lines = (kept / "anchor.jsonl").read_text().splitlines()
    places = [json.loads(each)["checkpoint"] for each in lines]
    assert len(places) == 3 and places == sorted(set(places))
    assert audit(kept, "--checkpoints", kept / "anchor.jsonl")[0] == 0
    export = ("--export", kept / "export.jsonl")
    assert sidecar("audit", "verify", *export)[0] == 0
    assert sidecar("audit", "verify", *export, "--checkpoints", kept / "anchor.jsonl")[0] == 0


@pytest.mark.row("I")
@pytest.mark.requirement("AUD-01")
@pytest.mark.parametrize(("keep", "index"), [(4, 5), (6, 7), (8, 9)])
def test_a_chain_rewritten_with_its_own_key_is_found_by_what_was_kept_elsewhere(kept, keep, index):
    forge(kept, keep=keep)
    assert audit(kept)[0] == 0  # alone, the store tells nothing
    code, text = audit(kept, "--checkpoints", kept / "anchor.jsonl")
    assert code == 1 and text.startswith("BAD at entry ")
    assert int(text.split()[3].rstrip(":")) >= index


def test_the_stores_own_checkpoints_count_too(kept):
    with closing(sqlite3.connect(kept / "data" / "ledger.db")) as connection:
        connection.execute(
            "UPDATE audit_checkpoint SET hash = (SELECT hash FROM audit WHERE seq = 1)"
        )
        connection.commit()
    code, text = audit(kept)
    assert code == 1 and "checkpoint of this place is not signed" in text


@pytest.mark.row("I")
def test_two_checkpoints_of_one_place_tell_a_fork(kept, tmp_path):
    signer = forge(kept, keep=4)
    lines = (kept / "anchor.jsonl").read_text().splitlines()
    first = read(lines[0])
    other = structs.replace(first, hash="sha256:" + "0" * 64)
    other = structs.replace(other, signature=signer.sign(other.document()))
    (tmp_path / "two").write_text("\n".join([lines[0], line(other, signer.public)]))
    code, text = sidecar(
        "audit", "verify", "--export", kept / "export.jsonl", "--checkpoints", tmp_path / "two"
    )
    assert code == 1 and "forked" in text


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda lines: lines[:3] + lines[4:], "BAD at entry 4"),
        (lambda lines: [*lines[:3], lines[4], lines[3], *lines[5:]], "BAD at entry 4"),
        (lambda lines: [*lines[:-2], lines[-1]], "is cut off"),
        (lambda lines: lines[:-1], "not signed by a known key"),
        (lambda lines: [*lines[:5], lines[5].replace("issue_refund", "get_refund"), *lines[6:]],
         "BAD at entry 6: the entry was altered"),
        (lambda lines: [], "the export is empty"),
    ],
)  # fmt: skip
def test_an_export_that_was_changed_is_found_without_a_store(kept, tmp_path, change, what):
    lines = (kept / "export.jsonl").read_text().splitlines()
    (tmp_path / "changed").write_text("\n".join(change(lines)))
    code, text = sidecar("audit", "verify", "--export", tmp_path / "changed")
    assert code == 1 and what in text


def test_what_is_no_export_and_no_checkpoint_is_no_verdict(kept, tmp_path):
    (tmp_path / "junk").write_text("{}\n")
    for option in ("--export", "--checkpoints"):
        with pytest.raises(SidecarError, match="cannot be read"):
            audit(kept, option, tmp_path / "junk")
    for text in ("", "[]", "{}", '{"checkpoint": 1}', "[" * 5000):
        with pytest.raises(NotACheckpoint):
            read(text)


def test_a_pinned_key_is_used_for_checkpoints_and_exports(kept, tmp_path):
    import base64

    (tmp_path / "key").write_text(base64.b64encode(bytes(32)).decode())
    code, _ = sidecar(
        "audit", "verify", "--export", kept / "export.jsonl", "--public-key", tmp_path / "key"
    )
    assert code == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_checkpoints_are_of_the_end_and_new_only_when_it_moved(backend, tmp_path):
    async def scenario(opened):
        first = await opened.checkpoint(NOW)
        assert first.seq == opened.audit_end()[0]
        assert await opened.checkpoint(NOW + 1) is None
        made = await opened.commit_intent(intent())
        await opened.record(outcome(call(), made.claim, "completed"))
        second = await opened.checkpoint(NOW + 2)
        assert (second.seq, second.hash) == opened.audit_end()[:2]
        assert opened.checkpoints_after(0, 10) == [first, second]
        assert opened.anchored("a") == 0
        await opened.set_anchored("a", first.seq)
        assert opened.checkpoints_after(opened.anchored("a"), 10) == [second]

    with ledgers(backend, tmp_path) as store:
        on_ledger(store, scenario)


def test_an_anchor_that_is_away_loses_nothing_and_stops_effects_once_it_lags_too_far(tmp_path):
    moment = [clock.now_ns()]
    anchor = structs.replace(FILE, file="away/anchor.jsonl")
    config = Audit(anchors=(anchor,), lag_max="1h")
    made = {}

    def wrap(ports):
        made["keeper"] = Checkpoints(
            ports.ledger, config, folder=tmp_path, now_ns=lambda: moment[0]
        )
        return structs.replace(ports, unanchored=lambda: made["keeper"].behind)

    async def scenario(each):
        keeper = made["keeper"]
        assert (await each.refund("17", key="a")).status == 201
        await keeper.turn()
        assert (await each.refund("17", key="b")).status == 201  # the store still has it
        moment[0] += 3601 * 10**9
        await keeper.turn()
        refused = await each.refund("17", key="c")
        assert (refused.status, refused.json["code"]) == (503, "audit_not_anchored")
        note = await each.ask("POST", "/payments/orders/1/notes", key="n", json={})
        assert note.json["code"] == "audit_not_anchored"
        assert (await each.ask("GET", "/payments/orders/17")).status == 200
        (tmp_path / "away").mkdir()
        await keeper.turn()
        assert (await each.refund("17", key="d")).status == 201
        kept = (tmp_path / "away" / "anchor.jsonl").read_text().splitlines()
        assert len(kept) == len(each.ledger.checkpoints_after(0, 99)) > 1

    run(tmp_path, scenario, wrap=wrap)


def test_a_command_gets_the_checkpoints_and_says_whether_it_kept_them(tmp_path):
    into = tmp_path / "kept"
    keep = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    good = Anchor(name="good", command=(sys.executable, "-c", keep, str(into)))
    bad = Anchor(name="bad", command=(sys.executable, "-c", "raise SystemExit(4)"))
    slow = Anchor(name="slow", command=("sleep", "30"), timeout="1s")

    async def scenario(each):
        await each.refund("17", key="a")
        await Checkpoints(each.ledger, Audit(anchors=(good, bad, slow))).turn()
        end = each.ledger.audit_end()[0]
        assert [each.ledger.anchored(name) for name in ("good", "bad", "slow")] == [end, 0, 0]
        assert read(into.read_text()) == each.ledger.checkpoints_after(0, 1)[0]

    run(tmp_path, scenario)


def test_a_keeper_takes_the_last_checkpoint_when_it_stops(tmp_path):
    async def scenario(each):
        keeper = Checkpoints(each.ledger, Audit(anchors=(FILE,)), folder=tmp_path)
        await keeper.start()
        await each.refund("17", key="a")
        await keeper.stop()
        await keeper.stop()
        lines = (tmp_path / "anchor.jsonl").read_text().splitlines()
        assert read(lines[-1]).seq == each.ledger.audit_end()[0]

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (Audit(checkpoint="0s"), "checkpoint"), (Audit(lag_max="x"), "lag_max"),
        (Audit(anchors=(Anchor(name="a"),)), "anchors.0"),
        (Audit(anchors=(Anchor(name="a", file="f", command=("c",)),)), "anchors.0"),
        (Audit(anchors=(FILE, FILE)), "anchors.1.name"),
        (Audit(anchors=(Anchor(name="", file="f"),)), "anchors.0.name"),
    ],
)  # fmt: skip
def test_an_anchor_that_cannot_be_is_told_at_the_start(config, path):
    assert path in [each.path for each in config.problems()]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.requirement("AUD-01")
def test_what_is_done_to_keys_is_in_the_chain_before_anything_done_with_them(backend, tmp_path):
    from processors.model.principal import StoredKey

    def key(key_id):
        return StoredKey(
            key_id=key_id, kind="agent", project="p", name="", secret_sha256="s", created_at_ns=NOW
        )

    async def scenario(opened):
        with store.keys() as keys:
            await asyncio.to_thread(keys.add_key, key("k1"))
            await asyncio.to_thread(keys.rotate_key, "k1", "t", NOW)
            await opened.commit_intent(intent())
            await asyncio.to_thread(keys.revoke_key, "k1", NOW)
            await asyncio.to_thread(keys.revoke_key, "k1", NOW)
            await opened.checkpoint(NOW)
        said = [
            (each.kind, json.loads(each.body).get("key_id")) for each in opened.entries_after(0, 99)
        ]
        assert said[-4:] == [
            ("key_created", "k1"), ("key_rotated", "k1"), ("authorised", None),
            ("key_revoked", "k1"),
        ]  # fmt: skip
        with store.keys() as keys:
            await asyncio.to_thread(keys.add_key, key("k2"))
        for change in ALTERED:
            await asyncio.to_thread(store.query, ALTER.format(change))
        await opened.checkpoint(NOW)
        assert [each.kind for each in opened.entries_after(0, 99)][-4:] == [
            *("key_created", "key_altered", "key_altered", "key_altered")
        ]

    with ledgers(backend, tmp_path) as store:
        if backend == "memory":
            return  # its keys lie elsewhere: two stores share no chain
        on_ledger(store, scenario)


ALTER = "UPDATE api_key SET {} WHERE key_id = 'k2'"
ALTERED = ("tools = 'pay'", "owner = 'nobody'", "on_behalf_of = 'nobody'")
