"""Every ``sidecar …`` that a page tells to type is one that the program takes."""

import re
from pathlib import Path

import click
import pytest

from sidecar.cli.root import root

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"))
    if path.name not in ("commands.md", "changelog.md")  # the first is made of the program itself
)
_FENCED = re.compile(r"^```[^\n]*\n(.*?)^```", re.M | re.S)
_COMMAND = re.compile(r"(?:^|[\s'\"(`])sidecar ((?:[a-z]+)(?: .*)?)$")
_END = re.compile(r"\s#|['\")](?:\s|$)|[|;&]")


def told(page):
    """The words after ``sidecar`` of every command on a page, in blocks and between backticks."""
    text = page.read_text().replace("\\\n", " ")
    lines = [line for block in _FENCED.findall(text) for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", _FENCED.sub("", text))
    for line in lines:
        if (found := _COMMAND.search(line)) is not None:
            yield _END.split(found[1])[0].split()


def command_of(words):
    """The command that the words name, and the words that are left; None where there is none."""
    command, context = root, click.Context(root)
    while isinstance(command, click.Group) and words:
        found = command.get_command(context, words[0])
        if found is None:
            return (command, words) if command is not root else (None, words)
        command, words = found, words[1:]
    return command, words


def wrong(words):
    """What of the words no command takes."""
    command, rest = command_of(words)
    if command is None:
        return [words[0]]
    options = {name: each for each in command.params for name in each.opts} | {"--help": None}
    found = []
    rest = rest[: rest.index("--")] if "--" in rest else rest  # behind it is another program's
    for place, word in enumerate(rest):
        name = word.split("=")[0].rstrip(".,:")
        if name == "--":  # what follows is another program's
            break
        if not name.startswith("--"):
            continue
        if name not in options:
            found.append(name)
            continue
        kind = getattr(options[name], "type", None)
        value = rest[place + 1] if place + 1 < len(rest) else ""
        if isinstance(kind, click.Choice) and value.islower() and "|" not in value:
            found += [f"{name} {value}"] if value not in kind.choices else []
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_tells_to_type_is_taken(page):
    prose = {"concludes"}  # the demo's own words: "The sidecar concludes contradicted"
    bad = [(words, wrong(words)) for words in told(page) if words[0] not in prose]
    assert [each for each in bad if each[1]] == []


def test_commands_are_found_in_blocks_and_in_prose():
    assert sum(len(list(told(page))) for page in PAGES) > 60
    assert wrong(["approvals", "list", "--key", "K"]) == ["--key"]
    assert wrong(["key", "create", "--kind", "boss"]) == ["--kind boss"]
    assert wrong(["nothing"]) == ["nothing"] and wrong(["audit", "verify"]) == []
