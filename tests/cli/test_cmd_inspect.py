"""`epls inspect`: what is in a model file."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from run_command import check_error, epls
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import ImageFolder, load_model, save_model


def test_tells_what_is_there(work, capsys):
    code, out, err = epls(capsys, "inspect", work / "photos.epls")
    assert (code, err) == (0, "")
    assert re.search(r"units +12 *\n", out)
    assert "channels that a unit sees: 3 of 3, patches: 10 x 10 pixels" in " ".join(out.split())
    assert "population sparsity" in " ".join(out.split())


@pytest.mark.parametrize("name", ["photos", "table"])
@pytest.mark.parametrize("columns", [1, 5, 20, 30, 60, 200])
def test_every_value_is_shown_in_any_terminal(work, capsys, monkeypatch, name, columns):
    """Broken over lines, but nothing is left out, and no line is wider than the terminal."""
    monkeypatch.setenv("COLUMNS", "10000")
    _, wide, _ = epls(capsys, "inspect", work / f"{name}.epls")
    monkeypatch.setenv("COLUMNS", str(columns))
    code, narrow, err = epls(capsys, "inspect", work / f"{name}.epls")
    assert (code, err) == (0, "")
    if columns <= 30:  # a value follows its name, and both are only broken; in a table they stand side by side
        assert "".join(narrow.split()) == "".join(wide.split())
    assert sorted("".join(narrow.split())) == sorted("".join(wide.split()))
    assert max(map(len, narrow.splitlines())) <= columns
    assert "…" not in narrow


def test_vectors_have_names(work, capsys):
    _, out, _ = epls(capsys, "inspect", work / "table.epls")
    assert re.search(r"unit 0: .*(mean|worst|error)", out)


def test_names_are_not_read_as_colors(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("[red]a,b[/b]\n" + "".join(f"{k},{k * k % 7}\n" for k in range(30)))
    assert epls(capsys, "fit", tmp_path / "t.csv", "-o", tmp_path / "m", "--n-components", 3)[0] == 0
    code, out, _ = epls(capsys, "inspect", tmp_path / "m")
    assert code == 0
    assert "[red]a" in out
    assert "b[/b]" in out


def test_pipelines_that_begin_with_images(work, tmp_path, capsys):
    features = load_model(work / "photos.epls")
    images = ImageFolder(work / "photos")
    model = make_pipeline(features, StandardScaler())
    model.steps[-1][1].fit(features.transform(images))
    save_model(model, tmp_path / "m")
    code, out, _ = epls(capsys, "inspect", tmp_path / "m")
    assert code == 0
    assert "Pipeline of ImageFeatures, StandardScaler" in out
    assert epls(capsys, "transform", tmp_path / "m", work / "photos", "-o", tmp_path / "f.npz")[0] == 0
    assert_allclose(np.load(tmp_path / "f.npz")["features"], model.transform(images), rtol=1e-4, atol=1e-5)
    assert epls(capsys, "report", tmp_path / "m", "--data", work / "photos", "-o", tmp_path / "r.html")[0] == 0


@pytest.mark.parametrize(
    ("name", "kind"), [("alone", "DeepFeatures"), ("scaled", "Pipeline of DeepFeatures, StandardScaler")]
)
def test_several_layers(stack, capsys, name, kind):
    code, out, err = epls(capsys, "inspect", stack / f"{name}.epls")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert f"kind {kind}" in text
    assert (
        "layer 1 learner: EPLS, units: 8, groups: 1, channels that a unit sees: 3 of 3, patches: 4 x 4 pixels" in text
    )
    assert "log pooling of 2 x 2 positions, every 2" in text
    assert "layer 2 learner: EPLS, units: 10, groups: 2, channels that a unit sees: 4 of 8" in text
    assert "part of the image that a unit sees: 9 x 9 pixels" in text  # 4 + 1, and 2 x 2 more
    assert "features of an image 72" in text


def test_several_layers_as_json(stack, capsys):
    told = json.loads(epls(capsys, "inspect", stack / "alone.epls", "--json")[1])
    assert [layer["units"] for layer in told["layers"]] == [8, 10]
    assert told["layers"][1]["settings of the learner"]["n_components"] == 5
    assert told["smallest image"] == "11 x 11 pixels"


def test_json(work, capsys):
    _, out, _ = epls(capsys, "inspect", work / "table.epls", "--json")
    told = json.loads(out)
    assert told["units"] == 10
    assert told["measured when it was learned"]["never active units"] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["inspect", "vectors.npy"], 1, "not a file that `epls fit` or save_model wrote"),
        (["inspect", "nothing"], 1, "there is no file nothing"),
    ],
)
def test_errors_are_one_line(work, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(work)
    check_error(capsys, work, arguments, code, message)
