"""The base class of the learners: data of all kinds, checks, progress, codes block by block, and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..algorithm.activations import LOGISTIC, Activation
from ..algorithm.layer import UnitLayer
from ..callbacks import Epochs, earlier_fit_kept
from ..data.blocks import TYPES, as_blocks
from ..data.encoding import BlockEncoder, SampleTransformer
from ..data.samples import ArraySamples, BlockSamples, PartOfSamples, Samples
from ..utils.fields import COUNT, CURVE, Floats, Number, Saved
from ..utils.sklearn import AT_LEAST_ONE, NOT_NEGATIVE, fit_context
from ..utils.threads import ROW_QUANTUM, map_blocks, one_blas_thread
from ..utils.types import Array

DEFAULT_COMPONENTS = 100
_BLOCK_ELEMENTS = 2**22  # of inputs or codes at a time, whichever is larger
_BLOCK_ROWS = 11 * ROW_QUANTUM  # so that codes do not depend on where a block begins


class Learner(Saved, Epochs, SampleTransformer):
    """Learn components from samples; :meth:`transform` encodes samples with them.

    A subclass implements :meth:`learn`. Codes are the products with the components unless it implements
    :meth:`encode` or, if it can prepare something for many blocks, :meth:`block_encoders`. Its constructor has a
    ``random_state`` if anything is random, and ``n_components`` if the user can choose it.
    """

    #: The settings that a user has to tune, as counted in Table 1 of the paper.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    #: Whether to whiten patches of images first. The command line and comparisons follow it.
    whitens: ClassVar[bool] = False
    #: The encoder that is usually used with it.
    own_encoder: ClassVar[str] = "natural"
    #: The number of image patches that it usually learns from.
    usual_patches: ClassVar[int] = 100_000
    #: Whether :meth:`learn` uses mini-batches, of which each of several processes may have a part.
    in_parts: ClassVar[bool] = False
    #: Whether an interrupted ``fit`` can continue from a :class:`epls.Checkpoint`.
    resumes: ClassVar[bool] = False
    #: Whether the data determine the number of components.
    complete: ClassVar[bool] = False
    #: Whether :meth:`learn` has no epochs. Callbacks are then notified of a single one.
    in_one_step: ClassVar[bool] = False

    components_: Array
    #: The constraints of parameters that several learners share. A subclass adds its own.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE, None],
        "max_iter": [AT_LEAST_ONE],
        "tol": [NOT_NEGATIVE],
        "random_state": ["random_state"],
    }
    saved: ClassVar[dict[str, Any]] = {"components_": Floats("n_components", "n_features")}

    @abstractmethod
    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        """Learn, and return the attributes of the fitted estimator by name.

        Parameters
        ----------
        samples : Samples
            Checked samples from any source. ``samples.array()`` returns all of them in memory, as float32 or float64.
            ``samples.epoch(random, batch_size)`` returns mini-batches, without loading all samples.
        random : RandomState
            Created from ``random_state``.
        """

    def encode(self, X: Array) -> Array:
        """Encode some samples into a new array of their type; by default, their products with the components.

        Several threads may call it at the same time.
        """
        codes: Array = X @ self.components_.T.astype(X.dtype, copy=False)
        return codes

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        return lambda: self.encode

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike | PartOfSamples | Samples, y: Any = None) -> Any:
        """Learn from all samples.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            The samples. Integers of 8 or 16 bits are converted as late as possible. Memory maps of a gigabyte or more,
            zarr and dask arrays, and the result of :func:`epls.open_shards` are read block by block, in a new order
            each epoch, by learners that use mini-batches. Other learners load them. :class:`epls.torch.Shard` is a part
            of the samples, if several processes learn together. :class:`epls.data.samples.Samples` of your own are
            used as they are.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        with earlier_fit_kept(self):
            return self._fit_samples(self._samples(X))

    def _samples(self, X: Any, least: int = 2) -> Samples:
        """Return data of any kind as samples. Those in memory must be at least this many."""
        if isinstance(X, PartOfSamples):
            if not self.in_parts:
                raise TypeError(
                    f"{type(self).__name__} needs all samples in one process: give it the whole data, or learn "
                    f"with EPLS, Prototypes, SparseAutoencoder or SparseRBM"
                )
            return X.samples(lambda: self._samples(X.X, 1), repr(self))
        samples, blocks = X, as_blocks(X)
        if blocks is not None:
            samples = BlockSamples(blocks)
        elif not isinstance(X, Samples):
            return ArraySamples(np.asarray(validate_data(self, X, dtype=TYPES, ensure_min_samples=least)))
        self.n_features_in_ = samples.shape[1]
        self.__dict__.pop("feature_names_in_", None)  # its features have no names
        return samples

    def _fit_samples(self, samples: Samples) -> Any:
        if samples.shape[0] < 2:
            raise ValueError(f"{type(self).__name__} was given {samples.shape[0]} sample(s), but needs at least 2")
        random, attributes = check_random_state(getattr(self, "random_state", None)), {}
        if samples.n_parts > 1:  # None differs from process to process
            seed = str(random.randint(2**31 - 1)).encode()
            random = np.random.RandomState(int(samples.from_first(seed)))
        with one_blas_thread():
            if self.in_one_step:
                for _ in self.epochs(1):
                    attributes = self.learn(samples, random)
            else:
                attributes = self.learn(samples, random)
        if "components_" not in attributes:
            raise TypeError(f"{type(self).__name__}.learn returned {sorted(attributes)}, without components_")
        for name, value in attributes.items():
            if isinstance(value, np.ndarray) and value.dtype.kind == "f" and not np.isfinite(value).all():
                raise ValueError(
                    f"{type(self).__name__} learned {name} that are not finite: the squares of the samples and their "
                    f"sums must stay below {np.finfo(samples.dtype).max:.1g} in {samples.dtype}; bring the samples "
                    f"to a scale of about 1, or give float64"
                )
        self.__dict__.update(attributes)
        return self

    def checked_n_components(self, n_samples: int) -> int:
        """Return ``n_components``, or for None the default number, but at most the number of samples."""
        n_components: int | None = self.n_components
        if n_components is None:
            return min(self.default_n_components(n_samples), n_samples)
        if n_components > n_samples:
            raise ValueError(
                f"n_components={n_components} is more than n_samples={n_samples}: "
                f"give n_components of at most {n_samples}, or more samples"
            )
        return int(n_components)

    def default_n_components(self, n_samples: int) -> int:
        """Return the default number of components for this many samples."""
        return DEFAULT_COMPONENTS

    def _map_blocks(self, new_worker: Callable[[], Callable[[slice], Any]], n_rows: int) -> Iterator[Any]:
        return map_blocks(new_worker, n_rows, min(_BLOCK_ROWS, self._rows_at_a_time()))

    def _rows_at_a_time(self) -> int:
        return max(1, _BLOCK_ELEMENTS // max(self.components_.shape))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


class UnitLearner(Learner):
    """A learner of one layer of units: its codes are f(w·x + b) of centred and scaled samples."""

    intercept_: Array
    mean_: Array
    scale_: float
    loss_curve_: list[float]
    n_iter_: int
    saved: ClassVar[dict[str, Any]] = Learner.saved | {
        "intercept_": Floats("n_components"),
        "mean_": Floats("n_features"),
        "scale_": Number(above=0),
        "loss_curve_": CURVE,
        "n_iter_": COUNT,
    }

    def as_layer(self) -> UnitLayer:
        """Return the layer of units that :meth:`transform` computes.

        Returns
        -------
        UnitLayer
            Weights, intercept, activation, mean and scale.
        """
        check_is_fitted(self)
        return UnitLayer(self.components_, self.intercept_, self._activation(), self.mean_, self.scale_)

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        return self.as_layer().block_encoders(dtype)

    def _activation(self) -> Activation:
        return LOGISTIC


def unit_attributes(weights: Array, center: Array, scale: float) -> dict[str, Any]:
    """Return the fitted attributes of units for samples with this mean and scale; the last column is the biases."""
    return {
        "components_": np.ascontiguousarray(weights[:, :-1]),
        "intercept_": weights[:, -1].copy(),
        "mean_": center,
        "scale_": scale,
    }
