"""The study of presets: its arms and measures are what they say, the page holds its tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.pages import measured
from support.paths import ROOT

from llm_marl_envs import make
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.envs.games import tic_tac_toe_rules as tictactoe
from llm_marl_envs.envs.games.tic_tac_toe import planned
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.named import Context, named_policy
from llm_marl_envs.policies.scripted import SilentPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it

FILES = sorted((ROOT / "benchmarks" / "results" / "presets").glob("*.json"))
RUNS: list[dict[str, Any]] = [read_json(path) for path in FILES]
PRESETS = (
    "referential",
    "trust_split",
    "agents_net",
    "tic_tac_toe",
    "commons",
    "public_goods",
    "donor",
    "debate_leader",
)
PAGES = {"debate_leader": "debate"}
"""Of environments that are called otherwise."""
PLAYERS: dict[str, tictactoe.Player] = {
    "greedy": lambda board, _: {planned("greedy", board): 1.0},
    "half": lambda board, _: {tictactoe.best_move(board): 0.5},  # else no cell's name
}


@pytest.fixture
def there(bench_module: Callable[[str], Any]) -> Any:
    """The modules of the study."""
    names = ("study", "__main__", *PRESETS)
    return SimpleNamespace(**{one.strip("_"): bench_module(f"presets.{one}") for one in names})


@pytest.fixture
def run(there: Any) -> Callable[..., Any]:
    """The run file of a preset."""
    from trainers.train import read_run

    return lambda name, *changes: read_run(f"{name}_tiny", changes)


def runs_of(study: Any) -> list[dict[str, Any]]:
    """Those of the seeds that are reported."""
    seeds = range(study.first_seed, study.first_seed + study.seeds)
    return [one for one in RUNS if one["preset"] == study.preset and one["seed"] in seeds]


# -- files and page --------------------------------------------------------------------------------
@pytest.mark.parametrize("name", PRESETS)
def test_the_page_holds_the_table_of_the_files(there: Any, name: str):
    page = (ROOT / "docs" / "tiny_presets.md").read_text()
    study = getattr(there, name).STUDY
    mine = runs_of(study)
    assert {one["arm"] for one in mine} == set(study.arms)
    assert there.study.table(study, mine) in page, (
        f"python -m benchmarks.presets --presets {study.preset}"
    )


@pytest.mark.parametrize("name", PRESETS)
def test_ranges_are_those_of_the_files(there: Any, name: str):
    """In the page's first table, on the environment's page and in the run file."""
    study = getattr(there, name).STUDY
    row = there.study.spread(study, runs_of(study))
    assert f"{row} " in (ROOT / "docs" / "tiny_presets.md").read_text()
    _, _, what, before, after, _, _ = map(str.strip, row.split("|"))
    file = (ROOT / "trainers" / "presets" / f"{study.preset}.yaml").read_text()
    assert f"{what} on `test` {before} -> {after} ({study.seeds} fresh seeds" in file
    text = measured(PAGES.get(name, name))
    assert f"was {before} before training and {after} after." in " ".join(text.split())


@pytest.mark.parametrize("name", PRESETS)
def test_runs_of_a_seed_begin_with_the_same_weights(there: Any, name: str):
    study = getattr(there, name).STUDY
    arms = {"preset", "shuffled", *study.changed}
    begun: dict[int, list[Any]] = {}
    for one in runs_of(study):
        if one["arm"] in arms:
            begun.setdefault(one["seed"], []).append(one["before"])
    assert all(one == points[0] for points in begun.values() for one in points)
    assert [len(points) for points in begun.values()] == [len(arms)] * study.seeds


def test_the_page_holds_the_leader_with_the_difficulty_schedule(there: Any):
    """Beside the same seeds without it."""
    page = (ROOT / "docs" / "tiny_presets.md").read_text()
    study = there.debate_leader.STUDY
    places, rows, gains = ("own/success", "own/by seat"), [], []
    for seed in (110, 111, 112):
        name = f"{study.preset}-preset-{seed}.json"
        kinds = ("difficulty", "fresh")
        runs = [
            read_json(ROOT / "benchmarks" / "results" / "presets" / kind / name) for kind in kinds
        ]
        assert runs[0]["overrides"] == ["schedules={difficulty: {highest: 0.75}}"]
        assert not runs[1].get("overrides")
        cells = [there.study.cell(run, place) for run in runs for place in places]
        rows.append(f"| {seed} | {' | '.join(cells)} |")
        gained = [there.study.number(run["after"], places[0]) for run in runs]
        gains.append(f"{gained[0] - gained[1]:.3f}")
    assert "\n".join(rows) in page
    assert f"{gains[0]}, {gains[1]} and {gains[2]}" in " ".join(page.split())


def test_the_table_by_hand(there: Any):
    def point(pay: float) -> dict[str, Any]:
        return {"heard": {"return": pay, "legal": 1.0}, "beside": {"liar": 0.25}}

    runs = [
        {"arm": "responder", "seed": 100, "after": point(0.6)},
        {"arm": "preset", "seed": 100, "before": point(0.4), "after": point(0.6)},
        {"arm": "preset", "seed": 101, "before": point(0.5), "after": point(0.5)},
    ]
    lines = there.study.table(there.trust_split.STUDY, runs).splitlines()
    assert lines[2] == (
        "| preset | 100 | 0.40 -> 0.60 | - | - | 1.00 -> 1.00 | - | - | - | 0.25 -> 0.25 | - |"
    )
    assert lines[4] == "| responder | 100 | 0.60 | - | - | 1.00 | - | - | - | 0.25 | - |"
    assert lines[6:] == ["- preset, rise of return: 0.10 [too few runs: 2]"]


# -- arms ------------------------------------------------------------------------------------------
def test_every_arm_changes_the_preset_as_it_says(
    there: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """What is handed on to be trained; nothing is."""
    found: dict[tuple[str, str], list[str]] = {}

    def noted(study: Any, args: Any, arm: str, seed: int, changes: Any = (), **_: Any) -> None:
        found[study.preset, arm] = list(changes)

    monkeypatch.setattr(there.study, "trained", noted)  # before any `arms` is asked for
    monkeypatch.setattr(there.trust_split, "trained", noted)
    monkeypatch.setattr(there.trust_split, "team_of", lambda *_: "teams/105")
    for study in there.main.STUDIES.values():
        for arm, make_run in study.arms.items():
            if arm != "crossed":
                make_run(study, None, arm, 105)
    assert len(found) == 21
    for (preset, arm), changes in found.items():
        name = preset.removesuffix("_tiny")
        plain, changed = run(name), run(name, *changes)
        new = {k: v for k, v in changed["trainer"].items() if plain["trainer"].get(k) != v}
        assert (
            new
            == {
                "preset": {},
                "shuffled": {"shuffle_rewards": True},
                "responder": {"credit": "own"},
                "own": {"credit": "own"},
                "alignment": {
                    "credit": "own",
                    "algorithm": {"name": "advantage_alignment", "weight": 1.0},
                },
            }[arm]
        )
        others = {"player_1": "teams/105"} if arm == "responder" else plain.get("partners")
        assert changed.get("partners") == others
        assert plain["env_kwargs"]["split"] == "train"
        env = there.study.held_out(changed).unwrapped
        assert {env.source[i].split for i in range(len(env.source))} == {"test"}


def test_a_listener_hears_the_speaker_of_the_seed_before(
    there: Any, monkeypatch: pytest.MonkeyPatch
):
    asked: list[int] = []
    study = there.referential.STUDY
    monkeypatch.setattr(there.referential, "team_of", lambda _, __, seed: asked.append(seed))
    monkeypatch.setattr(there.referential, "load_team", lambda _: None)
    monkeypatch.setattr(there.referential, "policy_of", lambda *_: SilentPolicy())
    args = SimpleNamespace(first_seed=None, seeds=3)
    found = [there.referential.crossed(study, args, "crossed", seed) for seed in (105, 106, 107)]
    assert asked == [105, 106, 106, 107, 107, 105]
    assert [one["listener"] for one in found] == [106, 107, 105]


# -- measures --------------------------------------------------------------------------------------
def test_a_quiet_team_says_nothing_and_chooses_as_it_would(there: Any, run: Callable[..., Any]):
    env = there.study.held_out(run("trust_split"))
    policy = there.trust_split.Quiet(ScriptedPolicy(lambda one: f"{len(one.messages)} lamp"))
    team: Any = dict.fromkeys(env.possible_agents, policy)
    task = env.unwrapped.source[0]
    (episode,) = rollout(VectorTextEnv([env.unwrapped]), team, [Start(task=task, seed=0)])
    assert [turn.action for turn in episode.turns] == ["", "", "3 lamp", "3 lamp"]
    heard = [turn.messages[-1].content.splitlines()[:2] for turn in episode.turns[2:]]
    assert [one for _, one in heard] == ["> ", "> "]


def test_pay_of_one_seat_and_shares_of_a_team(there: Any, run: Callable[..., Any]):
    """Who takes all beside one who claims and takes nothing: 1 and 0."""
    texts = {"player_0": "lamp, book", "player_1": "lamp 1, book 1\nnothing"}
    seats = {agent: ScriptedPolicy(lambda _, text=text: text) for agent, text in texts.items()}
    result = there.trust_split.played(run("trust_split"), seats)
    assert [there.trust_split.pay(result, seat) for seat in seats] == [1, 0]
    found = there.trust_split.numbers(result)
    assert (found["return"], found["legal"], found["claims"]) == (0.5, 1, 0.5)
    assert found["true"] == 0  # totals are 5 or more
    assert found["episodes"] == 180


def test_a_team_that_describes(there: Any, run: Callable[..., Any]):
    env = there.study.held_out(run("referential"))
    agreed = named_policy("expert:description", Context(env=env))
    seats = dict.fromkeys(("speaker_0", "listener_0"), agreed)
    found = there.referential.measure(run("referential"), seats)
    assert found["heard"].pop("similarity") == pytest.approx(1.0)
    assert found["heard"] == {"success": 1, "legal": 1, "described": 1, "episodes": 200}
    assert (found["silenced"]["similarity"], found["silenced"]["described"]) == (None, 0)


def test_those_who_share_and_those_who_grab(there: Any, run: Callable[..., Any]):
    """The numbers of scripts are exact."""
    settings = run("commons")
    seats = there.study.held_out(settings).possible_agents
    shares, grabs = (
        there.commons.measure(settings, dict.fromkeys(seats, named(there, settings, plan)))
        for plan in ("sharer", "grabber")
    )
    legal = {"legal": 1, "episodes": 200, "gini": pytest.approx(0, abs=0.03)}
    assert shares["society"] == {"efficiency": 1, "survival": 1, "over_use": 0, **legal}
    # An equal part of the first stock in place of the optimum; 15, 18, 22 and 23 tons.
    part = sum(stock / (45 + stock) for stock in (15, 18, 22, 23)) / 4
    expected = {"efficiency": pytest.approx(part, abs=0.01), "survival": 0.25, "over_use": 1}
    assert grabs["society"] == {**expected, **legal}
    settings = run("public_goods")
    seats = there.study.held_out(settings).possible_agents
    found = there.public_goods.measure(
        settings, dict.fromkeys(seats, named(there, settings, "grabber"))
    )["society"]
    nobody = sum(1 / factor for factor in (1.5, 2.0, 2.5)) / 3
    assert (found["efficiency"], found["survival"]) == (pytest.approx(nobody), None)
    assert found["over_use"] == 1
    settings = run("donor")
    seats = there.study.held_out(settings).possible_agents
    for plan, efficiency in (("grabber", 1 / 8), ("sharer", 1)):
        team = dict.fromkeys(seats, named(there, settings, plan))
        found = there.donor.measure(settings, team)["society"]
        assert (found["efficiency"], found["over_use"]) == (efficiency, efficiency < 1)


def test_who_gives_to_whom_differs_between_the_splits_of_donors(
    there: Any, run: Callable[..., Any]
):
    settings = run("donor")
    games = []
    for split in ("train", "test"):
        env = there.study.held_out(settings, split=split).unwrapped
        games.append({env.game(task).to for task in env.source})
    assert (len(games[0]), len(games[1])) == (4, 2)
    assert not games[0] & games[1]


def named(there: Any, settings: Any, plan: str) -> Any:
    """A scripted policy of an environment."""
    return named_policy(f"expert:{plan}", Context(env=there.study.held_out(settings)))


def test_a_leader_that_does_not_look_who_speaks(there: Any, run: Callable[..., Any]):
    """Three names are named twice, and two who tell the same name the right one together."""
    settings = run("debate_leader")
    leader = {"leader_0": named(there, settings, "seen")}
    result = there.debate_leader.played(settings, leader, settings["partners"])
    for episode in result.episodes:
        words = [turn.action.split("\n")[-1] for turn in episode.turns[:3]]
        names = "".join(words).replace("][", "]|[").split("|")
        twice = {one for one in names if names.count(one) == 2}
        assert len(twice) == 3
        pair = there.debate_leader.pair_of(episode)
        assert (pair == (0, 1)) == episode.success
    found = there.debate_leader.measure(settings, leader)
    assert found["own"]["success"] == pytest.approx(1 / 3, abs=0.1)
    assert (found["own"]["seen"], found["own"]["legal"]) == (1, 1)
    assert (found["agreed"], found["own"]["episodes"]) == (1, 200)


@pytest.mark.parametrize("name", PLAYERS)
def test_expectations_are_those_of_a_player_who_looks_at_the_board_alone(there: Any, name: str):
    player, module = PLAYERS[name], there.tic_tac_toe
    others = {"perfect": module.perfect, "random": module.at_random}
    for task in [*make("tic_tac_toe-v0", split="test").unwrapped.source][:4]:
        start = task.data["board"]
        courses = [*module.courses(start, True), *module.courses(start, False)]
        assert len(courses) == len(set(courses))
        found = module.games({one: player(module.after(start, one), one) for one in courses}, start)
        for other, against in others.items():
            first = tictactoe.outcomes(player, against, start)
            second = tictactoe.outcomes(against, player, start)
            assert found[f"{other} as first"] == pytest.approx(first[0] - first[2])
            assert found[f"{other} as second"] == pytest.approx(second[2] - second[0])
            assert found[f"{other} lost"] == pytest.approx((first[2] + second[0]) / 2)
            values = [found[f"{other} as {seat}"] for seat in ("first", "second")]
            assert found[other] == pytest.approx(sum(values) / 2)
        assert found["exploitability"] == pytest.approx(tictactoe.exploitability(player, start))


def test_a_measure_is_the_mean_over_boards_and_both_seats(
    there: Any, run: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
):
    """Of free cells at random, which has a row of its own on the environment's page."""
    cells = dict.fromkeys(range(9), 1 / 9)

    def said(seats: Any, env: Any, task: Any, some: Any) -> dict[Any, Any]:
        return dict.fromkeys(some, (cells, 0.5))

    monkeypatch.setattr(there.tic_tac_toe, "chances", said)
    found = there.tic_tac_toe.measure(run("tic_tac_toe"), {})
    page = measured("tic_tac_toe")
    (row,) = [line for line in page.splitlines() if line.startswith("| random |")]
    _, _, perfect, _, at_random, exploited, _, _ = row.split("|")
    shown = {"perfect": perfect, "random": at_random}
    for name, text in shown.items():
        numbers = [found["play"][f"{name} {kind}"] for kind in ("won", "drawn", "lost")]
        assert numbers == pytest.approx([float(one) for one in text.split("/")], abs=0.0006)
    assert found["play"]["exploitability"] == pytest.approx(float(exploited), abs=0.0006)
    assert found["ends"] == 0.5


