"""EPLS as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.activations import ACTIVATIONS, Activation, resolve_activation
from ..algorithm.checkpoint import Checkpoint, description_of_run
from ..algorithm.defaults import SMALLEST_BATCH, batch_rows, norm_limit, number_of_epochs
from ..algorithm.engines.base import Engine, LayerSettings, new_engine
from ..algorithm.half import PRECISIONS, uses_half
from ..algorithm.optimizers import OPTIMIZERS
from ..algorithm.progress import EpochReport, Progress
from ..algorithm.steering import STREAM_PATH
from ..algorithm.target import AuctionTarget, LiteralTarget
from ..algorithm.targets import TARGETS
from ..algorithm.training import Training, initial_weights
from ..data.blocks import TYPES, refuse_blocks
from ..data.samples import ArraySamples, Samples, working_type
from ..utils.epochs import earlier_fit_kept
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE, StrOptions, fit_context
from ..utils.threads import row_blocks
from ..utils.types import Array
from ._layer_learner import LayerLearner
from .base import DEFAULT_COMPONENTS

# The first samples of a stream may be fewer than the units. They still limit the units, and so the memory for weights.
_UNITS_PER_FIRST_SAMPLE = 100


class EPLS(LayerLearner):
    """Learn sparse features from unlabelled data, with nothing to tune.

    EPLS stands for Enforcing Population and Lifetime Sparsity. It learns ``n_components`` units f(w·x + b). For each
    mini-batch it finds the nearest outputs in which exactly one unit is active for every sample and all units are
    active equally often, to within one sample. Then it moves the outputs towards them. If a unit is never active in the
    end, its bias is raised until it is. ``EPLS(**epls.PAPER)`` is the algorithm as printed in the paper.

    The data need no preparation. They are centred and divided by a single number, so ``fit(a * X + c)`` and ``fit(X)``
    learn the same features for a > 0 (unless a * X + c is rounded, for example to float32). As with PCA or k-means,
    features on very different scales should be standardised first (``StandardScaler``); otherwise the widest dominate.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of units, at most the number of samples. None uses 100, or the number of samples if that is less.
    activation : {"logistic", "tanh", "relu", "softplus", "identity", "absolute"} or Activation, default="logistic"
        The function f. To use your own, pass an :class:`epls.algorithm.activations.Activation`.
    target : {"auction", "epoch", "literal", "exact", "largest"}, default="auction"
        How the winning units are found; see :mod:`epls.algorithm.target`. "auction" balances the wins within each
        mini-batch, "epoch" within an epoch. "literal" is the paper's rule, "exact" is slow, and "largest" picks the
        largest output without balancing.
    loss : {"matching", "squared"}, default="matching"
        How outputs are compared with the target; see :mod:`epls.algorithm.training`. "squared" is the paper's loss,
        with which "relu" units can die.
    optimizer : {"adam", "vsgd", "capped_vsgd"}, default="adam"
        How the weights are updated. "vsgd" is the paper's; "capped_vsgd" limits its steps to a tenth of the weights.
    biases : {"auto", "steered", "quantile", "random", "none"}, default="auto"
        How the biases start and change. "steered": the mean output of each unit moves from one half to its share; see
        :mod:`epls.algorithm.steering`. "quantile": they start where each unit is active for its share of a batch, and
        are learned. "random": they start as small random numbers, as in the paper, and are learned. "none": they stay 0
        unless ``wake`` raises them. "auto" is "steered" for the matching loss and an invertible activation, else
        "quantile".
    batch_size : int, "n_components" or None, default=None
        The number of samples in a mini-batch. None uses the smallest multiple of ``n_components`` that is not below
        min(256, n_samples / 10). With a multiple of ``n_components``, every unit wins equally often in every batch.
        "n_components" is the paper's choice.
    drop_last : bool, default=False
        Whether to leave out the last samples of an epoch if they do not fill a mini-batch, as the paper does.
    max_norm : float, "auto" or None, default="auto"
        The limit for the norm of each component after each epoch; None sets no limit. The limit keeps outputs graded:
        without it, long training on few samples makes units all-or-nothing. The paper uses 1, for 1600 units and 300
        features. "auto" uses 1, or more in proportion to log(n_components) / sqrt(n_features): the range from a unit's
        share of 1 / n_components to active, divided by the norm of a sample.
    max_iter : int or None, default=None
        The number of epochs. Adam's learning rate falls to 0 at the last one. None uses 20, or more if 20 epochs have
        fewer than 2400 mini-batches. Training always runs this long unless ``tol`` is set.
    tol : float or None, default=None
        If set, training stops early when an epoch reduces the error by less than this fraction, or increases it. A
        ConvergenceWarning is issued if that never happens. The paper uses 1e-6.
    wake : bool, default=True
        Whether to raise, at the end, the biases of units that are active for no sample until they are half active for
        one. The paper does not do this.
    random_state : int, RandomState instance or None, default=None
        Determines the first weights and the order of the samples. The same number gives the same result, bit for bit,
        for the same number of threads and the same type of data.
    device : str or None, default=None
        Where training and ``transform`` compute. None uses NumPy, the fastest choice on a CPU; "cuda", "mps" and others
        use torch (``pip install "epls[torch]"``). Results differ only by rounding, which in long training can lead to
        different but equally good features. Torch does not support custom activations, and "mps" does not support
        float64. :func:`epls.save_model` does not save the device: a loaded model uses NumPy until
        ``set_params(device=...)``.
    precision : {"float32", "bfloat16", "auto"}, default="float32"
        The precision of products with float32 samples; see :mod:`epls.algorithm.half`. "auto" uses "bfloat16" in
        ``transform`` where that is faster, and trains in float32. :func:`epls.save_model` does not save it.

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
        The error, spread of wins, dead outputs and seconds of each epoch. Not set by ``partial_fit``.
    n_iter_ : int
        The number of epochs, or of calls to ``partial_fit``.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        The names of the features, if ``fit`` received any.

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
    _parameter_constraints: ClassVar[dict[str, Any]] = LayerLearner._parameter_constraints | {
        "activation": [StrOptions(set(ACTIVATIONS)), Activation],
        "target": [StrOptions(set(TARGETS))],
        "loss": [StrOptions({"matching", "squared"})],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "biases": [StrOptions({"auto", "steered", "quantile", "random", "none"})],
        "batch_size": [AT_LEAST_ONE, StrOptions({"n_components"}), None],
        "drop_last": ["boolean"],
        "max_norm": [POSITIVE, StrOptions({"auto"}), None],
        "max_iter": [AT_LEAST_ONE, None],
        "tol": [NOT_NEGATIVE, None],
        "wake": ["boolean"],
        "device": [str, None],
        "precision": [StrOptions(set(PRECISIONS))],
    }

    def __init__(
        self,
        n_components: int | None = None,
        *,
        activation: str | Activation = "logistic",
        target: str = "auction",
        loss: str = "matching",
        optimizer: str = "adam",
        biases: str = "auto",
        batch_size: int | str | None = None,
        drop_last: bool = False,
        max_norm: float | str | None = "auto",
        max_iter: int | None = None,
        tol: float | None = None,
        wake: bool = True,
        random_state: Any = None,
        device: str | None = None,
        precision: str = "float32",
    ) -> None:
        self.n_components = n_components
        self.activation = activation
        self.target = target
        self.loss = loss
        self.optimizer = optimizer
        self.biases = biases
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.max_norm = max_norm
        self.max_iter = max_iter
        self.tol = tol
        self.wake = wake
        self.random_state = random_state
        self.device = device
        self.precision = precision

    epoch_reports_: list[EpochReport]
    _checkpoint: Checkpoint | None = None

    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        """Learn, and return the attributes of the fitted estimator by name."""
        n_components = self.checked_n_components(samples.shape[0])
        batch_size = self._batch_size(n_components, samples.shape[0] // samples.n_parts)
        n_batches = samples.n_batches(batch_size, drop_last=self.drop_last)
        if n_batches == 0:
            raise ValueError(
                f"drop_last=True leaves out all of the {samples.shape[0]} samples, which are fewer than a mini-batch "
                f"of batch_size={batch_size}: give a smaller batch_size, more samples, or drop_last=False"
            )
        max_iter = int(self.max_iter or number_of_epochs(n_batches))
        fit_task = self.begin_fit(max_iter)  # sets up the callbacks; a checkpoint among them registers itself
        checkpoint = self._checkpoint
        if checkpoint is not None and self.random_state is None:  # its own state, which can be restored on resuming
            random = np.random.RandomState(random.randint(2**31 - 1))
        weights = initial_weights(n_components, samples.shape[1], random, samples.dtype)
        settings = self._settings(*samples.moments.center_and_scale())
        engine = (samples.new_engine or new_engine)(settings, n_components)
        training = self._new_training(weights, engine, n_batches * max_iter)
        resumed, after_batch = False, None
        if checkpoint is not None:
            run = description_of_run(self.get_params(deep=False), samples, training, batch_size, max_iter)
            resumed = checkpoint.resume(run, training)
            after_batch = partial(checkpoint.save_when_due, run, training)
        if not resumed:
            training.start_biases(samples, batch_size, random)

        progress = training.progress
        attributes = partial(_attributes, training)
        for _ in self.epochs(max_iter, fit_task, n_done=len(progress.reports), attributes=attributes):
            training.epoch(samples, batch_size, random, after_batch)
            if self.tol is not None and progress.has_settled(self.tol):
                break
        else:
            self._warn_unsettled(max_iter, progress)
        if self.wake:
            training.wake(samples, batch_size, random)
        if checkpoint is not None and not checkpoint.keep:
            checkpoint.clear()
        self.__dict__.pop("_training", None)
        return _attributes(training) | {
            "epoch_reports_": progress.reports,
            "loss_curve_": [report.error for report in progress.reports],
            "n_iter_": len(progress.reports),
        }

    def use_checkpoint(self, checkpoint: Checkpoint | None) -> None:
        """Called by a :class:`epls.Checkpoint` callback when ``fit`` begins, and with None when ``fit`` ends."""
        self._checkpoint = checkpoint

    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: Any = None) -> EPLS:
        """Learn from the next samples of a stream.

        The first call sets the mean and the scale, so it should have many samples. It must have at least one for every
        100 components. A stream has no epochs: after every mini-batch, the total wins of any two units differ by at
        most one. With ``target="epoch"``, no unit is ever more than 16 wins ahead of its share. With
        ``target="literal"``, each call is an epoch. Outputs become sparse over the first 1000 mini-batches; then the
        learning rate falls. ``max_iter``, ``tol``, ``drop_last`` and ``wake`` have no effect here.

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
        if training.engine.settings.device != self.device:  # the user may change the device within a stream
            settings, target = training.engine.settings, training.engine.target
            training.engine = new_engine(replace(settings, device=self.device), len(training.weights))
            training.engine.target = target
        if isinstance(training.engine.target, LiteralTarget):
            training.engine.start_epoch(samples.shape[0])
        batch_size = self._batch_size(len(training.weights), SMALLEST_BATCH * 10)
        errors = [training.step(batch).errors for batch in samples.in_order(batch_size)]
        training.limit_norms()
        self.loss_curve_.append(float(np.concatenate(errors).mean(dtype=np.float64)))
        self.n_iter_ = len(self.loss_curve_)
        self.__dict__.update(_attributes(training))
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
        data, n_components = self._checked(X), len(self.components_)
        target = AuctionTarget(n_components)
        n_rows = n_components * max(self._rows_at_a_time() // n_components, 1)  # whole rounds of wins
        return np.concatenate([target.assign(self._codes(data[rows])) for rows in row_blocks(len(data), n_rows)])

    def _codes(self, data: NDArray[Any]) -> Array:
        if self.device is None:
            return super()._codes(data)
        from ..algorithm.engines.torch.engine import layer_on_device

        dtype = working_type(data.dtype)
        outputs_of = layer_on_device(self.device, self.as_layer(), dtype, uses_half(self.precision, self.device))
        codes = np.empty((len(data), len(self.components_)), dtype)
        for rows in row_blocks(len(data), self._rows_at_a_time()):
            codes[rows] = outputs_of(data[rows])
        return codes

    def _activation(self) -> Activation:
        return resolve_activation(self.activation)

    def _batch_size(self, n_components: int, n_samples: int) -> int:
        if isinstance(self.batch_size, str):
            return n_components
        return int(self.batch_size or batch_rows(n_components, n_samples))

    def _settings(self, center: Array, scale: float) -> LayerSettings:
        f, needs_factors = self._activation(), OPTIMIZERS[self.optimizer].needs_factors
        if self.biases == "steered" and f.inverse is None:
            raise ValueError(
                f'biases="steered" requires the inverse of the activation, but {f.name!r} has none: give '
                f'biases="quantile" or "auto", or an Activation with an inverse'
            )
        half = self.precision == "bfloat16" and uses_half(self.precision, self.device)
        return LayerSettings(center, scale, f, self.loss, self.target, self.biases, needs_factors, self.device, half)

    def _warn_unsettled(self, max_iter: int, progress: Progress) -> None:
        if self.tol is not None and len(progress.reports) == max_iter:  # a callback may have stopped training early
            warnings.warn(
                f"training ended after max_iter={max_iter} epochs, before the error fell by less than tol={self.tol:g} "
                f"of itself in an epoch: raise max_iter or tol, or give tol=None to train for max_iter epochs",
                ConvergenceWarning,
                stacklevel=2,
            )

    def _new_training(self, weights: Array, engine: Engine, n_steps: int | None, n_steps_done: int = 0) -> Training:
        n_components, n_inputs = weights.shape
        return Training(
            weights,
            engine,
            OPTIMIZERS[self.optimizer](),
            max_norm=norm_limit(n_components, n_inputs - 1) if isinstance(self.max_norm, str) else self.max_norm,
            drop_last=self.drop_last,
            n_steps=n_steps,
            n_steps_done=n_steps_done,
        )

    def _stream_training(self, samples: ArraySamples, first_call: bool) -> Training:
        if not first_call:  # the weights are already sparse
            weights = np.column_stack([self.components_, self.intercept_]).astype(samples.dtype)
            engine = new_engine(self._settings(self.mean_, self.scale_), len(weights))
            return self._new_training(weights, engine, n_steps=None, n_steps_done=STREAM_PATH)
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
        engine = new_engine(self._settings(*samples.moments.center_and_scale()), n_components)
        training = self._new_training(weights, engine, n_steps=None)
        training.start_biases(samples, samples.shape[0], random)
        return training


def _attributes(training: Training) -> dict[str, Any]:
    """Return the fitted attributes of a training."""
    return {
        "components_": np.ascontiguousarray(training.weights[:, :-1]),
        "intercept_": training.weights[:, -1].copy(),
        "mean_": training.engine.settings.center,
        "scale_": training.engine.settings.scale,
    }
