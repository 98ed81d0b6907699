r"""# trust_split-v0: players talk, then each takes or leaves things, all at once.

## Description
A social dilemma with talk. Some things lie on the table. What they are worth to a player, that
player alone knows (as in Deal or No Deal, Lewis et al. 2017, arXiv 1706.05125). The players talk.
Then each says at once which things it takes, as in the show Golden Balls, where two players split
or steal (van den Assem, van Dolder and Thaler 2012):

- What one alone takes is its own.
- What nobody takes is shared alike.
- What several take is shared by them, and a half of it is lost.

It is best for all if each thing goes to whom it is worth most. To find out who that is they must
tell each other the truth. But each gains by taking everything, whatever the others do, and gains
more if the others believe it.

docs/environments/trust_split.md has the landscape, what can be gained from any plan, and what was
measured.

## An episode
Task `train/0`.

    player_0 is told   2 players divide: lamp, book, coat, drum. You are player_0.
                       To you they are worth: lamp 4, book 5, coat 1, drum 2. That is
                       12 together, as for everybody.
    player_1 is told   To you they are worth: lamp 2, book 3, coat 6, drum 1.

    player_0 says      lamp 4, book 5, coat 1, drum 2
    player_1 says      lamp 2, book 3, coat 6, drum 1
    player_0 hears     player_1 says:
                       > lamp 2, book 3, coat 6, drum 1
    player_0 says      I take lamp, book, drum.
    player_1 says      I take coat.
    player_0 says      lamp, book, drum
    player_1 says      coat
    player_0 earns     0.9167
    player_1 earns     0.5000

    player_1 says      lamp 2, book 3, coat 6, drum 1
    player_0 says      I take lamp, book, drum.
    player_1 says      I take coat.
    player_0 says      lamp, book, drum
    player_1 says      It is a game.
                       Action: lamp, book, coat, drum
    player_0 earns     0.2292
    player_1 earns     0.6250

In the second ending `player_1` breaks its word.

## Agents
`player_0` to `player_<n-1>`. They act at the same time, also when they talk.

## Observations
Chat messages, append-only: the things, what they are worth to the own seat, the rules. After each
turn of talk what the others said, each line behind `> `. With `info="full"` everybody is told all
values; then talk can only promise.

## Actions
In all turns but the last any text; what stands before `</think>` is not shown to others. In the
last turn exactly one line of the text is a choice: things alone, with commas or spaces between
them, or `nothing`; or so behind `Action:`. Case, and a full stop at its end, are ignored. Texts are
cut at 1024 characters.

## Rewards
| term | value |
|---|---|
| share | in the last turn: the worth of what the player got, divided by that of all things |

With `pay="team"` all are paid the sum of all shares. A text that is no choice takes nothing and
gets nothing of what is left. So it never pays more than `nothing` does, and leaves the others their
shares. Talk pays nothing: what is said in the end is paid once, and no turn can be stalled. The
range is 0 to 1, and 0 to n with `pay="team"`.

**Entries of `info`**, in the last turn

- `success`: the social optimum was reached.
- `readable`, `choice`: what this player took.
- `truthful`: its last claim in the experts' form was true. None: it made none.
- `kept_word`: it took no more than it announced last, in the experts' form. None: it announced
  nothing, or chose nothing.

`bounds(task)` is exact, the mean over players: each takes each thing with a chance of 1/2; one
player decides who knows all values while the others take nothing; the social optimum. It is refused
where `payoffs` pay more for what several take than for what nobody takes.
docs/environments/trust_split.md has what silence earns.

## Episode end
After `turns` turns. Never truncated.

## Arguments
`llm-marl spec trust_split` lists them.

## Experts
- `honest` tells what things are worth to it, announces what is worth most to it, believes all that
  it hears, and keeps its word. A team of it is what a team earns that believes everything: the
  optimum. Beside a liar it earns nothing.
- `wary` does the same, and takes everything if somebody made no claim, one that does not add up to
  what everybody has, or announced more than its claims give it.
- `equal` takes nothing. `taker` announces everything and takes it. `liar` says that everything is
  worth most to it. `breaker` tells the truth, promises its part and takes everything.

## Tasks and licence
A task draws four things and values: whole numbers of at least 1 that add up to 3 for each thing.
Which split it is in depends on the numbers alone, without their order and that of the players:
nothing that is asked in one split is asked in another. One player's own numbers occur in train, val
and test, beside others. `ood` has other words and numbers that add up to 5 for each thing: prompts
that nobody has read. Texts and tasks share the library's licence.

Beyond two players the rules are the same, all hear all, and all divide the same things.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import INFO, Info, Share, TaskOptions, tasks_field
from llm_marl_envs.core.rendering import Cell, table_svg
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.games.share_experts import ShareExperts
from llm_marl_envs.envs.games.share_tasks import share_task_of_row, share_tasks
from llm_marl_envs.envs.games.share_texts import (
    Choice,
    choice_text,
    claim_text,
    read_announcement,
    read_choice,
    read_claim,
)
from llm_marl_envs.envs.games.shares import Rules, landscape, pays

PAYS = ("own", "team")
DIVIDE = "{n} players divide: {things}. You are {agent}."
OWN = "To you they are worth: {values}. That is {total} together, as for everybody."
HIDDEN = "What they are worth to the others, the others alone know."
OTHERS = "To {other}: {values}."
TAKE = (
    "What one alone takes is its own. What nobody takes is shared alike{lost}. "
    "What several take is shared by them{quarrel}."
)
LOST = ", {gone:.0%} of it lost"
PAID = {"own": "Each is paid its own part.", "team": "All are paid the sum of all parts."}
TALK = "First you talk, {turns} times. Then all choose at once."
CHOOSE = "Answer with one line: the things that you take, or nothing."
NEXT = "Talk, {turn} of {turns}."


class TrustSplitOptions(TaskOptions):
    """The arguments of trust_split."""

    n_agents: int = Field(default=2, ge=2, le=16, description="players")
    turns: int = Field(
        default=3,
        ge=1,
        description="how many turns, the last of which is the choice; 1 is without talk",
    )
    pay: Literal["own", "team"] = Field(
        default="own", description="whose pay counts; train 'own' with credit='own'"
    )
    payoffs: Annotated[Sequence[Share], Field(min_length=2, max_length=2)] = Field(
        default=(1.0, 0.5),
        description="`left`, the part of a thing that all share alike where nobody takes it, and "
        "`contested`, the part that its takers share where several do",
    )
    info: Info = Field(default="split", description=INFO)
    tasks: Any = tasks_field(
        "'bundled:two_things' are 160 rows of two players. Rows have `values`, one map thing -> "
        "worth for each player, two things or more, whole numbers with one total."
    )


class TrustSplitEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or rows that are no tasks.
    """

    metadata: ClassVar[dict[str, Any]] = described("trust_split-v0")
    Options = TrustSplitOptions

    def __init__(self, **arguments: Any) -> None:
        options = TrustSplitOptions(**arguments)
        n_agents, self.pay, self.info_mode = options.n_agents, options.pay, options.info
        self.rules = Rules(*options.payoffs)
        super().__init__(
            agents=[f"player_{i}" for i in range(n_agents)],
            source=options.opened(
                lambda split: share_tasks(split, n_agents),
                lambda row: share_task_of_row(row, n_agents),
            ),
            max_turns=options.turns,
            render_mode=options.render_mode,
        )
        self.reward_range = (0.0, 1.0 if self.pay == "own" else float(n_agents))

    @property
    def talk(self) -> int:
        """Turns in which all talk; the last turn is the choice."""
        return self.max_turns - 1

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The things, what they are worth, and what is paid."""
        things, values = task.data["things"], task.data["values"]
        seats = self.possible_agents
        own = values[seats.index(agent)]
        lines = [
            DIVIDE.format(n=len(seats), things=", ".join(things), agent=agent),
            OWN.format(values=claim_text(own, things), total=sum(own)),
        ]
        if self.divided:
            lines.append(HIDDEN)
        else:
            lines += [
                OTHERS.format(other=other, values=claim_text(row, things))
                for other, row in zip(seats, values, strict=True)
                if other != agent
            ]
        parts = {"lost": self.rules.left, "quarrel": self.rules.contested}
        texts = {
            name: LOST.format(gone=1 - part) if part < 1 else "" for name, part in parts.items()
        }
        lines += [TAKE.format(**texts), PAID[self.pay]]
        return "\n".join([*lines, TALK.format(turns=self.talk) if self.talk else CHOOSE])

    def _news(self, agent: str, heard: Mapping[str, Mapping[str, str]]) -> str:
        """What the others said, and what is asked next."""
        turn = self._taken[agent]
        lines = [quoted(other, shown[agent]) for other, shown in heard.items() if other != agent]
        after = CHOOSE if turn == self.talk else NEXT.format(turn=turn + 1, turns=self.talk)
        return "\n".join([*lines, after])

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nothing was said or taken."""
        self._texts: dict[str, list[str]] = {agent: [] for agent in self.possible_agents}
        self._taken_things: dict[str, Choice | None] = {}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pass on what was said, or pay what was chosen."""
        if self._taken[self.agents[0]] <= self.talk:
            for agent, text in joint_action.items():
                self._texts[agent].append(text)
            heard = {
                agent: self.pass_on(agent, text, self.others(agent))
                for agent, text in joint_action.items()
            }
            news = {agent: self._news(agent, heard) for agent in self.agents}
            return Outcome(reward_terms={}, feedback=news)
        things, values = self.task.data["things"], self.task.data["values"]
        choices = {agent: read_choice(joint_action[agent], things) for agent in self.agents}
        self._taken_things = choices
        taken = [[thing in (choice or ()) for thing in things] for choice in choices.values()]
        paid = pays(values, taken, self.rules, [choice is None for choice in choices.values()])
        best = landscape(values, self.rules).best
        parts = dict(zip(self.agents, map(float, paid), strict=True))
        terms = {
            agent: {"share": part if self.pay == "own" else sum(parts.values())}
            for agent, part in parts.items()
        }
        return Outcome(
            reward_terms=terms,
            success=bool(paid.mean() > best - 1e-9),
            facts={agent: self._facts(agent, choices[agent]) for agent in self.agents},
        )

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """In turns of talk all hear all."""
        if not self.talk:
            return {}
        return {seat: dict.fromkeys(self.others(seat), self.talk) for seat in self.possible_agents}

    def _facts(self, agent: str, taken: Choice | None) -> dict[str, Any]:
        """Whether a player was understood, told the truth and kept its word."""
        things, texts = self.task.data["things"], self._texts[agent][::-1]
        own = self.task.data["values"][self.possible_agents.index(agent)]
        claims = (read_claim(text, things) for text in texts)
        claim = next((claim for claim in claims if claim is not None), None)
        meant = (read_announcement(text, things) for text in texts)
        announced = next((choice for choice in meant if choice is not None), None)
        meets = None if announced is None or taken is None else taken <= announced
        return {
            "readable": taken is not None,
            "choice": None if taken is None else choice_text(taken, things),
            "truthful": None if claim is None else claim == tuple(own),
            "kept_word": meets,
        }

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> ShareExperts:
        """Honest players, careful ones, and those who take."""
        return ShareExperts(self.possible_agents, self.talk, self.divided)

    def bounds(self, task: Task) -> Bounds:
        """Exact: choices at random; one player who knows all decides; the social optimum.

        Raises:
            ValueError: what several take is worth more than what nobody takes. Then others who
                take everything may leave more than others who take nothing, and what one player
                can make of that is not known.
        """
        if self.rules.left < self.rules.contested:
            raise ValueError(
                f"payoffs=[{self.rules.left:g}, {self.rules.contested:g}]: what one player alone "
                "can earn is known where the first number is at least the second"
            )
        returns = landscape(task.data["values"], self.rules)
        scale = 1 if self.pay == "own" else len(self.possible_agents)
        return Bounds(
            random=scale * returns.at_random, solo=scale * returns.alone, team=scale * returns.best
        )

    def picture(self) -> str:
        """What each thing is worth to each player; who took it has a coloured cell."""
        things = self.task.data["things"]
        rows = [[Cell(text, framed=False) for text in ("", *things)]]
        for agent, values in zip(self.possible_agents, self.task.data["values"], strict=True):
            taken = self._taken_things.get(agent) or ()
            cells = [
                Cell(str(value), TAKEN) if thing in taken else Cell(str(value))
                for thing, value in zip(things, values, strict=True)
            ]
            rows.append([Cell(agent, framed=False), *cells])
        return table_svg("shares", rows)


TAKEN = "#f5c26b"
"""Colour of a thing that a player took."""

parallel_env, env = module_forms(TrustSplitEnv)
