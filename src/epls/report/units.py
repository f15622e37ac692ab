"""The units of a layer: what each responds to, how often and how strongly, which units are similar, and all of this as
the content of a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..algorithm.layer import activation_of
from ..data.moments import unit_rows
from ..metrics import lifetime_sparsity, never_active, population_sparsity
from ..utils.threads import row_blocks
from ..utils.types import Array, Indices
from ..utils.wording import counted
from .page import bar_chart, line_chart, short

N_BINS = 20
N_NEIGHBORS = 6
TOP = 9  # strongest patches, samples or parts of images for each unit
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
    ("clarity", "clarity", "%", "of its energy is in its strongest stripes; noise has stripes of all kinds"),
    ("color", "color", "%", "of its energy is not gray"),
]


def layer_content(
    codes: Array,
    components: Array,
    learners: Sequence[Any],
    samples: str,
    *,
    facts: Sequence[tuple[str, str]],
    about: Sequence[str],
    numbers: Indices | None = None,
    measures: Mapping[str, Array | Indices] | None = None,
) -> dict[str, Any]:
    """Gather what is known of the units of a layer, of whatever kind, from codes (n_samples, n_all_units).

    A response is the absolute value of a code. ``components`` (n, n_features) are those of the units that are shown,
    and ``numbers`` say which these are, by default all. Similar units are searched among them, and given by their
    position; wins, population sparsity and silent units consider all. ``learners`` have learned the units, one or
    one for each group, and ``samples`` says what the samples are called, such as "patches". Key figures are appended to
    ``facts``, a list of names and values, and to ``about``, the summary in one line. ``measures`` are further measures
    that units can be sorted by.
    """
    shown = slice(None) if numbers is None else numbers
    numbers = np.arange(len(components)) if numbers is None else numbers
    answers = np.abs(codes)
    wins = _wins(answers)[shown]
    answers = answers[:, shown]
    largest = answers.max(axis=0)
    of_samples, of_units = population_sparsity(codes), lifetime_sparsity(codes[:, shown])
    silent = never_active(codes, activation_of(learners[0]))
    unit_components = unit_rows(np.asarray(components, np.float32))
    cosines = np.abs(unit_components @ unit_components.T)
    np.fill_diagonal(cosines, 0)
    redundancy = cosines.max(axis=1)
    units = {
        "number": numbers,
        "mean": answers.mean(axis=0, dtype=np.float64),
        "largest": largest,
        "often": (answers > largest / 2).mean(axis=0),
        "wins": wins,
        "lifetime": of_units,
        "redundancy": redundancy,
    } | dict(measures or {})
    told_silent = f"{counted(len(silent), 'units')} never active"
    population, lifetime, most = (f"{value:.2f}" for value in (of_samples.mean(), of_units.mean(), redundancy.max()))
    if_all = "0 if all respond equally"
    told = [
        ("Never active", f"{told_silent}: they hardly respond to any of the {samples}."),
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
        "histogram": [_histogram(answers[:, k], largest[k]) for k in range(len(components))],
        "nearest": _most_similar(cosines),
        "together": _most_similar(_correlations(answers)),
        "never_active": np.flatnonzero(np.isin(numbers, silent)),
        "facts": [*facts, *told],
        "summary": [*about, told_silent, *sparsities, f"most similar pair: cosine {most}"],
        "charts": _charts(learners, wins, of_samples, of_units),
    }


def strongest_samples(codes: Array, n_top: int) -> list[Indices]:
    """For each unit, return the samples with the strongest responses, the strongest first."""
    found = []
    for unit in range(codes.shape[1]):  # one at a time, which takes little memory
        answers = np.abs(codes[:, unit])
        candidates = np.argpartition(answers, len(answers) - min(n_top, len(answers)))[-n_top:]
        found.append(candidates[np.argsort(-answers[candidates], kind="stable")])
    return found


def apart(places: Indices, size: int, n_top: int, most_of_image: int = TOP) -> list[int]:
    """Choose the first of these places (image, top, left) that do not overlap by half with an earlier one."""
    chosen: list[int] = []
    for k, place in enumerate(places):
        away = np.abs(places[chosen] - place)
        same_image = away[:, 0] == 0
        overlaps = same_image & (away[:, 1:] <= size // 2).all(axis=1)
        if same_image.sum() < most_of_image and not overlaps.any():
            chosen.append(k)
            if len(chosen) == n_top:
                break
    return chosen


def _histogram(answers: Array, largest: float) -> Indices:
    """Count responses in bins from 0 to the largest."""
    bins = np.minimum((answers / (largest if largest > 0 else 1) * N_BINS).astype(np.intp), N_BINS - 1)
    return np.bincount(bins, minlength=N_BINS)


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


def _most_similar(similarities: Array) -> list[list[tuple[int, float]]]:
    """For each row, return the columns and values of its largest entries off the diagonal, the largest first."""
    np.fill_diagonal(similarities, -np.inf)
    columns = np.argsort(-similarities, axis=1, kind="stable")[:, : min(N_NEIGHBORS, len(similarities) - 1)]
    return [[(int(k), short(row[k])) for k in own] for row, own in zip(similarities, columns, strict=True)]


def _correlations(answers: Array) -> Array:
    centered = answers - answers.mean(axis=0)
    deviations = np.linalg.norm(centered, axis=0)
    centered /= np.where(deviations > 0, deviations, 1)
    return centered.T @ centered


def filter_statistics(filters: Array) -> dict[str, Array]:
    """Find the strongest wave in each filter of shape (n, height, width, channels).

    ``orientation`` is the direction of the crests in degrees, 0 to 180: 0 is a horizontal edge, 45 rises to the right.
    ``frequency`` has the waves per pixel, 0 to 0.71: at 0.5, the sign changes from each pixel to the next. ``clarity``
    is the fraction of the energy in this wave, as far as a filter of this size can tell waves apart. ``color`` is the
    fraction of the filter's energy that is not gray.
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
    row_column = np.stack(np.unravel_index(peaks, (side, side)))
    down, right = np.fft.fftfreq(side)[row_column]
    reach = np.array(filters.shape[1:3])  # a wave in so many pixels is spread over a 1 / reach of all frequencies
    clarity = np.zeros(len(filters))
    for k, of_filter in enumerate(power):
        from_peak = np.fft.fftfreq(side) * reach[:, None]
        near = [np.abs(np.roll(from_peak[axis], row_column[axis, k])) < 1 for axis in (0, 1)]
        # The other half of the energy is at the negative frequency.
        clarity[k] = min(1, 2 * of_filter[np.ix_(*near)].sum() / (of_filter.sum() or 1))
    # Crests are perpendicular to the wave, and the rows of a picture count downwards.
    orientation = np.round(np.degrees(np.arctan2(right, down)), 9) % 180
    return {"frequency": np.hypot(down, right), "orientation": orientation, "clarity": clarity, "color": color}


