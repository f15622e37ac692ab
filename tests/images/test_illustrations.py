"""What scikit-learn's HTML diagram shows of fitted features."""

import base64
import io
import re

import numpy as np
import pytest
from PIL import Image
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, DeepFeatures, ImageFeatures, Layer
from epls.plotting import filter_grid


@pytest.fixture(scope="module")
def features():
    return ImageFeatures(EPLS(9, max_iter=2), patch_size=5, n_patches=300, random_state=0).fit(load_digits().images)


def pictures(html):
    urls = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    return [np.asarray(Image.open(io.BytesIO(base64.b64decode(url)))) for url in urls]


def test_filters_are_shown(features):
    html = features._repr_html_()
    assert "9 filters of 5 x 5 pixels" in html
    (picture,) = pictures(html)
    np.testing.assert_array_equal(picture, filter_grid(features.estimator_.components_, (5, 5)))


def test_in_a_pipeline(features):
    scaler = StandardScaler().fit(features.transform(load_digits().images[:9]))
    assert len(pictures(make_pipeline(features, scaler)._repr_html_())) == 1


def test_of_many_filters_some_are_shown():
    model = ImageFeatures(EPLS(70, max_iter=1), patch_size=5, n_patches=300, random_state=0)
    model.fit(load_digits().images)
    assert "60 of 70 filters" in model._repr_html_()


def test_layers(features):
    first = Layer(EPLS(6, max_iter=2), patch_size=3, n_patches=300)
    second = Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=300)
    html = DeepFeatures([first, second], random_state=0).fit(load_digits().images)._repr_html_()
    assert "layer 1: 6 filters of 3 x 3 pixels" in html
    assert "layer 2: 8 units in 2 groups, patches of 2 x 2 of the map below" in html
    assert len(pictures(html)) == 1


def test_learners_show_bars():
    html = EPLS(70, max_iter=1, random_state=0).fit(load_digits().data)._repr_html_()
    assert "the first 60 components, a bar for each feature" in html
    assert len(pictures(html)) == 1


def test_what_is_not_fitted_shows_none():
    for model in (ImageFeatures(EPLS(5)), DeepFeatures(), EPLS(5), make_pipeline(ImageFeatures(EPLS(5)))):
        assert pictures(model._repr_html_()) == []
