"""Histories made up for bisections, written by one ``git fast-import``; and bisections of them."""

import os
import subprocess
import sys

from sidecar.replay.bisect.process.preparing import prepare
from sidecar.replay.bisect.process.session import run_bisection
from sidecar.replay.bisect.wanted import Wanted

IDENTITY = "Somebody <somebody@example.test> {} +0000"


def git(folder, *arguments, **more):
    run = subprocess.run(
        ["git", "-C", folder, *arguments], capture_output=True, text=True, check=True, **more
    )
    return run.stdout.strip()


class Commits:
    """Commits by index: each has the files of its first parent, and its own."""

    def __init__(self):
        self.files, self.parents, self.subjects = [], [], []

    def add(self, subject, *parents, **files):
        """One more, on the one before unless parents are named; a file of None is removed."""
        if not parents and self.files:
            parents = (len(self.files) - 1,)
        before = dict(self.files[parents[0]]) if parents else {}
        before |= {name.replace("__", "."): data for name, data in files.items()}
        return self.put(subject, parents, before)

    def put(self, subject, parents, files):
        """One more with exactly these files."""
        self.files.append({name: data for name, data in files.items() if data is not None})
        self.parents.append(parents)
        self.subjects.append(subject)
        return len(self.files) - 1

    def write(self, folder):
        """A repository of them, checked out at the last; the ids in order."""
        folder.mkdir(parents=True, exist_ok=True)
        git(folder, "init", "-q", "-b", "main")
        stream = []
        for at, (files, parents) in enumerate(zip(self.files, self.parents, strict=True)):
            # Without this a root would stand on what the branch was at before.
            stream += [] if parents else ["reset refs/heads/main"]
            stream += ["commit refs/heads/main", f"mark :{at + 1}"]
            stream += [f"committer {IDENTITY.format(1_700_000_000 + at * 60)}"]
            stream += [_data(self.subjects[at])]
            stream += [f"from :{parents[0] + 1}"] if parents else []
            stream += [f"merge :{one + 1}" for one in parents[1:]]
            stream += ["deleteall"]
            for name, data in sorted(files.items()):
                stream += [f"M 100644 inline {_quoted(name)}", _data(data)]
        marks = folder / ".git" / "marks"
        text = "\n".join([*stream, "done", ""])
        git(folder, "fast-import", "--quiet", "--done", f"--export-marks={marks}", input=text)
        git(folder, "reset", "-q", "--hard", "main")
        told = dict(line.split() for line in marks.read_text().splitlines())
        return [told[f":{at + 1}"] for at in range(len(self.files))]


def line_of(count, culprit, *, broken=()):
    """A straight history in which one commit introduces the word ``bad``."""
    commits = Commits()
    for at in range(count):
        word = "bad" if at >= culprit else "good"
        commits.add(f"Commit {at}", word=word, number=str(at), broken="x" if at in broken else None)
    return commits


CHECK = ("/bin/sh", "-c", "test ! -e broken || exit 125; test $(cat word) = good")


def asked(repo, goods, bad, command=CHECK, **more):
    """The options of a bisection of commits."""
    more = {"monotone": 1, **more}
    return Wanted(command=command, repo=str(repo), goods=tuple(goods), bad=bad, **more)


def bisected(wanted, seen=None):
    """What a bisection comes to; ``seen`` gets every answer."""

    def tell(probe, answer):
        if answer is not None and seen is not None:
            seen.append((probe, answer))

    return run_bisection(wanted, prepare(wanted), tell)


def command_line(*arguments, **more):
    """``sidecar bisect`` as a process, started."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "sidecar", "bisect", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **more.pop("env", {})},
        **more,
    )


def worktrees(repo):
    """How many worktrees a repository knows of."""
    return git(repo, "worktree", "list", "--porcelain").count("worktree ")


def _data(text):
    return f"data {len(text.encode())}\n{text}"


def _quoted(name):
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
