"""The chart of seconds against accuracy, and the estimate of how long data will take."""

import json
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import frontier
import how_long
from frontier_chart import LASSO, STACK, draw, label_points, lowest_shown, pareto_front, print_table, seconds_of

from epls.encoders import ENCODERS
from epls.learners import LEARNERS


def made_up_results(n_rows=30, seed=0):
    """Rows as in the file, with points that are near each other."""
    random = np.random.RandomState(seed)
    names, codes = sorted(LEARNERS), ["natural", "triangle", "soft_threshold", "sparse_coding"]
    rows = [
        {
            "data set": "made up",
            "learner": names[k % len(names)],
            "encoder": codes[k % 4],
            "library": "epls",
            "whitened": k % 2 == 0,
            "learn seconds": float(10 ** random.uniform(0.3, 1.5)),
            "encode seconds": float(random.uniform(1, 9)),
            "accuracy": float(random.uniform(45, 58)),
            "std": 0.5,
        }
        for k in range(n_rows)
    ]
    facts = frontier.made_up_ground("made up").facts()
    return {"machine": {}, "grounds": {"made up": facts}, "rows": rows}


def test_all_learners_and_encoders_are_there():
    rows = frontier.wanted_rows()
    assert {row.learner for row in rows if row.library == "epls"} == {*LEARNERS, STACK}
    assert {row.encoder for row in rows if row.library == "epls"} == set(ENCODERS)
    others = {"PCA", "FastICA", "MiniBatchKMeans", "MiniBatchDictionaryLearning", "SPAMS"}
    assert {row.learner for row in rows if row.library != "epls"} == others
    assert len(rows) == len(set(rows))


@pytest.mark.parametrize("seed", range(5))
def test_the_front_is_what_nothing_beats(seed):
    rows = made_up_results(seed=seed)["rows"]
    rows += [dict(rows[0])]  # a row that is equal in both is not on the front twice

    def is_beaten(one):
        return any(
            seconds_of(r) <= seconds_of(one)
            and r["accuracy"] >= one["accuracy"]
            and (seconds_of(r), r["accuracy"]) != (seconds_of(one), one["accuracy"])
            for r in rows
        )

    best = {(seconds_of(r), r["accuracy"]) for r in rows if not is_beaten(r)}
    front = [(seconds_of(r), r["accuracy"]) for r in pareto_front(rows)]
    assert front == sorted(best)


@pytest.mark.parametrize("seed", range(3))
def test_no_name_covers_another_or_a_point(seed):
    plt = pytest.importorskip("matplotlib.pyplot")
    rows = made_up_results(seed=seed)["rows"]
    figure, panel = plt.subplots(figsize=(7, 7), dpi=100)
    panel.plot([seconds_of(r) for r in rows], [r["accuracy"] for r in rows], "o")
    panel.set_xscale("log")
    figure.draw_without_rendering()
    label_points(panel, rows)
    boxes = [t.get_window_extent() for t in panel.texts if t.get_text()]
    assert len(boxes) == len(rows)
    for number, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[:number])
    points = panel.transData.transform([(seconds_of(r), r["accuracy"]) for r in rows])
    assert not any(box.contains(*point) for box in boxes for point in points)
    plt.close(figure)


