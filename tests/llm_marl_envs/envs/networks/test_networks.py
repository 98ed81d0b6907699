"""Networks: graphs that are connected, texts that are delivered, nodes that are right."""

from __future__ import annotations

import random
from collections import Counter
from itertools import combinations, permutations, product

import pytest

from llm_marl_envs.envs.networks.graphs import (
    FAMILIES,
    diameter,
    distances,
    drawn,
    neighbours_of,
    tree_and_chords,
)
from llm_marl_envs.envs.networks.letters import letters_in, news
from llm_marl_envs.envs.networks.network_tasks import (
    SIZES,
    NetworkSource,
    chance,
    network_of,
    procedural,
)
from llm_marl_envs.envs.networks.problems import PROBLEMS, Network
from llm_marl_envs.envs.networks.silent import silent_returns

PATH = Network(((1,), (0, 2), (1, 3), (2,)), ("Ab", "Cd", "Ef", "Gh"), ("11", "22", "33", "22"))


@pytest.mark.parametrize("family", [*FAMILIES.values(), tree_and_chords])
def test_graphs_are_connected_simple_and_never_complete(family):
    for nodes, count in ((2, 3), (3, 20), (4, 60), (5, 20), (8, 20), (33, 3), (100, 1)):
        for number in range(count):
            edges = drawn(family, nodes, random.Random(number))
            assert edges == drawn(family, nodes, random.Random(number))
            assert all(0 <= i < j < nodes for i, j in edges)
            assert min(distances(neighbours_of(nodes, edges), 0)) == 0
            assert nodes < 4 or len(edges) < nodes * (nodes - 1) // 2


def test_families_have_their_edges():
    rng = random.Random(0)
    assert len(drawn(FAMILIES["small_world"], 50, rng)) == 100
    assert len(drawn(FAMILIES["small_world"], 7, rng)) == 7
    assert len(drawn(FAMILIES["scale_free"], 50, rng)) == 2 + 2 * 47
    assert len(drawn(tree_and_chords, 50, rng)) == 49 + 24
    assert 99 < len(drawn(FAMILIES["delaunay"], 50, rng)) <= 3 * 50 - 6
    assert max(map(len, neighbours_of(99, drawn(FAMILIES["scale_free"], 99, rng)))) > 12


def test_distances_of_a_ring_with_a_tail():
    lines = neighbours_of(6, [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4)])
    assert distances(lines, 0) == [0, 1, 2, 1, 2, -1]
    assert diameter(neighbours_of(4, [(0, 1), (1, 2), (2, 3)])) == 3


@pytest.mark.parametrize(
    ("text", "sent"),
    [
        ("", ["", "", ""]),
        ("1: hello\n3: you", ["hello", "", "you"]),
        ("all: hello\n2: you", ["hello", "you", "hello"]),
        ("2: you\nALL : hello", ["hello", "you", "hello"]),
        ("  1:a: b ", ["a: b", "", ""]),
        ("1: draft\n1: final", ["final", "", ""]),
        ("1:\n2: ", ["", "", ""]),
        ("0: a\n4: b\n-1: c\n1.: d\nline 1: e\n> 1: f", ["", "", ""]),
        ("1: I think\n</think>\n2: so", ["", "so", ""]),
        ("1: a\u20282: b\x0b3: c", ["a", "b", "c"]),
        ("1: x\u202ey", ["xy", "", ""]),
        ("1: " + "x" * 900, ["x" * 400, "", ""]),
        ("02: two", ["", "two", ""]),
    ],
)
def test_letters(text, sent):
    assert letters_in(text, 3) == sent


def test_news_name_every_line():
    assert news(["a", "", "From 2: b"]) == "From 1: a\nFrom 3: From 2: b\nNothing from 2."
    assert news(["", ""]) == "Nothing from 1, 2."


