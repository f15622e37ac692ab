"""`epls fit`: models of images and vectors, in memory and in parts, and trainings that are stopped."""

import errno
import json
import re
from collections import Counter

import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from run_command import check_error, epls
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, Checkpoint, Directions, ImageFeatures, Prototypes, load_model, open_shards, read_notes
from epls.datasets import folder
from epls.images.models import learner_of
from epls.images.recipes import learned_features, quick_features


def test_a_table_is_scaled(work, capsys):
    X = load_breast_cancer(as_frame=True).data
    by_hand = make_pipeline(StandardScaler(), Prototypes(10, random_state=0)).fit(X)
    assert_allclose(load_model(work / "table.epls").transform(X), by_hand.transform(X), rtol=1e-6)
    notes = read_notes(work / "table.epls")
    assert notes["feature_names"] == list(load_breast_cancer().feature_names)
    assert notes["samples"] == 569


def test_an_array_is_not(work, tmp_path, capsys):
    code, out, _ = epls(capsys, "fit", work / "vectors.npy", "-o", tmp_path / "m", "--n-components", 8, "--json")
    assert code == 0
    told = json.loads(out)
    X = np.load(work / "vectors.npy")
    model = load_model(tmp_path / "m")
    assert_allclose(model.components_, Prototypes(8, random_state=0).fit(X).components_)
    assert told["units"] == 8
    assert told["never active units"] == 0


def test_columns_are_told_and_those_that_are_no_measurements(work, tmp_path, capsys):
    frame = load_breast_cancer(as_frame=True).frame
    frame.insert(0, "id", range(len(frame)))
    frame.insert(1, "key", range(len(frame)))
    frame["planet"] = 3
    frame.to_csv(tmp_path / "t.csv", index=False)
    arguments = ["fit", tmp_path / "t.csv", "-o", tmp_path / "model", "--n-components", 5, "--set", "max_iter=2"]
    code, _, err = epls(capsys, *arguments)
    assert code == 0
    assert "33 columns are used: key, mean radius, mean texture," in err
    assert "; id names the rows\n" in err
    assert "worst area" not in err  # few are listed
    assert re.search("warning: columns that look like labels, .*: target; leave them out with --drop target", err)
    assert re.search("warning: columns that look like identifiers, .*: key; leave them out with --drop key", err)
    assert re.search("warning: columns that have only one value and .*: planet", err)
    code, _, err = epls(capsys, *arguments, "--force", "--drop", "key", "--drop", "target", "--drop", "planet")
    assert "30 columns are used: mean radius" in err
    assert "columns that" not in err
    chosen = ["--columns", "mean area", "--columns", "mean radius"]
    code, _, err = epls(capsys, *arguments, "--force", *chosen)
    assert "2 columns are used: mean area, mean radius; id names the rows\n" in err
    model = load_model(tmp_path / "model")
    assert model.feature_names_in_.tolist() == ["mean area", "mean radius"]
    model.transform(frame[["mean area", "mean radius"]])
    with pytest.raises(ValueError, match="feature names should match"):
        model.transform(frame[["mean radius", "mean area"]])


def test_names_in_capitals(work, tmp_path, capsys):
    (tmp_path / "X.CSV").write_bytes((work / "table.csv").read_bytes())
    assert epls(capsys, "fit", tmp_path / "X.CSV", "-o", tmp_path / "m", "--n-components", 5)[0] == 0


def test_other_learners(work, tmp_path, capsys):
    code, _, _ = epls(
        capsys, "fit", work / "vectors.npy", "-o", tmp_path / "m", "--n-components", 6, "--learner", "omp"
    )
    assert code == 0
    assert type(load_model(tmp_path / "m")).__name__ == "OMP"