def test_chart_and_table(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    results = made_up_results(12)
    results["rows"][3] |= {"accuracy": 20.0}  # far below the others
    results["rows"][4] |= {"library": "scikit-learn", "encoder": LASSO, "images encoded by it": 2}
    draw(results, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_bytes().startswith(b"\x89PNG")
    print_table(results)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    assert len(lines) == 2 + 12
    assert sum(line.startswith("| **") for line in lines) == len(pareto_front(results["rows"]))
    assert "about" in next(line for line in lines if "scikit-learn" in line)


def rows_of(text):
    return [json.loads(line)["learner"] for line in text.splitlines() if line.startswith("{")]


def test_what_is_done_is_not_done_again(tmp_path, monkeypatch, capsys):
    path, ground = tmp_path / "frontier.json", frontier.made_up_ground("made up")
    results, rows = {"grounds": {}, "rows": []}, [frontier.Row("raw"), frontier.Row("epls"), frontier.Row("SPAMS")]

    def measured(row, ground, learned):
        if row.learner == "SPAMS":
            raise ImportError("no module spams")
        return {"accuracy": 50.0}

    monkeypatch.setattr(frontier, "measured", measured)
    frontier.run([ground], rows[:1], results, path)
    frontier.run([ground], rows, json.loads(path.read_text()), path)
    told = capsys.readouterr().out
    assert rows_of(told) == ["raw", "epls"]
    assert "SPAMS is left out: no module spams" in told
    assert [row["learner"] for row in json.loads(path.read_text())["rows"]] == ["raw", "epls"]
    with pytest.raises(SystemExit, match="other sizes"):
        frontier.run([replace(ground, stride=5)], rows, json.loads(path.read_text()), path)


def test_a_learner_learns_once_for_each_data_set():
    rows = [frontier.Row("epls"), frontier.Row("raw"), frontier.Row("epls", "triangle")]
    grounds = [frontier.made_up_ground(name) for name in ("one", "two")]
    order = [(ground.name, row.learner, row.encoder) for ground, row in frontier.by_learner(grounds, rows)]
    expected = [(name, "epls", code) for name in ("one", "two") for code in ("natural", "triangle")]
    assert order == [*expected, ("one", "raw", "natural"), ("two", "raw", "natural")]


@pytest.mark.filterwarnings("ignore:Objective did not converge")  # scikit-learn's, in float32
def test_codes_of_the_lasso_are_those_of_the_other_library():
    """What is too slow for all images gets its features from the library's encoder."""
    row = next(row for row in frontier.wanted_rows() if row.slow)
    found = frontier.measured(row, frontier.made_up_ground("made up"), {})
    assert found["features apart"] < 0.01
    assert found["features"] == 4 * 2 * 8
    assert found["images encoded by it"] == 40


def test_cifar10_is_judged_on_the_fifth_batch(tmp_path):
    """The test set is not touched, and nothing is learned from what is judged on."""
    folder, n_batch = tmp_path / "cifar-10-batches-bin", 16
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{k}.bin" for k in range(1, 6)), "test_batch.bin"]):
        records = np.full((n_batch, 3073), 10 * number, np.uint8)
        records[:, 0] = np.arange(n_batch) % 10
        records.tofile(folder / name)
    ground = frontier.load_ground("CIFAR-10", tmp_path)
    (train,) = ground.folds
    test = np.setdiff1d(np.arange(len(ground.labels)), train)
    assert sorted(ground.images[train, 0, 0, 0]) == [0, 0, 10, 10, 20, 20, 30, 30]
    assert (ground.images[test] == 40).all()
    assert len(test) == n_batch
    assert set(np.unique(ground.unlabelled)) == {0, 10, 20, 30}


def test_how_long_is_a_product():
    rate = {"learn": 1e-3, "natural": 2e-3, "sparse_coding": 1.0}
    *_, line = how_long.table({400: rate}, [10], [20], 10, 2)  # 6 x 6 positions
    n_patches, n_epochs = how_long.learned_from(400)
    assert line == f"| 10 | 20 x 20 | 400 | {how_long.duration(n_patches * n_epochs / 1000)} | 0.72 s | 6 min |"


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0.123, "0.12 s"),
        (99, "99 s"),
        (119, "119 s"),
        (120, "2 min"),
        (7000, "117 min"),
        (7200, "2 h"),
        (864000, "10 days"),
    ],
)
def test_durations(seconds, told):
    assert how_long.duration(seconds) == told


def test_rows_far_below_do_not_squeeze_the_others():
    rows = [{"accuracy": accuracy} for accuracy in [30, 32, *range(50, 60)]]
    assert lowest_shown(rows) == 48.5
    assert lowest_shown(rows[2:]) == 49.5


def test_the_page_has_the_figures_of_its_file(capsys):
    docs = Path(__file__).parents[1] / "docs" / "lab"
    print_table(json.loads((docs / "frontier.json").read_text()))
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("|")]
    page = (docs / "frontier.md").read_text().splitlines()
    assert len(rows) > 40
    assert [row for row in rows if row not in page] == []
