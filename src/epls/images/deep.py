"""Features of images by several layers, each learned from the maps of the one below."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from numbers import Integral
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin, _fit_context, clone
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval
from sklearn.utils.random import sample_without_replacement
from sklearn.utils.validation import check_is_fitted

from ..data.parts import is_dask, lazy_transform
from ..utils.fields import Number, Saved
from ..utils.threads import map_in_rounds, map_tasks
from ..utils.types import Array
from .collection import ImageCollection, Images
from .layers import Layer, LayerEncoder
from .pooling import FINEST_GRID
from .stacks import usual_layers

Result = TypeVar("Result")
_MAPS_TO_LEARN_FROM = 5000  # a layer above the first learns from patches of the maps of so many images


class DeepFeatures(Saved, TransformerMixin, BaseEstimator):
    """Features of images by a stack of layers, learned one after the other without labels.

    The first layer learns from patches of the images, as :class:`ImageFeatures` does. Its codes at all positions of an
    image, pooled over small cells, are the image's map, whose channels are the codes: an image for the next layer to
    learn from. The features of an image are those of all layers side by side, each pooled over a grid of regions. With
    one layer, they are those of ``ImageFeatures``.

    Parameters
    ----------
    layers : list of Layer or None, default=None
        The layers, from the images upwards. They are cloned. None takes those that
        :func:`epls.images.stacks.usual_layers` finds for the images.
    grid : int, default=2
        Codes are pooled over grid x grid regions of equal size.
    mirror : bool, default=False
        Whether the features of an image are the mean of its own and those of its mirror image, left and right
        exchanged: for objects that may face either way, not for digits and letters. It takes twice the time.
    checkpoint : LayerCheckpoint or None, default=None
        Keeps what was learned from each group of channels, so that ``fit`` goes on from there if it is interrupted;
        see :class:`epls.LayerCheckpoint`. :func:`epls.save_model` does not save it.
    random_state : int, RandomState instance or None, default=None
        Draws patches and groups of channels, and seeds estimators whose own ``random_state`` is None.
    device : str or None, default=None
        Where ``transform`` computes, as in :class:`ImageFeatures`.

    Attributes
    ----------
    layers_ : list of Layer
        The fitted layers.
    n_channels_ : int
        The number of channels, the same for all images.
    whole_numbers_ : bool
        Whether pixels were whole numbers; those of other images must be of the same kind.

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
    ) -> None:
        self.layers = layers
        self.grid = grid
        self.mirror = mirror
        self.checkpoint = checkpoint
        self.random_state = random_state
        self.device = device

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Images, y: Any = None) -> DeepFeatures:
        """Learn the layers, one after the other.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images; labels are not needed. Only the images that patches are taken from are read, one at a time, and maps
            are made when patches are drawn from them.
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

    def _new_layers(self, images: ImageCollection) -> list[Layer]:
        if self.layers is None:
            return usual_layers(*images.smallest_size())
        if len(self.layers) == 0 or not all(isinstance(layer, Layer) for layer in self.layers):
            kinds = [type(layer).__name__ for layer in self.layers]
            raise ValueError(
                f"layers must be a list of at least one Layer, got {kinds}: give [Layer(...), ...], or None"
            )
        return [clone(layer) for layer in self.layers]

    def transform(self, X: Images) -> Array:
        """The features of images.

        Parameters
        ----------
        X : array of shape (n, height, width[, channels]), sequence of such images, ImageFolder or path of a folder
            Images, of any sizes that have a patch in each region of the highest layer. They are read when they are
            needed. A dask array is not computed.

        Returns
        -------
        ndarray or dask array of float32 of shape (n_images, n_features)
            The features of the first layer, region by region, then those of the next.
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
        """The features of one image after the other, for more images than fit in memory.

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

    def maps(self, X: Images, layer: int = 1) -> Iterator[Array]:
        """The maps of images, one after the other: what the layer above learns from.

        Parameters
        ----------
        X : as for :meth:`transform`
            Images.
        layer : int, default=1
            The number of the layer; the one that sees the images is 1.

        Yields
        ------
        ndarray of float32 of shape (rows, columns, n_codes)
            The pooled codes of an image.
        """
        check_is_fitted(self)
        if not 1 <= layer <= len(self.layers_):
            raise ValueError(f"layer={layer}: there are layers 1 to {len(self.layers_)}")
        some = self.layers_[:layer]
        images = self._images(X, smallest_map(some))
        return _over_images(lambda: _stack_maps(some), images, range(len(images)), held=True)

    def views(self, images: ImageCollection, start: int = 0, *, held: bool) -> Iterator[Array]:
        """The features of each image from the ``start``-th, and with ``mirror`` those of its mirror image: a row each.

        ``held`` tells whether the iterator goes to a user, who may take the next result at any time, or never.
        """
        if self.device is not None:
            from ..algorithm.engines.torch.devices import resolve_device  # first: it says what to install without torch
            from .torch_deep import views_in_torch

            return views_in_torch(self, images, start, resolve_device(self.device))

        def new_worker() -> Callable[[NDArray[Any]], Array]:
            features_of = _stack_features(self.layers_, self.grid)
            return lambda image: np.stack([features_of(view) for view in _views(image, self.mirror)])

        return _over_images(new_worker, images, range(start, len(images)), held=held)

    def fitting_images(self, X: Images) -> ImageCollection:
        """Images, checked to be such as the fitted layers can encode."""
        check_is_fitted(self)
        return self._images(X, smallest_image(self.layers_, self.grid))

    def _images(self, X: Images, smallest: int) -> ImageCollection:
        return ImageCollection(X, smallest, self.n_channels_, self.whole_numbers_)

    def _rows(self, images: ImageCollection, *, held: bool) -> Iterator[Array]:
        return (views.mean(axis=0) for views in self.views(images, held=held))

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names of the features: layer, region's row and column, code.

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
            [
                f"layer{number}_region{row}{column}_code{code}"
                for number, layer in enumerate(self.layers_, 1)
                for row, column in places
                for code in range(layer.n_codes)
            ],
            dtype=object,
        )

    @property
    def _n_features_out(self) -> int:
        return self.grid**2 * sum(layer.n_codes for layer in self.layers_)

    def _fitted_state(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Models and plain values that :func:`epls.save_model` writes."""
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.three_d_array = True
        tags.transformer_tags.preserves_dtype = []
        return tags


