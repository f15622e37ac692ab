"""What units of all layers answer to images, against the maps of the library."""

import numpy as np
import pytest
from dense_codes import code_maps
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_limits

from epls import EPLS, DeepFeatures, Layer
from epls.images.models import layers_of
from epls.images.reading import ImageCollection
from epls.images.scan import scan_layers


@pytest.fixture(scope="module")
def images():
    random = np.random.RandomState(0)
    return [random.randint(256, size=(20 + k, 24, 3), dtype=np.uint8) for k in range(5)]


@pytest.fixture(scope="module")
def model(images):
    first = Layer(EPLS(6, max_iter=2), patch_size=4, pool=2, n_patches=300)
    second = Layer(EPLS(4, max_iter=2), patch_size=2, n_groups=2, group_size=3, n_patches=300)
    return DeepFeatures([first, second], random_state=0).fit(images)


def codes_at_all_positions(model, image, layer):
    """By the features of each group, which know of no stack."""
    below = image if layer == 0 else next(model.maps([image], layer))
    fitted = model.layers_[layer]
    groups = zip(fitted.features_, fitted.channels_, strict=True)
    return np.concatenate([next(code_maps(part.coders()[0], [below[:, :, seen]])) for part, seen in groups], axis=2)


@pytest.mark.parametrize("area_grid", [1, 3])
def test_the_strongest_answers_and_where_they_are(model, images, area_grid):
    found = scan_layers(model.coders(), ImageCollection(images, 1), 50, area_grid=area_grid)
    for number, view in enumerate(layers_of(model)):
        assert found[number].strongest.shape == (5, area_grid**2, view.n_units)
        for k, image in enumerate(images):
            answers = np.abs(codes_at_all_positions(model, image, number))
            rows, columns = (np.arange(n) * area_grid // n for n in answers.shape[:2])
            for area in range(area_grid**2):
                inside = (rows[:, None] == area // area_grid) & (columns == area % area_grid)
                assert_allclose(found[number].strongest[k, area], answers[inside].max(axis=0), rtol=1e-4, atol=1e-6)
                top, left = found[number].places[k, area].T // view.step
                there = answers[top, left, np.arange(view.n_units)]
                assert_allclose(there, found[number].strongest[k, area], rtol=1e-4, atol=1e-6)
                assert inside[top, left].all()


def test_codes_at_random_positions(model, images):
    found = scan_layers(model.coders(), ImageCollection(images, 1), 50)
    for number in range(2):
        rows = found[number].codes.reshape(5, 10, -1)
        assert len(np.unique(found[number].codes, axis=0)) == 50  # no position twice
        for image, drawn in zip(images, rows, strict=True):
            everywhere = codes_at_all_positions(model, image, number).reshape(-1, drawn.shape[1])
            away = np.abs(everywhere[:, None] - drawn).max(axis=2)
            assert away.min(axis=0).max() < 1e-4


def test_no_more_positions_than_there_are(model, images):
    found = scan_layers(model.coders(), ImageCollection(images[:1], 1), 10_000)
    assert len(found[0].codes) == 17 * 21
    assert len(found[1].codes) == 7 * 9


def test_only_layers_that_are_asked_for(model, images):
    both, second = (
        scan_layers(model.coders(), ImageCollection(images, 1), 50, layers=layers) for layers in (None, [1])
    )
    assert sorted(both) == [0, 1]
    assert sorted(second) == [1]
    assert_array_equal(both[1].strongest, second[1].strongest)


def test_areas_without_a_position(model, images):
    found = scan_layers(model.coders(), ImageCollection([images[0][:8, :8]], 1), 50, area_grid=2)[1]
    assert (found.strongest == -1).sum() == 3 * 8  # there is a single position


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_change_nothing(model, images, n_threads):
    with threadpool_limits(1, user_api="blas"):
        one = scan_layers(model.coders(), ImageCollection(images, 1), 50)[1]
    with threadpool_limits(n_threads, user_api="blas"):
        more = scan_layers(model.coders(), ImageCollection(images, 1), 50)[1]
    for name in ("codes", "strongest", "places"):
        assert_array_equal(getattr(one, name), getattr(more, name))


def test_progress(model, images):
    done = []
    scan_layers(model.coders(), ImageCollection(images, 1), 5, progress=done.append)
    assert done == [1, 2, 3, 4, 5]
