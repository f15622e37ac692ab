"""What stands in a page, against what the library says of the model."""

import base64
import io
import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose
from PIL import Image

from epls import EPLS, OMP, ImageFeatures, NaturalEncoder, Raw
from epls.evaluation.comparison import Entry
from epls.evaluation.experiment import Settings
from epls.images.patches import normalize_patches
from epls.report import comparison_page, model_page


def content(page):
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def picture(url):
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(url.split(",")[1]))).convert("RGB"))


def tile(sheet, number):
    pixels = picture(sheet["url"])
    height, width = pixels.shape[0] // sheet["rows"], pixels.shape[1] // sheet["columns"]
    row, column = divmod(number, sheet["columns"])
    return pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]


def test_top_patches_are_where_they_are_said_to_be(image_page, image_model, photographs):
    """Cut from the image at that place, a patch looks like its tile, and the unit answers as told."""
    page = content(image_page)
    encoder = NaturalEncoder(image_model.learner_)
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
    page = content(image_page)
    basis = image_model.learner_.components_[17].reshape(6, 6, 3)
    expected = 255 * (basis / np.abs(basis).max() / 2 + 0.5)
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
    page = content(vector_page)
    codes = vector_model.transform(vectors)
    assert page["kind"] == "vectors"
    for unit in range(12):
        basis = vector_model[-1].components_[unit]
        (name, weight), *_ = page["features"][unit]
        assert name == vectors.columns[np.abs(basis).argmax()]
        assert weight == pytest.approx(basis[np.abs(basis).argmax()], rel=1e-3)
        best = page["top"][unit][0]
        assert codes[best["sample"], unit] == codes[:, unit].max()
        assert best["answer"] == pytest.approx(codes[:, unit].max(), abs=1e-4)
    assert len({pixel.tobytes() for pixel in tile(page["tiles"], 3).reshape(-1, 3)}) == 3  # ground, up and down


def test_only_so_many_samples_are_taken():
    X = np.random.RandomState(0).normal(size=(40_000, 3)).astype(np.float32)
    page = content(model_page(Raw().fit(X), X))
    assert page["count"] == {"samples": 30_000, "all": 40_000}


def test_grey_images_of_fractions(grey):
    model = ImageFeatures(EPLS(8, max_iter=2), patch_size=5, n_patches=500, random_state=0).fit(grey)
    page = content(model_page(model, grey))
    assert set(page["units"]["colour"]) == {0}
    top = page["top"][2][0]
    number, row, column = top["place"]
    shown = tile(page["patches"], top["tile"])[..., 0]
    assert_allclose(shown, 255 * grey[number, row : row + 5, column : column + 5], atol=4)


def test_large_patches_and_whitening(photographs):
    model = ImageFeatures(OMP(5), patch_size=30, n_patches=300, whiten=True, random_state=0).fit(photographs)
    page = content(model_page(model, photographs))
    assert tile(page["patches"], 0).shape == (15, 15, 3)  # every other pixel
    assert page["patches"]["size"] == 30


def test_a_size_for_many_units():
    """1600 units of 10 x 10 colour patches, with as many different top patches as there can be, in less than 10 MB."""
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
    seconds = {"learn": 3.0, "encode": 2.0, "classify": 1.0}
    entries = [
        Entry(Settings(learner="epls"), 60.0, 1.0, (59.0, 61.0), seconds, 0, 8, 1),
        Entry(Settings(learner="omp", learner_settings={"n_nonzero_coefs": 5}), failed="too <few> samples"),
    ]
    page = content(comparison_page(entries, [("Data", "a & b")], {0: np.zeros((4, 4, 3), np.uint8)}, title="Both"))
    first, second = page["entries"]
    assert first["accuracy"] == 60
    assert first["dead"] == 1
    assert picture(first["filters"]).shape == (4, 4, 3)
    assert second["failed"] == "too <few> samples"
    assert "n_nonzero_coefs=5" in second["name"]
