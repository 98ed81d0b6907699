"""kuhn_poker-v1: what is told and paid, what texts count as, tables and texts."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from support.pages import measured

from llm_marl_envs import make
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start, group_starts
from llm_marl_envs.envs.games import kuhn_rules as kuhn
from llm_marl_envs.envs.games.kuhn_poker import BETS, player_of_tables, situations
from llm_marl_envs.envs.games.landscape import ascend, near_uniform, softmax
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import RandomPolicy
from llm_marl_envs.policies.expert import ExpertPolicy

ATTACKS = (
    "",
    "I bet.",
    "bet\nbet",
    "pass\nbet",
    "bet or pass",
    "BET!",
    "all in",
    "fold",
    "call",
    "The other passes.\n\nbets",
    "king",
    " " * 2000 + "bet",
)


ROWS = [{"deal": [kuhn.CARDS[card] for card in deal]} for deal in kuhn.DEALS]


def all_deals(ante: float = 1.0) -> Any:
    """Task i is deal i."""
    rows = [{**row, "ante": ante, "id": f"deal-{n}"} for n, row in enumerate(ROWS)]
    return make("kuhn_poker-v1", tasks=rows, split="all")


def hand(env: Any, task: int, *texts: str) -> tuple[float, float] | None:
    """What both won, None while the hand goes on."""
    env.reset(seed=0, options={"task": task})
    for text in texts:
        env.step(text)
    if not all(env.terminations.values()):
        return None
    return env.rewards["player_0"], env.rewards["player_1"]


def test_every_hand_pays_what_the_tree_says():
    for ante in (1.0, 0.6):
        env = all_deals(ante)
        for number, task in enumerate(env.source):
            for length in (1, 2, 3):
                for history in itertools.product((False, True), repeat=length):
                    alive = all(kuhn.acting(history[:n]) is not None for n in range(length))
                    if not alive:
                        continue
                    won = hand(env, number, *("bet" if bet else "pass" for bet in history))
                    if kuhn.acting(history) is not None:
                        assert won is None
                    else:
                        paid = kuhn.payoff(task.data["deal"], history) * task.data["ante"]
                        assert won == (paid, -paid)


def test_no_task_id_names_a_card():
    """Who knows the id, and all that a request holds, cannot tell the other's card."""
    for split in ("train", "val", "test", "ood"):
        env = make("kuhn_poker-v1", split=split)
        for number in range(len(env.source)):
            dealt: dict[Any, int] = {}
            for seed in range(600):
                env.reset(seed=seed, options={"task": number})
                assert {info["task_id"] for info in env.infos.values()} == {f"{split}/{number}"}
                deal = env.unwrapped.task.data["deal"]
                dealt[deal] = dealt.get(deal, 0) + 1
            assert set(dealt) == set(kuhn.DEALS)
            assert min(dealt.values()) > 60  # of 100


def test_a_group_shares_its_deal_and_replays():
    env = make("kuhn_poker-v1")
    team = dict.fromkeys(env.possible_agents, RandomPolicy())

    def told(episodes: Any) -> list[Any]:
        return [[turn.messages for turn in one.turns] for one in episodes]

    shared, own = (
        rollout(VectorTextEnv([env]), team, group_starts(0, 3, 8, chance))
        for chance in ("group", "episode")
    )
    assert len({str(one) for one in told(shared)}) == 1
    assert len({str(one) for one in told(own)}) > 2
    assert told(map(replay, own)) == told(own)


def test_no_seat_sees_the_others_card():
    env = all_deals()
    for number, task in enumerate(env.source):
        env.reset(seed=number, options={"task": number})
        for seat in (0, 1):
            held = kuhn.CARDS[task.data["deal"][seat]]
            told = env.observe(f"player_{seat}")
            assert f"You hold the {held}." in told
            assert told.count("You hold") == 1
    openings = {
        (a, str(env.first_words(task)[a])) for task in env.source for a in env.possible_agents
    }
    assert len(openings) == 6  # three cards in two seats


@pytest.mark.parametrize("attack", ATTACKS)
def test_everything_else_counts_as_a_pass(attack: str):
    env = all_deals()
    for task in range(6):
        for before in ((), ("pass",), ("bet",), ("pass", "bet")):
            as_pass = hand(env, task, *before, "pass")
            assert hand(env, task, *before, attack) == as_pass
            agent = f"player_{len(before) % 2}"
            env.reset(seed=0, options={"task": task})
            for text in (*before, attack):
                env.step(text)
            assert env.infos[agent]["readable"] is False
            assert env.infos[agent]["choice"] == "pass"
            assert env.infos[agent]["success"] is None


def test_splits_have_other_antes():
    found = {}
    for split, count in (("train", 1), ("val", 2), ("test", 2), ("ood", 2)):
        tasks = list(make("kuhn_poker-v1", split=split).source)
        assert len(tasks) == count
        found |= {task.data["ante"]: split for task in tasks}
    assert len(found) == 7  # none is in two


