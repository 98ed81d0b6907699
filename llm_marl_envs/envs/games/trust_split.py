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

## The landscape
`games/shares.py` computes it, and a test compares it with all joint choices, counted. Pay is a
share of what all things are worth to a player. With n players:

| outcome | pay, mean over players | with two |
|---|---|---|
| all take everything: the only equilibrium where `contested` is above 0 | contested / n | 0.250 |
| nobody takes anything | left / n | 0.500 |
| one player takes everything and the others nothing, its own pay: the selfish optimum | 1 | 1.000 |
| each thing goes to whom it is worth most: the social optimum | by task | 0.679 |

To take a thing is worth more than to leave it whatever the others do, so talk changes nothing for
players who think of themselves alone. With `payoffs=[1, 0]`, as in the show, that holds only
weakly. Then every joint choice in which each thing is taken by somebody is an equilibrium, the
social optimum too.

What two players earn who follow plans, player by row, beside the plan in the column; the first
100 tasks of `test`, both seats:

| plan | honest | wary | equal | taker | liar | breaker |
|---|---|---|---|---|---|---|
| honest | 0.679 | 0.679 | 0.500 | 0.000 | 0.000 | 0.170 |
| wary | 0.679 | 0.679 | 1.000 | 0.250 | 0.250 | 0.170 |
| equal | 0.500 | 0.000 | 0.500 | 0.000 | 0.000 | 0.000 |
| taker | 1.000 | 0.250 | 1.000 | 0.250 | 0.250 | 0.250 |
| liar | 1.000 | 0.250 | 1.000 | 0.250 | 0.250 | 0.250 |
| breaker | 0.759 | 0.759 | 1.000 | 0.250 | 0.250 | 0.250 |

- `honest` tells what things are worth to it, announces what is worth most to it, believes all that
  it hears, and keeps its word. A team of it is what a team earns that believes everything: the
  optimum. Beside a liar it earns nothing.
- `wary` does the same, and takes everything if somebody made no claim, one that does not add up to
  what everybody has, or announced more than its claims give it.
- `equal` takes nothing. `taker` announces everything and takes it. `liar` says that everything is
  worth most to it. `breaker` tells the truth, promises its part and takes everything.

## Exploitability
How much a best response earns beyond what the plan earns beside itself. `best_response` tries every
claim, every announcement and every choice, so it is exact for plans. It is found as if the
responder knew the others' values; who does not gets no more. First 20 tasks of `test`, both seats:

| all others | earn together | best response earns | gains |
|---|---|---|---|
| honest | 0.694 | 1.000 | 0.306 |
| wary | 0.694 | 0.920 | 0.227 |
| equal | 0.500 | 1.000 | 0.500 |
| taker | 0.250 | 0.250 | 0.000 |
| liar | 0.250 | 0.250 | 0.000 |
| breaker | 0.250 | 0.250 | 0.000 |

    from llm_marl_envs import make
    from llm_marl_envs.envs.games.share_experts import best_response, meeting

    env = make("trust_split-v0", split="test").unwrapped
    task, rules = env.source[0], env.rules
    print(meeting(task, ("wary", "wary"), rules))
    print(best_response(task, 0, "wary", rules))

A trained team heeds other words than these. What it loses to scripted players:

    llm-marl eval trust_split-v0 --team runs/team --partner player_1=expert:breaker \
        --tasks 100 --output runs/eval

    from llm_marl_envs.core.records import read_jsonl

    episodes = list(read_jsonl("runs/eval/episodes.jsonl"))
    print(sum(one.undiscounted_return("player_0") for one in episodes) / len(episodes))

The table that `eval` prints holds the mean of both seats, the transcripts each seat's own pay.

What a team loses to one who learns to exploit it is measured by training one seat beside the saved
team, which does not learn (`llm-marl train --config responder.yaml`):

    model: Qwen/Qwen2.5-0.5B-Instruct
    env: trust_split-v0
    partners: {player_1: runs/team}
    trainer: {algorithm: magrpo, credit: own, output_dir: runs/responder}

