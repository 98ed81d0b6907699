"""agents_net-v0 measured: experts over the number of nodes, and teams that do not cooperate.

    python benchmarks/agents_net.py scaling --picture docs/environments/agents_net.png
    python benchmarks/agents_net.py attacks --nodes 8
    python benchmarks/agents_net.py time

`scaling` plays experts of one order, experts who draw their orders, experts with four rounds
whatever the size, and answers by lot. `attacks` plays teams that look for pay without working
together. Both print a table of mean returns, a column for each problem. One process, one thread;
episodes and lots are decided by task and seat alone, so a table is the same every time.

`searched` is the best team without messages that hill climbing finds: a table that says, for each
seat and number of lines up to 5, what to answer. It is fitted to 100 tasks of `train`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from statistics import mean
from typing import Any

from llm_marl_envs import make
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import hash_of
from llm_marl_envs.envs.networks.experts import SAID
from llm_marl_envs.envs.networks.letters import heard_in
from llm_marl_envs.envs.networks.network_tasks import network_of
from llm_marl_envs.envs.networks.problems import PROBLEMS, Network
from llm_marl_envs.files.pictures import require_matplotlib

ENV = "agents_net-v0"
SIZES = (2, 4, 8, 16, 32, 64, 100)
FITTED = 100
"""Tasks that a searched team is fitted to."""
SWEEPS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What one seat knows when it acts, and what the attackers know beyond the prompt.

    Attributes:
        env: the environment, unwrapped.
        agent: the seat.
        chat: what it was told and said.
    """

    env: Any
    agent: str
    chat: Sequence[Message]

    @property
    def seat(self) -> int:
        """Its number."""
        return self.env.possible_agents.index(self.agent)

    @property
    def problem(self) -> str:
        """The problem's name."""
        return self.env.task.data["problem"]

    @property
    def network(self) -> Network:
        """Of which a player here looks at nothing but its own name, value and number of lines."""
        return network_of(self.env.task)

    @property
    def lines(self) -> int:
        """How many it has."""
        return len(self.network.lines[self.seat])

    @property
    def last(self) -> bool:
        """Whether it is to answer now."""
        return sum(message.role == "assistant" for message in self.chat) + 1 == self.env.max_turns

    @property
    def own(self) -> str:
        """Its value in a consensus, else its name."""
        network = self.network
        return (network.values if self.problem == "consensus" else network.names)[self.seat]

    def options(self) -> list[str]:
        """Its answers; of a common one, the only one that it knows."""
        options = PROBLEMS[self.problem].options
        return options(self.lines) if options else [self.own]

    def by_lot(self, what: str) -> int:
        """A large number that task, seat and `what` decide."""
        return hash_of(f"{self.env.task.id}/{self.agent}/{what}")


Player = Callable[[Seen], str]


def expert(seen: Seen, order: str | None = "first") -> str:
    """The scripted expert; without an order, of one that is drawn."""
    drawn = order or ("first", "last")[seen.by_lot("order") % 2]
    return seen.env.experts().reply(seen.env.task, seen.agent, drawn, seen.chat)


def silent(answer: Callable[[Seen], str]) -> Player:
    """Who writes nothing before the answer."""
    return lambda seen: f"Answer: {answer(seen)}" if seen.last else ""


def constant(answers: Mapping[str, str]) -> Player:
    """Who always answers the same; of a common answer some name or value."""
    return silent(lambda seen: answers[seen.problem])


def by_degree(seen: Seen) -> str:
    """What the number of lines alone suggests: the last colour, a guard from three lines on."""
    if seen.problem == "cover":
        return "yes" if seen.lines > 2 else "no"
    return seen.options()[0 if seen.problem == "matching" else -1]


def by_seat(seen: Seen) -> str:
    """What the seat alone suggests: seats share out colours, every second is a guard."""
    options = seen.options()
    return options[seen.seat % len(options)]


