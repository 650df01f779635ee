"""An agent that asks whether a parcel has arrived; one version does not notice that it has."""

from typing import Any


def before(llm: Any, tools: Any) -> Any:
    """It asks three times, though the first answer says it all."""
    for turn in range(3):
        state = tools.track(parcel="P-7")
        if turn < 2:
            llm(model="scripted-1", messages=[{"role": "user", "content": state["text"]}])
    return {"output": state["text"], "claimed": "success"}


def after(llm: Any, tools: Any) -> Any:
    """It stops when the parcel is there."""
    while True:
        state = tools.track(parcel="P-7")
        if state["delivered"]:
            return {"output": state["text"], "claimed": "success"}
        llm(model="scripted-1", messages=[{"role": "user", "content": state["text"]}])


def model(request: dict[str, Any]) -> Any:
    """The scripted model: it would rather look again."""
    return {"text": f"Let me look again: {request['messages'][-1]['content']}"}


def _track(parcel: str) -> Any:
    return {"delivered": True, "text": f"{parcel} was delivered at 09:12."}


TOOLS = {"track": _track}
