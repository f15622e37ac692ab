import json
import os
import stat
import subprocess
import sys
import textwrap
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
from sklearn import config_context
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import (
    EPLS,
    BalancedKMeans,
    DeepFeatures,
    ImageFeatures,
    Layer,
    Prototypes,
    Raw,
    SoftThresholdEncoder,
    TrainingSettings,
    TriangleEncoder,
    load_model,
    read_notes,
    save_model,
)
from epls.algorithm.activations import Activation
from epls.persistence import FORMAT_VERSION
from epls.utils.container import read_container, write_container


@pytest.fixture
def model(blobs):
    return EPLS(8, max_iter=3, random_state=0).fit(blobs)


def test_a_model_comes_back_the_same(model, blobs, tmp_path):
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.get_params() == model.get_params()
    assert again.loss_curve_ == model.loss_curve_
    assert again.n_iter_ == 3
    assert (again.transform(blobs) == model.transform(blobs)).all()
    again.partial_fit(blobs)
    with pytest.raises(ValueError, match="6 features"):
        again.transform(blobs[:, :5])


def test_feature_names_and_types_come_back(blobs, tmp_path):
    pandas_like = np.array([f"x{k}" for k in range(6)], dtype=object)
    model = EPLS(8, max_iter=2, random_state=np.int64(3), settings=TrainingSettings(max_norm=np.float32(1.5)))
    model.fit(blobs.astype(np.float32))
    model.feature_names_in_ = pandas_like
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.components_.dtype == np.float32
    assert (again.feature_names_in_ == pandas_like).all()
    assert again.random_state == 3


def test_arrays_that_are_not_contiguous_are_saved_right(model, blobs, tmp_path):
    expected = model.transform(blobs)
    model.components_ = np.asfortranarray(model.components_)
    save_model(model, tmp_path / "model")
    assert (load_model(tmp_path / "model").transform(blobs) == expected).all()


def test_no_pickle_is_in_the_file(model, tmp_path):
    save_model(model, tmp_path / "model")
    assert set(load_file(tmp_path / "model")) == {"components_", "intercept_", "mean_"}


@pytest.mark.parametrize("kept", [0, 4, 100, -1])
def test_a_truncated_file_is_refused_and_left_alone(model, tmp_path, kept):
    save_model(model, tmp_path / "model")
    content = (tmp_path / "model").read_bytes()[:kept]
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ValueError, match=r"model.*damaged.*: get an intact copy, or learn the model again"):
        load_model(tmp_path / "model")
    assert (tmp_path / "model").read_bytes() == content


@pytest.mark.parametrize("content", [b"hello, world, this is a text", b"\x80\x04\x95pickle", b"PK\x03\x04" + bytes(60)])
def test_a_foreign_file_is_refused(tmp_path, content):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(ValueError, match="not a file that `epls fit` or save_model wrote; check the path"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (None, "not a file that `epls fit` or save_model wrote"),
        ({"epls": "{"}, "not a model"),
        ({"epls": "[1]"}, "not a model"),
        (
            {"epls": '{"format": 99, "epls": "9.0", "learner": "EPLS", "params": {}, "attributes": {}}'},
            "format 99.*9.0",
        ),
        ({"epls": '{"format": 99}'}, "format 99, written by an unknown version"),
        ({"epls": '{"format": 3, "learner": "EPLS", "params": {}, "attributes": {}}'}, "its checksum is missing"),
    ],
)
def test_a_safetensors_file_that_is_no_model_is_refused(tmp_path, metadata, message):
    save_file({"components_": np.ones((2, 2))}, tmp_path / "model", metadata=metadata)
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learner": "os.system"}, "holds a 'os.system'"),
        ({"learner": []}, "holds a"),
        ({"params": {}, "attributes": {}}, "is damaged"),
        ({"params": {"a": 1}}, "is damaged"),
        ({"params": {"settings": {"a": 1}}}, "is damaged"),
        ({"params": {"settings": 7}}, "is damaged"),
    ],
)
def test_a_header_of_a_stranger_is_refused(model, tmp_path, change, message):
    save_model(model, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    write_container(tmp_path / "model", header | change, arrays)
    with pytest.raises(ValueError, match=message):
        load_model(tmp_path / "model")


def test_arrays_that_do_not_go_together_are_refused(model, tmp_path):
    model.intercept_ = model.intercept_[:-1]
    save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match=r"intercept_ has shape \(7,\), but n_components is 8"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("components_", np.full((8, 6), np.nan)),
        ("mean_", np.zeros(6, int)),
        ("scale_", 0.0),
        ("scale_", "wide"),
        ("loss_curve_", None),
    ],
)
def test_values_that_no_model_has_are_refused(model, tmp_path, name, value):
    setattr(model, name, value)
    save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match="is damaged"):
        load_model(tmp_path / "model")


