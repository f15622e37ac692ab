import pickle

import numpy as np
import pytest

from epls.algorithm.activations import ACTIVATIONS, Activation, resolve_activation

# Away from 0, where the rectifier and the absolute value have a kink.
NET = np.array([-3.0, -1.1, -0.3, 0.2, 0.9, 2.7])


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_derivatives_agree_with_finite_differences(name):
    f, step = ACTIVATIONS[name], 1e-5
    slope = (f.value(NET + step) - f.value(NET - step)) / (2 * step)
    np.testing.assert_allclose(f.slope(NET), slope, atol=1e-8)
    curvature = (f.slope(NET + step) - f.slope(NET - step)) / (2 * step)
    np.testing.assert_allclose(f.curvature(NET), curvature, atol=1e-8)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_keep_type_and_shape_and_argument(name):
    f, net = ACTIVATIONS[name], NET.astype(np.float32).reshape(2, 3)
    for function in (f.value, f.slope, f.curvature):
        result = function(net)
        assert result.dtype == np.float32
        assert result.shape == (2, 3)
    assert (net == NET.astype(np.float32).reshape(2, 3)).all()


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_increasing_is_what_it_says(name):
    f = ACTIVATIONS[name]
    assert f.increasing == bool((np.diff(f.value(np.linspace(-5, 5, 101))) >= 0).all())


@pytest.mark.parametrize("name", ["logistic", "tanh", "softplus", "identity"])
def test_inverse_undoes_the_function_between_the_target_values(name):
    f = ACTIVATIONS[name]
    outputs = np.linspace(f.inactive, f.active, 22)[1:-1]
    np.testing.assert_allclose(f.value(f.inverse(outputs)), outputs, rtol=1e-10)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_librarys_own_are_pickled_by_name(name):
    assert pickle.loads(pickle.dumps(ACTIVATIONS[name])) is ACTIVATIONS[name]


def test_one_of_the_users_own_is_pickled_whole():
    own = Activation("own", np.arctan, np.cos, np.sin, inactive=-1.0, active=1.0)
    assert resolve_activation(pickle.loads(pickle.dumps(own))) == own


def test_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ValueError, match=r"'sigmoid' is unknown.*'logistic'.*Activation"):
        resolve_activation("sigmoid")
