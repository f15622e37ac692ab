"""Pages in a real browser, on a large and on a small screen, by mouse and by keyboard."""

import json
import shutil

import numpy as np
import pytest
from browsing import both_sizes, require_browser
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.by import By
from selenium.webdriver.support import expected_conditions as conditions
from selenium.webdriver.support.ui import Select, WebDriverWait

from epls import EPLS, ImageFeatures
from epls.evaluation import ComparedLearner
from epls.report import comparison_page, model_page

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("ci", "outcome"), [("true", pytest.fail.Exception), (None, pytest.skip.Exception)])
@pytest.mark.parametrize("missing", ["chromium", "chromedriver"])
def test_without_a_browser(monkeypatch, ci, outcome, missing):
    monkeypatch.setattr(shutil, "which", lambda name: None if name == missing else f"/usr/bin/{name}")
    monkeypatch.delenv("CI", raising=False)
    if ci is not None:
        monkeypatch.setenv("CI", ci)
    with pytest.raises(outcome, match="no chromium and chromedriver on the path"):
        require_browser()


def shown_units(chrome):
    return [int(tile.get_attribute("data-unit")) for tile in chrome.find_elements(By.CSS_SELECTOR, "#grid .tile")]


def units_of(html, layer=1):
    return json.loads(html.split('id="content">')[1].split("</script>")[0])["layers"][layer - 1]["units"]


def drag(chrome, slider, value):
    chrome.execute_script(
        "arguments[0].value = arguments[1]; arguments[0].dispatchEvent(new Event('input'))", slider, value
    )


def test_sort_and_filter(open_page, image_page):
    chrome = open_page(image_page)
    units = units_of(image_page)
    assert shown_units(chrome) == list(range(30))
    Select(chrome.find_element(By.ID, "sort")).select_by_visible_text("redundancy")
    order = shown_units(chrome)
    values = [units["redundancy"][unit] for unit in order]
    assert values == sorted(values, reverse=True)
    assert len(order) == 30
    chrome.find_element(By.ID, "descending").click()
    assert [units["redundancy"][unit] for unit in shown_units(chrome)] == sorted(values)
    Select(chrome.find_element(By.ID, "measure")).select_by_visible_text("color")
    drag(chrome, chrome.find_element(By.ID, "from"), 50)
    middle = sorted(units["color"])[15]
    kept = shown_units(chrome)
    assert sorted(kept) == [unit for unit in range(30) if units["color"][unit] >= middle]
    assert f"{len(kept)} of 30 units" in chrome.find_element(By.ID, "kept").text
    chrome.find_element(By.ID, "all").click()
    assert len(shown_units(chrome)) == 30


@both_sizes
def test_the_page_begins_with_a_unit_and_units_come_early(open_page, image_page, size):
    """On a small screen the panel would cover the units."""
    chrome = open_page(image_page)
    panel = chrome.find_element(By.ID, "unit")
    assert panel.is_displayed() == is_wide(size)
    clarity = units_of(image_page)["clarity"]
    assert (f"Unit {clarity.index(max(clarity))}\n" in panel.text) == is_wide(size)
    assert "#" not in chrome.current_url
    assert chrome.execute_script("return document.getElementById('grid').getBoundingClientRect().top") < 500
    assert not chrome.find_element(By.ID, "charts").is_displayed()
    chrome.find_element(By.CSS_SELECTOR, "#about summary").click()
    assert chrome.find_element(By.ID, "charts").is_displayed()
    assert "0 units never active" in chrome.find_element(By.ID, "summary").text


def test_figures_have_units_and_explanations(open_page, image_page):
    chrome = open_page(image_page, "#unit-7")
    assert "Unit 7" in chrome.find_element(By.ID, "unit").text
    units = units_of(image_page)
    text = chrome.find_element(By.CSS_SELECTOR, "#unit .measures").text
    assert f"{units['wins'][7]} patches" in text
    assert "waves/pixel" in text
    assert "\N{DEGREE SIGN}" in text
    assert "mean output over all patches" in text


def is_wide(size):
    return size[0] > 820


