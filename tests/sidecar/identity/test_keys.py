"""Keys: minted once, stored as a hash, checked; episode tokens: signed, bounded in time."""

import json
import sqlite3

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.model.principal import Principal
from sidecar.identity.keys import (
    KEY_KINDS,
    EpisodeClaims,
    KeyTerms,
    Unauthenticated,
    authenticate,
    mint,
    mint_episode,
    mint_key,
    read_episode,
    rotated,
)
from sidecar.identity.roles import Forbidden, allows, require
from sidecar.store.sqlite.connection import migrate, open_database
from sidecar.store.sqlite.keys import SqliteKeys
from sidecar.store.sqlite.scripts import LEDGER, scripts


def make(keys, kind="agent", project="p", id_byte=1):
    text, row = mint(
        kind, project, "n", id_bytes=bytes([id_byte]) * 8, secret_bytes=b"\x07" * 32, now_ns=5
    )
    keys.add_key(row)
    return text, row


@pytest.fixture
def keys(tmp_path):
    store = SqliteKeys(tmp_path / "ledger.db")
    yield store
    store.close()


@pytest.mark.requirement("REC-05")
@pytest.mark.parametrize("kind", KEY_KINDS)
def test_a_key_names_its_principal(keys, kind):
    text, row = make(keys, kind)
    assert authenticate(f"Bearer {text}", keys, now_ns=6) == Principal(
        id=f"key:{row.key_id}", kind=kind, project="p", name="n"
    )


def test_the_secret_is_not_stored(keys, tmp_path):
    text, _ = make(keys)
    secret = text.rsplit("_", 1)[-1] if text.count("_") == 3 else text[-43:]
    keys.close()
    for path in tmp_path.iterdir():
        assert secret.encode() not in path.read_bytes()


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer  ",
        "Basic abc",
        "Bearer sk_agent_x",
        "Bearer sk_root_" + "0" * 16,
    ],
)
def test_what_is_no_key_proves_nothing(keys, header):
    with pytest.raises(Unauthenticated):
        authenticate(header, keys, now_ns=6)


def test_a_wrong_secret_and_an_unknown_id_are_refused_alike(keys):
    text, _ = make(keys)
    wrong = text[:-1] + ("A" if text[-1] != "A" else "B")
    unknown = text.replace("01" * 8, "02" * 8)
    messages = set()
    for bad in (wrong, unknown):
        with pytest.raises(Unauthenticated) as caught:
            authenticate(f"Bearer {bad}", keys, now_ns=6)
        messages.add(str(caught.value))
    assert messages == {"the key is not known"}


def test_the_kind_written_in_the_text_gives_no_rights(keys):
    text, _ = make(keys, "agent")
    forged = text.replace("sk_agent_", "sk_approver_")
    assert authenticate(f"Bearer {forged}", keys, now_ns=6).kind == "agent"


def test_a_revoked_key_is_refused_at_once(keys, tmp_path):
    text, row = make(keys)
    other = SqliteKeys(tmp_path / "ledger.db")
    assert other.revoke_key(row.key_id, 9)
    with pytest.raises(Unauthenticated, match="revoked"):
        authenticate(f"Bearer {text}", keys, now_ns=6)
    assert not other.revoke_key("f" * 16, 9)
    other.close()


@pytest.mark.requirement("GW-07")
def test_no_agent_can_approve():
    for kind in ("agent", "episode"):
        principal = Principal(id="x", kind=kind, project="p")
        with pytest.raises(Forbidden):
            require(principal, "approvals.decide")
    for kind in ("approver", "reader", "admin"):
        assert not allows(Principal(id="x", kind=kind, project="p"), "tools.call")


CLAIMS = EpisodeClaims(episode="e1", project="p", agent="a", expires_at_ns=100)


def test_an_episode_token_says_what_was_signed():
    token = mint_episode(CLAIMS, key=b"k" * 32)
    assert read_episode(token, key=b"k" * 32, now_ns=99) == CLAIMS


@pytest.mark.parametrize(("key", "now_ns"), [(b"j" * 32, 1), (b"k" * 32, 100)])
def test_a_foreign_or_expired_episode_token_is_refused(key, now_ns):
    token = mint_episode(CLAIMS, key=b"k" * 32)
    with pytest.raises(Unauthenticated):
        read_episode(token, key=key, now_ns=now_ns)


