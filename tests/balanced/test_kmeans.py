"""Groups of given sizes."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs
from sklearn.metrics.pairwise import cosine_distances
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, normalize
from sklearn.utils.estimator_checks import parametrize_with_checks

from epls import BalancedKMeans, load_model, save_model
from epls.callbacks import OnEpoch
from epls.data.blocks import Blocks, array_blocks

# A sample of weight 2 is in one group, two copies may be in two groups.
NOT_COPIES = dict.fromkeys(
    ["check_sample_weight_equivalence_on_dense_data", "check_sample_weight_equivalence_on_sparse_data"],
    "no sample is divided",
)


@parametrize_with_checks(
    [BalancedKMeans(3), BalancedKMeans(3, metric="cosine")], expected_failed_checks=lambda _: NOT_COPIES
)
def test_common_checks(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def X():  # noqa: N802 (scikit-learn's name)
    """Samples around centres that have very different shares of them, far from the origin."""
    random = np.random.RandomState(0)
    centers = 100 + random.uniform(-10, 10, size=(8, 4))
    return (centers[random.choice(8, 1003, p=np.arange(1, 9) / 36)] + random.normal(size=(1003, 4))).astype(np.float32)


def sizes_of(model):
    return np.bincount(model.labels_, minlength=model.n_clusters)


def total(X, model):
    return float(np.square(X - model.cluster_centers_[model.labels_], dtype=np.float64).sum())


@given(st.integers(1, 60), st.integers(1, 12), st.integers(0, 5), st.sampled_from(["k-means++", "random"]))
def test_sizes_differ_by_one_at_most(n_samples, n_clusters, seed, init):
    samples = np.random.RandomState(seed).normal(size=(n_samples, 2)).round(seed % 3)
    if n_clusters > n_samples:
        with pytest.raises(ValueError, match=f"n_clusters={n_clusters} is more than n_samples={n_samples}"):
            BalancedKMeans(n_clusters).fit(samples)
        return
    sizes = sizes_of(BalancedKMeans(n_clusters, init=init, random_state=seed).fit(samples))
    assert sizes.max() - sizes.min() <= 1
    assert sizes.sum() == n_samples


@pytest.mark.parametrize(
    "limits",
    [
        {"size_max": 130},
        {"size_min": 100},
        {"size_min": 60, "size_max": 300},
        {"size_min": np.arange(8) * 20, "size_max": 400},
        {"sizes": [3, 100, 100, 100, 100, 200, 200, 200]},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_limits_are_kept(X, limits, form):
    model = BalancedKMeans(8, random_state=0, **limits).fit(form(X))
    sizes = sizes_of(model)
    assert (sizes >= limits.get("size_min", 0)).all()
    assert (sizes <= limits.get("size_max", len(X))).all()
    if "sizes" in limits:
        assert sizes.tolist() == limits["sizes"]
    assert model.inertia_ == pytest.approx(total(X, model), rel=1e-3)
    np.testing.assert_allclose(
        model.cluster_centers_, [X[model.labels_ == j].mean(axis=0) for j in range(8)], rtol=1e-4
    )
    assert (model.counts_ == sizes).all()


def test_without_real_limits_it_is_kmeans(X):
    start = X[:8]
    ours = BalancedKMeans(8, size_min=0, init=start, tol=0).fit(X)
    theirs = KMeans(8, init=start, n_init=1, tol=0).fit(X)
    assert ours.inertia_ == pytest.approx(theirs.inertia_, rel=1e-3)
    assert np.mean(ours.labels_ == theirs.labels_) > 0.98


def test_balanced_blobs_are_found():
    samples, labels = make_blobs(600, 3, centers=6, cluster_std=0.5, random_state=0)
    model = BalancedKMeans(6, n_init=5, random_state=0).fit(samples)
    found = {frozenset(np.flatnonzero(model.labels_ == j).tolist()) for j in range(6)}
    assert found == {frozenset(np.flatnonzero(labels == j).tolist()) for j in range(6)}


def test_many_samples_begin_with_a_part_of_them(X):
    many = np.concatenate([X + shift for shift in range(12)])
    model = BalancedKMeans(5, random_state=0).fit(many)
    assert np.ptp(sizes_of(model)) <= 1
    assert model.inertia_ == pytest.approx(total(many, model), rel=1e-3)
    assert model.inertia_ < 1.05 * BalancedKMeans(5, random_state=0, max_iter=300, tol=0).fit(many).inertia_


def test_the_seed_fixes_the_result_and_more_starts_are_no_worse(X):
    first, again = (BalancedKMeans(8, random_state=3).fit(X) for _ in range(2))
    np.testing.assert_array_equal(first.labels_, again.labels_)
    np.testing.assert_array_equal(first.cluster_centers_, again.cluster_centers_)
    assert BalancedKMeans(8, random_state=3, n_init=4).fit(X).inertia_ <= first.inertia_


@pytest.mark.parametrize("n_threads", [2, 3])
def test_the_number_of_threads_does_not_matter(X, n_threads, monkeypatch):
    monkeypatch.setattr("epls.balanced.auction._WORTH_SHARING", 16)
    found = []
    for n in (1, n_threads):
        monkeypatch.setattr("epls.utils.threads.blas_threads", lambda n=n: n)
        found.append(BalancedKMeans(8, random_state=0).fit(X))
    np.testing.assert_array_equal(found[0].labels_, found[1].labels_)


class TestPredict:
    def test_nearest_centre_or_sizes(self, X):
        model = BalancedKMeans(8, random_state=0).fit(X)
        nearest = np.square(X[:, None] - model.cluster_centers_).sum(axis=2).argmin(axis=1)
        assert np.mean(model.predict(X) == nearest) > 0.999
        assert np.ptp(np.bincount(model.predict(X[:500], balanced=True), minlength=8)) <= 1
        again = model.predict(X, balanced=True)
        assert np.square(X - model.cluster_centers_[again], dtype=np.float64).sum() < 1.002 * model.inertia_

    def test_limits_hold_for_new_samples(self, X):
        model = BalancedKMeans(8, size_max=130, random_state=0).fit(X)
        few = X[np.argsort(model.predict(X), kind="stable")[:300]]  # they want two or three groups
        assert np.bincount(model.predict(few), minlength=8).max() > 70
        assert np.bincount(model.set_params(size_max=60).predict(few, balanced=True), minlength=8).max() <= 60
        with pytest.raises(ValueError, match="room for 480 samples in 8 groups, but there are 1003"):
            model.predict(X, balanced=True)

    def test_another_number_of_groups_needs_another_fit(self, X):
        model = BalancedKMeans(8, random_state=0).fit(X).set_params(n_clusters=9)
        with pytest.raises(ValueError, match="there are 8 centres, but n_clusters=9 was set"):
            model.predict(X, balanced=True)
        with pytest.raises(ValueError, match="n_clusters=9 was set"):
            model.partial_fit(X)


class TestParts:
    """Data that are read in parts, at the prices of a fit with some of the samples."""

    @pytest.mark.parametrize("is_sorted", [False, True])
    @pytest.mark.parametrize(
        "limits", [{}, {"size_max": 4000}, {"size_min": 1500, "size_max": 6000}, {"size_min": 2990}], ids=str
    )
    def test_sizes_count_all_parts(self, X, is_sorted, limits, monkeypatch):
        monkeypatch.setattr("epls.balanced.kmeans._ROWS_OF_PART", 6000)
        many = (X[:, None] + np.random.RandomState(1).normal(size=(24, 4))).astype(np.float32).reshape(-1, 4)[:24001]
        many = many[np.argsort(many[:, 0])] if is_sorted else np.random.RandomState(2).permutation(many)
        some = {name: size // 8 for name, size in limits.items()}
        model = BalancedKMeans(8, random_state=0, **some).fit(np.random.RandomState(3).permutation(many)[:3000])
        model.set_params(**limits)
        labels = model.predict(Blocks(lambda start, stop: many[start:stop], many.shape, np.float32, [97] * 247 + [42]),
                               balanced=True)  # fmt: skip
        sizes = np.bincount(labels, minlength=8)
        assert sizes.min() >= limits.get("size_min", 0 if limits else 3000)
        assert sizes.max() <= limits.get("size_max", 24001 if limits else 3001)
        cost, best = (
            np.square(many - model.cluster_centers_[found], dtype=np.float64).sum()
            for found in (labels, model.predict(many, balanced=True))
        )
        assert is_sorted or cost < 1.02 * best  # the parts of sorted samples are not like all samples

    def test_nearest_centres_and_weights(self, X):
        model = BalancedKMeans(8, random_state=0).fit(X)
        np.testing.assert_array_equal(model.predict(array_blocks(X)), model.predict(X))
        with pytest.raises(ValueError, match="sample_weight needs samples in memory"):
            model.predict(array_blocks(X), balanced=True, sample_weight=np.ones(len(X)))


class TestCosine:
    def test_only_directions_count(self, X):
        centered, lengths = X - 100, np.random.RandomState(0).uniform(0.1, 10, size=(len(X), 1)).astype(np.float32)
        model, scaled = (
            BalancedKMeans(8, metric="cosine", random_state=0).fit(data) for data in (centered, lengths * centered)
        )
        assert np.mean(model.labels_ == scaled.labels_) > 0.99
        assert np.ptp(sizes_of(model)) <= 1
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=1e-5)
        near = 1 - cosine_distances(centered, model.cluster_centers_)
        np.testing.assert_array_equal(model.predict(lengths * centered), near.argmax(axis=1))
        assert model.inertia_ == pytest.approx(2 * (1 - near[np.arange(len(X)), model.labels_]).sum(), rel=1e-3)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_a_centre_is_the_mean_direction(self, X, form):
        unit = normalize(X - 100)
        model = BalancedKMeans(5, metric="cosine", random_state=0).fit(form(X - 100))
        means = normalize([unit[model.labels_ == j].sum(axis=0) for j in range(5)])
        np.testing.assert_allclose(model.cluster_centers_, means, atol=1e-5)

    def test_batches_and_samples_without_a_direction(self, X):
        model = BalancedKMeans(8, metric="cosine", random_state=0)
        for batch in np.array_split(X - 100, 3):
            model.partial_fit(np.concatenate([batch, np.zeros((2, 4), np.float32)]))
        np.testing.assert_allclose(np.linalg.norm(model.cluster_centers_, axis=1), 1, rtol=1e-5)
        assert np.ptp(model.counts_) <= 1


class TestBatches:
    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_all_batches_together_are_balanced(self, X, form):
        model = BalancedKMeans(8, random_state=0)
        counts = np.zeros(8)
        for batch in np.split(X, [100, 103, 500, 501]):
            model.partial_fit(form(batch))
            counts += np.bincount(model.labels_, minlength=8)
            assert np.ptp(counts) <= 1
            assert (model.counts_ == counts).all()
        assert model.n_iter_ == 5
        whole = BalancedKMeans(8, random_state=0).fit(X).inertia_
        near = np.square(X - model.cluster_centers_[model.predict(X, balanced=True)], dtype=np.float64).sum()
        assert near < 2 * whole

    def test_no_group_grows_above_its_limit(self, X):
        model = BalancedKMeans(8, size_max=130, random_state=0)
        counts = np.zeros(8)
        for batch in np.array_split(X, 7):
            counts += np.bincount(model.partial_fit(batch).labels_, minlength=8)
        assert (model.counts_ == counts).all()
        assert counts.max() == 130
        assert np.ptp(counts) > 1
        with pytest.raises(ValueError, match="room for 37 samples after the previous batches, but this batch has 38"):
            model.partial_fit(X[:38])
        assert model.partial_fit(X[:37]).counts_.tolist() == [130] * 8

    def test_exact_sizes_are_reached_with_the_last_batch(self, X):
        sizes = [3, 100, 100, 100, 100, 200, 200, 200]
        model = BalancedKMeans(8, sizes=sizes, random_state=0)
        for batch in np.array_split(X, 4):
            assert (model.partial_fit(batch).counts_ <= sizes).all()
        assert model.counts_.tolist() == sizes
        with pytest.raises(ValueError, match="sizes leaves room for 0 samples"):
            model.partial_fit(X[:1])

    def test_what_is_refused(self, X):
        with pytest.raises(ValueError, match="cannot guarantee size_min: give all samples to fit"):
            BalancedKMeans(8, size_min=20).partial_fit(X)
        with pytest.raises(ValueError, match="without size_max"):
            BalancedKMeans(8, size_max=200, sizes=[1] * 8).partial_fit(X)
        with pytest.raises(ValueError, match="n_clusters=8 is more than n_samples=5"):
            BalancedKMeans(8).partial_fit(X[:5])
        with pytest.raises(ValueError, match="features"):
            BalancedKMeans(8).partial_fit(X).partial_fit(X[:, :2])


class TestFiles:
    def test_a_model_comes_back(self, X, tmp_path):
        frame = pd.DataFrame(X, columns=list("abcd"))
        model = BalancedKMeans(8, size_min=[1] * 8, size_max=np.full(8, 300), random_state=0).fit(frame)
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.predict(frame), model.predict(frame))
        np.testing.assert_array_equal(loaded.predict(frame, balanced=True), model.predict(frame, balanced=True))
        assert loaded.size_max == [300] * 8
        assert loaded.inertia_ == model.inertia_
        assert not hasattr(loaded, "labels_")

    def test_batches_go_on_after_loading(self, X, tmp_path):
        model = BalancedKMeans(8, random_state=0).partial_fit(X[:500])
        save_model(model, tmp_path / "model")
        loaded = load_model(tmp_path / "model")
        np.testing.assert_array_equal(loaded.partial_fit(X[500:]).labels_, model.partial_fit(X[500:]).labels_)

    def test_in_a_pipeline(self, X, tmp_path):
        model = make_pipeline(StandardScaler(), BalancedKMeans(4, random_state=0)).fit(X)
        save_model(model, tmp_path / "model")
        np.testing.assert_array_equal(load_model(tmp_path / "model").predict(X), model.predict(X))

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("n_clusters", 5),
            ("cluster_centers_", np.full((8, 4), np.nan, np.float32)),
            ("prices_", np.zeros(3)),
            ("counts_", np.full(8, -7.0)),
            ("inertia_", -1.0),
        ],
    )
    def test_damage_is_found(self, X, tmp_path, name, value):
        model = BalancedKMeans(8, random_state=0).fit(X)
        setattr(model, name, value)
        save_model(model, tmp_path / "model")
        with pytest.raises(ValueError, match="damaged"):
            load_model(tmp_path / "model")

    def test_counts_that_cannot_be_are_refused_when_they_are_used(self, X, tmp_path):
        model = BalancedKMeans(8, random_state=0).partial_fit(X)
        model.counts_ = np.array([1e6, 0, 0, 0, 0, 0, 0, 0])
        with pytest.raises(ValueError, match="have 0 to 1000000 samples so far, and 1003 more cannot make them equal"):
            model.partial_fit(X)


def test_callbacks_are_told_and_a_failed_fit_changes_nothing(X):
    told = []
    model = BalancedKMeans(8, random_state=0, max_iter=5, n_init=2)
    model.set_callbacks(OnEpoch(lambda done, most: told.append((done, most)))).fit(X)
    assert [done for done, _ in told] == list(range(1, len(told) + 1))
    assert {most for _, most in told} == {10}
    with pytest.raises(ValueError, match="NaN"):
        model.fit(np.full((20, 3), np.nan))
    assert model.n_features_in_ == 4
    model.predict(X)


def test_equal_samples():
    model = BalancedKMeans(3, random_state=0).fit(np.ones((10, 2)))
    assert sorted(sizes_of(model)) == [3, 3, 4]
    assert model.inertia_ == 0


def test_more_equal_centres_than_a_sample_remembers():
    """Rounding must not make a sample believe that some other centre is better than the best that it knows."""
    two = np.random.RandomState(0).normal(size=(2, 5)).astype(np.float32)
    model = BalancedKMeans(50, init=np.repeat(two, 25, axis=0), random_state=0).fit(np.repeat(two, 300, axis=0))
    assert (sizes_of(model) == 12).all()
    assert model.inertia_ == pytest.approx(0, abs=1e-3)


def test_one_group_and_as_many_as_samples(X):
    assert BalancedKMeans(1).fit(X).inertia_ == pytest.approx(
        np.square(X - X.mean(axis=0, dtype=float)).sum(), rel=1e-4
    )
    model = BalancedKMeans(20, random_state=0).fit(X[:20])
    assert sorted(model.labels_.tolist()) == list(range(20))
    assert model.inertia_ == pytest.approx(0, abs=1e-2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"size_max": 3}, "room for 24 samples in 8 groups, but there are 1003: give a size_max of 126 at least"),
        ({"size_min": 200}, "asks for 1600 samples in 8 groups, but there are 1003: give a size_min of 125 at most"),
        ({"size_min": 300, "size_max": 200}, "group 0 has size_min=300, above size_max=200"),
        ({"size_min": [1, 2]}, r"size_min has shape \(2,\), but must be one number or 8, one for each group"),
        ({"size_max": [200.5] * 8}, "must be integers"),
        ({"sizes": [2**62] * 8}, "whose sum is 3689\\d*"),
        ({"size_min": 2**62, "size_max": 2**62}, "asks for 3689\\d* samples"),
        ({"size_min": [-1] * 8}, "size_min has the value -1, but must not be negative"),
        ({"sizes": [1] * 8}, "8 numbers whose sum is 1003"),
        ({"sizes": [1003]}, "shape"),
        ({"sizes": [1] * 8, "size_max": 3}, "without size_min and size_max"),
        ({"init": np.zeros((2, 2))}, r"init has shape \(2, 2\)"),
        ({"init": "best"}, "init"),
        ({"size_max": -1}, "size_max"),
    ],
)
def test_settings_that_cannot_be(X, settings, message):
    with pytest.raises(ValueError, match=message):
        BalancedKMeans(8, **settings).fit(X)


def test_values_that_cannot_be_squared(X):
    with pytest.raises(ValueError, match="too large to be squared in float32"):
        BalancedKMeans(8).fit(X * np.float32(1e20))


def test_clone_keeps_limits():
    model = clone(BalancedKMeans(8, size_min=[1] * 8, init="random"))
    assert model.get_params()["size_min"] == [1] * 8
