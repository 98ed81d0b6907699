r"""# public_goods-v0: what all give is multiplied and shared equally, so each would rather keep.

## Description
A public good over many rounds. Four citizens have ten units each. In each round they talk, and then
all say at once how many they give. What all give is multiplied by 1.6 and divided equally among the
four, whoever gave it.

It is best for all to give everything: then each has 16 of a round, else 10. But a unit that is
given pays its giver 0.4 alone, so each is paid most where it keeps everything and the others give.

With `punish=True` all see what was given, and each can take from others at a cost of its own (Fehr
and Gaechter 2000, doi 10.1257/aer.90.4.980; 2002, doi 10.1038/415137a). With `choose=True` seats
know what everybody gave before, name those with whom they would play, and play in pairs (Dasgupta
and Musolesi 2023, arXiv 2301.08278, study both).

docs/environments/public_goods.md has the equilibria, what best responses gain, and what attacks
earn.

## An episode
Task `train/0`, and to be short `turns=3` and `punish=True`: one round.

    citizen_0 is told  4 people play. You are citizen_0.
                       In each round everybody has 10 units.
                       All say at once how many they give. What all give is
                       multiplied by 1.6 and divided equally among the 4. You are
                       paid what you keep, and your part.
                       ...
                       Round 1 of 1. Talk, 1 of 1.
    citizen_0 says     I give 10.
    citizen_1 says     I give 10.
    citizen_2 says     I give 10.
    citizen_3 says     I give 10.
    citizen_0 hears    citizen_3 says:
                       > I give 10.
                       Round 1 of 1. Answer with one line: how many you give, a
                       whole number.
    citizen_0 says     10
    citizen_1 says     10
    citizen_2 says     10
    citizen_3 says     I keep it all.
                       Action: 0
    citizen_0 earns    0.75
    citizen_3 earns    1.375
    citizen_0 hears    Given in round 1: citizen_0 10, citizen_1 10, citizen_2 10,
                       citizen_3 0.
                       Round 1 of 1. Your pay is 12. Answer with one line: whom
                       you punish and with how many units, as in NAME 2, NAME 1,
                       or nobody.
    citizen_0 says     citizen_3 3
    citizen_1 says     nobody
    citizen_2 says     nobody
    citizen_3 says     nobody
    citizen_0 earns    0.5625
    citizen_1 earns    0.75
    citizen_3 earns    0.8125

`citizen_3` breaks its word: it has 22, the others 12 each. One spends 3 units, which takes 9 from
it. So it has less than the 16 that giving would have paid it.

## Agents
`citizen_0` to `citizen_<n-1>`. They act at the same time, also when they talk.

## Observations
Chat messages, append-only: the rules; in turns of talk what the others said, each line behind `> `;
with `choose=True` who plays with whom; what everybody gave; with `punish=True` how many units each
was punished with, not by whom.

## Actions
In turns of talk any text; what stands before `</think>` is not shown to others. Else exactly one
line of a text has the form that is asked for, alone or behind `Action:`. A full stop at its end,
and case, are ignored. Texts are cut at 1024 characters.

- To give: a whole number. Signs and fractions are no amounts. More than the endowment is all of it.
- To choose: names with commas between them, `anybody` or `nobody`. A text without such a line is
  `anybody`. Two can play together where each names the other. Seats come in a drawn order, and each
  that is free gets one of those who are free and with whom it is mutual, each as likely. Who is
  left plays alone, and keeps its endowment if it names an amount.
- To punish: names with whole numbers behind them and commas between, as `citizen_1 2, citizen_3 1`,
  or `nobody`. A text without such a line punishes nobody. Of too many units those named first
  count.

A line that names oneself, nobody there is, or somebody twice, has no form.

## Rewards
| term | value |
|---|---|
| kept | the endowment less what the seat gives |
| shared | its part: `factor` times what all (with `choose=True`, both) gave, divided equally |
| spent | with `punish=True`: less the units that it punishes others with |
| fined | with `punish=True`: less three times the units that it is punished with |

All are divided by what a seat has of all rounds in the social optimum. So the mean over seats of an
episode is 1 at most where the horizon is known, in the mean of chance also where it is not. Talk
pays nothing. Pay is what a seat has, never a rank.

A seat can spend at most a half of what it has of a round, and lose at most the other half by fines.
So no round pays less than 0, and a unit of punishment costs its giver the same, whatever others do.

**A text without an amount is paid nothing in that round**: it gives nothing, keeps nothing, and its
part is lost. To give nothing is what pays most at once, so else silence would be a way to earn
that. The others have what they would have beside a plain `0`.

**Entries of `info`**

- `success`: so far all gave everything, nobody was alone and nobody punished.
- In turns in which seats give: `readable`; `given`, units; `group`, who played together;
  `over_use`: it gave less than everything though it was not alone; `optimum`: what a seat is paid
  in the social optimum, mean over seats: 1.
- In turns in which they choose: `readable`; `wishes`. In turns in which they punish: `readable`;
  `spent` and `fined`, units.

`llm-marl eval` makes of them efficiency, over-use, tipping and, of all pay, the Gini coefficient.
There is no survival here, as nothing can run out.

`bounds(task)` is exact, the mean over seats: amounts at random, and nobody punishes; one seat acts
and the others give 0; the social optimum. Interests are mixed, so no cooperation index tells much.
The equilibrium is in the page below.

## Episode end
After `turns` turns, or when chance ends it. Never truncated.

## Arguments
`llm-marl spec public_goods` lists them.

A round has `talk` turns of talk, with `choose=True` one to choose, one to give, and with
`punish=True` one to punish. The last turn is the end of a round; the first round may lack turns of
talk, and no others. So the default 20 turns are ten rounds with one turn of talk before each.

With `end=0` all know the last round, and the game unravels from it. With `end` above 0 each round
may be the last; `turns` then only keeps episodes short.

## Experts
- `sharer` gives everything, plays with anybody, and leaves it to others to punish.
- `grabber` promises that and gives nothing.
- `grim` gives everything until one with whom it plays ever gave less, and then nothing. With
  `choose=True` it does not name such a one again.
- `follower` gives what the others in its group gave last in the mean, rounded down; at first
  everything.
- `punisher` gives everything, and punishes each who gave less with so many units that alone it
  makes that a loss, if it can pay for them. There with `punish=True`.

They heed what was given, not what was said, nor who was punished.

## Tasks and licence
A task has an endowment and a factor. `train/0` is 10 and 1.6; in the others the endowment is 6 to
30, and the factor a tenth to nine tenths of the way from 1 to the number of those who play
together. No such pair is in two splits. `ood` has endowments from 40 to 60. Texts and tasks share
the library's licence.

Differences from the papers: (1) Fehr and Gaechter's endowment is 20, with the same factor and four
seats; rows can have it. (2) Theirs are anonymous from round to round; here all have names, in the
reports too, except who punished. (3) There a loss by fines is bounded by all of a round's pay, and
who punishes can have less than nothing. Here each is bounded by a half, so that pay is never below
0 and punishing never becomes free. (4) Units can be named for anybody, also for those of another
pair: direct and third-party punishment of arXiv 2301.08278 are one option here. (5) There agents
play a dilemma of two actions; here they give whole units. (6) Partners must name each other, and
who has none is alone.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.societies.amounts import amount_of
from llm_marl_envs.envs.societies.goods import (
    CHOOSE,
    GIVE,
    PUNISH,
    Groups,
    Rules,
    drawn,
    fined,
    group_of,
    incomes,
    parts,
)
from llm_marl_envs.envs.societies.goods_experts import GoodsExperts
from llm_marl_envs.envs.societies.goods_numbers import alone, at_random, most, optimum
from llm_marl_envs.envs.societies.goods_tasks import factor_of, goods_task_of_row, goods_tasks
from llm_marl_envs.envs.societies.goods_texts import (
    ASKS,
    FINE,
    HEAD,
    PLAYS,
    PLAYS_ALONE,
    brief,
    fines_of,
    report_fines,
    report_given,
    report_groups,
    shown,
    wishes_of,
)
from llm_marl_envs.envs.societies.rounds import TALK, SocietyEnv


class PublicGoodsOptions(TaskOptions):
    """The arguments of public_goods."""

    n_agents: int = Field(default=4, ge=2, le=8, description="seats; with choose=True even")
    turns: int = Field(default=20, ge=1, le=400, description="how many turns, of all kinds")
    talk: int = Field(default=1, ge=0, le=20, description="turns of talk in each round")
    end: float = Field(
        default=0.0, ge=0, le=0.5, description="the chance that a round is the last one"
    )
    punish: bool = Field(default=False, description="whether seats can punish others")
    choose: bool = Field(default=False, description="whether seats choose partners, in pairs")
    tasks: Any = tasks_field("Rows have perhaps `endowment` and `factor`, numbers.")


class PublicGoodsEnv(SocietyEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, an odd number of seats that choose, turns that leave
            the first round without more than talk, or rows that are no tasks.
    """

    metadata: ClassVar[dict[str, Any]] = described("public_goods-v0")
    Options = PublicGoodsOptions

    def __init__(self, **arguments: Any) -> None:
        options = PublicGoodsOptions(**arguments)
        n, self.end, self.choose = options.n_agents, options.end, options.choose
        self.punish = options.punish
        if self.choose and n % 2:
            raise ValueError(f"n_agents={n} with choose=True: expected an even number, for pairs")
        together = 2 if self.choose else n
        doing = [*[CHOOSE] * self.choose, GIVE, *[PUNISH] * self.punish]
        super().__init__(
            agents=[f"citizen_{i}" for i in range(n)],
            source=options.opened(
                partial(goods_tasks, together=together),
                partial(goods_task_of_row, together=together),
            ),
            phases=[*[TALK] * options.talk, *doing],
            max_turns=options.turns,
            render_mode=options.render_mode,
        )
        if self.schedule.missing > options.talk:
            raise ValueError(
                f"turns={options.turns}: the first round would lack {doing[0]!r}; expected a "
                f"multiple of {len(self.schedule.phases)}, or at most {options.talk} less"
            )
        # The less giving is worth, the more others' gifts are beside the optimum.
        tempting = self.game(min(self.source, key=lambda task: task.data["factor"]))
        self.reward_range = (0.0, most(tempting) / optimum(tempting))

    # -- the game ---------------------------------------------------------------------------------
    def game(self, task: Task) -> Rules:
        """The rules."""
        return Rules(
            seats=len(self.possible_agents),
            rounds=self.schedule.rounds,
            endowment=task.data["endowment"],
            factor=factor_of(task),
            end=self.end,
            choose=self.choose,
            punish=self.punish,
        )

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The rules, and what is asked first."""
        return "\n".join([brief(self.game(task), agent), self.asks(1, agent)])

    def asks(self, turn: int, agent: str) -> str:
        """What is wanted in a turn."""
        head = HEAD.format(round=self.schedule.round(turn), rounds=self.schedule.rounds)
        phase = self.schedule.phase(turn)
        if phase == PUNISH:
            pay = self._earned[self.possible_agents.index(agent)]
            return head + FINE.format(pay=shown(pay))
        number, talk = self.schedule.talk(turn)
        with_whom = self._partner(agent) if phase == GIVE and self.choose else ""
        return head + with_whom + ASKS[phase].format(turn=number, talk=talk)

    def _partner(self, agent: str) -> str:
        group = group_of(self._groups, self.possible_agents.index(agent))
        others = [
            self.possible_agents[seat] for seat in group if self.possible_agents[seat] != agent
        ]
        return PLAYS.format(other=others[0]) if others else PLAYS_ALONE

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nothing was given, and nobody was punished."""
        super().begin_episode()
        self._rules = self.game(self.task)
        self._norm = optimum(self._rules)
        self._groups: Groups = self._rules.everybody
        self._earned: list[Fraction] = []
        self._best = True

    def act(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Pair seats, pay what they keep and share, or take what fines take."""
        phase = self.schedule.phase(turn)
        if phase == CHOOSE:
            return self._pair(turn, joint_action)
        return self._share(turn, joint_action) if phase == GIVE else self._fine(turn, joint_action)

    def _pair(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Draw who plays with whom."""
        seats = self.possible_agents
        named = {agent: wishes_of(text, self.others(agent)) for agent, text in joint_action.items()}
        wishes = {
            agent: self.others(agent) if wish is None else sorted(wish)
            for agent, wish in named.items()
        }
        numbers = (frozenset(map(seats.index, wishes[agent])) for agent in seats)
        self._groups = drawn(tuple(numbers), self.chance)
        facts = {
            agent: {"readable": named[agent] is not None, "wishes": wishes[agent]}
            for agent in seats
        }
        news = report_groups(self.schedule.round(turn), self._groups, seats)
        return Outcome(reward_terms={}, facts=facts, feedback=self._news(turn, news))

    def _share(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Pay what seats keep and their parts."""
        rules, seats = self._rules, self.possible_agents
        named = {agent: amount_of(text) for agent, text in joint_action.items()}
        given = [
            None if (own := named[agent]) is None else min(own, rules.endowment) for agent in seats
        ]
        self._earned = incomes(rules, self._groups, given)
        back = parts(rules, self._groups, given)
        groups = [group_of(self._groups, seat) for seat in range(rules.seats)]
        paid, facts, report = {}, {}, {}
        for seat, agent in enumerate(seats):
            alone_here = len(groups[seat]) == 1
            kept = self._earned[seat] - back[seat]
            paid[agent] = {"kept": self._part(kept), "shared": self._part(back[seat])}
            gives = given[seat] or 0
            report[agent] = None if alone_here else gives
            facts[agent] = {
                "readable": named[agent] is not None,
                "given": gives,
                "group": [seats[other] for other in groups[seat]],
                "over_use": not alone_here and gives < rules.endowment,
                "optimum": 1.0,
            }
            self._best &= not alone_here and gives == rules.endowment
        return self._settled(turn, paid, facts, report_given(self.schedule.round(turn), report))

    def _fine(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Take what seats spend on fines, and what fines take."""
        seats = self.possible_agents
        named = [fines_of(joint_action[agent], self.others(agent)) for agent in seats]
        fines = [[(seats.index(other), units) for other, units in wanted or []] for wanted in named]
        taken = dict(zip(seats, fined(self._earned, fines), strict=True))
        paid = {
            agent: {
                "spent": self._part(Fraction(-sums.spent)),
                "fined": self._part(-sums.lost),
            }
            for agent, sums in taken.items()
        }
        facts = {
            agent: {"readable": wanted is not None, "spent": sums.spent, "fined": float(sums.lost)}
            for (agent, sums), wanted in zip(taken.items(), named, strict=True)
        }
        self._best &= not any(sums.spent for sums in taken.values())
        units = {agent: sums.units for agent, sums in taken.items()}
        return self._settled(turn, paid, facts, report_fines(self.schedule.round(turn), units))

    def _part(self, units: Fraction) -> float:
        """Units as a part of what a seat has in the social optimum."""
        return float(units) / self._norm

    def _news(self, turn: int, news: str) -> dict[str, str]:
        """What all are told after a turn, and asked in the next."""
        return {agent: f"{news}\n{self.asks(turn + 1, agent)}" for agent in self.possible_agents}

    def _settled(
        self,
        turn: int,
        paid: Mapping[str, Mapping[str, float]],
        facts: Mapping[str, Mapping[str, Any]],
        news: str,
    ) -> Outcome:
        """The outcome of a turn that pays; at the end of a round chance may end all."""
        last = turn == self.max_turns or (
            self.schedule.phase(turn) == self.schedule.phases[-1]
            and self.end > 0
            and self.chance.random() < self.end
        )
        return Outcome(
            reward_terms=paid,
            facts=facts,
            feedback={} if last else self._news(turn, news),
            ended=last,
            success=self._best,
        )

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> GoodsExperts:
        """Those who give, those who keep, and those who answer what others do."""
        return GoodsExperts(self.possible_agents, self.game, self.schedule.phase, self.punish)

    def bounds(self, task: Task) -> Bounds:
        """Exact: amounts at random; one seat gives, the others 0; the social optimum."""
        rules = self.game(task)
        best = optimum(rules)
        return Bounds(random=at_random(rules) / best, solo=alone(rules) / best, team=1.0)


parallel_env, env = module_forms(PublicGoodsEnv)
