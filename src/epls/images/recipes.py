"""Default features of images: learned from the same images, in a time that suits their number."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock
from typing import Any

from ..callbacks import report_epochs
from ..learners.epls import EPLS
from ..utils.types import Array, Progress
from .features import ImageFeatures
from .models import ImageModel, feature_rows
from .reading import MANY_IMAGES, ImageCollection, Images, of_one_size
from .stack import DeepFeatures, Layer, usual_layers

_PIXELS_FOR_A_STACK = 1_000 * 96 * 96  # of all images; with more, a second layer would take many minutes
_SIDE_FOR_A_STACK = 48  # pixels
_PATCHES_OF_A_GROUP = 12_000  # of a stack: fewer than usual
_LARGEST_PATCH = 10
_PATCHES, _PATCHES_PER_UNIT = 40_000, 20  # of one layer; a few small images have fewer, and get fewer units
_UNITS, _UNITS_FOR_MANY = 400, 200
_CELLS_ACROSS = 24  # patches along a side of an image that are encoded


def quick_features(
    n_images: int, height: int, width: int, *, layers: int | None = None, mirror: bool = True, random_state: Any = 0
) -> ImageModel:
    """Return unfitted features for this many images of some size.

    Without a number of ``layers``, there are two for up to a thousand images of 96 x 96 pixels, or as many pixels in
    other sizes, and one, which is much faster, for more pixels and for images of less than 48 pixels per side. Two
    layers learn from fewer patches than those of :class:`epls.DeepFeatures`.

    Examples
    --------
    >>> quick_features(200, 96, 96).__class__.__name__
    'DeepFeatures'
    >>> quick_features(60_000, 28, 28).stride
    1
    """
    shared: dict[str, Any] = {"mirror": mirror, "random_state": random_state}
    few = n_images * height * width <= _PIXELS_FOR_A_STACK and min(height, width) >= _SIDE_FOR_A_STACK
    if few if layers is None else layers > 1:
        stack = usual_layers(height, width, n_layers=layers)
        for layer in stack[1:]:
            layer.set_params(n_patches=_PATCHES_OF_A_GROUP)
        if len(stack) > 1:
            return DeepFeatures(stack, **shared)
    side = min(height, width)
    patch_size = max(1, min(_LARGEST_PATCH, side // 4 + 2, side - 1))
    n_patches = min(_PATCHES, n_images * (height - patch_size + 1) * (width - patch_size + 1))
    n_units = min(_UNITS_FOR_MANY if n_images > MANY_IMAGES else _UNITS, max(1, n_patches // _PATCHES_PER_UNIT))
    return ImageFeatures(
        EPLS(n_units),
        patch_size=patch_size,
        n_patches=n_patches,
        stride=max(1, (side - patch_size) // _CELLS_ACROSS),
        grid=min(2, side),
        **shared,
    )


def learned_features(
    X: Images,
    *,
    layers: int | None = None,
    mirror: bool = True,
    random_state: Any = 0,
    progress: Progress = lambda stage, done, total: None,
) -> tuple[Array, ImageModel]:
    """Learn features from images, and return the features (n_images, n_features) of each and the fitted model.

    Large images and images of different sizes are first resized to one size, and the model is for images of this size.
    ``progress`` is called with the stage and the numbers of steps, done and in total.
    """
    images = ImageCollection(of_one_size(ImageCollection(X, 1), progress), 1)
    model = quick_features(len(images), *images[0].shape[:2], layers=layers, mirror=mirror, random_state=random_state)
    if isinstance(model, DeepFeatures):
        tell_epochs(model.layers or [], progress)
    else:
        report_epochs(model.estimator, lambda done, total: progress("learn", done, total))
    model.fit(images)
    return feature_rows(model, images, progress), model


def tell_epochs(layers: Sequence[Layer], progress: Progress) -> None:
    """Let layers report the progress of learning: the stage, and the epochs of all groups, done and in total."""
    for number, layer in enumerate(layers, 1):
        report_epochs(layer.estimator, _of_all_groups(f"learn layer {number}", layer.n_groups or 1, progress))


def _of_all_groups(stage: str, n_groups: int, progress: Progress) -> Callable[[int, int], None]:
    """Return a function that counts the epochs of all groups of a layer, which several threads learn."""
    epochs, lock = count(1), Lock()

    def tell(done: int, total: int) -> None:
        with lock:
            progress(stage, next(epochs), n_groups * total)

    return tell
