"""Reports in a real browser: layout, colours, hostile text, print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser
from support.charts import odd_charts
from support.chromium import chromium, inaccessible, overflow
from support.reports import HOSTILE, a_cross_play, a_run
from support.societies import always, plans, played

from llm_marl_envs import make
from llm_marl_envs.core.records import write_jsonl
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.report import write_report


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


class Visit:
    """A page, the addresses that it asked for, why some were refused, and what it wanted to say."""

    def __init__(
        self, browser: Browser, file: Path, *, width: int, dark: bool = False, scripts: bool = True
    ) -> None:
        self.page = browser.new_page(
            viewport={"width": width, "height": 900},
            color_scheme="dark" if dark else "light",
            java_script_enabled=scripts,
        )
        self.requested: list[str] = []
        self.refused: list[str | None] = []
        self.dialogs: list[str] = []
        self.page.on("request", lambda request: self.requested.append(request.url))
        self.page.on("requestfailed", lambda request: self.refused.append(request.failure))
        self.page.on("dialog", lambda dialog: self.dialogs.append(dialog.message))
        self.page.goto(file.as_uri())

    def evaluate(self, program: str) -> Any:
        return self.page.evaluate(program)


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_reads_without_javascript(browser: Browser, tmp_path: Path, width: int, dark: bool):
    report = write_report(a_run(tmp_path, text="word " * 40 + "w" * 400))
    visit = Visit(browser, report, width=width, dark=dark, scripts=False)
    assert visit.requested == [report.as_uri()]
    # Nothing is wider than the screen: only tables scroll, inside of their boxes.
    assert overflow(visit.page) <= 0
    charts = "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    heights = visit.evaluate(charts)
    assert len(heights) >= 4
    assert min(heights) > 100
    tick = "document.querySelector('svg text').getBoundingClientRect().height"
    assert visit.evaluate(tick) >= 8  # still legible on a phone
    shown = "document.querySelector('details.card[open] pre').getBoundingClientRect().height"
    assert visit.evaluate(shown) > 20
    colour = visit.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(20, 23, 26)") is dark
    visit.page.screenshot(path=tmp_path / "page.png", full_page=True)
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_a_heat_map_is_coloured(browser: Browser, tmp_path: Path):
    a_cross_play(tmp_path / "cross_play.json")
    visit = Visit(browser, write_report(tmp_path), width=360, scripts=False)
    cells = visit.evaluate(
        "[...document.querySelectorAll('.heat')].map(grid => [...grid.querySelectorAll('td')].map("
        "cell => [cell.innerText, getComputedStyle(cell).backgroundColor]))"
    )
    expected = [["1.00", "0.33", "0.33", "1.00"]] * 2
    assert [[text for text, _ in grid] for grid in cells] == expected
    for grid in cells:
        high, low = grid[0][1], grid[1][1]
        assert high == grid[3][1] != low == grid[2][1]
    assert overflow(visit.page) <= 0


@pytest.mark.parametrize("width", [1280, 360])
def test_a_society_fits(browser: Browser, tmp_path: Path, width: int):
    env = make("public_goods-v0", n_agents=8, punish=True, choose=True, turns=80)
    seats = env.possible_agents
    team = {**plans(env, "punisher"), seats[0]: always("0"), seats[1]: always(f"{seats[0]} 2")}
    write_jsonl(tmp_path / "episodes.jsonl", [played(env, team)])
    visit = Visit(browser, write_report(tmp_path), width=width, scripts=False)
    assert overflow(visit.page) <= 0
    outside = visit.evaluate("""(() => { const svg = document.querySelector('svg.society');
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text, path')].filter(shape => {
            const r = shape.getBoundingClientRect();
            return r.left < box.left - 1 || r.right > box.right + 1
                || r.top < box.top - 1 || r.bottom > box.bottom + 1;
        }).map(shape => shape.outerHTML) })()""")
    assert outside == []
    height = "document.querySelector('.society text').getBoundingClientRect().height"
    assert visit.evaluate(height) >= 8


def test_text_can_be_told_from_its_ground(browser: Browser, tmp_path: Path):
    """The contrast of text, WCAG's 4.5 : 1, in both forms."""
    report = write_report(a_run(tmp_path))
    program = """(() => {
        const light = c => { const s = c.match(/[\\d.]+/g).slice(0, 3).map(v => v / 255)
            .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
            return 0.2126 * s[0] + 0.7152 * s[1] + 0.0722 * s[2] };
        const ground = light(getComputedStyle(document.body).backgroundColor);
        return ['body', '.note', 'nav a', '.term', 'small', 'svg text'].map(q => {
            const style = getComputedStyle(document.querySelector(q));
            const ink = light(q === 'svg text' ? style.fill : style.color);
            return (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05) }) })()"""
    for dark in (False, True):
        visit = Visit(browser, report, width=1280, dark=dark)
        assert min(visit.evaluate(program)) > 4.5


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 360])
def test_no_label_of_a_chart_is_clipped(browser: Browser, tmp_path: Path, width: int):
    report = write_report(a_run(tmp_path)).read_text()
    (tmp_path / "odd.html").write_text(
        re.sub(
            "<main>.*</main>", lambda _: f"<main>{''.join(odd_charts())}</main>", report, flags=re.S
        )
    )
    visit = Visit(browser, (tmp_path / "odd.html"), width=width, scripts=False)
    outside = visit.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const r = text.getBoundingClientRect();
            return r.left < box.left - 0.5 || r.right > box.right + 0.5
                || r.bottom > box.bottom + 1;
        }).map(text => text.textContent) })""")
    assert outside == []
    touching = visit.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const ticks = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
        const near = a => 0.3 * a.height;  // above and below the digits
        return ticks.flatMap((a, i) => ticks.slice(i + 1).filter(b => a.left < b.right - 0.5 &&
            b.left < a.right - 0.5 && a.top < b.bottom - near(a) && b.top < a.bottom - near(a)))
        }).length""")
    assert touching == 0
    assert overflow(visit.page) <= 0


