"""The wheel and the source archive: built, checked, and installed where nothing else of the repository is."""

import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import numpy
import pytest
from sklearn.datasets import load_digits

import epls
from epls import load_model

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory):
    """A folder with both. Nothing is downloaded: hatchling is installed beside the tests."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, ROOT)
    return folder


@pytest.mark.slow
def test_the_wheel_holds_the_package_and_nothing_else(dist):
    with zipfile.ZipFile(dist / f"epls-{epls.__version__}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
    package = {name for name in names if name.startswith("epls/")}
    assert {
        f"epls/{name}" for name in ("py.typed", "__init__.pyi", "cli/main.py", "report/assets/model.html")
    } < package
    source = {f"epls/{p.relative_to(ROOT / 'src' / 'epls').as_posix()}" for p in (ROOT / "src" / "epls").rglob("*.*")}
    assert package == {name for name in source if "__pycache__" not in name}
    assert {name.split("/")[0] for name in names - package} == {f"epls-{epls.__version__}.dist-info"}


@pytest.mark.slow
def test_the_source_archive_can_be_tested(dist):
    with tarfile.open(dist / f"epls-{epls.__version__}.tar.gz") as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames()}
    needed = {"LICENSE", "Makefile", "docs/architecture.md", "examples/plot_pipeline.py", "tests/conftest.py"}
    assert needed < names
    assert not any("__pycache__" in name or name.startswith((".venv", "demo_output")) for name in names)


@pytest.mark.slow
def test_an_index_would_accept_them(dist):
    pytest.importorskip("twine")
    run(sys.executable, "-m", "twine", "check", "--strict", *dist.iterdir())


@pytest.mark.slow
def test_installed_in_a_clean_environment(dist, tmp_path):
    """It sees the libraries of this environment, so that nothing is downloaded, but not the repository."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "env")
    scripts = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin")
    python, command = scripts / "python", scripts / "epls"
    (wheel,) = dist.glob("*.whl")
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel)
    (site_packages,) = (tmp_path / "env").rglob("site-packages")
    (site_packages / "libraries.pth").write_text(f"{Path(numpy.__file__).parents[1]}\n")
    alone = {"cwd": tmp_path, "env": {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}}
    assert str(site_packages) in run(python, "-c", "import epls; print(epls.__file__)", **alone)
    assert epls.__version__ in run(command, "--version", **alone)
    numpy.save(tmp_path / "digits.npy", load_digits().data[:200])
    run(command, "fit", "digits.npy", "-o", "model.epls", "--n-components", "5", "--set", "max_iter=2", **alone)
    assert load_model(tmp_path / "model.epls").n_iter_ == 2


def test_versions_agree():
    """A development version belongs to the release that follows it."""
    released = re.sub(r"\.dev\d+$", "", epls.__version__)
    assert re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1] == released
    assert f'version = "{released}"' in (ROOT / "conda" / "meta.yaml").read_text()
    assert f"## {released}" in (ROOT / "CHANGELOG.md").read_text()
    assert f'"version": "{released.rsplit(".", 1)[0]}"' in (ROOT / "docs" / "switcher.json").read_text()


def test_the_conda_recipe_requires_the_same():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "meta.yaml").read_text()
    extras = project["optional-dependencies"]
    names = re.fullmatch(r"epls\[(.*)\]", extras["all"][0])[1].split(",")
    for requirement in project["dependencies"] + [needed for name in names for needed in extras[name]]:
        name, least = requirement.replace("matplotlib", "matplotlib-base").split(">=")
        assert f"- {name} >={least}\n" in recipe
