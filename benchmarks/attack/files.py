"""Mutated model, checkpoint and cache files: each must be refused or give what the undamaged file gives.

    python benchmarks/attack/files.py                  # 100,000 files
    python benchmarks/attack/files.py --quick
    python benchmarks/attack/files.py --files 5000 --seed 7

Damaged files have bits flipped, bytes set, parts cut, doubled or cleared. Crafted files have settings, values or
arrays replaced and a checksum that is right: whoever writes one may give a model other outputs, but must neither crash
the process, nor let it hang, nor fill its memory. Oversized files have few bytes and ask for much: stacks with fine
grids, small cells and long strides that encode a photograph of a megapixel; thousands of groups of channels, models
inside models, arrays that belong to nothing. Every file is opened in a child process whose memory is limited; some
models are also written as ONNX files.
"""

import contextlib
import copy
import json
import tempfile
from pathlib import Path

import numpy as np
from common import damaged, limit_memory, main, watch
from sklearn.datasets import load_digits
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import epls
from epls.evaluation.cache import Cache
from epls.learners import LEARNERS
from epls.onnx import to_onnx
from epls.utils.container import read_container, write_container

VALUES = [
    None, True, -1, 0, 1, 2, 600, 10**6, 2**31, 2**63, 10**30, 10**400, -0.5, 0.5, 1e-300, 1e300, "", "log", "evil",
    "natural", "a" * 1000, [], [1], {}, {"learner": "EPLS", "params": {}}, [[]] * 50,
]  # fmt: skip


FORMATS = (3, 5)  # of models, of checkpoints
SIZES = [1, 2, 3, 7, 30, 300, 1000, 10**4, 2**31]  # of grids, cells, strides and patches
MOST = 20_000  # groups, models inside models, arrays
PHOTOGRAPH = np.random.RandomState(0).randint(256, size=(1, 1024, 1024), dtype=np.uint8)


class Stop(epls.Checkpoint):
    """Fails after some batches, and leaves its checkpoints."""

    n_left = 5

    def save_when_due(self, run, training):
        super().save_when_due(run, training)
        self.n_left -= 1
        if self.n_left == 0:
            raise KeyboardInterrupt


def small(learner):
    """A learner with few components and epochs."""
    settings = {"n_components": 4, "max_iter": 2, "random_state": 0, "dictionary": np.eye(4, 64)}
    return learner(**{name: value for name, value in settings.items() if name in learner().get_params()})


def subjects(folder):
    """Files, and what opens each and computes with it."""
    X, images = load_digits(return_X_y=True)[0][:60], (15 * load_digits().images[:12]).astype(np.uint8)
    quick = {"random_state": 0, "max_iter": 2}
    of_patches = {"patch_size": 4, "n_patches": 200, "random_state": 0}
    models = {name: small(learner).fit(X) for name, learner in LEARNERS.items()} | {
        "pursuit": epls.OMP(4, n_nonzero_coefs=2, **quick).fit(X),
        "whitening": epls.ZCAWhitening().fit(X),
        "pipeline": make_pipeline(StandardScaler(), epls.EPLS(3, **quick)).fit(X),
        "images": epls.ImageFeatures(epls.EPLS(4, **quick), **of_patches).fit(images),
        "whitened": epls.ImageFeatures(
            epls.KMeansTriangle(4, **quick), **of_patches, encoder="triangle", whiten=True
        ).fit(images),
        "thresholds": epls.ImageFeatures(
            epls.OMP(4, **quick), **of_patches, encoder=epls.SoftThresholdEncoder(alpha=0.5)
        ).fit(images),
        "sparse": epls.ImageFeatures(
            epls.OMP(4, **quick), **of_patches, encoder=epls.SparseCodingEncoder(alpha=0.5)
        ).fit(images),
        "stack": epls.DeepFeatures(
            [
                epls.Layer(epls.EPLS(6, **quick), patch_size=3, n_patches=200),
                epls.Layer(epls.EPLS(3, **quick), patch_size=2, n_groups=2, group_size=3, n_patches=200),
            ],
            random_state=0,
        ).fit(images),
        "prototypes of images": epls.ImageFeatures(epls.Prototypes(4, **quick), **of_patches).fit(images),
        "groups": epls.BalancedKMeans(4, size_min=[5] * 4, size_max=30, random_state=0).fit(X),
        "cosine": epls.BalancedKMeans(4, metric="cosine", random_state=0).fit(X, sample_weight=1.0 + np.arange(60)),
    }
    for name, model in models.items():
        path = folder / f"{name}.epls"
        epls.save_model(model, path)
        data = images if isinstance(model, (epls.ImageFeatures, epls.DeepFeatures)) else X
        use = "transform" if hasattr(model, "transform") else "predict"
        yield path, lambda path, data=data, use=use: getattr(epls.load_model(path), use)(data)
    settings = {"max_iter": 3, "batch_size": 10, "random_state": 0}
    with contextlib.suppress(KeyboardInterrupt):
        epls.EPLS(4, **settings).set_callbacks(Stop(folder / "run", seconds=0)).fit(X)
    older, newest = sorted((folder / "run").glob("checkpoint-*"))
    older.unlink()

    def resumed(path):
        with tempfile.TemporaryDirectory(dir=folder) as place:
            (Path(place) / newest.name).write_bytes(path.read_bytes())
            return epls.EPLS(4, **settings).set_callbacks(epls.Checkpoint(place)).fit(X).components_

    yield newest, resumed
    rows = np.arange(60, dtype=np.float32).reshape(10, 6)
    Cache(folder / "cache").rows({}, rows.shape, lambda start: iter(rows[start:]))
    for entry in sorted((folder / "cache").glob("codes-*")):

        def cached(path, entry=entry):
            with tempfile.TemporaryDirectory(dir=folder) as place:
                for other in entry.parent.glob("codes-*"):
                    (Path(place) / other.name).write_bytes((path if other == entry else other).read_bytes())
                return np.array(Cache(Path(place)).rows({}, rows.shape, lambda start: iter(rows[start:]))[0])

        yield entry, cached


