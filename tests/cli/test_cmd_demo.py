import json
from pathlib import Path

import pytest
from PIL import Image

from epls.cli.demo import classify_digits
from epls.cli.main import run


@pytest.mark.slow
def test_demo_ends_with_pictures_and_figures(tmp_path, capsys):
    assert run(["demo", "--quick", "--output", str(tmp_path / "a" / "b")]) == 0
    printed = capsys.readouterr().out
    assert "never active units: 0" in printed
    assert "differ by at most 1" in printed
    with Image.open(tmp_path / "a" / "b" / "filters.png") as picture:
        assert min(picture.size) > 300
        assert len(picture.convert("RGB").getcolors(maxcolors=1_000_000)) > 50
    assert "Handwritten digits" in (tmp_path / "a" / "b" / "explore.html").read_text()
    assert "Filters of two photographs" in (tmp_path / "a" / "b" / "report.html").read_text()


@pytest.mark.slow
def test_demo_as_json(tmp_path, capsys):
    assert run(["demo", "--quick", "--output", str(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["filters"]["win spread"] <= 1
    assert all(Path(name).is_file() for name in told["files"])


def test_demo_says_when_it_cannot_write(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert run(["demo", "--output", str(tmp_path / "file")]) == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_a_full_disk_leaves_no_half_of_a_picture(tmp_path, capsys, full_disk):
    assert run(["demo", "--quick", "--output", str(tmp_path)]) == 1
    assert "the disk is full" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_learned_features_beat_pixels_and_pca_with_few_labels():
    scores = classify_digits(n_components=50, n_splits=10)
    raw, pca, epls = scores.values()
    assert epls.mean() > raw.mean() + 2
    assert epls.mean() > pca.mean() + 2