`player_0`'s pay at the end, less what the team earns by itself, is a lower bound of the team's
exploitability in that seat. Exploitability is at least `1 - left / n` for a team that always shares
alike, and 0 for one that always takes all: low exploitability alone is no virtue here.

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
where `payoffs` pay more for what several take than for what nobody takes. Without any
talk, a rule such as "take what is worth 5 or more to you" earns 0.581 in `test` (5 is the best
such number), the lone player 0.588, and the optimum 0.677. Nothing on the own values alone is
better than such numbers (`wordless/division.py`). So there silence earns 0.86 of the optimum. With
four players and `payoffs=[0, 0]` it earns 0.59 of it: then every fixed division is as good, and
docs/bench.md plays that.

## Episode end
After `turns` turns. Never truncated.

## Arguments
`llm-marl spec trust_split` lists them.

## Tasks and licence
A task draws four things and values: whole numbers of at least 1 that add up to 3 for each thing.
Which split it is in depends on the numbers alone, without their order and that of the players:
nothing that is asked in one split is asked in another. One player's own numbers occur in train, val
and test, beside others. `ood` has other words and numbers that add up to 5 for each thing: prompts
that nobody has read. Texts and tasks share the library's licence.

Beyond two players the rules are the same, all hear all, and all divide the same things.

## Attacks
Teams of one text, the first 100 tasks of each split, mean over players:

| text | train | val | test | ood |
|---|---|---|---|---|
| silence, stalling, a sentence, two choices, shouting, an echo | 0.000 | 0.000 | 0.000 | 0.000 |
| all things | 0.250 | 0.250 | 0.250 | 0.250 |
| the first thing | 0.438 | 0.440 | 0.437 | 0.436 |
| `nothing` | 0.500 | 0.500 | 0.500 | 0.500 |
| `expert:honest` | 0.672 | 0.666 | 0.679 | 0.699 |

Beside any partner, no text earns more than the best of the 16 choices.

## What it is for, what it does not show
- Whether training with own pay ends in defection, whether talk stays true, and whether a team that
  cooperates can be exploited.
- It is played once by strangers. Nobody can be punished afterwards, so cooperation of selfish
  learners is not to be expected. `matrix_game-v1` has the dilemma repeated.
- **Not comparable with published numbers**: rules, values and prompts are this library's own. In
  Deal or No Deal there are several of each thing, and demands that collide pay nobody anything.

## What the embedded tiny model learns here
Preset `trust_split_tiny`: a lamp and a book (`tasks="bundled:two_things"`), one turn of talk, each
is told that it is paid its own part, and trained for what both get (`credit: team`). Five fresh
seeds: the return was 0.40 to 0.43 before training and 0.58 to 0.64 after. With shuffled rewards it
ended at 0.29 to 0.46. The lone player earns 0.574, the best pair of rules without talk 0.577, the
optimum 0.649. It can be exploited: a responder that learns beside the trained `player_1` takes 0.94
to 1.00. See [the measurement](../tiny_presets.md).

