"""A registry drafted from an OpenAPI document (3.x).

**Rules**
1. Every operation is an entry or is left out with its reason.
2. The schema is of the arguments as the gateway sees them: path and query values are text, members
   of a JSON body are what they are; nothing else is allowed in.
3. Only references within the document are followed; one that leads back to itself allows anything.
"""

import re
from collections.abc import Mapping
from typing import Any

from sidecar.gateway.draft.tool import Draft, DraftTool, class_of, name_of, unique

_METHODS = ("get", "head", "post", "put", "patch", "delete")
_PARAMETER = re.compile(r"\{([^{}/]+)\}\Z")
_DEPTH_MAX = 40
_KEPT = ("description", "enum", "pattern", "minLength", "maxLength", "format")


class NotOpenApi(ValueError):
    """The document is no OpenAPI 3 document; the message says why."""


def draft_openapi(document: Any, upstream: str) -> Draft:
    """The entries for one upstream. Raises NotOpenApi."""
    paths = document.get("paths") if isinstance(document, Mapping) else None
    version = str(document.get("openapi", "")) if isinstance(document, Mapping) else ""
    if not isinstance(paths, Mapping) or not version.startswith("3."):
        raise NotOpenApi("it needs openapi: 3.x and paths")
    tools: list[DraftTool] = []
    left_out: list[str] = []
    for path, item in paths.items():
        found = _resolve(item, document)
        if not isinstance(found, Mapping) or not isinstance(path, str):
            left_out.append(f"{path}: it describes nothing")
            continue
        for method in sorted(found.keys() & {"options", "trace"}):
            left_out.append(f"{method.upper()} {path}: the method is not served by the gateway")
        for method in _METHODS:
            if method not in found:
                continue
            try:
                tools.append(_tool(upstream, method.upper(), path, found, document))
            except NotOpenApi as error:
                left_out.append(f"{method.upper()} {path}: {error}")
    return Draft(tools=unique(tools), left_out=tuple(left_out))


def _tool(
    upstream: str, method: str, path: str, item: Mapping[str, Any], document: Any
) -> DraftTool:
    operation = _resolve(item[method.lower()], document)
    if not isinstance(operation, Mapping):
        raise NotOpenApi("the operation describes nothing")
    template, names = _template(path)
    properties: dict[str, Any] = {}
    required: list[str] = []
    notes = [note] if (note := _said(operation)) else []
    for parameter in (*_list(item, "parameters"), *_list(operation, "parameters")):
        _add(_resolve(parameter, document), names, properties, required, notes)
    body = _body(operation, document, notes)
    for name, schema in body.get("properties", {}).items():
        if name in properties:
            raise NotOpenApi(f"the argument {name!r} stands in the body and elsewhere")
        properties[name] = schema
    required += [name for name in body.get("required", ()) if name not in required]
    missing = [name for name in names.values() if name not in properties]
    properties |= {name: {"type": "string"} for name in missing}
    return DraftTool(
        name=name_of(str(operation.get("operationId") or f"{method} {path}")),
        upstream=upstream,
        match={"method": method, "path": template},
        class_=class_of(method),
        schema={
            "type": "object",
            "properties": properties,
            "required": sorted({*required, *names.values()}),
            "additionalProperties": False,
        },
        notes=tuple(notes),
    )


def _template(path: str) -> tuple[str, dict[str, str]]:
    """The path with our parameters, and how the document's are called here."""
    segments, names = [], {}
    for segment in path.strip("/").split("/") if path != "/" else [""]:
        match = _PARAMETER.match(segment)
        if match is None and ("{" in segment or "}" in segment):
            raise NotOpenApi(f"{segment!r} is only in part a parameter")
        if match is None:
            segments.append(segment)
            continue
        name = re.sub(r"[^A-Za-z0-9_]", "_", match[1])
        names[match[1]] = name
        segments.append(f"{{{name}}}")
    end = "/" if path.endswith("/") and path != "/" else ""
    return "/" + "/".join(segments) + end, names


def _add(
    parameter: Any,
    names: Mapping[str, str],
    properties: dict[str, Any],
    required: list[str],
    notes: list[str],
) -> None:
    if not isinstance(parameter, Mapping) or not isinstance(parameter.get("name"), str):
        return
    place, name = parameter.get("in"), str(parameter["name"])
    if place not in ("path", "query"):
        notes.append(f"the {place} parameter {name} is not passed on")
        return
    name = names.get(name, name) if place == "path" else name
    properties[name] = _as_text(parameter.get("schema"))
    if parameter.get("required"):
        required.append(name)


def _as_text(schema: Any) -> dict[str, Any]:
    """The schema of a value that stands in a path or query."""
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if kind == "integer":
        return {"type": "string", "pattern": "^-?[0-9]+$"}
    if kind == "boolean":
        return {"enum": ["true", "false"]}
    if kind == "array":
        one = _as_text(schema.get("items"))
        return {"anyOf": [one, {"type": "array", "items": one}]}
    kept = {key: schema[key] for key in _KEPT if key in schema} if kind == "string" else {}
    return {"type": "string", **kept}


def _body(operation: Mapping[str, Any], document: Any, notes: list[str]) -> dict[str, Any]:
    asked = _resolve(operation.get("requestBody"), document)
    content = asked.get("content") if isinstance(asked, Mapping) else None
    if not isinstance(content, Mapping):
        return {}
    media = next((content[kind] for kind in content if "json" in str(kind)), None)
    if not isinstance(media, Mapping):
        kinds = ", ".join(map(str, content))
        notes.append(f"the body is {kinds}: a tool with effects takes JSON or a form")
        return {}
    schema = _resolve(media.get("schema"), document)
    if isinstance(schema, Mapping) and schema.get("type", "object") == "object":
        return dict(schema)
    notes.append("the body is no object: its members are not told apart as arguments")
    return {}


def _resolve(value: Any, document: Any, seen: tuple[str, ...] = ()) -> Any:
    """A value with the references within the document put in."""
    if len(seen) > _DEPTH_MAX:
        return {}
    if isinstance(value, Mapping):
        reference = value.get("$ref")
        if isinstance(reference, str):
            if reference in seen or not reference.startswith("#/"):
                return {}
            return _resolve(_at(document, reference), document, (*seen, reference))
        return {key: _resolve(each, document, seen) for key, each in value.items()}
    if isinstance(value, list):
        return [_resolve(each, document, seen) for each in value]
    return value


def _at(document: Any, reference: str) -> Any:
    found = document
    for part in reference[2:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def _list(value: Mapping[str, Any], key: str) -> list[Any]:
    found = value.get(key)
    return found if isinstance(found, list) else []


def _said(operation: Mapping[str, Any]) -> str:
    for key in ("summary", "description"):
        if isinstance(operation.get(key), str) and operation[key].strip():
            return str(operation[key])
    return ""
