"""The TypeScript SDK with what npm has: its types are checked, and real clients are recorded."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from model_rig import ModelServer, chat, chat_stream, message_stream, overloaded, response
from node_rig import TYPESCRIPT, node

from sidecar.sdk import claims
from sidecar.tape.files import read_tape

pytestmark = [pytest.mark.full, pytest.mark.requirement("SDK-01")]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"), "agenttwin-sidecar")
INSTALLED = CACHE / "typescript" / "node_modules"
SDK = Path(claims.__file__).with_name("typescript")


@pytest.fixture
def folder(tmp_path):
    """A folder with the package as ``sdk`` and what is installed for it."""
    if not INSTALLED.is_dir():
        pytest.skip("needs what `make typescript` installs (with npm), which is absent")
    shutil.copytree(SDK, tmp_path / "sdk", ignore=shutil.ignore_patterns("node_modules", "types"))
    (tmp_path / "node_modules").symlink_to(INSTALLED)
    return tmp_path


def tsc(folder, *words):
    command = [node(), str(INSTALLED / "typescript" / "bin" / "tsc"), *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout


def test_types_hold_inside_and_for_who_uses_them(folder):
    tsc(folder, "-p", "sdk")
    shipped = folder / "agent" / "node_modules" / "agenttwin-sidecar"
    made = ("--noEmit", "false", "--declaration", "--emitDeclarationOnly")
    tsc(folder, "-p", "sdk", *made, "--outDir", str(shipped / "types"))
    shutil.copy(SDK / "package.json", shipped)
    shutil.copy(TYPESCRIPT / "consumer.ts", folder / "agent")
    strict = ("--strict", "--noEmit", "--module", "nodenext", "--types", "node")
    tsc(folder / "agent", *strict, "--target", "es2022", "consumer.ts")


def test_real_clients_are_recorded_though_they_were_made_before(folder):
    shutil.copy(TYPESCRIPT / "clients.mjs", folder)
    path = folder / "clients.tape"
    with ModelServer() as server:
        server.say(
            chat("hi"), chat_stream("Hel", "lo"), response("x"), response("y"),
            message_stream("ok"), overloaded(),
        )  # fmt: skip
        command = [node(), "clients.mjs", str(path), server.url]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
    tape = read_tape(path)
    assert tape.examination.holds
    models = [event for event in tape.events if event.kind == "llm_call"]
    assert sorted(event.name for event in models) == list("abcdef")
    notes = [e for e in tape.events if e.kind == "tool_call"]
    said = [tape.payload(event, "in")["text"] for event in notes]
    assert said == ["hi", "both", "ok", "RateLimitError"]
    both = {tape.events[seq].name for seq in notes[1].cause}
    assert both == {"c", "d"}
    assert "4eC39HqLyj" not in path.read_text()
