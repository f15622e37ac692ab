"""How the package hangs together."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

import epls

SOURCE = Path(epls.__file__).parent
ROOT = SOURCE.parents[1]


def rooms():
    """The rooms in the order of docs/architecture.md: each imports only from itself and from those before it."""
    table = (ROOT / "docs" / "architecture.md").read_text().split("## The rooms")[1].split("\n## ")[0]
    return re.findall(r"^\| `(\w+)` \|", table, flags=re.MULTILINE)


def room_of(module):
    """The number of the room that a module is in."""
    return rooms().index(module.split(".")[0])


def imported_modules(path):
    """What a file imports from the package, by its name below `epls`."""
    depth = len(path.relative_to(SOURCE).parts)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level == depth and node.module:
            yield node.module
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and (node.module or "").startswith("epls."):
            yield node.module.removeprefix("epls.")


@pytest.mark.parametrize(
    "path", sorted(p for p in SOURCE.rglob("*.py") if p.parent != SOURCE or p.name != "__init__.py")
)
def test_imports_go_one_way(path):
    here = room_of(".".join(path.relative_to(SOURCE).with_suffix("").parts))
    for module in imported_modules(path):
        assert room_of(module) <= here, f"{path.name} imports {module}"


def test_the_page_names_every_room():
    there = {path.stem for path in SOURCE.iterdir() if path.name != "__init__.py" and path.suffix in ("", ".py")}
    assert set(rooms()) == there - {"__pycache__", "py"}
    assert len(rooms()) == len(set(rooms()))


def test_import_loads_nothing_heavy():
    heavy = ("numpy", "sklearn", "numba", "scipy", "matplotlib", "torch")
    code = f"import sys, epls; print([m for m in {heavy} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_public_names():
    for name in epls.__all__:
        assert getattr(epls, name) is not None
    assert dir(epls) == sorted(epls.__all__)
    with pytest.raises(AttributeError, match="nothing"):
        epls.nothing  # noqa: B018


SCRIPTS = sorted(p for p in (ROOT / "benchmarks").rglob("*.py") if p.name != "common.py")


@pytest.mark.slow
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_benchmarks_run(script, tmp_path):
    """At least as far as their help; those with a quick form, through it."""
    quick = "--quick" if "--quick" in script.read_text() else "--help"
    run = subprocess.run(
        [sys.executable, str(script), quick], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout


def test_no_json_has_nan():
    """JSON has no NaN and no infinity: other programs could not read what Python writes for them."""
    calls = [
        (path, node)
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("json.dump", "json.dumps")
    ]
    assert calls
    lax = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, node in calls
        if not any(keyword.arg == "allow_nan" and ast.unparse(keyword.value) == "False" for keyword in node.keywords)
    ]
    assert lax == [], "give allow_nan=False"
