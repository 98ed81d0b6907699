"""# crowd-v0: many seats, each with a right word of its own; one score for all.

## Description
A test bed for credit. Each of 2 to 16 members says a word at once. One word is right for each, and
nobody is told which: it shows in the team's score alone. With many seats, some of them frozen, lazy
or noisy, the score says little of a single word. Algorithms differ in how they find their own part
in it. docs/environments/crowd.md has the landscape and what was measured.

## An episode
Task `train/0`, four members, three words. Right are green, blue, green and green.

    member_0 is told   You are member_0 of 4. Answer with one line, one of these words:
                       red, green, blue. One is right for you
    member_0 says      green
    member_1 says      blue
    member_2 says      red
    member_3 says      I believe it is green.
    all earn           0.5

    member_2 says      green
    member_3 says      I believe it is green.
                       Action: green
    all earn           1.0

In the first attempt two of four were right; the text of the last member took no action.

## Agents
`member_0` to `member_<n-1>`. They act at the same time.

Others than learners sit in a seat by name, in a training's `partners` or in the wrapper `Partners`:

- frozen and noisy: `expert` draws a word by lot in each episode. A weight above 1 makes its noise
  large.
- lazy: `expert:wrong_1` always says a wrong word. A seat with a small weight is hardly felt.
- perfect: `expert:right`.

## Observations
One user message with the words and the number of members. With more turns, the score so far.

## Actions
One of the words, read as in `matrix_game-v1`: exactly one line of the text is the word alone, or
behind `Action:`. Any other text is a wrong word.

## Rewards
| term | value |
|---|---|
| score | the gain: the team's score of this turn minus that of the turn before |

`arm="sum"`: the score is the mean over seats of weight times right. `arm="pairs"`: the mean over
pairs of seats of the product of both, so a right word counts only beside other right words.

All are paid the same, times the seat's scale in the task. The undiscounted return is the last
score: to be right later never pays more. It is 0 at least, and at most that of all right.

**Entries of `info`**: `success`, all are right; `right`, this seat is; `readable`, its text took an
action.

`bounds(task)` is exact: all at random; the seat with most to add is right and the others are at
random; all are right.

## Episode end
When all are right, or after `turns` turns. Never truncated.

## Arguments
`llm-marl spec crowd` lists them.

## Tasks and licence
A task draws each seat's right word. Rewards of `val` are also multiplied by 0.7 or 1.4, of `test`
by 0.6 or 1.7, of `ood` by 0.3 or 2.9, so no task is in two splits. Settings are chosen on `val`, by
learning its tasks anew.

No seat is told a part of the answer. If it were, reading would be learned, and not credit. What is
divided here is the score.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import Positive, TaskOptions, tasks_field
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.games.instances import WORDS
from llm_marl_envs.envs.games.right_words import (
    RightExperts,
    right_task_of_row,
    right_tasks,
    said_right,
    score,
)
from llm_marl_envs.envs.games.scales import Scales, scales_field, task_scales

ASK = (
    "Crowd {task}. You are {agent} of {n}. Answer with one line, one of these words: {words}. "
    "One is right for you; the team's score tells."
)
AGAIN = "The team's score is {score:g}. Choose again."


class CrowdOptions(TaskOptions):
    """The arguments of crowd."""

    weights: Annotated[Sequence[Positive], Field(min_length=2, max_length=16)] = Field(
        default=(1.0, 1.0, 1.0, 1.0),
        description="what the words of each seat weigh; as many as seats",
    )
    choices: int = Field(
        default=3, ge=2, le=len(WORDS), description="how many words each seat chooses from"
    )
    arm: Literal["sum", "pairs"] = Field(default="sum", description="what is paid, see Rewards")
    tasks: Any = tasks_field(
        "Rows have `rights`, a list that holds one list, the right word of each seat, and perhaps "
        "`scale`."
    )
    scales: Scales = scales_field()
    turns: int = Field(default=1, ge=1, description="how often all may choose")


class CrowdEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or more scales than different tasks.
        TypeError: weights or scales that are no numbers.
    """

    metadata: ClassVar[dict[str, Any]] = described("crowd-v0")
    Options = CrowdOptions

    def __init__(self, **arguments: Any) -> None:
        options = CrowdOptions(**arguments)
        self.weights = tuple(map(float, options.weights))
        self.choices, self.arm = options.choices, options.arm
        seats = len(self.weights)
        shape, of_tasks = (1, seats, self.choices), task_scales(options.scales, seats)
        super().__init__(
            agents=[f"member_{i}" for i in range(seats)],
            source=options.opened(
                lambda split: right_tasks("crowd", split, of_tasks, shape),
                lambda row: right_task_of_row(row, shape),
            ),
            max_turns=options.turns,
            render_mode=options.render_mode,
        )
        most = max(scale for task in self.source for scale in task.data["scale"])
        self.reward_range = (0.0, most * self._expected(1.0, 1.0))

    def _expected(self, own: float, others: float) -> float:
        """The best expected score where one seat and the others are right so often."""
        n = len(self.possible_agents)
        right = np.full((n, n), others)
        np.fill_diagonal(right, own)
        return float(score(self.arm, right, self.weights).max())

    def experts(self) -> RightExperts:
        """Members who know the right word, and others."""
        return RightExperts(self.possible_agents, self.choices)

    def bounds(self, task: Task) -> Bounds:
        """Exact: all at random; the best seat right, the others at random; all right."""
        lot = 1 / self.choices
        unit = sum(task.data["scale"]) / len(self.weights)
        return Bounds(
            random=unit * self._expected(lot, lot),
            solo=unit * self._expected(1.0, lot),
            team=unit * self._expected(1.0, 1.0),
        )

    def begin_episode(self) -> None:
        """No scores yet."""
        self._scores: list[float] = []

    def brief(self, task: Task, agent: str) -> str:
        """The words."""
        n, words = len(self.possible_agents), ", ".join(WORDS[: self.choices])
        return ASK.format(task=task.id, agent=agent, n=n, words=words)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Score what all said."""
        texts = [joint_action[agent] for agent in self.agents]
        right = said_right(self.task, 0, self.choices, texts)
        team_score = float(score(self.arm, np.array([bool(hit) for hit in right]), self.weights))
        self._scores.append(team_score)
        gain, solved = gains(self._scores)[-1], all(right)
        return Outcome(
            reward_terms={
                agent: {"score": gain * scale}
                for agent, scale in zip(self.agents, self.task.data["scale"], strict=True)
            },
            feedback={}
            if solved or len(self._scores) == self.max_turns
            else dict.fromkeys(self.agents, AGAIN.format(score=self._scores[-1])),
            ended=solved,
            success=solved,
            facts={
                agent: {"readable": hit is not None, "right": bool(hit)}
                for agent, hit in zip(self.agents, right, strict=True)
            },
        )


parallel_env, env = module_forms(CrowdEnv)