With four things (`turns=1, pay="team"`, a warm start of 400 steps on 3000 demonstrations, seed 0)
0.44 of the texts were choices before training and 0.70 after. With three things of changing names,
one turn of talk and 600 steps it was 0.3 before training: the model does not copy names that
change.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.actions import MAX_ACTION_CHARS
from llm_marl_envs.core.environment import (
    Bounds,
    Outcome,
    TextParallelEnv,
    aec_form,
    described,
    parallel_form,
)
from llm_marl_envs.core.options import INFO, Info, Share, TaskOptions, tasks_field
from llm_marl_envs.core.rendering import Cell, table_svg
from llm_marl_envs.core.spaces import Message, Observation
from llm_marl_envs.core.tasks import Task, open_tasks
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

    def __init__(self, **given: Any) -> None:
        options = TrustSplitOptions(**given)
        n_agents, self.pay, self.divided = options.n_agents, options.pay, options.info == "split"
        self.rules = Rules(*options.payoffs)
        super().__init__(
            agents=[f"player_{i}" for i in range(n_agents)],
            source=open_tasks(
                options.tasks,
                split=options.split,
                procedural=lambda one: share_tasks(one, n_agents),
                from_row=lambda row: share_task_of_row(row, n_agents),
            ),
            max_turns=options.turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        self.reward_range = (0.0, 1.0 if self.pay == "own" else float(n_agents))
        self._said: dict[str, list[str]] = {}
        self._taken_things: dict[str, Choice | None] = {}

    @property
    def talk(self) -> int:
        """Turns in which all talk; the last turn is the choice."""
        return self.max_turns - 1

    # -- texts ------------------------------------------------------------------------------------
    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message per player."""
        return {
            agent: (Message("user", self._rules(task, agent)),) for agent in self.possible_agents
        }

    def _rules(self, task: Task, agent: str) -> str:
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
        told = {
            name: LOST.format(gone=1 - part) if part < 1 else "" for name, part in parts.items()
        }
        lines += [TAKE.format(**told), PAID[self.pay]]
        return "\n".join([*lines, TALK.format(turns=self.talk) if self.talk else CHOOSE])

    def _news(self, agent: str, heard: Mapping[str, Mapping[str, str]]) -> str:
        """What the others said, and what is asked next."""
        turn = self._taken[agent]
        lines = [quoted(one, shown[agent]) for one, shown in heard.items() if one != agent]
        after = CHOOSE if turn == self.talk else NEXT.format(turn=turn + 1, turns=self.talk)
        return "\n".join([*lines, after])

    # -- the episode ------------------------------------------------------------------------------
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """As `TextParallelEnv.reset`."""
        self._said = {agent: [] for agent in self.possible_agents}
        self._taken_things = {}
        return super().reset(seed=seed, options=options)

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Pass on what was said, or pay what was chosen."""
        if self._taken[self.agents[0]] <= self.talk:
            for agent, text in joint_action.items():
                self._said[agent].append(text)
            heard = {
                agent: self.pass_on(agent, text, self._others(agent))
                for agent, text in joint_action.items()
            }
            news = {agent: self._news(agent, heard) for agent in self.agents}
            return Outcome(reward_terms={}, feedback=news)
        things, values = self.task.data["things"], self.task.data["values"]
        found = {agent: read_choice(joint_action[agent], things) for agent in self.agents}
        self._taken_things = found
        taken = [[thing in (one or ()) for thing in things] for one in found.values()]
        paid = pays(values, taken, self.rules, [one is None for one in found.values()])
        best = landscape(values, self.rules).best
        parts = dict(zip(self.agents, map(float, paid), strict=True))
        terms = {
            agent: {"share": part if self.pay == "own" else sum(parts.values())}
            for agent, part in parts.items()
        }
        return Outcome(
            reward_terms=terms,
            success=bool(paid.mean() > best - 1e-9),
            facts={agent: self._facts(agent, found[agent]) for agent in self.agents},
        )

    def _others(self, agent: str) -> list[str]:
        return [other for other in self.possible_agents if other != agent]

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """In turns of talk all hear all."""
        if not self.talk:
            return {}
        return {seat: dict.fromkeys(self._others(seat), self.talk) for seat in self.possible_agents}

    def _facts(self, agent: str, taken: Choice | None) -> dict[str, Any]:
        """Whether a player was understood, told the truth and kept its word."""
        things, said = self.task.data["things"], self._said[agent][::-1]
        own = self.task.data["values"][self.possible_agents.index(agent)]
        claims = (read_claim(text, things) for text in said)
        claim = next((one for one in claims if one is not None), None)
        meant = (read_announcement(text, things) for text in said)
        announced = next((one for one in meant if one is not None), None)
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
        known = landscape(task.data["values"], self.rules)
        scale = 1 if self.pay == "own" else len(self.possible_agents)
        return Bounds(
            random=scale * known.at_random, solo=scale * known.alone, team=scale * known.best
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

parallel_env = partial(parallel_form, TrustSplitEnv)
env = partial(aec_form, TrustSplitEnv)
