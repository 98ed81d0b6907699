"""Strategy texts that survive or are written anew, generation after generation (arXiv 2412.10270).

A population is a list of texts. In each generation all are dealt into groups at random, and each
plays a seat of an environment by its text. By what seats are paid, and by nothing else, texts are
selected:

- With a writer, any policy, the better half survives. The writer reads these texts with their pay
  and writes the others anew. Ties are broken by lot.
- Without one, each place of the next generation gets a text with a chance that is proportional to
  its pay: the replicator's step.

`player` makes of a text the policy that plays by it: `advised` for a model that reads it in its
prompt, a script for a text that is a script's name. Seats of an environment, its arguments, and
what is paid in it are no matter of this module.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.texts import told
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy
from llm_marl_envs.policies.protocols import with_note

Player = Callable[[str], Policy]
ADVICE = "Your strategy:\n{text}"
PAID = "Paid {pay:.4g}:"
ASK = "These strategies did best, with what each was paid. Write one strategy for the next round."


@dataclass(frozen=True)
class Generation:
    """What came of one generation.

    Attributes:
        texts: that played.
        paid: to each, undiscounted.
    """

    texts: list[str]
    paid: list[float]


@dataclass(frozen=True)
class Evolution:
    """How texts are selected.

    Attributes:
        player: text -> the policy that plays by it.
        writer: writes texts where the better half survives; None: selection is proportional.
    """

    player: Player
    writer: Policy | None = None


class Cast:
    """Plays each seat of each episode by the text that was dealt to it.

    Args:
        texts: (episode, agent) -> text.
        player: makes a policy of a text.
    """

    def __init__(self, texts: dict[tuple[int, str], str], player: Player) -> None:
        self.texts, self.player = texts, cache(player)

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The requests of one text are asked at once."""
        places: dict[str, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self.texts[request.episode, request.agent], []).append(place)
        answers: dict[int, Response] = {}
        for text, own in places.items():
            answers |= zip(own, self.player(text).act([requests[p] for p in own]), strict=True)
        return [answers[place] for place in range(len(requests))]


class Advised:
    """A policy that reads a strategy at the end of what its seat is told."""

    def __init__(self, policy: Policy, text: str) -> None:
        self.policy, self.note = policy, ADVICE.format(text=text)

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """As the policy, with the note."""
        return list(self.policy.act([with_note(request, self.note) for request in requests]))


def advised(policy: Policy) -> Player:
    """The player of texts that a policy reads."""
    return lambda text: Advised(policy, text)


def generations(
    make_env: Callable[[], Any], texts: Sequence[str], how: Evolution, count: int, seed: int
) -> Iterator[Generation]:
    """Play generations; the texts of each follow from those of the one before.

    Args:
        make_env: makes the environment, any of this library.
        texts: of the first generation; so many that all seats of some episodes are filled.
        how: texts are played and selected.
        count: of generations.
        seed: all chance follows from it and from the policies.

    Raises:
        ValueError: texts that do not fill their groups.
    """
    first = make_env()
    seats, tasks = list(first.possible_agents), len(first.unwrapped.source)
    groups, over = divmod(len(texts), len(seats))
    if over or not groups:
        raise ValueError(f"{len(texts)} texts: expected a multiple of the {len(seats)} seats")
    copies = VectorTextEnv([first, *(make_env() for _ in range(groups - 1))])
    living = list(texts)
    for number in range(count):
        rng = random.Random(derive_seed("generation", seed, number))
        paid = _played(copies, seats, living, how.player, rng, tasks)
        yield Generation(living, paid)
        living = selected(living, paid, how, rng)


def _played(
    copies: VectorTextEnv,
    seats: Sequence[str],
    texts: Sequence[str],
    player: Player,
    rng: random.Random,
    tasks: int,
) -> list[float]:
    """What each text is paid, dealt at random into groups."""
    order = rng.sample(range(len(texts)), len(texts))
    dealt = {divmod(place, len(seats)): text for place, text in enumerate(order)}
    cast = Cast({(g, seats[s]): texts[text] for (g, s), text in dealt.items()}, player)
    starts = [
        Start(task=rng.randrange(tasks), seed=rng.getrandbits(31), sample_seed=rng.getrandbits(31))
        for _ in range(len(texts) // len(seats))
    ]
    episodes = rollout(copies, dict.fromkeys(seats, cast), starts)
    paid = [0.0] * len(texts)
    for (group, seat), text in dealt.items():
        paid[text] = episodes[group].undiscounted_return(seats[seat])
    return paid


def selected(
    texts: Sequence[str], paid: Sequence[float], how: Evolution, rng: random.Random
) -> list[str]:
    """The texts of the next generation."""
    if how.writer is None:
        return rng.choices(list(texts), weights=paid, k=len(texts))
    order = sorted(rng.sample(range(len(texts)), len(texts)), key=lambda n: -paid[n])
    best = order[: len(texts) // 2]
    shown = "\n".join(f"{PAID.format(pay=paid[n])}\n{quote(told(texts[n]))}" for n in best)
    asked = [
        Request(
            env_id="generations",
            agent=f"writer_{place}",
            turn=0,
            episode=0,
            task_id="",
            messages=(Message("user", f"{shown}\n{ASK}"),),
            observation=f"{shown}\n{ASK}",
            seed=rng.getrandbits(31),
        )
        for place in range(len(texts) - len(best))
    ]
    return [texts[n] for n in best] + [answer.text for answer in how.writer.act(asked)]
