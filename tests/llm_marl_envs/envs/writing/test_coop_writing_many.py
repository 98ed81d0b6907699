"""The writing tasks with three authors: rewards worked by hand, protocols, attacks."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from statistics import fmean
from typing import Any

import pytest

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.writing import divisions
from llm_marl_envs.envs.writing.coop_writing_arxiv import CoopWritingArxivEnv
from llm_marl_envs.envs.writing.coop_writing_tldr import CoopWritingTLDREnv
from llm_marl_envs.envs.writing.documents import Document, Fact, document_of
from llm_marl_envs.envs.writing.documents import line as said
from llm_marl_envs.envs.writing.paper import paper_terms

POSTS, ABSTRACTS = "coop_writing_tldr-v0", "coop_writing_arxiv-v0"
EACH = pytest.mark.parametrize("env_id", [POSTS, ABSTRACTS])
N = 40


def tasks_of(env: Any, n: int = N) -> list[tuple[Task, Document]]:
    found = [(env.source[i], document_of(env.source[i].data)) for i in range(n)]
    return [(task, document) for task, document in found if document is not None]


def expert(env: Any, task: Task, plans: Sequence[str]) -> list[str]:
    experts = experts_of(env)
    return [experts.first(task, *one) for one in zip(env.seats, plans, strict=True)]


def paid(env: Any, task: Task, texts: Sequence[str]) -> float:
    return sum(env.score_terms(task, texts).values())


# -- tasks ----------------------------------------------------------------------------------------
@EACH
def test_what_each_seat_alone_is_told(env_id: str) -> None:
    env = make(env_id, n_agents=3)
    documents = [document for _, document in tasks_of(env, 200)]
    assert {one.seats for one in documents} == {3}
    assert len({one.facts for one in documents}) == 200
    for one in documents:
        assert divisions.plans(one)
        if one.kind == "post":
            assert all(
                not set(a) & set(b) for s in one.sections for a, b in combinations(s.told, 2)
            )
        else:
            told = [sum(map(bool, section.told)) for section in one.sections]
            assert told[0] == told[-1] == 1
            assert set(told) <= {1, 3}
    free = fmean(len(divisions.plans(one)) == 3 for one in documents)
    assert 0.6 < free < 0.8


def test_no_plan_of_one_seat_is_another_and_plans_fit_themselves_best() -> None:
    plans = divisions.PLANS["abstract", 3]
    for seat in range(3):
        assert len({plan[seat] for plan in plans.values()}) == 3
    whole = [
        names
        for names in product(plans, repeat=3)
        if len({i for seat, name in enumerate(names) for i in plans[name][seat]}) == 6
    ]
    assert sorted(whole) == sorted([*((name,) * 3 for name in plans), ("near", "odd", "far")])


def test_tasks_for_two_are_refused() -> None:
    two, three = make(POSTS), make(POSTS, n_agents=3)
    with pytest.raises(ValueError, match=r"n_agents=3: .* over 2 authors; use n_agents=2"):
        three.reset(options={"task": two.source[0]})
    with pytest.raises(ValueError, match=r"n_agents=2: .* over 3 authors; use n_agents=3"):
        two.reset(options={"task": three.source[0]})
    with pytest.raises(ValueError, match="needs at least 3"):
        make(POSTS, n_agents=3, turns=2, protocol="pipeline")


# -- rewards --------------------------------------------------------------------------------------
def test_a_topic_counts_where_all_three_treat_it() -> None:
    env = CoopWritingTLDREnv(n_agents=3)
    task = next(t for t, d in tasks_of(env) if len(divisions.plans(d)) == 3)
    first, odd = expert(env, task, ["first"] * 3), expert(env, task, ["odd"] * 3)
    assert paid(env, task, first) == paid(env, task, odd) == 1.0
    # Two topics count; two pairs of texts differ in two topics, one in none: 4/3 in the mean.
    for seat in range(3):
        mixed = [odd[i] if i == seat else first[i] for i in range(3)]
        assert paid(env, task, mixed) == pytest.approx(2 / 3 - 0.25 * (4 / 3) / 3)


def test_a_fact_is_stated_once_by_whoever() -> None:
    env = CoopWritingArxivEnv(n_agents=3)
    task, document = next((t, d) for t, d in tasks_of(env) if len(divisions.plans(d)) == 3)
    near = expert(env, task, ["near"] * 3)
    assert paid(env, task, near) == 1.0
    assert paid(env, task, expert(env, task, ["near", "odd", "far"])) == 1.0
    lines = [said("abstract", one.label, one.facts) for one in document.sections]
    # Five of six stated, one of them twice; then all of two by everybody.
    assert paid(env, task, [near[0], lines[1] + lines[2], near[2]]) == pytest.approx(5 / 6 * 4 / 5)
    same = lines[1] + lines[2]
    assert paid(env, task, [same] * 3) == 0.0
    # A third statement costs no more than the second: a pair of copies is not cheaper.
    twice = paid(env, task, [lines[1], lines[1], lines[2]])
    assert paid(env, task, [lines[1], lines[1], lines[1] + lines[2]]) == twice > 0


def test_the_papers_terms_are_those_of_the_worst_pair() -> None:
    brief = "The cat sat on a warm mat near an open door."
    long = " ".join([brief, "Then it ran, because the dog had seen it, and hid in the old shed."])
    for texts in (
        [brief, long, long],
        [brief, long, brief],
        [brief, brief, long],
        [brief, long, ""],
    ):
        pairs = [paper_terms("post", [texts[0], other]) for other in texts[1:]]
        for term, value in paper_terms("post", texts).items():
            assert value == min(pair[term] for pair in pairs)
    for texts in (["a " * 130, "b " * 140, "c " * 150],):
        pairs = [paper_terms("abstract", pair) for pair in combinations(texts, 2)]
        for term, value in paper_terms("abstract", texts).items():
            assert value == min(pair[term] for pair in pairs)


@EACH
def test_bounds_and_index(env_id: str) -> None:
    env = make(env_id, n_agents=3)
    for task, document in tasks_of(env, 20):
        bounds = env.bounds(task)
        assert (bounds.random, bounds.team) == (0.0, 1.0)
        assert bounds.solo == pytest.approx(0.0 if document.kind == "post" else 1 / 3)
        # The best that one seat states of what it is told, beside partners who state something.
        for seat in range(3):
            known = [one for one in document.sections if one.told[seat]]
            best = 0.0
            for k in range(1, 5):
                for chosen in list(combinations(known, k))[:6]:
                    own = "".join(said(document.kind, s.label, s.told[seat]) for s in chosen)
                    texts = [wrong(document)] * 3
                    texts[seat] = own
                    best = max(best, paid(env, task, texts))
            assert best <= bounds.solo


def wrong(document: Document) -> str:
    """A sentence that is false: all that who knows nothing can say."""
    fact = next(iter(sorted(document.facts)))
    return said(
        document.kind, "", [Fact(fact.subject, fact.relation, fact.object, not fact.holds)]
    )[2:]


# -- attacks --------------------------------------------------------------------------------------
@EACH
def test_no_author_can_be_missing_and_no_attack_pays(env_id: str) -> None:
    env = make(env_id, n_agents=3)
    means: dict[str, list[float]] = {}
    for task, document in tasks_of(env):
        plan = divisions.plans(document)[0]
        right = expert(env, task, [plan] * 3)
        all_known = [
            "".join(said(document.kind, s.label, s.told[i]) for s in document.sections if s.told[i])
            for i in range(3)
        ]
        attacks = {
            "experts": right,
            "nothing": [""] * 3,
            "all that each knows": all_known,
            "all write the first's": [right[0]] * 3,
            "said twice": [text * 2 for text in right],
            "shouted": [text + "and so on " * 400 for text in right],
            "one sentence of each": [text.split("\n")[0] for text in right],
        }
        for seat in range(3):
            attacks[f"silent {seat}"] = ["" if i == seat else right[i] for i in range(3)]
            attacks[f"{seat} states all it knows"] = [
                all_known[i] if i == seat else right[i] for i in range(3)
            ]
        for name, texts in attacks.items():
            means.setdefault(name, []).append(paid(env, task, texts))
    found = {name: fmean(values) for name, values in means.items()}
    assert found.pop("experts") == 1.0
    assert found.pop("one sentence of each") <= 0.5
    assert max(found.values()) <= 0.15, found


@EACH
@pytest.mark.parametrize("seat", range(3))
def test_a_constant_author_is_no_author(env_id: str, seat: int) -> None:
    """A text of another task in one seat, the others right."""
    env = make(env_id, n_agents=3)
    tasks = tasks_of(env)
    earned = []
    for (task, document), (other, known) in zip(tasks, tasks[1:], strict=False):
        texts = expert(env, task, [divisions.plans(document)[0]] * 3)
        texts[seat] = expert(env, other, [divisions.plans(known)[0]] * 3)[seat]
        earned.append(paid(env, task, texts))
    assert fmean(earned) < 0.5


@pytest.mark.parametrize("authors", [2, 3])
@pytest.mark.parametrize("split", ["test", "ood"])
def test_one_rule_fits_every_post(split: str, authors: int) -> None:
    """As docs/writing.md says: a choice that reads the outline is always possible, no plan is."""
    env = make(POSTS, n_agents=authors, split=split)
    always: dict[str, list[bool]] = {name: [] for name in divisions.PLANS["post", authors]}
    for task, document in tasks_of(env):
        first = [section for section in document.sections if section.open][:3]
        texts = [
            "".join(said("post", one.label, one.told[seat]) for one in first)
            for seat in range(authors)
        ]
        assert paid(env, task, texts) == 1.0
        for name, possible in always.items():
            possible.append(name in divisions.plans(document))
    assert not any(map(all, always.values()))


# -- turns ----------------------------------------------------------------------------------------
def test_in_a_discussion_each_reads_all_others() -> None:
    env = CoopWritingTLDREnv(n_agents=3, turns=2)
    assert env.links() == {a: {b: 1 for b in env.seats if b != a} for a in env.seats}
    env.reset(seed=0, options={"task": 0})
    seen = env.step({a: f"I am {a}." for a in env.seats})[0]
    told = seen["detailed_0"].messages[-1].content
    assert told == (
        "brief_0 wrote:\nI am brief_0.\ndetailed_1 wrote:\nI am detailed_1.\n"
        "Write your text again, better."
    )


@pytest.mark.parametrize("n_agents", [2, 3])
def test_a_text_from_outside_is_in_every_prompt(n_agents: int) -> None:
    row = {"id": "a", "text": "Some {text} in braces. More."}
    common: Any = {"n_agents": n_agents, "tasks": [row], "split": "all", "reward": "paper"}
    for cls in (CoopWritingTLDREnv, CoopWritingArxivEnv):
        for turns in (1, 2):
            seen = cls(**common, turns=turns).reset(seed=0)[0]
            for one in seen.values():
                text = one.messages[0].content
                assert row["text"] in text
                assert ("sees the other" in text) == (turns == 1)


def test_in_the_shortest_pipeline_the_first_sees_nothing_and_nobody_reads_the_last() -> None:
    env = CoopWritingTLDREnv(protocol="pipeline")
    first, last = (seen.messages[0].content for seen in env.reset(seed=0)[0].values())
    assert first.endswith(
        "\nThere are 2 turns. You write at turn 1. Who writes after you sees your text. What you "
        "answer at other turns is not read."
    )
    assert last.endswith(
        "\nThere are 2 turns. You write at turn 2. You see what your partner wrote before. What "
        "you answer at other turns is not read."
    )


def test_in_a_pipeline_each_reads_who_wrote_before() -> None:
    env = CoopWritingArxivEnv(n_agents=3, protocol="pipeline", turns=4)
    assert env.max_turns == 4
    assert env.links() == {
        "method_0": {"background_0": 1},
        "results_0": {"background_0": 1, "method_0": 1},
        "background_0": {"method_0": 1, "results_0": 1},
    }
    first = env.reset(seed=0, options={"task": 0})[0]
    told = {agent: seen.messages[0].content for agent, seen in first.items()}
    assert told["method_0"].endswith(
        "\nThere are 4 turns. You write at turn 2. You see what your partners wrote before. Who "
        "writes after you sees your text. What you answer at other turns is not read."
    )
    assert "You write at turns 1 and 4. You see what" in told["background_0"]
    assert not any("None sees the others' texts." in text for text in told.values())
    texts = [{a: f"{a} at {turn}." for a in env.seats} for turn in range(1, 4)]
    told = [
        {a: seen.messages[-1].content for a, seen in env.step(joint)[0].items()} for joint in texts
    ]
    assert told[0] == {
        "background_0": "method_0 writes now. What you answer is not read.",
        "method_0": "background_0 wrote:\nbackground_0 at 1.\nNow write your text.",
        "results_0": "method_0 writes now. What you answer is not read.",
    }
    assert told[1]["results_0"] == (
        "background_0 wrote:\nbackground_0 at 1.\nmethod_0 wrote:\nmethod_0 at 2.\n"
        "Now write your text."
    )
    assert told[2]["background_0"].endswith("Write your text again, better.")
    assert CoopWritingArxivEnv(n_agents=3, protocol="pipeline").max_turns == 3


def test_rows_bring_a_text_of_each() -> None:
    row = {"post": "Mia sold a key.", "brief": "One.", "detailed": "Two.", "detailed_1": "Three."}
    env = CoopWritingTLDREnv(tasks=[row], split="all", n_agents=3, reward="paper")
    experts = experts_of(env)
    texts = [experts.first(env.source[0], agent, "reference") for agent in env.seats]
    assert texts == ["One.", "Two.", "Three."]
    less = {name: row[name] for name in ("post", "brief", "detailed")}
    env = CoopWritingTLDREnv(tasks=[less], split="all", n_agents=3, reward="paper")
    assert experts_of(env).conventions(env.source[0]) == ()
