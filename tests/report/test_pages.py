"""What stands in a page, against what the library says of the model."""

import base64
import io
import json
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image
from sklearn.cluster import MiniBatchKMeans
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, OMP, ImageFeatures, NaturalEncoder, Raw
from epls.evaluation import ComparedLearner
from epls.images.patches import normalize_patches
from epls.learners import LEARNERS
from epls.report import comparison_page, model_page
from epls.report.page import png


def content(page):
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def only_layer(page):
    (layer,) = content(page)["layers"]
    return layer


def picture(url):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB"))


def tile(sheet, number):
    pixels = picture(sheet["url"])
    height, width = pixels.shape[0] // sheet["rows"], pixels.shape[1] // sheet["columns"]
    row, column = divmod(number, sheet["columns"])
    return pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]


def test_top_patches_are_where_they_are_said_to_be(image_page, image_model, photographs):
    """Cut from the image at that place, a patch looks like its tile, and the unit answers as told."""
    page = only_layer(image_page)
    encoder = NaturalEncoder(image_model.estimator_)
    for unit in (0, 7, 29):
        answers = [top["answer"] for top in page["top"][unit]]
        assert answers == sorted(answers, reverse=True)
        for top in page["top"][unit]:
            number, row, column = top["place"]
            patch = photographs[number][row : row + 6, column : column + 6]
            assert (tile(page["patches"], top["tile"]) == patch).all()
            normal = normalize_patches(patch.reshape(1, -1), contrast_floor=image_model.contrast_floor_)
            assert encoder.transform(normal)[0, unit] == pytest.approx(top["answer"], abs=1e-3)


def test_tiles_are_the_filters(image_page, image_model):
    page = only_layer(image_page)
    component = image_model.estimator_.components_[17].reshape(6, 6, 3)
    expected = 255 * (component / np.abs(component).max() / 2 + 0.5)
    assert_allclose(tile(page["tiles"], 17), expected, atol=1)


def test_images_and_their_sizes(image_page, photographs):
    for image, shown in zip(photographs, content(image_page)["images"], strict=True):
        assert (shown["height"], shown["width"]) == image.shape[:2]
        small = picture(shown["url"])
        assert small.shape[0] / small.shape[1] == pytest.approx(image.shape[0] / image.shape[1], rel=0.02)
        assert abs(small.mean() - image.mean()) < 4  # the same picture


def test_text_cannot_become_code(image_page):
    assert "</script><b>more" not in image_page
    assert "Filters &amp; &lt;/script&gt;&lt;b&gt;more&lt;/b&gt;" in image_page


def test_nothing_is_loaded_from_elsewhere(image_page, vector_page):
    for page in (image_page, vector_page):
        assert set(re.findall(r'(?:src|href)="(.{5})', page)) == {"data:"}
        assert not re.search(r"https?:|url\((?!\$)|@import|fetch\(|XMLHttp", page)


def test_vectors_have_features_and_samples(vector_page, vector_model, vectors):
    page = only_layer(vector_page)
    codes = vector_model.transform(vectors)
    assert page["kind"] == "vectors"
    for unit in range(12):
        component = vector_model[-1].components_[unit]
        (name, weight), *_ = page["features"][unit]
        assert name == vectors.columns[np.abs(component).argmax()]
        assert weight == pytest.approx(component[np.abs(component).argmax()], rel=1e-3)
        best = page["top"][unit][0]
        assert codes[best["sample"], unit] == codes[:, unit].max()
        assert best["answer"] == pytest.approx(codes[:, unit].max(), abs=1e-4)
    assert len({pixel.tobytes() for pixel in tile(page["tiles"], 3).reshape(-1, 3)}) == 3  # ground, up and down


def test_only_so_many_samples_are_taken():
    X = np.random.RandomState(0).normal(size=(40_000, 3)).astype(np.float32)
    page = only_layer(model_page(Raw().fit(X), X))
    assert dict(page["facts"])["Shown here"] == "30,000 of 40,000 samples"


def test_top_patches_are_different_ones(image_page):
    """No two of a unit overlap by half, however small the images are."""
    for top in only_layer(image_page)["top"]:
        places = [entry["place"] for entry in top]
        for k, (image, row, column) in enumerate(places):
            for other, other_row, other_column in places[:k]:
                assert image != other or abs(row - other_row) > 3 or abs(column - other_column) > 3


def test_an_image_with_a_single_patch():
    image = np.random.RandomState(0).randint(256, size=(1, 5, 5), dtype=np.uint8)
    more = np.random.RandomState(1).randint(256, size=(9, 9, 9), dtype=np.uint8)
    model = ImageFeatures(EPLS(3, max_iter=2), patch_size=5, n_patches=100, random_state=0).fit(more)
    page = only_layer(model_page(model, image))
    assert dict(page["facts"])["Shown here"] == "1 patch from 1 image"
    assert [len(top) for top in page["top"]] == [1, 1, 1]


