"""The page about a model: its units, what excites them, and how sparse and balanced its responses are.

A layer is one of three kinds: units of vectors, drawn as bars; units that see pixels, drawn as filters; and units above
them (:mod:`epls.report.stack`), shown by the parts of images that excite them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted

from ..encoders.natural import NaturalEncoder
from ..images.features import ImageFeatures
from ..images.models import ImageModel, ModelLayer, image_features, layers_of, learner_of
from ..images.patches import sample_placed_patches
from ..images.reading import ImageCollection, Images
from ..plotting import colors_shown, filter_pictures
from ..utils.sklearn import safe_indexing
from ..utils.types import Array, Progress
from ..utils.wording import counted
from .page import as_picture, bar_tiles, page, sheet_of, short, shrunk, values_of
from .stack import part_layers
from .units import TOP, apart, filter_statistics, layer_content, n_samples_for, some_of, strongest_samples

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
    else:
        content = _of_images(features, X, random, lambda done, total: progress("encode", done, total))
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
    seen = some_of(len(codes), len(X), "samples")
    content = layer_content(
        codes,
        components,
        [learner],
        "samples",
        facts=[
            ("Model", f"{type(learner).__name__}, {len(components)} units"),
            ("A unit sees", f"{components.shape[1]} features"),
            ("Shown here", seen),
            ("Outputs", "the learner's own" + (", after the steps before it" if learner is not model else "")),
        ],
        about=[f"{type(learner).__name__}, {len(components):,} units of {components.shape[1]:,} features", seen],
    )
    return content | {
        "kind": "vectors",
        "tiles": sheet_of(bar_tiles(components)),
        "features": strongest_inputs(components, input_names(model, names), _TOP_FEATURES),
        "top": [
            [{"sample": int(numbers[k]), "answer": short(abs(codes[k, unit]))} for k in top]
            for unit, top in enumerate(strongest_samples(codes, TOP))
        ],
    }


def input_names(model: Any, names: Sequence[str] | None) -> list[str]:
    """Return the names of the inputs of a model's learner: the columns, or the outputs of the steps before it."""
    n_features = learner_of(model).components_.shape[1]
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


def strongest_inputs(components: Array, names: Sequence[str], n_inputs: int) -> list[list[tuple[str, float]]]:
    """For each unit, return the inputs with the largest weights, and these weights."""
    strongest = np.argsort(-np.abs(components), axis=1, kind="stable")[:, :n_inputs]
    return [[(names[k], short(own[k])) for k in of_unit] for own, of_unit in zip(components, strongest, strict=True)]


def _checked_codes(codes: Array, components: Array) -> Array:
    """Return codes after checking that there is one for each component."""
    if codes.shape[1] != len(components):
        raise ValueError(
            f"the model has {len(components)} components but returns {codes.shape[1]} codes: a report requires "
            f"a code for each component"
        )
    return codes


def _of_images(
    features: ImageModel, X: Images, random: np.random.RandomState, progress: Callable[[int, int], None]
) -> dict[str, Any]:
    layers = layers_of(features)
    images = ImageCollection(X, features.smallest_side(1), features.n_channels_, features.whole_numbers_)
    most = _MOST_IMAGES if len(layers) == 1 else _MOST_IMAGES_OF_A_STACK
    shown = images.some(np.sort(random.permutation(len(images))[:most]))
    seen = some_of(len(shown), len(images), "images")
    values = values_of(shown)
    contents: list[dict[str, Any]] = []
    if len(layers[0].groups) == 1:  # otherwise its units see different channels, and have no filters to draw
        contents.append(_filter_layer(layers[0].groups[0], shown, seen, values, random))
    parts, thumbnails = part_layers(features, len(contents), shown, seen, values, random, progress)
    contents += parts
    for k, (content, layer) in enumerate(zip(contents, layers, strict=True)):
        groups = f" in {len(layer.groups)} groups" if len(layer.groups) > 1 else ""
        n_units = layer.n_units if len(layers) > 1 else len(content["units"]["number"])
        learner = f"{type(layer.groups[0].estimator_).__name__}, {n_units:,} units{groups}"
        field = _about_field(layer, k)
        if len(layers) == 1:
            facts, about = ("Model", learner), f"{learner} of {layer.sees} x {layer.sees} pixels"
        else:
            facts, about = ("Layer", f"{k + 1} of {len(layers)}: {learner}"), f"each unit sees {field}"
            content["about"] = f"{n_units:,} units, each sees {layer.sees} x {layer.sees} pixels"
            content["intro"] = _intro(content, k, len(shown))
        content["facts"][:0] = [facts, ("A unit sees", field)]
        content["summary"].insert(0, about)
    return {"layers": contents, "images": thumbnails}


