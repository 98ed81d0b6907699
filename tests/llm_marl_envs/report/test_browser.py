"""Reports in a real browser: layout, colours, hostile text, print."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.charts import odd_charts
from support.chromium import CHROMIUM, Browser
from support.reports import HOSTILE, a_cross_play, a_run
from support.societies import always, plans, played

from llm_marl_envs import make
from llm_marl_envs.core.records import write_jsonl
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.report import write_report


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed (Debian: apt-get install chromium)")
    opened = Browser(tmp_path_factory.mktemp("profile"))
    yield opened
    opened.close()


@pytest.mark.parametrize("width", [1280, 360])
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_it_reads_without_javascript(browser: Browser, tmp_path: Path, width: int, dark: bool):
    page = write_report(a_run(tmp_path, text="word " * 40 + "w" * 400))
    browser.open(page.as_uri(), width=width, dark=dark, scripts=False)
    assert browser.requested() == [page.as_uri()]
    # Nothing is wider than the screen: only tables scroll, inside of their boxes.
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    charts = "[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().height)"
    heights = browser.evaluate(charts)
    assert len(heights) >= 4
    assert min(heights) > 100
    tick = "document.querySelector('svg text').getBoundingClientRect().height"
    assert browser.evaluate(tick) >= 8  # still legible on a phone
    shown = "document.querySelector('details.card[open] pre').getBoundingClientRect().height"
    assert browser.evaluate(shown) > 20
    colour = browser.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(20, 23, 26)") is dark
    browser.screenshot(tmp_path / "page.png")
    assert (tmp_path / "page.png").stat().st_size > 20_000


def test_a_heat_map_is_coloured(browser: Browser, tmp_path: Path):
    a_cross_play(tmp_path / "cross_play.json")
    browser.open(write_report(tmp_path).as_uri(), width=360, scripts=False)
    cells = browser.evaluate(
        "[...document.querySelectorAll('.heat')].map(grid => [...grid.querySelectorAll('td')].map("
        "cell => [cell.innerText, getComputedStyle(cell).backgroundColor]))"
    )
    expected = [["1.00", "0.33", "0.33", "1.00"]] * 2
    assert [[text for text, _ in grid] for grid in cells] == expected
    for grid in cells:
        high, low = grid[0][1], grid[1][1]
        assert high == grid[3][1] != low == grid[2][1]
    assert browser.evaluate("document.documentElement.scrollWidth") <= 360


@pytest.mark.parametrize("width", [1280, 360])
def test_a_society_fits(browser: Browser, tmp_path: Path, width: int):
    env = make("public_goods-v0", n_agents=8, punish=True, choose=True, turns=80)
    seats = env.possible_agents
    team = {**plans(env, "punisher"), seats[0]: always("0"), seats[1]: always(f"{seats[0]} 2")}
    write_jsonl(tmp_path / "episodes.jsonl", [played(env, team)])
    browser.open(write_report(tmp_path).as_uri(), width=width, scripts=False)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    outside = browser.evaluate("""(() => { const svg = document.querySelector('svg.society');
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text, path')].filter(shape => {
            const r = shape.getBoundingClientRect();
            return r.left < box.left - 1 || r.right > box.right + 1
                || r.top < box.top - 1 || r.bottom > box.bottom + 1;
        }).map(shape => shape.outerHTML) })()""")
    assert outside == []
    height = "document.querySelector('.society text').getBoundingClientRect().height"
    assert browser.evaluate(height) >= 8


def test_text_can_be_told_from_its_ground(browser: Browser, tmp_path: Path):
    """The contrast of text, WCAG's 4.5 : 1, in both forms."""
    page = write_report(a_run(tmp_path))
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
        browser.open(page.as_uri(), width=1280, dark=dark)
        assert min(browser.evaluate(program)) > 4.5


@pytest.mark.full
@pytest.mark.parametrize("width", [1280, 360])
def test_no_label_of_a_chart_is_clipped(browser: Browser, tmp_path: Path, width: int):
    report = write_report(a_run(tmp_path)).read_text()
    (tmp_path / "odd.html").write_text(
        re.sub(
            "<main>.*</main>", lambda _: f"<main>{''.join(odd_charts())}</main>", report, flags=re.S
        )
    )
    browser.open((tmp_path / "odd.html").as_uri(), width=width, scripts=False)
    outside = browser.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const box = svg.getBoundingClientRect();
        return [...svg.querySelectorAll('text')].filter(text => {
            const r = text.getBoundingClientRect();
            return r.left < box.left - 0.5 || r.right > box.right + 0.5
                || r.bottom > box.bottom + 1;
        }).map(text => text.textContent) })""")
    assert outside == []
    touching = browser.evaluate("""[...document.querySelectorAll('svg')].flatMap(svg => {
        const ticks = [...svg.querySelectorAll('text')].map(t => t.getBoundingClientRect());
        const near = a => 0.3 * a.height;  // above and below the digits
        return ticks.flatMap((a, i) => ticks.slice(i + 1).filter(b => a.left < b.right - 0.5 &&
            b.left < a.right - 0.5 && a.top < b.bottom - near(a) && b.top < a.bottom - near(a)))
        }).length""")
    assert touching == 0
    assert browser.evaluate("document.documentElement.scrollWidth") <= width


def test_hostile_text_does_nothing_in_a_browser(browser: Browser, tmp_path: Path):
    text = "\n".join(HOSTILE)
    page = write_report(a_run(tmp_path, text=text))
    browser.open(page.as_uri(), width=1280, scripts=True)
    browser.call("Page.captureScreenshot")  # laid out and drawn
    assert browser.evaluate("typeof window.pwned") == "undefined"
    assert browser.requested() == [page.as_uri()]
    assert browser.evaluate("document.querySelectorAll('script,img,iframe,link').length") == 0
    assert browser.evaluate("location.href") == page.as_uri()
    action = browser.evaluate("document.querySelector('.act pre').textContent")
    assert action == visible(text)
    assert not [e for e in browser.events if "Dialog" in e.get("method", "")]


def test_the_policy_holds_even_where_escaping_would_not(browser: Browser, tmp_path: Path):
    page = write_report(a_run(tmp_path))
    attack = "<script>window.pwned = 1</script><img src='http://127.0.0.1:9/x.png'>"
    broken = page.read_text().replace("<main>", f"<main>{attack}")
    page.write_text(broken)
    browser.open(page.as_uri(), width=1280, scripts=True)
    assert browser.evaluate("document.querySelectorAll('script').length") == 1
    assert browser.evaluate("typeof window.pwned") == "undefined"
    blocked = [e["params"] for e in browser.events if e.get("method") == "Network.loadingFailed"]
    assert all(one.get("blockedReason") == "csp" for one in blocked)


def test_closed_episodes_are_printed(browser: Browser, tmp_path: Path):
    page = write_report(a_run(tmp_path, text="line\n" * 60))
    browser.open(page.as_uri(), width=1280)
    closed = browser.pdf()
    browser.evaluate("document.querySelectorAll('.card').forEach(card => card.open = true)")
    opened = browser.pdf()
    assert closed.count(b"/Type /Page\n") == opened.count(b"/Type /Page\n") > 3
