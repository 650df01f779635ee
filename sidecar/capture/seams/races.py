"""SCHEDULER, races between threads: which piece of work for a pool was done first.

**Rules**
1. ``concurrent.futures.as_completed`` and ``wait`` of the agent's own files are decisions: which of
   the given were done, by place. Played, the same are, however fast the others were.
2. Who goes on with what is done comes after it.
"""

from collections.abc import Iterable, Iterator
from concurrent import futures
from concurrent.futures import _base
from typing import Any

from sidecar.capture.seams.ambient import failed, raised
from sidecar.capture.seams.crossing import Crossing
from sidecar.capture.seams.install import patch
from sidecar.capture.seams.session import Session, current
from sidecar.capture.seams.sites import Site
from sidecar.capture.seams.threads import lane_of


def install(session: Session) -> None:
    """Patch both, wherever they are called from."""
    completed, wait = _base.as_completed, _base.wait

    def as_completed(fs: Iterable[Any], timeout: float | None = None) -> Iterator[Any]:
        seen = current()
        site = None if seen is None else seen.caller()
        if seen is None or site is None:
            return completed(fs, timeout)
        return _one_by_one(seen, site, [*dict.fromkeys(fs)], timeout)

    def wait_(fs: Iterable[Any], timeout: float | None = None, return_when: str = "") -> Any:
        how = return_when or _base.ALL_COMPLETED
        seen = current()
        site = None if seen is None else seen.caller()
        if seen is None or site is None:
            return wait(fs, timeout, how)
        given = [*dict.fromkeys(fs)]
        x = _asked(seen, site, "futures.wait", {"of": len(given), "return_when": how})
        if x.played:
            done = {given[place] for place in x.out["done"]}
            wait(done)
        else:
            done = wait(given, timeout, how).done
        _over(x, done, {"done": [place for place, one in enumerate(given) if one in done]})
        return _base.DoneAndNotDoneFutures(done, {one for one in given if one not in done})

    def _one_by_one(
        seen: Session, site: Site, given: list[Any], timeout: float | None
    ) -> Iterator[Any]:
        real = completed(given, timeout)
        for _ in given:
            x = _asked(seen, site, "futures.as_completed", {"of": len(given)})
            if x.played:
                if x.error is not None:
                    x.done()
                    raise raised(x.error, x.out)
                one = given[x.out["place"]]
                wait([one])
            else:
                try:
                    one = next(real)
                except BaseException as error:
                    failed(x, error)
                    raise
            _over(x, [one], {"place": given.index(one)})
            yield one

    for module in (_base, futures):
        patch(session, module, "as_completed", as_completed)
        patch(session, module, "wait", wait_)


def _asked(session: Session, site: Site, name: str, given: Any) -> Crossing:
    return session.enter(
        kind="decision",
        seam="scheduler",
        name=name,
        given=given,
        site=site,
        label=name,
        piecemeal=True,
    )


def _over(x: Crossing, done: Iterable[Any], out: Any) -> None:
    for one in done:
        lane = lane_of(one)
        if lane is not None:
            x.lane.join(lane)
    x.settle()
    x.done(out)
