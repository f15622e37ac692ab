"""Every source gives each sample once, and can begin in the middle."""

import time
from itertools import chain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from epls.data import blocks as blocks_module
from epls.data.blocks import FileBlocks, as_blocks, checked_blocks
from epls.data.samples import ArrayBatches, BlockBatches, StreamBatches


class Pieces:
    """Blocks of given sizes; each sample is its own number."""

    def __init__(self, sizes):
        self.sizes = np.array(sizes, np.intp)
        self.shape = (int(self.sizes.sum()), 1)
        self.dtype = np.dtype(np.float64)
        self.n_read = 0

    def read(self, number):
        self.n_read += 1
        first = self.sizes[:number].sum()
        return np.arange(first, first + self.sizes[number], dtype=float)[:, None]


def values(batches):
    return [X[rows, 0].astype(int).tolist() for X, rows in batches]


sizes = st.lists(st.integers(1, 9), min_size=1, max_size=12)


@given(sizes, st.integers(1, 12), st.integers(1, 25), st.integers(0, 5), st.integers(0, 99))
def test_blocks_give_each_sample_once_and_begin_anywhere(sizes, batch_size, buffer_rows, skip, seed):
    batches = BlockBatches(Pieces(sizes), batch_size, 8 * buffer_rows)
    random = np.random.RandomState(seed)
    whole = values(batches.epoch(random))
    after = random.randint(1000)
    assert sorted(chain(*whole)) == list(range(sum(sizes)))
    assert all(len(batch) == batch_size for batch in whole[:-1])
    assert 1 <= len(whole[-1]) <= batch_size
    random = np.random.RandomState(seed)
    assert values(batches.epoch(random, skip)) == whole[skip:]
    assert random.randint(1000) == after


@given(sizes, st.integers(1, 12), st.integers(0, 5), st.integers(0, 99))
def test_arrays_and_streams_begin_anywhere(sizes, batch_size, skip, seed):
    pieces = Pieces(sizes)
    X = np.concatenate([pieces.read(k) for k in range(len(sizes))])
    for batches in (
        ArrayBatches(X, batch_size),
        StreamBatches(lambda: (pieces.read(k) for k in range(len(sizes))), len(X), batch_size),
        StreamBatches(lambda: (pieces.read(k) for k in range(len(sizes))), len(X), batch_size, buffer_bytes=80),
    ):
        whole = values(batches.epoch(np.random.RandomState(seed)))
        assert sorted(chain(*whole)) == list(range(len(X)))
        assert values(batches.epoch(np.random.RandomState(seed), skip)) == whole[skip:]


def test_neighbours_are_parted():
    """A batch has samples from many blocks, and epochs differ."""
    batches = BlockBatches(Pieces([10] * 100), 50, buffer_bytes=8 * 500)
    random = np.random.RandomState(0)
    first, second = values(batches.epoch(random)), values(batches.epoch(random))
    assert first != second
    assert all(len({value // 10 for value in batch}) > 25 for batch in first + second)


def test_what_is_skipped_is_not_read():
    pieces = Pieces([10] * 100)
    batches = BlockBatches(pieces, 10, buffer_bytes=8 * 100)
    rest = values(batches.epoch(np.random.RandomState(0), skip=75))
    assert len(rest) == 25
    assert pieces.n_read <= 40


def test_the_next_buffer_is_read_while_this_one_is_used():
    pieces = Pieces([10] * 3)
    epoch = BlockBatches(pieces, 10, buffer_bytes=8 * 10).epoch(np.random.RandomState(0))
    next(epoch)
    until = time.monotonic() + 10
    while pieces.n_read < 2 and time.monotonic() < until:
        time.sleep(0.01)
    assert pieces.n_read == 2  # nobody has asked for the second one yet, and the third has to wait


def test_a_stream_that_fails_tells():
    def arrays():
        yield np.zeros((5, 1))
        raise OSError("the line is dead")

    with pytest.raises(OSError, match="the line is dead"):
        list(StreamBatches(arrays, 10, 3).epoch(np.random.RandomState(0)))


def test_a_reader_that_fails_tells():
    class Broken(Pieces):
        def read(self, number):
            raise OSError("the disk is gone")

    with pytest.raises(OSError, match="the disk is gone"):
        list(BlockBatches(Broken([5, 5]), 3).epoch(np.random.RandomState(0)))


@pytest.fixture
def large(tmp_path, monkeypatch):
    """A map that counts as large, in blocks of three rows."""
    monkeypatch.setattr(blocks_module, "_LARGE_FILE_BYTES", 100)
    monkeypatch.setattr(blocks_module, "_FILE_BLOCK_BYTES", 3 * 4 * 5)
    X = np.random.RandomState(0).normal(size=(40, 5)).astype(np.float32)
    np.save(tmp_path / "x.npy", X)
    return X, np.load(tmp_path / "x.npy", mmap_mode="r")


def test_a_file_in_blocks(large):
    X, mapped = large
    blocks = as_blocks(mapped)
    assert isinstance(blocks, FileBlocks)
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


def test_what_is_not_finite_is_found():
    pieces = Pieces([4, 4])
    pieces.read = lambda number: np.array([[0.0], [1.0], [np.nan], [2.0]]) if number else np.zeros((4, 1))
    with pytest.raises(ValueError, match="NaN or infinite in row 6"):
        list(checked_blocks(pieces))


def test_a_map_with_changes_of_its_own_is_not_read_from_its_file(large, tmp_path):
    changed = np.load(tmp_path / "x.npy", mmap_mode="c")
    changed += 1000
    assert as_blocks(changed) is None


def test_a_stream_may_use_its_array_again():
    room = np.empty((4, 1))

    def arrays():
        for number in range(5):
            room[:] = np.arange(4 * number, 4 * number + 4)[:, None]
            yield room

    given = values(StreamBatches(arrays, 20, 3).epoch(np.random.RandomState(0)))
    assert sorted(chain(*given)) == list(range(20))


def test_a_stream_of_two_types():
    arrays = [np.full((3, 1), 200, np.uint8), np.full((3, 1), 0.5, np.float32)]
    batches = StreamBatches(lambda: iter(arrays), 6, 4).epoch(np.random.RandomState(0))
    assert sorted(float(X[row, 0]) for X, rows in batches for row in rows) == [0.5] * 3 + [200.0] * 3
