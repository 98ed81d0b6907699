r"""# donor-v0: all give to others, who give to others again; who gave before can be seen.

## Description
The Donor Game, as in the study of cultural evolution by Vallinder and Hughes (2024,
arXiv 2412.10270). Six people have 10 units each. In each round everybody gives some of its units to
one other person, who gets two for each; somebody else gives to it. Whom one gives to changes, so
nobody can return a gift in the next round. But one is shown what the other gave in its last round,
and to whom.

It is best for all to give everything, always: then what each has doubles in each round. But each is
paid what it has at the end, and what it keeps is its own. So giving lasts only where those who keep
are found out, and others keep from them.

docs/environments/donor.md has the equilibria, what best responses gain, and what attacks earn.

## An episode
Task `train/0`.

    giver_4 is told  6 people give to each other. You are giver_4. Each has 10
                     units at first. ... You are paid what you have at the end.
                     ... There are 6 rounds.
                     Round 1 of 6. You have 10 units.
    all say          10
    giver_4 hears    giver_5 gave 10 of 10 to giver_4 in round 1.
                     Round 2 of 6. You have 20 units.
    all say          20
    all say          40
    all say          80
    all say          160
    giver_4 hears    giver_5 gave 160 of 160 to giver_4 in round 5.
                     Round 6 of 6. You have 320 units. You give to giver_1, who
                     has 320.
                     giver_1 gave 160 of 160 to giver_0 in round 5.
                     giver_0 gave 80 of 80 to giver_4 in round 4.
                     Answer with one line: how many you give, a whole number.
    giver_0 says     320
    giver_1 says     320
    giver_2 says     320
    giver_3 says     320
    giver_4 says     Nobody will see this.
                     Action: 0
    giver_5 says     320
    giver_0 earns    1.0
    giver_1 earns    0.0
    giver_4 earns    1.5

`giver_4` keeps in the last round: it has 960 units, `giver_1` none, the others 640.

## Agents
`giver_0` to `giver_<n-1>`. They act at the same time.

## Observations
Chat messages, append-only: the rules; before each round what was done to one in the last, how many
units one has, whom one gives to and how many that one has. Then up to `trace` lines: what that one
did in the last round and to whom, what the latter had done in the round before, and so on.
In turns of talk what the others said, each line behind `> `.

## Actions
In turns of talk any text; what stands before `</think>` is not shown to others. In the others
exactly one line of the text is an amount: a whole number alone, or behind `Action:`; a full stop at
its end is ignored. Signs and fractions are no amounts. More than one has means all of it. With
`punish=True` the line may be `punish` and a number: so many units are spent, and the other loses
two for each, at most what it has. Texts are cut at 1024 characters.

A text without an amount gives nothing, and its seat loses a tenth of its units, rounded up. So it
never pays what a plain `0` pays, though keeping is what pays most at once.

## Rewards
| term | value |
|---|---|
| endowment | units at first, in the first round |
| given | units given, below 0 |
| got | units that came of what another one gave |
| spent | units spent to punish, below 0 |
| punished | units lost as another one punished, below 0 |
| lost | units lost for want of an amount, below 0 |

Each is divided by what a seat has in the social optimum. So the return of a seat is what it has at
the end, and the mean over seats is 1 at most where the last round is known; in the mean of chance
also where it is not. A seat by itself can earn up to `n_agents`. Pay is what a seat has, never a
rank. Talk pays nothing.

**Entries of `info`**, in turns in which amounts are named

- `success`: nobody has kept more than a half of what it had so far.
- `readable`; `had` and `gave`, units; `spent`.
- `share`: what it gave, as a part of what it had.
- `over_use`: it kept more than a half of what it had.
- `broke`: it did so although the one it could give to had given a half or more, or not been seen.
- `optimum`: what a seat has in the social optimum: 1.

`llm-marl eval` makes of them efficiency, the share of turns that keep (`over_use`), tipping and, of
all pay, the Gini coefficient.

`bounds(task)` is exact, the mean over seats: amounts at random; one seat gives all and the others
nothing; the social optimum. Interests are mixed, so no cooperation index tells anything.

## Episode end
After `turns` turns, or when chance ends it. Never truncated.

## Arguments
`llm-marl spec donor` lists them.

Amounts are named in the last turn, and in each (`talk` + 1)th before it. With `end=0` all know the
last round, and the game unravels from it: that nobody gives is the only subgame-perfect
equilibrium. With `end` above 0 each round may be the last; `turns` then only keeps episodes short.

## Experts
- `sharer` gives all, `grabber` nothing, whatever others do.
- `image_scorer` gives all to those who gave all in their last round, to others nothing.
- `standing` likewise, but who kept from a bad one is not bad for it; it needs `trace=2`.
- `follower` gives as large a part as the other gave (tit for tat with strangers).
- `grim` gives all until it sees or suffers that somebody did not.
- `punisher`, with `punish=True`: as `standing`, and spends up to a half of its own to punish the
  bad.

They say what they will do, and heed what was done.

## Tasks and licence
A task has an endowment and a draw, from which follows who meets whom. `train/0` has the paper's
endowment, 10; in the others it is 6 to 14, in `ood` 30 to 60. No draw is in two of the other
splits. With fewer than six seats or three rounds there are few ways to meet, so that draws repeat
them; there no endowment is in two splits. Rows are split by their draw, unless they name a split.
Texts and tasks share the library's licence.

Differences from the paper: (1) in each round everybody gives and everybody gets; there a half of
the seats give, the others get, and then the other way round. So six rounds here are twelve there.
That way the last to give are left with nothing where all give all, and seats that only get have
nothing to say. (2) Amounts are whole numbers. (3) A seat that names no amount loses a tenth. (4)
There are no generations and no strategies written beforehand: what seats remember is their chat.
(5) All give all: each has 2^rounds times as much, 640 of 10 after six. Where donors are drawn anew
in each round, as the paper tells its players, the mean grows by 1.5.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from functools import partial
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.societies.gift_experts import GiftExperts
from llm_marl_envs.envs.societies.gift_numbers import alone, at_random, most, optimum
from llm_marl_envs.envs.societies.gift_tasks import gift_task_of_row, gift_tasks
from llm_marl_envs.envs.societies.gift_texts import (
    LOST_OWN,
    SAY_ANYTHING,
    asks,
    brief,
    deed_line,
    gift_of,
)
from llm_marl_envs.envs.societies.gifts import Deed, Giving, Rules, meetings, spoilt
from llm_marl_envs.envs.societies.reputation import is_generous
from llm_marl_envs.envs.societies.rounds import TALK, SocietyEnv

GIVE = "give"
HALF = Fraction(1, 2)
"""Who keeps more of what it has over-uses what others give."""


class DonorOptions(TaskOptions):
    """The arguments of donor."""

    n_agents: int = Field(default=6, ge=2, le=12, description="seats; the paper has 12")
    turns: int = Field(
        default=6, ge=1, le=100, description="how many turns, of talk and of amounts together"
    )
    talk: int = Field(default=0, ge=0, le=20, description="turns of talk before each round")
    factor: int = Field(default=2, ge=2, le=5, description="units that come of one given")
    trace: Literal[1, 2, 3] = Field(
        default=2, description="how many deeds are shown of the one that a seat gives to"
    )
    punish: bool = Field(
        default=False, description="whether units can be spent to take twice as many"
    )
    end: float = Field(
        default=0.0, ge=0, le=0.9, description="the chance that a round is the last one"
    )
    tasks: Any = tasks_field("Rows have `endowment` and perhaps `draw`, whole numbers.")


class DonorEnv(SocietyEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or rows that are no tasks.
    """

    metadata: ClassVar[dict[str, Any]] = described("donor-v0")
    Options = DonorOptions

    def __init__(self, **arguments: Any) -> None:
        self.options = options = DonorOptions(**arguments)
        rounds = -(-options.turns // (options.talk + 1))
        tasks = partial(gift_tasks, seats=options.n_agents, rounds=rounds)
        super().__init__(
            phases=(*(TALK,) * options.talk, GIVE),
            max_turns=options.turns,
            agents=[f"giver_{i}" for i in range(options.n_agents)],
            source=options.opened(tasks, gift_task_of_row),
            render_mode=options.render_mode,
        )
        rules = self.rules(self.source[0])  # what pay is divided by grows with the endowment
        self.reward_range = (0.0, most(rules) / optimum(rules))

    # -- the game ---------------------------------------------------------------------------------
    def rules(self, task: Task) -> Rules:
        """The rules of a task."""
        options = self.options
        return Rules(
            seats=options.n_agents,
            rounds=self.schedule.rounds,
            endowment=task.data["endowment"],
            factor=options.factor,
            end=options.end,
            punish=options.punish,
        )

    def game(self, task: Task) -> Giving:
        """A task before its first round."""
        rules = self.rules(task)
        return Giving.begin(rules, meetings(task.data["draw"], rules.seats, rules.rounds))

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The rules, and what is asked first."""
        game = self.game(task)
        return "\n".join([brief(game.rules, agent), self._asks(game, agent, 1)])

    def asks(self, turn: int, agent: str) -> str:
        """What is wanted of a seat in a turn."""
        return self._asks(self._game, agent, turn)

    def _asks(self, game: Giving, agent: str, turn: int) -> str:
        number = game.number
        if self.schedule.phase(turn) == TALK:
            at, talk = self.schedule.talk(turn)
            return SAY_ANYTHING.format(number=number, rounds=game.rules.rounds, turn=at, talk=talk)
        seat = self.possible_agents.index(agent)
        shown = [
            self._told(who, deed, whom, number - 1 - back)
            for back, (who, deed, whom) in enumerate(game.shown(seat, self.options.trace))
        ]
        return asks(game, seat, self.possible_agents[game.other(seat)], shown)

    def _told(self, seat: int, deed: Deed, other: int, number: int) -> str:
        names = self.possible_agents
        return deed_line(names[seat], deed, names[other], number)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has done anything."""
        super().begin_episode()
        self._game = self.game(self.task)
        self._kept = False

    def act(self, turn: int, joint_action: Mapping[str, str]) -> Outcome:
        """Settle a round, and begin the next one."""
        game, rules = self._game, self._game.rules
        asked = [
            gift_of(text, had, rules.punish)
            for text, had in zip(joint_action.values(), game.wealth, strict=True)
        ]
        deeds = tuple(deed or spoilt(had) for deed, had in zip(asked, game.wealth, strict=True))
        kept = [not is_generous(deed.gave, deed.had, HALF) for deed in deeds]
        facts = {
            agent: {
                "readable": asked[seat] is not None,
                "had": deed.had,
                "gave": deed.gave,
                "spent": deed.spent,
                "share": deed.gave / deed.had if deed.had else 0.0,
                "over_use": kept[seat],
                "broke": kept[seat] and deserves(game, seat),
                "optimum": 1.0,
            }
            for seat, (agent, deed) in enumerate(zip(self.agents, deeds, strict=True))
        }
        self._game = after = game.after(deeds)
        self._kept |= any(kept)
        best = optimum(rules)
        paid = {
            agent: {name: units / best for name, units in terms(game, after, seat).items()}
            for seat, agent in enumerate(self.agents)
        }
        last = game.number == rules.rounds or (rules.end > 0 and self.chance.random() < rules.end)
        news = {} if last else {a: self._news(after, a, turn + 1) for a in self.agents}
        return Outcome(
            reward_terms=paid, facts=facts, feedback=news, ended=last, success=not self._kept
        )

    def _news(self, game: Giving, agent: str, turn: int) -> str:
        """What a seat is told after a round."""
        (deeds, to), number = game.past[0], game.number - 1
        seat = self.agents.index(agent)
        giver = to.index(seat)
        own = [LOST_OWN.format(lost=deeds[seat].lost)] if deeds[seat].lost else []
        done = self._told(giver, deeds[giver], seat, number)
        return "\n".join([*own, done, self._asks(game, agent, turn)])

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> GiftExperts:
        """Those who give, those who keep, and those who heed what others did."""
        return GiftExperts(self.rules, self.schedule.phase)

    def bounds(self, task: Task) -> Bounds:
        """Exact: amounts at random; one seat gives, the others do not; the social optimum."""
        rules = self.rules(task)
        best = optimum(rules)
        return Bounds(random=at_random(rules) / best, solo=alone(rules) / best, team=1.0)


def deserves(game: Giving, seat: int) -> bool:
    """Whether whom a seat is to give to gave a half or more in its last round, or had none."""
    shown = game.shown(seat, 1)
    return not shown or is_generous(shown[0][1].gave, shown[0][1].had, HALF)


def terms(before: Giving, after: Giving, seat: int) -> dict[str, int]:
    """What a round brings a seat, in units."""
    deeds, to = after.past[0]
    own, got = deeds[seat], before.rules.factor * deeds[to.index(seat)].gave
    left = before.wealth[seat] - own.cost + got
    units = {
        "spent": -own.spent,
        "punished": after.wealth[seat] - left,
        "lost": -own.lost,
        "endowment": before.wealth[seat] if before.number == 1 else 0,
    }
    return {"given": -own.gave, "got": got} | {name: n for name, n in units.items() if n}


parallel_env, env = module_forms(DonorEnv)