def test_a_class_that_could_not_be_loaded_is_not_saved(blobs, tmp_path):
    class Mine(EPLS):
        pass

    with pytest.raises(ValueError, match="a Mine cannot be saved"):
        save_model(Mine(3, max_iter=1).fit(blobs), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_missing_file_and_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match="no file"):
        load_model(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is a folder"):
        load_model(tmp_path)


def test_unfitted_model_and_own_activation_are_refused_and_nothing_is_written(blobs, tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        save_model(EPLS(3), tmp_path / "model")
    own = Activation("own", np.arctan, np.cos, np.sin, inactive=-1.0)
    with pytest.raises(ValueError, match=r"activation=.*cannot be saved"):
        save_model(EPLS(3, activation=own, max_iter=1).fit(blobs), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_stood_there_survives_a_full_disk(model, tmp_path):
    """A limit on the size of files gives the same error from the system as a disk with no room."""
    resource = pytest.importorskip("resource")  # not on Windows
    path = tmp_path / "model"
    save_model(model, path)
    before = path.read_bytes()
    script = f"""
        import resource, signal
        import numpy as np
        from epls import load_model, save_model
        model = load_model({str(path)!r})
        model.components_ = np.zeros((8, 6)); model.mean_ = np.ones(6)
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200, 200))
        save_model(model, {str(path)!r})
    """
    run = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False)
    assert "OSError" in run.stderr
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["model"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_interrupted_writing_leaves_no_trace(model, tmp_path, monkeypatch):
    def interrupt(descriptor):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupt)
    with pytest.raises(KeyboardInterrupt):
        save_model(model, tmp_path / "model")
    assert os.listdir(tmp_path) == []


def test_the_file_has_the_rights_of_any_new_file(model, tmp_path):
    save_model(model, tmp_path / "model")
    (tmp_path / "other").touch()
    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("model", "other")]
    assert modes[0] == modes[1]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"whiten": True, "encoder": SoftThresholdEncoder(alpha=0.1, split_sign=False), "pooling": "sum"},
        {"estimator": EPLS(6, max_iter=2, activation="tanh"), "encoder": "triangle", "grid": 3, "stride": 2},
    ],
)
def test_features_of_images_come_back_the_same(tmp_path, settings):
    images = load_digits().images[:40]
    settings = {"estimator": EPLS(6, max_iter=2), "patch_size": 4, "n_patches": 300, "random_state": 0} | settings
    features = ImageFeatures(**settings).fit(images)
    save_model(features, tmp_path / "features.epls")
    again = load_model(tmp_path / "features.epls")
    np.testing.assert_array_equal(again.transform(images), features.transform(images))
    np.testing.assert_array_equal(again.estimator_.components_, features.estimator_.components_)
    assert repr(again) == repr(features)
    assert clone(again).fit(images).estimator_.components_.shape == (6, 16)


def test_a_learner_of_another_library_cannot_be_saved(tmp_path):
    features = ImageFeatures(KMeans(3, n_init=1), patch_size=4, n_patches=300, encoder="triangle", random_state=0)
    features.fit(load_digits().images[:40])
    with pytest.raises(ValueError, match=r"estimator=KMeans.* cannot be saved to a model file"):
        save_model(features, tmp_path / "features.epls")
    assert list(tmp_path.iterdir()) == []


def test_a_file_whose_parts_do_not_fit_is_damaged(tmp_path):
    features = ImageFeatures(EPLS(6, max_iter=2), patch_size=4, n_patches=300, random_state=0)
    features.fit(load_digits().images[:40])
    features.n_channels_ = 3
    save_model(features, tmp_path / "features.epls")
    with pytest.raises(ValueError, match="patches have 48 values, but components have 16"):
        load_model(tmp_path / "features.epls")


FILES_OF_0_2_0 = Path(__file__).parent / "files" / "0.2.0"


