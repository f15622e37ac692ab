"""What the page to look through data contains."""

import base64
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_iris

from epls import EPLS, ImageFeatures
from epls.datasets.labels import Label
from epls.images.reading import ImageCollection
from epls.report import explore
from epls.report.explore import packed_codes
from epls.report.page import packed
from epls.report.thumbnails import looks, thumbnails_of, tile_side


def content_of(html):
    return json.loads(html.split('id="content">')[1].split("</script>")[0])


def unpacked(text, dtype):
    return np.frombuffer(base64.b64decode(text), dtype)


@pytest.fixture(scope="module")
def scenes():
    """Thirty noisy images of three colors, the last two the same."""
    random = np.random.RandomState(0)
    images = np.array([200, 60, 60]) * np.ones((30, 12, 16, 3))
    images[10:20] = [60, 60, 200]
    images[20:] = [60, 200, 60]
    images = np.clip(images + random.normal(scale=20, size=images.shape), 0, 255).astype(np.uint8)
    images[29] = images[28]
    return images


@pytest.fixture(scope="module")
def scene_content(scenes):
    pixels = scenes.reshape(30, -1)
    labels = ["red", *[None] * 28, Label("green", 0.25, given=False)]
    return content_of(explore(scenes, features=pixels, groups=3, labels=labels))


def test_groups_are_the_colors(scene_content):
    groups = unpacked(scene_content["group"], "<i2")
    assert len({tuple(groups[k : k + 10]) for k in (0, 10, 20)}) == 3
    assert all(len(set(groups[k : k + 10])) == 1 for k in (0, 10, 20))
    red = scene_content["groups"][groups[0]]
    assert red["size"] == 10
    assert set(red["typical"]) <= set(range(10))
    assert "warmer colors" in red["traits"]
    assert red["labels"] == [["red", 1]]


