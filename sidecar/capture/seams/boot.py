"""The start and the end of a process that records or replays, unknown to the agent in it.

**Rules**
1. The order and the folder that brought us here are taken out of the environment, so that the
   agent and what it starts see their own.
2. The tape is the first process's that runs a file of the agent's own, or crosses a seam from one:
   a launcher (``poetry run``) leaves it to its child.
3. The end is the interpreter's: after the agent's threads and exit handlers. A process that is
   killed leaves a partial tape; a replay that drifted is given ``GRACE_SECONDS`` to unwind.
"""

import atexit
import os
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from sidecar.capture.modes import PlanPlayer, player_of
from sidecar.capture.modes import Told as Done
from sidecar.capture.order import (
    BEGUN,
    VARIABLE,
    Order,
    Replayed,
    Told,
    drift_told,
    outcome_of,
    read_order,
)
from sidecar.capture.play import Drift, Drifted, StrictPlayer, incomparable
from sidecar.capture.process import child_environment, circumstances
from sidecar.capture.record import (
    Circumstances,
    header_again,
    header_of,
    redactor_for,
    redactor_of,
)
from sidecar.capture.seams.guard import guard, watch
from sidecar.capture.seams.install import install_all
from sidecar.capture.seams.session import Session
from sidecar.capture.seams.sites import Sites
from sidecar.errors import SidecarError
from sidecar.tape.codec import DEFAULT, Codecs
from sidecar.tape.files import TapeWriter, read_tape
from sidecar.tape.model import Seal, Status
from sidecar.tape.tape import Tape

GRACE_SECONDS: Final = 5.0
UNCONSUMED_MAX: Final = 100


def boot(text: str) -> None:
    """Begin what an order says. Exits 3 where it cannot be."""
    try:
        order = read_order(text)
    except ValueError:
        _quit("an order that is none")
    os.environ.pop(VARIABLE, None)
    _restore_path(order)
    _Run(order).begin()


