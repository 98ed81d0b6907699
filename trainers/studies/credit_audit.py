"""How well estimators of credit judge the messages of a frozen team: `llm-marl credit-audit`.

Decision points (agent, turn, history) are drawn from the team's own episodes. At each, a few
messages are sampled, and each of them is played on many times: its reference advantage is the mean
return after it, less the mean after fresh messages there, with a standard error. Then every
estimator judges the *same* messages again and again, each time with new comparisons, as it would in
training.

What is reported of an estimator, over messages and points, each with an interval:

- `bias`: how far its mean lies from the reference, root mean square, less what is the same for all
  messages of a point. It changes what is learned. Its sampling error, `bias_error`, is subtracted.
  It was seen where the interval is above 0.
- `variance` of one judgement, mean over messages.
- `rank`: of two messages of a point with different references, how often one judgement each puts
  them in the right order; ties count half.
- `cosine` per policy: between the gradient of all messages by one judgement each and that by the
  reference; only for teams with weights.
- `signal`: rho^2 / (1 - rho^2), with the sign of rho: the covariance of single judgements and
  references within points, over the deviation of the references and the root mean square of the
  judgements. Those of an update's messages add where their gradients have nothing in common. It has
  no unit: `rejection` says 1 and 0, whatever is paid. Noise of the references lowers it, most where
  it is high: compare it within one audit.

`offset` is that distance which is the same for all messages of a point. It adds nothing to the
expected gradient, and noise to every single one: `signal` and `cosine` count it, the others do not.

Then what a price buys, by sampled tokens and by steps of the environment (evaluator calls), both
for each message that an update trains on: `variance` of the mean of as many judgements as 1000
tokens, or one call, buy, and the `signal` that these bring together; `rank` and `cosine` of the
mean of as many judgements as one of the dearest estimator costs (at most all). A bias is not for
sale: it is the same for one judgement and for the mean of many.

Estimators that keep running means or a critic have learned from `memory` groups of the frozen team
before, in updates of four, as they would in training. That is not in their price.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from llm_marl_envs.core.environment import task_source
from llm_marl_envs.core.records import Branch, Chance, Episode, EpisodeGroup, Turn
from llm_marl_envs.core.seeds import RESET_SEEDS, Start, branch_start, derive_seed, group_starts
from llm_marl_envs.measure.numbers.credit import Judged
from llm_marl_envs.play.replay import check_replays
from llm_marl_envs.play.rollout import Context, redraws, rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Team
from trainers.algorithms import AdvantageInputs, Algorithm
from trainers.algorithms.at_grpo import ATGRPO
from trainers.algorithms.base import ROUNDING
from trainers.algorithms.magrpo_tree import MAGRPOTree
from trainers.algorithms.trees import left_at, step_of
from trainers.batch.packing import reward_array
from trainers.batch.returns import discounted_returns
from trainers.experience.branching import grown
from trainers.studies.credit_estimators import Memory, make_estimators
from trainers.studies.credit_figures import Facts, Products, figures

Gram = Callable[[Sequence[Turn]], Products]
"""Turns -> policy -> (which of them are its, inner products of their gradients of log-prob)."""
TASKS_PER_UPDATE = 4
"""Of the updates that a memory has learned from."""
CREDITS = ("team", "own")
DRAWS = 10
"""So many times the points are drawn at most where seats do not act in every episode."""
MOST_EPISODES = 4096
"""Of a group: more than any audit plays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditPlan:
    """Sizes of an audit.

    Attributes:
        points: decision points, at least 1; each of another episode.
        messages: that are judged at each, at least 2.
        replays: of each message for its reference, at least 2.
        judgements: of each message by each estimator, at least 2.
        size: G of the estimators, at least 2.
        alternatives: J of c3, at least 2.
        memory: groups that running means and critics have learned from, at least 1.
        credit: whose rewards count, "team" or "own".
        estimators: those that judge; None: all that can.
        copies: environments at once.
        seed: everything follows from it, and from the team.
    """

    points: int = 8
    messages: int = 4
    replays: int = 64
    judgements: int = 16
    size: int = 4
    alternatives: int = 4
    memory: int = 64
    credit: str = "team"
    estimators: tuple[str, ...] | None = None
    copies: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("points", "memory", "copies"):
            self._at_least(name, 1)
        for name in ("messages", "replays", "judgements", "size", "alternatives"):
            self._at_least(name, 2)
        if self.credit not in CREDITS:
            raise ValueError(f"credit={self.credit!r}: expected one of {[*CREDITS]}")

    def _at_least(self, name: str, least: int) -> None:
        if getattr(self, name) < least:
            raise ValueError(f"{name}={getattr(self, name)}: expected at least {least}")


