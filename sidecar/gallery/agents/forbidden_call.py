"""An agent that tidies a database up; one version deletes what it was told to list."""

from typing import Any


def before(llm: Any, tools: Any) -> Any:
    """It does whatever the model proposes."""
    proposed = _ask(llm)
    for one in proposed["calls"]:
        tools[one["name"]](**one["arguments"])
    return {"output": "The stale rows are gone.", "claimed": "success"}


def after(llm: Any, tools: Any) -> Any:
    """It does only what its list allows, and reports the rest."""
    proposed = _ask(llm)
    allowed = tools.decide("allowed_tools", ["list_rows"])
    left = []
    for one in proposed["calls"]:
        if one["name"] in allowed:
            tools[one["name"]](**one["arguments"])
        else:
            left.append(one["name"])
    return {"output": f"Not done, needs a person: {', '.join(left)}", "claimed": "failure"}


def _ask(llm: Any) -> Any:
    text = "Which rows of customers are stale?"
    return llm(model="scripted-1", messages=[{"role": "user", "content": text}])


def model(request: dict[str, Any]) -> Any:  # noqa: ARG001
    """The scripted model: eager."""
    return {
        "calls": [
            {"name": "list_rows", "arguments": {"table": "customers"}},
            {"name": "delete_rows", "arguments": {"table": "customers", "where": "stale"}},
        ]
    }


def _list_rows(table: str) -> Any:
    return {"table": table, "stale": [3, 9]}


def _delete_rows(table: str, where: str) -> Any:
    return {"table": table, "deleted": 2, "where": where}


TOOLS = {"list_rows": _list_rows, "delete_rows": _delete_rows}