@both_sizes
def test_a_unit_by_mouse(open_page, image_page):
    chrome = open_page(image_page)
    panel = chrome.find_element(By.ID, "unit")
    tile = chrome.find_elements(By.CSS_SELECTOR, "#grid .tile")[4]
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", tile)
    tile.click()
    assert panel.is_displayed()
    assert "Unit 4" in panel.text
    assert tile.get_attribute("aria-selected") == "true"
    patches = panel.find_elements(By.CSS_SELECTOR, ".patch")
    assert len(patches) == 9
    before = panel.find_element(By.CSS_SELECTOR, ".where span").get_attribute("style")
    patches[1].click()
    assert panel.find_element(By.CSS_SELECTOR, ".where span").get_attribute("style") != before
    frame, image = (panel.find_element(By.CSS_SELECTOR, f".where {name}").rect for name in ("span", "img"))
    assert image["x"] - 3 <= frame["x"] <= image["x"] + image["width"]
    assert image["y"] - 3 <= frame["y"] <= image["y"] + image["height"]
    neighbor = panel.find_element(By.CSS_SELECTOR, ".strip .of-unit")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", neighbor)
    name = neighbor.get_attribute("title")
    neighbor.click()
    assert name.capitalize() in panel.text
    panel.find_element(By.CLASS_NAME, "close").click()
    assert not panel.is_displayed()


@both_sizes
def test_a_unit_by_keyboard(open_page, image_page, size):
    chrome = open_page(image_page)
    panel = chrome.find_element(By.ID, "unit")
    chrome.find_element(By.ID, "all").send_keys(Keys.TAB)
    focused = chrome.switch_to.active_element
    assert focused.get_attribute("aria-selected") == str(is_wide(size)).lower()

    def press(key):
        ActionChains(chrome).send_keys(key).perform()
        return int(chrome.switch_to.active_element.get_attribute("data-unit"))

    assert press(Keys.HOME) == 0
    assert press(Keys.ARROW_RIGHT) == 1
    assert "Unit 1" in panel.text
    below = press(Keys.ARROW_DOWN)
    first, second = (chrome.find_elements(By.CSS_SELECTOR, "#grid .tile")[k].rect for k in (1, below))
    assert first["x"] == second["x"]
    assert second["y"] > first["y"]
    assert press(Keys.ARROW_UP) == 1
    assert press(Keys.END) == 29
    assert press(Keys.ARROW_RIGHT) == 29
    assert press(Keys.HOME) == 0
    assert press(Keys.ESCAPE) == 0
    assert not panel.is_displayed()


def test_the_address_changes_and_is_followed(open_page, image_page):
    chrome = open_page(image_page, "?from=mail")
    chrome.execute_script("location.hash = '#unit-5'")
    WebDriverWait(chrome, 5).until(lambda _: "Unit 5" in chrome.find_element(By.ID, "unit").text)
    ActionChains(chrome).send_keys(Keys.ESCAPE).perform()
    assert chrome.current_url.endswith("?from=mail")


def test_a_unit_that_is_filtered_out_meanwhile(open_page, image_page):
    chrome = open_page(image_page, "#unit-29")
    drag(chrome, chrome.find_element(By.ID, "to"), 10)  # of the numbers, the first tenth
    assert 29 not in shown_units(chrome)
    ActionChains(chrome).send_keys(Keys.ESCAPE).perform()
    assert chrome.switch_to.active_element.get_attribute("id") == "sort"


@both_sizes
def test_inside_of_a_frame_without_an_address(open_page, image_page):
    viewport = "<meta name='viewport' content='width=device-width'>"
    chrome = open_page(f"<!DOCTYPE html>{viewport}<iframe style='width: 100%; height: 700px'></iframe>")
    chrome.execute_script("document.querySelector('iframe').srcdoc = arguments[0]", image_page)
    WebDriverWait(chrome, 10).until(conditions.frame_to_be_available_and_switch_to_it((By.TAG_NAME, "iframe")))
    tile = WebDriverWait(chrome, 10).until(conditions.presence_of_element_located((By.CSS_SELECTOR, "#grid .tile")))
    chrome.execute_script("arguments[0].click()", tile)
    assert "Unit 0" in chrome.find_element(By.ID, "unit").text
    chrome.switch_to.default_content()


