"""# referential-v0: a speaker names an object in a few tokens; a listener must find it.

## Description
A signalling game (Lewis 1969) with objects to choose from (Lazaridou et al., arXiv 1612.07182).
Both seats see the same objects, each in an order of its own. The speaker alone knows which is
meant. By default it can say a few tokens only, and they have no meaning. So the two must agree on
one: which token stands for which word, which comes first, or anything else.
docs/environments/referential.md has what is known, what attacks earn and what was learned.

## An episode
Task `train/11`.

    speaker_0 is told    Objects: flat blue cross, flat blue circle, small blue star,
                         tall green circle.
                         The target: tall green circle.
                         It is hidden from listener_0, who must name it; ...
                         Answer with one line: at most 3 of the tokens ba, di, ku, mo.
    listener_0 is told   Objects: tall green circle, small blue star, flat blue circle,
                         flat blue cross.
                         speaker_0 alone knows the target and tells you.
                         Answer with one line: the target.
                         It can say at most 3 of the tokens ba, di, ku, mo.

    speaker_0 says       mo ku ba
    listener_0 hears     speaker_0 says:
                         > mo ku ba
    listener_0 says      flat blue cross
    both earn            0.0

    listener_0 says      tall green circle
    both earn            1.0

The speaker has a token for each word: `mo` for tall, `ku` for green, `ba` for circle. The listener
of the first attempt knows the same tokens and reads them from the end. What it read is none of the
objects, so it took the one whose name it would spell most alike.

## Agents
`speaker_0`, then `listener_0` (AEC). With `seats=[2, 3]` there are `speaker_0`, `speaker_1`,
`listener_0`, `listener_1` and `listener_2`. Each listener hears one speaker: listener 0 hears
speaker 0, listener 1 speaker 1, listener 2 speaker 0 again.

## Observations
Chat messages, append-only. A speaker is told the objects and the target, a listener the objects and
then the message. The order of the objects follows from the objects and the seat, not from which is
meant, and orders of two seats have nothing to do with each other. So "the second" says nothing.

There is no argument `info`: what is divided is the target, and a listener who knew it would need
nobody. `state()`, which a critic may read and no seat, holds all chats, and so the target.

## Actions
**A message.** In the languages `tokens` and `renamed` it is the one line of the text that holds
tokens alone, perhaps behind `Message:`. Of a text with no such line, or with several, nothing is
heard. Case, spaces and all other lines are not heard either. Tokens beyond `budget` are cut. In
`words` any text is a message; its lines are joined, and characters beyond `budget` are cut.

**A choice.** Exactly one line of the text is one of the objects, as it is written in the list,
alone or behind `Action:`. Any other text is a wrong choice.

**Other names (`renamed`).** Every seat has its own names for the tokens, drawn anew for each
episode from its reset seed. What the speaker writes as `ku ba` the listener may read as `mo di`. So
no agreement on names is worth anything, as in other-play (Hu et al., arXiv 2003.02979), which pays
a policy beside partners who are renamed by symmetries of the game. Tokens alone are renamed, not
the words of objects. What survives is what no renaming changes: how many tokens there are, and
which of them are the same. Nothing, `ba`, `ba ba` and `ba di` are four messages; `ba di` and
`ku mo` are one. The episodes of a group share the reset seed, and so the names, unless a run says
`chance: episode`.

## Rewards
A speaker and its listeners get the same, when all have chosen.

| term | value |
|---|---|
| right | the share of the speaker's listeners who named the target |
| cut | -0.1 if its message was longer than the budget |

The range is -0.1 to 1. With several speakers each team is paid for itself: train with
`credit: own`.

**Entries of `info`**

- `success`: every listener is right.
- Of a speaker: `message`, what counts of its text, cut to the budget, in its own names;
  `readable`; `cut`; `convention`, the experts' code that it follows.
- Of a listener: `heard`, what it was shown of that, in its own names; `answer`, the object that it
  chose, or None; `readable`; `right`. Without a channel (docs/howto/channel.md) and without other
  names, `heard` is the speaker's `message`.

## Episode end
When the last listener has chosen. Never truncated. There is one message: nobody can ask back.

## Arguments
`llm-marl spec referential` lists them.

## Experts
Each follows one code. `big red star` is spelled `di ba ku` by `values`, a token for each word; `ku
di mo` by `other_values`; `ku ba di` by `backward`; and `ku ku ku` by `holistic`, a list of messages
of which no part has a meaning. `rank` and `rank_back` name the place among the objects in the order
of the alphabet, so they also go with objects that were never met; they alone go with `renamed`. In
`words` there is `description`, too.

## Tasks and licence
A split has objects of its own, in every place: of the 64 combinations of three attributes 32 are
shown in `train`, 16 in `val` and 16 in `test`. So a listener cannot find the target of a test by
what it never met. Each word occurs in `train`, and only the combinations are new. A code for words
goes over to them, a list of messages does not. `ood` has other words and other sentences: prompts
that neither seat has read. A code that was learned for words says nothing there; ranks do, and in
`words` objects can be described. Texts and tasks were made for this library and share its licence.

**Not comparable with published numbers.** Those hold for their authors' objects, often pictures,
their networks and their training. Here the objects are words, and the listener reads them.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.actions import read_action
from llm_marl_envs.core.checks import check_whole
from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, described
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.rendering import Cell, table_svg
from llm_marl_envs.core.tasks import SPLITS, Task
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.signals.experts import SPEAKER, SignalExperts
from llm_marl_envs.envs.signals.messages import (
    RENAMED,
    TOKENS,
    WORDS,
    Heard,
    best,
    hear,
    renamed,
    spelled,
    told_apart,
)
from llm_marl_envs.envs.signals.objects import (
    ATTRIBUTES,
    MAX_CANDIDATES,
    combinations,
    object_task_of_row,
    object_tasks,
    ordered,
)
from llm_marl_envs.envs.signals.objects import described as in_words

LISTENER = "listener"
MAX_SEATS = 16
MAX_BUDGET = {WORDS: 200}
MOST_TOKENS = 8
CHARGE = -0.1
"""What a message that is cut costs."""

KNOWN = {False: "Objects: {objects}.", True: "In the room: {objects}."}
TARGET = {False: "The target: {target}.", True: "Point at this one: {target}."}
HIDDEN = {
    False: "It is hidden from {listeners}, who must name it; the objects stand in another order "
    "there.",
    True: "From another side of the room {listeners} must say which one is meant.",
}
ASKED = {
    False: "{speaker} alone knows the target and {tells}. Answer with one line: the target.",
    True: "{speaker} alone knows which one is meant and {tells}. Answer with one line: that one.",
}
TELLS = {False: "cannot tell you", True: "tells you"}
"""Whether the budget leaves a speaker anything to say."""
SAY_NOTHING = "You can say nothing. Answer with an empty text."
HEAR_NOTHING = "It can say nothing: what you hear is empty."
SAY_TOKENS = "Answer with one line: at most {budget} of the tokens {tokens}."
SAY_WORDS = "Answer with at most {budget} characters."
HEAR_TOKENS = "It can say at most {budget} of the tokens {tokens}."
HEAR_WORDS = "It can say at most {budget} characters."
RIGHT, WRONG = "#cfe8cf", "#f3c9c9"
"""Colours of a picture."""
OTHER_NAMES = "Tokens have other names for each seat, drawn anew each time."


Seats = Annotated[int, Field(ge=1)]


class ReferentialOptions(TaskOptions):
    """The arguments of referential."""

    candidates: int = Field(
        default=4,
        ge=2,
        le=MAX_CANDIDATES,
        description="objects to choose from; with attributes=2 at most 4",
    )
    attributes: int = Field(
        default=3,
        ge=2,
        le=len(ATTRIBUTES),
        description="words of an object: colour and shape, also size, also pattern; four values "
        "each",
    )
    language: Literal["tokens", "renamed", "words"] = Field(
        default="tokens", description="what messages are made of, see Actions"
    )
    budget: int = Field(
        default=3,
        ge=0,
        description="most tokens of a message, up to 8; in 'words' most characters, up to 200. "
        "With 0 nothing can be said, and all are told so",
    )
    seats: Annotated[Sequence[Seats], Field(min_length=2, max_length=2)] = Field(
        default=(1, 1),
        description="how many speakers and listeners, at least as many listeners, 2 to 16 together",
    )
    tasks: Any = tasks_field(
        "Rows have `candidates`, a list of texts of as many lower-case words each, and `target`, "
        "one of them."
    )


class ReferentialEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or more candidates than a split has objects.
        TypeError: tasks that are no rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("referential-v0")
    Options = ReferentialOptions
    reward_range = (CHARGE, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = ReferentialOptions(**arguments)
        attributes, candidates = options.attributes, options.candidates
        self.language, self.budget = options.language, options.budget
        check_whole("budget", self.budget, 0, MAX_BUDGET.get(self.language, MOST_TOKENS))
        if options.split in SPLITS and options.tasks is None:
            most = min(len(combinations(split, attributes)) for split in SPLITS)
            if candidates > most:
                raise ValueError(
                    f"candidates={candidates}: a split of objects with {attributes} attributes may "
                    f"have no more than {most}; use fewer candidates or more attributes"
                )
        speakers, listeners = options.seats
        if listeners < speakers or speakers + listeners > MAX_SEATS:
            raise ValueError(
                f"seats={[speakers, listeners]}: expected as many listeners as speakers or more, "
                f"at most {MAX_SEATS} seats together"
            )
        self.speakers = [f"{SPEAKER}_{seat}" for seat in range(speakers)]
        self.listeners = [f"{LISTENER}_{seat}" for seat in range(listeners)]
        super().__init__(
            agents=[*self.speakers, *self.listeners],
            source=options.opened(
                lambda split: object_tasks(split, attributes, candidates), object_task_of_row
            ),
            max_turns=1,
            render_mode=options.render_mode,
        )
        if self.language == RENAMED:  # a text of its own for each listener
            self.texts_per_turn = max(len(self.hear_me(speaker)) for speaker in self.speakers)

    def heard_by(self, listener: str) -> str:
        """The speaker whom a listener hears."""
        return self.speakers[self.listeners.index(listener) % len(self.speakers)]

    def hear_me(self, speaker: str) -> list[str]:
        """The listeners who hear a speaker."""
        return [listener for listener in self.listeners if self.heard_by(listener) == speaker]

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The objects in the seat's order, who hears whom, and what can be said."""
        new = task.split == "ood"
        form = {"budget": self.budget, "tokens": ", ".join(TOKENS)}
        say, hearing = SAY_NOTHING, HEAR_NOTHING
        if self.budget:
            words = self.language == WORDS
            say, hearing = (SAY_WORDS, HEAR_WORDS) if words else (SAY_TOKENS, HEAR_TOKENS)
        objects = ", ".join(map(in_words, ordered(task, agent)))
        lines = [f"You are {agent}.", KNOWN[new].format(objects=objects)]
        if agent in self.speakers:
            listeners = " and ".join(self.hear_me(agent))
            lines += [
                TARGET[new].format(target=in_words(task.data["target"])),
                HIDDEN[new].format(listeners=listeners),
                say.format(**form),
            ]
        else:
            lines += [
                ASKED[new].format(speaker=self.heard_by(agent), tells=TELLS[self.budget > 0]),
                hearing.format(**form),
            ]
        renamed = self.language == RENAMED and self.budget > 0
        return "\n".join([*lines, OTHER_NAMES] if renamed else lines)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has spoken; each seat is dealt its names of the tokens."""
        self._heard: dict[str, Heard] = {}  # speaker -> what counts of its text
        self._arrived: dict[str, str] = {}  # listener -> what it was shown of that
        self._codes: dict[str, str | None] = {}
        self._chosen: dict[str, str | None] = {}
        names = range(len(TOKENS))
        self._names = {seat: self.chance.sample(names, len(names)) for seat in self.possible_agents}

    def play_one(self, agent: str, action: str) -> Outcome:
        """A message is passed on; the last choice is paid, for all."""
        if agent in self.speakers:
            heard = self._heard[agent] = hear(action, self.language, self.budget)
            self._codes[agent] = self.experts().read(self.task, agent, action)
            arrived = self._arriving(agent, heard)
            self._arrived |= arrived
            feedback = {listener: quoted(agent, text) for listener, text in arrived.items()}
            return Outcome(reward_terms={}, feedback=feedback, facts=self._facts())
        legal = list(map(in_words, self.task.data["candidates"]))
        self._chosen[agent] = read_action(action, legal)
        if agent != self.listeners[-1]:
            return Outcome(reward_terms={}, facts=self._facts())
        terms = {}
        for speaker in self.speakers:
            hearing = self.hear_me(speaker)
            right = sum(map(self._right, hearing)) / len(hearing)
            cut = CHARGE if self._heard[speaker].cut else 0.0
            terms |= {seat: {"right": right, "cut": cut} for seat in (speaker, *hearing)}
        return Outcome(
            reward_terms=terms,
            ended=True,
            success=all(map(self._right, self.listeners)),
            facts=self._facts(),
        )

    def _arriving(self, speaker: str, heard: Heard) -> dict[str, str]:
        """What each listener is shown of a message."""
        listeners = self.hear_me(speaker)
        if self.language != RENAMED:
            return self.pass_on(speaker, heard.text, listeners)
        # Renamed first: a piece of a token that a channel cut would keep its speaker's name.
        return {
            seat: self.pass_on(speaker, self._as_named(heard, seat), [seat])[seat]
            for seat in listeners
        }

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Each listener hears one speaker, where a message can say anything."""
        return {seat: {self.heard_by(seat): 1} for seat in self.listeners} if self.budget else {}

    def _as_named(self, heard: Heard, listener: str) -> str:
        """A message in the names of a listener."""
        own, theirs = self._names[self.heard_by(listener)], self._names[listener]
        return spelled(renamed(renamed(heard.tokens, _inverse(own)), theirs))

    def _right(self, listener: str) -> bool:
        return self._chosen.get(listener) == in_words(self.task.data["target"])

    def _facts(self) -> dict[str, dict[str, Any]]:
        """What infos say of the messages and choices so far, each seat's own."""
        facts: dict[str, dict[str, Any]] = {}
        for agent, heard in self._heard.items():
            facts[agent] = {
                "message": heard.text,
                "readable": heard.readable,
                "cut": heard.cut,
                "convention": self._codes[agent],
            }
        for agent, choice in self._chosen.items():
            facts[agent] = {
                "heard": self._arrived[agent],
                "answer": choice,
                "readable": choice is not None,
                "right": self._right(agent),
            }
        return facts

    def picture(self) -> str:
        """Each seat's objects: green the target, red another one that a listener chose.

        Beside them what a speaker said, or what a listener heard.
        """
        target, rows = in_words(self.task.data["target"]), []
        for agent in self.possible_agents:
            speaks = agent in self.speakers
            marked = target if speaks else self._chosen.get(agent)
            heard = self._heard.get(agent)
            text = (heard.text if heard else "") if speaks else self._arrived.get(agent, "")
            fill = RIGHT if marked == target else WRONG
            objects = map(in_words, ordered(self.task, agent))
            cells = [Cell(thing, fill) if thing == marked else Cell(thing) for thing in objects]
            caption = f"{'says' if speaks else 'hears'}: {text}" if text else ""
            rows.append([Cell(agent, framed=False), *cells, Cell(caption, framed=False)])
        return table_svg("candidates", rows)

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> SignalExperts:
        """Speakers and listeners, each with a code."""
        return SignalExperts(self.language, self.budget)

    def clusters(self, task: Task) -> tuple[str, ...]:
        """The target: a code that names it well does so in every task."""
        return (in_words(task.data["target"]),)

    def meaning(self, task: Task) -> tuple[str, ...]:
        """The target's words."""
        return task.data["target"]

    def bounds(self, task: Task) -> Bounds:
        """Exact: a choice at random, which is also all that one seat alone can do; `best`."""
        n = len(task.data["candidates"])
        return Bounds(
            random=1 / n, solo=1 / n, team=best(told_apart(self.language, self.budget), n)
        )


def _inverse(names: Sequence[int]) -> list[int]:
    return [list(names).index(token) for token in range(len(names))]
