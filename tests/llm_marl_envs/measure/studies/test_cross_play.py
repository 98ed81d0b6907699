"""Cross-play of scripted teams whose matrix is known, and files that are not as they should be."""

from __future__ import annotations

import ast
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.pairings import experts, stage
from support.toys import Relay, SameCase, WordPair

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.records import Request
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.measure.numbers.estimates import Estimate
from llm_marl_envs.measure.progress import counter
from llm_marl_envs.measure.studies.cross_play import CrossPlay, cross_play
from llm_marl_envs.measure.studies.cross_play_files import (
    read_cross_play,
    report,
    write_cross_play,
)
from llm_marl_envs.measure.studies.heat_map import save_heat_map
from llm_marl_envs.measure.studies.zero_shot import zero_shot
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy

pytestmark = pytest.mark.full  # `make test-all` runs it


def heard(request: Request) -> str:
    return request.messages[-1].content.rpartition(": ")[2]


def backwards(request: Request) -> str:
    return heard(request)[::-1]


PLAIN = dict.fromkeys(Relay().possible_agents, ScriptedPolicy(heard))
CIPHER = PLAIN | {agent: ScriptedPolicy(backwards) for agent in ("runner_0", "runner_2")}


def mean_of(one: Estimate | None) -> float:
    assert one is not None
    return one.mean


def interval_of(one: Estimate | None) -> tuple[float, float]:
    assert one is not None
    assert one.ci95 is not None
    return one.ci95


def two() -> CrossPlay:
    teams = {"lower": experts("lower"), "upper": experts("upper")}
    return cross_play(stage(SameCase, n_tasks=30), teams)


def test_two_conventions_score_one_with_themselves_and_fail_with_each_other():
    result = two()
    # 10 of the 30 tasks hold `fig` and are solved by anybody: there both say it in lower case.
    assert result.matrix == ((1.0, pytest.approx(1 / 3)), (pytest.approx(1 / 3), 1.0))
    assert result.success_matrix == result.matrix
    assert result.match_matrix == result.matrix  # here a match is what is paid
    # 30 tasks solved of 30: 30 / (30 + 2.04523^2)
    low: Any = pytest.approx(0.87763, abs=1e-5)
    assert result.self_play == Estimate(1.0, (low, 1.0), 30)
    assert mean_of(result.cross_play) == pytest.approx(1 / 3)
    assert mean_of(result.gap) == pytest.approx(2 / 3)
    # Normal for 1/3 over 30 tasks: 1.96 * sqrt(2/9 / 30) = 0.169 to each side. On a scale from -1
    # to 1 five of 30 are rarer, so that what was not seen reaches towards -1.
    low, high = interval_of(result.gap)
    assert 2 / 3 - 0.25 < low < 2 / 3 - 0.169
    assert 2 / 3 + 0.12 < high < 2 / 3 + 0.2


def test_coding_experts_with_different_interfaces_fail_together():
    env = make("coop_coding-v0")

    def choosing(place: int) -> dict[str, Any]:
        def script(request: Request) -> str:
            task = env.source.find(request.task_id)
            return experts_of(env).first(
                task, request.agent, experts_of(env).conventions(task)[place]
            )

        return dict.fromkeys(env.possible_agents, ScriptedPolicy(script))

    choice = [i for i in range(40) if len(experts_of(env).conventions(env.source[i])) > 1]
    teams = {"first": choosing(0), "last": choosing(-1)}
    result = cross_play(stage(lambda: make("coop_coding-v0"), n_tasks=40), teams)
    only_one = 1 - len(choice) / 40
    assert 0 < only_one < 0.5
    assert np.array(result.success_matrix) == pytest.approx(
        np.array([[1, only_one], [only_one, 1]])
    )
    by_task = np.array(result.scores)
    assert (by_task[0, 0] == 1.0).all()
    assert (by_task[0, 1][choice] < 1.0).all()
    assert result.env_id == "coop_coding-v0"


