"""The writing environments: the contract, exact returns, PettingZoo's own tests, determinism."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.cost import milliseconds

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.core.tasks import SPLITS
from llm_marl_envs.envs.writing import paper
from llm_marl_envs.envs.writing.authors import references_of
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.testing import JUNK

IDS = ("coop_writing_arxiv-v0", "coop_writing_tldr-v0")
BUNDLED = {
    "coop_writing_arxiv-v0": "bundled:writing_abstracts",
    "coop_writing_tldr-v0": "bundled:writing_posts",
}
ROOT = Path(__file__).parents[4]
each_env = pytest.mark.parametrize("env_id", IDS)


def solution(env: Any, index: int, convention: int = 0) -> dict[str, str]:
    task = env.source[index]
    return {
        a: experts_of(env).first(task, a, experts_of(env).conventions(task)[convention])
        for a in env.seats
    }


@pytest.mark.parametrize(
    ("env_id", "agents"),
    [
        ("coop_writing_tldr-v0", ["brief_0", "detailed_0"]),
        ("coop_writing_arxiv-v0", ["background_0", "method_0"]),
    ],
)
def test_two_authors_and_one_turn_by_default(env_id: str, agents: list[str]) -> None:
    env = make(env_id)
    env.reset(seed=0)
    assert env.agents == env.possible_agents == agents
    _, _, ended, _, _ = env.step(dict.fromkeys(agents, "text"))
    assert ended == dict.fromkeys(agents, True)
    assert (env.info_mode, env.reward_scheme) == ("split", "grounded")


# -- what is paid and reported --------------------------------------------------------------------
@each_env
@pytest.mark.parametrize("reward", ["reference", "paper"])
def test_reward_and_log_are_one(env_id: str, reward: str) -> None:
    """What is paid is the sum of what is logged, and both are what the rules give."""
    env = make(env_id, tasks=rows_with_pairs(env_id), split="all", reward=reward)
    for index in range(8):
        joint = solution(env, index)
        env.reset(seed=0, options={"task": index})
        texts = (joint[env.seats[0]], joint[env.seats[1]])
        # The authors wrote the references themselves.
        terms = {"reference": 1.0} if reward == "reference" else paper.paper_terms(env.kind, texts)
        _, rewards, _, _, infos = env.step(joint)
        for agent in env.seats:
            assert infos[agent]["reward_terms"] == pytest.approx(terms)
            assert (infos[agent]["success"] is None) == (reward == "reference")
            assert rewards[agent] == pytest.approx(sum(terms.values()))
            assert set(terms) <= set(re.findall(r"[a-z]+", page_of(env)))


def rows_with_pairs(env_id: str) -> list[dict[str, Any]]:
    env = make(env_id, tasks=BUNDLED[env_id], split="all", reward="paper")
    names = [seat.removesuffix("_0") for seat in env.seats]
    return [
        {"text": task.data["text"], names[0]: task.data["first"], names[1]: task.data["second"]}
        for task in env.source
        if task.data["first"]
    ]


@each_env
def test_texts_from_outside_have_no_reward_by_default(env_id: str) -> None:
    for reward in (None, "grounded"):
        with pytest.raises(ValueError, match="say what they are worth") as error:
            make(env_id, tasks=BUNDLED[env_id], split="all", reward=reward)
        for form in ("paper", "reference", "nli:MODEL", "reward:MODEL", "judge:ENDPOINT#MODEL"):
            assert form in str(error.value)
    with pytest.raises(ValueError, match="generated tasks take"):
        make(env_id, reward="reference")


def test_rows_without_a_summary_cannot_be_compared() -> None:
    rows = [{"id": "a", "post": "Text one.", "summary": "Text."}, {"id": "b", "post": "Text two."}]
    with pytest.raises(ValueError, match=r"1 of 2 rows .* 'b'"):
        make("coop_writing_tldr-v0", tasks=rows, split="all", reward="reference")
    for name in ("summary", "completion", "highlights"):
        env = make(
            "coop_writing_tldr-v0",
            tasks=[{"post": "Text.", name: " Short. "}],
            split="all",
            reward="reference",
        )
        assert references_of(env.source[0], 2) == ("Short.",)
        assert "Short" not in str(env.reset(seed=0)[0])
    abstract = make(
        "coop_writing_arxiv-v0", tasks=[{"abstract": "A b."}], split="all", reward="reference"
    )
    assert references_of(abstract.source[0], 2) == ("A b.",)


def page_of(env: Any) -> str:
    page = sys.modules[type(env).__module__].__doc__
    assert page
    return page


@each_env
@pytest.mark.parametrize("split", SPLITS)
def test_agreement_is_what_pays(env_id: str, split: str) -> None:
    env = make(env_id, split=split)
    for index in range(0, 200, 9):
        task = env.source[index]
        bounds = env.bounds(task)
        assert bounds.random <= bounds.solo < bounds.team == 1.0
        for mine in experts_of(env).conventions(task):
            for theirs in experts_of(env).conventions(task):
                env.reset(seed=0, options={"task": index})
                first, second = env.seats
                joint = {first: experts_of(env).first(task, first, mine)}
                joint[second] = experts_of(env).first(task, second, theirs)
                _, rewards, terminations, _, infos = env.step(joint)
                assert rewards[first] == rewards[second]
                assert (rewards[first] == pytest.approx(1.0)) == (mine == theirs)
                assert infos[first]["success"] is (mine == theirs)
                assert [infos[a]["convention"] for a in env.seats] == [mine, theirs]
                assert mine == theirs or rewards[first] < 0.7
                assert all(terminations.values())


@each_env
def test_no_constant_convention_wins_every_task(env_id: str) -> None:
    env = make(env_id, split="test")
    possible = [experts_of(env).conventions(env.source[i]) for i in range(200)]
    for convention in {name for names in possible for name in names}:
        assert 20 <= sum(convention not in names for names in possible) <= 100
    assert min(map(len, possible)) == 1


@each_env
def test_one_author_alone_earns_no_more_than_the_solo_bound(env_id: str) -> None:
    env = make(env_id)
    for index in range(40):
        task = env.source[index]
        for seat in (0, 1):
            for name in experts_of(env).conventions(task):
                for other in ("", "I do not know.", "Mia paid the parser."):
                    texts = [other, other]
                    texts[seat] = experts_of(env).first(task, env.seats[seat], name)
                    score = sum(env.score_terms(task, (texts[0], texts[1])).values())
                    assert score <= env.bounds(task).solo + 1e-9


@each_env
def test_junk_earns_nothing_and_never_raises(env_id: str) -> None:
    for env in (make(env_id), make(env_id, tasks=BUNDLED[env_id], split="all", reward="paper")):
        for text in (*JUNK, "x" * 2**16, "a. " * 2**14, "\u202e\u200b", "\n" * 9999):
            for agent in env.seats:
                env.reset(seed=0, options={"task": 0})
                joint = {**dict.fromkeys(env.seats, "Mia."), agent: text}
                assert env.step(joint)[1][agent] == pytest.approx(0.0)


@each_env
def test_bounds_of_other_tasks_are_not_claimed(env_id: str) -> None:
    full = make(env_id, info="full")
    assert full.bounds(full.source[0]).solo == full.bounds(full.source[0]).team
    rows = make(env_id, tasks=BUNDLED[env_id], split="all", reward="paper")
    for env in (rows, make(env_id, reward="paper")):
        with pytest.raises(ValueError, match="reward='grounded'"):
            env.bounds(env.source[0])


@each_env
def test_each_seat_is_told_its_own_part(env_id: str) -> None:
    for split in SPLITS:
        env = make(env_id, split=split)
        full = make(env_id, split=split, info="full")
        for index in range(0, 60, 7):
            task = env.source[index]
            told = {agent: messages[0].content for agent, messages in env.opening(task).items()}
            everything = [messages[0].content for messages in full.opening(task).values()]
            for name in experts_of(env).conventions(task):
                for agent, partner in (env.seats, env.seats[::-1]):
                    own = experts_of(env).first(task, agent, name)
                    assert all(line in told[agent] for line in own.splitlines())
                    if env_id == "coop_writing_tldr-v0":
                        assert not any(line in told[partner] for line in own.splitlines())
            for section in task.data["sections"]:
                assert all(f"{section['label'].capitalize()}: " in text for text in everything)


@each_env
def test_demonstrations_are_good_first_actions(env_id: str) -> None:
    env = make(env_id)
    pairs = demonstrations(env, 20, seed=3)
    assert pairs == demonstrations(env, 20, seed=3) != demonstrations(env, 20, seed=4)
    assert all(text.endswith(".\n") for _, text in pairs)
    assert max(len(text.split()) for _, text in pairs) <= 30


# -- turns and protocols --------------------------------------------------------------------------
@each_env
@pytest.mark.parametrize("reward", ["grounded", "paper"])
def test_turns_pay_what_they_add(env_id: str, reward: str) -> None:
    env = make(env_id, turns=3, reward=reward)
    good = solution(env, 0)
    if reward == "paper":
        good = {a: " ".join(f"w{i}{j}" for j in range(130)) for i, a in enumerate(env.seats)}
    worse = {**good, env.seats[0]: ""}
    env.reset(seed=0, options={"task": 0})
    best = sum(env.score_terms(env.task, (good[env.seats[0]], good[env.seats[1]])).values())
    assert best > 0
    for play in ([worse, worse, good], [good, worse, worse], [good, good, good]):
        env.reset(seed=0, options={"task": 0})
        paid = [env.step(joint)[1][env.seats[0]] for joint in play]
        assert not env.agents
        assert sum(paid) == pytest.approx(best if play[-1] is good else 0.0)
    env.reset(seed=0, options={"task": 0})
    paid = [env.step(joint)[1][env.seats[0]] for joint in (good, good, good)]
    assert paid == pytest.approx([best, 0.0, 0.0])  # early is never less than late, discounted


@each_env
def test_discussion_shows_the_partners_last_text(env_id: str) -> None:
    env = make(env_id, turns=2)
    first, second = env.seats
    env.reset(seed=0)
    seen = env.step({first: "from the first", second: "from the second"})[0]
    assert seen[first].messages[-1].content.startswith("Your partner wrote:\nfrom the second\n")
    assert seen[second].messages[-1].content.startswith("Your partner wrote:\nfrom the first\n")


@each_env
def test_pipeline_reads_one_text_a_turn(env_id: str) -> None:
    env = make(env_id, protocol="pipeline")
    first, second = env.seats
    good = solution(env, 0)
    env.reset(seed=0, options={"task": 0})
    seen, rewards, _, _, infos = env.step({first: good[first], second: "not read"})
    assert rewards[first] == 0.0
    assert [infos[a]["action_read"] for a in env.seats] == [True, False]
    assert good[first] in seen[second]
    assert "not read" not in seen[first].messages[-1].content.split("What you answer")[0]
    _, rewards, ended, _, infos = env.step({first: "not read either", second: good[second]})
    assert rewards[second] == pytest.approx(1.0)
    assert all(ended.values())
    assert infos[first]["success"]


# -- arguments ------------------------------------------------------------------------------------
@each_env
@pytest.mark.parametrize(
    ("kwargs", "message"),
    [
        ({"reward": "style"}, "reward='style'"),
        ({"tasks": [{"text": "A."}], "split": "all", "reward": "style"}, "scorer 'style'"),
        ({"turns": 1, "protocol": "pipeline"}, "at least 2"),
        ({"tasks": [{"text": "A post."}], "split": "all", "info": "split"}, "use info='full'"),
        ({"tasks": [{"summary": "A post."}], "split": "all"}, "no source text"),
    ],
)
def test_bad_arguments(env_id: str, kwargs: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(env_id, **kwargs)


@each_env
def test_unknown_agents_and_conventions_are_named(env_id: str) -> None:
    env = make(env_id)
    with pytest.raises(ValueError, match=env.seats[0]):
        experts_of(env).first(env.source[0], "author_0", "first")
    with pytest.raises(ValueError, match="allows"):
        experts_of(env).first(env.source[0], env.seats[0], "nonsense")
    rows = make(env_id, tasks=BUNDLED[env_id], split="all", reward="paper")
    with pytest.raises(ValueError, match="has conventions"):
        experts_of(rows).first(rows.source[0], rows.seats[0], "nonsense")
    with pytest.raises(ValueError, match="use info='full'"):
        env.reset(seed=0, options={"task": rows.source[0]})


# -- speed ----------------------------------------------------------------------------------------
def play(env: Any, joint_action: dict[str, str]) -> None:
    env.reset(seed=0)
    env.step(joint_action)


@each_env
@pytest.mark.parametrize(("rows", "most"), [(False, 1.5), (True, 0.3)])
def test_a_turn_is_cheap(env_id: str, rows: bool, most: float) -> None:
    """A turn of an agent is 0.5 to 0.7, of rows 0.1; half as much again on a crowded machine."""
    outside: dict[str, Any] = {"tasks": BUNDLED[env_id], "split": "all", "reward": "paper"}
    env = make(env_id, **outside) if rows else make(env_id)
    indices = [i for i in range(40) if experts_of(env).conventions(env.source[i])]
    actions = [solution(env, i) for i in indices]

    def play() -> None:
        for index, joint_action in zip(indices, actions, strict=True):
            env.reset(seed=index, options={"task": index})
            env.step(joint_action)

    assert milliseconds(play) / (2 * len(actions)) < most


@each_env
def test_no_text_of_the_allowed_length_is_slow_to_read(env_id: str) -> None:
    """The worst found: lists of names around a verb, which state every pair of them."""
    texts = (
        f"{'mia and ' * 200} paid {'tom and ' * 300}",
        "mia paid tom and " * 240,
        "paid " * 800,
        "mia, tom paid leo, " * 200,
        "x " * 2000,
        ". " * 2000,
    )
    for env in (make(env_id), make(env_id, tasks=BUNDLED[env_id], split="all", reward="paper")):
        for text in texts:
            joint = dict.fromkeys(env.seats, text[: env.max_action_chars])
            assert milliseconds(partial(play, env, joint), times=2) < 300


# -- the page -------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("env_id", "task", "plans", "paid"),
    [
        ("coop_writing_tldr-v0", "test/1", ("first", "odd"), 0.5),
        ("coop_writing_arxiv-v0", "test/5", ("near", "odd"), 2 / 3),
    ],
)
def test_the_episodes_of_the_page(
    env_id: str, task: str, plans: tuple[str, str], paid: float
) -> None:
    page = (ROOT / "docs" / "writing.md").read_text(encoding="utf-8")
    env: Any = make(env_id, split="test")
    observations, _ = env.reset(seed=0, options={"task": task})
    for seen in observations.values():
        assert all(line in page for line in seen.splitlines() if ": " in line)
    joint = {
        agent: experts_of(env).first(env.task, agent, plan)
        for agent, plan in zip(env.seats, plans, strict=True)
    }
    assert all(line in page for text in joint.values() for line in text.splitlines())
    assert env.step(joint)[1][env.seats[0]] == pytest.approx(paid)
    assert f"`{task}`" in page
