"""The page says what the files of the measurement hold; the measurement plays the game's rules."""

from __future__ import annotations

from typing import Any

import pytest
from support.paths import ROOT

from llm_marl_envs import make
from llm_marl_envs.envs.tic_tac_toe import planned
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.games import tictactoe

FILES = sorted((ROOT / "benchmarks" / "results" / "tiny_presets").glob("*.json"))
RUNS: list[dict[str, Any]] = [read_json(path) for path in FILES]
PLAYERS = {
    "greedy": lambda board: {planned("greedy", board): 1.0},
    "half": lambda board: {tictactoe.best_move(board): 0.5},  # else no cell's name
}


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Any:
    pytest.importorskip("trl", reason="needs the extra `train`")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks import tiny_presets

    return tiny_presets


def test_the_page_holds_the_tables_of_the_files(study: Any):
    page = (ROOT / "docs" / "tiny_presets.md").read_text()
    for preset in {one["preset"] for one in RUNS}:
        found = study.table(preset, [one for one in RUNS if one["preset"] == preset])
        assert found in page, f"python benchmarks/tiny_presets.py --presets {preset}"
    assert RUNS


def test_runs_of_a_seed_begin_with_the_same_weights():
    begun: dict[tuple[str, int], list[Any]] = {}
    for one in RUNS:
        begun.setdefault((one["preset"], one["seed"]), []).append(one["before"])
    assert all(one == points[0] for points in begun.values() for one in points)


@pytest.mark.parametrize("name", PLAYERS)
@pytest.mark.parametrize("first", [True, False])
def test_expectations_are_those_of_a_player_who_looks_at_the_board_alone(
    study: Any, name: str, first: bool
):
    player = PLAYERS[name]
    for task in [*make("tic_tac_toe-v0", split="test").unwrapped.source][:4]:
        start = task.data["board"]
        courses = study.courses(start, first)
        assert len(courses) == len(set(courses))
        table = {one: player(study.after(start, one)) for one in courses}
        found = study.games(table, start, first)
        for other, against in (("perfect", study.perfect), ("random", study.at_random)):
            if first:
                won, drawn, lost = tictactoe.outcomes(player, against, start)
            else:
                lost, drawn, won = tictactoe.outcomes(against, player, start)
            assert (found[other]["won"], found[other]["drawn"], found[other]["lost"]) == (
                pytest.approx((won, drawn, lost))
            )
        gain = tictactoe.best_response(player, start, first=not first)
        known = tictactoe.value(start) * (1 if first else -1)
        assert found["best response"]["gain"] == pytest.approx(gain + known)


def test_cells_that_are_taken_are_left_out(study: Any):
    cells = {**dict.fromkeys(range(9), 0.0), 0: 0.5, 1: 0.3, 2: 0.1}
    found = study.legal_only(cells, "X..OXOXO.")
    assert found == pytest.approx({1: 0.75, 2: 0.25, 8: 0.0})
