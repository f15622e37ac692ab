"""Patches of images: how many are drawn, where, and how they are normalised and whitened."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.settings import batch_rows
from ..data.moments import center_and_scale, second_moments
from ..kernels.patches import gather_patches
from ..learners.base import DEFAULT_COMPONENTS
from ..utils.fields import Floats, Saved
from ..utils.sklearn import POSITIVE, fit_context
from ..utils.threads import map_tasks, product, threads_for
from ..utils.types import Array, Indices
from .reading import ImageCollection, Images

_CONTRAST_FLOOR = 10 / 255**2  # times the squared range of the pixels: 10 for bytes, the constant of Coates and Ng
PATCHES_PER_UNIT, FEWEST_PATCHES = 100, 50_000


def usual_n_patches(estimator: Any) -> int:
    """Return the number of patches an estimator learns from."""
    return max(PATCHES_PER_UNIT * _n_units(estimator), FEWEST_PATCHES)


def patches_per_image(estimator: Any, n_patches: int, n_images: int) -> int:
    """Return the number of patches of an image in a mini-batch of an estimator; more if there are few images."""
    batch_size, n_units = getattr(estimator, "batch_size", None), _n_units(estimator) or DEFAULT_COMPONENTS
    if batch_size is None:
        batch_size = getattr(getattr(estimator, "settings", None), "batch_size", None)
    if not isinstance(batch_size, Integral):
        batch_size = n_units if batch_size == "n_components" else batch_rows(n_units, n_patches)
    return max(int(batch_size), -(-n_patches // n_images))


def _n_units(estimator: Any) -> int:
    """Return the number of components that an estimator will have, or 0 if no parameter says so."""
    settings = (getattr(estimator, name, None) for name in ("n_components", "n_clusters"))
    return next((int(setting) for setting in settings if isinstance(setting, Integral)), 0)


def sample_patches(images: Images, n_patches: int, patch_size: int, *, random_state: Any = None) -> NDArray[Any]:
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
    images: Images, n_patches: int, patch_size: int, *, random_state: Any = None
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


def patch_filters(weights: Array, patch_shape: tuple[int, ...]) -> Array:
    """Return rows of flattened patches as convolution filters (n_components, channels, height, width)."""
    shape = with_channels(patch_shape, weights.shape[1])
    return np.ascontiguousarray(weights.reshape(-1, *shape).transpose(0, 3, 1, 2))


def with_channels(patch_shape: tuple[int, ...], n_values: int) -> tuple[int, ...]:
    """Return the height, width and channels of patches after checking that they have this many values."""
    shape = (*patch_shape, 1) if len(patch_shape) == 2 else tuple(patch_shape)
    if len(shape) != 3 or int(np.prod(shape)) != n_values:
        raise ValueError(
            f"components have {n_values} values, which does not match patch_shape={tuple(patch_shape)}: give "
            f"(height, width) or (height, width, channels) of the patches that they were learned from"
        )
    return shape


class ZCAWhitening(Saved, OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Make features uncorrelated and equal in variance, with as little change as possible.

    x becomes (x - mean) V diag(1 / sqrt(eigenvalues + regularization)) V', with eigenvalues and eigenvectors V of the
    covariance matrix.

    Parameters
    ----------
    regularization : float, default=0.1
        Added to the eigenvalues, so that directions without signal are not amplified. The default is the value of
        Coates and Ng for contrast-normalised patches.

    Attributes
    ----------
    mean_ : ndarray of shape (n_features,)
        The mean of the training samples. It is subtracted from each sample.
    matrix_ : ndarray of shape (n_features, n_features)
        The symmetric whitening matrix. Centred samples are multiplied by it.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(0).normal(size=(1000, 2)) @ [[3, 1], [1, 1]]
    >>> white = ZCAWhitening(regularization=1e-6).fit_transform(X)
    >>> bool(np.allclose(np.cov(white.T), np.eye(2), atol=1e-3))
    True
    """

    saved: ClassVar[dict[str, Any]] = {"mean_": Floats("n_features"), "matrix_": Floats("n_features", "n_features")}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"regularization": [POSITIVE]}

    def __init__(self, regularization: float = 0.1) -> None:
        self.regularization = regularization

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> ZCAWhitening:
        """Compute the mean and the covariance of the samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            At least two samples.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        data = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], ensure_min_samples=2))
        mean, _ = center_and_scale(data)
        moments = second_moments(data, mean) / (len(data) - 1)
        with threads_for(moments.shape[0] ** 3):
            eigenvalues, vectors = np.linalg.eigh(moments)
            # A covariance has no negative eigenvalues, except by rounding.
            factors = 1 / np.sqrt(np.maximum(eigenvalues, 0) + self.regularization)
            self.mean_ = mean.astype(data.dtype)
            self.matrix_ = ((vectors * factors) @ vectors.T).astype(data.dtype)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """Whiten samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
            The whitened samples: float32 for float32 samples, otherwise float64.
        """
        check_is_fitted(self)
        data = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], reset=False))
        return _whitened(data, self.mean_, self.matrix_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class Preparation:
    """How patches are prepared for an estimator and an encoder: normalised, and whitened if there is a matrix.

    The contrast floor is a constant that is added to the variance of a patch. Whitening subtracts the mean from
    normalised patches and multiplies them by the matrix.
    """

    contrast_floor: float
    mean: Array | None = None
    matrix: Array | None = None

    @classmethod
    def of(cls, contrast_floor: float, whitening: ZCAWhitening | None) -> Preparation:
        """Return the preparation with a fitted whitening, or without one."""
        return cls(contrast_floor) if whitening is None else cls(contrast_floor, whitening.mean_, whitening.matrix_)

    def prepare(self, pixels: ArrayLike) -> Array:
        """Prepare patches (n_patches, n_values) of pixels."""
        return _whitened(normalize_patches(pixels, contrast_floor=self.contrast_floor), self.mean, self.matrix)

    def cut(self, image: NDArray[Any], corners: tuple[Indices, Indices], patch_size: int, out: Array) -> Array:
        """Cut patches out of a checked image (height, width, channels) of uint8 or float32, and prepare them.

        ``corners`` are their top and left pixels. Normalised patches are written to ``out`` (n_patches, n_values) of
        float32, which is returned unless they are whitened.
        """
        height, width, n_channels = image.shape
        (tops, lefts), size = corners, (patch_size, patch_size * n_channels)
        lines = image.reshape(height, width * n_channels)
        gather_patches(lines, tops, lefts * n_channels, size, np.float32(self.contrast_floor), out)
        return _whitened(out, self.mean, self.matrix)


def _whitened(X: Array, mean: Array | None, matrix: Array | None) -> Array:
    if mean is None or matrix is None:
        return X
    return product(X - mean.astype(X.dtype, copy=False), matrix.astype(X.dtype, copy=False))
