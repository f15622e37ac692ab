"""What the learners have in common: data of all kinds, checks, progress, codes block by block, and files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import _fit_context
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from ..data.blocks import TYPES, as_blocks
from ..data.coder import BlockEncoder, Coder
from ..data.samples import ArraySamples, BlockSamples, Samples, StreamSamples
from ..utils.constraints import AT_LEAST_ONE
from ..utils.epochs import Epochs, earlier_fit_kept
from ..utils.fields import Floats, Saved
from ..utils.threads import row_blocks
from ..utils.types import Array

DEFAULT_COMPONENTS = 100
_BLOCK_ELEMENTS = 2**22  # of inputs or codes, whichever is more, at a time


class Learner(Saved, Coder, Epochs):
    """Learns components from samples; its own code of a sample is :meth:`transform`.

    A subclass says how it learns in :meth:`learn` and what its codes are in :meth:`encode` (or in
    :meth:`block_encoders`, if something can be prepared for many blocks). Its constructor has a ``random_state`` if
    anything in it is random, and ``n_components`` if that is free.
    """

    #: The settings that its user has to tune, as Table 1 of the paper counts them.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    #: Whether patches of images should be whitened first: the command line and comparisons do so.
    whitens: ClassVar[bool] = False
    #: The encoder that belongs to it.
    own_encoder: ClassVar[str] = "natural"
    #: Patches of images that it usually learns from.
    usual_patches: ClassVar[int] = 100_000
    #: Whether the number of its components follows from the data.
    complete: ClassVar[bool] = False

    components_: Array
    #: What the parameters may be that most learners have; a subclass adds its own.
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_components": [AT_LEAST_ONE, None],
        "random_state": ["random_state"],
    }
    saved: ClassVar[dict[str, Any]] = {"components_": Floats("n_components", "n_features")}

    @abstractmethod
    def learn(self, samples: Samples, random: np.random.RandomState) -> dict[str, Any]:
        """Learn, and return the attributes of the fitted estimator by name.

        Parameters
        ----------
        samples : Samples
            Checked samples, wherever they are. ``samples.array()`` is all of them in memory, as float32 or float64;
            ``samples.epoch(random, batch_size)`` gives mini-batches, without loading them all.
        random : RandomState
            Made from ``random_state``.
        """

    def encode(self, X: Array) -> Array:
        """The codes of some samples, a new array of their type. Threads may call it at the same time."""
        raise NotImplementedError(f"{type(self).__name__} defines neither encode nor block_encoders")

    def block_encoders(self, dtype: np.dtype[np.floating]) -> Callable[[], BlockEncoder]:
        """What makes functions from samples of a type to codes, one for each thread."""
        return lambda: self.encode

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Any:
        """Learn from all samples.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            The samples. Integers of 8 or 16 bits stay such as long as possible. Memory maps of a gigabyte or more, zarr
            and dask arrays and what :func:`epls.open_shards` returns are read block by block, in a new order each
            epoch, by the learners that take mini-batches; others load them.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        blocks = as_blocks(X)
        with earlier_fit_kept(self):
            if blocks is None:
                samples: Samples = ArraySamples(np.asarray(validate_data(self, X, dtype=TYPES, ensure_min_samples=2)))
            else:
                samples = self._without_names(BlockSamples(blocks))
            return self._fit_samples(samples)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_batches(self, arrays: Callable[[], Iterable[ArrayLike]]) -> Any:
        """Learn from arrays that come one after the other, as often as is needed.

        Samples are shuffled among their neighbours, in buffers of 128 MiB. If there are more, and sorted, an epoch
        still sees first one kind, then another: mix them when they are written. The next buffer is filled in a thread
        while the samples of this one are learned from. Learners that do not take mini-batches load all of them.

        Parameters
        ----------
        arrays : callable
            Returns a new iterator over arrays of shape (any number of samples, n_features) each time that it is called:
            once to find the mean and the scale, and once for each further pass over the data.

        Returns
        -------
        self
        """
        if not callable(arrays):
            raise TypeError(
                f"fit_batches needs a function that returns a new iterator for each epoch, got "
                f"{type(arrays).__name__}: wrap it, as in fit_batches(lambda: iter(batches))"
            )

        def checked() -> Iterator[NDArray[Any]]:
            for number, array in enumerate(arrays()):
                yield np.asarray(validate_data(self, array, dtype=TYPES, reset=number == 0, ensure_min_samples=0))

        with earlier_fit_kept(self):
            return self._fit_samples(StreamSamples(checked))

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_samples(self, samples: Samples) -> Any:
        """Learn from samples of any kind, of your own too.

        Parameters
        ----------
        samples : Samples
            The samples.

        Returns
        -------
        self
        """
        with earlier_fit_kept(self):
            return self._fit_samples(self._without_names(samples))

    def _without_names(self, samples: Samples) -> Samples:
        """The samples, whose features have no names."""
        self.n_features_in_ = samples.shape[1]
        self.__dict__.pop("feature_names_in_", None)
        return samples

    def _fit_samples(self, samples: Samples) -> Any:
        if samples.shape[0] < 2:
            raise ValueError(f"{type(self).__name__} was given {samples.shape[0]} sample(s), and needs at least 2")
        attributes = self.learn(samples, check_random_state(getattr(self, "random_state", None)))
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
        """``n_components``; None is 100, or the number of samples if that is less."""
        n_components: int | None = self.n_components
        if n_components is None:
            return min(DEFAULT_COMPONENTS, n_samples)
        if n_components > n_samples:
            raise ValueError(
                f"n_components={n_components} is more than n_samples={n_samples}, which is too few to learn so many "
                f"from: give n_components of at most {n_samples}, or more samples"
            )
        return int(n_components)

    def _map_blocks(self, new_worker: Callable[[], Callable[[slice], Any]], n_rows: int) -> Iterator[Any]:
        # A learner may need much memory for a block, or have threads of its own: blocks come one after the other, and
        # the BLAS library's threads share the work on each.
        return map(new_worker(), row_blocks(n_rows, self._rows_at_a_time()))

    def _rows_at_a_time(self) -> int:
        return max(1, _BLOCK_ELEMENTS // max(self.components_.shape))

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)
