"""One joint action as programs, and what came of it: the bridge from texts to facts.

Owns how texts become a sandbox job and how its verdict becomes `rewards.Facts`. Owns no
numbers, no words and no processes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from llm_marl_envs.core.parsing import code_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.coding import ablation
from llm_marl_envs.envs.coding.ablation import Contribution
from llm_marl_envs.envs.coding.composition import CONTRACTS, SIDE_CONTRACT
from llm_marl_envs.envs.coding.conventions import function_of
from llm_marl_envs.envs.coding.rewards import Facts
from llm_marl_envs.envs.coding.rows import contract_of, read_tests, with_preamble
from llm_marl_envs.envs.coding.syntax import Program, defines, read_program, use_of
from llm_marl_envs.sandbox import Budget, Contract, InfraError, Replacement, Sandbox, Verdict

HELPER, MAIN = "helper", "main"
PAUSES = (0.5, 2.0)
"""Seconds to wait before a run that the sandbox could not make is asked for again."""
NOTHING = Contribution(helper=0.0, main=0.0, cooperative_success=False)


@dataclass(frozen=True, slots=True)
class Work:
    """What a team wrote for a task.

    Attributes:
        task: the task.
        programs: role -> program, main's last.
        units: source of each test, in order.
        contracts: role -> the calls of its function for which a helper answers, main for all
            others.
    """

    task: Task
    programs: Mapping[str, Program]
    units: tuple[str, ...]
    contracts: Mapping[str, Contract]

    @property
    def main(self) -> Program:
        """Main's program."""
        return self.programs[MAIN]

    @property
    def helpers(self) -> list[str]:
        """The roles of the helpers."""
        return [role for role in self.programs if role != MAIN]

    @property
    def names(self) -> dict[str, str]:
        """Role -> the function it is to define."""
        helpers = {role: function_of(role) for role in self.helpers}
        return {**helpers, MAIN: self.task.data["entry_point"]}

    @property
    def defined(self) -> dict[str, bool]:
        """Role -> whether it defines that function, with a returned value."""
        return {role: defines(self.programs[role], name) for role, name in self.names.items()}

    def job(self, replaced: Mapping[str, Replacement] | None = None) -> dict[str, Any]:
        """Keyword arguments of `Sandbox.check`; `replaced`: function -> what main gets for it."""
        preamble = self.task.data["preamble"]
        return {
            "source": {
                role: with_preamble(program.source, preamble)
                for role, program in self.programs.items()
            },
            "exports": {role: [self.names[role]] for role in self.helpers},
            "contracts": {self.names[role]: contract for role, contract in self.contracts.items()},
            "replaced": dict(replaced or {}),
            "entry_point": self.task.data["entry_point"],
            "tests": self.task.data["tests"],
        }


def read_work(task: Task, texts: Mapping[str, str], split: bool) -> Work:
    """The programs in the answers.

    Args:
        task: the task.
        texts: role -> what its author wrote, main's last.
        split: each helper was told its own part and nothing else.
    """
    tests = task.data["tests"]
    first, side = contract_of(tests), contract_of(tests)
    if split:
        first, side = CONTRACTS[task.data["kind"]], SIDE_CONTRACT
    return Work(
        task=task,
        programs={role: read_program(code_of(text)) for role, text in texts.items()},
        units=read_tests(tests, task.data["entry_point"]),
        contracts={role: first if role == HELPER else side for role in texts if role != MAIN},
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
    """Who contributed to the passed tests: runs the tests again with a helper's values replaced.

    All runs take from `budget`, from which `run` took. Where it does not suffice, one of the runs
    that were not made may have lost nothing, so the helper's share is 0. A program that waits or
    loops in such runs earns nothing by it. Of several helpers the share is that of the one who
    contributed least.

    Raises:
        InfraError: as `run`.
    """
    if not verdict.passed:
        return NOTHING
    each = [_of_helper(work, role, verdict, sandbox, budget) for role in work.helpers]
    least = min(each, key=lambda credit: credit.helper)
    complete = all(credit.complete for credit in each)
    together = all(credit.cooperative_success for credit in each)
    return replace(least, cooperative_success=together, complete=complete)


def _of_helper(
    work: Work, role: str, verdict: Verdict, sandbox: Sandbox, budget: Budget
) -> Contribution:
    name = work.names[role]
    trace = [call for call in verdict.helper_trace if call[1] == name]
    verdict = replace(verdict, helper_trace=tuple(trace))
    if not trace or not work.programs[role].parses:
        return ablation.judge(verdict, [], [verdict])
    replacements = [*ablation.WRONG, *ablation.trivial(trace)]
    jobs = [work.job({name: replacement}) for replacement in replacements]
    runs = _tried(work.task, lambda: sandbox.map(jobs, budget))
    if budget.over():
        return replace(ablation.judge(verdict, [], [verdict]), complete=False)
    count = len(ablation.WRONG)
    return ablation.judge(verdict, runs[:count], runs[count:])


def facts_of(work: Work, verdict: Verdict, contributed: Contribution | None = None) -> Facts:
    """The record that reward schemes read."""
    uses = [use_of(work.main, work.names[MAIN], work.names[role]) for role in work.helpers]
    shares = contributed or NOTHING
    return Facts(
        helpers=len(work.helpers),
        helper_defined=sum(work.defined[role] for role in work.helpers),
        main_defined=work.defined[MAIN],
        helper_parses=sum(work.programs[role].parses for role in work.helpers),
        main_parses=work.main.parses,
        passed=verdict.passed,
        total=len(work.units),
        calls_helper=all(use.calls for use in uses),
        ignores_helper=any(use.ignores_result for use in uses),
        thin_wrapper=any(use.thin_wrapper for use in uses),
        helper_contribution=shares.helper,
        main_contribution=shares.main,
    )


def info_of(work: Work, verdict: Verdict, facts: Facts) -> Mapping[str, Any]:
    """Diagnostics that every agent's info carries; plain JSON values."""
    return {
        "defined": work.defined,
        "syntax_errors": {role: program.error for role, program in work.programs.items()},
        "tests_passed": facts.passed,
        "tests_total": facts.total,
        "verdict": verdict.status,
        "author": verdict.author or "",
        "calls_helper": facts.calls_helper,
    }
