"""The part of a page about units that see pixels: their filters, and patches that excite them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoders.natural import NaturalEncoder
from ..images.collection import ImageCollection, Images
from ..images.features import ImageFeatures
from ..images.patches import sample_placed_patches
from ..plotting import colors_shown, false_colors, filter_pictures
from . import pictures
from .content import (
    TOP,
    charts_of,
    checked_codes,
    figures_of,
    measures_of,
    n_samples_for,
    of_units,
    rounded,
    sheet_of,
    short,
    some_images,
    thumbnail_of,
    values_of,
)
from .filters import filter_statistics
from .units import unit_statistics

_MOST_IMAGES = 200
_VALUES = 2**27  # of patches of many channels: half a gigabyte
_CANDIDATES = 4  # times as many, of which some overlap
_PATCH_BYTES = 3_500_000  # of all top patches, before they are compressed
_LARGEST_TILE = 24  # pixels; of patches and filters that are larger, pixels are averaged


def of_images(model: ImageFeatures, X: Images, random: np.random.RandomState) -> dict[str, Any]:
    """The content of a page about ``ImageFeatures``."""
    images, shown = some_images(model, X, _MOST_IMAGES, random)
    values = values_of(shown)
    layer = filter_layer(model, shown, len(images), values, random)
    return {
        "layers": [layer],
        "images": [thumbnail_of(shown[k], shown.name(k), values) for k in range(len(shown))],
    }


def filter_layer(
    model: ImageFeatures,
    shown: ImageCollection,
    n_images: int,
    values: tuple[float, float],
    random: np.random.RandomState,
) -> dict[str, Any]:
    """What a page tells of a layer that sees the images that are shown, out of ``n_images``."""
    components = model.encoder_.components()
    n_samples = min(n_samples_for(len(components)), max(_VALUES // components.shape[1], 1000))
    pixels, places = sample_placed_patches(shown, n_samples, model.patch_size, random_state=random)
    places, different = np.unique(places, axis=0, return_index=True)  # small images have fewer than are drawn
    pixels = pixels[different]
    codes = checked_codes(NaturalEncoder(model.estimator_).transform(model.prepare_patches(pixels)), components)
    # More than are shown: patches that overlap are much the same.
    statistics = unit_statistics(codes, components, n_top=_CANDIDATES * TOP)
    shape = (model.patch_size, model.patch_size, model.n_channels_)
    filters = components.reshape(-1, *shape)
    of_filters = filter_statistics(filters)
    size = model.patch_size
    content = of_units(statistics, "patches")
    content["units"] |= {
        "frequency": rounded(of_filters.frequency),
        "orientation": rounded(of_filters.orientation),
        "color": rounded(of_filters.color),
    }
    content["kind"] = "images"
    content["tiles"] = sheet_of(pictures.as_color(filter_pictures(pictures.shrunk(filters, _LARGEST_TILE))))
    tile_bytes = 3 * min(size, _LARGEST_TILE) ** 2
    n_top = min(TOP, max(1, _PATCH_BYTES // (tile_bytes * len(components))))
    top = [_apart(samples, places, model.patch_size, n_top) for samples in statistics.strongest]
    used = np.unique(np.concatenate(top))
    tiles = pictures.shrunk(pictures.as_bytes(false_colors(pixels[used].reshape(-1, *shape)), *values), _LARGEST_TILE)
    content["patches"] = sheet_of(pictures.as_color(tiles))
    content["size"] = size
    content["top"] = [
        [
            {"tile": int(np.searchsorted(used, k)), "place": places[k].tolist(), "answer": short(abs(codes[k, unit]))}
            for k in samples
        ]
        for unit, samples in enumerate(top)
    ]
    encoder = type(model.encoder_).__name__
    whitened = ", whitened" if model.whiten else ""
    settings = f"stride {model.stride}, {model.pooling} pooling"
    content["facts"] = [
        ["Model", f"{type(model.estimator_).__name__}, {len(components)} units"],
        ["A unit sees", f"{size} x {size} pixels, {model.n_channels_} channel(s){whitened}"],
        ["Shown here", f"{len(codes):,} different patches of {len(shown):,} out of {n_images:,} images"],
        ["Answers", f"the learner's own; features of images are made by {encoder}, {settings}"],
        *figures_of(statistics),
    ]
    if (told := colors_shown(model.n_channels_)) is not None:
        content["facts"].append(["Colours", f"of filters and images are not true: {told}"])
    content["charts"] = charts_of([model.estimator_], statistics)
    content["measures"] = measures_of(content)
    return content


def _apart(samples: NDArray[np.intp], places: NDArray[np.intp], size: int, n_top: int) -> list[int]:
    """The first of these patches that do not overlap by half with one before them."""
    chosen: list[int] = []
    for k in samples:
        away = np.abs(places[chosen] - places[k])
        if not ((away[:, 0] == 0) & (away[:, 1] <= size // 2) & (away[:, 2] <= size // 2)).any():
            chosen.append(int(k))
            if len(chosen) == n_top:
                break
    return chosen
