"""The part of a page about units that see pixels: their filters, and the patches that excite them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..encoders.natural import NaturalEncoder
from ..images.features import ImageFeatures
from ..images.patches import sample_placed_patches
from ..images.reading import ImageCollection, Images
from ..plotting import colors_shown, false_colors, filter_pictures
from . import pictures
from .content import (
    TOP,
    charts_of,
    checked_codes,
    figures_of,
    in_channels,
    measures_of,
    n_samples_for,
    of_units,
    rounded,
    sheet_of,
    short,
    some_images,
    some_of,
    summary_of,
    thumbnail_of,
    values_of,
)
from .filters import filter_statistics
from .units import unit_statistics

_MOST_IMAGES = 200
_VALUES = 2**27  # of patches with many channels: half a gigabyte
_CANDIDATES = 4  # times as many, because some overlap
_PATCH_BYTES = 3_500_000  # of all top patches, before they are compressed
_LARGEST_TILE = 24  # pixels; larger patches and filters are averaged down


def of_images(model: ImageFeatures, X: Images, random: np.random.RandomState) -> dict[str, Any]:
    """Return the content of a page about ``ImageFeatures``."""
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
    """Return the content about a layer that sees pixels of the shown images, out of ``n_images``."""
    components = model.encoder_.components()
    n_samples = min(n_samples_for(len(components)), max(_VALUES // components.shape[1], 1000))
    pixels, places = sample_placed_patches(shown, n_samples, model.patch_size, random_state=random)
    places, different = np.unique(places, axis=0, return_index=True)  # small images have fewer than are drawn
    pixels = pixels[different]
    codes = checked_codes(NaturalEncoder(model.estimator_).transform(model.prepare_patches(pixels)), components)
    # More than are shown, because overlapping patches look much the same.
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
    seen = f"{len(codes):,} patch{'es' * (len(codes) != 1)} from {some_of(len(shown), n_images, 'images')}"
    content["facts"] = [
        ["Model", f"{type(model.estimator_).__name__}, {len(components)} units"],
        ["A unit sees", f"{size} x {size} pixels {in_channels(model.n_channels_)}{whitened}"],
        ["Shown here", seen],
        ["Outputs", f"the learner's own; features of images are computed by {encoder}, {settings}"],
        *figures_of(statistics, "patches"),
    ]
    about = f"{type(model.estimator_).__name__}, {len(components):,} units of {size} x {size} pixels"
    content["summary"] = summary_of(statistics, about, seen)
    if (told := colors_shown(model.n_channels_)) is not None:
        content["facts"].append(["Colors", f"filters and images are shown in false colors: {told}"])
    content["charts"] = charts_of([model.estimator_], statistics)
    content["measures"] = measures_of(content)
    return content


def _apart(samples: NDArray[np.intp], places: NDArray[np.intp], size: int, n_top: int) -> list[int]:
    """Return the first of these patches, without those that overlap by half with an earlier one."""
    chosen: list[int] = []
    for k in samples:
        away = np.abs(places[chosen] - places[k])
        if not ((away[:, 0] == 0) & (away[:, 1] <= size // 2) & (away[:, 2] <= size // 2)).any():
            chosen.append(int(k))
            if len(chosen) == n_top:
                break
    return chosen
