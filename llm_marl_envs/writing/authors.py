"""The environment that both writing tasks are: two authors, one reward, one or more turns.

Owns the glue: which reward a task is paid by, what turns and protocols mean, what is known of
generated tasks. The prompts and the documentation are those of the two environments.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from llm_marl_envs.checks import refuse_other
from llm_marl_envs.core import Bounds, Outcome, TextParallelEnv, gains, info_of
from llm_marl_envs.scorers import Submission, open_scorer, scorer_names
from llm_marl_envs.spaces import Message, Observation
from llm_marl_envs.tasks import Row, Task, TaskSource
from llm_marl_envs.writing import divisions, factual, paper
from llm_marl_envs.writing.documents import Document, Kind, document_of
from llm_marl_envs.writing.experts import WritingExperts
from llm_marl_envs.writing.source import writing_tasks

GROUNDED, PAPER = "grounded", "paper"
PROTOCOLS = ("discussion", "pipeline")
SOLVED = 0.85
"""Share of the largest score from which a task counts as solved, where facts are known or under
`reward="paper"`. A scorer's number has no such mark."""

MAX_PARTNER_CHARS = 4000
TURNS_PROMPT = "\nThere are {turns} turns. Between them you see your partner's text and may revise."
FIRST_PROMPT = (
    "\nYou write at turns 1, 3, ... and your partner, who sees your text, at turns 2, 4, ..."
)
SECOND_PROMPT = (
    "\nYour partner writes at turns 1, 3, ... and you, who see that text, at turns 2, 4, ... "
    "What you answer at other turns is not read."
)
REVISE_PROMPT = "Your partner wrote:\n{partner}\nWrite your text again, better."
WRITE_PROMPT = "Your partner wrote:\n{partner}\nNow write your text."
WAIT_PROMPT = "Your partner writes now. What you answer is not read."