class _Run:
    """One process's recording or replay, from its start to its end."""

    def __init__(self, order: Order) -> None:
        self._order = order
        self._status: Status = "ok"
        self._reason: str | None = None
        self._raised = False  # an exception ended it, and none that only says how to leave
        self._process = os.getpid()
        roots, own = _roots(order)
        self._own = own
        self.session = Session(Sites(roots), agent=order.agent, opens=self._open)

    def begin(self) -> None:
        """Install everything; take the tape at once where the script is the agent's own."""
        session = self.session
        session.begin()
        if self._order.mode == "replay":
            if self._order.plan.mode != "fork":
                guard(session, strict=self._order.plan.mode == "strict")
            session.on_drift = self._drifted
        else:
            watch(session)
        install_all(session)
        self._watch_end()
        if self._own:
            try:
                session.open()
            except Drifted:  # and told: the agent has not begun, and does not
                os._exit(2)
        else:
            # A launcher hands the order on to what it starts.
            os.environ.update(child_environment(self._order, os.environ))

    def _watch_end(self) -> None:
        atexit.register(self._end)
        hook, leave = sys.excepthook, sys.exit

        def excepthook(kind: Any, error: BaseException, trace: Any) -> None:
            if isinstance(error, Drifted):
                return
            self._status, self._reason, self._raised = "error", kind.__name__, True
            hook(kind, error, trace)

        def exit_(status: Any = None) -> None:
            self._left(status)
            leave(status)

        sys.excepthook, sys.exit = excepthook, exit_  # type: ignore[assignment]
        thread_hook = threading.excepthook

        def thread_excepthook(args: Any) -> None:
            if args.exc_type is not Drifted:
                thread_hook(args)

        threading.excepthook = thread_excepthook

    def _left(self, status: Any) -> None:
        code = 0 if status is None else status if isinstance(status, int) else 1
        self._status = "ok" if code == 0 else "error"
        self._reason = None if code == 0 else f"exit {code}"

    def _open(self, session: Session) -> bool:
        os.environ.pop(VARIABLE, None)
        _restore_path(self._order)
        with suppress(OSError):
            Path(f"{self._order.report}{BEGUN}").touch()
        try:
            return self._record(session) if self._order.mode == "record" else self._play(session)
        except SidecarError as error:
            return bool(_quit(error.text(), self._order))

    def _record(self, session: Session) -> bool:
        order = self._order
        session.writer = TapeWriter(
            Path(order.tape),
            header_of(self._circumstances(), order.capture),
            packaging=order.packaging,
            redactor=redactor_of(order.capture),
            content=order.capture != "off",
            durable=order.durable,
        )
        return True

    def _play(self, session: Session) -> bool:
        order = self._order
        tape = read_tape(Path(order.tape))
        redactor, codecs = redactor_for(tape.header.redactor), Codecs(DEFAULT)
        session.player = player_of(order.plan, tape, redactor, codecs)
        session.drift = incomparable(tape, redactor, codecs, order.plan)
        if session.drift is not None:
            self._tell_replayed()
            os._exit(2)
        if order.to is not None:
            session.writer = TapeWriter(
                Path(order.to),
                header_again(tape, order.plan, self._circumstances(), redactor),
                packaging=order.packaging,
                redactor=redactor,
            )
        return True

    def _circumstances(self) -> Circumstances:
        order = self._order
        return circumstances(
            argv=order.argv,
            git=order.git,
            agent=order.build,
            tenant=order.tenant,
            labels=order.labels,
            lasts_ns=order.lasts_ns,
        )

    def _drifted(self, drift: Drift) -> None:  # noqa: ARG002
        """The run left its tape: tell at once; where it does not end, it is ended."""
        self._tell_replayed()
        watchdog = threading.Timer(GRACE_SECONDS, os._exit, (2,))
        watchdog.daemon = True
        watchdog.start()

    def _end(self) -> None:
        session = self.session
        if os.getpid() != self._process:
            return  # forked: its end is not the agent's
        if not session.taken and not self._own:
            return  # a launcher: what it started has the tape
        session.open()
        drift = session.drift
        left = drift is not None
        due = None
        if drift is not None and self._order.mode == "replay":
            self._status, self._reason = "cancelled", drift.kind
        elif session.player is not None and self._is_seen and not self._raised:
            due = self._as_due(session.player.tape)
        session.end(self._status, {"reason": self._reason})
        if self._order.mode == "record":
            self._seal()
        else:
            crashed = not left and self._crashed()
            self._tell_replayed(crashed=crashed, sealed=self._sealed()[0] is not None, due=due)

    @property
    def _is_seen(self) -> bool:
        """Whether who asked sees how this process ends."""
        return self._order.asker != 0 and os.getppid() == self._order.asker

    def _as_due(self, tape: Tape) -> int | None:
        """The exit code of a tape whose run left by none or by SystemExit: who asked compares it,
        and until then this run ended so, too."""
        last = tape.events[-1]
        said = tape.payload(last, "out")
        reason = said.get("reason") if isinstance(said, dict) else None
        code = 0 if last.st == "ok" else _exit_code(reason)
        if code is None:
            return None
        if self._order.plan.mode != "strict":
            return None if code else 0
        self._status, self._reason = last.st, reason
        return code

    def _crashed(self) -> bool:
        """Whether the agent failed by itself where its tape does not."""
        player = self.session.player
        if self._status != "error" or player is None:
            return False
        mode = self._order.plan.mode
        otherwise = mode in ("tools", "fork", "shadow") and player.tape.events[-1].st != "error"
        return self.session.drift is not None or otherwise

    def _sealed(self) -> tuple[Seal | None, str | None]:
        """The seal of the tape that was written, if it is whole, or why it is not."""
        if self.session.writer is None:
            return None, None
        try:
            return self.session.writer.seal(), None
        except SidecarError as error:
            return None, error.text()

    def _seal(self) -> None:
        if self.session.writer is None:
            return
        seal, fault = self._sealed()
        told = Told(
            tape=self._order.tape,
            sealed=seal is not None,
            events=0 if seal is None else seal.events,
            dropped=0 if seal is None else seal.counters.dropped,
            truncated=0 if seal is None else seal.counters.truncated,
            leaks=0 if seal is None or seal.leaks is None else seal.leaks.found,
            unseen=self.session.unseen,
            fault=fault,
            broken=self.session.broken,
            ended=self._status if self._is_seen else None,
        )
        _tell(self._order, told)

    def _tell_replayed(
        self, *, crashed: bool = False, sealed: bool = False, due: int | None = None
    ) -> None:
        session = self.session
        player = session.player
        tape = session.player.tape if session.player is not None else None
        if tape is None:
            return
        tally = session.tally
        strict = player if isinstance(player, StrictPlayer) else None
        left = [] if strict is None else [event.seq for event in strict.cursor.left]
        told = Replayed(
            mode=self._order.plan.mode,
            tape=self._order.tape,
            outcome=outcome_of(session.drift),
            events=0 if tally is None else tally.events,
            recorded_events=len(tape.events),
            exact_digest=None if tally is None or session.writer is not None else tally.digest(),
            recorded_digest=None if tape.seal is None else tape.seal.exact_digest,
            refused=session.refused,
            noise=0 if strict is None else strict.comparison.noise,
            unconsumed=tuple(left[:UNCONSUMED_MAX]),
            unconsumed_n=len(left),
            reordered=0 if session.turns is None else session.turns.reordered,
            drift=drift_told(session.drift, session.asked_from),
            broken=session.broken,
            crashed=crashed,
            sealed=sealed,
            exit_due=due,
            done=player.told if isinstance(player, PlanPlayer) else Done(),
        )
        _tell(self._order, told)


