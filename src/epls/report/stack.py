"""Layers above the first: the parts of images that excite a unit most, and the units below that feed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images.features import ImageFeatures
from ..images.models import ModelLayer, layers_of
from ..images.reading import ImageCollection
from ..images.scan import Answers, scan_layers
from ..images.stack import DeepFeatures
from ..plotting import false_colors
from ..utils.types import Array, Indices
from .page import as_bytes, as_color, resized, sheet_of, short, thumbnail_of
from .units import TOP, layer_content, n_samples_for, some_of, unit_statistics

_MOST_UNITS = 240  # of a layer above the first; the page has nine parts of images for each
_PART_SIDES = (16, 48)  # pixels; parts of images are resized to multiples of 8 in this range
_STRONGEST = 8  # channels that feed a unit

Place = tuple[int, int, int]  # the number of an image, and the top and left pixel
Tops = list[list[tuple[Place, float]]]  # for each unit, the places that excite it most, with its responses


def part_layers(
    features: DeepFeatures,
    first: int,
    shown: ImageCollection,
    n_images: int,
    values: tuple[float, float],
    random: np.random.RandomState,
    progress: Callable[[int, int], None],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the content about each layer from the ``first`` upwards, and thumbnails of the shown images.

    ``values`` are the dark and the bright pixel value; ``progress`` is called with the number of images done and shown.
    """
    layers = layers_of(features)[first:]
    answers: dict[int, Answers] = {}
    # A unit has one part of an image in each area. Of few images, more than needed: overlapping parts are dropped.
    areas_per_side = 1 if len(shown) >= TOP else int(np.ceil(np.sqrt(2 * TOP / len(shown))))
    if layers:
        answers = scan_layers(
            features.coders(),
            shown,
            n_samples_for(sum(layer.n_units for layer in layers)),
            layers=range(first, first + len(layers)),
            area_grid=areas_per_side,
            seed=random.randint(2**31 - 1),
            progress=lambda done: progress(done, len(shown)),
        )
    inputs = _shown_units(layers)
    tops = [_strongest(answers[first + k], units.numbers, layers[k].sees) for k, units in enumerate(inputs)]
    sheets, thumbnails = _pictures(shown, tops, [layer.sees for layer in layers], values)
    contents = []
    for k, (units, top, mosaics) in enumerate(zip(inputs, tops, sheets, strict=True), first):
        which = units.about(None if units is inputs[-1] else k + 2)
        seen = some_of(len(shown), n_images, "images")
        content = _part_layer(answers[k], units, top, mosaics)
        content["facts"].insert(0, ["Shown here", f"{which}; {seen}"])
        content["summary"].insert(0, f"{which}, from {seen}")
        content["below"] = k - 1 if k > 0 else None
        contents.append(content)
    return contents, thumbnails


@dataclass(frozen=True)
class _UnitInputs:
    """Some units of a layer, in increasing order of their numbers, and the weights with which they see its channels."""

    layer: ModelLayer
    numbers: Indices
    groups: Indices  # the group of each unit
    weights: list[Array]  # of each unit: (patch_size, patch_size, channels of the group)

    def components(self) -> Array:
        """Return the components over all channels, (n, patch_size**2 * n_channels), to compare units across groups."""
        size = self.layer.patch_size
        room = np.zeros((len(self.numbers), size, size, self.layer.n_channels), np.float32)
        for place, group, weights in zip(room, self.groups, self.weights, strict=True):
            place[:, :, self.layer.channels[group]] = weights
        return room.reshape(len(room), -1)

    def strongest(self, k: int) -> tuple[Indices, Array]:
        """Return the channels with the largest shares in the energy of the ``k``-th unit, and these shares."""
        energies = np.square(self.weights[k]).sum(axis=(0, 1), dtype=np.float64)
        shares = energies / (energies.sum() or 1.0)
        strongest = np.argsort(-shares, kind="stable")[:_STRONGEST]
        return strongest, shares[strongest]

    def feeds(self, k: int) -> list[dict[str, Any]]:
        """Describe the strongest channels of the ``k``-th unit.

        Each has its share, the sign of the sum of its weights, and its weights, row by row, in percent of the unit's
        largest weight.
        """
        weights, channels = self.weights[k], self.layer.channels[self.groups[k]]
        percent = np.rint(100 * weights / (np.abs(weights).max() or 1.0)).astype(int)
        return [
            {
                "channel": int(channels[c]),
                "share": round(float(share), 4),
                "sign": int(np.sign(weights[:, :, c].sum())),
                "weights": percent[:, :, c].ravel().tolist(),
            }
            for c, share in zip(*self.strongest(k), strict=True)
        ]

    def most_used(self) -> Indices:
        """Return the channels that are among the strongest of any unit, those with the largest total share first."""
        totals = np.zeros(self.layer.n_channels)
        for k, group in enumerate(self.groups):
            strongest, shares = self.strongest(k)
            totals[self.layer.channels[group][strongest]] += shares
        return np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)]

    def about(self, above: int | None) -> str:
        """Describe which units these are; ``above`` is the number of the layer that they feed, if there is one."""
        n_shown, n_units = len(self.numbers), self.layer.n_units
        if n_shown == n_units:
            return f"all {n_units:,} units"
        feeding = "" if above is None else f"those that feed the units shown of layer {above} most, and others "
        return f"{n_shown:,} of {n_units:,} units, {feeding}evenly spread"


