"""An operator's side of served twins: open, look at, lead and end episodes.

Rules
1. Every request has the control credential; it is compared without telling by its time how much of
   it was right.
2. What is done to an episode's time and journal is done at once, between two calls.
3. Errors are problem+json; a body is one strict JSON object.
"""

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import parse_qsl

import msgspec
from aiohttp import web
from msgspec.inspect import type_info

from processors.value import duration_ns
from sidecar import clock
from sidecar.expression.document import shape_problems
from sidecar.gateway.problem import Refused
from sidecar.gateway.strict import NotStrict, read_json
from sidecar.identity.keys import Unauthenticated, bearer
from sidecar.twins import timeline
from sidecar.twins.serving.driver import (
    Hall,
    NoSuchEpisode,
    NotOpened,
    Seat,
    shown_end,
    shown_events,
    shown_seat,
)
from sidecar.twins.serving.wanted import Wanted
from sidecar.twins.world import NoSuchEntity

ROOT = "/v1/episodes"
EVENTS_MOST = 500
_PLACE = re.compile(r"/v1/episodes/([A-Za-z0-9][A-Za-z0-9_.-]{0,63})(?:/([a-z-]{1,20}))?\Z")
_NUMBER = re.compile(r"\d{1,9}\Z")

Act = Callable[[Seat, Mapping[str, Any]], dict[str, Any]]


class Control:
    """Answers the control paths of one Hall."""

    def __init__(self, hall: Hall, key: str) -> None:
        self._hall = hall
        self._digest = hashlib.sha256(key.encode()).digest()
        self._acts: dict[str, Act] = {
            "pause": _paused,
            "resume": _resumed,
            "step": _stepped,
            "forward": _forwarded,
            "rewind": _rewound,
        }

    def check(self, authorization: str | None) -> None:
        """That the control credential was shown. Raises Refused."""
        try:
            shown = hashlib.sha256(bearer(authorization).encode()).digest()
        except Unauthenticated:
            shown = b""
        if not hmac.compare_digest(shown, self._digest):
            said = "send the control key as Authorization: Bearer <key>; no episode's token is one"
            raise Refused(401, "unauthenticated", said)

    def answer(self, method: str, raw_path: str, body: bytes) -> web.Response:
        """The answer to a request with the credential. Raises Refused."""
        path, _, query = raw_path.partition("?")
        try:
            if path == ROOT:
                return self._of_all(method, body)
            place = _PLACE.match(path)
            if place is None:
                raise Refused(404, "no_such_page", f"episodes are at {ROOT} and {ROOT}/<name>")
            return self._of_one(method, place[1], place[2] or "", query, body)
        except NoSuchEpisode:
            raise Refused(404, "no_such_episode", "there is no such open episode") from None

    def _of_all(self, method: str, body: bytes) -> web.Response:
        if method == "GET":
            seats = [shown_seat(self._hall.seat(name)) for name in self._hall.names]
            return _document({"episodes": seats})
        if method != "POST":
            raise _method("GET, POST")
        try:
            seat, token = self._hall.open(_wanted(body), clock.now_ns())
        except NotOpened as error:
            status = {"episode_exists": 409, "episodes_full": 503}.get(error.code, 422)
            raise Refused(status, error.code, error.detail) from None
        return _document({**shown_seat(seat), "token": token}, 201)

    def _of_one(self, method: str, name: str, what: str, query: str, body: bytes) -> web.Response:
        if method == "DELETE" and not what:
            return _document(self._hall.end(name, clock.now_ns(), settle=False))
        if method == "GET":
            return _document(self._looked(self._hall.seat(name), what, query))
        if method != "POST":
            raise _method("GET, POST, DELETE")
        if what == "close":
            return _document(self._hall.end(name, clock.now_ns(), settle=True))
        act = self._acts.get(what)
        if act is None:
            known = ", ".join([*self._acts, "close"])
            raise Refused(404, "no_such_action", f"what can be done to an episode: {known}")
        seat = self._hall.seat(name)
        done = act(seat, _object(body))
        return _document({**shown_seat(seat), **done})

    def _looked(self, seat: Seat, what: str, query: str) -> dict[str, Any]:
        asked = dict(parse_qsl(query[:1000], keep_blank_values=True))
        if not what:
            return shown_end(seat, clock.now_ns())
        if what == "events":
            after = asked.get("after", "0")
            if not _NUMBER.match(after):
                raise Refused(400, "argument_invalid", "after is the number of an event, from 0")
            return shown_events(seat.episode.events, int(after), EVENTS_MOST)
        if what == "rows":
            try:
                rows = seat.episode.view().functions["rows"](asked.get("entity", ""))
            except NoSuchEntity as error:
                raise Refused(404, "no_such_entity", str(error)) from None
            return {"entity": asked["entity"], "rows": rows}
        raise Refused(404, "no_such_page", "of an episode there are events and rows?entity=NAME")