def _roots(order: Order) -> tuple[list[Path], bool]:
    """The agent's folders, and whether this process runs a file of its own in them."""
    script = _script()
    if order.roots:
        roots = [Path(one) for one in order.roots]
    else:
        roots = [Path.cwd()]
        if script is not None and not _below(script, roots[0]) and not _installed(script):
            roots = [script.parent]
    own = script is not None and not _installed(script)
    return roots, own and any(_below(script, root) for root in roots if script)


def _script() -> Path | None:
    """The file this interpreter was started with, as far as its command line says."""
    words = sys.orig_argv[1:]
    takes_value = {"-W", "-X", "--check-hash-based-pycs"}
    while words:
        word = words.pop(0)
        if word in takes_value:
            words = words[1:]
        elif word == "-m" and words:
            return _module(words[0])
        elif word == "-c" or word == "-":
            return None
        elif not word.startswith("-"):
            return Path(word).resolve()
    return None


def _module(name: str) -> Path | None:
    """The file of a module below the working directory."""
    base = Path.cwd().joinpath(*name.split("."))
    for place in (base.with_name(base.name + ".py"), base / "__main__.py"):
        if place.is_file():
            return place.resolve()
    return None


def _below(place: Path, root: Path) -> bool:
    return place.is_relative_to(root.resolve())


def _installed(place: Path) -> bool:
    parts = {"site-packages", "dist-packages"}.intersection(place.parts)
    return bool(parts) or place.parent == Path(sys.executable).parent


def _exit_code(reason: Any) -> int | None:
    """The exit code of a reason that is one: ``exit 2``."""
    word, _, number = str(reason).partition(" ")
    return int(number) & 0xFF if word == "exit" and number.lstrip("-").isdigit() else None


def _restore_path(order: Order) -> None:
    if order.python is None:
        os.environ.pop("PYTHONPATH", None)
    else:
        os.environ["PYTHONPATH"] = order.python


def _tell(order: Order, told: Any) -> None:
    place = Path(order.report)
    waiting = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        waiting.write_bytes(msgspec.json.encode(told))
        waiting.replace(place)
    except OSError:
        pass  # who asked finds no report, and says that there is none


def _quit(text: str, order: Order | None = None) -> Any:
    """End here: the recorder cannot do what it was told to; the agent does not run unseen."""
    if order is not None:
        _tell(order, {"fault": text})
        os._exit(3)
    print(f"sidecar: {text}", file=sys.stderr, flush=True)
    os._exit(3)
