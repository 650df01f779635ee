"""Signed bundles: what is not exactly what was signed is refused; OPA takes and makes the same."""

import base64
import gzip
import io
import itertools
import json
import subprocess
import tarfile
import warnings

import pytest
from built_tools import program
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc.jwk import ECKey, OKPKey, RSAKey
from tier import examples

from sidecar.errors import SidecarError
from sidecar.gateway.config import BundleKey, Policy, Signing
from sidecar.gateway.policy import archive as archives
from sidecar.gateway.policy import release
from sidecar.gateway.policy.archive import ArchiveInvalid, pack, unpack
from sidecar.gateway.policy.files import default_bundle_path, load_release, read_files
from sidecar.gateway.policy.release import (
    MANIFEST,
    SIGNATURES,
    ReleaseInvalid,
    Terms,
    make,
    read,
    read_key,
)

FILES = {
    "a.rego": b"package agenttwin.v1\n\ndecide := input.x\n\nlist := input.x\n",
    "data.yaml": b"b: [1, true, null]\na: {z: text, y: 2.5}\n",
    "lib/data.json": b'{"d" : "\\u00e9<&>" ,\n "c":{}}',
    "a_test.rego": b"package a_test\n",
}
NOW = 1_800_000_000
KINDS = {
    "EdDSA": lambda: OKPKey.generate_key("Ed25519"),
    "ES256": lambda: ECKey.generate_key("P-256"),
    "RS256": lambda: RSAKey.generate_key(2048),
}
MADE = {kind: make_key() for kind, make_key in KINDS.items()}


def signing(kind="EdDSA", key_id="k1"):
    return read_key(key_id, MADE[kind].as_pem(private=True))


def terms(kind="EdDSA", key_id="k1", scope=""):
    return Terms(keys=(read_key(key_id, MADE[kind].as_pem(private=False)),), scope=scope)


def signed(kind="EdDSA", **options):
    return make(FILES, **{"sequence": 7, "signer": signing(kind), **options})


def changed(content, change):
    """An archive with its files changed, signatures and all."""
    files = unpack(content)
    change(files)
    return pack(files)


@pytest.mark.parametrize("kind", KINDS)
def test_a_signed_bundle_is_read_with_its_number_and_key(kind):
    found = read(signed(kind), terms(kind), NOW)
    assert (found.sequence, found.key_id) == (7, "k1")
    assert found.bundle.data == {"b": [1, True, None], "a": {"z": "text", "y": 2.5},
                                 "lib": {"d": "é<&>", "c": {}}}  # fmt: skip
    assert [module.path for module in found.bundle.modules] == ["a.rego"]


def test_one_bundle_has_one_archive():
    assert make(FILES, sequence=1) == make(dict(reversed(FILES.items())), sequence=1)


