"""The agent's tools: what the model is told of them, and the HTTP request each stands for.

Rules
1. A tool's arguments are its path's parameters plus its body's members; nothing is added or
   dropped.
2. A tool that changes something is ``keyed``: its request carries an Idempotency-Key.
"""

import json
from typing import Any, Literal
from urllib.parse import quote

from msgspec import Struct

UPSTREAM = "commerce"


class Tool(Struct, frozen=True, kw_only=True):
    """One tool: its name and parameters as the model sees them, its method and path on the wire."""

    name: str
    description: str
    method: Literal["GET", "POST"]
    path: str
    parameters: dict[str, str]
    keyed: bool = False

    def for_model(self) -> dict[str, Any]:
        """The tool as a chat-completions ``tools`` entry."""
        properties = {
            name: {"type": "string", "description": d} for name, d in self.parameters.items()
        }
        schema: dict[str, Any] = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
        }
        schema["additionalProperties"] = False
        function = {"name": self.name, "description": self.description, "parameters": schema}
        return {"type": "function", "function": function}

    def request(self, arguments: dict[str, Any]) -> tuple[str, bytes | None]:
        """Path and body for these arguments. Raises KeyError for a missing path parameter."""
        in_path = {name for name in arguments if f"{{{name}}}" in self.path}
        path = self.path.format(**{name: quote(str(arguments[name]), safe="") for name in in_path})
        body = {name: value for name, value in arguments.items() if name not in in_path}
        return path, json.dumps(body).encode() if self.method == "POST" else None


TOOLS = (
    Tool(
        name="get_order",
        description="Read one order: item, price, status, days since delivery, refunded so far.",
        method="GET",
        path="/orders/{order_id}",
        parameters={"order_id": "the order's number, such as ORD-1001"},
    ),
    Tool(
        name="get_refund_policy",
        description="Read the shop's refund policy.",
        method="GET",
        path="/refund-policy",
        parameters={},
    ),
    Tool(
        name="issue_refund",
        description="Pay an order's price, or a part of it, back. Cannot be undone.",
        method="POST",
        path="/orders/{order_id}/refunds",
        parameters={
            "order_id": "the order's number",
            "amount": "decimal with two places, such as 49.00",
            "currency": "ISO 4217 code",
            "reason": "why",
        },
        keyed=True,
    ),
    Tool(
        name="send_email",
        description="Send the customer an e-mail.",
        method="POST",
        path="/emails",
        parameters={"to": "address", "subject": "one line", "body": "plain text"},
        keyed=True,
    ),
)
BY_NAME = {tool.name: tool for tool in TOOLS}
