r"""# math_team-v1: one thinks and one answers, or one solves and one verifies.

## Description
Two seats answer one question of mathematics. With `form="reasoner_actor"` a reasoner speaks and an
actor answers, as in the paper of C3 (arXiv 2603.06859). With `form="solver_verifier"` a solver
answers, a verifier objects or approves, and the solver answers again.

Generated questions are about four cards (`info="split"`, the default for them). One seat knows the
numbers on the cards, the other the question, so neither can answer alone.
docs/environments/math_team.md says what is known, and what remains.

## An episode
Task `train/3`, `form="reasoner_actor"`.

    reasoner_0 is told   Four cards show numbers from 1 to 6: red 6, blue 3, green 5, white 4.
                         actor_0 alone knows the question.
    actor_0 is told      Four cards show numbers from 1 to 6: red, blue, green, white.
                         reasoner_0 alone knows the numbers.
                         What is red / blue?

    reasoner_0 says      6 3 5 4
    actor_0 hears        reasoner_0 says:
                         > 6 3 5 4
    actor_0 says         Answer: 4/5
    both earn            0.0

    actor_0 says         Answer: 2
    both earn            1.0

First the actor took the last number for red: the cards can be read out in two orders, and the
numbers do not say in which.

## Agents
`reasoner_0`, then `actor_0`; or `solver_0`, then `verifier_0` (AEC). The actor and the solver
answer, `turns` times. The verifier speaks after each answer but the last. Two seats, the papers'
roles. There is nothing to draw beside the chats.

## Observations
Chat messages, append-only: the question, or the part of it that the seat knows, then the other's
texts, each line behind `> `. Nobody is told whether an answer is right. With `info="full"`, the
papers' setting, both are told everything; then one seat could do everything.

## Actions
Any text; beyond 4096 characters it is cut. An answer is exactly one line `Answer: ...`, outside of
fences and quotations, of at most 200 characters. Several such lines are no answer. A verifier
approves with exactly one line `Verdict: right`. Then the episode ends, and the answer stands.

- `compare="exact"`: whole numbers, decimals and fractions (`-3`, `2.5`, `5/2`) are compared as
  numbers, other texts by their letters. To a row a fraction in its lowest terms is an answer.
- `compare="math"`: formulas are read, LaTeX or plain, and compared exactly. One reader reads
  answers, right answers and questions. It knows a list of names. With another command in it
  (`\ldots`, `\phantom`) a text is not read. What is not read is right only by its letters.

An answer to a row is *worked out*. To "What is 17*23?" neither `17*23` is an answer nor `{17*23}`,
`y=17*23`, `\max(17*23)` or `340+51`. What only wraps a formula is taken off on both sides: braces,
brackets, boxes, dollars, fonts, a name before `=`. Then three rules hold:

- The answer has the value of the right one, without multiplying out or factoring: `x(x+5)+6` and
  `x^2+5x+6` are no answers where `(x+2)(x+3)` is right. Nor is `2(x+1)` for `2x+2`.
- No more steps are left to the reader than in the right answer. A step joins numbers (`3+4`,
  `6/8`, `2^5`), takes a number out of a root (`\sqrt{12}`), joins like terms (`x+x`), equal letters
  (`x*x`) or something neutral (`f+0`, `f/1`).
- Where the question holds the value already, in any form, the answer is written as the right one
  is, but for the order of terms and factors. To "Write 0.75 as a fraction" neither `0.75` nor
  `75\%` is an answer. Elsewhere `0.75`, `3/4` and `75\%` are one number.

| right answer | also right | wrong |
|---|---|---|
| `\frac{7}{4}` | `7/4`, `1 3/4`, `1.75`, `175\%` | `14/8`, `1+3/4` |
| `\frac{1}{3}` | `0.\overline{3}`, `0.333333`: six decimals | `0.33` |
| `75\%` | `75`, `0.75` | `7.5` |
| `2\sqrt{3}` | `2\cdot 3^{1/2}` | `\sqrt{12}`, `3.46410162` |
| `3\times 10^5` | `300000` | `30\times 10^4` |
| `(-\infty,3)` | `x<3`, `3>x`, `x\in(-\infty,3)` | `x\le 3` |
| `x<3` | `(-\infty,3)` | `y<3` |
| `1, -2` | `\{-2, 1\}`, `x=1 or x=-2` | `(1,-2)`: a pair has an order |
| `101_2` | `(101)_{2}` | `5`, `101`, `101_3` |
| `12\text{ cm}` | `12`, `12 centimeters` | `12 m`, `0.12 m` |
| `12` | `12 cm`: the right answer names no unit | |
| `y=2x+5` | `2x+5`, `y-2x=5` | `y=2(x+1)+3` |

So some honest forms are wrong, too: `x^2+3x+2` for `(x+1)(x+2)`, `\frac{1}{x}+\frac{1}{y}` for
`\frac{x+y}{xy}`, `\frac{\sin x}{\cos x}` for `\tan x`, and `0.75` where the question itself says
`\frac{3}{4}`.

## Rewards
Both seats get the team's number. An answer is paid the *gain*: 1 if it is right, minus 1 if the one
before was right. So the return is 1 if the last answer is right, else 0, and to be right earlier
never returns less.

| term | value |
|---|---|
| team | the gain of an answer: 1, 0 or -1 |

**Entries of `info`**

- `success`: the last answer is right.
- For who answers: `answer`, `readable` (there is one), `right`.
- For who tells: `copied`, its text says the last answer of the other again, in a line of its own or
  quoted; that is measured and never paid more. `approved`, for a verifier. `convention`: in which
  order it read out the cards, where that was all it said.
- At the end, for both: `level`, `kind`, and `refinement`: last answer right minus first answer
  right: 1, 0 or -1.

## Episode end
After the last answer, or when the verifier approves. Never truncated.

## Arguments
`llm-marl spec math_team` lists them.

## Tasks and licence
A split has deals of its own: no deal of a split is one of another with its numbers exchanged. Each
comes with every question of the level. The questions are the same in train, val and test, so there
only the prompt of the seat that knows the cards is new. `ood` has numbers from 7 to 12 and the
formulas of the level above: prompts that neither seat has read. Small calculations such as 3 - 5
occur in every split but `ood`. Texts and tasks were made for this library and share its licence.

GSM8K and MATH (their authors say MIT) are read, not shipped. **Both are old and public: models have
met them in training, with answers.** A score on them is no proof of reasoning. Measure one agent
beside the team.

**Not comparable with published numbers.** Those hold for their authors' prompts, parser, data,
horizon and model. Here the prompts, the answer line and what counts as equal are this library's
own. C3's form is `info="full", turns=1` with rows of MATH, and its prompts ask for `\boxed{}`.
A run file with this form, for a GPU and not run yet: `benchmarks/gpu/math_team.yaml`.

## Version history
- next version: formulas are compared here, exactly, without math-verify. An answer to a row has the
  form of the right one where the question holds its value. Bases, units, mixed numbers and
  inequalities are read. Cards, their prompts and their tasks are as they were.
- v1: an answer to a row must be worked out, however the question's formula is wrapped. Cards, their
  prompts and their tasks are those of v0, so numbers measured on cards stand.
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.checks import check_whole
from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, described
from llm_marl_envs.core.options import INFO, Info, TaskOptions, info_of, tasks_field
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.tasks import Task, Tasks, TaskSource, open_tasks, read_once
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.math.answers import (
    ACTOR,
    REASONER,
    SOLVER,
    TEAMS,
    VERIFIER,
    approves,
    copied,
    read_line,
    same_value,
    value_of,
)
from llm_marl_envs.envs.math.card_tasks import alone_in, card_tasks, cards_of, of_cards
from llm_marl_envs.envs.math.cards import COLOURS
from llm_marl_envs.envs.math.experts import CardExperts
from llm_marl_envs.envs.math.rows import math_task_of_row
from llm_marl_envs.envs.math.worked import is_right
from llm_marl_envs.envs.questions import question_of, same_answer

MAX_ACTION_CHARS = 4096
ROLES = {
    REASONER: f"You are {REASONER}. Tell {ACTOR} what it needs; its answer counts for both.",
    ACTOR: f"You are {ACTOR}. {REASONER} speaks first; your answer counts for both.",
    SOLVER: f"You are {SOLVER}. {VERIFIER} reads each answer; your last one counts for both.",
    VERIFIER: (
        f"You are {VERIFIER}. Tell {SOLVER} what is wrong or missing; its last answer counts for "
        "both. A line 'Verdict: right' ends the work."
    ),
}
FORM = "End with one line: Answer: and then {what}, nothing else."
NUMBER, FORMULA = "a whole number or a fraction", "a number or a formula"
CARDS = "Four cards show numbers from {low} to {high}: {cards}."
HIDDEN = "{other} alone knows the {what}."
QUESTION = "What is {asked}?"
AGAIN = "{answers} answers {turns} times."


class MathTeamOptions(TaskOptions):
    """The arguments of math_team."""

    form: Literal["reasoner_actor", "solver_verifier"] = Field(
        default="reasoner_actor", description="who works together, see Agents"
    )
    tasks: Any = tasks_field(
        "Rows have the columns of GSM8K (`question`, `answer` with `####`) or of MATH (`problem`, "
        "`answer`, or `solution` with a boxed answer), or those of `debate-v0`."
    )
    level: Literal[1, 2] = Field(default=1, description="two cards in a formula, or three")
    info: Info | None = Field(
        default=None,
        description=f"{INFO}. 'split' is for cards alone, and what None takes for them",
    )
    compare: Literal["exact", "math"] | None = Field(
        default=None,
        description="how answers are compared: as numbers, or as formulas; None takes 'exact' for "
        "cards, 'math' for rows",
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="how often the answering seat acts; None takes 1 for an actor, and 2 for a "
        "solver, which is the least for it",
    )


class MathTeamEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("math_team-v1")
    Options = MathTeamOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = MathTeamOptions(**arguments)
        self.team = TEAMS[options.form]
        turns = self.team.turns if options.turns is None else options.turns
        check_whole("turns", turns, self.team.turns)
        source = _opened(options.tasks, options.split, options.level)
        generated = of_cards(source[0])
        self.info_mode = info_of(options.info, generated)
        self.compare = options.compare or ("exact" if generated else "math")
        super().__init__(
            agents=self.team.seats,
            source=source,
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The question or the cards, the role, and how to answer."""
        lines = [*self._knowledge(task, agent), ROLES[agent]]
        if self.max_turns > 1:
            lines.append(AGAIN.format(answers=self.team.answers, turns=self.max_turns))
        if agent == self.team.answers:
            lines.append(FORM.format(what=NUMBER if of_cards(task) else FORMULA))
        return "\n".join(lines)

    def _knowledge(self, task: Task, agent: str) -> list[str]:
        """What a seat is told of a task."""
        if not of_cards(task):
            return [f"Question: {question_of(task).text}"]
        cards = cards_of(task)
        low, high = cards.numbers
        numbers = [f"{colour} {at}" for colour, at in zip(COLOURS, cards.deal, strict=True)]
        shown = CARDS.format(low=low, high=high, cards=", ".join(numbers))
        asked = QUESTION.format(asked=cards.asked.text)
        if not self.divided:
            return [shown, asked]
        if agent == self.team.tells:
            return [shown, HIDDEN.format(other=self.team.answers, what="question")]
        hidden = CARDS.format(low=low, high=high, cards=", ".join(COLOURS))
        return [hidden, HIDDEN.format(other=self.team.tells, what="numbers"), asked]

    def known_calls(self, task: Task, agent: str) -> Sequence[tuple[str, Mapping[str, Any]]]:
        """Whoever answers works out the formula; of rows, which show no work, nothing is known."""
        if not of_cards(task):
            return super().known_calls(task, agent)
        if agent != self.team.answers:
            return ()
        cards = cards_of(task)
        return (("calculate", {"expression": cards.asked.expression(cards.deal)}),)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has spoken."""
        self._right: list[bool] = []  # of each answer
        self._answered = ""  # the last text of who answers
        self._facts: dict[str, dict[str, Any]] = {agent: {} for agent in self.team.seats}

    def play_one(self, agent: str, action: str) -> Outcome:
        """The other seat hears it; an answer is judged and paid."""
        paid: float | None = None
        if agent == self.team.answers:
            paid = self._judge(agent, action)
            last = self._taken[agent] >= self.max_turns
        else:
            last = self._hear(agent, action)
        terms = {} if paid is None else {seat: {"team": paid} for seat in self.team.seats}
        return Outcome(
            reward_terms=terms,
            feedback={} if last else self._heard(agent, action),
            ended=last,
            success=bool(self._right) and self._right[-1],
            facts=self._finished() if last else self._facts,
        )

    def _heard(self, agent: str, action: str) -> dict[str, str]:
        heard = self.pass_on(agent, action, [self.next_agent(agent)])
        return {other: quoted(agent, text) for other, text in heard.items()}

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Who acts second hears the first; with more turns both hear each other."""
        first, second = self.team.seats
        forth = self.max_turns - (first == self.team.answers)  # its last answer ends the episode
        back = self.max_turns - 1
        return {second: {first: forth}, **({first: {second: back}} if back else {})}

    def _judge(self, agent: str, action: str) -> float:
        """What an answer is paid."""
        answer = read_line(action)
        self._answered = action
        self._right.append(answer is not None and self.is_right(self.task, answer))
        self._facts[agent] = {
            "answer": answer,
            "readable": answer is not None,
            "right": self._right[-1],
        }
        return float(gains(self._right)[-1])

    def _hear(self, agent: str, action: str) -> bool:
        """Note what the seat that tells has said; whether it ends the episode."""
        approved = agent == VERIFIER and approves(action)
        self._facts[agent] = {
            "copied": copied(action, self._answered),
            "convention": self.experts().read(self.task, agent, action),
            **({"approved": approved} if agent == VERIFIER else {}),
        }
        return approved

    def _finished(self) -> dict[str, dict[str, Any]]:
        """The entries of the last infos."""
        rows = not of_cards(self.task)
        verdict = {
            "kind": question_of(self.task).kind if rows else "cards",
            "level": self.task.data["level"],
            "refinement": int(self._right[-1]) - int(self._right[0]),
        }
        return {agent: {**own, **verdict} for agent, own in self._facts.items()}

    def is_right(self, task: Task, answer: str) -> bool:
        """Whether an answer, as `answers.read_line` gives it, is a right one."""
        if of_cards(task):
            cards = cards_of(task)
            return same_value(answer, str(cards.asked.answer(cards.deal)))
        question = question_of(task)
        return any(self._agrees(answer, right, question.text) for right in question.right)

    def _agrees(self, answer: str, right: str, question: str) -> bool:
        if self.compare == "exact":
            if None in (value_of(answer), value_of(right)):
                return same_answer(answer, right)
            return same_value(answer, right) and is_right(answer, right, question)
        return is_right(answer, right, question)

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> CardExperts:
        """One reads out the cards, the other calculates."""
        return CardExperts(self.divided)

    def clusters(self, task: Task) -> tuple[str, ...]:
        """The two prompts: a deal comes with many questions, and they with many deals."""
        if not self.divided:
            return ()
        return tuple(messages[-1].content for messages in self.first_words(task).values())

    def bounds(self, task: Task) -> Bounds:
        """Known returns of cards, over all tasks of the split.

        Raises:
            ValueError: for rows.
        """
        if not of_cards(task):
            raise ValueError(
                f"task {task.id!r}: bounds are known for generated cards, not for rows"
            )
        alone = alone_in(task.split, task.data["level"])
        solo = max(alone.cards, alone.question) if self.divided else 1.0
        return Bounds(random=alone.random, solo=solo, team=1.0)


@read_once
def _opened(tasks: Tasks, split: str, level: int) -> TaskSource:
    return open_tasks(
        tasks,
        split=split,
        procedural=lambda split: card_tasks(split, level),
        from_row=math_task_of_row,
    )
