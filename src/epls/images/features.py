"""From images to features: learn from patches, encode every patch, pool."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from copy import copy
from itertools import product
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..data.blocks import is_dask
from ..data.encoding import lazy_transform
from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..encoders.triangle import TriangleEncoder
from ..learners.base import Learner
from ..learners.epls import EPLS
from ..utils.fields import Number, Saved
from ..utils.optional import torch_room
from ..utils.sklearn import AT_LEAST_ONE, HasMethods, Interval, StrOptions, fit_context
from ..utils.threads import map_in_rounds, map_tasks
from ..utils.types import Array
from .coder import GroupCoder, PatchCoder, StackEncoder, stack_encoders
from .patches import (
    FEWEST_PATCHES,
    Preparation,
    ZCAWhitening,
    contrast_floor_of,
    normalize_patches,
    patches_per_image,
    sample_patches,
    usual_n_patches,
)
from .pooling import FINEST_GRID, Geometry, n_features_of, smallest_side
from .reading import ImageCollection, Images
from .samples import ImagePatchSamples

TYPICAL_PATCHES = 4096  # enough to estimate the mean code to within a percent; encoders can be slow
_TINY = float(np.finfo(np.float32).tiny)  # less is not a divisor in single precision
#: Constraints of parameters for learning from patches and encoding them.
PATCH_CONSTRAINTS: dict[str, list[Any]] = {
    "estimator": [HasMethods(["fit"]), None],
    "patch_size": [AT_LEAST_ONE],
    "encoder": [StrOptions(set(ENCODERS)), Encoder],
    "n_patches": [AT_LEAST_ONE, None],
    "stride": [AT_LEAST_ONE],
    "whiten": ["boolean"],
    "random_state": ["random_state"],
}


class ImageTransformer(Saved, TransformerMixin, BaseEstimator, ABC):
    """An estimator whose ``transform`` returns a row of features for each image, pooled over a grid of regions.

    A subclass says in :meth:`coders` how its layers encode images.
    """

    grid: int
    mirror: bool
    device: str | None
    n_channels_: int
    whole_numbers_: bool
    saved: ClassVar[dict[str, Any]] = {"n_channels_": Number(int, at_least=1), "whole_numbers_": Number(bool)}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "grid": [Interval(Integral, 1, FINEST_GRID, closed="both")],
        "mirror": ["boolean"],
        "random_state": ["random_state"],
        "device": [str, None],
    }
    #: The prefix of the names of a layer's features, given its number.
    _layer_name: ClassVar[str] = ""

    @abstractmethod
    def coders(self) -> list[PatchCoder]:
        """Return how each layer encodes its images, from the images upwards, as plain values."""

    def smallest_side(self, grid: int | None = None) -> int:
        """Return the smallest side of images that have a patch in each of grid x grid regions, in every layer.

        None uses the ``grid`` of the features, as ``transform`` does.
        """
        return smallest_side([coder.geometry for coder in self.coders()], self.grid if grid is None else grid)

    def fitting_images(self, X: Images) -> ImageCollection:
        """Return images after checking that ``transform`` can encode them."""
        n_features_of(sum(coder.n_codes for coder in self.coders()), self.grid)
        return self._images(X, self.smallest_side())

    def _images(self, X: Images, least: int) -> ImageCollection:
        return ImageCollection(X, least, self.n_channels_, self.whole_numbers_)

    def views(self, images: ImageCollection, start: int = 0, *, held: bool) -> Iterator[Array]:
        """Iterate over the features (n_views, n_features) of :meth:`fitting_images`, from number ``start`` on.

        With ``mirror``, the second view is an image's mirror image. ``held`` is for an iterator that is returned to a
        user, who may take the next result at any time, or never.
        """
        coders, grid, mirror = self.coders(), self.grid, self.mirror
        if self.device is not None:
            found: Iterator[Array] = torch_room("coder").views(coders, images, start, grid, mirror, self.device)
            return found

        def views_of(encode: StackEncoder, image: NDArray[Any]) -> Array:
            views = [image, np.ascontiguousarray(image[:, ::-1])] if mirror else [image]
            return np.stack([encode(view, grid, False)[0] for view in views])

        # A stack of one layer has the bits of ImageFeatures; deeper stacks take the fast way.
        new_encoder = stack_encoders(coders, exact=len(coders) == 1)
        return over_images(new_encoder, views_of, images, start, held=held)

    def _rows(self, images: ImageCollection, *, held: bool) -> Iterator[Array]:
        return (views.mean(axis=0) for views in self.views(images, held=held))

    def transform(self, X: Images) -> Array:
        """Compute the features of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images. Their sizes may differ, but each must have a patch in every region, in every layer. They are read
            when needed. A dask array is not computed.

        Returns
        -------
        ndarray or dask array of float32 of shape (n_images, n_features)
            The codes of each region, region by region, row by row of the grid. The features of the first layer come
            first, then those of the next.
        """
        if is_dask(X):
            check_is_fitted(self)
            return lazy_transform(self, X)
        images = self.fitting_images(X)
        features = np.empty((len(images), self._n_features_out), np.float32)
        for place, row in zip(features, self._rows(images, held=False), strict=True):
            place[...] = row
        return features

    def iter_transform(self, X: Images) -> Iterator[Array]:
        """Iterate over the features of images, for more images than fit in memory.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.

        Yields
        ------
        ndarray of float32 of shape (n_features,)
            The features of an image.
        """
        return self._rows(self.fitting_images(X), held=True)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Return the names of the features: layer (if there are several), row and column of the region, code.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        ndarray of str
            The names of the features.
        """
        names = np.empty(self._n_features_out, object)
        names[:] = [
            f"{self._layer_name.format(number)}region{row}{column}_code{code}"
            for number, coder in enumerate(self.coders(), 1)
            for row, column in product(range(self.grid), repeat=2)
            for code in range(coder.n_codes)
        ]
        return names

    @property
    def _n_features_out(self) -> int:
        return n_features_of(sum(coder.n_codes for coder in self.coders()), self.grid)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def over_images(
    new_encoder: Callable[[], StackEncoder],
    result: Callable[[StackEncoder, NDArray[Any]], Array],
    images: ImageCollection,
    start: int = 0,
    *,
    held: bool,
) -> Iterator[Array]:
    """Iterate over the results for images from number ``start`` on; each thread has its own encoder."""

    def new_worker() -> Callable[[int], Array]:
        encoder = new_encoder()
        return lambda number: result(encoder, images[number])

    return (map_in_rounds if held else map_tasks)(new_worker, range(start, len(images)))


