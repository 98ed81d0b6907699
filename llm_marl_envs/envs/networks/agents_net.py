r"""# agents_net-v0: nodes of a network, who know their neighbours alone, solve it by messages.

## Description
2 to 100 nodes are joined by lines. Each node knows its own name and how many lines it has. In each
round it writes one text to each neighbour; then it answers once. Five problems of AgentsNet (arXiv
2507.08616) can be solved so: colours, a leader, a common value, pairs, guards. Each asks that nodes
who never meet fit together.

**Studies should use 8 nodes or more** (`nodes=8`). The default, 4, is for a first run: there a team
that writes nothing can earn most of what colours pay, and half of what guards do.
docs/environments/agents_net.md has what silent teams, experts and attacks earn.

## An episode
Task `train/0`, `colouring` with four nodes. Povudu, Makaza and Nofibe are joined to each other,
Tulubi to Makaza.

    node_0 is told  You are Povudu, one of 4 nodes of a network. Others do not know your name. You
                    have lines 1 to 2, to your neighbours.
                    Colours: no two neighbours may have the same colour.
                    Turns 1 to 4: write to your neighbours, one line of text for each, as
                    '1: text', or 'all: text'. They read it in the next turn.
                    Turn 5: answer. End with one line: Answer: and then your colour, a number
                    from 1 to 3.
                    Turn 1 of 5.
    node_2 is told  You are Tulubi, ... You have one line, 1, ... a number from 1 to 2.
    node_0 says     all: Povudu
    node_1 says     all: Makaza
    node_2 says     all: Tulubi
    node_3 says     all: Nofibe

    node_1 hears    Turn 2 of 5.
                    From 1: Nofibe
                    From 2: Povudu
                    From 3: Tulubi
    node_0 says     1: You go first.
    node_1 says     all: I go first and take 1.
    node_2 says     -
    node_3 says     -

    node_3 hears    Turn 3 of 5.
                    From 1: I go first and take 1.
                    Nothing from 2.
    node_0 says     -
    node_1 says     -
    node_2 says     1: 2
    node_3 says     2: I come before Povudu and take 2.

    node_0 hears    Turn 4 of 5.
                    From 2: I come before Povudu and take 2.
                    Nothing from 1.
    node_0 says     all: 3
    node_1 says     -
    node_2 says     -
    node_3 says     -

    node_0 says     Answer: 3
    node_1 says     Answer: 1
    node_2 says     Answer: 2
    node_3 says     Answer: 2
    all earn        1.0

They went by the alphabet: who knows all names around it and comes first takes a colour.

## Agents
`node_0` to `node_<n-1>`, all at the same time. Who sits where in the network is drawn for each
task. No prompt says a seat's number.

## Observations
Chat messages, append-only. First the node's name, its lines, the problem; then, turn by turn, what
came on each line. Nobody is shown the network, another node's name, or whether an answer is right.
So what is known is divided by nature, and there is no `info="full"`.

`state()` names all neighbours, then shows all chats. `render_mode="html"` draws the network.

## Actions
Turns 1 to `turns` - 1: a text line `2: ...` goes to line 2, `all: ...` to every line that has no
text of its own. Of several for one line the last counts. Other lines of text go to nobody. A text
is cut after 400 characters, an action after 8192.

Last turn: exactly one line `Answer: ...`.

| problem | answer | a node is right if |
|---|---|---|
| colouring | 1 to its number of lines + 1 | it has a colour that no neighbour has |
| leader | a name | it gave the answer that most gave, of all that are some node's name |
| consensus | a value | the same, of all values that some node was given |
| matching | a line or `none` | it and its partner chose each other; or `none` among pairs |
| cover | `yes` or `no` | `yes` and a neighbour says `no`; or `no` and all neighbours say `yes` |

`none` is right where all neighbours are in pairs. If all are right, it is a proper colouring, an
elected leader, a consensus, a maximal matching, a minimal vertex cover.

## Rewards
All get the team's number, in the last turn.

| term | value |
|---|---|
| share | leader, consensus: 0.5 (m - 1) / (n - 1), where m of n are right, 0 for m = 0 |
| | else: 0.5 max(0, 2 m / n - 1), what goes beyond half of the nodes |
| solved | 0.5 if all are right |

The return is in [0, 1]. Before the last turn there is nothing to earn, so there is nothing to
stall.

**Entries of `info`**: `success`, all are right. Before the last turn: `letters`, texts to
neighbours; `readable`, there was one. In the last: `answer`, `readable`, `right`, `kind` (the
problem).

## Experts
Greedy algorithms of distributed computing (`networks/experts.py`), in two conventions: by the
alphabet forwards (`first`) or backwards (`last`). All of one order solve a leader or a consensus
surely in diameter + 1 turns, the others in n + 1. The default `turns` is enough for all with up to
4 nodes; with more, colours and pairs sometimes need longer. Who draws the order by lot fails often.

`docs/environments/agents_net.md` has curves over the number of nodes.

## Arguments
`llm-marl spec agents_net` lists them.

## Tasks and licence
No two splits share a name or a value, and each prompt says its reader's name: so no prompt is in
two splits. The graphs of small networks are few and occur in all. `ood` has names of four
syllables, values of six digits, and trees with a few chords. Texts and tasks were made for this
library and share its licence.

**Not comparable with the paper's numbers.** What is different, and why:

1. A node does not know its neighbours' names, it has numbered lines. In a network where all are
   neighbours, as the paper's small worlds of 4 nodes, everyone would see who comes first.
2. A leader is named: docs/environments/agents_net.md says why names elect nobody.
3. A consensus must be somebody's value, of many. Of 0 and 1 a fixed one is right without a word.
4. A node has one colour more than lines. With one more than the most lines of any node, as in the
   paper, most nodes of a scale-free network are right by lot.
5. A small world of fewer than 8 nodes begins as a ring without chords; a graph of 4 or more nodes
   never has all edges.
6. Scores look at nodes. The authors' code looks at edges for colours and guards, and counts each
   guard as needed once any edge is not guarded: two neighbours who are none, and all others guards,
   earn nearly 1 there.
7. Texts are lines, where the paper has JSON and a second attempt, and nobody is told to think.

## Version history
- v0: first version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from llm_marl_envs.core.answers import read_answer
from llm_marl_envs.core.environment import Bounds, Outcome, TextParallelEnv, described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import TaskOptions, tasks_field
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.networks.experts import NodeExperts
from llm_marl_envs.envs.networks.graphs import diameter
from llm_marl_envs.envs.networks.letters import letters_in, news
from llm_marl_envs.envs.networks.network_tasks import (
    NetworkSource,
    check_size,
    network_of,
    procedural,
    task_of_row,
)
from llm_marl_envs.envs.networks.pictures import network_html
from llm_marl_envs.envs.networks.problems import PROBLEMS
from llm_marl_envs.envs.networks.silent import MOST_NODES, silent_returns

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


class AgentsNetOptions(TaskOptions):
    """The arguments of agents_net."""

    nodes: int = Field(default=4, ge=2, le=MAX_NODES, description="seats, one for each node")
    problem: Literal["mixed", "colouring", "leader", "consensus", "matching", "cover"] = Field(
        default="mixed", description="what the nodes have to solve; 'mixed' is all in turn"
    )
    graph: Literal["mixed", "small_world", "scale_free", "delaunay"] = Field(
        default="mixed", description="how the nodes are joined; 'mixed' is all in turn"
    )
    turns: int | None = Field(
        default=None,
        ge=1,
        description="rounds of messages and the answer; None takes 1 + 2 ceil(log2 n): 5 for 4 "
        "nodes, 9 for 16, 15 for 100. With 1 nobody can write",
    )
    tasks: Any = tasks_field(
        "Rows have a `problem`, `edges` (pairs of numbers from 0) and perhaps `names`, `values`."
    )


class AgentsNetEnv(TextParallelEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, or a row of another size.
    """

    metadata: ClassVar[dict[str, Any]] = described("agents_net-v0")
    Options = AgentsNetOptions
    reward_range = (0.0, 1.0)
    links_drawn = True

    def __init__(self, **arguments: Any) -> None:
        options = AgentsNetOptions(**arguments)
        nodes, turns = options.nodes, options.turns
        turns = 1 + 2 * (nodes - 1).bit_length() if turns is None else turns
        super().__init__(
            agents=[f"node_{i}" for i in range(nodes)],
            source=options.opened(
                lambda split: procedural(split, nodes, options.problem, options.graph),
                lambda row: task_of_row(row, nodes),
            ),
            max_turns=turns,
            max_action_chars=MAX_ACTION_CHARS,
            render_mode=options.render_mode,
        )
        self.texts_per_turn = nodes - 1
        self._experts = NodeExperts(self.possible_agents, turns)

    # -- texts ------------------------------------------------------------------------------------
    def brief(self, task: Task, agent: str) -> str:
        """The node's name and lines, the problem, and when to write and to answer."""
        name = check_size(task, len(self.possible_agents))["problem"]
        problem, network = PROBLEMS[name], network_of(task)
        node = self.possible_agents.index(agent)
        count = len(network.lines[node])
        value = VALUE.format(value=network.values[node]) if name == "consensus" else ""
        lines = [
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
            lines.insert(2, WRITE.format(last=self.max_turns - 1))
        return "\n".join(lines)

    # -- the episode ------------------------------------------------------------------------------
    def begin_episode(self) -> None:
        """The network of the task; nobody has written."""
        self._network = network_of(self.task)
        self._turn = 1
        self._right: list[bool] | None = None
        self._answers: list[str | None] = []

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """Deliver what was written; judge the answers in the last turn."""
        texts = [joint_action[agent] for agent in self.possible_agents]
        if self._turn == self.max_turns:
            return self._judge(texts)
        self._turn += 1
        lines = self._network.lines
        received = [[""] * len(neighbours) for neighbours in lines]
        facts: dict[str, dict[str, Any]] = {}
        for node, text in enumerate(texts):
            sent = letters_in(text, len(lines[node]))
            for other, letter in self._arriving(node, sent).items():
                received[other][lines[other].index(node)] = letter
            count = len(sent) - sent.count("")
            facts[self.possible_agents[node]] = {"readable": count > 0, "letters": count}
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

    def _arriving(self, node: int, sent: Sequence[str]) -> dict[int, str]:
        """Neighbour -> what it is shown; a text for several is passed on once."""
        seats, arriving = self.possible_agents, {}
        read_by: dict[str, list[int]] = {}
        for other, letter in zip(self._network.lines[node], sent, strict=True):
            read_by.setdefault(letter, []).append(other)
        for letter, readers in read_by.items():
            shown = self.pass_on(seats[node], letter, [seats[other] for other in readers])
            arriving |= {other: shown[seats[other]] for other in readers}
        return arriving

    def links(self) -> Mapping[str, Mapping[str, int]]:
        """Any two nodes may be neighbours."""
        if self.max_turns == 1:
            return {}
        seats, rounds = self.possible_agents, self.max_turns - 1
        return {seat: {other: rounds for other in seats if other != seat} for seat in seats}

    def _judge(self, texts: Sequence[str]) -> Outcome:
        """Read and pay the answers."""
        problem, network = PROBLEMS[self.task.data["problem"]], self._network
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
        texts = [f"{name}: {answer}" for name, answer in zip(names, self._answers, strict=True)]
        return network_html(self._network.lines, texts, [RIGHT if hit else WRONG for hit in right])

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
        by_lot, silent = silent_returns(self.source, problem)
        return Bounds(random=by_lot, solo=silent, team=1.0)


parallel_env, env = module_forms(AgentsNetEnv)
