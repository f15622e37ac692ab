"""What all pages about models contain: figures of units, facts, charts, and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..images.collection import ImageCollection, Images
from ..images.models import ImageModel, least_side
from ..plotting import false_colors
from ..utils.types import Array, Indices
from . import pictures
from .units import N_BINS, UnitStatistics

TOP = 9  # patches, samples or parts of images of each unit
_CODES = 48_000_000  # 192 MB; some times that is needed
_MOST_SAMPLES = 30_000
_THUMBNAIL = 160  # pixels

# Key, name, explanation; the last ones tell of some layers only.
_MEASURES = [
    ("number", "number", "as the model has them"),
    ("mean", "activity", "mean answer over all samples"),
    ("often", "how often", "share of samples answered with more than half of its largest answer"),
    ("wins", "wins", "samples for which it answers more strongly than all others"),
    ("lifetime", "lifetime sparsity", "1: answers to a single sample; 0: to all alike"),
    ("redundancy", "redundancy", "absolute cosine to the most similar unit; 1: there is another like it"),
    ("group", "group", "units of a group see the same channels of the layer below"),
    ("frequency", "spatial frequency", "waves per pixel of its strongest wave"),
    ("orientation", "orientation", "of its crests, in degrees: 0 is horizontal, 90 upright"),
    ("color", "colour", "share of its energy that is not grey"),
]


def of_units(statistics: UnitStatistics, samples: str, numbers: Indices | None = None) -> dict[str, Any]:
    """Figures of units, with the numbers that the model has for them; other units are called by their place here."""
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
    """The measures that units can be sorted by: those that there are figures of."""
    return [
        {"key": key, "name": name, "explanation": explanation}
        for key, name, explanation in _MEASURES
        if key in content["units"]
    ]


def figures_of(statistics: UnitStatistics) -> list[list[str]]:
    """Name and value of the figures that one wants to know first, to follow what is said of model and data."""
    sparsity = (statistics.population_sparsity.mean(), statistics.lifetime_sparsity.mean())
    return [
        ["Dead units", f"{len(statistics.dead)}: answer to all alike, within a tenth of what others' answers vary"],
        ["Population sparsity", f"{sparsity[0]:.2f}: 1 if one unit answers to each of the samples"],
        ["Lifetime sparsity", f"{sparsity[1]:.2f}: 1 if each unit answers to one of the samples"],
        ["Most redundant pair", f"cosine {statistics.redundancy.max():.2f}: 1 if two units are the same"],
    ]


def charts_of(learners: Sequence[Any], statistics: UnitStatistics) -> list[dict[str, str]]:
    """Charts of the training and of the figures of units."""
    charts = []
    curve = _mean_curve([np.asarray(getattr(learner, "loss_curve_", []), float) for learner in learners])
    if len(curve) > 1:
        svg = pictures.line_chart(curve, "epoch", "error")
        mean = ", the mean of all groups" if len(learners) > 1 else ""
        charts.append(
            _chart("Training", f"The error per sample in each epoch{mean}: it should fall and level off.", svg)
        )
    most = max(int(np.ceil(np.percentile(statistics.wins, 99))), 1)  # a single favourite would leave one bar for all
    counts, _ = np.histogram(np.minimum(statistics.wins, most), bins=min(N_BINS, most + 1), range=(0, most))
    svg = pictures.bar_chart(counts, 0, most, "wins (the last bar: so many or more)", "units")
    explanation = "For how many samples a unit is the strongest: one narrow hill means a fair share each."
    charts.append(_chart("Wins per unit", explanation, svg))
    counts, _ = np.histogram(statistics.population_sparsity, bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "population sparsity", "samples")
    explanation = "Of each sample: near 1, few units answer to it; near 0, all alike."
    charts.append(_chart("Population sparsity", explanation, svg))
    counts, _ = np.histogram(statistics.lifetime_sparsity, bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "lifetime sparsity", "units")
    explanation = "Of each unit: near 1, it answers to few samples; near 0, to all alike."
    charts.append(_chart("Lifetime sparsity", explanation, svg))
    return charts


def _mean_curve(curves: Sequence[Array]) -> Array:
    """The mean of curves, of which those that end early keep their last value."""
    n_epochs = max(map(len, curves))
    if min(map(len, curves)) == 0:
        return np.empty(0)
    return np.mean([np.pad(curve, (0, n_epochs - len(curve)), mode="edge") for curve in curves], axis=0)


def _chart(title: str, explanation: str, svg: str) -> dict[str, str]:
    return {"title": title, "explanation": explanation, "svg": svg}


def sheet_of(tiles: NDArray[np.uint8], *, photographs: bool = False) -> dict[str, Any]:
    """Tiles as one picture, without loss or as a photograph."""
    picture, n_columns = pictures.sheet(tiles)
    url = pictures.jpeg(picture) if photographs else pictures.png(picture)
    return {"url": url, "columns": n_columns, "rows": picture.shape[0] // tiles.shape[1]}


def thumbnail_of(image: NDArray[Any], name: str, value_range: tuple[float, float]) -> dict[str, Any]:
    """A small picture of an image, its name and its size."""
    pixels = np.ascontiguousarray(pictures.as_color(pictures.as_bytes(false_colors(image), *value_range)))
    url = pictures.thumbnail(pixels, _THUMBNAIL)
    return {"url": url, "name": name, "height": image.shape[0], "width": image.shape[1]}


def _neighbors(units: Indices, similarities: Array) -> list[list[list[float]]]:
    pairs = zip(units, similarities, strict=True)
    return [[[int(k), short(s)] for k, s in zip(*pair, strict=True)] for pair in pairs]


def short(value: Any) -> float:
    """A number with as many digits as a page needs."""
    return float(f"{float(value):.4g}")


def rounded(values: Array) -> list[float]:
    """Numbers with as many digits as a page needs."""
    return [short(value) for value in values]


def n_samples_for(n_units: int) -> int:
    """How many samples are encoded for the figures of so many units."""
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))


def checked_codes(codes: Array, components: Array) -> Array:
    """Codes, checked to be one for each component."""
    if codes.shape[1] != len(components):
        raise ValueError(
            f"the model has {len(components)} components but returns {codes.shape[1]} codes: a report shows learners "
            f"with a code for each component"
        )
    return codes


def some_images(
    model: ImageModel, X: Images, most: int, random: np.random.RandomState
) -> tuple[ImageCollection, ImageCollection]:
    """All images, and up to ``most`` of them to be shown, which a unit of each layer fits in."""
    images = ImageCollection(X, least_side(model, 1), model.n_channels_, model.whole_numbers_)
    return images, images.some(np.sort(random.permutation(len(images))[:most]))


def values_of(images: ImageCollection) -> tuple[float, float]:
    """The values of pixels that are drawn black and white; those of gray or color bytes, without looking."""
    if images[0].dtype == np.uint8 and images.n_channels in (1, 3):
        return 0.0, 255.0
    ranges = [pictures.shown_range(false_colors(images[k]), images.n_channels) for k in range(len(images))]
    return min(low for low, _ in ranges), max(high for _, high in ranges)
