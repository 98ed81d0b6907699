"""# coop_coding-v0: two to four programmers write one solution.

## Description
Two programmers solve one task. `helper_0` writes a function `aux`. `main_0` writes the function
that is tested, which may call `aux`. They write at the same time, and neither sees the other's
code. So both must be right, and both must expect the same interface. With three or four, further
helpers write `aux_1` and `aux_2`, and all must fit. docs/environments/coop_coding.md has what was
measured.

## An episode
Task `train/0`. Only the helper knows what a zup is. Only main knows what to do with zups.

    helper_0 is told   The zup of x is 2 more than x times x.
    main_0 is told     Return the smallest of the zups of the numbers in xs that are
                       negative, or 0 if there are none.

    helper_0 writes    def aux(x):
                           return x * x + 2
    main_0 writes      def solve(xs):
                           return min(aux([x for x in xs if x < 0]), default=0)
    both earn          0.2

Each program is right, but the helper expects one number and main passes a list. Every test fails.
They are paid for form alone. Had main called `aux` once for each number, all tests would pass:

    main_0 writes      def solve(xs):
                           return min([aux(x) for x in xs if x < 0], default=0)
    both earn          1.0

This is `info="split"`, the default for generated tasks. With `info="full"`, the default for rows
and the setting of the papers, both are told everything. Then one author could solve the task alone.

## Three authors
Task `train/2` with `n_agents=3`. Main is not told either which numbers count. `helper_1` is.

    helper_0 is told   The zup of x is x minus 7.
    helper_1 is told   A number is dax if it is between 0 and 9.
    main_0 is told     Return the sum of the zups of the numbers in xs that are dax.

    helper_0 writes    def aux(x):
                           return x - 7
    helper_1 writes    def aux_1(xs):
                           return [x for x in xs if 0 <= x <= 9]
    main_0 writes      def solve(xs):
                           return sum([aux(x) for x in xs if aux_1(x)])
    all earn           0.2

`helper_1` expects all numbers, and main asks about one. Had main passed them all:

    main_0 writes      def solve(xs):
                           return sum([aux(x) for x in aux_1(xs)])
    all earn           1.0

With `n_agents=4` each number that is dax is first replaced by its fep, and `helper_2`, who writes
`aux_2`, alone is told what that is. docs/environments/coop_coding.md says what each is worth.

## Agents
`helper_0` and `main_0`, with `n_agents=3` also `helper_1`, with 4 also `helper_2`, act at the same
time (parallel; `make(id, api="aec")` converts).

## Observations
Chat messages, append-only. The first is one user message: the agent's part of the task, which
function it writes and what the partners write. Between turns one more message brings feedback.

## Actions
Any text. Where the text has fenced blocks, the code is in them; else the whole text is code. Text
that is no program earns little and never raises an error. Text beyond `max_action_chars` is cut.
The programs run in separate confined processes. A call of `aux` passes plain values between them.

## Rewards
All agents get the team's number. The return is in [0, 1] for `tests` and `contribution`, and in
[0, 4 * turns] for `paper`. The table is of two authors. With more, the authors divide structure and
syntax evenly; under `paper` the helpers divide the 0.4. What is said of `aux` then holds for every
helper's function. A share is that of the helper with the least. What costs, costs where it is true
of one helper.

| scheme | term | value |
|---|---|---|
| `tests` (default) | structure | 0.05 for each author that defines its function |
| | syntax | 0.05 for each text that parses |
| | tests | 0.8 x share of tests passed |
| `contribution` | structure, syntax | as above |
| | tests | 0.4 x share of tests passed |
| | helper_contribution | 0.2 x share of tests lost without the helper's values |
| | main_contribution | 0.2 x share of tests on which main returns none of the helper's values |
| `paper` | structure | `aux` 0.4, entry point 0.6; without the latter nothing more |
| | syntax | 0.5 if both texts parse, else nothing more |
| | tests | share of tests passed |
| | cooperation | once a test passes and main calls `aux`: 0.5; no thin wrapper: 1.0 more; |
| | | every result of `aux` ignored: 0.5 less |

**Several turns.** `tests` and `contribution` pay what a turn *adds* to the score, term by term. So
the return is the score of the last turn, and solving later never returns more than solving earlier.
`paper` pays the full score of every turn, as the paper does. `coding/rewards.py` lists where the
paper and its code differ.

**Contributions are a heuristic** that can be forged: docs/environments/coop_coding.md has a table.
The team's run and the runs that `contribution` adds share one budget, the sandbox's `Limits`. If it
runs out, the helper's share is 0 and `contribution_complete` is false.

**Entries of `info`.**

- `success`: all tests pass. `tests_passed`, `tests_total`: their numbers.
- `defined`: which functions were defined. `syntax_errors`. `calls_helper`.
- `verdict`: the sandbox's. `author`: who is charged with it. That is the helper if it fails on
  inputs that its prompt allows, else main; docs/sandbox.md has the rule.
- `readable`: the agent's program defines its function. `convention`: the interface that it follows
  (generated tasks).
- Under `contribution` also `contribution` of each author, `cooperative_success` and
  `contribution_complete`.

## Episode end
All tests pass, or `turns` turns are over. Never truncated.

## Arguments
`llm-marl spec coop_coding` lists them.

Under `info="split"` diagnostics quote no text that a partner's program chose. They still reveal the
private operation: through expected values, and even through the number of tests that passed.

The attribute `sandbox` says where programs run: the process-wide pool unless it is set.

`bounds(task)` is what the better seat can return alone. It is exact under `reward="tests"` for one
turn, and for two to four with `feedback="plain"`; `coding/bounds.py` says how.

## Tasks and licence
Generated tasks and `bundled:coop_problems` were written for this library and share its licence.
Rows have a licence of their own. They need HumanEval's columns (`task_id`, `prompt`, `entry_point`,
`test`) or MBPP's. They may bring reference programs (`helper`, `main`) and a `split`. The tests or
the statement must define or import every name that the tests use. Contest rows with inputs and
outputs (APPS, CodeContests, LiveCodeBench) ask for `solve(stdin: str) -> str`, which returns what a
program would print.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import INFO, TURNS, Info, TaskOptions, info_of, tasks_field
from llm_marl_envs.core.outcome import gains
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding import attempt, functions, rewards
from llm_marl_envs.envs.coding.ablation import Contribution
from llm_marl_envs.envs.coding.bounds import solo_share
from llm_marl_envs.envs.coding.composition import AUTHORS, describe, describe_full, prompts
from llm_marl_envs.envs.coding.conventions import roles_of
from llm_marl_envs.envs.coding.experts import CodingExperts
from llm_marl_envs.envs.coding.feedback import MAX_PARTNER_CHARS, feedback
from llm_marl_envs.envs.coding.source import (
    ProceduralSource,
    coding_tasks,
    composition_of,
    refuse_other_team,
)
from llm_marl_envs.sandbox import Sandbox, Verdict, default_sandbox

HELPER, MAIN = "helper_0", "main_0"

FULL_HELPER_PROMPT = (
    "Two programmers solve this problem together:\n\n{problem}\n\n"
    "Write only the Python function aux, a helper that does a useful part of the work. Your "
    "partner writes {signature}, which may call aux(...). Neither of you sees the other's code.\n"
    "Reply with code only."
)
FULL_MAIN_PROMPT = (
    "Two programmers solve this problem together:\n\n{problem}\n\n"
    "Write only the Python function {signature}. Your partner writes aux, a helper that does a "
    "useful part of the work; you may call aux(...) and must not define it. Neither of you sees "
    "the other's code.\nReply with code only."
)
TURNS_PROMPT = "\nThere are {turns} turns. After each you may revise your code."


class CoopCodingOptions(TaskOptions):
    """The arguments of coop_coding."""

    tasks: Any = tasks_field("'bundled:coop_problems' are rows of this library; see Tasks.")
    split: Literal[  # pyright: ignore[reportIncompatibleVariableOverride] - one more
        "train", "val", "test", "test_prompts", "ood", "all"
    ] = Field(
        default="train",
        description="'test' has new pairs of prompts, 'test_prompts' prompts that neither seat "
        "has read, of words that it has, 'ood' operations or lengths that it has not; 'all' is "
        "for rows",
    )
    info: Info | None = Field(
        default=None,
        description=f"{INFO}. 'split' is for generated tasks alone, and what None takes there",
    )
    n_agents: int = Field(
        default=2,
        ge=AUTHORS[0],
        le=AUTHORS[1],
        description="authors; rows have two parts, so they are for 2",
    )
    reward: Literal["tests", "paper", "contribution"] = Field(
        default="tests", description="what is paid, see Rewards"
    )
    turns: int = Field(default=1, ge=1, description=TURNS)
    feedback: Literal["plain", "diagnostics", "partner"] | None = Field(
        default=None,
        description="what an agent reads between turns. 'plain': where its own syntax broke. "
        "'diagnostics': also what was defined, how many tests passed and the first failing test. "
        "'partner': also the partners' code. None takes 'plain' under 'split', else 'diagnostics'",
    )
    max_action_chars: int = Field(
        default=8192, ge=1, description="Unicode code points of an action"
    )


class CoopCodingEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, `info="split"` for rows, or unusable rows (the message
            names the row).
    """

    metadata: ClassVar[dict[str, Any]] = described("coop_coding-v0")
    Options = CoopCodingOptions
    blocking = True
    splits = functions.SPLITS

    def __init__(self, **arguments: Any) -> None:
        options = CoopCodingOptions(**arguments)
        n_agents, turns = options.n_agents, options.turns
        source = coding_tasks(options.tasks, options.split, n_agents)
        generated = isinstance(source, ProceduralSource) or composition_of(source[0]) is not None
        self.info_mode = info_of(options.info, generated)
        self.reward_scheme = options.reward
        plain = "plain" if self.divided else "diagnostics"
        self.feedback_mode = options.feedback or plain
        helpers = [f"helper_{place}" for place in range(n_agents - 1)]
        self.roles = dict(zip([*helpers, MAIN], roles_of(n_agents), strict=True))
        super().__init__(
            agents=[*self.roles],
            source=source,
            max_turns=turns,
            max_action_chars=options.max_action_chars,
            render_mode=options.render_mode,
        )
        low, high = rewards.REWARD_RANGES[self.reward_scheme]
        self.reward_range = (low, high * (turns if self.reward_scheme == "paper" else 1))
        self._sandbox: Sandbox | None = None

    @property
    def sandbox(self) -> Sandbox:
        """Where programs run: the process-wide pool unless one was set."""
        return default_sandbox() if self._sandbox is None else self._sandbox

    @sandbox.setter
    def sandbox(self, sandbox: Sandbox | None) -> None:
        self._sandbox = sandbox

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """Nothing is written."""
        self._scores: list[dict[str, float]] = []  # reward terms of each turn, as scores

    def brief(self, task: Task, agent: str) -> str:
        """The agent's part of the task, and the number of turns."""
        composition = composition_of(task)
        refuse_other_team(task, len(self.roles))
        if composition is None:
            texts = _row_prompts(task)
            if self.divided:
                raise ValueError(f"task {task.id!r} has no parts to divide; use info='full'")
        else:
            texts = prompts(composition, not self.divided)
        more = TURNS_PROMPT.format(turns=self.max_turns) if self.max_turns > 1 else ""
        return texts[self.roles[agent]] + more

    def prompt_words(self, task: Task) -> Mapping[str, Mapping[str, str]]:
        """`task`: what the agent alone is told of a generated task; of a row its statement."""
        composition = composition_of(task)
        if composition is None:
            return {agent: {"task": task.data["prompt"]} for agent in self.roles}
        full = not self.divided
        return {
            agent: {"task": describe_full(composition) if full else describe(composition, role)}
            for agent, role in self.roles.items()
        }

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Run the tests on the programs, once."""
        work = self._work(self.task, joint_action)
        budget = self.sandbox.budget()
        verdict = attempt.run(work, self.sandbox, budget)
        contributed = None
        if self.reward_scheme == "contribution":
            contributed = attempt.contribution(work, verdict, self.sandbox, budget)
        facts = attempt.facts_of(work, verdict, contributed)
        shared = dict(attempt.info_of(work, verdict, facts))
        if contributed is not None:
            shared["contribution"] = {"helper": contributed.helper, "main": contributed.main}
            shared["cooperative_success"] = contributed.cooperative_success
            shared["contribution_complete"] = contributed.complete
        terms = self._pay(rewards.TERMS[self.reward_scheme](facts))
        ended = facts.solved or self._taken[MAIN] >= self.max_turns
        return Outcome(
            reward_terms=dict.fromkeys(self.roles, terms),
            feedback={} if ended else self._feedback(work, verdict),
            ended=ended,
            success=facts.solved,
            facts={
                agent: {
                    **shared,
                    "readable": work.defined[role],
                    "convention": self.experts().read(self.task, agent, joint_action[agent]),
                }
                for agent, role in self.roles.items()
            },
        )

    def _work(self, task: Task, joint_action: Mapping[str, str]) -> attempt.Work:
        texts = {role: joint_action[agent] for agent, role in self.roles.items()}
        return attempt.read_work(task, texts, self.divided)

    def _pay(self, scores: dict[str, float]) -> dict[str, float]:
        self._scores.append(scores)
        if self.reward_scheme == "paper":
            return scores
        return {name: gains([turn[name] for turn in self._scores])[-1] for name in scores}

    def _feedback(self, work: attempt.Work, verdict: Verdict) -> dict[str, str]:
        # A channel would be worth little beside texts and numbers that programs choose.
        free = self.channel is None
        private = self.divided or not free
        heard: dict[str, dict[str, str]] = {agent: {} for agent in self.roles}
        if self.feedback_mode == "partner":
            for speaker, role in self.roles.items():
                code = work.programs[role].source[:MAX_PARTNER_CHARS]
                listeners = [other for other in self.roles if other != speaker]
                for listener, text in self.pass_on(speaker, code, listeners).items():
                    heard[listener][role] = text
        return {
            agent: feedback(work, verdict, role, self.feedback_mode, private, heard[agent], free)
            for agent, role in self.roles.items()
        }

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """With `feedback="partner"` each is shown the others' code between turns."""
        more = self.max_turns - 1
        if self.feedback_mode != "partner" or not more:
            return {}
        return {a: {other: more for other in self.roles if other != a} for a in self.roles}

    # -- what is known of tasks -------------------------------------------------------------------
    def contribution(self, task: Task, joint_action: Mapping[str, str]) -> Contribution:
        """Who contributed to the tests that `joint_action` passes, by ablation: a heuristic.

        A metric under every reward scheme, with known forgeries; it takes up to eight sandbox runs
        for a helper, which together cost no more than one run may. Of several helpers it says what
        the one contributed who contributed least.
        """
        work, budget = self._work(task, joint_action), self.sandbox.budget()
        verdict = attempt.run(work, self.sandbox, budget)
        return attempt.contribution(work, verdict, self.sandbox, budget)

    def experts(self) -> CodingExperts:
        """Programs under each interface; a row's own references."""
        return CodingExperts(self.roles)

    def clusters(self, task: Task) -> tuple[str, ...]:
        """The prompts: few of each come in many pairs."""
        return tuple(messages[-1].content for messages in self.first_words(task).values())

    def bounds(self, task: Task) -> Bounds:
        """Known returns of generated tasks under `reward="tests"`.

        The solo bound is what an optimal adaptive seat can expect alone (`coding/bounds.py`), with
        all that is paid for form. With `info="full"` one author may write everything.

        Raises:
            ValueError: for rows, for the other reward schemes, for several turns with feedback
                that reveals more than whether all tests passed, and for more than four turns.
        """
        composition = composition_of(task)
        if composition is None or self.reward_scheme != "tests":
            raise ValueError(
                f"bounds are known for generated tasks under reward='tests', not for task "
                f"{task.id!r} under {self.reward_scheme!r}"
            )
        if not self.divided:
            return Bounds(random=0.0, solo=1.0, team=1.0)
        if self.max_turns > 1 and self.feedback_mode != "plain":
            raise ValueError(
                f"feedback={self.feedback_mode!r} reveals the partner's part over "
                f"{self.max_turns} turns, so what a seat can reach alone is not known; use "
                "feedback='plain' or turns=1"
            )
        terms = rewards.TERM_RANGES["tests"]
        form = terms["structure"][1] + terms["syntax"][1]
        alone = solo_share(composition, self.max_turns)
        return Bounds(random=0.0, solo=form + terms["tests"][1] * alone, team=1.0)


def _row_prompts(task: Task) -> dict[str, str]:
    """Role -> its first message."""
    words = {"problem": task.data["prompt"], "signature": task.data["signature"]}
    return {
        attempt.HELPER: FULL_HELPER_PROMPT.format(**words),
        attempt.MAIN: FULL_MAIN_PROMPT.format(**words),
    }


parallel_env, env = module_forms(CoopCodingEnv)
