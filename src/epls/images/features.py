"""From images to features: learn from patches, encode every patch, pool."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..data.parts import is_dask, lazy_transform
from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..learners.epls import EPLS
from ..utils.constraints import AT_LEAST_ONE
from ..utils.fields import Number, Saved
from ..utils.types import Array
from .collection import ImageCollection, Images
from .counts import FEWEST_PATCHES, patches_per_image, usual_n_patches
from .dense import fitting_images, sums_and_counts
from .patches import Preparation, fitted_preparation, prepared_patches, sample_patches
from .pooling import FINEST_GRID, pool_sums, smallest_side
from .samples import ImagePatchSamples

_TYPICAL_PATCHES = 4096  # tell the mean code to a percent; encoders can be slow


class ImageFeatures(Saved, TransformerMixin, BaseEstimator):
    """Features of images: components learned from patches, codes of all patches, pooled over regions of the image.

    The single-layer experiment of Coates, Ng and Lee as one estimator. ``fit`` takes patches, normalises each for
    brightness and contrast, and fits an estimator on them. ``transform`` encodes the patch at every position of an
    image and pools the codes over a grid of regions.

    Like any step of a ``Pipeline`` it is fitted again, on the images that the pipeline is given. To keep what was
    learned from other, unlabelled images, put ``sklearn.frozen.FrozenEstimator(features)`` in the pipeline.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Learns the components: anything with ``fit`` on vectors and ``components_`` or ``cluster_centers_``; None is
        ``EPLS()``. It is cloned. If its ``random_state`` is None and one is given here, it is seeded from that.
    patch_size : int, default=10
        Height and width of a patch.
    encoder : {"natural", "soft_threshold", "sparse_coding", "triangle"} or Encoder, default="natural"
        How a patch becomes codes; see :mod:`epls.encoders`.
    n_patches : int or None, default=None
        Patches to learn from. None means 100 for each component, and at least 50,000.
    sampling : {"patches", "images"}, default="patches"
        How patches are taken. "patches": at random from all images, so that a mini-batch mixes images. "images": a
        mini-batch is one image cut into patches, the convolutional form of EPLS. Images are then read again in every
        epoch instead of keeping the patches. An image gives a mini-batch of the estimator, from random positions, or
        more if ``n_patches`` needs more; several images that are too small for one share it. The estimator must be a
        learner of this library, or have its ``fit_samples``.
    stride : int, default=1
        Pixels from one encoded patch to the next.
    grid : int, default=2
        Codes are pooled over grid x grid regions of equal size.
    pooling : {"log", "sum", "mean"}, default="log"
        "sum" is the paper's. "mean" does not depend on the size of the image. "log" is log(1 + mean / typical) where
        typical is the mean code of patches of the training images: the first tenth of activity counts for more than
        the last, and neither the size of images, nor the stride, nor the number of units changes the scale.
    mirror : bool, default=False
        Whether the features of an image are the mean of its own and those of its mirror image, left and right
        exchanged: for objects that may face either way, not for digits and letters. It takes twice the time.
    whiten : bool, default=False
        Whether patches are ZCA-whitened after they are normalised. EPLS does without.
    random_state : int, RandomState instance or None, default=None
        Which patches are drawn.
    device : str or None, default=None
        Where ``transform`` computes. None is NumPy, the fastest on a processor. "cuda", "mps" and all other devices of
        torch (``pip install "epls[torch]"``) support the encoders "natural" of a layer of units, "soft_threshold" and
        "triangle". Where ``fit`` computes is set by the estimator's own ``device``. :func:`epls.save_model` does not
        save it.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    encoder_ : Encoder
        The encoder, with the fitted estimator as its dictionary.
    whitening_ : ZCAWhitening or None
        The whitening.
    contrast_floor_ : float
        What is added to the variance of a patch: 10 for bytes.
    typical_code_ : float
        The mean absolute code of patches of the training images.
    n_channels_ : int
        The number of channels, the same for all images.
    whole_numbers_ : bool
        Whether pixels were whole numbers; those of other images must be of the same kind.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, ImageFeatures
    >>> images = load_digits().images
    >>> features = ImageFeatures(EPLS(20, max_iter=3), patch_size=5, n_patches=2000, random_state=0)
    >>> features.fit_transform(images).shape  # four regions with 20 codes each
    (1797, 80)
    """

    saved: ClassVar[dict[str, Any]] = {
        "contrast_floor_": Number(above=0),
        "typical_code_": Number(at_least=0),
        "n_channels_": Number(int, at_least=1),
        "whole_numbers_": Number(bool),
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"]), None],
        "patch_size": [AT_LEAST_ONE],
        "encoder": [StrOptions(set(ENCODERS)), Encoder],
        "n_patches": [AT_LEAST_ONE, None],
        "sampling": [StrOptions({"patches", "images"})],
        "stride": [AT_LEAST_ONE],
        "grid": [Interval(Integral, 1, FINEST_GRID, closed="both")],
        "pooling": [StrOptions({"log", "sum", "mean"})],
        "mirror": ["boolean"],
        "whiten": ["boolean"],
        "random_state": ["random_state"],
        "device": [str, None],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        patch_size: int = 10,
        encoder: str | Encoder = "natural",
        n_patches: int | None = None,
        sampling: str = "patches",
        stride: int = 1,
        grid: int = 2,
        pooling: str = "log",
        mirror: bool = False,
        whiten: bool = False,
        random_state: Any = None,
        device: str | None = None,
    ) -> None:
        self.estimator = estimator
        self.patch_size = patch_size
        self.encoder = encoder
        self.n_patches = n_patches
        self.sampling = sampling
        self.stride = stride
        self.grid = grid
        self.pooling = pooling
        self.mirror = mirror
        self.whiten = whiten
        self.random_state = random_state
        self.device = device

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None) -> ImageFeatures:
        """Learn components from patches of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images; labels are not needed. Only the images that patches are taken from are read, one at a time.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        estimator = self._new_estimator(random)
        n_patches = self.n_patches or usual_n_patches(estimator)
        images = ImageCollection(X, smallest_side(self.patch_size, self.stride, self.grid))
        by_image = self.sampling == "images"
        if by_image and not hasattr(estimator, "fit_samples"):
            raise ValueError(
                f'sampling="images" needs a learner of this library, or another with fit_samples, and '
                f'{type(estimator).__name__} has none: give such a learner, or sampling="patches"'
            )
        n_drawn = min(n_patches, FEWEST_PATCHES) if by_image else n_patches  # enough for contrast and whitening
        pixels = sample_patches(images, n_drawn, self.patch_size, random_state=random)
        preparation, patches = fitted_preparation(pixels, self.whiten)
        if by_image:
            n_of_image = patches_per_image(estimator, n_patches, len(images))
            settings = (self.patch_size, n_patches, n_of_image, *preparation, random)
            estimator.fit_samples(ImagePatchSamples(images, *settings))
        else:
            estimator.fit(patches, None)  # some, such as FrozenEstimator, require a y
        # Drawn anew: with a seed, the same patches tell the scale of an encoder that is given later.
        typical = sample_patches(images, _TYPICAL_PATCHES, self.patch_size, random_state=self.random_state)
        self._set_fitted(estimator, preparation, typical, images.n_channels, images.whole_numbers)
        return self

    def fit_patches(self, pixels: NDArray[Any], n_channels: int, *, whole_numbers: bool = False) -> ImageFeatures:
        """Learn components from patches that were drawn before, such as those of some channels of images.

        Parameters
        ----------
        pixels : ndarray of shape (n_patches, patch_size * patch_size * n_channels)
            Patches in random order, as :func:`epls.images.patches.sample_patches` returns them.
        n_channels : int
            The number of channels of the images that they come from.
        whole_numbers : bool, default=False
            Whether the images have whole numbers as pixels.

        Returns
        -------
        self
        """
        estimator = self._new_estimator(check_random_state(self.random_state))
        preparation, patches = fitted_preparation(pixels, self.whiten)
        estimator.fit(patches, None)
        self._set_fitted(estimator, preparation, pixels[:_TYPICAL_PATCHES], n_channels, whole_numbers)
        return self

    def _new_estimator(self, random: np.random.RandomState) -> Any:
        estimator = EPLS() if self.estimator is None else clone(self.estimator)
        if self.random_state is not None and getattr(estimator, "random_state", 0) is None:
            estimator.set_params(random_state=random.randint(2**31 - 1))
        return estimator

    def _set_fitted(
        self, estimator: Any, preparation: Preparation, typical: NDArray[Any], n_channels: int, whole_numbers: bool
    ) -> None:
        """Set all that is learned; ``typical`` are patches of pixels that tell the scale of the codes."""
        encoder = self._new_encoder(estimator)
        self.typical_code_ = self._typical_code(encoder, prepared_patches(typical, *preparation))
        self.estimator_, self.encoder_ = estimator, encoder
        self.contrast_floor_, self.whitening_ = preparation
        self.n_channels_, self.whole_numbers_ = n_channels, whole_numbers

    def with_encoder(self, X: Images, encoder: str | Encoder, **settings: Any) -> ImageFeatures:
        """Fitted features with another encoder or pooling, and with the components that were learned here.

        Parameters
        ----------
        X : as for :meth:`fit`
            Images to learn the scale of the codes from: some patches are drawn.
        encoder : str or Encoder
            How a patch becomes codes.
        **settings
            New values of ``stride``, ``grid``, ``pooling`` and ``mirror``.

        Returns
        -------
        ImageFeatures
            A copy, which shares the estimator and the whitening with this one.
        """
        check_is_fitted(self)
        if others := sorted(set(settings) - {"stride", "grid", "pooling", "mirror"}):
            raise ValueError(f"only stride, grid, pooling and mirror can be changed after fit, got {', '.join(others)}")
        other = copy(self).set_params(encoder=encoder, **settings)
        other._validate_params()
        images = fitting_images(other, X)
        other.encoder_ = other._new_encoder(self.estimator_)
        pixels = sample_patches(images, _TYPICAL_PATCHES, self.patch_size, random_state=self.random_state)
        other.typical_code_ = other._typical_code(other.encoder_, self.prepare_patches(pixels))
        return other

    def transform(self, X: Images) -> Array:
        """The features of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images, of any sizes that have a patch in each region. They are read when they are needed. A dask array is
            not computed.

        Returns
        -------
        ndarray or dask array of float32 of shape (n_images, grid * grid * n_codes)
            The codes of each region, region by region, row by row of the grid.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazy_transform(self, X)
        images = fitting_images(self, X)
        features = np.empty((len(images), self._n_features_out), np.float32)
        for place, row in zip(features, self._rows(images, held=False), strict=True):
            place[...] = row
        return features

    def iter_transform(self, X: Images) -> Iterator[Array]:
        """The features of one image after the other, for more images than fit in memory.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.

        Yields
        ------
        ndarray of float32 of shape (grid * grid * n_codes,)
            The features of an image.
        """
        return self._rows(fitting_images(self, X), held=True)

    def draw_patches(self, X: Images, n_patches: int, *, random_state: Any = None) -> Array:
        """Random patches of images as the estimator and the encoder see them: normalised, and whitened if ``whiten``.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.
        n_patches : int
            How many.
        random_state : int, RandomState instance or None, default=None
            Which patches are drawn.

        Returns
        -------
        ndarray of shape (n_patches, patch_size * patch_size * n_channels)
            The patches.
        """
        check_is_fitted(self)
        return self.prepare_patches(sample_patches(X, n_patches, self.patch_size, random_state=random_state))

    def prepare_patches(self, pixels: ArrayLike) -> Array:
        """Patches of pixels as the estimator and the encoder see them: normalised, and whitened if ``whiten``.

        Parameters
        ----------
        pixels : array-like of shape (n_patches, patch_size * patch_size * n_channels)
            Patches, as :func:`epls.images.patches.sample_patches` returns them.

        Returns
        -------
        ndarray of the same shape
            The patches.
        """
        check_is_fitted(self)
        return prepared_patches(pixels, self.contrast_floor_, self.whitening_)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: region's row and column, code.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            The names.
        """
        check_is_fitted(self)
        places = [(row, column) for row in range(self.grid) for column in range(self.grid)]
        return np.asarray(
            [f"region{r}{c}_code{k}" for r, c in places for k in range(self.encoder_.n_codes)], dtype=object
        )

    @property
    def _n_features_out(self) -> int:
        return self.grid**2 * self.encoder_.n_codes

    def _rows(self, images: ImageCollection, *, held: bool) -> Iterator[Array]:
        return (pool_sums(self, sums, counts) for sums, counts in sums_and_counts(self, images, held=held))

    def _new_encoder(self, estimator: Any) -> Encoder:
        encoder: Encoder = ENCODERS[self.encoder]() if isinstance(self.encoder, str) else clone(self.encoder)
        return encoder.set_params(dictionary=estimator).fit()

    def _typical_code(self, encoder: Encoder, patches: Array) -> float:
        """The mean absolute code of some prepared patches."""
        codes = encoder.transform(patches)
        typical_code = float(np.abs(codes).mean())
        if typical_code == 0 and self.pooling == "log":
            raise ValueError(
                f"all codes of patches by {type(encoder).__name__} are 0, so that there is nothing to "
                f"compare the codes of images with: lower the encoder's threshold, or take more units"
            )
        return typical_code

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Models and plain values that :func:`epls.save_model` writes."""
        parts = {"estimator_": self.estimator_} | ({"whitening_": self.whitening_} if self.whiten else {})
        return parts, super()._fitted_state()[1]

    def _restore_fitted_state(self, parts: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state({}, plain)
        self.estimator_ = parts["estimator_"]
        self.whitening_ = parts["whitening_"] if self.whiten else None
        if self.typical_code_ == 0 and self.pooling == "log":
            raise ValueError("typical_code_ must be above 0 for log pooling")
        self.encoder_ = self._new_encoder(self.estimator_)
        n_values = self.patch_size**2 * self.n_channels_
        if self.encoder_.n_features != n_values:
            raise ValueError(f"patches have {n_values} values, but components have {self.encoder_.n_features}")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags
