"""Similar samples: neighbours and duplicates against plain loops over all pairs, positions, and groups."""

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
    duplicate_pictures,
    duplicate_vectors,
    grid_positions,
    grouped,
    map_positions,
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


def test_the_loneliest_is_the_one_far_away():
    random = np.random.RandomState(0)
    X = random.normal(size=(60, 5)) + np.array([20, 0, 0, 0, 0])
    X[17] = [-30, 30, 0, 0, 0]
    assert similarity(comparable(X, random)).loneliness().argmax() == 17


def test_pictures_that_differ_by_noise_are_duplicates():
    random = np.random.RandomState(0)
    pictures = random.randint(256, size=(20, 16, 16, 3), dtype=np.uint8)
    pictures[5] = np.clip(pictures[3] + random.randint(-4, 5, size=(16, 16, 3)), 0, 255)
    pictures[11] = pictures[3]
    pictures[19] = pictures[8]
    found = similarity(comparable(pictures.reshape(20, -1), random))
    assert [sorted(one) for one in duplicate_pictures(found, pictures)] == [[3, 5, 11], [8, 19]]


def test_pale_pictures_of_different_things_are_no_duplicates():
    random = np.random.RandomState(0)
    pictures = 100 + random.randint(8, size=(20, 16, 16, 3), dtype=np.uint8)
    pictures[7] = pictures[2]
    found = similarity(comparable(pictures.reshape(20, -1), random))
    assert duplicate_pictures(found, pictures) == [[2, 7]]


def test_vectors_that_are_repeated_are_duplicates(blobs):
    X = np.concatenate([blobs, blobs[[4, 9]]])
    sets = duplicate_vectors(similarity(comparable(X, np.random.RandomState(0))))
    assert sorted(map(sorted, sets)) == [[4, 400], [9, 401]]


def test_length_counts_if_it_is_kept():
    X = np.arange(1.0, 41.0)[:, None] * [1.0, 1.0]
    found = similarity(comparable(X, np.random.RandomState(0), keep_length=True))
    assert set(found.nearest[20, :2]) == {19, 21}
    assert duplicate_vectors(found) == []


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
    groups = grouped(comparable(X, np.random.RandomState(0)), X, 7, np.random.RandomState(0))
    assert set(np.bincount(groups)) == {28, 29}


def test_dense_groups_are_the_islands_the_largest_first(islands):
    X, island = islands
    groups = grouped(comparable(X, np.random.RandomState(0)), X, "density", np.random.RandomState(0))
    inside = groups >= 0
    assert inside.mean() > 0.8
    np.testing.assert_array_equal(groups[inside], island[inside])


def test_a_few_samples_are_one_dense_group():
    X = np.eye(4)
    assert grouped(X, X[:, :2], "density", np.random.RandomState(0)).tolist() == [0] * 4


def test_the_number_of_groups_follows_from_the_samples():
    assert [usual_number(n) for n in (1, 3, 200, 60_000)] == [1, 1, 10, 24]


def test_typical_samples_are_nearest_to_the_mean_and_border_samples_to_the_next_group():
    angles = np.radians([0, 10, 20, 60, 70, 80, 180])
    X = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    first, second, third = described(X, np.array([0, 0, 0, 1, 1, 1, 2]))
    assert first.typical[0] == 1
    assert first.next_to == 1
    assert first.between[0] == 2
    assert second.between[0] == 3
    assert third.next_to == 1


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
