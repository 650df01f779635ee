"""tau-bench runs as tapes: its result files, and lines of the same shape.

**Rules**
1. A run is ``messages`` (or ``traj``) in OpenAI's chat form. Calls and results are paired by
   position: ids repeat inside a run.
2. What a model was asked is everything said before; a tool's result stays the text it was.
3. The benchmark's reward is what was verified; one that was never computed is none.
4. What a task wants (``actions``, ``outputs``) is a decision of the benchmark's, before anything is
   said; a run without a task has none.
"""

from collections.abc import Iterator
from typing import Any

import msgspec

from processors.model.names import Capture
from sidecar.canonical import NotCanonical, canonical
from sidecar.replay.import_tape import (
    Imported,
    Unimportable,
    content_id,
    file_name,
    lowered,
    parsed,
)
from sidecar.tape.compose import Fact
from sidecar.tape.model import Header, Status
from sidecar.tape.value import address

_AGENT = "agent"
_USER_ENDS = "###STOP###"
_HANDS_OVER = "transfer_to_human_agents"
BENCHMARK, TASK = "benchmark", "task"


def tau_runs(text: bytes, capture: Capture) -> Iterator[Imported]:
    """The runs of a result file (a JSON list) or of JSON lines. Raises Unimportable."""
    for place, run in enumerate(_values(text)):
        try:
            yield _run(run, capture)
        except (Unimportable, NotCanonical, TypeError, AttributeError, KeyError) as error:
            told = str(error) if isinstance(error, Unimportable) else "it is not of that shape"
            raise Unimportable(f"run {place}: {told}") from None


def _values(text: bytes) -> list[Any]:
    try:
        if text.lstrip()[:1] == b"[":
            found: list[Any] = msgspec.json.decode(text, type=list[Any])
            return found
        return [msgspec.json.decode(line) for line in text.splitlines() if line.strip()]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise Unimportable("it is no JSON") from None


def _run(run: Any, capture: Capture) -> Imported:
    if not isinstance(run, dict):
        raise Unimportable("it is no object")
    messages = run.get("messages", run.get("traj"))
    if not isinstance(messages, list) or not messages:
        raise Unimportable("it has no messages")
    task, trial = str(run.get("task_id", "")), str(run.get("trial", ""))
    task_facts = list(_asked(run.get("task")))
    facts = [*task_facts, *_facts(messages, len(task_facts))]
    facts.append(_terminal(run, messages))
    prompts = [
        address(canonical(one["content"])) for one in messages if one.get("role") == "system"
    ]
    header = Header(
        tape_id=content_id("tau", run),
        source="import:tau",
        fidelity=lowered("L2", (), capture),
        mapping="tau-bench/1",
        prompts=tuple(prompts),
        labels={"task": task, "trial": trial},
    )
    return Imported(name=file_name(f"tau-{task}-{trial}"), header=header, facts=facts)


def _asked(task: Any) -> Iterator[Fact]:
    """What the benchmark wants of the run: the actions that lead where the world should end, and
    what must be said.
    """
    if not isinstance(task, dict) or not isinstance(task.get("actions"), list):
        return
    actions = [
        {"tool": str(one["name"]), "arguments": one.get("kwargs") or {}} for one in task["actions"]
    ]
    said = [str(text) for text in task.get("outputs") or ()]
    wanted = {"actions": actions, "outputs": said}
    yield Fact(kind="decision", agent=BENCHMARK, name=TASK, output=wanted, status="ok")


def _facts(messages: list[Any], start: int) -> Iterator[Fact]:
    said: list[Any] = []
    waiting: list[tuple[int, str]] = []
    seq = start
    for message in messages:
        role = message.get("role")
        if role == "user":
            yield Fact(
                kind="human_input",
                seam="human",
                agent=_AGENT,
                name="user",
                output=message.get("content"),
                status="ok",
            )
            seq += 1
        elif role == "assistant":
            yield Fact(
                kind="llm_call",
                seam="provider",
                agent=_AGENT,
                name="model",
                input={"messages": list(said)},
                output=_answer(message),
                status="ok",
            )
            model, seq = seq, seq + 1
            waiting = []
            for call in message.get("tool_calls") or ():
                function = call["function"]
                yield Fact(
                    kind="tool_call",
                    seam="tool",
                    agent=_AGENT,
                    name=str(function["name"]),
                    input=parsed(function["arguments"]),
                    cause=(model,),
                )
                waiting.append((seq, str(function["name"])))
                seq += 1
        elif role == "tool":
            if not waiting:
                raise Unimportable("a tool's result without a call")
            cause, name = waiting.pop(0)
            yield _result(cause, name, message.get("content"))
            seq += 1
        elif role != "system":
            raise Unimportable("a message of a role that is not known")
        said.append(message)


def _answer(message: dict[str, Any]) -> dict[str, Any]:
    return {key: message[key] for key in ("content", "tool_calls") if message.get(key) is not None}


def _result(cause: int, name: str, content: Any) -> Fact:
    failed = isinstance(content, str) and content.startswith("Error")
    return Fact(
        kind="tool_result",
        seam="tool",
        agent=_AGENT,
        name=name,
        output=content,
        status="error" if failed else "ok",
        error=("ToolError", content) if failed else None,
        cause=(cause,),
    )


def _terminal(run: dict[str, Any], messages: list[Any]) -> Fact:
    answers = [one.get("content") for one in messages if one.get("role") == "assistant"]
    last = next((text for text in reversed(answers) if text), None)
    reward = run.get("reward")
    cut = _cut_off(messages[-1])
    if not isinstance(reward, int | float) or not run.get("reward_computed", True):
        verified, reason = "unverified", "the run was never scored"
    else:
        verified = "verified_success" if reward == 1 else "verified_failure"
        reason = "the benchmark's reward"
    output = {"output": last, "claimed": None, "verified": verified, "reason": reason}
    ended: Status = "cancelled" if cut else "ok"
    return Fact(kind="terminal", agent=_AGENT, output=output, status=ended)


def _cut_off(last: dict[str, Any]) -> bool:
    """Whether a run was stopped in the middle: its user had not said the end, and it was not
    handed over.
    """
    if last.get("role") == "user":
        return _USER_ENDS not in str(last.get("content") or "")
    return last.get("role") == "tool" and last.get("name") != _HANDS_OVER