@pytest.mark.parametrize(
    ("problem", "answers", "right", "paid"),
    [
        ("colouring", "1 2 1 2", "1111", 1.0),
        ("colouring", "1 1 2 1", "0011", 0.0),
        ("colouring", "1 2 2 1", "1001", 0.0),
        ("colouring", "1 2 1 9", "1110", 0.25),  # a node with one line has two colours
        ("matching", "1 1 2 1", "1111", 1.0),
        ("matching", "none 2 1 none", "1111", 1.0),
        ("matching", "none none 2 1", "0011", 0.0),
        ("matching", "1 1 none none", "1100", 0.0),
        ("matching", "none 2 1 1", "1110", 0.25),
        ("matching", "none none none none", "0000", 0.0),
        ("cover", "no yes yes no", "1111", 1.0),
        ("cover", "yes no yes no", "1111", 1.0),
        ("cover", "yes yes yes no", "0011", 0.0),
        ("cover", "no no yes no", "0011", 0.0),
        ("cover", "yes no yes yes", "1110", 0.25),
        ("cover", "yes yes yes yes", "0000", 0.0),
        ("cover", "no no no no", "0000", 0.0),
        ("leader", "Ef ef EF Ef.", "1111", 1.0),
        ("leader", "Ef Ef Ef Gh", "1110", 1 / 3),
        ("leader", "Zz Zz Zz Gh", "0001", 0.0),
        ("leader", "Ab Cd Ef Gh", "1000", 0.0),
        ("consensus", "22 22 22 22", "1111", 1.0),
        ("consensus", "22 22 44 44", "1100", 1 / 6),
        ("consensus", "44 44 44 44", "0000", 0.0),
    ],
)
def test_scores_of_four_in_a_row(problem, answers, right, paid):
    known = PROBLEMS[problem]
    read = [known.read(PATH, node, one) for node, one in enumerate(answers.split())]
    found = known.right(PATH, read)
    assert found == [one == "1" for one in right]
    assert sum(known.terms(found).values()) == pytest.approx(paid)


@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_answer_is_wrong_and_harms_nobody_else(problem):
    known = PROBLEMS[problem]
    assert known.right(PATH, [None] * 4) == [False] * 4
    for answer in ("", "maybe", "0", "4", "-1", "1.5"):
        assert known.options is None or known.read(PATH, 0, answer) is None


def test_all_right_is_what_the_problems_ask_for():
    """Of every answer to every connected graph of four nodes."""
    pairs = [*combinations(range(4), 2)]
    for chosen in product((0, 1), repeat=6):
        edges = [pair for pair, take in zip(pairs, chosen, strict=True) if take]
        lines = neighbours_of(4, edges)
        if -1 in distances(lines, 0):
            continue
        network = Network(lines, (), ())
        for guards in product(("yes", "no"), repeat=4):
            full = all("yes" in (guards[i], guards[j]) for i, j in edges)
            least = all(
                any(guards[j] == "no" for j in lines[i]) for i in range(4) if guards[i] == "yes"
            )
            assert all(PROBLEMS["cover"].right(network, guards)) == (full and least)
        for said in product(*([*map(str, range(1, len(one) + 1)), "none"] for one in lines)):
            to = [None if s == "none" else lines[i][int(s) - 1] for i, s in enumerate(said)]
            mutual = all(j is None or to[j] == i for i, j in enumerate(to))
            maximal = all(to[i] is not None or to[j] is not None for i, j in edges)
            assert all(PROBLEMS["matching"].right(network, said)) == (mutual and maximal)


def test_splits_share_no_name_and_no_value():
    seen: dict[str, str] = {}
    for split in SIZES:
        source = procedural(split, 20, "mixed", "mixed")
        for index in range(30):
            data = source[index].data
            assert len(set(data["names"])) == len(set(data["values"])) == 20
            for text in (*data["names"], *data["values"]):
                assert seen.setdefault(text, split) == split


def test_who_sits_where_and_the_order_of_lines_are_by_lot():
    source = procedural("train", 10, "leader", "scale_free")
    hubs, sorted_lines = [0] * 10, 0
    for index in range(200):
        lines = source[index].data["lines"]
        hubs[max(range(10), key=lambda node, lines=lines: len(lines[node]))] += 1
        sorted_lines += all(list(one) == sorted(one) for one in lines)
    assert min(hubs) > 5
    assert max(hubs) < 45
    assert sorted_lines == 0


