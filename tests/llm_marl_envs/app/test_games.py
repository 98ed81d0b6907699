"""Episodes with people in them: what they are asked, what comes of it, what stops them."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.toys import WordPair, shaky

from llm_marl_envs import make
from llm_marl_envs.app import work as work_module
from llm_marl_envs.app.folders import Folders
from llm_marl_envs.app.games import Game, Setup
from llm_marl_envs.app.matches import Match, Pairings
from llm_marl_envs.app.players import Players, Seated
from llm_marl_envs.app.views import MOST, all_bubbles, beside, bubbles, judged, rewards
from llm_marl_envs.app.work import StoppedError, TooManyError, Work, Works
from llm_marl_envs.core.records import episode_from_dict, episode_to_dict
from llm_marl_envs.core.specs import register
from llm_marl_envs.play.replay import replay
from llm_marl_envs.policies.base import Policy

PLAYERS = Players(Folders([]))
PATIENCE = 30.0


def a_game(env_id: str = "debate-v0", kwargs: Any = None, task: int = 3, **seats: str) -> Game:
    setup = Setup(env_id=env_id, env_kwargs=kwargs or {}, task=task, seed=5)
    usual = dict.fromkeys(setup.env().possible_agents, "agreed")
    game = Game(setup, PLAYERS, {**usual, **seats})
    game.begin()
    return game


def say(game: Game, text: str) -> None:
    game.rest(PATIENCE)
    assert game.waiting
    assert game.answer(game.question, text)


def ended(game: Work) -> None:
    with game.changed:
        assert game.changed.wait_for(lambda: game.done, timeout=PATIENCE)


def test_an_episode_with_one_person() -> None:
    game = a_game(debater_1="you")
    game.rest(PATIENCE)
    assert game.asked is not None
    assert (game.asked.agent, game.asked.turn, game.seats) == ("debater_1", 0, ("debater_1",))
    assert game.asked.messages == game.chats()["debater_1"]
    say(game, "I know nothing.")
    say(game, "Answer: nobody")
    ended(game)
    assert game.error is None
    assert game.episode is not None
    assert game.episode.trajectory("debater_1")[0].action == "I know nothing."
    again = replay(episode_from_dict(json.loads(json.dumps(episode_to_dict(game.episode)))))
    assert [t.reward for t in again.turns] == [t.reward for t in game.episode.turns]
    # The experts play the same task from the same seed, and solve it.
    assert game.experts is not None
    assert (game.experts.task_id, game.experts.seed) == (game.episode.task_id, game.episode.seed)
    assert game.experts.success is True


def test_several_seats_of_one_person_are_asked_one_after_the_other() -> None:
    game = a_game("coop_coding-v0", helper_0="you", main_0="you")
    agents = []
    for _ in range(2):
        game.rest(PATIENCE)
        assert game.asked is not None
        agents.append(game.asked.agent)
        say(game, "def aux(x):\n    return x")
    ended(game)
    assert agents == ["helper_0", "main_0"]


def test_nobody_sits_there() -> None:
    game = a_game()
    ended(game)
    assert game.episode is not None
    assert game.episode.success is True
    table = rewards(game.episode)
    assert [row[:2] for row in table.rows] == [(f"debater_{n}", "1.00") for n in range(3)]
    says = judged(game.episode)
    assert says is not None
    assert ("right", "yes", "yes", "yes") in says.rows


def test_a_second_click_answers_nothing() -> None:
    game = a_game(debater_0="you")
    game.rest(PATIENCE)
    first = game.question
    assert game.answer(first, "once")
    assert not game.answer(first, "twice")
    game.rest(PATIENCE)
    assert not game.answer(first, "late")
    say(game, "Answer: x")
    ended(game)
    assert game.episode is not None
    assert [t.action for t in game.episode.trajectory("debater_0")] == ["once", "Answer: x"]


def test_leaving_ends_the_thread() -> None:
    before = threading.active_count()
    works = Works()
    game = Game(Setup(env_id="debate-v0", env_kwargs={}), PLAYERS, dict.fromkeys(SEATS, "you"))
    key = works.begin(game)
    game.rest(PATIENCE)
    works.leave(key)
    ended(game)
    assert works.get(key) is None
    assert game.episode is None
    assert game.error
    for _ in range(200):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before


SEATS = [f"debater_{n}" for n in range(3)]


@pytest.mark.usefixtures("own_registry")
def test_an_environment_that_raises_is_no_end_of_the_program() -> None:
    register("breaks_in_app-v0", shaky(WordPair, lambda env: True), api=None)
    setup = Setup(env_id="breaks_in_app-v0", env_kwargs={})
    agents = make("breaks_in_app-v0").possible_agents
    game = Game(setup, PLAYERS, dict.fromkeys(agents, "silent"))
    game.begin()
    ended(game)
    assert game.error is None
    assert game.episode is not None
    assert game.episode.failed
    assert game.episode.failure is not None
    assert "\n" not in game.episode.failure  # not where in this machine's files


def test_works_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    works = Works(most=2, idle_seconds=100.0)
    waiting = dict.fromkeys(SEATS, "you")
    setup = Setup(env_id="debate-v0", env_kwargs={})
    first, second, third = (Game(setup, PLAYERS, waiting) for _ in range(3))
    keys = [works.begin(game) for game in (first, second)]
    assert len({*keys}) == 2
    assert min(map(len, keys)) >= 20
    with pytest.raises(TooManyError):
        works.begin(third)
    second.close()
    ended(second)
    works.begin(third)  # in the place of what has ended
    assert works.get(keys[0]) is first
    assert works.get(keys[1]) is None
    first.used -= 101
    works.begin(Game(setup, PLAYERS, waiting))
    assert first.closed  # nobody looked at it
    works.close()
    monkeypatch.setattr(work_module, "LONGEST_SECONDS", 0.0)
    late = Game(setup, PLAYERS, dict.fromkeys(SEATS, "silent"))
    late.begin()
    ended(late)
    assert late.episode is None
    assert "stopped" in (late.error or "")
    asking = Game(setup, PLAYERS, waiting)
    monkeypatch.setattr(work_module, "LONGEST_SECONDS", time.monotonic() - asking.begun + 0.5)
    asking.begin()
    ended(asking)  # though nobody answers
    assert "stopped" in (asking.error or "")


def test_what_was_left_while_it_waits_for_weights_asks_no_model() -> None:
    asked: list[object] = []
    policy = SimpleNamespace(act=lambda requests: asked.append(requests) or [])
    lock, game = threading.Lock(), a_game(debater_0="you")
    seated = Seated(cast("Policy", policy), lock, game)
    with lock, ThreadPoolExecutor(1) as pool:
        acting = pool.submit(seated.act, [])
        while not acting.running():
            time.sleep(0.01)
        time.sleep(0.1)  # it waits for the lock by now
        game.close()
        lock.release()
        assert isinstance(acting.exception(PATIENCE), StoppedError)
        lock.acquire()
    assert asked == []


def test_a_long_episode_makes_a_small_page() -> None:
    setup = Setup(env_id="commons-v0", env_kwargs={"turns": 120})
    game = Game(setup, PLAYERS, dict.fromkeys(setup.env().possible_agents, "random"))
    game.begin()
    ended(game)
    assert game.episode is not None
    chats = game.chats()
    seats = list(chats)
    for agent, shown in all_bubbles(chats).items():
        assert len(shown) <= MOST // len(chats) + 2
        assert shown[0].text == chats[agent][0].content  # the rules
        assert shown[-1].text == chats[agent][-1].content
    assert len(bubbles(seats[0], chats[seats[0]])) == MOST + 1
    (card,) = beside({"this": game.episode}).cards
    shown = card.columns[0].turns
    assert [t.action for t in shown] == [t.action for t in game.episode.turns[-MOST:]]
    assert str(MOST) in card.heading
    short = replace(game.episode, turns=game.episode.turns[:MOST])
    assert str(MOST) not in beside({"this": short}).cards[0].heading


def test_what_was_played_to_its_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The time is up between the last action and the experts' episode."""
    played = Setup.play

    def late(setup: Setup, *arguments: Any) -> Any:
        episode = played(setup, *arguments)
        monkeypatch.setattr(work_module, "LONGEST_SECONDS", 0.0)
        return episode

    monkeypatch.setattr(Setup, "play", late)
    game = a_game()
    ended(game)
    assert game.episode is not None
    assert game.episode.success is True
    assert game.experts is None
    assert "stopped" in (game.error or "")


