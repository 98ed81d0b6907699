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

## A leader decides
Task `train/0`, with `decides="leader"` and one round: who reads all decides.

    debater_0 says      [red]
    debater_1 says      [gold]
    debater_2 says      [green]
    leader_0 hears      Round 1 of 1.
                        debater_0 says:
                        > [red]
                        debater_1 says:
                        > [gold]
                        debater_2 says:
                        > [green]
    leader_0 says       Answer: [red][gold][green]
    all earn            1.0

## Agents
`debater_0` to `debater_<n-1>` speak one after the other (AEC). A statement is heard in the next
round. So nobody has heard another before the first answer.

With `decides="leader"`, the team of MLPO (arXiv 2507.08960), there are as many debaters, and
`leader_0` speaks last in each round. It knows the question and no evidence of its own, and hears
the debaters of its round. Its last answer is the team's. Debaters hear the leader in the next
round, and nobody else.

## Observations
Chat messages, append-only. The first is one user message: the question, what everybody knows and
the own part. Before each later action one more quotes what the others said in the round before,
line by line behind `> `; the leader is shown the running round. Text up to the last `</think>` is
private and not quoted.

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
| `team` (default) | team | 1 for everybody if the last answer of majority or leader is right |
| `own` | own | 1 for each seat whose own last answer is right: a selfish control |

A majority is more than half of all debaters with the same answer. A tie is wrong; so is a majority
that needs the silent. Votes are counted by text, so two right answers that differ do not add up:
with two debaters, one who names colours and one who names shapes are a tie. With `judge=`, a policy
reads the last statements, and its answer replaces the majority's; a leader has no judge above it.

**Entries of `info`** for every agent

- `success`: the team is right; None before the last statement.
- `answer`: the agent's latest, None for none or several. `right`: whether it is right. `readable`,
  with the last statement: there is an answer (debaters under a leader need none).
