"""Every source gives each sample once, and can begin in the middle."""

import time
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from epls.data import blocks as blocks_module
from epls.data.blocks import Blocks, as_blocks, checked_blocks
from epls.data.samples import ArraySamples, BlockSamples
from epls.data.shuffling import batch_cuts


class Pieces(Blocks):
    """Blocks of given sizes; each sample is its own number."""

    def __init__(self, sizes):
        super().__init__(self.numbers, (sum(sizes), 1), np.float64, sizes)
        self.n_read = 0

    def numbers(self, start, stop):
        self.n_read += 1
        return np.arange(start, stop, dtype=float)[:, None]


def values(batches):
    return [X[rows, 0].astype(int).tolist() for X, rows in batches]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(sizes, st.integers(1, 12), st.integers(1, 25), st.integers(0, 5), st.integers(0, 99))
def test_blocks_give_each_sample_once_and_begin_anywhere(sizes, batch_size, buffer_rows, skip, seed):
    samples = BlockSamples(Pieces(sizes), 8 * buffer_rows)
    random = np.random.RandomState(seed)
    whole = values(samples.epoch(random, batch_size))
    after = random.randint(1000)
    assert sorted(chain(*whole)) == list(range(sum(sizes)))
    assert all(len(batch) == batch_size for batch in whole[:-1])
    assert 1 <= len(whole[-1]) <= batch_size
    random = np.random.RandomState(seed)
    assert values(samples.epoch(random, batch_size, skip=skip)) == whole[skip:]
    assert random.randint(1000) == after


@given(sizes, st.integers(1, 12), st.integers(0, 5), st.integers(0, 99))
def test_arrays_and_blocks_begin_anywhere(sizes, batch_size, skip, seed):
    pieces = Pieces(sizes)
    X = np.concatenate([pieces.read(k) for k in range(len(sizes))])
    for samples in (
        ArraySamples(X),
        BlockSamples(pieces),
        BlockSamples(pieces, buffer_bytes=80),
    ):
        for n_even in (None, min(3, len(X)), samples.n_batches(batch_size)):
            whole = values(samples.epoch(np.random.RandomState(seed), batch_size, n_even=n_even))
            assert sorted(chain(*whole)) == list(range(len(X)))
            rest = values(samples.epoch(np.random.RandomState(seed), batch_size, skip=skip, n_even=n_even))
            assert rest == whole[skip:]
        lengths = [len(batch) for batch in whole]
        assert max(lengths) - min(lengths) <= 1
        assert max(lengths) <= batch_size
        assert len(whole) == samples.n_batches(batch_size)
        assert_array_equal(samples.array(), X)
        center, scale = samples.moments.center_and_scale()
        assert center == pytest.approx(X.mean(axis=0))
        assert scale == pytest.approx(X.std() or 1.0)


def test_neighbours_are_parted():
    """A batch has samples from many blocks, and epochs differ."""
    samples = BlockSamples(Pieces([10] * 100), buffer_bytes=8 * 500)
    random = np.random.RandomState(0)
    first, second = values(samples.epoch(random, 50)), values(samples.epoch(random, 50))
    assert first != second
    assert all(len({value // 10 for value in batch}) > 25 for batch in first + second)


def test_what_is_skipped_is_not_read():
    pieces = Pieces([10] * 100)
    samples = BlockSamples(pieces, buffer_bytes=8 * 100)
    rest = values(samples.epoch(np.random.RandomState(0), 10, skip=75))
    assert len(rest) == 25
    assert pieces.n_read <= 40


def test_the_next_buffer_is_read_while_this_one_is_used():
    pieces = Pieces([10] * 3)
    epoch = BlockSamples(pieces, buffer_bytes=8 * 10).epoch(np.random.RandomState(0), 10)
    next(epoch)
    until = time.monotonic() + 10
    while pieces.n_read < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert pieces.n_read == 2  # nobody has asked for the second one yet, and the third has to wait


def test_a_reader_that_fails_tells():
    class Broken(Pieces):
        def read(self, number):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(BlockSamples(Broken([5, 5])).epoch(np.random.RandomState(0), 3))


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A map that counts as large, in blocks of three rows."""
    monkeypatch.setattr(blocks_module, "LARGE_FILE_BYTES", 100)
    monkeypatch.setattr(blocks_module, "_BLOCK_BYTES", 3 * 4 * 5)
    X = np.random.RandomState(0).normal(size=(40, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return X, np.load(tmp_path / "x.npy", mmap_mode="r")


def test_a_file_in_blocks(large):
    X, mapped = large
    blocks = as_blocks(mapped)
    assert isinstance(blocks, Blocks)
    assert blocks.sizes.tolist() == [3] * 13 + [1]
    assert_array_equal(np.concatenate(list(checked_blocks(blocks))), X)


def test_maps_that_are_taken_as_arrays(large, tmp_path):
    _, mapped = large
    assert as_blocks(mapped[2:]) is None  # its place in the file is not known
    assert as_blocks(mapped.T) is None
    assert as_blocks(np.asarray(mapped)) is None
    assert as_blocks(np.load(tmp_path / "x.npy")) is None


def test_a_file_that_is_cut_meanwhile(large, tmp_path):
    _, mapped = large
    blocks = as_blocks(mapped)
    content = (tmp_path / "x.npy").read_bytes()
    (tmp_path / "x.npy").write_bytes(content[:-50])
    with pytest.raises(OSError, match=r"x.npy ends before row 39 of 40"):
        list(checked_blocks(blocks))


def test_blocks_are_checked_when_they_are_loaded():
    pieces = Pieces([4, 4])
    pieces.read = lambda number: np.array([[0.0], [1.0], [np.inf], [2.0]]) if number else np.zeros((4, 1))
    with pytest.raises(ValueError, match="NaN or infinite in row 6"):
        BlockSamples(pieces).array()


def test_what_is_not_finite_is_found():
    pieces = Pieces([4, 4])
    pieces.read = lambda number: np.array([[0.0], [1.0], [np.nan], [2.0]]) if number else np.zeros((4, 1))
    with pytest.raises(ValueError, match="NaN or infinite in row 6"):
        list(checked_blocks(pieces))


def test_a_map_with_changes_of_its_own_is_not_read_from_its_file(large, tmp_path):
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed += 1000
    assert as_blocks(changed) is None


def test_an_array_in_its_order_and_in_a_new_one():
    samples, random = ArraySamples(np.zeros((23, 2))), np.random.RandomState(0)
    first, second = ([rows for _, rows in samples.epoch(random, 5)] for _ in range(2))
    assert [len(rows) for rows in first] == [5, 5, 5, 5, 3]
    assert sorted(np.concatenate(first)) == list(range(23))
    assert np.concatenate(first).tolist() != np.concatenate(second).tolist()
    assert np.concatenate([rows for _, rows in samples.in_order(5)]).tolist() == list(range(23))


@given(st.integers(1, 500), st.integers(1, 60))
def test_even_batches_are_those_of_array_split(n_samples, n_batches):
    expected = [len(part) for part in np.array_split(np.arange(n_samples), n_batches)]
    assert np.diff(batch_cuts(n_samples, 1, n_even=n_batches)).tolist() == expected
