"""A tool's arguments and results as plain JSON that can be read and asserted on, and what is needed
to make the same Python values of it again.

**Rules**
1. ``shaped`` gives a payload and its forms: places (JSON Pointers) of what JSON would lose, and
   what stood there. ``reshaped`` gives an equal value of the same types.
2. What JSON has is itself. A float that looks like an integer, a tuple, a set, a dataclass, a
   pydantic model, an enum keep a plain payload, and so does an object whose keys are in another
   order than the canonical one: an agent that writes it out writes it as before. Anything else that
   can be told stands in its told form.
3. What has no form is ``LOST``: the event is on the tape, and a replay that needs it ends there.
   Of an argument only its class is told: nothing has to be made of it again.
4. Nothing is imported to make a value: a class is found where the agent has it, or the payload
   stands for itself.
"""

import dataclasses
import enum
import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, Final, Generic, Protocol

from sidecar.capture.seams.told import LOST, Untold, class_told, read_back, told
from sidecar.tape.value import INTEGER_MAX

Form = str | list[str]
DEPTH_MAX: Final = 50
_LISTS: Final = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset}
_PLAIN: Final = frozenset((str, bool, type(None)))
_HEAP_TYPE: Final = 1 << 9
_COPYING: Final = ("__reduce__", "__reduce_ex__", "__new__", "__setattr__")


def shaped(value: Any) -> tuple[Any, dict[str, Form]]:
    """A value's payload and its forms; LOST where it has none."""
    forms: dict[str, Form] = {}
    try:
        return _shaped(value, "", forms, 0), forms
    except (Untold, RecursionError):
        return LOST, {}


def reshaped(payload: Any, forms: Mapping[str, Form]) -> Any:
    """The value of a payload; where its classes are not there, the payload itself."""
    return _reshaped(payload, "", forms) if forms else payload


def described(value: Any, depth: int = 0) -> Any:
    """An argument as a payload: of what cannot be told, its class."""
    kind = type(value)
    if kind in _PLAIN or kind is int or kind is float:
        return value if kind is not int or abs(value) <= INTEGER_MAX else told(value)
    if depth > DEPTH_MAX:
        return class_told(value)
    if kind is dict and all(type(key) is str for key in value):
        return {key: described(item, depth + 1) for key, item in value.items()}
    if kind in (list, tuple):
        return [described(item, depth + 1) for item in value]
    fields = _fields(value)
    if fields is not None:
        return {key: described(item, depth + 1) for key, item in fields.items()}
    if isinstance(value, enum.Enum):
        return described(value.value, depth + 1)
    try:
        return told(value)
    except Untold:
        return class_told(value)


def _shaped(value: Any, place: str, forms: dict[str, Form], depth: int) -> Any:
    kind = type(value)
    if kind in _PLAIN or kind is bytes:
        return value
    if depth > DEPTH_MAX:
        raise Untold("too deep")
    if kind is int and -INTEGER_MAX <= value <= INTEGER_MAX:
        return value
    if kind is float and value - value == 0 and abs(value) < INTEGER_MAX:
        if value.is_integer():
            forms[place] = "float" if value or str(value) == "0.0" else "negative zero"
        return value
    if kind is dict:
        if not all(type(key) is str for key in value):
            forms[place] = "pairs"
            value = [[key, item] for key, item in value.items()]
            return [_shaped(one, f"{place}/{n}", forms, depth + 1) for n, one in enumerate(value)]
        keys = [*value]
        if keys != sorted(keys) or not all(map(str.isascii, keys)):
            forms[place] = keys
        return {
            key: _shaped(item, f"{place}/{_step(key)}", forms, depth + 1)
            for key, item in value.items()
        }
    if kind in _LISTS.values():
        if kind is not list:
            forms[place] = kind.__name__
        if kind in (set, frozenset):
            value = sorted(value, key=repr)
        return [_shaped(one, f"{place}/{n}", forms, depth + 1) for n, one in enumerate(value)]
    fields = _fields(value)
    if fields is None and _keeps_all_in_dict(value):
        fields = dict(vars(value))
    if fields is not None:
        forms[place] = f"object:{kind.__module__}:{kind.__qualname__}"
        return {
            key: _shaped(item, f"{place}/{_step(key)}", forms, depth + 1)
            for key, item in fields.items()
        }
    if isinstance(value, enum.Enum):
        forms[place] = f"enum:{kind.__module__}:{kind.__qualname__}"
        return _shaped(value.value, f"{place}/value", forms, depth + 1)
    forms[place] = "told"
    return told(value)


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a record of a kind we can make again."""
    if isinstance(value, type):
        return None
    if dataclasses.is_dataclass(value):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    if _is_model(value):
        return dict(value.__dict__)
    return None


def _keeps_all_in_dict(value: Any) -> bool:
    """Whether a value is an instance of an ordinary class, with nothing beside its attributes."""
    kind = type(value)
    if not hasattr(value, "__dict__") or isinstance(value, type) or callable(value):
        return False
    if kind.__flags__ & _HEAP_TYPE == 0:  # made in C: what it has inside is not seen
        return kind is SimpleNamespace
    bases = [one for one in kind.__mro__ if one not in (object, Generic, Protocol)]
    plain = all(one.__flags__ & _HEAP_TYPE and "__slots__" not in vars(one) for one in bases)
    return plain and all(getattr(kind, name) is getattr(object, name) for name in _COPYING)


def _is_model(value: Any) -> bool:
    pydantic = sys.modules.get("pydantic")
    model = getattr(pydantic, "BaseModel", None)
    return model is not None and isinstance(value, model)


def _reshaped(payload: Any, place: str, forms: Mapping[str, Form]) -> Any:
    form = forms.get(place)
    if form == "told":
        return read_back(payload)
    if isinstance(form, str) and form.startswith("enum:"):
        inner = _reshaped(payload, f"{place}/value", forms)
        kind = _found(form)
        return inner if kind is None else _made(lambda: kind(inner), inner)
    if isinstance(payload, dict):
        payload = {
            key: _reshaped(item, f"{place}/{_step(key)}", forms) for key, item in payload.items()
        }
    elif isinstance(payload, list):
        payload = [_reshaped(one, f"{place}/{n}", forms) for n, one in enumerate(payload)]
    if form is None:
        return payload
    if isinstance(form, list):
        return _ordered(payload, form)
    if isinstance(payload, list):
        return _listed(form, payload)
    if form in ("float", "negative zero") and isinstance(payload, int | float):
        return float(payload) if form == "float" else -0.0
    if form.startswith("object:") and isinstance(payload, dict):
        kind = _found(form)
        if kind is not None:
            return _made(lambda: _record(kind, payload), payload)
    return payload


def _ordered(payload: Any, keys: list[str]) -> Any:
    if not isinstance(payload, dict):
        return payload
    return {key: payload[key] for key in (*keys, *payload) if key in payload}


def _listed(form: str, items: list[Any]) -> Any:
    if form == "pairs":
        return dict(items)
    return _LISTS.get(form, list)(items)


def _record(kind: Any, fields: dict[str, Any]) -> Any:
    """A record with these fields, which nothing validates again: they were its own."""
    if hasattr(kind, "model_construct"):
        return kind.model_construct(**fields)
    made = kind.__new__(kind)
    for key, item in fields.items():
        object.__setattr__(made, key, item)
    return made


def _made(make: Callable[[], Any], instead: Any) -> Any:
    try:
        return make()
    except Exception:  # whatever the agent's class does; redaction may have changed a field
        return instead


def _found(form: str) -> Any:
    _, module, qualname = form.split(":", 2)
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found if isinstance(found, type) else None


def _step(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
