"""NumPy's files are read if they are what their headers say, and refused before they take memory if not."""

import io
import os
import struct
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from numpy.testing import assert_array_equal

from epls.datasets import arrays
from epls.datasets.arrays import archived_names, load_array
from epls.datasets.opening import open_data
from epls.images.reading import ImageCollection
from epls.utils.npy import npy_header


def test_arrays(tmp_path):
    X = np.arange(12.0).reshape(4, 3)
    np.save(tmp_path / "x.npy", X)
    found = load_array(tmp_path / "x.npy")
    assert not isinstance(found, np.memmap)
    assert_array_equal(found, X)
    np.savez(tmp_path / "one.npz", whatever=X)
    assert_array_equal(load_array(tmp_path / "one.npz"), X)
    np.savez(tmp_path / "two.npz", X=X, y=np.arange(4))
    assert_array_equal(load_array(tmp_path / "two.npz"), X)
    assert_array_equal(load_array(tmp_path / "two.npz", key="y"), np.arange(4))
    np.savez(tmp_path / "three.npz", features=X, names=np.array(["a", "b"]))
    assert_array_equal(load_array(tmp_path / "three.npz"), X)
    np.savez(tmp_path / "unclear.npz", a=X, b=X)
    with pytest.raises(ValueError, match=r"holds the arrays a, b: choose one with key \(.*--key\)"):
        load_array(tmp_path / "unclear.npz")
    with pytest.raises(ValueError, match=r"choose one with key \(.*--key\)"):
        load_array(tmp_path / "two.npz", key="z")


