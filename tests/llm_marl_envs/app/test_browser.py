"""The pages in a browser: clicks, the keyboard, a small window, texts that want out, axe."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, ViewportSize, expect
from support.app_site import served
from support.chromium import chromium, inaccessible, overflow
from support.reports import HOSTILE, episode, lines, with_tokens

from llm_marl_envs import list_envs
from llm_marl_envs.core.records import read_jsonl
from llm_marl_envs.play.replay import replay

SMALL, LARGE = 400, 1200
SIZES = [pytest.param(LARGE, marks=pytest.mark.full), SMALL]


def a_run(folder: Path, updates: int) -> None:
    """A run's folder as it looks after some updates; what models said wants out of the page."""
    log = [
        {"step": i, "loss": 0.1, "reward": i / 20, "cost/seconds": 2.0 * i, "time/sampling": 1.0}
        for i in range(1, updates + 1)
    ]
    lines(folder / "log.jsonl", log)
    group = [with_tokens(episode("t/1", 1, "\n".join(HOSTILE)), 0.5, (*HOSTILE, "!"))]
    lines(folder / "transcripts" / f"update-{updates:06d}.jsonl", group)
    (folder / "settings.json").write_text(json.dumps({"settings": {"trainer": {"max_steps": 20}}}))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    a_run(folder / "first", 10)
    a_run(folder / "second", 20)
    return folder


@pytest.fixture(scope="module")
def site(runs: Path) -> Iterator[str]:
    with served([runs]) as address:
        yield address


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser, site: str, request: pytest.FixtureRequest) -> Iterator[Page]:
    """A page of one person; whatever goes wrong in it fails the test."""
    window: ViewportSize = {"width": getattr(request, "param", SMALL), "height": 800}
    context = browser.new_context(viewport=window, base_url=site)
    page, wrong = context.new_page(), []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("request", lambda sent: None if sent.url.startswith(site) else wrong.append(sent.url))
    yield page
    wrong = [text for text in wrong if not text.startswith("data:")]
    assert wrong == []
    context.close()


def sound(page: Page) -> None:
    assert inaccessible(page) == []
    assert overflow(page) <= 0


@pytest.mark.parametrize("page", SIZES, indirect=True)
def test_an_episode_is_played(page: Page, tmp_path: Path) -> None:
    page.goto("/")
    sound(page)
    page.get_by_role("link", name="Play", exact=True).first.click()
    sound(page)
    page.get_by_role("link", name="debate-v0").click()
    page.get_by_label("Seed").fill("3")
    page.get_by_text("Arguments of the environment").click()
    page.get_by_label("n_agents").fill("4")
    sound(page)
    page.get_by_role("button", name="Show the seats for these").click()
    seats = [page.get_by_label(f"debater_{n}").input_value() for n in range(4)]
    assert seats == ["expert", "expert", "you", "expert"]  # as it was before there was a fourth
    page.get_by_role("button", name="Begin").click()
    hostile = "\n".join(HOSTILE).replace("\ud800", "").replace("\x00", "").replace("\r", "")
    page.get_by_label("Your action, turn 1").fill(hostile)
    sound(page)
    page.get_by_role("button", name="Send").click()
    page.get_by_label("Your action, turn 2").fill("Answer: nothing")
    page.get_by_text("What each seat sees").click()
    page.locator("summary", has_text="debater_0").click()
    sound(page)
    page.get_by_role("button", name="Send").click()
    page.get_by_role("heading", name="the experts'").wait_for()
    assert page.evaluate("typeof window.pwned") == "undefined"
    page.get_by_text("What each seat sees").click()
    page.locator("summary", has_text="debater_1").click()
    sound(page)
    kept = saved(page, tmp_path)
    assert [t.action for t in kept.trajectory("debater_2")] == [hostile, "Answer: nothing"]


def saved(page: Page, folder: Path):
    """The episode that the page lets one save; it can be played again."""
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the transcript").click()
    download.value.save_as(folder / "episode.jsonl")
    (kept,) = read_jsonl(folder / "episode.jsonl")
    if kept.failure is None:
        assert [t.reward for t in replay(kept).turns] == [t.reward for t in kept.turns]
    return kept


def test_the_keyboard_is_enough(page: Page) -> None:
    page.goto("/play/coop_coding-v0")
    page.keyboard.press("Tab")  # past what stands on every page
    page.keyboard.press("Enter")
    names = []
    for _ in range(40):
        page.keyboard.press("Tab")
        names.append(page.evaluate("document.activeElement.innerText || ''").strip())
        if names[-1] == "Begin":
            break
    assert names[-1] == "Begin"
    page.keyboard.press("Enter")
    expect(page.get_by_label("Your action, turn 1")).to_be_focused()  # without a Tab
    page.keyboard.type("def solve(xs):\n    return xs")
    page.keyboard.press("Control+Enter")
    page.get_by_role("link", name="Save the transcript").wait_for()
    assert "def solve(xs):" in page.locator(".chat .own pre").first.inner_text()


