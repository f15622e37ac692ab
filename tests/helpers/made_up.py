"""Made-up data sets, written pixel by pixel in the order that their authors document."""

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
