"""Images of 50 channels on the command line, from learning to the report, from every kind of file."""

import json

import numpy as np
import pytest
import tifffile
from made_up_bands import cube, tiff
from run_command import epls

FIT = ("--n-components", 6, "--patch-size", 4, "--n-patches", 200, "--set", "max_iter=2")
KINDS = ("uint8.npy", "uint16.npy", "float32.npy", "uint16.npz", "folder of npy", "folder of tiff", "folder of pages")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Five images of mixed sizes as files of every kind, and of one size as arrays."""
    folder = tmp_path_factory.mktemp("channels")
    for dtype in (np.uint8, np.uint16, np.float32):
        np.save(folder / f"{np.dtype(dtype)}.npy", np.stack([cube(14, 13, 50, dtype, seed) for seed in range(5)]))
    np.savez_compressed(folder / "uint16.npz", np.load(folder / "uint16.npy"))
    for name in ("npy", "tiff", "pages"):
        (folder / f"folder of {name}").mkdir()
    for seed in range(5):
        image = cube(13 + seed, 20 - seed, 50, seed=seed)
        np.save(folder / "folder of npy" / f"{seed}.npy", image)
        compression = "zlib" if seed > 2 else None
        (folder / "folder of tiff" / f"{seed}.tif").write_bytes(
            tiff(image, planar=seed % 2 == 1, compression=compression)
        )
        bands = np.moveaxis(image, 2, 0)
        tifffile.imwrite(folder / "folder of pages" / f"{seed}.tif", bands, photometric="minisblack")
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_from_fit_to_report(data, kind, tmp_path, capsys):
    model, rows, page = tmp_path / "m.epls", tmp_path / "rows.npz", tmp_path / "page.html"
    as_bands = ("--channels", "all") if "pages" in kind else ()
    code, out, err = epls(capsys, "fit", data / kind, "-o", model, *FIT, *as_bands, "--json")
    assert code == 0, err
    assert json.loads(out)["samples"] == 5
    assert epls(capsys, "transform", model, data / kind, "-o", rows)[0] == 0
    with np.load(rows) as features:
        assert features["features"].shape == (5, 24)
        assert np.isfinite(features["features"]).all()
        assert ("names" in features) == ("folder" in kind)
    code, out, _ = epls(capsys, "inspect", model)
    assert code == 0
    assert "channels that a unit sees: 50 of 50, patches: 4 x 4 pixels" in " ".join(out.split())
    assert epls(capsys, "report", model, "--data", data / kind, "-o", page)[0] == 0
    assert "blue is the mean of 0 to 16, green of 16 to 33, red of 33 to 49" in page.read_text()


def test_the_same_values_from_every_folder(data, tmp_path, capsys):
    model = tmp_path / "m.epls"
    assert epls(capsys, "fit", data / "folder of npy", "-o", model, *FIT)[0] == 0
    found = []
    for kind, options in (("npy", ()), ("tiff", ()), ("pages", ("--channels", "all"))):
        rows = tmp_path / f"{kind}.npz"
        assert epls(capsys, "transform", model, data / f"folder of {kind}", "-o", rows, *options)[0] == 0
        found.append(np.load(rows)["features"])
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_the_model_remembers_to_read_all_bands(data, tmp_path, capsys):
    """Without it, the pages would be read as gray images of the first band."""
    model = tmp_path / "m.epls"
    assert epls(capsys, "fit", data / "folder of pages", "--channels", "all", "-o", model, *FIT)[0] == 0
    code, _, err = epls(capsys, "transform", model, data / "folder of pages", "-o", tmp_path / "rows.npz")
    assert code == 0, err
    code, _, err = epls(
        capsys, "transform", model, data / "folder of pages", "-o", tmp_path / "x.npz", "--channels", "gray"
    )
    assert code == 1
    assert "gray, but 50-channel is needed" in err or "cannot be converted to gray" in err


def test_learners_compared_on_50_channels(tmp_path, capsys):
    random = np.random.RandomState(0)
    labels = np.arange(16) % 2
    images = np.stack([cube(12, 12, 50, np.uint8, seed) // (1 + label) for seed, label in enumerate(labels)])
    np.savez(tmp_path / "x.npz", images=images, labels=labels[random.permutation(16)])
    options = ("--learner", "epls", "--n-components", 4, "--patch-size", 4, "--n-patches", 200, "--n-folds", 2)
    code, _, err = epls(capsys, "compare", tmp_path / "x.npz", *options, "--output", tmp_path / "results")
    assert code == 0, err
    assert (tmp_path / "results" / "compare.html").read_text().count("data:image/png") >= 1


def test_a_folder_with_a_bad_file(data, tmp_path, capsys):
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / "images" / f"{number}.tif").write_bytes(tiff(cube(12, 12, 50, np.float32, number)))
    image = cube(12, 12, 50, np.float32)
    image[3, 4, 5] = np.nan
    (tmp_path / "images" / "nan.tif").write_bytes(tiff(image))
    (tmp_path / "images" / "cut.tif").write_bytes(tiff(image)[:-1000])
    code, _, err = epls(capsys, "fit", tmp_path / "images", "-o", tmp_path / "m.epls", *FIT)
    assert code == 1
    assert "2 of 5 image files" in err
    assert "nan.tif: pixels that are NaN or infinite" in err
    assert "cut.tif: a truncated TIFF file" in err
    assert epls(capsys, "fit", tmp_path / "images", "-o", tmp_path / "m.epls", *FIT, "--skip-bad")[0] == 0
