"""Write small model files of this version, and what the models return, to a folder named after the version.

    python tests/files/write.py

Run it once for each release, and commit the folder: the tests load the files of all versions.
"""

import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, BalancedKMeans, DeepFeatures, ImageFeatures, Layer, ZCAWhitening, __version__, save_model
from epls.learners import LEARNERS

SAMPLES, N_SHOWN = slice(0, 200), 10
SMALL = {"n_components": 4, "max_iter": 2, "n_nonzero_coefs": 2, "random_state": 0}


def small(name, **settings):
    learner = LEARNERS[name]()
    given = SMALL | settings
    return learner.set_params(**{key: value for key, value in given.items() if key in learner.get_params()})


def models(vectors, images):
    """Every kind of model that a file may hold, fitted, by the name of its file."""
    for name in LEARNERS:
        yield name, small(name).fit(vectors)
    yield "pipeline", make_pipeline(StandardScaler(), small("epls")).fit(vectors)
    yield "tanh", EPLS(4, activation="tanh", max_iter=2, random_state=0).fit(vectors.astype(np.float64))
    yield "balanced", BalancedKMeans(4, random_state=0).fit(vectors)
    yield "whitening", ZCAWhitening().fit(vectors)
    of_images = {"patch_size": 3, "n_patches": 300, "random_state": 0}
    yield "images", ImageFeatures(small("epls"), **of_images).fit(images)
    for encoder in ("triangle", "soft_threshold", "sparse_coding"):
        features = ImageFeatures(small("kmeans"), encoder=encoder, whiten=True, **of_images)
        yield f"images_{encoder}", features.fit(images)
    layers = [Layer(small("epls"), patch_size=3, n_patches=300), Layer(small("epls"), patch_size=2, n_patches=300)]
    yield "deep", DeepFeatures(layers, random_state=0).fit(images)


def returned(model, vectors, images):
    """What a model returns for the first samples."""
    if isinstance(model, BalancedKMeans):
        return model.predict(vectors[:N_SHOWN])
    return model.transform((images if isinstance(model, ImageFeatures | DeepFeatures) else vectors)[:N_SHOWN])


def main():
    folder = Path(__file__).parent / __version__
    folder.mkdir(exist_ok=True)
    digits = load_digits()
    vectors = digits.images[SAMPLES, ::2, ::2].reshape(-1, 16).astype(np.float32)
    images = digits.images[SAMPLES].astype(np.uint8)
    expected = {}
    warnings.simplefilter("ignore", ConvergenceWarning)
    for name, model in models(vectors, images):
        save_model(model, folder / f"{name}.epls", notes={"wrote": "tests/files/write.py"})
        expected[name] = returned(model, vectors, images)
    np.savez_compressed(folder / "expected.npz", **expected)
    print(f"{len(expected)} models in {folder}")


if __name__ == "__main__":
    main()
