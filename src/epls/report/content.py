"""Content that all pages about models share: figures of units, facts, charts and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images.models import ImageModel
from ..images.reading import ImageCollection, Images
from ..plotting import false_colors
from ..utils.types import Array, Indices
from . import pictures
from .units import N_BINS, UnitStatistics

TOP = 9  # strongest patches, samples or parts of images for each unit
_CODES = 48_000_000  # 192 MB; a few times as much is needed
_MOST_SAMPLES = 30_000
_THUMBNAIL = 160  # pixels

# Key, name, unit, explanation. The last ones apply to some layers only.
_MEASURES = [
    ("number", "number", "", "as in the model"),
    ("mean", "activity", "", "mean output over all {samples}"),
    ("often", "how often", "%", "of the {samples} with more than half of its largest output"),
    ("wins", "wins", " {samples}", "for which its output is the largest of all units"),
    ("lifetime", "lifetime sparsity", " of 1", "1 if it responds to one of the {samples}, 0 if to all equally"),
    ("redundancy", "redundancy", " of 1", "absolute cosine to the most similar unit; 1 if they are the same"),
    ("group", "group", "", "units of a group see the same channels of the layer below"),
    (
        "frequency",
        "spatial frequency",
        " waves/pixel",
        "how fine its strongest stripes are; 0.5: they change from each pixel to the next",
    ),
    (
        "orientation",
        "orientation",
        "\N{DEGREE SIGN}",
        "of its stripes: 0\N{DEGREE SIGN} is horizontal, 90\N{DEGREE SIGN} vertical",
    ),
    ("color", "color", "%", "of its energy is not gray"),
]


def of_units(statistics: UnitStatistics, samples: str, numbers: Indices | None = None) -> dict[str, Any]:
    """Return the figures of units, with their numbers in the model. Similar units are given by their position here."""
    numbers = np.arange(len(statistics.mean)) if numbers is None else numbers
    return {
        "samples": samples,
        "units": {
            "number": numbers.tolist(),
            "mean": rounded(statistics.mean),
            "largest": rounded(statistics.largest),
            "often": rounded(statistics.often),
            "wins": statistics.wins.tolist(),
            "lifetime": rounded(statistics.lifetime_sparsity),
            "redundancy": rounded(statistics.redundancy),
        },
        "histogram": statistics.histogram.tolist(),
        "nearest": _neighbors(statistics.nearest, statistics.cosines),
        "together": _neighbors(statistics.together, statistics.correlations),
        "dead": np.flatnonzero(np.isin(numbers, statistics.dead)).tolist(),
    }


def measures_of(content: dict[str, Any]) -> list[dict[str, str]]:
    """Return the measures that units can be sorted by, if there are figures for them."""
    told = {"samples": content["samples"]}
    return [
        {"key": key, "name": name} | {"unit": unit.format(**told), "explanation": explanation.format(**told)}
        for key, name, unit, explanation in _MEASURES
        if key in content["units"]
    ]


def figures_of(statistics: UnitStatistics, samples: str) -> list[list[str]]:
    """Return the names and explained values of the key figures; ``samples`` says what the samples are called."""
    population, lifetime, most = _first_figures(statistics)
    return [
        ["Dead units", f"{dead_units_of(statistics)}. A dead unit responds to all {samples} in the same way."],
        [
            "Population sparsity",
            f"{population}. It is 1 if one unit responds to each of the {samples}, 0 if all respond equally.",
        ],
        ["Lifetime sparsity", f"{lifetime}. It is 1 if a unit responds to one of the {samples}, 0 if to all equally."],
        ["Most similar pair", f"cosine {most}. It is 1 if two units are the same, 0 if they have nothing in common."],
    ]


def summary_of(statistics: UnitStatistics, *first: str) -> list[str]:
    """Describe a layer in one line: first the model and the data, then the key figures."""
    population, lifetime, most = _first_figures(statistics)
    return [
        *first,
        dead_units_of(statistics),
        f"population sparsity {population}",
        f"lifetime sparsity {lifetime}",
        f"most similar pair: cosine {most}",
    ]


def dead_units_of(statistics: UnitStatistics) -> str:
    """Describe the number of dead units in words."""
    return f"{len(statistics.dead):,} dead unit{'s' * (len(statistics.dead) != 1)}"


def _first_figures(statistics: UnitStatistics) -> tuple[str, str, str]:
    figures = (
        statistics.population_sparsity.mean(),
        statistics.lifetime_sparsity.mean(),
        statistics.redundancy.max(),
    )
    population, lifetime, most = (f"{figure:.2f}" for figure in figures)
    return population, lifetime, most


def in_channels(n_channels: int) -> str:
    """Describe the number of channels in words."""
    return {1: "in gray", 3: "in color"}.get(n_channels, f"in {n_channels} channels")


def some_of(n_shown: int, n_all: int, what: str) -> str:
    """Describe how many of how many in words.

    Examples
    --------
    >>> some_of(24, 24, "images"), some_of(200, 5000, "images"), some_of(1, 1, "images")
    ('all 24 images', '200 of 5,000 images', '1 image')
    """
    if n_shown < n_all:
        return f"{n_shown:,} of {n_all:,} {what}"
    return f"all {n_all:,} {what}" if n_all > 1 else f"1 {what.removesuffix('s')}"


def charts_of(learners: Sequence[Any], statistics: UnitStatistics) -> list[dict[str, str]]:
    """Return charts of the training and of the figures of units."""
    charts = []
    curve = _mean_curve([np.asarray(getattr(learner, "loss_curve_", []), float) for learner in learners])
    if len(curve) > 1:
        svg = pictures.line_chart(curve, "epoch", "error")
        mean = ", the mean of all groups" if len(learners) > 1 else ""
        charts.append(
            _chart("Training", f"The error per sample in each epoch{mean}: it should fall and level off.", svg)
        )
    most = max(
        int(np.ceil(np.percentile(statistics.wins, 99))), 1
    )  # a single unit with many wins would squeeze all others
    counts, _ = np.histogram(np.minimum(statistics.wins, most), bins=min(N_BINS, most + 1), range=(0, most))
    svg = pictures.bar_chart(counts, 0, most, "wins (last bar: this many or more)", "units")
    explanation = (
        "The number of samples for which a unit is the strongest. A narrow peak means that all units have equal shares."
    )
    charts.append(_chart("Wins per unit", explanation, svg))
    counts, _ = np.histogram(statistics.population_sparsity, bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "population sparsity", "samples")
    explanation = "The sparsity of each sample: near 1, few units respond to it; near 0, all respond equally."
    charts.append(_chart("Population sparsity", explanation, svg))
    counts, _ = np.histogram(statistics.lifetime_sparsity, bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "lifetime sparsity", "units")
    explanation = "The sparsity of each unit: near 1, it responds to few samples; near 0, to all equally."
    charts.append(_chart("Lifetime sparsity", explanation, svg))
    return charts


def _mean_curve(curves: Sequence[Array]) -> Array:
    """Return the mean of curves. Curves that end early keep their last value."""
    n_epochs = max(map(len, curves))
    if min(map(len, curves)) == 0:
        return np.empty(0)
    return np.mean([np.pad(curve, (0, n_epochs - len(curve)), mode="edge") for curve in curves], axis=0)


def _chart(title: str, explanation: str, svg: str) -> dict[str, str]:
    return {"title": title, "explanation": explanation, "svg": svg}


def sheet_of(tiles: NDArray[np.uint8], *, photographs: bool = False) -> dict[str, Any]:
    """Return tiles as one picture, either lossless or as a photograph."""
    picture, n_columns = pictures.sheet(tiles)
    url = pictures.jpeg(picture) if photographs else pictures.png(picture)
    return {"url": url, "columns": n_columns, "rows": picture.shape[0] // tiles.shape[1]}


def thumbnail_of(image: NDArray[Any], name: str, value_range: tuple[float, float]) -> dict[str, Any]:
    """Return a small picture of an image, its name and its size."""
    pixels = np.ascontiguousarray(pictures.as_color(pictures.as_bytes(false_colors(image), *value_range)))
    url = pictures.thumbnail(pixels, _THUMBNAIL)
    return {"url": url, "name": name, "height": image.shape[0], "width": image.shape[1]}


def _neighbors(units: Indices, similarities: Array) -> list[list[list[float]]]:
    pairs = zip(units, similarities, strict=True)
    return [[[int(k), short(s)] for k, s in zip(*pair, strict=True)] for pair in pairs]


def short(value: Any) -> float:
    """Return a number with as many digits as a page needs."""
    return float(f"{float(value):.4g}")


def rounded(values: Array) -> list[float]:
    """Return numbers with as many digits as a page needs."""
    return [short(value) for value in values]


def n_samples_for(n_units: int) -> int:
    """Return the number of samples to encode for the figures of this many units."""
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))


def checked_codes(codes: Array, components: Array) -> Array:
    """Return codes after checking that there is one for each component."""
    if codes.shape[1] != len(components):
        raise ValueError(
            f"the model has {len(components)} components but returns {codes.shape[1]} codes: a report requires "
            f"a code for each component"
        )
    return codes


def some_images(
    model: ImageModel, X: Images, most: int, random: np.random.RandomState
) -> tuple[ImageCollection, ImageCollection]:
    """Return all images, and up to ``most`` of them to show, large enough for a unit of each layer."""
    images = ImageCollection(X, model.smallest_side(1), model.n_channels_, model.whole_numbers_)
    return images, images.some(np.sort(random.permutation(len(images))[:most]))


def values_of(images: ImageCollection) -> tuple[float, float]:
    """Return the pixel values to draw as black and white. For gray or color bytes, they are known in advance."""
    if images[0].dtype == np.uint8 and images.n_channels in (1, 3):
        return 0.0, 255.0
    ranges = [pictures.shown_range(false_colors(images[k]), images.n_channels) for k in range(len(images))]
    return min(low for low, _ in ranges), max(high for _, high in ranges)
