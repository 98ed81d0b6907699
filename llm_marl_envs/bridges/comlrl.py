"""CoMLRL on environments of this library: its MAGRPO and its kin, IAC and MAAC.

    parts = for_comlrl("coop_coding-v0", tokenizer, 500)
    MAGRPOTrainer(agents=[one, other], tokenizer=tokenizer, args=MAGRPOConfig(...), **parts)

CoMLRL has no environments: it asks a formatter per seat for the first prompt, a reward function
what one turn pays, and a transition for the prompts of the next turn. All three play the episode
again from its beginning, so they keep nothing of it: the same task begins the same episode.

The reward function is not told the turns before. It learns them from the row: the transition writes
into the row's prompt which branch it prepared, and CoMLRL scores that branch next, in training and
in evaluation. Each time that CoMLRL reads a row, it is a new one.

Needs the extra `comlrl`.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from pettingzoo import AECEnv

from llm_marl_envs.core.environment import task_ids
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.forms import messages_of
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.play.registry import make


class Branch(str):
    """The prompt of a row: a task's id, and what was said in the turns before the next score.

    Attributes:
        said: per turn the text of each seat, in the order of the seats.
    """

    said: tuple[tuple[str, ...], ...] = ()


class Replay:
    """Episodes of one environment, played again from their beginning.

    Args:
        env: simultaneous; no other thread may use it.
        seed: of every reset.
    """

    def __init__(self, env: Any, seed: int) -> None:
        self.env, self.seed = env, seed
        self.seats: list[str] = list(env.possible_agents)
        self._lock = threading.Lock()  # with parallel_training="mp" formatters run in threads

    def after(self, task: str, turns: Sequence[Sequence[str]]) -> tuple[dict[str, Any], float]:
        """What each seat sees after these turns, and what the last one paid the team.

        A turn after the episode's end pays nothing.

        Raises:
            ValueError: as many texts as there are not seats.
        """
        with self._lock:
            seen, _ = self.env.reset(seed=self.seed, options={"task": str(task)})
            paid = 0.0
            for texts in turns:
                if len(texts) != len(self.seats):
                    raise ValueError(
                        f"{env_name(self.env)}: got {len(texts)} texts; its seats are "
                        f"{self.seats}: give CoMLRL as many agents"
                    )
                if not self.env.agents:
                    return seen, 0.0
                spoken = dict(zip(self.seats, texts, strict=True))
                now, rewards, *_ = self.env.step({a: spoken[a] for a in self.env.agents})
                seen, paid = {**seen, **now}, sum(rewards.values()) / len(self.seats)
            return seen, paid


class Asked:
    """What CoMLRL asks of an environment.

    Args:
        replay: of the environment.
        write: per seat, from what it sees to its prompt.
    """

    def __init__(self, replay: Replay, write: Sequence[Callable[[str], str]]) -> None:
        self.replay, self.write = replay, write

    def formatter(self, place: int) -> Callable[..., str]:
        """The formatter of a seat: from a row to its first prompt; later ones are ready."""

        def prompt(row: Mapping[str, Any], external_prompts: str | None = None) -> str:
            if external_prompts is not None:
                return external_prompts
            seen, _ = self.replay.after(row["prompt"], ())
            return self.write[place](seen[self.replay.seats[place]])

        return prompt

    def reward(
        self, *completions: Sequence[str], batch_items: Sequence[Mapping[str, Any]]
    ) -> list[float]:
        """What the turn paid the team, per joint completion of the row's branch.

        Raises:
            ValueError: a row of another dataset, or another number of agents than of seats.
        """
        branch = _branch(batch_items[0]["prompt"])
        turns = zip(*completions, strict=True)
        return [self.replay.after(branch, [*branch.said, texts])[1] for texts in turns]

    def transition(
        self, *, prompt: str, response_history_per_agent: Sequence[Sequence[str]], **_: Any
    ) -> list[str]:
        """The prompts of a branch's next turn, which is scored next.

        Raises:
            ValueError: as `reward`.
        """
        branch = _branch(prompt)
        branch.said = tuple(zip(*response_history_per_agent, strict=True))
        seen, _paid = self.replay.after(branch, branch.said)
        shown = [seen[seat] for seat in self.replay.seats]
        return [write(text) for write, text in zip(self.write, shown, strict=True)]


def for_comlrl(
    env: Any,
    tokenizer: Any,
    n: int,
    *,
    seed: int = 0,
    chat_template_kwargs: Mapping[str, Any] | None = None,
    **arguments: Any,
) -> dict[str, Any]:
    """The arguments of a trainer of CoMLRL that speak of the task; pass them on with `**`.

    The reward is the team's: the mean over the seats of what the turn paid.

    Args:
        env: an id, or an environment: simultaneous, or one seat that `Partners` left.
        tokenizer: of all seats, or one per seat; prompts are written with its chat template.
        n: how many of the environment's tasks are rows.
        seed: of every episode.
        chat_template_kwargs: for the template, e.g. {"enable_thinking": False}.
        arguments: of `make`, where `env` is an id; `turns` as many as `num_turns` of the trainer.

    Returns:
        `train_dataset`, `formatters`, `reward_func` and `external_transition`.

    Raises:
        ImportError: CoMLRL is not installed.
        ValueError: a turn-based environment with several seats, more tasks than there are, another
            number of tokenizers than of seats; later, a template that writes the padding token.
    """
    made = make(env, **arguments) if isinstance(env, str) else env
    _refuse_turns(made)
    replay = Replay(made, seed)
    tokenizers = tokenizer if isinstance(tokenizer, Sequence) else [tokenizer] * len(replay.seats)
    if len(tokenizers) != len(replay.seats):
        raise ValueError(
            f"got {len(tokenizers)} tokenizers: expected one, or one for each of {replay.seats}"
        )
    write = [partial(prompt_of, own, template=chat_template_kwargs or {}) for own in tokenizers]
    asked = Asked(replay, write)
    return {
        "train_dataset": rows_of(made, n),
        "formatters": [asked.formatter(place) for place in range(len(replay.seats))],
        "reward_func": asked.reward,
        "external_transition": asked.transition,
    }


def rows_of(env: Any, n: int) -> Any:
    """The first `n` tasks as a dataset that makes a new `Branch` each time that a row is read.

    Raises:
        ImportError: CoMLRL is not installed.
        ValueError: more tasks than there are.
    """
    with Extra("comlrl", "CoMLRL's bridge"):
        importlib.import_module("comlrl")
        datasets: Any = importlib.import_module("datasets")
    tasks = datasets.Dataset.from_dict({"prompt": task_ids(env, n)})
    return tasks.with_transform(_fresh)


def _fresh(rows: Mapping[str, Sequence[str]]) -> dict[str, list[Branch]]:
    return {"prompt": [Branch(task) for task in rows["prompt"]]}


def prompt_of(tokenizer: Any, seen: str, template: Mapping[str, Any]) -> str:
    """What a seat sees, in the tokenizer's chat template, as CoMLRL tokenizes it.

    Raises:
        ValueError: the padding token is in it: CoMLRL takes what comes after as the answer.
    """
    chat = [{"role": m.role, "content": m.content} for m in messages_of(seen)]
    text = tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=True, **template
    )
    padding = tokenizer.pad_token or tokenizer.eos_token
    if padding in text:
        raise ValueError(
            f"the chat template writes {padding!r}, which is the padding token; CoMLRL would take "
            "the rest of the prompt as the answer: give the tokenizer another pad_token"
        )
    first = tokenizer.bos_token
    if first and tokenizer("")["input_ids"][:1] == [tokenizer.bos_token_id]:
        return text.removeprefix(first)  # CoMLRL's call of the tokenizer puts one there
    return text


def _branch(prompt: str) -> Branch:
    if not isinstance(prompt, Branch):
        raise ValueError(f"row {prompt!r}: expected a row of the dataset that for_comlrl made")
    return prompt


def _refuse_turns(env: Any) -> None:
    """Raises ValueError for a turn-based environment of several seats, as it is or as parallel."""
    turns = isinstance(env, AECEnv) or hasattr(env, "aec_env")
    if turns and len(env.possible_agents) > 1:
        raise ValueError(
            f"{env_name(env)} is turn-based, and CoMLRL asks all of {env.possible_agents} at every "
            "turn; leave one seat with Partners, take single_seat=True, or use MAGRPOTrainer of "
            "this library"
        )
