"""The command line: exit codes, and what a user is told."""

import inspect
import os
import subprocess
import sys

import click
import pytest

from sidecar.cli.root import COMMANDS, root


def run(*arguments, cwd, env=None, stdin=None):
    return subprocess.run(
        [sys.executable, "-m", "sidecar", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        env=env,
        input=stdin,
        timeout=60,
    )


def test_help_lists_every_command(tmp_path):
    done = run("--help", cwd=tmp_path)
    assert done.returncode == 0
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_listed_command_loads_and_has_help(name, tmp_path):
    done = run(name, "--help", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Usage: sidecar" in done.stdout or "Usage:" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["key", "create", "--kind", "owner", "--project", "p"],
        ["key", "create"],
        ["trace", "show"],
        ["key", "list", "--output", "xml"],
    ],
)
def test_a_usage_error_exits_3_never_2(arguments, tmp_path):
    done = run(*arguments, cwd=tmp_path)
    assert done.returncode == 3
    assert done.stdout == ""
    assert "error" in done.stderr.lower()


def test_a_wrong_configuration_exits_3_and_names_file_and_line(tmp_path):
    (tmp_path / "sidecar.yaml").write_text("store:\n  uri: x\n")
    done = run("key", "list", cwd=tmp_path)
    assert done.returncode == 3
    assert "sidecar.yaml:2: store.uri is unknown" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_are_created_listed_and_revoked(tmp_path):
    made = run("key", "create", "--kind", "approver", "--project", "shop", cwd=tmp_path)
    assert made.returncode == 0
    text = made.stdout.strip()
    key_id = text.split("_")[2]
    listed = run("key", "list", cwd=tmp_path)
    assert key_id in listed.stdout and "active" in listed.stdout
    assert text.split("_", 3)[3] not in listed.stdout
    assert run("key", "revoke", key_id, cwd=tmp_path).returncode == 0
    assert "revoked" in run("key", "list", cwd=tmp_path).stdout
    missing = run("key", "revoke", "0" * 16, cwd=tmp_path)
    assert missing.returncode == 3 and "sidecar key list" in missing.stderr


def test_an_unwritable_store_is_named(tmp_path):
    (tmp_path / "file").write_text("not a folder")
    store = f"sqlite:///{tmp_path}/file/data"
    done = run("key", "list", "--store", store, cwd=tmp_path)
    assert done.returncode == 3
    assert "Traceback" not in done.stderr and "file/data" in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_a_result_that_cannot_be_written_is_not_our_fault_and_not_success(tmp_path):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "sidecar", "policy", "check"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )
    assert done.returncode == 3
    assert "cannot be written" in done.stderr and "internal fault" not in done.stderr


def test_every_command_shows_how_it_is_used():
    context = click.Context(root)
    waiting = [(name, root.get_command(context, name)) for name in COMMANDS]
    while waiting:
        name, command = waiting.pop()
        _, mark, example = inspect.cleandoc(command.help).partition("\b\nExample:\n")
        assert mark, name
        assert f"sidecar {name}" in example, name
        assert all(len(line) <= 96 for line in example.splitlines()), name
        if isinstance(command, click.Group):
            waiting += [(f"{name} {each}", one) for each, one in command.commands.items()]
