"""Signing in at an identity provider: the authorisation code flow with PKCE, as data.

**Rules**
1. What comes back counts only for the browser that was sent away: ``state`` is random, used once,
   short-lived, and bound to a cookie of that browser.
2. The code is worth nothing without the verifier, which never leaves but to the provider's token
   endpoint; the id token must hold the nonce of this one sign-in.
3. Endpoints are those of the configured issuer's own discovery document, never in clear where the
   issuer is https.

Source: RFC 6749 §4.1; RFC 7636 (S256); RFC 9207 (iss); RFC 9700; OpenID Connect Core 1.0 §3.1.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from msgspec import Struct

from processors.model.principal import StepUp

BEGUN_MAX = 256
BEGUN_NS = 10 * 60 * 10**9


class LoginFailed(Exception):
    """Nobody is signed in; the text repeats nothing of what came."""


class Endpoints(Struct, frozen=True, kw_only=True):
    """Where a provider lets people sign in, and where codes are exchanged."""

    authorization: str
    token: str


class Begun(Struct, frozen=True, kw_only=True):
    """A sign-in under way; ``browser`` is the digest of the cookie it is bound to."""

    provider: str
    to: str
    nonce: str
    verifier: str
    browser: str
    at_ns: int


def begin(
    provider: str, to: str, now_ns: int, random: Callable[[int], bytes]
) -> tuple[str, str, Begun]:
    """State, the browser's cookie, and the sign-in; ``random`` gives so many bytes."""
    state, browser, nonce, verifier = (_text(random(32)) for _ in range(4))
    made = Begun(
        provider=provider,
        to=to,
        nonce=nonce,
        verifier=verifier,
        browser=_digest(browser),
        at_ns=now_ns,
    )
    return state, browser, made


def checked(found: Begun | None, browser: str) -> Begun:
    """The sign-in that comes back in its browser. Raises LoginFailed."""
    if found is None:
        raise LoginFailed("this sign-in is not under way any more; begin anew")
    if not hmac.compare_digest(found.browser, _digest(browser)):
        raise LoginFailed("this sign-in was begun in another browser; begin anew")
    return found


def endpoints(document: Any, issuer: str) -> Endpoints:
    """The endpoints of a discovery document. Raises ValueError."""
    if not isinstance(document, dict) or document.get("issuer") != issuer:
        raise ValueError("its discovery document names another issuer")
    found = [document.get(name) for name in ("authorization_endpoint", "token_endpoint")]
    for url in found:
        if not isinstance(url, str) or not url.isascii() or not url.isprintable():
            raise ValueError("its discovery document names no endpoints to sign in at")
        if not url.startswith("https://" if issuer.startswith("https://") else "http"):
            raise ValueError("an endpoint of it is not https")
    return Endpoints(authorization=str(found[0]), token=str(found[1]))


def sign_in_url(
    to: Endpoints,
    begun: Begun,
    state: str,
    *,
    client_id: str,
    back: str,
    scopes: tuple[str, ...],
    demand: StepUp = StepUp(),  # noqa: B008 - frozen
) -> str:
    """Where a browser is sent; ``back`` is where it is to come back, ``demand`` what the sign-in is
    asked to be (it is the token that says what it was)."""
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": back,
        "scope": " ".join(scopes),
        "state": state,
        "nonce": begun.nonce,
        "code_challenge": _text(hashlib.sha256(begun.verifier.encode()).digest()),
        "code_challenge_method": "S256",
    }
    if demand.acr:
        asked["acr_values"] = " ".join(demand.acr)
    if demand.max_age_s is not None:
        asked["max_age"] = str(demand.max_age_s)
    mark = "&" if "?" in to.authorization else "?"
    return f"{to.authorization}{mark}{urlencode(asked)}"


def exchange_form(
    begun: Begun, code: str, *, client_id: str, secret: str | None, back: str
) -> bytes:
    """What the token endpoint is asked for."""
    asked = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": back,
        "client_id": client_id,
        "code_verifier": begun.verifier,
    }
    if secret is not None:
        asked["client_secret"] = secret
    return urlencode(asked).encode()


def id_token(body: bytes, begun: Begun) -> str:
    """The id token of a token endpoint's answer, for this sign-in; its signature is not looked at.
    Raises LoginFailed."""
    try:
        token = json.loads(body)["id_token"]
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        nonce = claims["nonce"]
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError):
        raise LoginFailed("the provider gave no id token for this sign-in") from None
    if not isinstance(nonce, str) or not hmac.compare_digest(nonce.encode(), begun.nonce.encode()):
        raise LoginFailed("the provider's id token is of another sign-in")
    return str(token)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
