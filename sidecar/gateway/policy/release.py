"""A bundle as it is released: packed for OPA, numbered, signed; checked before it is read.

**Rules**
1. Where signing is configured an archive without a valid signature is refused, whether or not it
   names a key.
2. Algorithms are an allow-list and must fit the key. The signature covers every file, each once,
   by name and SHA-256, and no file that is not there.
3. A release has a number. What was activated once makes lower numbers refused (the ledger keeps
   it); going back is done by releasing the older policy anew, under a higher number.
4. A release may say from when to when it is valid.

Source: gateway.md §2.8; OPA's bundle signing format (``.signatures.json``), which real OPA verifies
too. OPA GHSA-g2pf-6v5v-qcc8 is what rule 1 is about.
"""

import contextlib
import hashlib
import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import Struct

from sidecar.gateway.policy.archive import ArchiveInvalid, pack, unpack
from sidecar.gateway.policy.bundle import Bundle, BundleInvalid
from sidecar.gateway.policy.contents import DATA, TEST_SUFFIX, read_bundle, read_value
from sidecar.gateway.strict import NotStrict, read_json

MANIFEST, SIGNATURES = ".manifest", ".signatures.json"
RSA_BITS_MIN = 2048
Key = OKPKey | ECKey | RSAKey


class ReleaseInvalid(ValueError):
    """The archive is no release that may decide; the message says why."""


class SigningKey(Struct, frozen=True):
    """A key by the id that a signature names: public to verify, private to sign."""

    key_id: str
    key: Key


def read_key(key_id: str, pem: bytes) -> SigningKey:
    """A key of a PEM file: Ed25519, P-256 or RSA. Raises ReleaseInvalid."""
    kinds: tuple[type[Key], ...] = (OKPKey, ECKey, RSAKey)
    for kind in kinds:
        with contextlib.suppress(JoseError, ValueError, TypeError):
            found = SigningKey(key_id, kind.import_key(pem))
            _algorithm(found.key)
            return found
    raise ReleaseInvalid(f"the key {key_id!r} is no PEM of an Ed25519, P-256 or RSA key")


class Terms(Struct, frozen=True, kw_only=True):
    """What a release must satisfy. ``keys`` empty: none need be signed."""

    keys: tuple[SigningKey, ...] = ()
    scope: str = ""


class Release(Struct, frozen=True, kw_only=True):
    """A release that may decide. ``sequence``: its number, if any; ``key_id``: who signed it;
    ``expires_s``: until when, None for ever; ``files``: what it was made of, by name."""

    bundle: Bundle
    sequence: int | None = None
    key_id: str | None = None
    expires_s: int | None = None
    files: Mapping[str, bytes] = {}


def make(
    files: Mapping[str, bytes],
    *,
    sequence: int | None = None,
    signer: SigningKey | None = None,
    scope: str = "",
    not_before_s: int | None = None,
    expires_s: int | None = None,
) -> bytes:
    """The archive of a bundle's files (tests left out). Raises BundleInvalid."""
    kept = {name: content for name, content in files.items() if not name.endswith(TEST_SUFFIX)}
    bundle = read_bundle(kept)
    numbered = {} if sequence is None else {"metadata": {"sidecar": {"sequence": sequence}}}
    manifest = {"revision": bundle.revision, "rego_version": 1, **numbered}
    kept[MANIFEST] = _compact(manifest)
    if signer is not None:
        claims: dict[str, Any] = {"files": _hashes(kept), "keyid": signer.key_id, "scope": scope}
        times = {"nbf": not_before_s, "exp": expires_s}
        claims |= {name: value for name, value in times.items() if value is not None}
        header = {"alg": _algorithm(signer.key), "kid": signer.key_id}
        with _taking_ed_dsa():
            token = jws.serialize_compact(header, _compact(claims), signer.key, [header["alg"]])
        kept[SIGNATURES] = _compact({"signatures": [token]})
    return pack(kept)


def read(archive: bytes, terms: Terms, now_s: int) -> Release:
    """The release that an archive is. Raises ReleaseInvalid."""
    try:
        files = unpack(archive)
        signed = _verified(files, terms, now_s) if terms.keys else None
        manifest = _object(files.get(MANIFEST, b"{}"), MANIFEST)
        bundle = read_bundle({name: files[name] for name in files if _is_policy(name)})
    except (ArchiveInvalid, BundleInvalid) as error:
        raise ReleaseInvalid(str(error)) from error
    sequence = _sequence(manifest)
    if terms.keys and sequence is None:
        raise ReleaseInvalid("it has no number, so an older one could be put in its place")
    said = manifest.get("revision", "")
    if terms.keys and said != bundle.revision:
        raise ReleaseInvalid("its manifest says another revision than its files have")
    signed_id, expires_s = signed or (None, None)
    return Release(
        bundle=bundle,
        sequence=sequence,
        key_id=signed_id,
        expires_s=expires_s,
        files={name: files[name] for name in files if _is_policy(name)},
    )


