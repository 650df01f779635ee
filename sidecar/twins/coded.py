"""A tool written in Python: the function, what it may touch, and how it answers.

Rules
1. A function is called ``f(realm, arguments)`` and returns an Answer, a JSON value or None (an
   empty answer). It keeps nothing between calls and reads no clock: ``realm`` is all it has.
2. It changes rows through ``realm`` alone, which journals; a row it read is never edited in place
   (the leak canary finds one that was).
3. ``Refusal`` ends a call as the real service would refuse it: nothing of the call stays.
4. Any other exception is the twin's own fault: TwinFailed, and the case is void.
"""

import hmac
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema_rs
from msgspec import Struct

from sidecar.gateway.content import is_header
from sidecar.twins import timeline
from sidecar.twins.behaviour import Asked, Behaviour, Performed, TwinFailed, named_effect
from sidecar.twins.declaration import STATUS_LEAST, STATUS_MOST
from sidecar.twins.effects import Unforeseen
from sidecar.twins.sayable import no_json
from sidecar.twins.world import NoSuchEntity, World


class Answer(Struct, frozen=True, kw_only=True):
    """An answer with a status and headers of its own; ``text`` is sent as plain text.

    ``effect`` names the effect for finding duplicates; None: all arguments.
    """

    value: Any = None
    text: str | None = None
    status: int = 200
    headers: tuple[tuple[str, str], ...] = ()
    effect: Any = None

    def performed(self, *, refused: bool = False, effect_key: str | None = None) -> Performed:
        """The same as the pipeline sees it."""
        return Performed(
            status=self.status,
            value=self.value if self.text is None else self.text,
            text=self.text,
            headers=self.headers,
            refused=refused,
            effect_key=effect_key,
        )


class Refusal(Exception):
    """The service says no: ``answer`` is what the caller sees, and nothing changes."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(f"refused with {answer.status}")
        self.answer = answer


class Realm:
    """The world as a function of a twin may use it, during one call."""

    def __init__(
        self, world: World, schemas: Mapping[str, jsonschema_rs.Validator], asked: Asked
    ) -> None:
        self._world = world
        self._schemas = schemas
        self.asked = asked

    @property
    def now(self) -> str:
        """Virtual time, RFC 3339 in UTC with milliseconds."""
        return timeline.text(self._world.now_ns)

    @property
    def flags(self) -> Mapping[str, Any]:
        """The flags by name."""
        return self._world.flags

    def row(self, entity: str, key: Any) -> Any:
        """The row, or None; not to be edited. Raises NoSuchEntity."""
        return self._world.row(entity, key)

    def rows(self, entity: str, wanted: Mapping[str, Any] | None = None) -> list[Any]:
        """The rows with these values, in order of insertion; not to be edited."""
        return self._world.rows(entity, wanted)

    def insert(self, entity: str, row: dict[str, Any]) -> None:
        """A new row. Raises Unforeseen where its key is there, or its schema refuses it."""
        key = self._checked(entity, row)
        if self._world.row(entity, key) is not None:
            raise Unforeseen(f"{entity} has a row {key!r} already")
        self._world.put_row(entity, row)

    def replace(self, entity: str, row: dict[str, Any]) -> None:
        """The row in place of the one with its key. Raises Unforeseen where there is none."""
        key = self._checked(entity, row)
        if self._world.row(entity, key) is None:
            raise Unforeseen(f"{entity} has no row {key!r}")
        self._world.put_row(entity, row)

    def delete(self, entity: str, key: str) -> None:
        """The row goes. Raises Unforeseen where there is none."""
        table = self._world.table(entity)
        if key not in table:
            raise Unforeseen(f"{entity} has no row {key!r}")
        self._world.journal.drop(table, key)

    def set_flag(self, name: str, value: Any) -> None:
        """A flag takes a value. Raises Unforeseen where it is none that JSON has."""
        _check_json(value, f"the flag {name}")
        self._world.journal.put(self._world.flags, name, value)

    def next_id(self, prefix: str) -> str:
        """``prefix-1``, ``prefix-2``, …: a counter of the world, rolled back with it."""
        return self._world.next_id(prefix)

    def draw(self, stream: str) -> float:
        """A number in [0, 1) that depends on seed, stream, tool and call number alone."""
        message = f"code:{stream}|{self.asked.tool}|{self.asked.number}".encode()
        mac = hmac.digest(str(self.asked.seed).encode(), message, "sha256")
        return int.from_bytes(mac[:8], "big") / 2**64

    def _checked(self, entity: str, row: Any) -> str:
        """The row's key, where its schema takes it."""
        schema = self._schemas.get(entity)
        if schema is None:
            raise NoSuchEntity(f"there is no entity {entity!r}")
        _check_json(row, f"a row of {entity}")
        error = next(iter(schema.iter_errors(row)), None)
        if error is not None:
            place = "/".join(map(str, error.instance_path))
            raise Unforeseen(
                f"a row of {entity} would break its schema at /{place}: {error.message}"
            )
        try:
            return self._world.key_of(entity, row)
        except KeyError as missing:
            raise Unforeseen(f"a row of {entity} has no {missing}") from None