def test_hostile_text_does_nothing_in_a_browser(browser: Browser, tmp_path: Path):
    text = "\n".join(HOSTILE)
    report = write_report(a_run(tmp_path, text=text))
    visit = Visit(browser, report, width=1280, scripts=True)
    visit.page.screenshot()  # laid out and drawn
    assert visit.evaluate("typeof window.pwned") == "undefined"
    assert visit.requested == [report.as_uri()]
    assert visit.evaluate("document.querySelectorAll('script,img,iframe,link').length") == 0
    assert visit.evaluate("location.href") == report.as_uri()
    action = visit.evaluate("document.querySelector('.act pre').textContent")
    assert action == visible(text)
    assert visit.dialogs == []


def test_the_policy_holds_even_where_escaping_would_not(browser: Browser, tmp_path: Path):
    report = write_report(a_run(tmp_path))
    attack = "<script>window.pwned = 1</script><img src='http://127.0.0.1:9/x.png'>"
    broken = report.read_text().replace("<main>", f"<main>{attack}")
    report.write_text(broken)
    visit = Visit(browser, report, width=1280, scripts=True)
    assert visit.evaluate("document.querySelectorAll('script').length") == 1
    assert visit.evaluate("typeof window.pwned") == "undefined"
    assert visit.refused == ["csp"]


def test_closed_episodes_are_printed(browser: Browser, tmp_path: Path):
    report = write_report(a_run(tmp_path, text="line\n" * 60))
    visit = Visit(browser, report, width=1280)
    closed = visit.page.pdf(print_background=True)
    visit.evaluate("document.querySelectorAll('.card').forEach(card => card.open = true)")
    opened = visit.page.pdf(print_background=True)
    assert closed.count(b"/Type /Page\n") == opened.count(b"/Type /Page\n") > 3


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_axe_finds_nothing(browser: Browser, tmp_path: Path, dark: bool):
    a_cross_play(tmp_path / "cross_play.json")
    visit = Visit(browser, write_report(a_run(tmp_path)), width=1280, dark=dark)
    assert inaccessible(visit.page) == []
