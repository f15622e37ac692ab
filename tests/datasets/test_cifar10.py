import re

import numpy as np
import pytest
from made_up import random_images

from epls.datasets import load_cifar10

RECORD = 1 + 32 * 32 * 3


@pytest.mark.parametrize("itself", [False, True])
def test_images_and_labels(cifar10_folder, itself):
    data = load_cifar10(cifar10_folder if itself else cifar10_folder.parent)
    expected = np.concatenate([random_images(2, 32, 32, 3, seed=k) for k in range(5)])
    np.testing.assert_array_equal(data.train_images, expected)
    np.testing.assert_array_equal(data.train_labels, [0, 9, 1, 8, 2, 7, 3, 6, 4, 5])
    np.testing.assert_array_equal(data.test_images, random_images(2, 32, 32, 3, seed=5))
    np.testing.assert_array_equal(data.test_labels, [5, 4])
    assert data.train_images.dtype == np.uint8
    assert data.train_labels.dtype == np.int64
    assert data.train_images.flags.c_contiguous
    assert data.class_names[6] == "frog"
    assert len(data.class_names) == 10


@pytest.mark.parametrize("name", ["data_batch_4.bin", "test_batch.bin"])
def test_a_missing_file_is_named(cifar10_folder, name):
    (cifar10_folder / name).unlink()
    with pytest.raises(FileNotFoundError, match=f"no file .*{re.escape(name)}.*download=True"):
        load_cifar10(cifar10_folder)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("data_batch_3.bin", bytes(RECORD), r"data_batch_3\.bin has 3073 bytes.*6146"),
        ("data_batch_3.bin", bytes(3 * RECORD), r"data_batch_3\.bin has 9219 bytes.*6146"),
        ("test_batch.bin", bytes(RECORD + 1), r"test_batch\.bin has 3074 bytes.*3073 of one"),
        ("test_batch.bin", b"", r"test_batch\.bin has 0 bytes"),
        (
            "data_batch_5.bin",
            bytes(RECORD) + b"\n" + bytes(RECORD - 1),
            r"data_batch_5\.bin has label 10 at position 1 ",
        ),
    ],
)
def test_damaged_files_are_named(cifar10_folder, name, content, message):
    (cifar10_folder / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        load_cifar10(cifar10_folder)