def resigned(files, claims=None, header=None, signatures=None):
    """The signature made anew over other claims, as somebody with the key could."""
    said = {"files": release._hashes(files), "keyid": "k1", "scope": "", **(claims or {})}
    head = {"alg": "EdDSA", "kid": "k1", **(header or {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from joserfc import jws

        token = jws.serialize_compact(head, json.dumps(said).encode(), MADE["EdDSA"], [head["alg"]])
    return json.dumps({"signatures": [token] if signatures is None else signatures}).encode()


def with_file(name, content):
    return lambda files: files.__setitem__(name, content)


def resign(**options):
    return lambda files: files.__setitem__(SIGNATURES, resigned(files, **options))


def unsigned_header(files):
    head = base64.urlsafe_b64encode(b'{"alg":"none"}').rstrip(b"=").decode()
    body = json.dumps({"files": release._hashes(files), "scope": ""}).encode()
    token = f"{head}.{base64.urlsafe_b64encode(body).rstrip(b'=').decode()}."
    files[SIGNATURES] = json.dumps({"signatures": [token]}).encode()


TAMPERED = {
    "unsigned": (lambda files: files.pop(SIGNATURES), "not signed"),
    "no signature in it": (resign(signatures=[]), "exactly one"),
    "two signatures": (resign(signatures=["a", "b"]), "exactly one"),
    "alg none": (unsigned_header, "none of the configured"),
    "another file": (with_file("b.rego", b"package b\n"), "not what is in it"),
    "a file less": (lambda files: files.pop("data.yaml"), "not what is in it"),
    "a changed rule": (with_file("a.rego", b"package agenttwin.v1\n"), "not what is in it"),
    "a changed setting": (with_file("data.yaml", b"b: 2\n"), "not what is in it"),
    "another number": (
        with_file(MANIFEST, b'{"metadata":{"sidecar":{"sequence":8}}}'),
        "not what is in it",
    ),
    "an empty key id": (resign(claims={"keyid": ""}, header={"kid": ""}), None),
    "another key id": (resign(claims={"keyid": "k2"}), "another key"),
    "another scope": (resign(claims={"scope": "write"}), "scope"),
    "a file twice": (
        lambda files: files.__setitem__(
            SIGNATURES, resigned(files, {"files": release._hashes(files) * 2})
        ),
        "twice",
    ),
    "no files": (resign(claims={"files": None}), "lists no files"),
    "not yet": (resign(claims={"nbf": NOW + 1}), "not valid now"),
    "no longer": (resign(claims={"exp": NOW}), "not valid now"),
    "no time": (resign(claims={"exp": "soon"}), "whole number"),
    "signatures no JSON": (with_file(SIGNATURES, b"{"), "strict JSON"),
    "signatures twice in one": (
        with_file(SIGNATURES, b'{"signatures":[],"signatures":["x"]}'),
        "strict JSON",
    ),
}


@pytest.mark.row("GHSA-g2pf-6v5v-qcc8")
@pytest.mark.parametrize("case", TAMPERED)
@pytest.mark.row("J")
def test_what_is_not_what_was_signed_is_refused(case):
    change, why = TAMPERED[case]
    content = changed(signed(), change)
    if why is None:  # a key that is not named is found among those configured, never skipped
        assert read(content, terms(), NOW).key_id == "k1"
        return
    with pytest.raises(ReleaseInvalid, match=why):
        read(content, terms(), NOW)


@pytest.mark.row("GHSA-g2pf-6v5v-qcc8")
@pytest.mark.row("J")
def test_an_empty_key_id_of_a_stranger_is_refused_too():
    stranger = release.SigningKey("", OKPKey.generate_key("Ed25519"))
    with pytest.raises(ReleaseInvalid, match="none of the configured"):
        read(signed(signer=stranger), terms(), NOW)


@pytest.mark.row("J")
def test_a_key_of_another_kind_or_too_weak_is_refused():
    for pem in (
        ECKey.generate_key("P-384").as_pem(private=False),
        OKPKey.generate_key("X25519").as_pem(private=False),
        b"-----BEGIN NOTHING-----",
        b"",
    ):
        with pytest.raises(ReleaseInvalid):
            read_key("k", pem)
    with pytest.raises(ReleaseInvalid, match="none of the configured"):
        read(signed("ES256"), terms("RS256"), NOW)


@pytest.mark.row("J")
def test_a_bundle_without_a_number_or_with_another_revision_is_refused_where_signing_is_wanted():
    with pytest.raises(ReleaseInvalid, match="no number"):
        read(make(FILES, signer=signing()), terms(), NOW)

    def say(files):
        manifest = {"revision": "sha256:0", "metadata": {"sidecar": {"sequence": 7}}}
        files[MANIFEST] = json.dumps(manifest).encode()
        files[SIGNATURES] = resigned(files)

    with pytest.raises(ReleaseInvalid, match="another revision"):
        read(changed(signed(), say), terms(), NOW)
    for number in (0, -1, 1.5, True, "7", 2**53):
        manifest = json.dumps({"metadata": {"sidecar": {"sequence": number}}}).encode()
        with pytest.raises(ReleaseInvalid):
            read(changed(make(FILES), with_file(MANIFEST, manifest)), Terms(), NOW)


def tar(*members):
    plain = io.BytesIO()
    with tarfile.open(fileobj=plain, mode="w") as opened:
        for member, content in members:
            member.size = len(content)
            opened.addfile(member, io.BytesIO(content))
    return gzip.compress(plain.getvalue())


def member(name, **fields):
    made = tarfile.TarInfo(name)
    for field, value in fields.items():
        setattr(made, field, value)
    return made


@pytest.mark.row("CVE-2024-8260", "CVE-2026-78573")
@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "cut off"),
        (b"PK\x03\x04", "not gzipped"),
        (gzip.compress(b"x" * 600), "no tar"),
        (gzip.compress(b""), "empty"),
        (tar((member("../a.rego"), b"")), "relative"),
        (tar((member("a/../../b.rego"), b"")), "relative"),
        (tar((member("//a.rego"), b"")), "relative"),
        (tar((member("a\\b.rego"), b"")), "relative"),
        (tar((member("a b.rego"), b"")), "relative"),
        (tar((member("\\\\server\\share\\a.rego"), b"")), "relative"),
        (tar((member("//server/share/a.rego"), b"")), "relative"),
        (tar((member("C:/a.rego"), b"")), "relative"),
        (tar((member("file:///a.rego"), b"")), "relative"),
        (tar((member("a/./b.rego"), b"")), "relative"),
        (tar((member("ä.rego"), b"")), "relative"),
        (tar((member("d/" * 150 + "a.rego"), b"")), "relative"),
        (tar((member("a.rego"), b"1"), (member("a.rego"), b"2")), "twice"),
        (tar((member("a.rego"), b"1"), (member("/a.rego"), b"2")), "twice"),
        (tar((member("a", type=tarfile.SYMTYPE, linkname="/etc/passwd"), b"")), "plain file"),
        (tar((member("a", type=tarfile.LNKTYPE, linkname="b"), b"")), "plain file"),
        (tar((member("a", type=tarfile.FIFOTYPE), b"")), "plain file"),
        (tar((member("a.rego"), b"x")) + tar((member("b.rego"), b"x")), "follows"),
        (tar((member("a.rego"), b"x")) + b"\0", "follows"),
        (tar((member("a.rego"), b"x"))[:-9], "cut off"),
        (gzip.compress(bytes(archives.PLAIN_BYTES_MAX)), "more than"),
        (bytes(archives.ARCHIVE_BYTES_MAX + 1), "larger"),
        (tar(*((member(f"{n}.rego"), b"") for n in range(501))), "more than 500"),
    ],
    ids=itertools.count(),
)
@pytest.mark.row("J")
def test_an_archive_that_is_odd_is_refused_before_it_is_read(content, why):
    with pytest.raises(ArchiveInvalid, match=why):
        unpack(content)


