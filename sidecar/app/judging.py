"""The judge that the configuration names."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sidecar.config import Loaded
from sidecar.egress.client import Egress
from sidecar.evaluate.judging.driver import Judge
from sidecar.evaluate.judging.files import FileCache, read_calibration
from sidecar.evaluate.judging.llm import ModelJudge


@asynccontextmanager
async def open_judge(loaded: Loaded) -> AsyncIterator[Judge]:
    """The judge, its cache and what backs it. Raises SidecarError where that cannot be read."""
    terms = loaded.config.judge
    cache = FileCache(loaded.path(terms.cache) if terms.cache else None)
    path = loaded.path(terms.calibration) if terms.calibration else None
    calibration = read_calibration(path) if path is not None else None
    egress = Egress()
    model = None if terms.type == "fake" else ModelJudge(terms, egress)
    try:
        yield Judge(terms, model, cache=cache, calibration=calibration)
    finally:
        await egress.close()
