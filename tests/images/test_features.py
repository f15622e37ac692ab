"""Dense features against a plain loop over patches."""

from copy import copy

import numpy as np
import pytest
from PIL import Image
from scipy.special import expit
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_sample_images
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from epls import (
    EPLS,
    L2SVMCV,
    ImageFeatures,
    ImageFolder,
    NaturalEncoder,
    SoftThresholdEncoder,
    TriangleEncoder,
    load_model,
    save_model,
)
from epls.utils.threads import blas_threads


@pytest.fixture(scope="module")
def photographs():
    """Real images of two sizes, small enough for a plain loop."""
    first, second = load_sample_images().images
    return [first[100:124, 200:230], second[50:80, 60:84], first[300:324, 10:40]]


@pytest.fixture(scope="module")
def fitted(photographs):
    return ImageFeatures(EPLS(30, max_iter=5), patch_size=6, n_patches=3000, random_state=0).fit(photographs)


def plain_features(features, image, code_of_patch):
    """Every patch by itself, in float64."""
    size, stride, grid = features.patch_size, features.stride, features.grid
    height, width = image.shape[:2]
    rows = range(0, height - size + 1, stride)
    columns = range(0, width - size + 1, stride)
    codes = {}
    for i, top in enumerate(rows):
        for j, left in enumerate(columns):
            patch = image[top : top + size, left : left + size].astype(np.float64).reshape(-1)
            patch = (patch - patch.mean()) / np.sqrt(patch.var() + features.contrast_floor_)
            if features.whitening_ is not None:
                patch = (patch - features.whitening_.mean_) @ features.whitening_.matrix_.astype(np.float64)
            region = (
                sum(i >= np.floor(k * len(rows) / grid + 0.5) for k in range(1, grid)),
                sum(j >= np.floor(k * len(columns) / grid + 0.5) for k in range(1, grid)),
            )
            codes.setdefault(region, []).append(code_of_patch(patch))
    pooled = []
    for region in sorted(codes):
        total = np.sum(codes[region], axis=0)
        mean = total / len(codes[region])
        pooled.append({"sum": total, "mean": mean, "log": np.log(1 + mean / features.typical_code_)}[features.pooling])
    return np.concatenate(pooled)


@pytest.mark.parametrize(
    ("pooling", "stride", "grid"), [("sum", 1, 2), ("mean", 2, 1), ("log", 2, 3), ("sum", 3, 2), ("log", 3, 2)]
)
def test_natural_equals_the_plain_loop(fitted, photographs, pooling, stride, grid, device):
    settings = {"pooling": pooling, "stride": stride, "grid": grid, "n_patches": 500, "device": device}
    features = clone(fitted).set_params(**settings).fit(photographs)
    model = features.estimator_

    def code(patch):
        return expit(model.components_ @ ((patch - model.mean_) / model.scale_) + model.intercept_)

    for row, image in zip(features.transform(photographs), photographs, strict=True):
        np.testing.assert_allclose(row, plain_features(features, image, code), rtol=1e-4, atol=1e-5)


def test_whitened_triangle_equals_the_plain_loop(photographs, device):
    features = ImageFeatures(
        KMeans(12, n_init=1), patch_size=6, encoder=TriangleEncoder(split_sign=True), n_patches=1000, whiten=True,
        pooling="sum", random_state=0, device=device,
    ).fit(photographs)  # fmt: skip
    centers = features.estimator_.cluster_centers_
    units = np.concatenate([centers, -centers])

    def code(patch):
        distances = np.linalg.norm(units - patch, axis=1)
        return np.maximum(0, distances.mean() - distances)

    for row, image in zip(features.transform(photographs), photographs, strict=True):
        np.testing.assert_allclose(row, plain_features(features, image, code), rtol=1e-4, atol=1e-3)


def test_images_in_every_form_give_the_same(fitted, photographs, tmp_path):
    from_list = fitted.transform(photographs)
    for k, image in enumerate(photographs):
        Image.fromarray(image).save(tmp_path / f"{k}.png")
    np.testing.assert_array_equal(fitted.transform(tmp_path), from_list)
    np.testing.assert_array_equal(fitted.transform(ImageFolder(tmp_path)), from_list)

    same_size = np.stack([photographs[0], photographs[2]])
    planes = np.memmap(tmp_path / "planes.bin", np.uint8, "w+", shape=(2, 3, 30, 24))  # stored as STL-10 is
    planes[...] = same_size.transpose(0, 3, 2, 1)
    np.testing.assert_array_equal(fitted.transform(planes.transpose(0, 3, 2, 1)), from_list[[0, 2]])

    refitted = clone(fitted).fit(tmp_path)
    np.testing.assert_array_equal(refitted.estimator_.components_, fitted.estimator_.components_)


def test_the_number_of_threads_changes_nothing(fitted, photographs):
    expected = fitted.transform(photographs)
    with threadpool_limits(1):
        np.testing.assert_array_equal(fitted.transform(photographs), expected)


