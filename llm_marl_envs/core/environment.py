"""The two forms of a text environment: `TextParallelEnv` (simultaneous) and `TextAECEnv` (turns).

Owns everything that environments share: seeding, the choice of a task, chat transcripts, the
action check, rewards and their terms, the end of an episode, rendering, the global state. An
environment adds its prompts and rules: `brief` (what a seat is told first) and `play` (what a joint
action leads to; `play_one` where one agent acts at a time).
"""

from __future__ import annotations

import copy
import inspect
import operator
import random
import warnings
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any, ClassVar

from pettingzoo import AECEnv, ParallelEnv

from llm_marl_envs.core.actions import MAX_ACTION_CHARS
from llm_marl_envs.core.checks import seed_of
from llm_marl_envs.core.outcome import BESIDE, Aside, Bounds, Habit, Line, Outcome, paid, summed
from llm_marl_envs.core.rendering import episode_html, episode_text, print_text, visible
from llm_marl_envs.core.spaces import Message, Observation, TextSpace, ToolSheet
from llm_marl_envs.core.tasks import SPLITS, Task, TaskSource

if TYPE_CHECKING:
    from llm_marl_envs.core.experts import Experts
    from llm_marl_envs.core.specs import EnvSpec

RENDER_MODES = ("ansi", "human", "html")
MAX_NAME_CHARS = 100
"""What may stand around an action where another agent is shown it."""


def described(name: str) -> dict[str, Any]:
    """The `metadata` of an environment of this library."""
    return {"name": name, "render_modes": list(RENDER_MODES), "is_parallelizable": True}