@dataclass(frozen=True, slots=True)
class Message:
    """One message at a decision point, and what it is worth.

    Attributes:
        point: number of its decision point.
        agent: who says it.
        turn: which of its turns.
        start: how the episode in which it is said begins.
        episode: in which it is said.
        worth: reference advantage.
        error: its standard error.
        noise: that part of it which is not shared by the messages of the point.
    """

    point: int
    agent: str
    turn: int
    start: Start
    episode: Episode
    worth: float = 0.0
    error: float = 0.0
    noise: float = 0.0

    @property
    def said(self) -> Turn:
        """The turn itself."""
        return self.episode.trajectory(self.agent)[self.turn]

    def again(self, number: int, chance: Any, *, anew: bool = False) -> Start:
        """The same history; the same message, or one anew; then all anew, partners' too."""
        text = None if anew else self.said.action
        branch = Branch(parent=0, agent=self.agent, turn=self.turn, instead=text)
        return branch_start(self.start, self.episode, branch, number, chance)


@dataclass(frozen=True, slots=True)
class Audit:
    """The messages with their references, every judgement, and each estimator's figures.

    Attributes:
        messages: point after point.
        judgements: estimator -> (messages, judgements).
        estimators: their figures.
        refused: estimator that cannot judge here -> why.
        chance: whether chance was dealt anew in replays ("episode") or as recorded ("group").
    """

    messages: tuple[Message, ...]
    judgements: Mapping[str, np.ndarray]
    estimators: tuple[Judged, ...]
    refused: Mapping[str, str]
    chance: str


class Stage:
    """Where the team plays: copies of the environment, and what is known of its episodes.

    Args:
        make_env: makes a fresh environment, of tasks of this library or not.
        team: agent -> policy.
        trained: whose messages are audited.
        plan: the sizes.
        context: as in `rollout`.

    Raises:
        NotReplayableError: the environment does not do again what it did.
    """

    def __init__(
        self,
        make_env: Callable[[], Any],
        team: Team,
        trained: Sequence[str],
        plan: AuditPlan,
        context: Context = "append",
    ) -> None:
        check_replays(make_env, context)
        self.trained, self.plan = tuple(trained), plan
        self.copies = VectorTextEnv([make_env() for _ in range(plan.copies)])
        self.env = self.copies.envs[0]
        self.chance: Any = "episode" if redraws(self.env) else "group"
        self.source = task_source(self.env)
        self.play = partial(rollout, self.copies, team, context=context)

    def start(self, *which: object) -> Start:
        """How an episode of its own begins: a function of what it is called."""
        seed = derive_seed("audit", self.plan.seed, *which)
        task = None if self.source is None else seed % len(self.source)
        return Start(task=task, seed=seed % RESET_SEEDS, sample_seed=seed)

    def returns(self, groups: Sequence[EpisodeGroup]) -> AdvantageInputs:
        """What algorithms judge, undiscounted."""
        return judged(groups, self.trained, self.plan.credit)

    def group(self, episodes: Sequence[Episode]) -> EpisodeGroup:
        """A group of one task."""
        return group_of(episodes, self.chance)


