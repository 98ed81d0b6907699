"""# regime-v0: a coin that is tossed early decides most of what all earn.

## Description
A test bed for baselines over several turns. In each turn each member says a word, and one word is
right for each, as in `crowd-v0`. After the first turn a coin is tossed, and all are told how it
fell: at the end everybody is paid `bonus` more, or nothing more. Nobody can change that. But it
stands in every return, so a baseline that mixes both falls of the coin sees little of the words.
docs/environments/regime.md has the landscape and what was measured.

## An episode
Task `train/0`, two members, three words, three turns, bonus 5. Right are blue and blue, then red
and red, then blue and green.

    member_0 is told   You are member_0 of 2. There are 3 turns. In each, answer
                       with one line, one of these words: red, green, blue.
    member_0 says      blue
    member_1 says      blue
    all earn           1.0
    member_0 hears     The coin fell high: at the end 5 is added. Turn 2 of 3.
    member_0 says      red
    member_1 says      blue
    all earn           1.5
    member_0 says      blue
    member_1 says      Action: green
    all earn           7.5

## Agents
`member_0` to `member_<n-1>`. They act at the same time.

## Observations
Chat messages, append-only: the words and the number of turns; after the first turn how the coin
fell; the number of the turn. What is right is never told.

## Actions
One of the words, read as in `matrix_game-v1`: exactly one line of the text is the word alone, or
behind `Action:`. Any other text is a wrong word.

## Rewards
| term | value |
|---|---|
| right | the share of members that are right, at each turn |
| regime | `bonus` or nothing, at the last turn |

All are paid the same, times the seat's scale in the task. Each turn has words of its own, so turns
are paid and not gains. The range is 0 to `turns` + `bonus`, times the largest scale.

**Entries of `info`**: `success`, all were right at every turn; `right`, this seat is; `readable`,
its text took an action; `regime`, whether the bonus is paid.

`bounds(task)` is exact, the coin's mean included: all at random; one seat right, the others at
random; all right.

In the preset `regime_tiny` a team whose members say one word each in all turns is worth 1.5 at
most, and the best is 3.

## Episode end
After `turns` turns. Never truncated.

## Arguments
`llm-marl spec regime` lists them.

## Tasks and licence
A task draws the right words. Rewards of `val` are also multiplied by 0.7 or 1.4, of `test` by 0.6
or 1.7, of `ood` by 0.3 or 2.9, so no task is in two splits. Settings are chosen on `val`, by
learning its tasks anew.

The coin is drawn from the reset seed, which the episodes of a group share: use `chance: episode`,
or there is nothing to see. A branch that leaves an episode after the first turn keeps its coin.

Everybody is told the same (`info="split"` does not exist here). If only one seat knew the coin, the
others could not use it as a state, and the question was whether an algorithm does.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.games.instances import WORDS
from llm_marl_envs.envs.games.right_words import (
    RightExperts,
    right_task_of_row,
    right_tasks,
    said_right,
)
from llm_marl_envs.envs.games.scales import Scales, scales_field, task_scales

ASK = (
    "Regime {task}. You are {agent} of {n}. There are {turns} turns. In each, answer with one "
    "line, one of these words: {words}. One is right for you; the team's pay tells."
)
COINS = (
    "The coin fell low: at the end nothing is added.",
    "The coin fell high: at the end {bonus:g} is added.",
)
TURN = "Turn {turn} of {turns}."


class RegimeOptions(TaskOptions):
    """The arguments of regime."""

    turns: int = Field(
        default=3, ge=1, description="K, how often all choose; of interest from 3 on"
    )
    bonus: float = Field(default=5.0, ge=0, allow_inf_nan=False, description="see Rewards")
    n_agents: int = Field(default=2, ge=2, le=16, description="seats")
    choices: int = Field(
        default=3, ge=2, le=len(WORDS), description="how many words each seat chooses from"
    )
    tasks: Any = tasks_field(
        "Rows have `rights`, for each turn a list with the right word of each seat, and perhaps "
        "`scale`."
    )
    scales: Scales = scales_field()


class RegimeEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or more scales than different tasks.
        TypeError: scales that are no numbers.
    """

    metadata: ClassVar[dict[str, Any]] = described("regime-v0")
    Options = RegimeOptions

    def __init__(self, **arguments: Any) -> None:
        options = RegimeOptions(**arguments)
        self.choices, self.bonus = options.choices, float(options.bonus)
        turns, n_agents = options.turns, options.n_agents
        shape, of_tasks = (turns, n_agents, self.choices), task_scales(options.scales, n_agents)
        super().__init__(
            agents=[f"member_{i}" for i in range(n_agents)],
            source=options.opened(
                lambda split: right_tasks("regime", split, of_tasks, shape),
                lambda row: right_task_of_row(row, shape),
            ),
            max_turns=turns,
            render_mode=options.render_mode,
        )
        most = max(scale for task in self.source for scale in task.data["scale"])
        self.reward_range = (0.0, most * (turns + self.bonus))

    def experts(self) -> RightExperts:
        """Members who know the right words, and others."""
        return RightExperts(self.possible_agents, self.choices)

    def bounds(self, task: Task) -> Bounds:
        """Exact, in the mean of the coin: all at random; one seat right; all right."""
        n, lot = len(self.possible_agents), 1 / self.choices
        shares = (lot, (1 + (n - 1) * lot) / n, 1.0)
        random, solo, team = (
            sum(task.data["scale"]) / n * (self.max_turns * share + self.bonus / 2)
            for share in shares
        )
        return Bounds(random=random, solo=solo, team=team)

    def begin_episode(self) -> None:
        """The coin is not tossed yet, and nothing is wrong."""
        self._high, self._solved = False, True

    def brief(self, task: Task, agent: str) -> str:
        """The words and the number of turns."""
        return ASK.format(
            agent=agent,
            task=task.id,
            n=len(self.possible_agents),
            turns=self.max_turns,
            words=", ".join(WORDS[: self.choices]),
        )

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pay the turn's right words; toss the coin after the first, pay it after the last."""
        agents, turn = self.agents, self._taken[self.agents[0]]
        if turn == 1:
            self._high = self.chance.random() < 0.5
        right = said_right(self.task, turn - 1, self.choices, [joint_action[a] for a in agents])
        self._solved &= all(right)
        scales, last = (
            dict(zip(agents, self.task.data["scale"], strict=True)),
            turn == self.max_turns,
        )
        share = sum(map(bool, right)) / len(right)
        terms = {agent: {"right": scale * share} for agent, scale in scales.items()}
        news = dict.fromkeys(agents, TURN.format(turn=turn + 1, turns=self.max_turns))
        for agent, scale in scales.items():
            if last:
                terms[agent]["regime"] = scale * self.bonus * self._high
            if turn == 1:
                coin = COINS[self._high].format(bonus=scale * self.bonus)
                news[agent] = f"{coin} {news[agent]}"
        return Outcome(
            reward_terms=terms,
            feedback={} if last else news,
            success=self._solved,
            facts={
                agent: {"readable": hit is not None, "right": bool(hit), "regime": self._high}
                for agent, hit in zip(agents, right, strict=True)
            },
        )


parallel_env, env = module_forms(RegimeEnv)
