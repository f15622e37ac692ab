"""The paper's experiment: learn from patches, encode all images, judge the features. Each stage is kept on the disk."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._version import __version__
from ..callbacks import OnEpoch
from ..encoders import ENCODERS
from ..images.features import ImageFeatures
from ..learners import LEARNERS
from .cache import Cache, fingerprint
from .protocol import cross_validated, judge

Array = NDArray[np.floating]
# Told the stage, and how many of how many steps of it are done.
Progress = Callable[[str, int, int], None]

# To be raised by whoever changes what learning, encoding or judging give: results of before are then made again.
_RESULTS_VERSION = 1
_BLOCK_IMAGES = 1000  # pooled at a time
_LEARN_SETTINGS = ("learner", "n_components", "n_patches", "patch_size", "whiten", "seed")
_ENCODE_SETTINGS = ("encoder", "split_sign", "stride", "grid")

# The penalties that sparse coding may have, the paper's; and how many images one is chosen with: a matter of minutes.
ALPHAS = (0.5, 0.75, 1.0, 1.25, 1.5)
_CHOICE_FOLDS, _CHOICE_IMAGES = 3, 1000


@dataclass(frozen=True)
class Settings:
    """All that decides the figures, except the images.

    ``pooling="sum"`` is the paper's, see ``ImageFeatures``. ``alpha`` is the encoder's, if it has one; None is its
    default, and for sparse coding the one of :data:`ALPHAS` that cross-validation finds best.
    """

    learner: str = "epls"
    n_components: int = 1600
    n_patches: int = 400_000
    patch_size: int = 10
    whiten: bool = False
    seed: int = 0
    encoder: str = "natural"
    alpha: float | None = None
    split_sign: bool = False
    stride: int = 1
    grid: int = 2
    pooling: str = "log"

    def some(self, names: Sequence[str]) -> dict[str, Any]:
        """The settings of these names."""
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True)
class LabelledImages:
    """Images of one size, and their classes."""

    images: Any
    labels: NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """What an experiment gave.

    The settings, with the penalty that was chosen; the fitted features, the verdict of each fold, the accuracy in
    cross-validation of each penalty if one had to be chosen, and the seconds that stages took.
    """

    settings: Settings
    features: ImageFeatures
    folds: list[dict[str, float]]
    alphas: dict[float, float]
    seconds: dict[str, float]

    @property
    def accuracies(self) -> Array:
        return np.array([fold["accuracy"] for fold in self.folds])

    def report(self) -> dict[str, Any]:
        """Everything worth keeping, as plain values."""
        packages = ("numpy", "scipy", "scikit-learn", "numba")
        return {
            "settings": asdict(self.settings),
            "accuracy": float(self.accuracies.mean()),
            "std": float(self.accuracies.std()),
            "folds": self.folds,
            "alphas": self.alphas,
            "seconds": self.seconds,
            "versions": {"epls": __version__, "python": platform.python_version()}
            | {name: version(name) for name in packages},
        }


def run_experiment(
    settings: Settings,
    unlabelled: Any,
    train: LabelledImages,
    folds: Sequence[NDArray[np.int64]],
    test: LabelledImages | None,
    cache: Cache,
    progress: Progress,
) -> Outcome:
    """Learn, encode and judge, as far as that is not in the cache yet.

    For each fold a classifier is trained on its images of ``train`` and tested on ``test``; without one, on the other
    images of ``train``: the development protocol, which keeps the test set unseen.
    """
    learner = LEARNERS[settings.learner](n_components=settings.n_components, random_state=settings.seed)
    unlabelled_name = fingerprint(unlabelled)
    inputs = {
        "results": _RESULTS_VERSION,
        "unlabelled": unlabelled_name,
        **settings.some(_LEARN_SETTINGS),
        "learner": [settings.learner, repr(learner.get_params())],
    }
    learned, learn_seconds = cache.model(inputs, lambda: _learned(learner, settings, unlabelled, progress))
    alphas: dict[float, float] = {}
    if settings.encoder == "sparse_coding" and settings.alpha is None:
        alphas = _tried_alphas(learned, settings, unlabelled, train, folds, inputs, cache, progress)
        settings = replace(settings, alpha=max(alphas, key=lambda alpha: alphas[alpha]))
    features = _with_encoder(learned, settings, unlabelled)
    inputs |= _encode_inputs(settings)
    sets = {"training images": train} | ({"test images": test} if test is not None else {})
    names = {  # often the images to learn from are the training images: gigabytes are not read twice
        name: unlabelled_name if labelled.images is unlabelled else fingerprint(labelled.images)
        for name, labelled in sets.items()
    }
    encoded = {
        name: _sums(features, f"encode {name}", labelled.images, inputs | {"images": names[name]}, cache, progress)
        for name, labelled in sets.items()
    }

    def pooled(name: str, numbers: NDArray[np.int64]) -> Array:
        """Features of some images as a new array."""
        sums, _ = encoded[name]
        height, width = sets[name].images.shape[1:3]
        found = np.empty((len(numbers), sums[0].size), np.float32)
        for start in range(0, len(numbers), _BLOCK_IMAGES):
            some = slice(start, start + _BLOCK_IMAGES)
            found[some] = features.pool_sums(sums[numbers[some]], height, width)
        return found

    def verdict(number: int) -> dict[str, float]:
        progress("classify", number, len(folds))
        started = time.perf_counter()
        fold = folds[number]
        rest = np.setdiff1d(np.arange(len(train.labels)), fold) if test is None else np.arange(len(test.labels))
        name = "training images" if test is None else "test images"
        found = judge(pooled("training images", fold), train.labels[fold], pooled(name, rest), sets[name].labels[rest])
        progress("classify", number + 1, len(folds))
        return asdict(found) | {"seconds": time.perf_counter() - started}

    inputs |= {
        "sets": names,
        "labels": fingerprint([labelled.labels for labelled in sets.values()]),
        "folds": fingerprint(folds),
        "pooling": [settings.pooling, features.typical_code_],
    }
    verdicts = cache.items("verdicts", inputs, [partial(verdict, n) for n in range(len(folds))])
    seconds = {
        "learn": learn_seconds,
        "encode": sum(seconds for _, seconds in encoded.values()),
        "classify": sum(fold["seconds"] for fold in verdicts),
    }
    return Outcome(settings, features, verdicts, alphas, seconds)


def _learned(learner: Any, settings: Settings, unlabelled: Any, progress: Progress) -> ImageFeatures:
    if hasattr(learner, "set_callbacks"):
        learner.set_callbacks(OnEpoch(lambda done, total: progress("learn", done, total)))
    features = ImageFeatures(
        learner,
        patch_size=settings.patch_size,
        n_patches=settings.n_patches,
        whiten=settings.whiten,
        random_state=settings.seed,
    )
    return features.fit(unlabelled)


def _with_encoder(learned: ImageFeatures, settings: Settings, unlabelled: Any) -> ImageFeatures:
    """The learned features with the encoder and the pooling that are asked for."""
    encoder = ENCODERS[settings.encoder](split_sign=settings.split_sign)
    if settings.alpha is not None:
        encoder.set_params(alpha=settings.alpha)
    return learned.with_encoder(unlabelled, encoder, **settings.some(("stride", "grid", "pooling")))


def _encode_inputs(settings: Settings) -> dict[str, Any]:
    alpha = {} if settings.alpha is None else {"alpha": settings.alpha}
    return settings.some(_ENCODE_SETTINGS) | alpha


def _tried_alphas(
    learned: ImageFeatures,
    settings: Settings,
    unlabelled: Any,
    train: LabelledImages,
    folds: Sequence[NDArray[np.int64]],
    inputs: dict[str, Any],
    cache: Cache,
    progress: Progress,
) -> dict[float, float]:
    """For each penalty, the percent told right in cross-validation within folds; patches half a patch apart will do."""
    some_folds = [fold[:: -(-len(fold) // _CHOICE_IMAGES)] for fold in folds[:_CHOICE_FOLDS]]
    numbers = np.unique(np.concatenate(some_folds))
    images = train.images[numbers]
    inputs = inputs | {"images": fingerprint(images)}

    def accuracy(alpha: float) -> float:
        trial = replace(settings, alpha=alpha, stride=max(settings.stride, settings.patch_size // 2))
        features = _with_encoder(learned, trial, unlabelled)
        stage = f"try penalty {alpha}"
        sums, _ = _sums(features, stage, images, inputs | _encode_inputs(trial), cache, progress)
        pooled = features.pool_sums(sums, *images.shape[1:3])
        return float(
            np.mean([cross_validated(pooled[np.searchsorted(numbers, f)], train.labels[f]) for f in some_folds])
        )

    labels = fingerprint([train.labels[fold] for fold in some_folds])
    inputs_of_all = inputs | _encode_inputs(settings) | {"labels": labels, "pooling": settings.pooling}
    accuracies = cache.items("penalties", inputs_of_all, [partial(accuracy, alpha) for alpha in ALPHAS])
    return dict(zip(ALPHAS, accuracies, strict=True))


def _sums(
    features: ImageFeatures, stage: str, images: Any, inputs: dict[str, Any], cache: Cache, progress: Progress
) -> tuple[Array, float]:
    """The sums of codes over regions, (n_images, n_regions, n_codes), and the seconds that they took."""

    def rows(start: int) -> Iterator[Array]:
        progress(stage, start, len(images))
        for number, sums in enumerate(features.iter_region_sums(images, start=start), start + 1):
            progress(stage, number, len(images))
            yield sums

    shape = (len(images), features.grid**2, features.encoder_.n_codes)
    return cache.rows(inputs, shape, rows)