class CoopWritingEnv(TextParallelEnv):
    """Two authors of one kind of text; see the environments for the arguments.

    Raises:
        ValueError: an argument out of range, `info="split"` for rows, or unusable rows (the message
            names the row).
    """

    metadata: ClassVar[dict[str, Any]]
    kind: ClassVar[Kind]
    seats: ClassVar[tuple[str, str]]
    """The two agents, in the order of the rules."""
    text_prompts: ClassVar[tuple[str, str]]
    """What each seat is told of a `{text}` from outside."""

    def __init__(
        self,
        *,
        tasks: str | Path | Sequence[Row] | TaskSource | None = None,
        split: str = "train",
        info: str | None = None,
        reward: str | None = None,
        turns: int | None = None,
        protocol: str = "discussion",
        max_action_chars: int = 4096,
        render_mode: str | None = None,
    ) -> None:
        source = writing_tasks(tasks, self.kind, split)
        generated = document_of(source[0].data) is not None
        self.info_mode = info_of(info, generated)
        refuse_other("protocol", protocol, PROTOCOLS)
        reward = reward_of(reward, source, generated)
        if turns is None:
            turns = 2 if protocol == "pipeline" else 1
        if protocol == "pipeline" and turns < 2:
            raise ValueError(f"turns={turns}: protocol='pipeline' needs at least 2")
        super().__init__(
            agents=self.seats,
            source=source,
            max_turns=turns,
            max_action_chars=max_action_chars,
            render_mode=render_mode,
        )
        self.reward_scheme = reward
        self.blocking = reward not in (GROUNDED, PAPER)  # a scorer, which scores copies in batches
        self.protocol = protocol
        self.reward_range = (0.0, paper.MAXIMUM if reward == PAPER else 1.0)
        self._texts: dict[str, str] = {}  # the text of each seat that stands
        self._scores: list[dict[str, float]] = []  # reward terms of each turn, as scores

    # -- prompts: what an environment provides ----------------------------------------------------
    @abstractmethod
    def prompt_of_document(self, document: Document, seat: int) -> str:
        """What a seat is told of a generated document, as `info_mode` says."""

    # -- the episode ------------------------------------------------------------------------------
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, dict[str, Any]]]:
        """As `TextParallelEnv.reset`."""
        self._texts = dict.fromkeys(self.seats, "")
        self._scores = []
        return super().reset(seed=seed, options=options)

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message per agent."""
        document = document_of(task.data)
        if document is None and self.info_mode == "split":
            raise ValueError(f"task {task.id!r} has no facts to divide; use info='full'")
        if (document is None) != self.blocking and self.reward_scheme != PAPER:
            raise ValueError(
                f"task {task.id!r} cannot be paid by {self.reward_scheme!r}: {GROUNDED!r} is for "
                "generated tasks alone, scorers are for texts from outside"
            )
        opening = {}
        for seat, agent in enumerate(self.seats):
            if document is None:
                text = self.text_prompts[seat].format(text=task.data["text"])
            else:
                text = self.prompt_of_document(document, seat)
            opening[agent] = [Message("user", text + self._turns_prompt(seat))]
        return opening

    def _turns_prompt(self, seat: int) -> str:
        if self.protocol == "pipeline":
            return SECOND_PROMPT if seat else FIRST_PROMPT
        return TURNS_PROMPT.format(turns=self.max_turns) if self.max_turns > 1 else ""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Score the texts that stand after this turn."""
        turn = len(self._scores)
        writers = self.seats if self.protocol == "discussion" else (self.seats[turn % 2],)
        self._texts |= {agent: joint_action[agent] for agent in writers}
        texts = (self._texts[self.seats[0]], self._texts[self.seats[1]])
        score = self.score_terms(self.task, texts)
        total = sum(score.values())
        self._scores.append(score)
        terms = {name: gains([one[name] for one in self._scores])[-1] for name in score}
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

    def _feedback(self, turn: int, writers: Sequence[str]) -> dict[str, str]:
        """What each agent is told before turn number `turn`; `writers` wrote in the one before."""
        told, heard = {}, {}
        for seat, agent in enumerate(self.seats):
            if agent in writers:
                text = self._texts[agent][:MAX_PARTNER_CHARS]
                heard |= self.pass_on(agent, text, [self.seats[1 - seat]])
        for seat, agent in enumerate(self.seats):
            partner = heard.get(agent, "")
            if self.protocol == "discussion":
                told[agent] = REVISE_PROMPT.format(partner=partner)
            elif turn % 2 == seat:
                told[agent] = (REVISE_PROMPT if turn > 1 else WRITE_PROMPT).format(partner=partner)
            else:
                told[agent] = WAIT_PROMPT
        return told

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Between turns authors are shown each other's text; in a pipeline, who writes next is."""
        first, second = self.seats
        there = back = self.max_turns - 1
        if self.protocol == "pipeline":
            there, back = self.max_turns // 2, (self.max_turns - 1) // 2
        links = {second: {first: there}, first: {second: back}}
        return {listener: by for listener, by in links.items() if all(by.values())}

    # -- what is known of tasks -------------------------------------------------------------------
    def score_terms(self, task: Task, texts: tuple[str, str]) -> dict[str, float]:
        """The terms of two texts, which sum to their score; all that is ever paid.

        Args:
            task: any task of this environment.
            texts: of the first and the second seat.

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
            texts=texts,
            references=references_of(task),
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
        if self.info_mode == "full":
            return Bounds(random=0.0, solo=1.0, team=1.0)
        return divisions.bounds(document)


def reward_of(reward: str | None, source: TaskSource, generated: bool) -> str:
    """The argument `reward`, checked; the scorer that it names is opened.

    Args:
        reward: None takes "grounded" for generated tasks; other texts have no default.
        source: the tasks.
        generated: whether their facts are known.

    Raises:
        ValueError: none for texts from outside, one that does not fit the tasks, an unknown scorer,
            or `reward="reference"` for rows without references; the first such row is named.
    """
    if generated:
        if reward not in (None, GROUNDED, PAPER):
            raise ValueError(
                f"reward={reward!r}: generated tasks take {GROUNDED!r} or {PAPER!r}; scorers are "
                "for texts from outside"
            )
        return reward or GROUNDED
    if reward is None or reward == GROUNDED:
        raise ValueError(
            f"reward={reward!r}: nobody knows the facts of these texts; say what they are worth: "
            f"give one of {', '.join([PAPER, *scorer_names()])}; docs/writing.md has what "
            "attacks earn under each"
        )
    if reward == PAPER:
        return reward
    open_scorer(reward)
    if reward == "reference":
        missing = [task.id for task in source if not references_of(task)]
        if missing:
            raise ValueError(
                f"reward='reference': {len(missing)} of {len(source)} rows bring no text to "
                f"compare with, the first is {missing[0]!r}; give each a summary"
            )
    return reward


def references_of(task: Task) -> tuple[str, ...]:
    """Texts that a row's authors are compared with: one for each, one for both, or none."""
    pair = (task.data["first"], task.data["second"])
    return pair if all(pair) else tuple(filter(None, [task.data["summary"]]))