def test_damaged_arrays(tmp_path):
    np.save(tmp_path / "whole.npy", np.zeros((100, 100)))
    np.savez(tmp_path / "whole.npz", X=np.zeros((100, 100)))
    np.save(tmp_path / "objects.npy", np.array([{}], dtype=object), allow_pickle=True)
    for kind in ("npy", "npz"):
        content = (tmp_path / f"whole.{kind}").read_bytes()
        (tmp_path / f"cut.{kind}").write_bytes(content[: len(content) // 2])
        (tmp_path / f"text.{kind}").write_text("no array at all")
        for name in ("cut", "text"):
            with pytest.raises(ValueError, match=f"{name}.{kind} is (not an array|damaged)"):
                load_array(tmp_path / f"{name}.{kind}")
    with pytest.raises(ValueError, match="without pickle"):
        load_array(tmp_path / "objects.npy")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        load_array(tmp_path / "nothing.npy")


@given(
    array=hnp.arrays(
        st.sampled_from(["<f4", ">f8", "u1", "<i8", "?", "<U3"]), hnp.array_shapes(min_dims=0, max_dims=4, min_side=0)
    ),
    fortran=st.booleans(),
)
def test_arrays_come_back_as_numpy_reads_them(tmp_path_factory, array, fortran):
    folder = tmp_path_factory.mktemp("arrays")
    np.save(folder / "a.npy", np.asfortranarray(array) if fortran else array)
    np.savez_compressed(folder / "a.npz", np.asfortranarray(array) if fortran else array)
    for name in ("a.npy", "a.npz"):
        found = load_array(folder / name)
        assert found.dtype == array.dtype
        assert_array_equal(found, np.load(folder / "a.npy"), strict=True)


def lying(shape, n_bytes):
    """The content of a .npy file whose header promises more than there is."""
    content = io.BytesIO()
    np.lib.format.write_array_header_1_0(content, {"descr": "<f8", "fortran_order": False, "shape": shape})
    return content.getvalue() + bytes(n_bytes)


@pytest.mark.parametrize("shape", [(10**12,), (10**6, 10**6), (10**30, 1), (-5, 3), (101,)])
def test_headers_are_not_believed(shape, tmp_path, monkeypatch):
    (tmp_path / "a.npy").write_bytes(lying(shape, 800))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("X.npy", lying(shape, 800))
    monkeypatch.setattr(np, "empty", lambda *_: pytest.fail("memory was taken"))
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match=r"is damaged.*(truncated|its shape is|header)"):
            load_array(tmp_path / name)


def test_archives_that_fill_the_memory_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "LARGE_CONTENT", 2**20)
    np.savez_compressed(tmp_path / "bomb.npz", X=np.zeros(2**17))
    np.savez_compressed(tmp_path / "small.npz", X=np.zeros(2**16))
    np.savez(tmp_path / "plain.npz", X=np.zeros(2**17))
    assert len(load_array(tmp_path / "small.npz")) == 2**16
    assert len(load_array(tmp_path / "plain.npz")) == 2**17
    monkeypatch.setattr(arrays, "read_npy", lambda *_: pytest.fail("it was read"))
    with pytest.raises(ValueError, match=r"bytes that decompress to 1,048,\d+: .* save the data as \.npy"):
        load_array(tmp_path / "bomb.npz")
    # The same where the archive claims that it stores more than it has.
    content = bytearray((tmp_path / "bomb.npz").read_bytes())
    place = content.rindex(b"PK\x01\x02") + 20
    content[place : place + 4] = struct.pack("<I", 2**31)
    (tmp_path / "lie.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"decompress to 1,048,\d+|is damaged"):
        load_array(tmp_path / "lie.npz")


def test_a_flipped_bit_of_an_archive_is_noticed(tmp_path):
    np.savez(tmp_path / "a.npz", X=np.zeros(100))
    content = bytearray((tmp_path / "a.npz").read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "a.npz").write_bytes(content)
    with pytest.raises(ValueError, match="damaged"):
        load_array(tmp_path / "a.npz")


def test_a_small_file_may_be_shortened_after_it_was_opened(tmp_path):
    """Of a map, the next value would be read after the end of the file, and the process ended by SIGBUS."""
    X = np.random.RandomState(0).normal(size=(20_000, 4))
    np.save(tmp_path / "x.npy", X)
    opened = open_data(tmp_path / "x.npy")
    os.truncate(tmp_path / "x.npy", 100)
    assert_array_equal(opened.X, X)


def test_large_arrays_of_images_are_read_from_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(arrays, "LARGE_FILE_BYTES", 1000)
    images = np.random.RandomState(0).randint(256, size=(50, 40, 30, 3)).astype(np.int64)
    np.save(tmp_path / "images.npy", images)
    assert isinstance(load_array(tmp_path / "images.npy"), np.memmap)
    opened = ImageCollection(open_data(tmp_path / "images.npy"), 5)
    assert len(opened) == 50
    for number in (0, 49, 7):
        assert_array_equal(opened[number], images[number])
    assert opened.images[3].dtype == np.int64
    os.truncate(tmp_path / "images.npy", (tmp_path / "images.npy").stat().st_size // 2)
    assert_array_equal(opened[7], images[7])
    with pytest.raises(OSError, match=r"images\.npy ends before row 50 of 50: it was shortened"):
        opened[49]
    with pytest.raises(ValueError, match="truncated"):
        open_data(tmp_path / "images.npy")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs pipes")
@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.csv", "a.parquet"])
def test_pipes_are_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(ValueError, match="is not a regular file"):
        open_data(tmp_path / name)


def test_names_that_fill_the_memory_are_refused(tmp_path):
    """A file of 13 kB: as texts of Python, its names would take more than a gigabyte."""
    n_rows = 6_000_000
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((n_rows, 1), np.uint8), names=np.zeros(n_rows, np.int8))
    with pytest.raises(ValueError, match=r"decompress to 1,200,000,000.* fill the memory"):
        archived_names(tmp_path / "x.npz", n_rows)


def test_values_without_a_size_are_refused(tmp_path):
    """Any number of them has 0 bytes; NumPy makes one byte of each."""
    (tmp_path / "x.npy").write_bytes(npy_header((10**12,), "|S0"))
    with pytest.raises(ValueError, match=r"shape is \(1000000000000,\), of type \|S0"):
        load_array(tmp_path / "x.npy")


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_archives_that_numpy_does_not_write_are_refused(tmp_path, method):
    content = io.BytesIO()
    np.save(content, np.zeros((100, 3)))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.writestr("X.npy", content.getvalue())
    with pytest.raises(ValueError, match=r"X.npy is not compressed as NumPy does it"):
        load_array(tmp_path / "x.npz")
