"""The default layers of a stack."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from sklearn.base import clone

from ..callbacks import OnEpoch
from ..encoders.base import Encoder
from ..learners.epls import EPLS
from .layers import Layer

_FIRST_UNITS, _GROUP_UNITS = 256, 128
_GROUPS, _GROUP_SIZE = 24, 16
_SMALL_IMAGE, _SMALL_PATCH, _PATCH = 64, 5, 7
_CELLS = 20  # along a side of the first map
_PATCHES_ACROSS = 4  # the ratio of the sides of a map and its patches
_SMALLEST_MAP = 4


def usual_layers(
    height: int,
    width: int,
    *,
    n_layers: int | None = None,
    estimator: Any = None,
    encoder: str | Encoder = "natural",
    whiten: bool = False,
) -> list[Layer]:
    """Return the default layers for images of some size.

    The first layer has 256 units on patches of 7 x 7 pixels (5 x 5 if a side of the image is less than 64), and its map
    has about 20 cells per side. Each further layer has 24 groups of the 16 most similar channels, with 128 units each,
    on patches a quarter as wide as the map below. It halves the map.

    Parameters
    ----------
    height, width : int
        The size of the images.
    n_layers : int or None, default=None
        The number of layers. None uses two, or one if the image is too small for a second.
    estimator : estimator or None, default=None
        A learner with ``n_components`` for all layers. None uses ``EPLS()``.
    encoder, whiten
        The settings of all layers; see :class:`Layer`.

    Returns
    -------
    list of Layer
        The layers.

    Examples
    --------
    >>> [(layer.patch_size, layer.pool, layer.n_groups) for layer in usual_layers(96, 96)]
    [(7, 4, None), (5, 2, 24)]
    >>> [(layer.patch_size, layer.pool, layer.n_groups) for layer in usual_layers(32, 32)]
    [(5, 2, None), (3, 2, 24)]
    """
    learner = EPLS() if estimator is None else estimator
    if "n_components" not in learner.get_params():
        raise ValueError(
            f"layers require a learner with n_components, but {type(learner).__name__} has none: give another learner"
        )
    shared: dict[str, Any] = {"encoder": encoder, "whiten": whiten}
    side = min(height, width)
    patch_size = _SMALL_PATCH if side < _SMALL_IMAGE else _PATCH
    positions = side - patch_size + 1
    pool = max(2, round(positions / _CELLS))
    layers = [Layer(clone(learner).set_params(n_components=_FIRST_UNITS), patch_size=patch_size, pool=pool, **shared)]
    for _ in range(1, n_layers or 2):
        cells = positions // pool
        if cells < _SMALLEST_MAP:
            if n_layers is None:
                break
            raise ValueError(
                f"n_layers={n_layers} is too many for images of {height} x {width} pixels: the maps of layer "
                f"{len(layers)} have {cells} cells a side, and the next layer needs {_SMALLEST_MAP}; give at most "
                f"{len(layers)}"
            )
        patch_size = max(2, cells // _PATCHES_ACROSS)
        positions, pool = cells - patch_size + 1, 2
        group_learner = clone(learner).set_params(n_components=_GROUP_UNITS)
        layers.append(
            Layer(group_learner, patch_size=patch_size, n_groups=_GROUPS, group_size=_GROUP_SIZE, pool=pool, **shared)
        )
    return layers


def tell_epochs(layers: Sequence[Layer], progress: Callable[[str, int, int], None]) -> None:
    """Let layers report the progress of learning: the stage, and the epochs of all groups, done and in total."""
    for number, layer in enumerate(layers, 1):
        if hasattr(layer.estimator, "set_callbacks"):
            layer.estimator.set_callbacks(
                OnEpoch(_EpochsOfGroups(f"learn layer {number}", layer.n_groups or 1, progress))
            )


class _EpochsOfGroups:
    """Count the epochs of all groups of a layer, which several threads learn."""

    def __init__(self, stage: str, n_groups: int, progress: Callable[[str, int, int], None]) -> None:
        self._stage, self._n_groups, self._progress = stage, n_groups, progress
        self._done, self._lock = 0, Lock()

    def __call__(self, done: int, total: int) -> None:
        with self._lock:
            self._done += 1
            self._progress(self._stage, self._done, self._n_groups * total)
