"""# agents_net-v0: nodes of a network who know their neighbours alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from llm_marl_envs.checks import refuse_other
from llm_marl_envs.core import (
    Bounds,
    Outcome,
    TextParallelEnv,
    aec_form,
    described,
    parallel_form,
)
from llm_marl_envs.deliberation.briefs import check_whole
from llm_marl_envs.networks.graphs import FAMILIES, diameter
from llm_marl_envs.networks.letters import letters_in, news
from llm_marl_envs.networks.network_tasks import (
    MIXED,
    NetworkSource,
    check_size,
    network_of,
    procedural,
    task_of_row,
)
from llm_marl_envs.networks.node_experts import NodeExperts
from llm_marl_envs.networks.pictures import network_html
from llm_marl_envs.networks.problems import PROBLEMS, Network, Problem
from llm_marl_envs.networks.silent import MOST_NODES, silent_returns
from llm_marl_envs.questions.answers import read_answer
from llm_marl_envs.spaces import Message
from llm_marl_envs.tasks import Row, Task, TaskSource, open_tasks

MAX_NODES = 100
MAX_ACTION_CHARS = 8192
KNOWN = (
    "You are {name}, one of {nodes} nodes of a network. Others do not know your name.{value} You "
    "have {lines}, to your neighbours."
)
VALUE = " Your value is {value}."
WRITE = (
    "Turns 1 to {last}: write to your neighbours, one line of text for each, as '1: text', or "
    "'all: text'. They read it in the next turn."
)
ANSWER = "Turn {turns}: answer. End with one line: Answer: and then {form}."
NOW = "Turn {turn} of {turns}."
RIGHT, WRONG, OPEN = "#c9efc9", "#f6c4c4", "#ffffff"


class AgentsNetEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or a row of another size.
    """

    metadata: ClassVar[dict[str, Any]] = described("agents_net-v0")
    reward_range = (0.0, 1.0)

    def __init__(
        self,
        *,
        nodes: int = 4,
        problem: str = MIXED,
        graph: str = MIXED,
        turns: int | None = None,
        tasks: str | Path | Sequence[Row] | TaskSource | None = None,
        split: str = "train",
        render_mode: str | None = None,
    ) -> None:
        check_whole("nodes", nodes, 2, MAX_NODES)
        refuse_other("problem", problem, (MIXED, *PROBLEMS))
        refuse_other("graph", graph, (MIXED, *FAMILIES))
        turns = 1 + 2 * (nodes - 1).bit_length() if turns is None else turns
        check_whole("turns", turns, 1)
        super().__init__(
            agents=[f"node_{i}" for i in range(nodes)],
            source=open_tasks(
                tasks,
                split=split,
                procedural=lambda one: procedural(one, nodes, problem, graph),
                from_row=lambda row: task_of_row(row, nodes),
            ),
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=render_mode,
        )
        self.graph = graph
        self._experts = NodeExperts(self.possible_agents, turns)
        self._network = Network((), (), ())
        self._problem: Problem = PROBLEMS["leader"]
        self._turn = 1
        self._right: list[bool] | None = None
        self._answers: list[str | None] = []

    # -- texts ------------------------------------------------------------------------------------
    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """One user message per node."""
        data = check_size(task, len(self.possible_agents))
        problem, network = PROBLEMS[data["problem"]], network_of(task)
        return {
            agent: (Message("user", self._told(data["problem"], problem, network, node)),)
            for node, agent in enumerate(self.possible_agents)
        }

    def _told(self, name: str, problem: Problem, network: Network, node: int) -> str:
        count = len(network.lines[node])
        value = VALUE.format(value=network.values[node]) if name == "consensus" else ""
        told = [
            KNOWN.format(
                name=network.names[node],
                nodes=len(network.names),
                value=value,
                lines=f"lines 1 to {count}" if count > 1 else "one line, 1",
            ),
            problem.asks,
            ANSWER.format(turns=self.max_turns, form=problem.form.format(colours=count + 1)),
            NOW.format(turn=1, turns=self.max_turns),
        ]
        if self.max_turns > 1:
            told.insert(2, WRITE.format(last=self.max_turns - 1))
        return "\n".join(told)

    # -- the episode ------------------------------------------------------------------------------
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
        """As `TextParallelEnv.reset`."""
        first = super().reset(seed=seed, options=options)
        self._network = network_of(self.task)
        self._problem = PROBLEMS[self.task.data["problem"]]
        self._turn, self._right, self._answers = 1, None, []
        return first

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Deliver what was written; judge the answers in the last turn."""
        texts = [joint_action[agent] for agent in self.possible_agents]
        if self._turn == self.max_turns:
            return self._judge(texts)
        self._turn += 1
        lines = self._network.lines
        received = [[""] * len(one) for one in lines]
        facts: dict[str, dict[str, Any]] = {}
        for node, text in enumerate(texts):
            sent = letters_in(text, len(lines[node]))
            for other, letter in zip(lines[node], sent, strict=True):
                received[other][lines[other].index(node)] = letter
            count = len(sent) - sent.count("")
            facts[self.possible_agents[node]] = {"readable": count > 0, "sent": count}
        now = NOW.format(turn=self._turn, turns=self.max_turns)
        return Outcome(
            reward_terms={},
            feedback={
                agent: f"{now}\n{news(heard)}"
                for agent, heard in zip(self.possible_agents, received, strict=True)
            },
            success=False,
            facts=facts,
        )

    def _judge(self, texts: Sequence[str]) -> Outcome:
        """Read and pay the answers."""
        problem, network = self._problem, self._network
        self._answers = [
            problem.read(network, node, read_answer(text)) for node, text in enumerate(texts)
        ]
        self._right = problem.right(network, self._answers)
        terms = problem.terms(self._right)
        facts = {
            agent: {
                "readable": answer is not None,
                "answer": answer,
                "right": right,
                "kind": self.task.data["problem"],
            }
            for agent, answer, right in zip(
                self.possible_agents, self._answers, self._right, strict=True
            )
        }
        return Outcome(
            reward_terms=dict.fromkeys(self.possible_agents, terms),
            ended=True,
            success=all(self._right),
            facts=facts,
        )

    def state(self) -> str:
        """The chats, and before them who is joined to whom."""
        names = self._network.names
        joined = [
            f"{name} - {', '.join(names[other] for other in lines)}"
            for name, lines in zip(names, self._network.lines, strict=True)
        ]
        return "\n".join([*joined, super().state()])

    def picture(self) -> str:
        """The network: names and answers, nodes in the colour of right or wrong."""
        names, right = self._network.names, self._right
        if right is None:
            return network_html(self._network.lines, names, [OPEN] * len(names))
        texts = [f"{name}: {said}" for name, said in zip(names, self._answers, strict=True)]
        return network_html(self._network.lines, texts, [RIGHT if one else WRONG for one in right])

    # -- what is known of tasks -------------------------------------------------------------------
    def experts(self) -> NodeExperts:
        """Greedy distributed algorithms, in one of two orders."""
        return self._experts

    def bounds(self, task: Task) -> Bounds:
        """Exact: answers by lot; the best team that writes nothing; a team that solves the problem.

        Raises:
            ValueError: rows; a network of more than 4 nodes, unless the answer is a common one; or
                too few turns for the experts to be sure.
        """
        nodes = len(check_size(task, len(self.possible_agents))["lines"])
        problem = task.data["problem"]
        common = PROBLEMS[problem].held is not None
        needed = 1 + (diameter(task.data["lines"]) if common else nodes)
        where = f"task {task.id!r}, {problem}"
        if not isinstance(self.source, NetworkSource):
            raise ValueError(f"{where}: bounds are known for generated networks, not for rows")
        if not common and nodes > MOST_NODES:
            raise ValueError(
                f"{where}: what a team can do without messages is known for up to {MOST_NODES} "
                f"nodes, or a leader or consensus, not for {nodes} nodes"
            )
        if self.max_turns < needed:
            raise ValueError(f"{where}: bounds are known for at least {needed} turns")
        by_lot, silent = silent_returns(self.source.split, nodes, problem, self.graph)
        return Bounds(random=by_lot, solo=silent, team=1.0)


parallel_env = partial(parallel_form, AgentsNetEnv)
env = partial(aec_form, AgentsNetEnv)
