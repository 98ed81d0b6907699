"""The environment that both writing tasks are: two or three authors, one reward, some turns.

Owns the glue: which reward a task is paid by, what turns and protocols mean, what is known of
generated tasks. The prompts and the documentation are those of the two environments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv
from llm_marl_envs.core.options import INFO, Info, TaskOptions, info_of
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.tasks import Task, TaskSource
from llm_marl_envs.envs.writing import divisions, factual, paper
from llm_marl_envs.envs.writing.documents import Document, Kind, document_of
from llm_marl_envs.envs.writing.experts import WritingExperts
from llm_marl_envs.envs.writing.source import texts_of, writing_tasks
from llm_marl_envs.scorers import Submission, open_scorer, scorer_names

GROUNDED, PAPER = "grounded", "paper"
SOLVED = 0.85
"""Share of the largest score from which a task counts as solved, where facts are known or under
`reward="paper"`. A scorer's number has no such mark."""

MAX_PARTNER_CHARS = 4000
TURNS_PROMPT = (
    "\nThere are {turns} turns. Between them you see what your {partners} wrote, and may revise."
)
PARTNERS = {2: "partner", 3: "partners"}
ORDER_PROMPT = (
    "\nThere are {turns} turns. You write at {mine}.{seen}{read} What you answer at other turns is "
    "not read."
)
"""In a pipeline, of each seat."""
SEEN = " You see what your {partners} wrote before."
READ = " Who writes after you sees your text."
BLIND = {2: " Neither sees the other's text.", 3: " None sees the others' texts."}
"""Part of the prompt where there is one turn."""
REVISE_PROMPT = "{partners}Write your text again, better."
WRITE_PROMPT = "{partners}Now write your text."
WAIT_PROMPT = "{who} writes now. What you answer is not read."


class WritingOptions(TaskOptions):
    """The arguments of both writing environments."""

    info: Info | None = Field(
        default=None,
        description=f"{INFO}. 'split' is for generated tasks alone, and what None takes there",
    )
    n_agents: int = Field(
        default=2, ge=divisions.AUTHORS[0], le=divisions.AUTHORS[1], description="authors"
    )
    reward: str | None = Field(
        default=None,
        description="see Rewards: 'grounded', which None takes for generated tasks, 'paper', or "
        "the name of a scorer",
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="K; None is 1, with protocol='pipeline' as many as there are authors",
    )
    protocol: Literal["discussion", "pipeline"] = Field(
        default="discussion",
        description="'discussion': all write at every turn, and each sees the partners' last "
        "texts between turns. 'pipeline': they write in turn, the first seat at turns 1, 3, ... "
        "of two authors, and each sees what the others wrote before; what is answered meanwhile "
        "is not read",
    )
    max_action_chars: int = Field(
        default=4096, ge=1, description="Unicode code points of an action"
    )


