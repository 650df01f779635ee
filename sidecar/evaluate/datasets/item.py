"""One item of a dataset: what an agent is asked, what is expected of it, and where that is from.

Rules
1. These records are the format of an exported line: a key that is no field is refused.
2. An item has an id of its own. The trace or tape it was made from is a link, never its identity: a
   run of the item is a run, and leaves what it was made from as it was.
3. Two items ask the same when their input, messages, world and expectations are equal; tags, the
   split, the title, the time and where it is from do not count.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, field, structs

from processors.model.names import OutcomeStatus
from sidecar.canonical import digest
from sidecar.errors import Problem
from sidecar.evaluate.expectations import AnyExpectation, expectation_problems, identified
from sidecar.expression.written import written

ITEM_BYTES_MAX: Final = 1024**2
TAGS_MAX: Final = 32
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}\Z")
_TAG = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:/=-]{0,63}\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}\Z")

Kind = Literal["trace", "tape", "capture", "written"]
Severity = Literal["critical", "major", "minor"]


class Source(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What an item was made from: a stored trace and its revision, a tape's exact digest.

    ``outcome`` is what had been verified of that run; ``drafted``: expectations came from it.
    """

    kind: Kind = "written"
    trace_id: str | None = None
    revision: int | None = None
    tape: str | None = None
    service: str | None = None
    version: str | None = None
    outcome: OutcomeStatus | None = None
    drafted: bool = False


class Expected(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The answer that is expected, or was given in the recording: to compare with, by people.

    Only ``expect`` decides; of a written item without any it is drafted from this.
    """

    output: Any = None
    outcome: OutcomeStatus | None = None


class Item(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One item. ``scenario`` holds what else a scenario may say: its world, faults, approvals."""

    item_id: str = ""
    input: Any = ""
    messages: tuple[dict[str, Any], ...] = ()
    expect: tuple[AnyExpectation, ...] = ()
    expected: Expected = field(default_factory=Expected)
    title: str = ""
    severity: Severity = "major"
    tags: tuple[str, ...] = ()
    split: str = ""
    scenario: dict[str, Any] = field(default_factory=dict)
    source: Source = field(default_factory=Source)

    def problems(self, tools: Sequence[str] | None = None) -> Iterator[Problem]:
        """What is wrong with its values; ``tools`` are those that expectations may name."""
        if self.item_id and not _ID.match(self.item_id):
            yield Problem("item_id", "must be 1 to 128 letters, digits, '.', '_', ':' or '-'")
        if self.split and not _NAME.match(self.split):
            yield Problem("split", "must be 1 to 64 letters, digits, '.', '_' or '-'")
        if len(self.tags) > TAGS_MAX:
            yield Problem("tags", f"must be at most {TAGS_MAX}")
        for number, tag in enumerate(self.tags):
            if not _TAG.match(tag):
                yield Problem(f"tags.{number}", f"{tag[:80]!r} is no tag: no spaces, at most 64")
        if not self.input and not self.messages:
            yield Problem("input", "is empty: there is nothing to ask an agent")
        named = {name for one in self.expect for name in one.tools_named()}
        known = sorted(named) if tools is None else tools
        yield from expectation_problems("expect", self.expect, known)


def wrong_dataset_name(name: str) -> str | None:
    """Why a text is no dataset's name; None where it is one."""
    if _NAME.match(name):
        return None
    said = f"{name[:80]!r} cannot be a dataset's name"
    return f"{said}: write 1 to 64 letters, digits, '.', '_' or '-', a letter or digit first"


def whole(item: Item) -> Item:
    """The item with every expectation named, tags in order, and what follows from what was given.

    A written item that says what is to be answered, and expects nothing, expects that answer.
    """
    expect = item.expect
    if not expect and item.source.kind == "written" and item.expected.output is not None:
        expect = msgspec.convert(
            [{"type": "outputEquals", "value": item.expected.output}], tuple[AnyExpectation, ...]
        )
    return structs.replace(item, expect=identified(expect), tags=tuple(sorted(set(item.tags))))


def plain_item(item: Item) -> dict[str, Any]:
    """The item as mappings, lists and scalars, defaults left out: a line of an export."""
    return dict(written(item))


def item_digest(item: Item) -> str:
    """Of all it says, its id apart. Raises NotCanonical."""
    said = {name: value for name, value in plain_item(item).items() if name != "item_id"}
    return digest(said, domain="agenttwin-dataset-item/1")


def question_digest(item: Item) -> str:
    """Of what is asked and expected. Raises NotCanonical."""
    said = plain_item(item)
    world = {name: value for name, value in item.scenario.items() if name != "now"}
    asked = [said.get("input"), said.get("messages"), said.get("expect"), world]
    return digest(asked, domain="agenttwin-dataset-question/1")
