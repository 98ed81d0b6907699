r"""AT-GRPO: candidates of each turn, of which the best goes on (arXiv 2510.11062, PettingLLMs).

Formula: at a state the team says G candidates, each agent's j-th beside the others' j-th. Each is
paid r_j for this turn. A_j = r_j - mean of r over the *other* candidates; the loss of agent i is
-A_j * sum of log pi_i over the tokens that it said. The candidate that was paid most goes on, and
the next turn has G new candidates after it, to the end of the episode.

Comparison group: the candidates of one agent at one turn. All of them answer the same history.

Weight: every candidate weighs 1, so that a turn weighs as much as in `magrpo`.

Reward: that of the turn, by `credit`. The paper mixes r_i = r_own + alpha * r_team, with alpha = 1:
`credit: own` and `team: 1`.

Cost: a chain of S turns takes G * S episodes for each task, G * S (S + 1) / 2 joint actions: a
candidate is played to its end, although only its turn is trained on.

What it is: with one turn it is `magrpo`. With more it is short-sighted: what a turn pays later
counts nothing. It is greedy, too: later turns learn where the best candidates lead, and not where
the team usually comes. So it needs rewards at every turn. Where none differs before the last turn,
only the last turn learns, after a history that nobody chose. That is warned of once and counted in
`algorithm/undecided`, choices between candidates that were paid alike (the first of them goes on).

`judged_by="return"` is our option: A_j is made of returns from the turn on, and the best is still
the one that the turn itself paid most. First turns then have the exact gradient. Where agents act
at the same time and no reward differs before the last turn, every turn has it.

A reward that arrives between two actions of an agent belongs to the earlier one. So where agents
act in turn, what a message is paid holds what the others answered to it.

Degenerate case: candidates that are paid alike give advantage 0.

Deviations from the paper:

1. The baseline leaves the candidate out, with no standard deviation, as in `magrpo`.
   `baseline="mean"` and `scale_rewards="group"` are the paper's.
2. Candidates of agents that act at the same time are joint ones, and the best is the one with the
   highest mean reward of the trained agents. The paper's agents choose each for itself.
3. The message that followed the best candidate is not among the next candidates: what was paid may
   hold the answer to it, which would choose that message, too.
4. Where failures leave a candidate alone, its advantage is 0, counted in `algorithm/alone`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from pydantic import Field

from llm_marl_envs.core.options import Options
from llm_marl_envs.core.records import Branch, EpisodeGroup, Turn
from trainers.algorithms.base import AdvantageInputs, Algorithm, Budget, Form
from trainers.algorithms.magrpo import STD_EPSILON
from trainers.algorithms.relations import Kind, Relation
from trainers.algorithms.trees import step_of
from trainers.batch.returns import discounted_returns


class ATGRPOSettings(Options):
    """Settings of `at_grpo`."""

    within = "at_grpo"
    judged_by: Literal["reward", "return"] = Field(
        default="reward",
        description="what candidates are compared by: the reward of the turn, or the return from "
        "it on",
    )
    team: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="alpha, what the team's reward counts beside the agent's own. More than 0 "
        "needs `credit: own`",
    )


@dataclass(frozen=True, slots=True)
class Choice:
    """The candidates of one turn.

    Attributes:
        step: number of the environment's step that took them.
        places: of the episodes that hold one each, failed ones left out.
        paid: what the turn paid each, the mean over trained agents.
    """

    step: int
    places: tuple[int, ...]
    paid: tuple[float, ...]

    @property
    def best(self) -> int:
        """The place of the one that was paid most, the first of several."""
        return self.places[self.paid.index(max(self.paid))]


class ATGRPO(Algorithm):
    """The best of G candidates goes on; see the module's docstring."""

    name = "at_grpo"
    reads = ("baseline", "scale_rewards")
    Settings = ATGRPOSettings
    settings: ATGRPOSettings
    branching = True
    declares = (
        Relation(kind=Kind.ALIAS, of="magrpo", when="one turn that all take at the same time"),
        Relation(
            kind=Kind.FIXED_POINTS,
            of="the policy gradient",
            when="several turns",
            named="objective: what each turn pays itself (judged_by='return': from it on), after "
            "the best of G candidates at every turn before",
        ),
        Relation(
            kind=Kind.VARIANCE,
            of="the policy gradient",
            when="judged_by='return', agents at the same time, rewards that differ at the last "
            "turn alone",
        ),
        Relation(
            kind=Kind.SCHEDULE,
            of="magrpo_tree",
            when="several turns",
            named="the best sample of a node alone has nodes below it",
        ),
    )

    def __init__(self, args: object, settings: ATGRPOSettings | None = None) -> None:
        super().__init__(args, settings)
        self._warned = False
        if self.settings.team and self.args.credit != "own":
            raise ValueError(
                f"at_grpo, team={self.settings.team}: credit={self.args.credit!r} pays the team's "
                "reward already; set credit='own'"
            )

    def branches(self, group: EpisodeGroup, agents: Sequence[str]) -> list[Branch]:
        """G candidates of the turn that follows the best one so far."""
        *_, (_, following) = self._chain(group, agents)
        return [] if following is None else [following] * self.args.num_generations

    def budget(self, form: Form) -> Budget:
        """One chain: G episodes for each step at which a trained agent acts."""
        trained, size = len(form.agents), form.size
        per_turn = form.seats if form.in_turn else 1
        acting = trained if form.in_turn else 1
        steps = [t * per_turn + i for t in range(form.turns) for i in range(acting)]
        # At the first of these steps the planned episodes are the candidates, unless another seat
        # has spoken before it.
        later = steps if form.in_turn and trained < form.seats else steps[1:]
        each = 1 if form.in_turn else form.seats
        left = sum(form.turns * per_turn - step for step in later)
        return Budget(
            episodes=size * (1 + len(later)),
            actions=size * (form.seats * form.turns + each * left),
            trajectories=size * form.turns,
        )

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        """float64, (P, G, A, K), by the formula above; 0 for what is no candidate."""
        values, advantages = self._values(inputs), np.zeros(inputs.alive.shape)
        alone = undecided = decided = 0
        for p, group in enumerate(inputs.groups):
            choices = [choice for choice, _ in self._chain(group, inputs.agents) if choice.places]
            rounding = float(inputs.rounding[p, 0, 0, 0])
            for number, choice in enumerate(choices, start=1):
                if number < len(choices):
                    tells = max(choice.paid) - min(choice.paid) > rounding
                    decided, undecided = decided + tells, undecided + (not tells)
                for where, places in _compared(group, choice, inputs.agents):
                    compared = values[p, places, *where]
                    alone += len(places) < 2
                    if len(places) > 1 and np.ptp(compared) > rounding:
                        advantages[p, places, *where] = self._judged(compared)
        self.counters = {"alone": float(alone), "undecided": float(undecided)}
        self._warn(decided, undecided)
        return advantages

    def weights(self, inputs: AdvantageInputs) -> np.ndarray:
        """Of candidates alike, as many as there are planned episodes at each turn; 0 for others."""
        weights = np.zeros(inputs.alive.shape)
        for p, group in enumerate(inputs.groups):
            for choice, _ in self._chain(group, inputs.agents):
                for where, places in _compared(group, choice, inputs.agents):
                    weights[p, places, *where] = len(group.roots.living) / len(choice.places)
        return weights

    def _chain(
        self, group: EpisodeGroup, agents: Sequence[str]
    ) -> Iterator[tuple[Choice, Branch | None]]:
        """The candidates turn by turn, and the branch that the best of the last ones still needs.

        The first are the planned episodes; nobody where no trained agent acts at the first step.
        """
        planned = tuple(g for g, episode in group.living if episode.branch is None)
        if not planned:
            yield Choice(0, (), ()), None
            return
        acting = tuple(g for g in planned if _acting(group, g, 0, agents))
        choice, best = self._choice(group, agents, 0, acting), planned[0]
        while True:
            best = choice.best if choice.places else best
            later = [
                turn
                for turn in group.episodes[best].turns
                if turn.agent in agents and step_of(turn) >= choice.step + bool(choice.places)
            ]
            if not later:
                yield choice, None
                return
            turn = min(later, key=step_of)
            branch = Branch(parent=best, agent=turn.agent, turn=turn.index)
            played = [(g, e) for g, e in enumerate(group.episodes) if e.branch == branch]
            places = tuple(g for g, e in played if not e.failed)
            yield choice, None if played else branch
            if not places:
                return
            choice = self._choice(group, agents, step_of(turn), places)

    def _choice(
        self, group: EpisodeGroup, agents: Sequence[str], step: int, places: tuple[int, ...]
    ) -> Choice:
        paid = [
            [self._paid(turn) for turn in _acting(group, place, step, agents)] for place in places
        ]
        return Choice(step, places, tuple(sum(rewards) / len(rewards) for rewards in paid))

    def _paid(self, turn: Turn) -> float:
        """What a turn was paid."""
        together = turn.reward if turn.team_reward is None else turn.team_reward
        own = together if self.args.credit == "team" else turn.reward
        return own + self.settings.team * together

    def _values(self, inputs: AdvantageInputs) -> np.ndarray:
        """What candidates are compared by, (P, G, A, K)."""
        paid = np.zeros(inputs.alive.shape)
        for p, group in enumerate(inputs.groups):
            for g, episode in group.living:
                for turn in episode.turns:
                    if turn.agent in inputs.agents:
                        paid[p, g, inputs.agents.index(turn.agent), turn.index] = self._paid(turn)
        if self.settings.judged_by == "reward":
            return paid
        return discounted_returns(paid, inputs.alive, self.args.discount)

    def _judged(self, values: np.ndarray) -> np.ndarray:
        """The advantages of the candidates of one agent, (n,) with n at least 2."""
        n = len(values)
        others = (values.sum() - values) / (n - 1)
        advantages = values - (values.mean() if self.args.baseline == "mean" else others)
        if self.args.scale_rewards == "group":
            advantages /= values.std(ddof=1) + STD_EPSILON
        return advantages

    def _warn(self, decided: int, undecided: int) -> None:
        """Say once that no reward chooses a candidate."""
        if self._warned or decided or not undecided or self.settings.judged_by == "return":
            return
        self._warned = True
        warnings.warn(
            f"algorithm='at_grpo': in none of an update's {undecided} choices before the last turn "
            "did rewards differ, so only last turns learned, after candidates that nothing chose. "
            "It needs rewards at every turn; use judged_by: return, or 'magrpo_tree'",
            stacklevel=2,
        )


def _acting(group: EpisodeGroup, place: int, step: int, agents: Sequence[str]) -> list[Turn]:
    """What trained agents did at one step of an episode."""
    turns = group.episodes[place].turns
    return [turn for turn in turns if turn.agent in agents and step_of(turn) == step]


def _compared(
    group: EpisodeGroup, choice: Choice, agents: Sequence[str]
) -> Iterator[tuple[tuple[int, int], list[int]]]:
    """(agent, turn) of each trained agent that acts, and the places of its candidates."""
    compared: dict[tuple[int, int], list[int]] = {}
    for place in choice.places:
        for turn in _acting(group, place, choice.step, agents):
            compared.setdefault((agents.index(turn.agent), turn.index), []).append(place)
    yield from compared.items()
