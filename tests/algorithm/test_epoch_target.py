"""The target of an epoch: shares by construction, prices that need no scale, quality against the exact optimum."""

import copy
import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import linear_sum_assignment
from sklearn.datasets import load_digits

from epls import EPLS
from epls.algorithm.epoch_target import EpochTarget
from epls.algorithm.target import AuctionTarget, hold_auction

TIED = st.sampled_from([0.0, 0.25, 0.5, 1.0])
COARSE = st.integers(-512, 1024).map(lambda i: i / 1024)  # times a power of two, they are the same numbers


@st.composite
def cut_outputs(draw, elements=TIED | COARSE, max_rows=60, max_units=12):
    """Outputs of an epoch and where they are cut into batches, ragged ones too."""
    shape = draw(st.integers(1, max_rows)), draw(st.integers(1, max_units))
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    H = draw(arrays(np.float32, shape, elements=elements)).astype(dtype)
    return H, sorted({0, len(H), *draw(st.lists(st.integers(0, len(H)), max_size=8))})


@pytest.fixture(scope="module")
def digits():
    return load_digits(return_X_y=True)[0] / 16


def batches(case):
    H, cuts = case
    return [H[a:b] for a, b in itertools.pairwise(cuts)]


@given(cut_outputs(), st.integers(1, 3))
@example((np.tile(np.float32([[1, 0, 0]]), (8, 1)), [0, 1, 5, 8]), 2)  # all rows want one unit
@example((np.zeros((7, 3), np.float32), list(range(8))), 2)
@example((np.ones((3, 12), np.float64), [0, 3]), 1)  # fewer samples than units
def test_wins_differ_by_at_most_one_at_the_end_of_every_epoch(case, n_epochs):
    H, _ = case
    n_units = H.shape[1]
    target = EpochTarget(n_units)
    for _ in range(n_epochs):
        target.start_epoch(len(H))
        wins = np.zeros(n_units, int)
        for batch in batches(case):
            wins += np.bincount(target.assign(batch), minlength=n_units)
            assert wins.max() <= -(-len(H) // n_units)
        assert np.ptp(wins) <= 1
        assert wins.tolist() == target.counts.tolist()


@given(st.integers(1, 9), st.lists(st.integers(0, 40), max_size=12), st.integers(0, 99))
def test_in_a_stream_no_unit_is_more_than_16_wins_ahead(n_units, sizes, seed):
    """Even of one that all rows want."""
    random, target = np.random.RandomState(seed), EpochTarget(n_units)
    for size in sizes:
        target.assign(random.uniform(size=(size, n_units)) + 5 * (np.arange(n_units) == 0))
        assert target.counts.max() <= target.counts.sum() / n_units + 16
    assert target.counts.sum() == sum(sizes)


def test_in_a_stream_wins_stay_together():
    """Prices hold them, long before the limit does."""
    random, target = np.random.RandomState(0), EpochTarget(20)
    favour = random.normal(size=20)
    for _ in range(500):
        target.assign(random.normal(size=(40, 20)) + favour)
    assert np.ptp(target.counts) <= 16


def test_more_samples_than_announced_go_on_as_a_stream():
    random, target = np.random.RandomState(0), EpochTarget(4)
    target.start_epoch(8)
    for _ in range(10):
        target.assign(random.uniform(size=(6, 4)))
    assert target.counts.sum() == 60
    assert target.counts.max() <= 15 + 16


@given(cut_outputs(elements=COARSE), st.integers(-20, 20))
def test_the_scale_of_the_outputs_does_not_matter(case, power):
    one, other = EpochTarget(case[0].shape[1]), EpochTarget(case[0].shape[1])
    for _ in range(2):
        one.start_epoch(len(case[0]))
        other.start_epoch(len(case[0]))
        for batch in batches(case):
            assert one.assign(batch).tolist() == other.assign(batch * batch.dtype.type(2.0**power)).tolist()


@given(cut_outputs(), st.integers(0, 8))
def test_a_restored_target_goes_on_as_if_it_had_not_stopped(case, n_before):
    target = EpochTarget(case[0].shape[1])
    target.start_epoch(len(case[0]))
    for batch in batches(case)[:n_before]:
        target.assign(batch)
    other = EpochTarget(case[0].shape[1])
    other.restore(copy.deepcopy(target.state()))
    for batch in batches(case)[n_before:]:
        assert target.assign(batch).tolist() == other.assign(batch).tolist()


@given(cut_outputs(max_rows=20, max_units=6), st.integers(0, 99))
def test_an_auction_with_reserves_is_near_the_best_of_values_less_costs(case, seed):
    """Against an exact assignment of rows to places, each at its cost."""
    H, random = case[0], np.random.RandomState(seed)
    n_rows, n_units = H.shape
    capacity = random.randint(0, 4, size=n_units)
    capacity[random.randint(n_units)] += n_rows
    reserves, rise = random.randint(-8, 8, size=n_units) / 16, random.randint(8) / 16
    winners = hold_auction(H, capacity, reserves, rise)
    wins = np.bincount(winners, minlength=n_units)
    assert (wins <= capacity).all()
    unit = np.repeat(np.arange(n_units), capacity)
    net = H[:, unit] - np.concatenate([reserves[j] + rise * np.arange(capacity[j]) for j in range(n_units)])
    best = net[linear_sum_assignment(net, maximize=True)].sum()
    paid = sum((reserves[j] + rise * np.arange(wins[j])).sum() for j in range(n_units))
    increments = 0.02 * n_rows / 400 * np.ptp(H, axis=1).sum()
    assert H[np.arange(n_rows), winners].sum(dtype=np.float64) - paid >= best - increments - 1e-5 * n_rows


@pytest.mark.parametrize("max_iter", [2, 8, 50])  # dense outputs, half way, sparse ones
def test_quality_over_an_epoch(digits, max_iter):
    """1,600 digits and 20 units, batches of 20: the best of the batches is far from the best of the epoch."""
    H = EPLS(20, max_iter=max_iter, random_state=0, wake=False).fit(digits).transform(digits[:1600])
    unit_of_place = np.repeat(np.arange(20), 80)
    best = H[:, unit_of_place][linear_sum_assignment(H[:, unit_of_place], maximize=True)].sum()
    random = np.random.RandomState(0)

    def quality(target):
        target.start_epoch(len(H))
        order = random.permutation(len(H))  # digits come in the order of their labels
        winners = np.concatenate([target.assign(H[rows]) for rows in order.reshape(-1, 20)])
        return H[order, winners].sum() / best

    target = EpochTarget(20)
    reached = [quality(target) for _ in range(6)]
    assert quality(AuctionTarget(20)) < 0.86
    assert reached[0] > 0.96
    assert np.mean(reached[3:]) > 0.98


@pytest.mark.parametrize("settings", [{}, {"drop_last": True}, {"batch_size": 7}, {"activation": "relu"}])
def test_wins_are_balanced_over_each_epoch_of_a_training(digits, settings, device):
    settings = {"batch_size": 50} | settings
    model = EPLS(20, target="epoch", max_iter=4, random_state=0, device=device, **settings).fit(digits)
    assert all(report.win_spread <= 1 for report in model.epoch_reports_)
    assert model.loss_curve_[-1] < model.loss_curve_[0]
