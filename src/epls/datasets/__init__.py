"""Images to learn from: known data sets read from their official files, folders of images, and what scikit-learn has.

All loaders give images as uint8 of shape (height, width) or (height, width, 3) and labels as int64 from 0. They read
what lies in the folder that they are given; nothing is downloaded unless asked for.
"""

from .bundled import Bundled, load_bundled
from .cifar10 import CIFAR10, load_cifar10
from .folder import ImageFolder
from .mnist import MNIST, load_mnist
from .stl10 import STL10, load_stl10

__all__ = [
    "CIFAR10",
    "MNIST",
    "STL10",
    "Bundled",
    "ImageFolder",
    "load_bundled",
    "load_cifar10",
    "load_mnist",
    "load_stl10",
]
