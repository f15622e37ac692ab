"""Features of images from several layers, each learned from the maps of the layer below."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.utils import check_random_state
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from ..algorithm.half import PRECISIONS
from ..encoders.base import Encoder
from ..utils.fields import Number
from ..utils.optional import torch_room
from ..utils.sklearn import HasMethods, Interval, StrOptions, fit_context
from ..utils.threads import map_in_rounds, map_tasks
from ..utils.types import Array
from .base import ImageTransformer
from .collection import ImageCollection, Images
from .layers import Layer
from .pooling import FINEST_GRID
from .stacks import usual_layers

Result = TypeVar("Result")
Stage = TypeVar("Stage")
_MAPS_TO_LEARN_FROM = 5000  # the number of images whose maps a layer above the first learns from


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
        :func:`epls.images.stacks.usual_layers` chooses for the images.
    grid : int, default=2
        Codes are pooled over grid x grid regions of equal size.
    mirror : bool, default=False
        Whether to average the features of an image and of its left-right mirror image. This suits objects that may face
        either way, but not digits and letters. It doubles the time.
    checkpoint : LayerCheckpoint or None, default=None
        Keeps what was learned from each group of channels, so that an interrupted ``fit`` can continue from there; see
        :class:`epls.LayerCheckpoint`. :func:`epls.save_model` does not save it.
    random_state : int, RandomState instance or None, default=None
        Determines the patches and groups of channels, and seeds estimators whose own ``random_state`` is None.
    device : str or None, default=None
        Where ``transform`` computes, as in :class:`ImageFeatures`.
    precision : {"float32", "bfloat16", "auto"}, default="float32"
        The precision of the products in ``transform``, as in :class:`ImageFeatures`.

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

    saved: ClassVar[dict[str, Any]] = {
        "n_channels_": Number(int, at_least=1),
        "whole_numbers_": Number(bool),
    }
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "layers": [list, tuple, None],
        "grid": [Interval(Integral, 1, FINEST_GRID, closed="both")],
        "mirror": ["boolean"],
        "checkpoint": [HasMethods(["keep"]), None],
        "random_state": ["random_state"],
        "device": [str, None],
        "precision": [StrOptions(set(PRECISIONS))],
    }

    def __init__(
        self,
        layers: Sequence[Layer] | None = None,
        *,
        grid: int = 2,
        mirror: bool = False,
        checkpoint: Any = None,
        random_state: Any = None,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.layers = layers
        self.grid = grid
        self.mirror = mirror
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device
        self.precision = precision

    @fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None) -> DeepFeatures:
        """Learn the layers, one after the other.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images; labels are not needed. Only images that patches are drawn from are read, one at a time. Their maps
            are computed when patches are drawn from them.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        random = check_random_state(self.random_state)
        images = ImageCollection(X, 1)
        layers = self._new_layers(images)
        images.require(smallest_image(layers, self.grid))
        fitted: list[Layer] = []
        for number, layer in enumerate(layers, 1):
            source: Any = images if not fitted else _Maps(images, fitted, random)
            layer.set_params(random_state=random.randint(2**31 - 1))
            kept = {} if self.checkpoint is None else {"keep": self.checkpoint.keep(number, layer)}
            fitted.append(layer.fit(source, **kept))
        self.layers_ = fitted
        self.n_channels_ = images.n_channels
        self.whole_numbers_ = images.whole_numbers
        return self

    def with_encoder(self, X: Images, encoder: str | Encoder) -> DeepFeatures:
        """Return the fitted stack with another encoder in its highest layer, and with the components learned here.

        The maps between layers do not change, so every component sees the kind of input it was learned from.

        Parameters
        ----------
        X : as for :meth:`fit`
            Images. Some patches are drawn from them to learn the scale of the codes.
        encoder : str or Encoder
            How a patch is encoded.

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
            The pooled codes of an image.
        """
        check_is_fitted(self)
        some = layers_up_to(layer, self.layers_)
        images = self._images(X, smallest_image(some, 1, with_map=True))
        if self.device is not None:
            resolve_device = torch_room("engine").resolve_device
            from .torch_deep import maps_in_torch

            return maps_in_torch(self, images, layer, resolve_device(self.device))
        return _over_images(lambda: _stack_maps(some), images, range(len(images)), held=True)

    def views(self, images: ImageCollection, start: int = 0, *, held: bool) -> Iterator[Array]:
        """Iterate over the features of images from ``start`` on: a row for each image and, if set, its mirror.

        ``held`` says whether a user holds the iterator, and so may ask for the next result at any time, or never.
        """
        if self.device is not None:
            resolve_device = torch_room("engine").resolve_device
            from .torch_deep import views_in_torch

            return views_in_torch(self, images, start, resolve_device(self.device))

        def new_worker() -> Callable[[NDArray[Any]], Array]:
            features_of = _stack_features(self.layers_, self.grid, self.precision)
            return lambda image: np.stack([features_of(view) for view in _views(image, self.mirror)])

        return _over_images(new_worker, images, range(start, len(images)), held=held)

    def fitting_images(self, X: Images) -> ImageCollection:
        """Return images after checking that the fitted layers can encode them."""
        check_is_fitted(self)
        return self._images(X, smallest_image(self.layers_, self.grid))

    def _images(self, X: Images, smallest: int) -> ImageCollection:
        return ImageCollection(X, smallest, self.n_channels_, self.whole_numbers_)

    def _rows(self, images: ImageCollection, *, held: bool) -> Iterator[Array]:
        return (views.mean(axis=0) for views in self.views(images, held=held))

    def _n_codes_by_name(self) -> dict[str, int]:
        return {f"layer{number}_": layer.n_codes for number, layer in enumerate(self.layers_, 1)}

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the models and plain values that :func:`epls.save_model` writes."""
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


def smallest_image(layers: Sequence[Layer], grid: int, *, with_map: bool = False) -> int:
    """Return the smallest height and width of images that have a patch in each region of all layers.

    Parameters
    ----------
    layers : sequence of Layer
        The layers, from the images upwards.
    grid : int
        The number of rows and of columns of regions.
    with_map : bool, default=False
        Whether the last layer must have a map too, as all others do.
    """
    least = 1  # the least size of the images of the layer above
    for layer in reversed(layers):
        n_positions = layer.pool + layer.cell_step * (least - 1) if with_map else 1
        least = layer.patch_size + layer.stride * (max(grid, n_positions) - 1)
        with_map = True
    return least


class _Maps:
    """A sequence of the maps of some images. Each map is computed on access."""

    def __init__(self, images: ImageCollection, layers: Sequence[Layer], random: np.random.RandomState) -> None:
        self._images = images
        n_maps = min(len(images), _MAPS_TO_LEARN_FROM)
        self._numbers = np.sort(sample_without_replacement(len(images), n_maps, random_state=random))
        self._layers, self._of_thread = layers, threading.local()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> Array:
        if not hasattr(self._of_thread, "map_of"):
            # Exact: learning finds different units if maps differ in the last bits.
            self._of_thread.map_of = _stack_maps(self._layers, exact=True)
        found: Array = self._of_thread.map_of(self._images[self._numbers[number]])
        return found


def _stack_features(layers: Sequence[Layer], grid: int, precision: str) -> Callable[[NDArray[Any]], Array]:
    """Return a function from an image to its features of all layers, for one thread."""
    encoders = [layer.new_encoders(precision, exact=len(layers) == 1)() for layer in layers]

    def features_of(image: NDArray[Any]) -> Array:
        found = []
        for encoder in encoders:
            features, map_of_image = encoder.features_and_map(image, grid, with_map=encoder is not encoders[-1])
            found.append(features.ravel())
            if map_of_image is not None:
                image = map_of_image
        return np.concatenate(found)

    return features_of


def _stack_maps(layers: Sequence[Layer], exact: bool = False) -> Callable[[NDArray[Any]], Array]:
    """Return a function from an image to its map of the last layer, for one thread."""
    encoders = [layer.new_encoders(exact=exact)() for layer in layers]

    def map_of(image: NDArray[Any]) -> Array:
        for encoder in encoders:
            _, found = encoder.features_and_map(image, 1, with_map=True)
            assert found is not None  # with_map=True
            image = found
        return image

    return map_of


def _views(image: NDArray[Any], mirror: bool) -> list[NDArray[Any]]:
    return [image, np.ascontiguousarray(image[:, ::-1])] if mirror else [image]


def _over_images(
    new_worker: Callable[[], Callable[[NDArray[Any]], Result]], images: ImageCollection, numbers: range, *, held: bool
) -> Iterator[Result]:
    """Iterate over the results for the images with these numbers; each thread has its own worker."""

    def of_number() -> Callable[[int], Result]:
        work = new_worker()
        return lambda number: work(images[number])

    return (map_in_rounds if held else map_tasks)(of_number, numbers)
