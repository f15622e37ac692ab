"""Stacks of layers, against a plain reading of what they are."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.base import clone
from sklearn.datasets import load_digits, load_sample_images
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

from epls import EPLS, Checkpoint, DeepFeatures, KMeansTriangle, Layer, load_model, save_model
from epls.algorithm.training import Training
from epls.encoders.sparse_coding import SparseCodingEncoder
from epls.images.pooling import Cells, smallest_side
from epls.images.recipes import tell_epochs
from epls.images.stack import similar_channels, usual_layers
from epls.utils.container import read_container, write_container


def photographs(n=12, size=24):
    """Parts of photographs."""
    random = np.random.RandomState(0)
    images = load_sample_images().images
    corners = random.randint(0, 300, size=(n, 2))
    return np.stack([images[k % 2][top : top + size, left : left + size] for k, (top, left) in enumerate(corners)])


def quick(n_components, **settings):
    return Layer(EPLS(n_components, max_iter=2), n_patches=300, **settings)


@pytest.fixture(scope="module")
def images():
    return photographs()


@pytest.fixture(scope="module")
def stack(images):
    first = quick(12, patch_size=5, pool=3, pool_stride=2)
    second = quick(6, patch_size=3, n_groups=3, group_size=5)
    return DeepFeatures([first, second], random_state=0).fit(images)


def plain_codes(layer, image):
    """The codes at all positions by loops: for each group, an array (rows, columns, n_codes)."""
    found = []
    for part, channels in zip(layer.features_, layer.channels_, strict=True):
        some, size = image[:, :, channels].astype(np.float64), layer.patch_size
        rows, columns = image.shape[0] - size + 1, image.shape[1] - size + 1
        patches = np.stack([some[r : r + size, c : c + size].ravel() for r in range(rows) for c in range(columns)])
        patches -= patches.mean(axis=1, keepdims=True)
        patches /= np.sqrt(patches.var(axis=1, keepdims=True) + part.contrast_floor_)
        found.append(part.estimator_.transform(patches).reshape(rows, columns, -1))
    return found


def plain_map(layer, image):
    stride, maps = layer.pool_stride or layer.pool, []
    for part, codes in zip(layer.features_, plain_codes(layer, image), strict=True):
        rows, columns = ((side - layer.pool) // stride + 1 for side in codes.shape[:2])
        found = np.empty((rows, columns, codes.shape[2]))
        for r in range(rows):
            for c in range(columns):
                cell = codes[r * stride : r * stride + layer.pool, c * stride : c * stride + layer.pool]
                found[r, c] = cell.max(axis=(0, 1)) if layer.pooling == "max" else cell.mean(axis=(0, 1))
        found /= part.typical_code_
        maps.append(np.log1p(found) if layer.pooling == "log" else found)
    return np.concatenate(maps, axis=2)


def plain_features(stack, image):
    found = []
    for layer in stack.layers_:
        of_groups = []
        for part, codes in zip(layer.features_, plain_codes(layer, image), strict=True):
            cuts = [[0, int(n / 2 + 0.5), n] for n in codes.shape[:2]]
            quarters = [
                codes[cuts[0][i] : cuts[0][i + 1], cuts[1][j] : cuts[1][j + 1]].mean(axis=(0, 1))
                for i in range(2)
                for j in range(2)
            ]
            of_groups.append(np.log1p(np.stack(quarters) / part.typical_code_))
        found.append(np.concatenate(of_groups, axis=1).ravel())
        image = plain_map(layer, image)
    return np.concatenate(found)


def test_features_and_maps_are_what_a_plain_reading_gives(stack, images):
    found = stack.transform(images[:3])
    assert found.shape == (3, 4 * (12 + 3 * 6))
    for image, features in zip(images[:3], found, strict=True):
        np.testing.assert_allclose(features, plain_features(stack, image), rtol=1e-4, atol=1e-5)
    below = [plain_map(stack.layers_[0], image) for image in images[:3]]
    np.testing.assert_allclose(list(stack.maps(images[:3], 1)), below, rtol=1e-4, atol=1e-5)
    above = [plain_map(stack.layers_[1], image) for image in below]
    np.testing.assert_allclose(list(stack.maps(images[:3], layer=2)), above, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("pooling", ["mean", "max"])
def test_other_poolings(images, pooling):
    layers = [quick(8, patch_size=4, pool=3, pooling=pooling), quick(4, patch_size=3)]
    stack = DeepFeatures(layers, random_state=0).fit(images)
    np.testing.assert_allclose(stack.transform(images[:1])[0], plain_features(stack, images[0]), rtol=1e-4, atol=1e-5)


def test_one_layer_is_image_features_to_the_bit(images):
    stack = DeepFeatures([quick(10, patch_size=5)], random_state=0, mirror=True).fit(images)
    alone = clone(stack.layers_[0].features_[0]).set_params(mirror=True)
    for name, value in vars(stack.layers_[0].features_[0]).items():
        if name.endswith("_"):
            setattr(alone, name, value)
    np.testing.assert_array_equal(stack.transform(images), alone.transform(images))


def test_gray_images_learners_and_encoders_of_all_kinds():
    digits = load_digits().images[:60]
    layers = [
        Layer(KMeansTriangle(9), patch_size=3, n_patches=300, whiten=True, encoder="triangle"),
        Layer(EPLS(8, max_iter=2), patch_size=2, n_patches=300, encoder="soft_threshold", n_groups=2, group_size=4),
    ]
    found = DeepFeatures(layers, random_state=0).fit_transform(digits)
    assert found.shape == (60, 4 * (9 + 2 * 16))
    assert np.isfinite(found).all()
    assert found.std(axis=0).max() > 0


def test_images_of_mixed_sizes_and_many_channels():
    random = np.random.RandomState(0)
    images = [random.uniform(size=(20 + k, 26 - k, 50)).astype(np.float32) for k in range(5)]
    layers = [quick(10, patch_size=3, n_groups=4, group_size=8), quick(5, patch_size=2)]
    stack = DeepFeatures(layers, random_state=0).fit(images)
    together = stack.transform(images)
    np.testing.assert_array_equal(np.concatenate([stack.transform([image]) for image in images]), together)
    np.testing.assert_array_equal(list(stack.iter_transform(images)), together)


def test_the_same_seed_gives_the_same_bits_and_mirror_images_the_same_features(images):
    layers = [quick(8, patch_size=5, pool=3), quick(4, patch_size=3, n_groups=2, group_size=4)]
    stack = DeepFeatures(layers, mirror=True, random_state=3).fit(images)
    again = clone(stack).fit(images)
    np.testing.assert_array_equal(stack.transform(images), again.transform(images))
    np.testing.assert_allclose(stack.transform(images[:, :, ::-1]), stack.transform(images), rtol=1e-5)
    assert np.any(stack.set_params(mirror=False).transform(images) != again.transform(images))


def test_names_pipeline_and_parameters(stack, images):
    names = stack.get_feature_names_out()
    assert len(set(names)) == stack.transform(images[:1]).shape[1]
    assert names[0] == "layer1_region00_code0"
    assert names[-1] == "layer2_region11_code17"
    labels = np.arange(len(images)) % 2
    pipeline = make_pipeline(clone(stack), LogisticRegression(C=100)).fit(images, labels)
    assert pipeline.score(images, labels) > 0.5


def test_a_model_file_gives_the_same_bits(stack, images, tmp_path):
    save_model(stack, tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.transform(images), stack.transform(images))
    assert [layer.get_params()["patch_size"] for layer in loaded.layers] == [5, 3]


@pytest.mark.parametrize(
    "change",
    [
        lambda layer: layer["attributes"].update(channels_=[[0, 1, 2, 3, 99]] * 3),
        lambda layer: layer["attributes"].update(channels_=[[4, 3, 2, 1, 0]] * 3),
        lambda layer: layer["attributes"].update(channels_=[[0, 1, 2]] * 3),
        lambda layer: layer["attributes"].update(channels_=[[]] * 3),
        lambda layer: layer["attributes"].update(channels_=[[0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [0, 1, 2, 3]]),
        lambda layer: layer["attributes"].update(channels_="0"),
        lambda layer: layer["attributes"].update(n_channels_=13),
        lambda layer: layer["params"].update(n_groups=2),
        lambda layer: layer["params"].update(patch_size=4),
        lambda layer: layer["params"].update(stride=2),
        lambda layer: layer["params"].update(pool=0),
        lambda layer: layer["parts"].pop("group1"),
        lambda layer: layer["parts"]["group1"]["params"].update(patch_size=5),
        lambda layer: layer["parts"]["group1"]["params"].update(pooling="sum"),
    ],
)
def test_a_file_whose_layers_do_not_fit_is_refused(stack, tmp_path, change):
    save_model(stack, tmp_path / "model")
    header, arrays = read_container(tmp_path / "model", 3)
    change(header["parts"]["layer2"])
    write_container(tmp_path / "model", header, arrays)
    with pytest.raises(ValueError, match="damaged"):
        load_model(tmp_path / "model")


def test_what_cannot_work_is_refused_with_a_reason(stack, images):
    with pytest.raises(ValueError, match=r"at least one Layer, got \[\]"):
        DeepFeatures([]).fit(images)
    with pytest.raises(ValueError, match=r"at least one Layer, got \['EPLS'\]"):
        DeepFeatures([EPLS(5)]).fit(images)
    with pytest.raises(ValueError, match="there are layers 1 to 2"):
        next(stack.maps(images, layer=3))
    least = stack.smallest_side()
    assert stack.transform(images[:, :least, :least]).shape[0] == len(images)
    with pytest.raises(ValueError, match=f"height and width of at least {least}"):
        stack.transform(images[:, : least - 1, : least - 1])
    with pytest.raises(ValueError, match="channel"):
        stack.transform(images[..., :1])


def test_small_files_are_named_before_anything_is_learned(tmp_path):
    for name, side in (("large", 40), ("small", 12)):
        Image.fromarray(photographs(1, side)[0]).save(tmp_path / f"{name}.png")
    with pytest.raises(ValueError, match=r"small\.png has shape \(12, 12, 3\); .* at least 20"):
        DeepFeatures([quick(5, patch_size=19)]).fit(tmp_path)


def test_patches_of_one_value_are_refused(images):
    with pytest.raises(ValueError, match="patches of one pixel and one channel are 0"):
        DeepFeatures([quick(5, patch_size=1, n_groups=2, group_size=1)]).fit(images)


@pytest.mark.parametrize("side", [12, 28, 32, 64, 96, 200])
def test_the_usual_layers_fit_the_images(side):
    layers = usual_layers(side, side + 10)
    assert smallest_side([layer.geometry for layer in layers], 2) <= side
    assert len(layers) == 2


def test_too_many_layers_for_small_images():
    assert len(usual_layers(8, 8)) == 1
    with pytest.raises(ValueError, match="give at most 1"):
        usual_layers(8, 8, n_layers=2)


class TestWithEncoder:
    def test_highest_layer_encodes_its_maps(self, stack, images):
        """Against the encoder itself, given the patches of one group at all positions by a loop."""
        other = stack.with_encoder(images, "soft_threshold")
        n_first = 4 * 12
        np.testing.assert_array_equal(other.transform(images)[:, :n_first], stack.transform(images)[:, :n_first])
        (pixels,) = stack.maps(images[:1], layer=1)
        part, channels = other.layers_[1].features_[0], other.layers_[1].channels_[0]
        patches = np.lib.stride_tricks.sliding_window_view(pixels[:, :, channels], (3, 3), axis=(0, 1))
        patches = part.prepare_patches(patches.transpose(0, 1, 3, 4, 2).reshape(-1, 9 * len(channels)))
        side = len(pixels) - 2
        codes = part.encoder_.transform(patches).reshape(side, side, -1)
        n_codes, half = codes.shape[2], side / 2  # a position belongs to the region that its middle is in
        first = [k for k in range(side) if k + 0.5 < half + 1e-9]
        expected = np.log1p(codes[np.ix_(first, first)].mean(axis=(0, 1)) / part.typical_code_)
        np.testing.assert_allclose(other.transform(images[:1])[0, n_first : n_first + n_codes], expected, rtol=1e-4)

    def test_what_was_learned_stays_and_is_saved(self, stack, images, tmp_path):
        before = stack.transform(images)
        other = stack.with_encoder(images, SparseCodingEncoder(alpha=0.5))
        np.testing.assert_array_equal(stack.transform(images), before)
        assert [layer.encoder for layer in stack.layers_] == ["natural", "natural"]
        assert other._n_features_out == 4 * (12 + 2 * 3 * 6)  # positive and negative parts
        save_model(other, tmp_path / "model.epls")
        again = load_model(tmp_path / "model.epls")
        np.testing.assert_array_equal(again.transform(images), other.transform(images))
        assert again.layers[1].encoder.alpha == 0.5

    def test_one_layer_is_that_of_image_features(self, images):
        layer = quick(8, patch_size=5)
        one = DeepFeatures([layer], random_state=0).fit(images)
        features = one.layers_[0].features_[0]
        expected = features.with_encoder(images, "triangle").transform(images)
        np.testing.assert_allclose(one.with_encoder(images, "triangle").transform(images), expected, rtol=0.05)

    def test_unknown_encoder(self, stack, images):
        with pytest.raises(ValueError, match="encoder"):
            stack.with_encoder(images, "nonsense")


def test_progress_counts_the_epochs_of_all_groups(images):
    told = []
    layers = [quick(8, patch_size=5, pool=3), quick(4, patch_size=3, n_groups=3, group_size=4)]
    tell_epochs(layers, lambda *stage: told.append(stage))
    DeepFeatures(layers, random_state=0).fit(images)
    assert told[:2] == [("learn layer 1", 1, 2), ("learn layer 1", 2, 2)]
    assert told[2:] == [("learn layer 2", k, 6) for k in range(1, 7)]


class TestCheckpoint:
    layers = (quick(8, patch_size=5, pool=3), quick(4, patch_size=3, n_groups=3, group_size=4))

    def stack(self, folder, **settings):
        kept = None if folder is None else Checkpoint(folder, keep=True)
        return DeepFeatures(list(self.layers), checkpoint=kept, **({"random_state": 0} | settings))

    def test_goes_on_with_the_same_bits(self, images, tmp_path, monkeypatch):
        expected = self.stack(None).fit(images).transform(images)
        learned, epoch = [], Training.epoch

        def interrupted(training, *args):
            if len(learned) == 4:
                raise KeyboardInterrupt
            learned.append(training)
            return epoch(training, *args)

        monkeypatch.setattr(Training, "epoch", interrupted)
        with threadpool_limits(1), pytest.raises(KeyboardInterrupt):
            self.stack(tmp_path).fit(images)
        learned.append("two groups of two epochs were kept")
        np.testing.assert_array_equal(self.stack(tmp_path).fit(images).transform(images), expected)
        assert len(learned) == 4 + 1 + 4  # of four groups, two were left
        Checkpoint(tmp_path).clear()
        assert list(tmp_path.iterdir()) == []

    def test_is_removed_at_the_end(self, images, tmp_path):
        self.stack(None).set_params(checkpoint=Checkpoint(tmp_path)).fit(images)
        assert list(tmp_path.iterdir()) == []

    def test_a_damaged_file_is_made_again(self, images, tmp_path, caplog):
        expected = self.stack(tmp_path).fit(images).transform(images)
        (path,) = (tmp_path / "layer2-group0001").glob("checkpoint-*")
        path.write_bytes(path.read_bytes()[:-100])
        again = self.stack(tmp_path).fit(images)
        assert "is damaged and ignored" in caplog.text
        np.testing.assert_array_equal(again.transform(images), expected)

    def test_another_training_is_refused(self, images, tmp_path):
        self.stack(tmp_path).fit(images)
        for other in (self.stack(tmp_path, random_state=1), clone(self.stack(tmp_path))):
            with pytest.raises(ValueError, match="another training"):
                other.fit(images[:, ::-1] if other.random_state == 0 else images)

    def test_other_learners_cannot_resume(self, images, tmp_path):
        layer = Layer(KMeansTriangle(4), patch_size=3, n_patches=300)
        with pytest.raises(TypeError, match="KMeansTriangle cannot resume from a checkpoint, only EPLS can"):
            DeepFeatures([layer], checkpoint=Checkpoint(tmp_path)).fit(images)


@given(
    rows=st.integers(3, 9),
    columns=st.integers(3, 9),
    size=st.integers(1, 3),
    stride=st.integers(1, 4),
    largest=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_cells_whatever_the_order_of_blocks(rows, columns, size, stride, largest, seed):
    random = np.random.RandomState(seed)
    codes = random.normal(size=(rows, columns, 2)).astype(np.float32)
    cells = Cells((rows, columns), size, stride, largest)
    room = cells.empty(2)
    for block in np.array_split(random.permutation(rows * columns), 3):
        cells.add(codes.reshape(-1, 2)[block], block, room)
    found = cells.pooled(room)
    windows = np.lib.stride_tricks.sliding_window_view(codes, (size, size), axis=(0, 1))[::stride, ::stride]
    expected = windows.max(axis=(3, 4)) if largest else windows.mean(axis=(3, 4))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@given(
    n_channels=st.integers(1, 20), n_groups=st.integers(1, 30), group_size=st.integers(1, 25), seed=st.integers(0, 99)
)
def test_groups_of_channels(n_channels, n_groups, group_size, seed):
    random = np.random.RandomState(seed)
    pixels = random.normal(size=(40, n_channels))
    pixels[:, 0] = 1  # one that never changes
    groups = similar_channels(pixels, n_groups, group_size, random)
    assert len(groups) == n_groups
    for group in groups:
        assert len(group) == min(group_size, n_channels)
        assert np.all(np.diff(group) > 0)
        assert 0 <= group[0] <= group[-1] < n_channels
    if n_groups >= n_channels:
        assert set(np.concatenate(groups).tolist()) == set(range(n_channels))