def test_the_scale_of_pixels_does_not_matter():
    images = load_digits().images[:100]
    features = ImageFeatures(EPLS(10, max_iter=3), patch_size=4, n_patches=1000, random_state=0)
    in_sixteenths = features.fit_transform(images)
    np.testing.assert_allclose(features.fit_transform(images / 1024), in_sixteenths, rtol=1e-4, atol=1e-6)


def test_log_pooling_is_of_one_scale_for_all_sizes(photographs):
    """Of an image and of the same image beside itself, the regions' means are nearly the same."""
    features = ImageFeatures(EPLS(16, max_iter=5), patch_size=4, grid=1, n_patches=2000, random_state=0)
    features.fit(photographs)
    image = photographs[0]
    once, twice = features.transform([image, np.concatenate([image, image[:, ::-1]], axis=1)])
    assert abs(once.mean() - twice.mean()) < 0.1 * once.mean()
    assert 0.3 < once.mean() < 1.0  # log(1 + 1) = 0.69, where images are as active as the training patches


def test_split_sign_doubles_the_codes(fitted, photographs, device):
    split = (
        clone(fitted).set_params(encoder=NaturalEncoder(split_sign=True), pooling="sum", device=device).fit(photographs)
    )
    plain = clone(fitted).set_params(pooling="sum", device=device).fit(photographs)
    both = split.transform(photographs).reshape(3, 4, 60)
    np.testing.assert_allclose(both[:, :, :30], plain.transform(photographs).reshape(3, 4, 30), rtol=1e-5)
    assert len(split.get_feature_names_out()) == 240


def test_in_a_search_over_a_pipeline():
    digits = load_digits()
    images, labels = digits.images[:150], digits.target[:150]
    pipeline = make_pipeline(
        ImageFeatures(EPLS(8, max_iter=2), patch_size=5, n_patches=300, random_state=0), StandardScaler(), LinearSVC()
    )
    search = GridSearchCV(
        pipeline, {"imagefeatures__grid": [1, 2], "imagefeatures__estimator__n_components": [6, 8]}, cv=2
    )
    search.fit(images, labels)
    assert search.best_score_ > 0.5


