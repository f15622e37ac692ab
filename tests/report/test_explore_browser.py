"""The page to look through data in a real browser: the map, panels, selections, labels and files to save."""

import csv
import io
import json

import numpy as np
import pytest
from browsing import both_sizes
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from epls.datasets.labels import Label
from epls.report import explore

pytestmark = pytest.mark.slow
EVIL = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 2'>\n\"q\",.jpg"


@pytest.fixture(scope="module")
def pages():
    """Forty images of four colors with odd names, and vectors."""
    random = np.random.RandomState(0)
    colors = np.repeat(random.randint(40, 215, size=(4, 3)), 10, axis=0)
    images = np.clip(colors[:, None, None] + random.normal(scale=12, size=(40, 20, 30, 3)), 0, 255).astype(np.uint8)
    names = [f"{'abcd'[k // 10]}/{k}.jpg" for k in range(40)]
    names[3], names[4], names[5] = EVIL, "\udcff\ud83d\ude00.jpg", "r\r.jpg"
    labels = [None] * 40
    labels[20], labels[30], labels[31] = Label("cat"), Label("dog", 0.31, False), Label("cat", 0.9, False)
    rows = images.reshape(40, -1)
    vectors = np.concatenate([random.normal(size=(60, 3)), random.normal(size=(60, 3)) + 6])
    return {
        "images": explore(images, features=rows, names=names, groups=4, title=EVIL),
        "labelled": explore(images, features=rows, names=names, groups=4, labels=labels),
        "vectors": explore(vectors, columns=["a", EVIL, "c"], groups="density"),
    }


def ready(chrome):
    WebDriverWait(chrome, 30).until(lambda _: chrome.execute_script("return document.body.dataset.ready") == "true")
    chrome.execute_script("animate = (step) => { step(1); draw(); }; draw()")  # no waiting for what moves
    # What would be saved, as bytes, and no download: one in a browser that nobody sees can hold up all that follows.
    chrome.execute_script("""
        window.saved = [];
        URL.createObjectURL = (blob) => {
          blob.arrayBuffer().then((bytes) => saved.push([...new Uint8Array(bytes)]));
          return "#";
        };
        HTMLAnchorElement.prototype.click = () => {};
    """)
    return chrome


def point_of(chrome, sample):
    """Where a sample is on the screen, from the middle of the canvas."""
    x, y, width, height = chrome.execute_script(
        f"draw(); const [x, y] = toScreen({sample}); return [x, y, width, height]"
    )
    return round(x - width / 2), round(y - height / 2)


def click_on(chrome, sample, *, key=None):
    canvas = chrome.find_element(By.ID, "map")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    actions = ActionChains(chrome).move_to_element_with_offset(canvas, *point_of(chrome, sample))
    (actions.key_down(key).click().key_up(key) if key else actions.click()).perform()


def panel(chrome):
    return chrome.find_element(By.ID, "panel")


def show(chrome, tab):
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, f"tab-{tab}"))
    return panel(chrome)


def selected(chrome):
    return chrome.execute_script("return selection()")


def saved_table(chrome, button):
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, button))
    WebDriverWait(chrome, 10).until(lambda _: chrome.execute_script("return saved.length") > 0)
    content = bytes(chrome.execute_script("return saved.pop()")).decode("utf-8", "surrogateescape")
    return list(csv.reader(io.StringIO(content, newline="")))


