"""Tokens of OpenID Connect providers: whether one is genuine, for us and in time, and who it is.

**Rules**
1. What a token says of itself decides nothing but which key to try: the algorithm must be one that
   the provider's entry allows and that fits the key; keys come from the provider alone, never from
   the token (``jwk``, ``jku``, ``x5u``, ``x5c`` are not looked at).
2. ``iss`` is the provider's exactly, ``aud`` holds our audience, ``exp`` is there and not further
   away than ``lifetime_max``.
3. A token with a grant for an agent is an agent's and nothing else, whatever else it is granted.
4. An e-mail address grants only where the provider says that it has verified it.

Sources: OpenID Connect Core 1.0 §3.1.3.7; RFC 8725 (JWT best current practices); RFC 9068.
"""

import base64
import json
import math
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey
from msgspec import Struct

from processors.model.principal import Authn, Grant, Principal, Role
from processors.value import duration_ns
from sidecar.identity.config import ClaimGrant, Provider
from sidecar.identity.keys import Unauthenticated
from sidecar.identity.roles import KIND_OF_ROLE

TOKEN_CHARS_MAX = 16 * 1024
KEYS_MAX = 100
_RSA_BITS_MIN = 2048
_AMR_MAX = 32
_SECONDS_MAX = 2**33
_JWT = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*\Z")
_TYPES = frozenset({"jwt", "at+jwt", "application/jwt", "application/at+jwt"})
_FITS: dict[str, tuple[str, str | None]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA", None)),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
    "ES512": ("EC", "P-521"),
    **dict.fromkeys(("EdDSA", "Ed25519"), ("OKP", "Ed25519")),
}
Claims = Mapping[str, Any]


class PublicKey(Struct, frozen=True, kw_only=True):
    """A provider's key: ``kty`` and ``crv`` say what it fits, ``alg`` what it is meant for."""

    kid: str | None
    kty: str
    crv: str | None
    alg: str | None
    key: RSAKey | ECKey | OKPKey

    def fits(self, algorithm: str) -> bool:
        """Whether signatures of that algorithm may be checked with it."""
        kty, crv = _FITS[algorithm]
        meant = self.alg in (None, algorithm) or {self.alg, algorithm} == {"EdDSA", "Ed25519"}
        return self.kty == kty and (crv is None or self.crv == crv) and meant


def is_token(text: str) -> bool:
    """Whether a credential has the form of a JSON Web Token, signed or not."""
    return _JWT.match(text) is not None and not text.startswith("ep1.")


def read_keys(document: Any) -> tuple[PublicKey, ...]:
    """The keys of a JWK Set that can check signatures. Raises ValueError for what is none."""
    listed = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"is no JWK Set of at most {KEYS_MAX} keys")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SecurityWarning)  # what is weak is left out, not told of
        return tuple(key for each in listed if (key := _read_key(each)) is not None)


def _read_key(jwk: Any) -> PublicKey | None:
    """One key; None for one that is not public, not for signatures, too weak or malformed."""
    if not isinstance(jwk, dict) or jwk.get("use", "sig") != "sig" or "d" in jwk:
        return None
    kid, kty, crv, alg = (jwk.get(name) for name in ("kid", "kty", "crv", "alg"))
    if not all(value is None or isinstance(value, str) for value in (kid, kty, crv, alg)):
        return None
    try:
        key: RSAKey | ECKey | OKPKey
        if kty == "RSA":
            key = RSAKey.import_key(jwk)
            if key.public_key.key_size < _RSA_BITS_MIN:
                return None
        elif kty == "EC":
            key = ECKey.import_key(jwk)
        elif kty == "OKP" and crv == "Ed25519":
            key = OKPKey.import_key(jwk)
        else:
            return None
    except (JoseError, ValueError, TypeError, KeyError):
        return None
    return PublicKey(kid=kid, kty=kty, crv=crv, alg=alg, key=key)