@pytest.mark.row("J")
def test_a_folder_does_not_pass_where_a_signature_is_wanted(tmp_path):
    for path in ("", tmp_path, tmp_path / "missing.tar.gz"):
        with pytest.raises(SidecarError, match="signed"):
            load_release(path, terms(), NOW)
    (tmp_path / "b.tar.gz").write_bytes(make(FILES))
    with pytest.raises(SidecarError, match="not signed"):
        load_release(tmp_path / "b.tar.gz", terms(), NOW)
    (tmp_path / "b.tar.gz").write_bytes(signed())
    assert load_release(tmp_path / "b.tar.gz", terms(), NOW).sequence == 7
    keys = (BundleKey(id="", file="a"), BundleKey(id="", file="b"))
    said = Policy(signing=Signing(keys=keys)).problems()
    assert [each.path for each in said] == ["signing.keys.0.id", "signing.keys.1.id", "bundle"]


@pytest.mark.parametrize("kind", ["ES256", "RS256"])
def test_what_opa_signs_has_the_hashes_that_are_checked_here(tmp_path, kind):
    """OPA has no number to give; its hashes and its signature are what is compared."""
    folder = tmp_path / "bundle"
    for name, content in unpack(make(FILES, sequence=3)).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    (tmp_path / "key.pem").write_bytes(MADE[kind].as_pem(private=True))
    command = [program("opa"), "sign", "--signing-key", str(tmp_path / "key.pem")]
    command += ["--signing-alg", kind, "--bundle", ".", "--output-file-path", str(tmp_path)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    files = unpack(make(FILES, sequence=3))
    theirs = {SIGNATURES: (tmp_path / ".signatures.json").read_bytes()}
    found = read(pack({**files, **theirs}), terms(kind), NOW)
    assert found.sequence == 3


def test_a_real_opa_serves_the_shipped_bundle_as_it_is_released_and_signed(tmp_path):
    files = read_files(default_bundle_path())
    content = make(files, sequence=1, signer=signing("RS256"))
    (tmp_path / "key.pem").write_bytes(MADE["RS256"].as_pem(private=False))
    (tmp_path / "bundle.tar.gz").write_bytes(content)
    command = [program("opa"), "build", "--bundle", str(tmp_path / "bundle.tar.gz")]
    command += ["--verification-key", str(tmp_path / "key.pem"), "--verification-key-id", "k1"]
    good = subprocess.run([*command, "-o", str(tmp_path / "out")], capture_output=True, text=True)
    assert good.returncode == 0 and (tmp_path / "out").is_file(), good.stdout + good.stderr
    bad = changed(content, with_file("data.yaml", b"settings: {}\n"))
    (tmp_path / "bundle.tar.gz").write_bytes(bad)
    refused = subprocess.run(
        [*command, "-o", str(tmp_path / "out")], capture_output=True, text=True
    )
    assert refused.returncode != 0 and "data.yaml" in refused.stdout + refused.stderr


SIGNED = gzip.decompress(signed(expires_s=NOW + 60))


@pytest.mark.row("J")
@settings(max_examples=examples(150), deadline=None)
@given(data=st.data())
def test_no_changed_byte_of_a_release_is_taken_for_what_was_signed(data):
    """The tar is changed and packed again, so that gzip's own checksum does not find it."""
    place = data.draw(st.integers(0, len(SIGNED) - 1))
    changed_ = bytearray(SIGNED)
    changed_[place] ^= data.draw(st.integers(1, 255))
    end = data.draw(st.sampled_from([len(SIGNED), place]))
    content = gzip.compress(bytes(changed_[:end]), 1)
    try:
        found = read(content, terms(), NOW)
    except ReleaseInvalid:
        return
    same = read(gzip.compress(SIGNED), terms(), NOW)  # a byte that says nothing, such as padding
    assert (found.bundle, found.sequence, found.key_id) == (
        *(same.bundle, same.sequence, same.key_id),
    )


@pytest.mark.row("J")
@settings(max_examples=examples(100), deadline=None)
@given(content=st.binary(max_size=600), packed=st.booleans())
def test_noise_is_no_release_and_breaks_nothing(content, packed):
    with pytest.raises(ReleaseInvalid):
        read(gzip.compress(content) if packed else content, Terms(), NOW)


@pytest.mark.row("J")
def test_a_bomb_is_given_up_before_it_is_whole():
    inner = gzip.compress(bytes(archives.PLAIN_BYTES_MAX * 4), 9)
    for bomb in (inner, gzip.compress(inner, 9), tar((member("a.rego"), inner))):
        with pytest.raises(ReleaseInvalid):
            read(bomb, Terms(), NOW)


@pytest.mark.row("J")
def test_data_however_deep_is_refused_and_breaks_nothing():
    for name, deep in (
        ("data.json", b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
        ("data.yaml", b"[" * 20_000 + b"]" * 20_000),
        (MANIFEST, b'{"a":' * 20_000 + b"1" + b"}" * 20_000),
    ):
        files = {"a.rego": FILES["a.rego"], name: deep}
        with pytest.raises(ReleaseInvalid):
            read(pack(files), Terms(), NOW)
