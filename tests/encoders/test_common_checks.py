"""scikit-learn's checks of estimators, with a dictionary as wide as the samples of each check."""

import numpy as np
import pytest
from sklearn.decomposition import SparseCoder
from sklearn.frozen import FrozenEstimator
from sklearn.utils._test_common.instance_generator import PER_ESTIMATOR_CHECK_PARAMS
from sklearn.utils.estimator_checks import estimator_checks_generator

from epls import EPLS
from epls.encoders import ENCODERS

if SparseCoder not in PER_ESTIMATOR_CHECK_PARAMS:
    pytest.skip("this release of scikit-learn does not check its own encoder", allow_module_level=True)

USUAL_WIDTH = 3
# scikit-learn's own table for the same problem; a check that is not in it has samples of the usual width.
WIDTHS = {name: settings["dictionary"].shape[1] for name, settings in PER_ESTIMATOR_CHECK_PARAMS[SparseCoder].items()}


def components(width):
    return np.random.RandomState(0).normal(size=(5, width))


def layer_of(width):
    return FrozenEstimator(EPLS(5, max_iter=2, random_state=0).fit(np.random.RandomState(0).normal(size=(40, width))))


CASES = [pytest.param(kind, layer_of if name == "natural" else components, id=name) for name, kind in ENCODERS.items()]


@pytest.mark.parametrize(("kind", "new_dictionary"), CASES)
def test_common_checks(kind, new_dictionary, monkeypatch):
    settings = {name: {"dictionary": new_dictionary(width)} for name, width in WIDTHS.items()}
    monkeypatch.setitem(PER_ESTIMATOR_CHECK_PARAMS, kind, settings)
    n_checks = 0
    for estimator, check in estimator_checks_generator(kind(new_dictionary(USUAL_WIDTH))):
        check(estimator)
        n_checks += 1
    assert n_checks > 30