class Unverified(Struct, frozen=True, kw_only=True):
    """What a token says before anything is known of it: whose it claims to be, and which key."""

    issuer: str
    audiences: tuple[str, ...]
    algorithm: str
    kid: str | None


def read_unverified(token: str) -> Unverified:
    """What is needed to find the provider and the key. Raises Unauthenticated."""
    if len(token) > TOKEN_CHARS_MAX:
        raise Unauthenticated(f"the token is longer than {TOKEN_CHARS_MAX} characters")
    try:
        header, claims = (_document(part) for part in token.split(".")[:2])
    except ValueError:
        raise Unauthenticated("the token is malformed") from None
    algorithm, kid, typ = (header.get(name) for name in ("alg", "kid", "typ"))
    issuer = claims.get("iss")
    if not isinstance(algorithm, str) or not isinstance(issuer, str):
        raise Unauthenticated("the token is malformed")
    if kid is not None and not isinstance(kid, str):
        raise Unauthenticated("the token is malformed")
    if "crit" in header:
        raise Unauthenticated("the token demands an extension that is not known here")
    if typ is not None and (not isinstance(typ, str) or typ.lower() not in _TYPES):
        raise Unauthenticated("the token is of another type than an access or id token")
    return Unverified(
        issuer=issuer, audiences=_audiences(claims.get("aud")), algorithm=algorithm, kid=kid
    )


def verified(
    token: str,
    said: Unverified,
    provider: Provider,
    keys: Sequence[PublicKey],
    *,
    now_ns: int,
    audiences: Sequence[str] = (),
) -> Claims:
    """The claims of a token that is genuine, for us and in time. Raises Unauthenticated.

    ``audiences``: who it may be meant for; empty is the provider's ``audience``.
    """
    if said.algorithm not in provider.algorithms:
        raise Unauthenticated("the token's algorithm is not allowed")
    candidates = [
        each
        for each in keys
        if each.fits(said.algorithm) and (said.kid is None or each.kid == said.kid)
    ]
    if len(candidates) != 1:
        raise Unauthenticated("the token names no key of its provider")
    claims = _decoded(token, candidates[0], said.algorithm)
    _check_claims(claims, provider, audiences or (provider.audience,), now_ns=now_ns)
    return claims


def _decoded(token: str, key: PublicKey, algorithm: str) -> Claims:
    try:
        with warnings.catch_warnings():
            # Its replacement, Ed25519, is named by few providers yet (RFC 9864).
            warnings.simplefilter("ignore", SecurityWarning)
            return jwt.decode(token, key.key, algorithms=[algorithm]).claims
    except (JoseError, ValueError, TypeError, RecursionError):
        raise Unauthenticated("the token's signature is not its provider's") from None


def _check_claims(
    claims: Claims, provider: Provider, audiences: Sequence[str], *, now_ns: int
) -> None:
    if claims.get("iss") != provider.issuer:
        raise Unauthenticated("the token's issuer is not known here")
    if not {*audiences} & {*_audiences(claims.get("aud"))}:
        raise Unauthenticated("the token is not meant for this sidecar")
    now, skew = now_ns / 1e9, duration_ns(provider.clock_skew) / 1e9
    expires = _moment(claims, "exp")
    if expires is None:
        raise Unauthenticated("the token does not say when it expires")
    if expires <= now - skew:
        raise Unauthenticated("the token has expired")
    if expires > now + skew + duration_ns(provider.lifetime_max) / 1e9:
        raise Unauthenticated("the token is good for longer than lifetime_max allows")
    for name in ("nbf", "iat"):
        begins = _moment(claims, name)
        if begins is not None and begins > now + skew:
            raise Unauthenticated("the token is not valid yet")


def _moment(claims: Claims, name: str) -> float | None:
    """A NumericDate in seconds; None where it is absent. Raises Unauthenticated."""
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unauthenticated(f"the token's {name} is no time")
    try:
        seconds = float(value)
    except OverflowError:  # whole numbers have no bound, times do
        seconds = math.inf
    if not math.isfinite(seconds):
        raise Unauthenticated(f"the token's {name} is no time")
    return seconds


