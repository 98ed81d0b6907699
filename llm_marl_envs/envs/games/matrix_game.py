"""# matrix_game-v1: two players choose a word at once; a table says what each is paid.

## Description
A test bed: small enough that everything about it is known, so that it tells algorithms apart. Each
of two players says one word. A table says what the two words pay. `game` names the table:

- `climbing` and `penalty` (Claus and Boutilier 1998): both are paid the same. The best joint action
  lies beside the worst ones.
- `risky`: a bet pays 14 or -10, its mean is 2. Something safe pays 5. Who looks at the best of
  several samples bets.
- `stag_hunt`: the stag pays both most, and only if both hunt it.
- `prisoners_dilemma`: each gains by defecting, whatever the other does. With `turns` above 1 it is
  played repeatedly.

A table of your own is a game, too: `game=[[1, 0], [0, 2]]`. docs/environments/matrix_game.md says
where learners end, and what the games are for.

## An episode
Task `train/0` is climbing with its actions a, b, c called red, green, blue for both.

    player_0 is told   Two players choose at once. Answer with one line, one of
                       these words: red, green, blue.
                       Both are paid the same.
                       You choose red: 11 if red, -30 if green, 0 if blue.
                       You choose green: -30 if red, 7 if green, 6 if blue.
                       You choose blue: 0 if red, 0 if green, 5 if blue.
    player_1 is told   You choose green: -30 if red, 7 if green, 0 if blue.

    player_0 says      green
    player_1 says      blue
    both earn          6.0

    player_0 says      Red would be best with a red partner.
                       Action: red
    player_1 says      red
    both earn          11.0

    player_0 says      I choose red.
    player_1 says      red
    both earn          -30.0

The last text names a word and takes no action.

## Agents
`player_0` and `player_1`. They act at the same time. Scripted partners for the repeated dilemma:
`expert:defect`, `expert:tit_for_tat` and `expert:grim`.

## Observations
One user message: the words and, unless `told=False`, the table as this seat sees it. After each of
several turns, a line says what both chose and were paid. After a talk turn each reads the other's
text, behind `> `.

## Actions
A text takes an action if exactly one of its lines is one: a word of the table alone, or behind
`Action:`. Case and spaces around it are ignored. Other lines may say anything, and what stands
before `</think>` is not read. A word in prose is no action, and neither are two. In talk turns any
text will do. Text beyond 1024 characters is cut.

## Rewards
| term | value |
|---|---|
| payoff | what the table pays for the joint action, at each turn |

A text that takes no action earns the smallest number that its seat has in the table, so a mean of
such texts looks like no play: 0 in the dilemma, where defection earns 1. Where both are always paid
the same, both earn it. Else the partner is paid as if the text had been the word that pays its
author least. So no text earns more than a word, and among opposed seats no text harms the partner
more than a word. Talk pays nothing. The range is `turns` times the smallest and the largest number
of the tasks' tables.

**Entries of `info`**

- `success`: every joint action so far is one with the largest expected sum. In the dilemma: both
  cooperated.
- `readable`: the text took an action. `choice`: which, by its name in the game, or None.

`bounds(task)` is exact, the mean of both seats: words at random, the best answer to a partner who
chooses at random, and the best joint action.

## Episode end
After `talk` + `turns` turns. Never truncated.

## Arguments
`llm-marl spec matrix_game` lists them.

`scales=[0.03, 0.3, 3, 30]` gives four tables over three orders of magnitude, to be learned by one
model under one clip norm; `[[1, 100]]` gives one table and seats with scales of their own;
`[1, 1, 1]` three tables.

## Tasks and licence
`train/0` is the game itself. In every other task the words are dealt anew to each seat's actions,
so no word is right in all. In `val` all payoffs are also multiplied by 0.7 or 1.4, in `test` by 0.6
or 1.7, in `ood` by 0.3 or 2.9. So no table is in two splits as long as your own scales differ by
other factors, such as powers of ten. Settings are chosen on `val`, by learning its tables anew;
what is measured is learned in `train`. The texts share the library's licence.

Both seats are told the whole table (`info="split"` does not exist here). What is hard is that two
learners move at once. Divided facts would change the landscape, which is the purpose of this
environment. The other environments divide what must be known.

The bets are drawn from the reset seed. The episodes of a group share it, and so their coins, unless
a run says `chance: episode`. With a shared coin an algorithm that looks at the best of several
episodes is not misled in `risky`; with a coin of each episode's own it is.

## Version history
- v1: a text that takes no action earns the least of the table. In v0 it counted as the author's
  worst word, so a dilemma of unreadable texts paid what defection pays. Words are paid as before:
  bounds, equilibria and gradients, and what teams that say words earned, stand.
- v0: first version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from pydantic import Field

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import EXPECTED, TaskOptions, tasks_field
from llm_marl_envs.core.parsing import quote
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.envs.games.experts import GameExperts
from llm_marl_envs.envs.games.instances import WORDS, instances, task_of_row
from llm_marl_envs.envs.games.matrix_rules import (
    DILEMMA,
    GAMES,
    Cell,
    MatrixGame,
    best_joint_actions,
    paid,
    read_game,
)
from llm_marl_envs.envs.games.scales import Scales, scales_field, task_scales

SEATS = ("player_0", "player_1")
STRATEGIES = ("tit_for_tat", "grim")
"""Plans of experts in a repeated dilemma, beside the actions."""
LAST = re.compile(r"the other chose (\w+)")

ASK = "Two players choose at once. Answer with one line, one of these words: {words}."
TALK = "First both say something, which the other reads. Anything is allowed."
AGAIN = "{turns} times."
PAYS = "You choose {own}: {cells}."
HEARD = "The other says:\n{text}\nNow choose."
TOLD = "You chose {own}, the other chose {other}: {pay}."
NOTHING = "none of the words"
NEXT = "Choose again."


class MatrixGameOptions(TaskOptions):
    """The arguments of matrix_game."""

    game: str | Sequence[Sequence[Any]] = Field(
        default="climbing",
        description="a name above, or a table: 2 to 8 rows of 2 to 8 cells. A cell is a number for "
        "both, a pair (player_0, player_1), or {'either': [cell, ...]}, equally likely",
        json_schema_extra={EXPECTED: f"a table, or one of {tuple(GAMES)}"},
    )
    tasks: Any = tasks_field("Rows have `payoffs`, a table.")
    scales: Scales = scales_field()
    turns: int = Field(default=1, ge=1, description="how often the game is played")
    talk: int = Field(default=0, ge=0, description="turns before it in which both say something")
    told: bool = Field(
        default=True,
        description="whether the table is shown; a model that can read it need not learn",
    )


class MatrixGameEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, an unknown game, or more scales than different tables.
        TypeError: scales that are no numbers, or tasks that are no rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("matrix_game-v1")
    Options = MatrixGameOptions

    def __init__(self, **arguments: Any) -> None:
        options = MatrixGameOptions(**arguments)
        self.talk, self.told, turns = options.talk, options.told, options.turns
        super().__init__(
            agents=SEATS,
            source=game_tasks(options),
            max_turns=self.talk + turns,
            render_mode=options.render_mode,
        )
        sums = [pay for task in self.source for pair in task.data["game"].outcomes for pay in pair]
        self.reward_range = (turns * min(sums), turns * max(sums))

    @property
    def turns(self) -> int:
        """How often the game is played."""
        return self.max_turns - self.talk

    def experts(self) -> MatrixExperts:
        """Players who follow a plan."""
        return MatrixExperts(self.talk, self.turns)

    def bounds(self, task: Task) -> Bounds:
        """Exact: words at random; the best answer to a partner who guesses; the best joint action.

        The mean over both seats, as a team's return is. Whatever is said beforehand changes none.
        """
        team = task.data["game"].expected.mean(0) * self.turns
        solo = max(team.mean(0).max(), team.mean(1).max())
        return Bounds(random=float(team.mean()), solo=float(solo), team=float(team.max()))

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """No joint action was worse than the best."""
        self._best = True

    def brief(self, task: Task, agent: str) -> str:
        """What the words are, and what they pay."""
        seat = SEATS.index(agent)
        game: MatrixGame = task.data["game"]
        own, other = (words_of(task, side) for side in (seat, 1 - seat))
        lines = [ASK.format(words=", ".join(own))]
        if self.turns > 1:
            lines[0] += f" {AGAIN.format(turns=self.turns)}"
        lines += [TALK] if self.talk else []
        if not self.told:
            return "\n".join([*lines, f"What they pay is not told. Game {task.id}."])
        lines.append("Both are paid the same." if game.common else "Paid to you (to the other):")
        for word, action in zip(own, task.data["orders"][seat], strict=True):
            row = [
                f"{shown(cell_of(game, seat, action, answer), seat, game.common)} if {reply}"
                for reply, answer in zip(other, task.data["orders"][1 - seat], strict=True)
            ]
            lines.append(PAYS.format(own=word, cells=", ".join(row)))
        return "\n".join(lines)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pass on what was said, or pay what was chosen."""
        turn = self._taken[SEATS[0]]
        if turn <= self.talk:
            last = turn == self.talk
            return Outcome(
                reward_terms={},
                feedback={
                    agent: HEARD.format(text=quote(text)).removesuffix(
                        "" if last else "\nNow choose."
                    )
                    for speaker, other in zip(SEATS, reversed(SEATS), strict=True)
                    for agent, text in self.pass_on(speaker, joint_action[speaker], [other]).items()
                },
            )
        chosen = [
            choice_of(self.task, seat, joint_action[agent]) for seat, agent in enumerate(SEATS)
        ]
        game: MatrixGame = self.task.data["game"]
        pay = paid(game, chosen, self.chance.randrange)
        self._best &= tuple(chosen) in best_joint_actions(game)
        return Outcome(
            reward_terms={agent: {"payoff": pay[seat]} for seat, agent in enumerate(SEATS)},
            feedback={} if turn == self.max_turns else self._news(chosen, pay),
            success=self._best,
            facts={agent: self._facts(seat, chosen) for seat, agent in enumerate(SEATS)},
        )

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """In turns of talk both hear each other."""
        first, second = SEATS
        return {first: {second: self.talk}, second: {first: self.talk}} if self.talk else {}

    def _facts(self, seat: int, chosen: Sequence[int | None]) -> dict[str, Any]:
        own = chosen[seat]
        name = None if own is None else self.task.data["game"].actions[seat][own]
        return {"readable": own is not None, "choice": name}

    def _news(self, chosen: Sequence[int | None], pay: tuple[float, float]) -> dict[str, str]:
        words = [
            NOTHING
            if action is None
            else words_of(self.task, seat)[self.task.data["orders"][seat].index(action)]
            for seat, action in enumerate(chosen)
        ]
        common = self.task.data["game"].common
        news = {}
        for seat, agent in enumerate(SEATS):
            paid = shown((pay,), seat, common)
            report = TOLD.format(own=words[seat], other=words[1 - seat], pay=paid)
            news[agent] = f"{report} {NEXT}"
        return news


