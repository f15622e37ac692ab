"""The paper's experiments: what is loaded, which row of the table it is, and how the files are called."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from epls import PAPER, TrainingSettings
from epls.encoders import ENCODERS
from epls.evaluation.cache import Cache
from epls.learners import LEARNERS
from epls.paper.experiment import Experiment, new_learner
from epls.paper.table import (
    PAPER_SETTINGS,
    TABLE_2,
    differences,
    paper_beside,
    result_name,
    row_for,
    rows_to_run,
    run_table,
)
from epls.paper.task import LabelledImages, Task, load_task


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
    assert result_name("stl10", Experiment(), task) == "stl10-development-from_training-epls-natural-log"
    unusual = Experiment(
        learner="omp", learner_settings={"path": "a/b"}, n_components=9, n_patches=7, whiten=True, split_sign=True,
        encoder="sparse_coding", alpha=0.5, stride=3, seed=4, pooling="sum",
    )  # fmt: skip
    shorter = Task(task.train.images, task.train, task.folds[:2], task.train)
    assert result_name("stl10", unusual, shorter) == (
        "stl10-test-from_training-omp-sparse_coding-sum-path=a_b-n_components=9-n_patches=7-whiten=True-seed=4-alpha=0.5-"
        "split_sign=True-stride=3-folds=2"
    )
    one = Task(task.train.images, task.train, task.folds[:1])
    assert result_name("cifar10", Experiment(patch_size=6), one) == (
        "cifar10-development-from_training-epls-natural-log"
    )
    assert result_name("cifar10", Experiment(), one).endswith("-log-patch_size=10")
    assert result_name("stl10", PAPER_SETTINGS, task).endswith("-epls-natural-sum-paper")
    assert result_name("stl10", Experiment(), task, ["sum_log"]) == "stl10-development-from_training-table-sum_log"
    table = Experiment(n_components=8, n_patches=7, grid=3, classifier="least_squares")
    assert result_name("stl10", table, shorter, ["log", "n_patches=7"]) == (
        "stl10-test-from_training-table-log-n_patches=7-n_components=8-grid=3-classifier=least_squares-folds=2"
    )


def test_names_say_where_patches_came_from(task):
    """So that a run with unlabelled images does not replace the files of one without."""
    with_unlabelled = replace(task, unlabelled=np.ones((9, 20, 20), np.uint8), source="unlabelled")
    names = {result_name("stl10", Experiment(), some) for some in (task, with_unlabelled)}
    names |= {result_name("stl10", Experiment(), some, ["sum"]) for some in (task, with_unlabelled)}
    assert len(names) == 4


def test_where_patches_come_from(task):
    assert task.origin() == {"from": "training", "images": 6, "tested_on_some": True}
    official = replace(task, unlabelled=np.ones((9, 20, 20), np.uint8), source="unlabelled")
    assert official.origin() == {"from": "unlabelled", "images": 9, "tested_on_some": False}
    assert replace(task, test=task.train).origin()["tested_on_some"] is False
    # As with CIFAR-10: patches of the first images, tests on the last.
    held_out = Task(task.train.images[:4], task.train, [np.arange(4)])
    assert held_out.origin() == {"from": "training", "images": 4, "tested_on_some": False}


def test_the_papers_figure_stands_beside_all_runs_of_its_learners(task):
    for row in TABLE_2:
        settings = Experiment(learner=row.learner, encoder=row.encoder, split_sign=row.split_sign, whiten=row.whiten)
        assert row_for(row.learner, row.encoder, row.split_sign, row.whiten) is row
        beside = paper_beside("stl10", settings, task)
        assert (beside["method"], beside["accuracy"], beside["std"]) == (row.method, row.accuracy, row.std)
    for settings in (
        Experiment(n_components=100),
        Experiment(patch_size=8),
        Experiment(learner_settings={"max_iter": 3}),
    ):
        assert paper_beside("stl10", settings, task)["accuracy"] == 56.6
    assert paper_beside("cifar10", Experiment(), task) is None
    assert paper_beside("stl10", Experiment(encoder="triangle"), task) is None


def test_differences_from_the_paper(task):
    as_in_the_paper = replace(
        task, unlabelled=np.ones((9, 20, 20), np.uint8), source="unlabelled", test=task.train, folds=task.folds
    )
    printed, untold = differences(PAPER_SETTINGS, as_in_the_paper)
    assert printed.startswith("epls as printed, except that weights and biases have a learning rate each, samples")
    assert untold.startswith("the number of patches (400,000)")
    # One change at a time adds one line.
    for change, line in {
        ("n_components", 100): "100 units, not 1600",
        ("patch_size", 8): "patches of 8 pixels a side, not 10",
        ("stride", 2): "stride 2, not 1",
        ("grid", 3): "pooled over 3 x 3 regions, not 2 x 2",
        ("pooling", "log"): "log pooling, not sums",
    }.items():
        assert differences(replace(PAPER_SETTINGS, **dict([change])), as_in_the_paper) == [line, printed, untold]
    images = {
        "tested on the training images outside of each fold, not on the test set": {"test": None},
        "2 of the 10 folds": {"folds": task.folds[:2]},
        "patches from the 6 training images, not from unlabelled ones": {
            "source": "training", "unlabelled": task.unlabelled,
        },
    }  # fmt: skip
    for line, change in images.items():
        assert differences(PAPER_SETTINGS, replace(as_in_the_paper, **change)) == [line, printed, untold]
    assert "some of which are also used for testing" in differences(PAPER_SETTINGS, task)[1]


def test_differences_of_the_learner(task):
    def about_learner(**settings):
        return differences(Experiment(pooling="sum", **settings), task)[-2]

    ours = about_learner()
    for name, value in asdict(PAPER).items():
        told = f"{name}={getattr(TrainingSettings(), name)} ({value})" in ours
        # These follow from sizes, and are the paper's for its 1600 units of 300 features.
        assert told == (name not in ("batch_size", "max_norm")), name
    assert "max_norm=" not in ours
    assert "batch_size=300 (n_components)" in about_learner(n_components=100)
    assert "batch_size=800" not in about_learner(n_components=800)
    assert "7 units, not 1600" in differences(Experiment(learner_settings={"n_components": 7}), task)
    one_apart = about_learner(learner_settings={"settings": replace(PAPER, loss="matching")})
    assert one_apart == "epls with loss=matching (squared); in brackets, the paper's"
    tanh = about_learner(learner_settings={"settings": PAPER, "activation": "tanh"})
    assert tanh.startswith("epls with activation=tanh")
    assert "reconstruction_penalty=1.5" in about_learner(
        learner="rica", learner_settings={"reconstruction_penalty": 1.5}
    )
    assert "the default settings" in about_learner(learner="omp")
    for learner in ("raw", "ica"):  # which have no number of units to choose
        assert not any("units" in line for line in differences(Experiment(learner=learner, n_components=8), task))
    penalty = Experiment(encoder="sparse_coding", split_sign=True, alpha=3.0)
    assert "penalty 3, not one of 0.5, 0.75, 1, 1.25, 1.5" in differences(penalty, task)
    assert not any("penalty" in line for line in differences(replace(penalty, alpha=1.25), task))


def test_rows_to_run():
    rows = rows_to_run()
    assert len(rows) == 13
    assert [row for row in rows if row.settings != {"settings": PAPER}] == list(TABLE_2)
    (printed,) = (row for row in rows if row.settings == {"settings": PAPER})
    assert (printed.learner, printed.encoder, printed.accuracy) == ("epls", "natural", 56.6)
    assert printed.name(100) == "EPLS as printed, 100, natural"
    assert TABLE_2[3].name(25) == "OMP-1, whitening, 25x2, natural"
    assert rows[0].settings == {"reconstruction_penalty": 1.5}
    for row in rows:  # settings are of the learner's
        new_learner(Experiment(learner=row.learner, learner_settings=row.settings))


def test_a_table_makes_codes_once_for_all_poolings(monkeypatch, task):
    """The first way of pooling chooses the penalty, and the others take it: else codes would be made twice."""
    asked = []

    def run(settings, task, cache, progress):
        asked.append(settings)
        chosen = 1.25 if settings.encoder == "sparse_coding" and settings.alpha is None else settings.alpha
        return {"settings": {"alpha": chosen}}

    monkeypatch.setattr("epls.paper.table._run", run)
    table = run_table(Experiment(n_components=7, stride=3), None, ["sum", "log"], task, None, lambda *told: None)
    assert len(asked) == 26
    for first, second in zip(asked[::2], asked[1::2], strict=True):
        assert (first.pooling, second.pooling) == ("sum", "log")
        assert first.alpha is None
        assert second == replace(first, pooling="log", alpha=1.25 if first.encoder == "sparse_coding" else None)
    assert [settings.n_patches for settings in asked[::2]] == [
        LEARNERS[settings.learner].usual_patches for settings in asked[::2]
    ]
    assert all((settings.n_components, settings.stride) == (7, 3) for settings in asked)
    assert table["patches"]["from"] == "training"
    assert [row["name"] for row in table["rows"]][-2:] == ["EPLS, 7x2, natural", "EPLS, 7x2, SC"]
    assert list(table["rows"][0]["runs"]) == ["sum", "log"]


def test_missing_files_are_remarked(stl10):
    task = load_task("stl10", stl10, 2)
    assert (task.protocol, len(task.folds)) == ("development", 2)
    assert task.unlabelled is task.train.images
    assert task.source == "training"
    assert [remark.split(":")[0] for remark in task.remarks] == [
        "unlabeled_X.bin is missing",
        "test_X.bin is missing",
    ]
    assert len(load_task("stl10", stl10, 2, protocol="development").remarks) == 1
    with pytest.raises(ValueError, match=r"needs test_X\.bin and test_y\.bin"):
        load_task("stl10", stl10, 2, protocol="test")


def test_unlabelled_images_are_told_from_training_images(stl10):
    folder = stl10 / "stl10_binary"
    (folder / "unlabeled_X.bin").write_bytes((folder / "train_X.bin").read_bytes()[: 4 * 96 * 96 * 3])
    task = load_task("stl10", stl10, 2)
    assert task.origin() == {"from": "unlabelled", "images": 4, "tested_on_some": False}


def test_learners_declare_what_experiments_need():
    assert {name for name in LEARNERS if LEARNERS[name].usual_patches == 400_000} == {
        "epls",
        "kmeans",
        "omp",
        "prototypes",
    }
    assert {name for name in LEARNERS if LEARNERS[name].whitens} == {
        "directions",
        "ica",
        "kmeans",
        "omp",
        "prototypes",
        "random_patches",
    }
    assert all(LEARNERS[name].own_encoder in ENCODERS for name in LEARNERS)
    assert Experiment(learner="rica").n_patches == 100_000
    assert new_learner(Experiment(learner="ica")).n_components is None  # as many as there are features
    assert new_learner(Experiment(learner="rica", n_components=7, seed=3)).get_params()["random_state"] == 3


def test_a_row_that_fails_stops_no_other(tmp_path, monkeypatch):
    images = np.random.default_rng(0).integers(256, size=(20, 12, 12), dtype=np.uint8)
    task = Task(images, LabelledImages(images, np.arange(20) % 2), [np.arange(10)])
    good, bad = TABLE_2[5], replace(TABLE_2[1], settings={"max_iter": -1})
    monkeypatch.setattr("epls.paper.table.rows_to_run", lambda: [bad, good])
    told = []
    settings = Experiment(n_components=5, n_patches=50, patch_size=4, stride=4)
    table = run_table(settings, 50, ["sum"], task, Cache(tmp_path), lambda *step: told.append(step[0]))
    failed, done = (row["runs"]["sum"] for row in table["rows"])
    assert "max_iter" in failed["failed"]
    assert failed["accuracy"] is None
    assert done["failed"] is None
    assert 0 <= done["accuracy"] <= 100
    assert done["training"]["n_units"] == 16
    assert "2/2 raw, natural: encode training images" in told
