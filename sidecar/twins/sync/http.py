"""Rows by one GET of JSON, through egress alone, never a redirect."""

import json
from pathlib import Path
from typing import Any

from sidecar.egress.client import Egress, EgressFailed
from sidecar.expression.cel import ExpressionFailed
from sidecar.probe.http import CredentialUnreadable, credential
from sidecar.twins.sync.plan import HttpSource, rows_of
from sidecar.twins.sync.rows import BadRows


async def http_rows(
    egress: Egress, http: HttpSource, name: str, folder: Path, *, deadline_ns: int
) -> list[Any]:
    """The rows in the answer; a credential's file is below ``folder``. Raises BadRows."""
    headers = [("accept", "application/json"), ("cache-control", "no-cache")]
    try:
        if http.credential is not None:
            file = str(folder / http.credential.file)
            headers.append(credential(http.credential.header, file))
        reply = await egress.request(
            http.target(name), "GET", http.path, headers, deadline_ns=deadline_ns
        )
    except CredentialUnreadable:
        raise BadRows("the credential's file cannot be read") from None
    except EgressFailed as error:
        raise BadRows(f"it did not answer: {error.reason}") from None
    if reply.status != 200:
        raise BadRows(f"it answered {reply.status}")
    try:
        response = json.loads(reply.body)
    except (ValueError, RecursionError):
        raise BadRows("the answer is no JSON") from None
    try:
        rows = rows_of(http, response)
    except ExpressionFailed as error:
        raise BadRows(f"http.rows has no value: {error}") from None
    if not isinstance(rows, list):
        raise BadRows("http.rows is no list")
    return rows