- `convention`: which shorthand its first statement followed (generated questions; no leader's).

and after the last statement

- `kind`, `level` of the question. `team_answer`. `judge`: its text, where there is one.
- `majority_right`: of the debaters, one entry per round. `deliberation_gain`: last majority minus
  first: 1, 0 or -1. `leader_gain`, with a leader: success minus the debaters' last majority.
- `pivotal`: this debater can make the majority right, and can prevent it; with a leader, the leader
  alone. `flips`: how often its answer changed between right and wrong.
- `constant_accuracy`: of the best constant answer to this kind of question. `above_constant`:
  success minus that.

## Episode end
After `rounds` statements of every seat. Never truncated.

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

## Deviations from MLPO
1. The leader's answer is a line `Answer:`, not a tag, and its reasoning may be thinking, which the
   debaters are not shown; in the paper they read all of it.
2. Under `info="split"` the debaters hold the evidence, so the leader needs them. In the paper, and
   with `info="full"`, everybody knows the task.

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
from llm_marl_envs.envs.debate.experts import Debaters, LedDebaters
from llm_marl_envs.envs.debate.judges import JUDGE, judge_prompt, verdicts
from llm_marl_envs.envs.questions import (
    Question,
    blind_guess,
    canonical,
    constant_accuracy,
    is_right,
    question_of,
    read_answer,
)

DEFAULT_KINDS = ("safe",)

MAJORITY, LEADER = "majority", "leader"
LEADER_SEAT = "leader_0"

OPENING = (
    "You are {agent}, one of {n} debaters. There are {rounds} rounds; the last answers count.\n"
    "{question}"
    "{own}Tell the others what they need. End with one line: Answer: [your answer]"
)
LED = (
    "You are {agent}, one of {n} debaters. A leader reads you in each round, and you read its "
    "answer. Rounds: {rounds}. The leader's last answer counts.\n"
    "{question}"
    "{own}Tell the leader what it needs. You may end with one line: Answer: [your answer]"
)
LEADING = (
    "You are {agent}. In each round you read {n} debaters, who then read you. Rounds: {rounds}. "
    "Your last answer counts.\n"
    "{question}"
    "{own}End with one line: Answer: [your answer]"
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
    decides: Literal["majority", "leader"] = Field(
        default=MAJORITY, description="whose answer is the team's; a leader is one more seat"
    )
    pay: Literal["team", "own"] = Field(
        default="team", description="whose answer is paid, see Rewards"
    )
    judge: Judge | None = Field(default=None, description="a policy instead of the majority")


class DebateEnv(QuestionEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, `info="split"` for questions without evidence, or a
            judge beside a leader.
        TypeError: `judge` is no policy.
    """

    metadata: ClassVar[dict[str, Any]] = described("debate-v0")
    Options = DebateOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = DebateOptions(**arguments)
        self.led = options.decides == LEADER
        if self.led and options.judge is not None:
            raise ValueError(
                "decides='leader' with a judge: the leader's answer counts; leave `judge` out, or "
                "let the majority debate before it (decides='majority')"
            )
        self.debaters = [f"debater_{seat}" for seat in range(options.n_agents)]
        shares: dict[str, int | None] = {agent: seat for seat, agent in enumerate(self.debaters)}
        super().__init__(
            options,
            shares=shares | ({LEADER_SEAT: None} if self.led else {}),
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
        opening = LEADING if agent == LEADER_SEAT else LED if self.led else OPENING
        return opening.format(
            agent=agent,
            n=len(self.debaters),
            rounds=self.max_turns,
            question=self.asked(question) + "\n",
            own=OWN.format(evidence=own) if own else "",
        )

    def play_one(self, agent: str, action: str) -> Outcome:
        """Hear one statement; after the last one, pay for the team's answer."""
        made = Said.of(agent, action, self._passed_on(agent, action))
        self._statements.append(made)
        own_facts = {**self._facts[agent], "answer": made.answer, "right": self._right(made.answer)}
        if len(self._statements) <= len(self.agents):
            own_facts["convention"] = self.experts().read(self.task, agent, action)
        last_round = len(self._statements) > (self.max_turns - 1) * len(self.agents)
        if last_round and agent in self._asked():
            own_facts["readable"] = made.answer is not None  # earlier rounds need no answer
        self._facts[agent] = own_facts
        facts = dict(self._facts)
        if len(self._statements) < self.max_turns * len(self.agents):
            return Outcome(reward_terms={}, feedback=self._news(), facts=facts)
        verdict = self._verdict()
        success = is_right(self.question, verdict["team_answer"])
        verdict["above_constant"] = success - verdict["constant_accuracy"]
        if self.led:
            verdict["leader_gain"] = success - verdict["majority_right"][-1]
        terms = {
            a: {"team": float(success)} if self.pay == "team" else {"own": float(fact["right"])}
            for a, fact in facts.items()
        }
        for a in self.agents:
            flips = votes.flips([self._right(answer) for answer in self._answers(a)])
            own = {"pivotal": self._pivotal(a), "flips": flips}
            facts[a] = {**facts[a], **verdict, **own}
        return Outcome(reward_terms=terms, ended=True, success=success, facts=facts)

    def _hears(self, agent: str) -> list[str]:
        """Whom an agent is shown: all others; with a leader it hears debaters, and they it."""
        if not self.led:
            return self.others(agent)
        return self.debaters if agent == LEADER_SEAT else [LEADER_SEAT]

    def _asked(self) -> list[str]:
        """Whose answer the team's is made of."""
        return [LEADER_SEAT] if self.led else self.debaters

    def _turns_heard(self, speaker: str) -> int:
        """How many statements of a speaker are shown to those who hear it."""
        heard_at_once = self.led and speaker != LEADER_SEAT
        return self.max_turns if heard_at_once else self.max_turns - 1

    def _passed_on(self, agent: str, action: str) -> Mapping[str, str]:
        # Hearing is mutual, so those whom a seat hears are those who hear it.
        heard = self._taken[agent] <= self._turns_heard(agent)
        return self.pass_on(agent, action, self._hears(agent)) if heard else {}

    def _news(self) -> dict[str, str]:
        """What the next seat is told; nothing where it has heard nobody yet."""
        made = len(self._statements)
        agent = self.agents[made % len(self.agents)]
        # A leader hears the running round. What debaters say is heard by others in the next one.
        until = made if self.led else made - made % len(self.agents)
        fresh = [
            statement
            for statement in self._statements[self._heard[agent] : until]
            if agent in statement.heard
        ]
        self._heard[agent] = until
        if not fresh:
            return {}
        head = ROUND.format(number=made // len(self.agents) + 1, rounds=self.max_turns)
        return {agent: "\n".join([head, *(statement.quoted_to(agent) for statement in fresh)])}

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """After the first round everybody hears everybody; a leader and debaters each other."""
        turns = {agent: self._turns_heard(agent) for agent in self.possible_agents}
        heard = {
            agent: {by: turns[by] for by in self._hears(agent) if turns[by]}
            for agent in self.possible_agents
        }
        return {agent: by for agent, by in heard.items() if by}

    def _pivotal(self, agent: str) -> bool:
        """Whether a seat can make the answer right that the seats give, and can prevent it."""
        if self.led:
            return agent == LEADER_SEAT
        last = [self._answers(other)[-1] for other in self.agents]
        right = [canonical(answer) if answer and self._right(answer) else None for answer in last]
        return votes.pivotal(right, self.agents.index(agent))

    def _answers(self, agent: str) -> list[str | None]:
        return [statement.answer for statement in self._statements if statement.agent == agent]

    def _right(self, answer: str | None) -> bool:
        return is_right(self.question, answer)

    def _verdict(self) -> dict[str, Any]:
        """What everybody is told of the whole debate."""
        rounds = zip(*(self._answers(agent) for agent in self.debaters), strict=True)
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
        if self.led:
            verdict["team_answer"] = self._answers(LEADER_SEAT)[-1]
        if self.judge is not None:
            question = self.asked(self.question) + "\n"
            prompt = judge_prompt(question, self._statements[-len(self.agents) :])
            (text,) = verdicts(self.judge, self, {JUDGE: [prompt]}, [self._judge_seed])
            verdict["judge"], verdict["team_answer"] = text, read_answer(text)
        return verdict

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> Debaters:
        """Report their evidence in a shorthand, then answer with what all reported."""
        experts = LedDebaters if self.led else Debaters
        return experts(self.shares, self.parts, self.divided)

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated questions, decided by majority or by a leader.

        Raises:
            ValueError: for rows, with a judge, and where evidence is divided and nobody hears
                anything, as in a single round without a leader.
        """
        question = question_of(task)
        silent = not self.links() and self.divided
        if self.judge is not None or silent or not self.in_parts(question):
            raise ValueError(
                f"bounds are known for generated questions decided by majority or a leader, not "
                f"for task {task.id!r}"
                + (" with a judge" if self.judge else "")
                + " in one round" * silent
            )
        guess = blind_guess(question)
        together = guess if self.led else self._guessed_together(question, guess)
        return Bounds(
            random=together if self.pay == "team" else guess,
            solo=self.alone(question),
            team=1.0,
        )

    def _guessed_together(self, question: Question, guess: float) -> float:
        """How often a majority of independent guesses is right."""
        n, each = len(self.debaters), guess / len(question.right)
        needed = range(n // 2 + 1, n + 1)
        # At most one of the right answers can have more than half of the votes.
        return len(question.right) * sum(
            comb(n, k) * each**k * (1 - each) ** (n - k) for k in needed
        )
