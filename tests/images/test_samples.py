"""Patches of whole images as samples: against a plain cut of the same images."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.lib.stride_tricks import sliding_window_view
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits, load_sample_images

from epls import EPLS, OMP, Checkpoint, ImageFeatures, TrainingSettings, ZCAWhitening, load_model, save_model
from epls.callbacks import OnEpoch
from epls.images.patches import Preparation, normalize_patches, patches_per_image
from epls.images.reading import ImageCollection
from epls.images.samples import ImagePatchSamples

FLOOR = 10.0


def noise_images(sizes, n_channels=1, seed=0):
    random = np.random.RandomState(seed)
    return [random.randint(256, size=(*size, n_channels), dtype=np.uint8) for size in sizes]


def samples_of(images, size, n_patches=10**9, per_image=10**9, whitening=None, seed=0):
    collection = ImageCollection(images, size)
    sizes = {"patch_size": size, "n_patches": n_patches, "patches_per_image": per_image}
    return ImagePatchSamples(collection, Preparation.of(FLOOR, whitening), random=np.random.RandomState(seed), **sizes)


def plain_patches(image, size):
    """Every patch of an image, normalised: a set to look rows up in."""
    windows = sliding_window_view(image, (size, size), axis=(0, 1)).transpose(0, 1, 3, 4, 2)
    return normalize_patches(windows.reshape(windows.shape[0] * windows.shape[1], -1), contrast_floor=FLOOR)


def rows_of(batches):
    return [X[rows] for X, rows in batches]


def same_rows(one, other):
    """Whether two arrays hold the same rows in any order, to rounding."""
    order = [np.lexsort(np.round(a, 3).T) for a in (one, other)]
    return one.shape == other.shape and np.allclose(one[order[0]], other[order[1]], atol=1e-4)


def image_of(batch, images, size):
    """The images that have all the patches of a batch."""
    found = []
    for number, image in enumerate(images):
        distances = np.abs(batch[:, None] - plain_patches(image, size)[None]).max(axis=2)
        if (distances.min(axis=1) < 1e-4).all():
            found.append(number)
    return found


def test_a_batch_is_one_image_and_an_epoch_all_of_them():
    images = noise_images([(8, 9), (6, 6), (11, 7)])
    batches = rows_of(samples_of(images, 4).epoch(np.random.RandomState(0), batch_size=40))
    assert sorted(len(batch) for batch in batches) == [9, 30, 32]
    owners = [image_of(batch, images, 4) for batch in batches]
    assert sorted(owners) == [[0], [1], [2]]
    for batch, (owner,) in zip(batches, owners, strict=True):
        assert same_rows(batch, plain_patches(images[owner], 4))


def test_epochs_take_images_in_another_order_and_the_same_patches():
    images = noise_images([(9, 9)] * 6)
    samples, random = samples_of(images, 4, per_image=20), np.random.RandomState(0)
    first, second = (rows_of(samples.epoch(random, 20)) for _ in range(2))
    assert [image_of(b, images, 4) for b in first] != [image_of(b, images, 4) for b in second]
    assert same_rows(np.concatenate(first), np.concatenate(second))
    assert same_rows(np.concatenate(first), samples.array())


@given(
    st.lists(st.tuples(st.integers(3, 8), st.integers(3, 8)), min_size=1, max_size=7),
    st.integers(1, 40),
    st.integers(1, 60),
    st.integers(0, 3),
    st.integers(0, 99),
)
def test_sizes_counts_and_beginning_in_the_middle(sizes, per_image, batch_size, skip, seed):
    images = noise_images(sizes)
    samples = samples_of(images, 3, per_image=per_image, seed=seed)
    expected = [min(per_image, (h - 2) * (w - 2)) for h, w in sizes]
    assert samples.shape == (sum(expected), 9)
    assert sorted(samples.sizes) == sorted(expected)
    random = np.random.RandomState(seed)
    whole = rows_of(samples.epoch(random, batch_size))
    after = random.randint(1000)
    assert len(whole) == samples.n_batches(batch_size) == samples.n_batches(batch_size, drop_last=True)
    assert all(1 <= len(batch) <= batch_size for batch in whole)
    assert same_rows(np.concatenate(whole), samples.array())
    random = np.random.RandomState(seed)
    rest = rows_of(samples.epoch(random, batch_size, skip=skip))
    assert [len(b) for b in rest] == [len(b) for b in whole[skip:]]
    assert all((a == b).all() for a, b in zip(rest, whole[skip:], strict=True))
    assert random.randint(1000) == after


def test_moments_are_those_of_the_patches():
    samples = samples_of(noise_images([(8, 9), (6, 6)], n_channels=3), 4, per_image=20)
    center, scale = samples.moments.center_and_scale()
    X = samples.array().astype(np.float64)
    np.testing.assert_allclose(center, X.mean(axis=0), atol=1e-6)
    assert scale == pytest.approx(np.sqrt(X.var(axis=0).mean()))


def test_no_patch_of_an_image_comes_twice():
    image = np.arange(400, dtype=np.float32).reshape(1, 20, 20) ** 1.5  # no two patches are alike
    X = samples_of(image, 3, per_image=300).array()
    assert len(np.unique(X, axis=0)) == len(X) == 300


def test_images_are_taken_until_there_are_enough_patches():
    images = noise_images([(12, 12)] * 30)
    samples = samples_of(images, 3, n_patches=170, per_image=50)
    assert samples.sizes.tolist() == [50] * 4
    assert len(set(samples.numbers)) == 4


def test_small_images_share_a_batch():
    """Of 16 patches each: 16 whole images in a batch of at most 260, and 12 in the last of 19."""
    samples = samples_of(noise_images([(8, 8)] * 300), 5)
    sizes = [len(batch) for batch in rows_of(samples.epoch(np.random.RandomState(0), 260))]
    assert sizes == [256] * 18 + [192]


def test_patches_are_whitened():
    images = noise_images([(12, 12)] * 4)
    plain = samples_of(images, 3).array()
    whitening = ZCAWhitening().fit(plain)
    np.testing.assert_allclose(
        samples_of(images, 3, whitening=whitening).array(), whitening.transform(plain), atol=1e-5
    )


def test_one_image_at_a_time_is_held():
    class Reader:
        """A long sequence of images, none of which exists before it is read."""

        n_read = 0

        def __len__(self):
            return 10_000

        def __getitem__(self, number):
            self.n_read += 1
            return np.random.RandomState(number).randint(256, size=(16, 16), dtype=np.uint8)

    reader = Reader()
    samples = samples_of(reader, 4, n_patches=500, per_image=100)
    assert reader.n_read <= 7
    assert samples.shape[0] == 500


@pytest.fixture(scope="module")
def photographs():
    return [
        photograph[top : top + 60, left : left + 60 + 4 * k]
        for photograph in load_sample_images().images
        for k, (top, left) in enumerate([(0, 0), (120, 200), (250, 80), (330, 420)])
    ]


class TestFeatures:
    def fitted(self, images, **settings):
        features = ImageFeatures(
            EPLS(20, max_iter=settings.pop("max_iter", 6)), patch_size=6, n_patches=4000, sampling="images",
            random_state=0, **settings,
        )  # fmt: skip
        return features.fit(images)

    def test_images_of_mixed_sizes_are_learned_from_and_units_win_equally_often(self, photographs):
        features = self.fitted(photographs)
        reports = features.estimator_.epoch_reports_
        assert all(report.win_spread <= 1 for report in reports)
        assert reports[-1].error < reports[0].error
        assert features.transform(photographs).shape == (8, 80)

    @pytest.mark.slow
    def test_filters_are_no_noise_and_no_unit_is_dead(self, photographs):
        from epls.metrics import noise_filters

        features = self.fitted(photographs, max_iter=60)
        patches = features.draw_patches(photographs, 4000, random_state=1)
        assert len(noise_filters(features.estimator_.components_, patches)) <= 2
        assert features.estimator_.epoch_reports_[-1].n_never_active == 0

    def test_a_seed_fixes_the_result(self, photographs):
        one, other = (self.fitted(photographs, max_iter=2).estimator_.components_ for _ in range(2))
        np.testing.assert_array_equal(one, other)

    def test_small_images_are_learned_from(self):
        images = load_digits().images[:300].astype(np.uint8)
        estimator = EPLS(20, max_iter=2)
        features = ImageFeatures(estimator, patch_size=5, n_patches=4800, sampling="images", random_state=0).fit(images)
        assert features.transform(images).shape == (300, 80)
        assert features.estimator_.epoch_reports_[-1].win_spread <= 1

    def test_whitened_patches_and_other_learners(self, photographs):
        features = ImageFeatures(
            OMP(10, max_iter=3), patch_size=5, n_patches=2000, sampling="images", whiten=True, random_state=0
        )
        assert features.fit_transform(photographs).shape == (8, 40)

    def test_the_batch_size_of_the_estimator_is_that_of_an_image(self, photographs, monkeypatch):
        sizes = []
        original = ImagePatchSamples.epoch

        def noting(self, *args, **settings):
            for batch in original(self, *args, **settings):
                sizes.append(len(batch[1]))
                yield batch

        monkeypatch.setattr(ImagePatchSamples, "epoch", noting)
        learner = EPLS(20, batch_size=500, max_iter=1, settings=TrainingSettings(wake=False))
        ImageFeatures(learner, patch_size=6, n_patches=4000, sampling="images", random_state=0).fit(photographs)
        assert sizes == [500] * 8

    def test_it_goes_on_from_a_checkpoint(self, photographs, tmp_path):
        class StoppedError(Exception):
            pass

        def stopping(done, total):
            if done == 2:
                raise StoppedError

        def new(*callbacks):
            estimator = EPLS(20, max_iter=4, random_state=1).set_callbacks(*callbacks)
            return ImageFeatures(estimator, patch_size=6, n_patches=4000, sampling="images", random_state=0)

        checkpoint = Checkpoint(tmp_path, seconds=0)
        with pytest.raises(StoppedError):
            new(checkpoint, OnEpoch(stopping)).fit(photographs)
        assert list(tmp_path.iterdir())
        resumed, whole = new(checkpoint).fit(photographs), new().fit(photographs)
        np.testing.assert_array_equal(resumed.estimator_.components_, whole.estimator_.components_)

    def test_a_file_keeps_the_setting(self, photographs, tmp_path):
        features = self.fitted(photographs, max_iter=2)
        save_model(features, tmp_path / "model.epls")
        loaded = load_model(tmp_path / "model.epls")
        assert loaded.sampling == "images"
        np.testing.assert_array_equal(loaded.transform(photographs), features.transform(photographs))

    def test_an_estimator_without_samples_is_refused(self, photographs):
        with pytest.raises(ValueError, match=r'sampling="images" requires .* got a KMeans: .*sampling="patches"'):
            ImageFeatures(KMeans(4), patch_size=5, sampling="images").fit(photographs)


def test_the_papers_batch_size_is_that_of_whole_images():
    from epls import PAPER

    assert patches_per_image(EPLS(20, settings=PAPER), 2000, 1000) == 20
