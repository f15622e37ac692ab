"""How the command ends: exit codes, one line for an error, nothing left half-written."""

import io
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from run_command import check_error, epls

from epls import load_model, save_model
from epls.cli import options
from epls.cli.main import run


def test_help_is_quick_and_loads_nothing_heavy():
    code = (
        "import sys; from epls.cli.main import run; run(['--help']); "
        "print([m for m in ('numpy', 'sklearn', 'numba', 'scipy', 'rich') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "reproduce" in run.stdout
    assert run.stdout.strip().endswith("[]")


def test_a_full_disk_leaves_nothing(work, tmp_path, capsys, full_disk):
    for arguments in (
        ["report", work / "table.epls", "--data", work / "table.parquet", "-o", tmp_path / "r.html"],
        ["fit", work / "vectors.npy", "-o", tmp_path / "m", "--n-components", 5],
        ["transform", work / "table.epls", work / "table.parquet", "-o", tmp_path / "f.npy"],
    ):
        code, _, err = epls(capsys, *arguments)
        assert code == 1
        assert "the disk is full" in err
    assert list(tmp_path.iterdir()) == []


def test_defects_end_in_one_line_too(tmp_path, monkeypatch, capsys):
    import epls.persistence

    monkeypatch.chdir(tmp_path)
    Path("model").touch()

    def broken(path):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(epls.persistence, "load_with_notes", broken)
    assert run(["inspect", "model"]) == 1
    err = capsys.readouterr().err
    assert err == "epls: ZeroDivisionError: by\\nzero; this is a bug in epls, please report it\n"
    monkeypatch.setenv("EPLS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["inspect", "model"])


def test_the_help_of_a_command_loads_nothing_heavy():
    code = (
        "import sys; from epls.cli.main import run; run(['fit', '--help']); "
        "print([m for m in ('sklearn', 'numba', 'scipy') if m in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "sparse_filtering" in run.stdout
    assert run.stdout.strip().endswith("[]")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nonsense", r"No such command 'nonsense'\.$"),
        ("fti", r"No such command 'fti'\. Did you mean fit\?$"),
        ("FIT", r"No such command 'FIT'\. Did you mean fit\?$"),
        ("trasnform", r"No such command 'trasnform'\. Did you mean transform\?$"),
    ],
)
def test_unknown_commands(name, message, tmp_path, capsys):
    check_error(capsys, tmp_path, [name], 2, message)


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [
        (["fit", "x", "--ouput", "y"], "--output"),
        (["transform", "x", "y", "--thread", "1"], "--threads"),
        (["--verson"], "--version"),
    ],
)
def test_unknown_options(arguments, meant, tmp_path, capsys):
    """click suggests what was meant."""
    check_error(capsys, tmp_path, arguments, 2, f"(?i)no such option.*did you mean.*{meant}")


EVIL = "a\x1b[31m\x07\x9b1m\u202e"  # colors, a bell, the same in one character, and text from right to left


def check_harmless(out, err):
    """Nothing but text and newlines, and the evil text in a form that can be read."""
    assert all(c.isprintable() or c == "\n" for c in out + err)
    assert r"\x07" in out + err


@pytest.mark.parametrize(
    "arguments",
    [
        ["inspect", EVIL],
        [EVIL],
        ["fit", "vectors.npy", "-o", "new", f"--{EVIL}"],
        ["fit", "vectors.npy", "-o", "new", "--set", EVIL],
        ["fit", "vectors.npy", "-o", "new", "--learner", EVIL],
        ["fit", EVIL, "-o", "new"],
        ["fit", "table.csv", "-o", "new", "--drop", EVIL],
        ["compare", EVIL, "--output", "new"],
        ["reproduce", "stl10", "--data", EVIL, "--output", "new"],
    ],
)
def test_control_characters_of_arguments_do_not_reach_the_terminal(work, monkeypatch, capsys, arguments):
    monkeypatch.chdir(work)
    code, out, err = epls(capsys, *arguments)
    assert code in (1, 2)
    check_harmless(out, err)


