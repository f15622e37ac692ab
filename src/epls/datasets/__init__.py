"""Images to learn from: official files of known data sets, folders of images, and images that come with scikit-learn.

All loaders return images as uint8 of shape (height, width) or (height, width, 3) and labels as int64 from 0. They read
the files in the given folder and download nothing unless asked to.
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
