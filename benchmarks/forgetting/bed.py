"""One seat hears eight facts, one a turn, and is asked for one of them at the end.

    You will be asked what the cat says. Until then say ok.
    ok        The dog says fig.
    ok        The cat says oat.
    ...
    ok        What does the cat say?
    The cat says oat.     1.0

Which animal that is, it is told at the beginning. With a memory of 55 characters its chat holds
three facts; then it is asked for notes of at most 27 characters, and a fact has 17. So notes hold
one fact, of three or four that it has seen. Twice: after the third and the sixth fact.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from llm_marl_envs.core.environment import Outcome, TextParallelEnv
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import IndexedSource, Task
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import Memory

SEAT = "keeper_0"
ANIMALS = ("cat", "dog", "cow", "pig", "hen", "fox", "owl", "bat")
SOUNDS = ("fig", "oat", "rye", "nut", "pea", "yam")
FACTS = 8
MEMORY = {"max_chars": 55, "resets": 2}
FACT = "The {animal} says {sound}."
OK = "ok"
ASKED = "What does the"
DEMAND = "Write what you need"
"""How the memory's question for notes begins."""
SIZES = {"train": 100_000, "test": 10_000}


class Facts(IndexedSource):
    """Tasks; a task says which fact is asked for, `asked`, from 0."""

    endless = True

    def __len__(self) -> int:
        return SIZES[self.split]

    def make(self, index: int, task_id: str) -> Task:
        """Eight animals in random order, a sound for each, and the one that is asked for."""
        rng = random.Random(derive_seed("forgetting", self.split, index))
        animals, sounds = rng.sample(ANIMALS, FACTS), rng.choices(SOUNDS, k=FACTS)
        facts = tuple(zip(animals, sounds, strict=True))
        return Task(task_id, self.split, {"facts": facts, "asked": rng.randrange(FACTS)})


class Recall(TextParallelEnv):
    """See the module; the return is 1 for the right fact as the last action, else 0."""

    metadata: ClassVar[dict[str, Any]] = {"name": "recall", "render_modes": ["ansi"]}
    reward_range = (0.0, 1.0)

    def __init__(self, split: str = "train") -> None:
        super().__init__(agents=(SEAT,), source=Facts(split), max_turns=FACTS + 2)

    def brief(self, task: Task, agent: str) -> str:
        """Which animal it will be asked for."""
        animal, _ = task.data["facts"][task.data["asked"]]
        return f"You will be asked what the {animal} says. Until then say {OK}."

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """The next fact, then the question, then the end."""
        heard, (animal, sound) = self._taken[SEAT], self.task.data["facts"][self.task.data["asked"]]
        news = {}
        if heard <= FACTS:
            animal_now, sound_now = self.task.data["facts"][heard - 1]
            news[SEAT] = FACT.format(animal=animal_now, sound=sound_now)
        elif heard == FACTS + 1:
            news[SEAT] = f"{ASKED} {animal} say?"
        right = heard > FACTS + 1 and joint_action[SEAT] == FACT.format(animal=animal, sound=sound)
        facts = {SEAT: {"fact_turn": self.task.data["asked"] + 1}}
        return Outcome(
            reward_terms={SEAT: {"right": float(right)}}, feedback=news, success=right, facts=facts
        )


def bed(split: str = "train", *, window: bool = True) -> Any:
    """The environment; without a window the chat holds everything."""
    return Memory(Recall(split), **MEMORY) if window else Recall(split)


Choice = Callable[[Sequence[str], str, random.Random], str]
"""(facts in view, the animal that is asked for, chance) -> the notes."""


def asked(facts: Sequence[str], animal: str, chance: random.Random) -> str:
    """The fact that will be needed, where it is in view; else any."""
    return next((fact for fact in facts if f" {animal} " in fact), facts[0])


def any_fact(facts: Sequence[str], animal: str, chance: random.Random) -> str:
    """A fact by lot."""
    return chance.choice(facts)


def first(facts: Sequence[str], animal: str, chance: random.Random) -> str:
    """The first characters of what is in view."""
    return facts[0]


def last(facts: Sequence[str], animal: str, chance: random.Random) -> str:
    """The last characters of what is in view."""
    return facts[-1]


def in_view(messages: Sequence[Message]) -> list[str]:
    """The facts that a chat holds, notes first."""
    lines = [line for m in messages if m.role == "user" for line in m.content.splitlines()]
    bare = [line.removeprefix(QUOTE) for line in lines]
    return [line for line in bare if line.startswith("The ")]


def scripted(choice: Choice) -> ScriptedPolicy:
    """Writes notes by a choice, and answers by what is in view; by lot where that is gone."""

    def say(request: Request) -> str:
        chance = random.Random(request.seed)
        facts, animal = in_view(request.messages), request.messages[0].content.split()[6]
        question = request.messages[-1].content
        if question.startswith(DEMAND):
            return choice(facts, animal, chance)
        if not question.startswith(ASKED):
            return OK
        guess = FACT.format(animal=animal, sound=chance.choice(SOUNDS))
        return next((fact for fact in facts if f" {animal} " in fact), guess)

    return ScriptedPolicy(say)