@pytest.mark.parametrize("page", SIZES, indirect=True)
def test_a_run_is_watched_while_it_trains(page: Page, runs: Path) -> None:
    a_run(runs / "first", 10)
    page.goto("/watch")
    sound(page)
    page.get_by_role("link", name="first").click()
    page.get_by_text("update 10 of 20").wait_for()
    sound(page)
    card = page.locator("details.card").first
    card.locator("details.told").click()
    a_run(runs / "first", 12)
    page.get_by_text("update 12 of 20").wait_for(timeout=60_000)
    assert card.locator("details.told").get_attribute("open") is not None  # it stays unfolded
    assert page.evaluate("typeof window.pwned") == "undefined"
    assert page.locator(".t.p4").count() > 0
    sound(page)


def test_a_page_that_cannot_be_renewed_says_why(browser: Browser, site: str, runs: Path) -> None:
    page = browser.new_context(base_url=site).new_page()
    page.goto(f"/watch/runs?run={runs.name}/first")
    page.route("**/watch/**", lambda route: route.fulfill(status=404, body="It has ended."))
    page.get_by_text("It has ended.").wait_for()
    page.context.close()


def test_runs_over_one_another(page: Page) -> None:
    page.goto("/watch")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Watch").click()
    page.get_by_text("runs/first: reward").or_(page.get_by_text("first: reward")).first.wait_for()
    sound(page)


def test_teams_are_compared(page: Page) -> None:
    page.goto("/compare/debate-v0")
    sound(page)
    page.get_by_role("button", name="Play both").click()
    page.get_by_text("expert, convention by lot").first.wait_for()
    page.locator(".card").wait_for()
    sound(page)
    page.goto("/compare/debate-v0")
    page.get_by_label("expert, first convention").last.check()
    page.get_by_label("says nothing").last.check()
    page.get_by_label("Tasks of each pairing").fill("2")
    page.get_by_role("button", name="Play all pairings").click()
    page.locator(".heat").first.wait_for(timeout=60_000)
    sound(page)


def test_two_people_at_once(browser: Browser, site: str) -> None:
    pages = [browser.new_context(base_url=site).new_page() for _ in range(2)]
    for page in pages:
        page.goto("/play/debate-v0")
        page.get_by_role("button", name="Begin").click()
    for name, page in zip("ab", pages, strict=True):
        page.get_by_label("Your action, turn 1").fill(f"only {name} said this")
        page.get_by_role("button", name="Send").click()
        page.get_by_label("Your action, turn 2").wait_for()
    for own, other, page in (("a", "b", pages[0]), ("b", "a", pages[1])):
        page.get_by_text("What each seat sees").click()
        assert f"only {own} said this" in page.content()
        assert f"only {other} said this" not in page.content()


@pytest.mark.long
@pytest.mark.parametrize("env_id", list_envs())
def test_every_environment_by_clicks(
    browser: Browser, site: str, tmp_path: Path, env_id: str
) -> None:
    page = browser.new_context(viewport={"width": SMALL, "height": 800}, base_url=site).new_page()
    page.goto(f"/play/{env_id}")
    sound(page)
    page.get_by_role("button", name="Begin").click()
    save, send = (
        page.get_by_role("link", name="Save the transcript"),
        page.get_by_role("button", name="Send"),
    )
    for _ in range(500):
        save.or_(send).first.wait_for(timeout=120_000)
        if save.count():
            break
        sound(page)
        page.locator("textarea").fill("Answer: 1")
        send.click()
    kept = saved(page, tmp_path)
    assert kept.env_id == env_id
    assert "Answer: 1" in [turn.action for turn in kept.turns]
    page.wait_for_function("document.getElementById('part').dataset.source === ''", timeout=60_000)
    sound(page)


@pytest.mark.long
def test_a_real_run_is_watched_while_it_trains(browser: Browser, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "llm_marl_envs.cli", "train", "--config", "matrix_game_tiny"]
    run = tmp_path / "runs" / "game"
    options = {"output_dir": run, "max_steps": 40, "transcript_every": 5}
    for key, value in options.items():
        command += ["--override", f"{key}={value}"]
    with served([tmp_path / "runs"]) as address, open(tmp_path / "said.txt", "wb") as said:
        training = subprocess.Popen(command, stdout=said, stderr=said)
        try:
            while not (run / "log.jsonl").is_file():
                assert training.poll() is None, (tmp_path / "said.txt").read_text()
                time.sleep(0.2)
            page = browser.new_page(viewport={"width": SMALL, "height": 800}, base_url=address)
            page.goto("/watch")
            page.get_by_role("link", name="game").click()
            page.get_by_text("of 40").first.wait_for(timeout=60_000)
            assert training.poll() is None  # it trains while it is watched
            page.get_by_text("ended").wait_for(timeout=300_000)
            page.get_by_text("The newest recorded episodes").wait_for()
            sound(page)
        finally:
            training.kill()
            training.wait()
