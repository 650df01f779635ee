"""The shop behind the demo's tools: orders, refunds and e-mails in one SQLite file.

Rules
1. Money is a decimal string with two places ("49.00"); arithmetic is done in cents.
2. One idempotency key makes at most one refund and one e-mail; the same key with other content is
   refused.
3. The shop does not enforce the refund window: whether a refund is due is the agent's judgement,
   and getting it wrong must be possible.
4. An order's ``behaviour`` is how its refund endpoint fails: ``lie`` answers success without an
   effect, ``timeout_after`` commits and then says nothing. Both happen in the world; neither is
   simulated in memory.
"""

import sqlite3
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct, json, structs

Behaviour = Literal["honest", "lie", "timeout_after"]
REFUND_POLICY: dict[str, Any] = {
    "window_days": 30,
    "statuses": ["delivered"],
    "text": "A delivered order is refunded up to its price within 30 days of delivery.",
}
_SCHEMA = """
CREATE TABLE IF NOT EXISTS orders (
  order_id TEXT PRIMARY KEY, customer TEXT NOT NULL, email TEXT NOT NULL, item TEXT NOT NULL,
  total TEXT NOT NULL, currency TEXT NOT NULL, status TEXT NOT NULL,
  days_since_delivery INTEGER NOT NULL,
  behaviour TEXT NOT NULL DEFAULT 'honest');
CREATE TABLE IF NOT EXISTS refunds (
  refund_id TEXT PRIMARY KEY, order_id TEXT NOT NULL REFERENCES orders, amount TEXT NOT NULL,
  currency TEXT NOT NULL, reason TEXT NOT NULL, idempotency_key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS emails (
  email_id TEXT PRIMARY KEY, recipient TEXT NOT NULL, subject TEXT NOT NULL, body TEXT NOT NULL,
  idempotency_key TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS answers (
  idempotency_key TEXT PRIMARY KEY, request BLOB NOT NULL, answer BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS requests (
  n INTEGER PRIMARY KEY, tool TEXT NOT NULL, order_id TEXT, idempotency_key TEXT);
"""


class Order(Struct, frozen=True, kw_only=True):
    """An order as it is placed; ``total`` is a decimal string."""

    order_id: str
    item: str
    total: str
    customer: str = "Ada"
    email: str = "ada@customers.example"
    currency: str = "EUR"
    status: str = "delivered"
    days_since_delivery: int = 3
    behaviour: Behaviour = "honest"


class RefundRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /orders/{order_id}/refunds``."""

    amount: str
    currency: str
    reason: str


class EmailRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /emails``."""

    to: str
    subject: str
    body: str


