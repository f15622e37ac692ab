"""Responses of the units of all layers to images, found in one pass that keeps no maps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import numpy as np

from ..utils.threads import map_tasks
from ..utils.types import Array, Indices
from .coder import PatchCoder, dense_encoders
from .pooling import receptive_fields
from .reading import ImageCollection


@dataclass(frozen=True)
class Answers:
    """Responses of the units of a layer to some images; -1 is the strongest in an area without a position."""

    codes: Array  # (n_samples, n_units), at random positions, the same number from each image if it has enough
    strongest: Array  # (n_images, n_areas, n_units), absolute
    places: Indices  # (n_images, n_areas, n_units, 2), top and left pixel of the part that the unit sees there


def scan_layers(
    coders: Sequence[PatchCoder],
    images: ImageCollection,
    n_samples: int,
    *,
    layers: Collection[int] | None = None,
    area_grid: int = 1,
    seed: int = 0,
    progress: Callable[[int], None] = lambda done: None,
) -> dict[int, Answers]:
    """Return the strongest responses of all units to some images, and their codes at random positions.

    ``n_samples`` positions in all images together are drawn by ``seed``. The strongest responses are found in area_grid
    x area_grid areas of each image. ``layers``, all by default, count from 0. Images must have a position in each
    layer. Maps are computed for one image at a time and are not kept. The result does not depend on the number of
    threads.
    """
    wanted = sorted(set(range(len(coders))) if layers is None else set(layers))
    used = coders[: max(wanted) + 1]
    steps = [step for _, step in receptive_fields([coder.geometry for coder in used])]
    makers = [dense_encoders(coder, exact=True) for coder in used]
    of_each = -(-n_samples // len(images))

    def new_worker() -> Callable[[int], list[_Watch]]:
        encoders = [make() for make in makers]

        def watched(number: int) -> list[_Watch]:
            image, random = images[number], np.random.RandomState([seed, number])
            found: list[_Watch] = []
            for k, (coder, encoder) in enumerate(zip(used, encoders, strict=True)):
                see = None
                if k in wanted:
                    found.append(_Watch(coder, steps[k], image.shape, of_each, area_grid, random))
                    see = found[-1].see
                _, below = encoder.encode(image, 1, k < max(wanted), see)
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
    """Keep the strongest responses of a layer's units to an image, and its codes at some positions."""

    def __init__(
        self,
        coder: PatchCoder,
        step: int,
        shape: tuple[int, ...],
        n_samples: int,
        area_grid: int,
        random: np.random.RandomState,
    ) -> None:
        self._shape, self._step, self._area_grid = coder.geometry.positions(*shape[:2]), step, area_grid
        n_positions = self._shape[0] * self._shape[1]
        n_units, n_areas = coder.n_codes, area_grid**2
        self._drawn = np.sort(random.choice(n_positions, min(n_samples, n_positions), replace=False))
        self.codes = np.empty((len(self._drawn), n_units), np.float32)
        self.strongest = np.full((n_areas, n_units), -1, np.float32)
        self.places = np.zeros((n_areas, n_units, 2), np.int32)

    def see(self, first_unit: int, positions: Indices, codes: Array) -> None:
        """Process the codes (n_positions, n_codes) of a group at some positions."""
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
            before = self.strongest[area, units]  # views, so that changes are written through
            better = strongest > before
            before[better] = strongest[better]
            self.places[area, units][better] = self._step * np.stack([rows[best], columns[best]], axis=1)[better]


def _together(watches: list[_Watch]) -> Answers:
    return Answers(
        np.concatenate([watch.codes for watch in watches]),
        np.stack([watch.strongest for watch in watches]),
        np.stack([watch.places for watch in watches]).astype(np.intp),
    )
