"""EPLS as a scikit-learn estimator."""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.activations import ACTIVATIONS, Activation, resolve_activation
from ..algorithm.checkpoint import Checkpoint, description_of_run
from ..algorithm.defaults import SMALLEST_BATCH, batch_rows, norm_limit, number_of_epochs
from ..algorithm.engines.base import Engine, LayerSettings, new_engine
from ..algorithm.optimizers import OPTIMIZERS
from ..algorithm.progress import EpochReport, Progress
from ..algorithm.steering import STREAM_PATH
from ..algorithm.target import AuctionTarget, LiteralTarget
from ..algorithm.targets import TARGETS
from ..algorithm.training import Training, initial_weights
from ..data.blocks import TYPES, refuse_blocks
from ..data.samples import ArraySamples, Samples, working_type
from ..utils.constraints import AT_LEAST_ONE, NOT_NEGATIVE, POSITIVE
from ..utils.epochs import earlier_fit_kept
from ..utils.threads import row_blocks
from ..utils.types import Array
from ._layer_learner import LayerLearner
from .base import DEFAULT_COMPONENTS

# A stream may begin with fewer samples than it has units. It still bounds them, and with them the memory for weights.
_UNITS_PER_FIRST_SAMPLE = 100


class EPLS(LayerLearner):
    """Sparse features from unlabelled data, with nothing to tune.

    Learns ``n_components`` units f(w·x + b) by Enforcing Population and Lifetime Sparsity: for each mini-batch it finds
    the nearest outputs in which exactly one unit is active for every sample and all units are active equally often, to
    within one sample, and takes a step towards them. A unit that is active for no sample in the end is woken: its bias
    is raised until it is. ``EPLS(**epls.PAPER)`` is the algorithm as the paper prints it.

    The data need no preparation: they are centred, and scaled by one number for all features, so ``fit(a * X + c)`` and
    ``fit(X)`` give the same features for a > 0 (unless a * X + c was itself rounded, to float32 say). As with PCA or
    k-means, features on very different scales should be brought to a common one first (``StandardScaler``), or the
    widest will decide.

    Parameters
    ----------
    n_components : int or None, default=None
        The number of units, at most the number of samples; None takes 100, or the number of samples if that is less.
    activation : {"logistic", "tanh", "relu", "softplus", "identity", "absolute"} or Activation, default="logistic"
        The function f; one of your own is an :class:`epls.algorithm.activations.Activation`.
    target : {"auction", "epoch", "literal", "exact", "largest"}, default="auction"
        How the winning units are found: see :mod:`epls.algorithm.target`. "auction" balances the wins of every
        mini-batch, "epoch" those of an epoch. "literal" is the paper's rule, "exact" is slow, and "largest" takes the
        largest output, without balance.
    loss : {"matching", "squared"}, default="matching"
        What takes the outputs to the target: see :mod:`epls.algorithm.training`. "squared" is the paper's; with it,
        units of "relu" can die.
    optimizer : {"adam", "vsgd", "capped_vsgd"}, default="adam"
        How a batch moves the weights. "vsgd" is the paper's; "capped_vsgd" limits its steps to a tenth of the weights.
    biases : {"auto", "steered", "quantile", "random", "none"}, default="auto"
        Where the biases start, and what moves them. "steered": the mean output of every unit goes from one half to its
        share, see :mod:`epls.algorithm.steering`. "quantile": they start where each unit is active for its share of a
        batch, and are learned. "random": they start as small random numbers, as in the paper, and are learned. "none":
        they are 0, unless ``wake`` raises them. "auto" steers with the matching loss, where the activation has an
        inverse, and else takes "quantile".
    batch_size : int, "n_components" or None, default=None
        Samples in a mini-batch; None takes the least multiple of ``n_components`` that is not below 256 or, if that is
        less, a tenth of the samples. A multiple of ``n_components`` gives every unit the same number of wins in every
        batch. "n_components" is the paper's.
    drop_last : bool, default=False
        Whether the samples at the end of an epoch that are less than a mini-batch are left out, as in the paper.
    max_norm : float, "auto" or None, default="auto"
        To what the norm of every component is limited after each epoch; None does not limit it. The limit keeps outputs
        graded: without it, long training on few samples makes the units all-or-nothing. The paper's is 1, for 1600
        units and 300 features. "auto" takes that, or more in proportion to log(n_components) / sqrt(n_features): what a
        unit must span from its share of 1 / n_components to active, over the norm of a sample.
    max_iter : int or None, default=None
        The number of epochs; Adam's learning rate reaches 0 at the last. None takes 20, or more if that would be fewer
        than 2400 mini-batches. This is what ends training, unless ``tol`` is given.
    tol : float or None, default=None
        If given, training ends before ``max_iter`` once an epoch lowers the error by less than this share of itself,
        or raises it; a ConvergenceWarning says so if that does not happen. The paper's is 1e-6.
    wake : bool, default=True
        Whether the biases of units that are active for no sample are raised at the end until they are half active for
        one. The paper does not.
    random_state : int, RandomState instance or None, default=None
        Decides the first weights and the order of the samples. The same number gives the same result, bit for bit, with
        the same number of BLAS threads and the same type of data.
    device : str or None, default=None
        Where training and ``transform`` compute. None takes NumPy, the fastest on a processor; "cuda", "mps" or any
        other device of torch takes that (``pip install "epls[torch]"``). The results differ by rounding only; as
        training goes on, that can lead to other features that are as good. Neither an activation of your own nor, on
        "mps", float64 can be computed there. :func:`epls.save_model` leaves it out: a loaded model computes with NumPy
        until ``set_params(device=...)``.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_features)
        The weights w of the units, for centred and scaled samples.
    intercept_ : ndarray of shape (n_components,)
        The biases b.
    mean_ : ndarray of shape (n_features,)
        What is subtracted from a sample.
    scale_ : float
        By what it is then divided: the root of the mean variance of the features.
    loss_curve_ : list of float
        The squared error per sample between outputs and ideal target, after each epoch.
    epoch_reports_ : list of EpochReport
        Error, spread of wins, dead outputs and seconds of each epoch. Not after ``partial_fit``.
    n_iter_ : int
        The number of epochs, or of calls of ``partial_fit``.
    n_features_in_ : int
        The number of features.
    feature_names_in_ : ndarray of shape (n_features,)
        Their names, if ``fit`` was given any.

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
        fit_task = self.begin_fit(max_iter)  # callbacks are set up, and a checkpoint among them hands itself over
        checkpoint = self._checkpoint
        if checkpoint is not None and self.random_state is None:  # a state of its own, to be set when it goes on
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
        """What a :class:`epls.Checkpoint` among the callbacks calls when ``fit`` begins, and with None when it ends."""
        self._checkpoint = checkpoint

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: Any = None) -> EPLS:
        """Learn from the next samples of a stream.

        The mean and the scale are those of the first call, which should therefore have many samples, and must have one
        for every 100 components. A stream has no epochs; balance means that after every mini-batch the wins of any two
        units since the first call differ by at most one. With ``target="epoch"`` no unit is ever more than 16 wins
        ahead of its share; with ``target="literal"``, each call is an epoch of its own. Outputs become sparse over the
        first 1000 mini-batches, and the learning rate falls after them. ``max_iter``, ``tol``, ``drop_last`` and
        ``wake`` have no effect in a stream.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples, taken in their order.
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
        if training.engine.settings.device != self.device:  # a stream may go on elsewhere
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
        """A balanced assignment of the samples to the units: all units get equally many, to within one.

        Unlike ``transform`` it looks at the samples together, as many at a time as fit in a few megabytes: with more
        than that, the result depends on their order.

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
        outputs_of = layer_on_device(self.device, self.as_layer(), dtype)
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
                f'biases="steered" needs the inverse of the activation, and {f.name!r} has none: give '
                f'biases="quantile" or "auto", or an Activation with an inverse'
            )
        return LayerSettings(center, scale, f, self.loss, self.target, self.biases, needs_factors, self.device)

    def _warn_unsettled(self, max_iter: int, progress: Progress) -> None:
        if self.tol is not None and len(progress.reports) == max_iter:  # a callback may have ended it before
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
                f"the first {len(samples.X)} samples of the stream are all equal, which does not tell the scale of the "
                f"data: begin with samples that differ"
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
    """What a fitted estimator takes from a training."""
    return {
        "components_": np.ascontiguousarray(training.weights[:, :-1]),
        "intercept_": training.weights[:, -1].copy(),
        "mean_": training.engine.settings.center,
        "scale_": training.engine.settings.scale,
    }
