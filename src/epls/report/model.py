"""The page about a model: its units, what excites them, and how sparse and balanced its responses are.

A layer is one of three kinds: units of vectors, drawn as bars; units that see pixels, drawn as filters; and units above
them (:mod:`epls.report.stack`), shown by the parts of images that excite them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..encoders.natural import NaturalEncoder
from ..images.features import ImageFeatures
from ..images.models import ImageModel, ModelLayer, image_features, layers_of, learner_of
from ..images.patches import sample_placed_patches
from ..images.reading import ImageCollection, Images
from ..images.stack import DeepFeatures
from ..plotting import colors_shown, false_colors, filter_pictures
from ..utils.sklearn import safe_indexing
from ..utils.types import Array, Progress
from ..utils.wording import counted
from .page import as_bytes, as_color, bar_tiles, page, sheet_of, short, shrunk, thumbnail_of, values_of
from .stack import part_layers
from .units import TOP, filter_statistics, layer_content, n_samples_for, rounded, some_of, unit_statistics

_TOP_FEATURES = 8
_MOST_IMAGES, _MOST_IMAGES_OF_A_STACK = 200, 300
_VALUES = 2**27  # of patches with many channels: half a gigabyte
_CANDIDATES = 4  # times as many, because some overlap
_PATCH_BYTES = 3_500_000  # of all top patches, before they are compressed
_LARGEST_TILE = 24  # pixels; larger patches and filters are averaged down


def model_page(
    model: Any,
    X: Images,
    *,
    title: str = "What was learned",
    feature_names: Sequence[str] | None = None,
    random_state: Any = 0,
    progress: Progress = lambda stage, done, total: None,
) -> str:
    """Create a page that shows what a model has learned, on samples of data.

    Parameters
    ----------
    model : fitted ImageFeatures, DeepFeatures, learner, or Pipeline that begins or ends with one of these
        The model.
    X : images for ImageFeatures and DeepFeatures, else array-like of shape (n_samples, n_features)
        Data to show the responses of the units. Up to 30,000 patches of 200 images (300 for several layers), or 30,000
        samples, are drawn.
    title : str
        The heading of the page.
    feature_names : sequence of str or None, default=None
        The names of the features of vectors. By default, those that the model was fitted with, or numbers.
    random_state : int, RandomState or None, default=0
        Determines which samples are drawn.
    progress : callable, optional
        Called with the stage, the number of steps done and the total number of steps.

    Returns
    -------
    str
        A self-contained HTML page.
    """
    check_is_fitted(model)
    random = check_random_state(random_state)
    progress("report", 0, 2)
    features = image_features(model)
    if features is None:
        content = {"layers": [_vector_layer(model, X, feature_names, random)], "images": []}
    elif isinstance(features, DeepFeatures):
        content = _of_stack(features, X, random, lambda done, total: progress("encode", done, total))
    else:
        content = _of_images(features, X, random)
    progress("report", 1, 2)
    html = page("model", title, content)
    progress("report", 2, 2)
    return html


def _vector_layer(model: Any, X: Any, names: Sequence[str] | None, random: np.random.RandomState) -> dict[str, Any]:
    learner = learner_of(model)
    if not hasattr(learner, "components_"):
        raise ValueError(f"a {type(learner).__name__} has no units to show: give a learner or ImageFeatures")
    components = np.asarray(learner.components_)
    numbers = np.sort(random.permutation(len(X))[: n_samples_for(len(components))])
    samples = safe_indexing(X, numbers)  # supports data frames
    if not hasattr(samples, "columns"):
        samples = check_array(samples)
    codes = _checked_codes(np.asarray(model.transform(samples)), components)
    statistics = unit_statistics(codes, components, n_top=TOP)
    names = _feature_names(model, components.shape[1], names)
    strongest = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :_TOP_FEATURES]
    seen = some_of(len(codes), len(X), "samples")
    content = layer_content(
        statistics,
        "samples",
        [learner],
        facts=[
            ("Model", f"{type(learner).__name__}, {len(components)} units"),
            ("A unit sees", f"{components.shape[1]} features"),
            ("Shown here", seen),
            ("Outputs", "the learner's own" + (", after the steps before it" if learner is not model else "")),
        ],
        about=[f"{type(learner).__name__}, {len(components):,} units of {components.shape[1]:,} features", seen],
    )
    content["kind"] = "vectors"
    content["tiles"] = sheet_of(bar_tiles(components))
    content["features"] = [
        [[names[k], short(components[unit, k])] for k in features] for unit, features in enumerate(strongest)
    ]
    content["top"] = [
        [{"sample": int(numbers[k]), "answer": short(abs(codes[k, unit]))} for k in tops]
        for unit, tops in enumerate(statistics.strongest)
    ]
    return content


def _feature_names(model: Any, n_features: int, names: Sequence[str] | None) -> list[str]:
    """Return the names of the learner's inputs: the columns, or the outputs of the steps before it."""
    if names is None:
        names = getattr(model, "feature_names_in_", None)
    if isinstance(model, Pipeline) and len(model.steps) > 1:
        names = model[:-1].get_feature_names_out(names)
    elif names is None:
        names = [f"x{k}" for k in range(n_features)]
    if len(names) != n_features:
        raise ValueError(
            f"{len(names)} feature_names were given, but the learner has {n_features} features: give one for each"
        )
    return [str(name) for name in names]


