"""Images to learn from: official files of known data sets, folders of images, and images that come with scikit-learn.

All loaders return images as uint8 of shape (height, width) or (height, width, 3) and labels as int64 from 0. They read
the files in the given folder and download nothing unless asked to.
"""

from .folder import ImageFolder
from .official import CIFAR10, STL10, load_cifar10, load_stl10

__all__ = [
    "CIFAR10",
    "STL10",
    "ImageFolder",
    "load_cifar10",
    "load_stl10",
]
