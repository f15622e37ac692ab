"""Features of images from several layers, each learned from the maps of the layer below."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from ..algorithm.checkpoint import Checkpoint
from ..encoders.base import Encoder
from ..learners.directions import Directions
from ..learners.epls import EPLS
from ..utils.fields import COUNTS, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, Interval, StrOptions, fit_context
from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .coder import PatchCoder, StackEncoder, stack_encoders
from .features import PATCH_CONSTRAINTS, TYPICAL_PATCHES, ImageFeatures, ImageTransformer, over_images
from .patches import sample_patches, usual_n_patches
from .pooling import Geometry, smallest_side
from .reading import ImageCollection, Images

Stage = TypeVar("Stage")
_PATCH_VALUES = 2**27  # limit for the patches of all groups of channels: half a GiB
_MAPS_TO_LEARN_FROM = 5000  # the number of images whose maps a layer above the first learns from

# The usual layers.
_FIRST_UNITS, _GROUP_UNITS = 256, 64
_GROUPS, _GROUP_SIZE = 48, 16
_SMALL_IMAGE, _SMALL_PATCH, _PATCH = 64, 5, 7
_CELLS = 20  # along a side of the first map
_PATCHES_ACROSS = 4  # the ratio of the sides of a map and its patches
_SMALLEST_MAP = 3


class Layer(Saved, BaseEstimator):
    """One layer of :class:`DeepFeatures`: what it learns from patches of its images, and how it pools its maps.

    The images of a layer above the first are the *maps* of the layer below, whose channels are codes.

    Parameters
    ----------
    estimator, encoder, stride, whiten
        As in :class:`ImageFeatures`. Each group gets its own clone of the estimator.
    patch_size : int, default=5
        Height and width of a patch.
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
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = PATCH_CONSTRAINTS | {
        "n_groups": [Interval(Integral, 1, 10_000, closed="both"), None],
        "group_size": [AT_LEAST_ONE],
        "pool": [AT_LEAST_ONE],
        "pool_stride": [AT_LEAST_ONE, None],
        "pooling": [StrOptions({"log", "mean", "max"})],
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
    def fit(self, X: Images, y: Any = None, *, of_group: Callable[[int], Any] | None = None) -> Layer:
        """Find the groups of channels, and learn components from patches of each group.

        Parameters
        ----------
        X : as for :meth:`ImageFeatures.fit`
            Images, or maps of the layer below. Only those that patches are drawn from are read, one at a time.
        y : None
            Ignored.
        of_group : callable or None, default=None
            Returns the estimator of a group, given its number. None uses the same for all.

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
        settings = {name: getattr(self, name) for name in ("patch_size", "encoder", "stride", "whiten")}

        def learned(number: int) -> ImageFeatures:
            estimator, group = self.estimator if of_group is None else of_group(number), channels[number]
            part = ImageFeatures(estimator, **settings, random_state=int(seeds[number]))
            patches = np.ascontiguousarray(by_channel[:, :, group]).reshape(len(pixels), -1)
            return part.fit_patches(patches, len(group), whole_numbers=images.whole_numbers)

        # Products of one group are too small for several threads, so each thread learns a group of its own.
        features = [learned(0)] if len(channels) == 1 else list(map_tasks(lambda: learned, range(len(channels))))
        self.channels_ = channels
        self.features_ = features
        self.n_channels_ = images.n_channels
        return self

    def with_encoder(self, X: Images, encoder: str | Encoder) -> Layer:
        """Do the same as :meth:`ImageFeatures.with_encoder`; ``X`` are images, or maps of the layer below."""
        check_is_fitted(self)
        other = copy(self).set_params(encoder=encoder)
        other._validate_params()
        images = ImageCollection(X, self.patch_size, self.n_channels_)
        pixels = sample_patches(images, TYPICAL_PATCHES, self.patch_size, random_state=self.random_state)
        by_channel = pixels.reshape(len(pixels), -1, self.n_channels_)
        other.features_ = [
            copy(part).set_params(encoder=encoder).set_encoder(by_channel[:, :, group].reshape(len(pixels), -1))
            for part, group in zip(self.features_, self.channels_, strict=True)
        ]
        return other

    def _fitting(self, part: Any, n_channels: int) -> ImageFeatures:
        """Return the features of a group after checking that they fit this layer; they may come from a file."""
        if not isinstance(part, ImageFeatures) or part.n_channels_ != n_channels:
            raise ValueError(f"a group of {n_channels} channels must have features of {n_channels} channels")
        settings = part.patch_size, part.stride, part.mirror, part.pooling
        if settings != (self.patch_size, self.stride, False, "log"):
            raise ValueError(
                "the features of a group must have the layer's patch_size and stride, log pooling and no mirror"
            )
        return part

    def _n_patches(self, n_channels: int) -> int:
        n_patches = self.n_patches or usual_n_patches(EPLS() if self.estimator is None else self.estimator)
        if self.n_groups is None:
            return n_patches
        return max(1, min(n_patches, _PATCH_VALUES // (self.patch_size**2 * n_channels)))

    @property
    def n_codes(self) -> int:
        """The number of codes at a position, over all groups."""
        check_is_fitted(self)
        return sum(part.encoder_.n_codes for part in self.features_)

    @property
    def geometry(self) -> Geometry:
        """The sizes of patches and of the cells of the map."""
        return Geometry(self.patch_size, self.stride, self.pool, self.pool_stride or self.pool)

    def coder(self) -> PatchCoder:
        """Return how the layer encodes images, as a plain value."""
        check_is_fitted(self)
        return PatchCoder(
            self.geometry,
            self.n_channels_,
            tuple(part.group_coder() for part in self.features_),
            None if self.n_groups is None else np.stack(self.channels_),
            map_pooling=self.pooling,
        )

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
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
        if len(set(map(len, groups))) > 1:
            raise ValueError("all groups must have the same number of channels")
        self.channels_, self.features_ = groups, features


class DeepFeatures(ImageTransformer):
    """Turn images into features with a stack of layers, learned one after the other without labels.

    The first layer learns from patches of the images, as :class:`ImageFeatures` does. Its codes at all positions of an
    image, pooled over small cells, form the image's map. The codes are the channels of the map, and the next layer
    learns from maps as if they were images. The features of an image are those of all layers side by side, each pooled
    over a grid of regions. One layer gives the same features as ``ImageFeatures``.

    Parameters
    ----------
    layers : list of Layer or None, default=None
        The layers, from the images upwards. They are cloned. None uses the layers that
        :func:`epls.images.stack.usual_layers` chooses for the images.
    grid, mirror, device
        As in :class:`ImageFeatures`.
    checkpoint : Checkpoint or None, default=None
        Saves the training of each group of channels, so that an interrupted ``fit`` can continue from there; see
        :class:`epls.Checkpoint`. The estimators must be EPLS. :func:`epls.save_model` does not save it.
    random_state : int, RandomState instance or None, default=None
        Determines the patches and groups of channels, and seeds estimators whose own ``random_state`` is None.

    Attributes
    ----------
    layers_ : list of Layer
        The fitted layers.
    n_channels_ : int
        The number of channels, the same for all images.
    whole_numbers_ : bool
        Whether the pixels were whole numbers. Other images must have pixels of the same kind.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS, DeepFeatures, Layer
    >>> images = load_digits().images[:500]
    >>> first = Layer(EPLS(20, max_iter=3), patch_size=3, pool=2, n_patches=2000)
    >>> second = Layer(EPLS(10, max_iter=3), patch_size=2, n_groups=3, group_size=8, n_patches=2000)
    >>> features = DeepFeatures([first, second], random_state=0).fit(images)
    >>> features.transform(images).shape  # four regions with 20 codes, and four with 3 x 10
    (500, 200)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = ImageTransformer._parameter_constraints | {
        "layers": [list, tuple, None],
        "checkpoint": [Checkpoint, None],
    }
    _layer_name = "layer{}_"

    def __init__(
        self,
        layers: Sequence[Layer] | None = None,
        *,
        grid: int = 2,
        mirror: bool = False,
        checkpoint: Checkpoint | None = None,
        random_state: Any = None,
        device: str | None = None,
    ) -> None:
        self.layers = layers
        self.grid = grid
        self.mirror = mirror
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None) -> DeepFeatures:
        """Learn the layers, one after the other.

        Parameters
        ----------
        X : as for :meth:`ImageFeatures.fit`
            Images. The maps of an image are computed when patches are drawn from them.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        images = ImageCollection(X, 1)
        layers = self._new_layers(images)
        images.require(smallest_side([layer.geometry for layer in layers], self.grid))
        fitted: list[Layer] = []
        for number, layer in enumerate(layers, 1):
            source: Any = images if not fitted else _Maps(images, fitted, random)
            layer.set_params(random_state=random.randint(2**31 - 1))
            fitted.append(layer.fit(source, of_group=partial(self._of_group, number, layer)))
        if self.checkpoint is not None and not self.checkpoint.keep:
            self.checkpoint.clear()
        self.layers_ = fitted
        self.n_channels_ = images.n_channels
        self.whole_numbers_ = images.whole_numbers
        return self

    def _of_group(self, number: int, layer: Layer, group: int) -> Any:
        """Return the estimator of a group of a layer, with a checkpoint of its own."""
        if self.checkpoint is None:
            return layer.estimator
        estimator = EPLS() if layer.estimator is None else layer.estimator
        return self.checkpoint.of_group(estimator, number, group)

    def with_encoder(self, X: Images, encoder: str | Encoder) -> DeepFeatures:
        """Return the fitted stack with another encoder in its highest layer, and with the components learned here.

        The maps between layers do not change, so every component sees the kind of input it was learned from.

        Parameters
        ----------
        X, encoder
            As for :meth:`ImageFeatures.with_encoder`.

        Returns
        -------
        DeepFeatures
            A copy that shares what was learned with this one.
        """
        images = self.fitting_images(X)
        *below, highest = self.layers_
        source: Any = _Maps(images, below, check_random_state(self.random_state)) if below else images
        other = copy(self)
        other.layers_ = [*below, highest.with_encoder(source, encoder)]
        other.layers = [clone(layer) for layer in other.layers_]
        return other

    def _new_layers(self, images: ImageCollection) -> list[Layer]:
        if self.layers is None:
            return usual_layers(*images.smallest_size())
        if len(self.layers) == 0 or not all(isinstance(layer, Layer) for layer in self.layers):
            kinds = [type(layer).__name__ for layer in self.layers]
            raise ValueError(
                f"layers must be a list of at least one Layer, got {kinds}: give [Layer(...), ...], or None"
            )
        return [clone(layer) for layer in self.layers]

    def maps(self, X: Images, layer: int = 1) -> Iterator[Array]:
        """Iterate over the maps of images: the inputs of the layer above.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.
        layer : int, default=1
            The number of the layer. Layer 1 is the one that sees the images.

        Yields
        ------
        ndarray of float32 of shape (rows, columns, n_codes)
            The pooled codes of an image, computed with NumPy.
        """
        coders = layers_up_to(layer, self.coders())
        images = self._images(X, smallest_side([coder.geometry for coder in coders], 1, with_map=True))
        return over_images(stack_encoders(coders), _map_of, images, held=True)

    def coders(self) -> list[PatchCoder]:
        """Return how each layer encodes its images, from the images upwards, as plain values."""
        check_is_fitted(self)
        return [layer.coder() for layer in self.layers_]

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        parts = {f"layer{number}": layer for number, layer in enumerate(self.layers_, 1)}
        return parts, super()._fitted_state()[1] | {"n_layers": len(self.layers_)}

    def _restore_fitted_state(self, parts: dict[str, Any], plain: dict[str, Any]) -> None:
        super()._restore_fitted_state({}, plain)
        n_layers = Number(int, at_least=1).check("n_layers", plain["n_layers"], {})
        layers = [parts[f"layer{number}"] for number in range(1, n_layers + 1)]
        n_channels = self.n_channels_
        for number, layer in enumerate(layers, 1):
            if not isinstance(layer, Layer) or layer.n_channels_ != n_channels:
                raise ValueError(f"layer {number} must be a layer for images of {n_channels} channels")
            n_channels = layer.n_codes
        self.layers_ = layers


def layers_up_to(number: int, layers: Sequence[Stage]) -> Sequence[Stage]:
    """Return the layers up to a number, counted from 1. Raise an error if there is no such layer."""
    if not 1 <= number <= len(layers):
        raise ValueError(f"layer={number}: there are layers 1 to {len(layers)}")
    return layers[:number]


class _Maps:
    """A sequence of the maps of some images. Each map is computed on access."""

    def __init__(self, images: ImageCollection, layers: Sequence[Layer], random: np.random.RandomState) -> None:
        self._images = images
        n_maps = min(len(images), _MAPS_TO_LEARN_FROM)
        self._numbers = np.sort(sample_without_replacement(len(images), n_maps, random_state=random))
        # Exact: learning finds different units if maps differ in the last bits.
        self._new_encoder = stack_encoders([layer.coder() for layer in layers], exact=True)
        self._of_thread = threading.local()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> Array:
        if not hasattr(self._of_thread, "encode"):
            self._of_thread.encode = self._new_encoder()
        return _map_of(self._of_thread.encode, self._images[self._numbers[number]])


def _map_of(encode: StackEncoder, image: NDArray[Any]) -> Array:
    """Return the map of an image in the last layer."""
    found = encode(image, 1, True)[1]
    assert found is not None  # the map was requested
    return found


def usual_layers(
    height: int,
    width: int,
    *,
    n_layers: int | None = None,
    estimator: Any = None,
) -> list[Layer]:
    """Return the default layers for images of some size.

    The first layer has 256 units on patches of 7 x 7 pixels (5 x 5 if a side of the image is less than 64), and its map
    has about 20 cells per side. Each further layer has 48 groups of the 16 most similar channels, with 64 units each,
    on patches a quarter as wide as the map below. It halves the map. Maps are means of codes, not their logarithms: the
    next layer normalises the contrast of its patches anyway. Cells are twice as wide as the step between them: without
    overlap, a small shift of the image changes a map more.

    Parameters
    ----------
    height, width : int
        The size of the images.
    n_layers : int or None, default=None
        The number of layers. None uses two, or one if the image is too small for a second.
    estimator : estimator or None, default=None
        A learner with ``n_components`` for all layers, which have its own encoder and whitening. None uses
        :class:`Directions`, than which none is better in a stack.

    Returns
    -------
    list of Layer
        The layers.

    Examples
    --------
    >>> [(layer.patch_size, layer.pool, layer.pool_stride, layer.n_groups) for layer in usual_layers(96, 96)]
    [(7, 8, 4, None), (5, 4, 2, 48)]
    >>> [(layer.patch_size, layer.pool, layer.pool_stride, layer.n_groups) for layer in usual_layers(32, 32)]
    [(5, 4, 2, None), (3, 4, 2, 48)]
    """
    learner = Directions() if estimator is None else estimator
    if "n_components" not in learner.get_params():
        raise ValueError(
            f"layers require a learner with n_components, but {type(learner).__name__} has none: give another learner"
        )
    shared: dict[str, Any] = {
        "encoder": getattr(learner, "own_encoder", "natural"),
        "whiten": getattr(learner, "whitens", False),
        "pooling": "mean",
    }
    side = min(height, width)
    patch_size = _SMALL_PATCH if side < _SMALL_IMAGE else _PATCH
    positions = side - patch_size + 1
    step, n_units = max(2, round(positions / _CELLS)), _FIRST_UNITS
    layers: list[Layer] = []
    while True:
        units = clone(learner).set_params(n_components=n_units)
        layers.append(Layer(units, patch_size=patch_size, pool=2 * step, pool_stride=step, **shared))
        cells = positions // step - 1
        if len(layers) == (n_layers or 2) or (n_layers is None and cells < _SMALLEST_MAP):
            return layers
        if cells < _SMALLEST_MAP:
            raise ValueError(
                f"n_layers={n_layers} is too many for images of {height} x {width} pixels: the maps of layer "
                f"{len(layers)} have {max(cells, 0)} cells a side, and the next layer needs {_SMALLEST_MAP}; give "
                f"at most {len(layers)}"
            )
        patch_size = max(2, round(cells / _PATCHES_ACROSS))
        positions, step, n_units = cells - patch_size + 1, 2, _GROUP_UNITS
        shared |= {"n_groups": _GROUPS, "group_size": _GROUP_SIZE}


def similar_channels(pixels: Array, n_groups: int, group_size: int, random: np.random.RandomState) -> list[Indices]:
    """Group the channels of pixels (n_pixels, n_channels) that are most correlated with one another.

    Each group consists of a channel and those most correlated with it, whatever the sign, in increasing order. The
    first channel of a group is drawn at random from those that are in the fewest groups so far. So every channel is
    used if there are enough groups.
    """
    centered = pixels - pixels.mean(axis=0, dtype=np.float64)
    covariance = centered.T @ centered
    deviations = np.sqrt(np.maximum(np.diag(covariance), np.finfo(np.float64).tiny))
    similarity = np.abs(covariance / deviations / deviations[:, None])
    np.fill_diagonal(similarity, np.inf)  # a channel that never changes is also in its own group
    n_channels = len(similarity)
    memberships = np.zeros(n_channels, int)
    groups = []
    for _ in range(n_groups):
        first = random.choice(np.flatnonzero(memberships == memberships.min()))
        group = np.sort(np.argsort(-similarity[first], kind="stable")[: min(group_size, n_channels)])
        memberships[group] += 1
        groups.append(group)
    return groups
