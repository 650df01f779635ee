"""A coding agent that does what just failed again; its policy says how often it may act."""

from typing import Any

SHELL = {"name": "shell", "arguments": {"command": "make test"}}
SEARCH = {"name": "search", "arguments": {"query": "No module named yaml"}}
# What the model wants next, turn by turn: it never takes no for an answer.
TURNS = ([SHELL, SHELL],) * 3 + ([SEARCH, SEARCH],) * 3


def before(llm: Any, tools: Any) -> Any:
    """It may act 99 times."""
    return _work(llm, tools, attempts_max=99)


def after(llm: Any, tools: Any) -> Any:
    """It may act twice, and says then that it is stuck."""
    return _work(llm, tools, attempts_max=2)


def _work(llm: Any, tools: Any, attempts_max: int) -> Any:
    task = tools.read_task()
    attempts_max = tools.decide("attempts_max", attempts_max)
    messages = [{"role": "user", "content": task["text"]}]
    attempts = 0
    while True:
        answer = llm(model="scripted-1", messages=list(messages))
        if not answer["calls"]:
            return {"output": "I could not make the tests pass.", "claimed": "failure"}
        for call in answer["calls"]:
            if attempts >= attempts_max:
                return {"output": "I am stuck: yaml is not installed.", "claimed": "failure"}
            attempts += 1
            result = tools[call["name"]](**call["arguments"])
            messages.append({"role": "tool", "name": call["name"], "content": result["text"]})


def model(request: dict[str, Any]) -> Any:
    """The scripted model: two calls a turn."""
    turn = (len(request["messages"]) - 1) // 2
    return {"calls": TURNS[turn] if turn < len(TURNS) else []}


def _read_task() -> Any:
    return {"text": "Make the tests pass."}


def _shell(command: str) -> Any:
    return {"text": f"{command}: ModuleNotFoundError: No module named 'yaml'", "status": 1}


def _search(query: str) -> Any:
    return {"text": f"no results for {query}"}


TOOLS = {"read_task": _read_task, "shell": _shell, "search": _search}
