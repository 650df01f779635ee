"""Datasets from code, and runs judged by expectations: what the commands do, as records.

::

    refunds = datasets.Dataset.create("refunds")
    refunds.add({"input": "Where is A-1?", "expected": "It is open."}, tags=("open",))
    refunds.add(query="outcome=contradicted,since=7d", twins=("twin.yaml",))
    refunds.export("suite.yaml", twins=("twin.yaml",))

    run = datasets.evaluate(datasets.trace("8dbc…"), {"type": "toolCalled", "tool": "get_order"})
    run.must_hold()

**Rules**
1. It is the commands' own path: the same versions, the same digests, the same refusals.
2. A stored trace and a tape are judged by the code that judges an episode of a replay; what cannot
   be asked of one is a skip, and a skip is no pass.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Self

from msgspec import Struct

from processors.model.names import SideEffectClass
from processors.model.trace import AgentTrace
from processors.model.verdict import Score
from sidecar.app import datasets, opening
from sidecar.app.dataset_runs import Wanted, spelt_out
from sidecar.app.datasets import Added, LeftOut
from sidecar.app.loading import load_config
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.evaluate.datasets.item import Item, plain_item
from sidecar.evaluate.expectations import AnyExpectation, identified
from sidecar.evaluate.observed import Observed
from sidecar.evaluate.score import Conclusion, conclude, scores
from sidecar.expression.document import Document
from sidecar.expression.written import written
from sidecar.plain import plain
from sidecar.replay.dataset_items import read_expectations, receipted
from sidecar.replay.tape_trace import tape_trace
from sidecar.store.datasets import DatasetVersion
from sidecar.tape.tape import Tape
from sidecar.testing.files import StrPath, load, path_of, yaml_of
from sidecar.testing.tapes import Undecided
from sidecar.twins.files import load_twins

__all__ = [
    "Added",
    "Dataset",
    "Evaluated",
    "Item",
    "LeftOut",
    "Undecided",
    "evaluate",
    "trace",
]

Expected = AnyExpectation | Mapping[str, Any] | StrPath


class Dataset:
    """One dataset of a project; every call sees what is in the store then."""

    def __init__(self, name: str, project: str, loaded: Loaded) -> None:
        self.name = name
        self.project = project
        self._loaded = loaded

    @classmethod
    def create(
        cls,
        name: str,
        *,
        project: str | None = None,
        config: StrPath | None = None,
        store: str | None = None,
    ) -> Self:
        """Make an empty one. Raises SidecarError where there is one of that name."""
        loaded = _loaded(config, store)
        of = datasets.project_of(loaded, project)
        datasets.create(loaded, of, name)
        return cls(name, of, loaded)

    @classmethod
    def open(
        cls,
        name: str,
        *,
        project: str | None = None,
        config: StrPath | None = None,
        store: str | None = None,
    ) -> Self:
        """The one of that name. Raises SidecarError where there is none."""
        loaded = _loaded(config, store)
        of = datasets.project_of(loaded, project)
        datasets.versions(loaded, of, name)
        return cls(name, of, loaded)

    @property
    def versions(self) -> tuple[DatasetVersion, ...]:
        """All versions, oldest first."""
        return tuple(datasets.versions(self._loaded, self.project, self.name))

    def add(
        self,
        *lines: Mapping[str, Any] | Item,
        query: str = "",
        traces: Sequence[str] = (),
        tapes: Sequence[StrPath] = (),
        captures: Sequence[StrPath] = (),
        twins: Sequence[StrPath] = (),
        expect: Sequence[Expected] = (),
        tags: Sequence[str] = (),
        split: str = "",
        remove: Sequence[str] = (),
    ) -> Added:
        """Add items and runs as one new version, as ``sidecar dataset add`` does.

        ``lines`` are items, or mappings as an export's lines are; one with the ``item_id`` of an
        item that is there edits it. ``left_out`` of the result says which runs are no items, and
        why. Raises SidecarError for what cannot be read.
        """
        plain_lines = [plain_item(one) if isinstance(one, Item) else _mapping(one) for one in lines]
        wanted = Wanted(
            query=query,
            traces=tuple(traces),
            tapes=tuple(map(path_of, tapes)),
            captures=tuple(map(path_of, captures)),
            lines=tuple(
                (f"item {number}", spelt_out(line))
                for number, line in enumerate(plain_lines, start=1)
            ),
            twins=tuple(map(path_of, twins)),
            expect=_expectations(expect),
            tags=tuple(tags),
            split=split,
            removed=tuple(remove),
        )
        return datasets.add(self._loaded, self.project, self.name, wanted)

    def items(self, version: int | None = None) -> tuple[Item, ...]:
        """The items of a version, by default the newest, without those that were erased."""
        return datasets.exported(self._loaded, self.project, self.name, version).items

    def export(
        self,
        to: StrPath,
        *,
        version: int | None = None,
        twins: Sequence[StrPath] = (),
        agent: str = "",
    ) -> None:
        """Write lines of JSON to ``to``, or with ``twins`` a suite that is replayed.

        Raises SidecarError where the items are no suite on these twins.
        """
        found = datasets.exported(self._loaded, self.project, self.name, version)
        datasets.write_export(
            path_of(to), found.version, found.items, tuple(map(path_of, twins)), agent
        )

    def erase(self, *, traces: Sequence[str] = (), items: Sequence[str] = ()) -> int:
        """Erase what items say, in every dataset and version of the project; of how many."""
        return datasets.erase(self._loaded, self.project, traces=traces, items=items).erased


class Evaluated(Struct, frozen=True, kw_only=True):
    """What expectations came to on a run: ``conclusion`` passed, failed or incomplete."""

    name: str
    scores: tuple[Score, ...]
    conclusion: Conclusion

    def text(self) -> str:
        """What is no pass, for people."""
        lines = [f"{self.name}: {self.conclusion}"]
        for one in self.scores:
            if one.status != "pass":
                step = f" [{one.first_step}]" if one.first_step else ""
                word = "" if one.required else " (decides nothing)"
                lines.append(f"  {one.expectation} {one.status}{step}: {one.detail}{word}")
        return "\n".join(map(plain, lines))

    def must_hold(self) -> None:
        """Raises AssertionError where something does not hold, Undecided where nobody can say."""
        if self.conclusion == "failed":
            raise AssertionError(self.text())
        if self.conclusion == "incomplete":
            raise Undecided(self.text())


def trace(
    trace_id: str,
    *,
    project: str | None = None,
    revision: int | None = None,
    config: StrPath | None = None,
    store: str | None = None,
) -> AgentTrace:
    """A stored trace, as ``sidecar trace show`` shows it. Raises SidecarError."""
    loaded = _loaded(config, store)
    of = datasets.project_of(loaded, project)
    with opening.open_traces(loaded) as traces:
        found = traces.get_trace(trace_id.lower(), of, revision)
    if found is None:
        raise SidecarError(
            f"project {of} has no such trace",
            where=trace_id,
            do="List the ids with: sidecar trace list",
        )
    return found


def evaluate(
    run: AgentTrace | Tape | StrPath,
    *expected: Expected,
    twins: Sequence[StrPath] = (),
    tools: Mapping[str, SideEffectClass] | None = None,
) -> Evaluated:
    """Judge a stored trace or a tape (or a tape's file) by expectations (docs/specs/suite.md).

    ``expected``: records, mappings ``{"type": …}`` or YAML files of a list of them. The class of a
    tool is that of ``twins``, or of ``tools``, else what the run's receipts say. Raises
    SidecarError for expectations that cannot be read, and where there are none.
    """
    wanted = identified(_expectations(expected))
    if not wanted:
        raise SidecarError("nothing is expected", where="evaluate", do="Give an expectation.")
    if not isinstance(run, AgentTrace | Tape):
        run = load(run)
    told = tape_trace(run) if isinstance(run, Tape) else run
    known: Mapping[str, SideEffectClass]
    if twins:
        known = load_twins([path_of(one) for one in twins]).group.tools
    else:
        known = receipted(told) if tools is None else tools
    found = scores(wanted, Observed(trace=told, tools=dict(known)))
    return Evaluated(name=told.trace_id, scores=found, conclusion=conclude(found))


def _loaded(config: StrPath | None, store: str | None) -> Loaded:
    return load_config(None if config is None else str(config), store)


def _expectations(expected: Sequence[Expected]) -> tuple[AnyExpectation, ...]:
    some: list[Any] = []
    for one in expected:
        if isinstance(one, Struct):
            some.append(written(one))
        elif isinstance(one, Mapping):
            some.append(dict(one))
        else:
            read = yaml_of(one).value
            some += read if isinstance(read, list) else [read]
    return read_expectations(Document(name="expectations", value=some, lines={"": 1}))


def _mapping(line: Any) -> dict[str, Any]:
    if not isinstance(line, Mapping):
        raise SidecarError(
            f"a {type(line).__name__} is no item", do="Give a mapping with `input`, or an Item."
        )
    return dict(line)
