"""The page to look through data in a real browser: the map, panels, selections, labels and files to save."""

import csv
import io
import json

import numpy as np
import pytest
from browsing import both_sizes
from scipy.optimize import minimize_scalar
from scipy.special import softmax
from selenium.webdriver import ActionChains, Keys
from selenium.webdriver.common.actions.wheel_input import ScrollOrigin
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import Select, WebDriverWait

from epls.datasets.labels import Label, read_labels
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


def ready(chrome, *, keep=False):
    """Wait for the page. Labels that other tests gave to it are forgotten, unless they are to be kept."""
    if not keep and chrome.execute_script("return localStorage.length"):
        chrome.execute_script("localStorage.clear()")
        chrome.refresh()
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


def saved_bytes(chrome, button):
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, button))
    WebDriverWait(chrome, 10).until(lambda _: chrome.execute_script("return saved.length") > 0)
    return bytes(chrome.execute_script("return saved.pop()"))


def saved_table(chrome, button):
    content = saved_bytes(chrome, button).decode("utf-8", "surrogateescape")
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
    names = names_of(pages["images"])
    assert table == [["file", "label", "confidence", "source"], *([names[k], cell, "1.0000", "given"] for k in inside)]
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
    assert "Label the selection: 10 images" in panel(chrome).text


@both_sizes
def test_predictions_of_a_file_are_told_from_labels(open_page, pages):
    """With labels of one class only, nothing can be learned: what the file says is shown."""
    chrome = ready(open_page(pages["labelled"]))
    assert chrome.find_element(By.ID, "color").get_attribute("value") == "label"
    text = show(chrome, "labels").text
    assert "1 of 40 labelled" in text
    assert "1 labelled, 1 predicted" in text
    assert saved_table(chrome, "save-labels")[1:] == [
        ["c/20.jpg", "cat", "1.0000", "given"],
        ["d/30.jpg", "dog", "0.3100", "predicted"],
        ["d/31.jpg", "cat", "0.9000", "predicted"],
    ]
    chrome.execute_script("choose(30)")
    assert "dog (predicted, 31 %)" in panel(chrome).text


def labels_of(chrome):
    return chrome.execute_script("return Array.from({ length: count }, (_, sample) => labelOf(sample) ?? null)")


def press(chrome, *keys):
    ActionChains(chrome).send_keys(*keys).perform()


def label(chrome, samples, name):
    """Select samples, and type their label."""
    chrome.execute_script("select(arguments[0])", samples)
    chrome.find_element(By.ID, "label").send_keys(name + Keys.ENTER)


@both_sizes
def test_labels_of_two_classes_predict_all_others(open_page, pages, tmp_path):
    chrome = ready(open_page(pages["images"]))
    label(chrome, [0, 1], "warm")
    assert labels_of(chrome).count(None) == 38
    label(chrome, [10], "cold")
    label(chrome, [20], "<img src=x onerror='window.hacked = 3'>")
    label(chrome, [30], "=1+1")
    right = [*["warm"] * 10, *["cold"] * 10, *["<img src=x onerror='window.hacked = 3'>"] * 10, *["=1+1"] * 10]
    assert labels_of(chrome) == right
    text = panel(chrome).text
    assert "5 of 40 labelled" in text
    assert "2 labelled, 8 predicted" in text
    assert "Probably" in text
    # A wrong one is clicked, and given its label.
    doubtful = chrome.find_element(By.XPATH, "//section[.//b='cold']//h4[text()='Most doubtful']/following::button[1]")
    name = doubtful.get_attribute("title")
    chrome.execute_script("arguments[0].click()", doubtful)
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, "class-0"))
    corrected = names_of(pages["images"]).index(name)
    assert labels_of(chrome)[corrected] == "warm"
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, "undo"))
    assert labels_of(chrome) == right
    # What is saved is read again.
    (tmp_path / "labels.csv").write_bytes(saved_bytes(chrome, "save-labels"))
    read = read_labels(tmp_path / "labels.csv", names_of(pages["images"]), 40, "here")
    assert [label.label for label in read] == right
    assert [k for k, label in enumerate(read) if label.given] == [0, 1, 10, 20, 30]
    assert all(0.25 < label.confidence <= 1 for label in read)
    assert chrome.execute_script("return window.hacked") is None


