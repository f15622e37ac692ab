"""The part of a page about a stack of layers.

The page shows units of the first layer by their filters. Units of higher layers do not see pixels, so it shows the
parts of images that excite them most, and the units below that feed them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images.models import ModelLayer, layers_of
from ..images.reading import ImageCollection, Images
from ..images.scan import Answers, scan_layers
from ..images.stack import DeepFeatures
from ..plotting import false_colors
from ..utils.types import Indices
from . import pictures
from .content import (
    TOP,
    charts_of,
    figures_of,
    in_channels,
    measures_of,
    n_samples_for,
    of_units,
    sheet_of,
    short,
    some_images,
    some_of,
    summary_of,
    thumbnail_of,
    values_of,
)
from .images import filter_layer
from .inputs import UnitInputs, inputs_of
from .units import unit_statistics

_MOST_IMAGES = 300
_MOST_UNITS = 240  # of a layer above the first; the page has nine parts of images for each
_PART_SIDES = (16, 48)  # pixels; parts of images are resized to multiples of 8 in this range

Place = tuple[int, int, int]  # the number of an image, and the top and left pixel


def of_stack(
    features: DeepFeatures, X: Images, random: np.random.RandomState, progress: Callable[[str, int, int], None]
) -> dict[str, Any]:
    """Return the content of a page about ``DeepFeatures``."""
    layers = layers_of(features)
    images, shown = some_images(features, X, _MOST_IMAGES, random)
    values = values_of(shown)
    contents: list[dict[str, Any]] = []
    if len(layers[0].groups) == 1:  # otherwise its units see different channels, and have no filters to draw
        contents.append(filter_layer(layers[0].groups[0], shown, len(images), values, random))
        del (
            contents[0]["facts"][:2],
            contents[0]["summary"][0],
        )  # model and what a unit sees are described for each layer below
    scanned = range(len(contents), len(layers))
    answers: dict[int, Answers] = {}
    if scanned:
        answers = scan_layers(
            features.coders(),
            shown,
            n_samples_for(sum(layers[k].n_units for k in scanned)),
            layers=scanned,
            area_grid=_area_grid(len(shown)),
            seed=random.randint(2**31 - 1),
            progress=lambda done: progress("encode", done, len(shown)),
        )
    inputs = _shown_units([layers[k] for k in scanned])
    tops = [_strongest(answers[k], units.numbers, layers[k].sees) for k, units in zip(scanned, inputs, strict=True)]
    sides = [layers[k].sees for k in scanned]
    sheets, thumbnails = _pictures(shown, tops, sides, values)
    for k, units, top, mosaics in zip(scanned, inputs, tops, sheets, strict=True):
        content = _part_layer(layers[k], answers[k], units, top, mosaics)
        which = _about_units(units, is_highest=k == len(layers) - 1, above=k + 2)
        images_shown = some_of(len(shown), len(images), "images")
        content["facts"].insert(0, ["Shown here", f"{which}; {images_shown}"])
        content["summary"].insert(0, f"{which}, from {images_shown}")
        content["below"] = k - 1 if k > 0 else None
        contents.append(content)
    for k, (content, layer) in enumerate(zip(contents, layers, strict=True)):
        content["facts"] = [
            ["Layer", f"{k + 1} of {len(layers)}: {_about_learner(layer)}"],
            ["A unit sees", _about_field(layer, k)],
            *content["facts"],
        ]
        content["summary"].insert(0, f"each unit sees {_about_field(layer, k)}")
        content["about"] = f"{layer.n_units:,} units, each sees {layer.sees} x {layer.sees} pixels"
        content["intro"] = _intro(content, k, len(shown))
    return {"layers": contents, "images": thumbnails}


def _area_grid(n_images: int) -> int:
    """Return the number of areas per side to cut each image into. A unit has one part of an image in each area."""
    if n_images >= TOP:
        return 1
    return int(np.ceil(np.sqrt(2 * TOP / n_images)))  # more than needed, since overlapping parts are dropped


def _shown_units(layers: Sequence[ModelLayer]) -> list[UnitInputs]:
    """Return the units to show of each layer: evenly spread ones, and below the highest also those that feed them."""
    chosen: list[UnitInputs] = []
    feeding: Indices = np.empty(0, np.intp)
    for layer in reversed(layers):
        numbers = np.arange(layer.n_units)
        if layer.n_units > _MOST_UNITS:
            feeding = feeding[: 3 * _MOST_UNITS // 4]
            others = np.setdiff1d(numbers, feeding)
            n_others = _MOST_UNITS - len(feeding)
            numbers = np.union1d(feeding, others[np.arange(n_others) * len(others) // n_others])
        chosen.insert(0, inputs_of(layer, numbers))
        feeding = chosen[0].most_used()
    return chosen


def _strongest(answers: Answers, units: Indices, sees: int) -> list[list[tuple[Place, float]]]:
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
    images: ImageCollection,
    tops: Sequence[list[list[tuple[Place, float]]]],
    sizes: Sequence[int],
    values: tuple[float, float],
) -> tuple[list[NDArray[np.uint8]], list[dict[str, Any]]]:
    """For each layer, return a mosaic of the strongest parts of each unit, and thumbnails. Each image is read once."""
    sides = [int(np.clip(8 * -(-size // 8), *_PART_SIDES)) for size in sizes]
    across = [int(np.ceil(np.sqrt(max(map(len, of_units))))) for of_units in tops]
    rooms = [
        np.full((len(of_units), n, side, n, side, 3), 128, np.uint8)
        for of_units, n, side in zip(tops, across, sides, strict=True)
    ]
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
            part = pictures.as_bytes(colors[top_row : top_row + sizes[k], left : left + sizes[k]], *values)
            row, column = divmod(rank, across[k])
            rooms[k][unit, row, :, column] = pictures.resized(pictures.as_color(part), sides[k])
    mosaics = [
        room.reshape(len(room), n * side, n * side, 3) for room, n, side in zip(rooms, across, sides, strict=True)
    ]
    return mosaics, thumbnails


def _part_layer(
    layer: ModelLayer,
    answers: Answers,
    inputs: UnitInputs,
    tops: list[list[tuple[Place, float]]],
    mosaics: NDArray[np.uint8],
) -> dict[str, Any]:
    """Return the content about a layer whose units are shown by parts of images."""
    statistics = unit_statistics(answers.codes, inputs.components(), n_top=1, units=inputs.numbers)
    content = of_units(statistics, "positions", inputs.numbers)
    if len(layer.groups) > 1:
        content["units"]["group"] = inputs.groups.tolist()
    content["kind"] = "parts"
    content["tiles"] = sheet_of(mosaics, photographs=True)
    content["across"] = int(np.ceil(np.sqrt(max(map(len, tops)))))
    content["size"] = layer.sees
    content["top"] = [[{"place": list(place), "answer": short(answer)} for place, answer in top] for top in tops]
    content["feeds"] = [inputs.strongest(k) for k in range(len(inputs.numbers))]
    content["patch"] = layer.patch_size
    answered = f"codes of {type(layer.groups[0].encoder_).__name__}; figures and charts are from"
    content["facts"] = [
        ["Outputs", f"{answered} {len(answers.codes):,} random positions"],
        *figures_of(statistics, "positions"),
    ]
    content["summary"] = summary_of(statistics)
    content["charts"] = charts_of([group.estimator_ for group in layer.groups], statistics)
    content["measures"] = measures_of(content)
    return content


def _about_units(units: UnitInputs, is_highest: bool, above: int) -> str:
    n_shown, n_units = len(units.numbers), units.layer.n_units
    if n_shown == n_units:
        return f"all {n_units:,} units"
    feeding = "" if is_highest else f"those that feed the units shown of layer {above} most, and others "
    return f"{n_shown:,} of {n_units:,} units, {feeding}evenly spread"


def _about_learner(layer: ModelLayer) -> str:
    groups = f" in {len(layer.groups)} groups" if len(layer.groups) > 1 else ""
    return f"{type(layer.groups[0].estimator_).__name__}, {layer.n_units:,} units{groups}"


def _about_field(layer: ModelLayer, k: int) -> str:
    n_seen, pixels = len(layer.channels[0]), f"{layer.sees} x {layer.sees} pixels of the image"
    whitened = ", whitened" if layer.groups[0].whiten else ""
    if k == 0:
        return (
            f"{pixels}, {n_seen} of {layer.n_channels} channels{whitened}"
            if n_seen < layer.n_channels
            else f"{pixels} {in_channels(n_seen)}{whitened}"
        )
    units = f"{n_seen} of the {layer.n_channels:,} units of layer {k}" if n_seen < layer.n_channels else f"layer {k}"
    return f"{pixels}, through {units} at {layer.patch_size} x {layer.patch_size} places{whitened}"


def _intro(content: dict[str, Any], k: int, n_images: int) -> str:
    if content["kind"] == "images":
        return "Units of the first layer see pixels. Each tile is the filter of a unit: what it looks for in a patch."
    different = ", each in another image" if n_images >= TOP else ""
    below = f"the units of layer {k} that feed it" if k > 0 else "the channels of the image that feed it"
    return (
        f"Each tile shows the {max(map(len, content['top']))} parts of images that excite a unit most{different}. "
        f"Choose a unit to see them in their images, and {below}."
    )
