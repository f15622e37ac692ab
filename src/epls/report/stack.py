"""Layers above the first: the parts of images that excite a unit most, and the units below that feed it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..images.features import ImageFeatures
from ..images.models import ImageModel, ModelLayer, layers_of
from ..images.reading import ImageCollection
from ..images.scan import Answers, scan_layers
from ..utils.types import Array, Indices
from .page import as_picture, resized, sheet_of, short, thumbnail_of
from .units import TOP, apart, layer_content, n_samples_for

_MOST_UNITS = 240  # of a layer above the first; the page has nine parts of images for each
_PART_SIDES = (16, 48)  # pixels; parts of images are resized to multiples of 8 in this range
_STRONGEST = 8  # channels that feed a unit

Tops = list[list[dict[str, Any]]]  # for each unit, the places (image, top, left) that excite it most, and its responses


def part_layers(
    features: ImageModel,
    first: int,
    shown: ImageCollection,
    seen: str,
    values: tuple[float, float],
    random: np.random.RandomState,
    progress: Callable[[int, int], None],
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the content about each layer from the ``first`` upwards, and thumbnails of the shown images.

    ``seen`` says which images are shown. ``values`` are the dark and the bright pixel value; ``progress`` is called
    with the number of images done and shown.
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
    chosen = _shown_units(layers)
    tops = [_strongest(answers[k], units.numbers, units.layer.sees) for k, units in enumerate(chosen, first)]
    mosaics, thumbnails = _pictures(shown, tops, [layer.sees for layer in layers], values)
    contents = []
    for k, (units, top, tiles) in enumerate(zip(chosen, tops, mosaics, strict=True), first):
        layer, codes = units.layer, answers[k].codes
        which = _about_units(units, None if units is chosen[-1] else k + 2)
        outputs = f"codes of {type(layer.groups[0].encoder_).__name__}"
        content = layer_content(
            codes,
            units.weights.reshape(len(units.weights), -1),  # over all channels, to compare units across groups
            [group.estimator_ for group in layer.groups],
            "positions",
            facts=[
                ("Shown here", f"{which}; {seen}"),
                ("Outputs", f"{outputs}; figures and charts are from {len(codes):,} random positions"),
            ],
            about=[f"{which}, from {seen}"],
            numbers=units.numbers,
            measures={"group": units.groups} if len(layer.groups) > 1 else {},
        )
        side = tiles.shape[1] * tiles.shape[2]
        contents.append(
            content
            | {
                "kind": "parts",
                "tiles": sheet_of(tiles.reshape(-1, side, side, 3), photographs=True),
                "across": tiles.shape[1],
                "size": layer.sees,
                "top": top,
                "feeds": units.feeds,
                "patch": layer.patch_size,
                "below": k - 1 if k > 0 else None,
            }
        )
    return contents, thumbnails


class _Units(NamedTuple):
    """Some units of a layer, in increasing order of their numbers."""

    layer: ModelLayer
    numbers: Indices
    groups: Indices  # the group of each unit
    weights: Array  # (n, patch_size, patch_size, n_channels), 0 for channels that the unit's group does not see
    feeds: list[list[dict[str, Any]]]  # of each unit, the strongest channels first


def _shown_units(layers: Sequence[ModelLayer]) -> list[_Units]:
    """Return the units to show of each layer: evenly spread ones, and below the highest also those that feed them."""
    chosen: list[_Units] = []
    feeding: Indices = np.empty(0, np.intp)
    for layer in reversed(layers):
        numbers = np.arange(layer.n_units)
        if layer.n_units > _MOST_UNITS:
            feeding = feeding[: 3 * _MOST_UNITS // 4]
            others = np.setdiff1d(numbers, feeding)
            n_others = _MOST_UNITS - len(feeding)
            numbers = np.union1d(feeding, others[np.arange(n_others) * len(others) // n_others])
        chosen.insert(0, _units_of(layer, numbers))
        totals = np.zeros(layer.n_channels)
        for entry in (entry for feeds in chosen[0].feeds for entry in feeds):
            totals[entry["channel"]] += entry["share"]
        feeding = np.argsort(-totals, kind="stable")[: np.count_nonzero(totals)]
    return chosen


def _units_of(layer: ModelLayer, numbers: Indices) -> _Units:
    components = [_signed_components(group) for group in layer.groups]
    firsts = np.cumsum([0, *map(len, components)])
    groups = np.searchsorted(firsts, numbers, side="right") - 1
    size = layer.patch_size
    weights = np.zeros((len(numbers), size, size, layer.n_channels), np.float32)
    feeds = []
    for own, number, group in zip(weights, numbers, groups, strict=True):
        channels = layer.channels[group]
        own[:, :, channels] = components[group][number - firsts[group]].reshape(size, size, -1)
        feeds.append(_feeds(own, channels))
    return _Units(layer, numbers, groups, weights, feeds)


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


def _feeds(weights: Array, channels: Indices) -> list[dict[str, Any]]:
    """Describe those of a unit's channels with the largest shares in the energy of its weights.

    Each has its share, the sign of the sum of its weights, and its weights, row by row, in percent of the unit's
    largest weight.
    """
    energies = np.square(weights).sum(axis=(0, 1), dtype=np.float64)
    shares = energies / (energies.sum() or 1.0)
    percent = np.rint(100 * weights / (np.abs(weights).max() or 1.0)).astype(int)
    return [
        {
            "channel": int(c),
            "share": round(float(shares[c]), 4),
            "sign": int(np.sign(weights[:, :, c].sum())),
            "weights": percent[:, :, c].ravel(),
        }
        for c in channels[np.argsort(-shares[channels], kind="stable")[:_STRONGEST]]
    ]


def _about_units(units: _Units, above: int | None) -> str:
    """Describe which units are shown; ``above`` is the number of the layer that they feed, if there is one."""
    n_shown, n_units = len(units.numbers), units.layer.n_units
    if n_shown == n_units:
        return f"all {n_units:,} units"
    feeding = "" if above is None else f"those that feed the units shown of layer {above} most, and others "
    return f"{n_shown:,} of {n_units:,} units, {feeding}evenly spread"


def _strongest(answers: Answers, units: Indices, sees: int) -> Tops:
    """For each unit, return the places that excite it most, from different images if possible."""
    n_images, n_areas, _ = answers.strongest.shape
    found = []
    for unit in units:
        strongest = answers.strongest[:, :, unit].ravel()
        order = np.argsort(-strongest, kind="stable")[: np.count_nonzero(strongest >= 0)]
        places = np.column_stack([order // n_areas, answers.places[:, :, unit].reshape(-1, 2)[order]])
        chosen = apart(places, sees, TOP, most_of_image=-(-TOP // n_images))
        found.append([{"place": places[k].tolist(), "answer": short(strongest[order[k]])} for k in chosen])
    return found


def _pictures(
    images: ImageCollection, tops: Sequence[Tops], sizes: Sequence[int], values: tuple[float, float]
) -> tuple[list[NDArray[np.uint8]], list[dict[str, Any]]]:
    """For each layer, return mosaics (unit, row, y, column, x, 3) of the strongest parts, and thumbnails of images."""
    rooms = []
    wanted: list[list[tuple[NDArray[np.uint8], int, int, int]]] = [[] for _ in range(len(images))]
    for of_layer, size in zip(tops, sizes, strict=True):
        side = int(np.clip(8 * -(-size // 8), *_PART_SIDES))
        n_across = int(np.ceil(np.sqrt(max(map(len, of_layer)))))
        room = np.full((len(of_layer), n_across, side, n_across, side, 3), 128, np.uint8)
        rooms.append(room)
        for mosaic, top in zip(room, of_layer, strict=True):
            for rank, entry in enumerate(top):
                number, row, column = entry["place"]
                wanted[number].append((mosaic[rank // n_across, :, rank % n_across], row, column, size))
    thumbnails = []
    for number, parts in enumerate(wanted):
        picture = as_picture(images[number], values)
        thumbnails.append(thumbnail_of(picture, images.name(number)))
        for place, row, column, size in parts:
            place[...] = resized(picture[row : row + size, column : column + size], len(place))
    return rooms, thumbnails
