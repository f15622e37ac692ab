"""Assignments with limits, against linear_sum_assignment and a linear programme."""

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import sparse
from scipy.optimize import linear_sum_assignment, linprog
from threadpoolctl import threadpool_limits

from epls import balanced_assignment
from epls.balanced import assignment, auction
from epls.balanced.assignment import check_feasible
from epls.balanced.auction import Limits

TIED = st.sampled_from([0.0, 1.0, 2.0])
INTEGERS = st.integers(-1000, 1000).map(float)
SPREAD = st.floats(-5, 5, width=32)


@st.composite
def problems(draw, max_rows=14, max_columns=6, forbidding=True):
    """Costs with ties, equal rows and forbidden places, and limits that the numbers of rows and columns allow."""
    n_rows, n_columns = draw(st.integers(1, max_rows)), draw(st.integers(1, max_columns))
    elements = draw(st.sampled_from([TIED, INTEGERS, SPREAD]))
    cost = draw(arrays(np.float64, (n_rows, n_columns), elements=elements))
    if draw(st.booleans()):
        cost[:] = cost[0]  # equal rows
    if forbidding and draw(st.booleans()):
        cost[draw(arrays(bool, cost.shape))] = np.inf
    counts = np.bincount(draw(arrays(int, n_rows, elements=st.integers(0, n_columns - 1))), minlength=n_columns)
    small = arrays(int, n_columns, elements=st.integers(0, 3))
    capacity, minimum = counts + draw(small), np.maximum(counts - draw(small), 0)
    return cost, capacity, minimum * draw(st.integers(0, 1))


def best_total(cost, capacity, minimum):
    """Of the linear programme, whose corners are assignments; None if there is no solution."""
    n_rows, n_columns = cost.shape
    of_rows = np.kron(np.eye(n_rows), np.ones(n_columns))
    of_columns = np.kron(np.ones(n_rows), np.eye(n_columns))
    allowed = np.isfinite(cost)
    found = linprog(
        np.where(allowed, cost, 0).ravel(),
        A_eq=of_rows,
        b_eq=np.ones(n_rows),
        A_ub=np.vstack([of_columns, -of_columns]),
        b_ub=np.concatenate([capacity, -minimum]),
        bounds=np.column_stack([np.zeros(cost.size), allowed.ravel()]),
    )
    return None if found.status == 2 else found.fun


def as_listed(cost):
    """The finite costs as a sparse array."""
    rows, columns = np.nonzero(np.isfinite(cost))
    return sparse.csr_array((cost[rows, columns], (rows, columns)), shape=cost.shape)


def random_regret(cost):
    """The sum over rows of mean less smallest cost."""
    allowed = np.isfinite(cost)
    means = np.where(allowed, cost, 0).sum(axis=1) / allowed.sum(axis=1)
    return float((means - cost.min(axis=1)).sum())


@given(problems(), st.sampled_from([0, 1e-3, 0.05]), st.booleans(), st.booleans())
@example((np.zeros((7, 3)), np.array([3, 3, 3]), np.array([2, 2, 2])), 0, False, False)
@example((np.ones((4, 1)), np.array([4]), np.array([4])), 1e-3, False, True)  # one group
@example((np.arange(25.0).reshape(5, 5) % 7, np.ones(5, int), np.ones(5, int)), 0, False, False)  # as many as rows
@example((np.array([[0.0, 1.0]]), np.array([2, 1]), np.array([0, 0])), 0.05, False, True)
def test_limits_and_the_bound_hold(problem, tol, listed, maximize):
    cost, capacity, minimum = problem
    best = best_total(cost, capacity, minimum)
    given_cost = as_listed(cost) if listed else cost
    arguments = {"minimum": minimum, "tol": tol, "maximize": maximize, "return_gap": True}
    if best is None:
        with pytest.raises(ValueError, match=r"allow|finite cost"):
            balanced_assignment(-given_cost if maximize else given_cost, capacity, **arguments)
        return
    winners, gap = balanced_assignment(-given_cost if maximize else given_cost, capacity, **arguments)
    counts = np.bincount(winners, minlength=len(capacity))
    assert (counts <= capacity).all()
    assert (counts >= minimum).all()
    total = cost[np.arange(len(cost)), winners].sum()
    rounding = 1e-7 * (1 + np.abs(cost[np.isfinite(cost)]).max())
    assert best - rounding <= total <= best + gap + rounding
    assert gap <= tol * random_regret(cost) + rounding
    values = -cost if maximize else cost  # as they are given: the promise is for those that are not negative
    if values[np.isfinite(values)].min() >= 0:
        assert gap <= tol * abs(total) + rounding


