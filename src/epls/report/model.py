"""The page about a model: its units, what excites them, and how sparse and balanced its answers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..encoders import NaturalEncoder
from ..images.collection import ImageCollection, Images
from ..images.features import ImageFeatures
from ..images.patches import sample_placed_patches
from ..metrics import lifetime_sparsity, population_sparsity, summary, unresponsive_units
from . import pictures
from .filters import filter_statistics
from .page import page
from .units import N_BINS, UnitStatistics, unit_statistics

Array = NDArray[np.floating]

_CODES = 48_000_000  # at a time: 192 MB
_MOST_SAMPLES = 30_000
_MOST_IMAGES = 200
_THUMBNAIL = 160  # pixels
_TOP = 9  # patches or samples of each unit
_TOP_FEATURES = 8
_PATCH_BYTES = 3_500_000  # of all top patches, before they are compressed
_LARGEST_TILE = 24  # pixels; patches and filters that are larger are thinned out

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
    ("colour", "colour", "share of its energy that is not grey"),
]


def model_page(
    model: Any,
    X: Images,
    *,
    title: str = "What was learned",
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
) -> str:
    """A page that shows what a model has learned, on samples of data.

    Parameters
    ----------
    model : fitted ImageFeatures, learner, or Pipeline that ends in a learner
        The model.
    X : images for ImageFeatures, else array-like of shape (n_samples, n_features)
        Data that the units are shown to answer to: up to 30,000 patches of 200 images, or 30,000 samples, are drawn.
    title : str
        The page's heading.
    feature_names : sequence of str or None, default=None
        Of vectors; by default those that the model was fitted with, or numbers.
    random_state : int, RandomState or None, default=0
        Which ones.

    Returns
    -------
    str
        HTML, complete in itself.
    """
    check_is_fitted(model)
    random = check_random_state(random_state)
    if isinstance(model, ImageFeatures):
        described = _of_images(model, X, random)
        learner = model.learner_
    else:
        described = _of_vectors(model, X, feature_names, random)
        learner = model[-1] if isinstance(model, Pipeline) else model
    content, codes, statistics = described
    content["measures"] = [
        {"key": key, "name": name, "explanation": explanation}
        for key, name, explanation in _MEASURES
        if key in content["units"]
    ]
    content["facts"] = _facts(model, learner, codes, content)
    content["charts"] = _charts(learner, codes, statistics)
    return page("model", title, content)


def _of_images(model: ImageFeatures, X: Images, random: np.random.RandomState) -> tuple[dict[str, Any], Array, Any]:
    images = ImageCollection(X, model.patch_size, model.n_channels_, model.whole_numbers_)
    numbers = np.sort(random.permutation(len(images))[:_MOST_IMAGES])
    shown = ImageCollection(_Subset(images, numbers), model.patch_size, model.n_channels_, model.whole_numbers_)
    bases = model.encoder_.bases()
    pixels, places = sample_placed_patches(shown, _n_samples(len(bases)), model.patch_size, random_state=random)
    codes = NaturalEncoder(model.learner_).transform(model.prepare_patches(pixels))
    shape = (model.patch_size, model.patch_size, model.n_channels_)
    step = -(-model.patch_size // _LARGEST_TILE)
    values = int(np.ceil(model.patch_size / step)) ** 2 * 3
    statistics = unit_statistics(codes, bases, n_top=min(_TOP, max(1, _PATCH_BYTES // (values * len(bases)))))
    filters = bases.reshape(-1, *shape)
    of_filters = filter_statistics(filters)
    content = _common(statistics, codes, "patches")
    content["units"] |= {
        "frequency": _rounded(of_filters.frequency),
        "orientation": _rounded(of_filters.orientation, 1),
        "colour": _rounded(of_filters.colour),
    }
    content["kind"] = "images"
    content["tiles"] = _sheet(pictures.filter_tiles(filters[:, ::step, ::step]))
    used = np.unique(statistics.strongest)
    low, high = (0.0, 255.0) if model.whole_numbers_ else (float(pixels.min()), float(pixels.max()))
    tiles = pictures.as_bytes(pixels[used].reshape(-1, *shape)[:, ::step, ::step], low, high)
    content["patches"] = _sheet(pictures.as_colour(tiles)) | {"size": model.patch_size}
    content["top"] = [
        [
            {"tile": int(np.searchsorted(used, k)), "place": places[k].tolist(), "answer": round(float(a), 4)}
            for k, a in zip(samples, np.abs(codes[samples, unit]), strict=True)
        ]
        for unit, samples in enumerate(statistics.strongest)
    ]
    content["images"] = [_thumbnail(shown, number, low, high) for number in range(len(shown))]
    content["count"] = {"images": len(images), "shown": len(shown), "samples": len(codes)}
    return content, codes, statistics


def _of_vectors(
    model: Any, X: Any, names: Sequence[str] | None, random: np.random.RandomState
) -> tuple[dict[str, Any], Array, Any]:
    learner = model[-1] if isinstance(model, Pipeline) else model
    bases = np.asarray(learner.components_)
    numbers = np.sort(random.permutation(len(X))[: _n_samples(len(bases))])
    samples = X.iloc[numbers] if hasattr(X, "iloc") else check_array(np.asarray(X)[numbers])
    codes = np.asarray(model.transform(samples))
    if codes.shape[1] != len(bases):
        raise ValueError(
            f"{type(learner).__name__} has {len(bases)} bases but gives {codes.shape[1]} codes: a report shows "
            f"learners with a code for each basis"
        )
    statistics = unit_statistics(codes, bases, n_top=_TOP)
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    strongest = np.argsort(-np.abs(bases), axis=1, kind="stable")[:, :_TOP_FEATURES]
    content = _common(statistics, codes, "samples")
    content["kind"] = "vectors"
    content["tiles"] = _sheet(pictures.bar_tiles(bases))
    content["features"] = [
        [[str(names[k]) if names is not None else f"feature {k}", float(f"{bases[unit, k]:.4g}")] for k in features]
        for unit, features in enumerate(strongest)
    ]
    content["top"] = [
        [{"sample": int(numbers[k]), "answer": round(float(abs(codes[k, unit])), 4)} for k in tops]
        for unit, tops in enumerate(statistics.strongest)
    ]
    content["count"] = {"samples": len(codes), "all": len(X)}
    return content, codes, statistics


def _common(statistics: UnitStatistics, codes: Array, samples: str) -> dict[str, Any]:
    return {
        "samples": samples,
        "units": {
            "number": list(range(len(statistics.mean))),
            "mean": _rounded(statistics.mean, 5),
            "largest": _rounded(statistics.largest),
            "often": _rounded(statistics.often, 5),
            "wins": statistics.wins.tolist(),
            "lifetime": _rounded(lifetime_sparsity(codes)),
            "redundancy": _rounded(statistics.redundancy),
        },
        "histogram": statistics.histogram.tolist(),
        "nearest": _neighbours(statistics.nearest, statistics.cosines),
        "together": _neighbours(statistics.together, statistics.correlations),
        "silent": unresponsive_units(codes).tolist(),
    }


def _facts(model: Any, learner: Any, codes: Array, content: dict[str, Any]) -> list[list[str]]:
    """Name and value of what one wants to know first."""
    count = content["count"]
    units = f"{type(learner).__name__}, {len(content['units']['mean'])} units"
    if content["kind"] == "images":
        size = model.patch_size
        data = f"{count['samples']:,} patches of {count['shown']} out of {count['images']:,} images"
        seen = f"{size} x {size} pixels, {model.n_channels_} channel(s)" + (", whitened" if model.whiten else "")
    else:
        data = f"{count['samples']:,} of {count['all']:,} samples"
        seen = f"{learner.n_features_in_} features"
    whole = summary(codes, learner.components_)
    return [
        ["Model", units],
        ["A unit sees", seen],
        ["Shown here", data],
        ["Silent units", f"{whole['unresponsive units']}: answer to everything alike"],
        ["Population sparsity", f"{whole['population sparsity']:.2f}: 1 if one unit answers to each of the samples"],
        ["Lifetime sparsity", f"{whole['lifetime sparsity']:.2f}: 1 if each unit answers to one of the samples"],
        ["Most redundant pair", f"cosine {whole['largest redundancy']:.2f}: 1 if two units are the same"],
    ]


def _charts(learner: Any, codes: Array, statistics: UnitStatistics) -> list[dict[str, str]]:
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
    counts, _ = np.histogram(population_sparsity(codes), bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "population sparsity", "samples")
    explanation = "Of each sample: near 1, few units answer to it; near 0, all alike."
    charts.append(_chart("Population sparsity", explanation, svg))
    counts, _ = np.histogram(lifetime_sparsity(codes), bins=N_BINS, range=(0, 1))
    svg = pictures.bar_chart(counts, 0, 1, "lifetime sparsity", "units")
    explanation = "Of each unit: near 1, it answers to few samples; near 0, to all alike."
    charts.append(_chart("Lifetime sparsity", explanation, svg))
    return charts


def _chart(title: str, explanation: str, svg: str) -> dict[str, str]:
    return {"title": title, "explanation": explanation, "svg": svg}


def _sheet(tiles: NDArray[np.uint8]) -> dict[str, Any]:
    picture, n_columns = pictures.sheet(tiles)
    url = pictures.data_url(pictures.encoded(picture, optimize=True), "image/png")
    return {"url": url, "columns": n_columns, "rows": picture.shape[0] // tiles.shape[1]}


def _thumbnail(images: ImageCollection, number: int, low: float, high: float) -> dict[str, Any]:
    image = images[number]
    pixels = pictures.as_colour(pictures.as_bytes(image, low, high))
    content, _, _ = pictures.thumbnail(np.ascontiguousarray(pixels), _THUMBNAIL)
    url = pictures.data_url(content, "image/jpeg")
    return {"url": url, "name": images.name(number), "height": image.shape[0], "width": image.shape[1]}


def _neighbours(units: NDArray[np.intp], similarities: Array) -> list[list[list[float]]]:
    return [
        [[int(k), round(float(s), 3)] for k, s in zip(*pair, strict=True)]
        for pair in zip(units, similarities, strict=True)
    ]


def _rounded(values: Array, digits: int = 4) -> list[float]:
    return np.round(np.asarray(values, np.float64), digits).tolist()


def _n_samples(n_units: int) -> int:
    return int(min(_MOST_SAMPLES, max(_CODES // max(n_units, 1), 1000)))


class _Subset(Sequence[NDArray[Any]]):
    """Some images of a collection, read when they are needed."""

    def __init__(self, images: ImageCollection, numbers: Sequence[int] | NDArray[np.intp]) -> None:
        self._images = images
        self._numbers = numbers
        self.names = [images.name(int(number)) for number in numbers]

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, number: Any) -> Any:
        return self._images[int(self._numbers[number])]
