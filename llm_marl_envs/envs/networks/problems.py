"""The five problems: what is asked, which answers there are, which nodes are right. Pure functions.

Owns scores. All problems but two can be checked by looking at a node and its neighbours, and so is
a node right or wrong here; a leader and a common value are matters of all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from llm_marl_envs.core.answers import canonical

YES, NO, NONE = "yes", "no", "none"


@dataclass(frozen=True, slots=True)
class Network:
    """Who is joined to whom, and what each knows of itself.

    Attributes:
        lines: of each node, which node is at the end of its line 1, 2, ...
        names: of the nodes, each once.
        values: numbers as text, one per node.
    """

    lines: Sequence[Sequence[int]]
    names: Sequence[str]
    values: Sequence[str]


Answers = Sequence[str | None]
"""Each node's answer, as `Problem.options` or `Problem.held` has it; None: none, or no such one."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One of the five.

    Attributes:
        asks: what all must achieve, in words.
        form: what stands behind `Answer:`.
        right: which nodes are right.
        options: the answers of a node, by how many lines it has; None: any text.
        held: what of the nodes a common answer must be; None: answers are no common one.
    """

    asks: str
    form: str
    right: Callable[[Network, Answers], list[bool]]
    options: Callable[[int], list[str]] | None = None
    held: Callable[[Network], Sequence[str]] | None = None

    def read(self, network: Network, node: int, answer: str | None) -> str | None:
        """An answer in its one form; None where a node has no such answer."""
        if answer is None:
            return None
        text = canonical(answer)
        options = self.options(len(network.lines[node])) if self.options else [text]
        return text if text in options else None

    def terms(self, right: Sequence[bool]) -> dict[str, float]:
        """What is paid: `share` and `solved`, each from 0 to 0.5.

        Of a common answer the share is that of the others who agree with a first one. Else it is
        what goes beyond half of the nodes, for about half are right by lot.
        """
        count, nodes = sum(right), len(right)
        share = (count - 1) / (nodes - 1) if self.held else 2 * count / nodes - 1
        return {"share": max(0.0, share) / 2, "solved": float(count == nodes) / 2}


def common(held: Callable[[Network], Sequence[str]]) -> Callable[[Network, Answers], list[bool]]:
    """Right are those who gave the most frequent answer that is some node's own."""

    def right(network: Network, answers: Answers) -> list[bool]:
        own = set(map(canonical, held(network)))
        votes = Counter(answer for answer in answers if answer in own)
        chosen = votes.most_common(1)[0][0] if votes else None
        return [chosen is not None and answer == chosen for answer in answers]

    return right


def coloured(network: Network, answers: Answers) -> list[bool]:
    """Right is a node that has a colour which no neighbour has."""
    return [
        own is not None and all(answers[other] != own for other in lines)
        for own, lines in zip(answers, network.lines, strict=True)
    ]


def matched(network: Network, answers: Answers) -> list[bool]:
    """Right is a node that is in a pair, or says `none` and all its neighbours are in pairs."""

    def chosen(node: int) -> int | None:
        answer = answers[node]
        return None if answer is None or answer == NONE else network.lines[node][int(answer) - 1]

    choices = [chosen(node) for node in range(len(answers))]
    paired = [choice is not None and choices[choice] == node for node, choice in enumerate(choices)]
    return [
        paired[node] or (answers[node] == NONE and all(paired[other] for other in lines))
        for node, lines in enumerate(network.lines)
    ]


def covered(network: Network, answers: Answers) -> list[bool]:
    """Right is `yes` beside some `no`, and `no` where all neighbours say `yes`."""
    return [
        (own == YES and any(answers[other] == NO for other in lines))
        or (own == NO and all(answers[other] == YES for other in lines))
        for own, lines in zip(answers, network.lines, strict=True)
    ]


def _names(network: Network) -> Sequence[str]:
    return network.names


def _values(network: Network) -> Sequence[str]:
    return network.values


PROBLEMS: dict[str, Problem] = {
    "colouring": Problem(
        asks="Colours: no two neighbours may have the same colour.",
        form="your colour, a number from 1 to {colours}",
        right=coloured,
        options=lambda lines: [str(colour) for colour in range(1, lines + 2)],
    ),
    "leader": Problem(
        asks="Leader: all nodes must name the same node.",
        form="the leader's name",
        right=common(_names),
        held=_names,
    ),
    "consensus": Problem(
        asks="Consensus: all nodes must say the same value, one that some node was given.",
        form="the value",
        right=common(_values),
        held=_values,
    ),
    "matching": Problem(
        asks="Pairs: each node pairs up with one neighbour, or with none if no neighbour is left.",
        form="the number of the line to your partner, or none",
        right=matched,
        options=lambda lines: [*map(str, range(1, lines + 1)), NONE],
    ),
    "cover": Problem(
        asks=(
            "Guards: of two neighbours at least one is a guard; each guard has a neighbour who is "
            "none."
        ),
        form="yes if you are a guard, else no",
        right=covered,
        options=lambda _: [YES, NO],
    ),
}
