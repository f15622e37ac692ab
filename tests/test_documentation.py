"""What README and docs/ show: code runs, commands and options exist, links lead somewhere, no name is left out."""

import inspect
import re
import shlex

import numpy as np
import pytest
from pages import PAGES, ROOT, name_of

import epls
from epls import callbacks, datasets, evaluation, metrics, onnx, plotting, report
from epls import torch as epls_torch


def blocks(page):
    """The language, the number of the first line and the text of each block of code."""
    language, found = None, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if language is None and line.startswith("```"):
            language, found = line.removeprefix("```"), []
        elif line == "```":
            yield language, number - len(found), "\n".join(found) + "\n"
            language = None
        elif language is not None:
            found.append(line)
    assert language is None, f"{page.name} ends within a block"


def shell_lines(page):
    """The lines of blocks without a language, which are commands."""
    return [line for language, _, text in blocks(page) if language == "" for line in text.splitlines() if line]


def inline_code(page):
    """What stands between backticks outside of blocks."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return re.findall(r"`([^`\n]+)`", text)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with photographs and scenes, which are the reader's own, where training is short."""
    from PIL import Image
    from sklearn.datasets import load_sample_images

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (4, 4, 0))
    monkeypatch.setattr("epls.images.patches.PATCHES_PER_UNIT", 2)
    monkeypatch.setattr("epls.images.patches.FEWEST_PATCHES", 1000)
    random = np.random.RandomState(0)
    photographs = load_sample_images().images
    for number, (i, j) in enumerate(random.randint(380, size=(20, 2))):
        path = tmp_path / "PHOTOS" / f"class{number % 2}" / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(photographs[number % 2][i : i + 24, j : j + 24]).save(path)
    (tmp_path / "SCENES").mkdir()
    for number in range(3):
        scene = random.randint(5000, size=(12, 12 + number, 50), dtype=np.uint16)
        np.save(tmp_path / "SCENES" / f"{number}.npy", scene)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:training ended after max_iter=20? epochs")  # cut short here
@pytest.mark.parametrize("page", [p for p in PAGES if "```python" in p.read_text()], ids=name_of)
def test_code_runs(page, folder):
    """The blocks of a page one after the other, and nothing else: a reader can paste them from top to bottom."""
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.switch_backend("Agg")
    names = {"__name__": "documentation"}
    for language, line, text in blocks(page):
        if language == "python":
            exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
    plt.close("all")


def epls_command(name):
    from epls.cli.main import epls as group

    command = group.get_command(None, name)
    assert command is not None, f"there is no command epls {name}"
    return command


def test_commands_parse(monkeypatch):
    """Commands in blocks are complete: they are read as the command line reads them, where files and packages exist."""
    monkeypatch.setattr("epls.cli.options.Path.exists", lambda path: True)
    monkeypatch.setattr("epls.utils.optional.find_spec", lambda package: True)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE)
    for line in (line for page in PAGES for line in shell_lines(page)):
        words = shlex.split(line, comments=True)
        if words[:1] == ["torchrun"]:
            words = words[words.index("-m") + 1 :]
        if words[:1] == ["make"]:
            assert set(words[1:]) <= set(targets), line
        elif words[:1] == ["epls"]:
            epls_command(words[1]).make_context(words[1], words[2:])
        else:
            assert words[0] in ("pip", "python"), f"{line}: what is it?"


def test_options_in_the_text_exist():
    """Commands in the text may be cut short, but what they say is there."""
    for code in (code for page in PAGES for code in inline_code(page)):
        words = shlex.split(code) if code.startswith(("epls ", "python benchmarks/")) else []
        options = {word.split("=")[0] for word in words if word.startswith("-")}
        if words[:1] == ["epls"] and words[1].islower():
            known = {option for p in epls_command(words[1]).params for option in (*p.opts, *p.secondary_opts)}
            assert options <= known | {"--help"}, code
        elif words[:1] == ["python"]:
            script = (ROOT / words[1]).read_text()
            assert all(f'"{option}"' in script for option in options), code


@pytest.mark.parametrize("page", ["CHANGELOG.md", "CONTRIBUTING.md", "README.md", "SECURITY.md"])
def test_links_outside_of_the_docs(page):
    """Sphinx checks those of the pages."""
    for target in re.findall(r"\]\(([^)\s]+)\)", (ROOT / page).read_text()):
        path, _, anchor = target.partition("#")
        if "://" in target:
            continue
        assert (ROOT / path).exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)", (ROOT / path).read_text(), flags=re.MULTILINE)
            assert anchor in {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}, target


def test_what_holds_the_promises_on_security_exists():
    """Each promise ends with the attacks and tests that hold it."""
    promised = (ROOT / "SECURITY.md").read_text().split("## What is promised")[1].split("\n## ")[0]
    for promise in re.split(r"^- ", promised, flags=re.MULTILINE)[1:]:
        named = re.findall(r"`([^`]+)`", promise[promise.rindex("(`") :])
        files = [name for name in named if name.endswith(".py")]
        assert files, promise
        texts = [(ROOT / name.replace("attack/", "benchmarks/attack/")).read_text() for name in files]
        for name in set(named) - set(files):
            known = (ROOT / "Makefile").read_text() if name.startswith("make ") else "".join(texts)
            assert re.search(rf"^\s*((def|class) )?{name.removeprefix('make ')}\b", known, flags=re.MULTILINE), name


def test_api_page_has_every_name():
    listed = set(re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api.rst").read_text(), flags=re.MULTILINE))
    public = {n for n in epls.__all__ if not n.startswith("_") and not inspect.ismodule(getattr(epls, n))}
    for module in (callbacks, datasets, evaluation, report, epls_torch):
        room = module.__name__.removeprefix("epls.")
        public |= {f"{room}.{name}" for name in module.__all__ if name not in public}
    for module in (metrics, onnx, plotting):
        room = module.__name__.removeprefix("epls.")
        public |= {
            f"{room}.{name}"
            for name, value in vars(module).items()
            if not name.startswith("_")
            and (inspect.isfunction(value) or inspect.isclass(value))
            and value.__module__ == module.__name__
        }
    assert public - listed == set()
