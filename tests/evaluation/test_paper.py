"""The paper's experiments: what is loaded, which row of the table it is, and how the files are called."""

import numpy as np
import pytest

from epls.encoders import ENCODERS
from epls.evaluation.experiment import LabelledImages, Settings, Task, new_learner
from epls.evaluation.labelled import load_labelled, load_official
from epls.evaluation.paper import TABLE_2, result_name, row_of, table_name
from epls.learners import LEARNERS


@pytest.fixture
def task():
    train = LabelledImages(np.zeros((6, 20, 20), np.uint8), np.arange(6) % 2)
    return Task(train.images, train, [np.arange(3)] * 10)


@pytest.fixture
def stl10(tmp_path):
    folder = tmp_path / "stl10_binary"
    folder.mkdir()
    np.random.RandomState(0).randint(256, size=6 * 96 * 96 * 3).astype(np.uint8).tofile(folder / "train_X.bin")
    (np.arange(6, dtype=np.uint8) % 2 + 1).tofile(folder / "train_y.bin")
    (folder / "fold_indices.txt").write_text("0 1 2\n" * 10)
    return tmp_path


def test_names_say_what_is_unusual(task):
    assert result_name("stl10", Settings(), task) == "stl10-development-epls-1600-natural-log"
    unusual = Settings(
        learner="omp", learner_settings={"path": "a/b"}, n_components=9, n_patches=7, whiten=True, split_sign=True,
        encoder="sparse_coding", alpha=0.5, stride=3, seed=4, pooling="sum",
    )  # fmt: skip
    shorter = Task(task.train.images, task.train, task.folds[:2], task.train)
    assert result_name("stl10", unusual, shorter) == (
        "stl10-test-omp-9x2-whitened-sparse_coding-sum-alpha0.5-path=a_b-patches7-stride3-seed4-folds2"
    )
    one = Task(task.train.images, task.train, task.folds[:1])
    assert result_name("cifar10", Settings(patch_size=6), one) == "cifar10-development-epls-1600-natural-log"
    assert result_name("cifar10", Settings(), one).endswith("-log-patch_size10")
    assert table_name(Settings(), task) == "stl10-development-table-log"
    assert table_name(Settings(n_components=8, grid=3), shorter) == "stl10-test-table-log-n_components8-grid3-folds2"


def test_rows_of_the_table():
    for row in TABLE_2:
        settings = Settings(learner=row.learner, encoder=row.encoder, split_sign=row.split_sign, whiten=row.whiten)
        assert row_of("stl10", settings) is row
    assert row_of("cifar10", Settings()) is None
    assert row_of("stl10", Settings(n_components=100)) is None
    assert row_of("stl10", Settings(patch_size=8)) is None
    assert row_of("stl10", Settings(learner_settings={"max_iter": 3})) is None


def test_missing_files_are_remarked(stl10):
    task = load_official("stl10", stl10, 2)
    assert (task.protocol, len(task.folds)) == ("development", 2)
    assert task.unlabelled is task.train.images
    assert [remark.split(":")[0] for remark in task.remarks] == [
        "there is no unlabeled_X.bin",
        "there is no test_X.bin",
    ]
    assert len(load_official("stl10", stl10, 2, protocol="development").remarks) == 1
    with pytest.raises(ValueError, match=r"needs test_X\.bin and test_y\.bin"):
        load_official("stl10", stl10, 2, protocol="test")
    assert load_labelled(stl10, 3, seed=0).remarks == ()
    assert len(load_labelled(stl10, 3, seed=0).folds) == 3


def test_images_that_are_too_small(task):
    task.check_size(Settings(patch_size=10, stride=5))
    with pytest.raises(ValueError, match=r"images of \(20, 20\) pixels are too small for patches of 21"):
        task.check_size(Settings(patch_size=21))


def test_learners_declare_what_experiments_need():
    assert {name for name in LEARNERS if LEARNERS[name].usual_patches == 400_000} == {"epls", "kmeans", "omp"}
    assert {name for name in LEARNERS if LEARNERS[name].whitens} == {"ica", "kmeans", "omp", "random_patches"}
    assert all(LEARNERS[name].own_encoder in ENCODERS for name in LEARNERS)
    assert Settings(learner="rica").n_patches == 100_000
    assert new_learner(Settings(learner="ica")).n_components is None  # as many as there are features
    assert new_learner(Settings(learner="rica", n_components=7, seed=3)).get_params()["random_state"] == 3
