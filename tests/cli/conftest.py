"""Small real files that commands are given, and models of them."""

import numpy as np
import pytest
import zarr
from PIL import Image
from run_command import few_steps
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, DeepFeatures, Layer, save_model
from epls.cli.main import run


@pytest.fixture(autouse=True)
def short_training():
    with few_steps():
        yield


@pytest.fixture
def hardly_any_training(monkeypatch):
    """What is learned by default does not matter."""
    monkeypatch.setattr("epls.algorithm.settings.usual_epochs.__defaults__", (4, 4, 0))
    monkeypatch.setattr("epls.images.recipes._PATCHES", 1000)


@pytest.fixture(scope="session")
def pictures(tmp_path_factory):
    """Pieces of photographs, of two sizes, as files."""
    folder = tmp_path_factory.mktemp("pictures")
    first, second = load_sample_images().images
    for k in range(6):
        source = first if k % 2 else second
        Image.fromarray(source[40 * k : 40 * k + 30, 50 : 80 + 4 * (k % 2)]).save(folder / f"picture{k}.png")
    return folder


@pytest.fixture(scope="session")
def stl10(tmp_path_factory):
    """A small data set in the official layout: 60 images of 3 classes, made of pieces of photographs."""
    folder = tmp_path_factory.mktemp("data") / "stl10_binary"
    folder.mkdir()
    first, second = load_sample_images().images
    random = np.random.RandomState(0)
    labels = np.arange(60) % 3
    images = np.empty((60, 96, 96, 3), np.uint8)
    for image, label in zip(images, labels, strict=True):
        top, left = random.randint(300), random.randint(500)
        source = (first, second, first[::-1, :, ::-1])[label]
        image[...] = source[top : top + 96, left : left + 96]
    images.transpose(0, 3, 2, 1).tofile(folder / "train_X.bin")
    (labels + 1).astype(np.uint8).tofile(folder / "train_y.bin")
    folds = [random.permutation(60)[:30] for _ in range(10)]
    (folder / "fold_indices.txt").write_text("".join(" ".join(map(str, fold)) + "\n" for fold in folds))
    return folder.parent


@pytest.fixture(scope="session")
def model(pictures, tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "features.epls"
    arguments = ["fit", pictures, "-o", path, "--n-components", 8, "--patch-size", 6, "--n-patches", 300]
    with few_steps():
        assert run([str(argument) for argument in arguments]) == 0
    return path


@pytest.fixture(scope="session")
def work(tmp_path_factory):
    """A folder with photographs, a table, an array, models of the first two, and files that cannot be used."""
    folder = tmp_path_factory.mktemp("work")
    (folder / "photos").mkdir()
    for number, image in enumerate(load_sample_images().images):
        Image.fromarray(image[:90, :120]).save(folder / "photos" / f"{number}.png")
    frame = load_breast_cancer(as_frame=True).frame
    frame.to_csv(folder / "table.csv", index=False)
    frame.drop(columns="target").to_parquet(folder / "table.parquet")
    np.save(folder / "vectors.npy", np.random.RandomState(0).normal(size=(300, 5)).astype(np.float32))
    for data, options in (
        ("photos", ["--n-components", "12", "--n-patches", "600"]),
        ("table.csv", ["--n-components", "10", "--drop", "target"]),
    ):
        model = (folder / data).with_suffix(".epls")
        with few_steps():
            assert run(["fit", str(folder / data), "-o", str(model), *options]) == 0
    np.save(folder / "cube.npy", np.zeros((2,) * 5))
    np.save(folder / "bad.npy", np.full((30, 3), np.nan))
    np.save(folder / "complex.npy", np.ones((30, 3), complex))
    (folder / "empty").mkdir()
    (folder / "twice.csv").write_text("a,a\n1,2\n3,4\n")
    (folder / "headless.csv").write_text("1,2\n3,4\n5,6\n")
    (folder / "missing.csv").write_text("a,b\n1,2\n3,\n5,6\n")
    frame.drop(columns=["target", "mean radius"]).to_csv(folder / "other.csv", index=False)
    save_model(StandardScaler().fit(np.load(folder / "vectors.npy")), folder / "scaler.epls")
    return folder


@pytest.fixture(scope="session")
def stack(pictures, tmp_path_factory):
    """A model of two layers, alone and as the first step of a pipeline: the paths of both."""
    folder = tmp_path_factory.mktemp("stack")
    first = Layer(EPLS(8, max_iter=2), patch_size=4, pool=2, n_patches=300)
    second = Layer(EPLS(5, max_iter=2), patch_size=3, n_groups=2, group_size=4, n_patches=300)
    features = DeepFeatures([first, second], random_state=0).fit(pictures)
    save_model(features, folder / "alone.epls")
    scaler = StandardScaler().fit(features.transform(pictures))
    save_model(Pipeline([("features", features), ("scaler", scaler)]), folder / "scaled.epls")
    return folder


@pytest.fixture(scope="session")
def in_parts(tmp_path_factory):
    """The same vectors as a file, a folder of files, and a zarr array."""
    folder = tmp_path_factory.mktemp("parts")
    X = np.random.RandomState(0).normal(size=(900, 5)).astype(np.float32)
    np.save(folder / "x.npy", X)
    (folder / "parts").mkdir()
    for number, part in enumerate(np.split(X, [200, 210])):
        np.save(folder / "parts" / f"{number}.npy", part)
    stored = zarr.create_array(str(folder / "x.zarr"), shape=X.shape, chunks=(100, 5), dtype=X.dtype)
    stored[:] = X
    return folder
