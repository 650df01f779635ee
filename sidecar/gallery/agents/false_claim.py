"""A warehouse agent that ships; one version oversells, and says that all went well."""

from typing import Any


def before(llm: Any, tools: Any) -> Any:
    """It ships what is asked for without a look at the stock."""
    wanted = _ask(llm)
    stock = tools.stock(item=wanted["item"])
    left = _ship(tools, stock, wanted["count"])
    return {
        "output": f"Shipped {wanted['count']}.",
        "claimed": "success",
        "verified": "verified_failure" if left < 0 else None,
    }


def after(llm: Any, tools: Any) -> Any:
    """It ships what is there, and says what is missing."""
    wanted = _ask(llm)
    stock = tools.stock(item=wanted["item"])
    count = min(wanted["count"], stock["count"])
    _ship(tools, stock, count)
    missing = wanted["count"] - count
    return {
        "output": f"Shipped {count}, {missing} are missing.",
        "claimed": "failure" if missing else "success",
        "verified": None,
    }


def _ask(llm: Any) -> Any:
    text = "Ship 5 lamps."
    return llm(model="scripted-1", messages=[{"role": "user", "content": text}])


def _ship(tools: Any, stock: dict[str, Any], count: int) -> int:
    tools.ship(item=stock["item"], count=count)
    left: int = stock["count"] - count
    patch = [{"op": "replace", "path": "/count", "value": left}]
    tools.state("warehouse", patch, stock, {**stock, "count": left})
    return left


def model(request: dict[str, Any]) -> Any:  # noqa: ARG001
    """The scripted model: it reads the order."""
    return {"item": "lamp", "count": 5}


def _stock(item: str) -> Any:
    return {"item": item, "count": 3}


def _ship_item(item: str, count: int) -> Any:
    return {"item": item, "shipped": count}


TOOLS = {"stock": _stock, "ship": _ship_item}
