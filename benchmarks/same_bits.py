"""Whether a change of the code left every result as it was, bit for bit.

    python benchmarks/same_bits.py write before.npz     # before the change
    python benchmarks/same_bits.py compare before.npz   # after it, on the same machine

Fits every learner, encoder and engine on bundled data with fixed seeds: in memory, from blocks, in a stream and with
torch. Bits depend on the processor, the BLAS library and its number of threads, so a file is worth something
only on the machine that wrote it. Results that moved are listed with the largest difference, relative to the largest
value.
"""

import argparse
import hashlib
import sys
import tempfile
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits, load_sample_images

import epls
from epls.utils.settings import with_settings

LEARNERS = {
    "EPLS": {"max_iter": 4},
    "ICA": {"max_iter": 30, "tol": 0.1},
    "KMeansTriangle": {"max_iter": 5},
    "OMP": {"max_iter": 4, "n_nonzero_coefs": 2},
    "PSD": {"max_iter": 2},
    "RICA": {"max_iter": 5},
    "RandomPatches": {},
    "Raw": {},
    "SparseAutoencoder": {"max_iter": 3},
    "SparseCoding": {"max_iter": 2},
    "SparseFiltering": {"max_iter": 5},
    "SparseRBM": {"max_iter": 3},
}
ACTIVATIONS = ("logistic", "tanh", "relu", "softplus", "identity", "absolute")


def new_learner(name, n_components=24, **settings):
    kind = getattr(epls, name)
    usual = {"n_components": n_components, "random_state": 0}
    known = {key: value for key, value in usual.items() if key in kind().get_params()}
    return with_settings(kind(), known | LEARNERS[name] | settings, name)


def fitted_arrays(model):
    """Every learned array or list of numbers."""
    for name, value in sorted(vars(model).items()):
        if name.endswith("_") and isinstance(value, np.ndarray | list | float):
            if name in ("epoch_reports_", "feature_names_in_"):
                continue
            yield name, np.asarray(value)


def learners(X):
    for dtype in (np.float64, np.float32):
        for name in LEARNERS:
            model = new_learner(name).fit(X.astype(dtype))
            for attribute, value in fitted_arrays(model):
                yield f"{name} {dtype.__name__} {attribute}", value
            yield f"{name} {dtype.__name__} codes", model.transform(X.astype(dtype))
            yield f"{name} {dtype.__name__} codes of a slice", model.transform(X[5:16].astype(dtype))


def epls_variants(X):
    for number, activation in enumerate(ACTIVATIONS):
        for loss in ("matching", "squared"):
            model = new_learner("EPLS", activation=activation, loss=loss).fit(X)
            yield f"EPLS activation {number} {loss}", model.components_
            yield f"EPLS activation {number} {loss} codes", model.transform(X)
    for target in ("auction", "exact", "literal"):
        for optimizer in ("adam", "vsgd"):
            for loss in ("matching", "squared"):
                settings = {"target": target, "optimizer": optimizer, "loss": loss, "batch_size": 50}
                model = new_learner("EPLS", **settings).fit(X)
                yield f"EPLS {target} {optimizer} {loss}", model.components_
                yield f"EPLS {target} {optimizer} {loss} intercept", model.intercept_
    bytes_ = (15 * X).astype(np.uint8)
    model = new_learner("EPLS").fit(bytes_)
    yield "EPLS of bytes", model.components_
    yield "EPLS codes of bytes", model.transform(bytes_)
    yield "EPLS winners", model.winners(bytes_)
    model = new_learner("EPLS", n_components=1000, max_iter=2).fit(X.astype(np.float32))
    yield "EPLS of 1000 units", model.components_
    yield "EPLS of 1000 units, codes", model.transform(np.tile(X.astype(np.float32), (4, 1)))


def epls_sources(X):
    X = X.astype(np.float32)
    with tempfile.TemporaryDirectory() as folder:
        for number, part in enumerate(np.array_split(X, 3)):
            np.save(Path(folder) / f"{number}.npy", part)
        blocks = epls.open_shards(folder)
        model = new_learner("EPLS").fit(blocks)
        yield "EPLS from blocks", model.components_
        yield "EPLS codes of blocks", model.transform(blocks)
        yield "EPLS codes in parts", np.concatenate(list(model.iter_transform(blocks)))
    model = new_learner("EPLS")
    for part in np.array_split(X, 4):
        model.partial_fit(part)
    yield "EPLS by partial_fit", model.components_