def test_nearest_images_are_of_the_same_color(scene_content):
    nearest = unpacked(scene_content["nearest"], "<u4").reshape(30, -1)
    assert (nearest[:, :9] // 10 == np.arange(30)[:, None] // 10).all()
    assert nearest[28, 0] == 29
    assert unpacked(scene_content["cosines"], "u1").reshape(30, -1)[28, 0] == 100


def test_the_same_image_twice_is_a_duplicate(scene_content):
    duplicates = scene_content["duplicates"]
    assert duplicates["pairs"][0] == [28, 29, 1]
    assert all(score < duplicates["usual"] for *_, score in duplicates["pairs"][1:])


def test_noise_of_three_colors_has_no_outliers(scene_content):
    assert scene_content["outliers"] == []
    assert scene_content["groupKind"] == "balanced"


def test_places_are_on_the_map(scene_content):
    positions = unpacked(scene_content["positions"], "<u2").reshape(30, 2)
    assert len(np.unique(positions, axis=0)) >= 29
    cells = unpacked(scene_content["cells"], "<u2").reshape(30, 2)
    assert len(np.unique(cells, axis=0)) == 30
    assert cells.max() < scene_content["cellsAcross"]


def test_labels_by_people_and_by_a_classifier(scene_content):
    labels = scene_content["labels"]
    assert labels["classes"] == ["green", "red"]
    assert unpacked(labels["of"], "<i4").tolist() == [1, *[-1] * 28, 0]
    assert unpacked(labels["given"], "u1").tolist() == [1, *[0] * 29]
    assert unpacked(labels["confidence"], "u1")[[0, 29]].tolist() == [100, 25]


def test_pictures_are_in_their_tiles(scenes, scene_content):
    assert scene_content["side"] == 24  # twelve by sixteen pixels
    assert unpacked(scene_content["sizes"], "u1").reshape(30, 2).tolist() == [[16, 12]] * 30
    colors = unpacked(scene_content["colors"], "u1").reshape(30, 3)
    np.testing.assert_allclose(colors, scenes.mean(axis=(1, 2)), atol=1)


def test_features_are_learned_if_none_are_given(scenes, monkeypatch):
    monkeypatch.setattr("epls.images.recipes._PATCHES", 500)
    told = []
    html = explore(scenes, groups="density", progress=lambda *progress: told.append(progress))
    assert {stage for stage, *_ in told} == {"learn", "encode", "draw", "arrange"}
    assert "units of one layer, learned from them" in content_of(html)["basis"]
    assert content_of(html)["units"]["columns"] > 1
    assert html == explore(scenes, groups="density")


def test_a_model_computes_features_and_shows_its_filters(scenes):
    model = ImageFeatures(EPLS(8, max_iter=2), patch_size=4, n_patches=500, random_state=0).fit(scenes)
    content = content_of(explore(scenes, features=model, groups=3))
    assert any(group["units"] for group in content["groups"])


def test_vectors_have_columns():
    iris = load_iris()
    content = content_of(explore(iris.data, columns=iris.feature_names, groups=3, labels=list(map(str, iris.target))))
    assert content["kind"] == "vectors"
    assert content["basis"] == "4 columns"
    assert content["nameColumn"] == "row"
    assert content["names"][:2] == ["0", "1"]
    groups = unpacked(content["group"], "<i2")
    (setosa,) = set(groups[:50])
    petal = [
        iris.feature_names[column] for column, difference in content["groups"][setosa]["columns"] if difference < 0
    ]
    assert "petal length (cm)" in petal
    unusual = unpacked(content["unusual"], "<u4").reshape(150, -1)
    values = unpacked(content["values"], "<f4").reshape(150, -1)
    np.testing.assert_allclose(values[7], iris.data[7, unusual[7]], rtol=1e-6)


def test_the_page_has_64_bytes_of_each_sample(scene_content):
    """From them, images of the same color are the nearest ones."""
    codes = scene_content["codes"]
    assert len(codes["scales"]) == 30  # there are no more components than samples
    rows = unpacked(codes["values"], "i1").reshape(30, -1) * codes["scales"]
    distances = np.linalg.norm(rows[:, None] - rows, axis=2) + 1e9 * np.eye(30)
    assert (distances.argmin(axis=1) // 10 == np.arange(30) // 10).all()


@pytest.mark.parametrize("metric", ["standardized", "cosine"])
@pytest.mark.parametrize("n_columns", [3, 90, 300])
def test_bytes_keep_the_components(n_columns, metric):
    random = np.random.RandomState(0)
    X = random.normal(size=(200, n_columns)) * np.linspace(1, 5, n_columns)
    codes = packed_codes(X, metric, random)
    rows = unpacked(codes["values"], "i1").reshape(200, -1) * codes["scales"]
    assert rows.shape[1] == min(64, n_columns)
    centered = X - X.mean(axis=0)
    values, vectors = np.linalg.eigh(centered.T @ centered)
    wanted = (centered @ vectors)[:, np.argsort(-values)][:, :3]
    wanted = wanted * wanted.std(axis=0) if metric == "standardized" else wanted
    np.testing.assert_allclose(np.abs(rows[:, :3]), np.abs(wanted), atol=0.02 * np.abs(wanted).max())


def test_equal_samples_have_codes_of_zero():
    codes = content_of(explore(np.ones((5, 3))))["codes"]
    assert set(unpacked(codes["values"], "i1")) == {0}


def test_labels_are_kept_for_the_same_samples_only(scenes):
    pixels = scenes.reshape(30, -1)
    digests = [
        content_of(explore(scenes, features=features, **more))["digest"]
        for features, more in [
            (pixels, {}),
            (pixels, {"title": "another"}),
            (pixels[:, ::2], {}),
            (pixels, {"names": list(map(str, range(1, 31)))}),
            (pixels, {"labels": ["a", *[None] * 29]}),
        ]
    ]
    assert digests[0] == digests[1]
    assert len(set(digests)) == 4


@pytest.mark.parametrize(
    ("data", "more", "message"),
    [
        (np.eye(2), {}, "the data have 2 samples, but a map needs at least 3"),
        (np.eye(4), {"groups": "few"}, "groups='few'"),
        (np.eye(4), {"features": np.eye(3)}, "features has 3 rows"),
        (np.eye(4), {"names": ["a"]}, "1 names"),
        (np.eye(4), {"labels": ["a"]}, "1 labels"),
        (np.eye(4), {"columns": ["a"]}, "1 column names"),
        (np.eye(4), {"groups": 0}, "groups=0"),
        (np.eye(4), {"groups": None}, "groups=None"),
        (np.eye(4), {"features": EPLS()}, "not fitted"),
        (np.full((4, 2), np.nan), {}, "NaN"),
    ],
)
def test_what_is_refused(data, more, message):
    with pytest.raises(ValueError, match=message):
        explore(data, **more)


@given(st.lists(st.text(min_size=1), min_size=3, max_size=3))
def test_any_name_comes_back_and_none_ends_the_script(names):
    html = explore(np.eye(3), names=names, title=names[0])
    assert content_of(html)["names"] == names
    assert html.count("</script>") == 2
    html.encode()  # also names that are not valid UTF-8


def test_packed_numbers_are_little_endian():
    assert unpacked(packed([1, -2], np.int16), "<i2").tolist() == [1, -2]


def test_many_pictures_stay_small():
    """Random pictures of a hundred bytes each would be the worst case; photographs are what the bound is for."""
    assert 10_000 * tile_side(10_000, 4000) ** 2 * 0.5 * 4 / 3 < 20e6


def test_pictures_of_several_sizes_and_types():
    images = [np.random.RandomState(k).uniform(size=(5 + 60 * k, 50, 7)).astype(np.float32) for k in range(5)]
    fingerprints, made = thumbnails_of(ImageCollection(images, 1), lambda *progress: None)
    assert made["side"] == 224
    sizes = unpacked(made["sizes"], np.uint8).reshape(-1, 2)
    assert sizes[0].tolist() == [200, 20]
    assert sizes[4].tolist() == [46, 224]  # of 245 x 50 pixels
    assert looks(fingerprints).shape == (5, 7)


# How a file stores a scene, for each orientation that it may state.
STORED = {
    1: lambda scene: scene,
    2: lambda scene: scene[:, ::-1],
    3: lambda scene: scene[::-1, ::-1],
    4: lambda scene: scene[::-1],
    5: lambda scene: scene.swapaxes(0, 1),
    6: lambda scene: np.rot90(scene),
    7: lambda scene: scene[::-1, ::-1].swapaxes(0, 1),
    8: lambda scene: np.rot90(scene, -1),
}


@pytest.mark.parametrize("orientation", STORED)
def test_pictures_are_upright(tmp_path, orientation):
    """Photographs taken with the camera on its side: in a folder, and opened by Pillow."""
    scene = np.zeros((64, 48, 3), np.uint8)
    scene[56:] = 200, 30, 30  # the bottom
    scene[:, 40:, 1] = 200  # the right side
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(STORED[orientation](scene)))
    stored.save(tmp_path / "a.jpg", exif=exif, quality=95, subsampling=0)
    for images in (tmp_path, [Image.open(tmp_path / "a.jpg")]):
        fingerprints, made = thumbnails_of(ImageCollection(images, 1), lambda *progress: None)
        assert unpacked(made["sizes"], np.uint8).tolist() == [48, 64]
        (sheet,) = made["sheets"]
        shown = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet.split(",")[1]))))[:64, :48]
        for picture in (shown, fingerprints[0]):
            is_red, is_green = picture[..., 0] > 100, picture[..., 1] > 100
            assert is_red[-1].all()
            assert not is_red[: len(picture) // 2].any()
            assert is_green[:, -1].all()
            assert not is_green[:, : picture.shape[1] // 2].any()


@pytest.mark.parametrize("unit", [1e-300, 1.0, 1e305])
def test_given_positions_are_the_map(scenes, unit):
    """x to the right and y upwards, at one scale; groups are still those of the features."""
    given = np.random.RandomState(0).uniform(-1000, 500, size=(30, 2))
    content = content_of(explore(scenes, features=scenes.reshape(30, -1), groups=3, positions=unit * given))
    positions = unpacked(content["positions"], "<u2").reshape(30, 2) / 65535
    (slope, _), (other, _) = (np.polyfit(given[:, axis], positions[:, axis], 1) for axis in (0, 1))
    assert slope == pytest.approx(-other, rel=0.01)
    assert 1 / 1700 < slope < 1 / 1300
    centered, expected = positions - positions.mean(axis=0), (given - given.mean(axis=0)) * [slope, -slope]
    np.testing.assert_allclose(centered, expected, atol=0.005)
    groups = unpacked(content["group"], "<i2")
    assert all(len(set(groups[k : k + 10])) == 1 for k in (0, 10, 20))


@pytest.mark.parametrize(
    ("positions", "message"),
    [(np.ones((29, 2)), r"shape \(29, 2\), but must have shape \(30, 2\)"), (np.full((30, 2), np.nan), "NaN")],
)
def test_positions_that_do_not_fit(scenes, positions, message):
    with pytest.raises(ValueError, match=message):
        explore(scenes, features=scenes.reshape(30, -1), positions=positions)


def test_the_cosine_of_features_as_they_are():
    """Rows that differ in length only are the most similar, and a large common direction makes all similar."""
    random = np.random.RandomState(0)
    X = np.abs(random.normal(size=(20, 40)))
    X = np.concatenate([X, 5 * X]) + 3
    X[20:] = 5 * X[:20]
    content = content_of(explore(X, metric="cosine", groups=4))
    nearest = unpacked(content["nearest"], "<u4").reshape(40, -1)
    np.testing.assert_array_equal(nearest[:, 0], (np.arange(40) + 20) % 40)
    assert unpacked(content["cosines"], "u1").min() > 90
    assert content["basis"] == "the cosine of 40 columns"
    with pytest.raises(ValueError, match="give 'standardized' or 'cosine'"):
        explore(X, metric="euclidean")
