r"""# commons-v0: many draw from a stock that doubles, and collapses where they take too much.

## Description
A commons over many months, as in GovSim (Piatti et al. 2024, arXiv 2404.16698). Five villagers
catch fish in one lake. In each month they talk, and then all say at once how much they catch. What
is left doubles, to 100 tons at most. Where less than 5 are left, it is over.

It is best for all to take a half of a full lake in each month, and all of it in the last. But each
is paid its own catch alone, and who takes more than its part is paid more.

docs/environments/commons.md has the equilibria, what best responses gain, and what attacks earn.

## An episode
Task `train/0`.

    villager_0 is told  5 people share a lake. You are villager_0. There are 100
                        tons of fish at first. ... You are paid what you catch.
                        It lasts 12 months.
                        Month 1 of 12. Talk, 1 of 1.
    villager_0 says     I catch 10.
    villager_1 says     I catch 10.
    villager_2 says     I catch 10.
    villager_3 says     I catch 10.
    villager_4 says     I catch 10.
    villager_0 hears    villager_4 says:
                        > I catch 10.
                        Month 1 of 12. Answer with one line: how many you catch,
                        a whole number.
    villager_0 says     10
    villager_1 says     10
    villager_2 says     10
    villager_3 says     10
    villager_4 says     All that is left.
                        Action: 60
    villager_0 earns    0.0769
    villager_4 earns    0.4615

`villager_4` breaks its word: it gets 60 tons, the others 10 each. The lake is empty. With eleven
months more each could have had 130.

## Agents
`villager_0` to `villager_<n-1>`. They act at the same time, also when they talk.

## Observations
Chat messages, append-only: the rules; in turns of talk what the others said, each line behind `> `;
after each month what everybody named, and how much there is now. With `universal=True` also how
much everybody may name before there is less in the next month (the paper's hint).

## Actions
In turns of talk any text; what stands before `</think>` is not shown to others. In the others
exactly one line of the text is an amount: a whole number alone, or behind `Action:`; a full stop at
its end is ignored. Signs and fractions are no amounts. More than there is means all of it. Texts
are cut at 1024 characters.

Where all name more than there is, units are dealt one by one among those who still want, in an
order that is drawn in that month.

## Rewards
| term | value |
|---|---|
| taken | units that the seat gets in a month, divided by what a seat has in the social optimum |
| spared | in the inverse form: the units of a month's work that it need not do, divided likewise |

So the mean over seats of an episode is 1 at most where the horizon is known, in the mean of chance
also where it is not. A seat by itself can earn up to `n_agents`. A text without an amount takes
nothing. In the inverse form it clears nothing and is paid nothing. Talk pays nothing. Pay is what a
seat has, never a rank.

**The inverse form** has a harm, as in the study by Curvo et al. (2025, arXiv 2505.09289); the rules
are this library's. Each month what is left of it doubles, and a part of the capacity, 0.4, comes
anew. Above the capacity it is over. In a month a seat can clear so much that all together can clear
everything. It is paid that, less what it clears.

**Entries of `info`**, in turns in which amounts are named

- `success`: at the end, the stock lasted to it.
- `readable`; `named`, the amount; `got`, what was dealt to it; `stock`, what there was before.
- `over_use`: it named more than its part of what can be taken so that the next month is no worse,
  or, of a harm, less. What the social optimum takes is never over-use.
- `optimum`: what a seat is paid in the social optimum, mean over seats: 1.
- `survival`: at the end, the share of the months that the stock lasted.

`llm-marl eval` makes of them survival, efficiency, over-use, tipping and, of all pay, the Gini
coefficient.

`bounds(task)` is exact, the mean over seats: amounts at random; one seat acts for all and the
others name 0; the social optimum. In the usual form one seat can take all, so these are the same:
interests are mixed, and no cooperation index tells anything. The equilibrium is in the page below.

## Episode end
After `turns` turns, when the stock collapses, or when chance ends it. Never truncated.

## Arguments
`llm-marl spec commons` lists them.

Amounts are named in the last turn, and in each (`talk` + 1)th before it. So the default 24 turns
are 12 months with one turn of talk before each.

With `end=0` all know the last month, and the game unravels from it. With `end` above 0 each month
may be the last; `turns` then only keeps episodes short.

## Experts
- `sharer` takes its part of the social optimum; units that cannot be divided go round.
- `grabber` promises that and takes everything; of a harm it clears nothing.
- `grim` shares until somebody takes too much, and then grabs.
- `follower` names what the others named in the mean, rounded down; at first its part.

They say what they will name, and heed what was named.

## Tasks and licence
A task has a stock and a capacity. `train/0` is the paper's: 100 and 100; in the others the capacity
is 50 to 150, the stock a half of it or more. No such pair is in two splits. `ood` has capacities
from 200 to 300. In the inverse form a half of the stock is the first harm, and stocks are even.
Texts and tasks share the library's licence.

Differences from the paper: (1) after a month all are told what each named; there a mayor tells it
in the talk. (2) All talk at once, so that a turn is the same for each seat. (3) There are no
persons, memories or reflections in the prompt: what seats remember is their chat. (4) What the best
plan takes is no over-use, as everything in the last month.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.envs.societies.amounts import amount_of
from llm_marl_envs.envs.societies.rounds import TALK, SocietyEnv
from llm_marl_envs.envs.societies.stock import Rules, dealt
from llm_marl_envs.envs.societies.stock_experts import StockExperts
from llm_marl_envs.envs.societies.stock_numbers import (
    alone,
    at_random,
    highest,
    is_overuse,
    optimum,
)
from llm_marl_envs.envs.societies.stock_tasks import stock_task_of_row, stock_tasks
from llm_marl_envs.envs.societies.stock_texts import SAY, SAY_ANYTHING, SKINS, brief, hint, report

NAME = "name"
"""The phase in which amounts are named."""


class CommonsOptions(TaskOptions):
    """The arguments of commons."""

    n_agents: int = Field(default=5, ge=2, le=8, description="seats")
    turns: int = Field(
        default=24, ge=1, le=400, description="how many turns, of talk and of amounts together"
    )
    talk: int = Field(default=1, ge=0, le=20, description="turns of talk before each month")
    end: float = Field(
        default=0.0, ge=0, le=0.5, description="the chance that a month is the last one"
    )
    skin: Literal["fish", "pasture", "pollution", "weeds", "thistles", "waste"] = Field(
        default="fish",
        description="in what words it is told; 'weeds', 'thistles' and 'waste' are the inverse "
        "form, a harm that must be taken away",
    )
    universal: bool = Field(
        default=False, description="whether it is told what would be if everybody named as much"
    )
    tasks: Any = tasks_field("Rows have `stock` and perhaps `capacity`, whole numbers.")


class CommonsEnv(SocietyEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or rows that are no tasks.
    """

    metadata: ClassVar[dict[str, Any]] = described("commons-v0")
    Options = CommonsOptions

    def __init__(self, **arguments: Any) -> None:
        options = CommonsOptions(**arguments)
        self.end, self.universal = options.end, options.universal
        self.skin = SKINS[options.skin]
        super().__init__(
            agents=[f"villager_{i}" for i in range(options.n_agents)],
            source=options.opened(
                partial(stock_tasks, inverse=self.skin.harm),
                partial(stock_task_of_row, inverse=self.skin.harm),
            ),
            phases=(*[TALK] * options.talk, NAME),
            max_turns=options.turns,
            render_mode=options.render_mode,
        )
        self.reward_range = (0.0, _highest(self.source, self._rules_of(0)))

    # -- the game ---------------------------------------------------------------------------------
    @property
    def months(self) -> int:
        """How often amounts are named."""
        return self.schedule.rounds

    def acts(self, turn: int) -> bool:
        """Whether amounts are named in a turn, from 1; else it is of talk."""
        return self.schedule.phase(turn) == NAME

    def game(self, task: Task) -> tuple[Rules, int]:
        """The rules, and the units of the first month."""
        rules = self._rules_of(task.data["capacity"])
        return rules, rules.first(task.data["stock"])

    def _rules_of(self, capacity: int) -> Rules:
        return Rules(len(self.possible_agents), self.months, capacity, self.end, self.skin.harm)

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The rules, and what is asked first."""
        rules, stock = self.game(task)
        lines = [brief(rules, self.skin, agent, stock)]
        lines += [hint(rules, stock)] if self.universal else []
        return "\n".join([*lines, self.asks(1, agent)])

    def asks(self, turn: int, agent: str) -> str:
        """What is wanted in a turn."""
        month = self.schedule.round(turn)
        if self.acts(turn):
            return SAY.format(month=month, months=self.months, verb=self.skin.verb)
        number, talk = self.schedule.talk(turn)
        return SAY_ANYTHING.format(month=month, months=self.months, turn=number, talk=talk)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """The first month, in which nothing was named."""
        super().begin_episode()
        self._rules, self._stock = self.game(self.task)
        self._month = 1

    def act(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Deal what was named, pay a month, and begin the next one."""
        amounts = {agent: amount_of(text) for agent, text in joint_action.items()}
        rules, month, stock = self._rules, self._month, self._stock
        named = {agent: min(amount or 0, rules.most(stock)) for agent, amount in amounts.items()}
        order = range(rules.seats)
        if sum(named.values()) > stock:
            order = self.chance.sample(order, rules.seats)
        got = dict(zip(named, dealt([*named.values()], stock, order), strict=True))
        best = optimum(*self.game(self.task))
        after = rules.grown(stock - sum(got.values()))
        last = month == rules.months or (
            after is not None and rules.end > 0 and self.chance.random() < rules.end
        )
        ended, lasted = last or after is None, last or after is not None
        facts: dict[str, dict[str, Any]] = {
            agent: {
                "readable": amounts[agent] is not None,
                "named": named[agent],
                "got": got[agent],
                "stock": stock,
                "over_use": bool(is_overuse(rules, month, stock, named[agent])),
                "optimum": 1.0,
                **({"survival": 1.0 if lasted else month / rules.months} if ended else {}),
            }
            for agent in self.agents
        }
        term = "spared" if rules.inverse else "taken"
        paid = {
            agent: {term: rules.pay(units) / best if amounts[agent] is not None else 0.0}
            for agent, units in got.items()
        }
        if ended or after is None:
            return Outcome(reward_terms=paid, facts=facts, ended=True, success=lasted)
        self._month, self._stock = month + 1, after
        news = [report(month, named, after, self.skin)]
        news += [hint(rules, after)] if self.universal else []
        texts = {a: "\n".join([*news, self.asks(turn + 1, a)]) for a in self.agents}
        return Outcome(reward_terms=paid, facts=facts, feedback=texts)

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> StockExperts:
        """Those who share, those who grab, and those who answer what others do."""
        return StockExperts(self.possible_agents, self.game, self.acts, self.skin)

    def bounds(self, task: Task) -> Bounds:
        """Exact: amounts at random; one seat acts, the others name 0; the social optimum."""
        rules, stock = self.game(task)
        best = optimum(rules, stock)
        return Bounds(
            random=float(at_random(rules)[stock]) / best, solo=alone(rules, stock) / best, team=1.0
        )


@lru_cache(maxsize=64)  # copies of an environment share their source
def _highest(source: TaskSource, rules: Rules) -> float:
    """The most that a seat can earn in the tasks of a source; the capacity is theirs."""
    if not rules.inverse and not rules.end:
        return float(rules.seats)  # one seat has what all can have
    pairs = {(rules.first(task.data["stock"]), task.data["capacity"]) for task in source}
    return highest(rules, np.array([*pairs]))


parallel_env, env = module_forms(CommonsEnv)
