"""TextArena's games as environments: the contract, whose turn it is, and whose random numbers."""

# ruff: noqa: NPY002 - the games draw from the generators of the process

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pettingzoo.test import api_test, seed_test

from llm_marl_envs import list_envs, make, spec
from llm_marl_envs.bridges.textarena import TextArenaEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.records import Request
from llm_marl_envs.rollout import rollout
from llm_marl_envs.seeds import Start
from llm_marl_envs.testing import check_text_env
from llm_marl_envs.vector import VectorTextEnv
from llm_marl_envs.wrappers import Choose, GymSeat, Partners
from trainers.config import MAGRPOConfig
from trainers.models.tiny import TinySettings, build_model, build_tokenizer, warm_start
from trainers.trainer import MAGRPOTrainer

pytest.importorskip("textarena")
KUHN = "textarena/KuhnPoker-v0"
MOVES = ("[check]", "[bet]", "[call]", "[fold]")
GAMES = ("KuhnPoker-v0", "IteratedPrisonersDilemma-v0", "PublicGoodsGame-v0", "2048-v0-easy")
FURTHER = ("TicTacToe-v0", "Nim-v0", "SimpleNegotiation-v0", "ConnectFour-v0")


def some_move(request: Request) -> str:
    return random.Random(request.seed).choice(MOVES)


def moves(env: Any, agent: str) -> dict[int, str]:
    return dict(enumerate(MOVES))


@pytest.mark.filterwarnings("ignore:.*unknown reset options", "ignore:.*render")
@pytest.mark.parametrize(
    "game", [*GAMES, *(pytest.param(game, marks=pytest.mark.long) for game in FURTHER)]
)
def test_contract(game: str):
    env_id = "textarena/*".replace("*", game)
    check_text_env(lambda: make(env_id), seeds=(0,))
    api_test(make(env_id), num_cycles=15)
    seed_test(lambda: make(env_id), num_cycles=8)


def test_an_id_names_a_game():
    env = make("textarena/PublicGoodsGame-v0", players=4, turns=3)
    assert env.possible_agents == ["player_0", "player_1", "player_2", "player_3"]
    assert (env.spec.id, env.env_kwargs) == (
        "textarena/PublicGoodsGame-v0",
        {"players": 4, "turns": 3},
    )
    assert spec(KUHN).kwargs == {"game": "KuhnPoker-v0"}
    assert not [one for one in list_envs() if "/" in one]
    assert make("textarena/2048-v0").possible_agents == ["player_0"]


def test_a_game_that_is_known_by_heart():
    env = make(KUHN)
    env.reset(seed=0, options={"task": "train/3"})
    first = env.agent_selection
    other = next(agent for agent in env.possible_agents if agent != first)
    told = env.observe(first)
    assert "Kuhn Poker" in told
    assert "Your available actions are: '[check]', '[bet]'" in told
    assert "Your card is" in env.observe(other)  # told at once, not when it is asked
    env.step("I bet [bet]")
    assert env.agent_selection == other
    heard = env.observe(other)
    assert "I bet [bet]" in heard
    assert heard.count("Game Rules") == 1  # nothing is told twice
    env.step("[fold]")
    for _ in range(2):  # three rounds, whose first player bets and whose second one folds
        env.step("[bet]")
        env.step("[fold]")
    assert env.rewards == {first: 1.0, other: -1.0}
    assert all(env.terminations.values())


def test_random_numbers_of_the_process_stay_its_own():
    random.seed(7)
    np.random.seed(7)
    expected = random.Random(7).random(), np.random.RandomState(7).random()
    env = make(KUHN)
    env.reset(seed=1)
    env.step("[check]")
    assert (random.random(), np.random.random()) == expected


def test_games_side_by_side_are_games_alone():
    team: Any = dict.fromkeys(("player_0", "player_1"), ScriptedPolicy(some_move))
    starts = [Start(task=index, seed=index, sample_seed=index) for index in range(12)]
    alone = rollout(VectorTextEnv([make(KUHN)]), team, starts)
    together = rollout(VectorTextEnv([make(KUHN) for _ in starts]), team, starts)
    assert [e.turns for e in alone] == [e.turns for e in together]
    assert len({str(e.turns) for e in alone}) > 6


