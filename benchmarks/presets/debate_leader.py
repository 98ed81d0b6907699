"""debate_leader_tiny: does a leader learn whom to read?

`success` beside the debaters of the run file, the last of whom tells who was absent where the
others tell who was there. `by seat` is the share of answers that the two debaters named together
who tell the same, of those that any two debaters named; 1/3 for a leader that does not look who
speaks. `seen` is the share of answers whose thought says that reports are read as `seen`.
`elsewhere` is success where `debater_1` is the one who tells who was absent, and `agreed` where
nobody does. Arms: those of each preset. The warm start takes minutes, so all seeds share that of
the run file, with which settings were chosen: they differ in what is sampled and in which tasks.

Written down before the runs of the seeds that are reported. The leader learns whom to read if
`success` after training is above 1/3, the best that is possible without looking who speaks, by 0.1
or more on each seed, and `shuffled` is not.

Written down before the runs of seeds 110 to 112, with `schedules: {difficulty: {highest: 0.75}}`
and without: it helps if `success` after training is higher with it, on each of them by 0.05 or
more. Groups that mostly succeed then teach nothing; they are few, so little is expected.
"""

from __future__ import annotations

from statistics import mean
from typing import Any

from benchmarks.presets.study import MEASURE_SEED, Settings, Study, held_out
from llm_marl_envs.core.records import Episode
from llm_marl_envs.core.texts import words_of
from llm_marl_envs.envs.debate.debate import LEADER_SEAT
from llm_marl_envs.measure import TeamResult, evaluate_team
from llm_marl_envs.policies import Team
from llm_marl_envs.policies.named import Context, named_partners

TASKS = 200
SEEN, ABSENT = "seen", "absent"
ELSEWHERE = {"elsewhere": (SEEN, ABSENT, SEEN), "agreed": (SEEN, SEEN, SEEN)}
"""What the debaters tell in place of what they tell in the run file."""


def measure(run: Settings, seats: Team) -> dict[str, Any]:
    """The leader beside the debaters of the run file, and beside others."""
    own = numbers(played(run, seats, run["partners"]))
    others = {
        name: played(run, seats, told_by(conventions)).success
        for name, conventions in ELSEWHERE.items()
    }
    return {"own": own, **others}


def told_by(conventions: tuple[str, ...]) -> dict[str, str]:
    """Debaters, by name, that tell things in these ways."""
    return {f"debater_{seat}": f"expert:{one}" for seat, one in enumerate(conventions)}


def played(run: Settings, seats: Team, partners: dict[str, str]) -> TeamResult:
    """One episode of each of the first held-out tasks."""
    env = held_out(run)
    team = {**named_partners(partners, Context(env=env)), LEADER_SEAT: seats[LEADER_SEAT]}
    return evaluate_team(env, team, n_tasks=TASKS, seed=MEASURE_SEED)


def numbers(result: TeamResult) -> dict[str, Any]:
    """What a leader did beside two who tell the same and one who does not."""
    pairs = [pair for pair in map(pair_of, result.episodes) if pair is not None]
    last = [one.trajectory(LEADER_SEAT)[-1] for one in result.episodes]
    return {
        "success": result.success,
        "by seat": mean(pair == (0, 1) for pair in pairs) if pairs else None,
        "seen": mean(turn.action.startswith(f"I read by: {SEEN}\n") for turn in last),
        "legal": mean(turn.info["readable"] for turn in last),
        "episodes": len(result.episodes),
    }


def pair_of(episode: Episode) -> tuple[int, int] | None:
    """Which two debaters named the team's answer; None where fewer or more did."""
    answer = str(episode.turns[-1].info["team_answer"]).lower()
    named = [
        seat
        for seat, agent in enumerate(one for one in episode.agents if one != LEADER_SEAT)
        if answer in [word.lower() for word in words_of(episode.trajectory(agent)[-1].action)]
    ]
    return (named[0], named[1]) if len(named) == 2 else None


STUDY = Study(
    preset="debate_leader_tiny",
    first_seed=100,
    seeds=3,
    measure=measure,
    columns={
        "success": "own/success",
        "by seat": "own/by seat",
        "seen": "own/seen",
        "legal": "own/legal",
        **{name: name for name in ELSEWHERE},
    },
    rises=("success",),
)
