"""A support agent that refunds; one version does so before it has read order and policy."""

from typing import Any


def before(llm: Any, tools: Any) -> Any:
    """It refunds what it is told to, and reads the order afterwards."""
    answer = _ask(llm)
    tools.issue_refund(order=answer["order"], amount=answer["amount"])
    order = tools.lookup_order(order=answer["order"])
    return {"output": f"Refunded {answer['amount']} of {order['total']}.", "claimed": "success"}


def after(llm: Any, tools: Any) -> Any:
    """It reads the order first, refunds no more than it came to, and asks a person."""
    answer = _ask(llm)
    order = tools.lookup_order(order=answer["order"])
    amount = min(answer["amount"], order["total"])
    said = tools.human("issue_refund", {"order": answer["order"], "amount": amount})
    if said["decision"] != "approve":
        return {"output": "A person refused the refund.", "claimed": "failure"}
    tools.issue_refund(order=answer["order"], amount=amount)
    return {"output": f"Refunded {amount} of {order['total']}.", "claimed": "success"}


def _ask(llm: Any) -> Any:
    text = "Please refund 94 for order A-1."
    return llm(model="scripted-1", messages=[{"role": "user", "content": text}])


def model(request: dict[str, Any]) -> Any:  # noqa: ARG001
    """The scripted model: it reads the customer's message and believes it."""
    return {"order": "A-1", "amount": 94}


def _lookup_order(order: str) -> Any:
    return {"order": order, "total": 49}


def _issue_refund(order: str, amount: int) -> Any:
    return {"order": order, "refunded": amount}


def _person(name: str, request: Any) -> Any:
    return {"decision": "approve", "approver": "tok:person:0123456789ab", "of": [name, request]}


TOOLS = {"lookup_order": _lookup_order, "issue_refund": _issue_refund, "human": _person}