def test_games_in_threads_are_games_alone():
    def played(seed: int) -> list[str]:
        env = make(KUHN)
        told = []
        for task in range(4):
            env.reset(seed=seed, options={"task": 10 * seed + task})
            while env.agents and not any(env.terminations.values()):
                told.append(env.observe(env.agent_selection))
                env.step(MOVES[(seed + len(told)) % len(MOVES)])
        return told

    random.seed(7)
    expected = random.Random(7).random()
    alone = [played(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(played, range(8))) == alone
    assert random.random() == expected


def test_splits_share_no_seed():
    seeds = [
        {int(task.data["seed"]) for task in TextArenaEnv(game="KuhnPoker-v0", split=split).source}
        for split in ("train", "val", "test", "ood")
    ]
    assert len(set.union(*seeds)) == sum(map(len, seeds)) == 4000


def test_what_a_game_raises_is_a_lost_game(monkeypatch: pytest.MonkeyPatch):
    env = make(KUHN)
    env.reset(seed=0)
    first = env.agent_selection

    def breaks(action: str) -> None:
        raise KeyError(action)

    monkeypatch.setattr(env._arena, "step", breaks)
    env.step("[bet]")
    assert env.rewards[first] == -1.0
    assert env.infos[first]["error"] == "KeyError: '[bet]'"
    assert all(env.terminations.values())


def test_games_that_cannot_be():
    with pytest.raises(ValueError, match=r"TextArena has no game 'Kuhn-v0'; it has e\.g\."):
        make("textarena/Kuhn-v0")
    with pytest.raises(ValueError, match="no environment 'arena/KuhnPoker-v0'"):
        make("arena/KuhnPoker-v0")
    with pytest.raises(ValueError, match=r"KuhnPoker-v0, players=3: .* 2, received 3"):
        make(KUHN, players=3)
    wrongs: list[dict[str, Any]] = [{"players": 0}, {"size": 0}, {"size": 10**6 + 1}]
    for wrong in wrongs:
        with pytest.raises(ValueError, match=r"(players|size)=\d+: expected"):
            make(KUHN, **wrong)
    with pytest.raises(ValueError, match="split='all': expected one of"):
        make(KUHN, split="all")


def test_one_seat_of_a_game_in_numbers():
    opponent = ScriptedPolicy(some_move)
    env = GymSeat(Choose(Partners(make(KUHN), {"player_1": opponent}), 4, moves))
    paid = []
    for seed in range(20):
        env.reset(seed=seed)
        over, total = False, 0.0
        while not over:
            _, reward, over, _, _ = env.step(env.action_space.sample())
            total += reward
        paid.append(total)
    assert set(paid) <= {-1.0, 0.0, 1.0}
    assert len(set(paid)) > 1


def knows_moves(env: Any, said: tuple[str, ...]) -> tuple[Any, Any]:
    """A tiny model that answers the first prompts of a game with one of these."""
    rng = random.Random(0)
    prompts = [
        [{"role": m.role, "content": m.content} for m in env.first_words(env.source[i])["player_0"]]
        for i in range(12)
    ]
    sizes = TinySettings(
        hidden_size=32,
        num_heads=2,
        num_layers=1,
        intermediate_size=32,
        steps=150,
        batch_size=8,
        max_position_embeddings=8192,
        learning_rate=1e-2,
    )
    lines = {line for prompt in prompts for line in prompt[0]["content"].splitlines() if line}
    texts = [*said, *(message["content"] for prompt in prompts for message in prompt)]
    tokenizer = build_tokenizer(texts * 5, 600, sorted(lines, key=len, reverse=True))
    model = build_model(tokenizer, 0, sizes)
    shown = [(prompt, rng.choice(said)) for prompt in prompts for _ in range(8)]
    warm_start(model, tokenizer, shown, 0, sizes)
    return model, tokenizer


@pytest.mark.parametrize(
    ("game", "said"),
    [
        ("KuhnPoker-v0", MOVES),
        pytest.param(
            "IteratedPrisonersDilemma-v0", ("[cooperate]", "[defect]"), marks=pytest.mark.long
        ),
    ],
)
def test_magrpo_trains_on_a_game(game: str, said: tuple[str, ...], tmp_path: Path):
    opponent = ScriptedPolicy(lambda request: random.Random(request.seed).choice(said))
    env = make(f"textarena/{game}", turns=24)
    model, tokenizer = knows_moves(env, said)
    before = [p.detach().clone() for p in model.parameters()]
    trainer = MAGRPOTrainer(
        model=model,
        processing_class=tokenizer,
        env=Partners(env, {"player_1": opponent}),
        args=MAGRPOConfig(
            str(tmp_path),
            max_steps=3,
            tasks_per_update=2,
            num_generations=8,
            max_completion_length=6,
            learning_rate=1e-2,
            report_to="none",
            save_strategy="no",
            use_cpu=True,
            bf16=False,
        ),
    )
    trainer.train()
    rewards = [one["reward"] for one in trainer.state.log_history if "reward" in one]
    assert len(rewards) == 3
    assert all(-1 <= reward <= 1 for reward in rewards)
    assert len(set(rewards)) > 1  # games are won and lost
    assert any(not old.equal(new) for old, new in zip(before, model.parameters(), strict=True))
