"""A small shop with seats and stock, and where the shipped examples are."""

from pathlib import Path

import sidecar.demo.fuzzing as shipped

SHIPPED = Path(shipped.__file__).parent

TWIN = """\
twin: hall
clock: {start: "2026-01-05T09:00:00Z", step: 1s}
entities:
  seats:
    key: seat
    rows: [{seat: S-1, guest: ""}, {seat: S-2, guest: ""}]
  stock:
    key: item
    rows: [{item: X, left: 5}]
  bookings: {key: id}
tools:
  - name: get_stock
    match: {method: GET, path: "/stock/{item}"}
    class: read
    response: {body: 'row("stock", arguments.item)'}
  - name: put_stock
    match: {method: PUT, path: "/stock/{item}"}
    class: write
    idempotency: false
    effects: [{op: set, entity: stock, key: arguments.item, values: {left: arguments.left}}]
    response: {body: arguments.left}
  - name: get_seat
    match: {method: GET, path: "/seats/{seat}"}
    class: read
    response: {body: 'row("seats", arguments.seat)'}
  - name: book
    match: {method: POST, path: "/seats/{seat}/bookings"}
    class: irreversible
    idempotency: false
    effect_key: arguments.seat
    effects:
      - op: insert
        entity: bookings
        values: {id: 'next_id("B")', seat: arguments.seat, guest: arguments.guest}
      - {op: set, entity: seats, key: arguments.seat, values: {guest: arguments.guest}}
    response: {status: 201, body: arguments.seat}
  - name: take
    match: {method: POST, path: "/seats/{seat}/take"}
    class: write
    idempotency: false
    let: {found: 'row("seats", arguments.seat)'}
    preconditions: [{require: 'found.guest == ""', status: 409}]
    effects: [{op: set, entity: seats, key: arguments.seat, values: {guest: arguments.guest}}]
    response: {body: arguments.seat}
  - name: leave
    match: {method: POST, path: "/seats/{seat}/leave"}
    class: write
    idempotency: false
    effects: [{op: set, entity: seats, key: arguments.seat, values: {guest: '""'}}]
    response: {body: arguments.seat}
"""
SUITE = """\
suite: hall
twins: [twin.yaml]
scenarios:
  - {id: anna, input: {guest: anna}, expect: [{type: outputContains, text: anna}]}
  - {id: bert, input: {guest: bert}, expect: [{type: outputContains, text: bert}]}
"""
