"""Damaged sparse arrays, which SciPy and compiled code would follow beyond their ends, are refused everywhere."""

import numpy as np
import pytest
from scipy import sparse

from epls import BalancedKMeans, balanced_assignment
from epls.utils.sparse import check_sparse

SHAPE = (12, 4)
FITTED = BalancedKMeans(2, random_state=0).fit(np.random.RandomState(0).random(SHAPE))
TAKERS = [
    BalancedKMeans(2, random_state=0).fit,
    BalancedKMeans(2, random_state=0).partial_fit,
    FITTED.predict,
    lambda X: balanced_assignment(X, 12),
]


def sound(form):
    values = np.random.RandomState(0).random(SHAPE)
    return form(np.where(values < 0.7, values, 0))


def damaged():
    """Every format with an index beyond the shape or below 0, and with pointers that go wrong."""
    for form in (sparse.csr_array, sparse.csc_array, sparse.bsr_array, sparse.csr_matrix):
        for value in (99, -1):
            X = sound(form)
            X.indices[2] = value
            yield X
        for place, value in ((0, 1), (1, 1000), (1, -5), (-1, 1000)):
            X = sound(form)
            X.indptr[place] = value
            yield X
        X = sound(form)
        X.indptr[-1] = 0  # then SciPy's own check sees no entries, and looks no further
        yield X
    for coordinate in ("row", "col"):
        for value in (99, -1):
            X = sound(sparse.coo_array)
            getattr(X, coordinate)[3] = value
            yield X
    X = sound(sparse.lil_array)
    X.rows[0][0] = 99
    yield X


@pytest.mark.parametrize("take", TAKERS)
def test_what_is_damaged_is_refused(take):
    for X in damaged():
        with pytest.raises(ValueError, match=r"damaged sparse array: it|exceeds matrix dimension"):
            take(X)


@pytest.mark.parametrize(
    "form", [getattr(sparse, f"{name}_array") for name in ("csr", "csc", "bsr", "coo", "lil", "dok", "dia")]
)
def test_what_is_sound_passes_in_every_format(form):
    check_sparse(sound(form))
    check_sparse(form(SHAPE))
    np.testing.assert_array_equal(FITTED.predict(sound(form)), FITTED.predict(sound(form).toarray()))


def test_what_is_not_sparse_passes():
    check_sparse([[1.0, 2.0]])
    check_sparse(np.zeros(3))