class ImageFeatures(ImageTransformer):
    """Turn images into features: learn components from patches, encode all patches, pool the codes over regions.

    This is the single-layer experiment of Coates, Ng and Lee as one estimator. ``fit`` draws patches, normalises the
    brightness and contrast of each, and fits an estimator to them. ``transform`` encodes the patch at every position of
    an image and pools the codes over a grid of regions.

    Like any step of a ``Pipeline``, it is fitted again to the images that the pipeline receives. To keep what was
    learned from other, unlabelled images, put ``sklearn.frozen.FrozenEstimator(features)`` in the pipeline.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Learns the components. It needs a ``fit`` on vectors, and ``components_`` or ``cluster_centers_`` after it. None
        uses ``EPLS()``. The estimator is cloned. If its ``random_state`` is None, it is seeded from the one given here.
    patch_size : int, default=10
        Height and width of a patch.
    encoder : {"natural", "soft_threshold", "sparse_coding", "triangle"} or Encoder, default="natural"
        How a patch is encoded; see :mod:`epls.encoders`.
    n_patches : int or None, default=None
        The number of patches to learn from. None uses 100 for each component, and at least 50,000.
    sampling : {"patches", "images"}, default="patches"
        How patches are drawn. "patches" draws them at random from all images, so a mini-batch mixes images. "images"
        fills each mini-batch with patches from random positions of one image: the convolutional form of EPLS. Images
        are then read again in every epoch, and patches are not kept in memory. An image provides one mini-batch, or
        more if ``n_patches`` requires it; images that are too small for one share it. The estimator must then be a
        learner of this library or another :class:`epls.learners.Learner`.
    stride : int, default=1
        The number of pixels from one encoded patch to the next.
    grid : int, default=2
        Codes are pooled over grid x grid regions of equal size.
    pooling : {"log", "sum", "mean"}, default="log"
        How the codes of a region are combined. "sum" is the paper's choice. "mean" does not depend on the size of the
        image. "log" is log(1 + mean / typical), where typical is the mean code of patches of the training images. It
        gives more weight to the first tenth of activity than to the last, and its scale does not depend on the size of
        images, the stride or the number of units.
    mirror : bool, default=False
        Whether to average the features of an image and of its left-right mirror image. This suits objects that may face
        either way, but not digits and letters. It doubles the time.
    whiten : bool, default=False
        Whether to apply ZCA whitening to the normalised patches. EPLS does not need it.
    random_state : int, RandomState instance or None, default=None
        Determines which patches are drawn.
    device : str or None, default=None
        Where ``transform`` computes. None uses NumPy, the fastest choice on a CPU. "cuda", "mps" and all other devices
        of torch (``pip install "epls[torch]"``) support the encoders "natural" of a layer of units, "soft_threshold"
        and "triangle". The estimator's own ``device`` sets where ``fit`` computes. :func:`epls.save_model` does not
        save the device.

    Attributes
    ----------
    estimator_ : estimator
        The fitted estimator.
    encoder_ : Encoder
        The encoder, with the fitted estimator as its dictionary.
    whitening_ : ZCAWhitening or None
        The whitening, or None if ``whiten`` is False.
    contrast_floor_ : float
        A constant that is added to the variance of a patch: 10 for bytes.
    typical_code_ : float
        The mean absolute code of patches of the training images.
    n_channels_ : int
        The number of channels, the same for all images.
    whole_numbers_ : bool
        Whether the pixels were whole numbers. Other images must have pixels of the same kind.

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
        "contrast_floor_": Number(at_least=_TINY),
        "typical_code_": Number(at_least=0),
    } | ImageTransformer.saved
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = (
        PATCH_CONSTRAINTS
        | ImageTransformer._parameter_constraints
        | {"sampling": [StrOptions({"patches", "images"})], "pooling": [StrOptions({"log", "sum", "mean"})]}
    )

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

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None) -> ImageFeatures:
        """Learn components from patches of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images, including Pillow images; labels are not needed. Only images that patches are drawn from are read,
            one at a time.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        estimator = self._new_estimator(random)
        n_patches = self.n_patches or usual_n_patches(estimator)
        images = ImageCollection(X, smallest_side([self.geometry], self.grid))
        by_image = self.sampling == "images"
        if by_image and not isinstance(estimator, Learner):
            raise ValueError(
                f'sampling="images" requires a learner of this library or a subclass of Learner, but got a '
                f'{type(estimator).__name__}: give another learner, or sampling="patches"'
            )
        n_drawn = min(n_patches, FEWEST_PATCHES) if by_image else n_patches  # enough for contrast and whitening
        pixels = sample_patches(images, n_drawn, self.patch_size, random_state=random)

        def new_samples(preparation: Preparation) -> ImagePatchSamples:
            return ImagePatchSamples(
                images,
                preparation,
                patch_size=self.patch_size,
                n_patches=n_patches,
                patches_per_image=patches_per_image(estimator, n_patches, len(images)),
                random=random,
            )

        return self._learn(
            estimator, pixels, images.n_channels, images.whole_numbers, new_samples if by_image else None
        )

    def fit_patches(self, pixels: NDArray[Any], n_channels: int, *, whole_numbers: bool = False) -> ImageFeatures:
        """Learn from patches (n_patches, patch_size * patch_size * n_channels) that are already drawn, in random order.

        ``whole_numbers`` says whether the pixels of their images are whole numbers.
        """
        estimator = self._new_estimator(check_random_state(self.random_state))
        return self._learn(estimator, pixels, n_channels, whole_numbers)

    def _new_estimator(self, random: np.random.RandomState) -> Any:
        estimator = EPLS() if self.estimator is None else clone(self.estimator)
        if self.random_state is not None and getattr(estimator, "random_state", 0) is None:
            estimator.set_params(random_state=random.randint(2**31 - 1))
        return estimator

    def _learn(
        self,
        estimator: Any,
        pixels: NDArray[Any],
        n_channels: int,
        whole_numbers: bool,
        new_samples: Callable[[Preparation], ImagePatchSamples] | None = None,
    ) -> ImageFeatures:
        """Learn from patches of pixels, or from samples that are prepared in the same way."""
        contrast_floor = contrast_floor_of(pixels)
        patches = normalize_patches(pixels, contrast_floor=contrast_floor)
        whitening = ZCAWhitening().fit(patches) if self.whiten else None
        preparation = Preparation.of(contrast_floor, whitening)
        if new_samples is not None:
            estimator.fit(new_samples(preparation))
        else:
            patches = patches if whitening is None else whitening.transform(patches)
            estimator.fit(patches, None)  # some, such as FrozenEstimator, require a y
        if not hasattr(estimator, "components_") and not hasattr(estimator, "cluster_centers_"):
            raise ValueError(
                f"{type(estimator).__name__} has no components_ after fit; on images, a learner must set them"
            )
        # Some of the patches determine the scale of the codes.
        self.encoder_, self.typical_code_ = self._scaled_encoder(estimator, preparation, pixels[:TYPICAL_PATCHES])
        self.estimator_ = estimator
        self.contrast_floor_, self.whitening_ = contrast_floor, whitening
        self.n_channels_, self.whole_numbers_ = n_channels, whole_numbers
        return self

    def with_encoder(self, X: Images, encoder: str | Encoder, **settings: Any) -> ImageFeatures:
        """Return fitted features with another encoder or pooling, and with the components learned here.

        Parameters
        ----------
        X : as for :meth:`fit`
            Images. Some patches are drawn from them to learn the scale of the codes.
        encoder : str or Encoder
            How a patch is encoded.
        **settings
            New values of ``stride``, ``grid``, ``pooling`` and ``mirror``.

        Returns
        -------
        ImageFeatures
            A copy that shares the estimator and the whitening with this one.
        """
        check_is_fitted(self)
        if others := sorted(set(settings) - {"stride", "grid", "pooling", "mirror"}):
            raise ValueError(f"only stride, grid, pooling and mirror can be changed after fit, got {', '.join(others)}")
        other = copy(self).set_params(encoder=encoder, **settings)
        other._validate_params()
        images = other.fitting_images(X)
        pixels = sample_patches(images, TYPICAL_PATCHES, self.patch_size, random_state=self.random_state)
        return other.set_encoder(pixels)

    def set_encoder(self, pixels: NDArray[Any]) -> ImageFeatures:
        """Create the encoder that ``encoder`` names, and learn the scale of its codes from patches of pixels."""
        self.encoder_, self.typical_code_ = self._scaled_encoder(self.estimator_, self._preparation, pixels)
        return self

    def _scaled_encoder(self, estimator: Any, preparation: Preparation, pixels: NDArray[Any]) -> tuple[Encoder, float]:
        """Return the encoder with the components of an estimator, and its mean absolute code of patches of pixels."""
        encoder = self._new_encoder(estimator)
        typical = float(np.abs(encoder.transform(preparation.prepare(pixels))).mean())
        if typical == 0 and self.pooling == "log":
            raise ValueError(
                f"all codes of patches by {type(encoder).__name__} are 0, so log pooling has no scale: "
                f"lower the encoder's threshold, or use more components"
            )
        return encoder, typical

    def draw_patches(self, X: Images, n_patches: int, *, random_state: Any = None) -> Array:
        """Draw random patches, prepared as the estimator and the encoder see them: normalised, and whitened if set.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.
        n_patches : int
            The number of patches.
        random_state : int, RandomState instance or None, default=None
            Determines which patches are drawn.

        Returns
        -------
        ndarray of shape (n_patches, patch_size * patch_size * n_channels)
            The patches.
        """
        check_is_fitted(self)
        return self.prepare_patches(sample_patches(X, n_patches, self.patch_size, random_state=random_state))

    def prepare_patches(self, pixels: ArrayLike) -> Array:
        """Prepare patches (n_patches, n_values), such as those of ``sample_patches``, as :meth:`draw_patches` does."""
        check_is_fitted(self)
        return self._preparation.prepare(pixels)

    @property
    def _preparation(self) -> Preparation:
        return Preparation.of(self.contrast_floor_, self.whitening_)

    @property
    def geometry(self) -> Geometry:
        """The sizes of patches."""
        return Geometry(self.patch_size, self.stride)

    def coders(self) -> list[PatchCoder]:
        """Return how images are encoded, as a list of one plain value."""
        group = self.group_coder()
        return [PatchCoder(self.geometry, self.n_channels_, (group,), pooling=self.pooling)]

    def group_coder(self) -> GroupCoder:
        """Return how patches are encoded, as a plain value."""
        check_is_fitted(self)
        encoder = self.encoder_
        return GroupCoder(
            preparation=self._preparation,
            name=f"{type(encoder).__name__} with the components of {type(self.estimator_).__name__}",
            n_codes=encoder.n_codes,
            block_encoders=encoder.block_encoders,
            typical_code=self.typical_code_,
            layer=encoder.as_layer() if hasattr(encoder, "as_layer") else None,
            centers=encoder.components() if isinstance(encoder, TriangleEncoder) else None,
            split_sign=encoder.split_sign,
        )

    def _new_encoder(self, estimator: Any) -> Encoder:
        encoder: Encoder = ENCODERS[self.encoder]() if isinstance(self.encoder, str) else clone(self.encoder)
        return encoder.set_params(dictionary=estimator).fit()

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        parts = {"estimator_": self.estimator_} | ({"whitening_": self.whitening_} if self.whiten else {})
        return parts, super()._fitted_state()[1]

    def _restore_fitted_state(self, parts: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state({}, plain)
        self.estimator_ = parts["estimator_"]
        self.whitening_ = parts["whitening_"] if self.whiten else None
        if self.typical_code_ < _TINY and self.pooling == "log":
            raise ValueError(f"typical_code_ must be at least {_TINY:.2g} for log pooling")
        self.encoder_ = self._new_encoder(self.estimator_)
        n_values = self.patch_size**2 * self.n_channels_
        if self.encoder_.n_features != n_values:
            raise ValueError(f"patches have {n_values} values, but components have {self.encoder_.n_features}")