def group_of(episodes: Sequence[Episode], chance: Chance = "group") -> EpisodeGroup:
    """The episodes of one task."""
    first, kept = episodes[0], tuple(episodes)
    return EpisodeGroup(task_id=first.task_id, seed=first.seed, episodes=kept, chance=chance)


def judged(
    groups: Sequence[EpisodeGroup], agents: Sequence[str], credit: str = "team"
) -> AdvantageInputs:
    """What an algorithm is given, undiscounted."""
    rewards, alive = reward_array(groups, agents, credit)
    return AdvantageInputs(
        returns=discounted_returns(rewards, alive, 1.0),
        rewards=rewards,
        alive=alive,
        agents=tuple(agents),
        policies={agent: agent for agent in agents},
        groups=tuple(groups),
    )


def credit_audit(stage: Stage, gram: Gram | None = None) -> Audit:
    """Audit a team.

    Args:
        stage: environment, team and sizes.
        gram: gives the inner products of gradients; None leaves cosines out.

    Raises:
        ValueError: trained agents act in too few of the team's episodes, no estimator can judge
            here, or no message changes a return.
        NotReplayableError: a replay was not what was recorded.
        Exception: what an environment or a policy raises.
    """
    plan = stage.plan
    asked = make_estimators(
        stage.env,
        stage.trained,
        plan.estimators,
        alternatives=plan.alternatives,
        num_generations=plan.size,
        credit=plan.credit,
        chance=stage.chance,
        seed=plan.seed,
    )
    costs = {name: _cost(stage, algorithm) for name, algorithm in asked.algorithms.items()}
    messages = _referenced(stage, _messages(stage))
    if max(max(abs(message.worth), message.error) for message in messages) <= ROUNDING:
        raise ValueError(
            f"credit={plan.credit!r}: every replay returned the same, so no message is worth more "
            "than another and nothing can be judged; use a team that wins at times and loses at "
            "times, more points, or, where one seat wins what the other loses, credit own"
        )
    judgements = _judgements(stage, messages, asked.algorithms)
    facts = Facts(
        points=np.array([message.point for message in messages]),
        worth=np.array([message.worth for message in messages]),
        noise=np.array([message.noise for message in messages]),
        products={} if gram is None else gram([message.said for message in messages]),
    )
    judged = figures(facts, judgements, costs)
    return Audit(tuple(messages), judgements, judged, asked.refused, stage.chance)


def _messages(stage: Stage) -> list[Message]:
    """Decision points of the team's own episodes; at each the recorded message and others."""
    plan = stage.plan
    acted: list[tuple[int, Start, Episode, list[Turn]]] = []
    for first in range(0, DRAWS * plan.points, plan.points):
        starts = [stage.start("episode", n) for n in range(first, first + plan.points)]
        pairs = zip(starts, stage.play(starts), strict=True)
        for number, (start, record) in enumerate(pairs, first):
            turns = [turn for turn in record.turns if turn.agent in stage.trained]
            acted += [(number, start, record, turns)] if turns else []
        if len(acted) >= plan.points:
            break
    else:
        raise ValueError(
            f"points={plan.points}: {[*stage.trained]} act in {len(acted)} of "
            f"{DRAWS * plan.points} episodes; ask for fewer points, or judge other seats"
        )
    messages: list[Message] = []
    for place, (number, start, record, turns) in enumerate(acted[: plan.points]):
        turn = turns[derive_seed("point", plan.seed, number) % len(turns)]
        first = Message(place, turn.agent, turn.index, start, record)
        more = [first.again(other, stage.chance, anew=True) for other in range(1, plan.messages)]
        messages.append(first)
        for begun, episode in zip(more, stage.play(more), strict=True):
            messages.append(Message(place, turn.agent, turn.index, begun, episode))
    return messages


