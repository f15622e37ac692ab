"""The page about a model: its units, what excites them, and how sparse and balanced its answers are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..encoders.natural import NaturalEncoder
from ..images.collection import ImageCollection, Images
from ..images.features import ImageFeatures
from ..images.models import image_features, learner_of
from ..images.patches import sample_placed_patches
from ..plotting import colors_shown, false_colors, filter_pictures
from ..utils.types import Array
from . import pictures
from .filters import filter_statistics
from .page import page
from .units import N_BINS, UnitStatistics, unit_statistics

_CODES = 48_000_000  # 192 MB; some times that is needed
_MOST_SAMPLES = 30_000
_VALUES = 2**27  # of patches of many channels: half a gigabyte
_MOST_IMAGES = 200
_THUMBNAIL = 160  # pixels
_TOP = 9  # patches or samples of each unit
_CANDIDATES = 4  # times as many, of which some overlap
_TOP_FEATURES = 8
_PATCH_BYTES = 3_500_000  # of all top patches, before they are compressed
_LARGEST_TILE = 24  # pixels; of patches and filters that are larger, pixels are averaged

# Key, name, explanation; the last three tell of images only.
_MEASURES = [
    ("number", "number", "as the model has them"),
    ("mean", "activity", "mean answer over all samples"),
    ("often", "how often", "share of samples answered with more than half of its largest answer"),
    ("wins", "wins", "samples for which it answers more strongly than all others"),
    ("lifetime", "lifetime sparsity", "1: answers to a single sample; 0: to all alike"),
    ("redundancy", "redundancy", "absolute cosine to the most similar unit; 1: there is another like it"),
    ("frequency", "spatial frequency", "waves per pixel of its strongest wave"),
    ("orientation", "orientation", "of its crests, in degrees: 0 is horizontal, 90 upright"),
    ("color", "colour", "share of its energy that is not grey"),
]


def model_page(
    model: Any,
    X: Images,
    *,
    title: str = "What was learned",
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
    progress: Callable[[str, int, int], None] = lambda stage, done, total: None,
) -> str:
    """A page that shows what a model has learned, on samples of data.

    Parameters
    ----------
    model : fitted ImageFeatures, learner, or Pipeline that begins with ImageFeatures or ends in a learner
        The model.
    X : images for ImageFeatures, else array-like of shape (n_samples, n_features)
        Data that the units are shown to answer to: up to 30,000 patches of 200 images, or 30,000 samples, are drawn.
    title : str
        The page's heading.
    feature_names : sequence of str or None, default=None
        Of vectors; by default those that the model was fitted with, or numbers.
    random_state : int, RandomState or None, default=0
        Which ones.
    progress : callable, optional
        Is told the stage, the steps done and the steps in all.

    Returns
    -------
    str
        HTML, complete in itself.
    """
    check_is_fitted(model)
    random = check_random_state(random_state)
    progress("report", 0, 2)
    features = image_features(model)
    content = _of_images(features, X, random) if features is not None else _of_vectors(model, X, feature_names, random)
    progress("report", 1, 2)
    html = page("model", title, content)
    progress("report", 2, 2)
    return html


def _of_images(model: ImageFeatures, X: Images, random: np.random.RandomState) -> dict[str, Any]:
    images = ImageCollection(X, model.patch_size, model.n_channels_, model.whole_numbers_)
    numbers = np.sort(random.permutation(len(images))[:_MOST_IMAGES])
    shown = ImageCollection(_Subset(images, numbers), model.patch_size, model.n_channels_, model.whole_numbers_)
    components = model.encoder_.components()
    n_samples = min(_n_samples(len(components)), max(_VALUES // components.shape[1], 1000))
    pixels, places = sample_placed_patches(shown, n_samples, model.patch_size, random_state=random)
    places, different = np.unique(places, axis=0, return_index=True)  # small images have fewer than are drawn
    pixels = pixels[different]
    codes = _checked_codes(NaturalEncoder(model.estimator_).transform(model.prepare_patches(pixels)), components)
    # More than are shown: patches that overlap are much the same.
    statistics = unit_statistics(codes, components, n_top=_CANDIDATES * _TOP)
    shape = (model.patch_size, model.patch_size, model.n_channels_)
    filters = components.reshape(-1, *shape)
    of_filters = filter_statistics(filters)
    content = _common(statistics, "patches")
    content["units"] |= {
        "frequency": _rounded(of_filters.frequency),
        "orientation": _rounded(of_filters.orientation),
        "color": _rounded(of_filters.color),
    }
    content["kind"] = "images"
    content["tiles"] = _sheet(pictures.as_color(filter_pictures(pictures.shrunk(filters, _LARGEST_TILE))))
    tile_bytes = 3 * min(model.patch_size, _LARGEST_TILE) ** 2
    n_top = min(_TOP, max(1, _PATCH_BYTES // (tile_bytes * len(components))))
    top = [_apart(samples, places, model.patch_size, n_top) for samples in statistics.strongest]
    used = np.unique(np.concatenate(top))
    low, high = pictures.shown_range(_colors(pixels, shape), model.n_channels_)
    tiles = pictures.shrunk(pictures.as_bytes(_colors(pixels[used], shape), low, high), _LARGEST_TILE)
    content["patches"] = _sheet(pictures.as_color(tiles)) | {"size": model.patch_size}
    content["top"] = [
        [
            {"tile": int(np.searchsorted(used, k)), "place": places[k].tolist(), "answer": _round(abs(codes[k, unit]))}
            for k in samples
        ]
        for unit, samples in enumerate(top)
    ]
    content["images"] = [_thumbnail(shown, number, low, high) for number in range(len(shown))]
    size = model.patch_size
    encoder = type(model.encoder_).__name__
    content["facts"] = _facts(
        statistics,
        model.estimator_,
        f"{size} x {size} pixels, {model.n_channels_} channel(s)" + (", whitened" if model.whiten else ""),
        f"{len(codes):,} different patches of {len(shown):,} out of {len(images):,} images",
        f"the learner's own; features of images are made by {encoder}, stride {model.stride}, {model.pooling} pooling",
    )
    if (told := colors_shown(model.n_channels_)) is not None:
        content["facts"].append(["Colours", f"of filters and images are not true: {told}"])
    content["charts"] = _charts(model.estimator_, statistics)
    content["measures"] = _measures(content)
    return content


def _colors(pixels: NDArray[Any], shape: tuple[int, int, int]) -> NDArray[Any]:
    """Patches in rows as pictures of one channel or three."""
    return false_colors(pixels.reshape(-1, *shape))


def _of_vectors(model: Any, X: Any, names: Sequence[str] | None, random: np.random.RandomState) -> dict[str, Any]:
    learner = learner_of(model)
    if not hasattr(learner, "components_"):
        raise ValueError(f"a {type(learner).__name__} has no units to show: give a learner or ImageFeatures")
    components = np.asarray(learner.components_)
    numbers = np.sort(random.permutation(len(X))[: _n_samples(len(components))])
    samples = X.iloc[numbers] if hasattr(X, "iloc") else check_array(np.asarray(X)[numbers])
    codes = _checked_codes(np.asarray(model.transform(samples)), components)
    statistics = unit_statistics(codes, components, n_top=_TOP)
    names = _feature_names(model, components.shape[1], names)
    strongest = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :_TOP_FEATURES]
    content = _common(statistics, "samples")
    content["kind"] = "vectors"
    content["tiles"] = _sheet(pictures.bar_tiles(components))
    content["features"] = [
        [[names[k], _round(components[unit, k])] for k in features] for unit, features in enumerate(strongest)
    ]
    content["top"] = [
        [{"sample": int(numbers[k]), "answer": _round(abs(codes[k, unit]))} for k in tops]
        for unit, tops in enumerate(statistics.strongest)
    ]
    content["facts"] = _facts(
        statistics,
        learner,
        f"{components.shape[1]} features",
        f"{len(codes):,} of {len(X):,} samples",
        "the learner's own" + (", after the steps before it" if learner is not model else ""),
    )
    content["charts"] = _charts(learner, statistics)
    content["measures"] = _measures(content)
    return content


def _checked_codes(codes: Array, components: Array) -> Array:
    if codes.shape[1] != len(components):
        raise ValueError(
            f"the model has {len(components)} components but returns {codes.shape[1]} codes: a report shows learners "
            f"with a code for each component"
        )
    return codes


def _feature_names(model: Any, n_features: int, names: Sequence[str] | None) -> list[str]:
    """Names of what the learner was given: of the columns, or of what the steps before it make of them."""
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        names = model[:-1].get_feature_names_out(names)
    elif names is None:
        names = [f"x{k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(f"{len(names)} feature_names were given, and the learner has {n_features} features")
    return [str(name) for name in names]


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


def _common(statistics: UnitStatistics, samples: str) -> dict[str, Any]:
    return {
        "samples": samples,
        "units": {
            "number": list(range(len(statistics.mean))),
            "mean": _rounded(statistics.mean),
            "largest": _rounded(statistics.largest),
            "often": _rounded(statistics.often),
            "wins": statistics.wins.tolist(),
            "lifetime": _rounded(statistics.lifetime_sparsity),
            "redundancy": _rounded(statistics.redundancy),
        },
        "histogram": statistics.histogram.tolist(),
        "nearest": _neighbors(statistics.nearest, statistics.cosines),
        "together": _neighbors(statistics.together, statistics.correlations),
        "dead": statistics.dead.tolist(),
    }


def _measures(content: dict[str, Any]) -> list[dict[str, str]]:
    return [
        {"key": key, "name": name, "explanation": explanation}
        for key, name, explanation in _MEASURES
        if key in content["units"]
    ]


def _facts(statistics: UnitStatistics, learner: Any, seen: str, data: str, answers: str) -> list[list[str]]:
    """Name and value of what one wants to know first."""
    sparsity = (statistics.population_sparsity.mean(), statistics.lifetime_sparsity.mean())
    return [
        ["Model", f"{type(learner).__name__}, {len(statistics.mean)} units"],
        ["A unit sees", seen],
        ["Shown here", data],
        ["Answers", answers],
        ["Dead units", f"{len(statistics.dead)}: answer to all alike, within a tenth of what others' answers vary"],
        ["Population sparsity", f"{sparsity[0]:.2f}: 1 if one unit answers to each of the samples"],
        ["Lifetime sparsity", f"{sparsity[1]:.2f}: 1 if each unit answers to one of the samples"],
        ["Most redundant pair", f"cosine {statistics.redundancy.max():.2f}: 1 if two units are the same"],
    ]


def _charts(learner: Any, statistics: UnitStatistics) -> list[dict[str, str]]:
    charts = []
    curve = np.asarray(getattr(learner, "loss_curve_", []), float)
    if len(curve) > 1:
        svg = pictures.line_chart(curve, "epoch", "error")
        charts.append(_chart("Training", "The error per sample in each epoch: it should fall and level off.", svg))
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


def _chart(title: str, explanation: str, svg: str) -> dict[str, str]:
    return {"title": title, "explanation": explanation, "svg": svg}


def _sheet(tiles: NDArray[np.uint8]) -> dict[str, Any]:
    picture, n_columns = pictures.sheet(tiles)
    return {"url": pictures.png(picture), "columns": n_columns, "rows": picture.shape[0] // tiles.shape[1]}


def _thumbnail(images: ImageCollection, number: int, low: float, high: float) -> dict[str, Any]:
    image = images[number]
    pixels = np.ascontiguousarray(pictures.as_color(pictures.as_bytes(false_colors(image), low, high)))
    url = pictures.thumbnail(pixels, _THUMBNAIL)
    return {"url": url, "name": images.name(number), "height": image.shape[0], "width": image.shape[1]}


def _neighbors(units: NDArray[np.intp], similarities: Array) -> list[list[list[float]]]:
    return [[[int(k), _round(s)] for k, s in zip(*pair, strict=True)] for pair in zip(units, similarities, strict=True)]


def _round(value: Any) -> float:
    return float(f"{float(value):.4g}")


def _rounded(values: Array) -> list[float]:
    return [_round(value) for value in values]


def _n_samples(n_units: int) -> int:
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))


class _Subset(Sequence[NDArray[Any]]):
    """Some images, as they were given, read when they are needed."""

    def __init__(self, images: ImageCollection, numbers: NDArray[np.intp]) -> None:
        self._images = images.images
        self._numbers = numbers
        self.names = [images.name(int(number)) for number in numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: Any) -> Any:
        return self._images[int(self._numbers[number])]
