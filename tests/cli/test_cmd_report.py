"""`epls report`: a page about a model."""

import json

import pytest
from run_command import check_error, epls


def test_images(work, tmp_path, capsys):
    code, out, _ = epls(
        capsys, "report", work / "photos.epls", "--data", work / "photos", "-o", tmp_path / "r.html", "--json"
    )
    assert code == 0
    html = (tmp_path / "r.html").read_text()
    assert json.loads(out)["bytes"] == (tmp_path / "r.html").stat().st_size
    assert "photos.epls: what was learned" in html
    assert '"name":"0.png"' in html


@pytest.mark.parametrize("name", ["alone", "scaled"])
def test_several_layers(stack, pictures, tmp_path, capsys, name):
    output = tmp_path / "r.html"
    code, _, err = epls(capsys, "report", stack / f"{name}.epls", "--data", pictures, "-o", output)
    assert code == 0
    assert "encode: 6 of 6" in err
    html = output.read_text()
    assert "2 of 2: EPLS, 10 units in 2 groups" in html
    assert '"name":"picture3.png"' in html


def test_vectors_with_the_names_of_the_table(work, tmp_path, capsys):
    output = tmp_path / "r.html"
    code, _, _ = epls(capsys, "report", work / "table.epls", "--data", work / "table.parquet", "-o", output)
    assert code == 0
    assert "worst concave points" in output.read_text()


def test_nothing_is_overwritten_unless_forced(work, tmp_path, capsys):
    output = tmp_path / "r.html"
    output.write_text("mine")
    arguments = ["report", work / "table.epls", "--data", work / "table.parquet", "-o", output]
    code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert "--force" in err
    assert output.read_text() == "mine"
    assert epls(capsys, *arguments, "--force")[0] == 0


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["report", "scaler.epls", "--data", "vectors.npy", "-o", "new.html"], 1, "has no units to show"),
        (["report", "table.epls", "--data", "photos", "-o", "new.html"], 1, "but photos holds images"),
        (["report", "photos.epls", "--data", "empty", "-o", "new.html"], 1, "hold no image files"),
        (
            ["report", "table.csv", "--data", "table.csv", "-o", "new.html"],
            1,
            "not a file that `epls fit` or save_model wrote",
        ),
    ],
)
def test_errors_are_one_line(work, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(work)
    check_error(capsys, work, arguments, code, message)


def test_the_model_is_not_overwritten(work, tmp_path, capsys):
    model = tmp_path / "m.html"
    model.write_bytes((work / "photos.epls").read_bytes())
    for name in ("m.html", "link.html"):
        if name != "m.html":
            (tmp_path / name).symlink_to(model)
        code, _, err = epls(capsys, "report", model, "--data", work / "photos", "-o", tmp_path / name, "--force")
        assert code == 1
        assert "is an input" in err
    assert model.read_bytes() == (work / "photos.epls").read_bytes()
