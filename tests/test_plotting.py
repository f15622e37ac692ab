import matplotlib
import numpy as np
import pytest

from epls.plotting import filter_grid, plot_filters

matplotlib.use("Agg")


def test_grid_holds_every_component_in_its_place_at_its_own_scale():
    components = np.zeros((5, 2 * 3 * 3))
    components[0, 0], components[4, -1] = 4.0, -0.01
    picture = filter_grid(components, (2, 3, 3), n_filters=None)
    assert picture.shape == (2 * 3 + 1, 3 * 4 + 1, 3)
    assert picture[1, 1].tolist() == [255, 128, 128]  # first component, first pixel: red
    assert picture[5, 7].tolist() == [128, 128, 0]  # fifth component, last pixel: anything but blue
    assert picture[1, 5].tolist() == [128, 128, 128]  # second component: zero is gray
    assert (picture[0] == 0).all()
    assert (picture[:, 0] == 0).all()


def test_gray_patches_make_gray_pictures():
    picture = filter_grid(np.random.RandomState(0).normal(size=(4, 9)), (3, 3))
    assert (picture[..., 0] == picture[..., 1]).all()
    assert (picture[..., 0] == picture[..., 2]).all()


def test_a_random_hundred_is_shown_unless_asked_otherwise():
    components = np.random.RandomState(0).normal(size=(150, 4))
    assert filter_grid(components, (2, 2)).shape == (10 * 3 + 1, 10 * 3 + 1, 3)
    assert filter_grid(components, (2, 2), n_filters=None).shape == (12 * 3 + 1, 13 * 3 + 1, 3)
    assert (filter_grid(components, (2, 2), random_state=1) != filter_grid(components, (2, 2), random_state=2)).any()


@pytest.mark.parametrize("shape", [(3, 3), (2, 2, 4), (2, 2, 3), (8,), (2, 2, 1, 2)])
def test_a_shape_that_does_not_fit_is_refused(shape):
    with pytest.raises(ValueError, match=r"8 values.*patch_shape="):
        filter_grid(np.ones((2, 8)), shape)


def test_no_filters_is_an_error():
    with pytest.raises(ValueError, match="n_filters=0"):
        filter_grid(np.ones((2, 4)), (2, 2), n_filters=0)


def test_axes_show_the_filters():
    axes = plot_filters(np.ones((4, 4)), (2, 2))
    assert axes.images[0].get_array().shape == (7, 7, 3)
    matplotlib.pyplot.close("all")
