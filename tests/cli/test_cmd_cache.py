"""`epls cache`, and features that a command keeps for the next one on the same images."""

import json
import os
import shutil
import time

import numpy as np
import pytest
from PIL import Image
from run_command import check_error, epls

from epls.cli import cache
from epls.images import recipes

pytestmark = pytest.mark.usefixtures("hardly_any_training")
USED = "features that an earlier command computed are used"


@pytest.fixture
def photos(tmp_path):
    """A folder of a dozen images, seven of them in folders of two classes, an hour old."""
    folder = tmp_path / "photos"
    random = np.random.RandomState(0)
    for number in range(12):
        path = folder / ("a/{}.png", "b/{}.png", "{}.png")[number % 3 if number < 10 else 2].format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(random.randint(256, size=(20, 20, 3), dtype=np.uint8)).save(path)
        os.utime(path, (time.time() - 3600,) * 2)
    return folder


@pytest.fixture
def n_learned(monkeypatch):
    """How many times features were learned."""
    counted, learned = [], recipes.learned_features

    def counting(*arguments, **settings):
        counted.append(1)
        return learned(*arguments, **settings)

    monkeypatch.setattr(recipes, "learned_features", counting)
    return lambda: len(counted)


def page(capsys, photos, tmp_path, *more):
    """The page that a command writes, and what it says."""
    code, _, err = epls(capsys, "explore", photos, "-o", tmp_path / "page.html", "--force", *more)
    assert code == 0, err
    return (tmp_path / "page.html").read_bytes(), err


def kept(folder, ending=".features"):
    return sorted(path for path in folder.glob("*") if path.suffix == ending)


def test_every_command_uses_what_the_first_one_learned(photos, tmp_path, capsys, n_learned):
    first, err = page(capsys, photos, tmp_path)
    assert USED not in err
    second, err = page(capsys, photos, tmp_path)
    assert USED in err
    assert second == first  # filters of the model included
    for arguments in (
        ["classify", photos, "-o", tmp_path / "p.csv"],
        ["cluster", photos, "--clusters", 3, "-o", tmp_path / "c.csv"],
        ["transform", photos, "-o", tmp_path / "f.npz"],
    ):
        code, _, err = epls(capsys, *arguments)
        assert code == 0, err
        assert USED in err
    assert n_learned() == 1
    third, err = page(capsys, photos, tmp_path, "--no-cache")
    assert USED not in err
    assert third == first
    assert n_learned() == 2


def test_other_files_settings_or_code_have_other_features(photos, tmp_path, capsys, n_learned, monkeypatch):
    page(capsys, photos, tmp_path)
    for more in (["--no-mirror"], ["--seed", 1], ["--longest-side", 16], ["--channels", "gray"]):
        assert USED not in page(capsys, photos, tmp_path, *more)[1]
    os.utime(photos / "a/0.png", (time.time() - 1800,) * 2)  # touched
    assert USED not in page(capsys, photos, tmp_path)[1]
    (photos / "2.png").unlink()
    assert USED not in page(capsys, photos, tmp_path)[1]
    shutil.copytree(photos, tmp_path / "copy")
    assert USED not in page(capsys, tmp_path / "copy", tmp_path)[1]
    monkeypatch.setattr("epls._version.__version__", "0.0")
    assert USED not in page(capsys, photos, tmp_path)[1]
    assert n_learned() == 9


def test_files_that_change_while_they_are_read_are_not_kept(photos, tmp_path, capsys, own_cache, monkeypatch):
    """Their features may be those of the old content."""
    from epls.datasets import folder

    decode = folder.decode_image

    def decode_and_touch(path, *settings):
        image = decode(path, *settings)
        if path.name == "0.png":
            path.touch()
        return image

    with monkeypatch.context() as patch:
        patch.setattr(folder, "decode_image", decode_and_touch)
        page(capsys, photos, tmp_path)
    assert kept(own_cache) == []
    assert USED not in page(capsys, photos, tmp_path)[1]
    os.utime(photos / "a/0.png", (time.time() + 3600,) * 2)  # by a clock that is wrong
    page(capsys, photos, tmp_path)
    assert USED in page(capsys, photos, tmp_path)[1]


@pytest.mark.parametrize("harm", ["cut", "flip", "empty", "other", "no model", "bad model", "folder"])
def test_damaged_features_are_computed_again_without_a_word(photos, tmp_path, capsys, own_cache, n_learned, harm):
    good, _ = page(capsys, photos, tmp_path)
    (features,), (model,) = kept(own_cache), kept(own_cache, ".model")
    content = features.read_bytes()
    if harm == "cut":
        features.write_bytes(content[:-10])
    elif harm == "flip":
        features.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif harm == "empty":
        features.write_bytes(b"")
    elif harm == "other":  # complete, but of other data
        page(capsys, photos, tmp_path, "--no-mirror")
        (other,) = set(kept(own_cache)) - {features}
        shutil.copy(other, features)
    elif harm == "no model":
        model.unlink()
    elif harm == "bad model":
        model.write_bytes(model.read_bytes()[:-1])
    else:
        features.unlink()
        features.mkdir()
    before = n_learned()
    again, err = page(capsys, photos, tmp_path)
    assert USED not in err
    assert "damaged" not in err
    assert again == good
    assert n_learned() == before + 1
    assert (USED in page(capsys, photos, tmp_path)[1]) == (harm != "folder")  # repaired