def _inputs_of(layer: ModelLayer, numbers: Indices) -> _UnitInputs:
    counts = [group.encoder_.n_codes for group in layer.groups]
    groups = np.searchsorted(np.cumsum(counts), numbers, side="right")
    firsts = np.cumsum([0, *counts])
    components = [_signed_components(group) for group in layer.groups]
    shape = (layer.patch_size, layer.patch_size, -1)
    weights = [components[g][number - firsts[g]].reshape(shape) for g, number in zip(groups, numbers, strict=True)]
    return _UnitInputs(layer, numbers, groups, weights)


def _signed_components(features: ImageFeatures) -> Array:
    """Return the component of each code. If the encoder splits signs, the mirrored components follow."""
    components = features.encoder_.components()
    n_codes = features.encoder_.n_codes
    if n_codes == len(components):
        return components
    if n_codes == 2 * len(components):
        return np.concatenate([components, -components])
    raise ValueError(
        f"the model has {len(components)} components but returns {n_codes} codes: a report requires one code "
        f"for each component, or two (one for each sign)"
    )


def _shown_units(layers: Sequence[ModelLayer]) -> list[_UnitInputs]:
    """Return the units to show of each layer: evenly spread ones, and below the highest also those that feed them."""
    chosen: list[_UnitInputs] = []
    feeding: Indices = np.empty(0, np.intp)
    for layer in reversed(layers):
        numbers = np.arange(layer.n_units)
        if layer.n_units > _MOST_UNITS:
            feeding = feeding[: 3 * _MOST_UNITS // 4]
            others = np.setdiff1d(numbers, feeding)
            n_others = _MOST_UNITS - len(feeding)
            numbers = np.union1d(feeding, others[np.arange(n_others) * len(others) // n_others])
        chosen.insert(0, _inputs_of(layer, numbers))
        feeding = chosen[0].most_used()
    return chosen


def _strongest(answers: Answers, units: Indices, sees: int) -> Tops:
    """For each unit, return the places that excite it most, from different images if possible."""
    n_images, n_areas, _ = answers.strongest.shape
    most_of_image = -(-TOP // n_images)
    found = []
    for unit in units:
        strongest = answers.strongest[:, :, unit].ravel()
        chosen: list[tuple[Place, float]] = []
        for k in np.argsort(-strongest, kind="stable"):
            number, area = divmod(int(k), n_areas)
            if strongest[k] < 0 or len(chosen) == TOP:
                break
            top, left = answers.places[number, area, unit].tolist()
            same = [place for place, _ in chosen if place[0] == number]
            if len(same) < most_of_image and all(
                max(abs(place[1] - top), abs(place[2] - left)) > sees // 2 for place in same
            ):
                chosen.append(((number, top, left), float(strongest[k])))
        found.append(chosen)
    return found


def _pictures(
    images: ImageCollection, tops: Sequence[Tops], sizes: Sequence[int], values: tuple[float, float]
) -> tuple[list[NDArray[np.uint8]], list[dict[str, Any]]]:
    """For each layer, return mosaics (unit, row, y, column, x, 3) of the strongest parts, and thumbnails of images."""
    sides = [int(np.clip(8 * -(-size // 8), *_PART_SIDES)) for size in sizes]
    rooms = []
    for of_layer, side in zip(tops, sides, strict=True):
        n_across = int(np.ceil(np.sqrt(max(map(len, of_layer)))))
        rooms.append(np.full((len(of_layer), n_across, side, n_across, side, 3), 128, np.uint8))
    wanted: list[list[tuple[int, int, int, Place]]] = [[] for _ in range(len(images))]
    for k, of_layer in enumerate(tops):
        for unit, top in enumerate(of_layer):
            for rank, (place, _) in enumerate(top):
                wanted[place[0]].append((k, unit, rank, place))
    thumbnails = []
    for number, parts in enumerate(wanted):
        image = images[number]
        thumbnails.append(thumbnail_of(image, images.name(number), values))
        colors = false_colors(image)
        for k, unit, rank, (_, top_row, left) in parts:
            part = as_bytes(colors[top_row : top_row + sizes[k], left : left + sizes[k]], *values)
            row, column = divmod(rank, rooms[k].shape[1])
            rooms[k][unit, row, :, column] = resized(as_color(part), sides[k])
    return rooms, thumbnails


def _part_layer(answers: Answers, inputs: _UnitInputs, tops: Tops, mosaics: NDArray[np.uint8]) -> dict[str, Any]:
    """Return the content about a layer whose units are shown by parts of images."""
    layer = inputs.layer
    encoder = type(layer.groups[0].encoder_).__name__
    n_positions = f"{len(answers.codes):,} random positions"
    content = layer_content(
        unit_statistics(answers.codes, inputs.components(), n_top=1, units=inputs.numbers),
        "positions",
        [group.estimator_ for group in layer.groups],
        facts=[("Outputs", f"codes of {encoder}; figures and charts are from {n_positions}")],
        about=[],
        numbers=inputs.numbers,
        measures={"group": inputs.groups.tolist()} if len(layer.groups) > 1 else {},
    )
    content["kind"] = "parts"
    side = mosaics.shape[1] * mosaics.shape[2]
    content["tiles"] = sheet_of(mosaics.reshape(-1, side, side, 3), photographs=True)
    content["across"] = mosaics.shape[1]
    content["size"] = layer.sees
    content["top"] = [[{"place": list(place), "answer": short(answer)} for place, answer in top] for top in tops]
    content["feeds"] = [inputs.feeds(k) for k in range(len(inputs.numbers))]
    content["patch"] = layer.patch_size
    return content
