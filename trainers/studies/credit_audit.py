"""How well estimators of credit judge the messages of a frozen team: `llm-marl credit-audit`.

Decision points (agent, turn, history) are drawn from the team's own episodes. At each, a few
messages are sampled, and each of them is played on many times: its reference advantage is the mean
return after it, less the mean after fresh messages there, with a standard error. Then every
estimator judges the *same* messages again and again, each time with new comparisons, as it would in
training.

What is reported of an estimator, over messages and points:

- `offset`: how far its mean lies from the reference, the same for all messages of a point. It is
  harmless: what does not depend on the message adds nothing to the expected gradient.
- `bias`: what is left of that distance, root mean square. It changes what is learned. Its sampling
  error is subtracted, so it is 0 where no bias was seen; `bias_error` is that error.
- `variance` of one judgement, mean over messages.
- `rank`: of two messages of a point with different references, how often one judgement each puts
  them in the right order; ties count half.
- `cosine` per policy: between the gradient of all messages by one judgement each and that by the
  reference; only for teams with weights.
- `tokens` and `calls`: what an update of the estimator samples, and how many steps of the
  environment it takes, for each message that it trains on.
- `signal`: rho^2 / (1 - rho^2), where rho is the correlation of single judgements with the
  reference, both less their mean at the point. Judgements that are averaged add theirs, and it has
  no unit: `rejection` says 1 and 0, whatever is paid. `per_thousand_tokens` and `per_call` are the
  signal that 1000 sampled tokens, or one step of the environment, bring.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np

from llm_marl_envs.core import task_source
from llm_marl_envs.policies import Team
from llm_marl_envs.records import Branch, Episode, EpisodeGroup, Turn
from llm_marl_envs.replay import check_replays
from llm_marl_envs.rollout import Context, redraws, rollout
from llm_marl_envs.seeds import RESET_SEEDS, Start, branch_start, derive_seed, group_starts
from llm_marl_envs.vector import VectorTextEnv
from trainers.algorithms import AdvantageInputs, Algorithm
from trainers.algorithms.c3 import C3, C3Settings, C3Sim
from trainers.algorithms.difference import Difference
from trainers.algorithms.magrpo import MAGRPO
from trainers.algorithms.magrpo_tree import MAGRPOTree
from trainers.algorithms.rejection import Rejection
from trainers.algorithms.trees import left_at, step_of
from trainers.update.branching import grown, in_turn
from trainers.update.packing import reward_array
from trainers.update.returns import discounted_returns

Gram = Callable[[Sequence[Turn]], Mapping[str, tuple[list[int], np.ndarray]]]
"""Turns -> policy -> (which of them are its, inner products of their gradients of log-prob)."""
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
        copies: environments at once.
        seed: everything follows from it, and from the team.
    """

    points: int = 8
    messages: int = 4
    replays: int = 64
    judgements: int = 16
    size: int = 4
    alternatives: int = 4
    copies: int = 64
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("points", 1), ("messages", 2), ("replays", 2), ("judgements", 2)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least {least}")
        for name in ("size", "alternatives"):
            if getattr(self, name) < 2:
                raise ValueError(f"{name}={getattr(self, name)}: expected at least 2")


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """An estimator's figures; see the module's docstring."""

    name: str
    bias: float
    bias_error: float
    offset: float
    variance: float
    rank: float | None
    signal: float | None
    cosine: Mapping[str, float] = field(default_factory=dict)
    tokens: float
    calls: float
    per_thousand_tokens: float | None
    per_call: float | None


