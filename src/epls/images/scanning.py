"""What the units of all layers answer to images, found in one pass that keeps no maps."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .collection import ImageCollection
from .deep import DeepFeatures
from .models import ModelLayer, layers_of
from .pooling import PatchPositions


@dataclass(frozen=True)
class Answers:
    """What the units of a layer answer to some images.

    Attributes
    ----------
    codes : ndarray of float32 of shape (n_samples, n_units)
        The codes at random positions, as many of each image if it has as many.
    strongest : ndarray of float32 of shape (n_images, n_areas, n_units)
        The largest absolute code of each unit in each area of each image; -1 where an area has no position.
    places : ndarray of int32 of shape (n_images, n_areas, n_units, 2)
        The top and left pixel of what the unit sees there.
    """

    codes: Array
    strongest: Array
    places: Indices


def scan_layers(
    features: DeepFeatures,
    images: ImageCollection,
    n_samples: int,
    *,
    layers: Collection[int] | None = None,
    area_grid: int = 1,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[int, Answers]:
    """The strongest answers of all units to some images, and their codes at random positions.

    Maps are made of one image after the other and are not kept.

    Parameters
    ----------
    features : DeepFeatures
        Fitted.
    images : ImageCollection
        Images, checked to have a position of each layer.
    n_samples : int
        Random positions in all images together.
    layers : collection of int or None, default=None
        The layers that are asked for, the one that sees the images being 0; None is all.
    area_grid : int, default=1
        The strongest answers are found in area_grid x area_grid areas of each image.
    seed : int, default=0
        Draws positions. The result does not depend on the number of threads.
    progress : callable, optional
        Is told how many images are done.

    Returns
    -------
    dict of int to Answers
        For each of the layers.
    """
    views = layers_of(features)
    wanted = sorted(set(range(len(views))) if layers is None else set(layers))
    of_each = -(-n_samples // len(images))

    def new_worker() -> Callable[[int], list[_Watch]]:
        encoders = [layer.new_encoders()() for layer in features.layers_[: max(wanted) + 1]]

        def watched(number: int) -> list[_Watch]:
            image, random = images[number], np.random.RandomState([seed, number])
            found: list[_Watch] = []
            for k, (view, encoder) in enumerate(zip(views, encoders, strict=False)):
                see = None
                if k in wanted:
                    found.append(_Watch(view, image.shape, of_each, area_grid, random))
                    see = found[-1].see
                _, below = encoder.features_and_map(image, 1, k < max(wanted), see)
                if below is not None:
                    image = below
            return found

        return watched

    watches: list[list[_Watch]] = [[] for _ in wanted]
    for number, found in enumerate(map_tasks(new_worker, range(len(images))), 1):
        for of_layer, watch in zip(watches, found, strict=True):
            of_layer.append(watch)
        progress(number)
    return {k: _together(of_layer) for k, of_layer in zip(wanted, watches, strict=True)}


class _Watch:
    """Keeps the strongest answers of a layer's units to an image, and its codes at some positions."""

    def __init__(
        self, layer: ModelLayer, shape: tuple[int, ...], n_samples: int, area_grid: int, random: np.random.RandomState
    ) -> None:
        positions = PatchPositions(shape[0], shape[1], layer.patch_size, layer.groups[0].stride)
        self._shape, self._step, self._area_grid = positions.shape, layer.step, area_grid
        n_units, n_areas = layer.n_units, area_grid**2
        self._drawn = np.sort(random.choice(len(positions), min(n_samples, len(positions)), replace=False))
        self.codes = np.empty((len(self._drawn), n_units), np.float32)
        self.strongest = np.full((n_areas, n_units), -1, np.float32)
        self.places = np.zeros((n_areas, n_units, 2), np.int32)

    def see(self, first_unit: int, positions: Indices, codes: Array) -> None:
        """Take note of the codes (n_positions, n_codes) of a group at some positions."""
        units = slice(first_unit, first_unit + codes.shape[1])
        ranks = np.searchsorted(self._drawn, positions)
        found = np.flatnonzero(np.isin(positions, self._drawn))
        self.codes[ranks[found], units] = codes[found]
        answers = np.abs(codes)
        rows, columns = np.divmod(positions, self._shape[1])
        n = self._area_grid
        areas = rows * n // self._shape[0] * n + columns * n // self._shape[1]
        for area in np.unique(areas):
            inside = np.flatnonzero(areas == area)
            best = inside[answers[inside].argmax(axis=0)]
            strongest = answers[best, np.arange(len(best))]
            before = self.strongest[area, units]  # views: what is written to them is kept
            better = strongest > before
            before[better] = strongest[better]
            self.places[area, units][better] = self._step * np.stack([rows[best], columns[best]], axis=1)[better]


def _together(watches: list[_Watch]) -> Answers:
    return Answers(
        np.concatenate([watch.codes for watch in watches]),
        np.stack([watch.strongest for watch in watches]),
        np.stack([watch.places for watch in watches]).astype(np.intp),
    )