def test_the_example_of_the_docs(capsys: pytest.CaptureFixture[str]):
    page = (Path(__file__).parents[4] / "docs" / "cross_play.md").read_text()
    exec("\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL)), {})  # our own page
    (first, other), (again, last) = ast.literal_eval(capsys.readouterr().out.splitlines()[0])
    assert first == last == 1.0
    assert other == again < 0.5


def test_with_three_seats_each_is_swapped_in_turn():
    result = cross_play(stage(Relay, n_tasks=4), {"plain": PLAIN, "cipher": CIPHER})
    # A stranger in the middle passes on what it hears; at either end the word arrives reversed.
    assert result.matrix == ((1.0, pytest.approx(1 / 3)), (pytest.approx(1 / 3), 1.0))
    played = {tuple(one.seats.values()): one.success for one in result.seatings}
    assert len(played) == 2 + 2 * 3
    assert played["plain", "cipher", "plain"] == 1.0
    assert played["cipher", "plain", "plain"] == 0.0


def test_rows_are_the_first_seat():
    half = {"left_0": experts("lower")["left_0"], "right_0": ScriptedPolicy(lambda r: "")}
    result = cross_play(stage(WordPair, n_tasks=3), {"good": experts("lower"), "half": half})
    assert result.matrix == ((1.0, 0.5), (1.0, 0.5))


def test_the_diagonal_is_what_an_evaluation_measures():
    teams = {"a": experts(None), "b": experts("upper")}
    result = cross_play(stage(SameCase, n_tasks=12, samples=3, seed=5, copies=7), teams)
    alone = evaluate_team(SameCase, teams["a"], n_tasks=12, samples=3, seed=5)
    assert result.matrix[0][0] == pytest.approx(alone.mean_return)
    assert result.self_play is not None
    assert result.self_play.n == 12


def test_scripted_strangers_of_each_convention():
    teams = {"upper": experts("upper"), "any": experts(None)}
    found = {
        (z.team, z.agent, z.convention): z for z in zero_shot(stage(SameCase, samples=40), teams)
    }
    assert len(found) == 2 * 2 * 2
    assert found["upper", "left_0", "upper"].mean_return.mean == 1.0
    assert found["upper", "left_0", "upper"].mean_return.n == 20  # without `fig`
    # Upper where it can be; with `fig` the task allows lower case alone: 10 of 30.
    assert found["upper", "right_0", "lower"].mean_return.mean == pytest.approx(1 / 3)
    assert {z.expert_return for z in found.values()} == {1.0}
    # 20 tasks x 40 draws at 0.5: standard deviation 0.018.
    assert abs(found["any", "left_0", "upper"].mean_return.mean - 0.5) < 0.08


def test_no_conventions_no_strangers():
    assert zero_shot(stage(Relay, n_tasks=2), {"plain": PLAIN}) == ()


def test_a_file_gives_back_what_was_written(tmp_path: Path):
    result, partners = two(), zero_shot(stage(SameCase, n_tasks=4), {"upper": experts("upper")})
    write_cross_play(tmp_path / "x.json", result, partners)
    again, partners_again = read_cross_play(tmp_path / "x.json")
    assert again == result
    assert partners_again == partners
    data = json.loads((tmp_path / "x.json").read_text())
    assert data["teams"] == ["lower", "upper"]
    assert data["matrix"] == [list(row) for row in result.matrix]
    assert list(tmp_path.iterdir()) == [tmp_path / "x.json"]


def test_a_file_of_another_tool_needs_teams_and_matrix_alone(tmp_path: Path):
    path = tmp_path / "x.json"
    path.write_text('{"teams": ["a", 1], "matrix": [[1, null], [NaN, 0.5]]}')
    found, partners = read_cross_play(path)
    assert (found.teams, found.matrix) == (("a", "1"), ((1.0, None), (None, 0.5)))
    assert (found.gap, found.failed, found.scores, partners) == (None, None, (), ())
    assert "self-play" in report(found)
    if importlib.util.find_spec("matplotlib"):
        save_heat_map(found, tmp_path / "map.png")


def test_bad_files_are_named(tmp_path: Path):
    path = tmp_path / "x.json"
    with pytest.raises(ValueError, match="no such file"):
        read_cross_play(path)
    write_cross_play(path, two())
    whole = path.read_text()
    path.write_text(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"x\.json: half-written or no JSON"):
        read_cross_play(path)
    data = json.loads(whole)
    for change, words in (
        ({"version": 9}, "version 9, this release reads 1"),
        ({"scores": data["scores"][:1]}, "expected 2 rows of 2 lists"),
        ({"scores": [[[1.0], [1.0, 2.0]], [[1.0], [1.0]]]}, r"lengths \[1, 2\]"),
        ({"teams": ["one"]}, "must be 1 x 1"),
        ({"scores": 3}, "scores: expected a list, got 3"),
    ):
        path.write_text(json.dumps({**data, **change}))
        with pytest.raises(ValueError, match=words):
            read_cross_play(path)
    del data["seatings"][0]["seats"]
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=r"'seatings\[0\]\.seats' is missing"):
        read_cross_play(path)
    path.write_text("[]")
    with pytest.raises(ValueError, match="expected a JSON object, got list"):
        read_cross_play(path)