@both_sizes
def test_an_image_by_mouse_has_its_nearest(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("arrangeAs('grid')")
    click_on(chrome, 12)
    assert chrome.execute_script("return state.chosen") == 12
    assert "b/12.jpg" in panel(chrome).text
    near = [tile.get_attribute("title") for tile in panel(chrome).find_elements(By.CSS_SELECTOR, ".thumbs .thumb")]
    assert len(near) == 12
    assert all(name.startswith("b/") for name in near[:9])
    first = panel(chrome).find_element(By.CSS_SELECTOR, ".thumbs .thumb")
    chrome.execute_script("arguments[0].click()", first)
    assert near[0] in panel(chrome).text


def test_an_image_by_keyboard(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("arrangeAs('grid')")
    canvas = chrome.find_element(By.ID, "map")
    canvas.send_keys(Keys.ARROW_RIGHT)
    first = chrome.execute_script("return state.chosen")
    canvas.send_keys(Keys.ARROW_RIGHT)
    second = chrome.execute_script("return state.chosen")
    assert point_of(chrome, second)[0] > point_of(chrome, first)[0]
    canvas.send_keys(Keys.ARROW_LEFT)
    assert chrome.execute_script("return state.chosen") == first
    canvas.send_keys(Keys.SPACE)
    assert selected(chrome) == [first]
    assert "selected" in chrome.find_element(By.ID, "status").text
    canvas.send_keys("+")
    assert chrome.execute_script("return state.zoom") == 1.5
    canvas.send_keys("0")
    assert chrome.execute_script("return state.zoom") == 1
    canvas.send_keys(Keys.ENTER)
    assert chrome.switch_to.active_element.get_attribute("id") == "panel"
    ActionChains(chrome).send_keys(Keys.ESCAPE).perform()
    assert selected(chrome) == []


def test_tabs_by_keyboard(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    chrome.find_element(By.ID, "tab-groups").send_keys(Keys.ARROW_RIGHT)
    assert chrome.switch_to.active_element.get_attribute("id") == "tab-sample"
    chrome.switch_to.active_element.send_keys(Keys.END)
    assert chrome.switch_to.active_element.get_attribute("id") == "tab-twins"
    assert "near-duplicates" in panel(chrome).text


def test_a_slider_sets_how_similar_duplicates_are(open_page):
    """One row is repeated; another is repeated with a small difference."""
    X = np.random.RandomState(0).normal(size=(30, 3))
    X[29], X[28] = X[0], X[1] + 0.015
    chrome = ready(open_page(explore(X)))
    chrome.find_element(By.ID, "tab-twins").click()
    assert "1 set of near-duplicates" in panel(chrome).text
    assert "1.00: row 0, row 29" in panel(chrome).text
    slider = chrome.find_element(By.ID, "strictness")
    slider.send_keys(Keys.HOME)
    assert "2 sets of near-duplicates, similarity 0.90 or more" in panel(chrome).text
    assert "row 1, row 28" in panel(chrome).text
    slider.send_keys(Keys.END)
    assert "1 set of near-duplicates, similarity 1.00 or more" in panel(chrome).text


@both_sizes
def test_the_map_moves_and_zooms(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    canvas = chrome.find_element(By.ID, "map")
    before = chrome.execute_script("draw(); return toScreen(7)")
    ActionChains(chrome).move_to_element_with_offset(canvas, 0, 0).click_and_hold().move_by_offset(
        40, 30
    ).release().perform()
    after = chrome.execute_script("draw(); return toScreen(7)")
    np.testing.assert_allclose(np.subtract(after, before), [40, 30], atol=2)
    ActionChains(chrome).scroll_from_origin(ScrollOrigin.from_element(canvas), 0, -200).perform()
    assert chrome.execute_script("return state.zoom") > 1.2
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, "whole"))
    assert chrome.execute_script("return state.zoom") == 1


@both_sizes
@pytest.mark.parametrize(("tool", "label", "cell"), [("lasso", 'a "b", c', 'a "b", c'), ("box", "=1+1", "'=1+1")])
def test_a_selection_is_labelled_and_saved(open_page, pages, tool, label, cell):
    """A label that a spreadsheet would run as a formula is guarded, and read again as it was."""
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("arrangeAs('grid')")
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.CSS_SELECTOR, f"[data-tool={tool}]"))
    canvas = chrome.find_element(By.ID, "map")
    chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    corner = chrome.execute_script("draw(); return Math.round(0.9 * Math.min(width, height) / 2)")
    drag = ActionChains(chrome, duration=20).move_to_element_with_offset(canvas, -corner, -corner).click_and_hold()
    if tool == "lasso":
        drag = drag.move_by_offset(2 * corner, 0).move_by_offset(0, corner).move_by_offset(-2 * corner, 0)
    else:
        drag = drag.move_by_offset(2 * corner, corner)
    drag.release().perform()
    inside = selected(chrome)
    heights = [point_of(chrome, k)[1] for k in range(40)]
    assert inside == [k for k in range(40) if heights[k] < 0]
    assert [name for (name,) in saved_table(chrome, "save-names")] == [names_of(pages["images"])[k] for k in inside]
    chrome.find_element(By.ID, "label").send_keys(label + Keys.ENTER)
    table = saved_table(chrome, "save-labels")
    assert table == [["file", "label"], *([names_of(pages["images"])[k], cell] for k in inside)]
    assert label in chrome.find_element(By.ID, "legend").text