class MatrixExperts(GameExperts):
    """Players who follow a plan: always one action; in a repeated dilemma also a strategy.

    Args:
        talk: turns in which they say what they will choose.
        turns: in which they choose.
    """

    def __init__(self, talk: int, turns: int) -> None:
        self.talk, self.turns = talk, turns

    def legal(self, task: Task, agent: str) -> Sequence[str]:
        """The words of a seat."""
        return words_of(task, SEATS.index(agent))

    def conventions(self, task: Task) -> tuple[str, ...]:
        """The names of the actions that both seats have, then strategies."""
        first, second = task.data["game"].actions
        strategies = STRATEGIES if first == DILEMMA and self.turns > 1 else ()
        return tuple(name for name in first if name in second) + strategies

    def reply(self, task: Task, agent: str, convention: str, messages: Sequence[Message]) -> str:
        """The word of the plan; while there is talk, the word that comes first in it."""
        if convention not in self.conventions(task):
            raise ValueError(f"plan {convention!r}: expected one of {self.conventions(task)}")
        seat = SEATS.index(agent)
        if convention in STRATEGIES:
            convention = self._answer(task, seat, convention, messages)
        action = task.data["game"].actions[seat].index(convention)
        return words_of(task, seat)[task.data["orders"][seat].index(action)]

    def _answer(self, task: Task, seat: int, strategy: str, messages: Sequence[Message]) -> str:
        """What a strategy chooses: cooperate, until the other (grim: ever, else last) defected."""
        heard = [m.content for m in messages if m.role == "user"][1 + self.talk :]
        seen = [
            match and choice_of(task, 1 - seat, match[1])
            for match in (LAST.search(text) for text in heard)
        ]
        looked_at = seen if strategy == "grim" else seen[-1:]
        cooperation = DILEMMA.index("cooperate")
        return "cooperate" if all(choice == cooperation for choice in looked_at) else "defect"

    def read(self, task: Task, agent: str, action: str) -> str | None:
        """The action that a text takes or announces, by name."""
        seat = SEATS.index(agent)
        chosen = choice_of(task, seat, action)
        name = None if chosen is None else task.data["game"].actions[seat][chosen]
        return name if name in self.conventions(task) else None