def _charts(learners: Sequence[Any], wins: Indices, of_samples: Array, of_units: Array) -> list[dict[str, str]]:
    """Return charts of the training and of the figures of units."""
    charts = []
    curve = _mean_curve([np.asarray(getattr(learner, "loss_curve_", []), float) for learner in learners])
    if len(curve) > 1:
        mean = ", the mean of all groups" if len(learners) > 1 else ""
        explanation = f"The error per sample in each epoch{mean}: it should fall and level off."
        charts.append(("Training", explanation, line_chart(curve, "epoch", "error")))
    # A single unit with many wins would squeeze all others.
    most = max(int(np.ceil(np.percentile(wins, 99))), 1)
    counts, _ = np.histogram(np.minimum(wins, most), bins=min(N_BINS, most + 1), range=(0, most))
    svg = bar_chart(counts, 0, most, "wins (last bar: this many or more)", "units")
    told = "The number of samples for which a unit is the strongest. A narrow peak means equal shares."
    charts.append(("Wins per unit", told, svg))
    of_sample = "The sparsity of each sample: near 1, few units respond to it; near 0, all respond equally."
    of_unit = "The sparsity of each unit: near 1, it responds to few samples; near 0, to all equally."
    for title, values, of_what, told in (
        ("Population sparsity", of_samples, "samples", of_sample),
        ("Lifetime sparsity", of_units, "units", of_unit),
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


def some_of(n_shown: int, n_all: int, what: str) -> str:
    """Describe how many of how many in words: "all 24 images", "200 of 5,000 images", "1 image"."""
    if n_shown < n_all:
        return f"{n_shown:,} of {n_all:,} {what}"
    return f"all {n_all:,} {what}" if n_all > 1 else counted(n_all, what)


def n_samples_for(n_units: int) -> int:
    """Return the number of samples to encode for the figures of this many units."""
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))