def names_of(html):
    return json.loads(html.split('id="content">')[1].split("</script>")[0])["names"]


def test_any_name_is_saved_as_it_is(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("select([3, 4, 5])")
    assert [name for (name,) in saved_table(chrome, "save-names")] == [EVIL, "\udcff\U0001f600.jpg", "r\r.jpg"]
    chrome.execute_script("choose(3)")
    assert "</script><script>" in panel(chrome).text
    assert chrome.execute_script("return window.hacked") is None


def test_clicks_add_to_the_selection(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("arrangeAs('grid')")
    click_on(chrome, 8, key=Keys.CONTROL)
    click_on(chrome, 31, key=Keys.CONTROL)
    assert selected(chrome) == [8, 31]
    click_on(chrome, 8, key=Keys.CONTROL)
    assert selected(chrome) == [31]


def test_groups_are_shown_alone_and_selected(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    assert len(panel(chrome).find_elements(By.CSS_SELECTOR, ".group")) == 4
    only, _ = panel(chrome).find_elements(By.CSS_SELECTOR, "#group-2 .title button")
    chrome.execute_script("arguments[0].click()", only)
    assert sum(chrome.execute_script("return [...state.only]")) == 10
    only, select = (
        panel(chrome).find_elements(By.CSS_SELECTOR, ".group")[1].find_elements(By.CSS_SELECTOR, ".title button")
    )
    assert only.get_attribute("aria-pressed") == "true"
    chrome.execute_script("arguments[0].click()", select)
    assert len(selected(chrome)) == 10
    assert "Selection: 10 images" in panel(chrome).text


@both_sizes
def test_predictions_are_told_from_labels(open_page, pages):
    chrome = ready(open_page(pages["labelled"]))
    assert chrome.find_element(By.ID, "color").get_attribute("value") == "label"
    text = show(chrome, "selection").text
    assert "Labels: 1" in text
    assert text.index("dog 31 %") < text.index("cat 90 %")
    assert saved_table(chrome, "save-labels") == [["file", "label"], ["c/20.jpg", "cat"]]
    chrome.execute_script("choose(30)")
    assert "dog (predicted, 31 %)" in panel(chrome).text


def test_names_are_found_and_folders_color_the_map(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    Select(chrome.find_element(By.ID, "color")).select_by_visible_text("by folder")
    assert "a" in chrome.find_element(By.ID, "legend").text
    chrome.find_element(By.ID, "find").send_keys("d/3")
    assert selected(chrome) == list(range(30, 40))


@both_sizes
def test_vectors(open_page, pages):
    chrome = ready(open_page(pages["vectors"]))
    assert len(panel(chrome).find_elements(By.CSS_SELECTOR, ".group")) == 2
    chrome.execute_script("choose(0)")
    text = panel(chrome).text
    assert "row 0" in text
    assert "Its most unusual values" in text
    assert chrome.execute_script("return window.hacked") is None


@both_sizes
def test_dots_and_pictures_are_drawn(open_page, pages):
    """What is on the canvas at a sample's place is its color, or its picture."""
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("arrangeAs('grid')")
    Select(chrome.find_element(By.ID, "color")).select_by_visible_text("of the image")
    read = """
        draw();
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true });
        copy.drawImage(canvas, 0, 0);
        const [x, y] = toScreen(12);
        return [...copy.getImageData(Math.round(x * ratio), Math.round(y * ratio), 1, 1).data.slice(0, 3)];
    """
    mean = chrome.execute_script("return [...meanColors.subarray(36, 39)]")
    np.testing.assert_allclose(chrome.execute_script(read), mean, atol=40)
    chrome.execute_script("state.zoom = 0.5; bitmaps.length = 0")
    np.testing.assert_allclose(chrome.execute_script(read), mean, atol=1)
