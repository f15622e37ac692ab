"""One layer of a stack: it encodes patches of its images and pools the codes to smaller images for the layer above."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ..algorithm.half import uses_half
from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..learners.epls import EPLS
from ..utils.fields import COUNTS, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, HasMethods, Interval, StrOptions, fit_context
from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .channels import similar_channels
from .collection import ImageCollection, Images
from .counts import usual_n_patches
from .dense import DenseEncoder, patch_encoders
from .features import TYPICAL_PATCHES, ImageFeatures
from .patches import sample_patches
from .pooling import Cells, PatchPositions, RegionGrid, log_scaled, pool_sums
from .units import LogisticUnits, UnitPools

# Called with the number of a group, its patches and a function that learns from them.
Keep: TypeAlias = Callable[[int, NDArray[Any], Callable[[], ImageFeatures]], ImageFeatures]
#: Called with the number of a group's first code, positions, and codes (n_positions, n_codes).
SeeCodes: TypeAlias = Callable[[int, Indices, Array], None]
_PATCH_VALUES = 2**27  # limit for the patches of all groups of channels: half a GiB


class Layer(Saved, BaseEstimator):
    """One layer of :class:`DeepFeatures`: what it learns from patches of its images, and how it pools its maps.

    The images of a layer above the first are the *maps* of the layer below, whose channels are codes.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Learns the components, as in :class:`ImageFeatures`. None uses ``EPLS()``. Each group gets its own clone.
    patch_size : int, default=5
        Height and width of a patch.
    encoder : {"natural", "soft_threshold", "sparse_coding", "triangle"} or Encoder, default="natural"
        How a patch is encoded; see :mod:`epls.encoders`.
    n_groups : int or None, default=None
        The number of groups of similar channels. The units of a group see only patches of its channels. None uses one
        group of all channels.
    group_size : int, default=16
        The number of channels in a group.
    pool : int, default=2
        Height and width, in positions, of the cells that codes are pooled over.
    pool_stride : int or None, default=None
        The number of positions from one cell to the next. None uses ``pool``; with less, cells overlap.
    pooling : {"log", "mean", "max"}, default="log"
        The value of a cell: the mean or the largest of its codes, divided by the typical code. "log" is log(1 + mean).
    n_patches : int or None, default=None
        The number of patches to learn from. None uses 100 for each component and at least 50,000. With groups, it uses
        at most as many as fit in half a GiB.
    stride : int, default=1
        The number of pixels from one encoded patch to the next.
    whiten : bool, default=False
        Whether to apply ZCA whitening to the normalised patches.
    random_state : int, RandomState instance or None, default=None
        Determines the patches and groups. ``DeepFeatures`` sets it.

    Attributes
    ----------
    channels_ : list of ndarray of int
        The channels of each group.
    features_ : list of ImageFeatures
        What was learned from each group.
    n_channels_ : int
        The number of channels of the layer's images.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, Layer
    >>> layer = Layer(EPLS(20, max_iter=3), patch_size=3, n_patches=2000, random_state=0).fit(load_digits().images)
    >>> layer.n_codes
    20
    """

    saved: ClassVar[dict[str, Any]] = {"n_channels_": Number(int, at_least=1)}
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "estimator": [HasMethods(["fit"]), None],
        "patch_size": [AT_LEAST_ONE],
        "encoder": [StrOptions(set(ENCODERS)), Encoder],
        "n_groups": [Interval(Integral, 1, 10_000, closed="both"), None],
        "group_size": [AT_LEAST_ONE],
        "pool": [AT_LEAST_ONE],
        "pool_stride": [AT_LEAST_ONE, None],
        "pooling": [StrOptions({"log", "mean", "max"})],
        "n_patches": [AT_LEAST_ONE, None],
        "stride": [AT_LEAST_ONE],
        "whiten": ["boolean"],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any = None,
        *,
        patch_size: int = 5,
        encoder: str | Encoder = "natural",
        n_groups: int | None = None,
        group_size: int = 16,
        pool: int = 2,
        pool_stride: int | None = None,
        pooling: str = "log",
        n_patches: int | None = None,
        stride: int = 1,
        whiten: bool = False,
        random_state: Any = None,
    ) -> None:
        self.estimator = estimator
        self.patch_size = patch_size
        self.encoder = encoder
        self.n_groups = n_groups
        self.group_size = group_size
        self.pool = pool
        self.pool_stride = pool_stride
        self.pooling = pooling
        self.n_patches = n_patches
        self.stride = stride
        self.whiten = whiten
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None, *, keep: Keep = lambda number, patches, learn: learn()) -> Layer:
        """Find the groups of channels, and learn components from patches of each group.

        Parameters
        ----------
        X : as for :meth:`ImageFeatures.fit`
            Images, or maps of the layer below. Only those that patches are drawn from are read, one at a time.
        y : None
            Ignored.
        keep : callable
            Called with the number of a group, its patches and a function that learns from them. Returns the features of
            the group, either newly learned or kept from an earlier fit. Several threads call it.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        images = ImageCollection(X, self.patch_size)
        pixels = sample_patches(images, self._n_patches(images.n_channels), self.patch_size, random_state=random)
        by_channel = pixels.reshape(len(pixels), -1, images.n_channels)
        channels = [np.arange(images.n_channels)]
        if self.n_groups is not None:
            channels = similar_channels(by_channel[:, 0], self.n_groups, self.group_size, random)
        if self.patch_size == 1 and min(map(len, channels)) == 1:
            raise ValueError(
                "patches of one pixel and one channel are 0 when their mean is subtracted: give a patch_size or a "
                "group_size of at least 2"
            )
        seeds = random.randint(2**31 - 1, size=len(channels))

        def learned(number: int) -> ImageFeatures:
            part, group = self._new_features(int(seeds[number])), channels[number]
            patches = np.ascontiguousarray(by_channel[:, :, group]).reshape(len(pixels), -1)
            learn = partial(part.fit_patches, patches, len(group), whole_numbers=images.whole_numbers)
            return self._fitting(keep(number, patches, learn), len(group))

        # Products of one group are too small for several threads, so each thread learns a group of its own.
        features = [learned(0)] if len(channels) == 1 else list(map_tasks(lambda: learned, range(len(channels))))
        self.channels_ = channels
        self.features_ = features
        self.n_channels_ = images.n_channels
        return self

    def with_encoder(self, X: Images, encoder: str | Encoder) -> Layer:
        """Return the fitted layer with another encoder, and with the components learned here.

        Parameters
        ----------
        X : as for :meth:`fit`
            Images, or maps of the layer below. Some patches are drawn from them to learn the scale of the codes.
        encoder : str or Encoder
            How a patch is encoded.

        Returns
        -------
        Layer
            A copy that shares what was learned with this one.
        """
        check_is_fitted(self)
        other = copy(self).set_params(encoder=encoder)
        other._validate_params()
        images = ImageCollection(X, self.patch_size, self.n_channels_)
        pixels = sample_patches(images, TYPICAL_PATCHES, self.patch_size, random_state=self.random_state)
        by_channel = pixels.reshape(len(pixels), -1, self.n_channels_)
        other.features_ = [
            copy(part).set_params(encoder=encoder).encode_like(by_channel[:, :, group].reshape(len(pixels), -1))
            for part, group in zip(self.features_, self.channels_, strict=True)
        ]
        return other

    def _fitting(self, part: Any, n_channels: int) -> ImageFeatures:
        """Return the features of a group after checking that they fit this layer; they may come from a file."""
        if not isinstance(part, ImageFeatures) or part.n_channels_ != n_channels:
            raise ValueError(f"a group of {n_channels} channels must have features of {n_channels} channels")
        if (part.patch_size, part.stride, part.mirror) != (self.patch_size, self.stride, False):
            raise ValueError("the features of a group must have the layer's patch_size and stride, and no mirror")
        return part

    def _n_patches(self, n_channels: int) -> int:
        n_patches = self.n_patches or usual_n_patches(EPLS() if self.estimator is None else self.estimator)
        if self.n_groups is None:
            return n_patches
        return max(1, min(n_patches, _PATCH_VALUES // (self.patch_size**2 * n_channels)))

    def _new_features(self, seed: int) -> ImageFeatures:
        return ImageFeatures(
            self.estimator,
            patch_size=self.patch_size,
            encoder=self.encoder,
            stride=self.stride,
            whiten=self.whiten,
            random_state=seed,
        )

    @property
    def n_codes(self) -> int:
        """The number of codes at a position, over all groups."""
        check_is_fitted(self)
        return sum(part.encoder_.n_codes for part in self.features_)

    @property
    def cell_step(self) -> int:
        """The number of positions from one cell of the map to the next."""
        return self.pool_stride or self.pool

    def map_shape(self, height: int, width: int) -> tuple[int, int]:
        """Return the rows and columns of the map of an image; not positive if the image is too small for a map."""
        shape = self._positions(height, width).shape
        return (shape[0] - self.pool) // self.cell_step + 1, (shape[1] - self.pool) // self.cell_step + 1

    def _positions(self, height: int, width: int) -> PatchPositions:
        return PatchPositions(height, width, self.patch_size, self.stride)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the models and plain values that :func:`epls.save_model` writes."""
        parts = {f"group{number}": part for number, part in enumerate(self.features_)}
        return parts, super()._fitted_state()[1] | {"channels_": [group.tolist() for group in self.channels_]}

    def _restore_fitted_state(self, parts: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state({}, plain)
        channels = plain["channels_"]
        if not isinstance(channels, list) or len(channels) != (self.n_groups or 1) or len(parts) != len(channels):
            raise ValueError(f"a layer of {self.n_groups or 1} group(s) must have the channels of each")
        groups = [np.asarray(COUNTS.check("channels_", group, {}), np.intp) for group in channels]
        features = [parts[f"group{number}"] for number in range(len(groups))]
        for group, part in zip(groups, features, strict=True):
            if len(group) == 0 or np.any(np.diff(group) <= 0) or group[-1] >= self.n_channels_:
                raise ValueError(f"the channels of a group must be increasing numbers below {self.n_channels_}")
            if self.n_groups is None and len(group) != self.n_channels_:
                raise ValueError("a layer without groups must see all channels")
            self._fitting(part, len(group))
        self.channels_, self.features_ = groups, features

    def new_encoders(
        self, precision: str = "float32", *, exact: bool = False
    ) -> Callable[[], LayerEncoder | UnitPools]:
        """Return a function that creates encoders of this layer, one for each thread.

        ``exact`` encoders compute the same bits as ``ImageFeatures``. Others are faster where all units are logistic.
        For ``precision`` see :mod:`epls.algorithm.half`.
        """
        if exact or uses_half(precision) or not LogisticUnits.can_be_of(self):
            return self.exact_encoders(precision)
        units = LogisticUnits(self)
        return lambda: UnitPools(units)

    def exact_encoders(self, precision: str = "float32") -> Callable[[], LayerEncoder]:
        """Return a function that creates encoders with the same bits as ``ImageFeatures``, one for each thread."""
        makers = [patch_encoders(part, precision) for part in self.features_]
        return lambda: LayerEncoder(self, [make() for make in makers])


class LayerEncoder:
    """Encodes the images of a layer, for one thread.

    Parameters
    ----------
    layer : Layer
        The fitted layer.
    encoders : list of callable
        A function from patches to codes for each group.
    """

    def __init__(self, layer: Layer, encoders: list[Any]) -> None:
        self._layer = layer
        pairs = zip(layer.features_, encoders, strict=True)
        self._groups = [DenseEncoder(part, encode) for part, encode in pairs]

    def features_and_map(
        self, image: NDArray[Any], grid: int, with_map: bool, see: SeeCodes | None = None
    ) -> tuple[Array, Array | None]:
        """Return the features (grid * grid, n_codes) of an image, and its map if ``with_map``.

        ``see`` is called with the number of the first code of a group, some positions, and the group's codes there. The
        codes are valid only until it returns.
        """
        layer = self._layer
        shape = layer._positions(*image.shape[:2]).shape
        regions = RegionGrid(shape, grid)
        cells = Cells(shape, layer.pool, layer.cell_step, layer.pooling == "max") if with_map else None
        pooled, maps, first = [], [], 0
        for part, encoder, channels in zip(layer.features_, self._groups, layer.channels_, strict=True):
            see_group = None if see is None else partial(see, first)
            sums, found = encoder.sums_and_cells(_of_channels(image, channels), regions, cells, see_group)
            first += sums.shape[1]
            pooled.append(pool_sums(part, sums, regions.counts).reshape(grid**2, -1))
            if with_map:
                maps.append(self._scaled(found, part.typical_code_))
        return np.concatenate(pooled, axis=1), np.concatenate(maps, axis=2) if with_map else None

    def _scaled(self, pooled: Array, typical_code: float) -> Array:
        if self._layer.pooling == "log":
            return log_scaled(pooled, typical_code)
        return pooled / np.float32(typical_code)


def _of_channels(image: NDArray[Any], channels: Indices) -> NDArray[Any]:
    if len(channels) == image.shape[2]:
        return image
    return np.ascontiguousarray(image[:, :, channels])