class ShopRefused(Exception):
    """The shop says no: ``status`` is the HTTP status, the text says why. Nothing was changed."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


def cents(amount: str) -> int:
    """A decimal string in cents. Raises ShopRefused(400) unless it has two places and is
    positive.
    """
    whole, point, part = amount.partition(".")
    if not (
        point and whole.isdecimal() and part.isdecimal() and len(part) == 2 and amount.isascii()
    ):
        raise ShopRefused(400, f"amount must look like 49.00, not {amount!r}")
    return int(whole) * 100 + int(part)


def money(amount_cents: int) -> str:
    """Cents as a decimal string."""
    return f"{amount_cents // 100}.{amount_cents % 100:02d}"


class Shop:
    """The shop's database. One connection, used from one thread."""

    def __init__(self, database: Path) -> None:
        self._sql = sqlite3.connect(database, isolation_level=None)
        self._sql.row_factory = sqlite3.Row
        self._sql.execute("PRAGMA journal_mode=WAL")
        self._sql.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the database."""
        self._sql.close()

    def place(self, order: Order) -> None:
        """Put an order into the shop, replacing one of that id."""
        row = structs.asdict(order)
        names = ", ".join(row)
        marks = ", ".join(f":{name}" for name in row)
        self._sql.execute(f"INSERT OR REPLACE INTO orders ({names}) VALUES ({marks})", row)

    def behaviour(self, order_id: str) -> Behaviour:
        """How the refund endpoint of that order behaves; honest for an unknown order."""
        row = self._sql.execute(
            "SELECT behaviour FROM orders WHERE order_id = ?", (order_id,)
        ).fetchone()
        return row["behaviour"] if row else "honest"

    def note_request(self, tool: str, order_id: str | None, key: str | None) -> None:
        """Remember that a request arrived, so that attempts and effects can be counted apart."""
        self._sql.execute(
            "INSERT INTO requests (tool, order_id, idempotency_key) VALUES (?, ?, ?)",
            (tool, order_id, key),
        )

    def order(self, order_id: str) -> dict[str, Any]:
        """The order as a customer's agent sees it. Raises ShopRefused(404)."""
        row = self._sql.execute("SELECT * FROM orders WHERE order_id = ?", (order_id,)).fetchone()
        if row is None:
            raise ShopRefused(404, f"there is no order {order_id}")
        seen = {name: row[name] for name in row.keys() if name != "behaviour"}  # noqa: SIM118
        return {**seen, "refunded": money(self._refunded(order_id))}

    def refunds(self, *, order_id: str = "", key: str = "") -> list[dict[str, Any]]:
        """Refunds of an order, or made under an idempotency key, oldest first."""
        rows = self._sql.execute(
            "SELECT * FROM refunds WHERE (?1 = '' OR order_id = ?1)"
            " AND (?2 = '' OR idempotency_key = ?2) ORDER BY rowid",
            (order_id, key),
        )
        return [dict(row) for row in rows]

    def emails(self) -> list[dict[str, Any]]:
        """Every e-mail sent, oldest first."""
        return [dict(row) for row in self._sql.execute("SELECT * FROM emails ORDER BY rowid")]

    def requests(self, tool: str, order_id: str | None = None) -> int:
        """How many requests for that tool (and order) arrived, whatever came of them."""
        query = "SELECT count(*) FROM requests WHERE tool = ?1 AND (?2 IS NULL OR order_id = ?2)"
        count: int = self._sql.execute(query, (tool, order_id)).fetchone()[0]
        return count

    def refund(
        self, order_id: str, request: RefundRequest, *, key: str, new_id: str
    ) -> dict[str, Any]:
        """Refund once per key. Raises ShopRefused (400 amount, 404 order, 409 too much, 422 key
        reused).
        """
        order = self.order(order_id)
        content = json.encode([order_id, request])
        if (stored := self._stored(key, content)) is not None:
            return stored
        left = cents(order["total"]) - self._refunded(order_id)
        if request.currency != order["currency"] or cents(request.amount) == 0:
            raise ShopRefused(400, f"a refund is a positive amount in {order['currency']}")
        if cents(request.amount) > left:
            raise ShopRefused(
                409, f"{request.amount} is more than the {money(left)} left on {order_id}"
            )
        answer = {"refund_id": new_id, "order_id": order_id, "amount": request.amount}
        answer |= {"currency": request.currency, "status": "succeeded"}
        if self.behaviour(order_id) == "lie":
            return answer
        row = {**structs.asdict(request), "refund_id": new_id, "order_id": order_id, "key": key}
        self._record(
            "INSERT INTO refunds VALUES (:refund_id, :order_id, :amount, :currency, :reason, :key)",
            row,
            (key, content, json.encode(answer)),
        )
        return answer

    def send_email(self, request: EmailRequest, *, key: str, new_id: str) -> dict[str, Any]:
        """Send once per key. Raises ShopRefused (400 address, 422 key reused)."""
        if "@" not in request.to:
            raise ShopRefused(400, f"{request.to!r} is no e-mail address")
        content = json.encode(["email", request])
        if (stored := self._stored(key, content)) is not None:
            return stored
        answer = {"email_id": new_id, "status": "sent"}
        row = {**structs.asdict(request), "email_id": new_id, "key": key}
        self._record(
            "INSERT INTO emails VALUES (:email_id, :to, :subject, :body, :key)",
            row,
            (key, content, json.encode(answer)),
        )
        return answer

    def _refunded(self, order_id: str) -> int:
        rows = self._sql.execute("SELECT amount FROM refunds WHERE order_id = ?", (order_id,))
        return sum(cents(row["amount"]) for row in rows)

    def _stored(self, key: str, content: bytes) -> dict[str, Any] | None:
        row = self._sql.execute(
            "SELECT request, answer FROM answers WHERE idempotency_key = ?", (key,)
        ).fetchone()
        if row is None:
            return None
        if row["request"] != content:
            raise ShopRefused(422, "this Idempotency-Key was used for something else")
        stored: dict[str, Any] = json.decode(row["answer"])
        return stored

    def _record(self, insert: str, row: dict[str, Any], answer: tuple[str, bytes, bytes]) -> None:
        self._sql.execute("BEGIN IMMEDIATE")
        try:
            self._sql.execute(insert, row)
            self._sql.execute("INSERT INTO answers VALUES (?, ?, ?)", answer)
        except BaseException:
            self._sql.execute("ROLLBACK")
            raise
        self._sql.execute("COMMIT")
