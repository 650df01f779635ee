"""The approval pages on the control port: HTML for people, without a script.

**Rules**
1. A page's URL is no credential: who opens one signs in, with a key or a provider's token that they
   type into a form, never one that a URL carries. Nothing of a request is told before.
2. A change is a POST of this site's own form: by its Origin, and by the session's form token. The
   cookie is for this host alone, closed to scripts, and sent by no other site's form.
3. What a page shows and does is what the control API's operations answer to the same credential,
   asked anew each time; nothing is decided here.
4. What goes wrong is a page too; it repeats nothing of what was sent.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web

from processors.model.principal import Presented, Principal, StepUp
from sidecar import clock
from sidecar.control import requests
from sidecar.control.operations import BY_NAME
from sidecar.control.pages import view
from sidecar.control.pages.driver import Sessions, UnderWay
from sidecar.control.pages.session import Session
from sidecar.control.worker import Desk
from sidecar.errors import StoreUnavailable
from sidecar.gateway.problem import Refused
from sidecar.identity.login.http import CodeLogin
from sidecar.identity.login.rules import BEGUN_NS, LoginFailed
from sidecar.store.envelope import SealBroken
from sidecar.telemetry import log

_LOG = log("control")
_COOKIE, _COOKIE_TLS = "sidecar-approver", "__Host-sidecar-approver"
_ID = re.compile(r"[0-9A-Za-z_-]{1,128}\Z")
_TO = re.compile(r"/approvals(/[0-9A-Za-z_-]{1,128})?(\?project=[0-9A-Za-z_.-]{1,128})?\Z")
_CLASSES = re.compile(r"[\x20\x21\x23-\x5b\x5d-\x7e]{1,1024}\Z")
_AGE = re.compile(r"[1-9][0-9]{0,4}\Z")
_FORM = "application/x-www-form-urlencoded"
_FIELDS_MAX = 10
_PICKS_MAX = 20
_PICK = re.compile(r"([0-9A-Za-z_-]{1,128}) (sha256:[0-9a-f]{64}) (sha256:[0-9a-f]{64})\Z")
_OPENS_NOTHING = "That credential opens nothing here."
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _NotSignedIn(Exception):
    """The page needs somebody, and nobody is signed in."""


class Pages:
    """The pages over a desk; ``routes`` go into the control server."""

    def __init__(
        self,
        desk: Desk,
        *,
        tls: bool,
        logins: Sequence[CodeLogin] = (),
        pages: str = "",
        now_ns: Callable[[], int] = clock.now_ns,
        random: Callable[[int], bytes] = clock.random_bytes,
    ) -> None:
        self._desk = desk
        self._tls = tls
        self._now_ns = now_ns
        self._sessions = Sessions(desk.pages, random)
        self._under_way = UnderWay(desk.pages, random)
        self._logins = {each.name: each for each in logins} if pages else {}
        self._back = f"{pages.rstrip('/')}{view.ROOT}/signed-in"

    def routes(self) -> list[web.RouteDef]:
        """Where each page is."""
        root = view.ROOT
        return [
            web.get(root, self._page(self._list)),
            web.post(f"{root}/sign-in", self._page(self._sign_in)),
            web.post(f"{root}/sign-out", self._page(self._sign_out)),
            web.get(f"{root}/oidc/{{provider}}", self._page(self._send_away)),
            web.get(f"{root}/signed-in", self._page(self._come_back)),
            web.get(view.BATCH, self._page(self._several)),
            web.post(view.BATCH, self._page(self._vote_several)),
            web.get(f"{root}/{{approval_id}}", self._page(self._show)),
            web.post(f"{root}/{{approval_id}}/vote", self._page(self._vote)),
        ]

    def _page(self, handler: Handler) -> Handler:
        """The handler, whatever goes wrong in it a page."""

        async def page(request: web.Request) -> web.StreamResponse:
            try:
                answer = await handler(request)
            except _NotSignedIn:
                answer = _html(view.sign_in(_here(request), providers=tuple(self._logins)))
            except LoginFailed as failed:
                text = view.sign_in(view.ROOT, str(failed), tuple(self._logins))
                answer = _html(text, 403)
            except Refused as refused:
                answer = _html(view.problem("That did not work", refused.detail), refused.status)
            except (StoreUnavailable, SealBroken) as error:
                _LOG.error("store_failed", why=error)
                text = "the store cannot be used now"
                answer = _html(view.problem("That did not work", text), 503)
            return answer

        return page

    async def _list(self, request: web.Request) -> web.StreamResponse:
        session, who = await self._signed(request, request.query.get("project"))
        principal = await who()
        asked = requests.ListApprovalsRequest(status="pending")
        found = await self._desk.answer(BY_NAME["list_approvals"], who, asked, _same)
        reviews = requests.ListBreakGlassesRequest(state="broken")
        due = await self._desk.answer(BY_NAME["list_break_glasses"], who, reviews, _same)
        return _html(view.listing(found.approvals, _of(session, principal), len(due.glasses)))

    async def _show(self, request: web.Request) -> web.StreamResponse:
        return await self._shown(request, request.query.get("project"))

    async def _shown(
        self, request: web.Request, project: str | None, told: str = "", status: int = 200
    ) -> web.StreamResponse:
        session, who = await self._signed(request, project)
        principal = await who()
        asked = requests.GetApprovalRequest(approval_id=_approval_id(request))
        found = await self._desk.answer(BY_NAME["get_approval"], who, asked, _same)
        why_not = self._desk.why_not(found, principal)
        page = view.request(
            found,
            _of(session, principal),
            why_not=why_not,
            told=told,
            lacks=None if why_not else self._desk.step_up(found, principal),
            providers=tuple(self._logins),
        )
        return _html(page, status)

    async def _several(self, request: web.Request) -> web.StreamResponse:
        return await self._shown_several(request, request.query.get("project"))

    async def _shown_several(
        self, request: web.Request, project: str | None, told: str = "", status: int = 200
    ) -> web.StreamResponse:
        """What this person could approve now, up to as many as a page has."""
        session, who = await self._signed(request, project)
        principal = await who()
        asked = requests.ListApprovalsRequest(status="pending")
        found = await self._desk.answer(BY_NAME["list_approvals"], who, asked, _same)
        can = [
            each
            for each in found.approvals
            if self._desk.why_not(each, principal) is None
            and self._desk.step_up(each, principal) is None
        ]
        signed = _of(session, principal)
        return _html(view.batch(can[:_PICKS_MAX], signed, principal.project, told), status)

    async def _vote_several(self, request: web.Request) -> web.StreamResponse:
        pairs = await _pairs(request, _PICKS_MAX + 3)
        picks = [value for name, value in pairs if name == "pick"]
        form = _once(
            [pair for pair in pairs if pair[0] != "pick"], {"form_token", "project", "reason"}
        )
        session, who = await self._signed(request, form["project"])
        if not session.fits(form["form_token"]):
            raise Refused(403, "form_foreign", "the form is not from your session; open it anew")
        reason = _reason(form["reason"])
        if reason is None or not picks:
            words = "Say why, in some words, and tick what you approve."
            return await self._shown_several(request, form["project"], words, 400)
        matched = [_PICK.match(each) for each in picks]
        asked = requests.ApproveBatchRequest(
            approvals=tuple(
                requests.BatchItem(approval_id=each[1], action_hash=each[2], shown_digest=each[3])
                for each in matched
                if each is not None
            ),
            reason=reason,
        )
        if None in matched:
            raise Refused(400, "form_malformed", "the form is not one of this page's")
        voted = await self._desk.answer(BY_NAME["approve_batch"], who, asked, _same)
        told = [(each.approval_id, each.status or each.detail) for each in voted.outcomes]
        return _html(view.outcomes(told, _of(session, await who())))

    async def _vote(self, request: web.Request) -> web.StreamResponse:
        form = await _form(request, {"form_token", "project", "shown_digest", "reason", "decision"})
        session, who = await self._signed(request, form["project"])
        if not session.fits(form["form_token"]):
            raise Refused(403, "form_foreign", "the form is not from your session; open it anew")
        if form["decision"] not in ("approve", "deny"):
            raise Refused(400, "form_malformed", "the form is not one of this page's")
        reason = _reason(form["reason"])
        if reason is None:
            return await self._shown(request, form["project"], "Say why, in some words.", 400)
        asks = requests.DenyRequest if form["decision"] == "deny" else requests.ApproveRequest
        ballot: Any = asks(
            approval_id=_approval_id(request), reason=reason, shown_digest=form["shown_digest"]
        )
        try:
            voted = await self._desk.answer(BY_NAME[form["decision"]], who, ballot, _same)
        except Refused as refused:
            if refused.status not in (403, 409, 429):
                raise
            return await self._shown(request, form["project"], refused.detail, refused.status)
        return _see_other(f"{view.ROOT}/{voted.approval_id}?project={voted.project}")

    async def _sign_in(self, request: web.Request) -> web.StreamResponse:
        form = await _form(request, {"to", "key"})
        to = form["to"] if _TO.match(form["to"]) else view.ROOT
        presented = Presented(authorization=f"Bearer {form['key'].strip()}")
        try:
            principal = await self._desk.principal(presented, None, "store.read")
        except Refused as refused:
            if refused.status not in (401, 403):
                raise
            text = view.sign_in(to, _OPENS_NOTHING, tuple(self._logins))
            return _html(text, refused.status)
        return await self._opened(request, presented, principal, to)

    async def _opened(
        self, request: web.Request, presented: Presented, principal: Principal, to: str
    ) -> web.Response:
        """A session, and the way to the page that was asked for."""
        await self._sessions.close(self._cookie(request))
        answer = _see_other(to)
        opened = await self._sessions.open(presented, principal.id, self._now_ns())
        self._keep(answer, self._cookie_name, opened)
        _LOG.info("signed_in", by=principal.id)
        return answer

    async def _send_away(self, request: web.Request) -> web.StreamResponse:
        """To a provider, to sign in there."""
        login = self._logins.get(request.match_info["provider"])
        if login is None:
            raise Refused(404, "no_such_page", "there is no such page")
        to, acr = request.query.get("to", ""), request.query.get("acr", "")
        age = request.query.get("max_age", "")
        demand = StepUp(
            acr=tuple(acr.split()) if _CLASSES.match(acr) else (),
            max_age_s=int(age) if _AGE.match(age) else None,
        )
        state, browser, begun = await self._under_way.begin(
            login.name, to if _TO.match(to) else view.ROOT, self._now_ns()
        )
        answer = _see_other(await login.url(begun, state, self._back, demand))
        self._keep(answer, self._browser_name, browser, seconds=BEGUN_NS // 10**9)
        return answer

    async def _come_back(self, request: web.Request) -> web.StreamResponse:
        """From a provider, with a code. Raises LoginFailed."""
        given = {name: request.query.getall(name, []) for name in ("state", "code", "iss")}
        browser = request.cookies.get(self._browser_name, "")
        if len(given["state"]) != 1 or not browser:
            raise LoginFailed("this sign-in is not under way any more; begin anew")
        begun = await self._under_way.take(given["state"][0], browser, self._now_ns())
        login = self._logins[begun.provider]
        if len(given["code"]) != 1 or given["iss"] not in ([], [login.issuer]):
            raise LoginFailed("the provider signed nobody in")
        text = await login.token(begun, given["code"][0], self._back)
        presented = Presented(authorization=f"Bearer {text}")
        try:
            principal = await self._desk.principal(presented, None, "store.read")
        except Refused as refused:
            if refused.status not in (401, 403):
                raise
            raise LoginFailed(_OPENS_NOTHING) from None
        answer = await self._opened(request, presented, principal, begun.to)
        answer.del_cookie(self._browser_name, path="/", secure=self._tls, httponly=True)
        return answer

    def _keep(
        self, answer: web.Response, name: str, value: str, seconds: int | None = None
    ) -> None:
        answer.set_cookie(
            name,
            value,
            max_age=seconds,
            httponly=True,
            secure=self._tls,
            samesite="Lax",  # a link to a page works for who is signed in; forms check more
            path="/",
        )

    async def _sign_out(self, request: web.Request) -> web.StreamResponse:
        pairs = await _pairs(request, _FIELDS_MAX)
        everywhere = ("everywhere", "yes") in pairs
        form = _once([pair for pair in pairs if pair[0] != "everywhere"], {"form_token"})
        session, who = await self._signed(request, None)
        answer = _see_other(view.ROOT)
        if session.fits(form["form_token"]):
            owner = (await who()).id if everywhere else ""
            await self._sessions.close(self._cookie(request), owner)
            answer.del_cookie(self._cookie_name, path="/", secure=self._tls, httponly=True)
        return answer

    async def _signed(
        self, request: web.Request, project: str | None
    ) -> tuple[Session, Callable[[], Awaitable[Principal]]]:
        """The session, and its person as they are now. Raises _NotSignedIn."""
        session = await self._session(request)

        async def who() -> Principal:
            try:
                return await self._desk.principal(session.presented, project or None, "store.read")
            except Refused as refused:
                if refused.status != 401:
                    raise
                await self._sessions.close(self._cookie(request))
                raise _NotSignedIn from None

        return session, who

    async def _session(self, request: web.Request) -> Session:
        found = await self._sessions.find(self._cookie(request), self._now_ns())
        if found is None:
            raise _NotSignedIn
        return found

    def _cookie(self, request: web.Request) -> str | None:
        return request.cookies.get(self._cookie_name)

    @property
    def _cookie_name(self) -> str:
        return _COOKIE_TLS if self._tls else _COOKIE

    @property
    def _browser_name(self) -> str:
        return f"{self._cookie_name}-login"


def _reason(text: str) -> str | None:
    """Why, as a form has it; None where it says nothing, or more than is kept."""
    reason = text.strip().replace("\r\n", "\n")
    said = 1 <= len(reason) <= requests.REASON_CHARS_MAX and "\x00" not in reason
    return reason if said else None


async def _form(request: web.Request, names: set[str]) -> dict[str, str]:
    """The fields of one of our forms, sent by one of our pages. Raises Refused."""
    return _once(await _pairs(request, _FIELDS_MAX), names)


def _once(pairs: list[tuple[str, str]], names: set[str]) -> dict[str, str]:
    """Fields of which each stands once, and no other. Raises Refused."""
    if len(pairs) != len(names) or {name for name, _ in pairs} != names:
        raise Refused(400, "form_malformed", "the form is not one of this page's")
    return dict(pairs)


async def _pairs(request: web.Request, most: int) -> list[tuple[str, str]]:
    """The fields of a form that one of our pages sent. Raises Refused."""
    _of_this_site(request)
    if request.content_type != _FORM or "Content-Encoding" in request.headers:
        raise Refused(415, "media_type_unknown", "that is no form")
    try:
        text = (await request.read()).decode("ascii")
        return parse_qsl(
            text, keep_blank_values=True, strict_parsing=True, errors="strict",
            max_num_fields=most,
        )  # fmt: skip
    except ValueError:
        raise Refused(400, "form_malformed", "the form cannot be read") from None


def _of_this_site(request: web.Request) -> None:
    """Refuse a form that a page of another site sent (Fetch standard: Origin, Sec-Fetch-Site)."""
    site = request.headers.get("Sec-Fetch-Site", "same-origin")
    origins = request.headers.getall("Origin", [])
    ours = all(urlsplit(origin).netloc == request.headers.get("Host") for origin in origins)
    if site not in ("same-origin", "none") or len(origins) > 1 or not ours:
        raise Refused(403, "form_foreign", "the form was sent by another site")


def _approval_id(request: web.Request) -> str:
    found = request.match_info["approval_id"]
    if not _ID.match(found):
        raise Refused(404, "no_such_approval", "there is no such approval")
    return found


def _here(request: web.Request) -> str:
    """The page to come back to; the list, where the request was no page."""
    return request.path_qs if request.method == "GET" and _TO.match(request.path_qs) else view.ROOT


def _of(session: Session, principal: Principal) -> view.Signed:
    return view.Signed(name=principal.name or principal.id, form_token=session.form_token)


def _same(answer: Any) -> Any:
    return answer


def _html(text: str, status: int = 200) -> web.Response:
    return web.Response(
        text=text, status=status, content_type="text/html", charset="utf-8", headers=view.HEADERS
    )


def _see_other(to: str) -> web.Response:
    return web.Response(status=303, headers={"Location": to, **view.HEADERS})