def test_control_characters_of_files_do_not_reach_the_terminal(tmp_path, capsys):
    """Names of files, of columns, notes of a model, and what the library logs."""
    X = np.random.RandomState(0).normal(size=(40, 2))
    (tmp_path / "t.csv").write_text(f"{EVIL},b\n" + "".join(f"{a},{b}\n" for a, b in X))
    code, out, err = epls(capsys, "fit", tmp_path / "t.csv", "-o", tmp_path / EVIL, "--n-components", 3)
    assert code == 0
    check_harmless(out, err)
    check_harmless(*epls(capsys, "inspect", tmp_path / EVIL)[1:])
    check_harmless(*epls(capsys, "transform", tmp_path / EVIL, tmp_path / "t.csv", "-o", tmp_path / f"{EVIL}.npy")[1:])
    check_harmless(
        *epls(capsys, "report", tmp_path / EVIL, "--data", tmp_path / "t.csv", "-o", tmp_path / f"{EVIL}.h")[1:]
    )
    save_model(load_model(tmp_path / EVIL), tmp_path / "noted", notes={EVIL: EVIL, "more": {EVIL: [EVIL]}})
    code, out, err = epls(capsys, "inspect", tmp_path / "noted")
    assert code == 0
    check_harmless(out, err)
    assert out.replace("\n", "").count(r"\x07") >= 4
    (tmp_path / EVIL[::-1]).mkdir()
    (tmp_path / EVIL[::-1] / "checkpoint-00000001.safetensors").write_bytes(b"nothing")
    (tmp_path / EVIL[::-1]).rename(tmp_path / f"{EVIL}run")
    arguments = ["-o", tmp_path / "m", "--checkpoint", tmp_path / f"{EVIL}run", "--learner", "epls"]
    code, out, err = epls(capsys, "fit", tmp_path / "t.csv", *arguments)
    assert code == 0
    assert "epls: warning: " in err
    assert "is damaged and ignored" in err
    check_harmless(out, err)


def test_what_commands_print_goes_through_one_function():
    """Which makes it harmless; JSON has no control characters."""
    folder = Path(options.__file__).parent
    found = {path.name: path.read_text().count("click.echo(") for path in folder.glob("*.py")}
    assert {name: number for name, number in found.items() if number} == {"options.py": 1}
    assert not any(re.search(r"(?<![._a-z])print\(", path.read_text()) for path in folder.glob("*.py"))


