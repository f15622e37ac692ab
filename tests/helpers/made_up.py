"""Made-up data sets, written pixel by pixel in the order that their authors document."""

import gzip
import struct

import numpy as np


def stl10_bytes(images):
    """For each image the red plane, the green and the blue one; in a plane, column after column."""
    content = bytearray()
    for image in images:
        for channel in range(3):
            for column in range(96):
                content += bytes(int(image[row, column, channel]) for row in range(96))
    return bytes(content)


def cifar10_bytes(images, labels):
    """For each image its label, the red plane, the green and the blue one; in a plane, row after row."""
    content = bytearray()
    for image, label in zip(images, labels, strict=True):
        content.append(label)
        for channel in range(3):
            for row in range(32):
                content += bytes(int(image[row, column, channel]) for column in range(32))
    return bytes(content)


def random_images(n_images, *shape, seed=0):
    return np.random.RandomState(seed).randint(256, size=(n_images, *shape)).astype(np.uint8)


def idx_bytes(array):
    """As the page of MNIST describes it: magic number, sizes with the highest byte first, then the bytes."""
    return struct.pack(f">{1 + array.ndim}i", 0x800 + array.ndim, *array.shape) + bytes(array.ravel().tolist())


MNIST_IMAGES = np.random.RandomState(0).randint(256, size=(5, 4, 3)).astype(np.uint8)
MNIST_LABELS = np.array([3, 0, 9, 1, 1], np.uint8)


def write_mnist(folder, mark="-", end=""):
    pack = gzip.compress if end else bytes
    for part, n in (("train", 5), ("t10k", 2)):
        (folder / f"{part}-images{mark}idx3-ubyte{end}").write_bytes(pack(idx_bytes(MNIST_IMAGES[:n])))
        (folder / f"{part}-labels{mark}idx1-ubyte{end}").write_bytes(pack(idx_bytes(MNIST_LABELS[:n])))
