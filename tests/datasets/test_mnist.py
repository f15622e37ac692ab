import gzip

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from made_up import MNIST_IMAGES as IMAGES
from made_up import MNIST_LABELS as LABELS
from made_up import idx_bytes, write_mnist

from epls.datasets import load_mnist
from epls.datasets.mnist import read_idx


@pytest.mark.parametrize("mark", ["-", "."])
@pytest.mark.parametrize("end", ["", ".gz"])
def test_images_and_labels(tmp_path, mark, end):
    write_mnist(tmp_path, mark, end)
    data = load_mnist(str(tmp_path))
    np.testing.assert_array_equal(data.train_images, IMAGES)
    np.testing.assert_array_equal(data.train_labels, LABELS)
    np.testing.assert_array_equal(data.test_images, IMAGES[:2])
    np.testing.assert_array_equal(data.test_labels, LABELS[:2])
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert data.class_names == tuple("0123456789")


@given(arrays(np.uint8, array_shapes(max_dims=3)), st.booleans())
def test_idx_round_trip(tmp_path_factory, array, compressed):
    path = tmp_path_factory.mktemp("idx") / ("file.gz" if compressed else "file")
    path.write_bytes(gzip.compress(idx_bytes(array)) if compressed else idx_bytes(array))
    np.testing.assert_array_equal(read_idx(path, array.ndim), array)


@given(st.integers(0, 76), st.booleans())
def test_every_cut_off_file_is_an_error(tmp_path_factory, length, compressed):
    content = gzip.compress(idx_bytes(IMAGES)) if compressed else idx_bytes(IMAGES)
    path = tmp_path_factory.mktemp("idx") / ("cut.gz" if compressed else "cut")
    path.write_bytes(content[: min(length, len(content) - 1)])
    with pytest.raises(ValueError, match=r"cut"):
        read_idx(path, 3)


def test_a_missing_file_is_named(tmp_path):
    write_mnist(tmp_path, end=".gz")
    (tmp_path / "t10k-labels-idx1-ubyte.gz").unlink()
    with pytest.raises(FileNotFoundError, match=r"no file t10k-labels-idx1-ubyte in .*t10k-labels\.idx1-ubyte\.gz"):
        load_mnist(tmp_path)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (
            "train-images-idx3-ubyte",
            idx_bytes(IMAGES)[:-1],
            "train-images.* has 75 bytes.* 5 x 4 x 3 .*together 76",
        ),
        ("train-images-idx3-ubyte", idx_bytes(IMAGES) + b"1", "train-images.* has 77 bytes.*together 76"),
        ("train-images-idx3-ubyte", idx_bytes(IMAGES[:0]), "train-images.* 0 x 4 x 3"),
        (
            "train-images-idx3-ubyte",
            idx_bytes(IMAGES)[:9],
            "train-images.* has 9 bytes and ends within its header",
        ),
        ("train-images-idx3-ubyte", idx_bytes(LABELS), r"train-images.* begins with the bytes \(0, 0, 8, 1\)"),
        (
            "train-images-idx3-ubyte",
            idx_bytes(IMAGES[:4]),
            "train-images.* has 4 images.*train-labels.* has 5 labels",
        ),
        ("t10k-images-idx3-ubyte", idx_bytes(IMAGES[:2, :3]), "4 x 3, but the test images 3 x 3"),
        ("t10k-labels-idx1-ubyte", b"", r"t10k-labels.* begins with the bytes \(\)"),
        ("t10k-labels-idx1-ubyte", idx_bytes(np.array([1, 10], np.uint8)), "t10k-labels.* label 10 at position 1"),
        # The two gigabytes that the header announces must not be reserved.
        ("t10k-labels-idx1-ubyte", b"\0\0\x08\1\x7f\xff\xff\xff12", "t10k-labels.* 2147483647 bytes after"),
    ],
)
def test_damaged_files_are_named(tmp_path, name, content, message):
    write_mnist(tmp_path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_mnist(tmp_path)


def test_damaged_gzip_is_named(tmp_path):
    whole = gzip.compress(idx_bytes(IMAGES))
    flipped = bytearray(whole)
    flipped[-6] ^= 1  # the checksum
    garbled = bytearray(whole)
    garbled[12:40] = bytes(28)
    for content in (whole[:-9], b"no gzip at all", bytes(flipped), bytes(garbled)):
        write_mnist(tmp_path, end=".gz")
        (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(content)
        with pytest.raises(ValueError, match=r"train-images-idx3-ubyte\.gz cannot be decompressed"):
            load_mnist(tmp_path)


def test_missing_folder_and_file_for_a_folder(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"no folder .*nothing"):
        load_mnist(tmp_path / "nothing")
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError, match="file is a file"):
        load_mnist(tmp_path / "file")


@pytest.mark.parametrize("download", [True, False, "MNIST", "", ["mnist"]])
def test_bad_value_of_download(tmp_path, download):
    with pytest.raises(ValueError, match=r'download=.*: give "mnist", "fashion-mnist" or None'):
        load_mnist(tmp_path / "new", download=download)
    assert not (tmp_path / "new").exists()
