"""The models that the configuration names for replays: the judge, and who plays users."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.evaluate.judging.driver import Judge
from sidecar.evaluate.judging.files import FileCache, read_calibration
from sidecar.evaluate.judging.llm import Model
from sidecar.replay.conversation.llm import PlayedUsers


@asynccontextmanager
async def open_judge(loaded: Loaded) -> AsyncIterator[Judge]:
    """The judge, its cache and what backs it. Raises SidecarError where that cannot be read."""
    terms = loaded.config.judge
    cache = FileCache(loaded.path(terms.cache) if terms.cache else None)
    path = loaded.path(terms.calibration) if terms.calibration else None
    calibration = read_calibration(path) if path is not None else None
    egress = Egress()
    model = None if terms.type == "fake" else Model(terms, egress)
    try:
        yield Judge(terms, model, cache=cache, calibration=calibration)
    finally:
        await egress.close()


@asynccontextmanager
async def open_users(loaded: Loaded) -> AsyncIterator[PlayedUsers]:
    """Who plays users of type ``model``."""
    terms = loaded.config.synthetic_users
    egress = Egress()
    try:
        yield PlayedUsers(terms, None if terms.type == "fake" else Model(terms, egress))
    finally:
        await egress.close()