def _is_policy(name: str) -> bool:
    last = name.rpartition("/")[2]
    return name.endswith(".rego") or last in DATA


def _sequence(manifest: Mapping[str, Any]) -> int | None:
    metadata = manifest.get("metadata")
    ours = metadata.get("sidecar") if isinstance(metadata, dict) else None
    if not isinstance(ours, dict) or "sequence" not in ours:
        return None
    sequence = ours["sequence"]
    if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 < sequence < 2**53:
        raise ReleaseInvalid("its number is no whole number from 1 on")
    return sequence


def _verified(files: Mapping[str, bytes], terms: Terms, now_s: int) -> tuple[str, int | None]:
    """The id of the key that signed exactly these files, and until when. Raises ReleaseInvalid."""
    if SIGNATURES not in files:
        raise ReleaseInvalid("it is not signed")
    tokens = _object(files[SIGNATURES], SIGNATURES).get("signatures")
    if not isinstance(tokens, list) or len(tokens) != 1 or not isinstance(tokens[0], str):
        raise ReleaseInvalid("it has not exactly one signature")
    claims, key_id = _claims(tokens[0], terms.keys)
    if claims.get("scope", "") != terms.scope:
        raise ReleaseInvalid("it is signed for another scope")
    if not _time(claims, "nbf", 0) <= now_s < _time(claims, "exp", 2**53):
        raise ReleaseInvalid("it is not valid now: its time has not come, or has passed")
    if _listed(claims.get("files")) != _listed(_hashes(files)):
        raise ReleaseInvalid("what is signed is not what is in it")
    return key_id, _time(claims, "exp", 0) or None


def _time(claims: Mapping[str, Any], name: str, otherwise: int) -> int:
    at = claims.get(name, otherwise)
    if isinstance(at, bool) or not isinstance(at, int):
        raise ReleaseInvalid(f"its signature's {name} is no whole number of seconds")
    return at


def _claims(token: str, keys: Sequence[SigningKey]) -> tuple[dict[str, Any], str]:
    """The claims of a token and the id of the key that signed it. Raises ReleaseInvalid."""
    for each in keys:
        algorithm = _algorithm(each.key)
        try:
            with _taking_ed_dsa():
                signed = jws.deserialize_compact(token, each.key, [algorithm])
        except (JoseError, ValueError, TypeError):
            continue
        claims = _object(signed.payload, "the signature")
        named = {claims.get("keyid") or each.key_id, signed.headers().get("kid") or each.key_id}
        if named != {each.key_id}:
            raise ReleaseInvalid("its signature names another key than the one that made it")
        return claims, each.key_id
    raise ReleaseInvalid("none of the configured keys made its signature")


@contextlib.contextmanager
def _taking_ed_dsa() -> Iterator[None]:
    """RFC 9864 deprecates the name "EdDSA", which OPA uses still; here it means Ed25519."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)
        yield


def _algorithm(key: Key) -> str:
    """The one algorithm of a key. Raises ReleaseInvalid."""
    if isinstance(key, RSAKey):
        if key.raw_value.key_size < RSA_BITS_MIN:
            raise ReleaseInvalid(f"an RSA key has at least {RSA_BITS_MIN} bits")
        return "RS256"
    curve = key.curve_name
    found = {"Ed25519": "EdDSA", "P-256": "ES256"}.get(curve)
    if found is None:
        raise ReleaseInvalid(f"keys on the curve {curve} are not taken; Ed25519 and P-256 are")
    return found


def _hashes(files: Mapping[str, bytes]) -> list[dict[str, str]]:
    return [
        {"name": name, "hash": _hash(name, files[name]), "algorithm": "SHA-256"}
        for name in sorted(files)
        if name != SIGNATURES
    ]


def _hash(name: str, content: bytes) -> str:
    """As OPA does it: data and manifest by their value, with keys sorted; all else by its bytes."""
    last = name.rpartition("/")[2]
    if last in DATA or name == MANIFEST:
        content = _compact(read_value(name, content))
    return hashlib.sha256(content).hexdigest()


def _listed(files: Any) -> list[tuple[str, ...]]:
    """Name, hash and algorithm of each, sorted. Raises ReleaseInvalid."""
    if not isinstance(files, list) or not all(isinstance(each, dict) for each in files):
        raise ReleaseInvalid("its signature lists no files")
    found = sorted(
        tuple(str(each.get(field)).removeprefix("/") for field in ("name", "hash", "algorithm"))
        for each in files
    )
    if len({name for name, *_ in found}) != len(found):
        raise ReleaseInvalid("its signature lists a file twice")
    return found


def _object(content: bytes, what: str) -> dict[str, Any]:
    try:
        value = read_json(content)
    except NotStrict as error:
        raise ReleaseInvalid(f"{what} is no strict JSON") from error
    if not isinstance(value, dict):
        raise ReleaseInvalid(f"{what} is no JSON object")
    return value


def _compact(value: Any) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
