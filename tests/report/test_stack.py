"""What stands in a page about several layers, against what the library says of the model."""

import base64
import io
import json
import re

import numpy as np
import pytest
from dense_codes import code_maps
from numpy.testing import assert_allclose, assert_array_equal
from PIL import Image
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from epls import EPLS, DeepFeatures, Layer, NaturalEncoder
from epls.report import model_page

SEES, STEPS = [5, 10, 20], [1, 2, 4]  # a cell of the first map sees 5 + 1 pixels, three of these 6 + 2 * 2, and so on


def content(page):
    return json.loads(re.search(r'<script type="application/json" id="content">(.*?)</script>', page, re.S)[1])


def mosaic(layer, unit):
    """The parts of a unit, side by side in its tile."""
    sheet = layer["tiles"]
    pixels = np.asarray(Image.open(io.BytesIO(base64.b64decode(sheet["url"].split(",")[1]))).convert("RGB"))
    height, width = pixels.shape[0] // sheet["rows"], pixels.shape[1] // sheet["columns"]
    row, column = divmod(unit, sheet["columns"])
    return pixels[row * height : (row + 1) * height, column * width : (column + 1) * width]


def codes_at_all_positions(model, image, layer):
    """By the features of each group, which know of no stack."""
    below = image if layer == 0 else next(model.maps([image], layer))
    fitted = model.layers_[layer]
    return next(code_maps(fitted.coder(), [below]))


def test_the_first_layer_has_filters_and_the_others_parts_of_images(deep_page):
    layers = content(deep_page)["layers"]
    assert [layer["kind"] for layer in layers] == ["images", "parts", "parts"]
    assert [len(layer["units"]["number"]) for layer in layers] == [16, 30, 9]
    assert [layer["size"] for layer in layers] == SEES
    assert layers[1]["about"] == "30 units, each sees 10 x 10 pixels"
    assert dict(layers[1]["facts"])["Layer"] == "2 of 3: EPLS, 30 units in 3 groups"
    assert "8 of the 16 units of layer 1 at 3 x 3 places" in dict(layers[1]["facts"])["A unit sees"]
    assert "through layer 2 at 3 x 3 places" in dict(layers[2]["facts"])["A unit sees"]