@pytest.mark.parametrize("path", sorted(FILES_OF_0_2_0.glob("*.epls")), ids=lambda path: path.stem)
def test_files_of_epls_0_2_0_give_what_they_gave(path):
    """tests/files/write.py wrote them; what they return may differ by rounding on another machine.

    The codes of Prototypes were products with the components, and are those of the triangle since 0.3.0.
    """
    model = load_model(path)
    images = load_digits().images[:10]
    if isinstance(model, ImageFeatures | DeepFeatures):
        result = model.transform(images.astype(np.uint8))
    else:
        vectors = images[:, ::2, ::2].reshape(-1, 16).astype(np.float32)
        result = model.predict(vectors) if isinstance(model, BalancedKMeans) else model.transform(vectors)
        if isinstance(model, Prototypes):
            np.testing.assert_array_equal(result, TriangleEncoder(model.components_).transform(vectors))
            result = vectors @ model.components_.T
    with np.load(FILES_OF_0_2_0 / "expected.npz") as expected:
        np.testing.assert_allclose(result, expected[path.stem], rtol=1e-4, atol=1e-5)


def test_the_files_of_a_release_are_complete():
    with np.load(FILES_OF_0_2_0 / "expected.npz") as expected:
        assert set(expected) == {path.stem for path in FILES_OF_0_2_0.glob("*.epls")}
        assert {"epls", "pipeline", "balanced", "whitening", "images", "deep"} < set(expected)


def file_of_format_2(model, path, **settings):
    """What epls 0.2.0 wrote: settings of training among the parameters."""
    save_model(model, path)
    header, arrays = read_container(path, FORMAT_VERSION)
    old = asdict(TrainingSettings(batch_size="n_components")) | header["params"] | settings
    del old["settings"]
    write_container(path, header | {"format": 2, "params": old}, arrays)
    return path


def test_settings_of_training_in_files_of_epls_0_2_0(model, blobs, tmp_path):
    again = load_model(file_of_format_2(model, tmp_path / "model", loss="squared", biases="none", tol=0.5))
    assert again.settings == TrainingSettings(loss="squared", biases="none")
    assert (again.batch_size, again.tol) == (None, 0.5)
    assert (again.transform(blobs) == model.transform(blobs)).all()


@pytest.mark.parametrize("gone", [{"target": "epoch"}, {"optimizer": "capped_vsgd"}])
def test_what_was_removed_is_refused_and_not_called_damaged(model, tmp_path, gone):
    ((name, value),) = gone.items()
    with pytest.raises(ValueError, match=rf"cannot be loaded: .* does not have its {name}='{value}': give '"):
        load_model(file_of_format_2(model, tmp_path / "model", **gone))


