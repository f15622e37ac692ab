"""The paper's experiment: learn from patches, encode all images, judge the features. Each stage is kept on disk."""

from __future__ import annotations

import platform
import time
from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..algorithm.progress import has_settled
from ..callbacks import OnEpoch
from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..evaluation.comparison import library_learner
from ..evaluation.summary import dead_units
from ..images.features import ImageFeatures
from ..images.models import ImageModel
from ..images.pooling import RegionGrid, pool_sums
from ..images.recipes import tell_epochs
from ..images.stack import DeepFeatures, usual_layers
from ..learners import LEARNERS
from ..learners.base import Learner, UnitLearner
from ..learners.epls import EPLS
from ..metrics import dead_outputs
from ..utils.threads import row_blocks
from ..utils.types import Array, Progress
from .cache import Cache, fingerprint
from .judge import cross_validated, judge
from .task import LabelledImages, Task

# Raise this when learning, encoding or judging give different results: earlier results are then computed again.
_RESULTS_VERSION = 2
_BLOCK_IMAGES = 1000  # pooled at a time
_BLOCK_PATCHES = 10_000  # encoded at a time
_SAMPLE = 1000  # images that are checked for features of a stack that never change
_LEARN_SETTINGS = ("learner", "n_components", "n_patches", "patch_size", "whiten", "seed")
_ENCODE_SETTINGS = ("encoder", "split_sign", "stride", "grid")

# The paper's penalties for sparse coding; and the number of images to choose one with, which takes minutes.
ALPHAS = (0.5, 0.75, 1.0, 1.25, 1.5)
_CHOICE_FOLDS, _CHOICE_IMAGES = 3, 1000


