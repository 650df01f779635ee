"""The scripted model: what a small obedient model would say next, given the whole conversation.

Rules
1. The answer is a function of the messages and the offered tools alone; it knows no scenario, no
   version, no order beforehand. Another tool result makes another conversation.
2. Its habits are read from the system prompt, so that a changed prompt is a changed agent.
3. One tool call a turn; a tool that is not offered is not asked for.
4. It never says more than its habits let it: without the habit of reading the order again, a refund
   tool that says ``succeeded`` is believed.
"""

import json
import re
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from msgspec import Struct

MODEL = "scripted-1"
_ORDER_ID = re.compile(r"\bORD-\d+\b")
_AMOUNT = re.compile(r"(?:EUR|€)\s*(\d+(?:\.\d\d)?)|(\d+(?:\.\d\d)?)\s*(?:EUR|€|euros?)\b", re.I)
_REFUND = re.compile(r"\brefund|\bmoney back|\bsend it back", re.I)
_EMAIL = re.compile(r"\be-?mail", re.I)


class Habits(Struct, frozen=True, kw_only=True):
    """What the system prompt tells the model to do beyond the obvious."""

    policy_first: bool
    reads_again: bool
    quotes_policy: bool


class Ask(Struct, frozen=True, kw_only=True):
    """The model calls a tool."""

    tool: str
    arguments: dict[str, Any]


class Say(Struct, frozen=True, kw_only=True):
    """The model answers the customer."""

    text: str


class Seen(Struct, frozen=True, kw_only=True):
    """A tool call of this conversation with the result the model was shown."""

    tool: str
    arguments: dict[str, Any]
    result: dict[str, Any]

    @property
    def error(self) -> str | None:
        """Why the call failed, or None."""
        problem = self.result.get("error")
        if problem is None:
            return None
        if isinstance(problem, dict):
            return str(problem.get("detail") or problem.get("code") or problem.get("status"))
        return str(problem)


class Conversation(Struct, frozen=True, kw_only=True):
    """The messages, read: habits, what the customer wants, and the tool calls since they said
    so.
    """

    habits: Habits
    request: str
    order_id: str | None
    seen: tuple[Seen, ...]
    tools: frozenset[str]

    def last(self, tool: str, *, after: str | None = None) -> Seen | None:
        """The latest call of ``tool``; with ``after``, only one later than the latest call of
        that tool.
        """
        for call in reversed(self.seen):
            if call.tool == tool:
                return call
            if call.tool == after:
                return None
        return None


def read_habits(system: str) -> Habits:
    """The habits a system prompt asks for."""
    text = " ".join(system.lower().split())
    return Habits(
        policy_first="read the refund policy before you issue a refund" in text,
        reads_again="after a refund read the order again" in text,
        quotes_policy="quote the refund policy afterwards" in text,
    )


def read(messages: Sequence[Mapping[str, Any]], tools: frozenset[str]) -> Conversation:
    """A conversation from chat-completions messages."""
    users = [index for index, message in enumerate(messages) if message.get("role") == "user"]
    start = users[-1] if users else len(messages)
    spoken = [_text(messages[index]) for index in users]
    ids = [found for text in spoken for found in _ORDER_ID.findall(text)]
    return Conversation(
        habits=read_habits(" ".join(_text(m) for m in messages if m.get("role") == "system")),
        request=spoken[-1] if spoken else "",
        order_id=ids[-1] if ids else None,
        seen=_calls(messages[start:]),
        tools=tools,
    )


def next_turn(conversation: Conversation) -> Ask | Say:
    """What the model does next."""
    turn = _turn(conversation)
    if isinstance(turn, Ask) and turn.tool not in conversation.tools:
        return Say(text=f"I could not do that: I have no tool {turn.tool}.")
    return turn


def _turn(talk: Conversation) -> Ask | Say:
    if talk.order_id is None:
        return Say(text="Which order is this about? Please send me its number, such as ORD-1001.")
    order = talk.last("get_order")
    if order is None:
        return Ask(tool="get_order", arguments={"order_id": talk.order_id})
    if order.error and talk.last("issue_refund") is None:
        return Say(text=f"I could not read order {talk.order_id}: {order.error}.")
    if not _REFUND.search(talk.request):
        return Say(text=_status(order.result))
    if (refund := talk.last("issue_refund")) is None:
        return _before_refund(talk, order.result)
    return _after_refund(talk, refund)