@dataclass(frozen=True, slots=True)
class Audit:
    """The messages with their references, every judgement, and each estimator's figures.

    Attributes:
        messages: point after point.
        judgements: estimator -> (messages, judgements).
        estimators: their figures.
        chance: whether chance was dealt anew in replays ("episode") or as recorded ("group").
    """

    messages: tuple[Message, ...]
    judgements: Mapping[str, np.ndarray]
    estimators: tuple[Judged, ...]
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
        env = self.copies.envs[0]
        self.chance: Any = "episode" if redraws(env) else "group"
        self.in_turn = in_turn(env)
        self.source = task_source(env)
        self.play = partial(rollout, self.copies, team, context=context)

    def start(self, *which: object) -> Start:
        """How an episode of its own begins: a function of what it is called."""
        seed = derive_seed("audit", self.plan.seed, *which)
        task = None if self.source is None else seed % len(self.source)
        return Start(task=task, seed=seed % RESET_SEEDS, sample_seed=seed)

    def estimators(self) -> dict[str, Algorithm]:
        """Name -> algorithm; `c3` is its form for agents that act at the same time where they do.

        `magrpo_mean` has the paper's mean, which contains the sample.
        """

        def of(kind: type[Algorithm], baseline: str = "leave_one_out") -> Algorithm:
            sizes = {"num_generations": self.plan.size, "chance": self.chance}
            args = SimpleNamespace(baseline=baseline, scale_rewards="none", **sizes)
            return kind(args, C3Settings(self.plan.alternatives) if issubclass(kind, C3) else None)

        c3 = C3 if self.in_turn else C3Sim
        return {
            "magrpo": of(MAGRPO),
            "magrpo_mean": of(MAGRPO, baseline="mean"),
            "rejection": of(Rejection),
            "magrpo_tree": of(MAGRPOTree),
            c3.name: of(c3),
            "difference": of(Difference),
        }

    def returns(self, groups: Sequence[EpisodeGroup]) -> AdvantageInputs:
        """What algorithms judge, with the team's rewards, undiscounted."""
        rewards, alive = reward_array(groups, self.trained, "team")
        return AdvantageInputs(
            returns=discounted_returns(rewards, alive, 1.0),
            rewards=rewards,
            alive=alive,
            agents=self.trained,
            policies={agent: agent for agent in self.trained},
            groups=tuple(groups),
        )

    def group(self, episodes: Sequence[Episode]) -> EpisodeGroup:
        """A group of one task."""
        first = episodes[0]
        kept = tuple(episodes)
        return EpisodeGroup(task_id=first.task_id, seed=first.seed, episodes=kept, chance="episode")


def credit_audit(stage: Stage, gram: Gram | None = None) -> Audit:
    """Audit a team.

    Args:
        stage: environment, team and sizes.
        gram: gives the inner products of gradients; None leaves cosines out.

    Raises:
        ValueError: no trained agent acts in the team's episodes.
        NotReplayableError: a replay was not what was recorded.
        Exception: what an environment or a policy raises.
    """
    messages = _referenced(stage, _messages(stage))
    algorithms = stage.estimators()
    judgements = _judgements(stage, messages, algorithms)
    inner = None if gram is None else gram([message.said for message in messages])
    found = [
        _figures(name, messages, judgements[name], inner, _cost(stage, algorithm))
        for name, algorithm in algorithms.items()
    ]
    return Audit(tuple(messages), judgements, tuple(found), stage.chance)


def _messages(stage: Stage) -> list[Message]:
    """Decision points of the team's own episodes; at each the recorded message and others."""
    plan = stage.plan
    starts = [stage.start("episode", number) for number in range(plan.points)]
    found: list[Message] = []
    for number, (start, record) in enumerate(zip(starts, stage.play(starts), strict=True)):
        turns = [turn for turn in record.turns if turn.agent in stage.trained]
        if not turns:
            raise ValueError(f"no action of {list(stage.trained)} in an episode: nothing to audit")
        turn = turns[derive_seed("point", plan.seed, number) % len(turns)]
        first = Message(number, turn.agent, turn.index, start, record)
        more = [first.again(place, stage.chance, anew=True) for place in range(1, plan.messages)]
        found.append(first)
        for begun, episode in zip(more, stage.play(more), strict=True):
            found.append(Message(number, turn.agent, turn.index, begun, episode))
    return found


