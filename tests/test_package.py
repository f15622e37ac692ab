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


def module_of(path):
    """The name of a file's module below `epls`, without `__init__`."""
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(path): path for path in sorted(SOURCE.rglob("*.py"))}


def imports_in(tree, path):
    """The modules of the package that are imported anywhere below a node, also inside functions."""
    folder = path.relative_to(SOURCE).parent.parts
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (name.name.removeprefix("epls.") for name in node.names if name.name.startswith("epls."))
        if not isinstance(node, ast.ImportFrom):
            continue
        if node.level:
            base = [*folder[: len(folder) - node.level + 1], *(node.module or "").split(".")]
        elif (node.module or "").split(".")[0] == "epls":
            base = node.module.split(".")[1:]
        else:
            continue
        base = ".".join(filter(None, base))
        for name in node.names:  # a name may be that of a module
            inner = f"{base}.{name.name}".lstrip(".")
            if found := inner if inner in MODULES else base:  # not a public name of the package itself
                yield found


def test_imports_go_one_way():
    order = rooms()
    wrong = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if module
        for other in imports_in(ast.parse(path.read_text()), path)
        if order.index(other.split(".")[0]) > order.index(module.split(".")[0])
    ]
    assert wrong == []


def test_nothing_of_our_own_is_imported_for_type_checkers_only():
    """It would hide that two modules need each other. Commands may: `epls --help` must not load the library."""
    hidden = [
        f"{module} imports {other}"
        for module, path in MODULES.items()
        if not module.startswith("cli")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for other in imports_in(node, path)
    ]
    assert hidden == []


def test_no_modules_import_each_other():
    """Also within a room, and inside functions."""
    left = {
        module: set(imports_in(ast.parse(path.read_text()), path)) & MODULES.keys() - {module}
        for module, path in MODULES.items()
        if path.name != "__init__.py"
    }
    while left:
        wanted = set().union(*left.values())
        free = [module for module, imported in left.items() if module not in wanted or not imported & left.keys()]
        assert free, f"these import each other: {sorted(left)}"
        for module in free:
            del left[module]


def test_the_page_names_every_room():
    there = {path.stem for path in SOURCE.iterdir() if path.name != "__init__.py" and path.suffix in ("", ".py")}
    assert set(rooms()) == there - {"__pycache__", "py"}
    assert len(rooms()) == len(set(rooms()))


def test_only_processes_that_learn_together_listen():
    """Nothing else imports what opens ports."""
    opens = re.compile(
        r"^\s*(?:import|from) (?:\S+, )*(?:socket|socketserver|http|asyncio|xmlrpc)\b", flags=re.MULTILINE
    )
    assert {name for name, path in MODULES.items() if opens.search(path.read_text())} == {"torch.distributed"}


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


NO_SCRIPTS = ("common.py", "embeddings_methods.py")
SCRIPTS = sorted(p for p in (ROOT / "benchmarks").rglob("*.py") if p.name not in NO_SCRIPTS)


@pytest.mark.slow
@pytest.mark.nightly
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