@pytest.mark.skipif(sys.platform == "win32", reason="Windows does not allow such names")
def test_a_newline_in_a_name_does_not_end_a_message(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("a\nb.csv").write_text("x\ny\n1\n")
    (tmp_path / "c\nd").mkdir()
    Path("t.csv").write_text('"e\nf",g\nred,1\nblue,2\n')
    for arguments, message in [
        (["fit", "a\nb.csv", "-o", "m"], r"epls: a\\nb\.csv has columns that are not numbers: x\. Leave"),
        (["fit", "c\nd", "-o", "m"], r"epls: c\\nd and its sub-folders hold no image files .*check the path"),
        (["fit", "t.csv", "-o", "m"], r"not numbers: e\\nf\. Leave them out"),
        (["inspect", "n\nm"], r"epls: there is no file n\\nm"),
    ]:
        check_error(capsys, tmp_path, arguments, 1, message)


@pytest.mark.parametrize("arguments", [["fit", "", "-o", "m"], ["explore", "", "-o", "p.html"],
                                       ["classify", "", "-o", "p.csv"], ["cluster", "", "-o", "c.csv", "--clusters", 2],
                                       ["transform", "", "-o", "f.csv"], ["compare", "", "--output", "c"],
                                       ["inspect", ""]])  # fmt: skip
def test_an_empty_path_is_not_the_current_folder(tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    check_error(capsys, tmp_path, arguments, 2, "the path is empty: give the path of a file or a folder")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("more", [[], ["--json"]])
@pytest.mark.slow
def test_what_is_printed_may_not_fit_on_the_disk(work, tmp_path, more):
    arguments = ["cluster", str(work / "vectors.npy"), "-o", str(tmp_path / "g.csv"), "--clusters", "2", *more]
    code = f"import sys; from epls.cli.main import run; sys.exit(run({arguments!r}))"
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-c", code], stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 1
    assert "the output of the command could not be printed (No space left on device)" in done.stderr
    assert "disk is full" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert (tmp_path / "g.csv").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not allow such names")
def test_names_that_are_not_utf8(tmp_path, pictures, capsys):
    """From a folder of images to all that is made of them."""
    folder = tmp_path / "\udcff\udcfe"
    for label in ("a\udcff", "b\x1b"):
        (folder / label).mkdir(parents=True)
        for number in range(4):
            content = io.BytesIO()
            Image.open(pictures / f"picture{number}.png").crop((0, 0, 30, 30)).save(content, "PNG")
            (folder / label / f"\udcf0{number}.png").write_bytes(content.getvalue())
    small = ["--n-components", 4, "--patch-size", 6, "--n-patches", 200]
    model = tmp_path / "m\udcff"
    for arguments in (
        ["fit", folder, "-o", model, *small],
        ["inspect", model],
        ["transform", model, folder, "-o", tmp_path / "f\udcff.npz"],
        ["report", model, "--data", folder, "-o", tmp_path / "r\udcff.html"],
        ["compare", folder, "--output", tmp_path / "c\udcff", "--learner", "raw", "--n-folds", 2, *small],
    ):
        code, out, err = epls(capsys, *arguments)
        assert code == 0, err
        (out + err).encode()
    assert r"m\udcff: what was learned" in (tmp_path / "r\udcff.html").read_text(encoding="utf-8")
    assert np.load(tmp_path / "f\udcff.npz")["names"][0] == "a\udcff/\udcf00.png"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("arguments", [["fit", "{pipe}", "-o", "new"], ["inspect", "{pipe}"],
                                       ["transform", "{pipe}", "table.csv", "-o", "new.npy"],
                                       ["report", "table.epls", "--data", "{pipe}", "-o", "new.html"],
                                       ["transform", "table.epls", "table.csv", "-o", "{pipe}", "--force"],
                                       ["fit", "table.csv", "-o", "{pipe}", "--force"]])  # fmt: skip
def test_pipes_are_not_waited_for(work, tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(work)
    os.mkfifo(tmp_path / "p.npy")
    check_error(capsys, work, [word.format(pipe=tmp_path / "p.npy") for word in arguments], 1, "not a regular file")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
def test_a_pipe_among_checkpoints_is_passed_over(work, tmp_path, capsys):
    os.mkfifo(tmp_path / "checkpoint-00000001.safetensors")
    arguments = ["fit", work / "vectors.npy", "-o", tmp_path / "m", "--learner", "epls", "--checkpoint", tmp_path]
    code, _, err = epls(capsys, *arguments)
    assert code == 0
    assert "is damaged and ignored" in err


@pytest.mark.parametrize("notes", [{"feature_names": 5}, {"feature_names": [1, 2]}, {"feature_names": {"a": 1}}])
def test_notes_that_say_nothing_about_columns(work, tmp_path, capsys, notes):
    save_model(load_model(work / "table.epls"), tmp_path / "m", notes=notes)
    for arguments in (
        ["transform", tmp_path / "m", work / "table.csv", "-o", tmp_path / "f.npy"],
        ["report", tmp_path / "m", "--data", work / "table.csv", "-o", tmp_path / "r.html"],
        ["inspect", tmp_path / "m"],
    ):
        code, _, err = epls(capsys, *arguments)
        assert code == 1
        assert "the model's note 'feature_names' is" in err


@pytest.mark.parametrize("notes", [{"channels": ["gray"]}, {"longest_side": "evil"}, {"longest_side": -5}])
def test_notes_that_say_nothing_about_images(work, tmp_path, capsys, notes):
    save_model(load_model(work / "photos.epls"), tmp_path / "m", notes=notes)
    code, _, err = epls(capsys, "transform", tmp_path / "m", work / "photos", "-o", tmp_path / "f.npz")
    assert code == 1
    assert f"the model's note '{next(iter(notes))}' is" in err


def test_outputs_that_are_inputs_are_refused(work, tmp_path, monkeypatch, capsys):
    """By their name, another spelling, a link, and as one of many files that are read."""
    monkeypatch.chdir(tmp_path)
    for name in ("vectors.npy", "table.csv", "table.epls"):
        shutil.copy(work / name, tmp_path)
    shutil.copytree(work / "photos", "photos")
    Path("parts").mkdir()
    np.save("parts/0.npy", np.ones((30, 5)))
    shutil.copy("table.epls", "model.html")
    for name, target in {"link": "model.html", "link.html": "table.epls", "data.html": "table.csv"}.items():
        Path(name).symlink_to(target)
    Path("link.npy").symlink_to("parts/0.npy")
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    for arguments in (
        ["fit", "vectors.npy", "-o", "photos/../vectors.npy"],
        ["fit", "photos", "-o", "photos/0.png"],
        ["fit", "parts", "-o", "parts/0.npy"],
        ["fit", "parts", "-o", "link.npy"],
        ["report", "table.epls", "--data", "table.csv", "-o", "link.html"],
        ["report", "link", "--data", "table.csv", "-o", "./model.html"],
        ["report", "table.epls", "--data", "table.csv", "-o", "data.html"],
        ["transform", "table.epls", "parts", "-o", tmp_path / "parts" / "0.npy"],
    ):
        code, _, err = epls(capsys, *arguments, "--force")
        assert code == 1
        assert "is an input" in err
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["fit", "{work}/vectors.npy", "-o", "dangling"],
        ["fit", "{work}/vectors.npy", "-o", "nowhere/m"],
        ["report", "{work}/table.epls", "--data", "{work}/table.csv", "-o", "dangling.html"],
        ["transform", "{work}/table.epls", "{work}/table.csv", "-o", "nowhere/f.npy"],
        ["fit", "{work}/vectors.npy", "-o", "file/m"],
        ["compare", "{work}/photos", "--output", "file"],
        ["compare", "{work}/photos", "--output", "file/below"],
        ["compare", "{work}/photos", "--output", "occupied"],
        ["compare", "{work}/photos", "--output", "piped"],
        ["reproduce", "stl10", "--data", "{stl10}", "--output", "file"],
        ["reproduce", "stl10", "--data", "{stl10}", "--output", "piped"],
    ],
)
def test_outputs_are_checked_before_there_is_work(work, stl10, tmp_path, monkeypatch, capsys, arguments):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epls.learners.base.Learner.fit", lambda *_: pytest.fail("it was trained"))
    for name in ("dangling", "dangling.html"):
        Path(name).symlink_to("nowhere/there")
    Path("file").touch()
    Path("occupied/compare.html").mkdir(parents=True)
    Path("piped").mkdir()
    Path("piped/stages").touch()
    words = [word.format(work=work, stl10=stl10) for word in arguments]
    message = "is a file" if words[-1].startswith("file") else "does not exist|is (not )?a folder: remove|is a file"
    check_error(capsys, tmp_path, words, 1, message)


def test_sigterm_ends_as_ctrl_c_does(capsys, monkeypatch):
    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("epls.cli.main.epls.main", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM))
    assert run(["demo"]) == 1
    assert "interrupted; no file was left half-written" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


def test_completion_completes():
    words = {"COMP_WORDS": "epls rep", "COMP_CWORD": "1", "_EPLS_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'epls'; from epls.cli import main; main()"]
    found = subprocess.run(command, env=os.environ | words, capture_output=True, text=True)
    assert {line.split(",")[1] for line in found.stdout.split()} == {"report", "reproduce"}