@dataclass(frozen=True)
class Settings:
    """All settings that determine the figures, except the images.

    ``learner_settings`` are those that differ from the learner's defaults. By default, the number of patches is the
    usual one of the learner, that of Coates and Ng. The paper uses ``pooling="sum"``, see ``ImageFeatures``. ``alpha``
    is a parameter of some encoders; None uses its default, or for sparse coding the value of :data:`ALPHAS` that is
    best in cross-validation. ``mirror`` also uses mirror images: "features" averages the features of an image and its
    mirror image; "decisions" trains the classifier on both and adds its decisions about both. If ``layers`` is above 1,
    the features of a stack of this many layers (:func:`epls.images.stack.usual_layers`) are added to those of the
    single layer that the other settings describe. The stack has the same learner, with its own whitening and encoder;
    its highest layer has the ``encoder`` of these settings, unless that is the natural one. The ``classifier`` is "svm"
    or "least_squares", see :func:`~epls.paper.judge.judge`.
    """

    learner: str = "epls"
    learner_settings: dict[str, Any] = field(default_factory=dict, hash=False)
    n_components: int = 1600
    n_patches: int | None = None
    patch_size: int = 10
    whiten: bool = False
    seed: int = 0
    encoder: str = "natural"
    alpha: float | None = None
    split_sign: bool = False
    stride: int = 1
    grid: int = 2
    pooling: str = "log"
    mirror: str | None = None
    layers: int = 1
    classifier: str = "svm"

    def __post_init__(self) -> None:
        if self.n_patches is None:
            object.__setattr__(self, "n_patches", LEARNERS[self.learner].usual_patches)
        if self.classifier == "least_squares" and self.mirror == "decisions":
            raise ValueError(
                "least_squares would choose its penalty on mirror images of training samples, which are not "
                "independent: average the features of mirror images, or use the svm"
            )

    def some(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the settings with these names."""
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class Outcome:
    """The result of an experiment.

    It has the settings, with the chosen penalty; the fitted features; the verdict of each fold; the accuracy of each
    penalty in cross-validation, if one had to be chosen; the seconds of each stage; the course of training
    (:func:`training_facts` and dead units); and the source of the patches (:meth:`Task.origin`).

    One penalty is used for all folds. In the development protocol, it was therefore chosen with the labels of some
    images that folds are tested on, though never by testing on them. It is a choice among five.
    """

    settings: Settings
    features: ImageFeatures
    folds: list[dict[str, float]]
    alphas: list[dict[str, float]]
    seconds: dict[str, float]
    training: dict[str, Any]
    patches: dict[str, Any]

    def report(self) -> dict[str, Any]:
        """Return everything worth keeping, as plain values."""
        packages = ("numpy", "scipy", "scikit-learn", "numba")
        accuracies = [fold["accuracy"] for fold in self.folds]
        return {
            "settings": asdict(self.settings),
            "accuracy": float(np.mean(accuracies)),
            "std": float(np.std(accuracies)),
            "folds": self.folds,
            "alphas": self.alphas,
            "training": self.training,
            "patches": self.patches,
            "seconds": self.seconds,
            "versions": {"epls": __version__, "python": platform.python_version()}
            | {name: version(name) for name in packages},
        }


def run_experiment(settings: Settings, task: Task, cache: Cache, progress: Progress) -> Outcome:
    """Learn, encode and judge, unless the results are already in the cache."""
    learner, unlabelled = new_learner(settings), task.unlabelled
    source = {"results": _RESULTS_VERSION, "unlabelled": fingerprint(unlabelled)}
    inputs = source | settings.some(_LEARN_SETTINGS) | {"learner": [settings.learner, repr(learner.get_params())]}
    learned, learn_seconds = cache.model(inputs, lambda: _learned(learner, settings, unlabelled, progress))
    training = training_facts(learned.estimator_) | _lifeless(learned, settings, unlabelled, inputs, cache)
    tried: list[dict[str, float]] = []
    if settings.encoder == "sparse_coding" and settings.alpha is None:
        tried = _tried_alphas(learned, settings, task, inputs, cache, progress)
        settings = replace(settings, alpha=max(tried, key=lambda trial: trial["accuracy"])["alpha"])
    features = _with_encoder(learned, settings, unlabelled)
    inputs |= _encode_inputs(settings)

    labelled = {"training images": task.train} | ({"test images": task.test} if task.test is not None else {})
    names = {  # often the images to learn from are the training images: this avoids reading gigabytes twice
        name: source["unlabelled"] if one.images is unlabelled else fingerprint(one.images)
        for name, one in labelled.items()
    }
    sets, encode_seconds = {}, 0.0
    for name, one in labelled.items():
        of_set = inputs | {"images": names[name]}
        sums, seconds = _sums(features, f"encode {name}", one.images, of_set, cache, progress)
        sets[name] = _EncodedSet(features, one, sums)
        encode_seconds += seconds
    if settings.layers > 1:
        stack, of_stack, seconds = _learned_stack(learner, settings, unlabelled, source, cache, progress)
        learn_seconds += seconds
        for name, encoded in sets.items():
            of_set, stage = of_stack | {"images": names[name]}, f"encode {name} by layers"
            stacked, seconds = _stacked(stack, settings.mirror, stage, labelled[name].images, of_set, cache, progress)
            sets[name] = replace(encoded, stacked=stacked)
            encode_seconds += seconds
        training["layers"] = _stack_facts(stack, sets["training images"].stacked)
        likewise = _encodes_highest(learner, settings)
        inputs["layers"] = [settings.layers, "highest encoded likewise"] if likewise else settings.layers

    inputs |= {"sets": names, "pooling": [settings.pooling, features.typical_code_]}
    verdicts = _judged(settings, task, sets, inputs, cache, progress)
    seconds_of = {
        "learn": learn_seconds,
        **({"choose": sum(trial["seconds"] for trial in tried)} if tried else {}),
        "encode": encode_seconds,
        "classify": sum(fold["seconds"] for fold in verdicts),
    }
    patches = {"number": settings.n_patches} | task.origin()
    return Outcome(settings, features, verdicts, tried, seconds_of, training, patches)


def new_learner(settings: Settings) -> Learner:
    """Return the learner for these settings, with the number of components and the seed if it has them."""
    shared = {"n_components": settings.n_components, "random_state": settings.seed}
    return library_learner(settings.learner, settings.learner_settings, **shared)


def _learned(learner: Any, settings: Settings, unlabelled: Any, progress: Progress) -> ImageFeatures:
    if hasattr(learner, "set_callbacks"):
        learner.set_callbacks(OnEpoch(lambda done, total: progress("learn", done, total)))
    features = ImageFeatures(
        learner,
        patch_size=settings.patch_size,
        n_patches=settings.n_patches,
        whiten=settings.whiten,
        pooling="sum",  # works even if all codes are 0; the actual pooling is set later
        random_state=settings.seed,
    )
    return features.fit(unlabelled)


def _lifeless(
    learned: ImageFeatures, settings: Settings, unlabelled: Any, inputs: dict[str, Any], cache: Cache
) -> dict[str, Any]:
    """Return the number of units and of useless ones: see :func:`dead_units` and :func:`silent_units`."""
    assert settings.n_patches is not None  # set when settings are created
    (n_unresponsive,) = cache.items("dead_units", inputs, [partial(dead_units, learned, unlabelled)])
    count = partial(silent_units, learned, unlabelled, settings.n_patches, settings.seed)
    (n_silent,) = cache.items("silent_units", inputs, [count])
    return {"n_units": len(learned.encoder_.components()), "n_unresponsive": n_unresponsive, "n_silent": n_silent}


def training_facts(learner: Any) -> dict[str, Any]:
    """Describe how training went, as plain values.

    ``n_iter`` and ``loss_curve`` are None if the learner has none. For EPLS, ``ended_by`` is "stop rule"; "limit on
    epochs" if there is a stop rule but it did not apply; or "number of epochs" if there is no stop rule.
    """
    curve = getattr(learner, "loss_curve_", None)
    return {
        "n_iter": getattr(learner, "n_iter_", None),
        "ended_by": _ended_by(learner) if isinstance(learner, EPLS) else None,
        "loss_curve": None if curve is None else [float(error) for error in curve],
    }


def _ended_by(learner: EPLS) -> str:
    tol = learner.tol if learner.tol is not None or learner.settings is None else learner.settings.tol
    if tol is None:
        return "number of epochs"
    return "stop rule" if has_settled(learner.loss_curve_, tol) else "limit on epochs"


def silent_units(features: ImageFeatures, images: Any, n_patches: int, seed: int) -> int | None:
    """Count the units f(w·x + b) that are nearly inactive for all patches; see :func:`epls.metrics.dead_outputs`.

    Unlike :func:`dead_units`, it has an absolute scale, so it also notices if all units are alike. With the number of
    patches and the seed used in learning, the patches are the same. It returns None for other learners, whose codes
    have no active value.
    """
    learner = features.estimator_
    if not isinstance(learner, UnitLearner):
        return None
    patches = features.draw_patches(images, n_patches, random_state=seed)
    blocks = row_blocks(n_patches, _BLOCK_PATCHES)
    largest = np.max([learner.transform(patches[some]).max(axis=0) for some in blocks], axis=0)
    f = learner.as_layer().activation
    return len(dead_outputs(largest[np.newaxis], inactive=f.inactive, active=f.active))


def _with_encoder(learned: ImageFeatures, settings: Settings, unlabelled: Any) -> ImageFeatures:
    """Return the learned features with the required encoder and pooling."""
    others = settings.some(("stride", "grid", "pooling")) | {"mirror": settings.mirror is not None}
    return learned.with_encoder(unlabelled, _new_encoder(settings), **others)


def _new_encoder(settings: Settings) -> Encoder:
    encoder: Encoder = ENCODERS[settings.encoder](split_sign=settings.split_sign)
    return encoder if settings.alpha is None else encoder.set_params(alpha=settings.alpha)


def _encode_inputs(settings: Settings) -> dict[str, Any]:
    """Return everything besides the components that determines the codes, including defaults."""
    found = settings.some(_ENCODE_SETTINGS) | {"encoder": [settings.encoder, repr(_new_encoder(settings).get_params())]}
    return found | ({"mirror": True} if settings.mirror else {})


def _tried_alphas(
    learned: ImageFeatures, settings: Settings, task: Task, inputs: dict[str, Any], cache: Cache, progress: Progress
) -> list[dict[str, float]]:
    """Return for each penalty the percentage classified correctly in cross-validation within folds, and the seconds.

    It encodes patches half a patch apart, or as far apart as images allow.
    """
    random = np.random.RandomState(0)
    some_folds = [
        fold if len(fold) <= _CHOICE_IMAGES else random.choice(fold, _CHOICE_IMAGES, replace=False)
        for fold in task.folds[:_CHOICE_FOLDS]
    ]
    numbers = np.unique(np.concatenate(some_folds))
    images = task.train.images[numbers]
    inputs = inputs | {"images": fingerprint(images)}
    farthest = (min(images.shape[1:3]) - settings.patch_size) // max(1, settings.grid - 1)
    stride = max(settings.stride, min(settings.patch_size // 2, farthest))

    def outcome(alpha: float) -> dict[str, float]:
        started = time.perf_counter()
        trial = replace(settings, alpha=alpha, stride=stride, mirror=None)
        features = _with_encoder(learned, trial, task.unlabelled)
        sums, _ = _sums(features, f"try penalty {alpha}", images, inputs | _encode_inputs(trial), cache, progress)
        pooled = _pooled(features, sums, images)
        scores = [cross_validated(pooled[np.searchsorted(numbers, f)], task.train.labels[f]) for f in some_folds]
        return {"alpha": alpha, "accuracy": float(np.mean(scores)), "seconds": time.perf_counter() - started}

    of_all = {
        "alphas": ALPHAS,
        "folds": fingerprint(some_folds),
        "labels": fingerprint([task.train.labels[fold] for fold in some_folds]),
        "pooling": settings.pooling,
    }
    makers = [partial(outcome, alpha) for alpha in ALPHAS]
    return cache.items("penalties", inputs | _encode_inputs(settings) | of_all, makers)


def _kept_views(
    features: ImageModel, stage: str, images: Any, inputs: dict[str, Any], shape: tuple[int, ...], cache: Cache,
    progress: Progress,
) -> tuple[Array, float]:  # fmt: skip
    """Return the views of images, or their mean if a row of ``shape`` has room for one, and the seconds they took."""

    def rows(start: int) -> Iterator[Array]:
        progress(stage, start, len(images))
        for number, views in enumerate(features.views(features.fitting_images(images), start, held=False), start + 1):
            progress(stage, number, len(images))
            yield (views if views.size == np.prod(shape[1:]) else views.mean(axis=0)).reshape(shape[1:])

    return cache.rows(inputs, shape, rows)


def _sums(
    features: ImageFeatures, stage: str, images: Any, inputs: dict[str, Any], cache: Cache, progress: Progress
) -> tuple[Array, float]:
    """Return the sums of codes over regions, (n_images, [2,] n_regions, n_codes), and the seconds they took."""
    shape = (len(images), *([2] if features.mirror else []), features.grid**2, features.encoder_.n_codes)
    summing = copy(features).set_params(pooling="sum")
    return _kept_views(summing, stage, images, inputs, shape, cache, progress)


def _pooled(features: ImageFeatures, sums: Array, images: Any) -> Array:
    """Return the features (n_images, [2,] n_features) of images of one size from sums over their regions."""
    regions = RegionGrid(features.geometry.positions(*images.shape[1:3]), features.grid)
    pooled = pool_sums(sums, regions.counts, features.pooling, features.typical_code_)
    return pooled.reshape(*sums.shape[:-2], -1)


def _encodes_highest(learner: Learner, settings: Settings) -> bool:
    """Return whether the highest layer of a stack has the encoder of the settings, not the learner's own."""
    return settings.encoder not in ("natural", learner.own_encoder)


def _learned_stack(
    learner: Learner, settings: Settings, unlabelled: Any, source: dict[str, Any], cache: Cache, progress: Progress
) -> tuple[DeepFeatures, dict[str, Any], float]:
    """Return a stack whose layers have this learner, what its features depend on, and the seconds of learning."""
    layers = usual_layers(*unlabelled.shape[1:3], n_layers=settings.layers, estimator=learner)
    described = [repr(layer.get_params()) for layer in layers]
    inputs = source | {"layers": described, "grid": settings.grid, "seed": settings.seed}

    def learned() -> DeepFeatures:
        tell_epochs(layers, progress)
        return DeepFeatures(layers, grid=settings.grid, random_state=settings.seed).fit(unlabelled)

    stack, seconds = cache.model(inputs, learned)
    if _encodes_highest(learner, settings):
        encoder = _new_encoder(settings)
        stack = stack.with_encoder(unlabelled, encoder)
        inputs |= {"highest": [type(encoder).__name__, repr(encoder.get_params())]}
    stack.mirror = settings.mirror is not None
    return stack, inputs, seconds


def _stacked(
    stack: DeepFeatures, mirror: str | None, stage: str, images: Any, inputs: dict[str, Any], cache: Cache,
    progress: Progress,
) -> tuple[Array, float]:  # fmt: skip
    """Return features of a stack (n_images, [2,] n_features), two for mirrored decisions, and the seconds they took."""
    both = mirror == "decisions"
    shape = (len(images), *([2] if both else []), stack._n_features_out)
    inputs = inputs | {"mirror": stack.mirror, "views": both}
    return _kept_views(stack, stage, images, inputs, shape, cache, progress)


def _stack_facts(stack: DeepFeatures, stacked: Any) -> list[dict[str, int]]:
    """Return the number of units of each layer, and of those whose features never change over some images."""
    found, start = [], 0
    sample = np.asarray(stacked[:_SAMPLE]).reshape(-1, stacked.shape[-1])
    for layer in stack.layers_:
        stop = start + stack.grid**2 * layer.n_codes
        ranges = np.ptp(sample[:, start:stop], axis=0).reshape(-1, layer.n_codes).max(axis=0)
        found.append({"n_units": layer.n_codes, "n_unresponsive": int(np.sum(ranges == 0))})
        start = stop
    return found


@dataclass(frozen=True)
class _EncodedSet:
    """Labelled images, the sums of their codes on disk and, if there is a stack, its features on disk."""

    model: ImageFeatures
    labelled: LabelledImages
    sums: Array
    stacked: Array | None = None

    def features(self, numbers: NDArray[np.int64], mirror: str | None) -> Array:
        """Return features of some images as a new array; for mirrored decisions, (n_images, 2, n_features)."""
        n_values = self.sums.shape[-2] * self.sums.shape[-1]
        n_all = n_values + (0 if self.stacked is None else self.stacked.shape[-1])
        found = np.empty((len(numbers), *([2] if mirror == "decisions" else []), n_all), np.float32)
        for some in row_blocks(len(numbers), _BLOCK_IMAGES):
            views = _pooled(self.model, self.sums[numbers[some]], self.labelled.images)
            # Both views of an image are encoded, and stay apart for decisions.
            found[some, ..., :n_values] = views.mean(axis=1) if mirror == "features" else views
            if self.stacked is not None:
                found[some, ..., n_values:] = self.stacked[numbers[some]]
        return found


def _judged(
    settings: Settings, task: Task, sets: dict[str, _EncodedSet], inputs: dict[str, Any], cache: Cache,
    progress: Progress,
) -> list[dict[str, float]]:  # fmt: skip
    """Return the verdict of each fold."""
    inputs = inputs | {
        "labels": fingerprint([encoded.labelled.labels for encoded in sets.values()]),
        "folds": fingerprint(task.folds),
        **({"mirror": settings.mirror} if settings.mirror else {}),
        **({"classifier": settings.classifier} if settings.classifier != "svm" else {}),
    }
    makers = [partial(_verdict, number, settings, task, sets, progress) for number in range(len(task.folds))]
    return cache.items("verdicts", inputs, makers)


def _verdict(
    number: int, settings: Settings, task: Task, sets: dict[str, _EncodedSet], progress: Progress
) -> dict[str, float]:
    """Train a classifier on a fold and test it; return the verdict and the seconds it took, as plain values."""
    progress("classify", number, len(task.folds))
    started = time.perf_counter()
    fold, train = task.folds[number], sets["training images"]
    numbers, test = task.tested(fold), sets.get("test images", train)
    found = judge(
        train.features(fold, settings.mirror),
        train.labelled.labels[fold],
        test.features(numbers, settings.mirror),
        test.labelled.labels[numbers],
        settings.classifier,
    )
    progress("classify", number + 1, len(task.folds))
    return asdict(found) | {"seconds": time.perf_counter() - started}
