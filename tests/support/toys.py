"""Small environments for tests: two of this library's kind and two as a stranger writes them.

`WordPair` and `Relay` pass `check_text_env`. `BareParallel` and `BareAEC` are plain PettingZoo
environments that send bare strings and whose agents leave early.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar
from zlib import crc32

from pettingzoo import AECEnv, ParallelEnv

from llm_marl_envs.core.environment import (
    Bounds,
    Outcome,
    TextAECEnv,
    TextEnv,
    TextParallelEnv,
)
from llm_marl_envs.core.experts import Experts
from llm_marl_envs.core.outcome import Aside
from llm_marl_envs.core.spaces import Message, TextSpace
from llm_marl_envs.core.tasks import ListSource, Task, TaskSource

WORDS = ("apple", "birch", "cedar", "daisy", "elder", "fig")


def word_tasks(split: str = "train") -> ListSource:
    pairs = [(a, b) for a in WORDS for b in WORDS if a != b]
    return ListSource(
        [Task(f"{a}-{b}", split, {"words": (a, b)}) for a, b in pairs],
        split,
    )


class WordExperts(Experts):
    """Say the own word, in lower or in upper case."""

    fixed = ("lower", "upper")

    def first(self, task: Task, agent: str, convention: str) -> str:
        word = task.data["words"][("left_0", "right_0").index(agent)]
        return word.upper() if convention == "upper" else word

    def read(self, task: Task, agent: str, action: str) -> str | None:
        if action.lower() != self.first(task, agent, "lower"):
            return None
        return "upper" if action.isupper() else "lower"


class SameCaseExperts(WordExperts):
    def conventions(self, task: Task) -> tuple[str, ...]:
        """Words with `fig` can only be said in lower case."""
        return ("lower",) if "fig" in task.data["words"] else ("lower", "upper")


class RelayExperts(Experts):
    """Know the word without listening."""

    def first(self, task: Task, agent: str, convention: str) -> str:
        return task.data["words"][0]


class WordPair(TextParallelEnv):
    """Each of two agents must say its own word; the team is paid for each that did, as a gain.

    Two turns; both said right ends the episode early. The return is 0, 0.5 or 1 for both agents.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "word_pair", "render_modes": ["ansi"]}
    reward_range = (0.0, 1.0)

    def __init__(
        self,
        *,
        tasks: TaskSource | None = None,
        turns: int = 2,
        max_action_chars: int = 200,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            agents=("left_0", "right_0"),
            source=tasks or word_tasks(),
            max_turns=turns,
            max_action_chars=max_action_chars,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        self.said: set[str] = set()
        return {
            agent: (Message("system", "Say your word."), Message("user", f"Your word: {word}"))
            for agent, word in zip(self.possible_agents, task.data["words"], strict=True)
        }

    def experts(self) -> Experts | None:
        return WordExperts()

    def bounds(self, task: Task) -> Bounds:
        return Bounds(random=0.0, solo=0.5, team=1.0)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        before = len(self.said)
        for agent, action in joint_action.items():
            if WordExperts().read(self.task, agent, action):
                self.said.add(agent)
        gain = (len(self.said) - before) / 2
        solved = len(self.said) == 2
        return Outcome(
            reward_terms={agent: {"words": gain} for agent in self.agents},
            feedback={} if solved else dict.fromkeys(self.agents, "Again."),
            ended=solved,
            success=solved,
            facts={agent: {"said": agent in self.said} for agent in self.agents},
        )


class SameCase(WordPair):
    """Both words must be said in the same case: two conventions that do not mix."""

    def __init__(self) -> None:
        super().__init__(turns=1)

    def experts(self) -> Experts | None:
        return SameCaseExperts()

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        found = {WordExperts().read(self.task, a, text) for a, text in joint_action.items()}
        solved = len(found) == 1 and None not in found
        return Outcome(
            reward_terms={agent: {"words": float(solved)} for agent in self.agents},
            success=solved,
        )


class Lower(WordPair):
    """Pays the share of characters that are lower-case letters: any policy can improve on it."""

    append_only = True

    def play(self, joint_action: Any) -> Outcome:
        share = sum(
            sum(c.isascii() and c.islower() for c in text) / max(len(text), 1)
            for text in joint_action.values()
        )
        return Outcome(
            reward_terms={agent: {"lower": share / 2} for agent in self.possible_agents},
            feedback=dict.fromkeys(self.possible_agents, "Again."),
            success=share > 1,
        )


class Whims:
    """Every second text is an aside, whatever it says, up to two of a seat; it costs."""

    def __init__(self, env: TextEnv, seed: int) -> None:
        self.left = dict.fromkeys(env.possible_agents, 2)

    def demand(self, agent: str, chat: Sequence[Message]) -> str:
        return ""

    def take(self, agent: str, text: str) -> Aside | None:
        if not self.left[agent] or crc32(text.encode("utf-8", "surrogatepass")) % 2:
            return None
        self.left[agent] -= 1
        return Aside(reward_terms={"whim": -0.25}, feedback="And now?")

    def redraw(self, seed: int) -> None:
        """Nothing is drawn."""


class Coin(WordPair):
    """Pays and shows what chance deals at each turn, whatever is said."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        coin = self.rng.random()
        return Outcome(
            reward_terms={agent: {"coin": coin} for agent in self.agents},
            feedback=dict.fromkeys(self.agents, f"The coin: {coin}"),
        )


class Relay(TextAECEnv):
    """Three seats in a row: the first knows a word, each hears the one before it.

    One or more rounds; the team earns 1 if the last seat says the word in the last round.
    """

    metadata: ClassVar[dict[str, Any]] = {"name": "relay", "render_modes": ["ansi"]}
    reward_range = (0.0, 1.0)

    def __init__(
        self,
        *,
        tasks: TaskSource | None = None,
        rounds: int = 1,
        render_mode: str | None = None,
    ) -> None:
        super().__init__(
            agents=("runner_0", "runner_1", "runner_2"),
            source=tasks or word_tasks(),
            max_turns=rounds,
            max_action_chars=200,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        texts = {"runner_0": f"The word: {task.data['words'][0]}"}
        return {
            agent: (Message("user", texts.get(agent, "Pass on what you hear.")),)
            for agent in self.possible_agents
        }

    def experts(self) -> Experts | None:
        return RelayExperts()

    def play_one(self, agent: str, action: str) -> Outcome:
        last = agent == self.possible_agents[-1]
        over = last and self._taken[agent] >= self.max_turns
        solved = over and action == self.task.data["words"][0]
        return Outcome(
            reward_terms={a: {"relay": float(solved)} for a in self.agents} if over else {},
            feedback={} if over else {self.next_agent(agent): f"You hear: {action}"},
            ended=over,
            success=solved if over else None,
        )


class CoinInTurn(Relay):
    """Pays what chance deals at each turn, whatever is said; the next seat is shown it."""

    def play_one(self, agent: str, action: str) -> Outcome:
        outcome, coin = super().play_one(agent, action), self.rng.random()
        return replace(
            outcome,
            reward_terms={one: {"coin": coin} for one in self.agents},
            feedback={one: f"{text} The coin: {coin}" for one, text in outcome.feedback.items()},
        )


class BareParallel(ParallelEnv[str, str, str]):
    """Plain strings, infos that are no JSON, and `short_0` leaves after its first action."""

    metadata = {  # noqa: RUF012 - as PettingZoo declares it
        "name": "bare_parallel"
    }

    def __init__(self) -> None:
        self.possible_agents = ["short_0", "tall_0"]
        self.agents: list[str] = []
        self.space = TextSpace(1000)

    def observation_space(self, agent: str) -> TextSpace:
        return self.space

    def action_space(self, agent: str) -> TextSpace:
        return self.space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        self.agents = list(self.possible_agents)
        self.log = "The log:"
        return dict.fromkeys(self.agents, self.log), {a: {} for a in self.agents}

    def step(self, actions: dict[str, str]) -> Any:
        present = self.agents
        self.log += "".join(f"\n{agent}: {actions[agent]}" for agent in present)
        over = {a: a == "short_0" or len(self.log.splitlines()) > 4 for a in present}
        self.agents = [a for a in present if not over[a]]
        return (
            dict.fromkeys(present, self.log),
            {a: 1 if a == "short_0" else 0.25 for a in present},
            over,
            dict.fromkeys(present, False),
            {a: {"seen": {1, 2}, "env": self} for a in present},
        )


class BareAEC(AECEnv[str, str, str | None]):
    """Bare strings, one after the other; `first_0` dies after one action and is paid later."""

    metadata = {  # noqa: RUF012 - as PettingZoo declares it
        "name": "bare_aec"
    }

    def __init__(self) -> None:
        self.possible_agents = ["first_0", "second_0"]
        self.space = TextSpace(1000)

    def observation_space(self, agent: str) -> TextSpace:
        return self.space

    def action_space(self, agent: str) -> TextSpace:
        return self.space

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        self.agents = list(self.possible_agents)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: {} for agent in self.agents}
        self.agent_selection = "first_0"
        self.count = 0

    def observe(self, agent: str) -> str:
        return f"{self.count} actions so far"

    def step(self, action: str | None) -> None:
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        self.count += 1
        self._cumulative_rewards[agent] = 0.0
        self._clear_rewards()
        # Paid for its only action at once and again when the other has answered.
        if "first_0" in self.agents:
            self.rewards["first_0"] = 2.0
        self.rewards["second_0"] = float(agent == "second_0")
        self.agent_selection = "second_0"
        if self.count == 2:
            self.terminations["first_0"] = True
        if self.count == 3:
            self.truncations["second_0"] = True
        self._accumulate_rewards()
        self._deads_step_first()


def shaky(
    base: Any,
    breaks: Any,
    where: str = "step",
    error: type[Exception] = OSError,
    **pays: Any,
) -> Any:
    """A class like `base` whose environments raise in some of their episodes.

    Args:
        base: `WordPair`, `Lower` or `Relay`.
        breaks: environment -> whether this episode is to break. The environment says which one it
            is: its `number` (0 for the first one made), its `episode` (0 for its first) and `seed`.
        where: "reset", "step" (the first action) or "later" (the second).
        error: what they raise.
        pays: `reward=...` is what they pay instead of raising, to the last seat.
    """
    made = iter(range(10**9))

    class Shaky(base):
        def __init__(self, **kwargs: Any) -> None:
            super().__init__(**kwargs)
            self.number, self.episode, self.closed = next(made), -1, False
            self.broken = False

        def reset(self, seed: int | None = None, options: Any = None) -> Any:
            assert not self.broken, "a broken environment was used again"
            self.episode, self.seed, self.steps = self.episode + 1, seed, 0
            self._break(where == "reset")
            return super().reset(seed, options)

        def play(self, joint_action: Any) -> Outcome:
            breaks = self._breaks_here()
            return self._spoilt(super().play(joint_action), breaks)

        def play_one(self, agent: str, action: str) -> Outcome:
            breaks = self._breaks_here()
            return self._spoilt(super().play_one(agent, action), breaks)

        def _breaks_here(self) -> bool:
            self.steps += 1
            return self._break(where == "step" or (where == "later" and self.steps == 2))

        def _break(self, here: bool) -> bool:
            if not (here and breaks(self)):
                return False
            self.broken = True
            if not pays:
                raise error(f"environment {self.number} broke in its episode {self.episode}")
            return True

        def _spoilt(self, outcome: Outcome, breaks: bool) -> Outcome:
            if not breaks:
                return outcome
            terms = {**outcome.reward_terms, self.possible_agents[-1]: {"bad": pays["reward"]}}
            return replace(outcome, reward_terms=terms)

        def close(self) -> None:
            self.closed = True
            super().close()

    Shaky.__name__ = Shaky.__qualname__ = base.__name__  # mended, it is the same environment
    return Shaky
