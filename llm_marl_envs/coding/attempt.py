"""One joint action as programs, and what came of it: the bridge from texts to facts.

Owns how two texts become a sandbox job and how its verdict becomes `rewards.Facts`. Owns no
numbers, no words and no processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_marl_envs.coding import ablation
from llm_marl_envs.coding.ablation import Contribution
from llm_marl_envs.coding.composition import CONTRACTS
from llm_marl_envs.coding.rewards import Facts
from llm_marl_envs.coding.rows import contract_of, read_tests, with_preamble
from llm_marl_envs.coding.syntax import Program, defines, read_program, use_of
from llm_marl_envs.parsing import code_of
from llm_marl_envs.sandbox import Budget, Contract, InfraError, Replacement, Sandbox, Verdict
from llm_marl_envs.tasks import Task

HELPER, MAIN, AUX = "helper", "main", "aux"
PAUSES = (0.5, 2.0)
"""Seconds to wait before a run that the sandbox could not make is asked for again."""
NOTHING = Contribution(helper=0.0, main=0.0, cooperative_success=False)


@dataclass(frozen=True, slots=True)
class Work:
    """What a team wrote for a task.

    Attributes:
        task: the task.
        helper, main: the programs.
        units: source of each test, in order.
        contract: the calls of `aux` for which the helper answers, main for all others.
    """

    task: Task
    helper: Program
    main: Program
    units: tuple[str, ...]
    contract: Contract

    @property
    def programs(self) -> dict[str, Program]:
        """Role -> program."""
        return {HELPER: self.helper, MAIN: self.main}

    @property
    def names(self) -> dict[str, str]:
        """Role -> the function it is to define."""
        return {HELPER: AUX, MAIN: self.task.data["entry_point"]}

    @property
    def defined(self) -> dict[str, bool]:
        """Role -> whether it defines that function, with a returned value."""
        return {role: defines(self.programs[role], name) for role, name in self.names.items()}

    def job(self, replaced: Replacement | None = None) -> dict[str, Any]:
        """Keyword arguments of `Sandbox.check`; `replaced`: what main gets for `aux`'s values."""
        preamble = self.task.data["preamble"]
        return {
            "source": {
                HELPER: with_preamble(self.helper.source, preamble),
                MAIN: with_preamble(self.main.source, preamble),
            },
            "exports": {HELPER: [AUX]},
            "contracts": {AUX: self.contract},
            "replaced": {AUX: replaced} if replaced else {},
            "entry_point": self.task.data["entry_point"],
            "tests": self.task.data["tests"],
        }


def read_work(task: Task, helper_text: str, main_text: str, split: bool) -> Work:
    """The programs in two answers. `split`: the helper was told its operation and nothing else."""
    tests = task.data["tests"]
    return Work(
        task=task,
        helper=read_program(code_of(helper_text)),
        main=read_program(code_of(main_text)),
        units=read_tests(tests, task.data["entry_point"]),
        contract=CONTRACTS[task.data["kind"]] if split else contract_of(tests),
    )


def run(work: Work, sandbox: Sandbox, budget: Budget) -> Verdict:
    """The tests' verdict; a text that does not parse is judged without running anything.

    Raises:
        InfraError: the run failed for reasons outside of the programs, so it is worth no reward;
            the error names the task.
    """
    for role, program in work.programs.items():
        if program.tree is None:
            return _unrun("load_error", program.error + program.place, role)
    if not work.main.parses:
        return _unrun("no_entry_point", work.main.error, MAIN)
    return _tried(work.task, lambda: [sandbox.check(**work.job(), budget=budget)])[0]


def _tried(task: Task, runs: Callable[[], list[Verdict]]) -> list[Verdict]:
    """The verdicts of runs, which are asked for again where the machine failed.

    The sandbox itself has made each run twice by then; a machine short of memory or of processes
    may recover within seconds, and a training run should not end for less.
    """
    reason = ""
    for pause in (*PAUSES, 0.0):
        try:
            verdicts = runs()
            failed = next((v for v in verdicts if v.status == "infra_error"), None)
            if failed is None:
                return verdicts
            reason = failed.detail
        except InfraError as error:
            reason = str(error)
        time.sleep(pause)
    raise InfraError(
        f"task {task.id!r}: the sandbox failed {len(PAUSES) + 1} times ({reason}). The programs "
        "are not to blame and get no reward; see `llm-marl doctor` and the machine's memory"
    )


def _unrun(status: Any, detail: str, author: str) -> Verdict:
    return Verdict(status, 0, 0, detail, author, (), 0.0, 0.0, 0.0)


def contribution(work: Work, verdict: Verdict, sandbox: Sandbox, budget: Budget) -> Contribution:
    """Who contributed to the passed tests: runs the tests again with the helper's values replaced.

    All runs take from `budget`, from which `run` took. Where it does not suffice, one of the runs
    that were not made may have lost nothing, so the helper's share is 0. A program that waits or
    loops in such runs earns nothing by it.

    Raises:
        InfraError: as `run`.
    """
    if not verdict.passed:
        return NOTHING
    if not verdict.helper_trace or not work.helper.parses:
        return ablation.judge(verdict, [], [verdict])
    replacements = [*ablation.WRONG, *ablation.trivial(verdict.helper_trace)]
    jobs = [work.job(replacement) for replacement in replacements]
    runs = _tried(work.task, lambda: sandbox.map(jobs, budget))
    if budget.over():
        return replace(ablation.judge(verdict, [], [verdict]), complete=False)
    known = len(ablation.WRONG)
    return ablation.judge(verdict, runs[:known], runs[known:])


def facts_of(work: Work, verdict: Verdict, contributed: Contribution | None = None) -> Facts:
    """The record that reward schemes read."""
    use = use_of(work.main, work.names[MAIN], AUX)
    shares = contributed or NOTHING
    return Facts(
        helper_defined=work.defined[HELPER],
        main_defined=work.defined[MAIN],
        helper_parses=work.helper.parses,
        main_parses=work.main.parses,
        passed=verdict.passed,
        total=len(work.units),
        calls_helper=use.calls,
        ignores_helper=use.ignores_result,
        thin_wrapper=use.thin_wrapper,
        helper_contribution=shares.helper,
        main_contribution=shares.main,
    )


def info_of(work: Work, verdict: Verdict, facts: Facts) -> Mapping[str, Any]:
    """Diagnostics that every agent's info carries; plain JSON values."""
    return {
        "defined": work.defined,
        "syntax_errors": {role: one.error for role, one in work.programs.items()},
        "tests_passed": facts.passed,
        "tests_total": facts.total,
        "verdict": verdict.status,
        "author": verdict.author or "",
        "calls_helper": facts.calls_helper,
    }
