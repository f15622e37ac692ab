"""Small models, and their pages."""

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_sample_images
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, ImageFeatures
from epls.report import model_page


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