@both_sizes
def test_the_chosen_tile_is_not_hidden_by_the_panel(open_page, image_page):
    chrome = open_page(image_page)
    tile = chrome.find_elements(By.CSS_SELECTOR, "#grid .tile")[-1]
    chrome.execute_script("arguments[0].scrollIntoView({block: 'end'}); arguments[0].click()", tile)
    covered = """
        const tile = arguments[0].getBoundingClientRect(), panel = arguments[1].getBoundingClientRect();
        return tile.bottom > panel.top && tile.right > panel.left && tile.top < panel.bottom;
    """
    assert not chrome.execute_script(covered, tile, chrome.find_element(By.ID, "unit"))


def test_names_cannot_become_code(open_page):
    """Columns and files may be called anything."""
    evil = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>"
    X = np.random.RandomState(0).normal(size=(50, 3))
    chrome = open_page(model_page(EPLS(4, max_iter=2).fit(X), X, feature_names=[evil, "b", "c"]), "#unit-1")
    assert evil in chrome.find_element(By.ID, "unit").text
    images = np.random.RandomState(0).randint(256, size=(2, 12, 12, 3), dtype=np.uint8)
    model = ImageFeatures(EPLS(4, max_iter=2), patch_size=4, n_patches=200).fit(images)
    chrome = open_page(model_page(model, Named(images, evil)), "#unit-1")
    assert evil in chrome.find_element(By.ID, "unit").text
    assert chrome.execute_script("return window.hacked") is None


class Named(list):
    """Images that all have one name."""

    def __init__(self, images, name):
        super().__init__(images)
        self.names = [name] * len(images)


def test_light_and_dark(open_page, image_page):
    chrome = open_page(image_page)

    def ground():
        return chrome.execute_script("return getComputedStyle(document.body).backgroundColor")

    before = ground()
    chrome.find_element(By.ID, "theme").click()
    assert ground() != before
    chrome.find_element(By.ID, "theme").click()
    assert ground() == before


@both_sizes
def test_vectors(open_page, vector_page, vectors):
    chrome = open_page(vector_page, "#unit-2")
    text = chrome.find_element(By.ID, "unit").text
    assert "Features with the largest weights" in text
    assert any(name in text for name in vectors.columns)
    assert "row " in text


@both_sizes
def test_a_comparison(open_page):
    seconds = {"learn": 3.0, "encode": 2.0, "judge": 1.0}
    rows = [
        ComparedLearner("epls, natural", 60.0, 1.0, (59.0, 61.0), 32, seconds, 8, 1, 0),
        ComparedLearner("rica, natural", 65.0, 1.0, (64.0, 66.0), 32, seconds | {"learn": 9.0}, 8, 0, 1),
        ComparedLearner("own, natural", 50.0, 1.0, (49.0, 51.0), 32, seconds | {"learn": 10.0}),
        ComparedLearner("omp, natural", failed="too <few> samples"),
    ]
    chrome = open_page(comparison_page(rows, [("Data", "a & b")], settings={}, filters={}, title="Learners compared"))

    def learners():
        return [row.text.split(",")[0] for row in chrome.find_elements(By.CSS_SELECTOR, "#rows tbody tr")]

    assert learners() == ["rica", "epls", "own", "omp"]
    chrome.find_element(By.XPATH, "//th//button[text()='learn s']").click()
    assert learners() == ["epls", "rica", "own", "omp"]
    assert "too <few> samples" in chrome.find_element(By.ID, "rows").text
    first = chrome.find_element(By.CSS_SELECTOR, "#rows tbody button")
    first.send_keys(Keys.ENTER)
    panel = chrome.find_element(By.ID, "row")
    assert "59.0, 61.0" in panel.text
    assert first.get_attribute("aria-expanded") == "true"
    first.send_keys(Keys.ARROW_DOWN)
    chrome.switch_to.active_element.send_keys(" ")
    assert "64.0, 66.0" in panel.text
    ActionChains(chrome).send_keys(Keys.ESCAPE).perform()
    assert not panel.is_displayed()


def chosen_tab(chrome):
    return chrome.find_element(By.CSS_SELECTOR, "#layers [aria-selected='true'] b").text


