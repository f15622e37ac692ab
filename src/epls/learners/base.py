"""What the learners have in common: checks, progress, codes block by block, and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, _fit_context
from sklearn.callback import CallbackSupportMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from ..data.blocks import refuse_blocks
from ..data.parts import transform_in_parts

Array = NDArray[np.floating]

_DEFAULT_COMPONENTS = 100
_TRANSFORM_ELEMENTS = 2**22  # of inputs or codes, whichever is more, at a time


@contextmanager
def earlier_fit_kept(estimator: Any) -> Iterator[None]:
    """What an earlier fit left stays whole if this one fails: validation has by then changed the features."""
    names = ("n_features_in_", "feature_names_in_")
    before = {name: estimator.__dict__[name] for name in names if name in estimator.__dict__}
    try:
        yield
    except BaseException:
        for name in names:
            estimator.__dict__.pop(name, None)
        estimator.__dict__.update(before)
        raise


class Learner(ClassNamePrefixFeaturesOutMixin, TransformerMixin, CallbackSupportMixin, BaseEstimator, ABC):
    """Learns bases from samples; its own code of a sample is :meth:`transform`.

    A subclass says how it learns in :meth:`_learn` and what its codes are in :meth:`_codes` (or in :meth:`coder`, if
    something can be prepared for many blocks). Its constructor has a
    ``random_state`` if anything in it is random, and ``n_components`` if that is free.
    """

    #: The settings that its user has to tune, as Table 1 of the paper counts them.
    meta_parameters: ClassVar[tuple[str, ...]] = ()
    #: Whether patches of images should be whitened first.
    whitens: ClassVar[bool] = False
    #: The encoder that belongs to it, by its name.
    own_encoder: ClassVar[str] = "natural"
    #: How many patches it usually learns from: more where each takes little time.
    usual_patches: ClassVar[int] = 100_000
    #: Whether it learns a component for each direction of the samples, rather than a number that its user chooses.
    complete: ClassVar[bool] = False
    #: Whether it can learn from data that are read in blocks.
    reads_blocks: ClassVar[bool] = False

    components_: Array
    _parameter_constraints: ClassVar[dict[str, Any]] = {}
    _saved_arrays: ClassVar[tuple[str, ...]] = ("components_",)
    _saved_values: ClassVar[tuple[str, ...]] = ("n_iter_",)

    @abstractmethod
    def _learn(self, X: Array, random: np.random.RandomState) -> dict[str, Any]:
        """The attributes of the fitted estimator, learned from samples of float32 or float64."""

    @abstractmethod
    def _codes(self, X: Array) -> Array:
        """The codes of some samples, a new array of their type."""

    def coder(self, dtype: np.dtype[np.floating]) -> Callable[[Array], Array]:
        """The function from samples to codes, without checks, for many calls on blocks of samples of a type.

        What is the same for all blocks is computed here, once. Threads may call it at the same time.
        """
        return self._codes

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: Any = None) -> Any:
        """Learn from all samples.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Samples.
        y : None
            Ignored.

        Returns
        -------
        self
        """
        refuse_blocks(X, type(self).__name__)
        with earlier_fit_kept(self):
            data = validate_data(self, X, dtype=[np.float64, np.float32], order="C", ensure_min_samples=2)
            attributes = self._learn(np.asarray(data), check_random_state(getattr(self, "random_state", None)))
        self.__dict__.update(attributes)
        return self

    def transform(self, X: ArrayLike) -> Array:
        """The codes of samples, each by itself.

        Parameters
        ----------
        X : array-like, zarr array, dask array or Blocks of shape (n_samples, n_features)
            Samples. Those that do not fit in memory are read in parts.

        Returns
        -------
        ndarray or dask array of shape (n_samples, n_codes)
            The codes: float64 for float64, else float32. Those of a dask array are one that is not computed yet.
        """
        check_is_fitted(self)
        in_parts = transform_in_parts(self, X)
        if in_parts is not None:
            return in_parts
        data = np.asarray(validate_data(self, X, dtype=[np.float64, np.float32], order="C", reset=False))
        n_rows = max(1, _TRANSFORM_ELEMENTS // max(self.components_.shape))
        codes_of = self.coder(data.dtype)
        if len(data) <= n_rows:
            return codes_of(data)
        codes = np.empty((len(data), self._n_features_out), data.dtype)
        for start in range(0, len(data), n_rows):
            codes[start : start + n_rows] = codes_of(data[start : start + n_rows])
        return codes

    def _epochs(self, n_epochs: int) -> Generator[int]:
        """The numbers of the epochs; callbacks are told of each, and can end them.

        Whoever needs no more of them leaves the loop: the epoch that was under way counts as done.
        """
        fit_task = self._init_callback_context(max_subtasks=n_epochs).call_on_fit_task_begin(estimator=self)
        stop = False
        try:
            for epoch in range(n_epochs):
                task = fit_task.subcontext(task_name="epoch").call_on_fit_task_begin(estimator=self)
                try:
                    yield epoch
                finally:
                    stop = task.call_on_fit_task_end(estimator=self)
                if stop:
                    break
        finally:
            fit_task.call_on_fit_task_end(estimator=self)

    def _checked_components(self, n_samples: int) -> int:
        """``n_components``; None is 100, or the number of samples if that is less."""
        n_components: int | None = self.n_components
        if n_components is None:
            return min(_DEFAULT_COMPONENTS, n_samples)
        if n_components > n_samples:
            raise ValueError(
                f"n_components={n_components} is more than n_samples={n_samples}, which is too few to learn so many "
                f"from: give n_components of at most {n_samples}, or more samples"
            )
        return n_components

    def _fitted_state(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Arrays and plain values that :func:`epls.save_model` writes."""
        check_is_fitted(self)
        plain: dict[str, Any] = {name: getattr(self, name) for name in self._saved_values}
        if hasattr(self, "feature_names_in_"):
            plain["feature_names_in_"] = self.feature_names_in_.tolist()
        return {name: getattr(self, name) for name in self._saved_arrays}, plain

    def _restore_fitted_state(self, arrays: dict[str, Array], plain: dict[str, Any]) -> None:
        for name in self._saved_arrays:
            if arrays[name].dtype not in (np.float32, np.float64) or not np.isfinite(arrays[name]).all():
                raise ValueError(f"{name} must be finite floating-point numbers")
            setattr(self, name, arrays[name])
        for name in self._saved_values:
            setattr(self, name, plain[name])
        if self.components_.ndim != 2:
            raise ValueError(f"components_ of shape {self.components_.shape} must have two dimensions")
        for name, shape in self._shapes(*self.components_.shape).items():
            if getattr(self, name).shape != shape:
                raise ValueError(
                    f"{name} of shape {getattr(self, name).shape} does not go with components_ of shape "
                    f"{self.components_.shape}: its shape must be {shape}"
                )
        self.n_features_in_ = self.components_.shape[1]
        if "feature_names_in_" in plain:
            self.feature_names_in_ = np.asarray(plain["feature_names_in_"], dtype=object)

    def _shapes(self, n_components: int, n_features: int) -> dict[str, tuple[int, ...]]:
        """The shapes that saved arrays besides the bases must have."""
        return {}

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
