"""The closed loop: the acts in their order, told as they happen, and the record that stays.

Rules
1. An act that fails does not stop the next: what held and what did not is all shown.
2. The exit code is 0 only when no check failed; ``demo.json`` is written in either case.
"""

import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.demo import act_approval, act_captured, act_gate, act_proof, act_refund, prompts
from sidecar.demo.check import Act, Check, Ids
from sidecar.demo.processes import Family
from sidecar.demo.stage import Options, Stage, set_up
from sidecar.demo.telling import Telling
from sidecar.errors import ExitCode, SidecarError
from sidecar.twins.files import load_suite

RECORD = "demo.json"
FAULTY = "1.3.0"
FIXED = "1.3.1"
Hold = Callable[[Stage], None]


class Scene(Struct, frozen=True, kw_only=True):
    """An act to come."""

    title: str
    play: Callable[[Stage], Act]


def scenes(options: Options) -> Iterator[Scene]:
    """What these options show, in order."""
    candidate = options.candidate or FAULTY
    yield Scene(title="A refund that is due: done, claimed, verified", play=act_refund.verified)
    yield Scene(title="A large refund: a person decides", play=act_approval.play)
    yield Scene(title="A timeout after the effect: retried, refunded once", play=act_refund.timeout)
    yield Scene(
        title=f"A tool that lies: what agent {candidate} makes of it",
        play=partial(act_refund.contradicted, version=candidate),
    )
    for version in [options.candidate] if options.candidate else [FAULTY, FIXED]:
        yield Scene(
            title=f"The gate: may {version} replace {prompts.BASELINE}?",
            play=partial(act_gate.play, candidate=version),
        )
    last = "none, capture is off" if options.capture == "off" else "customers judge a version"
    yield Scene(
        title=f"Captured traffic: {last}", play=partial(act_captured.play, candidate=candidate)
    )


def run(options: Options, telling: Telling, *, record: Path, hold: Hold) -> ExitCode:
    """Show everything, write ``record``; with ``options.keep``, ``hold`` decides how long it
    stays.
    """
    telling.opening(_opening(options))
    with Family() as family:
        stage = set_up(options, family)
        acts = [_played(telling, stage, scene) for scene in scenes(options)]
        ids = _joined(acts)
        proof = Scene(title="Where the evidence lies", play=partial(act_proof.play, ids=ids))
        acts.append(_played(telling, stage, proof))
        _write(record, stage, acts, ids)
        failed = [(act, check) for act in acts for check in act.checks if check.held is False]
        telling.closing(_closing(stage, failed, record), good=not failed)
        if options.keep:
            hold(stage)
    return ExitCode.FAILED if failed else ExitCode.GOOD


def _played(telling: Telling, stage: Stage, scene: Scene) -> Act:
    telling.begin(scene.title)
    try:
        act = scene.play(stage)
    except SidecarError as error:
        check = Check(name="the act could be played", held=False, detail=error.text())
        act = Act(name="failed", story=(), checks=(check,))
    telling.act(act)
    return act


def _joined(acts: list[Act]) -> Ids:
    def gather(kind: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one for act in acts for one in getattr(act.ids, kind)))

    return Ids(**{kind: gather(kind) for kind in Ids.__struct_fields__})


def _write(record: Path, stage: Stage, acts: list[Act], ids: Ids) -> None:
    options = stage.options
    value: dict[str, Any] = {
        "store": f"sqlite:///{options.folder.resolve()}",
        "config": str(stage.config_file.resolve()),
        "capture": options.capture,
        "candidate": options.candidate or None,
        "policy": str(options.policy) if options.policy else None,
        **msgspec.to_builtins(ids),
        "acts": [{**msgspec.to_builtins(act), "held": act.held} for act in acts],
        "held": all(act.held for act in acts),
    }
    try:
        record.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    except OSError as error:
        raise SidecarError(
            f"the demo's record cannot be written: {error.strerror}",
            where=str(record.resolve()),
            do="Run the demo in a folder you may write to.",
        ) from None


def _opening(options: Options) -> Iterator[str]:
    yield "AgentTwin Sidecar, the closed loop. A support-refund agent, its tools behind a gateway,"
    yield "its telemetry through a pipeline, its next version before a gate. All of it is real and"
    yield "on this machine; only the language model is a script, which obeys the agent's prompt."
    kept = {
        "off": "Capture is off: texts are used in memory for the verdict and never kept.",
        "redacted": "Capture is redacted: texts are kept without personal data and secrets.",
        "full": "Capture is full: texts are kept, and traffic can be replayed (try --capture off).",
    }
    yield kept[options.capture]
    if options.policy:
        yield f"Policy: {options.policy}, instead of the one that ships."


def _dataset(stage: Stage) -> Iterator[str]:
    path = stage.files / "regression.yaml"
    yield f"The regression dataset of {len(load_suite(path).suite.scenarios)} scenarios: {path}"
    if stage.options.keep:
        words = ["sidecar", "replay", str(path)]
        words += ["--baseline", act_gate.reference(stage, prompts.BASELINE)]
        words += ["--candidate", act_gate.reference(stage, stage.options.candidate or FAULTY)]
        yield "While everything runs, in another terminal:"
        yield f"  {shlex.join(words)}"
    else:
        yield "(with --keep the demo says how to replay it)."


def _closing(stage: Stage, failed: list[tuple[Act, Check]], record: Path) -> Iterator[str]:
    files = stage.files
    yield f"Data folder {stage.options.folder}, configuration {files / 'sidecar.yaml'},"
    yield f"record {record}."
    yield from _dataset(stage)
    if not failed:
        yield "Everything shown held."
        return
    yield f"{len(failed)} check(s) did NOT hold:"
    for act, check in failed:
        yield f"- {act.name}: {check.name} ({check.detail})"
    yield f"Logs of all processes: {files}"
