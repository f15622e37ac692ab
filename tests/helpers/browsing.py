"""A browser for the tests of pages."""

import os
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
_ARGUMENTS = (
    "headless=new",
    "no-sandbox",
    "no-first-run",
    "disable-background-networking",
    "disable-component-update",
    "disable-dev-shm-usage",
    "disable-sync",
)


def require_browser():
    """The path of the driver. Without a browser tests are skipped; in CI, where nobody would notice, they fail."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        no_browser = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        no_browser("no chromium and chromedriver on the path: `make browser`, or install chromium and chromium-driver")
    return driver


def new_browser():
    """A browser that nobody sees, which keeps what scripts complain of."""
    driver = require_browser()
    options = webdriver.ChromeOptions()
    for argument in _ARGUMENTS:
        options.add_argument(f"--{argument}")
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A page with unsaved labels asks before it is left; nobody is here to answer.
    options.unhandled_prompt_behavior = "accept"
    return webdriver.Chrome(options=options, service=Service(driver))


def opened_page(chrome, folder, size):
    """A function that opens HTML in a browser, on a screen of this size."""
    width, height = size

    def opened(html, place=""):
        path = folder / "page.html"
        path.write_text(html, encoding="utf-8")
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        # A page with unsaved labels asks before it is left, and a browser that nobody sees may wait for the answer.
        chrome.execute_script(
            "addEventListener('beforeunload', (event) => event.stopImmediatePropagation(), {capture: true})"
        )
        chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        chrome.get("about:blank")
        chrome.get(f"{path.as_uri()}{place}")
        return chrome

    return opened