def _filter_layer(
    model: ImageFeatures,
    shown: ImageCollection,
    seen: str,
    values: tuple[float, float],
    random: np.random.RandomState,
) -> dict[str, Any]:
    """Return the content about a layer that sees pixels of the shown images; ``seen`` says which these are."""
    components = model.encoder_.components()
    n_samples = min(n_samples_for(len(components)), max(_VALUES // components.shape[1], 1000))
    pixels, places = sample_placed_patches(shown, n_samples, model.patch_size, random_state=random)
    places, different = np.unique(places, axis=0, return_index=True)  # small images have fewer than are drawn
    pixels = pixels[different]
    codes = _checked_codes(NaturalEncoder(model.estimator_).transform(model.prepare_patches(pixels)), components)
    size = model.patch_size
    filters = components.reshape(-1, size, size, model.n_channels_)
    seen = f"{counted(len(codes), 'patches', 'patch')} from {seen}"
    encoded = f"{type(model.encoder_).__name__}, stride {model.stride}, {model.pooling} pooling"
    content = layer_content(
        codes,
        components,
        [model.estimator_],
        "patches",
        facts=[
            ("Shown here", seen),
            ("Outputs", f"the learner's own; features of images are computed by {encoded}"),
        ],
        about=[seen],
        measures=filter_statistics(filters),
    )
    if (told := colors_shown(model.n_channels_)) is not None:
        content["facts"].append(("Colors", f"filters and images are shown in false colors: {told}"))
    tile_bytes = 3 * min(size, _LARGEST_TILE) ** 2
    n_top = min(TOP, max(1, _PATCH_BYTES // (tile_bytes * len(components))))
    # More than are shown, because overlapping patches look much the same.
    strongest = strongest_samples(codes, _CANDIDATES * TOP)
    top = [samples[apart(places[samples], size, n_top)] for samples in strongest]
    used = np.unique(np.concatenate(top))
    patches = as_picture(pixels[used].reshape(-1, *filters.shape[1:]), values)
    return content | {
        "kind": "images",
        "tiles": sheet_of(filter_pictures(shrunk(filters, _LARGEST_TILE))),
        "patches": sheet_of(shrunk(patches, _LARGEST_TILE)),
        "size": size,
        "top": [
            [
                {"tile": int(np.searchsorted(used, k)), "place": places[k], "answer": short(abs(codes[k, unit]))}
                for k in samples
            ]
            for unit, samples in enumerate(top)
        ],
    }


def _about_field(layer: ModelLayer, k: int) -> str:
    """Describe what a unit of the ``k``-th layer sees."""
    n_seen, n_channels, pixels = len(layer.channels[0]), layer.n_channels, f"{layer.sees} x {layer.sees} pixels"
    whitened = ", whitened" if layer.groups[0].whiten else ""
    if k == 0 and n_seen == n_channels:
        colors = {1: "gray", 3: "color"}.get(n_seen, f"{n_seen} channels")
        return f"{pixels} in {colors}{whitened}"
    if k == 0:
        return f"{pixels}, {n_seen} of {n_channels} channels{whitened}"
    units = f"{n_seen} of the {n_channels:,} units of layer {k}" if n_seen < n_channels else f"layer {k}"
    return f"{pixels} of the image, through {units} at {layer.patch_size} x {layer.patch_size} places{whitened}"


def _intro(content: dict[str, Any], k: int, n_images: int) -> str:
    if content["kind"] == "images":
        return "Units of the first layer see pixels. Each tile is the filter of a unit: what it looks for in a patch."
    different = ", each in another image" if n_images >= TOP else ""
    below = f"the units of layer {k} that feed it" if k > 0 else "the channels of the image that feed it"
    return (
        f"Each tile shows the {max(map(len, content['top']))} parts of images that excite a unit most{different}. "
        f"Choose a unit to see them in their images, and {below}."
    )