def _paused(seat: Seat, asked: Mapping[str, Any]) -> dict[str, Any]:
    _only(asked)
    seat.episode.pause()
    return {}


def _resumed(seat: Seat, asked: Mapping[str, Any]) -> dict[str, Any]:
    _only(asked)
    seat.episode.resume()
    return {}


def _stepped(seat: Seat, asked: Mapping[str, Any]) -> dict[str, Any]:
    _only(asked)
    return {"stepped": seat.episode.step()}


def _forwarded(seat: Seat, asked: Mapping[str, Any]) -> dict[str, Any]:
    _only(asked, "by")
    try:
        by_ns = duration_ns(str(asked.get("by", "")))
    except ValueError as error:
        raise Refused(422, "argument_invalid", f"by: {error}") from None
    if seat.episode.now_ns + by_ns > timeline.LATEST_NS:
        raise Refused(422, "argument_invalid", "by leads beyond the year 9999")
    seat.episode.fast_forward(by_ns)
    return {}


def _rewound(seat: Seat, asked: Mapping[str, Any]) -> dict[str, Any]:
    _only(asked, "calls")
    calls = asked.get("calls")
    if not isinstance(calls, int) or isinstance(calls, bool) or calls < 1:
        raise Refused(422, "argument_invalid", "calls is how many calls are taken back, from 1")
    seat.episode.rewind(seat.episode.before(calls))
    return {}


def _only(asked: Mapping[str, Any], *known: str) -> None:
    unknown = sorted(asked.keys() - set(known))
    if unknown:
        what = f"{unknown[0][:40]!r} is unknown; known: {', '.join(known) or 'nothing'}"
        raise Refused(422, "argument_invalid", what)


def _wanted(body: bytes) -> Wanted:
    value = _object(body)
    problems = list(shape_problems(type_info(Wanted), value, ""))
    if problems:
        said = "; ".join(f"{one.path} {one.text}" for one in problems)
        raise Refused(422, "episode_invalid", said)
    try:
        return msgspec.convert(value, Wanted)
    except msgspec.ValidationError as error:
        raise Refused(422, "episode_invalid", str(error)) from None


def _object(body: bytes) -> dict[str, Any]:
    try:
        value = read_json(body) if body else {}
    except NotStrict as error:
        raise Refused(400, "body_malformed", f"not strict JSON: {error}") from None
    if not isinstance(value, dict):
        raise Refused(400, "body_malformed", "the body must be a JSON object")
    return value


def _method(allowed: str) -> Refused:
    return Refused(405, "method_refused", f"this path takes {allowed}")


def _document(value: dict[str, Any], status: int = 200) -> web.Response:
    body = json.dumps(value, ensure_ascii=False).encode()
    answer = web.Response(status=status, body=body, content_type="application/json")
    answer.headers["Cache-Control"] = "no-store"
    return answer
