"""A browser for the tests of pages."""

import os
import shutil
from contextlib import suppress

import pytest
from selenium import webdriver
from selenium.common.exceptions import TimeoutException
from selenium.webdriver.chrome.service import Service
from urllib3.exceptions import HTTPError

SIZES = {"desk": (1280, 900), "phone": (390, 844)}
both_sizes = pytest.mark.parametrize("size", SIZES.values(), ids=SIZES)
_ARGUMENTS = (
    "headless=new",
    "no-sandbox",
    "no-first-run",
    "disable-background-networking",
    "disable-backgrounding-occluded-windows",
    "disable-component-update",
    "disable-dev-shm-usage",
    "disable-gpu",
    "disable-renderer-backgrounding",
    "disable-sync",
)
_SECONDS_TO_LOAD = 20  # pages need a second or two beside other work


def require_browser():
    """The path of the driver. Without a browser tests are skipped; in CI, where nobody would notice, they fail."""
    driver = shutil.which("chromedriver")
    if driver is None or shutil.which("chromium") is None:
        no_browser = pytest.fail if os.environ.get("CI") == "true" else pytest.skip
        no_browser("no chromium and chromedriver on the path: `make browser`, or install chromium and chromium-driver")
    return driver


def new_driver():
    """A browser that nobody sees, which keeps what scripts complain of."""
    path = require_browser()
    options = webdriver.ChromeOptions()
    for argument in _ARGUMENTS:
        options.add_argument(f"--{argument}")
    options.binary_location = shutil.which("chromium")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    options.timeouts = {"pageLoad": 1000 * _SECONDS_TO_LOAD}
    # A page with unsaved labels asks before it is left; nobody is here to answer.
    options.unhandled_prompt_behavior = "accept"
    driver = webdriver.Chrome(options=options, service=Service(path))
    driver.command_executor.client_config.timeout = 2 * _SECONDS_TO_LOAD
    return driver


class Browser:
    """Opens pages, one after another, and starts anew if it hangs while it loads one."""

    def __init__(self):
        self.driver = new_driver()
        self._n_opened = 0

    def open(self, html, folder, size, place=""):
        """Write the HTML to a file, show it on a screen of this size, and return the driver."""
        self._n_opened += 1
        path = folder / f"page{self._n_opened}.html"  # never the address before: it would only move to the place
        path.write_text(html, encoding="utf-8")
        try:
            self._show(f"{path.as_uri()}{place}", size)
        except (TimeoutException, HTTPError):
            self.quit()
            self.driver = new_driver()
            self._show(f"{path.as_uri()}{place}", size)
        return self.driver

    def _show(self, address, size):
        width, height = size
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        # A page with unsaved labels asks before it is left, and a browser that nobody sees may wait for the answer.
        self.driver.execute_script(
            "addEventListener('beforeunload', (event) => event.stopImmediatePropagation(), {capture: true})"
        )
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        self.driver.get(address)

    def quit(self):
        """End the browser, also one that does not answer."""
        with suppress(HTTPError):
            self.driver.quit()