Function = Callable[[Realm, dict[str, Any]], Any]


class Code(Struct, frozen=True, kw_only=True):
    """A twin's registered code: its functions by tool, what it is called, and its digest.

    ``behaviours``: tools that code of ours answers, in place of a function.
    """

    name: str
    digest: str
    functions: Mapping[str, Function] = {}
    behaviours: Mapping[str, Behaviour] = {}

    def has(self, tool: str) -> bool:
        """Whether a tool is written in it."""
        return tool in self.functions or tool in self.behaviours


class Coded(Struct, frozen=True, kw_only=True):
    """A function as a behaviour; ``schemas`` are those of its twin's entities."""

    function: Function
    schemas: Mapping[str, jsonschema_rs.Validator]
    has_effect: bool

    def perform(self, world: World, asked: Asked) -> Performed:
        """See Behaviour."""
        realm = Realm(world, self.schemas, asked)
        before = world.journal.mark()
        try:
            answer = _answer(self.function(realm, asked.arguments))
        except Refusal as refusal:
            return _answer(refusal.answer).performed(refused=True)
        except (Unforeseen, TwinFailed):
            raise
        except (Exception, SystemExit) as error:  # whatever a twin's code may raise
            raise TwinFailed(f"{type(error).__name__}: {error}") from error
        if not self.has_effect:
            if world.changes(before):
                raise TwinFailed("a tool of class read changed the world")
            return answer.performed()
        effect = asked.arguments if answer.effect is None else answer.effect
        return answer.performed(effect_key=named_effect(effect))


def _check_json(value: Any, what: str) -> None:
    why = no_json(value)
    if why is not None:
        raise Unforeseen(f"{what} cannot be kept: {why}")


def _answer(value: Any) -> Answer:
    """What a function returned, as an answer. Raises TwinFailed where no wire can carry it."""
    answer = value if isinstance(value, Answer) else Answer(value=value)
    why = _unsayable(answer)
    if why is not None:
        raise TwinFailed(f"its answer cannot be sent: {why}")
    return answer


def _unsayable(answer: Answer) -> str | None:
    """Why no wire can carry it; code is not held to the types it is written with."""
    status: Any = answer.status
    text: Any = answer.text
    headers: tuple[tuple[Any, Any], ...] = answer.headers
    if type(status) is not int or not STATUS_LEAST <= status <= STATUS_MOST:
        return f"its status is {status!r:.40}, which is not {STATUS_LEAST} to {STATUS_MOST}"
    if text is not None and not isinstance(text, str):
        return f"its text is of type {type(text).__name__}"
    for name, said in headers:
        if not (isinstance(name, str) and isinstance(said, str) and is_header(name, said)):
            return f"the header {name!r:.80} cannot stand in its head"
    return no_json(answer.value)
