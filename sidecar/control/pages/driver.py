"""Sessions and sign-ins under way in the store that all sidecars share.

**Rules**
1. Opening, using and ending a session is one statement in the store; nothing of it is remembered
   here, so what one sidecar ends is ended in all.
2. A sign-in under way is taken once, in whichever sidecar its browser comes back to.
"""

from collections.abc import Callable

import msgspec

from processors.model.principal import Presented
from sidecar.control.pages.session import (
    NOTED_NS,
    SESSIONS_MAX,
    TOKEN_BYTES,
    Session,
    decode,
    digest_of,
    encode,
)
from sidecar.identity.login import rules
from sidecar.identity.login.rules import BEGUN_MAX, BEGUN_NS, Begun
from sidecar.store.pages import PageState
from sidecar.store.ports import PageBook


class Sessions:
    """All that are open. ``random`` gives so many bytes."""

    def __init__(self, book: PageBook, random: Callable[[int], bytes]) -> None:
        self._book = book
        self._random = random

    async def open(self, presented: Presented, owner: str, now_ns: int) -> str:
        """A new session's id; ``owner`` is the principal. Raises StoreUnavailable."""
        text = self._random(TOKEN_BYTES).hex()
        session = Session(
            presented=presented,
            form_token=self._random(TOKEN_BYTES).hex(),
            opened_at_ns=now_ns,
        )
        state = PageState(
            digest=digest_of(text),
            kind="session",
            owner=owner,
            content=encode(session),
            used_at_ns=now_ns,
            expires_at_ns=session.expires_at_ns(now_ns),
        )
        await self._book.keep_page(state, SESSIONS_MAX)
        return text

    async def find(self, text: str | None, now_ns: int) -> Session | None:
        """The session of an id, used now; None where there is none any more."""
        if not text:
            return None
        digest = digest_of(text)
        found = await self._book.find_page("session", digest, now_ns)
        if found is None:
            return None
        session = decode(found.content)
        until_ns = session.expires_at_ns(now_ns)
        if until_ns <= now_ns:  # whatever the row beside it says
            return None
        if now_ns - found.used_at_ns >= NOTED_NS:
            await self._book.use_page(digest, now_ns, until_ns)
        return session

    async def close(self, text: str | None, owner: str = "") -> None:
        """End one, and all of an owner where one is named."""
        if text or owner:
            await self._book.drop_page(digest_of(text or ""), owner)


class UnderWay:
    """Sign-ins under way."""

    def __init__(self, book: PageBook, random: Callable[[int], bytes]) -> None:
        self._book = book
        self._random = random

    async def begin(self, provider: str, to: str, now_ns: int) -> tuple[str, str, Begun]:
        """State, the browser's cookie, and the sign-in. Raises StoreUnavailable."""
        state, browser, made = rules.begin(provider, to, now_ns, self._random)
        kept = PageState(
            digest=digest_of(state),
            kind="login",
            content=msgspec.msgpack.encode(made),
            used_at_ns=now_ns,
            expires_at_ns=now_ns + BEGUN_NS,
        )
        await self._book.keep_page(kept, BEGUN_MAX)
        return state, browser, made

    async def take(self, state: str, browser: str, now_ns: int) -> Begun:
        """The sign-in that comes back, once. Raises LoginFailed, StoreUnavailable."""
        found = await self._book.take_page("login", digest_of(state), now_ns)
        begun = None if found is None else msgspec.msgpack.decode(found.content, type=Begun)
        return rules.checked(begun, browser)