def test_the_environment_is_the_tree_to_policies_of_tables():
    """Mean winnings of sampled hands are the tables' exact value."""
    rng = np.random.default_rng(0)
    first, second = rng.random(6), rng.random(6)
    envs = VectorTextEnv([all_deals() for _ in range(16)])
    team = dict.fromkeys(envs.envs[0].possible_agents, player_of_tables(first, second))
    starts = [Start(task=i % 6, sample_seed=i) for i in range(1500)]
    won = [e.undiscounted_return("player_0") for e in rollout(envs, team, starts)]
    assert np.mean(won) == pytest.approx(float(kuhn.value(first, second)), abs=0.11)
    with pytest.raises(ValueError, match="6 probabilities"):
        player_of_tables([0.5] * 6, [0.5] * 5)


class Shown:
    """Keeps what each seat is shown."""

    def __init__(self) -> None:
        self.seen: set[tuple[str, Any]] = set()

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.seen |= {(r.agent, r.messages) for r in requests}
        return [Response(text="bet" if (r.seed >> 7) % 2 else "pass") for r in requests]


def test_situations_are_what_seats_are_shown():
    env = all_deals()
    witness = Shown()
    team = dict.fromkeys(env.possible_agents, witness)
    rollout(VectorTextEnv([env]), team, [Start(task=i % 6, sample_seed=i) for i in range(120)])
    listed = {(agent, told) for agent, several in situations(env).items() for told in several}
    assert listed == witness.seen
    assert len(listed) == 12
    # In the order of the tables: a player who bets in one situation only is asked there.
    for seat, agent in enumerate(env.possible_agents):
        for place, told in enumerate(situations(env)[agent]):
            table = np.eye(6)[place]
            policy = player_of_tables(
                *((table, np.zeros(6)) if seat == 0 else (np.zeros(6), table))
            )
            asked = Request(
                env_id="", agent=agent, turn=0, episode=0, task_id="", messages=told,
                observation="", seed=0,
            )  # fmt: skip
            assert policy.act([asked])[0].text == "bet"


def test_a_silent_team_is_a_table_of_zeros():
    env = all_deals()
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    for episode in rollout(VectorTextEnv([env]), team, [Start(task=i) for i in range(6)]):
        assert [turn.info["choice"] for turn in episode.turns] == ["pass", "pass"]
    always = dict.fromkeys(env.possible_agents, ExpertPolicy(env, "bet"))
    for episode in rollout(VectorTextEnv([env]), always, [Start(task=i) for i in range(6)]):
        assert abs(episode.undiscounted_return("player_0")) == 2
    with pytest.raises(ValueError, match="no bounds"):
        env.unwrapped.bounds(env.source[0])


def test_demonstrations_depend_on_all_that_a_seat_knows():
    """On the card, and more so upon a bet; on average they prefer nothing."""
    shown = demonstrations(make("kuhn_poker-v1"), 4000, 0)
    per_place: dict[Any, list[str]] = {}
    for messages, said in shown:
        key = tuple(m.content for m in messages)
        per_place.setdefault(key, []).append(said)
    assert len(per_place) == 12
    chances = {"jack": (0.4, 0.25), "queen": (0.5, 0.5), "king": (0.6, 0.75)}
    for chat, said in per_place.items():
        card = chat[0].partition("You hold the ")[2].partition(".")[0]
        chance = chances[card][chat[-1] == BETS]
        error = 4 * (chance * (1 - chance) / len(said)) ** 0.5
        assert abs(said.count("bet") / len(said) - chance) < error


@pytest.mark.parametrize(
    "row",
    [{}, {"card": "king"}, {"deal": ["king"]}, {"deal": ["king", "king"]},
     {"deal": ["king", "ace"]}, {"deal": ["king", "jack"], "ante": 0},
     {"deal": ["king", "jack"], "ante": "1"}],
)  # fmt: skip
def test_rows_that_are_no_deals(row: dict[str, Any]):
    with pytest.raises(ValueError, match=r"row 1: (deal|ante)="):
        make("kuhn_poker-v1", tasks=[row], split="all")


def test_the_pages_table_is_what_the_game_gives():
    page = measured("kuhn_poker")
    rows = dict(
        [cell.strip() for cell in line.strip("| ").split("|")]
        for line in page.splitlines()
        if line.startswith("| ") and line.count("|") == 3
    )
    zeros, ones, half = np.zeros(6), np.ones(6), np.full(6, 0.5)
    known = {
        "an equilibrium": kuhn.exploitability(*kuhn.equilibrium(0.2)),
        "both at random": kuhn.exploitability(half, half),
        "both always bet": kuhn.exploitability(ones, ones),
        "both always pass, or say nothing": kuhn.exploitability(zeros, zeros),
    }
    for updates in (100, 400):
        logits = ascend(kuhn.exact_gradient, near_uniform([(6, 2)] * 2), updates)
        tables = [softmax(one)[..., 1] for one in logits]
        several = [kuhn.exploitability(*pair) for pair in zip(*tables, strict=True)]
        known[f"exact gradient, after {updates} updates"] = float(np.mean(several))
    for name, number in known.items():
        assert rows[name] == f"{abs(number):.4f}"
