"""Small models, and their pages."""

import numpy as np
import pytest
from browsing import SIZES, Browser
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, DeepFeatures, ImageFeatures, Layer
from epls.report import model_page


@pytest.fixture(scope="session")
def browser():
    browser = Browser()
    yield browser
    browser.quit()


@pytest.fixture
def size():
    """The width and height of the screen: tests of the layout are parametrized with both."""
    return SIZES["desk"]


@pytest.fixture
def open_page(browser, size, tmp_path):
    """Opens a page. In the end the browser must have complained of nothing, and nothing is wider than the screen."""
    yield lambda html, place="": browser.open(html, tmp_path, size, place)
    assert browser.driver.get_log("browser") == []
    assert browser.driver.execute_script("return document.documentElement.scrollWidth") <= size[0]


@pytest.fixture(scope="session")
def photographs():
    """Pieces of photographs of two sizes, the sky of one of them with a name that must not become HTML."""
    first, second = load_sample_images().images
    return [first[:120, :160], second[100:200, 100:220], first[200:300, :150], second[200:320, 300:420]]


@pytest.fixture(scope="session")
def image_model(photographs):
    return ImageFeatures(EPLS(30, max_iter=5), patch_size=6, n_patches=3000, random_state=0).fit(photographs)


@pytest.fixture(scope="session")
def image_page(image_model, photographs):
    return model_page(image_model, photographs, title="Filters & </script><b>more</b>")


@pytest.fixture(scope="session")
def pieces():
    """Twelve different pieces of photographs."""
    return np.stack(
        [image[k : k + 48, 2 * k : 2 * k + 48] for image in load_sample_images().images for k in range(0, 300, 50)]
    )


@pytest.fixture(scope="session")
def deep_model(pieces):
    """Three layers, whose units see 5, 10 and 20 pixels a side."""
    first = Layer(EPLS(16, max_iter=5), patch_size=5, pool=2, n_patches=2000)
    second = Layer(EPLS(10, max_iter=5), patch_size=3, n_groups=3, group_size=8, pool=2, n_patches=2000)
    third = Layer(EPLS(9, max_iter=5), patch_size=3, n_patches=2000)
    return DeepFeatures([first, second, third], random_state=0).fit(pieces)


@pytest.fixture(scope="session")
def deep_page(deep_model, pieces):
    return model_page(deep_model, pieces)


@pytest.fixture(scope="session")
def vectors():
    return load_breast_cancer(as_frame=True, return_X_y=True)[0]


@pytest.fixture(scope="session")
def vector_model(vectors):
    return make_pipeline(StandardScaler(), EPLS(12, max_iter=5, random_state=0)).fit(vectors)


@pytest.fixture(scope="session")
def vector_page(vector_model, vectors):
    return model_page(vector_model, vectors)


@pytest.fixture
def gray():
    return np.random.RandomState(0).uniform(size=(5, 20, 20)).astype(np.float32)
