"""# retrieve_pipeline-v0: one rewrites a question, one selects documents, one answers.

## Description
A rewriter turns a question into searches, a retriever brings documents, a selector chooses some of
them, and a generator answers from those. This is the pipeline of MMOA-RAG (arXiv 2501.15228). The
retriever is a rule, BM25. Each of the three seats alone knows something that the answer needs: the
rewriter which houses the question means, the selector which reports are up to date, the generator
what is asked. docs/environments/retrieve_pipeline.md says what is known, and what remains.

## An episode
Task `train/0`, with 30 documents. All are told the six houses, and of the question that it asks for
the same thing of the keepers of the fenk and of the zup.

    rewriter_0 is told    Only you know: the fenk is Lulim, the zup is Ranod.
    selector_0 is told    Only you know: who keeps the fenk is up to date in the Gazette,
                          who keeps the zup in the Herald.
    generator_0 is told   Only you know: the question asks for the friend.

    rewriter_0 says       Search: Ranod
                          Search: Lulim
    selector_0 hears      Search 1 brings:
                          1. Herald: Rover keeps Ranod.
                          2. Gazette: Zokun keeps Ranod.
                          3. Rover of Ranod: ...
                          Search 2 brings:
                          6. Herald: Timuk keeps Lulim.
                          7. Gazette: Foter keeps Lulim. ...
                          10. Foter of Lulim: ...
    selector_0 says       Documents: 3, 10
    generator_0 hears     selector_0 chooses:
                          > Rover of Ranod: teacher Lufed, friend Lozul, rival ...
                          > Foter of Lulim: teacher Vafor, friend Zezax, rival ...
    generator_0 says      Answer: Lozul, Zezax
    all earn              0.0

    generator_0 says      Answer: Zezax, Lozul
    all earn              1.0

The rewriter searched for the zup first. The selector took that as it was meant: it looked for the
zup's keeper in the Herald, and named the zup's document first. The generator must take it so, too,
for no document says which house is the zup.

## Agents
`rewriter_0`, `selector_0`, `generator_0`; each acts once, in this order (AEC).

## Observations
Chat messages, append-only. First the question and the part that the seat alone knows. Then the
selector is shown what the searches brought, search by search, with numbers. The generator is shown
the documents that the selector named, in its order, without numbers.

No seat is shown a text that another one wrote: no query, no number, no remark. What a seat can pass
on is which documents come, and in which order. So a channel has nothing to carry and is refused.

With `info="full"`, the paper's setting, all are told everything; then one seat could do everything.

## Actions
Any text; beyond 4096 characters it is cut. What is read of it:

- rewriter: lines `Search: words`. Of 1, 2, 3 or 4 such lines each brings at most 10; 5, 5; 4, 3, 3;
  or 3, 3, 2, 2 documents, those that fit its words best. A document comes once, where it comes
  first. Lines after the fourth bring nothing.
- selector: exactly one line `Documents: 3, 1`, with at most `most` different numbers of documents
  that it was shown. In any other form nothing is passed on.
- generator: exactly one line `Answer: ...`, as `core/answers.py` reads it.

## Rewards
Paid once, after the generator.

| `reward` | seat | term | value |
|---|---|---|---|
| `exact` (default) | all | team | 1 if the answer has the words of the right one, in its order |
| `paper` | all | team | F1 of the answer's words |
| | rewriter_0 | form | -0.5 for more than 4 searches, or more than 300 characters of them |
| | selector_0 | form | -1 for another form, a number twice, or one not shown, where any was shown |
| | generator_0 | form | -1 for an answer of more than 30 words |

Returns are in [0, 1], and in [-1, 1] with `paper`. Words are compared without case, punctuation and
articles, as HotpotQA does. `exact` is the default because F1 does not ask for the order of two
names, and pays for listing: who does not know which of four names are right earns 2/3 for all four.

**Entries of `info`** for every agent

- `success`: the answer is right, in the sense of `exact`.
- `readable`: the seat's text has the form that was asked for. `answer`, for the generator.
- `convention`: the order that the seat's text follows (generated tasks under `split`).
- `brought`, `passed`: the share of the needed documents among those that were brought, and among
  those that were passed on, once that is known. Needed are the two keepers' documents, or a row's
  supporting facts; without any, None.

and after the end `f1`.

## Episode end
After every seat has acted once. Never truncated.

## Arguments
`llm-marl spec retrieve_pipeline` lists them.

## Tasks and licence
Every generated task has a world of its own: houses, for each two reports of different sources that
name different keepers, and a document about each keeper and about one more person. So there are
`5 * houses` documents. Reports share all words but the names. All names are made up; a name occurs
in tasks of one split alone. A question means two houses, and of one the one source is up to date,
of the other the other. All such cases are as likely. `ood` has longer names, other sources, other
relations and other private words. Texts and tasks were made for this library and share its licence.

Rows of HotpotQA's shape are read with `tasks=`, in `info="full"` alone, and none are shipped.
**HotpotQA is old and public: models have met it in training, with answers.**

**Not comparable with published numbers.** Deviations from the paper:

1. `info="split"` is not in it. There each seat could do everything alone.
2. The retriever is BM25 over the documents of the task. The paper's is a dense one over Wikipedia.
3. The released trainer masks the selector's logits, so that its form is always right. Here the
   selector must learn the form: a truncated distribution that is not what is scored is biased.
4. A selection in a wrong form passes nothing on. The released code leaves out what is wrong in it.
5. At most `most` documents are passed on, so that passing on everything is no choice.
6. A document that two searches bring is shown once. The released code shows it twice.
7. The numbers of `paper` are those of the released code. An empty selection costs 1, as every
   other form; there it costs nothing. Words after the 30th do not count for F1.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.answers import read_answer
from llm_marl_envs.core.environment import Bounds, Outcome, TextAECEnv, described
from llm_marl_envs.core.options import INFO, Info, TaskOptions, info_of, tasks_field
from llm_marl_envs.core.parsing import QUOTE
from llm_marl_envs.core.tasks import Task, Tasks, TaskSource, open_tasks, read_once
from llm_marl_envs.envs.retrieval.bounds import (
    GENERATOR,
    REWRITER,
    SEATS,
    SELECTOR,
    Facts,
    ceiling,
)
from llm_marl_envs.envs.retrieval.dealing import (
    RETRIEVED,
    numbers_in,
    retrieve,
    searches_in,
    well_formed,
)
from llm_marl_envs.envs.retrieval.experts import PipelineExperts
from llm_marl_envs.envs.retrieval.rows import task_of_row
from llm_marl_envs.envs.retrieval.scores import (
    WRONG_FORM,
    answer_penalty,
    answer_words,
    f1,
    is_exact,
    search_penalty,
)
from llm_marl_envs.envs.retrieval.world_tasks import case_of, of_world, world_of, world_tasks
from llm_marl_envs.envs.retrieval.worlds import cases, right_names

MAX_ACTION_CHARS = 4096
ASKED = (
    "There are the houses {houses}. A question means two of them, the {first} and the {second}. "
    "It asks for the same thing of the keepers of both."
)
KNOWN = {
    REWRITER: "the {first} is {house}, the {second} is {other}.",
    SELECTOR: (
        "who keeps the {first} is up to date in the {source}, who keeps the {second} in the "
        "{later}."
    ),
    GENERATOR: "the question asks for the {relation}.",
}
"""What each seat alone is told with `info="split"`."""
ALONE, ALL = "Only you know: {fact}", "All know: {fact}"
QUESTION = "Question: {question}"
ROLES = {
    REWRITER: (
        f"You are {REWRITER}. Write 1 to 4 lines 'Search: words'. They bring 10 documents: 10; 5, "
        f"5; 4, 3, 3; or 3, 3, 2, 2. {SELECTOR} sees the documents, not your lines."
    ),
    SELECTOR: (
        f"You are {SELECTOR}. {REWRITER} searches for you. Name at most {{most}} documents in one "
        f"line: Documents: 2, 1. {GENERATOR} sees them in your order, without numbers."
    ),
    GENERATOR: f"You are {GENERATOR}. {SELECTOR} chooses documents for you.",
}
NAMES = "End with one line: Answer: the two names, that for the {first} first."
WORDS = "End with one line: Answer: a few words."
BROUGHT, CHOSEN, NOTHING = "Search {number} brings:", f"{SELECTOR} chooses:", "nothing"


class RetrievePipelineOptions(TaskOptions):
    """The arguments of retrieve_pipeline."""

    tasks: Any = tasks_field(
        "Rows have `question`, `answer` and HotpotQA's `context`, or `documents`, a list of texts."
    )
    houses: int = Field(
        default=6, ge=5, le=9, description="houses of a generated task, with 5 documents each"
    )
    info: Info | None = Field(
        default=None,
        description=f"{INFO}. 'split' is for generated tasks alone, and what None takes for them",
    )
    reward: Literal["exact", "paper"] = Field(
        default="exact", description="what is paid, see Rewards"
    )
    most: int = Field(
        default=5, ge=2, le=RETRIEVED, description="how many documents the selector may pass on"
    )


class RetrievePipelineEnv(TextAECEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or `info="split"` for rows.
    """

    metadata: ClassVar[dict[str, Any]] = described("retrieve_pipeline-v0")
    Options = RetrievePipelineOptions
    reward_range = (0.0, 1.0)

    def __init__(self, **given: Any) -> None:
        options = RetrievePipelineOptions(**given)
        source = _opened(options.tasks, options.split, options.houses)
        self.info_mode = info_of(options.info, of_world(source[0]))
        self.most = options.most
        self.pays = options.reward
        self._experts = PipelineExperts(self.divided)
        super().__init__(
            agents=SEATS,
            source=source,
            max_turns=1,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        if self.pays == "paper":
            self.reward_range = (-1.0, 1.0)

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The question, what the seat knows of it, the role, and how to answer."""
        role = ROLES[agent].format(most=self.most)
        if not of_world(task):
            lines = [QUESTION.format(question=task.data["question"]), role]
            return "\n".join([*lines, WORDS] if agent == GENERATOR else lines)
        facts = _facts(task)
        seats = [agent] if self.divided else SEATS
        begin = ALONE if self.divided else ALL
        known = [begin.format(fact=KNOWN[seat].format_map(facts)) for seat in seats]
        lines = [ASKED.format_map(facts), *known, role]
        return "\n".join([*lines, NAMES.format_map(facts)] if agent == GENERATOR else lines)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nobody has acted."""
        self._brought: list[int] = []  # places of documents, in the order of their numbers
        self._penalties: dict[str, float] = {}
        self._seen: dict[str, dict[str, Any]] = {agent: {} for agent in SEATS}

    def play_one(self, agent: str, action: str) -> Outcome:
        """Search, choose or answer."""
        if agent == REWRITER:
            return Outcome(
                reward_terms={}, feedback={SELECTOR: self._search(action)}, facts=self._seen
            )
        if agent == SELECTOR:
            return Outcome(
                reward_terms={}, feedback={GENERATOR: self._select(action)}, facts=self._seen
            )
        return self._answer(action)

    def _note_order(self, agent: str, said: Sequence[Any]) -> None:
        """Which convention a seat's text follows, by what the rules read of it."""
        if self.divided:
            before = self.chat(agent)[:-1]
            followed = self._experts.followed(self.task, agent, said, before)
            self._seen[agent]["convention"] = followed

    def _search(self, action: str) -> str:
        """What the selector is shown of what a rewriter's searches bring."""
        searches = searches_in(action)
        self._note_order(REWRITER, searches)
        self._penalties[REWRITER] = search_penalty(searches)
        documents = self.documents(self.task)
        lines: list[str] = []
        for number, batch in enumerate(retrieve(documents, searches), start=1):
            lines.append(BROUGHT.format(number=number))
            first = len(self._brought) + 1
            lines += [f"{n}. {documents[place]}" for n, place in enumerate(batch, first)]
            lines += [] if batch else [NOTHING]
            self._brought += batch
        self._seen[REWRITER]["readable"] = bool(searches) and not self._penalties[REWRITER]
        self._note("brought", self._brought)
        return "\n".join(lines or [BROUGHT.format(number=1), NOTHING])

    def _select(self, action: str) -> str:
        """What the generator is shown of what a selector names."""
        numbers = numbers_in(action)
        self._note_order(SELECTOR, numbers or ())
        readable = well_formed(numbers, len(self._brought), self.most)
        # Where nothing was brought there is nothing to name.
        self._penalties[SELECTOR] = 0.0 if readable or not self._brought else WRONG_FORM
        self._seen[SELECTOR]["readable"] = readable
        chosen = [self._brought[n - 1] for n in numbers or ()] if readable else []
        self._note("passed", chosen)
        documents = self.documents(self.task)
        shown = [f"{QUOTE}{documents[place]}" for place in chosen]
        return "\n".join([CHOSEN, *(shown or [NOTHING])])

    def _answer(self, action: str) -> Outcome:
        """What all are paid for an answer."""
        answer, right = read_answer(action), self.task.data["answer"]
        self._note_order(GENERATOR, answer_words(answer or ""))
        self._penalties[GENERATOR] = answer_penalty(answer)
        self._seen[GENERATOR] |= {"readable": answer is not None, "answer": answer}
        exact, overlap = is_exact(answer, right), f1(answer, right)
        for seen in self._seen.values():
            seen["f1"] = overlap
        team = overlap if self.pays == "paper" else float(exact)
        forms = self._penalties if self.pays == "paper" else {}
        return Outcome(
            reward_terms={
                agent: {"team": team, **({"form": forms[agent]} if forms else {})}
                for agent in SEATS
            },
            ended=True,
            success=exact,
            facts=self._seen,
        )

    def _note(self, name: str, places: Sequence[int]) -> None:
        """The share of the needed documents that are among some."""
        needed = self.task.data["needed"]
        share = len({*needed} & {*places}) / len(needed) if needed else None
        for seen in self._seen.values():
            seen[name] = share

    # -- what is known of tasks -------------------------------------------------------------------
    def documents(self, task: Task) -> tuple[str, ...]:
        """What the retriever searches, one line each."""
        return task.data["documents"]

    def solution(self, task: Task) -> str:
        """The documents that are needed, and the answer."""
        documents, lines = self.documents(task), []
        if of_world(task):
            facts = _facts(task)
            lines = [f"Known: {KNOWN[seat].format_map(facts)}" for seat in SEATS]
        lines += [documents[place] for place in task.data["needed"]]
        return "\n".join([*lines, f"Answer: {task.data['answer']}"])

    def experts(self) -> PipelineExperts:
        """One searches for both houses, one names their keepers' documents, one answers."""
        return self._experts

    def ceiling(self, task: Task, blind: Collection[str] = ()) -> float:
        """What the best team earns where the texts of some seats ignore what they alone know.

        The mean over all that can be asked of the task's documents, each as likely.

        Args:
            task: a generated one.
            blind: seats; see `bounds.ceiling`, errors too.

        Raises:
            ValueError: for rows, for `reward="paper"`.
        """
        if not of_world(task) or self.pays == "paper":
            raise ValueError(
                f"task {task.id!r}, reward={self.pays!r}: bounds are known for generated tasks "
                "and reward='exact', not for rows"
            )
        world = world_of(task)
        answers: dict[Facts, Hashable] = {
            (case.meant, case.current, case.relation): right_names(world, case)
            for case in cases(world)
        }
        return ceiling(answers, blind if self.divided else ())

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated tasks: nobody uses what it knows, one seat does, all do.

        Raises:
            ValueError: for rows, for `reward="paper"`.
        """
        solo = max(self.ceiling(task, self.others(agent)) for agent in SEATS)
        world = world_of(task)
        random = 1 / sum(1 for _ in cases(world))
        return Bounds(random=random, solo=solo, team=self.ceiling(task))


def _facts(task: Task) -> Mapping[str, str]:
    """What the texts of a generated task fill in."""
    world, case = world_of(task), case_of(task)
    first, second = task.data["words"]
    return {
        "houses": ", ".join(world.houses),
        "first": first,
        "second": second,
        "house": world.houses[case.meant[0]],
        "other": world.houses[case.meant[1]],
        "source": world.sources[case.current[0]],
        "later": world.sources[case.current[1]],
        "relation": world.relations[case.relation],
    }


@read_once
def _opened(tasks: Tasks, split: str, houses: int) -> TaskSource:
    return open_tasks(
        tasks,
        split=split,
        procedural=lambda name: world_tasks(name, houses),
        from_row=task_of_row,
    )
