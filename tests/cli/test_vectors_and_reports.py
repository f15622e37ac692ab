"""From files of vectors and images to models, features and pages, by commands."""

import io
import json
import os
import re
import signal
import subprocess
import sys

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from run_command import epls
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, ImageFeatures, ImageFolder, load_model, read_notes, save_model
from epls.cli.main import run


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """A folder with photographs, a table, an array, and the models of the first two."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "photos").mkdir()
    for number, image in enumerate(load_sample_images().images):
        Image.fromarray(image[:90, :120]).save(folder / "photos" / f"{number}.png")
    frame = load_breast_cancer(as_frame=True).frame
    frame.to_csv(folder / "table.csv", index=False)
    frame.drop(columns="target").to_parquet(folder / "table.parquet")
    np.save(folder / "vectors.npy", np.random.RandomState(0).normal(size=(300, 5)).astype(np.float32))
    assert run(["fit", f"{folder}/photos", "-o", f"{folder}/photos.epls", "--units", "12", "--patches", "600"]) == 0
    assert run(["fit", f"{folder}/table.csv", "-o", f"{folder}/table.epls", "--units", "10", "--drop", "target"]) == 0
    return folder


class TestVectors:
    def test_a_table_is_scaled(self, work, capsys):
        X = load_breast_cancer().data
        by_hand = make_pipeline(StandardScaler(), EPLS(10, random_state=0)).fit(X)
        assert_allclose(load_model(work / "table.epls").transform(X), by_hand.transform(X), rtol=1e-6)
        notes = read_notes(work / "table.epls")
        assert notes["feature_names"] == list(load_breast_cancer().feature_names)
        assert notes["samples"] == 569

    def test_an_array_is_not(self, work, tmp_path, capsys):
        code, out, _ = epls(capsys, "fit", work / "vectors.npy", "-o", tmp_path / "m", "--units", 8, "--json")
        assert code == 0
        told = json.loads(out)
        X = np.load(work / "vectors.npy")
        model = load_model(tmp_path / "m")
        assert_allclose(model.components_, EPLS(8, random_state=0).fit(X).components_)
        assert told["units"] == 8
        assert told["unresponsive units"] == 0

    def test_transform_reads_either_kind_of_table(self, work, tmp_path, capsys):
        model = work / "table.epls"
        for name in ("table.csv", "table.parquet"):  # the first has a column that the model does not know
            code, out, _ = epls(capsys, "transform", model, work / name, "-o", tmp_path / f"{name}.npy")
            assert code == 0, name
            assert "569 vectors, 10 each" in out
        expected = load_model(model).transform(load_breast_cancer().data)
        assert_allclose(np.load(tmp_path / "table.csv.npy"), expected, atol=1e-6)
        assert_allclose(np.load(tmp_path / "table.parquet.npy"), expected, atol=1e-6)

    def test_a_model_of_python_finds_its_columns(self, work, tmp_path, capsys):
        frame = load_breast_cancer(as_frame=True).data
        model = EPLS(5, max_iter=2, random_state=0).fit(frame[["mean area", "mean radius"]])
        save_model(model, tmp_path / "m")
        assert epls(capsys, "transform", tmp_path / "m", work / "table.csv", "-o", tmp_path / "f.npy")[0] == 0
        assert_allclose(np.load(tmp_path / "f.npy"), model.transform(frame[["mean area", "mean radius"]]), atol=1e-6)

    def test_names_in_capitals(self, work, tmp_path, capsys):
        (tmp_path / "X.CSV").write_bytes((work / "table.csv").read_bytes())
        assert epls(capsys, "fit", tmp_path / "X.CSV", "-o", tmp_path / "m", "--units", 5)[0] == 0

    def test_other_learners(self, work, tmp_path, capsys):
        code, _, _ = epls(capsys, "fit", work / "vectors.npy", "-o", tmp_path / "m", "--units", 6, "--learner", "omp")
        assert code == 0
        assert type(load_model(tmp_path / "m")).__name__ == "OMP"

    @pytest.mark.parametrize(
        ("arguments", "code", "message"),
        [
            (["fit", "table.csv", "-o", "new", "--patch-size", 5], 2, "--patch-size is for images"),
            (["fit", "photos", "-o", "new", "--scale"], 2, "--scale is for vectors"),
            (["fit", "photos", "-o", "new", "--drop", "x"], 2, "--drop is for .csv and .parquet, not for photos"),
            (["fit", "photos", "-o", "new", "--key", "x"], 2, "--key is for .npz"),
            (["fit", "table.csv", "-o", "new", "--longest-side", 9], 2, "--longest-side is for folders of images"),
            (["fit", "vectors.npy", "-o", "new", "--skip-bad"], 2, "--skip-bad is for folders of images"),
            (["fit", "photos", "-o", "new", "--alpha", 1], 2, "the encoder natural has none"),
            (["fit", "vectors.npy", "-o", "new", "--learner", "raw", "--units", 3], 2, "as many units as there are"),
            (["fit", "bad.npy", "-o", "new"], 1, "contains NaN"),
            (["fit", "complex.npy", "-o", "new"], 1, "must be real numbers"),
            (["fit", "twice.csv", "-o", "new"], 1, "several columns called 'a'"),
            (["fit", "headless.csv", "-o", "new"], 1, "add a line of names"),
            (["report", "scaler.epls", "--data", "vectors.npy", "-o", "new.html"], 1, "has no units to show"),
            (["fit", "photos/0.png", "-o", "new"], 1, "a single image in a folder"),
            (["fit", "table.epls", "-o", "new"], 1, "its name does not end in"),
            (["fit", "nothing.csv", "-o", "new"], 1, "there is no file nothing.csv"),
            (["fit", "missing.csv", "-o", "new"], 1, r"missing or infinite: b \(1\)"),
            (["fit", "cube.npy", "-o", "new"], 1, r"shape \(2, 2, 2, 2, 2\)"),
            (["transform", "table.epls", "photos", "-o", "new.npy"], 1, "from vectors, but photos holds images"),
            (["transform", "photos.epls", "vectors.npy", "-o", "new.npy"], 1, "from images, but vectors.npy holds vec"),
            (["transform", "table.epls", "vectors.npy", "-o", "new.npy"], 1, "5 features"),
            (["transform", "table.epls", "other.csv", "-o", "new.npy"], 1, "no column mean radius"),
            (["report", "table.epls", "--data", "photos", "-o", "new.html"], 1, "but photos holds images"),
            (["report", "photos.epls", "--data", "empty", "-o", "new.html"], 1, "hold no image files"),
            (["report", "table.csv", "--data", "table.csv", "-o", "new.html"], 1, "not a model that epls wrote"),
            (["inspect", "vectors.npy"], 1, "not a model that epls wrote"),
            (["inspect", "nothing"], 1, "there is no file nothing"),
        ],
    )
    def test_errors_are_one_line(self, work, monkeypatch, capsys, arguments, code, message):
        (work / "empty").mkdir(exist_ok=True)
        np.save(work / "cube.npy", np.zeros((2,) * 5))
        np.save(work / "bad.npy", np.full((30, 3), np.nan))
        np.save(work / "complex.npy", np.ones((30, 3), complex))
        (work / "twice.csv").write_text("a,a\n1,2\n3,4\n")
        (work / "headless.csv").write_text("1,2\n3,4\n5,6\n")
        save_model(StandardScaler().fit(np.load(work / "vectors.npy")), work / "scaler.epls")
        (work / "missing.csv").write_text("a,b\n1,2\n3,\n5,6\n")
        load_breast_cancer(as_frame=True).data.drop(columns="mean radius").to_csv(work / "other.csv", index=False)
        monkeypatch.chdir(work)
        before = {path.name for path in work.iterdir()}
        found, out, err = epls(capsys, *arguments)
        assert found == code
        assert out == ""
        assert re.search(message, err)
        assert "Traceback" not in err
        if code == 1:
            assert len([line for line in err.splitlines() if not re.fullmatch(r"[a-z ]+: \d+ of \d+", line)]) == 1
        assert {path.name for path in work.iterdir()} == before


class TestInspect:
    def test_tells_what_is_there(self, work, capsys):
        code, out, err = epls(capsys, "inspect", work / "photos.epls")
        assert (code, err) == (0, "")
        assert re.search(r"units +12 *\n", out)
        assert "10 x 10 pixels, 3 channel(s)" in out
        assert "population sparsity" in " ".join(out.split())
        assert "epls report draws them" in out  # this is no terminal

    def test_vectors_have_names(self, work, capsys):
        _, out, _ = epls(capsys, "inspect", work / "table.epls")
        assert re.search(r"unit 0: .*(mean|worst|error)", out)

    def test_names_are_not_read_as_colours(self, tmp_path, capsys):
        (tmp_path / "t.csv").write_text("[red]a,b[/b]\n" + "".join(f"{k},{k * k % 7}\n" for k in range(30)))
        assert epls(capsys, "fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--units", 3)[0] == 0
        code, out, _ = epls(capsys, "inspect", tmp_path / "m")
        assert code == 0
        assert "[red]a" in out
        assert "b[/b]" in out

    def test_pipelines_that_begin_with_images(self, work, tmp_path, capsys):
        features = load_model(work / "photos.epls")
        images = ImageFolder(work / "photos")
        model = make_pipeline(features, StandardScaler())
        model.steps[-1][1].fit(features.transform(images))
        save_model(model, tmp_path / "m")
        code, out, _ = epls(capsys, "inspect", tmp_path / "m")
        assert code == 0
        assert "Pipeline of ImageFeatures, StandardScaler" in out
        assert epls(capsys, "transform", tmp_path / "m", work / "photos", "-o", tmp_path / "f.npy")[0] == 0
        assert_allclose(np.load(tmp_path / "f.npy"), model.transform(images), rtol=1e-4, atol=1e-5)
        assert epls(capsys, "report", tmp_path / "m", "--data", work / "photos", "-o", tmp_path / "r.html")[0] == 0

    def test_encoders_given_as_objects(self, work, tmp_path, capsys):
        arguments = [
            "--units",
            6,
            "--patches",
            300,
            "--encoder",
            "sc",
            "--alpha",
            0.5,
            "--no-split-sign",
            "--stride",
            9,
        ]
        assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", *arguments)[0] == 0
        model = load_model(tmp_path / "m")
        assert isinstance(model, ImageFeatures)
        assert model.encoder_.alpha == 0.5
        assert len(model.get_feature_names_out()) == 4 * 6
        code, out, _ = epls(capsys, "inspect", tmp_path / "m", "--json")
        assert code == 0
        assert "SparseCodingEncoder" in json.loads(out)["settings"]["encoder"]

    def test_json(self, work, capsys):
        _, out, _ = epls(capsys, "inspect", work / "table.epls", "--json")
        told = json.loads(out)
        assert told["units"] == 10
        assert told["measured when it was learned"]["unresponsive units"] == 0

    def test_filters_in_colour(self, work):
        """Every filter is there, two pixels a character, in the colours of the picture."""
        from rich.console import Console

        from epls.cli.inspect import _draw
        from epls.plotting import filter_pictures

        model = load_model(work / "photos.epls")
        filters = model.estimator_.components_.reshape(-1, 10, 10, 3)
        screen = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor", width=80)
        _draw(screen, filters)
        text = screen.file.getvalue()
        assert text.count("▀") == 12 * 10 * 5
        red, green, blue = filter_pictures(filters)[0, 0, 0]
        assert f"38;2;{red};{green};{blue}" in text


class TestReport:
    def test_images(self, work, tmp_path, capsys):
        code, out, _ = epls(
            capsys, "report", work / "photos.epls", "--data", work / "photos", "-o", tmp_path / "r.html", "--json"
        )
        assert code == 0
        html = (tmp_path / "r.html").read_text()
        assert json.loads(out)["bytes"] == (tmp_path / "r.html").stat().st_size
        assert "photos.epls: what was learned" in html
        assert '"name":"0.png"' in html

    def test_vectors_with_the_names_of_the_table(self, work, tmp_path, capsys):
        output = tmp_path / "r.html"
        code, _, _ = epls(capsys, "report", work / "table.epls", "--data", work / "table.parquet", "-o", output)
        assert code == 0
        assert "worst concave points" in output.read_text()

    def test_the_model_remembers_how_images_were_read(self, work, tmp_path, capsys):
        arguments = ["--units", 8, "--patches", 300, "--longest-side", 40, "--channels", "grey"]
        assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", *arguments)[0] == 0
        assert epls(capsys, "transform", tmp_path / "m", work / "photos", "-o", tmp_path / "f.npy")[0] == 0
        small = ImageFolder(work / "photos", longest_side=40, channels="grey")
        assert small.shapes[0] == (30, 40)
        assert_allclose(np.load(tmp_path / "f.npy"), load_model(tmp_path / "m").transform(small), rtol=1e-5)

    def test_nothing_is_overwritten_unless_forced(self, work, tmp_path, capsys):
        output = tmp_path / "r.html"
        output.write_text("mine")
        arguments = ["report", work / "table.epls", "--data", work / "table.parquet", "-o", output]
        code, _, err = epls(capsys, *arguments)
        assert code == 1
        assert "--force" in err
        assert output.read_text() == "mine"
        assert epls(capsys, *arguments, "--force")[0] == 0

    def test_a_full_disk_leaves_nothing(self, work, tmp_path, capsys, full_disk):
        for arguments in (
            ["report", work / "table.epls", "--data", work / "table.parquet", "-o", tmp_path / "r.html"],
            ["fit", work / "vectors.npy", "-o", tmp_path / "m", "--units", 5],
            ["transform", work / "table.epls", work / "table.parquet", "-o", tmp_path / "f.npy"],
        ):
            code, _, err = epls(capsys, *arguments)
            assert code == 1
            assert "the disk is full" in err
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion(shell, capsys):
    code, out, _ = epls(capsys, "completion", shell)
    assert code == 0
    assert "_EPLS_COMPLETE" in out


def test_completion_completes():
    words = {"COMP_WORDS": "epls rep", "COMP_CWORD": "1", "_EPLS_COMPLETE": "bash_complete"}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'epls'; from epls.cli import main; main()"]
    found = subprocess.run(command, env=os.environ | words, capture_output=True, text=True)
    assert {line.split(",")[1] for line in found.stdout.split()} == {"report", "reproduce"}


SLOW = "import numpy as np; np.save('large.npy', np.random.RandomState(0).normal(size=(300_000, 40)))"


@pytest.mark.parametrize(
    "arguments", [["fit", "large.npy", "-o", "new", "--units", "200"], ["demo", "--output", "new"]]
)
def test_ctrl_c_leaves_nothing_half_written(arguments, tmp_path):
    subprocess.run([sys.executable, "-c", SLOW], cwd=tmp_path, check=True)
    # Where the tests run in the background, Ctrl-C is ignored, and children inherit that.
    script = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\nfrom epls.cli import main; main()"
    )
    command = [sys.executable, "-c", script, *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        # Until it is at work: a command says so on one of the two.
        stream = process.stderr if arguments[0] == "fit" else process.stdout
        assert stream.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "interrupted" in err
    assert "Traceback" not in err
    left = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {"large.npy"}


def test_defects_end_in_one_line_too(monkeypatch, capsys):
    import epls.persistence

    def broken(path):
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr(epls.persistence, "load_model", broken)
    assert run(["inspect", "model"]) == 1
    err = capsys.readouterr().err
    assert err == "epls: ZeroDivisionError: by; this is a defect of epls, please report it\n"
    monkeypatch.setenv("EPLS_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        run(["inspect", "model"])
