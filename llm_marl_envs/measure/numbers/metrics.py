"""Every number that is measured, once: what it is called, its unit, its meaning, what computes it.

The log of a training, the summary of an evaluation, tables, reports and the documentation read this
table. A new number is one entry in it; one that a summary holds is a field of `results.py`, too.
Entries are found, and their values measured, by `values.py`; means with intervals are
`estimates.py`, digits `format.py`.

A name may hold a place, `<agent>`, `<term>` and the like, which stands for any name; `values.named`
fills it in.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Literal

from llm_marl_envs.core.answers import canonical
from llm_marl_envs.core.outcome import TINY, UNNAMED
from llm_marl_envs.core.records import Episode, StopReason, Turn
from llm_marl_envs.measure.numbers import society

Of = Literal["action", "episode", "team", "update", "run", "study"]


@dataclass(frozen=True, slots=True)
class Metric:
    """One number that is measured.

    Attributes:
        name: in tables and wherever it has no other.
        title: what people read.
        unit: of it; "share" is a number in [0, 1].
        doc: what it means.
        better: 1 the higher the better, -1 the lower, 0 nobody can say.
        compute: its value, None where there is none: of a turn if `of` is "action", else of an
            episode and, where the name holds a place, of what stands there.
        places: what may stand in the name's place, of some episodes.
        interval: whether its mean over tasks has one.
        log: its names in the log of a training.
        path: where the summary of an evaluation holds it, `ci95` where its interval.
        chart: the title of the curves that it is drawn among, None if it is not drawn.
        of: what it is measured of: an action or an episode (then `compute` does it), the episodes
            of a team together, one update or the whole of a training, or a comparison of teams.
    """

    name: str
    title: str
    unit: str
    doc: str
    better: int = 0
    compute: Callable[..., float | None] | None = None
    places: Callable[[Sequence[Episode]], Iterable[str]] | None = None
    interval: bool = False
    log: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    ci95: tuple[str, ...] = ()
    chart: str | None = None
    of: Of = field(kw_only=True)


_of_action, _of_episode, _of_team, _of_run, _of_study = (
    partial(Metric, of=of) for of in ("action", "episode", "team", "run", "study")
)


# -- of an episode --------------------------------------------------------------------------------
def episode_terms(episode: Episode) -> dict[str, float]:
    """Name -> what the task paid under it, its sum over the episode, mean over its agents."""
    terms = _mean_terms(episode, [p.reward_terms for p in (*episode.turns, *episode.idle.values())])
    for name, value in added_terms(episode).items():
        own = terms.pop(name, 0.0) - value
        if abs(own) > TINY and name != UNNAMED:  # else the name is a wrapper's
            terms[name] = own
    return terms


def added_terms(episode: Episode) -> dict[str, float]:
    """The same of what wrappers paid or charged."""
    return _mean_terms(episode, [p.added_terms for p in (*episode.turns, *episode.idle.values())])


def _mean_terms(episode: Episode, terms: Iterable[Mapping[str, float]]) -> dict[str, float]:
    sums: dict[str, float] = {}
    for some in terms:
        for name, value in some.items():
            sums[name] = sums.get(name, 0.0) + value / len(episode.agents)
    return sums


def _names_in(
    terms: Callable[[Episode], Mapping[str, float]], episodes: Sequence[Episode]
) -> Iterable[str]:
    return dict.fromkeys(name for episode in episodes for name in terms(episode))


def _agents_paid_apart(episodes: Sequence[Episode]) -> Iterable[str]:
    """Agents, where some episode pays them differently; none where the reward is shared."""
    for episode in episodes:
        returns = [episode.task_return(agent) for agent in episode.agents]
        if any(abs(value - returns[0]) > 1e-9 for value in returns):
            return dict.fromkeys(agent for e in episodes for agent in e.agents)
    return ()


def _return_of(episode: Episode, agent: str) -> float | None:
    return episode.task_return(agent) if agent in episode.agents else None


def _tokens(episode: Episode, which: int) -> float | None:
    """Tokens of the actions that somebody counted: read (0) or written (1)."""
    counted = [tokens for turn in episode.turns if (tokens := turn.response.tokens) is not None]
    return float(sum(counts[which] for counts in counted)) if counted else None


def _text_balance(episode: Episode) -> float | None:
    if len(episode.agents) < 2:
        return None
    return contribution_balance(
        [sum(len(turn.action) for turn in episode.trajectory(agent)) for agent in episode.agents]
    )


def contribution_balance(contributions: Sequence[float]) -> float | None:
    """Smallest contribution over the mean one: 1 all contribute alike, 0 somebody nothing.

    Args:
        contributions: one number per agent, in any unit; a negative one counts as 0.

    Returns:
        A number in [0, 1]; None where nobody contributes.

    Raises:
        ValueError: fewer than two agents.
    """
    if len(contributions) < 2:
        raise ValueError(f"balance of {len(contributions)} agents: expected two or more")
    kept = [max(0.0, float(amount)) for amount in contributions]
    total = math.fsum(kept)
    return min(kept) * len(kept) / total if total > 0 else None


def answer_agreement(answers: Sequence[str | None]) -> float:
    """Share of pairs of agents that give the same answer; None (no answer) agrees with nothing.

    Raises:
        ValueError: fewer than two answers.
    """
    pairs = list(combinations(answers, 2))
    if not pairs:
        raise ValueError(f"agreement of {len(answers)} answers: expected two or more")
    return sum(a is not None and a == b for a, b in pairs) / len(pairs)


def _agreement(episode: Episode) -> float | None:
    last = [episode.trajectory(agent)[-1:] for agent in episode.agents]
    answers = [turns[0].info["answer"] for turns in last if turns and "answer" in turns[0].info]
    if len(answers) < 2:
        return None
    return answer_agreement([canonical(a) if a and isinstance(a, str) else None for a in answers])


def _format_success(episode: Episode) -> float | None:
    asked = [turn.info["readable"] for turn in episode.turns if "readable" in turn.info]
    return float(all(asked)) if asked else None


def _calls(episode: Episode) -> float | None:
    given = "tools" in episode.env_kwargs
    return float(sum("call" in turn.info for turn in episode.turns)) if given else None


def _failed_call(turn: Turn) -> float | None:
    call = turn.info.get("call")
    return float(bool(call.get("failed"))) if isinstance(call, Mapping) else None


def _sampled(turn: Turn) -> float | None:
    ids = turn.response.completion_ids
    return None if ids is None else float(len(ids))


# -- the table, in the order in which tables and charts show it -----------------------------------
_OF_EPISODES = (
    _of_episode(
        name="mean_return",
        title="mean return",
        unit="reward",
        doc="undiscounted team return: what the task paid an agent over the episode, mean over "
        "agents; the `reward` of a log is what is learned from, with what wrappers paid",
        better=1,
        compute=lambda episode: episode.team_task_return,
        interval=True,
        log=("reward", "eval_reward"),
        path=("mean_return",),
        ci95=("return_ci95",),
        chart="Mean return",
    ),
    _of_episode(
        name="success",
        title="success",
        unit="share",
        doc="episodes that solved their task; nothing where the environment does not say",
        better=1,
        compute=lambda episode: None if episode.success is None else float(episode.success),
        interval=True,
        log=("success", "eval_success"),
        path=("success",),
        ci95=("success_ci95",),
        chart="Success",
    ),
    _of_team(
        name="pass@<k>",
        title="pass@<k>",
        unit="share",
        doc="chance that one of k episodes of a task solves it, unbiased (Chen et al. 2021); each "
        "episode has a reset seed of its own",
        better=1,
        path=("pass_at_k", "<k>"),
    ),
    _of_episode(
        name="return/<agent>",
        title="return of <agent>",
        unit="reward",
        doc="undiscounted return of one agent, where agents are paid differently",
        compute=_return_of,
        places=_agents_paid_apart,
    ),
    _of_episode(
        name="reward_terms/<term>",
        title="term <term>",
        unit="reward",
        doc="a named part of what the task paid, summed over the episode, mean over agents",
        compute=lambda episode, name: episode_terms(episode).get(name, 0.0),
        places=partial(_names_in, episode_terms),
        log=("reward_terms/<term>",),
        path=("reward_terms", "<term>"),
        chart="Reward terms",
    ),
    _of_episode(
        name="added_terms/<term>",
        title="beside the task, <term>",
        unit="reward",
        doc="what a wrapper paid or charged, as the price of calls or a scheme's pay, summed over "
        "the episode, mean over agents; learned from, and in no return, index or efficiency",
        compute=lambda episode, name: added_terms(episode).get(name, 0.0),
        places=partial(_names_in, added_terms),
        log=("added_terms/<term>",),
        path=("added_terms", "<term>"),
        chart="Reward terms",
    ),
    Metric(
        name="reward_std",
        title="spread of returns",
        unit="reward",
        of="update",
        doc="standard deviation of the return inside a group, mean over groups",
        log=("reward_std",),
        chart="Spread of returns inside a group",
    ),
    Metric(
        name="frac_reward_zero_std",
        title="groups without a signal",
        unit="share",
        of="update",
        doc="groups in which no trained seat's return varied, of those with two episodes or more",
        better=-1,
        log=("frac_reward_zero_std",),
        chart="Groups without a signal",
    ),
    _of_team(
        name="failed",
        title="failed episodes",
        unit="count",
        doc="episodes whose environment raised: evaluations count each as the smallest return that "
        "the environment declares, training leaves them out",
        better=-1,
        log=("episodes/failed", "eval_failed"),
        path=("failed",),
        chart="Failed episodes",
    ),
    _of_team(
        name="cooperation",
        title="cooperation index",
        unit="index",
        doc="(return - best solo) / (best team - best solo), mean over tasks that need a team: 0 "
        "is what one seat alone can get, 1 the most; nothing where the bounds are not known",
        better=1,
        interval=True,
        path=("cooperation", "mean"),
        ci95=("cooperation", "ci95"),
    ),
    _of_team(
        name="match",
        title="convention match",
        unit="share",
        doc="episodes whose agents' first actions follow one convention",
        path=("match",),
    ),
    _of_team(
        name="topographic_similarity/<agent>",
        title="topographic similarity of <agent>",
        unit="correlation",
        doc="do messages that are alike mean things that are alike? Spearman's, over pairs of "
        "meanings, of their distance and that of their messages; in the summary with `chance95`, "
        "and with a `reason` where there is none",
        path=("topography", "<agent>", "value"),
    ),
    _of_team(
        name="topographic_p/<agent>",
        title="the same by chance, <agent>",
        unit="share",
        doc="ways to deal the messages to the meanings that correlate as much or more, of 1000",
        path=("topography", "<agent>", "p"),
    ),
    _of_team(
        name="above_solo",
        title="return above best solo",
        unit="reward",
        doc="return - best solo, mean over all tasks",
        better=1,
        path=("cooperation", "above_solo"),
    ),
    _of_team(
        name="team_tasks",
        title="tasks that need a team",
        unit="count",
        doc="tasks that the cooperation index is taken over",
        path=("cooperation", "n_tasks"),
    ),
    _of_episode(
        name="format_success",
        title="format success",
        unit="share",
        doc="episodes whose every action had the form that was asked for, where one was",
        better=1,
        compute=_format_success,
        log=("format_success",),
        path=("faults", "format_success"),
    ),
    _of_episode(
        name="answer_agreement",
        title="answers agree",
        unit="share",
        doc="pairs of agents whose last answers agree, where two or more are asked for one",
        compute=_agreement,
        path=("answer_agreement",),
    ),
    _of_episode(
        name="survival",
        title="survival",
        unit="share",
        doc="rounds that what a society shares lasted, of all that it could; 1 to the end",
        better=1,
        compute=society.survival,
        log=("survival",),
        path=("society", "survival"),
        chart="Society",
    ),
    _of_episode(
        name="efficiency",
        title="efficiency",
        unit="share",
        doc="what a society's seats were paid, over what they are paid in the social optimum",
        better=1,
        compute=society.efficiency,
        log=("efficiency",),
        path=("society", "efficiency"),
        chart="Society",
    ),
    _of_episode(
        name="gini",
        title="Gini coefficient",
        unit="share",
        doc="inequality of a society's pay: 0 all have the same, 1 - 1/n one has everything; "
        "nothing where somebody's pay is below 0",
        better=-1,
        compute=society.inequality,
        log=("gini",),
        path=("society", "gini"),
        chart="Society",
    ),
    _of_episode(
        name="over_use",
        title="over-use",
        unit="share",
        doc="actions that take more than their part of what lasts",
        better=-1,
        compute=society.over_use,
        log=("over_use",),
        path=("society", "over_use"),
        chart="Society",
    ),
    _of_episode(
        name="tipping",
        title="tipping round",
        unit="rounds",
        doc="first round from which to the end a half of the seats or more over-use, mean over "
        "episodes with one",
        better=1,
        compute=society.tipping,
        path=("society", "tipping"),
    ),
    _of_episode(
        name="tipped",
        title="tipped",
        unit="share",
        doc="episodes with a tipping round; of the others it is censored",
        better=-1,
        compute=society.tipped,
        path=("society", "tipped"),
    ),
    _of_episode(
        name="turns_per_agent",
        title="turns per agent",
        unit="turns",
        doc="own actions of an agent, mean over agents",
        compute=lambda episode: episode.turns_per_agent,
        log=("turns",),
        path=("cost", "turns_per_agent"),
    ),
    _of_episode(
        name="calls",
        title="calls",
        unit="count",
        doc="calls of tools by all seats, where there are tools",
        compute=_calls,
        path=("cost", "calls"),
    ),
    _of_episode(
        name="chars",
        title="characters per episode",
        unit="characters",
        doc="characters of all actions",
        compute=lambda episode: float(sum(len(turn.action) for turn in episode.turns)),
        path=("cost", "chars"),
    ),
    _of_episode(
        name="prompt_tokens",
        title="tokens read per episode",
        unit="tokens",
        doc="the whole prompt of each action that somebody counted",
        better=-1,
        compute=lambda episode: _tokens(episode, 0),
        path=("cost", "prompt_tokens"),
    ),
    _of_episode(
        name="completion_tokens",
        title="tokens written per episode",
        unit="tokens",
        doc="of the actions that somebody counted",
        better=-1,
        compute=lambda episode: _tokens(episode, 1),
        path=("cost", "completion_tokens"),
    ),
    _of_team(
        name="tokens_per_second",
        title="tokens written per second",
        unit="tokens / second",
        doc="tokens written in all episodes / seconds",
        better=1,
        path=("cost", "tokens_per_second"),
    ),
    _of_team(
        name="seconds",
        title="seconds",
        unit="seconds",
        doc="wall time of playing all episodes",
        better=-1,
        path=("cost", "seconds"),
    ),
    _of_team(
        name="seconds_per_episode",
        title="seconds per episode",
        unit="seconds",
        doc="wall time / episodes, those that failed too; of baselines that play several each",
        better=-1,
    ),
    _of_episode(
        name="text_balance",
        title="text balance",
        unit="share",
        doc="smallest over mean number of characters among agents",
        compute=_text_balance,
        path=("cost", "text_balance"),
    ),
    _of_action(
        name="tokens_per_action",
        title="tokens per action",
        unit="tokens",
        doc="sampled by a model, EOS included; in the log agent by agent",
        compute=_sampled,
        log=("<agent>/tokens",),
        chart="Tokens per action",
    ),
    _of_episode(
        name="truncated_episodes",
        title="truncated episodes",
        unit="share",
        doc="episodes cut by a limit of the environment",
        better=-1,
        compute=lambda episode: float(episode.stop_reason is StopReason.TRUNCATED),
        log=("truncated",),
        path=("faults", "truncated_episodes"),
        chart="Episodes and actions cut",
    ),
    _of_action(
        name="cut_actions",
        title="cut actions",
        unit="share",
        doc="actions ended by the token limit instead of EOS; in the log agent by agent",
        better=-1,
        compute=lambda turn: float(turn.response.cut),
        log=("<agent>/cut",),
        path=("faults", "cut_actions"),
        chart="Episodes and actions cut",
    ),
    _of_action(
        name="empty_actions",
        title="empty actions",
        unit="share",
        doc="actions without a text, as where a server's parser of reasoning keeps all of it",
        better=-1,
        compute=lambda turn: float(not turn.action.strip()),
        path=("faults", "empty_actions"),
    ),
    _of_action(
        name="overlong_actions",
        title="overlong actions",
        unit="share",
        doc="actions that the environment cut at max_action_chars; in the log agent by agent",
        better=-1,
        compute=lambda turn: float(bool(turn.info.get("action_truncated"))),
        log=("<agent>/action_truncated",),
        path=("faults", "overlong_actions"),
        chart="Episodes and actions cut",
    ),
    _of_action(
        name="unreadable_actions",
        title="unreadable actions",
        unit="share",
        doc="actions without the form that was asked for, of those of which one was",
        better=-1,
        compute=lambda turn: float(not turn.info["readable"]) if "readable" in turn.info else None,
        path=("faults", "unreadable_actions"),
    ),
    _of_action(
        name="failed_calls",
        title="failed calls",
        unit="share",
        doc="calls of tools that could not be read, named no tool, or failed",
        better=-1,
        compute=_failed_call,
        path=("faults", "failed_calls"),
    ),
    _of_team(
        name="n_tasks",
        title="tasks",
        unit="count",
        doc="tasks that were played; one whose every episode failed is in no mean",
        path=("n_tasks",),
    ),
    _of_team(
        name="resets",
        title="reset seeds per task",
        unit="count",
        doc="different reset seeds that each task was played from: every sample has its own, so "
        "that cards, ends and the like are dealt anew; the same for all teams",
        path=("resets",),
    ),
)


def _logged(
    name: str, title: str, unit: str, doc: str, *more: str, chart: str | None = None
) -> Metric:
    """What an update logs under its name, and under `more` names."""
    return Metric(name, title, unit, doc, of="update", log=(name, *more), chart=chart)


_OF_UPDATES = (
    _logged(
        "entropy",
        "entropy",
        "nats per token",
        "of the policies, by TRL",
        "<policy>/entropy",
        chart="Entropy",
    ),
    _logged(
        "kl",
        "KL to the start",
        "nats per token",
        "of the policies to what they began as, by TRL where beta is set",
        "<policy>/kl",
        chart="KL to the start",
    ),
    _logged(
        "<policy>/grad_norm",
        "gradient norm of <policy>",
        "norm",
        "of one policy, before clipping",
        chart="Gradient norm before clipping",
    ),
    _logged(
        "<policy>/grad_cosine",
        "direction of the gradient of <policy>",
        "cosine",
        "with the optimiser's mean of the gradients before it: 0 where they are nothing but noise",
        chart="Direction of the gradient",
    ),
    _logged(
        "<policy>/idle",
        "<policy> idle",
        "share",
        "updates in which the policy had nothing to learn and kept still",
    ),
    _logged(
        "sampling/<policy>/mean",
        "mean difference of log-probs, <policy>",
        "nats per token",
        "between the trainer and the engine that sampled; `joint` is all policies together",
    ),
    _logged(
        "sampling/<policy>/largest",
        "largest difference of log-probs, <policy>",
        "nats",
        "of one token",
    ),
    _logged(
        "sampling/<policy>/signed",
        "signed difference of log-probs, <policy>",
        "nats per token",
        "mean of the trainer's log-prob less the engine's",
    ),
    _logged(
        "sampling/<policy>/summed",
        "difference over a row, <policy>",
        "nats",
        "mean size of the sum over a row; of `joint`: over all rows of an episode",
    ),
    _logged(
        "sampling/<policy>/size",
        "effective sample size, <policy>",
        "share",
        "of rows (of `joint`: episodes) weighed by the exponential of that sum",
    ),
    _logged(
        "algorithm/<counter>", "<counter>", "count", "what the algorithm counted in the update"
    ),
    _logged("schedule/turns", "horizon", "turns", "most turns per agent in the update"),
    _logged("schedule/ratio", "ratio", "ratio", "largest, of what policies before said, new / old"),
    _logged("schedule/kept", "groups kept", "share", "of groups, not too easy and not too hard"),
    _logged(
        "time/rollout",
        "rollout",
        "seconds",
        "sampling, stepping the environments and packing",
    ),
    _logged(
        "time/sampling", "sampling", "seconds", "of the update's actions, by the team's models"
    ),
    _logged("time/environments", "environments", "seconds", "the rest of playing: steps, partners"),
    _logged("time/publishing", "publishing", "seconds", "handing weights to a sampling server"),
    _logged("time/update", "learning", "seconds", "the rest: advantages, losses, gradients, steps"),
    _logged("speed/tokens", "tokens per second", "tokens/s", "sampled, over sampling time alone"),
    _logged("sharing/prompts", "prompt read", "share", "of prompt tokens, what sampling read"),
    _logged("sharing/rows", "rows read", "share", "of tokens of whole rows, what the update read"),
    _logged("memory/peak", "peak memory", "MiB", "of the first process so far; of the GPU if any"),
    _logged(
        "num_tokens",
        "tokens sampled so far",
        "tokens",
        "since the run began, by seats that are not trained too",
    ),
    _logged(
        "num_prompt_tokens",
        "tokens read so far",
        "tokens",
        "before these were sampled: the whole prompt of each action, whatever it shares",
    ),
    _logged(
        "cost/new_prompt_tokens",
        "new prompt tokens so far",
        "tokens",
        "those of them that a cache of prefixes leaves: beyond what the group sent before",
    ),
    _logged(
        "cost/calls",
        "evaluator calls so far",
        "count",
        "steps of the environments, each of which judges a joint action; replayed ones, too",
    ),
    _logged(
        "cost/replayed_calls",
        "replayed calls so far",
        "count",
        "those of them that only bring a branch to where it leaves its record",
    ),
    _logged(
        "cost/critic_tokens",
        "critic tokens so far",
        "tokens",
        "that a critic read in all of its passes, those that learn too; without a model it reads 0",
    ),
    _logged("cost/updates", "rollouts so far", "count", "that were learned from"),
    _logged("cost/seconds", "time so far", "seconds", "of training, over all sessions"),
    _logged("loss", "loss", "loss", "by TRL, mean over the rows of the update"),
    _logged("grad_norm", "gradient norm", "norm", "of all trained weights, by transformers"),
    _logged("learning_rate", "learning rate", "rate", "of the first policy, by its schedule"),
    _logged("clip_ratio/<which>", "clipped, <which>", "share", "tokens whose ratio TRL clipped"),
    _logged("step_time", "time of an update", "seconds", "by TRL"),
    _logged("epoch", "epoch", "passes", "over the training tasks"),
    _logged("step", "update", "count", "updates so far"),
)

_OF_RUNS = (
    _of_run("updates", "updates", "count", "of a whole training"),
    _of_run("tokens", "tokens", "tokens", "sampled in a whole training", -1),
    _of_run(
        "train_prompt_tokens",
        "prompt tokens",
        "tokens",
        "read in a whole training, each action's whole prompt; `prompt_tokens` in a sweep's file",
        -1,
    ),
    _of_run("hours", "hours", "hours", "wall time of a whole training", -1),
    _of_run("trained_parameters", "trained parameters", "count", "of all policies"),
    _of_run("train_reward", "training return", "reward", "the last that was logged", 1),
    _of_run("train_success", "training success", "share", "the last that was logged", 1),
    _of_run("train_loss", "training loss", "loss", "mean of the updates", log=("train_loss",)),
    _of_run("train_runtime", "training time", "seconds", "by transformers", log=("train_runtime",)),
    _of_run("total_flos", "operations", "FLOP", "by transformers", log=("total_flos",)),
    _of_run(
        "train_<what>_per_second",
        "<what> per second",
        "1 / second",
        "samples or updates, by transformers",
        log=("train_<what>_per_second",),
    ),
)

_OF_STUDIES = (
    _of_study("before", "before", "as measured", "the same of the warm start, on the same tasks"),
    _of_study("ahead", "team ahead by", "as measured", "the team minus another method"),
    _of_study(
        "self_play",
        "self-play",
        "reward",
        "return of members of one team together",
        interval=True,
    ),
    _of_study(
        "cross_play", "cross-play", "reward", "return of members of two teams", interval=True
    ),
    _of_study("gap", "gap", "reward", "self-play minus cross-play", interval=True),
    _of_study("expert_return", "experts", "reward", "return of scripted experts in all seats"),
    _of_study(
        "lost",
        "return lost",
        "reward",
        "actual return minus that with one action or message changed",
        interval=True,
    ),
    _of_study("mattered", "mattered", "share", "episodes whose return changed"),
    _of_study("changed", "changed", "share", "episodes in which the replacement said otherwise"),
    _of_study("heard", "heard", "share", "episodes in which another agent saw something else"),
    _of_study("parted", "parted", "share", "episodes that ended before the change did"),
    _of_study(
        "sampled_success",
        "success, temperature 1",
        "share",
        "solved episodes of a demo",
        interval=True,
    ),
    _of_study("half_temperature_success", "success, temperature 0.5", "share", "likewise"),
    _of_study("greedy_success", "success, greedy", "share", "likewise"),
    _of_study("sampled_success/<split>", "success, split <split>", "share", "at temperature 1"),
    _of_study("match/<split>", "match, split <split>", "share", "at temperature 1"),
    _of_study("choice_match", "match where there is a choice", "share", "of conventions"),
    _of_study("success_given_match", "success, given a match", "share", "of conventions"),
    _of_study(
        "competence/<agent>",
        "<agent> beside an expert",
        "share",
        "tasks solved where experts of the agent's own convention play the other seats",
    ),
)
METRICS: Mapping[str, Metric] = {
    metric.name: metric for metric in (*_OF_EPISODES, *_OF_UPDATES, *_OF_RUNS, *_OF_STUDIES)
}
"""Name -> metric, in the order of tables and charts."""
