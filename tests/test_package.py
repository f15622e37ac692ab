"""How the package hangs together."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import epls

SOURCE = Path(epls.__file__).parent
# The rooms in the order of the data's way: a module imports only from its own room and from those before it.
ROOMS = [
    {"_version"},
    {"kernels", "utils", "callbacks"},
    {"data"},
    {"algorithm"},
    {"solvers"},
    {"learners"},
    {"encoders"},
    {"datasets"},
    {"images"},
    {"metrics"},
    {"plotting"},
    {"persistence"},
    {"evaluation"},
    {"report"},
    {"onnx", "torch", "distributed"},
    {"cli"},
]


def room_of(module):
    """The number of the room that has the module by its full name, or else by the first part of it."""
    named = {name: k for k, names in enumerate(ROOMS) for name in names}
    return named.get(module, named.get(module.split(".")[0]))


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


@pytest.mark.slow
@pytest.mark.parametrize("script", sorted((SOURCE.parents[1] / "benchmarks").glob("*.py")), ids=lambda p: p.stem)
def test_benchmarks_run(script, tmp_path):
    """At least as far as their help; those with a quick form, through it."""
    quick = "--quick" if "--quick" in script.read_text() else "--help"
    run = subprocess.run(
        [sys.executable, str(script), quick], capture_output=True, text=True, cwd=tmp_path, check=False
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
