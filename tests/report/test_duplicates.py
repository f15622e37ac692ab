"""Near-duplicates: copies of photographs that were changed in some way, and pictures that only look alike."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.datasets import load_sample_images

from epls.images.reading import resized
from epls.report.duplicates import _tree, duplicate_pictures, duplicate_vectors
from epls.report.similarity import comparable, similarity


def jpeg(image):
    file = io.BytesIO()
    image.save(file, "JPEG", quality=30)
    return Image.open(file).convert("RGB")


COPIES = {
    "mirror": lambda image: image.transpose(Image.Transpose.FLIP_LEFT_RIGHT),
    "crop": lambda image: image.crop([round(k * side) for k in (0.05, 0.95) for side in image.size]),
    "gray": lambda image: image.convert("L"),
    "half": lambda image: image.resize([side // 2 for side in image.size]),
    "jpeg": jpeg,
    "brighter": lambda image: image.point(lambda level: 20 + 0.9 * level),
    "90 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_90),
    "180 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_180),
    "270 degrees": lambda image: image.transpose(Image.Transpose.ROTATE_270),
}


def small(images):
    return np.stack([resized(np.asarray(image.convert("RGB")), 32, 32) for image in images])


@pytest.fixture(scope="module")
def pieces():
    """Twenty different pieces of two photographs, without those of the sky."""
    photographs = [Image.fromarray(image) for image in load_sample_images().images]
    places = [(x, y) for y in range(0, 360, 120) for x in range(0, 600, 120)]
    found = [photograph.crop((x, y, x + 120, y + 110)) for photograph in photographs for x, y in places]
    return [piece for piece in found if np.std(piece) > 20][:20]


@pytest.mark.parametrize("kind", COPIES)
def test_copies_are_found_and_nothing_else(pieces, kind):
    copies = [COPIES[kind](pieces[k]) for k in range(0, 20, 2)]
    found = duplicate_pictures(small([*pieces, *copies]))
    pairs = {(first, second) for first, second, score in found.pairs if score >= found.usual}
    true = {(2 * k, 20 + k) for k in range(10)}
    assert len(pairs & true) >= 8  # two of the ten pieces are mostly sky
    assert len(pairs - true) <= 1


def test_turned_copies_are_found_only_if_they_count(pieces):
    copy = COPIES["mirror"](pieces[4])
    assert [pair[:2] for pair in duplicate_pictures(small([*pieces, copy])).pairs if pair[2] > 0.98] == [(4, 20)]
    assert [pair for pair in duplicate_pictures(small([*pieces, copy]), turned=False).pairs if pair[1] == 20] == []


def test_the_same_thing_in_another_color_is_no_duplicate(pieces):
    pictures = small([pieces[-1], pieces[-1]])
    pictures[1] = pictures[1][..., [2, 0, 1]]
    assert np.ptp(pictures[0].mean(axis=(0, 1))) > 40  # it has a color
    assert duplicate_pictures(pictures).pairs == []


def test_noise_and_flat_pictures_are_alone():
    random = np.random.RandomState(0)
    pictures = 100 + random.randint(8, size=(20, 32, 32, 3), dtype=np.uint8)
    pictures[15:] = 10 * np.arange(5)[:, None, None, None]
    pictures[7] = pictures[2]
    pictures[19] = pictures[15]
    assert duplicate_pictures(pictures).pairs == [(2, 7, 1.0), (15, 19, 1.0)]


def test_where_all_look_alike_duplicates_are_closer_than_others(pieces):
    """Forty noisy versions of one picture, and a copy of one of them."""
    random = np.random.RandomState(0)
    pictures = small([pieces[3]] * 41).astype(float) + 6 * random.normal(size=(41, 32, 32, 3))
    pictures[40] = pictures[8] + random.normal(size=(32, 32, 3))
    found = duplicate_pictures(np.clip(pictures, 0, 255).astype(np.uint8))
    assert found.usual > 0.92
    assert [pair[:2] for pair in found.pairs if pair[2] >= found.usual] == [(8, 40)]


@pytest.mark.parametrize("n_pictures", [1, 2])
def test_few_pictures(n_pictures):
    assert duplicate_pictures(np.zeros((n_pictures, 32, 32, 3), np.uint8)).pairs == [(0, 1, 1.0)][: n_pictures - 1]


def test_vectors_that_are_repeated_are_duplicates(blobs):
    X = np.concatenate([blobs, blobs[[4, 9]]])
    found = duplicate_vectors(similarity(comparable(X, np.random.RandomState(0))))
    assert sorted(pair[:2] for pair in found.pairs if pair[2] >= found.usual) == [(4, 400), (9, 401)]


def test_vectors_on_a_line_are_no_duplicates():
    X = np.arange(1.0, 41.0)[:, None] * [1.0, 1.0]
    assert duplicate_vectors(similarity(comparable(X, np.random.RandomState(0), keep_length=True))).pairs == []


def connected(pairs, n_samples):
    """The set of each sample, by joining sets until nothing changes."""
    sets = [{k} for k in range(n_samples)]
    for first, second in pairs:
        joined = sets[first] | sets[second]
        for k in joined:
            sets[k] = joined
    return sets


@given(st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7), st.integers(80, 100)), max_size=20))
def test_a_tree_connects_the_same_sets_at_every_score(triples):
    best = {}
    for first, second, score in triples:
        if first != second:
            pair = min(first, second), max(first, second)
            best[pair] = max(best.get(pair, 0), score / 100)
    first, second = (np.array([pair[k] for pair in best], np.intp) for k in (0, 1))
    tree = _tree(first, second, np.array(list(best.values())), 8)
    assert len(tree) < 8
    for least in (0.8, 0.9, 0.95, 1):
        kept = [pair[:2] for pair in tree if pair[2] >= least - 1e-9]
        assert connected(kept, 8) == connected([pair for pair, score in best.items() if score >= least], 8)
