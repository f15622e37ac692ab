"""The units of a layer: what each responds to, how often and how strongly, which units are similar, and all of this as
the content of a page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..data.moments import unit_rows
from ..metrics import lifetime_sparsity, never_active, population_sparsity
from ..utils.threads import row_blocks
from ..utils.types import Array, Indices
from ..utils.wording import counted
from .page import bar_chart, line_chart, short

N_BINS = 20
N_NEIGHBORS = 6
TOP = 9  # strongest patches, samples or parts of images for each unit
_UNITS_AT_A_TIME = 64
_SAMPLES_AT_A_TIME = 2048
_CODES = 48_000_000  # 192 MB; a few times as much is needed
_MOST_SAMPLES = 30_000
_FFT_SIDE = 64  # padded, to resolve frequencies more finely than the patch does

# Key, name, unit, explanation. The last ones apply to some layers only.
_MEASURES = [
    ("number", "number", "", "as in the model"),
    ("mean", "activity", "", "mean output over all {samples}"),
    ("often", "how often", "%", "of the {samples} with more than half of its largest output"),
    ("wins", "wins", " {samples}", "for which its output is the largest of all units"),
    ("lifetime", "lifetime sparsity", " of 1", "1 if it responds to one of the {samples}, 0 if to all equally"),
    ("redundancy", "redundancy", " of 1", "absolute cosine to the most similar unit; 1 if they are the same"),
    ("group", "group", "", "units of a group see the same channels of the layer below"),
    ("frequency", "spatial frequency", " waves/pixel", "of its strongest stripes; 0.5: they change at each pixel"),
    ("orientation", "orientation", "°", "of its stripes: 0° is horizontal, 90° vertical"),
    ("color", "color", "%", "of its energy is not gray"),
]


@dataclass(frozen=True)
class UnitStatistics:
    """Figures of each of ``n`` units over some samples. A response is the absolute value of a code."""

    mean: Array
    largest: Array
    often: Array  # the fraction of samples with a response above half of the unit's largest
    wins: Indices  # the number of samples for which the unit responds more strongly than all others
    histogram: Indices  # (n, 20), from 0 to the unit's largest response
    strongest: Indices  # (n, n_top): the samples with the strongest responses, the strongest first
    nearest: Indices  # (n, n_neighbors): the units with the most similar components
    cosines: Array  # their absolute cosines
    together: Indices  # (n, n_neighbors): the units with the most similar responses
    correlations: Array  # the correlations of their responses
    redundancy: Array  # the absolute cosine to the nearest component
    lifetime_sparsity: Array
    population_sparsity: Array  # of each sample
    never_active: Indices


def unit_statistics(codes: Array, components: Array, n_top: int, units: Indices | None = None) -> UnitStatistics:
    """Compute figures of units from codes (n_samples, n_all_units) and the components of the units (n, n_features).

    ``n_top`` strongest samples are found for each unit. ``units`` are the units to compute figures for, all by default:
    similar units are searched among them, but wins, population sparsity and ``never_active`` consider all units.
    """
    answers = np.abs(codes)
    wins, own = _wins(answers), codes
    if units is not None:
        own, answers, wins = codes[:, units], answers[:, units], wins[units]
    unit_components = unit_rows(np.asarray(components, np.float32))
    nearest, cosines = _most_similar(np.abs(unit_components @ unit_components.T))
    together, correlations = _most_similar(_correlations(answers))
    strongest, often, histogram = _by_unit(answers, min(n_top, len(answers)))
    return UnitStatistics(
        mean=answers.mean(axis=0, dtype=np.float64),
        largest=answers.max(axis=0),
        often=often,
        wins=wins,
        histogram=histogram,
        strongest=strongest,
        nearest=nearest,
        cosines=cosines,
        together=together,
        correlations=correlations,
        redundancy=cosines[:, 0] if cosines.shape[1] else np.zeros(len(components)),
        lifetime_sparsity=lifetime_sparsity(own),
        population_sparsity=population_sparsity(codes),
        never_active=never_active(codes),
    )


def _by_unit(answers: Array, n_top: int) -> tuple[Indices, Array, Indices]:
    """Compute the strongest samples, shares of strong responses and histograms, some units at a time."""
    strongest, often, histograms = [], [], []
    for units in row_blocks(answers.shape[1], _UNITS_AT_A_TIME):
        some = np.ascontiguousarray(answers[:, units].T)
        largest = some.max(axis=1, keepdims=True)
        candidates = np.argpartition(some, some.shape[1] - n_top, axis=1)[:, -n_top:]
        order = np.argsort(-np.take_along_axis(some, candidates, axis=1), axis=1, kind="stable")
        strongest.append(np.take_along_axis(candidates, order, axis=1))
        often.append((some > largest / 2).mean(axis=1))
        bins = np.minimum((some / np.where(largest > 0, largest, 1) * N_BINS).astype(np.intp), N_BINS - 1)
        bins += np.arange(len(some))[:, None] * N_BINS
        histograms.append(np.bincount(bins.ravel(), minlength=len(some) * N_BINS).reshape(-1, N_BINS))
    return np.concatenate(strongest), np.concatenate(often), np.concatenate(histograms)


def _wins(answers: Array) -> Indices:
    """Count the samples for which each unit is stronger than all others. Ties and silent units do not count."""
    wins = np.zeros(answers.shape[1], np.intp)
    for samples in row_blocks(len(answers), _SAMPLES_AT_A_TIME):
        some = answers[samples]
        winners = some.argmax(axis=1)
        first = some[np.arange(len(some)), winners]
        n_as_strong = np.count_nonzero(some == first[:, None], axis=1)
        wins += np.bincount(winners[(n_as_strong == 1) & (first > 0)], minlength=len(wins))
    return wins


def _most_similar(similarities: Array) -> tuple[Indices, Array]:
    """For each row, return the columns and values of its largest entries off the diagonal, the largest first."""
    np.fill_diagonal(similarities, -np.inf)
    n_neighbors = min(N_NEIGHBORS, len(similarities) - 1)
    columns = np.argsort(-similarities, axis=1, kind="stable")[:, :n_neighbors]
    return columns, np.take_along_axis(similarities, columns, axis=1)


def _correlations(answers: Array) -> Array:
    centered = answers - answers.mean(axis=0)
    deviations = np.linalg.norm(centered, axis=0)
    centered /= np.where(deviations > 0, deviations, 1)
    return centered.T @ centered


def filter_statistics(filters: Array) -> dict[str, Array]:
    """Find the strongest wave in each filter of shape (n, height, width, channels).

    ``orientation`` is the direction of the crests in degrees, 0 to 180: 0 is a horizontal edge, 45 rises to the right.
    ``frequency`` has the waves per pixel, 0 to 0.71: at 0.5, the sign changes from each pixel to the next. ``color`` is
    the fraction of the filter's energy that is not gray.
    """
    gray = filters.mean(axis=3)
    energy = np.square(filters).sum(axis=(1, 2, 3))
    gray_energy = np.square(gray).sum(axis=(1, 2)) * filters.shape[3]
    color = np.clip(1 - gray_energy / np.where(energy > 0, energy, 1), 0, 1) * (energy > 0)
    # Look for the wave in the mix of channels with the most energy: a red-green edge has no gray.
    side = max(_FFT_SIDE, *filters.shape[1:3])
    power = np.zeros((len(filters), side, side))
    for channel in range(filters.shape[3]):
        centered = filters[..., channel] - filters[..., channel].mean(axis=(1, 2), keepdims=True)
        power += np.square(np.abs(np.fft.fft2(centered, s=(side, side))))
    power[:, 0, 0] = 0
    peaks = power.reshape(len(filters), -1).argmax(axis=1)
    down, right = np.fft.fftfreq(side)[np.stack(np.unravel_index(peaks, (side, side)))]
    # Crests are perpendicular to the wave, and the rows of a picture count downwards.
    orientation = np.round(np.degrees(np.arctan2(right, down)), 9) % 180
    return {"frequency": np.hypot(down, right), "orientation": orientation, "color": color}


def layer_content(
    statistics: UnitStatistics,
    samples: str,
    learners: Sequence[Any],
    *,
    facts: Sequence[Sequence[str]],
    about: Sequence[str],
    numbers: Indices | None = None,
    measures: dict[str, list[Any]] | None = None,
) -> dict[str, Any]:
    """Return the part of a page about a layer that is the same for all kinds of layers.

    ``samples`` says what the samples are called: "patches", for example. The key figures are appended to ``facts``, a
    list of names and values, and to ``about``, the summary in one line. ``numbers`` are those of the units in the
    model, if not all are shown; similar units are given by their position here. ``measures`` are further measures that
    units can be sorted by.
    """
    numbers = np.arange(len(statistics.mean)) if numbers is None else numbers
    units = {
        "number": numbers.tolist(),
        "mean": rounded(statistics.mean),
        "largest": rounded(statistics.largest),
        "often": rounded(statistics.often),
        "wins": statistics.wins.tolist(),
        "lifetime": rounded(statistics.lifetime_sparsity),
        "redundancy": rounded(statistics.redundancy),
    } | (measures or {})
    silent = f"{counted(len(statistics.never_active), 'units')} never active"
    population = f"{statistics.population_sparsity.mean():.2f}"
    lifetime = f"{statistics.lifetime_sparsity.mean():.2f}"
    most = f"{statistics.redundancy.max():.2f}"
    if_all = "0 if all respond equally"
    told = [
        ("Never active", f"{silent}: they hardly respond to any of the {samples}."),
        ("Population sparsity", f"{population}. It is 1 if one unit responds to each of the {samples}, {if_all}."),
        ("Lifetime sparsity", f"{lifetime}. It is 1 if a unit responds to one of the {samples}, 0 if to all equally."),
        ("Most similar pair", f"cosine {most}. It is 1 if two units are the same, 0 if they have nothing in common."),
    ]
    sparsities = [f"population sparsity {population}", f"lifetime sparsity {lifetime}"]
    names = ("key", "name", "unit", "explanation")
    measured = [[text.format(samples=samples) for text in texts] for texts in _MEASURES if texts[0] in units]
    return {
        "samples": samples,
        "units": units,
        "measures": [dict(zip(names, texts, strict=True)) for texts in measured],
        "histogram": statistics.histogram.tolist(),
        "nearest": _neighbors(statistics.nearest, statistics.cosines),
        "together": _neighbors(statistics.together, statistics.correlations),
        "never_active": np.flatnonzero(np.isin(numbers, statistics.never_active)).tolist(),
        "facts": [list(fact) for fact in (*facts, *told)],
        "summary": [*about, silent, *sparsities, f"most similar pair: cosine {most}"],
        "charts": _charts(learners, statistics),
    }


def _neighbors(units: Indices, similarities: Array) -> list[list[list[float]]]:
    pairs = zip(units, similarities, strict=True)
    return [[[int(k), short(s)] for k, s in zip(*pair, strict=True)] for pair in pairs]


def _charts(learners: Sequence[Any], statistics: UnitStatistics) -> list[dict[str, str]]:
    """Return charts of the training and of the figures of units."""
    charts = []
    curve = _mean_curve([np.asarray(getattr(learner, "loss_curve_", []), float) for learner in learners])
    if len(curve) > 1:
        mean = ", the mean of all groups" if len(learners) > 1 else ""
        explanation = f"The error per sample in each epoch{mean}: it should fall and level off."
        charts.append(("Training", explanation, line_chart(curve, "epoch", "error")))
    # A single unit with many wins would squeeze all others.
    most = max(int(np.ceil(np.percentile(statistics.wins, 99))), 1)
    counts, _ = np.histogram(np.minimum(statistics.wins, most), bins=min(N_BINS, most + 1), range=(0, most))
    svg = bar_chart(counts, 0, most, "wins (last bar: this many or more)", "units")
    told = "The number of samples for which a unit is the strongest. A narrow peak means equal shares."
    charts.append(("Wins per unit", told, svg))
    of_sample = "The sparsity of each sample: near 1, few units respond to it; near 0, all respond equally."
    of_unit = "The sparsity of each unit: near 1, it responds to few samples; near 0, to all equally."
    for title, values, of_what, told in (
        ("Population sparsity", statistics.population_sparsity, "samples", of_sample),
        ("Lifetime sparsity", statistics.lifetime_sparsity, "units", of_unit),
    ):
        counts, _ = np.histogram(values, bins=N_BINS, range=(0, 1))
        charts.append((title, told, bar_chart(counts, 0, 1, title.lower(), of_what)))
    return [{"title": title, "explanation": explanation, "svg": svg} for title, explanation, svg in charts]


def _mean_curve(curves: Sequence[Array]) -> Array:
    """Return the mean of curves. Curves that end early keep their last value."""
    n_epochs = max(map(len, curves))
    if min(map(len, curves)) == 0:
        return np.empty(0)
    return np.mean([np.pad(curve, (0, n_epochs - len(curve)), mode="edge") for curve in curves], axis=0)


def rounded(values: Array) -> list[float]:
    """Return numbers with as many digits as a page needs."""
    return [short(value) for value in values]


def some_of(n_shown: int, n_all: int, what: str) -> str:
    """Describe how many of how many in words: "all 24 images", "200 of 5,000 images", "1 image"."""
    if n_shown < n_all:
        return f"{n_shown:,} of {n_all:,} {what}"
    return f"all {n_all:,} {what}" if n_all > 1 else counted(n_all, what)


def n_samples_for(n_units: int) -> int:
    """Return the number of samples to encode for the figures of this many units."""
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))