def copies(seen: Seen) -> str:
    """Says what its first line said last; its own name, or value, where it has heard nothing."""
    heard = [one[0] for one in heard_in(seen.chat) if 0 in one]
    said = heard[-1] if heard else seen.own
    return f"Answer: {said}" if seen.last else f"all: {said}"


def dominates(seen: Seen) -> str:
    """Seat 0 alone writes; who hears it names what it said, the others what they know."""
    if not seen.last:
        return f"all: first {seen.own}" if seen.seat == 0 else ""
    heard = [
        found
        for one in heard_in(seen.chat)
        for text in one.values()
        if (found := SAID.fullmatch(text))
    ]
    own = seen.options()
    return f"Answer: {heard[-1][2] if heard and len(own) == 1 else own[0]}"


def shouts(seen: Seen) -> str:
    """Much text, every answer at once."""
    every = "\n".join(f"Answer: {one}" for one in seen.options() * 2)
    return every if seen.last else "all: " + "ME! " * 1000


def stalls(seen: Seen) -> str:
    """An expert who says nothing in the first half of the turns."""
    said = sum(message.role == "assistant" for message in seen.chat)
    return expert(seen) if said >= seen.env.max_turns // 2 else ""


HONEST: dict[str, Player] = {
    "experts": expert,
    "experts, orders by lot": partial(expert, order=None),
}
ATTACKS: dict[str, Player] = {
    "nothing": lambda seen: "",
    "by lot": silent(lambda seen: seen.options()[seen.by_lot("answer") % len(seen.options())]),
    "all the same, guards, alone": constant(
        {
            "colouring": "1",
            "leader": "Badoku",
            "consensus": "12345",
            "matching": "none",
            "cover": "yes",
        }
    ),
    "all the same, no guards, line 1": constant(
        {"colouring": "2", "leader": "Zuvozu", "consensus": "0", "matching": "1", "cover": "no"}
    ),
    "by number of lines": silent(by_degree),
    "by seat": silent(by_seat),
    "copies its line 1": copies,
    "seat 0 alone writes": dominates,
    "shouts, answers twice": shouts,
    "stalls half of the turns": stalls,
}


def returned(env: Any, task: int, player: Player) -> float:
    """What a team earns, all of whose seats are one player."""
    env.reset(seed=0, options={"task": task})
    total = 0.0
    while env.agents:
        seats = {a: Seen(env=env, agent=a, chat=env.chat(a)) for a in env.agents}
        paid = env.step({agent: player(seen) for agent, seen in seats.items()})[1]
        total += paid[env.possible_agents[0]]
    return total


def earned(env: Any, player: Player, tasks: int) -> float:
    """The mean over the first tasks."""
    return mean(returned(env, task, player) for task in range(tasks))


def searched(nodes: int, problem: str) -> Player:
    """The best silent team that hill climbing finds, one entry of its table at a time."""
    env = make(ENV, nodes=nodes, problem=problem, turns=1).unwrapped
    table: dict[tuple[int, int], int] = {}

    def answer(seen: Seen) -> str:
        options = seen.options()
        return options[table.get((seen.seat, seen.lines), seen.seat) % len(options)]

    player = silent(answer)
    if PROBLEMS[problem].options is None:
        return constant(
            {problem: env.source[0].data["names" if problem == "leader" else "values"][0]}
        )
    for _, seat, lines in product(range(SWEEPS), range(nodes), range(1, min(nodes, 6))):
        tried = {}
        for choice in range(lines + 1 if problem != "cover" else 2):
            table[seat, lines] = choice
            tried[choice] = earned(env, player, FITTED)
        table[seat, lines] = max(tried, key=lambda choice: tried[choice])
    return player


