"""Equality of JSON values, and of those arguments a rule or an expectation names.

Rules
1. Numbers are equal by value (``25`` and ``25.0``); a boolean equals a boolean only.
2. A dotted name goes down into mappings, unless the whole name is a member itself.
"""

from collections.abc import Mapping
from typing import Any


def same(left: Any, right: Any) -> bool:
    """Whether two JSON-like values are equal."""
    kind = type(left)
    if kind is type(right):  # without asking what a mapping is: rows are compared after each call
        if kind is str or kind is int or kind is float or kind is bool:
            return bool(left == right)
        if kind is dict:
            return len(left) == len(right) and all(
                key in right and same(one, right[key]) for key, one in left.items()
            )
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    return bool(left == right)


def matches(arguments: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether each wanted argument is there and equal."""
    for name, value in wanted.items():
        there, found = at(arguments, name)
        if not there or not same(found, value):
            return False
    return True


def at(value: Any, name: str) -> tuple[bool, Any]:
    """Whether ``name`` leads somewhere in ``value``, and what stands there."""
    if isinstance(value, Mapping) and name in value:
        return True, value[name]
    for part in name.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return False, None
        value = value[part]
    return True, value
