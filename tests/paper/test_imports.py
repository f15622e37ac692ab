"""The paper's experiment is for those who come with the paper in hand: nothing else depends on it."""

import ast
from pathlib import Path

import epls

SOURCE = Path(epls.__file__).parent


def imported(path):
    """The dotted names of modules that a file imports from this package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom):
            yield from (f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from (alias.name.removeprefix("epls.") for alias in node.names)


def test_only_epls_reproduce_imports_it():
    users = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if path.parent.name != "paper" and any(name.split(".")[0] == "paper" for name in imported(path))
    }
    assert users == {"cli/reproduce.py"}
