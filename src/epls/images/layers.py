"""One layer of a stack: codes of patches of its images, pooled to smaller images for the layer above."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, _fit_context
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..learners.epls import EPLS
from ..utils.constraints import AT_LEAST_ONE
from ..utils.fields import COUNTS, Number, Saved
from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .channels import similar_channels
from .collection import ImageCollection, Images
from .counts import usual_n_patches
from .dense import DenseEncoder
from .features import ImageFeatures
from .patches import sample_patches
from .pooling import Cells, PatchPositions, RegionGrid, log_scaled, pool_sums

# Given the number of a group, its patches, and what learns from these.
Keep: TypeAlias = Callable[[int, NDArray[Any], Callable[[], ImageFeatures]], ImageFeatures]
#: Is called with the number of a group's first code, positions, and codes (n_positions, n_codes).
SeeCodes: TypeAlias = Callable[[int, Indices, Array], None]
_PATCH_VALUES = 2**27  # of the patches that groups of channels are learned from: half a GiB


class Layer(Saved, BaseEstimator):
    """One layer of :class:`DeepFeatures`: what it learns from patches of its images, and how its maps are pooled.

    Its images are those of the layer below: an image's *map*, whose channels are codes.

    Parameters
    ----------
    estimator : estimator or None, default=None
        Learns the components, as in :class:`ImageFeatures`; None is ``EPLS()``. With groups, each group gets a clone.
    patch_size : int, default=5
        Height and width of a patch.
    encoder : {"natural", "soft_threshold", "sparse_coding", "triangle"} or Encoder, default="natural"
        How a patch becomes codes; see :mod:`epls.encoders`.
    n_groups : int or None, default=None
        How many groups of similar channels there are. Units of a group see patches of its channels only. None is one
        group of all channels.
    group_size : int, default=16
        Channels in a group.
    pool : int, default=2
        Height and width of the cells that the map is pooled over, in positions.
    pool_stride : int or None, default=None
        Positions from one cell to the next; None is ``pool``, and less lets cells overlap.
    pooling : {"log", "mean", "max"}, default="log"
        What a cell has: the mean or the largest of its codes, as multiples of the typical code. "log" is log(1 + mean).
    n_patches : int or None, default=None
        Patches to learn from. None means 100 for each component and at least 50,000; with groups, as many of these as
        half a GiB holds.
    stride : int, default=1
        Pixels from one encoded patch to the next.
    whiten : bool, default=False
        Whether patches are ZCA-whitened after they are normalised.
    random_state : int, RandomState instance or None, default=None
        Draws patches and groups. ``DeepFeatures`` sets it.

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

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None, *, keep: Keep = lambda number, patches, learn: learn()) -> Layer:
        """Find the groups of channels, and learn components from patches of each.

        Parameters
        ----------
        X : as for :meth:`ImageFeatures.fit`
            Images, or maps of the layer below. Only those that patches are drawn from are read, one at a time.
        y : None
            Ignored.
        keep : callable
            Given the number of a group, its patches and what learns from them, returns the features of the group:
            learned, or from where they were kept before. Several threads call it.

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
                "patches of one pixel of one channel are all 0, once their mean is subtracted: give a patch_size or a "
                "group_size of at least 2"
            )
        seeds = random.randint(2**31 - 1, size=len(channels))

        def learned(number: int) -> ImageFeatures:
            part, group = self._new_features(int(seeds[number])), channels[number]
            patches = np.ascontiguousarray(by_channel[:, :, group]).reshape(len(pixels), -1)
            learn = partial(part.fit_patches, patches, len(group), whole_numbers=images.whole_numbers)
            return self._fitting(keep(number, patches, learn), len(group))

        # Products of a group are too small for several threads, which each learn a group instead.
        features = [learned(0)] if len(channels) == 1 else list(map_tasks(lambda: learned, range(len(channels))))
        self.channels_ = channels
        self.features_ = features
        self.n_channels_ = images.n_channels
        return self

    def _fitting(self, part: Any, n_channels: int) -> ImageFeatures:
        """The features of a group, if they fit this layer: they may come from a file."""
        if not isinstance(part, ImageFeatures) or part.n_channels_ != n_channels:
            raise ValueError(f"a group of {n_channels} channels must have features of so many channels")
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
        """The number of codes at a position: of all groups."""
        check_is_fitted(self)
        return sum(part.encoder_.n_codes for part in self.features_)

    @property
    def cell_step(self) -> int:
        """Positions from one cell of the map to the next."""
        return self.pool_stride or self.pool

    def map_shape(self, height: int, width: int) -> tuple[int, int]:
        """Rows and columns of the map of an image of some size; not positive if the image is too small for one."""
        shape = self._positions(height, width).shape
        return (shape[0] - self.pool) // self.cell_step + 1, (shape[1] - self.pool) // self.cell_step + 1

    def _positions(self, height: int, width: int) -> PatchPositions:
        return PatchPositions(height, width, self.patch_size, self.stride)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Models and plain values that :func:`epls.save_model` writes."""
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

    def new_encoders(self) -> Callable[[], LayerEncoder]:
        """What makes encoders of this layer, one for each thread."""
        makers = [part.encoder_.block_encoders(np.dtype(np.float32)) for part in self.features_]
        return lambda: LayerEncoder(self, [make() for make in makers])


class LayerEncoder:
    """Encodes the images of a layer, for one thread.

    Parameters
    ----------
    layer : Layer
        Fitted.
    encoders : list of callable
        From patches to codes, for each group.
    """

    def __init__(self, layer: Layer, encoders: list[Any]) -> None:
        self._layer = layer
        pairs = zip(layer.features_, encoders, strict=True)
        self._groups = [DenseEncoder(part, encode) for part, encode in pairs]

    def map(self, image: NDArray[Any]) -> Array:
        """The map of an image."""
        found = self.features_and_map(image, 1, with_map=True)[1]
        assert found is not None  # it was asked for
        return found

    def features_and_map(
        self, image: NDArray[Any], grid: int, with_map: bool, see: SeeCodes | None = None
    ) -> tuple[Array, Array | None]:
        """The features (grid * grid, n_codes) of an image, and its map, if that is asked for.

        ``see`` is called with the number of the first code of a group, some positions, and the group's codes there,
        which are valid until it returns.
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