def test_teams_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match=r"team 'relay'.*missing \['left_0', 'right_0'\]"):
        cross_play(stage(SameCase, n_tasks=1), {"pair": experts("lower"), "relay": PLAIN})
    with pytest.raises(ValueError, match="1 teams"):
        cross_play(stage(SameCase, n_tasks=1), {"one": experts("lower")})
    pair = {"a": experts("lower"), "b": experts("upper")}
    with pytest.raises(ValueError, match="expected 1 to 30"):
        cross_play(stage(SameCase, n_tasks=31), pair)
    with pytest.raises(ValueError, match="samples=0"):
        cross_play(stage(SameCase, n_tasks=1, samples=0), pair)
    with pytest.raises(ValueError, match="copies=0"):
        cross_play(stage(SameCase, n_tasks=1, copies=0), pair)


def test_a_heat_map_is_drawn_for_two_and_for_three_seats(tmp_path: Path):
    pytest.importorskip("matplotlib", reason="the extra `eval` is not installed")
    save_heat_map(two(), tmp_path / "deep" / "map.png")
    assert (tmp_path / "deep" / "map.png").read_bytes().startswith(b"\x89PNG")
    relay = cross_play(stage(Relay, n_tasks=1), {"plain": PLAIN, "cipher": CIPHER})
    save_heat_map(relay, tmp_path / "map.svg")
    assert "<svg" in (tmp_path / "map.svg").read_text()


def test_random_teams_do_not_crash_it():
    team = dict.fromkeys(SameCase().possible_agents, RandomPolicy())
    teams = {"a": team, "b": team}
    assert cross_play(stage(SameCase, n_tasks=2), teams).matrix == ((0.0, 0.0), (0.0, 0.0))


def test_rows_and_columns_are_named():
    assert report(two()).splitlines()[:2] == [
        "Team return. Rows: the team that plays left_0. Columns: the team that plays right_0.",
        "row / column  lower  upper",
    ]
    three = report(
        cross_play(stage(Relay, n_tasks=1), {"plain": PLAIN, "cipher": CIPHER})
    ).splitlines()
    assert three[0] == (
        "Team return. Rows: the team that plays all seats but one. Columns: the team that plays "
        "that one, mean over runner_0, runner_1, runner_2."
    )


LONG = "/home/somebody/projects/runs/2026-01-05/learning_rate=0.001_$seed$=1/team"


@pytest.mark.parametrize(
    ("scale", "n_teams", "agents"),
    [
        (1.0, 13, ("left_0", "right_0")),
        (1e9, 2, ("left_0", "right_0")),
        (-1e-9, 13, tuple(f"debater_{i}" for i in range(9))),
    ],
)
def test_nothing_of_a_heat_map_is_clipped(
    tmp_path: Path, scale: float, n_teams: int, agents: tuple[str, ...]
):
    image = pytest.importorskip("matplotlib.image")
    scores = np.random.default_rng(0).normal(size=(n_teams, n_teams)) * scale
    result = CrossPlay(
        env_id="an_environment_with_a_long_name_from_another_package-v0",
        env_kwargs={},
        agents=agents,
        teams=tuple(f"{LONG}{i}" for i in range(n_teams)),
        samples=1,
        seed=0,
        matrix=tuple(tuple(map(float, row)) for row in scores),
    )
    save_heat_map(result, tmp_path / "map.png")
    pixels = image.imread(tmp_path / "map.png")[:, :, :3]
    for edge in (pixels[:3], pixels[-3:], pixels[:, :3], pixels[:, -3:]):
        assert (edge == 1).all()  # ink that reaches the edge was cut there
    height, width, _ = pixels.shape
    assert max(height, width) < 2.2 * min(height, width)
    assert list(tmp_path.iterdir()) == [tmp_path / "map.png"]


def test_progress_knows_how_many_are_to_come(capsys: pytest.CaptureFixture[str]):
    with counter(None, "pairs") as progress:
        teams = {"lower": experts("lower"), "upper": experts("upper")}
        cross_play(stage(SameCase, n_tasks=4, samples=2, progress=progress), teams)
        assert progress.total == 4 * 4 * 2
        zero_shot(stage(SameCase, n_tasks=30, progress=progress), teams)
    # `lower` can be used in 30 tasks, `upper` in the 20 without `fig`; experts, then 2 x 2 seats.
    assert progress.total == progress.n == 4 * 4 * 2 + (30 + 20) * (1 + 2 * 2)
    assert f"{progress.total}/{progress.total}" in capsys.readouterr().err