@pytest.mark.parametrize("number", [1, 2])
def test_parts_are_the_strongest_of_each_image(deep_page, deep_model, pieces, number):
    """For each unit the nine images with the strongest answers, and of each the place where it is."""
    layer = content(deep_page)["layers"][number]
    answers = np.stack([np.abs(codes_at_all_positions(deep_model, image, number)) for image in pieces])
    for unit, tops in enumerate(layer["top"]):
        of_unit = answers[..., unit]
        best = np.sort(of_unit.max(axis=(1, 2)))[::-1][:9]
        assert_allclose([top["answer"] for top in tops], best, rtol=1e-3)
        assert len({top["place"][0] for top in tops}) == 9
        for top in tops:
            image, row, column = top["place"]
            there = of_unit[image, row // STEPS[number], column // STEPS[number]]
            assert there == pytest.approx(top["answer"], rel=1e-3)


@pytest.mark.parametrize("number", [1, 2])
def test_parts_look_like_what_is_there(deep_page, pieces, number):
    layer = content(deep_page)["layers"][number]
    side = {1: 16, 2: 24}[number]
    for unit in (0, 5, 8):
        tile = mosaic(layer, unit)
        assert tile.shape == (3 * side, 3 * side, 3)
        for rank, top in enumerate(layer["top"][unit]):
            image, row, column = top["place"]
            part = pieces[image, row : row + SEES[number], column : column + SEES[number]]
            expected = np.asarray(Image.fromarray(part).resize((side, side)), float)
            down, right = (side * k for k in divmod(rank, 3))
            assert np.abs(tile[down : down + side, right : right + side] - expected).mean() < 8  # as JPEG has it


def test_units_that_feed_a_unit(deep_page, deep_model):
    layer, fitted = content(deep_page)["layers"][1], deep_model.layers_[1]
    assert layer["below"] == 0
    for unit in (0, 13, 29):
        group, of_group = divmod(unit, 10)
        assert layer["units"]["group"][unit] == group
        weights = fitted.features_[group].estimator_.components_[of_group].reshape(9, 8)
        shares = (weights**2).sum(axis=0) / (weights**2).sum()
        inputs = layer["feeds"][unit]
        assert len(inputs) == 8
        assert [entry["share"] for entry in inputs] == sorted((entry["share"] for entry in inputs), reverse=True)
        for entry in inputs:
            k = fitted.channels_[group].tolist().index(entry["channel"])
            assert entry["share"] == pytest.approx(shares[k], abs=1e-3)
            assert entry["sign"] == np.sign(weights[:, k].sum())
            assert_allclose(entry["weights"], 100 * weights[:, k] / np.abs(weights).max(), atol=0.51)


def test_figures_are_of_the_codes(deep_page, deep_model, pieces):
    """Of all positions: there are fewer than are drawn."""
    layer = content(deep_page)["layers"][2]
    codes = np.concatenate([codes_at_all_positions(deep_model, image, 2).reshape(-1, 9) for image in pieces])
    assert_allclose(layer["units"]["mean"], np.abs(codes).mean(axis=0), rtol=1e-3)
    assert_array_equal(layer["units"]["wins"], np.bincount(codes.argmax(axis=1), minlength=9))


def test_only_so_many_units_are_shown(deep_model, pieces, monkeypatch):
    """Of the highest layer evenly spread ones, of the layer below also those that feed them."""
    monkeypatch.setattr("epls.report.stack._MOST_UNITS", 8)
    all_units, layers = content(model_page(deep_model, pieces))["layers"], None
    monkeypatch.setattr("epls.report.stack._MOST_UNITS", 4)
    layers = content(model_page(deep_model, pieces))["layers"]
    assert [len(layer["units"]["number"]) for layer in all_units] == [16, 8, 8]
    assert [len(layer["units"]["number"]) for layer in layers] == [16, 4, 4]
    assert layers[2]["units"]["number"] == [0, 2, 4, 6]
    assert "4 of 9 units, evenly spread" in dict(layers[2]["facts"])["Shown here"]
    assert "feed the units shown of layer 3 most" in dict(layers[1]["facts"])["Shown here"]
    totals = np.zeros(30)
    for unit in layers[2]["units"]["number"]:
        weights = deep_model.layers_[2].features_[0].estimator_.components_[unit].reshape(9, 30)
        shares = (weights**2).sum(axis=0) / (weights**2).sum()
        strongest = np.argsort(-shares)[:8]
        totals[strongest] += shares[strongest]
    assert set(np.argsort(-totals)[:3]) <= set(layers[1]["units"]["number"])
    neighbors = [unit for pairs in layers[2]["nearest"] for unit, _ in pairs]
    assert set(neighbors) == {0, 1, 2, 3}  # places in the lists of the page
    for k, number in enumerate(layers[2]["units"]["number"]):
        same = all_units[2]["units"]["number"].index(number)
        assert layers[2]["top"][k] == all_units[2]["top"][same]
        assert layers[2]["units"]["wins"][k] == all_units[2]["units"]["wins"][same]


@pytest.mark.parametrize("n_images", [1, 2, 5])
def test_few_images_give_several_parts_each(deep_model, pieces, n_images):
    for layer in content(model_page(deep_model, pieces[:n_images]))["layers"][1:]:
        for top in layer["top"]:
            assert 1 <= len(top) <= 9
            places = np.array([entry["place"] for entry in top])
            assert np.bincount(places[:, 0]).max() <= -(-9 // n_images)
            for k, place in enumerate(places):
                away = np.abs(places[:k] - place)
                assert not ((away[:, 0] == 0) & (away[:, 1:] <= layer["size"] // 2).all(axis=1)).any()


def test_some_images_of_many_are_looked_at(deep_model, pieces):
    page = content(model_page(deep_model, np.concatenate([pieces] * 26)))
    assert len(page["images"]) == 300
    assert dict(page["layers"][1]["facts"])["Shown here"] == "all 30 units; 300 of 312 images"


def test_a_single_layer(pieces):
    model = DeepFeatures([Layer(EPLS(6, max_iter=2), patch_size=5, n_patches=500)], random_state=0).fit(pieces)
    page = content(model_page(model, pieces))
    assert [layer["kind"] for layer in page["layers"]] == ["images"]
    assert len(page["images"]) == len(pieces)


def test_groups_of_channels_of_the_images():
    """Their units have no filters that could be drawn side by side."""
    images = np.random.RandomState(0).uniform(size=(10, 20, 20, 6)).astype(np.float32)
    first = Layer(EPLS(4, max_iter=2), patch_size=3, n_groups=3, group_size=2, n_patches=500)
    model = DeepFeatures([first, Layer(EPLS(4, max_iter=2), patch_size=2, n_patches=500)], random_state=0).fit(images)
    below, above = content(model_page(model, images))["layers"]
    assert below["kind"] == "parts"
    assert below["below"] is None
    assert {entry["channel"] for feeds in below["feeds"] for entry in feeds} <= set(range(6))
    assert above["below"] == 0


def test_encoders_that_split_signs(pieces):
    """There are two codes for each component, and the second has the mirrored one."""
    first = Layer(EPLS(6, max_iter=2), patch_size=4, encoder=NaturalEncoder(split_sign=True), n_patches=500)
    second = Layer(EPLS(5, max_iter=2), patch_size=2, encoder=NaturalEncoder(split_sign=True), n_patches=500)
    below, above = content(model_page(DeepFeatures([first, second], random_state=0).fit(pieces), pieces))["layers"]
    assert len(below["units"]["number"]) == 6
    assert len(above["units"]["number"]) == 10
    for k in range(5):
        plus, minus = above["feeds"][k], above["feeds"][k + 5]
        assert [entry["channel"] for entry in plus] == [entry["channel"] for entry in minus]
        assert [entry["sign"] for entry in plus] == [-entry["sign"] for entry in minus]
    assert max(entry["channel"] for feeds in above["feeds"] for entry in feeds) >= 6


def test_the_first_step_of_a_pipeline(deep_model, pieces, deep_page):
    model = make_pipeline(deep_model, StandardScaler())
    model[-1].fit(deep_model.transform(pieces))
    assert content(model_page(model, pieces)) == content(deep_page)


def test_images_that_are_too_small(deep_model, pieces):
    with pytest.raises(ValueError, match="height and width of at least 20"):
        model_page(deep_model, pieces[:, :19])


def test_nothing_is_loaded_from_elsewhere(deep_page):
    assert set(re.findall(r'(?:src|href)="(.{5})', deep_page)) == {"data:"}
    assert not re.search(r"https?:|url\((?!\$)|@import|fetch\(|XMLHttp", deep_page)
