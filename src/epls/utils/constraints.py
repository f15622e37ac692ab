"""Constraints on the parameters of estimators, in scikit-learn's terms."""

from numbers import Integral, Real

from sklearn.utils._param_validation import Interval

AT_LEAST_ONE = Interval(Integral, 1, None, closed="left")
NOT_NEGATIVE = Interval(Real, 0, None, closed="left")
POSITIVE = Interval(Real, 0, None, closed="neither")
SHARE = Interval(Real, 0, 1, closed="neither")