@pytest.mark.parametrize("rows", [np.zeros((11, 4), "f4"), np.full((12, 4), np.nan, "f4"), np.zeros((12, 4)), None])
def test_features_of_a_stranger_are_checked(photos, tmp_path, capsys, own_cache, n_learned, rows):
    """A container that is whole and has the right name and inputs, but rows that cannot be features of the images."""
    page(capsys, photos, tmp_path)
    from epls.utils.container import read_container, write_container

    (features,) = kept(own_cache)
    header, arrays = read_container(features, 1)
    write_container(features, header, {"other": arrays["rows"]} if rows is None else {"rows": rows})
    assert USED not in page(capsys, photos, tmp_path)[1]
    assert n_learned() == 2


def test_a_folder_that_cannot_be_written_is_no_error(photos, tmp_path, capsys, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("EPLS_CACHE_DIR", str(tmp_path / "file"))
    for _ in range(2):
        _, err = page(capsys, photos, tmp_path)
        assert "the features are not kept for later commands" in err
    assert epls(capsys, "cache")[0] == 0


def test_what_was_not_used_for_longest_makes_room(photos, tmp_path, capsys, own_cache, monkeypatch):
    for seed in (1, 2):
        page(capsys, photos, tmp_path, "--seed", seed)
    for path in own_cache.iterdir():
        os.utime(path, (time.time() - 3600,) * 2)
    page(capsys, photos, tmp_path, "--seed", 1)  # used again
    _, out, _ = epls(capsys, "cache", "--json")
    facts = json.loads(out)
    assert facts["sets"] == 2
    monkeypatch.setattr(cache, "_MOST_BYTES", facts["bytes"] + 1000)  # there is no room for a third
    page(capsys, photos, tmp_path, "--seed", 3)
    assert USED in page(capsys, photos, tmp_path, "--seed", 1)[1]
    assert USED in page(capsys, photos, tmp_path, "--seed", 3)[1]
    assert USED not in page(capsys, photos, tmp_path, "--seed", 2)[1]


def test_the_command_shows_and_clears(photos, tmp_path, capsys, own_cache):
    assert epls(capsys, "cache")[1] == f"0 sets of features, 0.0 MB, in {own_cache}\n"
    page(capsys, photos, tmp_path)
    (own_cache / "mine.txt").write_text("not ours")
    n_bytes = sum(path.stat().st_size for path in (*kept(own_cache), *kept(own_cache, ".model")))
    _, out, _ = epls(capsys, "cache", "--json")
    assert json.loads(out) == {"folder": str(own_cache), "sets": 1, "bytes": n_bytes, "cleared": False}
    code, out, _ = epls(capsys, "cache", "--clear")
    assert code == 0
    assert out.startswith("removed 1 set of features, ")
    assert [path.name for path in own_cache.iterdir()] == ["mine.txt"]


def test_features_of_a_model_are_kept_with_its_file(photos, model, tmp_path, capsys):
    shutil.copy(model, tmp_path / "m.epls")
    os.utime(tmp_path / "m.epls", (time.time() - 3600,) * 2)
    first, _ = page(capsys, photos, tmp_path, "--model", tmp_path / "m.epls")
    second, err = page(capsys, photos, tmp_path, "--model", tmp_path / "m.epls")
    assert USED in err
    assert second == first
    os.utime(tmp_path / "m.epls", (time.time() - 1800,) * 2)  # another model, perhaps
    assert USED not in page(capsys, photos, tmp_path, "--model", tmp_path / "m.epls")[1]


def test_wrong_paths_are_told_at_once(tmp_path, capsys, monkeypatch):
    """Before any library is loaded, which takes seconds."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("epls.cli.options.StageProgress", None)
    (tmp_path / "d").mkdir()
    for arguments, message in (
        (["explore", "gone", "-o", "p.html"], "there is no file or folder gone: check the path"),
        (["classify", "gone.csv", "-o", "p.csv"], "there is no file gone.csv: check the path"),
        (["explore", "d", "-o", "p.html", "--model", "m"], "there is no file m: check the path"),
        (["explore", "d", "-o", "p.html", "--features", "f.npz"], "there is no file f.npz: check the path"),
        (["classify", "d", "-o", "p.csv", "--labels", "l.csv"], "there is no file l.csv: check the path"),
    ):
        check_error(capsys, tmp_path, arguments, 1, message)
