"""The tree of shards: who is below whom, and the order of additions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from epls.data.blocks import ArrayBlocks
from epls.distributed.cluster import LocalShards
from epls.distributed.shard import Shard
from epls.distributed.tree import _CHUNK_BYTES, below, branch, chunks, combine_along_tree


@given(st.integers(1, 300))
def test_every_shard_is_below_one_other(n_shards):
    assert sorted(branch(0, n_shards)) == list(range(n_shards))
    above = {child: number for number in range(n_shards) for child in below(number, n_shards)}
    assert above == {child: (child - 1) // 2 for child in range(1, n_shards)}
    assert all(len(below(number, n_shards)) <= 2 for number in range(n_shards))


@given(st.integers(1, 40), st.integers(0, 99))
def test_the_order_of_additions_follows_from_the_number_of_shards(n_shards, seed):
    """Numbers of very different sizes, whose sum has other bits in another order."""
    random = np.random.RandomState(seed)
    arrays = [np.float32(random.normal(size=5) * 10.0 ** random.uniform(-4, 4, 5)) for _ in range(n_shards)]

    def total(number):
        found = arrays[number]
        for child in (2 * number + 1, 2 * number + 2):
            if child < n_shards:
                found = found + total(child)
        return found

    expected = total(0)
    assert_array_equal(combine_along_tree([array.copy() for array in arrays], np.add), expected)
    largest = combine_along_tree([array.copy() for array in arrays], np.maximum)
    assert_array_equal(largest, np.max(arrays, axis=0))


@given(st.integers(0, 5000), st.integers(1, 3000), st.booleans())
def test_chunks_hold_every_row_once(n_rows, n_columns, flat):
    shape = (n_rows,) if flat else (n_rows, n_columns)
    pieces = chunks(shape, np.dtype(np.float32))
    rows = np.concatenate([np.arange(n_rows)[piece] for piece in pieces])
    assert_array_equal(rows, np.arange(n_rows))
    row_bytes = 4 if flat else 4 * n_columns
    assert all(row_bytes * (piece.stop - piece.start) <= max(_CHUNK_BYTES, row_bytes) for piece in pieces)
    assert len(pieces) <= 1 + n_rows * row_bytes // (
        _CHUNK_BYTES - row_bytes + 1 if row_bytes < _CHUNK_BYTES // 2 else row_bytes
    )


@pytest.mark.parametrize("method", ["gradient", "largest_net", "net_quantile"])
def test_a_shard_without_a_batch_changes_nothing(blobs, method):
    """Shards of 100, 100 and 40 samples in batches of 60: at the second place, the last one has nothing left."""
    from epls.algorithm.activations import LOGISTIC
    from epls.algorithm.engine import Objective
    from epls.distributed.shard import Place, Settings, Step

    parts = [ArrayBlocks(blobs[:100]), ArrayBlocks(blobs[100:200]), ArrayBlocks(blobs[200:240])]
    weights = np.random.RandomState(0).normal(size=(8, 7))
    settings = Settings(Objective(blobs.mean(axis=0), 20.0, LOGISTIC))
    step = Step(method, Place(3, 1, 60), settings, (0.9,) if method == "net_quantile" else ())
    own = [np.zeros(8, np.int64)] * 3
    combined, found = LocalShards(parts).combine(step, weights, own)
    assert list(found) == [0, 1]
    each = [Shard(part, number).part(step, weights, own[number])[0] for number, part in enumerate(parts[:2])]
    assert_array_equal(combined, np.maximum(*each) if method == "largest_net" else each[0] + each[1])