@given(
    arrays(np.float64, st.tuples(st.integers(1, 12), st.integers(1, 12)), elements=st.integers(-20, 20).map(float)),
    st.sampled_from([np.float32, np.float64, np.int64, np.int8]),
)
def test_integers_are_solved_exactly(cost, dtype):
    n_rows, n_columns = cost.shape
    capacity = -(-n_rows // n_columns)
    column = np.repeat(np.arange(n_columns), capacity)
    best = cost[:, column][linear_sum_assignment(cost[:, column])].sum()
    winners, gap = balanced_assignment(cost.astype(dtype), capacity, tol=0, return_gap=True)
    assert cost[np.arange(n_rows), winners].sum() == best
    assert gap == 0 or gap < 1e-6
    assert np.bincount(winners).max() <= capacity


@pytest.mark.parametrize("seed", range(5))
def test_many_integers_are_solved_exactly(seed):
    """Small gaps between totals: an auction that ends with a gap of one or more may have missed the best."""
    cost = np.random.RandomState(seed).randint(1000, size=(240, 12)).astype(float)
    found, gap = balanced_assignment(cost, 20, tol=0, return_gap=True)
    rows, slots = linear_sum_assignment(np.repeat(cost, 20, axis=1))
    assert cost[np.arange(240), found].sum() == np.repeat(cost, 20, axis=1)[rows, slots].sum()
    assert gap == 0


@given(problems(forbidding=True))
def test_what_is_infeasible_is_found_out_and_nothing_else(problem):
    cost, capacity, minimum = problem
    assume(np.isfinite(cost).any(axis=1).all())
    best = best_total(np.where(np.isfinite(cost), 0, np.inf), capacity, minimum)
    try:
        check_feasible(as_listed(cost), Limits(capacity, minimum))
    except ValueError:
        assert best is None
    else:
        assert best is not None


RANDOM = np.random.RandomState(0)
SAMPLES = RANDOM.normal(size=(9000, 5)).astype(np.float32)
DISTANCES = np.square(SAMPLES[:, None] - SAMPLES[:30]).sum(axis=2)


@pytest.mark.parametrize(
    ("capacity", "minimum", "dtype"),
    [
        (300, None, np.float32),
        (301, 299, np.float64),
        (400, 100, np.float32),
        (9000, 0, np.float64),
        (9000, 250, np.float32),
    ],
)
def test_many_rows_with_samples_of_them_first(capacity, minimum, dtype):
    """The limits hold, and two bounds of the optimum, found with different increments, agree."""
    cost = DISTANCES.astype(dtype)
    rows = np.arange(len(cost))
    coarse, gap = balanced_assignment(cost, capacity, minimum=minimum, return_gap=True)
    fine, small_gap = balanced_assignment(cost, capacity, minimum=minimum, tol=1e-7, return_gap=True)
    for winners in (coarse, fine):
        counts = np.bincount(winners, minlength=30)
        assert counts.max() <= capacity
        assert counts.min() >= (minimum or 0)
    totals = [cost[rows, winners].sum(dtype=np.float64) for winners in (coarse, fine)]
    assert gap <= 1e-3 * random_regret(cost.astype(np.float64))
    assert small_gap <= 1e-7 * random_regret(cost.astype(np.float64)) + 1e-6
    assert totals[0] - gap <= totals[1] <= totals[0] + 1e-6
    assert totals[0] <= 1.001 * totals[1]


@pytest.mark.parametrize("listed", [False, True])
def test_the_result_is_the_same_for_any_number_of_threads(listed, monkeypatch):
    monkeypatch.setattr(assignment, "_WORTH_THREADS", 0)
    monkeypatch.setattr(auction, "_WORTH_SHARING", 16)
    cost = as_listed(np.where(np.sort(DISTANCES)[:, 19:20] >= DISTANCES, DISTANCES, np.inf)) if listed else DISTANCES
    found = []
    for n_threads in (1, 2, 3, 5):
        monkeypatch.setattr("epls.utils.threads.blas_threads", lambda n=n_threads: n)
        found.append(balanced_assignment(cost, 330, minimum=200, return_gap=True))
    for winners, gap in found[1:]:
        np.testing.assert_array_equal(winners, found[0][0])
        assert gap == pytest.approx(found[0][1])


def test_a_sparse_array_with_all_entries_is_the_dense_one():
    cost = DISTANCES[100:600]  # the first have distances of 0, which scipy does not store
    dense = balanced_assignment(cost, 17, tol=1e-9)
    listed = balanced_assignment(sparse.coo_array(cost), 17, tol=1e-9)
    rows = np.arange(500)
    assert cost[rows, dense].sum() == pytest.approx(cost[rows, listed].sum(), rel=1e-6)


def test_stored_zeros_are_allowed_and_duplicates_are_added():
    cost = sparse.coo_array(([0.0, 3.0, 3.0, 1.0, 1.0], ([0, 0, 0, 1, 1], [0, 1, 1, 0, 1])), shape=(2, 2))
    assert balanced_assignment(cost, 1).tolist() == [0, 1]
    assert cost.nnz == 5  # what was given is left as it was


def test_more_rows_in_a_column_than_it_has_places_at_first():
    """Places are opened as they are needed."""
    cost = np.column_stack(
        [np.zeros(3000), np.linspace(1, 2, 3000), np.linspace(2, 1, 3000), *np.full((30, 3000), 9.0)]
    )
    assert (balanced_assignment(cost, 3000) == 0).all()
    counts = np.bincount(balanced_assignment(cost, 2500, minimum=[0, 50, 0] + [1] * 30), minlength=33)
    assert counts.tolist() == [2500, 50 + (3000 - 2500 - 50 - 30 - counts[2]), counts[2]] + [1] * 30


def test_nothing_to_assign():
    assert balanced_assignment(np.empty((0, 3)), 2).shape == (0,)
    assert balanced_assignment(np.empty((0, 3)), 2, return_gap=True)[1] == 0


def test_tight_problem_on_one_blas_thread():
    with threadpool_limits(1):
        assert sorted(balanced_assignment(np.zeros((50, 50)), 1).tolist()) == list(range(50))


@pytest.mark.parametrize(
    "form",
    [
        np.asfortranarray,
        lambda cost: np.repeat(cost, 2, axis=1)[:, ::2],
        lambda cost: cost.astype(">f4"),
        lambda cost: cost.astype(np.float16),
        lambda cost: cost.astype(np.longdouble),
        lambda cost: cost.astype(np.uint64),
        lambda cost: cost.tolist(),
        lambda cost: np.frombuffer(cost.tobytes()).reshape(cost.shape),  # read-only
        sparse.coo_array,
        sparse.csc_matrix,
    ],
)
@pytest.mark.parametrize("capacity", [2, 2.0, np.float32(2), [2.0, 2.0, 2.0], np.uint8(2), np.array(2)])
def test_forms_of_costs_and_capacities(form, capacity):
    cost = np.array([[3.0, 1, 2], [5, 1, 9], [4, 8, 7], [1, 2, 6], [2, 9, 4], [7, 3, 1]])
    assert balanced_assignment(form(cost), capacity, tol=0).tolist() == balanced_assignment(cost, 2, tol=0).tolist()


BEYOND = sparse.csr_array(np.eye(3, 2))
BEYOND.indices[0] = 7  # as only a damaged array can have


@pytest.mark.parametrize(
    ("cost", "arguments", "message"),
    [
        (np.zeros(3), {"capacity": 1}, r"shape \(3,\)"),
        (np.zeros((3, 0)), {"capacity": 1}, "at least one column"),
        (np.zeros((3, 2), complex), {"capacity": 2}, "real numbers"),
        (np.full((3, 2), np.nan), {"capacity": 2}, "NaN"),
        (np.full((3, 2), -np.inf), {"capacity": 2}, "NaN or -inf"),
        (np.zeros((3, 2)), {"capacity": [1, 1, 1]}, "one for each column"),
        (np.zeros((3, 2)), {"capacity": 1.5}, "must be integers"),
        (np.zeros((3, 2)), {"capacity": None}, "capacity=None must be integers"),
        (np.zeros((3, 2)), {"capacity": np.inf}, "for no limit, give the number of rows"),
        (np.zeros((3, 2)), {"capacity": 10**30}, "below 2"),
        (np.zeros((3, 2)), {"capacity": 2, "minimum": [1, np.nan]}, "minimum=.* must be integers"),
        (np.full((3, 2), 1e300), {"capacity": 2}, r"from 1e\+300 to 1e\+300: scale them"),
        (sparse.csr_array(np.full((3, 2), -1e300)), {"capacity": 2}, "scale them so that all are within"),
        (np.ma.masked_array(np.ones((3, 2)), [[0, 1]] * 3), {"capacity": 2}, "fill the masked entries"),
        (np.full((3, 2), np.inf), {"capacity": 2}, "row 0, 1, 2 is not allowed in any column"),
        (sparse.coo_array(np.ones(3)), {"capacity": 2}, r"shape \(3,\)"),
        (BEYOND, {"capacity": 2}, "indices must be from 0 to 1"),
        (np.full((4, 2), 2**46), {"capacity": 2, "tol": 0}, r"tol=0 is exact for integers below 2\*\*48 / n_rows"),
        (np.full((3, 2), -(2**53)), {"capacity": 2, "tol": 0}, "convert cost to float"),
        (sparse.csr_array(np.full((3, 2), 2**53)), {"capacity": 2, "tol": 0}, "subtract its smallest cost"),
        (np.zeros((3, 2)), {"capacity": [4, -1]}, "must not be negative"),
        (np.zeros((3, 2)), {"capacity": 1}, "room for 2 rows, but there are 3"),
        (np.zeros((3, 2)), {"capacity": 3, "minimum": 2}, "at least 4 rows, but there are 3"),
        (np.zeros((3, 2)), {"capacity": 2, "minimum": [3, 0]}, "column 0 must have at least 3 rows and at most 2"),
        (np.zeros((3, 2)), {"capacity": 2, "tol": -1}, "tol=-1"),
        (np.zeros((3, 2)), {"capacity": 2, "tol": np.nan}, "tol=nan"),
        (np.zeros((3, 2)), {"capacity": 2, "tol": "small"}, "tol='small'"),
        (np.zeros((3, 2)), {"capacity": 2, "maximize": "no"}, "maximize='no'"),
        ([[1, np.inf], [np.inf, np.inf]], {"capacity": 2}, "row 1 is not allowed in any column"),
        ([[1, np.inf], [1, 2]], {"capacity": [0, 2]}, "row 0 is not allowed in any column"),
        (
            [[1, np.inf], [1, np.inf], [1, 1]],
            {"capacity": [1, 5]},
            r"2 rows \(0, 1\) are allowed only in the columns 0",
        ),
        (
            [[1, np.inf], [1, np.inf], [1, 1]],
            {"capacity": 3, "minimum": [0, 2]},
            "columns 1 must have 2 rows, but only 1",
        ),
    ],
)
def test_what_is_refused(cost, arguments, message):
    with pytest.raises(ValueError, match=message):
        balanced_assignment(cost, **arguments)
