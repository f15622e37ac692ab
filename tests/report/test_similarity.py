"""Similar samples: neighbours against plain loops over all pairs, outliers, positions, and groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.manifold import TSNE, trustworthiness
from sklearn.metrics.pairwise import cosine_similarity
from threadpoolctl import threadpool_info, threadpool_limits

from epls.report.similarity import (
    Group,
    comparable,
    described,
    directions,
    grid_positions,
    grouped,
    map_positions,
    outliers,
    shares,
    similarity,
    traits,
    usual_number,
)


@pytest.fixture
def rows(blobs):
    return comparable(blobs, np.random.RandomState(0))


def test_nearest_are_those_of_all_pairs(rows):
    found = similarity(rows)
    for sample in range(0, len(rows), 37):
        cosines = [float(rows[sample] @ row) for row in rows]
        cosines[sample] = -2.0
        best = sorted(cosines, reverse=True)[: found.nearest.shape[1]]
        np.testing.assert_allclose(found.cosines[sample], best, atol=1e-6)
        assert sample not in found.nearest[sample]


def test_scale_and_constant_columns_do_not_matter(blobs):
    random = np.random.RandomState
    other = np.column_stack([1000 * blobs - 7, np.ones(len(blobs))])
    np.testing.assert_allclose(
        np.abs(comparable(blobs, random(0)) @ comparable(blobs, random(0)).T),
        np.abs(comparable(other, random(0)) @ comparable(other, random(0)).T),
        atol=1e-4,
    )


def test_samples_that_are_all_the_same():
    found = similarity(comparable(np.ones((5, 3)), np.random.RandomState(0)))
    assert found.nearest.shape == (5, 4)
    assert np.isfinite(found.cosines).all()


@pytest.mark.parametrize(("n_samples", "n_columns"), [(70, 5), (70, 20), (1000, 5), (1000, 100)])
def test_a_gaussian_has_hardly_any_outliers(n_samples, n_columns):
    X = np.random.RandomState(0).normal(size=(n_samples, n_columns))
    found, _ = outliers(similarity(comparable(X, np.random.RandomState(0), keep_length=True)))
    assert len(found) <= 0.01 * n_samples


def test_planted_outliers_are_found_the_farthest_first():
    random = np.random.RandomState(0)
    X = np.concatenate([random.normal(size=(300, 20)), 3 * random.normal(size=(4, 20))])
    rows = comparable(X, random, keep_length=True)
    found, times = outliers(similarity(rows))
    assert set(found) == {300, 301, 302, 303}
    assert (np.diff(times) <= 0).all()

    def mean_distance(sample):
        return np.mean(sorted(np.linalg.norm(rows - rows[sample], axis=1))[1:13])

    nearest = np.argsort(np.linalg.norm(rows - rows[found[0]], axis=1))[1:13]
    theirs = np.exp(np.mean([np.log(mean_distance(sample)) for sample in nearest]))
    usual = np.median([mean_distance(sample) for sample in range(len(rows))])
    np.testing.assert_allclose(times[0], mean_distance(found[0]) / max(theirs, usual), rtol=1e-3)


def test_a_thin_region_is_no_outlier_and_neither_is_what_is_near_copies():
    random = np.random.RandomState(0)
    thin = np.concatenate([random.normal(size=(300, 8)), 12 + 5 * random.normal(size=(60, 8))])
    assert len(outliers(similarity(comparable(thin, random, keep_length=True)))[0]) <= 3
    copies = np.concatenate([random.normal(size=(100, 8)), np.repeat(random.normal(size=(1, 8)), 20, axis=0)])
    assert len(outliers(similarity(comparable(copies, random, keep_length=True)))[0]) <= 1
    assert len(outliers(similarity(np.ones((5, 1))))[0]) == 0


def test_length_counts_if_it_is_kept():
    X = np.arange(1.0, 41.0)[:, None] * [1.0, 1.0]
    found = similarity(comparable(X, np.random.RandomState(0), keep_length=True))
    assert set(found.nearest[20, :2]) == {19, 21}


@pytest.mark.parametrize("landmarks", [4000, 100])
def test_neighbours_are_near_each_other(blobs, monkeypatch, landmarks):
    monkeypatch.setattr("epls.report.similarity._LANDMARKS", landmarks)
    X = comparable(blobs, np.random.RandomState(0))
    positions = map_positions(X, np.random.RandomState(0))
    assert positions.shape == (400, 2)
    assert positions.min() >= 0
    assert positions.max() <= 1
    assert trustworthiness(X, positions, n_neighbors=10) > 0.9
    np.testing.assert_array_equal(positions, map_positions(X, np.random.RandomState(0)))


@pytest.mark.parametrize("X", [np.eye(3), np.ones((8, 4)) / 2, np.eye(7)[:, :1], np.ones((4, 1))])
def test_few_or_equal_samples_have_a_place(X):
    positions = map_positions(X, np.random.RandomState(0))
    assert positions.shape == (len(X), 2)
    assert np.isfinite(positions).all()


@given(st.integers(1, 200), st.integers(0, 1000))
def test_every_sample_has_a_cell_of_its_own(n_samples, seed):
    cells = grid_positions(np.random.RandomState(seed).uniform(size=(n_samples, 2)))
    assert len(set(map(tuple, cells))) == n_samples
    side = int(np.ceil(np.sqrt(n_samples)))
    assert cells.min() >= 0
    assert cells.max() < side


def test_a_grid_stays_as_it_is():
    cells = np.stack(np.meshgrid(np.arange(6), np.arange(6)), axis=2).reshape(-1, 2)
    shuffled = np.random.RandomState(0).permutation(cells)
    np.testing.assert_array_equal(grid_positions(shuffled / 5), shuffled)


@pytest.fixture
def islands():
    """Three clouds of different sizes, which are rows and places at once."""
    random = np.random.RandomState(0)
    sizes = (100, 60, 40)
    centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    return np.repeat(centers, sizes, axis=0) + random.normal(scale=0.4, size=(200, 2)), np.repeat(np.arange(3), sizes)


def test_balanced_groups_have_equal_sizes(islands):
    X, _ = islands
    groups, kind = grouped(comparable(X, np.random.RandomState(0)), X, 7, np.random.RandomState(0))
    assert kind == "balanced"
    assert set(np.bincount(groups)) == {28, 29}


@pytest.mark.parametrize("groups", ["density", "auto"])
def test_dense_groups_are_the_islands_the_largest_first(islands, groups):
    X, island = islands
    groups, kind = grouped(comparable(X, np.random.RandomState(0)), X, groups, np.random.RandomState(0))
    assert kind == "density"
    inside = groups >= 0
    assert inside.mean() > 0.8
    np.testing.assert_array_equal(groups[inside], island[inside])


def test_a_few_samples_are_one_dense_group():
    X = np.eye(4)
    assert grouped(X, X[:, :2], "density", np.random.RandomState(0))[0].tolist() == [0] * 4
    assert grouped(X, X[:, :2], "auto", np.random.RandomState(0))[1] == "balanced"


@pytest.mark.parametrize("n_columns", [3, 20])
def test_one_cloud_has_no_clear_islands(n_columns):
    X = comparable(np.random.RandomState(0).normal(size=(400, n_columns)), np.random.RandomState(0), keep_length=True)
    random = np.random.RandomState(0)
    groups, kind = grouped(X, map_positions(X, random), "auto", random)
    assert kind == "balanced"
    assert groups.max() == usual_number(400) - 1


def test_islands_of_the_map_that_rows_do_not_show_are_no_groups(islands):
    """The map tears one even cloud into three islands."""
    places, _ = islands
    X = np.random.RandomState(0).uniform(size=(200, 3))
    X = X[np.argsort(X[:, 0])]
    assert grouped(X, places, "density", np.random.RandomState(0))[0].max() == 2
    assert grouped(X, places, "auto", np.random.RandomState(0))[1] == "balanced"


def test_the_number_of_groups_follows_from_the_samples():
    assert [usual_number(n) for n in (1, 3, 200, 60_000)] == [1, 1, 10, 24]


def test_typical_samples_are_nearest_to_the_mean():
    angles = np.radians([0, 10, 20, 60, 70, 80, 180])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    first, second, third = described(X, np.array([0, 0, 0, 1, 1, 1, 2]))
    assert first.typical[0] == 1
    assert first.next_to == 1
    assert third.next_to == 1
    assert [len(group.between) for group in (first, second, third)] == [0, 0, 0]


def test_only_samples_near_the_middle_are_between_two_groups():
    X = np.array([[0.0], [0.1], [0.2], [0.49], [1.0], [0.9], [0.8], [0.45]]) + 1
    first, second = described(X, np.array([0, 0, 0, 0, 1, 1, 1, 1]))
    assert first.between.tolist() == [3]  # the means are 1.20 and 1.79: a tenth of the way before their middle is 1.44
    assert second.between.tolist() == [7]


def test_traits_are_the_columns_that_differ():
    random = np.random.RandomState(0)
    columns = random.normal(size=(300, 5))
    columns[:100, 3] += 4
    columns[:100, 1] -= 2
    own, others = (Group(np.arange(100), [], -1, []), Group(np.arange(100, 300), [], -1, []))
    found = traits(columns, [own, others])[0]
    assert [column for column, _ in found] == [3, 1]
    assert found[0][1] > 1
    assert found[1][1] < -0.8


def test_a_trait_is_true_of_most_members():
    """A few extreme members make a large mean, but not a trait."""
    columns = np.zeros((200, 2))
    columns[:, 0] = np.random.RandomState(0).normal(size=200)
    columns[:40, 0] = np.where(np.arange(40) < 20, 30.0, -0.1)
    columns[:40, 1] = np.where(np.arange(40) < 31, 1.0, 0.0)
    assert [column for column, _ in traits(columns, [Group(np.arange(40), [], -1, [])])[0]] == [1]


def test_a_constant_column_is_no_trait():
    assert traits(np.ones((10, 2)), [Group(np.arange(5), [], -1, [])]) == [[]]


def test_shares_count_labels_that_are_there():
    group = Group(np.array([0, 2, 3, 4]), [], -1, [])
    assert shares(["a", "b", None, "b", "b"], [group]) == [[("b", 2), ("a", 1)]]


def test_tsne_runs_in_one_thread(rows, monkeypatch):
    """On a busy machine, its OpenMP threads would spend most of the time waiting for each other."""
    seen = []
    original = TSNE.fit_transform

    def spy(self, X):
        seen.append({(library["user_api"], library["num_threads"]) for library in threadpool_info()})
        return original(self, X)

    monkeypatch.setattr(TSNE, "fit_transform", spy)
    with threadpool_limits(2):
        before = threadpool_info()
        map_positions(rows[:50], np.random.RandomState(0))
        assert threadpool_info() == before
    assert ("openmp", 2) in {(library["user_api"], library["num_threads"]) for library in before}
    assert seen == [{("blas", 1), ("openmp", 1)}]


def test_directions_have_the_cosines_of_the_features(blobs):
    found = similarity(directions(1e30 * blobs))
    cosines = cosine_similarity(blobs.astype(np.float64))
    np.fill_diagonal(cosines, -2)
    np.testing.assert_allclose(found.cosines, -np.sort(-cosines, axis=1)[:, : found.nearest.shape[1]], atol=1e-5)


def test_features_without_a_direction_are_refused(blobs):
    blobs = blobs.copy()
    blobs[[3, 7]] = 0
    with pytest.raises(ValueError, match=r"2 samples have features that are all zero, the first in row 3"):
        directions(blobs)
