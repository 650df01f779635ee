"""What the approval pages keep, on every backend: by digest, sealed, once, until it runs out."""

import asyncio
from itertools import count

import pytest
from ledger_rig import BACKENDS, NOW, SHARED, ledgers, run, signing_ledger

from processors.model.principal import Presented
from sidecar.control.pages.driver import Sessions, UnderWay
from sidecar.control.pages.session import IDLE_NS, LIFETIME_NS, NOTED_NS, digest_of
from sidecar.identity.login.rules import BEGUN_NS, LoginFailed
from sidecar.store.envelope import SealBroken
from sidecar.store.pages import PageState

SHOWN = Presented(authorization="Bearer sk_approver_hush")


def dice(start=0):
    numbers = iter(count(start))
    return lambda size: next(numbers).to_bytes(size, "big")


@pytest.fixture(params=BACKENDS)
def store(request, tmp_path):
    with ledgers(request.param, tmp_path) as opened:
        yield opened


shared = pytest.mark.parametrize("store", SHARED, indirect=True)


@pytest.mark.requirement("APR-01")
def test_a_session_ends_by_disuse_and_by_age(store):
    async def scenario(ledger):
        sessions = Sessions(ledger, dice())
        first = await sessions.open(SHOWN, "key:ann", NOW)
        assert (await sessions.find(first, NOW + IDLE_NS - 1)).presented == SHOWN
        assert await sessions.find(first, NOW + 2 * IDLE_NS - 2) is not None, "it was used"
        assert await sessions.find(first, NOW + 4 * IDLE_NS) is None
        second, now = await sessions.open(SHOWN, "key:ann", NOW), NOW
        while now + IDLE_NS - 1 < NOW + LIFETIME_NS:
            now += IDLE_NS - 1
            assert await sessions.find(second, now) is not None
        assert await sessions.find(second, NOW + LIFETIME_NS) is None
        assert await sessions.find(None, NOW) is None and await sessions.find("x", NOW) is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_what_a_row_says_of_itself_lengthens_nothing(store):
    async def scenario(ledger):
        sessions = Sessions(ledger, dice())
        text = await sessions.open(SHOWN, "key:ann", NOW)
        await ledger.use_page(digest_of(text), NOW, NOW + 2 * LIFETIME_NS)
        assert await sessions.find(text, NOW + LIFETIME_NS) is None

    run(store, scenario)


@pytest.mark.requirement("APR-01")
def test_the_least_lately_used_give_way_and_others_stay(store):
    async def scenario(ledger):
        def state(name, kind="session", used=NOW):
            return PageState(
                digest=name, kind=kind, content=name.encode(), used_at_ns=used,
                expires_at_ns=NOW + IDLE_NS,
            )  # fmt: skip

        await ledger.keep_page(state("login", "login", NOW - 9), 2)
        for name, used in (("a", NOW), ("b", NOW + 1), ("c", NOW + 2)):
            await ledger.keep_page(state(name, used=used), 2)
        found = [await ledger.find_page("session", name, NOW + 3) for name in "abc"]
        assert [each and each.content for each in found] == [None, b"b", b"c"]
        assert (await ledger.find_page("login", "login", NOW)).content == b"login"
        assert await ledger.find_page("login", "b", NOW) is None, "of another kind"

    run(store, scenario)


@shared
@pytest.mark.requirement("APR-01")
def test_what_one_sidecar_opens_every_other_knows_and_what_one_ends_is_ended(store):
    async def main():
        with signing_ledger(store) as one, signing_ledger(store) as other:
            here, there = Sessions(one, dice()), Sessions(other, dice(999))
            text = await here.open(SHOWN, "key:ann", NOW)
            found = await there.find(text, NOW + NOTED_NS)
            assert found == await here.find(text, NOW + NOTED_NS) is not None
            assert found.fits(found.form_token) and not found.fits("x")
            await there.close(text)
            assert await here.find(text, NOW + 1) is None
            mine = [await here.open(SHOWN, "key:ann", NOW) for _ in range(3)]
            bens = await here.open(SHOWN, "key:ben", NOW)
            await there.close(mine[0], "key:ann")
            assert [await here.find(each, NOW) for each in mine] == [None] * 3
            assert await here.find(bens, NOW) is not None

    asyncio.run(main())


@shared
@pytest.mark.requirement("APR-01")
def test_a_sign_in_under_way_is_taken_once_in_whichever_sidecar(store):
    async def main():
        with signing_ledger(store) as one, signing_ledger(store) as other:
            here, there = UnderWay(one, dice()), UnderWay(other, dice(999))
            state, browser, begun = await here.begin("p", "/approvals", NOW)
            taken = await asyncio.gather(
                *(each.take(state, browser, NOW + 1) for each in (here, there) * 4),
                return_exceptions=True,
            )
            assert [each for each in taken if not isinstance(each, LoginFailed)] == [begun]
            state, browser, _ = await here.begin("p", "/approvals", NOW)
            with pytest.raises(LoginFailed, match="another browser"):
                await there.take(state, "stolen", NOW)
            state, browser, _ = await here.begin("p", "/approvals", NOW)
            with pytest.raises(LoginFailed):
                await there.take(state, browser, NOW + BEGUN_NS)

    asyncio.run(main())


@shared
@pytest.mark.requirement("APR-01")
def test_nothing_of_a_session_can_be_read_or_moved_at_rest(store):
    async def main():
        with signing_ledger(store) as ledger:
            sessions = Sessions(ledger, dice(2**200))
            text = await sessions.open(SHOWN, "key:ann", NOW)
            other = await sessions.open(Presented(authorization="Bearer other"), "key:ben", NOW)
            session = await sessions.find(text, NOW)
            lying = await asyncio.to_thread(store.at_rest)
            for secret in ("hush", text, session.form_token):
                assert secret.encode() not in lying, secret
            await move(store, digest_of(text), digest_of(other))
            with pytest.raises(SealBroken):
                await sessions.find(other, NOW)

    asyncio.run(main())


async def move(store, source, target):
    """A seal put into another's row."""
    update = (
        "UPDATE page_state SET sealed = (SELECT sealed FROM page_state"
        f" WHERE digest = '{source}') WHERE digest = '{target}'"
    )
    await asyncio.to_thread(store.query, update)