@given(st.text(max_size=80))
def test_any_other_text_is_refused(text):
    with pytest.raises(Unauthenticated):
        read_episode(text, key=b"k" * 32, now_ns=1)


@given(st.integers(0, 200), st.integers(0, 63))
def test_no_changed_token_is_accepted(position, letter):
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    token = mint_episode(CLAIMS, key=b"k" * 32)
    position %= len(token)
    changed = token[:position] + alphabet[letter] + token[position + 1 :]
    if changed == token:
        return
    try:
        claims = read_episode(changed, key=b"k" * 32, now_ns=1)
    except Unauthenticated:
        return
    # base64url's last digit may hold unused bits: such a token still says exactly what was signed.
    assert msgspec.to_builtins(claims) == json.loads(msgspec.json.encode(CLAIMS))


SECOND_SECRET = b"\x08" * 32


@pytest.mark.requirement("OPS-01")
def test_a_rotated_key_opens_with_both_secrets_until_the_overlap_ends(keys):
    old, row = make(keys)
    new, changed = rotated(row, secret_bytes=SECOND_SECRET, until_ns=100)
    assert keys.rotate_key(row.key_id, changed.secret_sha256, 100)
    assert keys.find_key(row.key_id) == changed
    first = authenticate(f"Bearer {old}", keys, now_ns=99)
    assert first == authenticate(f"Bearer {new}", keys, now_ns=99)
    assert authenticate(f"Bearer {new}", keys, now_ns=100) == first
    with pytest.raises(Unauthenticated, match="not known"):
        authenticate(f"Bearer {old}", keys, now_ns=100)


def test_a_second_rotation_ends_the_first_secret_at_once(keys):
    first, row = make(keys)
    texts = [first]
    for turn in (8, 9):
        text, row = rotated(row, secret_bytes=bytes([turn]) * 32, until_ns=100)
        keys.rotate_key(row.key_id, row.secret_sha256, 100)
        texts.append(text)
    with pytest.raises(Unauthenticated):
        authenticate(f"Bearer {texts[0]}", keys, now_ns=6)
    for text in texts[1:]:
        assert authenticate(f"Bearer {text}", keys, now_ns=6)


def test_revoking_ends_both_secrets_and_a_revoked_key_is_not_rotated(keys):
    old, row = make(keys)
    new, changed = rotated(row, secret_bytes=SECOND_SECRET, until_ns=100)
    keys.rotate_key(row.key_id, changed.secret_sha256, 100)
    keys.revoke_key(row.key_id, 7)
    for text in (old, new):
        with pytest.raises(Unauthenticated, match="revoked"):
            authenticate(f"Bearer {text}", keys, now_ns=8)
    assert not keys.rotate_key(row.key_id, row.secret_sha256, 100)
    assert not keys.rotate_key("f" * 16, row.secret_sha256, 100)


def test_a_key_opens_until_it_expires_and_says_what_it_is_for(keys):
    terms = KeyTerms(kind="agent", project="p", name="n", tools=("a", "b.c"), expires_at_ns=50)
    text, row = mint_key(terms, id_bytes=b"\x02" * 8, secret_bytes=SECOND_SECRET, now_ns=1)
    keys.add_key(row)
    assert keys.find_key(row.key_id) == row
    assert authenticate(f"Bearer {text}", keys, now_ns=49).tools == ("a", "b.c")
    with pytest.raises(Unauthenticated, match="expired"):
        authenticate(f"Bearer {text}", keys, now_ns=50)


def test_a_store_of_the_version_before_keeps_its_keys(tmp_path):
    path = tmp_path / "ledger.db"
    connection = open_database(path)
    migrate(connection, scripts(LEDGER[:3]), path)
    text, row = mint("agent", "p", "n", id_bytes=b"\x03" * 8, secret_bytes=SECOND_SECRET, now_ns=5)
    connection.execute(
        "INSERT INTO api_key VALUES (?, ?, ?, ?, ?, ?, NULL)",
        (row.key_id, row.kind, row.project, row.name, row.secret_sha256, row.created_at_ns),
    )
    connection.close()
    store = SqliteKeys(path)
    assert store.find_key(row.key_id) == row
    assert authenticate(f"Bearer {text}", store, now_ns=6).project == "p"
    with pytest.raises(sqlite3.IntegrityError):
        store.add_key(row)
    store.close()