def torch_engine(X):
    for settings in ({}, {"loss": "squared"}, {"optimizer": "vsgd"}):
        model = new_learner("EPLS", device="cpu", **settings).fit(X)
        yield f"EPLS in torch {settings}", model.components_
        yield f"EPLS in torch {settings} codes", model.transform(X)


def encoders(X):
    from epls import NaturalEncoder, SoftThresholdEncoder, SparseCodingEncoder, TriangleEncoder

    fitted = {name: new_learner(name).fit(X) for name in LEARNERS}
    for dtype in (np.float64, np.float32):
        data = X.astype(dtype)
        for name, model in fitted.items():
            for split in (False, True):
                yield (
                    f"natural {name} {split} {dtype.__name__}",
                    NaturalEncoder(model, split_sign=split).transform(data),
                )
        for kind in (SoftThresholdEncoder, SparseCodingEncoder, TriangleEncoder):
            for split in (False, True):
                encoder = kind(fitted["EPLS"], split_sign=split)
                yield f"{kind.__name__} {split} {dtype.__name__}", encoder.transform(data / 16)
    yield "whitened", epls.ZCAWhitening().fit_transform(X)


def image_features(digits, photographs):
    cases = {
        "natural": ("EPLS", {}),
        "sums": ("EPLS", {"pooling": "sum", "stride": 2, "grid": 3}),
        "split": ("EPLS", {"encoder": epls.NaturalEncoder(split_sign=True), "pooling": "mean"}),
        "triangle": ("KMeansTriangle", {"encoder": "triangle", "whiten": True}),
        "soft threshold": ("OMP", {"encoder": "soft_threshold", "whiten": True}),
        "sparse coding": ("EPLS", {"encoder": "sparse_coding", "stride": 3}),
        "signed": ("RICA", {}),
        "torch": ("EPLS", {"device": "cpu"}),
    }
    for images_name, images in (("digits", digits), ("photographs", photographs)):
        for name, (learner, settings) in cases.items():
            features = epls.ImageFeatures(
                new_learner(learner), patch_size=4, n_patches=2000, random_state=0, **settings
            ).fit(images)
            yield f"features {images_name} {name}", features.transform(images)
            yield f"features {images_name} {name}, typical code", np.array(features.typical_code_)


def classifier(X, y):
    model = epls.L2SVMCV().fit(X[:600], y[:600])
    yield "SVM", model.coef_
    yield "SVM C", np.array(model.C_)


def results():
    X, y = load_digits(return_X_y=True)
    photographs = np.stack(load_sample_images().images)[:, ::4, ::4]
    yield from learners(X)
    yield from epls_variants(X)
    yield from epls_sources(X)
    yield from torch_engine(X)
    yield from encoders(X)
    yield from image_features((15 * load_digits().images[:60]).astype(np.uint8), photographs)
    yield from classifier(X, y)


def difference(before, after):
    if before.shape != after.shape:
        return f"shape {before.shape} -> {after.shape}"
    if before.dtype != after.dtype:
        return f"type {before.dtype} -> {after.dtype}"
    largest = float(np.abs(before).max()) or 1.0
    return f"{float(np.abs(after.astype(float) - before).max()) / largest:.1e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=["write", "compare"])
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    found = {name: np.asarray(value) for name, value in results()}
    if options.action == "write":
        np.savez_compressed(options.file, **{name.replace("/", "_"): value for name, value in found.items()})
        print(f"{len(found)} results, {hashlib.sha256(b''.join(v.tobytes() for v in found.values())).hexdigest()[:16]}")
        return
    with np.load(options.file) as archive:
        before = {name: archive[name] for name in archive.files}
    moved = {
        name: difference(before[name], found[name])
        for name in before.keys() & found.keys()
        if before[name].dtype != found[name].dtype or before[name].tobytes() != found[name].tobytes()
    }
    for name in sorted(moved):
        print(f"moved: {name}: {moved[name]}")
    for name in sorted(before.keys() ^ found.keys()):
        print(f"only {'before' if name in before else 'after'}: {name}")
    print(f"{len(before.keys() & found.keys()) - len(moved)} of {len(before)} results have the same bits")
    sys.exit(bool(moved) or before.keys() != found.keys())


if __name__ == "__main__":
    main()
