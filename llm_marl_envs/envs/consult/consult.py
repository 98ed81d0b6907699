"""# consult-v0: one asks, each question has a price, and answers; the other knows the facts.

## Description
`person_0` has a record of facts. `asker_0` is told one or two of them, and what facts mean, which
the person does not know. It may ask, or answer and end the episode. A right answer is worth 1, and
each question costs `price`. With `kind="case"` something is wrong with a machine, and the chances
of each fact are told. With `kind="build"` the asker writes a Python function of which the person
knows the details. docs/environments/consult.md says what is known, and what remains.

## An episode
Task `train/5`. Dots stand for lines that are left out here.

    asker_0 is told    person_0 has a machine. One thing is wrong with it: bearing,
                       motor, nozzle, pump, seal, spring.
                       Of 19 such machines so many have it, with these signs
                       (usually: 9 in 10; sometimes: 5 in 10; ...
                       bearing, 3: usually smells, clicks, sparks; lamp red, speed fast
                       ...
                       pump, 4: usually clicks, sparks; sometimes hums, smokes; lamp
                       off, speed normal
                       ...
                       person_0 says:
                       > clicks: yes
    person_0 is told   hums: yes
                       smokes: yes
                       smells: no
                       ...

    asker_0 says       Does it stink?
    person_0 hears     asker_0 says:
                       > Does it stink?
    person_0 says      smells: no
    asker_0 hears      person_0 says:
                       > smells: no
                       Turn 2 of 6.
    asker_0 says       speed?
    person_0 says      speed: normal
    asker_0 says       Answer: pump
    both earn          0.9

An answer at once is right in 0.31 of such cases at best. The two questions cost 0.05 each. Here the
person told what it was asked, as the scripted one does. A person in a seat can tell everything:

    asker_0 says       Tell me all that you know.
    person_0 says      It hums, smokes, clicks and sparks. Lamp: off, speed: normal.
    asker_0 says       Answer: pump
    both earn          0.95

## Agents
`asker_0`, then `person_0` (AEC). The person is a seat: a policy that learns, an endpoint, a human,
or a scripted expert. With `person="script"` the environment answers itself, and `asker_0` is the
only seat. The seats follow from this argument alone. The default has both, for whatever compares,
seats or silences agents needs two; for a scripted person in its seat name the partner
`expert:asked`.

The scripted person tells the first fact that a question names, in the form `leaks: yes`, and no
more. It says `Not known.` to all else. It does not know what is wrong, so it cannot tell it.

A person in a seat may say anything, and can tell everything at once. So the best team asks once.

## Observations
Chat messages, append-only. The asker is told the table of chances or the family of functions, and
the complaint. Then it reads each answer, every line behind `> `, and which turn it is. The person
is told its record and the complaint, then reads each question. With `info="full"`, a control, the
asker is told the record, too.

## Actions
Of the asker any text; beyond 4096 characters it is cut.

- `kind="case"`: exactly one line `Answer: ...`, read as `core/answers.py` says, ends the episode.
- `kind="build"`: a text with a line that begins with `def f(` ends it, fenced or not. It runs in a
  confined process.
- All else is a question, silence too. Its last line with a question mark counts, else its last
  line. In it the words of facts are looked for (`envs/consult/vocabulary.py` has other words for
  them), and `f(7)` for the price of seven.

Of the person any text.

## Rewards
All seats get the team's number. The range of the return is -`price` x `turns` to 1.

| term | value |
|---|---|
| right | 1 for a right answer, at the end; a program is right if it passes all assertions |
| asked | -`price` for each turn of the asker without an answer |

Asking pays nothing as such. With `reward="paper"` the term `paper` is what DoctorAgent-RL (arXiv
2505.19630) pays: five times the likeness of words, and 1 for a question that is answered.
`envs/consult/paper.py` has the numbers, and where this differs from the paper. It is for cases.

**Entries of `info`** of the asker

- `success`: the answer is right. `answer`, of cases: the class that it named, or None. `readable`:
  the last text names a fact, or is an answer that can be right.
- `questions`, of them `repeated` (the fact was asked for or told before, in whatever words) and
  `unreadable` (no fact was named).
- At the end, of generated tasks: `information`, what each question was expected to tell, in bits;
  `chance`, of the right answer, by all true facts that it was told.

and of the person, from its first answer on: `stated` (true facts that its last text states),
`unasked` (of them not asked for), `untrue` (facts that are not so), `names_class` (it says one of
the classes), `readable` (it states a fact, or says that it does not know).

## Episode end
With the answer, or after the asker's last turn. Never truncated.

## Arguments
`llm-marl spec consult` lists them.

`bounds(task)` is exact, in the mean of what the complaint leaves open: `random` is a class or a
function drawn from all, `solo` the best answer without a question. `team` with `person="script"` is
the best asker, by expectimax over the facts that may be asked (`envs/consult/plans.py`). With a
person in a seat it is one question, after which the asker knows everything. Rows have no bounds.
Beside the script there are none for more than 12 facts or 2**18 states, which 12 turns can lead to.

## Experts
`expert:asked` asks for the fact that the best asker asks for, and answers when no question is worth
its price. As the person it is the script. `expert:all` asks for everything, and tells everything.

## Tasks and licence
A case has 8 to 12 facts, of which two have three values, and 6 to 16 classes. It is drawn as the
asker is told: the class by its weight, then each fact by the class. Which facts the complaint tells
was drawn apart. A table of chances is of one split alone. `ood` asks about plants.

A build is a function of a family of 256, told with one of its details. A split has functions of its
own, and `ood` a family of its own. Texts and tasks were made for this library and share its
licence.

Rows have `prompt`, `facts` (a map of names and values), perhaps `complaint` (a list of names), and
`classes` and `answer`, or `entry_point`, `tests` and `solution`. This is the form of MTMedDialog
and of ColBench's backend tasks, whose rows have licences of their own and are not here.

**Not comparable with published numbers.** Those hold for their authors' prompts, persons and data.

## Version history
- v0: first version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.answers import read_answer, same_answer
from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, described
from llm_marl_envs.core.options import INFO, Info, Share, TaskOptions, tasks_field
from llm_marl_envs.core.parsing import code_of
from llm_marl_envs.core.tasks import Task, Tasks, TaskSource, open_tasks, read_once
from llm_marl_envs.core.texts import quoted
from llm_marl_envs.envs.consult import paper
from llm_marl_envs.envs.consult.builds import FUNCTIONS
from llm_marl_envs.envs.consult.experts import ASKER, PERSON, ConsultExperts
from llm_marl_envs.envs.consult.record import (
    NOT_KNOWN,
    asked_fact,
    names_one_of,
    stated_facts,
    true_facts,
)
from llm_marl_envs.envs.consult.subjects import Subject, generated, plan_of, subject_of, task_of_row
from llm_marl_envs.sandbox import Sandbox, default_sandbox

MAX_ACTION_CHARS = 4096
UNREADABLE = ("load_error", "no_entry_point")
"""How the sandbox calls a text that is no program for the function."""
ASK = (
    "You are {asker}. {person} alone knows the facts. A question is one line that names a fact"
    "{names}. You have {turns} turns for {asked} and your answer; each turn without an answer "
    "costs {price:g}."
)
ANSWER = {
    "case": "End with one line: Answer: and then what is wrong.",
    "build": "End with the Python function {entry_point}, code only.",
}
ALL_FACTS = "You know what {person} knows:\n{facts}"
TELL = (
    "You are {person}. {statement} What you know:\n{facts}\n{asker} must find the answer for both. "
    "Each question costs both {price:g}. {asker} was told: {complaint}."
)
TURN = "Turn {turn} of {turns}."
LAST = "Turn {turn} of {turns}: answer now."


class ConsultOptions(TaskOptions):
    """The arguments of consult."""

    kind: Literal["case", "build"] = Field(
        default="case", description="find what is wrong, or write a function"
    )
    person: Literal["seat", "script"] = Field(
        default="seat",
        description="'seat': person_0 is an agent; 'script': the environment answers what was "
        "asked, and asker_0 is the only agent",
    )
    tasks: Any = tasks_field("Rows have `prompt` and `facts`, see Tasks.")
    info: Info = Field(default="split", description=f"{INFO}: here the asker the record")
    reward: Literal["right", "paper"] = Field(
        default="right", description="what is paid, see Rewards; 'paper' is for cases"
    )
    turns: int = Field(default=6, ge=1, description="K, turns of the asker, its answer included")
    price: Share = Field(default=0.05, description="of a turn without an answer")


class ConsultEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, `reward="paper"` for builds, or unusable rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("consult-v0")
    Options = ConsultOptions

    def __init__(self, **given: Any) -> None:
        options = ConsultOptions(**given)
        self.kind, self.price = options.kind, float(options.price)
        self.paper = options.reward == "paper"
        if self.paper and self.kind != "case":
            raise ValueError("reward='paper' compares words: expected kind='case', not 'build'")
        self.seated, self.info_mode = options.person == "seat", options.info
        self.blocking = self.kind == "build"
        self.sandbox: Sandbox | None = None
        self._newest: tuple[Task, Subject] | None = None
        super().__init__(
            agents=(ASKER, PERSON) if self.seated else (ASKER,),
            source=_opened(options.tasks, options.split, self.kind),
            max_turns=options.turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        plain = (-self.price * self.max_turns, 1.0)
        self.reward_range = paper.reward_range(self.max_turns) if self.paper else plain

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The role; what facts mean, or the record; the complaint."""
        subject = self._subject(task)
        seats = {"asker": ASKER, "person": PERSON, "price": self.price}
        record = subject.record
        if agent == PERSON:
            complaint = "; ".join(map(record.line, record.complaint)) or "nothing"
            return TELL.format(
                statement=subject.person, facts=record.lines(), complaint=complaint, **seats
            )
        names = ""
        if subject.chances is not None:
            listed = [fact.name for fact in record.facts if "(" not in fact.name]
            listed += ["f(7)"] * (subject.kind == "build")
            names = f": {', '.join(listed)}"
        asked = f"{self.max_turns - 1} question{'s' * (self.max_turns != 2)}"
        lines = [
            subject.statement,
            ASK.format(names=names, turns=self.max_turns, asked=asked, **seats),
            ANSWER[subject.kind].format(entry_point=subject.entry_point),
        ]
        if not self.divided:
            lines.append(ALL_FACTS.format(facts=record.lines(), **seats))
        elif record.complaint:
            lines.append(quoted(PERSON, record.lines(record.complaint)))
        return "\n".join(lines)

    def _subject(self, task: Task) -> Subject:
        """What a task is about; the newest one is kept, for each seat is told of it."""
        if self._newest is None or self._newest[0] is not task:
            self._newest = task, subject_of(task)
        return self._newest[1]

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nothing was asked."""
        self.subject = self._subject(self.task)
        record = self.subject.record
        self._known = dict(record.opening if self.divided else enumerate(record.values))
        self._named = set(self._known)  # facts that were told or asked for
        self._place: int | None = None  # of the fact that was asked for last
        self._before: list[tuple[int | None, dict[int, str]]] = []  # asked for, and known then
        self._asker: dict[str, Any] = {"questions": 0, "repeated": 0, "unreadable": 0}
        if self.subject.kind == "case":
            self._asker["answer"] = None
        self._person: dict[str, Any] = {}

    def play_one(self, agent: str, action: str) -> Outcome:
        """An answer is judged; a question costs, and is heard or answered."""
        if agent == PERSON:
            return self._hear(action)
        answer = self._answer(action)
        return self._ask(action) if answer is None else self._judge(action, answer)

    def _answer(self, action: str) -> str | None:
        """The answer or the program in a text; None where there is none."""
        if self.subject.kind == "case":
            return read_answer(action)
        code = code_of(action)
        begun = rf"^def\s+{re.escape(self.subject.entry_point)}\s*\("
        return code if re.search(begun, code, re.MULTILINE) else None

    def _judge(self, action: str, answer: str) -> Outcome:
        """Pay an answer; the episode ends."""
        subject = self.subject
        if subject.kind == "case":
            named = [name for name in subject.classes if same_answer(name, answer)]
            self._asker |= {"answer": named[0] if named else None, "readable": bool(named)}
            right = bool(named) and same_answer(named[0], subject.solution)
        else:
            sandbox = default_sandbox() if self.sandbox is None else self.sandbox
            entry, tests = subject.entry_point, subject.tests
            verdict = sandbox.check(answer, entry_point=entry, tests=tests)
            self._asker["readable"] = verdict.status not in UNREADABLE
            right = verdict.ok
        terms = {"right": float(right)}
        if self.paper:
            terms = {"paper": paper.SCALE * paper.likeness(answer, subject.solution)}
        return self._outcome(terms, ended=True, success=right)

    def _ask(self, action: str) -> Outcome:
        """Charge a question, and pass it on or answer it; after the last turn the episode ends."""
        last = self._taken[ASKER] >= self.max_turns
        self._place = place = asked_fact(action, self.subject.record.facts)
        repeated = place in self._named
        terms = {"asked": -self.price}
        if self.paper:
            paid = paper.paid_question(
                action, named=place is not None, repeated=repeated, last=last
            )
            terms = {"paper": paid}
        elif last:
            terms["right"] = 0.0
        self._note(place, repeated)
        if last:
            return self._outcome(terms, ended=True)
        if self.seated:
            heard = self.pass_on(ASKER, action, [PERSON])
            return self._outcome(terms, {PERSON: quoted(ASKER, heard[PERSON])})
        reply = self.subject.record.reply(action)
        if place is not None:
            self._known[place] = self.subject.record.values[place]
        return self._outcome(terms, {ASKER: self._shown(reply)})

    def _note(self, place: int | None, repeated: bool) -> None:
        """Count a question."""
        counts = self._asker
        counts["questions"] += 1
        counts["repeated"] += repeated
        counts["unreadable"] += place is None
        counts["readable"] = place is not None
        self._before.append((place, dict(self._known)))
        if place is not None:
            self._named.add(place)

    def _learned(self) -> dict[str, Any]:
        """What the questions of an episode could tell, and what is known in the end."""
        chances = self.subject.chances
        if chances is None:
            return {}
        bits = [
            0.0 if place is None else chances.information(known, place)
            for place, known in self._before
        ]
        return {"information": bits, "chance": chances.chance(self._known)}

    def _hear(self, action: str) -> Outcome:
        """Measure what the person says, and show it to the asker."""
        subject = self.subject
        stated = stated_facts(action, subject.record.facts, self._place)
        true = true_facts(stated, subject.record)
        says_no = NOT_KNOWN.rstrip(".").lower() in action.lower()
        self._person = {
            "stated": len(true),
            "unasked": len(true.keys() - {self._place} - subject.record.opening.keys()),
            "untrue": len(stated) - len(true),
            "names_class": names_one_of(action, subject.classes),
            "readable": bool(stated) or says_no,
        }
        self._known |= true
        self._named |= true.keys()
        heard = self.pass_on(PERSON, action, [ASKER])
        return self._outcome({}, {ASKER: self._shown(heard[ASKER])})

    def _shown(self, reply: str) -> str:
        """An answer as the asker is shown it, and which turn is next."""
        turn = self._taken[ASKER] + 1
        form = LAST if turn == self.max_turns else TURN
        return f"{quoted(PERSON, reply)}\n{form.format(turn=turn, turns=self.max_turns)}"

    def _outcome(
        self,
        terms: Mapping[str, float],
        feedback: Mapping[str, str] | None = None,
        *,
        ended: bool = False,
        success: bool = False,
    ) -> Outcome:
        if ended:
            self._asker |= self._learned()
        facts = {ASKER: self._asker, PERSON: self._person}
        return Outcome(
            reward_terms=dict.fromkeys(self.possible_agents, terms),
            feedback=feedback or {},
            ended=ended,
            success=success,
            facts={
                agent: {**facts[agent], "kind": self.subject.kind} for agent in self.possible_agents
            },
        )

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """A person in a seat reads every question, and the asker every answer."""
        asked = self.max_turns - 1
        return {PERSON: {ASKER: asked}, ASKER: {PERSON: asked}} if self.seated and asked else {}

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> ConsultExperts:
        """The best asker, and a person who tells what it was asked for or everything."""
        questions = self.max_turns - 1
        return ConsultExperts(questions, self.price, self.seated, not self.divided)

    def solution(self, task: Task) -> str:
        """What is wrong, or the program, and the whole record."""
        subject = subject_of(task)
        return f"{subject.solution}\n{subject.record.lines()}"

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated tasks, in the mean of all records that the complaint allows.

        Raises:
            ValueError: for rows, for `reward="paper"`, and for cases that are too large.
        """
        subject, asked = subject_of(task), self.max_turns - 1
        if subject.chances is None or self.paper:
            raise ValueError(
                "bounds are known for generated tasks under reward='right', not for "
                f"{'a row' if subject.chances is None else 'the paper'} (task {task.id!r})"
            )
        chooses = self.divided and not self.seated  # else no fact is asked for by itself
        depth = asked if chooses else 0
        plan = plan_of(subject.chances, subject.record.opening, depth, self.price)
        solo, team = plan.at_once(), plan.value()
        if not self.divided:
            solo = team = plan.knowing_all()
        elif self.seated and asked:
            team = max(solo, plan.knowing_all() - self.price)
        return Bounds(random=1 / (len(subject.classes) or FUNCTIONS), solo=solo, team=team)


@read_once
def _opened(tasks: Tasks, split: str, kind: str) -> TaskSource:
    return open_tasks(
        tasks,
        split=split,
        procedural=lambda name: generated(kind, name),
        from_row=lambda row: task_of_row(row, kind),
    )
