"""Images that come with scikit-learn, for a first look without a download."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ._files import Bytes, Described, Labels


@dataclass(frozen=True, eq=False, repr=False)
class Bundled(Described):
    """Images that come with scikit-learn.

    Attributes
    ----------
    images : uint8 of shape (n, height, width) or (n, height, width, 3)
        The images.
    labels : int64 of shape (n,), or None
        The class of each image, from 0, if there are classes.
    class_names : tuple of str, or None
        The names of the classes.
    """

    images: Bytes
    labels: Labels | None
    class_names: tuple[str, ...] | None


def load_bundled(name: str) -> Bundled:
    """Load images that come with scikit-learn.

    Parameters
    ----------
    name : {"digits", "photographs"}
        1797 handwritten digits of 8 x 8 pixels in ten classes, or two color photographs of 427 x 640 pixels. The
        photographs need Pillow (``pip install "epls[images]"``).

    Returns
    -------
    Bundled
        Images, labels and names of classes.

    Examples
    --------
    >>> load_bundled("digits")  # doctest: +ELLIPSIS
    Bundled(images=uint8 (1797, 8, 8), labels=int64 (1797,), class_names=('0', '1', ..., '9'))
    """
    if name not in _LOADERS:
        raise ValueError(f"name={name!r}: give one of {sorted(_LOADERS)}")
    return _LOADERS[name]()


def _digits() -> Bundled:
    from sklearn.datasets import load_digits

    digits = load_digits()
    # The values are whole numbers from 0 to 16. 15 is the largest whole factor that keeps them within a byte.
    images = (15 * digits.images).astype(np.uint8)
    return Bundled(images, digits.target.astype(np.int64), tuple(str(digit) for digit in digits.target_names))


def _photographs() -> Bundled:
    from sklearn.datasets import load_sample_images

    try:
        photographs = load_sample_images().images
    except ImportError as error:  # scikit-learn's message names only the library
        raise ImportError('reading the photographs needs Pillow: pip install "epls[images]"') from error
    return Bundled(np.stack(photographs), labels=None, class_names=None)


_LOADERS: dict[str, Callable[[], Bundled]] = {"digits": _digits, "photographs": _photographs}