def _referenced(stage: Stage, messages: Sequence[Message]) -> list[Message]:
    """The messages with their worth: the mean after each, less that after fresh ones."""
    many, each = stage.plan.replays, stage.plan.messages
    found: list[Message] = []
    for first in range(0, len(messages), each):
        some = messages[first : first + each]
        starts = [m.again(10**6 + n, stage.chance) for m in some for n in range(many)]
        starts += [some[0].again(2 * 10**6 + n, stage.chance, anew=True) for n in range(many)]
        groups = [stage.group([one]) for one in stage.play(starts)]
        agent = stage.trained.index(some[0].agent)
        earned = stage.returns(groups).returns[:, 0, agent, some[0].turn].reshape(-1, many)
        mean, error = earned.mean(axis=1), earned.std(axis=1, ddof=1) / many**0.5
        for place, one in enumerate(some):
            worth, doubt = mean[place] - mean[-1], np.hypot(error[place], error[-1])
            found.append(
                dataclasses.replace(
                    one, worth=float(worth), error=float(doubt), noise=float(error[place])
                )
            )
    return found


def _judgements(
    stage: Stage, messages: Sequence[Message], algorithms: Mapping[str, Algorithm]
) -> dict[str, np.ndarray]:
    """Estimator -> what it says of each message, (messages, judgements).

    The first episode of a group says the message and goes on anew; it counts as planned. Others of
    the group begin at the reset. Estimators without branches judge the same groups.
    """
    plan = stage.plan
    shape = (len(messages), plan.judgements)
    found = {name: np.zeros(shape) for name in algorithms}
    for place, message in enumerate(messages):
        own = [message.again(3 * 10**6 + n, stage.chance) for n in range(plan.judgements)]
        beside = [
            one
            for n in range(plan.judgements)
            for one in _others(message, n, plan.size - 1, stage.chance)
        ]
        firsts = [_as_planned(one) for one in stage.play(own)]
        rest = stage.play(beside)
        width = plan.size - 1
        groups = [
            stage.group([one, *rest[n * width : (n + 1) * width]]) for n, one in enumerate(firsts)
        ]
        starts = [[one, *beside[n * width : (n + 1) * width]] for n, one in enumerate(own)]
        agent = stage.trained.index(message.agent)
        for name, algorithm in algorithms.items():
            judged = groups
            if algorithm.branching:
                ask = partial(_asked, algorithm, message, stage.trained)
                judged = grown(groups, starts, ask, stage.play, MOST_EPISODES)
            advantages = algorithm.advantages(stage.returns(judged))
            found[name][place] = advantages[:, 0, agent, message.turn]
    return found


def _others(message: Message, judgement: int, count: int, chance: Any) -> list[Start]:
    """Episodes of the same task from the reset."""
    begun, found = message.start, []
    for n in range(count):
        drawn = derive_seed("beside", begun.sample_seed, judgement, n)
        seed = begun.seed if chance == "group" else derive_seed("reset", drawn) % RESET_SEEDS
        found.append(Start(task=begun.task, seed=seed, sample_seed=drawn))
    return found


def _as_planned(episode: Episode) -> Episode:
    """The episode as if it had been played from its reset."""
    turns = tuple(dataclasses.replace(turn, given=False) for turn in episode.turns)
    return dataclasses.replace(episode, turns=turns, branch=None)


def _asked(
    algorithm: Algorithm, message: Message, trained: Sequence[str], group: EpisodeGroup
) -> list[Branch]:
    """Those branches that the judgement of the message depends on.

    Of a tree: its siblings and all below them. Else: those at the message itself.
    """
    here = message.agent, message.turn
    asked = algorithm.branches(group, trained)
    if not isinstance(algorithm, MAGRPOTree):
        return [one for one in asked if one.parent == 0 and (one.agent, one.turn) == here]
    first = step_of(message.said)

    def below(branch: Branch) -> bool:
        parent = group.episodes[branch.parent]
        step = step_of(parent.trajectory(branch.agent)[branch.turn])
        shares = first == 0 or branch.parent == 0 or left_at(group, parent) >= first
        return step >= first and shares

    return [one for one in asked if below(one)]


COST_GROUPS = 2
"""Whole groups of an estimator that are played to see what one costs."""


