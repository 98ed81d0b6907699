"""# debate-v0: several debaters answer one question; each holds a part of the evidence.

## Description
`n_agents` debaters talk for `rounds` rounds and answer after each. The team is right if more than
half of the last answers are the same right answer. In the default questions what everybody knows
points to a wrong answer. Each debater alone holds one part of the evidence, and only all parts
together show what is right. So the debaters must tell each other what they see, in words that the
others understand. docs/environments/debate.md says what can be had without debating.

## An episode
Task `train/0`. A safe has three dials. A right answer names all colours, or all shapes. The manual
that everybody has read is wrong about every dial.

    debater_0 is told   Question: The safe has 3 dials. Name them all by colours or
                        all by shapes, dial 1 first.
                        Everybody knows:
                        The manual says [blue][green][blue].
                        Only you know:
                        Dial 1: [red][cross]
    debater_1 is told   Dial 2: [gold][star]
    debater_2 is told   Dial 3: [green][ring]

    debater_0 says      [red]
    debater_1 says      [gold]
    debater_2 says      [ring]
    debater_0 hears     debater_1 says:
                        > [gold]
                        debater_2 says:
                        > [ring]
    debater_0 says      Answer: [red][gold][ring]
    debater_1 says      Answer: [red][gold][ring]
    debater_2 says      Answer: [red][gold][ring]
    all earn            0.0

Everybody told the truth, but two named a colour and one a shape. Nobody can make a colour of a
shape. Had the third named the colour, all would have been right:

    debater_2 says      [green]
    debater_0 says      Answer: [red][gold][green]
    debater_1 says      Answer: [red][gold][green]
    debater_2 says      Answer: [red][gold][green]
    all earn            1.0

In an eighth of the questions the colours have worn off, in another eighth the shapes, and everybody
knows it. Then one right answer is left, and the manual's wrong answer names the same. So no fixed
choice works for all.

This is `info="split"`, the default for questions that bring evidence. With `info="full"`, the
setting of the literature, everybody is told everything. Then one debater could answer alone.

## Agents
`debater_0` to `debater_<n-1>` speak one after the other (AEC). A statement is heard in the next
round. So nobody has heard another before the first answer.

## Observations
Chat messages, append-only. The first is one user message: the question, what everybody knows and
the own part. Before each later action one more quotes what the others said in the round before,
line by line behind `> `. Text up to the last `</think>` is private and not quoted.

## Actions
Any text: a statement to the others, with an answer in exactly one line

    Answer: [your answer]

Brackets and a final full stop are optional. Case does not matter. Numbers are compared exactly
(`core/answers.py`). No answer line, or several of them, are a wrong answer. Lines in
quotations and code fences do not count. Text beyond 4096 characters is cut, with any answer line in
it.

## Rewards
Paid once, after the last statement. The return is in [0, 1].

| `pay` | term | value |
|---|---|---|
| `team` (default) | team | 1 for everybody if more than half of all debaters answer right at last |
| `own` | own | 1 for each debater whose own last answer is right: a selfish control |

A tie is wrong; so is a majority that needs the silent. Votes are counted by text, so two right
answers that differ do not add up: with two debaters, one who names colours and one who names shapes
are a tie. With `judge=`, a policy reads the last statements, and its answer replaces the
majority's.

**Entries of `info`** for every agent

- `success`: the team is right; None before the last statement.
- `answer`: the agent's latest, None for none or several. `right`: whether it is right. `readable`,
  with the last statement: there is an answer.
- `convention`: which shorthand its first statement followed (generated questions).

and after the last statement

- `kind`, `level` of the question. `team_answer`. `judge`: its text, where there is one.
- `majority_right`: one entry per round. `deliberation_gain`: last majority minus first: 1, 0 or -1.
- `pivotal`: this debater can make the majority right, and can prevent it. `flips`: how often its
  answer changed between right and wrong.
- `constant_accuracy`: of the best constant answer to this kind of question. `above_constant`:
  success minus that.

## Episode end
After `rounds` statements of every debater. Never truncated.

## Arguments
`llm-marl spec debate` lists them.

| kind of question | what it needs |
|---|---|
| safe, lost, games, trail | every part |
| cups, lights, seats | every part, but for rare extreme counts |
| suspects, points, meeting; often order | two parts can suffice, so a debater may be silent |

In lost and games nothing misleads.

## Tasks and licence
Generated questions were written for this library and share its licence. Rows, data sets and
reasoning-gym (Apache-2.0) have their own.

## Version history
- v0: first version. Before the first release the default kinds were lost and games.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import comb
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.options import TURNS
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import Said
from llm_marl_envs.envs.debate import votes
from llm_marl_envs.envs.debate.base import Judge, QuestionEnv, QuestionOptions
from llm_marl_envs.envs.debate.experts import Debaters
from llm_marl_envs.envs.debate.judges import JUDGE, judge_prompt, verdicts
from llm_marl_envs.envs.questions import (
    blind_guess,
    canonical,
    constant_accuracy,
    is_right,
    question_of,
    read_answer,
)

DEFAULT_KINDS = ("safe",)

OPENING = (
    "You are {agent}, one of {n} debaters. There are {rounds} rounds; the last answers count.\n"
    "{question}"
    "{own}Tell the others what they need. End with one line: Answer: [your answer]"
)
OWN = "Only you know:\n{evidence}\n"
ROUND = "Round {number} of {rounds}."


class DebateOptions(QuestionOptions):
    """The arguments of debate."""

    n_agents: int = Field(
        default=3,
        ge=2,
        le=9,
        description="debaters; generated evidence is divided into as many parts",
    )
    rounds: int = Field(default=2, ge=1, description=TURNS)
    pay: Literal["team", "own"] = Field(
        default="team", description="whose answer is paid, see Rewards"
    )
    judge: Judge | None = Field(default=None, description="a policy instead of the majority")


class DebateEnv(QuestionEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for questions without evidence.
        TypeError: `judge` is no policy.
    """

    metadata: ClassVar[dict[str, Any]] = described("debate-v0")
    Options = DebateOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = DebateOptions(**arguments)
        super().__init__(
            options,
            shares={f"debater_{seat}": seat for seat in range(options.n_agents)},
            kinds=DEFAULT_KINDS,
            turns=options.rounds,
        )
        self.pay, self.judge = options.pay, options.judge

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has spoken."""
        super().begin_episode()
        self._statements: list[Said] = []  # in the order made
        self._facts: dict[str, dict[str, Any]] = {  # agent -> what its statements say so far
            a: {"answer": None, "right": False, "convention": None} for a in self.agents
        }
        self._heard = dict.fromkeys(self.agents, 0)  # agent -> how many of them it was shown
        self._judge_seed = self.rng.getrandbits(63)

    def brief(self, task: Task, agent: str) -> str:
        """The question, the own part, and how to answer."""
        question = question_of(task)
        own = "\n".join(self.evidence(question, agent) or ())
        return OPENING.format(
            agent=agent,
            n=len(self.possible_agents),
            rounds=self.max_turns,
            question=self.asked(question) + "\n",
            own=OWN.format(evidence=own) if own else "",
        )

    def play_one(self, agent: str, action: str) -> Outcome:
        """Hear one statement; after the last one, count the answers."""
        last = self._taken[agent] >= self.max_turns
        heard = {} if last else self.pass_on(agent, action, self.others(agent))
        made = Said.of(agent, action, heard)
        self._statements.append(made)
        own_facts = {**self._facts[agent], "answer": made.answer, "right": self._right(made.answer)}
        if len(self._statements) <= len(self.agents):
            own_facts["convention"] = self.experts().read(self.task, agent, action)
        if len(self._statements) > (self.max_turns - 1) * len(self.agents):
            own_facts["readable"] = made.answer is not None  # earlier rounds need no answer
        self._facts[agent] = own_facts
        facts = dict(self._facts)
        if len(self._statements) < self.max_turns * len(self.agents):
            return Outcome(reward_terms={}, feedback=self._news(), facts=facts)
        verdict = self._verdict()
        success: bool = verdict["majority_right"][-1]
        if self.judge is not None:
            success = is_right(self.question, verdict["team_answer"])
        verdict["above_constant"] = success - verdict["constant_accuracy"]
        terms = {
            a: {"team": float(success)} if self.pay == "team" else {"own": float(fact["right"])}
            for a, fact in facts.items()
        }
        for seat, a in enumerate(self.agents):
            right = [self._right(answer) for answer in self._answers(a)]
            last = [self._answers(other)[-1] for other in self.agents]
            last = [
                canonical(answer) if answer and self._right(answer) else None for answer in last
            ]
            own = {"pivotal": votes.pivotal(last, seat), "flips": votes.flips(right)}
            facts[a] = {**facts[a], **verdict, **own}
        return Outcome(reward_terms=terms, ended=True, success=success, facts=facts)

    def _news(self) -> dict[str, str]:
        """What the next debater is told; in the first round nothing, so that all speak blind."""
        made = len(self._statements)
        if made < len(self.agents):
            return {}
        agent = self.agents[made % len(self.agents)]
        # What was said in the running round is heard in the next one.
        until = made - made % len(self.agents)
        fresh = [
            statement
            for statement in self._statements[self._heard[agent] : until]
            if statement.agent != agent
        ]
        self._heard[agent] = until
        head = ROUND.format(number=made // len(self.agents) + 1, rounds=self.max_turns)
        return {agent: "\n".join([head, *(statement.quoted_to(agent) for statement in fresh)])}

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """After the first round everybody hears everybody."""
        rounds = self.max_turns - 1
        return {a: dict.fromkeys(self.others(a), rounds) for a in self.possible_agents if rounds}

    def _answers(self, agent: str) -> list[str | None]:
        return [statement.answer for statement in self._statements if statement.agent == agent]

    def _right(self, answer: str | None) -> bool:
        return is_right(self.question, answer)

    def _verdict(self) -> dict[str, Any]:
        """What everybody is told of the whole debate."""
        rounds = zip(*(self._answers(agent) for agent in self.agents), strict=True)
        majorities = [votes.majority([a and canonical(a) for a in answers]) for answers in rounds]
        right = [self._right(answer) for answer in majorities]
        verdict: dict[str, Any] = {
            "kind": self.question.kind,
            "level": self.question.level,
            "team_answer": majorities[-1],
            "majority_right": right,
            "deliberation_gain": votes.deliberation_gain(right),
            "constant_accuracy": constant_accuracy(self.source).get(self.question.kind, 0.0),
        }
        if self.judge is not None:
            question = self.asked(self.question) + "\n"
            prompt = judge_prompt(question, self._statements[-len(self.agents) :])
            (text,) = verdicts(self.judge, self, {JUDGE: [prompt]}, [self._judge_seed])
            verdict["judge"], verdict["team_answer"] = text, read_answer(text)
        return verdict

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> Debaters:
        """Report their evidence in a shorthand, then answer with what all reported."""
        return Debaters(self.shares, self.parts, self.divided)

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated questions, decided by majority.

        Raises:
            ValueError: for rows, with a judge, and where evidence is divided and nobody hears
                anything, as in a single round.
        """
        question = question_of(task)
        n = len(self.possible_agents)
        silent = self.max_turns == 1 and self.divided
        if self.judge is not None or silent or not self.in_parts(question):
            raise ValueError(
                f"bounds are known for generated questions decided by majority, not for task "
                f"{task.id!r}" + (" with a judge" if self.judge else "") + " in one round" * silent
            )
        guess = blind_guess(question)
        each = guess / len(question.right)
        needed = range(n // 2 + 1, n + 1)
        # At most one of the right answers can have more than half of the votes.
        together = len(question.right) * sum(
            comb(n, k) * each**k * (1 - each) ** (n - k) for k in needed
        )
        return Bounds(
            random=together if self.pay == "team" else guess,
            solo=self.alone(question),
            team=1.0,
        )