def test_seed_reaches_the_learner(photographs):
    features = ImageFeatures(EPLS(6, max_iter=2), patch_size=5, n_patches=300, random_state=3)
    first, second = (clone(features).fit(photographs).estimator_.components_ for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_bad_images_in_fit():
    with pytest.raises(ValueError, match=r"image \d has shape \(5, 9\); needed is .* at least 7"):
        ImageFeatures(EPLS(2), patch_size=6, n_patches=50).fit(np.zeros((3, 5, 9)))


def test_bad_images_in_transform(fitted, photographs):
    with pytest.raises(ValueError, match=r"image 1 has 1 channel\(s\), but 3 are needed"):
        fitted.transform([photographs[0], photographs[1][:, :, 0]])
    with pytest.raises(ValueError, match=r"image 0 has shape \(6, 30, 3\); .* at least 7"):
        fitted.transform([photographs[0][:6]])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        fitted.transform("nowhere")


def test_constant_images_have_constant_features(fitted, device):
    row = copy(fitted).set_params(device=device).transform([np.full((20, 20, 3), 77, np.uint8)])[0].reshape(4, -1)
    assert np.isfinite(row).all()
    np.testing.assert_allclose(row, np.tile(row[0], (4, 1)), rtol=1e-4)


def test_pixels_of_another_kind_are_refused(fitted, photographs):
    with pytest.raises(ValueError, match="image 0 has values of type float64, but features were learned from whole"):
        fitted.transform([photographs[0] / 255.0])
    np.testing.assert_array_equal(fitted.transform([photographs[0].astype(int)]), fitted.transform([photographs[0]]))


def test_codes_that_are_all_zero_are_told(photographs):
    features = ImageFeatures(EPLS(4, max_iter=2), patch_size=6, encoder=SoftThresholdEncoder(alpha=1e6), n_patches=100)
    with pytest.raises(ValueError, match=r"all codes of patches .* are 0"):
        features.fit(photographs)


@pytest.mark.filterwarnings("ignore:all 500 samples are equal")
def test_sums_over_a_large_image_are_exact(device):
    """A million patches in a region: single precision would lose count."""
    features = ImageFeatures(EPLS(2, max_iter=2), patch_size=1, grid=1, pooling="mean", n_patches=500, random_state=0)
    features.set_params(device=device)
    image = np.zeros((1, 1000, 1000), np.uint8)
    image[0, ::2] = 200
    features.fit(image)
    single, whole = features.transform([image[0, :2, :2]]), features.transform(image)
    np.testing.assert_allclose(whole, single, rtol=1e-6)


def test_iterating_is_transforming(fitted, photographs, device):
    fitted = copy(fitted).set_params(device=device)
    np.testing.assert_array_equal(np.stack(list(fitted.iter_transform(photographs))), fitted.transform(photographs))


def test_what_was_learned_without_labels_stays_in_a_pipeline(fitted):
    """The way of the README: components from unlabelled images, a classifier from few labelled ones."""
    first, second = load_sample_images().images
    images = np.stack([source[k : k + 24, k : k + 24] for k in range(0, 200, 10) for source in (first, second)])
    labels = np.tile([0, 1], 20)
    before = fitted.estimator_.components_.copy()
    model = make_pipeline(FrozenEstimator(fitted), StandardScaler(), L2SVMCV()).fit(images, labels)
    assert model.score(images, labels) > 0.9
    np.testing.assert_array_equal(fitted.estimator_.components_, before)


def test_with_encoder_is_a_fit_with_that_encoder(photographs):
    """Another encoder after fit: the same as having asked for it from the start, but for the patches that scale it."""
    settings = {"patch_size": 4, "n_patches": 500, "random_state": 0}
    learned = ImageFeatures(EPLS(6, max_iter=2), **settings).fit(photographs)
    wanted = {"encoder": SoftThresholdEncoder(alpha=0.1), "stride": 2, "grid": 1, "pooling": "log"}
    direct = ImageFeatures(EPLS(6, max_iter=2), **settings, **wanted).fit(photographs)
    changed = learned.with_encoder(photographs, **wanted)
    assert changed.typical_code_ == pytest.approx(direct.typical_code_, rel=0.1)
    changed.typical_code_ = direct.typical_code_
    np.testing.assert_array_equal(changed.transform(photographs), direct.transform(photographs))
    assert changed.estimator_ is learned.estimator_
    assert learned.encoder == "natural"
    with pytest.raises(ValueError, match="only stride, grid, pooling and mirror can be changed"):
        learned.with_encoder(photographs, "natural", patch_size=3)
    with pytest.raises(ValueError, match="'encoder' parameter"):
        learned.with_encoder(photographs, "nonsense")


@pytest.mark.parametrize(
    ("scale", "dtype", "message"),
    [
        (1e19, np.float32, r"image 0 has pixels of up to 9\.\de\+18, but at most 1e\+14"),
        (1e300, np.float64, r"image 0 has pixels of up to 9\.\de\+299, but at most 1e\+14"),
        (1e18, np.int64, r"image 0 has pixels of up to 9\.\de\+17, but at most 1e\+14"),
        (1e-25, np.float32, r"the pixels range over 1e-25 only"),
    ],
)
def test_pixels_that_cannot_be_squared_are_refused(scale, dtype, message):
    """Their patches were 0 or NaN, and so were the features."""
    images = load_digits().images[:40] / 16
    features = ImageFeatures(EPLS(8, max_iter=3), patch_size=4, n_patches=500, random_state=0)
    with pytest.raises(ValueError, match=message):
        features.fit((images * scale).astype(dtype))
    if scale > 1 and dtype != np.int64:
        features.fit(images)
        with pytest.raises(ValueError, match=message):
            features.transform((images * scale).astype(dtype))


@pytest.mark.parametrize("scale", [1e-16, 1e-8, 1e8, 9e13])
def test_any_other_scale_of_the_pixels_gives_the_same_features(scale):
    images = load_digits().images[:40].astype(np.float32) / 16
    features = ImageFeatures(EPLS(8, max_iter=3), patch_size=4, n_patches=500, random_state=0)
    expected = clone(features).fit_transform(images)
    np.testing.assert_allclose(features.fit_transform(images * np.float32(scale)), expected, rtol=0.02, atol=0.01)


def test_an_iterator_that_is_held_limits_nobody():
    images = load_digits().images[:9]
    features = ImageFeatures(EPLS(8, max_iter=3), patch_size=4, n_patches=500, random_state=0).fit(images)
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        rows = features.iter_transform(images)
        next(rows)
        assert blas_threads() == before
        assert len(list(rows)) == 8


@pytest.mark.parametrize("pooling", ["log", "sum", "mean"])
def test_mirror_images_are_averaged(photographs, fitted, pooling, tmp_path):
    plain = fitted.with_encoder(photographs, "natural", pooling=pooling)
    both = fitted.with_encoder(photographs, "natural", pooling=pooling, mirror=True)
    mirrored = [photograph[:, ::-1] for photograph in photographs]
    expected = (plain.transform(photographs) + plain.transform(mirrored)) / 2
    np.testing.assert_allclose(both.transform(photographs), expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_array_equal(both.transform(mirrored), both.transform(photographs))
    assert not np.allclose(both.transform(photographs), plain.transform(photographs))
    save_model(both, tmp_path / "model")
    np.testing.assert_array_equal(load_model(tmp_path / "model").transform(photographs), both.transform(photographs))
