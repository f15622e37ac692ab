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
from ..algorithm.layer import activation_of
from ..algorithm.progress import has_settled
from ..callbacks import report_epochs
from ..encoders import ENCODERS
from ..encoders.base import Encoder
from ..evaluation.cache import Cache, fingerprint
from ..evaluation.comparison import library_learner
from ..evaluation.summary import never_active_units
from ..images.features import ImageFeatures
from ..images.models import ImageModel
from ..images.pooling import RegionGrid, pool_sums
from ..images.recipes import tell_epochs
from ..images.stack import DeepFeatures, usual_layers
from ..learners import LEARNERS
from ..learners.base import Learner
from ..learners.epls import EPLS
from ..metrics import never_active
from ..utils.threads import row_blocks
from ..utils.types import Array, Progress
from .judge import cross_validated, judge
from .task import LabelledImages, Task

# Raise this when learning, encoding or judging give different results: earlier results are then computed again.
_RESULTS_VERSION = 5
_BLOCK_IMAGES = 1000  # pooled at a time
_SAMPLE = 1000  # images that are checked for features of a stack that never change
_LEARN_SETTINGS = ("learner", "n_components", "n_patches", "patch_size", "whiten", "seed")
_ENCODE_SETTINGS = ("encoder", "split_sign", "stride", "grid")

# The paper's penalties for sparse coding; and the number of images to choose one with, which takes minutes.
ALPHAS = (0.5, 0.75, 1.0, 1.25, 1.5)
_CHOICE_FOLDS, _CHOICE_IMAGES = 3, 1000