def crafted(path, target, random):
    """A model file or a checkpoint with something replaced, and a checksum that is right."""
    header, arrays = read_container(path, *FORMATS)
    version = header["format"]
    holders = []

    def walk(value):
        if isinstance(value, dict | list) and value:
            holders.append(value)
            for item in value.values() if isinstance(value, dict) else value:
                walk(item)

    walk(header)
    for _ in range(1 + random.randint(3)):
        if random.randint(3) and holders:
            holder = holders[random.randint(len(holders))]
            key = list(holder)[random.randint(len(holder))] if isinstance(holder, dict) else random.randint(len(holder))
            holder[key] = json.loads(json.dumps(VALUES[random.randint(len(VALUES))]))
        elif arrays:
            name = list(arrays)[random.randint(len(arrays))]
            shape = tuple(random.randint(0, 9, size=random.randint(4)))
            changes = (np.zeros(shape, random.choice([np.float32, np.float64, np.int8])), arrays[name] * np.nan,
                       arrays[name] * 1e300, arrays[name].T, np.atleast_1d(arrays[name])[:1])  # fmt: skip
            arrays[name] = changes[random.randint(len(changes))]
    header["format"] = 2 + random.randint(2) if version == 3 else version  # models of format 2 can be read
    write_container(target, header, arrays)


def oversized(path, target, random):
    """A small file of a stack or of image features that asks for much; return whether it is for the photograph."""
    header, arrays = read_container(path, *FORMATS)
    kind = random.randint(4)
    number = int(3 * (MOST / 3) ** random.uniform())
    highest = header["parts"].get("layer2")
    if kind == 0 and highest is not None:  # the groups of a layer, again and again
        number = min(number, 15_000)  # a header of more is too long to be written
        highest["params"]["n_groups"] = number
        group = highest["parts"].pop("group0")
        highest["parts"] = {f"group{k}": group for k in range(number)}
        highest["attributes"]["channels_"] = [highest["attributes"]["channels_"][0]] * number
        of_group = {k.removeprefix("layer2.group0"): a for k, a in arrays.items() if k.startswith("layer2.group0.")}
        arrays = {k: a for k, a in arrays.items() if not k.startswith("layer2.")}
        arrays |= {f"layer2.group{k}{name}": a for k in range(number) for name, a in of_group.items()}
    elif kind == 1:  # a chain of models
        model, whole = header, copy.deepcopy(header)
        for _ in range(min(number, 300)):
            model["parts"] = {"part": copy.deepcopy(whole) | {"parts": {}}}
            model = model["parts"]["part"]
    elif kind == 2:
        arrays |= {f"{'layer1.' * random.randint(3)}{k}": np.zeros(1, np.float32) for k in range(number)}
    else:
        settings = [header["params"]]
        settings += [part["params"] for part in header["parts"].values() if part["learner"] == "Layer"]
        for chosen in settings:
            for name in sorted({"grid", "stride", "pool", "pool_stride", "mirror"} & set(chosen)):
                if random.randint(2):
                    chosen[name] = bool(random.randint(2)) if name == "mirror" else SIZES[random.randint(len(SIZES))]
    header["format"] = 3
    write_container(target, header, arrays)
    return kind == 3


def export(path, target):
    """Write a model as an ONNX file, if it can be one."""
    model = epls.load_model(path)
    is_of_images = isinstance(model, epls.ImageFeatures | epls.DeepFeatures)
    to_onnx(model, target, image_shape=(100, 100) if is_of_images else None)


def attack(folder, random, n_files):
    """The outcome of each of some files; runs in a child."""
    opened = [(path, read, read(path)) for path, read in subjects(folder)]
    of_images = [(path, read) for path, read, _ in opened if path.stem in ("images", "stack")]
    for path, _ in of_images:
        epls.load_model(path).transform(PHOTOGRAPH)  # compiles, and gets its threads
    limit_memory()
    target = folder / "mutated"
    for _ in range(n_files):
        path, read, expected = opened[random.randint(len(opened))]
        is_crafted = path.suffix in (".epls", ".safetensors") and random.randint(3) == 0
        is_large = random.randint(50) == 0
        if is_large:
            path, read = of_images[random.randint(len(of_images))]
            if oversized(path, target, random):
                read = lambda target: epls.load_model(target).transform(PHOTOGRAPH)  # noqa: E731
        elif is_crafted:
            crafted(path, target, random)
        else:
            target.write_bytes(damaged(path.read_bytes(), random))
        if (is_large or is_crafted) and path.suffix == ".epls" and random.randint(4) == 0:
            read = lambda target: export(target, folder / "model.onnx")  # noqa: E731
        found, error, slow = watch(lambda read=read: read(target))
        if slow is not None:
            outcome = slow
        elif isinstance(error, ValueError | TypeError | OSError):
            outcome = f"refused ({type(error).__name__})"
        elif error is not None:
            outcome = f"BAD: {type(error).__name__}: {error}"[:200]
        else:
            same = np.shape(found) == np.shape(expected) and np.array_equal(found, expected)
            may_differ = is_crafted or is_large
            outcome = "the same" if same else "another model" if may_differ else f"BAD: {path.name} gives other outputs"
        yield ("oversized: " if is_large else "crafted: " * is_crafted) + outcome


if __name__ == "__main__":
    main(attack, __doc__, n_files=100_000, n_quick=200)
