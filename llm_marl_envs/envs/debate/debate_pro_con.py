"""# debate_pro_con-v0: two debaters, one of them right; the judge has not read their source.

## Description
Two debaters claim opposite things, and one of them is right. Both have read a source that settles
the question. The judge has not, and must find out from what they say. They may quote the source.
The environment checks each quotation: the judge sees the true ones as verified, others are struck.
docs/environments/debate_pro_con.md says what is known, and what remains.

## An episode
Task `train/0`. One quotation counts per statement. Dots stand for lines that are left out here.

    pro_0 is told    You are pro_0 and claim: [Hal]. con_0 claims: [Ana].
                     One of you is right. ...
                     Question: Who was at the scene every time?
                     ...
                     Time 1, at the scene: [Ana][Gus]
                     Time 1, elsewhere: [Hal][Jon]
                     Time 2, at the scene: [Ana][Hal]
                     ...

    pro_0 says       Quote: Time 2, at the scene: [Ana][Hal]
    con_0 says       Quote: Time 1, elsewhere: [Hal][Jon]
    pro_0 hears      con_0 says:
                     Verified: Time 1, elsewhere: [Hal][Jon]
    pro_0 says       Quote: Time 1, at the scene: [Hal]
    con_0 says       So it was not Hal.
    judge_0 hears    con_0 claims: [Ana]
                     pro_0 claims: [Hal]
                     ...
                     con_0 says:
                     Verified: Time 1, elsewhere: [Hal][Jon]
                     con_0 says:
                     > So it was not Hal.
                     pro_0 says:
                     Verified: Time 2, at the scene: [Ana][Hal]
                     pro_0 says:
                     Struck: a quotation that is not in the source, or one too many.
    judge_0 says     Answer: [Ana]

    con_0 earns      1.0
    pro_0 earns      0.0
    judge_0 earns    1.0

`con_0` quoted a line that refutes the other claim. `pro_0` quoted a true line that proves nothing,
then made one up. The judge gave the right verdict, so it earns 1, and so does the side that won.

The question alone decides which side is right and which wrong answer is offered, with equal
chances. So without the debate a judge is right half of the time, on questions that it has not met.
With `info="full"`, the control, the judge reads the source too.

## Agents
`pro_0` and `con_0` speak for `rounds` rounds, then `judge_0` (AEC). `judge="seats"` adds `judge_1`,
which is shown the same in swapped order. With a policy or "scripted" as `judge=` the environment
asks the judge itself, once per order, and no seat is a judge's. There is no `n_agents`.

## Observations
Chat messages, append-only. A debater is told the question, both claims and the source. In each
later round it hears the other's statement of the round before, never of the running one. A judge is
told the question. At last it is shown both claims and all statements, one side after the other. Own
words of debaters stand behind `> `, verified quotations behind `Verified: `.

## Actions
Debaters: any text. A line `Quote: <line>` quotes one whole line or sentence of the source, word for
word (spaces and Unicode form aside). At most `quotes` of them count per statement, and none twice.
Judges: any text with exactly one line

    Answer: [the claim]

read as `core/answers.py` says. Anything else is no verdict. Text beyond 4096 characters is
cut, also where a policy judges.

## Rewards
Paid once, at the end. Every return is in [0, 1].

| seat | term | value |
|---|---|---|
| pro, con | won | share of the verdicts for this side; no verdict counts half; they sum to 1 |
| judge | accuracy | 1 if its own verdict is the right claim |

Train the sides on their own rewards (`credit="own"` of the trainer), for their mean is constant.

**Entries of `info`** for every agent

- `success`: every verdict is right.
- `verified` and `struck`: quotations of each side, from the start.
- `readable`: of a judge in a seat, once it has spoken: there is a verdict.

and after the end

- `kind`, `level`, `pro_right`. `verdicts`: "pro", "con" or None, one per judge.
- `judge_accuracy`: share of right verdicts. `position_bias`: the two orders got different verdicts;
  None for one seat.

## Episode end
After the last judge. Never truncated.

## Arguments
`llm-marl spec debate_pro_con` lists them.

## Tasks and licence
As in `debate-v0`.

## Version history
- v0: first version. Before the first release lost and games had 216 questions each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.options import INFO, TURNS, Info
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.debate import sides as rules
from llm_marl_envs.envs.debate.base import Judge, QuestionEnv, QuestionOptions, question_field
from llm_marl_envs.envs.debate.experts import CON, PRO, SideExperts, sides, source_of
from llm_marl_envs.envs.debate.judges import QuotesJudge, hearing, side_of, verdicts
from llm_marl_envs.envs.debate.quotes import Statement, read_statement, shown
from llm_marl_envs.envs.questions import question_of
from llm_marl_envs.policies.base import Policy

JUDGES = ("judge_0", "judge_1")
SEATS = {"seat": 1, "seats": 2}
PARTS = 3

DEBATER = (
    "You are {agent} and claim: [{own}]. {other_agent} claims: [{other}]. One of you is right. "
    "The judge has {read} the source.\n{question}\nSource:\n{source}\n"
    "Convince the judge. Lines of the source that count: {quotes}, written as Quote: <line>"
)
ROUND = "Round {number} of {rounds}."
JUDGE = "You are the judge. Two debaters who have read a source disagree; one is right.\n{question}"
SOURCE = "\nSource:\n{source}"


class DebateProConOptions(QuestionOptions):
    """The arguments of debate_pro_con."""

    tasks: Any = question_field(
        "Kinds default to suspects, meeting, order, lost, games, in which a single line of the "
        "source refutes the wrong claim. Rows need `evidence` or `shared` as the source, and "
        "`choices` or a `lure` for the wrong claim."
    )
    info: Info | None = Field(default=None, description=f"{INFO}; None takes 'split'")
    rounds: int = Field(default=2, ge=1, description=TURNS)
    quotes: int = Field(default=1, ge=1, description="quotations per statement that count")
    speech: bool = Field(
        default=True,
        description="False shows the judge verified quotations alone, without the debaters' words",
    )
    judge: Literal["seat", "seats", "scripted"] | Judge = Field(
        default="seat",
        description="'seat': one, the reset seed draws which side it is shown first; 'seats': "
        "two, both orders averaged; 'scripted' (`debate/judges.py`) or a policy: these two "
        "read both orders, averaged",
    )


class DebateProConEnv(QuestionEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or a question without a source or a wrong answer.
        TypeError: `judge` is no policy and none of the words.
    """

    metadata: ClassVar[dict[str, Any]] = described("debate_pro_con-v0")
    Options = DebateProConOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = DebateProConOptions(**arguments)
        judge = options.judge
        seats = SEATS.get(judge, 0) if isinstance(judge, str) else 0
        policy = QuotesJudge() if isinstance(judge, str) else judge
        self.judge = None if seats else policy
        self.judges = JUDGES[: seats or len(JUDGES)]
        super().__init__(
            options,
            shares=dict.fromkeys([PRO, CON, *JUDGES[:seats]]),  # both sides read the whole source
            kinds=rules.KINDS,
            parts=PARTS,
            turns=options.rounds,
        )
        self.quotes, self.speech = options.quotes, options.speech
        self._order = [PRO, CON] * options.rounds + self.possible_agents[2:]

    def info_of(self, info: Info | None) -> Info:
        """As `QuestionEnv.info_of`; what is divided is who reads the source, of any question."""
        return info or "split"

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """The claims; draws which side `judge_0` is shown first."""
        super().begin_episode()
        self.claims = rules.claims_of(self.question)
        self.lines = source_of(self.question)
        self._made: list[Statement] = []
        self._verdicts: list[str | None] = []
        self._heard: dict[str, list[Statement]] = {agent: [] for agent in self.agents}
        self._pro_first = self.rng.random() < 0.5
        self._judge_seed = self.rng.getrandbits(63)

    def next_agent(self, agent: str) -> str:
        """Sides in turn, then the judges."""
        made = len(self._made) + len(self._verdicts)
        return self._order[made % len(self._order)]

    def brief(self, task: Task, agent: str) -> str:
        """A side: both claims and the source; a judge: the question."""
        question = question_of(task)
        asked = f"Question: {question.text}"
        if agent in self.judges and self.divided:
            return JUDGE.format(question=asked)
        source = "\n".join(source_of(question))
        if agent in self.judges:
            return JUDGE.format(question=asked) + SOURCE.format(source=source)
        own, other_agent = sides(question), CON if agent == PRO else PRO
        return DEBATER.format(
            agent=agent,
            own=own[agent],
            other_agent=other_agent,
            other=own[other_agent],
            read="not read" if self.divided else "also read",
            question=asked,
            source=source,
            quotes=self.quotes,
        )

    def play_one(self, agent: str, action: str) -> Outcome:
        """Hear one statement or one verdict; after the last, pay."""
        if agent in self.judges:
            self._verdicts.append(side_of(action, self.claims))
        else:
            self._hear(agent, action)
        ready = len(self._made) == 2 * self.max_turns
        if ready and self.judge is not None:
            self._verdicts = self._run_judge(self.judge)
        if len(self._verdicts) == len(self.judges):
            return self._end()
        facts = {seat: {**self._quoted(), **self._readable(seat)} for seat in self.agents}
        feedback = self._hearings() if ready and not self._verdicts else self._news()
        return Outcome(reward_terms={}, feedback=feedback, facts=facts)

    def _news(self) -> dict[str, str]:
        """What the next debater is told: the other's statement of the round before."""
        number, place = divmod(len(self._made), 2)
        if not number or number >= self.max_turns:
            return {}
        agent = self._order[place]
        last = self._heard[agent][number - 1]
        head = ROUND.format(number=number + 1, rounds=self.max_turns)
        return {agent: f"{head}\n{shown(last, speech=True)}"}

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Sides hear each other where there are rounds; judges in seats hear both."""
        rounds = self.max_turns
        sides = {PRO: {CON: rounds - 1}, CON: {PRO: rounds - 1}} if rounds > 1 else {}
        return sides | {judge: {PRO: rounds, CON: rounds} for judge in self.possible_agents[2:]}

    def _hear(self, agent: str, action: str) -> None:
        """Read a statement, and what each who is to be shown it makes of it."""
        listeners = list(self.possible_agents[2:])
        if self._taken[agent] < self.max_turns:
            listeners.insert(0, CON if agent == PRO else PRO)
        before = [quote for made in self._made if made.agent == agent for quote in made.verified]
        made = read_statement(agent, action, self.lines, self.quotes, before)
        self._made.append(made)
        for listener, text in self.pass_on(agent, action, listeners).items():
            if text != action:
                heard = read_statement(agent, text, self.lines, self.quotes, before)
                self._heard[listener].append(heard)
            else:
                self._heard[listener].append(made)

    def _hearings(self) -> dict[str, str]:
        """What each judge is told; the second one in swapped order."""
        claims = {PRO: self.claims.pro, CON: self.claims.con}
        texts = {}
        for place, judge in enumerate(self.judges):
            order = (PRO, CON) if self._pro_first == (place == 0) else (CON, PRO)
            heard = self._heard.get(judge, self._made)
            texts[judge] = hearing({a: claims[a] for a in order}, heard, self.speech)
        return texts

    def _run_judge(self, judge: Policy) -> list[str | None]:
        """Ask the policy that judges, once per order, in one call."""
        hearings = self._hearings()
        prompts = {agent: [self.brief(self.task, agent), hearings[agent]] for agent in hearings}
        seeds = [derive_seed(self._judge_seed, agent) for agent in hearings]
        texts = verdicts(judge, self, prompts, seeds)
        return [side_of(text, self.claims) for text in texts]

    def _quoted(self) -> dict[str, Any]:
        """Quotations of each side so far."""
        by_side = {side: [made for made in self._made if made.agent == side] for side in (PRO, CON)}
        return {
            "verified": {side: sum(len(m.verified) for m in by_side[side]) for side in by_side},
            "struck": {side: sum(m.struck for m in by_side[side]) for side in by_side},
        }

    def _end(self) -> Outcome:
        right_side = "pro" if self.claims.pro_right else "con"
        right = [side == right_side for side in self._verdicts]
        for_pro = [{"pro": 1.0, "con": 0.0, None: 0.5}[side] for side in self._verdicts]
        won = sum(for_pro) / len(for_pro)
        terms = {PRO: {"won": won}, CON: {"won": 1 - won}}
        for place, agent in enumerate(self.possible_agents[2:]):
            terms[agent] = {"accuracy": float(right[place])}
        both = len(right) > 1
        facts = {
            "kind": self.question.kind,
            "level": self.question.level,
            "pro_right": self.claims.pro_right,
            "verdicts": list(self._verdicts),
            "judge_accuracy": sum(right) / len(right),
            "position_bias": self._verdicts[0] != self._verdicts[1] if both else None,
            **self._quoted(),
        }
        return Outcome(
            reward_terms=terms,
            ended=True,
            success=all(right),
            facts={agent: {**facts, **self._readable(agent)} for agent in self.agents},
        )

    def _readable(self, agent: str) -> dict[str, bool]:
        """Whether a judge that sits in a seat gave a verdict; nothing is asked of debaters."""
        by_judge = dict(zip(self.possible_agents[2:], self._verdicts, strict=False))
        return {"readable": by_judge[agent] is not None} if agent in by_judge else {}

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> SideExperts:
        """Debaters that quote lines of their convention, and the scripted judge in every seat."""
        return SideExperts(self.quotes)

    def bounds(self, task: Task) -> Bounds:
        """Known mean rewards over the seats, for judges in seats and generated questions.

        Raises:
            ValueError: for rows, and where the environment runs the judge.
        """
        question = question_of(task)
        if self.judge is not None or question.kind not in rules.KINDS or not question.parts:
            raise ValueError(
                f"bounds are known for judges in seats and generated questions of {rules.KINDS}, "
                f"not for task {task.id!r}" + (" with this judge" if self.judge else "")
            )

        def mean(accuracy: float) -> float:
            return (1 + len(self.judges) * accuracy) / (2 + len(self.judges))

        return Bounds(mean(0.5), mean(0.5 if self.divided else 1.0), mean(1.0))
