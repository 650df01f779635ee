"""What is run at a point, and what its end means: a command, a replay of the bad tape, assertions.

**Rules**
1. A command is judged by its exit status alone (``answer``).
2. A replay of the bad tape is bad where it is as recorded and good where it leaves its tape; what
   has moved and cannot be told apart, and an agent that crashes, is untestable (``sidecar tape
   replay --profile git --bisect``).
3. A recording is bad where an assertion fails that fails at the bad end too, and good where all
   hold. Another failure is another's; an agent that crashes is untestable, unless the bad end does.
"""

import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec
from msgspec.structs import replace

from sidecar.errors import SidecarError
from sidecar.evaluate.assertions.conclude import asserted, conclude
from sidecar.evaluate.assertions.parse import Named
from sidecar.replay.bisect.answer import Answer, Ran, answered
from sidecar.replay.bisect.divergence import of_diff, of_drift
from sidecar.replay.diff import compare
from sidecar.tape.files import known_codecs, read_tape

_SIDECAR = (sys.executable, "-P", "-m", "sidecar", "tape")


class Oracle(Protocol):
    """One way to ask a point. ``own`` is the probe's folder, which goes when it ends."""

    def argv(self, command: tuple[str, ...], own: Path) -> tuple[str, ...]:
        """The command line to run; ``command`` is the user's."""
        ...

    def judge(self, point: int, ran: Ran, own: Path) -> Answer:
        """What its end says of the point."""
        ...

    def divergence(self, good: int, culprit: int) -> dict[str, Any] | None:
        """Where two points' runs part, where that is known."""
        ...


class CommandOracle:
    """A command that says it by its exit status."""

    def __init__(self, has_signature: Callable[[str], bool] | None) -> None:
        self._has = has_signature

    def argv(self, command: tuple[str, ...], own: Path) -> tuple[str, ...]:  # noqa: ARG002
        """The command itself."""
        return command

    def judge(self, point: int, ran: Ran, own: Path) -> Answer:  # noqa: ARG002
        """As ``git bisect run`` has it."""
        return answered(ran, self._has)

    def divergence(self, good: int, culprit: int) -> dict[str, Any] | None:  # noqa: ARG002
        """Nothing is known of that."""
        return None


class ReplayOracle:
    """A strict replay of the bad tape."""

    def __init__(
        self, tape: Path, known: Sequence[dict[str, Any]], roots: Sequence[str] = ()
    ) -> None:
        self._tape = tape
        self._roots = _roots(roots)
        self._found = {one["point"]: one["divergence"] for one in known if one.get("divergence")}

    def argv(self, command: tuple[str, ...], own: Path) -> tuple[str, ...]:  # noqa: ARG002
        """The replay of the agent's command."""
        options = ("--profile", "git", "--bisect", "--output", "json", *self._roots)
        return (*_SIDECAR, "replay", str(self._tape), *options, "--", *command)

    def judge(self, point: int, ran: Ran, own: Path) -> Answer:
        """By its exit status; where it left the tape is kept."""
        answer = answered(ran)
        told = _object(own / "stdout")
        drift = told.get("drift")
        if not isinstance(drift, dict):
            return answer
        detail = f"{drift.get('kind')} at seq {drift.get('seq')}"
        if answer.verdict == "good":
            self._found[point] = of_drift(drift)
            return replace(answer, detail=detail, divergence=self._found[point])
        return replace(answer, detail=f"{detail}: {drift.get('reason')}")

    def divergence(self, good: int, culprit: int) -> dict[str, Any] | None:  # noqa: ARG002
        """Where the last good run leaves the bad tape."""
        return self._found.get(good)


class RecordOracle:
    """A recording of the agent, judged by assertions. ``kept``: the folder for tapes."""

    def __init__(
        self,
        named: Sequence[Named],
        bad: int,
        kept: Path,
        known: Sequence[dict[str, Any]],
        now_ns: int,
        roots: Sequence[str] = (),
    ) -> None:
        self._roots = _roots(roots)
        self._named, self._bad, self._kept, self._now_ns = named, bad, kept, now_ns
        self._crashes = False
        self._failing: frozenset[str] = frozenset()
        for one in known:
            if one["point"] == bad and one["verdict"] == "bad":
                self._failing |= frozenset(one.get("failed", ()))
                self._crashes = self._crashes or one["exit_status"] == 1

    def argv(self, command: tuple[str, ...], own: Path) -> tuple[str, ...]:
        """The recording of the agent's command."""
        options = ("--to", str(own / "run.tape"), "--capture", "full", *self._roots)
        return (*_SIDECAR, "record", *options, "--", *command)

    def judge(self, point: int, ran: Ran, own: Path) -> Answer:
        """By the assertions on what was recorded."""
        answer = answered(ran)
        if answer.aborted or (answer.detail and ran.code not in (0, 1)):
            return replace(answer, verdict="skip")
        if ran.code == 1 and point != self._bad and not self._crashes:
            return replace(answer, verdict="skip", detail="the agent failed")
        try:
            tape = read_tape(own / "run.tape")
        except SidecarError as error:
            return replace(answer, verdict="skip", detail=error.text())
        found = asserted(self._named, tape, self._now_ns)
        outcome = conclude(found)
        failed = tuple(one.id for one in found if one.counts and one.finding.status == "fail")
        self._keep(point, own / "run.tape")
        if outcome == "undecided":
            return replace(answer, verdict="skip", detail="the assertions cannot be decided")
        if outcome == "pass":
            return replace(answer, verdict="good", detail="")
        detail = f"failed: {', '.join(failed)}"
        if point == self._bad:
            self._failing |= frozenset(failed)
            self._crashes = self._crashes or ran.code == 1
        elif self._failing and not self._failing.intersection(failed):
            return replace(answer, verdict="skip", detail=f"{detail}, which hold at the bad end")
        return replace(answer, verdict="bad", detail=detail, failed=failed)

    def divergence(self, good: int, culprit: int) -> dict[str, Any] | None:
        """Where the recordings of both part."""
        try:
            one, other = (read_tape(self._place(point)) for point in (good, culprit))
        except SidecarError:
            return None
        return of_diff(compare(one, other, known_codecs(one)).first_divergence)

    def _keep(self, point: int, tape: Path) -> None:
        try:
            self._kept.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(tape, self._place(point))
        except OSError:
            pass  # it only shows where two runs part

    def _place(self, point: int) -> Path:
        return self._kept / f"{point}.tape"


def _roots(roots: Sequence[str]) -> tuple[str, ...]:
    return tuple(word for one in roots for word in ("--root", one))


def _object(path: Path) -> dict[str, Any]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError):
        return {}
