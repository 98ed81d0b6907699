"""TorchRL: MAPPO teaches two seats that choose messages, with one critic for both."""

from __future__ import annotations

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs import MarlGroupMapType, PettingZooWrapper, RewardSum, TransformedEnv
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from llm_marl_envs import make
from llm_marl_envs.wrappers import Choose

GROUP = "agents"
SEEN, RETURN = (GROUP, "observation", "observation"), (GROUP, "episode_reward")


def seats(seed: int) -> TransformedEnv:
    """Both seats in one group; observations are 256 numbers and a mask of possible messages."""
    env = Choose(make("coop_writing_tldr-v0"), mask="observation")
    together = MarlGroupMapType.ALL_IN_ONE_GROUP
    env = PettingZooWrapper(env, group_map=together, categorical_actions=True, seed=seed)
    return TransformedEnv(env, RewardSum(in_keys=env.reward_keys, out_keys=[RETURN]))


def networks(env: TransformedEnv) -> tuple[ProbabilisticActor, TensorDictModule]:
    """An actor per seat; a critic that sees what both see."""
    seats, size = env.observation_spec[SEEN].shape
    choices = env.full_action_spec[GROUP, "action"].space.n
    sizes = {"n_agents": seats, "depth": 1, "num_cells": 64}
    policy = MultiAgentMLP(size, choices, centralized=False, share_params=False, **sizes)
    actor = ProbabilisticActor(
        TensorDictModule(policy, in_keys=[SEEN], out_keys=[(GROUP, "logits")]),
        spec=env.full_action_spec,
        in_keys={"logits": (GROUP, "logits"), "mask": (GROUP, "action_mask")},
        out_keys=[(GROUP, "action")],
        distribution_class=MaskedCategorical,
        return_log_prob=True,
    )
    value = MultiAgentMLP(size, 1, centralized=True, share_params=True, **sizes)
    return actor, TensorDictModule(value, in_keys=[SEEN], out_keys=[(GROUP, "state_value")])


def train(seed: int) -> list[float]:
    """Mean returns, one per batch of 200 steps."""
    torch.manual_seed(seed)
    env = seats(seed)
    actor, critic = networks(env)
    loss = ClipPPOLoss(actor, critic, entropy_coeff=0.01, normalize_advantage=True)
    keys = {name: (GROUP, name) for name in ("reward", "action", "done", "terminated")}
    loss.set_keys(**keys, value=(GROUP, "state_value"), sample_log_prob=(GROUP, "action_log_prob"))
    loss.make_value_estimator(ValueEstimators.GAE, gamma=1.0, lmbda=1.0)
    optimizer = torch.optim.Adam(loss.parameters(), lr=3e-3)
    curve = []
    for batch in Collector(env, actor, frames_per_batch=200, total_frames=2400):
        curve.append(batch["next", RETURN][batch["next", GROUP, "done"]].mean().item())
        with torch.no_grad():
            loss.value_estimator(batch)
        for _ in range(6):
            losses = loss(batch)
            optimizer.zero_grad()
            (losses["loss_objective"] + losses["loss_critic"] + losses["loss_entropy"]).backward()
            optimizer.step()
    return curve


if __name__ == "__main__":
    print(train(seed=0))
