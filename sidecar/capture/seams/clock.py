"""The seam CLOCK: what an agent's own files ask the time, and how long they sleep.
(``clock_asyncio``: as far as asyncio goes.)

**Rules**
1. Every way to ask is one event, named as it is called: ``time.time``, ``datetime.now``. Waiting is
   one too, of how long; played it does not wait, and an ``asyncio.sleep`` lets others run once.
2. Nanoseconds are told as seconds and the rest: no JSON number holds them.
3. A moment's time zone is the caller's own object, also in replay; what is told of it is its name.
4. Event loops and libraries keep their clock (``callers``).
"""

import time
from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any, Final

from sidecar.capture.seams.ambient import ask, payload
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.told import told
from sidecar.capture.seams.wrapping import Handler, Wrapping
from sidecar.tape.compose import NOTHING

_SECONDS: Final = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_NANOSECONDS: Final = tuple(f"{name}_ns" for name in _SECONDS)
_BROKEN_DOWN: Final = {"localtime": 1, "gmtime": 1, "ctime": 1, "asctime": 1, "strftime": 2}


def install(session: Session) -> None:
    """Stand in for the clocks of ``time`` and ``datetime``, and for sleeping."""
    wrapping = Wrapping(session)
    for name in _SECONDS:
        wrapping.function(time, name, _reading(f"time.{name}", told, float))
    for name in _NANOSECONDS:
        wrapping.function(time, name, _reading(f"time.{name}", _split, _whole))
    wrapping.function(time, "clock_gettime", _reading("time.clock_gettime", told, float))
    wrapping.function(time, "clock_gettime_ns", _reading("time.clock_gettime_ns", _split, _whole))
    for name, most in _BROKEN_DOWN.items():
        wrapping.function(time, name, _broken_down(f"time.{name}", most))
    wrapping.function(time, "sleep", _sleep)
    wrapping.in_c(datetime, "now", _moment("now"))
    wrapping.in_c(datetime, "utcnow", _moment("utcnow"))
    wrapping.in_c(date, "today", _moment("today"))
    wrapping.bind()


def _reading(name: str, tell: Callable[[Any], Any], back: Callable[[Any], Any]) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        given = list(args) if args else NOTHING
        return ask(
            session, "clock", name, lambda: real(*args, **kwargs), given=given, tell=tell, back=back
        )

    return handle


def _split(value: int) -> list[int]:
    return list(divmod(value, 10**9))


def _whole(parts: list[int]) -> int:
    return parts[0] * 10**9 + parts[1]


def _broken_down(name: str, most: int) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        given = [one for one in args if one is not None]
        if len(given) >= most:  # of a moment that is given
            return real(*args, **kwargs)
        asked = told(given) if given else NOTHING
        return ask(session, "clock", name, lambda: real(*args, **kwargs), given=asked)

    return handle


def _sleep(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
    return ask(
        session,
        "clock",
        "time.sleep",
        lambda: real(*args, **kwargs),
        given=payload(told, list(args)),
    )


def _moment(name: str) -> Handler:
    def handle(session: Session, real: Any, args: Any, kwargs: Any) -> Any:
        cls = args[0]
        zone = kwargs.get("tz", args[1] if len(args) > 1 else None)
        of = "datetime" if issubclass(cls, datetime) else "date"
        return ask(
            session,
            "clock",
            f"{of}.{name}",
            lambda: real(*args, **kwargs),
            given=NOTHING if zone is None else [_zone_name(zone)],
            tell=_moment_told,
            back=lambda told: _moment_back(cls, told, zone),
        )

    return handle


def _zone_name(zone: Any) -> str:
    key = getattr(zone, "key", None)
    if isinstance(key, str):
        return key
    kind = type(zone)
    if isinstance(zone, tzinfo) and kind.__module__ == "datetime":
        return str(zone)
    return f"{kind.__module__}.{kind.__qualname__}"


def _moment_told(value: date) -> Any:
    if not isinstance(value, datetime):
        return value.isoformat()
    return {"at": value.replace(tzinfo=None).isoformat(), "fold": value.fold}


def _moment_back(cls: Any, told: Any, zone: tzinfo | None) -> Any:
    if isinstance(told, str):
        day = date.fromisoformat(told)
        return cls(day.year, day.month, day.day)
    at = datetime.fromisoformat(told["at"])
    found = cls(at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond, zone)
    return found.replace(fold=1) if told["fold"] else found