@both_sizes
def test_layers_by_mouse(open_page, deep_page):
    chrome = open_page(deep_page)
    assert chosen_tab(chrome) == "Layer 1"
    assert len(shown_units(chrome)) == 16
    chrome.find_elements(By.CSS_SELECTOR, "#layers button")[1].click()
    assert chosen_tab(chrome) == "Layer 2"
    assert len(shown_units(chrome)) == 30
    assert "2 of 3: EPLS, 30 units in 3 groups" in chrome.find_element(By.ID, "facts").get_attribute("textContent")
    assert "the units of layer 1 that feed it" in chrome.find_element(By.ID, "intro").text
    tile = chrome.find_elements(By.CSS_SELECTOR, "#grid .tile")[4]
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", tile)
    panel = chrome.find_element(By.ID, "unit")
    assert "Unit 4 of layer 2" in panel.text
    parts = panel.find_elements(By.CSS_SELECTOR, ".patch")
    assert len(parts) == 9
    before = panel.find_element(By.CSS_SELECTOR, ".where img").get_attribute("src")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", parts[1])
    parts[1].click()  # in another image
    assert panel.find_element(By.CSS_SELECTOR, ".where img").get_attribute("src") != before
    assert len(panel.find_elements(By.CSS_SELECTOR, ".input .weights rect")) == 8 * 9
    below = panel.find_element(By.CSS_SELECTOR, ".input .of-unit")
    name = below.get_attribute("title")
    assert name.endswith("of layer 1")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", below)
    below.click()
    assert chosen_tab(chrome) == "Layer 1"
    assert name.capitalize() in panel.text
    assert not panel.find_elements(By.CSS_SELECTOR, ".input")
    panel.find_element(By.CLASS_NAME, "back").click()
    assert chosen_tab(chrome) == "Layer 2"
    assert "Unit 4 of layer 2" in panel.text
    panel.find_element(By.CLASS_NAME, "close").click()
    assert not panel.is_displayed()


@both_sizes
def test_layers_by_keyboard(open_page, deep_page, size):
    chrome = open_page(deep_page, "#layer-2-unit-7")
    panel = chrome.find_element(By.ID, "unit")
    assert "Unit 7 of layer 2" in panel.text

    def press(key):
        ActionChains(chrome).send_keys(key).perform()

    chrome.find_element(By.CSS_SELECTOR, "#layers [aria-selected='true']").send_keys(Keys.ARROW_RIGHT)
    assert chosen_tab(chrome) == "Layer 3"
    assert panel.is_displayed() == is_wide(size)
    press(Keys.ARROW_RIGHT)
    assert chosen_tab(chrome) == "Layer 3"
    press(Keys.HOME)
    assert chosen_tab(chrome) == "Layer 1"
    press(Keys.END)
    assert chosen_tab(chrome) == "Layer 3"
    assert chrome.current_url.endswith("#layer-3")
    chrome.find_element(By.ID, "all").send_keys(Keys.TAB)
    press(Keys.HOME)
    press(Keys.ARROW_RIGHT)
    assert "Unit 1 of layer 3" in panel.text
    assert chrome.current_url.endswith("#layer-3-unit-1")
    panel.find_element(By.CSS_SELECTOR, ".input .of-unit").send_keys(Keys.ENTER)
    assert chosen_tab(chrome) == "Layer 2"
    assert chrome.switch_to.active_element.get_attribute("class") == "close"
    press(Keys.ESCAPE)
    assert not panel.is_displayed()
    assert "of-unit" in chrome.switch_to.active_element.get_attribute("class")


def test_sorting_stays_with_the_layer(open_page, deep_page):
    chrome = open_page(deep_page)
    Select(chrome.find_element(By.ID, "sort")).select_by_visible_text("color")
    chrome.find_elements(By.CSS_SELECTOR, "#layers button")[1].click()  # whose units have no color
    assert Select(chrome.find_element(By.ID, "sort")).first_selected_option.text == "number"
    Select(chrome.find_element(By.ID, "sort")).select_by_visible_text("group")
    assert sorted(shown_units(chrome)) == list(range(30))
    chrome.find_elements(By.CSS_SELECTOR, "#layers button")[2].click()
    assert shown_units(chrome) == list(range(9))


def test_addresses_of_nothing(open_page, deep_page):
    for place in ("#layer-9", "#layer-2-unit-99", "#unit-", "#", "#else"):
        chrome = open_page(deep_page, place)
        number = 2 if place.startswith("#layer-2") else 1
        units = units_of(deep_page, number)
        best = units.get("clarity", units["wins"])
        assert f"Unit {best.index(max(best))} of layer {number}" in chrome.find_element(By.ID, "unit").text
        assert len(shown_units(chrome)) in (16, 30)
