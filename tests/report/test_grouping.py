"""Groups, and what tells them apart."""

import numpy as np
import pytest

from epls.report.grouping import Group, described, grouped, shares, traits, usual_number
from epls.report.similarity import comparable


@pytest.fixture
def islands():
    """Three clouds of different sizes, which are rows and places at once."""
    random = np.random.RandomState(0)
    sizes = (100, 60, 40)
    centers = np.array([[0.0, 0.0], [10.0, 0.0], [0.0, 10.0]])
    return np.repeat(centers, sizes, axis=0) + random.normal(scale=0.4, size=(200, 2)), np.repeat(np.arange(3), sizes)


def test_balanced_groups_have_equal_sizes(islands):
    X, _ = islands
    groups = grouped(comparable(X, np.random.RandomState(0)), X, "balanced", 7, np.random.RandomState(0))
    assert set(np.bincount(groups)) == {28, 29}


def test_dense_groups_are_the_islands_the_largest_first(islands):
    X, island = islands
    groups = grouped(comparable(X, np.random.RandomState(0)), X, "density", None, np.random.RandomState(0))
    inside = groups >= 0
    assert inside.mean() > 0.8
    np.testing.assert_array_equal(groups[inside], island[inside])


def test_a_few_samples_are_one_dense_group():
    X = np.eye(4)
    assert grouped(X, X[:, :2], "density", None, np.random.RandomState(0)).tolist() == [0] * 4


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
    assert [trait.column for trait in found] == [3, 1]
    assert found[0].difference > 1
    assert found[1].difference < -0.8


def test_a_constant_column_is_no_trait():
    assert traits(np.ones((10, 2)), [Group(np.arange(5), [], -1, [])]) == [[]]


def test_shares_count_labels_that_are_there():
    group = Group(np.array([0, 2, 3, 4]), [], -1, [])
    assert shares(["a", "b", None, "b", "b"], [group]) == [[("b", 2), ("a", 1)]]