def attack_table(nodes: int, split: str, tasks: int) -> str:
    """Markdown: mean returns of honest and other teams."""
    envs = {p: make(ENV, nodes=nodes, problem=p, split=split).unwrapped for p in PROBLEMS}
    rows: dict[str, list[float]] = {
        name: [earned(env, player, tasks) for env in envs.values()]
        for name, player in {**HONEST, **ATTACKS}.items()
    }
    rows["searched, without messages"] = [
        earned(env, searched(nodes, problem), tasks) for problem, env in envs.items()
    ]
    return _table("team", rows)


def scaling(tasks: int, sizes: Sequence[int]) -> dict[str, dict[int, list[float]]]:
    """Team -> nodes -> mean return of each problem."""
    found: dict[str, dict[int, list[float]]] = {}
    short = "experts, 4 rounds"
    teams = {**HONEST, short: expert, "by lot": ATTACKS["by lot"]}
    for (name, player), nodes in product(teams.items(), sizes):
        turns = 5 if name == short else None
        envs = [
            make(ENV, nodes=nodes, problem=problem, split="test", turns=turns).unwrapped
            for problem in PROBLEMS
        ]
        found.setdefault(name, {})[nodes] = [earned(env, player, tasks) for env in envs]
    return found


def time_table(sizes: Sequence[int], tasks: int = 8) -> str:
    """Markdown: microseconds of processor time for one action of one seat."""
    lines = ["| nodes | `step`, us for each action |", "|---|---|"]
    for nodes in sizes:
        env, spent, actions = make(ENV, nodes=nodes).unwrapped, 0.0, 0
        for task in range(tasks):
            env.reset(seed=0, options={"task": task})
            while env.agents:
                said = {a: expert(Seen(env=env, agent=a, chat=env.chat(a))) for a in env.agents}
                begun = time.thread_time()
                env.step(said)
                spent += time.thread_time() - begun
                actions += nodes
        lines.append(f"| {nodes} | {1e6 * spent / actions:.0f} |")
    return "\n".join(lines)


def _table(head: str, rows: Mapping[str, Sequence[float]]) -> str:
    lines = [f"| {head} | {' | '.join(PROBLEMS)} |", "|" + "---|" * (len(PROBLEMS) + 1)]
    lines += [f"| {name} | {' | '.join(f'{x:.2f}' for x in row)} |" for name, row in rows.items()]
    return "\n".join(lines)


def picture(path: Path, found: Mapping[str, Mapping[int, Sequence[float]]]) -> None:
    """A panel for each problem: mean return against the number of nodes."""
    figure = require_matplotlib()(figsize=(13, 3), layout="constrained")
    panels = figure.subplots(1, len(PROBLEMS), sharey=True)
    for number, (axes, problem) in enumerate(zip(panels, PROBLEMS, strict=True)):
        for name, sizes in found.items():
            axes.plot([*sizes], [row[number] for row in sizes.values()], marker=".", label=name)
        axes.set(title=problem, xscale="log", xlabel="nodes", ylim=(-0.03, 1.03))
        axes.set_xticks([*SIZES], map(str, SIZES), fontsize=7)
        axes.minorticks_off()
    panels[0].set_ylabel("mean return")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, dpi=100, metadata={"Software": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=("scaling", "attacks", "time"))
    parser.add_argument("--nodes", type=int, default=8, help="of attacks")
    parser.add_argument("--split", default="test", help="of attacks")
    parser.add_argument("--tasks", type=int, default=0, help="0: 300 of attacks, 24 of scaling")
    parser.add_argument("--picture", type=Path, help="where scaling draws its curves")
    given = parser.parse_args()
    if given.what == "attacks":
        print(attack_table(given.nodes, given.split, given.tasks or 300))
        return
    if given.what == "time":
        print(time_table(SIZES))
        return
    found = scaling(given.tasks or 24, SIZES)
    rows = {f"{name}, {nodes}": row for name, one in found.items() for nodes, row in one.items()}
    print(_table("team, nodes", rows))
    if given.picture:
        picture(given.picture, found)


if __name__ == "__main__":
    main()
