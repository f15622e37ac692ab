"""EPLS as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.activations import ACTIVATIONS, Activation, resolve_activation
from ..algorithm.checkpoint import Checkpoint, description_of_run
from ..algorithm.engine import Objective, new_engine
from ..algorithm.progress import EpochReport, has_settled
from ..algorithm.settings import SMALLEST_BATCH, TrainingSettings, batch_rows, usual_epochs
from ..algorithm.steering import STREAM_PATH
from ..algorithm.target import AuctionTarget, LiteralTarget
from ..algorithm.training import Training, initial_weights
from ..callbacks import earlier_fit_kept
from ..data.blocks import TYPES, refuse_blocks
from ..data.samples import ArraySamples, Samples, working_type
from ..utils.optional import torch_room
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, StrOptions, fit_context
from ..utils.threads import row_blocks
from ..utils.types import Array
from .base import DEFAULT_COMPONENTS, UnitLearner, unit_attributes

# The first samples of a stream may be fewer than the units. They still limit the units, and so the memory for weights.
_UNITS_PER_FIRST_SAMPLE = 100
# With a tolerance, the limit is the usual number of epochs times this: the tolerance should end training earlier.
_UNTIL_SETTLED = 4


class EPLS(UnitLearner):
    """Learn sparse features from unlabelled data, with nothing to tune.

    EPLS stands for Enforcing Population and Lifetime Sparsity. It learns ``n_components`` units f(w·x + b). For each
    mini-batch it finds the nearest outputs in which exactly one unit is active for every sample and all units are
    active equally often, to within one sample. Then it moves the outputs towards them. If a unit is never active in the
    end, its bias is raised until it is. ``EPLS(settings=epls.PAPER)`` is the algorithm as printed in the paper.

    The data need no preparation. They are centred and divided by a single number, so ``fit(a * X + c)`` and ``fit(X)``
    learn the same features for a > 0 (unless a * X + c is rounded, for example to float32). As with PCA or k-means,
    features on very different scales should be standardised first (``StandardScaler``); otherwise the widest dominate.

    EPLS is made for data with parts to find, such as patches of images. For embeddings and other vectors that already
    are features, use :class:`Prototypes`: the sparse code of EPLS keeps too little of them.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of units, at most the number of samples. None uses 100, or the number of samples if that is less.
    activation : {"logistic", "tanh", "relu", "softplus", "identity", "absolute"} or Activation, default="logistic"
        The function f. To use your own, pass an :class:`epls.algorithm.activations.Activation`.
    batch_size : int, "n_components" or None, default=None
        The number of samples in a mini-batch. None uses the smallest multiple of ``n_components`` that is not below
        min(256, n_samples / 10), or the size in ``settings``. With a multiple of ``n_components``, every unit wins
        equally often in every batch.
    max_iter : int or None, default=None
        The number of epochs. Adam's learning rate falls to 0 at the last one. None uses 5, or as many as have
        96 * sqrt(n_components) mini-batches, or 4.8 * n_components from 400 components on: no fewer than 960, and no
        more than 2400 or those of 20 epochs, whichever is more. With a tolerance, at most four times as many.
    tol : float or None, default=None
        If set, training stops early when an epoch reduces the error by less than this fraction, or increases it. A
        ConvergenceWarning is issued if that never happens. None uses the tolerance in ``settings``, by default none.
    settings : TrainingSettings or None, default=None
        What only comparisons with the paper change: target, loss, optimiser and others, in one value. None uses
        :class:`epls.TrainingSettings` with its defaults.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights and the order of the samples. The same number gives the same result, bit for bit,
        for the same number of threads and the same type of data.
    device : str or None, default=None
        Where training and ``transform`` compute. None uses NumPy, the fastest choice on a CPU; "cuda", "mps" and others
        use torch (``pip install "epls[torch]"``). Results differ only by rounding, which in long training can lead to
        different but equally good features. Torch does not support custom activations, and "mps" does not support
        float64. :func:`epls.save_model` does not save the device: a loaded model uses NumPy until
        ``set_params(device=...)``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The weights w of the units, for centred and scaled samples.
    intercept_ : ndarray of shape (n_components,)
        The biases b.
    mean_ : ndarray of shape (n_features,)
        The mean of the training samples. It is subtracted from each sample.
    scale_ : float
        The root of the mean variance of the features. Centred samples are divided by it.
    loss_curve_ : list of float
        The squared error per sample between the outputs and the ideal target, after each epoch.
    epoch_reports_ : list of EpochReport
        The error, spread of wins, units that are never active and seconds of each epoch. Not set by ``partial_fit``.
    n_iter_ : int
        The number of epochs, or of calls to ``partial_fit``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from epls import EPLS
    >>> X, _ = load_digits(return_X_y=True)
    >>> codes = EPLS(n_components=50, random_state=0).fit_transform(X)
    >>> codes.shape
    (1797, 50)
    >>> bool((codes.max(axis=0) > 0.5).all())  # every unit has samples that excite it
    True
    """

    usual_patches = 400_000
    in_parts = True
    resumes = True
    #: The type of ``settings``; the command line accepts its fields by name.
    settings_type = TrainingSettings
    _parameter_constraints: ClassVar[dict[str, Any]] = UnitLearner._parameter_constraints | {
        "activation": [StrOptions(set(ACTIVATIONS)), Activation],
        "batch_size": [AT_LEAST_ONE, StrOptions({"n_components"}), None],
        "max_iter": [AT_LEAST_ONE, None],
        "tol": [NOT_NEGATIVE, None],
        "settings": [TrainingSettings, None],
        "device": [str, None],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        activation: str | Activation = "logistic",
        batch_size: int | str | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        settings: TrainingSettings | None = None,
        random_state: Any = None,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.activation = activation
        self.batch_size = batch_size
        self.max_iter = max_iter
        self.tol = tol
        self.settings = settings
        self.random_state = random_state
        self.device = device

    epoch_reports_: list[EpochReport]

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        settings = self._settings()
        n_components = self.checked_n_components(samples.shape[0])
        batch_size = self._batch_size(n_components, samples.shape[0] // samples.n_parts)
        n_batches = samples.n_batches(batch_size, drop_last=settings.drop_last)
        if n_batches == 0:
            raise ValueError(
                f"drop_last=True leaves out all of the {samples.shape[0]} samples, which are fewer than a mini-batch "
                f"of batch_size={batch_size}: give a smaller batch_size, more samples, or drop_last=False"
            )
        tol = settings.tol if self.tol is None else self.tol
        max_iter = int(self.max_iter or usual_epochs(n_batches, n_components) * (1 if tol is None else _UNTIL_SETTLED))
        fit_task = self.begin_fit(max_iter)
        checkpoint = next((callback for callback in self.callbacks if isinstance(callback, Checkpoint)), None)
        if checkpoint is not None and samples.part == 0:
            checkpoint.lock.acquire()
        if checkpoint is not None and self.random_state is None:  # its own state, which can be restored on resuming
            random = np.random.RandomState(random.randint(2**31 - 1))
        weights = initial_weights(n_components, samples.shape[1], random, samples.dtype)
        moments = samples.moments
        center, scale = moments.center_and_scale()
        if moments.are_equal:
            told = f"all {samples.shape[0]} samples are equal: there is nothing to learn, and all have the same code"
            warnings.warn(told, stacklevel=2)
        engine = samples.shared_engine(new_engine(self._objective(center, scale), n_components, self.device))
        training = Training(weights, engine, n_steps=n_batches * max_iter)
        resumed, after_batch = False, None
        if checkpoint is not None:
            run = description_of_run(self.get_params(deep=False), samples, training, batch_size, max_iter)
            resumed = checkpoint.resume(run, training, samples)
            if samples.part == 0:
                after_batch = partial(checkpoint.save_when_due, run, training)
        has_ended = resumed and training.progress.n_batches == 0
        if not resumed:
            training.start_biases(samples, batch_size, random)

        attributes = partial(unit_attributes, weights, center, scale)
        reports = training.progress.reports
        for _ in self.epochs(max_iter, fit_task, n_done=len(reports), attributes=attributes):
            if has_ended:  # early
                break
            training.epoch(samples, batch_size, random, after_batch)
            if tol is not None and has_settled([report.error for report in reports], tol):
                break
        else:
            if tol is not None and len(reports) == max_iter:  # a callback may have stopped training early
                _warn_unsettled(max_iter, tol)
        if settings.wake and not has_ended:
            training.wake(samples, batch_size, random)
        if checkpoint is not None and samples.part == 0:
            if not checkpoint.keep:
                checkpoint.clear()
            elif not has_ended:
                checkpoint.save(run, training)
        self.__dict__.pop("_training", None)
        return attributes() | {
            "epoch_reports_": reports,
            "loss_curve_": [report.error for report in reports],
            "n_iter_": len(reports),
        }

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: Any = None) -> EPLS:
        """Learn from the next samples of a stream.

        The first call sets the mean and the scale, so it should have many samples. It must have at least one for every
        100 components. A stream has no epochs: after every mini-batch, the total wins of any two units differ by at
        most one. With the "literal" target, each call is an epoch. Outputs become sparse over the first 1000
        mini-batches; then the learning rate falls. ``max_iter``, ``tol``, ``drop_last`` and ``wake`` have no effect
        here.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, used in the given order.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        refuse_blocks(X, "partial_fit")
        first_call = not hasattr(self, "components_")
        with earlier_fit_kept(self):
            data = validate_data(self, X, dtype=TYPES, reset=first_call, ensure_min_samples=1 + first_call)
            samples = ArraySamples(np.asarray(data))
            if not hasattr(self, "_training"):
                self._training = self._stream_training(samples, first_call)
                self.loss_curve_ = []
                self.__dict__.pop("epoch_reports_", None)
        training = self._training
        if training.engine.device != self.device:  # the user may change the device within a stream
            target = training.engine.target
            training.engine = new_engine(training.engine.objective, len(training.weights), self.device)
            training.engine.target = target
        if isinstance(training.engine.target, LiteralTarget):
            training.engine.target.start_epoch(samples.shape[0])
        batch_size = self._batch_size(len(training.weights), SMALLEST_BATCH * 10)
        error = sum(training.step(batch).error for batch in samples.in_order(batch_size))
        training.limit_norms()
        self.loss_curve_.append(error / len(samples.X))
        self.n_iter_ = len(self.loss_curve_)
        self.__dict__.update(unit_attributes(training.weights, self.mean_, self.scale_))
        return self

    def winners(self, X: ArrayLike) -> NDArray[np.intp]:
        """Assign samples to units evenly: the numbers of samples of any two units differ by at most one.

        Unlike ``transform``, this looks at many samples together, as many as fit in a few megabytes. With more samples,
        the result depends on their order.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.

        Returns
        -------
        ndarray of int of shape (n_samples,)
            The unit of each sample.
        """
        check_is_fitted(self)
        refuse_blocks(X, "winners")
        data, target = self._checked(X), AuctionTarget(len(self.components_))
        blocks = row_blocks(len(data), self.winners_at_a_time())
        return np.concatenate([target.assign(self._codes(data[rows])) for rows in blocks])

    def winners_at_a_time(self) -> int:
        """Return the number of samples that :meth:`winners` looks at together: whole rounds of wins."""
        n_components = len(self.components_)
        return n_components * max(self._rows_at_a_time() // n_components, 1)

    def _codes(self, data: NDArray[Any]) -> Array:
        if self.device is None:
            return super()._codes(data)
        dtype = working_type(data.dtype)
        outputs_of = torch_room("engine").layer_on_device(self.device, self.as_layer(), dtype)
        codes = np.empty((len(data), len(self.components_)), dtype)
        for rows in row_blocks(len(data), self._rows_at_a_time()):
            codes[rows] = outputs_of(data[rows])
        return codes

    def _activation(self) -> Activation:
        return resolve_activation(self.activation)

    def _settings(self) -> TrainingSettings:
        return self.settings or TrainingSettings()

    def _batch_size(self, n_components: int, n_samples: int) -> int:
        batch_size = self._settings().batch_size if self.batch_size is None else self.batch_size
        if isinstance(batch_size, str):
            return n_components
        return int(batch_size or batch_rows(n_components, n_samples))

    def _objective(self, center: Array, scale: float) -> Objective:
        f, settings = self._activation(), self._settings()
        if settings.biases == "steered" and f.inverse is None:
            raise ValueError(
                f'biases="steered" requires the inverse of the activation, but {f.name!r} has none: give '
                f'biases="quantile" or "auto", or an Activation with an inverse'
            )
        return Objective(center, scale, f, settings)

    def _stream_training(self, samples: ArraySamples, first_call: bool) -> Training:
        """Return the training of a stream, and set the mean and the scale with its first samples."""
        if not first_call:  # the weights are already sparse
            weights = np.column_stack([self.components_, self.intercept_]).astype(samples.dtype)
            engine = new_engine(self._objective(self.mean_, self.scale_), len(weights), self.device)
            return Training(weights, engine, n_steps_done=STREAM_PATH)
        if (samples.X[0] == samples.X).all():
            raise ValueError(
                f"the first {len(samples.X)} samples of the stream are all equal, so the scale of the "
                f"data is unknown: begin with samples that differ"
            )
        random = check_random_state(self.random_state)
        n_components, most = int(self.n_components or DEFAULT_COMPONENTS), _UNITS_PER_FIRST_SAMPLE * len(samples.X)
        if n_components > most:
            raise ValueError(
                f"n_components={n_components} is more than {most}, {_UNITS_PER_FIRST_SAMPLE} for each of the "
                f"{len(samples.X)} samples that the stream begins with: give fewer components, or begin with more "
                f"samples"
            )
        weights = initial_weights(n_components, samples.shape[1], random, samples.dtype)
        center, scale = samples.moments.center_and_scale()
        training = Training(weights, new_engine(self._objective(center, scale), n_components, self.device))
        training.start_biases(samples, samples.shape[0], random)
        self.mean_, self.scale_ = center, scale
        return training


def _warn_unsettled(max_iter: int, tol: float) -> None:
    warnings.warn(
        f"training ended after max_iter={max_iter} epochs, before the error fell by less than tol={tol:g} of itself in "
        f"an epoch: raise max_iter or tol, or give tol=None to train for max_iter epochs",
        ConvergenceWarning,
        stacklevel=3,
    )