class TextEnv:
    """What both forms share. Derive from `TextParallelEnv` or `TextAECEnv` instead.

    A subclass sets `metadata` (with "name"), calls `super().__init__` and implements `brief` (or
    `opening`) and `play` or `play_one`. What its rules keep of an episode begins in
    `begin_episode`. `experts` and `bounds` are optional.

    Args:
        agents: all seats, `<role>_<int>` each, in a fixed order.
        source: where tasks come from.
        max_turns: K, actions per agent and episode, >= 1.
        max_action_chars: longer actions are cut to this many code points.
        render_mode: None, "ansi" (string), "human" (prints) or "html" (string).
        observation_chars: most code points of what an agent sees in an episode; None takes a
            million for the environment's own texts, and room for every agent's actions.

    Raises:
        ValueError: an argument out of range.
    """

    metadata: ClassVar[dict[str, Any]]
    reward_range: tuple[float, float]
    """Smallest and largest undiscounted return of an episode, per agent."""
    task_range: tuple[float, float] | None = None
    """The same of what the task pays alone; None: nothing else pays.

    Measurements count an episode in which the environment raises as the smallest one.
    """
    blocking: bool = False
    """Whether `play` waits for something outside (a process, a server), so threads help."""
    append_only: bool = True
    """Whether each observation extends the one before plus the agent's own action."""
    chats: int = 1
    """How many chats, one after the other, an agent may have in an episode."""
    can_forget: bool = True
    """Whether its seats can go on from their openings and notes alone; see `wrappers.memory`."""
    replayable: bool = True
    """Whether the same seed, task and actions always lead to the same; not with some tools."""
    splits: tuple[str, ...] = SPLITS
    """The splits that generated tasks come in."""
    Options: ClassVar[Any] = None
    """Its arguments, as `core/options.py` declares them; None: those of its constructor."""
    spec: EnvSpec | None = None
    env_kwargs: Mapping[str, Any] = {}
    """What `make` was called with; a transcript keeps it."""
    channel: Callable[[int], Line] | None = None
    """Makes, from a seed, what messages pass through in an episode; None: they arrive whole."""
    habits: tuple[Callable[[TextEnv, int], Habit], ...] = ()
    """Make, for an episode and its seed, what agents do beside the rules, first come first."""
    beside: Mapping[str, int] = {}
    """Agent -> most of its actions in an episode that the rules do not see."""
    tool_sheets: Mapping[str, ToolSheet] = {}
    """Agent -> the tools that it may call; see `wrappers.tools`."""
    notices: tuple[Mapping[str, str], ...] = ()
    """What seats are told of the channel, of tools and the like, each a line; see `wrappers`."""
    rewords: Callable[[Task, Mapping[str, tuple[Message, ...]]], Mapping[str, Any]] | None = None
    """Says in other words what seats are told first; see `wrappers.prompts`."""
    info_mode: str = "full"
    """"split": each seat is told its own part of a task; "full": all are told everything."""
    texts_per_turn: int = 1
    """How many different texts an agent can have passed on in a turn, all in one action."""
    links_drawn: bool = False
    """Whether a task says who is shown whose texts; `links` names all that may be."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__dict__.get("Options") is not None:
            cls.__signature__ = inspect.signature(cls.__dict__["Options"])
        elif "__init__" in cls.__dict__:
            own = inspect.signature(cls.__dict__["__init__"])
            cls.__signature__ = own.replace(parameters=[*own.parameters.values()][1:])

    def __init__(
        self,
        *,
        agents: Sequence[str],
        source: TaskSource,
        max_turns: int,
        max_action_chars: int = MAX_ACTION_CHARS,
        render_mode: str | None = None,
        observation_chars: int | None = None,
    ) -> None:
        if render_mode not in (None, *RENDER_MODES):
            raise ValueError(
                f"render_mode={render_mode!r:.200}: expected None or one of {RENDER_MODES}"
            )
        if max_turns < 1:
            raise ValueError(f"turns={max_turns}: expected at least 1")
        self.possible_agents: list[str] = list(agents)
        self.agents: list[str] = []
        self.source = source
        self.max_turns = max_turns
        self.max_action_chars = max_action_chars
        self.render_mode = render_mode
        self.rng = random.Random()
        self.chance = random.Random()  # of what the rules draw after the opening
        self.task: Task
        self._chat: dict[str, list[Message]] = {}
        self._shared: dict[str, list[str]] = {}
        self._taken: dict[str, int] = {}
        self._own_actions: dict[str, int] = {}
        self._cut: dict[str, bool] = {}  # whether its last action was cut
        self._habits: list[Habit] = []
        self._drawn_from = 0  # what chance after the opening follows from
        self._line: Line | None = None
        self._task_pay: dict[str, dict[str, float]] = {}  # since somebody asked for it
        self._added_pay: dict[str, dict[str, float]] = {}
        self._sent: dict[str, int] = {}  # characters of each agent's last action; without: empty
        self._action_spaces = {a: TextSpace(max_action_chars) for a in self.possible_agents}
        # A transcript holds this environment's own texts and every agent's actions, each shown
        # once with a name; a quotation of empty lines is three times as long.
        actions = max_turns * len(self.possible_agents)
        derived = 1_000_000 + actions * (3 * max_action_chars + MAX_NAME_CHARS)
        observation_chars = derived if observation_chars is None else observation_chars
        self._observation_spaces = {a: TextSpace(observation_chars) for a in self.possible_agents}
        self.state_space = TextSpace(observation_chars * len(self.possible_agents))

    # -- what an environment provides -------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """What a seat is told before its first action, where that is one user message."""
        raise NotImplementedError(f"{type(self).__name__} has neither `brief` nor `opening`")

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What each agent is told before its first action: its `brief`."""
        return {a: (Message("user", self.brief(task, a)),) for a in self.possible_agents}

    def begin_episode(self) -> None:
        """Set what the rules keep of an episode; `task`, `agents` and what chance draws are set."""

    def experts(self) -> Experts | None:
        """The scripted experts, as `core/experts.py` wants them; None: there are none."""
        return None

    def documents(self, task: Task) -> Sequence[str]:
        """The texts of `task` that a seat may search, in a fixed order.

        Raises:
            ValueError: this environment has no documents.
        """
        raise ValueError(f"{self.metadata['name']} has no documents")

    def record(self, task: Task) -> Mapping[str, str]:
        """Name -> entry of what a seat may look up of `task`.

        Raises:
            ValueError: this environment keeps no record.
        """
        raise ValueError(f"{self.metadata['name']} has no record to look up")

    def known_calls(self, task: Task, agent: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Tool and arguments of the calls that an agent needs in `task`, in order: for rewards.

        Raises:
            ValueError: this environment knows none.
        """
        raise ValueError(f"{self.metadata['name']} knows no calls")

    def solution(self, task: Task) -> str:
        """What solves `task`, in words: for critics, which may see what no policy may.

        Raises:
            ValueError: this environment tells no solution.
        """
        raise ValueError(f"{self.metadata['name']} tells no solution")

    def bounds(self, task: Task) -> Bounds:
        """Known returns on `task`.

        Raises:
            ValueError: this environment knows no bounds for such a task.
        """
        raise ValueError(f"{self.metadata['name']} knows no bounds for task {task.id!r:.200}")

    def clusters(self, task: Task) -> tuple[str, ...]:
        """What `task` shares with others that may make their outcomes alike, one text per way.

        For two seats whose prompts come in many pairs: the two prompts. Each task must have as
        many. Nothing, the default, says that tasks are independent. Intervals are as
        wide as this asks for, and tests as careful; `info["task_clusters"]` holds a hash of each.
        """
        return ()

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Listener -> speaker -> in how many turns of the speaker the listener is shown a text.

        At least 1, and the most that an episode can have. Texts after the listener's last action
        do not count. The rules hand each to `pass_on`. Nothing, the default, says that no agent is
        shown what another one wrote.

        Raises:
            ValueError: some of what a seat can tell another one does not go through `pass_on`.
        """
        return {}

    def meaning(self, task: Task) -> tuple[str, ...] | None:
        """What a message in `info["message"]` is to convey, one value per attribute.

        None, the default: nothing. Evaluations measure topographic similarity by it.
        """
        return None

    def prompt_words(self, task: Task) -> Mapping[str, Mapping[str, str]]:
        """Seat -> name -> what of its prompt the task fills in, for `wrappers.prompts`.

        Every seat has the same names for every task; it is told nothing else than by `opening`.
        Nothing, the default.
        """
        return {}

    def first_words(self, task: Task) -> dict[str, tuple[Message, ...]]:
        """What `opening` tells each seat, in seat order, and its notices.

        In the words of `wrappers.prompts` where there are any.

        Raises:
            ValueError: `opening` forgets a seat.
            TypeError: it tells one something that is no sequence of messages.
        """
        chats, where = self.opening(task), f"{type(self).__name__}.opening, task {task.id!r}"
        if not isinstance(chats, Mapping):
            raise TypeError(f"{where}: expected a map seat -> messages, got {type(chats).__name__}")
        missing = [agent for agent in self.possible_agents if agent not in chats]
        if missing:
            raise ValueError(
                f"{where}: nothing for {missing}; expected messages for each of "
                f"{self.possible_agents}"
            )
        for agent in self.possible_agents:
            chat: Any = chats[agent]
            if not isinstance(chat, (list, tuple)) or any(not isinstance(m, Message) for m in chat):
                raise TypeError(
                    f"{where}: expected a list of messages for {agent}, got {chat!r:.80}"
                )
        if self.rewords is not None:
            chats = self.rewords(task, {agent: tuple(chat) for agent, chat in chats.items()})
        return {agent: self.with_notice(agent, chats[agent]) for agent in self.possible_agents}

    def with_notice(self, agent: str, messages: Sequence[Message]) -> tuple[Message, ...]:
        """Opening messages, the last of which ends in a seat's notices, if any.

        They are a part of what the rules tell, so that a chat never begins with two messages of one
        role.
        """
        lines = [notice[agent] for notice in self.notices if notice.get(agent)]
        if not messages or not lines:
            return tuple(messages)
        *before, last = messages
        return (*before, replace(last, content="\n".join([last.content, *lines])))

    @property
    def most_actions(self) -> int:
        """Most actions of one agent in an episode, those that the rules do not see included."""
        return self.max_turns + max(self.beside.values(), default=0)

    @property
    def divided(self) -> bool:
        """Whether each seat is told its own part of a task alone; else all are told everything."""
        return self.info_mode == "split"

    def others(self, agent: str) -> list[str]:
        """All seats but one, in order."""
        return [other for other in self.possible_agents if other != agent]

    # -- PettingZoo's attributes ------------------------------------------------------------------
    def observation_space(self, agent: str) -> TextSpace:
        """Any text; the same object at each call."""
        return self._observation_spaces[agent]

    def action_space(self, agent: str) -> TextSpace:
        """Any text of at most `max_action_chars`; the same object at each call."""
        return self._action_spaces[agent]

    def chat(self, agent: str) -> tuple[Message, ...]:
        """What an agent was told and said in this episode, in order."""
        return tuple(self._chat[agent])

    def state(self) -> str:
        """Everything the environment knows of the episode: the task and every agent's chat."""
        return episode_text(self._title(), self._chat)

    def render(self) -> str | None:
        """The episode so far, as `render_mode` asks; None for "human" (printed) and no mode.

        Every mode is for people: what agents wrote is made `rendering.visible`, so no escape
        sequence in it reaches a terminal. `state()` holds the texts as they are.
        """
        if self.render_mode is None:
            warnings.warn(
                f"{self.metadata['name']}: render() without render_mode; "
                f"pass render_mode= one of {RENDER_MODES} to make()",
                stacklevel=2,
            )
            return None
        if self.render_mode == "html":
            return episode_html(self._title(), self._chat, self.picture())
        if self.render_mode == "human":
            print_text(self.state())
            return None
        return visible(self.state())

    def picture(self) -> str:
        """HTML that `render` shows above the chats, for people; nothing by default."""
        return ""

    def _title(self) -> str:
        return f"{self.metadata['name']}, task {self.task.id}"

    def redraw(self, seed: int) -> None:
        """Draw what chance deals from here on from another seed; what was dealt stays."""
        self.rng, self.chance = random.Random(seed), random.Random(f"chance/{seed}")
        for layer in (*self._habits, *([] if self._line is None else [self._line])):
            layer.redraw(seed)

    def close(self) -> None:
        """Nothing to release; sandboxes are shared and close with the process."""

    # -- shared machinery -------------------------------------------------------------------------
    def pass_on(self, speaker: str, text: str, listeners: Sequence[str]) -> dict[str, str]:
        """What each listener is to be shown of what `speaker` writes in this turn.

        To be called by the rules once for each text that others will be shown, when it is written,
        whenever they are shown it. Different texts in one turn go to different listeners. Without a
        channel everybody is shown all of it; else it may be cut or changed, may be another text,
        and its price is taken from the speaker's reward.

        Args:
            speaker: who wrote it, just now.
            text: what the rules would show of it.
            listeners: who is to be shown it, as `links` says.
        """
        if self._line is None:
            return dict.fromkeys(listeners, text)
        return self._line.carry(speaker, text, listeners)

    def widen(self, low: float, high: float) -> None:
        """Make room in `reward_range` for what a wrapper pays an agent in an episode.

        Args:
            low: the least that it pays, 0 or below.
            high: the most, 0 or above.
        """
        least, most = self.reward_range
        self.task_range = self.task_range or self.reward_range
        self.reward_range = (least + low, most + high)

    def task_pay(self) -> dict[str, dict[str, float]] | None:
        """Agent -> name -> what the task paid it since this was last asked, or since the reset.

        What wrappers pay is no part of it, whatever they say. None where a class has a `step` of
        its own: then nobody noted who paid, and all is the task's but for `added_pay`.
        """
        if getattr(type(self), "step", None) not in (TextParallelEnv.step, TextAECEnv.step):
            return None
        paid, self._task_pay = self._task_pay, {}
        return paid

    def added_pay(self) -> dict[str, dict[str, float]]:
        """The same of what stands around the task paid and said so, in `Outcome.added_terms`."""
        paid, self._added_pay = self._added_pay, {}
        return paid

    def _charged(self, outcome: Outcome) -> Outcome:
        """The outcome, with the price of what was just passed on; notes how much that was."""
        bill = {} if self._line is None else self._line.bill()
        terms = dict(outcome.added_terms)
        for agent, (count, price) in bill.items():
            self._sent[agent] = count
            if price:
                terms[agent] = summed(terms.get(agent, {}), {"channel": -price})
        return replace(outcome, added_terms=terms) if bill else outcome

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> None:
        seed = None if seed is None else seed_of(seed)
        if seed is not None:
            self.rng = random.Random(seed)
        # Not the generator that may draw the task: an episode replays with its task named.
        after = copy.deepcopy(self.rng).getrandbits(63) if seed is None else seed
        self.chance = random.Random(f"chance/{after}")
        options = dict(options or {})
        wanted = options.pop("task", None)
        if options:  # PettingZoo's parallel_api_test sends one, so this cannot be an error
            warnings.warn(
                f"{self.metadata['name']}: unknown reset options {sorted(options)} ignored; "
                "known: ['task']",
                stacklevel=3,
            )
        self.task = self._choose(wanted)
        if seed is not None:  # what follows is drawn as where the same task is named
            self.rng = random.Random(seed)
        self.agents = list(self.possible_agents)
        self._taken = dict.fromkeys(self.agents, 0)
        self._own_actions = dict.fromkeys(self.agents, 0)
        self._cut = dict.fromkeys(self.agents, False)
        self._line = None if self.channel is None else self.channel(after)
        self._sent = {} if self.channel is None else dict.fromkeys(self.agents, 0)
        self._task_pay, self._added_pay = {}, {}
        self.begin_episode()
        self._chat = {agent: list(chat) for agent, chat in self.first_words(self.task).items()}
        self._drawn_from = after
        self._take_up_habits()
        shared = [
            sha256(text.encode("utf-8", "surrogatepass")) for text in self.clusters(self.task)
        ]
        self._shared = {"task_clusters": [key.hexdigest()[:16] for key in shared]} if shared else {}

    def _take_up_habits(self) -> None:
        """Begin what agents do beside the rules; they have been told their openings."""
        self._habits = [habit(self, self._drawn_from) for habit in self.habits]

    def _choose(self, wanted: Any) -> Task:
        if wanted is None:
            return self.source[self.rng.randrange(len(self.source))]
        if isinstance(wanted, Task):
            return wanted
        if isinstance(wanted, str):
            return self.source.find(wanted)
        # Any whole number, numpy's too; True is no index.
        if hasattr(wanted, "__index__") and not isinstance(wanted, bool):
            index = operator.index(wanted)
            if 0 <= index < len(self.source):
                return self.source[index]
        raise ValueError(
            f"options['task']={wanted!r:.200}: expected a task id, a Task or an index "
            f"from 0 to {len(self.source) - 1}"
        )

    def _observe(self, agent: str) -> Observation:
        return Observation.of(self._chat[agent])

    def _check(self, agent: str, action: Any) -> None:
        if not isinstance(action, str):
            numbers = isinstance(action, (int, float, list, tuple)) or hasattr(action, "dtype")
            hint = "; `Choose` or `Tokenize` around it takes numbers" if numbers else ""
            raise TypeError(
                f"action of {agent}: expected str, got {type(action).__name__} ({action!r:.80})"
                f"{hint}"
            )

    def _accept(self, agent: str, action: Any) -> str:
        """The action as the rules see it; notes it in the chat, and whether it was cut."""
        self._check(agent, action)
        text = str(action)[: self.max_action_chars]
        self._chat[agent].append(Message("assistant", text))
        self._own_actions[agent] += 1
        self._cut[agent] = len(action) > self.max_action_chars
        if self._line is not None:
            self._sent[agent] = 0
        return text

    def _aside(self, agent: str, text: str) -> Aside | None:
        """What an action leads to beside the rules; the agent then acts again."""
        asides = (habit.take(agent, text) for habit in self._habits)
        aside = next((aside for aside in asides if aside is not None), None)
        if aside is not None and aside.chat is not None:
            self._chat[agent] = list(aside.chat)
        return aside

    def _beside(self, asides: Mapping[str, Aside]) -> Outcome:
        """What agents did beside the rules, as an outcome."""
        return Outcome(
            reward_terms={},
            added_terms={agent: aside.reward_terms for agent, aside in asides.items()},
            feedback={agent: aside.feedback for agent, aside in asides.items() if aside.feedback},
            facts={agent: {BESIDE: True, **aside.facts} for agent, aside in asides.items()},
        )

    def _demand(self, agents: Sequence[str]) -> None:
        """Ask those who are to act for what must come first."""
        for habit in self._habits:
            for agent in agents:
                demand = habit.demand(agent, self._chat[agent])
                if demand:
                    self._chat[agent].append(Message("user", demand))

    def _tell(self, outcome: Outcome) -> None:
        for agent, text in outcome.feedback.items():
            facts = outcome.facts.get(agent, {})
            tool = facts["call"]["tool"] or "no tool" if "call" in facts and BESIDE in facts else ""
            self._chat[agent].append(Message("user", text, result_of=tool))

    def _reward(self, agent: str, outcome: Outcome) -> float:
        """What an agent is paid; notes what of it the task paid."""
        own = self._numbers(agent, outcome.reward_terms.get(agent, {}))
        more = self._numbers(agent, outcome.added_terms.get(agent, {}))
        if own:
            of_task = summed(self._task_pay.get(agent, {}), own)
            self._task_pay = {**self._task_pay, agent: of_task}  # a copy of this keeps its own
        if more:
            beside = summed(self._added_pay.get(agent, {}), more)
            self._added_pay = {**self._added_pay, agent: beside}
        return float(sum(own.values()) + sum(more.values()))

    def _numbers(self, agent: str, terms: Mapping[str, float]) -> dict[str, float]:
        turn = self._own_actions[agent] - 1
        if not isinstance(terms, Mapping):
            raise TypeError(f"reward_terms of {agent}: expected name -> number, got {terms!r:.80}")
        return {name: paid(value, agent, turn, f"reward {name!r}") for name, value in terms.items()}

    def _info(self, agent: str, outcome: Outcome) -> dict[str, Any]:
        return {
            "task_id": self.task.id,
            "turn": self._own_actions[agent],
            "action_truncated": self._cut[agent],
            "reward_terms": summed(
                outcome.reward_terms.get(agent, {}), outcome.added_terms.get(agent, {})
            ),
            "success": outcome.success,
            **self._shared,
            **outcome.facts.get(agent, {}),
            **({"sent": self._sent[agent]} if self._sent else {}),
        }

    def _first_info(self) -> dict[str, Any]:
        return {"task_id": self.task.id, "turn": 0}


# PettingZoo declares `state` an array; here it is text.
class TextParallelEnv(  # pyright: ignore[reportIncompatibleMethodOverride]
    TextEnv, ParallelEnv[str, Any, str]
):
    """All agents act at once; see `TextEnv` for the arguments and what a subclass provides."""

    _spoken: dict[str, str]
    """What each agent said last; what the rules take once nobody does anything beside them."""

    @abstractmethod
    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """What this joint action leads to; the base ends the episode after `max_turns` turns."""

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """Begin an episode.

        Args:
            seed: makes the episode reproducible; None goes on with the environment's own RNG.
            options: {"task": index, id or `Task`}; drawn from the RNG where absent.

        Raises:
            ValueError: no such task.
            TypeError: a seed that is no whole number.
        """
        self._begin(seed, options)
        self._spoken = {}
        observations = {agent: self._observe(agent) for agent in self.agents}
        return observations, {agent: self._first_info() for agent in self.agents}

    def step(
        self, actions: Mapping[str, str]
    ) -> tuple[
        dict[str, Observation],
        dict[str, float],
        dict[str, bool],
        dict[str, bool],
        dict[str, dict[str, Any]],
    ]:
        """Play one turn; `actions` holds one text for each of `agents`.

        An agent that did something beside the rules, as calling a tool, acts again before the rules
        see the joint action: until then `agents` holds such agents alone, and the others pass; an
        action of theirs is not looked at.

        Raises:
            RuntimeError: before `reset` or after the end of the episode.
            ValueError: an agent is missing or unknown.
            TypeError: an action is no `str`.
        """
        if not self.agents:
            raise RuntimeError(f"{self.metadata['name']}: no episode is running; call reset()")
        if not isinstance(actions, Mapping):
            raise TypeError(f"actions: expected a dict agent -> str, got {type(actions).__name__}")
        passing = set(self.possible_agents) - set(self.agents)  # PettingZoo's AEC form sends theirs
        if set(actions) - passing != set(self.agents):
            raise ValueError(f"actions for {[*actions]}: expected one for each of {self.agents}")
        for agent in self.agents:  # all are checked before any is noted
            self._check(agent, actions[agent])
        asides: dict[str, Aside] = {}
        for agent in self.agents:
            self._spoken[agent] = self._accept(agent, actions[agent])
            aside = self._aside(agent, self._spoken[agent])
            if aside is not None:
                asides[agent] = aside
        if asides:
            outcome, ended = self._beside(asides), False
            seats, self.agents = self.agents, [*asides]
        else:
            seats = self.agents = [*self.possible_agents]
            outcome, ended = self._played()
            if ended:
                self.agents = []
        self._tell(outcome)
        self._demand(self.agents)
        return (
            {agent: self._observe(agent) for agent in seats},
            {agent: self._reward(agent, outcome) for agent in seats},
            dict.fromkeys(seats, ended),
            dict.fromkeys(seats, False),
            {agent: self._info(agent, outcome) for agent in seats},
        )

    def _played(self) -> tuple[Outcome, bool]:
        """What the joint action leads to, and whether the episode is over."""
        for agent in self.possible_agents:
            self._taken[agent] += 1
        outcome = self._charged(self.play({a: self._spoken[a] for a in self.possible_agents}))
        return outcome, outcome.ended or self._taken[self.possible_agents[0]] >= self.max_turns


class TextAECEnv(  # pyright: ignore[reportIncompatibleMethodOverride]
    TextEnv, AECEnv[str, str, str | None]
):
    """One agent acts at a time, in seat order by default; see `TextEnv`.

    An action is seen by the others before they act: that is what a debate needs and what a
    converted parallel environment cannot give.
    """

    @abstractmethod
    def play_one(self, agent: str, action: str) -> Outcome:
        """What one agent's action leads to, rewards and feedback of all agents included."""

    def next_agent(self, agent: str) -> str:
        """Who acts after `agent`; seat order by default."""
        seat = self.possible_agents.index(agent)
        return self.possible_agents[(seat + 1) % len(self.possible_agents)]

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """Begin an episode; arguments and errors as `TextParallelEnv.reset`."""
        self._begin(seed, options)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {agent: self._first_info() for agent in self.agents}
        self.agent_selection = self.possible_agents[0]
        self._skip_agent_selection = None  # left over where the last episode was broken off

    def observe(self, agent: str) -> Observation:
        """The chat of `agent` so far."""
        return self._observe(agent)

    def step(self, action: str | None) -> None:
        """The selected agent acts; None is the only action of an agent whose episode is over.

        Raises:
            RuntimeError: before `reset` or after the end of the episode.
            TypeError: the action is no `str`.
        """
        if not self.agents:
            raise RuntimeError(f"{self.metadata['name']}: no episode is running; call reset()")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        text = self._accept(agent, action)
        aside = self._aside(agent, text)
        if aside is None:
            self._taken[agent] += 1
            outcome = self._charged(self.play_one(agent, text))
            following = self.next_agent(agent)
            ended = outcome.ended or self._taken[following] >= self.max_turns
        else:
            outcome, following, ended = self._beside({agent: aside}), agent, False
        self._tell(outcome)
        self._cumulative_rewards[agent] = 0.0
        self.rewards = {a: self._reward(a, outcome) for a in self.agents}
        for other in self.agents:
            if aside is None or other == agent:
                self.infos[other] = self._info(other, outcome)
            elif "reward_terms" in self.infos[other]:  # what it did stands, and pays nothing now
                self.infos[other] = {**self.infos[other], "reward_terms": {}}
        if ended:
            self.terminations = dict.fromkeys(self.agents, True)
        else:
            self._demand([following])
        self.agent_selection = following
        self._accumulate_rewards()
        self._deads_step_first()


def task_source(env: Any) -> TaskSource | None:
    """The tasks of an environment of this library, None for a stranger's, whatever its `source`."""
    inner = getattr(env, "unwrapped", env)
    return inner.source if isinstance(inner, TextEnv) else None


def task_ids(env: Any, n: int) -> list[str]:
    """The ids of the first `n` tasks of an environment of this library.

    Raises:
        ValueError: fewer than 1, more than there are, or another library's environment.
    """
    source = task_source(env)
    if source is None:
        raise ValueError(
            f"{type(env.unwrapped).__name__} names no tasks; write the dataset by hand"
        )
    if not 1 <= n <= len(source):
        raise ValueError(f"n={n} tasks: expected 1 to {len(source)}")
    return [source[index].id for index in range(n)]
