"""The names of scikit-learn that are not public, in one place. Seen in scikit-learn 1.6 to 1.9."""

from __future__ import annotations

from numbers import Integral, Real

from sklearn.base import _fit_context as fit_context
from sklearn.utils import _safe_indexing as safe_indexing
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions

try:
    from sklearn.callback import CallbackSupportMixin

    HAS_CALLBACKS = True
except ImportError:  # before scikit-learn 1.9
    CallbackSupportMixin = object
    HAS_CALLBACKS = False

__all__ = [
    "AT_LEAST_ONE",
    "HAS_CALLBACKS",
    "NOT_NEGATIVE",
    "POSITIVE",
    "SHARE",
    "CallbackSupportMixin",
    "HasMethods",
    "Interval",
    "StrOptions",
    "fit_context",
    "safe_indexing",
]

# Counts and sizes: compiled loops add and multiply them as integers of 64 bits.
AT_LEAST_ONE = Interval(Integral, 1, 2**31 - 1, closed="both")
# Below the largest number of single precision. An integer may be larger than any floating-point number.
NOT_NEGATIVE = Interval(Real, 0, 1e38, closed="left")
POSITIVE = Interval(Real, 0, 1e38, closed="neither")
SHARE = Interval(Real, 0, 1, closed="neither")
