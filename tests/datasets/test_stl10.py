import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_up import random_images, stl10_bytes

from epls.datasets import load_stl10

IMAGE = 96 * 96 * 3


@pytest.mark.parametrize("itself", [False, True])
def test_images_labels_and_folds(stl10_folder, itself):
    data = load_stl10(stl10_folder if itself else str(stl10_folder.parent))
    np.testing.assert_array_equal(data.train_images, random_images(3, 96, 96, 3))
    assert data.train_images.dtype == np.uint8
    np.testing.assert_array_equal(data.train_labels, [0, 9, 3])
    assert data.train_labels.dtype == np.int64
    np.testing.assert_array_equal(data.folds, [[0, 2]] * 5 + [[1, 2]] * 5)
    assert data.test_images is data.test_labels is data.unlabelled_images is None
    assert data.class_names[:3] == ("airplane", "bird", "car")
    assert len(data.class_names) == 10


def test_images_are_mapped_and_cannot_be_written(stl10_folder):
    images = load_stl10(stl10_folder).train_images
    assert isinstance(images, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        images[0, 0, 0, 0] = 1


def test_the_parts_that_may_be_missing(stl10_folder):
    test, unlabelled = random_images(2, 96, 96, 3, seed=1), random_images(1, 96, 96, 3, seed=2)
    (stl10_folder / "test_X.bin").write_bytes(stl10_bytes(test))
    (stl10_folder / "test_y.bin").write_bytes(bytes([7, 1]))
    (stl10_folder / "unlabeled_X.bin").write_bytes(stl10_bytes(unlabelled))
    (stl10_folder / "class_names.txt").write_text("a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n")
    data = load_stl10(stl10_folder)
    np.testing.assert_array_equal(data.test_images, test)
    np.testing.assert_array_equal(data.test_labels, [6, 0])
    np.testing.assert_array_equal(data.unlabelled_images, unlabelled)
    assert data.class_names == tuple("abcdefghij")


@given(st.integers(0, IMAGE - 1), st.integers(0, 255))
def test_every_byte_of_the_file_is_the_pixel_that_it_should_be(tmp_path_factory, place, value):
    home = tmp_path_factory.mktemp("stl10")
    content = bytearray(IMAGE)
    content[place] = value
    (home / "train_X.bin").write_bytes(content)
    (home / "train_y.bin").write_bytes(b"\1")
    (home / "fold_indices.txt").write_text("0\n" * 10)
    image = load_stl10(home).train_images[0]
    channel, column, row = place // (96 * 96), place // 96 % 96, place % 96
    assert image[row, column, channel] == value
    assert image.sum() == value


def test_indices_beyond_a_byte(tmp_path):
    """300 images that take no room on the disk."""
    with open(tmp_path / "train_X.bin", "wb") as file:
        file.truncate(300 * IMAGE)
    (tmp_path / "train_y.bin").write_bytes(b"\1" * 300)
    (tmp_path / "fold_indices.txt").write_text("299 256\n" * 10)
    np.testing.assert_array_equal(load_stl10(tmp_path).folds, [[299, 256]] * 10)


@pytest.mark.parametrize("name", ["train_X.bin", "train_y.bin", "fold_indices.txt"])
def test_a_missing_file_is_named(stl10_folder, name):
    (stl10_folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no file .*{re.escape(name)}.*download=True"):
        load_stl10(stl10_folder)


def test_half_a_test_set_is_an_error(stl10_folder):
    (stl10_folder / "test_y.bin").write_bytes(b"\1")
    with pytest.raises(FileNotFoundError, match=r"no file .*test_X\.bin"):
        load_stl10(stl10_folder)
    (stl10_folder / "test_y.bin").rename(stl10_folder / "test_X.bin")
    with pytest.raises(FileNotFoundError, match=r"no file .*test_y\.bin"):
        load_stl10(stl10_folder)


def test_a_folder_instead_of_a_file(stl10_folder):
    (stl10_folder / "fold_indices.txt").unlink()
    (stl10_folder / "fold_indices.txt").mkdir()
    with pytest.raises(OSError, match=r"fold_indices\.txt cannot be read"):
        load_stl10(stl10_folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train_X.bin", bytes(3 * IMAGE - 1), r"train_X\.bin has 82943 bytes.*train_y\.bin has 3.*82944.*too short"),
        ("train_X.bin", bytes(2 * IMAGE), r"train_X\.bin has 55296 bytes, which is 2 times the 27648 .*82944"),
        ("train_X.bin", bytes(4 * IMAGE), r"train_X\.bin has 110592 bytes.*too long"),
        ("train_X.bin", b"", r"train_X\.bin has 0 bytes"),
        ("train_y.bin", b"", r"train_y\.bin has 0 bytes"),
        ("train_y.bin", b"\1\1", r"train_X\.bin has 82944 bytes.*train_y\.bin has 2"),
        ("train_y.bin", b"\1\1\0", r"train_y\.bin has label 0 at position 2 .*1 to 10"),
        ("train_y.bin", b"\1\x0b\0", r"train_y\.bin has label 11 at position 1 "),
        ("unlabeled_X.bin", bytes(IMAGE + 7), r"unlabeled_X\.bin has 27655 bytes.*whole number"),
        ("unlabeled_X.bin", b"", r"unlabeled_X\.bin has 0 bytes"),
        ("fold_indices.txt", b"0 1\n" * 9, r"fold_indices\.txt has 9 lines"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"0", r"fold_indices\.txt has 10 lines of 1 or 2 indices"),
        ("fold_indices.txt", b"\n" * 10, r"fold_indices\.txt has 10 lines of 0 indices"),
        ("fold_indices.txt", b"", r"fold_indices\.txt has 0 lines"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"0 x", r"fold_indices\.txt .*only integers.*'x'"),
        ("fold_indices.txt", b"\xff\n" * 10, r"fold_indices\.txt .*only integers"),
        (
            "fold_indices.txt",
            b"0 1\n" * 9 + b"0 3",
            r"fold_indices\.txt, line 10, has index 3, but the training images are 0 to 2",
        ),
        ("fold_indices.txt", b"-1 1\n" * 10, r"fold_indices\.txt, line 1, has index -1"),
        ("fold_indices.txt", b"0 1\n" * 9 + b"2 2", r"fold_indices\.txt, line 10, has index 2 2 times"),
        ("class_names.txt", b"cat\ndog\n", r"class_names\.txt has 2 names"),
    ],
)
def test_damaged_files_are_named(stl10_folder, name, content, message):
    (stl10_folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_stl10(stl10_folder)


def test_repr_shows_shapes(stl10_folder):
    shown = repr(load_stl10(stl10_folder))
    assert "STL10(train_images=uint8 (3, 96, 96, 3), " in shown
    assert "test_images=None" in shown