def _checked_codes(codes: Array, components: Array) -> Array:
    """Return codes after checking that there is one for each component."""
    if codes.shape[1] != len(components):
        raise ValueError(
            f"the model has {len(components)} components but returns {codes.shape[1]} codes: a report requires "
            f"a code for each component"
        )
    return codes


def _some_images(
    model: ImageModel, X: Images, most: int, random: np.random.RandomState
) -> tuple[ImageCollection, ImageCollection]:
    """Return all images, and up to ``most`` of them to show, large enough for a unit of each layer."""
    images = ImageCollection(X, model.smallest_side(1), model.n_channels_, model.whole_numbers_)
    return images, images.some(np.sort(random.permutation(len(images))[:most]))


def _of_images(model: ImageFeatures, X: Images, random: np.random.RandomState) -> dict[str, Any]:
    images, shown = _some_images(model, X, _MOST_IMAGES, random)
    values = values_of(shown)
    layer = _filter_layer(model, shown, len(images), values, random)
    return {"layers": [layer], "images": [thumbnail_of(shown[k], shown.name(k), values) for k in range(len(shown))]}


def _filter_layer(
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
    codes = _checked_codes(NaturalEncoder(model.estimator_).transform(model.prepare_patches(pixels)), components)
    # More than are shown, because overlapping patches look much the same.
    statistics = unit_statistics(codes, components, n_top=_CANDIDATES * TOP)
    size, learner = model.patch_size, type(model.estimator_).__name__
    shape = (size, size, model.n_channels_)
    filters = components.reshape(-1, *shape)
    whitened = ", whitened" if model.whiten else ""
    settings = f"stride {model.stride}, {model.pooling} pooling"
    seen = f"{counted(len(codes), 'patches', 'patch')} from {some_of(len(shown), n_images, 'images')}"
    content = layer_content(
        statistics,
        "patches",
        [model.estimator_],
        facts=[
            ("Model", f"{learner}, {len(components)} units"),
            ("A unit sees", f"{size} x {size} pixels {_in_channels(model.n_channels_)}{whitened}"),
            ("Shown here", seen),
            (
                "Outputs",
                f"the learner's own; features of images are computed by {type(model.encoder_).__name__}, {settings}",
            ),
        ],
        about=[f"{learner}, {len(components):,} units of {size} x {size} pixels", seen],
        measures={name: rounded(figures) for name, figures in filter_statistics(filters).items()},
    )
    if (told := colors_shown(model.n_channels_)) is not None:
        content["facts"].append(["Colors", f"filters and images are shown in false colors: {told}"])
    content["kind"] = "images"
    content["tiles"] = sheet_of(as_color(filter_pictures(shrunk(filters, _LARGEST_TILE))))
    tile_bytes = 3 * min(size, _LARGEST_TILE) ** 2
    n_top = min(TOP, max(1, _PATCH_BYTES // (tile_bytes * len(components))))
    top = [_apart(samples, places, size, n_top) for samples in statistics.strongest]
    used = np.unique(np.concatenate(top))
    tiles = shrunk(as_bytes(false_colors(pixels[used].reshape(-1, *shape)), *values), _LARGEST_TILE)
    content["patches"] = sheet_of(as_color(tiles))
    content["size"] = size
    content["top"] = [
        [
            {"tile": int(np.searchsorted(used, k)), "place": places[k].tolist(), "answer": short(abs(codes[k, unit]))}
            for k in samples
        ]
        for unit, samples in enumerate(top)
    ]
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


def _of_stack(
    features: DeepFeatures, X: Images, random: np.random.RandomState, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    layers = layers_of(features)
    images, shown = _some_images(features, X, _MOST_IMAGES_OF_A_STACK, random)
    values = values_of(shown)
    contents: list[dict[str, Any]] = []
    if len(layers[0].groups) == 1:  # otherwise its units see different channels, and have no filters to draw
        first = _filter_layer(layers[0].groups[0], shown, len(images), values, random)
        del first["facts"][:2], first["summary"][0]  # model and what a unit sees are described for each layer below
        contents.append(first)
    parts, thumbnails = part_layers(features, len(contents), shown, len(images), values, random, progress)
    contents += parts
    for k, (content, layer) in enumerate(zip(contents, layers, strict=True)):
        groups = f" in {len(layer.groups)} groups" if len(layer.groups) > 1 else ""
        learner = f"{type(layer.groups[0].estimator_).__name__}, {layer.n_units:,} units{groups}"
        field = _about_field(layer, k)
        content["facts"][:0] = [["Layer", f"{k + 1} of {len(layers)}: {learner}"], ["A unit sees", field]]
        content["summary"].insert(0, f"each unit sees {field}")
        content["about"] = f"{layer.n_units:,} units, each sees {layer.sees} x {layer.sees} pixels"
        content["intro"] = _intro(content, k, len(shown))
    return {"layers": contents, "images": thumbnails}


def _in_channels(n_channels: int) -> str:
    return {1: "in gray", 3: "in color"}.get(n_channels, f"in {n_channels} channels")


def _about_field(layer: ModelLayer, k: int) -> str:
    """Describe what a unit of the ``k``-th layer sees."""
    n_seen, pixels = len(layer.channels[0]), f"{layer.sees} x {layer.sees} pixels of the image"
    whitened = ", whitened" if layer.groups[0].whiten else ""
    if k == 0:
        return (
            f"{pixels}, {n_seen} of {layer.n_channels} channels{whitened}"
            if n_seen < layer.n_channels
            else f"{pixels} {_in_channels(n_seen)}{whitened}"
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
