"""Training in shards: balance, every sample once, the same result whoever computes it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from stopped_training import StopAfter, StopError

from epls import EPLS, OMP, Checkpoint
from epls.algorithm.activations import LOGISTIC
from epls.algorithm.engine import Objective
from epls.algorithm.settings import TrainingSettings
from epls.algorithm.target import AuctionTarget, ExactTarget
from epls.data.blocks import ArrayBlocks, JoinedBlocks
from epls.data.samples import BlockSamples
from epls.distributed import connect, fit
from epls.distributed.cluster import LocalShards
from epls.distributed.fitting import ShardedEngine
from epls.distributed.shard import Place, Settings, Shard, Step


@given(
    st.integers(1, 8),
    st.lists(st.lists(st.integers(0, 25), min_size=1, max_size=4), min_size=1, max_size=6),
    st.sampled_from([AuctionTarget, ExactTarget]),
    st.integers(0, 99),
)
def test_the_union_of_balanced_shards_is_balanced(n_components, batches_of_shards, target_class, seed):
    """Every shard's wins differ by at most one, so those of all by at most their number, and by 0 for whole rounds."""
    random = np.random.RandomState(seed)
    wins = []
    for batches in batches_of_shards:
        target = target_class(n_components)
        for size in batches:
            target.assign(random.uniform(size=(size, n_components)))
        assert np.ptp(target.counts) <= 1
        assert target.counts.sum() == sum(batches)
        wins.append(target.counts)
    n_ragged = sum(sum(batches) % n_components > 0 for batches in batches_of_shards)
    assert np.ptp(np.sum(wins, axis=0)) <= n_ragged


@pytest.mark.parametrize("n_shards", [1, 2, 3, 7])
def test_every_sample_once_and_every_unit_equally_often(blobs, n_shards, monkeypatch):
    seen = []
    batch_of = Shard._batch

    def noted(shard, place, settings):
        batch = batch_of(shard, place, settings)
        if batch is not None:
            X, rows = batch
            seen.append((place.seed, X[rows]))
        return batch

    monkeypatch.setattr(Shard, "_batch", noted)
    model = fit(EPLS(8, max_iter=3, batch_size=40, random_state=0), blobs, n_shards=n_shards)
    assert model.n_features_in_ == 6
    assert all(report.win_spread <= n_shards for report in model.epoch_reports_)
    for seed in {seed for seed, _ in seen}:  # three epochs, and the pass that wakes
        rows = np.concatenate([rows for of, rows in seen if of == seed])
        assert_array_equal(np.sort(rows, axis=0), np.sort(blobs, axis=0))
    assert len({seed for seed, _ in seen}) == 4


def test_one_shard_learns_what_fit_learns(blobs):
    sharded = fit(EPLS(8, max_iter=60, random_state=0), blobs, n_shards=1)
    alone = EPLS(8, max_iter=60, random_state=0).fit(blobs)
    assert_allclose(sharded.mean_, alone.mean_)
    assert sharded.scale_ == pytest.approx(alone.scale_)
    assert sharded.loss_curve_[-1] == pytest.approx(alone.loss_curve_[-1], abs=0.05)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"settings": TrainingSettings(target="exact", loss="squared")},
        {"activation": "tanh"},
        {"tol": 0.5},
        {"settings": TrainingSettings(target="exact", max_norm=0.3)},
    ],
)
def test_settings_reach_the_shards(blobs, settings):
    """With one shard, one batch an epoch and the exact target, the order of samples does not matter."""
    settings = {"settings": TrainingSettings(target="exact")} | settings
    model = EPLS(8, max_iter=6, batch_size=400, random_state=0, **settings)
    alone = clone(model).fit(blobs)
    sharded = fit(model, blobs, n_shards=1)
    assert_allclose(sharded.components_, alone.components_, rtol=1e-6, atol=1e-8)
    assert_allclose(sharded.intercept_, alone.intercept_, rtol=1e-6, atol=1e-8)