def _referenced(stage: Stage, messages: Sequence[Message]) -> list[Message]:
    """The messages with their worth: the mean after each, less that after fresh ones."""
    many, each = stage.plan.replays, stage.plan.messages
    referenced: list[Message] = []
    for first in range(0, len(messages), each):
        some = messages[first : first + each]
        starts = [m.again(10**6 + n, stage.chance) for m in some for n in range(many)]
        starts += [some[0].again(2 * 10**6 + n, stage.chance, anew=True) for n in range(many)]
        groups = [stage.group([episode]) for episode in stage.play(starts)]
        agent = stage.trained.index(some[0].agent)
        earned = stage.returns(groups).returns[:, 0, agent, some[0].turn].reshape(-1, many)
        mean, error = earned.mean(axis=1), earned.std(axis=1, ddof=1) / many**0.5
        for place, message in enumerate(some):
            worth, doubt = mean[place] - mean[-1], np.hypot(error[place], error[-1])
            referenced.append(
                dataclasses.replace(
                    message, worth=float(worth), error=float(doubt), noise=float(error[place])
                )
            )
    return referenced


def _judgements(
    stage: Stage, messages: Sequence[Message], algorithms: Mapping[str, Algorithm]
) -> dict[str, np.ndarray]:
    """Estimator -> what it says of each message, (messages, judgements).

    The first episode of a group says the message and goes on anew; it counts as planned. Others of
    the group begin at the reset. Estimators without branches judge the same groups.
    """
    plan = stage.plan
    updates = list(_updates(stage))
    memories = {
        name: Memory(algorithm, () if algorithm.branching else updates)
        for name, algorithm in algorithms.items()
    }
    judgements = {name: np.zeros((len(messages), plan.judgements)) for name in algorithms}
    for place, message in enumerate(messages):
        own = [message.again(3 * 10**6 + n, stage.chance) for n in range(plan.judgements)]
        firsts = [_as_planned(episode) for episode in stage.play(own)]
        beside = [_others(message, n, plan.size - 1, stage.chance) for n in range(plan.judgements)]
        rest = iter(stage.play([start for some in beside for start in some]))
        groups = [
            stage.group([first, *(next(rest) for _ in some)])
            for first, some in zip(firsts, beside, strict=True)
        ]
        starts = [[start, *some] for start, some in zip(own, beside, strict=True)]
        agent = stage.trained.index(message.agent)
        for name, memory in memories.items():
            judged = groups
            if memory.algorithm.branching:
                judged = _grown(stage, memory.algorithm, message, groups, starts)
            for n, advantages in enumerate(memory.judge(judged, stage.returns)):
                judgements[name][place, n] = advantages[0, agent, message.turn]
    return judgements


def _updates(stage: Stage) -> Iterator[AdvantageInputs]:
    """Whole groups of the team, as updates that learn nothing would see them."""
    for groups, _ in _groups(stage, "memory", stage.plan.memory):
        yield stage.returns(groups)


def _groups(
    stage: Stage, what: str, count: int
) -> Iterator[tuple[list[EpisodeGroup], list[list[Start]]]]:
    """So many groups of the team's own, with their starts, `TASKS_PER_UPDATE` at a time."""
    for first in range(0, count, TASKS_PER_UPDATE):
        numbers = range(first, min(count, first + TASKS_PER_UPDATE))
        begun = [stage.start(what, number) for number in numbers]
        starts = [[*group_starts(s.task, s.seed, stage.plan.size, stage.chance)] for s in begun]
        played = iter(stage.play([start for some in starts for start in some]))
        yield [stage.group([next(played) for _ in some]) for some in starts], starts


