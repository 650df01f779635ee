"""An agent whose answer other programs read; one version answers in prose."""

from typing import Any


def before(llm: Any, tools: Any) -> Any:
    """It hands on what the model said."""
    answer = _ask(llm, tools)
    return {"output": answer["text"], "claimed": "success"}


def after(llm: Any, tools: Any) -> Any:
    """It answers what was measured, in the form that was agreed."""
    answer = _ask(llm, tools)
    return {
        "output": {"city": answer["city"], "degrees_celsius": answer["degrees_celsius"]},
        "claimed": "success",
    }


def _ask(llm: Any, tools: Any) -> Any:
    measured = tools.weather(city="Delft")
    text = f"Weather in Delft: {measured['degrees_celsius']}"
    answer = llm(model="scripted-1", messages=[{"role": "user", "content": text}])
    return {**measured, **answer}


def model(request: dict[str, Any]) -> Any:
    """The scripted model: chatty."""
    return {"text": f"Sure! {request['messages'][-1]['content']} degrees, enjoy your day."}


def _weather(city: str) -> Any:
    return {"city": city, "degrees_celsius": 17}


TOOLS = {"weather": _weather}
