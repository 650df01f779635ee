"""The files of a bundle, read: Rego as text, data as JSON-like values.

**Rules**
1. What is too large, not UTF-8, or says a key twice is refused.
2. YAML is bounded, and what it makes must be JSON.
"""

import json
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from sidecar.canonical import sha256
from sidecar.expression.bounded import BoundedLoader
from sidecar.gateway.policy.bundle import Bundle, BundleInvalid, DataFile, Module, make_bundle
from sidecar.gateway.strict import read_json

FILE_BYTES_MAX = 1024**2
TEST_SUFFIX = "_test.rego"
DATA = frozenset({"data.json", "data.yaml", "data.yml"})


def read_bundle(files: Mapping[str, bytes]) -> Bundle:
    """The bundle that those files are, by name. Raises BundleInvalid."""
    texts = {name: _text(name, content) for name, content in files.items()}
    modules = [Module(name, text) for name, text in texts.items() if name.endswith(".rego")]
    data = [_data(name, text) for name, text in texts.items() if not name.endswith(".rego")]
    return make_bundle(modules, data)


def read_value(name: str, content: bytes) -> Any:
    """The value of a data file. Raises BundleInvalid."""
    return _data(name, _text(name, content)).value


def _text(name: str, content: bytes) -> str:
    if len(content) > FILE_BYTES_MAX:
        raise BundleInvalid(f"{name} is larger than {FILE_BYTES_MAX} bytes")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BundleInvalid(f"{name} is not UTF-8 at byte {error.start}") from error


def _data(name: str, text: str) -> DataFile:
    try:
        is_yaml = name.endswith((".yaml", ".yml"))
        value = _yaml(text) if is_yaml else read_json(text.encode())
    except (yaml.YAMLError, ValueError, TypeError, RecursionError) as error:
        why = " ".join(str(error).split())
        raise BundleInvalid(f"{name}: {why}") from error
    return DataFile(name, tuple(name.split("/")[:-1]), value, sha256(text.encode()))


class _StrictLoader(BoundedLoader):
    """Bounded YAML without a key twice in one mapping."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        found = super().construct_mapping(node, deep)
        if len(found) != len(node.value):
            raise yaml.constructor.ConstructorError(
                None, None, "a key stands twice in the mapping", node.start_mark
            )
        return found


def _yaml(text: str) -> Any:
    value = yaml.load(text, _StrictLoader)  # noqa: S506 - a SafeLoader with one more check
    return read_json(json.dumps(value, allow_nan=False).encode())
