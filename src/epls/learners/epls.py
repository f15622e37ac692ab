"""EPLS as a scikit-learn estimator."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from hashlib import sha256
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.activations import ACTIVATIONS, Activation, resolve_activation
from ..algorithm.checkpoint import checkpoint_of, saver
from ..algorithm.engines.numpy import LayerGradient, NumpyGradient, apply_activation, gather_batch
from ..algorithm.layer import Layer
from ..algorithm.optimizers import OPTIMIZERS
from ..algorithm.target import TARGETS, AuctionTarget, BalancedTarget, LiteralTarget, Target
from ..algorithm.training import Trainer, initial_weights, train
from ..data.blocks import TYPES, Blocks, as_blocks, checked_blocks, refuse_blocks
from ..data.moments import center_and_scale
from ..data.parts import codes_in_parts, transform_in_parts
from ..data.samples import ArrayBatches, Batches, BlockBatches, StreamBatches
from ..utils.threads import RowThreads
from .base import earlier_fit_kept

Array = NDArray[np.floating]

_DEFAULT_COMPONENTS = 100
# Below this a batch costs more overhead than work, and the gradient of a few units would be needlessly noisy.
_SMALLEST_BATCH = 256
# With fewer steps than this the bases are not done, however small the data; with more than enough data for that, so
# many epochs.
_FEWEST_STEPS, _FEWEST_EPOCHS = 2400, 20
_SAVED_ARRAYS = ("components_", "intercept_", "mean_")
_SAVED_VALUES = ("scale_", "loss_curve_", "n_epochs_")
_TRANSFORM_ELEMENTS = 2**22  # of inputs or outputs, whichever is more, at a time


class EPLS(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator):
    """Sparse features from unlabelled data, with nothing to tune.

    Learns ``n_components`` units f(w·x + b) by Enforcing Population and Lifetime Sparsity: for each mini-batch it finds
    the nearest outputs in which exactly one unit is active for every sample and all units are active equally often, and
    takes a step towards them. No unit can be dead.

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
    target : {"auction", "literal", "exact"}, default="auction"
        How the winning units are found: see :mod:`epls.algorithm.target`. "literal" is the paper's rule, "exact" slow.
    loss : {"matching", "squared"}, default="matching"
        What takes the outputs to the target: see :mod:`epls.algorithm.training`. "squared" is the paper's; with it,
        units of "relu" can die.
    optimizer : {"adam", "vsgd"}, default="adam"
        How a batch moves the weights. "vsgd" is the paper's.
    batch_size : int or None, default=None
        Samples in a mini-batch; None takes the least multiple of ``n_components`` that is not below 256 or, if that is
        less, a tenth of the samples. A multiple of ``n_components`` gives every unit the same number of wins in every
        batch.
    max_norm : float, "auto" or None, default="auto"
        To what the norm of every basis is limited after each epoch; None does not limit it. The limit keeps outputs
        graded: without it, long training on few samples makes the units all-or-nothing. The paper's is 1, for 1600
        units and 300 features. "auto" takes that, or more in proportion to log(n_components) / sqrt(n_features): what a
        unit must span from its share of 1 / n_components to active, over the norm of a sample.
    max_iter : int or None, default=None
        The largest number of epochs; the learning rate reaches 0 at the last. None takes 20, or more if that would be
        fewer than 2400 batches.
    tol : float, default=1e-6
        Training ends before ``max_iter`` if the error changes by no more than this share of itself in an epoch.
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
        The bases w, for centred and scaled samples.
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
    n_epochs_, n_iter_ : int
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

    meta_parameters: ClassVar[tuple[str, ...]] = ()
    whitens: ClassVar[bool] = False
    own_encoder: ClassVar[str] = "natural"
    usual_patches: ClassVar[int] = 400_000
    complete: ClassVar[bool] = False
    reads_blocks: ClassVar[bool] = True
    #: Whether a training can go on from a :class:`epls.Checkpoint`.
    can_resume: ClassVar[bool] = True
    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_components": [Interval(Integral, 1, None, closed="left"), None],
        "activation": [StrOptions(set(ACTIVATIONS)), Activation],
        "target": [StrOptions(set(TARGETS))],
        "loss": [StrOptions({"matching", "squared"})],
        "optimizer": [StrOptions(set(OPTIMIZERS))],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "max_norm": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), None],
        "max_iter": [Interval(Integral, 1, None, closed="left"), None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "random_state": ["random_state"],
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
        batch_size: int | None = None,
        max_norm: float | str | None = "auto",
        max_iter: int | None = None,
        tol: float = 1e-6,
        random_state: Any = None,
        device: str | None = None,
    ) -> None:
        self.n_components = n_components
        self.activation = activation
        self.target = target
        self.loss = loss
        self.optimizer = optimizer
        self.batch_size = batch_size
        self.max_norm = max_norm
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.device = device

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> EPLS:
        """Learn from all samples, in as many epochs as it takes.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            The samples. A memory map is read batch by batch; integers of 8 or 16 bits stay such until then. Memory maps
            of a gigabyte or more, zarr and dask arrays and what :func:`epls.open_shards` gives are read block by block,
            in a new order each epoch, and shuffled in buffers: see :class:`epls.data.samples.BlockBatches`.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        blocks = as_blocks(X)
        if blocks is not None:
            return self._fit_blocks(blocks)
        with earlier_fit_kept(self):
            data = np.asarray(validate_data(self, X, dtype=TYPES, ensure_min_samples=2))
            n_components = self._checked_components(len(data))
            batches = ArrayBatches(data, self._batch_size(n_components, len(data)))
            return self._fit(center_and_scale([data])[:2], batches, n_components, _working_type(data))

    def _fit_blocks(self, blocks: Blocks) -> EPLS:
        with earlier_fit_kept(self):
            n_samples, n_features = blocks.shape
            if n_samples < 2:
                raise ValueError(f"X has {n_samples} sample(s), and at least 2 are needed")
            n_components = self._checked_components(n_samples)
            standard = center_and_scale(checked_blocks(blocks))[:2]
            batches = BlockBatches(blocks, self._batch_size(n_components, n_samples))
            self._fit(standard, batches, n_components, _working_type(blocks))
            self.n_features_in_ = n_features
            self.__dict__.pop("feature_names_in_", None)
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, arrays: Callable[[], Iterable[ArrayLike]]) -> EPLS:
        """Learn from arrays that come one after the other, as often as is needed.

        Samples are shuffled among their neighbours, in buffers of 128 MiB. If there are more, and sorted, an epoch
        still sees first one kind, then another: mix them when they are written. The next buffer is filled in a thread
        while the samples of this one are learned from.

        Parameters
        ----------
        arrays : callable
            Gives a new iterator over arrays of shape (any number of samples, n_features) each time that it is called:
            once to find the mean and the scale, once an epoch, and once at the end.

        Returns
        -------
        self
        """
        if not callable(arrays):
            raise TypeError(
                f"fit_batches needs a function that gives a new iterator for each epoch, got {type(arrays).__name__}: "
                f"wrap it, as in fit_batches(lambda: iter(batches))"
            )

        types: set[np.dtype[Any]] = set()

        def checked() -> Iterator[Array]:
            first = True
            for array in arrays():
                piece = np.asarray(validate_data(self, array, dtype=TYPES, reset=first, ensure_min_samples=0))
                types.add(_working_type(piece))
                first = False
                yield piece

        with earlier_fit_kept(self):
            center, scale, n_samples = center_and_scale(checked())
            if n_samples < 2:
                raise ValueError(f"fit_batches was given {n_samples} sample(s) in all, and needs at least 2")
            n_components = self._checked_components(n_samples)
            batches = StreamBatches(checked, n_samples, self._batch_size(n_components, n_samples))
            return self._fit((center, scale), batches, n_components, np.result_type(*types))

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_shards(self, data: Any) -> EPLS:
        """Learn from shards in several places; see :mod:`epls.distributed`."""
        if OPTIMIZERS[self.optimizer].needs_curvature:
            raise ValueError(
                f"optimizer={self.optimizer!r} must see each sample's gradient, and shards send their sums: take 'adam'"
            )
        if not issubclass(TARGETS[self.target], BalancedTarget):
            raise ValueError(f"target={self.target!r} does not balance every shard: take 'auction'")
        with earlier_fit_kept(self):
            n_components = self._checked_components(data.n_samples)
            batch_size = self._batch_size(n_components, data.n_samples // data.n_shards)
            standard = data.center_and_scale()

            def parts(layer: LayerGradient) -> tuple[LayerGradient, Target]:
                shared: tuple[LayerGradient, Target] = data.parts(layer, self.target, batch_size, n_components)
                return shared

            self._fit(standard, data.batches(batch_size), n_components, _working_type(data), parts)
            self.n_features_in_ = data.n_features
            self.__dict__.pop("feature_names_in_", None)
        return self

    def _fit(
        self,
        standard: tuple[Array, float],
        batches: Batches,
        n_components: int,
        dtype: np.dtype[np.floating],
        in_parts: Callable[[LayerGradient], tuple[LayerGradient, Target]] | None = None,
    ) -> EPLS:
        checkpoint = checkpoint_of(self)
        random = check_random_state(self.random_state)
        if checkpoint is not None and self.random_state is None:  # a state of its own, to be set when it goes on
            random = np.random.RandomState(random.randint(2**31 - 1))
        n_batches = -(-batches.n_samples // batches.batch_size)
        max_iter = int(self.max_iter or 0) or max(_FEWEST_EPOCHS, -(-_FEWEST_STEPS // n_batches))
        trainer = self._new_trainer(n_components, *standard, dtype, random, n_steps=n_batches * max_iter)
        if in_parts is not None:
            trainer.layer, trainer.target = in_parts(trainer.layer)
        run = {} if checkpoint is None else self._description(standard, batches, trainer, max_iter)
        progress = None if checkpoint is None else checkpoint.resume(run, trainer)
        if progress is None:
            trainer.start_biases(batches, random)
        reports = [] if progress is None else list(progress.reports)

        fit_context = self._init_callback_context(max_subtasks=max_iter).call_on_fit_task_begin(estimator=self)
        for _ in reports:  # epochs that were done before count, for callbacks that tell how far it is
            fit_context.subcontext(task_name="epoch").call_on_fit_task_begin(estimator=self).call_on_fit_task_end(
                estimator=self, reconstruction_attributes=lambda: _attributes(trainer)
            )
        epochs = train(trainer, batches, max_iter, self.tol, random, progress, saver(checkpoint, run, trainer))
        for _ in range(max_iter - len(reports)):
            epoch_context = fit_context.subcontext(task_name="epoch").call_on_fit_task_begin(estimator=self)
            reports.append(next(epochs))
            stop = epoch_context.call_on_fit_task_end(
                estimator=self, reconstruction_attributes=lambda: _attributes(trainer)
            )
            if stop or reports[-1].is_last:
                break
        epochs.close()
        trainer.wake(batches, random)

        self.__dict__.pop("_trainer", None)
        self.__dict__.update(_attributes(trainer))
        self.epoch_reports_ = reports
        self.loss_curve_ = [report.error for report in reports]
        self.n_epochs_ = len(reports)
        fit_context.call_on_fit_task_end(estimator=self)
        if checkpoint is not None and not checkpoint.keep:
            checkpoint.clear()
        return self

    def _description(
        self, standard: tuple[Array, float], batches: Batches, trainer: Trainer, max_iter: int
    ) -> dict[str, Any]:
        """Settings and data of a training: what must be the same for it to go on from a checkpoint."""
        if self.random_state is not None and not isinstance(self.random_state, Integral):
            raise ValueError(
                f"random_state={self.random_state!r} is not the same each time, so that a checkpoint would be of "
                f"another training: give a number, or None to let the checkpoint keep it"
            )
        settings = {name: _plain(value) for name, value in self.get_params(deep=False).items()}
        center, scale = standard
        return settings | {
            "number of samples": batches.n_samples,
            "batches": f"{type(batches).__name__} of {batches.batch_size}",
            "epochs": max_iter,
            "type": trainer.weights.dtype.name,
            "shape of the weights": list(trainer.weights.shape),
            "mean of the data": sha256(center.tobytes()).hexdigest(),
            "scale of the data": float(scale),
        }

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: ArrayLike, y: Any = None) -> EPLS:
        """Learn from the next samples of a stream.

        The mean and the scale are those of the first call, which should therefore have many samples. A stream has no
        epochs; balance means that after every mini-batch the wins of any two units since the first call differ by at
        most one (with ``target="literal"``, each call is an epoch of its own). Outputs become sparse over the first
        1000 mini-batches, and the learning rate falls after them.

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
            data = np.asarray(validate_data(self, X, dtype=TYPES, reset=first_call, ensure_min_samples=1 + first_call))
        if not hasattr(self, "_trainer"):
            self._trainer = self._stream_trainer(data, first_call)
            self.loss_curve_ = []
            self.__dict__.pop("epoch_reports_", None)
        trainer = self._trainer
        if trainer.layer.device != self.device:  # a stream may go on elsewhere
            layer = trainer.layer
            trainer.layer = self._new_layer(layer.center, layer.scale, trainer.optimizer.needs_curvature)
        batches = ArrayBatches(data, self._batch_size(len(trainer.weights), _SMALLEST_BATCH * 10))
        if isinstance(trainer.target, LiteralTarget):
            trainer.target.start_epoch(len(data))
        with RowThreads() as threads:
            errors = [trainer.step(batch, threads).errors for batch in batches.in_order()]
        trainer.limit_norms()
        self.loss_curve_.append(float(np.concatenate(errors).mean(dtype=np.float64)))
        self.n_epochs_ = len(self.loss_curve_)
        self.__dict__.update(_attributes(trainer))
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The outputs f(w·x + b) of all units, each sample by itself.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            Samples. Those that do not fit in memory are read in parts; see :meth:`iter_transform` for codes that do not
            fit either.

        Returns
        -------
        ndarray or dask array of shape (n_samples, n_components)
            The codes: float64 for float64, else float32. Those of a dask array are one that is not computed yet.
        """
        check_is_fitted(self)
        in_parts = transform_in_parts(self, X)
        if in_parts is not None:
            return in_parts
        data = np.asarray(validate_data(self, X, dtype=TYPES, reset=False))
        codes = np.empty((len(data), len(self.components_)), _working_type(data))
        with RowThreads() as threads:
            for start, block in self._outputs(data, self._transform_rows(), threads):
                codes[start : start + len(block)] = block
        return codes

    def iter_transform(self, X: Any) -> Iterator[Array]:
        """The codes of some thousand samples after the other, in constant memory.

        Parameters
        ----------
        X : array, memory map, zarr array, dask array or Blocks of shape (n_samples, n_features)
            Samples.

        Yields
        ------
        ndarray of shape (some, n_components)
            The next samples' codes.
        """
        check_is_fitted(self)
        return codes_in_parts(self, X)

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
        data = np.asarray(validate_data(self, X, dtype=TYPES, reset=False))
        n_components = len(self.components_)
        target = AuctionTarget(n_components)
        n_rows = n_components * max(self._transform_rows() // n_components, 1)  # whole rounds of wins
        with RowThreads() as threads:
            blocks = self._outputs(data, n_rows, threads)
            return np.concatenate([target.assign(block) for _, block in blocks])

    def as_layer(self) -> Layer:
        """The bare numbers of :meth:`transform`, in which centring and scaling are contained.

        Returns
        -------
        Layer
            weights, center, intercept and activation, in float64.
        """
        check_is_fitted(self)
        weights = self.components_.astype(np.float64) / self.scale_
        return Layer(
            weights, weights @ self.mean_, self.intercept_.astype(np.float64), resolve_activation(self.activation)
        )

    def _outputs(self, X: Array, n_rows: int, threads: RowThreads) -> Iterator[tuple[int, Array]]:
        """Outputs of at most ``n_rows`` samples at a time, with the number of the first; valid until the next."""
        dtype = _working_type(X)
        weights = self.components_.astype(dtype, copy=False)
        intercept = self.intercept_.astype(dtype, copy=False)
        outputs_of = self._layer_outputs(weights, intercept, threads)
        batch = np.empty((min(n_rows, len(X)), X.shape[1]), dtype)
        for start in range(0, len(X), n_rows):
            indices = np.arange(start, min(start + n_rows, len(X)))
            inputs = batch[: len(indices)]
            gather_batch(X, indices, self.mean_, self.scale_, inputs)
            yield start, outputs_of(inputs)

    def _layer_outputs(self, weights: Array, intercept: Array, threads: RowThreads) -> Callable[[Array], Array]:
        """What makes outputs of centred and scaled samples."""
        activation = resolve_activation(self.activation)
        if self.device is not None:
            from ..algorithm.engines.torch.engine import layer_on_device

            return layer_on_device(self.device, weights, intercept, activation)

        def outputs_of(inputs: Array) -> Array:
            outputs: Array = inputs @ weights.T
            outputs += intercept
            apply_activation(activation, outputs, threads)
            return outputs

        return outputs_of

    def _transform_rows(self) -> int:
        return max(1, _TRANSFORM_ELEMENTS // max(self.components_.shape))

    def _checked_components(self, n_samples: int) -> int:
        if self.n_components is None:
            return min(_DEFAULT_COMPONENTS, n_samples)
        if self.n_components > n_samples:
            raise ValueError(
                f"n_components={self.n_components} is more than n_samples={n_samples}, and every unit needs a sample "
                f"of its own: give n_components of at most {n_samples}, or more samples"
            )
        return int(self.n_components)

    def _batch_size(self, n_components: int, n_samples: int) -> int:
        smallest = min(_SMALLEST_BATCH, max(n_samples // 10, 1))
        return int(self.batch_size or 0) or n_components * -(-smallest // n_components)

    def _new_trainer(
        self,
        n_components: int,
        center: Array,
        scale: float,
        dtype: np.dtype[np.floating],
        random: np.random.RandomState,
        n_steps: int | None,
    ) -> Trainer:
        optimizer = OPTIMIZERS[self.optimizer]()
        return Trainer(
            initial_weights(n_components, len(center), random, dtype),
            self._new_layer(center, scale, optimizer.needs_curvature),
            target=TARGETS[self.target](n_components),
            optimizer=optimizer,
            max_norm=_max_norm(n_components, len(center)) if isinstance(self.max_norm, str) else self.max_norm,
            n_steps=n_steps,
        )

    def _new_layer(self, center: Array, scale: float, needs_curvature: bool) -> LayerGradient:
        settings = (center, scale, resolve_activation(self.activation), self.loss, needs_curvature)
        if self.device is None:
            return NumpyGradient(*settings)
        from ..algorithm.engines.torch.engine import TorchGradient

        return TorchGradient(self.device, *settings)

    def _stream_trainer(self, data: Array, first_call: bool) -> Trainer:
        random = check_random_state(self.random_state)
        dtype = _working_type(data)
        if first_call:
            center, scale, _ = center_and_scale([data])
            if (data == data[0]).all():
                raise ValueError(
                    f"the first {len(data)} samples of the stream are all equal, which does not tell the scale of the "
                    f"data: begin with samples that differ"
                )
            n_components = self.n_components or _DEFAULT_COMPONENTS
            trainer = self._new_trainer(n_components, center, scale, dtype, random, n_steps=None)
            trainer.start_biases(ArrayBatches(data, len(data)), random)
            return trainer
        trainer = self._new_trainer(len(self.components_), self.mean_, self.scale_, dtype, random, n_steps=None)
        trainer.resume(self.components_, self.intercept_)
        return trainer

    def _fitted_state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and plain values that :func:`epls.save_model` writes."""
        check_is_fitted(self)
        arrays = {name: getattr(self, name) for name in _SAVED_ARRAYS}
        plain: dict[str, Any] = {name: getattr(self, name) for name in _SAVED_VALUES}
        if hasattr(self, "feature_names_in_"):
            plain["feature_names_in_"] = self.feature_names_in_.tolist()
        return arrays, plain

    def _restore_fitted_state(self, arrays: dict[str, Array], plain: dict[str, Any]) -> None:
        for name in _SAVED_ARRAYS:
            if arrays[name].dtype not in (np.float32, np.float64) or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be finite floating-point numbers")
            setattr(self, name, arrays[name])
        for name in _SAVED_VALUES:
            setattr(self, name, plain[name])
        if "feature_names_in_" in plain:
            self.feature_names_in_ = np.asarray(plain["feature_names_in_"], dtype=object)
        if not (isinstance(self.scale_, float) and 0 < self.scale_ < np.inf):
            raise ValueError(f"scale_={self.scale_!r} must be a finite number above 0")
        if not (isinstance(self.loss_curve_, list) and isinstance(self.n_epochs_, int) and self.components_.ndim == 2):
            raise ValueError("loss_curve_, n_epochs_ or the shape of components_ is not what a model has")
        n_components, self.n_features_in_ = self.components_.shape
        if self.intercept_.shape != (n_components,) or self.mean_.shape != (self.n_features_in_,):
            raise ValueError(
                f"components_ of shape {self.components_.shape} do not go with intercept_ of shape "
                f"{self.intercept_.shape} and mean_ of shape {self.mean_.shape}"
            )

    @property
    def n_iter_(self) -> int:
        """The number of epochs, by scikit-learn's name."""
        return self.n_epochs_

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def _working_type(X: Array | Blocks) -> np.dtype[np.floating]:
    """The type to compute in: float64 for float64, float32 for all else that is let in."""
    return np.dtype(np.float64 if X.dtype == np.float64 else np.float32)


def _plain(value: Any) -> str:
    """A setting as text that is the same in every process."""
    if isinstance(value, Activation):
        return value.name
    return repr(value.item() if isinstance(value, np.generic) else value)


def _max_norm(n_components: int, n_features: int) -> float:
    """The paper's limit of 1, or more where units need more room than its 1600 units of 300 features do."""
    room = math.log(n_components) / math.sqrt(n_features)
    return max(1.0, room / (math.log(1600) / math.sqrt(300)))


def _attributes(trainer: Trainer) -> dict[str, Any]:
    """What a fitted estimator takes from a training."""
    return {
        "components_": np.ascontiguousarray(trainer.weights[:, :-1]),
        "intercept_": trainer.weights[:, -1].copy(),
        "mean_": trainer.layer.center,
        "scale_": trainer.layer.scale,
    }