def _cost(stage: Stage, algorithm: Algorithm) -> tuple[float, float]:
    """(tokens, steps of the environment) for each message that an update trains on.

    An action of a policy without tokens counts as one.
    """
    plan = stage.plan
    begun = [stage.start("cost", number) for number in range(COST_GROUPS)]
    starts = [group_starts(one.task, one.seed, plan.size, stage.chance) for one in begun]
    played = iter(stage.play([start for some in starts for start in some]))
    groups = [stage.group([next(played) for _ in some]) for some in starts]
    if algorithm.branching:
        ask = partial(algorithm.branches, agents=stage.trained)
        groups = grown(groups, starts, ask, stage.play, MOST_EPISODES)
    inputs = stage.returns(groups)
    messages = int((inputs.alive & (algorithm.weights(inputs) > 0)).sum())
    episodes = [episode for group in groups for episode in group.episodes]
    steps = sum(max((step_of(turn) + 1 for turn in one.turns), default=0) for one in episodes)
    new = [turn.response for one in episodes for turn in one.turns if not turn.given]
    tokens = sum(1 if one.completion_ids is None else len(one.completion_ids) for one in new)
    return tokens / messages, steps / messages


def _figures(
    name: str,
    messages: Sequence[Message],
    judged: np.ndarray,
    inner: Mapping[str, tuple[list[int], np.ndarray]] | None,
    cost: tuple[float, float],
) -> Judged:
    points = np.array([message.point for message in messages])
    worth = np.array([message.worth for message in messages])
    noise = np.array([message.noise for message in messages])
    variance = judged.var(axis=1, ddof=1)
    away = judged.mean(axis=1) - worth
    offset = np.array([away[points == point].mean() for point in points])
    # What sampling alone would leave of it: its own, and the reference's.
    share = 1 - 1 / (points == points[0]).sum()
    error = float((share * (variance / judged.shape[1] + noise**2)).mean())
    bias = max(0.0, float(((away - offset) ** 2).mean()) - error)
    signal = _signal(points, worth, judged)
    tokens, calls = cost
    return Judged(
        name=name,
        bias=bias**0.5,
        bias_error=error**0.5,
        offset=float((offset**2).mean()) ** 0.5,
        variance=float(variance.mean()),
        rank=_rank(points, worth, noise, judged),
        signal=signal,
        cosine={} if inner is None else {p: _cosine(worth, judged, *k) for p, k in inner.items()},
        tokens=tokens,
        calls=calls,
        per_thousand_tokens=None if signal is None else 1000 * signal / tokens,
        per_call=None if signal is None else signal / calls,
    )


def _signal(points: np.ndarray, worth: np.ndarray, judged: np.ndarray) -> float | None:
    """What one judgement knows of the reference; None where nothing differs, or no noise is."""

    def centred(values: np.ndarray) -> np.ndarray:
        return values - np.array([values[points == point].mean(axis=0) for point in points])

    right, said = centred(worth)[:, None], judged - judged.mean(axis=1, keepdims=True)
    said = said + centred(judged.mean(axis=1))[:, None]
    size = float((said**2).mean() * (right**2).mean())
    known = float((said * right).mean()) ** 2
    return None if size <= known or size == 0 else known / (size - known)


def _rank(
    points: np.ndarray, worth: np.ndarray, noise: np.ndarray, judged: np.ndarray
) -> float | None:
    """How often two messages of a point are put in order; None where no reference tells two apart.

    Told apart are those whose references differ by more than two standard errors.
    """
    found = []
    for one in range(len(points)):
        for other in range(len(points)):
            apart = worth[one] - worth[other] > 2 * np.hypot(noise[one], noise[other])
            if points[one] == points[other] and apart and worth[one] > worth[other]:
                better = judged[one][:, None] - judged[other][None]
                found.append(float((better > 0).mean() + (better == 0).mean() / 2))
    return float(np.mean(found)) if found else None


def _cosine(
    worth: np.ndarray, judged: np.ndarray, places: Sequence[int], products: np.ndarray
) -> float:
    """Mean over judgements of the cosine between the estimate's gradient and the reference's."""
    right, some = worth[list(places)], judged[list(places)].T
    lengths = np.einsum("ri,ij,rj->r", some, products, some) * (right @ products @ right)
    along = some @ products @ right
    positive = lengths > 0
    return float(np.where(positive, along / np.sqrt(np.where(positive, lengths, 1.0)), 0.0).mean())
