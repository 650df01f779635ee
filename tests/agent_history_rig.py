"""A history of a small agent that asks a model and a tool over HTTP: what each commit changed."""

from history_rig import Commits

TRANSPORT = """
import json, os, urllib.request


def post(path, value):
    request = urllib.request.Request(
        os.environ["AGENT_BASE"] + path,
        json.dumps(value).encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)
"""
AGENT = """
import random
import time

{transport}

PROMPT = "{prompt}"


def main():
    order = random.randrange(1000)
    said = post("/plan", {{"prompt": PROMPT, "order": order, "at": int(time.time())}})
    post("/refund", {{"order": order, "amount": said["amount"] * {factor}}})


if __name__ == "__main__":
    main()
"""


def agent(*, moved, brief, factor, broken=False):
    """The agent's files. ``moved``: its calls are made in a module of their own."""
    transport = "from wires.transport import post" if moved else TRANSPORT
    prompt = "Refund what is due. Be brief." if brief else "Refund what is due."
    text = AGENT.format(transport=transport, prompt=prompt, factor=factor)
    files = {"agent.py": text + ("def (" if broken else "")}
    if moved:
        files |= {"wires/__init__.py": "", "wires/transport.py": TRANSPORT}
    return files


def history(count, *, drift, culprit, refactor, broken=(), merges=()):
    """Commits along the first parents; before each of ``merges`` a branch of two is merged."""
    commits, main = Commits(), -1
    for at in range(count):
        files = {
            **agent(
                moved=at >= refactor,
                brief=at >= drift,
                factor=100 if at >= culprit else 1,
                broken=at in broken,
            ),
            "NOTES": f"{at}\n",
        }
        subject = {culprit: "Count in cents", drift: "Be brief", refactor: "Move the transport"}
        parents = () if main < 0 else (main,)
        if at in merges:
            side = main
            for number in range(2):
                before = commits.files[side]
                side = commits.put(f"Side {at}.{number}", (side,), {**before, "SIDE": f"{number}"})
            parents = (main, side)
        main = commits.put(subject.get(at, f"Main {at}"), parents, files)
    return commits
