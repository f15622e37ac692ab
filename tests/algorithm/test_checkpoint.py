"""Trainings that are stopped go on as if they had not been."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from stopped_training import StopAfter, StopError

from epls import EPLS, OMP, PAPER, ImageFeatures, TrainingSettings
from epls.algorithm.activations import LOGISTIC
from epls.algorithm.checkpoint import Checkpoint
from epls.callbacks import OnEpoch
from epls.data.blocks import array_blocks, joined
from epls.utils.container import DamagedError, VersionError, read_container, write_container


def stopped(model, X, folder, n_batches):
    with pytest.raises(StopError):
        model.set_callbacks(StopAfter(folder, n_batches)).fit(X)


def files_in(folder):
    """All but the lock, which stays."""
    return sorted(path for path in folder.iterdir() if path.name != ".lock")


SETTINGS = [
    {},
    {"batch_size": 37},
    {"settings": replace(PAPER, tol=None)},
    {"batch_size": 37, "random_state": None},
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("n_batches", [1, 7, 10, 23])
def test_the_same_bits(blobs, settings, n_batches, tmp_path):
    settings = {"max_iter": 4, "random_state": 0, "batch_size": 40} | settings
    model = EPLS(8, **settings)
    stopped(model, blobs, tmp_path, n_batches)
    assert 1 <= len(files_in(tmp_path)) <= 2
    if settings["random_state"] is None:
        # The checkpoint has the random numbers: two that go on from it end alike.
        copies = [tmp_path / "a", tmp_path / "b"]
        for copy in copies:
            copy.mkdir()
            for file in tmp_path.glob("checkpoint-*"):
                (copy / file.name).write_bytes(file.read_bytes())
        first, second = (EPLS(8, **settings).set_callbacks(Checkpoint(copy)).fit(blobs) for copy in copies)
    else:
        first = EPLS(8, **settings).fit(blobs)
        second = EPLS(8, **settings).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
        assert files_in(tmp_path) == []  # it is done
    assert_array_equal(first.components_, second.components_)
    assert_array_equal(first.intercept_, second.intercept_)
    assert first.loss_curve_ == second.loss_curve_
    assert [r.win_spread for r in first.epoch_reports_] == [r.win_spread for r in second.epoch_reports_]


def test_blocks_and_stops_again_and_again(blobs, tmp_path):
    blocks = array_blocks(blobs.astype(np.float32))
    whole = EPLS(8, max_iter=3, random_state=1).fit(blocks)
    model = EPLS(8, max_iter=3, random_state=1)
    for _ in range(4):
        with pytest.raises(StopError):
            model.set_callbacks(StopAfter(tmp_path, 1)).fit(blocks)
    model.set_callbacks(Checkpoint(tmp_path)).fit(blocks)
    assert_array_equal(model.components_, whole.components_)


def test_callbacks_are_told_of_all_epochs(blobs, tmp_path):
    stopped(EPLS(8, max_iter=4, batch_size=40, random_state=0), blobs, tmp_path, 23)  # ten batches an epoch
    told = []
    model = EPLS(8, max_iter=4, batch_size=40, random_state=0)
    model.set_callbacks(Checkpoint(tmp_path), OnEpoch(lambda done, total: told.append((done, total)))).fit(blobs)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty", "text"])
def test_a_damaged_checkpoint_is_passed_over(blobs, damage, tmp_path, caplog):
    model = EPLS(8, max_iter=4, batch_size=40, random_state=0)
    whole = EPLS(8, max_iter=4, batch_size=40, random_state=0).fit(blobs)
    stopped(model, blobs, tmp_path, 13)
    older, newest = files_in(tmp_path)
    content = bytearray(newest.read_bytes())
    content[-100] ^= 1
    damaged = {"cut": content[:-7], "flipped": content, "empty": b"", "text": b"no checkpoint"}[damage]
    newest.write_bytes(damaged)
    model.set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    assert_array_equal(model.components_, whole.components_)
    assert newest.name in caplog.text
    assert older.name not in caplog.text


def test_checkpoints_of_another_training_are_refused(blobs, tmp_path):
    stopped(EPLS(8, max_iter=4, random_state=0), blobs, tmp_path, 2)
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for other, X, what in (
        (EPLS(9, max_iter=4, random_state=0), blobs, "n_components"),
        (EPLS(8, max_iter=4, random_state=0), blobs[:-1], "number of samples"),
        (EPLS(8, max_iter=4, random_state=0), blobs + np.arange(6), "mean of the data"),
        (EPLS(8, max_iter=4, random_state=1), blobs, "random_state"),
        (EPLS(8, max_iter=4, random_state=0), blobs[::-1], "some rows of the data"),
    ):
        with pytest.raises(ValueError, match=f"another training, with different .*{what}"):
            other.set_callbacks(Checkpoint(tmp_path)).fit(X)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    with pytest.raises(ValueError, match="give a number"):
        EPLS(8, random_state=np.random.RandomState(0)).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    with pytest.raises(ValueError, match="seconds=-1"):
        Checkpoint(tmp_path, seconds=-1)


def test_a_full_disk_does_not_end_the_training(blobs, tmp_path, full_disk, caplog):
    model = EPLS(8, max_iter=2, random_state=0)
    expected = EPLS(8, max_iter=2, random_state=0).fit(blobs)
    model.set_callbacks(Checkpoint(tmp_path, seconds=0)).fit(blobs)
    assert_array_equal(model.components_, expected.components_)
    assert "no checkpoint was written" in caplog.text
    assert files_in(tmp_path) == []


def test_what_a_killed_process_left_half_written_is_removed(blobs, tmp_path):
    (tmp_path / ".checkpoint-00000007.safetensors.abc").write_bytes(b"half")
    EPLS(8, max_iter=2, random_state=0).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    assert files_in(tmp_path) == []


def test_new_ones_stay_where_all_before_are_damaged(blobs, tmp_path, caplog):
    model = EPLS(8, max_iter=4, random_state=0, batch_size=40)
    stopped(model, blobs, tmp_path, 9)
    damaged = files_in(tmp_path)
    for path in damaged:
        path.write_bytes(b"xx")
    stopped(model, blobs, tmp_path, 3)
    assert len(files_in(tmp_path)) == 2
    assert not set(damaged) & set(files_in(tmp_path))
    assert "is damaged and ignored" in caplog.text


@pytest.mark.parametrize("seed", range(3))
def test_a_byte_anywhere_is_noticed(blobs, tmp_path, seed):
    model = EPLS(8, max_iter=4, random_state=0, batch_size=40)
    stopped(model, blobs, tmp_path, 9)
    random = np.random.RandomState(seed)
    for path in files_in(tmp_path):
        content = path.read_bytes()
        n_header = int.from_bytes(content[:8], "little")
        places = [*random.randint(8, 8 + n_header, size=60), *random.randint(8 + n_header, len(content), size=20)]
        for place in places:
            flipped = bytearray(content)
            flipped[place] ^= 1
            if bytes(flipped).decode("latin1").split() == content.decode("latin1").split():
                continue  # a space of the header became another
            path.write_bytes(bytes(flipped))
            with pytest.raises((DamagedError, VersionError)):
                read_container(path, 5)
        path.write_bytes(content)
        read_container(path, 5)


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": np.int64(8), "batch_size": np.int64(40), "max_iter": np.int64(4), "tol": np.float64(1e-9)},
        {"activation": LOGISTIC},
        {"activation": replace(LOGISTIC, name="mine")},
    ],
)
def test_settings_of_any_type(blobs, tmp_path, settings):
    """Text of them that holds an address, or that JSON does not know, would end a resumed training."""
    model = EPLS(**({"n_components": 8, "max_iter": 4, "batch_size": 40, "random_state": 0} | settings))
    expected = clone(model).fit(blobs)
    stopped(model, blobs, tmp_path, 7)
    header = files_in(tmp_path)[0].read_bytes()
    assert b" at 0x" not in header
    model.set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    assert_array_equal(model.components_, expected.components_)


def test_the_global_random_numbers_are_left_alone(blobs, tmp_path):
    model = EPLS(8, max_iter=4, batch_size=40)
    stopped(model, blobs, tmp_path, 7)
    np.random.seed(5)  # noqa: NPY002
    EPLS(8, max_iter=4, batch_size=40).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    after = np.random.randint(2**31, size=3)  # noqa: NPY002
    random = np.random.RandomState(5)
    random.randint(2**31 - 1)
    assert after.tolist() == random.randint(2**31, size=3).tolist()


def test_blocks_and_images_go_on_too(blobs, tmp_path):
    blocks = joined([array_blocks(blobs[:150]), array_blocks(blobs[150:])])
    model = EPLS(8, max_iter=4, batch_size=40, random_state=0)
    expected = clone(model).fit(blocks)
    stopped(model, blocks, tmp_path / "a", 13)
    model.set_callbacks(Checkpoint(tmp_path / "a")).fit(blocks)
    assert_array_equal(model.components_, expected.components_)

    images = np.random.RandomState(0).randint(256, size=(6, 12, 12)).astype(np.uint8)
    settings = {"patch_size": 4, "n_patches": 300, "random_state": 0}
    expected = ImageFeatures(EPLS(5, max_iter=4), **settings).fit(images)
    with pytest.raises(StopError):
        ImageFeatures(EPLS(5, max_iter=4).set_callbacks(StopAfter(tmp_path / "b", 2)), **settings).fit(images)
    learner = EPLS(5, max_iter=4).set_callbacks(Checkpoint(tmp_path / "b", keep=True))
    resumed = ImageFeatures(learner, **settings).fit(images)
    assert_array_equal(resumed.estimator_.components_, expected.estimator_.components_)
    assert len(files_in(tmp_path / "b")) == 2  # kept, as it was told


def test_a_learner_that_cannot_go_on_says_so(blobs, tmp_path):
    with pytest.raises(TypeError, match="OMP cannot resume from a checkpoint"):
        OMP(4).set_callbacks(Checkpoint(tmp_path)).fit(blobs)


def test_a_checkpoint_of_another_version_is_refused(blobs, tmp_path):
    """Not ignored like a damaged one: the training would begin again without a word."""
    path = tmp_path / "checkpoint-00000004.safetensors"
    write_container(path, {"format": 2, "epls": "0.2.0"}, {})
    written = path.read_bytes()
    with pytest.raises(ValueError, match=r"by another version of epls .*format 2.*empty the folder"):
        EPLS(3, max_iter=3, random_state=0).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    assert path.read_bytes() == written


@pytest.mark.parametrize("as_blocks", [lambda X: joined([array_blocks(X[:150]), array_blocks(X[150:])])])
def test_rows_of_blocks_are_told_apart(blobs, tmp_path, as_blocks):
    """Columns that are exchanged in two rows leave mean and scale as they are."""
    stopped(EPLS(8, max_iter=4, random_state=0, batch_size=40), as_blocks(blobs), tmp_path, 2)
    with pytest.raises(ValueError, match="some rows of the data"):
        EPLS(8, max_iter=4, random_state=0, batch_size=40).set_callbacks(Checkpoint(tmp_path)).fit(
            as_blocks(blobs[::-1].copy())
        )


def test_one_training_at_a_time(blobs, tmp_path):
    """Within a process; test_checkpoint_kills.py has two processes."""
    errors = []

    def second(done, total):
        other = EPLS(9, max_iter=2, random_state=0).set_callbacks(Checkpoint(tmp_path, seconds=0))
        with pytest.raises(RuntimeError, match=f"another training is using {tmp_path}: .* folder of its own") as caught:
            other.fit(blobs)
        errors.append(caught.value)

    model = EPLS(8, max_iter=2, batch_size=40, random_state=0)
    expected = clone(model).fit(blobs)
    model.set_callbacks(Checkpoint(tmp_path, seconds=0), OnEpoch(second)).fit(blobs)
    assert len(errors) == 2
    assert_array_equal(model.components_, expected.components_)
    EPLS(9, max_iter=2, random_state=0).set_callbacks(Checkpoint(tmp_path)).fit(blobs)  # it is free again


def test_a_failed_training_frees_the_folder(blobs, tmp_path):
    model = EPLS(8, max_iter=4, random_state=0)
    stopped(model, blobs, tmp_path, 2)
    with pytest.raises(ValueError, match="another training"):
        EPLS(9, max_iter=4, random_state=0).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
    model.set_callbacks(Checkpoint(tmp_path)).fit(blobs)


def test_a_checkpoint_travels_to_other_processes(tmp_path):
    """With the estimator that it is a callback of, as joblib sends it."""
    checkpoint = Checkpoint(tmp_path)
    with checkpoint.lock:
        pass
    assert pickle.loads(pickle.dumps(checkpoint)).folder == tmp_path


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        ("auction", "target.counts", np.array([10**6, -(10**6), 0, 0, 0, 0, 0, 0])),
        ("literal", "target.inhibitor", np.full(8, np.inf)),
        ("auction", "weights", np.full((8, 7), np.nan)),
    ],
)
def test_a_crafted_state_is_refused_before_a_kernel_sees_it(blobs, tmp_path, target, name, value):
    """With a checksum that is right. Counts like these would let the auction write past its arrays."""
    settings = {"settings": TrainingSettings(target=target), "max_iter": 3, "batch_size": 40, "random_state": 0}
    stopped(EPLS(8, **settings), blobs, tmp_path, 3)
    for path in tmp_path.glob("checkpoint-*"):
        header, arrays = read_container(path, 5)
        arrays[f"training.{name}"] = value.astype(arrays[f"training.{name}"].dtype)
        write_container(path, header, arrays)
    with pytest.raises(ValueError, match=r"finite|counts are damaged"):
        EPLS(8, **settings).set_callbacks(Checkpoint(tmp_path)).fit(blobs)


@pytest.mark.parametrize(
    "change",
    [
        {"n_batches": -5},
        {"n_batches": "many"},
        {"random": ["MT19937", 10**9, 0, 0.0]},
        {"random": []},
        {"n_batches": 10**30},
        {"error": None},
        {"error": 10**400},
        {"reports": [{"epoch": 1}]},
        {"reports": 7},
    ],
)
def test_a_crafted_progress_is_refused(blobs, tmp_path, change):
    settings = {"max_iter": 3, "batch_size": 40, "random_state": 0}
    stopped(EPLS(8, **settings), blobs, tmp_path, 3)
    for path in tmp_path.glob("checkpoint-*"):
        header, arrays = read_container(path, 5)
        header["progress"] |= change
        write_container(path, header, arrays)
    with pytest.raises(ValueError, match="is not a checkpoint that epls wrote"):
        EPLS(8, **settings).set_callbacks(Checkpoint(tmp_path)).fit(blobs)