@dataclass(frozen=True)
class Experiment:
    """All settings that determine the figures, except the images.

    ``learner_settings`` are those that differ from the learner's defaults. By default, the number of patches is the
    usual one of the learner, that of Coates and Ng. The paper uses ``pooling="sum"``, see ``ImageFeatures``. ``alpha``
    is a parameter of some encoders; None uses its default, or for sparse coding the value of :data:`ALPHAS` that is
    best in cross-validation. ``mirror`` also uses mirror images: "features" averages the features of an image and its
    mirror image; "decisions" trains the classifier on both and adds its decisions about both. If ``layers`` is above 1,
    the features of the usual stack of this many layers (:func:`epls.images.stack.usual_layers`) are added to those of
    the single layer that the other settings describe. Its highest layer has sparse codes if these settings have. The
    ``classifier`` is "svm" or "least_squares", see :func:`~epls.paper.judge.judge`.
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


def run_experiment(
    settings: Experiment, task: Task, cache: Cache, progress: Progress
) -> tuple[dict[str, Any], ImageFeatures]:
    """Learn, encode and judge, unless the results are already in the cache.

    Return the results as plain values, and the fitted features. The plain values are the settings, with the chosen
    penalty; the verdict of each fold; the accuracy of each penalty in cross-validation, if one had to be
    chosen; the course of training (:func:`training_facts` and units that are never active); the source of the patches
    (:meth:`Task.origin`); the seconds of each stage; and the versions of libraries.

    One penalty is used for all folds. In the development protocol, it was therefore chosen with the labels of some
    images that folds are tested on, though never by testing on them. It is a choice among five.
    """
    return _Run(settings, task, cache, progress).run()


class _Run:
    """The stages of an experiment, each from the cache if an earlier run has finished it."""

    def __init__(self, settings: Experiment, task: Task, cache: Cache, progress: Progress) -> None:
        self._settings, self._task, self._cache, self._progress = settings, task, cache, progress
        self._learner = new_learner(settings)
        # Everything that determines what is learned: by any model from these images, and by the single layer.
        self._source = {"results": _RESULTS_VERSION, "unlabelled": fingerprint(task.unlabelled)}
        learner = {"learner": [settings.learner, repr(self._learner.get_params())]}
        self._inputs = self._source | settings.some(_LEARN_SETTINGS) | learner

    def run(self) -> tuple[dict[str, Any], ImageFeatures]:
        """Run all stages, and return the plain values and the features of :func:`run_experiment`."""
        task = self._task
        learned, learn_seconds = self._cache.model(self._inputs, self._learned)
        training = training_facts(learned.estimator_) | self._never_active(learned)
        tried: list[dict[str, float]] = []
        if self._settings.encoder == "sparse_coding" and self._settings.alpha is None:
            tried = self._tried_alphas(learned)
            best = max(tried, key=lambda trial: trial["accuracy"])
            self._settings = replace(self._settings, alpha=best["alpha"])
        settings = self._settings
        features = self._with_encoder(learned, settings)
        if settings.layers > 1:
            stack, of_stack, seconds = self._learned_stack()
            learn_seconds += seconds

        inputs = self._inputs | _encode_inputs(settings)
        labelled = {"training images": task.train} | ({"test images": task.test} if task.test is not None else {})
        names = {  # often the images to learn from are the training images: this avoids reading gigabytes twice
            name: self._source["unlabelled"] if one.images is task.unlabelled else fingerprint(one.images)
            for name, one in labelled.items()
        }
        sets, encode_seconds = {}, 0.0
        for name, one in labelled.items():
            of_images = {"images": names[name]}
            sums, seconds = self._sums(features, f"encode {name}", one.images, inputs | of_images)
            encode_seconds += seconds
            stacked = None
            if settings.layers > 1:
                stage = f"encode {name} by layers"
                stacked, seconds = self._stacked(stack, stage, one.images, of_stack | of_images)
                encode_seconds += seconds
            sets[name] = _EncodedSet(features, one, sums, stacked)
        if settings.layers > 1:
            training["layers"] = _stack_facts(stack, sets["training images"].stacked)
            inputs["layers"] = of_stack

        folds = self._judged(sets, inputs | {"sets": names, "pooling": [settings.pooling, features.typical_code_]})
        accuracies = [fold["accuracy"] for fold in folds]
        packages = ("numpy", "scipy", "scikit-learn", "numba")
        report = {
            "settings": asdict(settings),
            "accuracy": float(np.mean(accuracies)),
            "std": float(np.std(accuracies)),
            "folds": folds,
            "alphas": tried,
            "training": training,
            "patches": {"number": settings.n_patches} | task.origin(),
            "seconds": {
                "learn": learn_seconds,
                **({"choose": sum(trial["seconds"] for trial in tried)} if tried else {}),
                "encode": encode_seconds,
                "classify": sum(fold["seconds"] for fold in folds),
            },
            "versions": {"epls": __version__, "python": platform.python_version()}
            | {name: version(name) for name in packages},
        }
        return report, features

    def _learned(self) -> ImageFeatures:
        learner, settings = self._learner, self._settings
        report_epochs(learner, partial(self._progress, "learn"))
        features = ImageFeatures(
            learner,
            patch_size=settings.patch_size,
            n_patches=settings.n_patches,
            whiten=settings.whiten,
            pooling="sum",  # works even if all codes are 0; the actual pooling is set later
            random_state=settings.seed,
        )
        return features.fit(self._task.unlabelled)

    def _never_active(self, learned: ImageFeatures) -> dict[str, Any]:
        """Return the number of units, and of those that are never active."""
        settings, drawn = self._settings, dict[str, Any]()
        if activation_of(learned.estimator_) is not None:  # fast enough for all patches that they learned from
            drawn = {"n_patches": settings.n_patches, "random_state": settings.seed}
        count = partial(never_active_units, learned, self._task.unlabelled, **drawn)
        (n_never_active,) = self._cache.items("never_active", self._inputs, [count])
        return {"n_units": len(learned.encoder_.components()), "n_never_active": n_never_active}

    def _with_encoder(self, learned: ImageFeatures, settings: Experiment) -> ImageFeatures:
        """Return the learned features with the required encoder and pooling."""
        others = settings.some(("stride", "grid", "pooling")) | {"mirror": settings.mirror is not None}
        return learned.with_encoder(self._task.unlabelled, _new_encoder(settings), **others)

    def _tried_alphas(self, learned: ImageFeatures) -> list[dict[str, float]]:
        """Return for each penalty the percentage classified correctly in cross-validation in folds, and the seconds.

        It encodes patches half a patch apart, or as far apart as images allow.
        """
        settings, train, random = self._settings, self._task.train, np.random.RandomState(0)
        some_folds = [
            fold if len(fold) <= _CHOICE_IMAGES else random.choice(fold, _CHOICE_IMAGES, replace=False)
            for fold in self._task.folds[:_CHOICE_FOLDS]
        ]
        numbers = np.unique(np.concatenate(some_folds))
        images = train.images[numbers]
        inputs = self._inputs | {"images": fingerprint(images)}
        farthest = (min(images.shape[1:3]) - settings.patch_size) // max(1, settings.grid - 1)
        stride = max(settings.stride, min(settings.patch_size // 2, farthest))

        def outcome(alpha: float) -> dict[str, float]:
            started = time.perf_counter()
            trial = replace(settings, alpha=alpha, stride=stride, mirror=None)
            features = self._with_encoder(learned, trial)
            sums, _ = self._sums(features, f"try penalty {alpha}", images, inputs | _encode_inputs(trial))
            pooled = _pooled(features, sums, images)
            scores = [cross_validated(pooled[np.searchsorted(numbers, f)], train.labels[f]) for f in some_folds]
            return {"alpha": alpha, "accuracy": float(np.mean(scores)), "seconds": time.perf_counter() - started}

        of_all = {
            "alphas": ALPHAS,
            "folds": fingerprint(some_folds),
            "labels": fingerprint([train.labels[fold] for fold in some_folds]),
            "pooling": settings.pooling,
        }
        makers = [partial(outcome, alpha) for alpha in ALPHAS]
        return self._cache.items("penalties", inputs | _encode_inputs(settings) | of_all, makers)

    def _learned_stack(self) -> tuple[DeepFeatures, dict[str, Any], float]:
        """Return the usual stack, what its features depend on, and the seconds of learning."""
        settings, images = self._settings, self._task.unlabelled
        layers = usual_layers(*images.shape[1:3], n_layers=settings.layers)
        described = [repr(layer.get_params()) for layer in layers]
        inputs = self._source | {"layers": described, "grid": settings.grid, "seed": settings.seed}

        def learned() -> DeepFeatures:
            tell_epochs(layers, self._progress)
            return DeepFeatures(layers, grid=settings.grid, random_state=settings.seed).fit(images)

        stack, seconds = self._cache.model(inputs, learned)
        if settings.encoder == "sparse_coding":
            encoder = _new_encoder(settings)
            stack = stack.with_encoder(images, encoder)
            inputs |= {"highest": [type(encoder).__name__, repr(encoder.get_params())]}
        stack.mirror = settings.mirror is not None
        return stack, inputs, seconds

    def _sums(self, features: ImageFeatures, stage: str, images: Any, inputs: dict[str, Any]) -> tuple[Array, float]:
        """Return the sums of codes over regions, (n_images, [2,] n_regions, n_codes), and the seconds they took."""
        shape = (len(images), *([2] if features.mirror else []), features.grid**2, features.encoder_.n_codes)
        return self._views(copy(features).set_params(pooling="sum"), stage, images, inputs, shape)

    def _stacked(self, stack: DeepFeatures, stage: str, images: Any, inputs: dict[str, Any]) -> tuple[Array, float]:
        """Return features of a stack (n_images, [2,] n_features), two for mirrored decisions, and the seconds."""
        both = self._settings.mirror == "decisions"
        shape = (len(images), *([2] if both else []), stack._n_features_out)
        return self._views(stack, stage, images, inputs | {"mirror": stack.mirror, "views": both}, shape)

    def _views(
        self, model: ImageModel, stage: str, images: Any, inputs: dict[str, Any], shape: tuple[int, ...]
    ) -> tuple[Array, float]:
        """Return the views of images, or their mean if a row of ``shape`` has room for one, and the seconds."""

        def rows(start: int) -> Iterator[Array]:
            self._progress(stage, start, len(images))
            for number, views in enumerate(model.views(model.fitting_images(images), start, held=False), start + 1):
                self._progress(stage, number, len(images))
                yield (views if views.size == np.prod(shape[1:]) else views.mean(axis=0)).reshape(shape[1:])

        return self._cache.rows(inputs, shape, rows)

    def _judged(self, sets: dict[str, _EncodedSet], inputs: dict[str, Any]) -> list[dict[str, float]]:
        """Return the verdict of each fold, and the seconds it took, as plain values."""
        settings, task, train = self._settings, self._task, sets["training images"]
        test = sets.get("test images", train)

        def verdict(number: int) -> dict[str, float]:
            self._progress("classify", number, len(task.folds))
            started = time.perf_counter()
            fold, tested = task.folds[number], task.tested(task.folds[number])
            found = judge(
                train.features(fold, settings.mirror),
                train.labelled.labels[fold],
                test.features(tested, settings.mirror),
                test.labelled.labels[tested],
                settings.classifier,
            )
            self._progress("classify", number + 1, len(task.folds))
            return asdict(found) | {"seconds": time.perf_counter() - started}

        inputs = inputs | {
            "labels": fingerprint([encoded.labelled.labels for encoded in sets.values()]),
            "folds": fingerprint(task.folds),
            **({"mirror": settings.mirror} if settings.mirror else {}),
            **({"classifier": settings.classifier} if settings.classifier != "svm" else {}),
        }
        return self._cache.items("verdicts", inputs, [partial(verdict, number) for number in range(len(task.folds))])


def new_learner(settings: Experiment) -> Learner:
    """Return the learner for these settings, with the number of components and the seed if it has them."""
    shared = {"n_components": settings.n_components, "random_state": settings.seed}
    return library_learner(settings.learner, settings.learner_settings, **shared)


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


def _new_encoder(settings: Experiment) -> Encoder:
    encoder: Encoder = ENCODERS[settings.encoder](split_sign=settings.split_sign)
    return encoder if settings.alpha is None else encoder.set_params(alpha=settings.alpha)


def _encode_inputs(settings: Experiment) -> dict[str, Any]:
    """Return everything besides the components that determines the codes, including defaults."""
    found = settings.some(_ENCODE_SETTINGS) | {"encoder": [settings.encoder, repr(_new_encoder(settings).get_params())]}
    return found | ({"mirror": True} if settings.mirror else {})


def _pooled(features: ImageFeatures, sums: Array, images: Any) -> Array:
    """Return the features (n_images, [2,] n_features) of images of one size from sums over their regions."""
    regions = RegionGrid(features.geometry.positions(*images.shape[1:3]), features.grid)
    pooled = pool_sums(sums, regions.counts, features.pooling, features.typical_code_)
    return pooled.reshape(*sums.shape[:-2], -1)


def _stack_facts(stack: DeepFeatures, stacked: Any) -> list[dict[str, int]]:
    """Return the number of units of each layer, and of those that are never active in some images."""
    found, start = [], 0
    sample = np.asarray(stacked[:_SAMPLE]).reshape(-1, stacked.shape[-1])
    for layer in stack.layers_:
        stop = start + stack.grid**2 * layer.n_codes
        codes = sample[:, start:stop].reshape(-1, layer.n_codes)
        found.append({"n_units": layer.n_codes, "n_never_active": len(never_active(codes))})
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
