"""``sidecar scenario calibrate``: how the configured judge agrees with people.

Rules
1. Exit 0 when it may decide every criterion, 1 when not, 2 when it gave no answer to some label.
2. The document is written only when every label was answered: half a calibration backs nothing.
"""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec import Struct

from sidecar import clock
from sidecar.app.judging import open_judge
from sidecar.app.loading import load_config
from sidecar.cli.options import common, emit, profiled, talk
from sidecar.config import Loaded
from sidecar.errors import SidecarError
from sidecar.evaluate.judging.calibration import Agreement, Calibration, agreement, criterion_id
from sidecar.evaluate.judging.files import write_calibration
from sidecar.evaluate.opinion import Answer, Block, Question
from sidecar.expression.document import convert, read
from sidecar.outcome import Exits, Outcome
from sidecar.plain import plain


class Label(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a person said of material; ``material`` maps a block's name (user, answer) to text."""

    label: Literal["pass", "fail"]
    material: dict[str, str]


class Labelled(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A criterion, as a scenario writes it, and its labels."""

    criterion: str
    labels: tuple[Label, ...]
    rubric: str = ""
    mentions: tuple[str, ...] = ()
    avoids: tuple[str, ...] = ()
    samples: int = 1


class Labels(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file of labels."""

    criteria: tuple[Labelled, ...]


class Unanswered(Struct, frozen=True, kw_only=True):
    """A label that the judge gave no answer to."""

    criterion: str
    label: int
    why: str


@click.command("calibrate")
@click.argument("labels", type=click.Path(path_type=Path))
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    default=None,
    help="Where to write the document [default: key judge.calibration].",
)
@profiled()
@common()
def calibrate(
    labels: Path,
    to: Path | None,
    exits: Exits,
    config: str | None,
    store: str | None,
    output: str,
) -> int:
    """Ask the configured judge what people have labelled, and write how they agree.

    \b
    Example:
      $ sidecar scenario calibrate labels.yaml --to calibration.json
      may decide   The answer is polite. (n 120, agreement 0.93, kappa 0.85 [0.76, 0.94])
    """
    loaded = load_config(config, store)
    path = to or _configured(loaded)
    given = _labels(labels)
    name, agreements, unanswered = asyncio.run(_asked(loaded, given))
    end = Outcome.OK if all(one.decides for one in agreements) else Outcome.FAILED
    if unanswered:
        end = Outcome.UNDECIDED
    else:
        write_calibration(path, _document(name, agreements))
        talk(f"written to {path}")
    value = {
        **exits.told(end),
        "judge": name,
        "criteria": [
            {**msgspec.to_builtins(one), "decides": one.decides, "lacking": one.lacking()}
            for one in agreements
        ],
        "unanswered": msgspec.to_builtins(unanswered),
    }
    emit(value, output, lambda: "\n".join(_lines(agreements, unanswered)))
    return exits.code(end)


def _configured(loaded: Loaded) -> Path:
    named = loaded.config.judge.calibration
    if not named:
        raise SidecarError(
            "nothing says where to write the calibration",
            where="--to",
            do="Name a file, or set judge.calibration in the configuration.",
        )
    return loaded.path(named)


def _labels(path: Path) -> Labels:
    try:
        text = path.read_text("utf-8")
    except OSError as error:
        raise SidecarError(
            f"the labels cannot be read: {error.strerror}", where=str(path)
        ) from None
    except UnicodeDecodeError:
        raise SidecarError("the labels are no UTF-8", where=str(path)) from None
    found = convert(read(text, name=str(path)), Labels)
    if not found.criteria or not all(one.labels for one in found.criteria):
        raise SidecarError("a criterion without labels cannot be calibrated", where=str(path))
    return found


async def _asked(loaded: Loaded, given: Labels) -> tuple[str, list[Agreement], list[Unanswered]]:
    agreements, unanswered = [], []
    # What is being calibrated is not asked what backs it.
    judge_only = msgspec.structs.replace(
        loaded.config, judge=msgspec.structs.replace(loaded.config.judge, calibration="")
    )
    async with open_judge(msgspec.structs.replace(loaded, config=judge_only)) as judge:
        for one in given.criteria:
            pairs: list[tuple[Answer, Answer]] = []
            for number, label in enumerate(one.labels):
                opinion = await judge.opinion(_question(one, label, number))
                if opinion.answer is None:
                    why = opinion.detail or opinion.state
                    unanswered.append(
                        Unanswered(criterion=one.criterion, label=number + 1, why=why)
                    )
                else:
                    pairs.append((label.label, opinion.answer))
            if pairs:
                agreements.append(agreement(one.criterion, one.rubric, pairs))
        return judge.name, agreements, unanswered


def _question(one: Labelled, label: Label, number: int) -> Question:
    return Question(
        id=str(number),
        criterion=one.criterion,
        rubric=one.rubric,
        mentions=one.mentions,
        avoids=one.avoids,
        material=tuple(Block(name=name, text=text) for name, text in label.material.items()),
        samples=one.samples,
    )


def _document(name: str, agreements: Sequence[Agreement]) -> Calibration:
    return Calibration(
        judge=name,
        criteria={criterion_id(one.criterion, one.rubric): one for one in agreements},
        at_ns=clock.now_ns(),
    )


def _lines(agreements: Sequence[Agreement], unanswered: Sequence[Unanswered]) -> Iterator[str]:
    for one in agreements:
        word = "may decide" if one.decides else "may warn"
        kappa = "undefined" if one.kappa is None else f"{one.kappa:.2f}"
        interval = "" if one.low is None else f" [{one.low:.2f}, {one.high:.2f}]"
        yield plain(
            f"{word:<12} {one.criterion} "
            f"(n {one.n}, agreement {one.agreement:.2f}, kappa {kappa}{interval})"
        )
        for text in one.lacking():
            yield f"  {text}"
    for each in unanswered:
        yield plain(f"no answer    {each.criterion} label {each.label}: {each.why}")
