"""Which samples are alike, against plain loops over all pairs."""

import numpy as np
import pytest

from epls.report.similarity import comparable, duplicate_pictures, duplicate_vectors, similarity


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
