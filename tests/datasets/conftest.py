"""Folders of made-up data sets."""

import pytest
from made_up import cifar10_bytes, random_images, stl10_bytes


@pytest.fixture
def stl10_folder(tmp_path):
    """Three training images, and the other files that a folder must have."""
    home = tmp_path / "stl10_binary"
    home.mkdir()
    (home / "train_X.bin").write_bytes(stl10_bytes(random_images(3, 96, 96, 3)))
    (home / "train_y.bin").write_bytes(bytes([1, 10, 4]))
    (home / "fold_indices.txt").write_text("0 2\n" * 5 + "1 2 \n" * 5)
    return home


@pytest.fixture
def cifar10_folder(tmp_path):
    """Two images in each of the six files."""
    home = tmp_path / "cifar-10-batches-bin"
    home.mkdir()
    for k, name in enumerate([f"data_batch_{k}" for k in range(1, 6)] + ["test_batch"]):
        (home / f"{name}.bin").write_bytes(cifar10_bytes(random_images(2, 32, 32, 3, seed=k), [k, 9 - k]))
    return home