def test_gradients_of_shards_add_up(blobs):
    """With the winners that shards found, the sum is the gradient of all their samples."""
    layer = Objective(blobs.mean(axis=0), 20.0, LOGISTIC)
    weights = np.random.RandomState(0).normal(size=(8, 7))
    parts = [ArrayBlocks(blobs[:150]), ArrayBlocks(blobs[150:])]
    sharded = ShardedEngine(LocalShards(parts), Settings(layer), 8)
    found = sharded.gradient(weights, Place(3, 0, 250))
    assert sharded.target.counts.sum(axis=1).tolist() == [150, 250]
    orders = [next(BlockSamples(part).epoch(np.random.RandomState([3, k]), 250)) for k, part in enumerate(parts)]
    inputs = (np.concatenate([X[rows] for X, rows in orders]) - layer.center) / 20
    inputs = np.column_stack([inputs, np.ones(400)])
    outputs = 1 / (1 + np.exp(-inputs @ weights.T))
    T = np.eye(8)[found.report.winners]
    assert_allclose(found.gradient, (outputs - T).T @ inputs, atol=1e-3)
    assert_allclose(found.report.errors, ((outputs - T) ** 2).sum(axis=1), atol=1e-4)


def test_a_shard_answers_alike_whatever_it_was_asked_before(blobs):
    """What a dead worker was to do, another one does with the same result."""
    weights = np.random.RandomState(0).normal(size=(8, 7))
    settings = Settings(Objective(blobs.mean(axis=0), 20.0, LOGISTIC))
    used, new = Shard(ArrayBlocks(blobs), 0), Shard(ArrayBlocks(blobs), 0)
    counts = np.zeros(8, np.int64)
    for number in range(7):
        step = Step("gradient", Place(5, number, 60), settings)
        gradient, found = used.part(step, weights, counts)
        if number in (2, 3, 6):
            again, found_again = new.part(step, weights, counts)
            assert_array_equal(gradient, again)
            assert_array_equal(found.report.winners, found_again.report.winners)
        counts = counts + np.bincount(found.report.winners, minlength=8)
    assert counts.sum() == 400
    neutral, found = used.part(Step("gradient", Place(5, 7, 60), settings), weights, counts)
    assert found is None  # the shard has no more
    assert_array_equal(neutral, np.zeros((8, 7)))


def test_a_sharded_training_goes_on_from_its_checkpoint(blobs, tmp_path):
    def model():
        return EPLS(8, max_iter=3, batch_size=40, random_state=0)

    expected = fit(model(), blobs, n_shards=3)
    with pytest.raises(StopError):
        fit(model().set_callbacks(StopAfter(tmp_path, 6)), blobs, n_shards=3)
    with pytest.raises(ValueError, match="checkpoint of another training"):
        fit(model().set_callbacks(Checkpoint(tmp_path)), blobs, n_shards=2)
    resumed = fit(model().set_callbacks(Checkpoint(tmp_path)), blobs, n_shards=3)
    assert_array_equal(resumed.components_, expected.components_)
    assert_array_equal(resumed.intercept_, expected.intercept_)
    assert resumed.loss_curve_ == expected.loss_curve_
    assert list(tmp_path.glob("checkpoint-*")) == []


def test_what_shards_cannot_do(blobs):
    with pytest.raises(ValueError, match="the optimizer must see each sample's gradient"):
        fit(EPLS(8, settings=TrainingSettings(optimizer="vsgd")), blobs)
    with pytest.raises(TypeError, match="only EPLS can be trained on several machines, got OMP"):
        fit(OMP(8), blobs)
    for target in ("literal", "largest"):
        with pytest.raises(ValueError, match=f"target='{target}' .* use 'auction'"):
            fit(EPLS(8, settings=TrainingSettings(target=target)), blobs)
    for n_shards in (0, 401):
        with pytest.raises(ValueError, match=f"n_shards={n_shards}: give 1 to 400"):
            fit(EPLS(8), blobs, n_shards=n_shards)
    with pytest.raises(TypeError, match="cannot read a ndarray in this process's memory"):
        fit(EPLS(8), blobs, "tcp://127.0.0.1:1")


def test_the_row_of_a_bad_value_is_that_of_the_whole(blobs):
    blobs[333, 2] = np.nan
    with pytest.raises(ValueError, match="row 333"):
        fit(EPLS(8), JoinedBlocks([ArrayBlocks(blobs)]), n_shards=3)


def test_a_scheduler_that_does_not_answer():
    with pytest.raises(ConnectionError, match=r"no dask scheduler answers at tcp://127.0.0.1:9 within 0.5 s"):
        connect("tcp://127.0.0.1:9", timeout=0.5)
    with pytest.raises(ConnectionError, match="no dask scheduler answers at nowhere"):
        connect("nowhere://x", timeout=0.5)
