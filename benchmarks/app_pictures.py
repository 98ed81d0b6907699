"""The pictures of docs/app.md: pages of `llm-marl app` in the system's Chromium.

python -m benchmarks.app_pictures runs      # a folder with what `make demo` wrote
"""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

DOCS = Path(__file__).parents[1] / "docs"
WIDTH, HEIGHT = 900, 760
SAID = "I know that dial 3 is gold, or a star. Which do you two name, colours or shapes?"


def play(page: Page) -> None:
    """A turn of a debate, seen from one seat."""
    page.goto("/play/debate-v0?seed=0")
    page.get_by_role("button", name="Begin").click()
    page.get_by_label("Your action, turn 1").fill(SAID)
    page.get_by_role("button", name="Send").click()
    page.get_by_label("Your action, turn 2").wait_for()


def watch(page: Page) -> None:
    """The demo's run."""
    page.goto("/watch")
    page.get_by_role("link", name="train").first.click()
    page.get_by_role("heading", name="Curves").wait_for()


def compare(page: Page) -> None:
    """The demo's team beside experts, on a task where these drew conventions that do not fit."""
    for seed in range(20):
        page.goto(f"/compare/coop_coding-v0?seed={seed}&arg.split=test")
        for seat in ("helper_0", "main_0"):
            field = page.locator(f"select[name='right.{seat}']")
            team = field.locator("option", has_text="team").first.get_attribute("value")
            field.select_option(team)
        page.get_by_role("button", name="Play both").click()
        page.locator(".card").first.wait_for(timeout=120_000)
        left, right = (page.locator(".pair section").nth(n).inner_text() for n in (0, 1))
        if "not solved" in left and "not solved" not in right:
            return


def main() -> None:
    """Serve the pages and take the pictures."""
    from support.app_site import served

    raw = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("folder", type=Path, help="with what `make demo` wrote")
    options = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with served([options.folder]) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        window = {"width": WIDTH, "height": HEIGHT}
        for take in (play, watch, compare):
            page = browser.new_page(viewport=window, base_url=address)  # type: ignore[arg-type]
            take(page)
            page.screenshot(path=DOCS / f"app_{take.__name__}.png")
        browser.close()


if __name__ == "__main__":
    main()
