from PIL import Image

from epls.cli.main import run


def test_demo_draws_and_tells_figures(tmp_path, capsys):
    assert run(["demo", "--quick", "--output", str(tmp_path / "pictures")]) == 0
    out = capsys.readouterr().out
    assert "dead outputs: 0" in out
    rows = [line for line in out.splitlines() if line.startswith(("  raw", "  PCA", "  EPLS"))]
    assert len(rows) == 3
    assert all(float(row.split()[-2]) > 50 for row in rows)
    for name in ("filters.png", "training.png"):
        assert Image.open(tmp_path / "pictures" / name).size[0] > 500


def test_a_folder_that_cannot_be_made_is_told(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert run(["demo", "--output", str(tmp_path / "file" / "pictures")]) == 1
    assert "pictures" in capsys.readouterr().err