def test_labels_stay_after_a_reload(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    label(chrome, [0], "warm")
    label(chrome, [10], "cold")
    before = labels_of(chrome)
    assert "after a reload" in panel(chrome).text
    chrome.refresh()
    ready(chrome, keep=True)
    assert labels_of(chrome) == before
    assert chrome.find_element(By.ID, "color").get_attribute("value") == "label"
    assert "2 of 40 labelled" in show(chrome, "labels").text


@pytest.mark.parametrize(
    "stored",
    [
        "no JSON",
        "[]",
        '{"names": ["a"], "samples": [40], "of": [0], "drawn": []}',
        '{"names": ["a"], "samples": [1], "of": [-1], "drawn": []}',
        '{"names": [3], "samples": [1], "of": [0], "drawn": []}',
    ],
)
def test_what_the_browser_kept_is_checked(open_page, pages, stored):
    chrome = ready(open_page(pages["images"]))
    chrome.execute_script("localStorage.setItem(STORED, arguments[0])", stored)
    chrome.refresh()
    ready(chrome, keep=True)
    assert set(labels_of(chrome)) == {None}


def test_labels_by_keyboard_only(open_page, pages):
    """From the tabs to the proposals, to a new label, to the keys of classes, and back."""
    chrome = ready(open_page(pages["images"]))
    chrome.find_element(By.ID, "tab-groups").send_keys(Keys.ARROW_RIGHT, Keys.NULL)
    chrome.switch_to.active_element.send_keys(Keys.ARROW_RIGHT)
    chrome.execute_script("document.activeElement.blur()")
    first, second, third, fourth = chrome.execute_script("return proposals.slice(0, 4)")
    press(chrome, "n", "one", Keys.ENTER)
    press(chrome, "n", "two", Keys.ENTER)
    assert labels_of(chrome)[first] == "one"
    assert labels_of(chrome)[second] == "two"
    assert "2 of 40 images labelled" in chrome.find_element(By.ID, "status").text
    press(chrome, "2")
    assert chrome.execute_script("return [...given.keys()].filter((sample) => given[sample] === 1)") == sorted(
        [second, third]
    )
    guess = labels_of(chrome)[fourth]
    press(chrome, Keys.ARROW_RIGHT, Keys.ARROW_LEFT, Keys.ENTER)
    assert chrome.execute_script(f"return classNames[given[{fourth}]]") == guess
    ActionChains(chrome).key_down(Keys.CONTROL).send_keys("z").send_keys("z").key_up(Keys.CONTROL).perform()
    assert chrome.execute_script("return nGiven()") == 2
    assert chrome.execute_script("return target()[0]") == third


def test_the_classifier_is_what_it_says(open_page, pages):
    """A ridge regression whose penalty and sharpness suit labels that are left out, one by one, and learned without."""
    chrome = ready(open_page(pages["vectors"]))
    random = np.random.RandomState(3)
    known = np.sort(random.permutation(120)[:20])
    y = np.where(random.uniform(size=20) < 0.75, known // 60, 2)
    script = """
        for (const name of ["0", "1", "2"]) classNumber(name);
        arguments[0].forEach((sample, k) => { given[sample] = arguments[1][k]; });
        learnAgain();
        return [{ ...model, weights: [...model.weights] }, codes.rows, model.rightAlone, predicted.confidence]
            .map((part) => (ArrayBuffer.isView(part) ? [...part] : part));
    """
    found, rows, alone, confidence = chrome.execute_script(script, known.tolist(), y.tolist())
    X = np.reshape(rows, (120, -1))
    assert np.square(X).sum(axis=1).mean() == pytest.approx(1, abs=1e-5)
    Y = np.eye(3)[y] - 1 / 3

    def learned(penalty, some):
        return np.linalg.solve(X[some].T @ X[some] + penalty * np.eye(X.shape[1]), X[some].T @ Y[np.isin(known, some)])

    def cost(penalty):
        scores = np.stack([X[k] @ learned(penalty, known[known != k]) for k in known])

        def of(logarithm):
            probabilities = softmax(np.exp(logarithm) * scores, axis=1)[np.arange(20), y]
            return (logarithm - np.log(12)) ** 2 / 2 - np.log(probabilities).sum()

        best = minimize_scalar(of, bounds=(0, np.log(100)), method="bounded")
        return best.fun + np.log(penalty) ** 2 / 2, np.exp(best.x), scores.argmax(axis=1) == y

    costs = {penalty: cost(penalty) for penalty in 4.0 ** np.arange(-3, 4)}
    _, sharpness, right = costs[found["penalty"]]
    assert found["penalty"] == min(costs, key=lambda penalty: costs[penalty][0])
    assert found["sharpness"] == pytest.approx(sharpness, rel=0.05)
    assert np.array(alone)[known].tolist() == right.tolist()
    assert 5 < right.sum() < 20
    weights = learned(found["penalty"], known)
    np.testing.assert_allclose(np.reshape(found["weights"], weights.shape), weights, rtol=1e-4, atol=1e-6)
    wanted = softmax(found["sharpness"] * (X @ weights), axis=1).max(axis=1)
    np.testing.assert_allclose(confidence, wanted, rtol=1e-4)


def test_random_ones_measure_the_accuracy(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    label(chrome, [0], "0")
    label(chrome, [10], "1")
    label(chrome, [20], "2")
    label(chrome, [30], "3")
    assert not chrome.find_elements(By.ID, "accuracy")
    chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, "measure"))
    for _ in range(10):
        sample = chrome.execute_script("return target()[0]")
        chrome.execute_script("arguments[0].click()", chrome.find_element(By.ID, f"class-{sample // 10}"))
    told = chrome.find_element(By.ID, "accuracy").text
    # Ten of ten, worth ten thirteenths and a half: Wilson's lower limit is n / (n + 1.96^2).
    assert told == "Accuracy: 100 % (95 % interval: 60 to 100 %), from 10 images drawn at random."


def test_proposals_are_different_and_without_a_label(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    show(chrome, "labels")
    proposed = chrome.execute_script("return proposals")
    assert len(set(proposed)) == 10
    assert {sample // 10 for sample in proposed[:4]} == {0, 1, 2, 3}
    chrome.execute_script("give(proposals.slice(), classNumber('a'))")
    assert not set(chrome.execute_script("return proposals")) & set(proposed)


def test_names_are_found_and_folders_color_the_map(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    Select(chrome.find_element(By.ID, "color")).select_by_visible_text("by folder")
    assert "a" in chrome.find_element(By.ID, "legend").text
    chrome.find_element(By.ID, "find").send_keys("d/3")
    assert selected(chrome) == list(range(30, 40))
    chrome.find_element(By.ID, "find").send_keys(Keys.ENTER)
    assert "d/30.jpg" in panel(chrome).text
    chrome.find_element(By.ID, "find").send_keys(Keys.ENTER)
    assert "d/31.jpg" in panel(chrome).text
    assert chrome.switch_to.active_element.get_attribute("id") == "find"


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
def test_no_picture_is_cut_off_by_the_edge(open_page, pages):
    chrome = ready(open_page(pages["images"]))
    places, size, width, height = chrome.execute_script(
        "draw(); return [Array.from({ length: count }, (_, sample) => toScreen(sample)), pictureSize(), width, height]"
    )
    assert np.min(places) >= size / 2
    assert (np.max(places, axis=0) <= np.subtract([width, height], size / 2)).all()


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
