import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from epls import metrics

CODES = arrays(np.float64, st.tuples(st.integers(2, 8), st.integers(2, 8)), elements=st.floats(0, 10, width=16))


@given(CODES)
def test_sparsities_lie_between_0_and_1_and_ignore_scale(codes):
    for sparsity in (metrics.population_sparsity, metrics.lifetime_sparsity):
        value = sparsity(codes)
        assert ((value >= 0) & (value <= 1)).all()
        np.testing.assert_allclose(sparsity(3 * codes), value, atol=1e-9)


@given(CODES)
def test_lifetime_is_population_of_the_transpose(codes):
    np.testing.assert_allclose(metrics.lifetime_sparsity(codes), metrics.population_sparsity(codes.T))


def test_sparsity_of_known_codes():
    np.testing.assert_allclose(metrics.population_sparsity(np.eye(5)), [1] * 5)
    assert metrics.population_sparsity(np.ones((2, 5))).tolist() == [0, 0]
    assert metrics.population_sparsity(np.zeros((2, 5))).tolist() == [0, 0]
    assert metrics.population_sparsity(np.ones((2, 1))).tolist() == [0, 0]
    # Two of five equally active: 1 - (2/5)**2 / (2/5) = 3/5, of at most 4/5.
    np.testing.assert_allclose(metrics.population_sparsity([[1, 1, 0, 0, 0]]), [0.75])


def test_never_active_goes_by_the_target_values():
    tanh_codes = [[-1.0, -0.95, 0.9, -0.7], [-0.9, -1.0, -1.0, -1.0]]
    assert metrics.never_active(tanh_codes, "tanh").tolist() == [0, 1]
    assert metrics.never_active(np.full((2, 3), 0.05), "logistic").tolist() == [0, 1, 2]


@pytest.mark.parametrize("scale", [1e-3, 1, 1e3])
def test_never_active_of_codes_of_any_scale(scale):
    codes = scale * np.array([[0.0, -0.9, 0.05, 1.0], [0.0, 0.0, -0.06, 0.3]])
    assert metrics.never_active(codes).tolist() == [0, 2]
    assert metrics.never_active(0 * codes).tolist() == [0, 1, 2, 3]


def test_redundancy_against_the_full_matrix_of_cosines():
    components = np.random.RandomState(0).normal(size=(2100, 4))
    unit = components / np.linalg.norm(components, axis=1, keepdims=True)
    cosines = np.abs(unit @ unit.T)
    np.fill_diagonal(cosines, 0)
    np.testing.assert_allclose(metrics.redundancy(components), cosines.max(axis=1))


def test_redundancy_of_a_zero_component_is_zero():
    assert metrics.redundancy([[0.0, 0.0], [1.0, 0.0]]).tolist() == [0, 0]


@pytest.fixture
def smooth_data():
    """Ten dimensions, with nearly all variance in the first three."""
    return np.random.RandomState(0).normal(size=(500, 10)) * np.array([10] * 3 + [0.01] * 7)


def test_noise_filters_are_those_outside_the_principal_subspace(smooth_data):
    assert metrics.noise_filters(np.eye(10), smooth_data).tolist() == [3, 4, 5, 6, 7, 8, 9]


def test_a_filter_is_noise_below_half_of_its_energy(smooth_data):
    mixed = np.zeros((2, 10))
    mixed[:, 0], mixed[:, 9] = 7.0, (6.9, 7.1)
    assert metrics.noise_filters(mixed, smooth_data).tolist() == [1]


def test_one_feature():
    assert metrics.noise_filters([[2.0]], [[1.0], [2.0], [4.0]]).tolist() == []


def test_constant_data_have_no_principal_subspace():
    with pytest.raises(ValueError, match="X is constant"):
        metrics.noise_filters([[1.0, 0.0]], np.ones((5, 2)))