def test_two_teams_play_the_same_task() -> None:
    setup = Setup(env_id="coop_coding-v0", env_kwargs={}, task=2, seed=4)
    seats = list(setup.env().possible_agents)
    sides = {"left": dict.fromkeys(seats, "agreed"), "right": dict.fromkeys(seats, "silent")}
    match = Match(setup, PLAYERS, sides)
    match.begin()
    ended(match)
    left, right = match.episodes.values()
    assert (left.task_id, left.seed) == (right.task_id, right.seed)
    assert (left.success, right.success) == (True, False)
    with pytest.raises(ValueError, match="helper_0"):  # a person cannot be compared
        Match(setup, PLAYERS, {"left": dict.fromkeys(seats, "you")})


def test_members_change_places() -> None:
    setup = Setup(env_id="coop_coding-v0", env_kwargs={"split": "test"})
    work = Pairings(setup, PLAYERS, ["agreed", "silent", "agreed"], 4)
    work.begin()
    ended(work)
    assert work.error is None
    assert work.result is not None
    assert work.played == 16
    assert work.result.success_matrix == ((1.0, 0.0), (0.0, 0.0))
    for teams, tasks in ((["agreed"], 4), (["agreed", "silent"], 0), (["agreed", "x"], 4)):
        with pytest.raises(ValueError, match=r"teams|tasks|player"):
            Pairings(setup, PLAYERS, teams, tasks)
