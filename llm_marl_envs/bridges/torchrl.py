"""TorchRL's side for language models: a text environment as an `EnvBase` of chats.

    env = TextChatEnv([make("coop_writing_tldr-v0") for _ in range(8)], groups=8)
    data = env.rollout(100, policy=OnlyActing(TransformersWrapper(model, ...)))

Owns `TextChatEnv`, one batch element per seat; `OnlyActing`, a policy that leaves the others alone
where seats act one after the other; `trajectories`, what each seat did and what it was paid for it.
For networks of numbers no bridge is needed: TorchRL's `PettingZooWrapper` takes `Choose(env)`.

Needs the extra `torchrl`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gymnasium import spaces
from pettingzoo import AECEnv

from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.forms import acting, as_played, messages_of
from llm_marl_envs.core.seeds import RESET_SEEDS, derive_seed
from llm_marl_envs.core.spaces import Message

with Extra("torchrl", "TorchRL's bridge"):
    import torch
    from tensordict import TensorDict, lazy_stack
    from tensordict.nn import TensorDictModuleBase
    from torchrl.data import Binary, Composite, NonTensor, Unbounded
    from torchrl.data.llm.history import History
    from torchrl.envs import EnvBase
    from torchrl.modules.llm.policies import ChatHistory

ENDS = ("done", "terminated", "truncated")


class _Game:
    """One environment of either form, played by joint actions of the seats that are to act.

    Args:
        env: simultaneous or turn-based.
    """

    def __init__(self, env: Any) -> None:
        self.env = env

    def begin(self, seed: int) -> None:
        """Begin an episode."""
        self.start, self.cut = seed, False
        first = self.env.reset(seed=seed)
        self._seen: dict[str, str] = {} if isinstance(self.env, AECEnv) else dict(first[0])

    @property
    def acting(self) -> list[str]:
        """The seats that are to act; nobody after the end."""
        return acting(self.env)

    def play(self, texts: Mapping[str, str]) -> Mapping[str, float]:
        """One step; what each seat was paid."""
        env = self.env
        if not isinstance(env, AECEnv):
            seen, paid, _, cut, _ = env.step(texts)
            self._seen.update(seen)
            self.cut |= any(cut.values())
            return paid
        (text,) = texts.values()
        env.step(text)
        paid = dict(env.rewards)
        self.cut |= any(env.truncations.values())
        acting(env)  # dead agents leave
        return paid

    def chat(self, seat: str) -> Sequence[Message]:
        """What a seat is shown, or was shown last; a bare string is one message."""
        if isinstance(self.env, AECEnv) and seat in (self.env.agents or self.env.possible_agents):
            self._seen[seat] = self.env.observe(seat) or ""
        return messages_of(self._seen[seat])


class TextChatEnv(EnvBase):
    """A text environment of either form, one batch element per seat.

    What a seat is shown: `("history", "prompt")`, its chat; `acting`, whether it is to act now;
    `agent`, its name; `group`, equal for the episodes of one seat that begin alike, which is what
    `MCAdvantage(prompt_key="group")` compares. What it says is the last message of
    `("history", "full")`, after those of the prompt. `reward` is what the seat was paid at this
    step. `done` comes to all at once, when the last episode is over.

    Where seats act one after the other, one seat acts at each step. An answer of another seat
    would be heard by nobody, so it is an error: put `OnlyActing` around the policy.

    Args:
        env: a text environment of either form, or several copies, whose episodes are played side
            by side: then the batch holds the seats of the first, those of the second, and so on.
            They must not be used elsewhere. Where observations are bare strings, each is a chat of
            one message.
        groups: G, how many episodes, one after the other or side by side, begin alike, >= 1.
        seed: what reset seeds follow from, as `set_seed` sets it.

    Raises:
        TypeError: no PettingZoo environment, or one of numbers.
        ValueError: no copy, copies that are one object or have other seats, or `groups` below 1.
    """

    def __init__(self, env: Any, *, groups: int = 1, seed: int = 0) -> None:
        envs = [_texts(copy) for copy in (env if isinstance(env, (list, tuple)) else [env])]
        if not envs or len({id(copy) for copy in envs}) < len(envs):
            raise ValueError(
                "TextChatEnv: expected an environment, or copies that are not the same"
            )
        seats = list(envs[0].possible_agents)
        if any(list(copy.possible_agents) != seats for copy in envs):
            raise ValueError(
                f"TextChatEnv: expected copies that have the seats of the first, {seats}"
            )
        if groups < 1:
            raise ValueError(f"TextChatEnv: groups={groups}: expected at least 1 episode")
        size = (len(envs) * len(seats),)
        super().__init__(batch_size=size)
        self.groups, self._games = groups, [_Game(copy) for copy in envs]
        self._places = [(game, seat) for game in self._games for seat in seats]
        self._set_seed(seed)
        chats = {
            key: ChatHistory.default_spec(shape=size, keys=[key]) for key in ("prompt", "full")
        }
        self.observation_spec = Composite(
            history=chats["prompt"],
            agent=NonTensor(shape=size, example_data=""),
            group=NonTensor(shape=size, example_data=""),
            acting=Binary(shape=size, dtype=torch.bool),
            shape=size,
        )
        self.action_spec = Composite(history=chats["full"], shape=size)
        self.reward_spec = Unbounded((*size, 1))
        flag = {end: Binary(1, shape=(*size, 1), dtype=torch.bool) for end in ENDS}
        self.done_spec = Composite(flag, shape=size)

    def _set_seed(self, seed: int | None) -> None:
        self._seed, self._begun = seed or 0, 0

    def _reset(self, tensordict: Any = None, **_: Any) -> Any:
        """All begin together; `groups` episodes in a row share their reset seed."""
        for game in self._games:
            group = self._begun // self.groups
            game.begin(derive_seed("torchrl", self._seed, group) % RESET_SEEDS)
            self._begun += 1
        return self._shown()

    def _step(self, tensordict: Any) -> Any:
        texts: dict[_Game, dict[str, str]] = {game: {} for game in self._games}
        for (game, seat), row, length in zip(
            self._places, tensordict.unbind(0), self._lengths, strict=True
        ):
            answers = _answers(row["history"].full[length:])
            if seat not in game.acting:
                if answers:
                    raise ValueError(
                        f"TextChatEnv: {seat} answered, and {' or '.join(game.acting) or 'nobody'} "
                        "is to act; put OnlyActing around the policy, then nobody else is asked"
                    )
                continue
            if not answers:
                raise ValueError(
                    f"TextChatEnv: {seat} is to act; expected an answer after the prompt in "
                    '("history", "full")'
                )
            texts[game][seat] = answers[-1]
        paid = {game: game.play(spoken) for game, spoken in texts.items() if spoken}
        return self._after(paid)

    def _after(self, paid: Mapping[_Game, Mapping[str, float]]) -> Any:
        """What a step leads to."""
        shown = self._shown()
        rewards = [[float(paid.get(game, {}).get(seat, 0.0))] for game, seat in self._places]
        over = not any(game.acting for game in self._games)
        cut = [[over and game.cut] for game, _ in self._places]
        shown.set("reward", torch.tensor(rewards))
        shown.set("truncated", torch.tensor(cut))
        shown.set("terminated", torch.tensor([[over and not game.cut] for game, _ in self._places]))
        shown.set("done", torch.full((len(self._places), 1), over))
        return shown

    def _shown(self) -> Any:
        """What each seat is shown, one batch element each."""
        rows = []
        self._lengths: list[int] = []
        for game, seat in self._places:
            chat = game.chat(seat)
            self._lengths.append(len(chat))
            row = TensorDict({"acting": torch.tensor(seat in game.acting)}, batch_size=())
            prompt = lazy_stack([History(role=m.role, content=m.content) for m in chat])
            row.set("history", ChatHistory(prompt=prompt))
            row.set_non_tensor("agent", seat)
            row.set_non_tensor("group", f"{seat}/{game.start}")
            rows.append(row)
        return lazy_stack(rows)

    def close(self, *, raise_if_closed: bool = True) -> None:
        """Close the environments inside, too."""
        super().close(raise_if_closed=raise_if_closed)
        for game in self._games:
            game.env.close()


def _texts(env: Any) -> Any:
    """The environment, if it is one of texts.

    Raises:
        TypeError: it is not.
    """
    seats = getattr(env, "possible_agents", None)
    if seats is None:
        raise TypeError(f"TextChatEnv: expected a PettingZoo environment, got {type(env).__name__}")
    for seat in seats:
        space = env.action_space(seat)
        if not isinstance(space, spaces.Text):
            raise TypeError(
                f"TextChatEnv: {seat} acts in {space}, and expected is text; leave out Choose and "
                "Tokenize (the environment inside is `.env`), or give what has numbers to "
                "torchrl.envs.PettingZooWrapper"
            )
    return as_played(env)


def _answers(messages: Any) -> list[str]:
    """Texts of the messages after the prompt.

    TorchRL reads them out of the decoded text, so a prompt that holds control tokens is several
    messages there; the answer is the last. "<none>" fills up where others have more.
    """
    return [message.content for message in messages.unbind(0) if message.role != "<none>"]


class OnlyActing(TensorDictModuleBase):
    """A policy that is asked for the seats alone that are to act; the others say nothing.

    Args:
        policy: what TorchRL takes for a policy of chats, such as a `TransformersWrapper`.
    """

    def __init__(self, policy: Any) -> None:
        super().__init__()
        self.policy = policy
        self.in_keys = [("history", "prompt"), "acting"]
        self.out_keys = list(getattr(policy, "out_keys", [("history", "full")]))

    def forward(self, tensordict: Any) -> Any:
        """The same seats, with what the policy adds to those that act."""
        rows = list(tensordict.unbind(0))
        asked = [place for place, row in enumerate(rows) if row["acting"]]
        answers = self.policy(lazy_stack([rows[place] for place in asked])) if asked else ()
        for place, answer in zip(asked, answers, strict=True):
            rows[place] = answer
        for row in rows:
            if not row["acting"]:
                row["history"].full = row["history"].prompt
        return lazy_stack(rows)


def trajectories(data: Any) -> list[Any]:
    """Per seat and finished episode the steps at which it acted.

    The reward of a step is what the seat was paid from this action to its next; what was paid
    before its first action belongs to this one. The last step is `done`. So `MCAdvantage` and
    losses see actions alone.

    Args:
        data: what a rollout or a collector gave, of shape (seats, steps).

    Returns:
        One lazy stack of steps per trajectory, copies; seats that did not act have none.
    """
    finished = []
    for seat in data.unbind(0):
        turns: list[Any] = []
        early = 0.0
        for step in seat.unbind(0):
            after = step["next"]
            if step["acting"]:
                turns.append(step.clone())
                turns[-1]["next", "reward"] += early
                early = 0.0
            elif turns:
                turns[-1]["next", "reward"] += after["reward"]
            else:
                early = early + after["reward"]
            if not after["done"]:
                continue
            for end in ENDS if turns else ():
                turns[-1]["next", end] = after[end].clone()
            finished += [lazy_stack(turns)] if turns else []
            turns, early = [], 0.0
    return finished