def test_files_of_other_formats_are_refused(model, tmp_path):
    save_model(model, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    for format in (1, FORMAT_VERSION + 1):
        write_container(tmp_path / "model", header | {"format": format}, arrays)
        with pytest.raises(ValueError, match=rf"it has format {format}, .* reads formats 2 and 3"):
            load_model(tmp_path / "model")


def test_a_value_that_cannot_be_looked_up_is_refused(model, tmp_path):
    """Such as a list, where a file was made by hand."""
    save_model(model, tmp_path / "model")
    with safe_open(tmp_path / "model", "numpy") as file:
        header = json.loads(file.metadata()["epls"])
    header["params"]["activation"] = ["relu"]
    save_file(load_file(tmp_path / "model"), tmp_path / "model", metadata={"epls": json.dumps(header)})
    with pytest.raises(ValueError, match="is damaged"):
        load_model(tmp_path / "model")


def test_notes_stay_with_the_model(model, tmp_path):
    notes = {"data": "photographs", "seconds": 3.5, "names": ["a", "b"]}
    save_model(model, tmp_path / "model", notes=notes)
    assert read_notes(tmp_path / "model") == notes
    assert load_model(tmp_path / "model").n_iter_ == 3
    save_model(model, tmp_path / "bare")
    assert read_notes(tmp_path / "bare") == {}


@pytest.mark.parametrize(
    "settings", [{}, {"with_mean": False}, {"with_std": False}, {"with_mean": False, "with_std": False}]
)
def test_a_scaled_learner_comes_back_the_same(blobs, settings, tmp_path):
    scaled = make_pipeline(StandardScaler(**settings), EPLS(8, max_iter=3, random_state=0)).fit(blobs)
    save_model(scaled, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert (again.transform(blobs) == scaled.transform(blobs)).all()
    assert again[0].get_params() == scaled[0].get_params()
    assert again.get_feature_names_out().tolist() == scaled.get_feature_names_out().tolist()
    with pytest.raises(ValueError, match="6 features"):
        again.transform(blobs[:, :5])


def test_names_of_columns_come_back(tmp_path):
    frame = pd.DataFrame(np.random.RandomState(0).normal(size=(50, 3)), columns=["a", "b", "c"])
    scaled = make_pipeline(StandardScaler(), EPLS(4, max_iter=2, random_state=0)).fit(frame)
    save_model(scaled, tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.feature_names_in_.tolist() == ["a", "b", "c"]
    assert (again.transform(frame) == scaled.transform(frame)).all()
    with pytest.raises(ValueError, match="feature names"):
        again.transform(frame[["b", "a", "c"]])


def test_pipelines_that_cannot_be_saved(blobs, tmp_path):
    for steps, message in (
        ([("a.b", StandardScaler()), ("epls", EPLS(8, max_iter=1))], "without a dot"),
        ([("pca", PCA(3)), ("epls", EPLS(8, max_iter=1))], "a PCA cannot be saved"),
    ):
        with pytest.raises(ValueError, match=message):
            save_model(Pipeline(steps).fit(blobs), tmp_path / "model")
    with pytest.raises(NotFittedError):
        save_model(make_pipeline(StandardScaler(), EPLS()), tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_scaler_is_refused(blobs, tmp_path):
    scaled = make_pipeline(StandardScaler(), EPLS(8, max_iter=1)).fit(blobs)
    scaled[0].scale_ = scaled[0].scale_[:-1]
    save_model(scaled, tmp_path / "model")
    with pytest.raises(ValueError, match="is damaged: the scaler's arrays"):
        load_model(tmp_path / "model")


@pytest.fixture(scope="module")
def features():
    images = (15 * load_digits().images[:40]).astype(np.uint8)
    return ImageFeatures(EPLS(4, max_iter=2), patch_size=4, n_patches=200, random_state=0).fit(images)


def crafted(features, tmp_path, **changes):
    """A file with other settings or values, and a checksum that is right: what a stranger can write."""
    save_model(features, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    for place, values in changes.items():
        header[place] |= values
    write_container(tmp_path / "model", header, arrays)
    return tmp_path / "model"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("patch_size", -4), ("patch_size", 600), ("patch_size", 2**40), ("stride", 0), ("stride", -595), ("grid", 0),
        ("grid", 1_000_000), ("pooling", "evil"), ("whiten", "yes"), ("n_patches", -1), ("encoder", "os.system"),
        ("encoder", []), ("random_state", "x"), ("stride", 2**31), ("n_patches", 10**30),
        ("encoder", {"learner": "SoftThresholdEncoder", "params": {"alpha": 10**400}}),
    ],
)  # fmt: skip
def test_settings_of_a_strangers_file_are_checked(features, tmp_path, name, value):
    with pytest.raises(ValueError, match="is damaged"):
        load_model(crafted(features, tmp_path, params={name: value}))


@pytest.mark.parametrize("name", ["pool", "pool_stride", "group_size"])
def test_sizes_that_compiled_loops_cannot_hold_are_refused(tmp_path, name):
    images = (15 * load_digits().images[:10]).astype(np.uint8)
    layer = Layer(EPLS(4, max_iter=2), patch_size=3, n_patches=100, random_state=0).fit(images)
    for size in (2**31, 10**30):
        with pytest.raises(ValueError, match=f"'{name}' parameter of Layer must be an int in the range"):
            load_model(crafted(layer, tmp_path, params={name: size}))


@pytest.mark.parametrize(
    ("name", "value"),
    [("typical_code_", -1.0), ("typical_code_", "x"), ("contrast_floor_", 0), ("n_channels_", 2), ("n_channels_", True),
     ("whole_numbers_", 1), ("n_channels_", 2**40)],
)  # fmt: skip
def test_values_of_a_strangers_file_are_checked(features, tmp_path, name, value):
    with pytest.raises(ValueError, match="is damaged"):
        load_model(crafted(features, tmp_path, attributes={name: value}))


def scalers(tmp_path, n_parts, n_arrays):
    """The file of a pipeline with many parts that are no steps of it, each with many arrays."""
    scaler = {"learner": "StandardScaler", "params": {}, "parts": {}}
    scaler["attributes"] = {"n_samples_seen_": 1, "n_features_in_": 1, "feature_names_in_": None}
    header = {"format": FORMAT_VERSION, "learner": "Pipeline", "params": {}, "attributes": {}}
    header |= {"steps": {"p0": scaler}, "parts": {f"p{k}": scaler for k in range(n_parts)}}
    arrays = {f"p{k}.a{number}": np.ones(1) for k in range(n_parts) for number in range(n_arrays)}
    write_container(tmp_path / "many", header, arrays)
    return tmp_path / "many"


@pytest.mark.slow
def test_too_many_parts_arrays_or_levels_are_refused(features, tmp_path):
    for n_parts, n_arrays in ((9000, 1), (1000, 70)):
        with pytest.raises(ValueError, match="at most 8,192 models, 16 inside each other, and 65,536 arrays"):
            load_model(scalers(tmp_path, n_parts, n_arrays))
    deep = {"learner": "EPLS", "params": {}}
    for _ in range(20):
        deep = {"learner": "ImageFeatures", "params": {"estimator": deep}}
    with pytest.raises(ValueError, match="16 inside each other"):
        load_model(crafted(features, tmp_path, params={"estimator": deep}))


def test_log_pooling_needs_a_typical_code(features, tmp_path):
    with pytest.raises(ValueError, match="typical_code_"):
        load_model(crafted(features, tmp_path, attributes={"typical_code_": 0.0}))
    for name in ("typical_code_", "contrast_floor_"):  # 0 in single precision
        with pytest.raises(ValueError, match=name):
            load_model(crafted(features, tmp_path, attributes={name: 1e-300}))


def test_raw_with_arrays_of_another_shape(tmp_path):
    """This file once wrote past the end of a buffer."""
    model = Raw().fit(np.zeros((3, 1600), np.float32))
    model.components_ = model.components_[:1]
    save_model(model, tmp_path / "model")
    with pytest.raises(ValueError, match="components_ has shape"):
        load_model(tmp_path / "model")


def test_a_pipeline_of_a_stranger(tmp_path):
    pipeline = make_pipeline(StandardScaler(), EPLS(3, max_iter=2)).fit(load_digits().data[:50])
    save_model(pipeline, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    header["steps"]["epls"]["params"]["n_components"] = -3
    header["parts"]["epls"]["params"]["n_components"] = -3
    write_container(tmp_path / "model", header, arrays)
    with pytest.raises(ValueError, match="n_components"):
        load_model(tmp_path / "model")


def test_a_pipeline_without_steps(tmp_path):
    pipeline = make_pipeline(StandardScaler(), EPLS(3, max_iter=2)).fit(load_digits().data[:50])
    save_model(pipeline, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    write_container(tmp_path / "model", header | {"steps": {}}, arrays)
    with pytest.raises(ValueError, match="a pipeline must have at least one step"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("biases", "evil"),
        ("wake", "yes"),
        ("drop_last", 2),
        ("batch_size", "many"),
        ("tol", -1.0),
        ("target", "worst"),
        ("optimizer", "rmsprop"),
    ],
)
def test_settings_of_a_learner_are_checked_on_loading(model, tmp_path, name, value):
    save_model(model, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    header["params"] |= {name: value} if name in header["params"] else {"settings": {name: value}}
    write_container(tmp_path / "model", header, arrays)
    with pytest.raises(ValueError, match=name):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("output", ["pandas", "default"])
def test_set_output_comes_back(blobs, tmp_path, output):
    frame = pd.DataFrame(blobs, columns=[*"abcdef"])
    model = make_pipeline(StandardScaler(), EPLS(8, max_iter=2, random_state=0)).set_output(transform=output).fit(frame)
    save_model(model, tmp_path / "model")
    again = load_model(tmp_path / "model")
    codes = again.transform(frame)
    assert isinstance(codes, pd.DataFrame) == (output == "pandas")
    np.testing.assert_array_equal(codes, model.transform(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        again.transform(frame[[*"fedcba"]])


def test_without_set_output_the_configuration_of_scikit_learn_counts(model, blobs, tmp_path):
    save_model(model, tmp_path / "model")
    with config_context(transform_output="pandas"):
        assert isinstance(load_model(tmp_path / "model").transform(blobs), pd.DataFrame)


@pytest.mark.parametrize("change", [{"output": "spreadsheet"}, {"output": ["pandas"]}])
def test_unknown_outputs_are_refused(model, tmp_path, change):
    save_model(model, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    write_container(tmp_path / "model", header | change, arrays)
    with pytest.raises(ValueError, match=r"its output is .* default, pandas, polars"):
        load_model(tmp_path / "model")


@pytest.mark.parametrize("names", [["a"], [1] * 6, "abcdef"])
def test_names_of_a_scaler_are_checked(blobs, tmp_path, names):
    save_model(make_pipeline(StandardScaler(), EPLS(8, max_iter=2)).fit(blobs), tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", FORMAT_VERSION)
    header["parts"]["standardscaler"]["attributes"]["feature_names_in_"] = names
    write_container(tmp_path / "model", header, arrays)
    with pytest.raises(ValueError, match="feature_names_in_ must be 6 strings"):
        load_model(tmp_path / "model")