def test_cells_that_are_taken_are_left_out(there: Any):
    cells = {**dict.fromkeys(range(9), 0.0), 0: 0.5, 1: 0.3, 2: 0.1}
    found = there.tic_tac_toe.legal_only(cells, [1, 2, 8])
    assert found == pytest.approx({1: 0.75, 2: 0.25, 8: 0.0})


# -- one run ---------------------------------------------------------------------------------------
def test_a_run_is_measured_before_and_after_and_keeps_its_team(there: Any, tmp_path: Path):
    """One update; a second call begins it anew, as after it was stopped."""
    study, tiny = there.referential.STUDY, "{steps: 5, demonstrations: 60, hidden_size: 16}"
    args = SimpleNamespace(override=[f"tiny={tiny}", "max_steps=1"], teams=tmp_path)
    first, again = (there.study.trained(study, args, "preset", 3) for _ in range(2))
    assert first["updates"] == 1
    assert first["seed"] == 3
    assert {**first, "cpu_seconds": 0} == {**again, "cpu_seconds": 0}
    assert set(first["before"]) == set(first["after"]) == {"heard", "silenced"}
    assert (tmp_path / "referential_tiny-preset-3" / "team.json").exists()
    assert there.study.team_of(study, args, 3).exists()
    with pytest.raises(there.study.MissingError, match="preset-4 is not there"):
        there.study.team_of(study, args, 4)
