"""Headless Chromium for tests, by chromedriver's WebDriver interface and nothing but the standard library.

    with browser() as page:
        page.open(url)
        page.script("return document.title")

Tests that use it are skipped where chromium or chromedriver is not installed (Debian: chromium, chromium-driver).
"""

import contextlib
import json
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

import pytest

_OPTIONS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
            "--no-first-run", "--disable-background-networking", "--disable-component-update"]
_TIMEOUT = 60  # seconds


@contextlib.contextmanager
def browser():
    """Yields a Page of a new browser."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("chromium and chromedriver are not installed")
    with tempfile.TemporaryDirectory() as profile, subprocess.Popen(
            [driver, "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            matches = (re.search(r"successfully on port (\d+)", line) for line in process.stdout)
            port = next(match[1] for match in matches if match)
            options = dict(binary=chromium, args=[*_OPTIONS, f"--user-data-dir={profile}"])
            capabilities = dict(alwaysMatch={"goog:chromeOptions": options, "goog:loggingPrefs": dict(browser="ALL")})
            url = f"http://127.0.0.1:{port}/session"
            session = _post(url, dict(capabilities=capabilities))["sessionId"]
            try:
                yield Page(f"{url}/{session}")
            finally:
                _send(urllib.request.Request(f"{url}/{session}", method="DELETE"))
        finally:
            process.terminate()


class Page:
    """A page in the browser, with the actions that tests need."""

    def __init__(self, session):
        self._session = session

    def open(self, url):
        _post(f"{self._session}/url", dict(url=url))

    def script(self, script, *arguments):
        """Runs a function body with `arguments` and returns its value."""
        return _post(f"{self._session}/execute/sync", dict(script=script, args=arguments))

    def wait_for(self, script, *arguments, seconds=_TIMEOUT):
        """Runs `script` until its value is true, and returns that value."""
        end = time.monotonic() + seconds
        while not (value := self.script(script, *arguments)):
            assert time.monotonic() < end, f"never true: {script}: {self.script('return document.body.innerText')}"
            time.sleep(0.02)
        return value

    def click(self, text, selector="nav button"):
        """Clicks the button with a text among those that a CSS selector matches."""
        self.wait_for("""const button = [...document.querySelectorAll(arguments[1])].find(
            (button) => button.textContent === arguments[0] && !button.disabled);
            if (button) button.click();
            return Boolean(button);""", text, selector)

    def fill(self, name, value):
        """Sets a field of the form."""
        self.script("""const field = document.querySelector(`[name="${arguments[0]}"]`);
            field.value = arguments[1];
            field.dispatchEvent(new Event("input"));""", name, value)

    def show(self, width, height, scheme):
        """Sets the window's size in pixels, as on a phone of that width, and the color scheme, "light" or "dark"."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                      mobile=True)
        self.devtools("Emulation.setEmulatedMedia", features=[dict(name="prefers-color-scheme", value=scheme)])

    def devtools(self, command, **parameters):
        return _post(f"{self._session}/goog/cdp/execute", dict(cmd=command, params=parameters))

    def errors(self):
        """The browser's log: errors of the script, and resources that the page was not allowed to load."""
        return [entry["message"] for entry in _post(f"{self._session}/se/log", dict(type="browser"))
                if entry["level"] == "SEVERE"]


def _post(url, value):
    return _send(urllib.request.Request(url, json.dumps(value).encode(), {"Content-Type": "application/json"}))


def _send(request):
    with urllib.request.urlopen(request, timeout=_TIMEOUT) as response:
        return json.load(response)["value"]
