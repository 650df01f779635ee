"""Files named after a wire do I/O; every other file is pure: the name says which."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIRES = {
    *("http", "grpc", "mcp", "stdio", "sqlite", "postgres", "files", "opa", "llm", "process"),
    *("client", "clock", "worker", "ray", "seams", "pytest", "driver"),
}
EXEMPT = ("sidecar/config.py", "sidecar/telemetry.py", "sidecar/__main__.py")
EXEMPT_FOLDERS = (
    "sidecar/app/",
    "sidecar/cli/",
    "sidecar/demo/",
    "sidecar/gallery/",
    "sidecar/_pb/",
)
BANNED = {
    *("asyncio", "socket", "ssl", "sqlite3", "subprocess", "threading", "multiprocessing", "time"),
    *("os", "pathlib", "logging", "uuid", "secrets", "random", "grpc", "google", "aiohttp"),
    *("asyncpg", "queue", "signal", "tempfile", "shutil"),
}
PROTOBUF_ALLOWED = ("sidecar/otlp/",)
SEEDED_RANDOM_ALLOWED: tuple[str, ...] = ()
ASYNC_SIGNATURES = ("sidecar/store/ports.py", "sidecar/gateway/upstream.py")


def pure_files():
    for package in ("processors", "sidecar"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            parts = {*path.relative_to(ROOT).parts[:-1], path.stem}
            if name in EXEMPT or name.startswith(EXEMPT_FOLDERS) or parts & WIRES:
                continue
            yield pytest.param(path, name, id=name)


def is_signature(node):
    body = [line for line in node.body if not isinstance(line, ast.Expr)]
    return not body


@pytest.mark.parametrize(("path", "name"), list(pure_files()))
def test_file_named_after_an_idea_is_pure(path, name):
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        modules = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or ""]
        for module in modules:
            top = module.split(".")[0]
            if top == "google" and name.startswith(PROTOBUF_ALLOWED):
                continue
            if top in BANNED:
                found.append(f"line {node.lineno}: imports {module}")
        if isinstance(node, ast.AsyncFunctionDef) and not (
            name in ASYNC_SIGNATURES and is_signature(node)
        ):
            found.append(f"line {node.lineno}: async def {node.name}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("open", "print", "input")
        ):
            found.append(f"line {node.lineno}: calls {node.func.id}")
    assert not found, f"{name} is named after an idea but is not pure: {found}"
