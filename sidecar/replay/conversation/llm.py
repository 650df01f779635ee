"""Synthetic users whom a language model plays.

Rules
1. The same words under the same seed are asked for once a command: both sides of a replay, and both
   runs of a deterministic suite, meet one user as long as the agents say the same.
2. Past ``calls_max``, or without an answer, the user has failed: the case is void, never shorter.
"""

import asyncio
from typing import Final

from sidecar.evaluate.judging.config import SyntheticUsers
from sidecar.evaluate.judging.llm import Model, Tool, Unanswered
from sidecar.evaluate.judging.prompt import Prompt
from sidecar.twins.played import DESCRIPTION, SCHEMA, TOOL, Said, Script

_SAY: Final = Tool(name=TOOL, description=DESCRIPTION, schema=SCHEMA, kind=Said)


class PlayedUsers:
    """Plays users. ``model`` is None where none is configured. Use it in one event loop."""

    def __init__(self, terms: SyntheticUsers, model: Model | None) -> None:
        self._terms = terms
        self._model = model
        self._said: dict[Script, asyncio.Future[Said]] = {}
        self._calls = 0

    async def say(self, script: Script) -> Said:
        """What the user says next. Raises Unanswered."""
        if self._model is None:
            raise Unanswered("no model plays users: configure synthetic_users")
        known = self._said.get(script)
        if known is None:
            if self._calls >= self._terms.calls_max:
                raise Unanswered(f"over synthetic_users.calls_max ({self._terms.calls_max})")
            self._calls += 1
            known = asyncio.ensure_future(self._asked(self._model, script))
            self._said[script] = known
        try:
            return await asyncio.shield(known)
        except Unanswered:
            self._said.pop(script, None)
            raise

    @staticmethod
    async def _asked(model: Model, script: Script) -> Said:
        prompt = Prompt(system=script.system, user=script.user)
        return (await model.call(prompt, _SAY, seed=script.seed)).value
