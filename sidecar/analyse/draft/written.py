"""A draft as its file: YAML in which each tool and each row says what it rests on.

Rules
1. Values are JSON on one line, which YAML reads as it stands; comments are plain text of one line
   each, whatever was recorded.
2. The same draft is the same text.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

from sidecar.analyse.draft.model import Draft, LeftOut, Rule, Support

_SAYS_MAX = 160


def written(draft: Draft) -> str:
    """The text of ``twin.yaml``."""
    return "\n".join(_lines(draft)) + "\n"


def _lines(draft: Draft) -> Iterator[str]:
    document = draft.document
    yield f"# Drafted from {draft.runs} recorded runs with {draft.calls} tool calls."
    yield "# A comment says what the lines below it rest on: n observations for, n against, where."
    yield "# What no rule bears answers TwinGap. Rows are as they were recorded, redacted as then."
    for name in ("twin", "version", "as_of", "clock", "fidelity"):
        if name in document:
            yield f"{name}: {_json(document[name])}"
    rules = _by_part(draft.rules)
    left = _by_part(draft.left_out)
    yield ""
    yield "entities:" if document["entities"] else "entities: {}"
    for name, entity in document["entities"].items():
        yield f"  {name}:"
        for key, value in entity.items():
            if key != "rows":
                yield f"    {key}: {_json(value)}"
        yield from _rows(entity.get("rows", ()), rules[f"entities.{name}"])
    yield ""
    yield "tools:"
    for tool in document["tools"]:
        yield from _comments(rules[tool["name"]], left[tool["name"]])
        for number, (key, value) in enumerate(tool.items()):
            start = "  - " if number == 0 else "    "
            if isinstance(value, list) and value:
                yield f"{start}{key}:"
                yield from (f"      - {_json(item)}" for item in value)
            else:
                yield f"{start}{key}: {_json(value)}"


def _rows(rows: Sequence[dict[str, Any]], rules: Sequence[Rule]) -> Iterator[str]:
    if not rows:
        return
    yield "    rows:"
    for place, row in enumerate(rows):
        if len(rules) == len(rows):
            yield f"      # {_support(rules[place].support)}"
        yield f"      - {_json(row)}"


def _comments(rules: Sequence[Rule], left: Sequence[LeftOut]) -> Iterator[str]:
    for one in rules:
        yield f"  # {_plain(one.says)}: {_support(one.support)}"
    for gap in left:
        yield f"  # left out: {_plain(gap.what)}: {_plain(gap.why)}; {_support(gap.support)}"


def _support(one: Support) -> str:
    where = f", e.g. {', '.join(one.examples)}" if one.examples else ""
    return _plain(f"{one.n} for, {one.against} against{where}")


def _by_part(some: Sequence[Any]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = defaultdict(list)
    for one in some:
        found[one.part].append(one)
    return found


def _json(value: Any) -> str:
    # What YAML does not take as it stands is escaped: surrogates are refused when it is read.
    return json.dumps(value, ensure_ascii=True)


def _plain(text: str) -> str:
    shown = "".join(one if one.isprintable() else " " for one in text)
    return shown if len(shown) <= _SAYS_MAX else shown[: _SAYS_MAX - 1] + "…"