def _grown(
    stage: Stage,
    algorithm: Algorithm,
    message: Message,
    groups: Sequence[EpisodeGroup],
    starts: Sequence[Sequence[Start]],
) -> list[EpisodeGroup]:
    """The groups with those branches that the judgement of the message depends on."""
    if isinstance(algorithm, ATGRPO):
        candidate = Branch(parent=0, agent=message.agent, turn=message.turn)
        alone = [stage.group(group.episodes[:1]) for group in groups]

        def candidates(group: EpisodeGroup) -> list[Branch]:
            return [] if len(group.episodes) > 1 else [candidate] * (stage.plan.size - 1)

        begun = [some[:1] for some in starts]
        grown_here = grown(alone, begun, candidates, stage.play, MOST_EPISODES)
        step = step_of(message.said)
        return [stage.group([_from(e, step) for e in group.episodes]) for group in grown_here]
    ask = partial(_asked, algorithm, message, stage.trained)
    return grown(groups, starts, ask, stage.play, MOST_EPISODES)


def _from(episode: Episode, step: int) -> Episode:
    """The episode as if it had begun at a step.

    `at_grpo` compares candidates after the best ones of the turns before. Here the history is the
    recorded one, which stands for those.
    """
    turns = tuple(
        dataclasses.replace(turn, step=step_of(turn) - step)
        for turn in episode.turns
        if step_of(turn) >= step
    )
    return _as_planned(dataclasses.replace(episode, turns=turns))


def _others(message: Message, judgement: int, count: int, chance: Any) -> list[Start]:
    """Episodes of the same task from the reset."""
    begun, starts = message.start, []
    for n in range(count):
        drawn = derive_seed("beside", begun.sample_seed, judgement, n)
        seed = begun.seed if chance == "group" else derive_seed("reset", drawn) % RESET_SEEDS
        starts.append(Start(task=begun.task, seed=seed, sample_seed=drawn))
    return starts


def _as_planned(episode: Episode) -> Episode:
    """The episode as if it had been played from its reset."""
    turns = tuple(dataclasses.replace(turn, given=False) for turn in episode.turns)
    return dataclasses.replace(episode, turns=turns, branch=None)


def _asked(
    algorithm: Algorithm, message: Message, trained: Sequence[str], group: EpisodeGroup
) -> list[Branch]:
    """Of a tree: the message's siblings and all below them.

    Else: branches at the message, and those of its episode that ask all agents anew and so tell of
    all.
    """
    here = message.agent, message.turn
    asked = algorithm.branches(group, trained)
    if not isinstance(algorithm, MAGRPOTree):
        own = [branch for branch in asked if branch.parent == 0]
        return [branch for branch in own if not branch.held or (branch.agent, branch.turn) == here]
    first = step_of(message.said)

    def below(branch: Branch) -> bool:
        parent = group.episodes[branch.parent]
        step = step_of(parent.trajectory(branch.agent)[branch.turn])
        shares = first == 0 or branch.parent == 0 or left_at(group, parent) >= first
        return step >= first and shares

    return [branch for branch in asked if below(branch)]


COST_GROUPS = 4
"""Whole groups of an estimator that are played to see what one costs."""


def _cost(stage: Stage, algorithm: Algorithm) -> dict[str, float]:
    """Tokens and steps of the environment for each message that an update trains on.

    An action of a policy without tokens counts as one.
    """
    (groups, starts), *_ = _groups(stage, "cost", COST_GROUPS)
    if algorithm.branching:
        ask = partial(algorithm.branches, agents=stage.trained)
        groups = grown(groups, starts, ask, stage.play, MOST_EPISODES)
    inputs = stage.returns(groups)
    messages = int((inputs.alive & (algorithm.weights(inputs) > 0)).sum())
    episodes = [episode for group in groups for episode in group.episodes]
    steps = sum(max((step_of(turn) + 1 for turn in e.turns), default=0) for e in episodes)
    new = [turn.response for e in episodes for turn in e.turns if not turn.given]
    tokens = sum(1 if r.completion_ids is None else len(r.completion_ids) for r in new)
    if not messages:
        raise ValueError(f"{algorithm.name}: no message to train on in {len(groups)} groups")
    return {"tokens": tokens / messages, "calls": steps / messages}