def smallest_image(layers: Sequence[Layer], grid: int) -> int:
    """The least height and width of images that have a patch in each region of all layers."""
    least = 1  # of the images of the layer above
    for number, layer in enumerate(reversed(layers)):
        of_map = 1 if number == 0 else layer.pool + layer.cell_step * (least - 1)
        least = layer.patch_size + layer.stride * (max(grid, of_map) - 1)
    return least


def smallest_map(layers: Sequence[Layer]) -> int:
    """The least height and width of images that have a map of the last layer."""
    least = 1
    for layer in reversed(layers):
        positions = layer.pool + layer.cell_step * (least - 1)
        least = layer.patch_size + layer.stride * (positions - 1)
    return least


class _Maps:
    """The maps of some images as a sequence, each made when it is asked for."""

    def __init__(self, images: ImageCollection, layers: Sequence[Layer], random: np.random.RandomState) -> None:
        self._images = images
        n_maps = min(len(images), _MAPS_TO_LEARN_FROM)
        self._numbers = np.sort(sample_without_replacement(len(images), n_maps, random_state=random))
        self._layers, self._of_thread = layers, threading.local()

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: int) -> Array:
        if not hasattr(self._of_thread, "map_of"):
            self._of_thread.map_of = _stack_maps(self._layers)
        found: Array = self._of_thread.map_of(self._images[self._numbers[number]])
        return found


def _stack_features(layers: Sequence[Layer], grid: int) -> Callable[[NDArray[Any]], Array]:
    """A function from an image to its features of all layers, for one thread."""
    encoders = [layer.new_encoders()() for layer in layers]

    def features_of(image: NDArray[Any]) -> Array:
        found = []
        for encoder in encoders:
            features, map_of_image = encoder.features_and_map(image, grid, with_map=encoder is not encoders[-1])
            found.append(features.ravel())
            if map_of_image is not None:
                image = map_of_image
        return np.concatenate(found)

    return features_of


def _stack_maps(layers: Sequence[Layer]) -> Callable[[NDArray[Any]], Array]:
    """A function from an image to its map of the last layer, for one thread."""
    encoders: list[LayerEncoder] = [layer.new_encoders()() for layer in layers]

    def map_of(image: NDArray[Any]) -> Array:
        for encoder in encoders:
            image = encoder.map(image)
        return image

    return map_of


def _views(image: NDArray[Any], mirror: bool) -> list[NDArray[Any]]:
    return [image, np.ascontiguousarray(image[:, ::-1])] if mirror else [image]


def _over_images(
    new_worker: Callable[[], Callable[[NDArray[Any]], Result]], images: ImageCollection, numbers: range, *, held: bool
) -> Iterator[Result]:
    """A result for each image of some numbers, each thread with a worker of its own."""

    def of_number() -> Callable[[int], Result]:
        work = new_worker()
        return lambda number: work(images[number])

    return (map_in_rounds if held else map_tasks)(of_number, numbers)