@pytest.mark.parametrize("dtype", [np.uint16, np.int64, bool])
def test_whole_numbers_of_other_types(dtype):
    images = np.random.RandomState(0).randint(2 if dtype is bool else 60_000, size=(6, 20, 20)).astype(dtype)
    model = ImageFeatures(EPLS(6, max_iter=2), patch_size=5, n_patches=500, random_state=0).fit(images)
    page = only_layer(model_page(model, images))
    top = page["top"][2][0]
    number, row, column = top["place"]
    patch = images[number, row : row + 5, column : column + 5].astype(float)
    shown = tile(page["patches"], top["tile"])[..., 0].astype(float)
    assert np.corrcoef(patch.ravel(), shown.ravel())[0, 1] > 0.999


def test_figures_of_data_on_any_scale():
    X = np.random.RandomState(0).normal(size=(200, 5))
    units = [only_layer(model_page(model, scale * X))["units"] for scale in (1, 1e-9)
             for model in [OMP(4, random_state=0).fit(scale * X)]]  # fmt: skip
    assert_allclose(np.array(units[0]["mean"]) * 1e-9, units[1]["mean"], rtol=1e-3)
    assert min(units[1]["largest"]) > 0


def test_learners_of_scikit_learn(photographs):
    """Those without components_ too."""
    kmeans = MiniBatchKMeans(8, n_init=1, random_state=0)
    model = ImageFeatures(kmeans, patch_size=6, n_patches=500, encoder="triangle", whiten=True, random_state=0)
    page = only_layer(model_page(model.fit(photographs), photographs))
    assert len(page["units"]["mean"]) == 8
    assert "TriangleEncoder" in dict(page["facts"])["Outputs"]


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_has_a_page(name):
    X = np.random.RandomState(0).normal(size=(60, 6))
    learner = LEARNERS[name]()
    given = {"n_components": 4, "random_state": 0, "max_iter": 2}
    learner.set_params(**{key: value for key, value in given.items() if key in learner.get_params()})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of two iterations
        learner.fit(X)
    page = only_layer(model_page(learner, X))
    assert len(page["top"]) == len(learner.components_)


def test_names_of_what_the_learner_was_given(vectors):
    model = make_pipeline(PCA(3), EPLS(4, max_iter=2)).fit(vectors)
    page = only_layer(model_page(model, vectors))
    assert {name for unit in page["features"] for name, _ in unit} == {"pca0", "pca1", "pca2"}
    plain = EPLS(4, max_iter=2).fit(vectors.to_numpy())
    with pytest.raises(ValueError, match="1 feature_names were given, but the learner has 30"):
        model_page(plain, vectors.to_numpy(), feature_names=["a"])


def test_models_without_units(vectors):
    for model in (StandardScaler().fit(vectors), make_pipeline(StandardScaler()).fit(vectors)):
        with pytest.raises(ValueError, match="a StandardScaler has no units to show"):
            model_page(model, vectors)


def test_gray_images_of_fractions(gray):
    model = ImageFeatures(EPLS(8, max_iter=2), patch_size=5, n_patches=500, random_state=0).fit(gray)
    page = only_layer(model_page(model, gray))
    assert set(page["units"]["color"]) == {0}
    top = page["top"][2][0]
    number, row, column = top["place"]
    shown = tile(page["patches"], top["tile"])[..., 0]
    assert_allclose(shown, 255 * gray[number, row : row + 5, column : column + 5], atol=4)


def test_large_patches_and_whitening(photographs):
    images = [photograph[..., 1] for photograph in photographs]
    model = ImageFeatures(OMP(5), patch_size=30, n_patches=300, whiten=True, random_state=0).fit(images)
    page = only_layer(model_page(model, images))
    assert tile(page["patches"], 0).shape == (15, 15, 3)  # two by two averaged
    assert page["size"] == 30


@pytest.mark.slow
def test_a_size_for_many_units():
    """1600 units of 10 x 10 color patches, with as many different top patches as there can be, in less than 10 MB."""
    random = np.random.RandomState(0)
    images = random.randint(256, size=(200, 40, 40, 3), dtype=np.uint8)  # noise: nothing compresses worse
    model = ImageFeatures(EPLS(1600, max_iter=1), n_patches=3200, random_state=0).fit(images)
    assert len(model_page(model, images)) < 10e6


def test_what_is_not_fitted_or_does_not_fit(image_model, vectors):
    from sklearn.exceptions import NotFittedError

    with pytest.raises(NotFittedError):
        model_page(ImageFeatures(), vectors)
    with pytest.raises(ValueError, match="images must be an array of shape"):
        model_page(image_model, vectors.to_numpy())
    with pytest.raises(ValueError, match="no images"):
        model_page(image_model, [])


def test_a_comparison():
    rows = [
        ComparedLearner("epls", 60.0, 1.0, (59.0, 61.0), 32, {"learn": 3.0, "encode": 2.0, "judge": 1.0}, 8, 1, 0),
        ComparedLearner("omp", failed="too <few> samples"),
    ]
    filters, settings = {"epls": png(np.zeros((4, 4, 3), np.uint8))}, {"omp": {"n_nonzero_coefs": 5, "tol": None}}
    page = content(comparison_page(rows, [("Data", "a & b")], settings=settings, filters=filters, title="Both"))
    first, second = page["entries"]
    assert first["accuracy"] == 60
    assert first["n_never_active"] == 1
    assert picture(first["filters"]).shape == (4, 4, 3)
    assert second["failed"] == "too <few> samples"
    assert second["accuracy"] is None
    assert second["settings"] == {"n_nonzero_coefs": "5"}
