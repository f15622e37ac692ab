"""Patches of images: drawn at random, with normalised brightness and contrast."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array, check_random_state

from ..kernels.patches import gather_patches
from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .collection import ImageCollection, Images
from .whitening import ZCAWhitening

_CONTRAST_FLOOR = 10 / 255**2  # times the squared range of the pixels: 10 for bytes, the constant of Coates and Ng


def sample_patches(
    images: Images | ImageCollection, n_patches: int, patch_size: int, *, random_state: Any = None
) -> NDArray[Any]:
    """Draw square patches from random places of random images.

    Only images that patches are drawn from are read, each once, and one at a time in each thread. A memory map or a
    folder is never loaded as a whole.

    Parameters
    ----------
    images : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
        Images. Their sizes may differ, but each must be at least as large as a patch.
    n_patches : int
        The number of patches.
    patch_size : int
        Height and width of a patch.
    random_state : int, RandomState or None
        Determines which patches are drawn.

    Returns
    -------
    ndarray of shape (n_patches, patch_size * patch_size * channels)
        One flattened patch per row, in the type of the images.

    Examples
    --------
    >>> import numpy as np
    >>> sample_patches([np.zeros((8, 9, 3), np.uint8)], 5, patch_size=4, random_state=0).shape
    (5, 48)
    """
    return sample_placed_patches(images, n_patches, patch_size, random_state=random_state)[0]


def sample_placed_patches(
    images: Images | ImageCollection, n_patches: int, patch_size: int, *, random_state: Any = None
) -> tuple[NDArray[Any], NDArray[np.intp]]:
    """Return the result of :func:`sample_patches`, and a row for each patch: the number of its image, top and left."""
    collection = images if isinstance(images, ImageCollection) else ImageCollection(images, patch_size)
    if n_patches < 1:
        raise ValueError(f"n_patches={n_patches}: give at least 1")
    random = check_random_state(random_state)
    numbers = random.randint(len(collection), size=n_patches)
    where = random.uniform(size=(n_patches, 2))
    places = np.empty((n_patches, 3), np.intp)
    patches: NDArray[Any] | None = None
    order = np.argsort(numbers, kind="stable")
    groups = np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1)

    def found_in_image(rows: Indices) -> tuple[NDArray[Any], NDArray[np.intp]]:
        windows = sliding_window_view(collection[numbers[rows[0]]], (patch_size, patch_size), axis=(0, 1))
        tops, lefts = (where[rows] * windows.shape[:2]).astype(int).T
        found = windows[tops, lefts].transpose(0, 2, 3, 1).reshape(len(rows), -1)
        return found, np.column_stack([numbers[rows], tops, lefts])

    for rows, (found, place) in zip(groups, map_tasks(lambda: found_in_image, groups), strict=True):
        if patches is None:
            patches = np.empty((n_patches, found.shape[1]), found.dtype)
        patches[rows], places[rows] = found, place
    assert patches is not None  # there is at least one group of rows
    return patches, places


def normalize_patches(patches: ArrayLike, *, contrast_floor: float = 10.0) -> Array:
    """Subtract the mean of each patch and divide by its standard deviation.

    Parameters
    ----------
    patches : array-like of shape (n_patches, n_features)
        Patches of pixels on the scale 0 to 255.
    contrast_floor : float, default=10
        A constant that is added to the variance, so that the noise of flat patches is not amplified.

    Returns
    -------
    ndarray of shape (n_patches, n_features)
        The normalised patches: float64 for float64 patches, otherwise float32.
    """
    checked = check_array(patches, dtype=[np.float64, np.float32, np.uint8])
    pixels = checked.astype(np.float64 if checked.dtype == np.float64 else np.float32)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        pixels -= pixels.mean(axis=1, keepdims=True)
        variances = np.square(pixels).mean(axis=1, keepdims=True)
    if not np.isfinite(variances).all():
        raise ValueError(
            f"the patches have values of up to {np.abs(checked).max():.2g}, whose squares and sums overflow in "
            f"{pixels.dtype}: divide all of them by one number, so that they are of about 1 to 255"
        )
    pixels /= np.sqrt(variances + pixels.dtype.type(contrast_floor))
    return pixels


def contrast_floor_of(pixels: NDArray[Any]) -> float:
    """Return a suitable contrast floor for patches, proportional to the squared range of their values: 10 for bytes."""
    full_range = 255.0 if pixels.dtype == np.uint8 else float(pixels.max()) - float(pixels.min())
    contrast_floor = _CONTRAST_FLOOR * full_range**2 if full_range > 0 else 1.0
    if contrast_floor < np.finfo(np.float32).tiny:
        raise ValueError(
            f"the pixels range over {full_range:.2g} only, whose square underflows in single precision: multiply all "
            f"images by one number, so that they range over about 1 to 255"
        )
    return contrast_floor


class Preparation(NamedTuple):
    """How patches are prepared for an estimator and an encoder: normalised, and whitened if there is a whitening."""

    contrast_floor: float
    whitening: ZCAWhitening | None


def fitted_preparation(pixels: NDArray[Any], whiten: bool) -> tuple[Preparation, Array]:
    """Return the preparation that suits patches of pixels, and the prepared patches."""
    contrast_floor = contrast_floor_of(pixels)
    patches = normalize_patches(pixels, contrast_floor=contrast_floor)
    if not whiten:
        return Preparation(contrast_floor, None), patches
    whitening = ZCAWhitening().fit(patches)
    return Preparation(contrast_floor, whitening), whitening.transform(patches)


def prepared_patches(pixels: ArrayLike, contrast_floor: float, whitening: ZCAWhitening | None) -> Array:
    """Prepare patches as an estimator and an encoder see them: normalised, and whitened if there is a whitening."""
    patches = normalize_patches(pixels, contrast_floor=contrast_floor)
    return patches if whitening is None else whitening.transform(patches)


def cut_patches(
    image: NDArray[Any],
    corners: tuple[Indices, Indices],
    contrast_floor: float,
    whitening: ZCAWhitening | None,
    out: Array,
    patch_size: int,
) -> Array:
    """Extract patches of a checked image, prepared as by :func:`prepared_patches`, without copying the pixels.

    Parameters
    ----------
    image : ndarray of shape (height, width, channels)
        The image, uint8 or float32.
    corners : (tops, lefts)
        The top and left pixels of the patches.
    contrast_floor, whitening
        How patches are prepared.
    out : ndarray of float32 of shape (n_patches, patch_size * patch_size * channels)
        The array that normalised patches are written to.
    patch_size : int
        Height and width of a patch.

    Returns
    -------
    ndarray of the same shape
        The patches: ``out``, or a new array if there is a whitening.
    """
    height, width, n_channels = image.shape
    (tops, lefts), size = corners, (patch_size, patch_size * n_channels)
    lines = image.reshape(height, width * n_channels)
    gather_patches(lines, tops, lefts * n_channels, size, np.float32(contrast_floor), out)
    return out if whitening is None else whitening.whitened(out)


def patch_filters(weights: Array, patch_shape: tuple[int, ...]) -> Array:
    """Return rows of flattened patches as convolution filters (n_components, channels, height, width)."""
    shape = (*patch_shape, 1) if len(patch_shape) == 2 else tuple(patch_shape)
    if len(shape) != 3 or int(np.prod(shape)) != weights.shape[1]:
        raise ValueError(
            f"the components have {weights.shape[1]} values, which does not match patch_shape={tuple(patch_shape)}: "
            f"give (height, width) or (height, width, channels) of the patches that they were learned from"
        )
    return np.ascontiguousarray(weights.reshape(-1, *shape).transpose(0, 3, 1, 2))
