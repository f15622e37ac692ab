"""The paper's discussion: OMP-1 is EPLS with the activation |w·x| and without lifetime sparsity. What holds of it.

All on digits, made white: there, ||H - T||² with components of norm 1 is smallest where the sum of |w·x| at the winners
is largest. OMP-1 maximises the sum of their squares.
"""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from epls import EPLS, OMP
from epls.algorithm.activations import ABSOLUTE
from epls.algorithm.engine import Objective, new_engine
from epls.algorithm.optimizers import Optimizer
from epls.algorithm.settings import TrainingSettings
from epls.algorithm.training import Training
from epls.solvers.dictionary import first_components

N_UNITS = 30
LARGEST = TrainingSettings(target="largest", loss="squared", biases="none", max_norm=None)
AUCTION = replace(LARGEST, target="auction")


class NormedStep(Optimizer):
    """A step of length 1 along the gradient, and components of norm 1 again, as OMP-1's are."""

    needs_factors = False

    def start(self, weights, n_steps, n_done=0):
        pass

    def step(self, weights, gradient, factors=None):
        weights -= gradient
        weights[:, :-1] /= np.linalg.norm(weights[:, :-1], axis=1, keepdims=True)


@pytest.fixture(scope="module")
def white():
    return PCA(20, whiten=True, svd_solver="full").fit_transform(load_digits().data)


def cosines(one, other):
    rows = [c / np.linalg.norm(c, axis=1, keepdims=True) for c in (one, other)]
    return np.abs(rows[0] @ rows[1].T)


def n_unused(components, X):
    return int((np.bincount(np.abs(X @ components.T).argmax(axis=1), minlength=len(components)) == 0).sum())


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_components_of_norm_1_it_finds_those_of_omp(white, seed):
    """From the same start. Two starts of OMP-1 agree to 0.87 to 0.91 only."""
    omp = OMP(N_UNITS, max_iter=100, tol=0, random_state=seed).fit(white)
    weights = np.column_stack([first_components(white, N_UNITS, np.random.RandomState(seed)), np.zeros(N_UNITS)])
    training = Training(weights, new_engine(Objective(np.zeros(20), 1.0, ABSOLUTE, LARGEST), N_UNITS))
    training.optimizer = NormedStep()
    for _ in range(100):
        training.step((white, np.arange(len(white))))
    assert (training.weights[:, -1] == 0).all()
    found = cosines(training.weights[:, :-1], omp.components_)
    assert found.max(axis=1).mean() > 0.9
    assert np.diag(found).mean() > 0.85
    assert n_unused(training.weights[:, :-1], white) == n_unused(omp.components_, white) == 0


def test_without_balance_nearly_all_units_die(white):
    """Nothing keeps the components equally long: whoever wins more becomes longer, and wins more."""
    model = EPLS(N_UNITS, activation="absolute", settings=LARGEST, random_state=0).fit(white)
    assert model.epoch_reports_[-1].n_never_active > 0.8 * N_UNITS
    assert n_unused(model.components_, white) > 0.8 * N_UNITS
    assert (model.intercept_ == 0).all()


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_balance_removes_the_dead_and_finds_components_of_omp(white, seed):
    model = EPLS(N_UNITS, activation="absolute", settings=AUCTION, random_state=seed).fit(white)
    assert model.epoch_reports_[-1].n_never_active == 0
    assert n_unused(model.components_, white) == 0
    omp = OMP(N_UNITS, max_iter=100, tol=0, random_state=seed).fit(white)
    # Two OMPs with different seeds agree to 0.86, random samples with an OMP to 0.69.
    assert cosines(model.components_, omp.components_).max(axis=1).mean() > 0.8


def test_where_every_sample_has_one_of_a_few_directions_both_find_these():
    random = np.random.RandomState(0)
    directions = np.linalg.qr(random.normal(size=(36, 36)))[0][:25]
    gains = random.choice([-1, 1], 5000) * (1 + random.exponential(size=5000))
    X = directions[random.randint(25, size=5000)] * gains[:, None] + 0.1 * random.normal(size=(5000, 36))
    model = EPLS(25, activation="absolute", settings=AUCTION, random_state=0).fit(X)
    assert cosines(directions, model.components_).max(axis=1).min() > 0.95
    assert cosines(directions, OMP(25, random_state=0).fit(X).components_).max(axis=1).mean() > 0.9
