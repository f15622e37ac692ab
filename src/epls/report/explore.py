"""The page about a collection of images or vectors: a map, groups, neighbours, outliers, duplicates."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, check_random_state

from ..datasets.labels import Label
from ..datasets.opening import Vectors
from ..images.models import feature_rows, image_features, layers_of
from ..images.reading import ImageCollection, Images
from ..images.recipes import Progress, learned_features
from ..plotting import filter_pictures
from ..utils.types import Array, Indices
from ..utils.wording import counted
from . import pictures
from .content import sheet_of, short
from .grouping import Group, Kind, described, grouped, shares, traits
from .layout import grid_positions, map_positions
from .page import page
from .similarity import Similarity, comparable, duplicate_pictures, duplicate_vectors, similarity
from .thumbnails import LOOKS, Thumbnails, looks, thumbnails_of

_FEWEST = 3
_LONELY = 60
_MOST_SETS = 200
_TRAITS_OF_A_SAMPLE = 5
_N_UNITS = 6
_FILTER_SIDE = 24
_STAGES = 4


def explore(
    data: Images,
    *,
    model: Any = None,
    features: Any = None,
    names: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    labels: Sequence[Label | str | None] | None = None,
    groups: Kind = "balanced",
    n_groups: int | None = None,
    layers: int | None = None,
    mirror: bool = True,
    title: str = "What is in these data",
    random_state: Any = 0,
    progress: Progress = lambda stage, done, total: None,
) -> str:
    """Create a page to look through a collection of images or vectors, and to label some of them.

    Features are standardised and compared by their cosine. The page shows a map on which similar samples are close to
    each other, groups with their typical samples and distinguishing properties, the nearest neighbours of any sample,
    outliers and near-duplicates. Samples can be selected on the map, listed and labelled.

    Parameters
    ----------
    data : images or array-like of shape (n_samples, n_columns)
        Images, as :class:`epls.ImageFeatures` accepts them, or vectors. At least three.
    model : fitted model or None, default=None
        Computes the features with its ``transform``. None learns features from images without labels (see
        :func:`epls.images.recipes.learned_features`), and uses vectors directly.
    features : array-like of shape (n_samples, n_features) or None, default=None
        Existing features, instead of a model.
    names : sequence of str or None, default=None
        A name for each sample. By default, file names or numbers.
    columns : sequence of str or None, default=None
        The names of the columns of vectors.
    labels : sequence of Label, str or None, default=None
        The known class of each sample, or None for unknown. None as a whole means that no class is known.
    groups : {"balanced", "density"}, default="balanced"
        Groups of equal size, or the dense regions of the map.
    n_groups : int or None, default=None
        The number of balanced groups. None chooses it from the number of samples, at most 24.
    layers : {1, 2} or None, default=None
        The number of layers, if features are learned. None chooses one or two from the number of images.
    mirror : bool, default=True
        Whether an image and its mirror image count as the same, if features are learned. Do not use it for digits and
        letters.
    title : str
        The heading of the page.
    random_state : int, RandomState instance or None, default=0
        Determines everything that is random.
    progress : callable, optional
        Called with the stage, the number of steps done and the total number of steps.

    Returns
    -------
    str
        A self-contained HTML page.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> iris = load_iris()
    >>> html = explore(iris.data, columns=iris.feature_names, title="Iris flowers")
    >>> "Iris flowers" in html
    True
    """
    if groups not in get_args(Kind):
        raise ValueError(f"groups={groups!r}: give {' or '.join(map(repr, get_args(Kind)))}")
    random = check_random_state(random_state)
    vectors = _as_vectors(data)
    images = ImageCollection(data, 1) if vectors is None else None
    n_samples = len(vectors if images is None else images)  # type: ignore[arg-type]
    if n_samples < _FEWEST:
        said = counted(n_samples, "samples")
        raise ValueError(f"the data have {said}, but a map needs at least {_FEWEST}: give more")
    content = _about_names(images, names, n_samples) | _about_labels(labels, n_samples)
    learning = {"layers": layers, "mirror": mirror}
    rows, used = _features(data, vectors, model, features, learning, random, progress)
    if len(rows) != n_samples:
        raise ValueError(f"features has {len(rows)} rows, but there are {n_samples} samples: give a row for each")
    shown: Any = vectors if images is None else thumbnails_of(images, progress)
    content |= _analysis(rows, shown, used, groups, n_groups, random, progress, content["labels"])
    content["basis"] = _basis(used, rows, learned=model is None and features is None, vectors=vectors is not None)
    content |= _about_pictures(shown) if isinstance(shown, Thumbnails) else _about_columns(shown, columns)
    progress("arrange", _STAGES, _STAGES)
    return page("explore", title, content, scripts=("map", "explore", "gestures"), styles=("explore",))


def _as_vectors(data: Any) -> Array | None:
    """Return the data as an array of rows, if they are vectors."""
    is_table = isinstance(data, np.ndarray) or hasattr(data, "iloc") or hasattr(data, "__array__")
    if is_table and len(getattr(data, "shape", ())) == 2:
        return check_array(data, dtype=[np.float32, np.float64])
    return None


def _features(
    data: Any,
    vectors: Array | None,
    model: Any,
    features: Any,
    learning: dict[str, Any],
    random: Any,
    progress: Progress,
) -> tuple[Array, Any]:
    """Return a row for each sample and, if there is one, the image model that computed them."""
    if model is not None and features is not None:
        raise ValueError("model and features were both given: leave one of them out")
    if features is not None:
        return check_array(features, dtype=[np.float32, np.float64]), None
    if model is not None:
        opened = data if vectors is None else Vectors(vectors)
        return check_array(feature_rows(model, opened, progress)), image_features(model)
    if vectors is not None:
        return vectors, None
    return learned_features(data, **learning, random_state=random.randint(2**31 - 1), progress=progress)


def _basis(used: Any, rows: Array, *, learned: bool, vectors: bool) -> str:
    """Tell the reader what samples are compared by."""
    if used is None:
        return f"{rows.shape[1]:,} {'columns' if learned and vectors else 'given features'}"
    n_units = [layer.n_units for layer in layers_of(used)]
    layers = "one layer" if len(n_units) == 1 else f"{len(n_units)} layers"
    return f"{sum(n_units):,} units of {layers}, {'learned from them without labels' if learned else 'of a model'}"


def _about_names(images: ImageCollection | None, names: Sequence[str] | None, n_samples: int) -> dict[str, Any]:
    column = "file"
    if names is None:
        names = None if images is None else getattr(images.images, "names", None)
    if names is None:
        column, names = "row", [str(number) for number in range(n_samples)]
    if len(names) != n_samples:
        raise ValueError(f"{len(names)} names were given for {n_samples} samples: give one for each")
    return {"count": n_samples, "names": [str(name) for name in names], "nameColumn": column}


def _about_labels(labels: Sequence[Label | str | None] | None, n_samples: int) -> dict[str, Any]:
    if labels is None:
        return {"labels": None}
    if len(labels) != n_samples:
        raise ValueError(f"{len(labels)} labels were given for {n_samples} samples: give one for each, or None")
    found = [Label(label) if isinstance(label, str) else label for label in labels]
    classes = sorted({label.label for label in found if label is not None})
    number = {name: k for k, name in enumerate(classes)}
    of_sample = np.array([-1 if label is None else number[label.label] for label in found])
    confidence = np.array([0 if label is None else round(100 * label.confidence) for label in found])
    given = np.array([label is not None and label.given for label in found])
    return {
        "labels": {
            "classes": classes,
            "of": packed(of_sample, np.int32),
            "confidence": packed(confidence, np.uint8),
            "given": packed(given, np.uint8),
            "each": [None if label is None else label.label for label in found],
        }
    }


def _analysis(
    rows: Array, shown: Thumbnails | Array, used: Any, kind: Kind, n_groups: int | None,
    random: Any, progress: Progress, labels: dict[str, Any] | None,
) -> dict[str, Any]:  # fmt: skip
    """Return what the features reveal: the map, groups, nearest samples, outliers and duplicates."""
    progress("arrange", 0, _STAGES)
    X = comparable(rows, random, keep_length=not isinstance(shown, Thumbnails))
    found = similarity(X)
    progress("arrange", 1, _STAGES)
    positions = map_positions(X, random)
    progress("arrange", 2, _STAGES)
    numbers = grouped(X, positions, kind, n_groups, random)
    groups = described(X, numbers)
    cells = grid_positions(positions)
    progress("arrange", 3, _STAGES)
    sets = duplicate_pictures(found, shown.fingerprints) if isinstance(shown, Thumbnails) else duplicate_vectors(found)
    of_labels = shares(labels.pop("each"), groups) if labels else [[] for _ in groups]
    about = [
        {
            "size": len(group.members),
            "typical": group.typical.tolist(),
            "next": group.next_to,
            "between": group.between.tolist(),
            "labels": counts[:_TRAITS_OF_A_SAMPLE],
            "traits": [],
            "units": [],
        }
        for group, counts in zip(groups, of_labels, strict=True)
    ]
    units = None
    if isinstance(shown, Thumbnails):
        _add_looks(about, groups, shown)
        units = _add_units(about, groups, rows, used)
    else:
        for entry, strongest in zip(about, traits(shown, groups), strict=True):
            entry["columns"] = [[trait.column, short(trait.difference)] for trait in strongest]
    return {
        "positions": packed(np.rint(positions * 65535), np.uint16),
        "cells": packed(cells, np.uint16),
        "cellsAcross": int(cells.max()) + 1,
        "group": packed(numbers, np.int16),
        "groups": about,
        "groupKind": kind,
        "units": units,
        "duplicates": sets[:_MOST_SETS],
        **_about_nearest(found),
    }


def _about_nearest(found: Similarity) -> dict[str, Any]:
    loneliness = found.loneliness()
    lonely = np.argsort(-loneliness, kind="stable")[: min(_LONELY, len(loneliness) // 2)]
    return {
        "nearest": packed(found.nearest, np.uint32),
        "cosines": packed(np.rint(100 * np.clip(found.cosines, 0, 1)), np.uint8),
        "nNearest": found.nearest.shape[1],
        "lonely": lonely.tolist(),
    }


def _add_looks(about: list[dict[str, Any]], groups: Sequence[Group], shown: Thumbnails) -> None:
    """Describe what people would see first: brighter, more colorful and so on."""
    for entry, strongest in zip(about, traits(looks(shown.fingerprints), groups), strict=True):
        entry["traits"] = [LOOKS[trait.column][1 if trait.difference > 0 else 2] for trait in strongest]


def _add_units(about: list[dict[str, Any]], groups: Sequence[Group], rows: Array, used: Any) -> dict[str, Any] | None:
    """Add the units of the first layer that respond most to each group, and return the sheet of filters."""
    layers = [] if used is None else layers_of(used)
    if not layers or len(layers[0].groups) != 1 or not hasattr(layers[0].groups[0].estimator_, "components_"):
        return None
    first, encoder = layers[0].groups[0], layers[0].groups[0].encoder_
    components = encoder.components()
    n_regions = used.grid**2
    if len(components) == 0 or encoder.n_codes % len(components) or rows.shape[1] < n_regions * encoder.n_codes:
        return None
    # The codes of all regions, and of a unit and its negation, belong to one filter.
    codes = rows[:, : n_regions * encoder.n_codes].reshape(len(rows), -1, len(components)).mean(axis=1)
    for entry, strongest in zip(about, traits(codes, groups, n_traits=len(components)), strict=True):
        more = [trait for trait in strongest if trait.difference > 0][:_N_UNITS]
        entry["units"] = [[trait.column, short(trait.difference)] for trait in more]
    size, n_channels = first.patch_size, layers[0].n_channels
    tiles = pictures.as_color(filter_pictures(components.reshape(-1, size, size, n_channels)))
    return sheet_of(pictures.shrunk(tiles, _FILTER_SIDE))


def _about_pictures(shown: Thumbnails) -> dict[str, Any]:
    return {
        "kind": "images",
        "sheets": shown.sheets,
        "side": shown.side,
        "across": shown.across,
        "perSheet": shown.per_sheet,
        "sizes": packed(shown.sizes, np.uint8),
        "colors": packed(shown.colors, np.uint8),
    }


def _about_columns(vectors: Array, columns: Sequence[str] | None) -> dict[str, Any]:
    """Return the most unusual columns of each vector, with their values."""
    n_columns = vectors.shape[1]
    if columns is not None and len(columns) != n_columns:
        raise ValueError(f"{len(columns)} column names were given for {n_columns} columns: give one for each")
    names = [f"column {k}" for k in range(n_columns)] if columns is None else [str(name) for name in columns]
    deviations = vectors.std(axis=0)
    unusual = np.abs(vectors - vectors.mean(axis=0)) / np.where(deviations > 0, deviations, np.inf)
    strongest: Indices = np.argsort(-unusual, axis=1, kind="stable")[:, :_TRAITS_OF_A_SAMPLE]
    return {
        "kind": "vectors",
        "columns": names,
        "nUnusual": strongest.shape[1],
        "unusual": packed(strongest, np.uint32),
        "values": packed(np.take_along_axis(vectors, strongest, axis=1), np.float32),
    }


def packed(values: Any, dtype: Any) -> str:
    """Encode numbers as text for a typed array in the page. It is much smaller and faster than JSON."""
    little: NDArray[Any] = np.ascontiguousarray(values, np.dtype(dtype).newbyteorder("<"))
    return base64.b64encode(little.tobytes()).decode()
