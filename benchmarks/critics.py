"""Critics of two kinds on `regime-v0`: how much of the return they explain, what is learned, cost.

    python benchmarks/critics.py --first-seed 1 --seeds 5

Histories differ by a coin that is tossed after the first turn and decides most of the return. The
members are softmax tables over the words, one for each turn, so that the critics are all that
costs; what judges them is the algorithm that trains language models. A seed is a run of its own:
other coins, other draws, other first weights of `words`. The body of `model` is an untrained model
of one layer.

Printed for each way to judge, as means over the seeds, with the lowest and the highest: the share
of the targets' variance that V explained before it learned from them (second half of the updates),
the same of the turns after the toss alone, what the members' words earn in the end (their exact
mean under the tables, at most the number of turns), tokens that the critic read, and seconds.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from llm_marl_envs import make
from llm_marl_envs.core.records import EpisodeGroup, Request, Response
from llm_marl_envs.core.seeds import group_starts
from llm_marl_envs.envs.games.instances import WORDS
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from trainers.algorithms import AdvantageInputs, make_algorithm
from trainers.batch.packing import reward_array
from trainers.batch.returns import discounted_returns
from trainers.running.costs import CRITIC_TOKENS
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

WAYS: dict[str, Any] = {
    "magrpo": {"name": "magrpo"},
    "central_critic, words": {"name": "central_critic", "critic": "words"},
    "central_critic, model": {"name": "central_critic", "critic": "model"},
}
TURNS, CHOICES, EPISODES, RATE = 3, 3, 8, 0.1
GAME: dict[str, Any] = {"turns": TURNS, "choices": CHOICES, "bonus": 5}


class Tables:
    """Plays every seat by a softmax table, (member, turn, word)."""

    def __init__(self) -> None:
        self.logits = torch.zeros(2, TURNS, CHOICES, requires_grad=True)

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """A word each, drawn by the request's seed."""
        chances = self.logits.detach().softmax(-1).double().numpy()
        found = []
        for one in requests:
            table = chances[int(one.agent[-1]), one.turn]
            word = np.random.default_rng(one.seed).choice(CHOICES, p=table / table.sum())
            found.append(Response(text=WORDS[word]))
        return found


def inputs_of(group: EpisodeGroup, agents: tuple[str, ...]) -> AdvantageInputs:
    """What the algorithm judges."""
    rewards, alive = reward_array([group], agents)
    return AdvantageInputs(
        returns=discounted_returns(rewards, alive, 1.0),
        rewards=rewards,
        alive=alive,
        agents=agents,
        policies={agent: agent for agent in agents},
        groups=(group,),
    )


def measured(way: str, seed: int, updates: int, body: str) -> dict[str, float]:
    """The numbers of one run."""
    own = {"body": body} if way.endswith("model") else {}
    args = SimpleNamespace(scale_rewards="none", baseline="leave_one_out", discount=1.0, seed=seed)
    algorithm = make_algorithm({**WAYS[way], **own}, args)
    copies = VectorTextEnv([make("regime-v0", **GAME) for _ in range(EPISODES)])
    algorithm.check(copies.envs[0], copies.envs[0].possible_agents)
    agents, tables = tuple(copies.envs[0].possible_agents), Tables()
    optimizer = torch.optim.Adam([tables.logits], lr=RATE)
    known: list[tuple[float, float]] = []
    seconds = read = 0.0
    for update in range(updates):
        starts = group_starts(0, 1000 * seed + update, EPISODES, "episode")
        episodes = tuple(rollout(copies, dict.fromkeys(agents, tables), starts))
        group = EpisodeGroup(task_id="train/0", seed=0, episodes=episodes, chance="episode")
        inputs, begun = inputs_of(group, agents), time.process_time()
        advantages = algorithm.advantages(inputs)
        seconds += time.process_time() - begun
        read += algorithm.counters.get(CRITIC_TOKENS, 0.0)
        if update >= updates // 2:
            known.append((share(advantages, inputs.returns), share(advantages, inputs.returns, 1)))
        words = [
            [[WORDS.index(t.action) for t in e.trajectory(a)] for a in agents] for e in episodes
        ]
        said = tables.logits.log_softmax(-1).expand(EPISODES, -1, -1, -1)
        said = said.gather(-1, torch.tensor(words)[..., None])[..., 0]
        loss = -(said * torch.tensor(advantages[0], dtype=torch.float32)).sum() / EPISODES
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return {
        "explained": float(np.mean([one for one, _ in known])),
        "explained after the toss": float(np.mean([one for _, one in known])),
        "words earn": earned(tables, copies.envs[0]),
        "critic tokens": read,
        "seconds": seconds,
    }


def share(advantages: np.ndarray, returns: np.ndarray, first: int = 0) -> float:
    """Of the returns' variance from a turn on, what is not left in the advantages."""
    return 1 - float(advantages[..., first:].var() / returns[..., first:].var())


def earned(tables: Tables, env: Any) -> float:
    """The exact mean of what the members' words pay."""
    rights = env.task.data["rights"]
    chances = tables.logits.detach().softmax(-1)
    each = [
        float(chances[member, turn, right])
        for turn, row in enumerate(rights)
        for member, right in enumerate(row)
    ]
    return sum(each) / 2


def untrained_body(folder: str) -> str:
    """A model of one layer, untrained, with a tokenizer of the environment's words."""
    copies = VectorTextEnv([make("regime-v0", **GAME) for _ in range(4)])
    team = dict.fromkeys(copies.envs[0].possible_agents, Tables())
    episodes = rollout(copies, team, group_starts(0, 0, 4, "episode"))
    texts = [f"{m.role}: {m.content}" for e in episodes for t in e.turns for m in t.messages]
    tokenizer = build_tokenizer([*texts, "assistant: [member_0] [member_1 acts]"], 600)
    sizes = {"hidden_size": 48, "num_layers": 1, "num_heads": 2, "intermediate_size": 96}
    settings = TinySettings(max_position_embeddings=512, **sizes)
    for one in (tokenizer, build_model(tokenizer, 0, settings)):
        one.save_pretrained(folder)
    return folder


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--updates", type=int, default=40)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=[*WAYS])
    parser.add_argument("--output", type=Path, help="where every run's numbers go, as JSON")
    options = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, list[dict[str, float]]] = {way: [] for way in options.ways}
    with TemporaryDirectory() as folder:
        body = untrained_body(folder)
        for seed in range(options.first_seed, options.first_seed + options.seeds):
            for way in options.ways:
                found[way].append(measured(way, seed, options.updates, body))
                numbers = {name: round(value, 3) for name, value in found[way][-1].items()}
                print(f"seed {seed}, {way}: {numbers}", flush=True)
    for way, runs in found.items():
        cells = []
        for name in runs[0]:
            each = [run[name] for run in runs]
            cells.append(f"{np.mean(each):.3g} ({min(each):.3g} to {max(each):.3g})")
        print("|", way, "|", " | ".join(cells), "|")
    if options.output:
        options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