def test_encoders_given_as_objects(work, tmp_path, capsys):
    arguments = ["--n-components", 6, "--n-patches", 300, "--stride", 9, "--encoder", "sc"]
    arguments += ["--set", "encoder.alpha=0.5", "--set", "encoder.split_sign=false"]
    assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", *arguments)[0] == 0
    model = load_model(tmp_path / "m")
    assert isinstance(model, ImageFeatures)
    assert model.encoder_.alpha == 0.5
    assert len(model.get_feature_names_out()) == 4 * 6
    code, out, _ = epls(capsys, "inspect", tmp_path / "m", "--json")
    assert code == 0
    assert "SparseCodingEncoder" in json.loads(out)["settings"]["encoder"]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "table.csv", "-o", "new", "--patch-size", 5], 2, "--patch-size is for images"),
        (["fit", "photos", "-o", "new", "--scale"], 2, "--scale is for vectors"),
        (
            ["fit", "photos", "-o", "new", "--columns", "x"],
            2,
            "--columns is for .csv and .parquet files, and photos is not one",
        ),
        (
            ["fit", "photos", "-o", "new", "--drop", "x"],
            2,
            "--drop is for .csv and .parquet files, and photos is not one",
        ),
        (["fit", "photos", "-o", "new", "--key", "x"], 2, "--key is for .npz"),
        (["fit", "table.csv", "-o", "new", "--longest-side", 9], 2, "--longest-side is for folders of images"),
        (["fit", "vectors.npy", "-o", "new", "--skip-bad"], 2, "--skip-bad is for folders of images"),
        (
            ["fit", "photos", "-o", "new", "--learner", "epls", "--set", "encoder.alpha=1"],
            1,
            "the encoder natural has no setting alpha",
        ),
        (
            ["fit", "vectors.npy", "-o", "new", "--learner", "raw", "--units", 3],
            2,
            "raw always has as many components as",
        ),
        (
            ["fit", "bad.npy", "-o", "new"],
            1,
            r"bad\.npy has values that are NaN or infinite, the first in row 0, column 0",
        ),
        (
            ["fit", "photos", "-o", "new", "--longest-side", 4, "--patch-size", 10],
            2,
            "--longest-side 4 is too small: patches and grid need 11",
        ),
        (["fit", "photos", "-o", "new", "--patch-size", 99], 1, "smaller --patch-size or --grid"),
        (["fit", "complex.npy", "-o", "new"], 1, "must be real numbers"),
        (["fit", "twice.csv", "-o", "new"], 1, "several columns called 'a'"),
        (["fit", "headless.csv", "-o", "new"], 1, "Add a line of names"),
        (["fit", "photos/0.png", "-o", "new"], 1, "a single image in a folder"),
        (["fit", "table.epls", "-o", "new"], 1, "its name does not end in"),
        (["fit", "nothing.csv", "-o", "new"], 1, "there is no file nothing.csv"),
        (["fit", "missing.csv", "-o", "new"], 1, r"missing or infinite: b \(1\)"),
        (["fit", "cube.npy", "-o", "new"], 1, r"shape \(2, 2, 2, 2, 2\)"),
    ],
)
def test_errors_are_one_line(work, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(work)
    check_error(capsys, work, arguments, code, message)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["fit", "nowhere", "-o", "m"], 1, "nowhere"),
        (["fit", "{pictures}", "-o", "nowhere/m"], 1, "the folder nowhere does not exist"),
        (["fit", "{pictures}", "-o", "m", "--patch-size", "31"], 1, "at least 32 x 32 are needed"),
        (["fit", "{pictures}", "-o", "m", "--n-components", "0"], 2, "--n-components"),
        (
            ["fit", "{pictures}", "-o", "m", "--n-components", "50", "--n-patches", "40"],
            1,
            "n_components=50 is more than",
        ),
    ],
)
def test_errors_about_images_are_one_line(pictures, tmp_path, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(tmp_path)
    check_error(capsys, tmp_path, [argument.format(pictures=pictures) for argument in arguments], code, message)


@pytest.mark.parametrize("name", ["parts", "x.zarr"])
def test_fit_transform_and_report(in_parts, name, tmp_path, capsys):
    model, codes, page = tmp_path / "m.epls", tmp_path / "c.npy", tmp_path / "r.html"
    code, out, err = epls(capsys, "fit", in_parts / name, "-o", model, "--n-components", 6, "--set", "max_iter=3")
    assert (code, "900 vectors" in out) == (0, True), err
    data = open_shards(in_parts / name) if name == "parts" else zarr.open_array(in_parts / name)
    by_hand = Prototypes(6, max_iter=3, random_state=0).fit(data)
    assert_array_equal(load_model(model).components_, by_hand.components_)
    assert read_notes(model)["samples"] == 900
    assert epls(capsys, "transform", model, in_parts / name, "-o", codes)[0] == 0
    assert_allclose(np.load(codes), load_model(model).transform(np.load(in_parts / "x.npy")), atol=1e-6)
    assert epls(capsys, "report", model, "--data", in_parts / name, "-o", page)[0] == 0
    assert page.stat().st_size > 10_000


def test_bad_parts(in_parts, tmp_path, capsys):
    np.save(tmp_path / "a.npy", np.zeros((4, 3)))
    np.save(tmp_path / "b.npy", np.zeros((4, 2)))
    code, _, err = epls(capsys, "fit", tmp_path, "-o", tmp_path / "m.epls")
    assert code == 1
    assert "b.npy has 2 features" in err
    broken = tmp_path / "broken.zarr"
    broken.mkdir()
    (broken / "zarr.json").write_text("{")
    code, _, err = epls(capsys, "fit", broken, "-o", tmp_path / "m.epls")
    assert code == 1
    assert "broken.zarr is not a zarr array that can be read" in err
    assert len(err.strip().splitlines()) == 1
    assert not (tmp_path / "m.epls").exists()


def test_images_in_a_zarr_array(tmp_path, capsys):
    images = np.random.RandomState(0).randint(256, size=(6, 20, 20, 3)).astype(np.uint8)
    stored = zarr.create_array(str(tmp_path / "i.zarr"), shape=images.shape, chunks=(4, 20, 20, 3), dtype=images.dtype)
    stored[:] = images
    model, features = tmp_path / "m.epls", tmp_path / "f.npy"
    arguments = ("fit", tmp_path / "i.zarr", "-o", model, "--n-components", 5, "--n-patches", 300, "--patch-size", 5)
    assert epls(capsys, *arguments, "--checkpoint", tmp_path / "kept")[0] == 0
    assert epls(capsys, "transform", model, tmp_path / "i.zarr", "-o", features)[0] == 0
    assert_array_equal(np.load(features), load_model(model).transform(images))


def test_a_folder_of_images_with_labels_beside_is_one_of_images(tmp_path, capsys):
    for number in range(3):
        pixels = np.random.RandomState(number).randint(256, size=(20, 20, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    np.save(tmp_path / "labels.npy", np.arange(3))
    arguments = ("fit", tmp_path, "-o", tmp_path / "m.epls", "--n-components", 5, "--n-patches", 300, "--patch-size", 5)
    code, out, err = epls(capsys, *arguments)
    assert (code, "3 images" in out) == (0, True), err


def test_without_options_it_learns_what_explore_learns(tmp_path, capsys, hardly_any_training):
    images = load_sample_images().images[0][:400, :600].reshape(10, 40, 15, 40, 3).swapaxes(1, 2).reshape(-1, 40, 40, 3)
    np.save(tmp_path / "images.npy", images)
    code, _, err = epls(capsys, "fit", tmp_path / "images.npy", "-o", tmp_path / "m")
    assert code == 0, err
    model = load_model(tmp_path / "m")
    assert (model.patch_size, model.mirror, len(learner_of(model).components_)) == (10, True, 50)
    features, _ = learned_features(images)
    assert_array_equal(model.transform(images), features)


def test_options_replace_what_the_recipe_chooses(work, tmp_path, capsys, hardly_any_training):
    """Two photographs are few enough for two layers; a setting of one layer asks for one."""
    for arguments, expected in (
        (["--patch-size", 7], (7, 3, 50, True)),
        (["--stride", 5, "--no-mirror"], (10, 5, 50, False)),
        (["--layers", 1, "--n-components", 9, "--n-patches", 500], (10, 3, 9, True)),
    ):
        assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", "--force", *arguments)[0] == 0
        model = load_model(tmp_path / "m")
        n_units = len(learner_of(model).components_)
        assert (model.patch_size, model.stride, n_units, model.mirror) == expected


def test_a_photograph_is_decoded_once(work, tmp_path, capsys, monkeypatch):
    counts = Counter()
    decode_image = folder.decode_image

    def counted(path, *settings):
        counts[path.name] += 1
        return decode_image(path, *settings)

    monkeypatch.setattr(folder, "decode_image", counted)
    small = ["--n-components", 6, "--n-patches", 300]
    assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "m", *small)[0] == 0
    assert counts == {"0.png": 1, "1.png": 1}


def test_images_that_are_too_small_for_the_recipe(tmp_path, capsys, hardly_any_training):
    """One icon among photographs does not decide the size of the patches."""
    (tmp_path / "photos").mkdir()
    photograph = load_sample_images().images[0]
    for k in range(5):
        Image.fromarray(photograph[40 * k : 40 * k + 40, :40]).save(tmp_path / "photos" / f"{k}.png")
    Image.fromarray(photograph[:6, :6]).save(tmp_path / "photos" / "icon.png")
    arguments = ["fit", tmp_path / "photos", "-o", tmp_path / "m"]
    check_error(capsys, tmp_path, arguments, 1, r"icon\.png: 6 x 6 pixels, but at least 11 x 11 are needed.*--skip-bad")
    code, out, err = epls(capsys, *arguments, "--skip-bad", "--json")
    assert code == 0, err
    assert (json.loads(out)["samples"], json.loads(out)["skipped"]) == (5, 1)
    assert err.count("skipped ") == 1


def test_gray_and_color_photographs(tmp_path, capsys):
    (tmp_path / "photos").mkdir()
    photograph = load_sample_images().images[0]
    Image.fromarray(photograph[:30, :30, 0]).save(tmp_path / "photos" / "gray.png")
    Image.fromarray(photograph[:30, 30:60]).save(tmp_path / "photos" / "color.png")
    small = ["--n-components", 5, "--n-patches", 200]
    code, _, err = epls(capsys, "fit", tmp_path / "photos", "-o", tmp_path / "m", *small)
    assert code == 0, err
    assert "all are converted to color" in err
    assert read_notes(tmp_path / "m")["channels"] == "color"
    assert epls(capsys, "transform", tmp_path / "m", tmp_path / "photos", "-o", tmp_path / "f.npz")[0] == 0
    assert len(np.load(tmp_path / "f.npz")["features"]) == 2


@pytest.fixture
def small_stacks(monkeypatch):
    """The usual layers with few units."""
    from epls.images import patches, stack

    monkeypatch.setattr(patches, "FEWEST_PATCHES", 400)
    for name, value in {"_FIRST_UNITS": 6, "_GROUP_UNITS": 4, "_GROUPS": 2, "_GROUP_SIZE": 3}.items():
        monkeypatch.setattr(stack, name, value)


@pytest.mark.parametrize("learner", [None, EPLS()], ids=["default", "epls"])
def test_several_layers(pictures, tmp_path, capsys, small_stacks, learner):
    command = ["fit", pictures, "-o", tmp_path / "m", "--layers", 2, "--set", "max_iter=2"]
    if learner is not None:
        command += ["--learner", "epls", "--checkpoint", tmp_path / "kept"]
    code, _, err = epls(capsys, *command)
    assert code == 0, err
    assert list(tmp_path.glob("kept/*.epls")) == []  # what was kept is no longer needed
    model = load_model(tmp_path / "m")
    assert isinstance(model.layers_[0].estimator, Directions if learner is None else EPLS)
    assert [len(layer.features_) for layer in model.layers_] == [1, 2]
    assert model.mirror
    by_hand = quick_features(6, 30, 34, layers=2)
    for layer in by_hand.layers:
        n_components = layer.estimator.n_components
        if learner is not None:
            layer.set_params(estimator=clone(learner), encoder="natural", whiten=False)
        layer.estimator.set_params(max_iter=2, n_components=n_components)
    by_hand.fit(str(pictures))
    assert_array_equal(model.transform(str(pictures)), by_hand.transform(str(pictures)))
    code, _, err = epls(capsys, "transform", tmp_path / "m", pictures, "-o", tmp_path / "f.npz")
    assert code == 0, err
    assert_array_equal(np.load(tmp_path / "f.npz")["features"], by_hand.transform(str(pictures)))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--n-components", 50], "--n-components is for one layer"),
        (["--patch-size", 5], "--patch-size is for one layer"),
        (["--set", "images.pooling=sum"], "a stack has no such setting"),
        (["--learner", "raw"], "raw has none"),
        (["--layers", 4], "give at most"),
    ],
)
def test_what_a_stack_does_not_have(pictures, tmp_path, capsys, small_stacks, more, message):
    code, _, err = epls(capsys, "fit", pictures, "-o", tmp_path / "m", "--layers", 2, *more)
    assert code != 0
    assert message in err
    assert not (tmp_path / "m").exists()


