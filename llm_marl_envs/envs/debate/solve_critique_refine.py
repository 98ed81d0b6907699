"""# solve_critique_refine-v0: a generator drafts, critics object, a refiner answers.

## Description
A generator writes a draft. Each critic reads it and says what is wrong or missing. A refiner reads
all of it and gives the answer that counts. This is the chain of MALT (arXiv 2412.01928), with a
question that has one right answer. Each seat alone holds a part of the evidence, and what everybody
knows is wrong. So the refiner needs the others' reports, in words that it reads as they were meant.
docs/environments/solve_critique_refine.md says what is known, and what remains.

## An episode
Task `train/0`. A safe has three dials. A right answer names all colours, or all shapes.

    generator_0 is told   Question: The safe has 3 dials. Name them all by colours or
                          all by shapes, dial 1 first.
                          Everybody knows:
                          The manual says [blue][green][blue].
                          Only you know:
                          Dial 1: [red][cross]
    critic_0 is told      Dial 2: [gold][star]
    refiner_0 is told     Dial 3: [green][ring]

    generator_0 says      [red]
                          Answer: [blue][green][blue]
    critic_0 says         [star]
    refiner_0 hears       generator_0 says:
                          > [red]
                          > Answer: [blue][green][blue]
                          critic_0 says:
                          > [star]
    refiner_0 says        Answer: [red][star][green]
    all earn              0.0

The draft repeats the manual, for the generator sees one dial alone. The critic names a shape, the
others name colours. Had the critic named the colour:

    critic_0 says         [gold]
    refiner_0 says        Answer: [red][gold][green]
    all earn              1.0

This is `info="split"`, the default for questions that bring evidence. With `info="full"`, the
papers' setting, everybody is told everything.

## Agents
`generator_0`, `critic_0` to `critic_<n-3>`, `refiner_0`; each acts once, in this order (AEC).

`credit="difference"` adds *shadows*: seats of worlds in which one message was blank. They measure
what that message was worth. For each critic there is one more refiner, which is shown a blank
critique. For the generator there are one more critic for each critic and one more refiner, which
are shown a blank draft. With three agents the shadows are `refiner_1` (no critique), `critic_1` and
`refiner_2` (no draft). Seat the same policies there.

## Observations
Chat messages, append-only: one with the question and the own part, then one with the texts that the
seat hears, each line behind `> `. A shadow is shown what its seat would have been shown.

## Actions
Any text. An answer is exactly one line `Answer: [your answer]`, read as `core/answers.py`
says. Quoted and fenced lines do not count. Text beyond 4096 characters is cut.

## Rewards
Paid once, after the last seat. Returns are in [0, 1], and in [-1, 1] with `difference`.

| `credit` | seat | term | value |
|---|---|---|---|
| `team` (default) | all | team | 1 if the refiner's answer is right |
| `difference` | generator, critics | difference | success - success of the world without it |
| | refiner_0 | difference | success - whether the draft was right |
| | shadows | shadow | success of their own world |

What a difference subtracts does not depend on the seat's own action. So a seat can raise its
difference only by raising the team's success. A difference is exact if the policies are
deterministic and sit in the shadows too, else it is an estimate. A blank refiner is taken to leave
the draft as the answer: a definition, not a measurement. Train on differences with `credit="own"`
of the trainer; a mean over seats would mix them with the shadows' pay.

**Entries of `info`** for every agent

- `success`: the refiner's answer is right. `right`: this seat's answer is right.
- `convention`: which shorthand its text follows (generated questions under `split`).
- `answer` (None for none or several) and `readable` (there is one): for all but critics, once they
  have spoken.

and after the end

- `kind`, `level`, `draft_right`. `refinement`: success minus `draft_right`: 1, 0 or -1. It is what
  critics and refiner did together.
- `cooperative_success`: success, and the draft was wrong.
- `without`, with `difference`: seat -> success of the world without it.

## Episode end
After every seat has acted once. Never truncated.

## Arguments
`llm-marl spec solve_critique_refine` lists them.

## Tasks and licence
As in `debate-v0`.

## Version history
- v0: first version. Before the first release the default kinds were suspects, points, meeting,
  order, cups, lights and seats, and cups, lights and seats asked for fewer totals.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, described
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.debate.base import QuestionEnv, QuestionOptions, question_field
from llm_marl_envs.envs.debate.experts import ChainExperts
from llm_marl_envs.envs.debate.stations import (
    CRITIC,
    FIRST,
    GENERATOR,
    LAST,
    REFINER,
    Station,
    chain,
    shadows,
)
from llm_marl_envs.envs.questions import (
    blind_guess,
    is_right,
    question_of,
    read_answer,
)

DEFAULT_KINDS = ("safe", "cups", "lights", "seats")

OPENING = {
    GENERATOR: "You are the generator. Critics read your draft, a refiner gives the last answer.",
    CRITIC: "You are a critic. You read a draft; a refiner reads both and gives the last answer.",
    REFINER: "You are the refiner. You read a draft and critiques; your answer counts.",
}
TASKS = {
    GENERATOR: "Tell what the others need. End with one line: Answer: [your answer]",
    CRITIC: "Tell what the refiner needs: what is wrong or missing.",
    REFINER: "End with one line: Answer: [your answer]",
}


class SolveCritiqueRefineOptions(QuestionOptions):
    """The arguments of solve_critique_refine."""

    tasks: Any = question_field(
        "Kinds default to safe, cups, lights, seats, where every part is needed. In suspects, "
        "points and meeting any two are enough, in order often, so there a critique may be worth "
        "nothing."
    )
    n_agents: int = Field(
        default=3,
        ge=3,
        le=9,
        description="seats, shadows not counted; generated evidence is divided into as many parts",
    )
    credit: Literal["team", "difference"] = Field(
        default="team", description="what is paid, see Rewards"
    )


class SolveCritiqueRefineEnv(QuestionEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for questions without evidence.
    """

    metadata: ClassVar[dict[str, Any]] = described("solve_critique_refine-v0")
    Options = SolveCritiqueRefineOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **arguments: Any) -> None:
        options = SolveCritiqueRefineOptions(**arguments)
        n_agents = options.n_agents
        self.shadowed = options.credit == "difference"
        seats = (*chain(n_agents), *(shadows(n_agents) if self.shadowed else ()))
        self.stations: dict[str, Station] = {station.agent: station for station in seats}
        super().__init__(
            options,
            shares={station.agent: station.share for station in seats},
            kinds=DEFAULT_KINDS,
            turns=1,
        )
        if self.shadowed:
            self.reward_range = (-1.0, 1.0)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has acted."""
        super().begin_episode()
        self._shown: dict[tuple[str, str], str] = {}  # (speaker, listener) -> what is shown
        self._facts: dict[str, dict[str, Any]] = {  # agent -> what its text says, read once
            a: {"right": False, "convention": None} for a in self.agents
        }

    def brief(self, task: Task, agent: str) -> str:
        """Role, question, own part; seats of one role and part are told the same."""
        role = self.stations[agent].role
        return "\n".join([OPENING[role], *self.told(question_of(task), agent), TASKS[role]])

    def play_one(self, agent: str, action: str) -> Outcome:
        """Hear one seat; after the last one, pay."""
        self._shown |= {(agent, to): text for to, text in self._passed_on(agent, action).items()}
        answer = read_answer(action)
        self._facts[agent] = {
            "right": is_right(self.question, answer),
            "convention": self.experts().read(self.task, agent, action),
        }
        if self.stations[agent].role != CRITIC:  # critics are asked for none
            self._facts[agent] |= {"answer": answer, "readable": answer is not None}
        facts = self._facts
        following = self.next_agent(agent)
        if following != self.possible_agents[0]:
            listener = self.stations[following]
            statements = [
                (name, self._shown.get((by or "", following), "")) for name, by in listener.hears
            ]
            texts = [quoted(name, text) for name, text in statements]
            feedback = {listener.agent: "\n".join(texts)} if texts else {}
            return Outcome(reward_terms={}, feedback=feedback, facts=facts)
        success, draft = self._right(LAST), self._right(FIRST)
        verdict: dict[str, Any] = {
            "kind": self.question.kind,
            "level": self.question.level,
            "draft_right": draft,
            "refinement": success - draft,
            "cooperative_success": success and not draft,
        }
        if self.shadowed:
            verdict["without"] = self._without()
        return Outcome(
            reward_terms={agent: self._terms(agent) for agent in self.stations},
            ended=True,
            success=success,
            facts={agent: {**own, **verdict} for agent, own in facts.items()},
        )

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Each seat hears those before it, shadows in the world that they stand in."""
        heard = {
            station.agent: {by: 1 for _, by in station.hears if by}
            for station in self.stations.values()
        }
        return {listener: by for listener, by in heard.items() if by}

    def _passed_on(self, agent: str, action: str) -> dict[str, str]:
        listeners = [listener for listener, heard in self.links().items() if agent in heard]
        return self.pass_on(agent, action, listeners) if listeners else {}

    def _without(self) -> dict[str, bool]:
        """Seat -> success of the world in which its message was blank."""
        successes = {LAST: self._right(FIRST)}
        for agent, station in self.stations.items():
            if station.without and station.role == REFINER:
                successes[station.without] = self._right(agent)
        return successes

    def _terms(self, agent: str) -> dict[str, float]:
        success = self._right(LAST)
        if not self.shadowed:
            return {"team": float(success)}
        without = self._without()
        world = self.stations[agent].without
        if world:
            return {"shadow": float(without[world])}
        return {"difference": float(success - without[agent])}

    def _right(self, agent: str) -> bool:
        return self._facts[agent]["right"]

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> ChainExperts:
        """Report their evidence in a shorthand; generator and refiner answer."""
        return ChainExperts(self.shares, self.parts, self.divided)

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated questions with `credit="team"`.

        Raises:
            ValueError: for rows, and for `credit="difference"`.
        """
        question = question_of(task)
        if self.shadowed or not self.in_parts(question):
            raise ValueError(
                f"bounds are known for credit='team' and generated questions, not for "
                f"credit={'difference' if self.shadowed else 'team'!r}, task {task.id!r}"
            )
        return Bounds(random=blind_guess(question), solo=self.alone(question), team=1.0)
