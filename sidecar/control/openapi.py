"""The OpenAPI 3.1 document of the control API, made from the table of operations and its types.

Source: OpenAPI Specification 3.1.1; RFC 9457 for problems, RFC 9110 for conditional requests.
"""

from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from sidecar.control.arguments import part
from sidecar.control.documents import Problem
from sidecar.control.operations import DOCUMENT_PATH, OPERATIONS, SERVICES, Operation

OPENAPI = "3.1.1"
JSON = "application/json"
JSON_LINES = "application/jsonl"
PROBLEM = "application/problem+json"
_REF = "#/components/schemas/{name}"
_COMMON = (400, 401, 403, 405, 503)
_BODY = (413, 415, 422)
_MEANS = {
    400: "The request cannot be read: a query parameter, or a body that is no JSON.",
    401: "There is no credential, or one that proves nothing.",
    403: "The credential is known and may not do this.",
    404: "There is no such thing in this project.",
    405: "The path has no such method; `Allow` names those it has.",
    409: "The state it would change is not the one it needs.",
    413: "The body is too large.",
    415: "The body is not announced as application/json.",
    422: "The body is JSON and not what this operation takes.",
    429: "Another one runs; try again later.",
    503: "The store cannot be used now; try again later.",
}


def document(version: str) -> dict[str, Any]:
    """The whole document; ``version`` is that of the API."""
    served = [each for each in OPERATIONS if each.method is not None]
    schemas = _schemas(served)
    paths: dict[str, dict[str, Any]] = {
        DOCUMENT_PATH: {"get": _own_page()},
    }
    for operation in served:
        method = (operation.method or "").lower()
        paths.setdefault(operation.path, {})[method] = _operation(operation)
    return {
        "openapi": OPENAPI,
        "info": {
            "title": "AgentTwin Sidecar control API",
            "version": version,
            "description": "What people and CI ask the sidecar. Every answer is of one project,"
            " that of the credential or the one named with `project`. See docs/specs/control.md.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"key": []}],
        "tags": [{"name": name, "description": told} for name, told in SERVICES.items()],
        "paths": dict(sorted(paths.items())),
        "components": {
            "schemas": schemas,
            "responses": {str(status): _problem(status) for status in _MEANS},
            "headers": {
                "Request-Id": {
                    "description": "Names this request in the sidecar's log.",
                    "schema": {"type": "string"},
                },
                "ETag": {
                    "description": "Of exactly this answer.",
                    "schema": {"type": "string"},
                },
            },
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "bearer",
                    "description": "A key of kind reader, approver or admin, or a token of a"
                    " configured identity provider.",
                }
            },
        },
    }


def body_type(operation: Operation) -> type[Struct]:
    """The record of an operation's body."""
    name = operation.asks.__name__.removesuffix("Request") + "Body"
    return part(operation.asks, operation.in_body, name)


def _schemas(operations: list[Operation]) -> dict[str, Any]:
    bodies = {body_type(each) for each in operations if each.in_body}
    types = [*{each.gives for each in operations}, *bodies, Problem]
    found = msgspec.json.schema_components(
        sorted(types, key=lambda kind: kind.__name__), ref_template=_REF
    )[1]
    for each in operations:
        if each.one_of:
            found[body_type(each).__name__]["oneOf"] = list(each.one_of)
    return {name: _closed(schema) for name, schema in sorted(found.items())}


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    """What an answer has is always there: a default is how a record is made, not what is told."""
    for field in schema.get("properties", {}).values():
        field.pop("default", None)
    return schema


def _operation(operation: Operation) -> dict[str, Any]:
    found: dict[str, Any] = {
        "operationId": operation.operation_id,
        "tags": [operation.service],
        "summary": operation.summary,
        "description": _permission(operation),
        "parameters": _parameters(operation),
        "responses": _responses(operation),
    }
    if operation.in_body:
        schema = {"$ref": _REF.format(name=body_type(operation).__name__)}
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    return found


def _permission(operation: Operation) -> str:
    if operation.permission is None:
        return "Needs a credential of any kind."
    return f"Needs the permission `{operation.permission}`."


def _parameters(operation: Operation) -> list[dict[str, Any]]:
    (reference,), schemas = msgspec.json.schema_components([operation.asks], ref_template="{name}")
    whole = schemas[reference["$ref"]]
    found = [
        _parameter(place, name, whole)
        for place, names in (("path", operation.in_path), ("query", operation.in_query))
        for name in names
    ]
    if conditional(operation):
        found.append(
            {
                "name": "If-None-Match",
                "in": "header",
                "description": "The ETag of an answer that is known; the same one is a 304.",
                "schema": {"type": "string"},
            }
        )
    return found


def conditional(operation: Operation) -> bool:
    """Whether its answers have an ETag."""
    return operation.method == "GET" and not operation.stream


def _parameter(place: str, name: str, whole: dict[str, Any]) -> dict[str, Any]:
    schema = dict(whole["properties"][name])
    told = schema.pop("description", None)
    kinds = schema.pop("anyOf", None)
    if kinds is not None:  # in a query nothing is null: what is not given is left out
        schema = {**next(kind for kind in kinds if kind.get("type") != "null")}
        told = schema.pop("description", told)
        schema.pop("default", None)
    if "enum" in schema:
        schema["enum"] = [each for each in schema["enum"] if each is not None]
    if schema.get("default") is None:
        schema.pop("default", None)
    found: dict[str, Any] = {"name": name, "in": place, "schema": schema}
    if place == "path":
        found["required"] = True
    if told:
        found["description"] = told
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    schema = {"$ref": _REF.format(name=operation.gives.__name__)}
    headers = {"Request-Id": {"$ref": "#/components/headers/Request-Id"}}
    if conditional(operation):
        headers["ETag"] = {"$ref": "#/components/headers/ETag"}
    if operation.stream:
        content = {JSON_LINES: {"schema": {"type": "string"}}}
        told = f"One {operation.gives.__name__} a line."
    else:
        content = {JSON: {"schema": schema}}
        told = HTTPStatus(operation.status).phrase
    found: dict[str, Any] = {
        str(operation.status): {"description": told, "headers": headers, "content": content}
    }
    if conditional(operation):
        found["304"] = {"description": "The answer is the one that is known.", "headers": headers}
    errors = {*_COMMON, *operation.errors, *(_BODY if operation.in_body else ())}
    if operation.in_path:
        errors.add(404)
    for status in sorted(errors):
        found[str(status)] = {"$ref": f"#/components/responses/{status}"}
    return dict(sorted(found.items()))


def _problem(status: int) -> dict[str, Any]:
    headers: dict[str, Any] = {"Request-Id": {"$ref": "#/components/headers/Request-Id"}}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = {"schema": {"type": "string"}}
    if status == HTTPStatus.METHOD_NOT_ALLOWED:
        headers["Allow"] = {"schema": {"type": "string"}}
    return {
        "description": _MEANS[status],
        "headers": headers,
        "content": {PROBLEM: {"schema": {"$ref": _REF.format(name="Problem")}}},
    }


def _own_page() -> dict[str, Any]:
    problems = {str(each): {"$ref": f"#/components/responses/{each}"} for each in (401, 403, 405)}
    return {
        "operationId": "getOpenApi",
        "tags": ["SidecarService"],
        "summary": "Get this document.",
        "description": "Needs the permission `store.read`.",
        "responses": {
            "200": {
                "description": "OK",
                "content": {JSON: {"schema": {"type": "object"}}},
            },
            **problems,
        },
    }