class CoopWritingEnv(TextParallelEnv):
    """The authors of one kind of text; see the environments for the arguments.

    Raises:
        ValueError: an argument out of range, `info="split"` for rows, tasks for another number of
            authors, or unusable rows (the message names the row).
    """

    Options = WritingOptions

    metadata: ClassVar[dict[str, Any]]
    kind: ClassVar[Kind]
    known_seats: ClassVar[tuple[str, ...]]
    """The agents, in the order of the rules; without the last there are two."""
    text_prompts: ClassVar[Mapping[int, tuple[str, ...]]]
    """Number of authors -> what each seat is told of a `{text}` from outside; see `blind`."""

    def __init__(self, **arguments: Any) -> None:
        options = self.Options(**arguments)
        n_agents, protocol, turns = options.n_agents, options.protocol, options.turns
        self.seats = self.known_seats[:n_agents]
        source = writing_tasks(options.tasks, self.kind, options.split, n_agents)
        generated = document_of(source[0].data) is not None
        self.info_mode = info_of(options.info, generated)
        reward = reward_of(options.reward, source, generated, n_agents)
        if turns is None:
            turns = n_agents if protocol == "pipeline" else 1
        if protocol == "pipeline" and turns < n_agents:
            raise ValueError(f"turns={turns}: protocol='pipeline' needs at least {n_agents}")
        super().__init__(
            agents=self.seats,
            source=source,
            max_turns=turns,
            max_action_chars=options.max_action_chars,
            render_mode=options.render_mode,
        )
        self.reward_scheme = reward
        self.blocking = reward not in (GROUNDED, PAPER)  # a scorer, which scores copies in batches
        self.protocol = protocol
        self.reward_range = (0.0, paper.MAXIMUM if reward == PAPER else 1.0)

    # -- prompts: what an environment provides ----------------------------------------------------
    @abstractmethod
    def prompt_of_document(self, document: Document, seat: int) -> str:
        """What a seat is told of a generated document, as `info_mode` says."""

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nothing is written."""
        self._texts = dict.fromkeys(self.seats, "")  # the text of each seat that stands
        # Seat -> what it is shown of the others'.
        self._heard: dict[str, dict[str, str]] = {seat: {} for seat in self.seats}
        self._scores: list[dict[str, float]] = []  # reward terms of each turn, as scores

    def brief(self, task: Task, agent: str) -> str:
        """The agent's part of the task, and the turns."""
        document = document_of(task.data)
        if document is not None and document.seats != len(self.seats):
            raise ValueError(
                f"n_agents={len(self.seats)}: task {task.id!r:.200} is divided over "
                f"{document.seats} authors; use n_agents={document.seats}, or leave out `tasks`"
            )
        if document is None and self.divided:
            raise ValueError(f"task {task.id!r:.200} has no facts to divide; use info='full'")
        if (document is None) != self.blocking and self.reward_scheme != PAPER:
            raise ValueError(
                f"task {task.id!r:.200} cannot be paid by {self.reward_scheme!r}: {GROUNDED!r} is "
                "for generated tasks alone, scorers are for texts from outside"
            )
        seat = self.seats.index(agent)
        if document is None:
            prompt = self.text_prompts[len(self.seats)][seat]
            text = prompt.format(text=task.data["text"], blind=self.blind)
        else:
            text = self.prompt_of_document(document, seat)
        return text + self._turns_prompt(seat)

    @property
    def blind(self) -> str:
        """What the prompt says where nobody sees another's text."""
        return BLIND[len(self.seats)] if self.max_turns == 1 else ""

    def _turns_prompt(self, seat: int) -> str:
        if self.max_turns == 1:
            return ""
        about = {"turns": self.max_turns, "partners": PARTNERS[len(self.seats)]}
        if self.protocol == "discussion":
            return TURNS_PROMPT.format(**about)
        *rest, last = mine = range(seat + 1, self.max_turns + 1, len(self.seats))
        return ORDER_PROMPT.format(
            turns=self.max_turns,
            mine=f"turns {', '.join(map(str, rest))} and {last}" if rest else f"turn {last}",
            seen=SEEN.format(**about) if last > 1 else "",
            read=READ if mine[0] < self.max_turns else "",
        )

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Score the texts that stand after this turn."""
        turn = len(self._scores)
        writers = self._writers(turn)
        self._texts |= {agent: joint_action[agent] for agent in writers}
        score = self.score_terms(self.task, [self._texts[agent] for agent in self.seats])
        total = sum(score.values())
        self._scores.append(score)
        terms = {name: gains([earlier[name] for earlier in self._scores])[-1] for name in score}
        ended = turn + 1 >= self.max_turns
        return Outcome(
            reward_terms=dict.fromkeys(self.seats, terms),
            feedback={} if ended else self._feedback(turn + 1, writers),
            success=None if self.blocking else total >= SOLVED * self.reward_range[1],
            facts={
                agent: {
                    "score": total,
                    "convention": self.experts().read(self.task, agent, self._texts[agent]),
                    "action_read": agent in writers,
                }
                for agent in self.seats
            },
        )

    def _writers(self, turn: int) -> Sequence[str]:
        """Who writes at a turn, from 0."""
        if self.protocol == "discussion":
            return self.seats
        return (self.seats[turn % len(self.seats)],)

    def _feedback(self, turn: int, writers: Sequence[str]) -> dict[str, str]:
        """What each agent is told before turn number `turn`; `writers` wrote in the one before."""
        prompts = {}
        for agent in writers:
            text = self._texts[agent][:MAX_PARTNER_CHARS]
            for listener, heard in self.pass_on(agent, text, self._readers(agent, turn)).items():
                self._heard[listener][agent] = heard
        writing = self._writers(turn)
        for agent in self.seats:
            again = turn >= len(self.seats) or self.protocol == "discussion"
            if agent in writing:
                prompt = REVISE_PROMPT if again else WRITE_PROMPT
                prompts[agent] = prompt.format(partners=self._shown(agent))
            else:
                prompts[agent] = WAIT_PROMPT.format(who=self._called(writing[0]))
        return prompts

    def _shown(self, reader: str) -> str:
        """The texts of the others, as far as `reader` may see them."""
        heard = {agent: self._heard[reader].get(agent) for agent in self.seats if agent != reader}
        shown = {agent: text for agent, text in heard.items() if text is not None}
        return "".join(f"{self._called(agent)} wrote:\n{text}\n" for agent, text in shown.items())

    def _called(self, partner: str) -> str:
        return partner if len(self.seats) > 2 else "Your partner"

    def _readers(self, writer: str, turn: int) -> list[str]:
        """Who is shown a text of `writer`: who else writes at `turn`, the next one, or later."""
        later = {agent for at in range(turn, self.max_turns) for agent in self._writers(at)}
        return [agent for agent in self.seats if agent in later and agent != writer]

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Who is shown whose text: who writes after it was written."""
        shown: dict[str, dict[str, int]] = {}
        for turn in range(self.max_turns):
            for writer in self._writers(turn):
                for reader in self._readers(writer, turn + 1):
                    counts = shown.setdefault(reader, {})
                    counts[writer] = counts.get(writer, 0) + 1
        return shown

    # -- what is known of tasks -------------------------------------------------------------------
    def score_terms(self, task: Task, texts: Sequence[str]) -> dict[str, float]:
        """The terms of the texts, which sum to their score; all that is ever paid.

        Args:
            task: any task of this environment.
            texts: one of each seat, in their order.

        Raises:
            Exception: what a scorer raises, e.g. `EndpointError` where its server is down.
        """
        if self.reward_scheme == PAPER:
            return paper.paper_terms(self.kind, texts)
        document = document_of(task.data)
        if document is not None:
            return factual.grounded_terms(document, texts)
        submission = Submission(
            source=task.data["text"],
            texts=tuple(texts),
            references=references_of(task, len(self.seats)),
            together=self.kind == "abstract",
        )
        return open_scorer(self.reward_scheme)(submission)

    def experts(self) -> WritingExperts:
        """Texts under each plan; a row's own references."""
        return WritingExperts(self.seats)

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated tasks under `reward="grounded"`, see `plans.bounds`.

        With `info="full"` one author could write both texts.

        Raises:
            ValueError: for rows, and for the paper's reward.
        """
        document = document_of(task.data)
        if document is None or self.reward_scheme != GROUNDED:
            raise ValueError(
                f"bounds are known for generated tasks under reward='grounded', not for task "
                f"{task.id!r} under {self.reward_scheme!r}"
            )
        if not self.divided:
            return Bounds(random=0.0, solo=1.0, team=1.0)
        return divisions.bounds(document)


def reward_of(reward: str | None, source: TaskSource, generated: bool, seats: int) -> str:
    """The argument `reward`, checked; the scorer that it names is opened.

    Args:
        reward: None takes "grounded" for generated tasks; other texts have no default.
        source: the tasks.
        generated: whether their facts are known.
        seats: how many authors there are.

    Raises:
        ValueError: none for texts from outside, one that does not fit the tasks, an unknown scorer,
            or `reward="reference"` for rows without references; the first such row is named.
    """
    if generated:
        if reward not in (None, GROUNDED, PAPER):
            raise ValueError(
                f"reward={reward!r:.200}: generated tasks take {GROUNDED!r} or {PAPER!r}; scorers "
                "are for texts from outside"
            )
        return reward or GROUNDED
    if reward is None or reward == GROUNDED:
        raise ValueError(
            f"reward={reward!r:.200}: nobody knows the facts of these texts; say what they are "
            f"worth: give one of {', '.join([PAPER, *scorer_names()])}; docs/writing.md has what "
            "attacks earn under each"
        )
    if reward == PAPER:
        return reward
    open_scorer(reward)
    if reward == "reference":
        missing = [task.id for task in source if not references_of(task, seats)]
        if missing:
            raise ValueError(
                f"reward='reference': {len(missing)} of {len(source)} rows bring no text to "
                f"compare with, the first is {missing[0]!r}; give each a summary"
            )
    return reward


def references_of(task: Task, seats: int) -> tuple[str, ...]:
    """Texts that a row's authors are compared with: one for each, one for all, or none."""
    return texts_of(task, seats) or tuple(filter(None, [task.data["summary"]]))
