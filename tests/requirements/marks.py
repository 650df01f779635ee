"""What the tests say they prove: the marks of one name, read from their source."""

import ast
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent.parent


@cache
def marked(name: str) -> dict[str, list[str]]:
    """Every id in a ``@pytest.mark.<name>("ID", …)`` of the tests, with its places (file:line)."""
    found: dict[str, list[str]] = {}
    for path in sorted(TESTS.rglob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr == name and ast.unparse(node.func.value) == "pytest.mark":
                for argument in node.args:
                    found.setdefault(ast.literal_eval(argument), []).append(
                        f"{path.name}:{node.lineno}"
                    )
    return found