def test_layers_are_for_images(work, tmp_path, capsys):
    code, _, err = epls(capsys, "fit", work / "vectors.npy", "-o", tmp_path / "m", "--layers", 2)
    assert code != 0
    assert "--layers is for images" in err


def test_scaling_needs_all_vectors_in_memory(in_parts, tmp_path, capsys):
    code, _, err = epls(capsys, "fit", in_parts / "parts", "-o", tmp_path / "m.epls", "--scale")
    assert code == 2
    assert "--scale requires all vectors in memory" in err


def test_every_learner_takes_vectors_in_parts(in_parts, tmp_path, capsys):
    code, _, err = epls(capsys, "fit", in_parts / "parts", "-o", tmp_path / "m.epls", "--learner", "omp")
    assert code == 0, err
    assert load_model(tmp_path / "m.epls").n_features_in_ == 5


def command(in_parts, *more):
    of_epls = ["--learner", "epls", "--n-components", "10", "--threads", "1"]
    return ["fit", str(in_parts / "x.npy"), *of_epls, *map(str, more)]


def test_checkpoints_stay_until_the_model_is_on_the_disk(in_parts, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(Checkpoint.__init__.__kwdefaults__, "seconds", 0.002)
    arguments = command(in_parts, "-o", tmp_path / "m.epls", "--checkpoint", tmp_path / "kept")
    with monkeypatch.context() as broken:
        broken.setattr("epls.persistence.write_container", no_room)
        code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert "disk" in err
    assert len(list((tmp_path / "kept").glob("checkpoint-*"))) == 2
    assert epls(capsys, *arguments)[0] == 0
    assert [path.name for path in (tmp_path / "kept").iterdir()] == [".lock"]


def test_a_second_training_in_a_folder_fails_at_once(in_parts, tmp_path, capsys):
    arguments = command(in_parts, "-o", tmp_path / "m.epls", "--checkpoint", tmp_path / "kept")
    with Checkpoint(tmp_path / "kept").lock:
        code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert f"another training is using {tmp_path / 'kept'}" in err
    assert not (tmp_path / "m.epls").exists()
    assert epls(capsys, *arguments)[0] == 0


def test_the_folder_is_locked_until_the_checkpoints_are_cleared(in_parts, tmp_path, capsys, monkeypatch):
    """Another training that began before would lose its own checkpoints."""
    tried = []

    def second(*_, **__):
        with pytest.raises(RuntimeError, match="another training"), Checkpoint(tmp_path / "kept").lock:
            pass
        tried.append(True)

    monkeypatch.setattr("epls.persistence.write_container", second)
    assert epls(capsys, *command(in_parts, "-o", tmp_path / "m", "--checkpoint", tmp_path / "kept"))[0] == 0
    assert tried == [True]


def no_room(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_ctrl_c_says_where_it_goes_on(in_parts, tmp_path, capsys, monkeypatch):
    def interrupted(self, X, y=None):
        raise KeyboardInterrupt

    monkeypatch.setattr(EPLS, "fit", interrupted)
    arguments = command(in_parts, "-o", tmp_path / "m", "--checkpoint", tmp_path / "kept")
    code, _, err = epls(capsys, *arguments)
    assert (code, "to start again" in err) == (1, True)  # nothing has been written yet
    (tmp_path / "kept" / "checkpoint-00000001.safetensors").touch()
    code, _, err = epls(capsys, *arguments)
    assert code == 1
    assert f"run the same command to continue from {tmp_path / 'kept'}" in err


def test_only_epls_has_checkpoints(in_parts, tmp_path, capsys):
    arguments = command(in_parts, "-o", tmp_path / "m", "--checkpoint", tmp_path / "kept", "--learner", "omp")
    code, _, err = epls(capsys, *arguments)
    assert code == 2
    assert "omp cannot resume a training: leave it out, or give --learner epls" in err


def test_learners_bring_their_whitening_and_encoder(work, tmp_path, capsys):
    """As the learner declares them, unless the command says otherwise."""
    small = ["--n-components", 6, "--n-patches", 300, "--stride", 9, "--learner", "kmeans"]
    assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "own", *small)[0] == 0
    own = load_model(tmp_path / "own")
    assert (own.whiten, type(own.encoder_).__name__) == (True, "TriangleEncoder")
    other = ["--encoder", "natural", "--set", "images.whiten=false", "--set", "max_iter=2"]
    assert epls(capsys, "fit", work / "photos", "-o", tmp_path / "other", *small, *other)[0] == 0
    found = load_model(tmp_path / "other")
    assert (found.whiten, type(found.encoder_).__name__) == (False, "NaturalEncoder")
    assert learner_of(found).max_iter == 2


def test_short_names_of_options_are_the_same(work, tmp_path, capsys):
    long = ["--n-components", 6, "--random-state", 3]
    short = ["--n-components", 6, "--random-state", 3]
    for name, arguments in (("long", long), ("short", short)):
        assert epls(capsys, "fit", work / "vectors.npy", "-o", tmp_path / name, *arguments)[0] == 0
    assert_array_equal(load_model(tmp_path / "long").components_, load_model(tmp_path / "short").components_)


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--set", "tol=NaN"], 2, "--set tol=NaN: numbers must be finite"),
        (["--set", "tol=1e999"], 2, "--set tol=1e999: numbers must be finite"),
        (["--set", "max_itr=3"], 1, "directions has no setting max_itr; it has max_iter"),
        (["--set", "images.stride=3"], 2, "use the option --stride instead"),
        (["--set", "images.strid=3"], 1, "ImageFeatures has no setting strid; it has"),
        (["--set", "decoder.alpha=3"], 2, "--set decoder.alpha=3: write it as"),
        (["--set", "max_iter=no"], 1, "The 'max_iter' parameter"),
    ],
)
def test_wrong_settings_are_told(work, monkeypatch, capsys, arguments, code, message):
    monkeypatch.chdir(work)
    check_error(capsys, work, ["fit", "photos", "-o", "new", *arguments], code, message)


def test_settings_of_images_are_not_for_vectors(work, monkeypatch, capsys):
    monkeypatch.chdir(work)
    arguments = ["fit", "table.parquet", "-o", "new", "--set", "images.pooling=sum"]
    check_error(capsys, work, arguments, 2, "--set images.pooling is for images, but table.parquet holds vectors")