def test_the_best_without_messages_worked_by_hand():
    """Four nodes of a triangulation are always two triangles with a common edge."""
    source = procedural("val", 4, "mixed", "delaunay")
    assert silent_returns(source, "cover")[1] == 1.0  # guards are those with three lines
    # Who has two lines says 1; who has three says 2, 3 or 4 by seat. A pair of seats that says the
    # same is wrong: of the six pairs the rarest, for its two nodes of four half of all are right.
    tasks = [source[index].data["lines"] for index in range(0, len(source), 5)]
    hubs = Counter(tuple(len(one) == 3 for one in lines) for lines in tasks)
    rarest = min(hubs.values()) if len(hubs) == 6 else 0
    assert silent_returns(source, "colouring")[1] == pytest.approx(1 - rarest / len(tasks))
    assert silent_returns(source, "matching")[0] == pytest.approx(1 / 36)
    assert silent_returns(source, "leader") == (0.0, 4 / 34300)
    assert silent_returns(source, "consensus") == (0.0, 4 / 9000)
    two = procedural("val", 2, "mixed", "mixed")  # seats share out all that is to be shared out
    for problem in ("colouring", "matching", "cover"):
        assert silent_returns(two, problem)[1] == 1.0


def climbed(source: NetworkSource, problem: str, seed: int) -> float:
    """What the best table of seat and number of lines that climbing finds earns on a split."""
    known, rng = PROBLEMS[problem], random.Random(seed)
    assert known.options
    own = range(source.problems.index(problem), len(source), len(source.problems))
    nets = [network_of(source[index]) for index in own]

    def earned() -> float:
        total = 0.0
        for net in nets:
            said = [table[seat, len(lines)] for seat, lines in enumerate(net.lines)]
            total += sum(known.terms(known.right(net, said)).values())
        return total / len(nets)

    entries = [*product(range(source.nodes), range(1, source.nodes))]
    alike = {lines: rng.choice(known.options(lines)) for _, lines in entries}
    table = {entry: alike[entry[1]] for entry in entries}  # at first all seats answer the same
    best = 0.0
    for entry in rng.sample(entries, len(entries)) * 3:
        tried = {}
        for said in known.options(entry[1]):
            table[entry] = said
            tried[said] = earned()
        table[entry] = max(tried, key=tried.__getitem__)
        best = max(tried.values())
    return best


@pytest.mark.full
@pytest.mark.parametrize("split", ["val", "test", "ood"])
@pytest.mark.parametrize("problem", ["colouring", "matching", "cover"])
def test_no_table_that_climbing_finds_is_better_than_the_best_silent_team(problem, split):
    source = procedural(split, 4, "mixed", "mixed")
    best = silent_returns(source, problem)[1]
    found = [climbed(source, problem, seed) for seed in range(6)]
    assert max(found) <= best + 1e-9
    assert max(found) > best - 0.05  # it is no loose bound


def test_no_way_to_name_a_leader_without_messages_is_better_than_one_name():
    """All teams of two seats with a map each from own name to answer, three names in all."""
    names, leader = ("Ab", "Cd", "Ef"), PROBLEMS["leader"]
    lines = ((1,), (0,))
    best = 0.0
    for maps in product(product(range(3), repeat=3), repeat=2):
        paid = 0.0
        for deal in permutations(range(3), 2):
            network = Network(lines, [names[one] for one in deal], ())
            said = [names[maps[seat][one]].casefold() for seat, one in enumerate(deal)]
            paid += sum(leader.terms(leader.right(network, said)).values()) / 6
        best = max(best, paid)
    assert best == pytest.approx(2 / 3)  # n / N


@pytest.mark.parametrize(
    ("split", "names"), [("train", 240_100), ("val", 34_300), ("test", 68_600)]
)
def test_how_many_names_there_are(split, names):
    sums = [first + last for first in range(70) for last in range(70)]
    tens = {"train": range(7), "val": (7,), "test": (8, 9)}[split]
    assert sum((one + more) % 10 in tens for one in sums for more in range(70)) == names
    assert chance(split, 5, "leader") == 5 / names