def game_tasks(options: MatrixGameOptions) -> TaskSource:
    """The tasks that the arguments of the environment name; errors as of the environment."""
    game = options.game
    if isinstance(game, str):
        refuse_other("game", game, tuple(GAMES))
    matrix_game = GAMES[game] if isinstance(game, str) else read_game(game)
    of_tasks = task_scales(options.scales, len(SEATS))
    return options.opened(lambda split: instances(matrix_game, split, of_tasks), task_of_row)


def words_of(task: Task, seat: int) -> tuple[str, ...]:
    """What a seat's actions are called in texts."""
    return WORDS[: task.data["game"].shape[seat]]


def choice_of(task: Task, seat: int, text: str) -> int | None:
    """The action, by its number in the game, that a text takes; None for none."""
    words = words_of(task, seat)
    word = read_action(text, words)
    return None if word is None else task.data["orders"][seat][words.index(word)]


def cell_of(game: MatrixGame, seat: int, own: int, other: int) -> Cell:
    """The outcomes of a seat's own action and the other's."""
    return game.cells[own][other] if seat == 0 else game.cells[other][own]


def shown(cell: Cell, seat: int, common: bool) -> str:
    """Outcomes as a seat reads them: its own pay, and the other's where it differs."""
    texts = [
        f"{pair[seat]:g}" if common else f"{pair[seat]:g} ({pair[1 - seat]:g})" for pair in cell
    ]
    return " or ".join(texts) + (", each as likely," if len(texts) > 1 else "")


parallel_env, env = module_forms(MatrixGameEnv)
