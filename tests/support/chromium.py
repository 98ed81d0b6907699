"""A headless Chromium of the system, driven by Playwright, whose own browsers need a download."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
CHROMIUM = next((path for name in NAMES if (path := shutil.which(name))), None)


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; skips the test where none is installed."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=flags)
        try:
            yield browser
        finally:
            browser.close()


def inaccessible(page: Page) -> list[str]:
    """What axe finds wrong with a page, of any weight."""
    found: Any = Axe().run(page).response
    return [
        f"{rule['id']} ({rule['impact']}): {node['html'][:120]}"
        for rule in found["violations"]
        for node in rule["nodes"]
    ]


def overflow(page: Page) -> int:
    """Pixels by which a page is wider than its window."""
    return page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
