"""TRL's `GRPOTrainer` trains one seat beside frozen partners.

`SeatRollout` is a `rollout_func`: any model with a chat template, several turns, no tools.

    rollout = SeatRollout("debate-v0", {"debater_1": "expert", "debater_2": "expert"})
    GRPOTrainer(
        model, reward_funcs=episode_return, rollout_func=rollout, train_dataset=rollout.dataset(500)
    )

`seat_environment` is an `environment_factory`: the model acts by calling the one tool `say`.

    Seat = seat_environment("debate-v0", {"debater_1": "expert", "debater_2": "expert"})
    GRPOTrainer(model, environment_factory=Seat, train_dataset=seat_dataset("debate-v0", 500))

The first is the better way for text. `MAGRPOTrainer` trains all seats together; use it for teams.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from llm_marl_envs.bridges.seats import Team, made_once, one_seat, told_since
from llm_marl_envs.core.environment import task_ids
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.seeds import RESET_SEEDS, Start, derive_seed
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from trainers.batch.packing import Row
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.team_model import FullWeights

RETURN = "episode_return"


def episode_return(episode_return: Sequence[float], **_: Any) -> list[float | None]:
    """The reward function that goes with `SeatRollout`: the seat's undiscounted return."""
    return list(episode_return)


class SeatRollout:
    """Plays the episodes of a step; `GRPOTrainer` calls it with the prompts, which are task ids.

    Tokens in, tokens out: a row holds the ids that were sampled and, masked, those of what the
    environment said between them. A row ends with an action that holds a control token or that the
    environment cut, for the next prompt does not hold it as it was sampled; later turns count in
    the return alone. Each row's sampling follows from its own seed. The trainer's temperature
    holds, none of its other sampling options.

    Args:
        env_id: of the environment.
        partners: agent -> policy of all seats but one; None: one agent plays all seats.
        max_completion_length: most tokens of one action.
        seed: of resets and samples; the episodes of a group share their reset seed.
        arguments: of `make`.

    Raises:
        ValueError: as `one_seat`.
    """

    def __init__(
        self,
        env_id: str,
        partners: Team | None = None,
        *,
        max_completion_length: int = 256,
        seed: int = 0,
        **arguments: Any,
    ) -> None:
        self.env_id, self.arguments = env_id, arguments
        self.max_completion_length, self.seed = max_completion_length, seed
        self.partners = made_once(env_id, partners, arguments)
        self.envs = [one_seat(env_id, self.partners, arguments)]
        (self.seat,) = self.envs[0].possible_agents

    def dataset(self, n: int) -> Dataset:
        """The first `n` tasks as prompts."""
        return Dataset.from_list([{"prompt": name} for name in task_ids(self.envs[0], n)])

    def __call__(self, prompts: Sequence[str], trainer: Any) -> dict[str, list[Any]]:
        """What TRL asks of a `rollout_func`, with `env_mask` and the column of `episode_return`.

        Raises:
            ValueError: no such task, a tokenizer without chat template, or one that rewrites what
                was said, so that an episode is not one row.
        """
        while len(self.envs) < len(prompts):
            self.envs.append(one_seat(self.env_id, self.partners, self.arguments))
        model = trainer.accelerator.unwrap_model(trainer.model)
        policy = TokenPolicy(
            FullWeights(model, trainer.processing_class, [self.seat]),
            max_completion_length=self.max_completion_length,
            temperature=trainer.temperature,
        )
        copies = VectorTextEnv(self.envs[: len(prompts)])
        episodes = rollout(copies, {self.seat: policy}, self._starts(prompts, trainer))
        (chat,) = policy.chats.values()
        rows = [_row(episode, self.seat, rewrites=not chat.appends) for episode in episodes]
        return {
            "prompt_ids": [row.prompt_ids for row in rows],
            "completion_ids": [row.completion_ids for row in rows],
            "logprobs": [row.logprobs for row in rows],
            "env_mask": [row.own for row in rows],
            RETURN: [episode.undiscounted_return(self.seat) for episode in episodes],
        }

    def _starts(self, prompts: Sequence[str], trainer: Any) -> list[Start]:
        step, process = trainer.state.global_step, trainer.accelerator.process_index
        return [
            Start(
                task=prompt,
                seed=derive_seed(self.seed, "trl", step, prompt) % RESET_SEEDS,
                sample_seed=derive_seed(self.seed, "trl", step, process, place),
            )
            for place, prompt in enumerate(prompts)
        ]


def _row(episode: Episode, seat: str, *, rewrites: bool) -> Row:
    """The turns of a seat as one row, up to where a prompt does not hold what was sampled."""
    first, *_ = turns = episode.trajectory(seat)
    row = Row(first.response.policy, seat, list(first.response.prompt_ids or ()))
    for turn in turns:
        if not row.extended_by(turn.response.prompt_ids or ()):
            if not rewrites:
                break
            raise ValueError(
                f"task {episode.task_id!r}, {seat}, turn {turn.index}: the prompt does not extend "
                "what was said before, so the episode is not one row; use a chat template that "
                "keeps history as it was, or MAGRPOTrainer, which begins a new row"
            )
        row.add(turn, 0.0, True)
    return row


def seat_dataset(env_id: str, n: int, **arguments: Any) -> Dataset:
    """The first `n` tasks for `seat_environment`, which writes what the seat is told."""
    prompt = [{"role": "user", "content": ""}]
    ids = task_ids(make(env_id, **arguments), n)
    return Dataset.from_list([{"prompt": prompt, "task": name} for name in ids])


def seat_environment(
    env_id: str, partners: Team | None = None, *, seed: int = 0, **arguments: Any
) -> type[Any]:
    """A class for `environment_factory`: `say` is its one tool, `get_reward` the seat's return.

    Rows of the dataset name their task in `task`. What the model writes without calling `say` is
    not heard.

    Args:
        env_id: of the environment.
        partners: agent -> policy of all seats but one; None: one agent plays all seats.
        seed: the reset seed.
        arguments: of `make`.

    Raises:
        ValueError: as `one_seat`.
    """
    team = made_once(env_id, partners, arguments)
    one_seat(env_id, team, arguments)  # what cannot be is refused now

    class SeatEnvironment:
        """One seat of one episode. TRL makes a tool of each public method."""

        def __init__(self) -> None:
            self._env = one_seat(env_id, team, arguments)
            (self._seat,) = self._env.possible_agents
            self._paid = 0.0

        def reset(self, task: str | None = None, **_: Any) -> str:
            """Begin the row's episode; what the seat is told."""
            options = None if task is None else {"task": task}
            observations, _infos = self._env.reset(seed=seed, options=options)
            self._paid = 0.0
            return str(observations[self._seat])

        def say(self, text: str) -> str:
            """Act in the episode.

            Args:
                text: what you say or write.

            Returns:
                What the environment answers.
            """
            if self._env.agents:
                observations, rewards, *_ = self._env.step({self._seat: text})
                self._paid += rewards[self._seat]
                if self._env.agents:
                    return told_since(observations[self._seat])
            return "The episode is over."

        def get_reward(self) -> float:
            """The seat's return so far."""
            return self._paid

    return SeatEnvironment