def principal(
    claims: Claims, provider: Provider, organisations: Mapping[str, Sequence[str]]
) -> Principal:
    """Whom a verified token stands for. Raises Unauthenticated where no grant fits."""
    subject = _text(claims, "sub")
    name = _text(claims, provider.name_claim)
    fitting = [grant for grant in provider.grants if _holds(claims, grant)]
    agent = next((grant for grant in fitting if grant.kind == "agent"), None)
    identity = f"oidc:{provider.name}:{subject}"
    authn = _authn(claims)
    if agent is not None:
        user = _user(claims, provider.on_behalf_of_claim)
        return Principal(
            id=identity,
            kind="agent",
            project=agent.project,
            name=name,
            on_behalf_of=user,
            authn=authn,
        )
    grants = tuple(_grants(fitting, organisations))
    if not grants:
        raise Unauthenticated("the token is genuine and is granted nothing here")
    first = grants[0]
    return Principal(
        id=identity,
        kind=KIND_OF_ROLE[first.role],
        project=first.project,
        name=name,
        role=first.role,
        grants=grants if len(grants) > 1 else (),
        authn=authn,
    )


def _authn(claims: Claims) -> Authn:
    """How the person signed in; what is malformed is not there, and meets no demand."""
    acr, amr = claims.get("acr"), claims.get("amr")
    try:
        at = _moment(claims, "auth_time")
    except Unauthenticated:
        at = None
    return Authn(
        method="token",
        acr=acr if isinstance(acr, str) and _is_word(acr) else None,
        amr=tuple(each for each in amr if isinstance(each, str) and _is_word(each))[:_AMR_MAX]
        if isinstance(amr, list)
        else (),
        auth_time_ns=int(at) * 10**9 if at is not None and 0 <= at < _SECONDS_MAX else None,
    )


def _is_word(text: str) -> bool:
    return 0 < len(text) <= 255 and text.isprintable()


def _grants(
    fitting: Sequence[ClaimGrant], organisations: Mapping[str, Sequence[str]]
) -> Iterator[Grant]:
    """A role in each project, the first that is granted; in order."""
    seen: dict[str, Role] = {}
    for grant in fitting:
        assert grant.role is not None, "what is no agent's has a role"
        projects = [grant.project] if grant.project else organisations.get(grant.organisation, ())
        for project in projects:
            seen.setdefault(project, grant.role)
    for project, role in seen.items():
        yield Grant(project=project, role=role)


def _holds(claims: Claims, grant: ClaimGrant) -> bool:
    if grant.claim == "email" and claims.get("email_verified") is not True:
        return False
    value = _claim(claims, grant.claim)
    return grant.value in value if isinstance(value, list) else value == grant.value


def _claim(claims: Claims, name: str) -> Any:
    """A claim by its name, or else by its path with dots."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, dict) else None
    return found


def _user(claims: Claims, name: str) -> str:
    """For whom an agent acts, empty where its provider does not say. Raises Unauthenticated."""
    value = _claim(claims, name) if name else None
    return "" if value is None else _usable(value, name)


def _text(claims: Claims, name: str) -> str:
    return _usable(claims.get(name), name)


def _usable(value: Any, name: str) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 255 or not value.isprintable():
        raise Unauthenticated(f"the token has no usable {name}")
    return value


def _audiences(value: Any) -> tuple[str, ...]:
    listed = value if isinstance(value, list) else [value]
    return tuple(each for each in listed if isinstance(each, str))


def _document(part: str) -> dict[str, Any]:
    """A part of a token as an object. Raises ValueError, also where a name stands twice."""
    data = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    try:
        found = json.loads(data, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(found, dict):
        raise ValueError("no object")
    return found


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found