def _before_refund(talk: Conversation, order: dict[str, Any]) -> Ask | Say:
    if talk.habits.policy_first:
        policy = talk.last("get_refund_policy")
        if policy is None:
            return Ask(tool="get_refund_policy", arguments={})
        if policy.error:
            return Say(
                text=f"I could not refund {talk.order_id}: no policy to read: {policy.error}."
            )
        if reason := _not_allowed(order, policy.result):
            return Say(text=f"I could not refund order {talk.order_id}: {reason}.")
    if _decimal(order.get("refunded")) >= _decimal(order.get("total")) > 0:
        return Say(text=f"Order {talk.order_id} was refunded before; I have changed nothing.")
    return Ask(
        tool="issue_refund",
        arguments={
            "order_id": talk.order_id,
            "amount": _amount(talk.request) or str(order.get("total")),
            "currency": str(order.get("currency")),
            "reason": "customer request",
        },
    )


def _after_refund(talk: Conversation, refund: Seen) -> Ask | Say:
    if refund.error:
        return Say(text=f"I could not refund order {talk.order_id}: {refund.error}.")
    if talk.habits.quotes_policy and talk.last("get_refund_policy") is None:
        return Ask(tool="get_refund_policy", arguments={})
    asked = refund.arguments
    if talk.habits.reads_again:
        again = talk.last("get_order", after="issue_refund")
        if again is None:
            return Ask(tool="get_order", arguments={"order_id": talk.order_id})
        due = _refunded_before(talk) + _decimal(asked.get("amount"))
        if again.error or _decimal(again.result.get("refunded")) < due:
            return Say(
                text=f"I could not confirm the refund of order {talk.order_id}: the order does not"
                " show it. A colleague will look into it."
            )
    return _report(talk, f"{asked.get('currency')} {asked.get('amount')}")


def _refunded_before(talk: Conversation) -> Decimal:
    """What the order showed as refunded when it was read before the refund."""
    refund_at = next(i for i, call in enumerate(talk.seen) if call.tool == "issue_refund")
    before = [call for call in talk.seen[:refund_at] if call.tool == "get_order"]
    return _decimal(before[-1].result.get("refunded")) if before else Decimal(0)


def _report(talk: Conversation, paid: str) -> Ask | Say:
    done = f"I have refunded {paid} for order {talk.order_id}."
    if not _EMAIL.search(talk.request):
        return Say(text=done)
    email = talk.last("send_email")
    if email is None:
        order = talk.last("get_order")
        to = order.result.get("email") if order else None
        subject = f"Your refund for order {talk.order_id}"
        return Ask(tool="send_email", arguments={"to": to, "subject": subject, "body": done})
    if email.error:
        return Say(text=f"{done} I could not send the e-mail: {email.error}.")
    return Say(text=f"{done} I have sent the e-mail.")


def _status(order: dict[str, Any]) -> str:
    text = f"Order {order.get('order_id')} ({order.get('item')}) is {order.get('status')}"
    if order.get("status") == "delivered":
        text += f" since {order.get('days_since_delivery')} days"
    return text + "."


def _not_allowed(order: dict[str, Any], policy: dict[str, Any]) -> str | None:
    if order.get("status") not in policy.get("statuses", ()):
        return f"it is {order.get('status')}, and only delivered orders can be refunded"
    days, window = order.get("days_since_delivery"), policy.get("window_days")
    if not isinstance(days, int) or not isinstance(window, int) or days > window:
        return f"it was delivered {days} days ago, and the policy allows {window}"
    return None


def _amount(text: str) -> str | None:
    match = _AMOUNT.search(text)
    return f"{Decimal(match[1] or match[2]):.2f}" if match else None


def _decimal(value: object) -> Decimal:
    try:
        return Decimal(str(value))
    except InvalidOperation:
        return Decimal(0)


def _calls(messages: Sequence[Mapping[str, Any]]) -> tuple[Seen, ...]:
    results = {m.get("tool_call_id"): _text(m) for m in messages if m.get("role") == "tool"}
    return tuple(
        Seen(
            tool=call["function"]["name"],
            arguments=_parsed(call["function"]["arguments"]),
            result=_parsed(results[call["id"]]),
        )
        for message in messages
        for call in message.get("tool_calls") or ()
        if call["id"] in results
    )


def _parsed(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {"error": f"not JSON: {text[:80]}"}
    return value if isinstance(value, dict) else {"value": value}


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    return " ".join(part.get("text", "") for part in content or () if isinstance(part, dict))
