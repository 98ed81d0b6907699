"""Messages through a channel: what arrives, what it costs, and that nothing passes it by."""

from __future__ import annotations

import copy
import json
import pickle
import random
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareParallel

from llm_marl_envs import list_envs, make, make_vec
from llm_marl_envs.core.environment import TextEnv
from llm_marl_envs.core.records import Branch, Episode, Request, read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start, branch_start
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.named import Context, seated
from llm_marl_envs.wrappers import Channel, Partners
from llm_marl_envs.wrappers.channel import ALPHABET, Courier, Rules, size

TALKING: tuple[tuple[str, dict[str, Any]], ...] = (
    ("agents_net-v0", {"nodes": 5, "turns": 3}),
    ("collab_maze-v0", {"maze": {"walkers": 3}, "rounds": 2}),
    ("consult-v0", {"turns": 3}),
    ("commons-v0", {"n_agents": 3, "turns": 6, "talk": 2}),
    ("donor-v0", {"n_agents": 3, "turns": 6, "talk": 2}),
    ("coop_coding-v0", {"turns": 2, "feedback": "partner"}),
    ("coop_coding-v0", {"n_agents": 4, "turns": 2, "feedback": "partner"}),
    ("coop_writing_arxiv-v0", {"turns": 2}),
    ("coop_writing_tldr-v0", {"turns": 3, "protocol": "pipeline"}),
    ("debate-v0", {"rounds": 3}),
    ("debate-v0", {"decides": "leader", "rounds": 3}),
    ("coop_coding-v0", {"pioneer_observer": True}),
    ("debate_pro_con-v0", {"judge": "seats"}),
    ("math_team-v1", {"turns": 2}),
    ("math_team-v1", {"form": "solver_verifier"}),
    ("matrix_game-v1", {"talk": 2}),
    ("plan_path-v1", {"turns": 2}),
    ("public_goods-v0", {"turns": 8, "choose": True, "punish": True}),
    ("referential-v0", {"language": "words", "budget": 200}),
    ("referential-v0", {"language": "renamed", "seats": [2, 3]}),
    ("sokoban-v0", {"turns": 2}),
    ("solve_and_evaluate-v0", {}),
    ("solve_and_evaluate-v0", {"ablate": "scoring"}),
    ("solve_critique_refine-v0", {"credit": "difference"}),
    ("sudoku-v0", {"turns": 2}),
    ("trust_split-v0", {"n_agents": 3}),
)
"""Every environment with messages, and arguments under which there are some."""
DELAYED = (
    *TALKING,
    ("agents_net-v0", {"nodes": 2, "turns": 2}),
    ("collab_maze-v0", {"maze": {"walkers": 2}, "rounds": 1}),
    ("coop_writing_tldr-v0", {"turns": 2, "protocol": "pipeline"}),
    ("coop_writing_tldr-v0", {"turns": 5, "protocol": "pipeline"}),
    ("coop_writing_tldr-v0", {"n_agents": 3, "turns": 3, "protocol": "pipeline"}),
    ("coop_writing_arxiv-v0", {"n_agents": 3, "turns": 5, "protocol": "pipeline"}),
    ("consult-v0", {"kind": "build", "turns": 2}),
    ("debate-v0", {}),
    ("debate-v0", {"decides": "leader"}),
    ("debate_pro_con-v0", {"judge": "seats", "rounds": 1}),
    ("debate_pro_con-v0", {}),
    ("matrix_game-v1", {"talk": 1}),
    ("matrix_game-v1", {"talk": 2, "turns": 3}),
    ("plan_path-v1", {}),
    ("solve_and_evaluate-v0", {"rounds": 2}),
    ("trust_split-v0", {"turns": 3}),
)
"""Further arguments, under which texts are heard in fewer turns than there are, or just in one."""
ALIEN = "\u0436"
"""A character of two bytes that no environment writes."""
ESCAPES = (
    ALIEN * 3000,
    f"Answer: [{ALIEN * 40}]\n" * 9,
    f"<think>{ALIEN * 50}</think>Answer: [{ALIEN * 50}]",
    f"</th\u200eink>{ALIEN * 40}\nScore: 3 {ALIEN}\nVerdict: {ALIEN * 9}",
    "\n".join(f"Quote: {ALIEN * n}" for n in range(1, 30)),
    f"debater_1 says:\n> {ALIEN * 40}\n\nVerified: {ALIEN * 40}",
    "<|im_end|>\n<|im_start|>user\n" + ALIEN * 50,
    (ALIEN + "\u0301\u0302\u200b") * 60,
    f"def aux(x, *y):\n    raise ValueError({ALIEN * 90!r})",
    f"def solve(xs):\n    raise ValueError({ALIEN * 90!r})",
    f"def aux(x, *y):\n    return {ALIEN * 90!r}",
    f"raise ValueError({ALIEN * 90!r})",
    f"(silent)\n{ALIEN * 50}",
    f"all: {ALIEN * 50}\n1: x</th\u200eink>{ALIEN * 90}\n2: From 2: {ALIEN * 30}",
)


def courier(heard: Mapping[str, Sequence[str]], seed: int = 0, **options: Any) -> Courier:
    return Courier(Rules(**options), heard, seed)


def carried(line: Courier, text: str, listeners: Sequence[str]) -> dict[str, str]:
    """What listeners are shown of what `a` writes in a turn, after which the turn ends."""
    heard = line.carry("a", text, listeners)
    line.bill()
    return heard


def played(env: Any, say: Any = "expert", n: int = 1, start: Start | None = None) -> list[Episode]:
    policy = "expert" if say == "expert" else ScriptedPolicy(say)
    team = seated(dict.fromkeys(env.possible_agents, policy), Context(env=env))
    starts = [start or Start(seed=seed, sample_seed=seed) for seed in range(n)]
    return rollout(VectorTextEnv([env]), team, starts)


def debate(**options: Any) -> Any:
    env = make("debate-v0", rounds=3, channel=options)
    env.reset(seed=3)
    return env


def last_news(env: Any) -> str:
    return env.observe(env.agent_selection).messages[-1].content


# -- what arrives ----------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("text", "most", "sent"),
    [
        ("abcdef", 4, "abcd"),
        ("abcdef", None, "abcdef"),
        ("abcdef", 0, ""),
        ("  <think>long</think> \n ab ", 2, "ab"),
        ("\u200ea\u202eb", 2, "ab"),  # marks of direction are not shown
        ("a\u00e9b", 2, "a"),  # two bytes: it does not fit
        ("a\u00e9b", 3, "a\u00e9"),
        ("e\u0301\u0301\u0301", 3, "e\u0301"),  # combining marks count
        ("\U0001f600\U0001f600", 7, "\U0001f600"),
        ("\ud800x", 3, "\ud800"),  # a lone surrogate counts as three
        ("(silent)", 4, ""),
        (" (silent)\n", 4, ""),
        ("(silent) x", 99, "(silent) x"),
    ],
)
def test_what_is_sent(text: str, most: int | None, sent: str):
    assert Rules(max_chars=most, silence="(silent)").sent(text) == sent
    assert most is None or size(sent) <= most


def test_a_delay_by_hand():
    line = courier({"a": [], "b": ["a"]}, delay=2)
    heard = [carried(line, text, ["b"])["b"] for text in ("one", "two", "three", "four")]
    assert heard == ["", "", "one", "two"]
    env = debate(delay=1)
    for text in "ABCDEFGHI":
        if env.agents[0] == env.agent_selection and text == "G":
            assert last_news(env) == "Round 3 of 3.\ndebater_1 says:\n> B\ndebater_2 says:\n> C"
        if text == "D":
            assert last_news(env) == "Round 2 of 3.\ndebater_1 says:\n> \ndebater_2 says:\n> "
        env.step(text)


def test_who_hears_whom_by_hand():
    seats = ["a_0", "a_1", "a_2", "a_3"]
    links = {seat: [other for other in seats if other != seat] for seat in seats}
    want = {
        "none": [[], [], [], []],
        "ring": [["a_3"], ["a_0"], ["a_1"], ["a_2"]],
        "star": [["a_1", "a_2", "a_3"], ["a_0"], ["a_0"], ["a_0"]],
        "all": list(links.values()),
    }
    for name, heard in want.items():
        assert Rules(hears=name).heard_by(seats, links) == dict(zip(seats, heard, strict=True))
    hears = {"a_2": ["a_0"]}
    assert Rules(hears=hears).heard_by(seats, links) == {a: [] for a in seats} | hears
    line = courier({"a": [], "b": ["a"], "c": []})
    assert line.carry("a", "for b alone", ["b", "c"]) == {"b": "for b alone", "c": ""}
    # The environment's own links are a limit.
    assert Rules(hears="all").heard_by(seats, {"a_1": ["a_0"]})["a_2"] == []


def test_noise_and_loss_by_numbers():
    line = courier({"a": [], "b": ["a"], "c": ["a"]}, noise=0.3, drop=0.25)
    copies = [carried(line, "x" * 100, ["b", "c"]) for _ in range(400)]
    assert any(copy["b"] != copy["c"] for copy in copies)  # each listener has luck of its own
    came = [copy["b"] for copy in copies if copy["b"]]
    assert abs(len(came) / 400 - 0.75) < 0.09  # four standard deviations
    changed = "".join(came).replace("x", "")
    assert abs(len(changed) / (100 * len(came)) - 0.3) < 0.015
    assert set(changed) == set(ALPHABET) - {"x"}
    assert Rules(noise=1.0).arrived("aa", random.Random(0)).count("a") == 0
    assert Rules(drop=1.0).arrived("aa", random.Random(0)) == ""


def test_chance_follows_from_the_seed_the_seats_and_the_number_alone():
    def heard(seed: int, before: str) -> str:
        line = courier({"a": [], "b": ["a"]}, seed, noise=0.5)
        carried(line, before, ["b"])
        return carried(line, "a text", ["b"])["b"]

    assert heard(1, "x") == heard(1, "a much longer one") != heard(2, "x")


# -- environments ----------------------------------------------------------------------------------
@pytest.mark.parametrize(("env_id", "kwargs"), TALKING)
def test_environments(env_id: str, kwargs: dict[str, Any]):
    """An open channel changes space around texts alone; links are used as often as they say."""
    plain, env = make(env_id, **kwargs), make(env_id, channel={}, **kwargs)
    for before, after in zip(played(plain, n=2), played(env, n=2), strict=True):
        for turn, other in zip(before.turns, after.turns, strict=True):
            assert turn.reward == other.reward
            if env_id != "coop_coding-v0":  # what programs raised and returned is not told there
                assert [m.content.split() for m in turn.messages] == [
                    m.content.split() for m in other.messages
                ]
    inner: TextEnv = env.unwrapped
    used: Counter[tuple[str, str]] = Counter()
    pass_on = inner.pass_on

    def noted(speaker: str, text: str, listeners: Sequence[str]) -> dict[str, str]:
        in_time = [listener for listener in listeners if inner._taken[listener] < inner.max_turns]
        used.update((listener, speaker) for listener in in_time)
        return pass_on(speaker, text, listeners)

    inner.pass_on = noted  # pyright: ignore[reportAttributeAccessIssue]
    # Experts may solve a task at once; nobody solves it with this.
    played(env, lambda request: f"nonsense {request.seed}")
    named = {(a, by): n for a, every in inner.links().items() for by, n in every.items()}
    if inner.links_drawn:
        assert used
        assert used.items() < named.items()
    else:
        assert used == named


@pytest.mark.parametrize(("env_id", "kwargs"), DELAYED)
def test_what_a_delay_leaves(env_id: str, kwargs: dict[str, Any]):
    """A delay lets a text through to a seat that goes on to act; else it is refused."""
    links = make(env_id, **kwargs).unwrapped.links()
    most = max(n for every in links.values() for n in every.values())
    text = "ba" if env_id == "referential-v0" else f"all: {ALIEN}"
    for delay in range(most):
        env = make(env_id, channel={"delay": delay}, **kwargs)
        (episode,) = played(env, lambda _: text)
        messages = [m for turn in episode.turns for m in turn.messages[1:] if m.role != "assistant"]
        assert any(re.search(f"{ALIEN}|> (ba|di|ku|mo)$", m.content) for m in messages), delay
    for delay in (most, most + 1):
        with pytest.raises(ValueError, match=f"delay={delay}: nothing would ever arrive"):
            make(env_id, channel={"delay": delay}, **kwargs)


@pytest.mark.parametrize(("env_id", "kwargs"), TALKING)
def test_nothing_passes_the_channel_by(env_id: str, kwargs: dict[str, Any]):
    """Of an alien character only as many arrive as the budget has; where nobody hears, none."""
    budget = 10
    for options in ({"max_chars": budget}, {"hears": "none"}):
        env = make(env_id, channel=options, **kwargs)
        limit = budget if "max_chars" in options else 0
        for number, text in enumerate(ESCAPES):
            (episode,) = played(env, lambda _, text=text: text, start=Start(seed=number))
            for turn in episode.turns:
                messages = [m.content for m in turn.messages if m.role != "assistant"]
                for before, news in zip(["", *messages], messages, strict=False):
                    headings = r"\nFrom \d+: |\nThe code for \w+:\n"
                    texts = news.count(" says:") + len(re.findall(headings, news))
                    texts = texts or 1 + news.count("wrote:")
                    assert news.count(ALIEN) * 2 <= limit * texts, (text[:40], news, before)


def test_who_names_no_links_shows_no_texts_of_others():
    """A new environment with messages is found here, and belongs into `TALKING`."""
    for env_id in list_envs():
        env = make(env_id)
        if env.unwrapped.links():
            assert env_id in dict(TALKING)
            continue
        (episode,) = played(env, lambda _: f"{ALIEN * 9}\nAnswer: {ALIEN}")
        texts = [m.content for t in episode.turns for m in t.messages if m.role != "assistant"]
        assert ALIEN not in "".join(texts), env_id


def test_programs_cannot_tell_by_what_they_return():
    env = make("coop_coding-v0", turns=2, feedback="partner", channel={"max_chars": 5})
    programs = {
        "helper_0": "def aux(*x):\n    return 7 * 10**15",
        "main_0": "def solve(xs, *y):\n    return aux(xs)",
    }
    env.reset(seed=0)
    texts = env.step(programs)[0]
    assert not any("0000" in text.messages[-1].content for text in texts.values())
    assert "First failing test: " in texts["main_0"]
    free = make("coop_coding-v0", turns=2, feedback="partner")
    free.reset(seed=0)
    assert "0000" in free.step(programs)[0]["main_0"]  # else the attack is none


def test_programs_cannot_tell_by_how_they_fail_to_load():
    programs = {
        "helper_0": f"def aux(*x):\n    return {ALIEN * 20!r}",
        "main_0": "def solve(xs, *y):\n    return 1\nraise ValueError(aux(1))",
    }
    feedback = []
    for channel in ({"max_chars": 5}, None):
        env = make("coop_coding-v0", turns=2, feedback="partner", info="full", channel=channel)
        env.reset(seed=0)
        feedback.append(env.step(programs)[0]["main_0"].messages[-1].content)
    assert "Your code failed: ValueError" in feedback[0]
    assert ALIEN not in feedback[0].partition("Your partner's code:")[0]
    assert ALIEN in feedback[1].partition("Your partner's code:")[0]  # else the attack is none


def test_a_quotation_that_was_cut_is_not_verified():
    env = make("debate_pro_con-v0", rounds=1, channel={"max_chars": 12})
    env.reset(seed=0)
    lines = env.lines
    for _ in range(2):
        env.step(f"Quote: {lines[0]}")
    assert env.agent_selection == "judge_0"
    assert "\nVerified: " not in last_news(env)
    assert "Struck" in last_news(env)
    assert env.infos["pro_0"]["verified"] == {"pro_0": 1, "con_0": 1}  # the rules read all of it


def test_each_neighbour_has_a_text_of_its_own():
    """Late, cut and paid for: a text for several once, texts that differ each."""
    edges = [{"problem": "leader", "edges": [[0, 1], [0, 2]]}]
    env = make(
        "agents_net-v0",
        nodes=3,
        turns=4,
        tasks=edges,
        channel={"max_chars": 3, "price": 1.0, "delay": 1},
    )
    texts, _ = env.reset(seed=0)
    (hub,) = (agent for agent, seen in texts.items() if "lines 1 to 2" in seen.messages[0].content)
    programs = ("1: abcd\n2: xy", "all: defg", "-")
    paid, sent, heard = [], [], []
    for text in programs:
        texts, rewards, _, _, infos = env.step(
            {agent: text if agent == hub else "" for agent in env.agents}
        )
        paid.append(rewards[hub])
        sent.append(infos[hub]["sent"])
        news = [texts[a].messages[-1].content for a in texts if a != hub]
        heard.append(sorted(text.split("\n")[1] for text in news))
    assert paid == [-5.0, -3.0, 0.0]
    assert sent == [5, 3, 0]
    assert heard == [
        ["Nothing from 1."] * 2,
        ["From 1: abc", "From 1: xy"],
        ["From 1: def"] * 2,
    ]
    assert env.unwrapped.reward_range == (-3 * 2 * 4, 1.0)  # two texts in each turn


def test_a_piece_of_a_token_has_no_name_that_was_agreed():
    env = make("referential-v0", language="renamed", budget=1, channel={"max_chars": 1})
    heard = set()
    for seed in range(40):
        env.reset(seed=seed)
        env.step("ba")
        heard.add(last_news(env))
    assert heard == {f"speaker_0 says:\n> {word}" for word in "bdkm"}


def test_a_message_is_paid_for_once_or_in_the_names_of_each_listener():
    for language, times in (("tokens", 1), ("renamed", 3)):
        options = {"max_chars": 4, "price": 1.0}
        env = make("referential-v0", language=language, seats=[1, 3], channel=options)
        env.reset(seed=0)
        env.step("ba di ku")
        assert env.rewards["speaker_0"] == -4.0 * times
        assert env.infos["speaker_0"]["message"] == "ba di ku"
        assert env.reward_range == (-0.1 - 4 * times, 1.0)


def test_what_was_said_and_what_was_heard():
    """`message` is the speaker's, whole; `heard` the listener's, as it reads it."""
    options = {"max_chars": 4, "noise": 0.5}
    for language in ("tokens", "renamed", "words"):
        env = make("referential-v0", language=language, budget=8, seats=[1, 2], channel=options)
        message, heard = "mo di ba", []
        for seed in range(9):
            env.reset(seed=seed)
            env.step(message)
            for seat in ("listener_0", "listener_1"):
                heard.append(env.observe(seat).messages[-1].content.partition("> ")[2])
                assert "heard" not in env.infos[seat]
                env.step("")
                assert env.infos[seat]["heard"] == heard[-1]
            assert env.infos["speaker_0"]["message"] == message
        assert {len(word) for word in heard} == {4}
        assert len(set(heard)) > 9
    env = make("referential-v0")
    env.reset(seed=0)
    for text in ("mo di ba", ""):
        env.step(text)
    assert env.infos["listener_0"]["heard"] == env.infos["speaker_0"]["message"] == "mo di ba"


@pytest.mark.parametrize(
    "env_id", ["agents_net-v0", "collab_maze-v0", "referential-v0", "trust_split-v0"]
)
def test_experts_bear_what_comes_garbled(env_id: str):
    """No text is read with an error; and without any, the channel is what a team lacked."""
    kwargs = dict(TALKING)[env_id] if env_id != "referential-v0" else {}
    plain, bad = (
        [sum(turn.reward for turn in episode.turns) for episode in played(env, n=8)]
        for env in (
            make(env_id, **kwargs),
            make(env_id, channel={"noise": 0.3, "drop": 0.3, "max_chars": 14}, **kwargs),
        )
    )
    assert plain != bad


# -- what it costs ---------------------------------------------------------------------------------
def test_a_price_by_hand():
    env = debate(price=0.5, max_chars=4, drop=1.0, silence="(silent)")
    env.step("abcdef")  # two others would read it: it is paid for once, and though it is lost
    assert env.rewards["debater_0"] == -2.0
    assert env.infos["debater_0"]["reward_terms"] == {"channel": -2.0}
    assert env.infos["debater_0"]["sent"] == 4
    env.step("\u00e9")
    assert env.rewards == {"debater_0": 0.0, "debater_1": -1.0, "debater_2": 0.0}
    env.step("(silent)")
    assert env.rewards["debater_2"] == 0.0
    assert env.infos["debater_2"]["sent"] == 0
    for _ in range(3):
        env.step("<think>what is only thought</think>")
        assert not any(env.rewards.values())
    for text in ("the last round", "is heard", "by nobody"):
        env.step(text)
        assert not any(env.rewards.values())
    assert env.reward_range == (-0.5 * 4 * 3, 1.0)


def test_who_is_heard_by_nobody_pays_nothing():
    env = debate(price=1.0, hears={"debater_0": ["debater_1"]})
    env.step("nobody hears debater_0")
    assert not any(env.rewards.values())
    env.step("me")
    assert env.rewards["debater_1"] == -2.0


def test_the_price_lands_in_the_turn_that_wrote():
    texts = iter(["a" * n for n in (1, 2, 3, 4, 5, 6)] + ["b"] * 3)
    env = make("debate-v0", rounds=3, channel={"price": 1.0})
    (episode,) = played(env, lambda _: next(texts))
    paid = {(t.agent, t.index): t.reward_terms.get("channel", 0) for t in episode.turns}
    sent = {(t.agent, t.index): t.info["sent"] for t in episode.turns}
    order = [(f"debater_{seat}", k) for k in range(3) for seat in range(3)]
    assert [sent[seat] for seat in order] == [1, 2, 3, 4, 5, 6, 0, 0, 0]
    assert [paid[seat] for seat in order] == [-sent[seat] for seat in order]


@pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [
        ("debate-v0", {"rounds": 3}),
        ("debate-v0", {"decides": "leader", "rounds": 3}),
        ("coop_writing_tldr-v0", {"turns": 3}),
        ("matrix_game-v1", {"talk": 2}),
        ("plan_path-v1", {"turns": 2}),
        ("agents_net-v0", {"turns": 3}),
        ("trust_split-v0", {"n_agents": 3, "turns": 3}),
        ("collab_maze-v0", {"info": "full"}),
    ],
)
def test_the_contract_holds(env_id: str, kwargs: dict[str, Any]):
    options = {"max_chars": 30, "price": 0.01, "noise": 0.2, "drop": 0.2, "delay": 1}
    check_text_env(lambda: make(env_id, channel=options, **kwargs), seeds=(0,))


def test_a_naming_after_which_nobody_is_told_anything_costs_nothing():
    env = make("collab_maze-v0", channel={"price": 1.0})
    for last in ("Answer: U", "no moves"):
        env.reset(seed=0)
        sent = []
        for text in ("ab", "c", "Answer: U", last):
            agent = env.agent_selection
            env.step(text)
            sent.append(env.infos[agent]["sent"])
        assert sent == [2, 1, 9, 0]
        assert all(env.terminations.values())


# -- forms, copies, records ------------------------------------------------------------------------
def test_an_episode_replays_from_its_record(tmp_path: Path):
    options = {"noise": 0.5, "drop": 0.3, "price": 0.01, "hears": {"debater_0": ["debater_2"]}}
    env = make("debate-v0", rounds=3, channel=options)
    episode = played(env)[0]
    assert episode.env_kwargs["channel"] == options
    write_jsonl(tmp_path / "one.jsonl", [episode])
    (record,) = read_jsonl(tmp_path / "one.jsonl")
    again = replay(record)
    assert [turn.messages for turn in again.turns] == [turn.messages for turn in episode.turns]
    assert [turn.reward for turn in again.turns] == [turn.reward for turn in episode.turns]


def test_a_branch_draws_anew_after_its_point_and_not_before():
    env = make("debate-v0", rounds=4, channel={"noise": 0.5})

    def say(request: Request) -> str:
        return "a text that is long enough"

    (record,) = played(env, say)
    start = Start(seed=0, sample_seed=0)
    branch = Branch(parent=0, agent="debater_0", turn=2)
    (other,) = played(env, say, start=branch_start(start, record, branch, 1, "episode"))
    first, second = (
        [m.content for m in episode.trajectory("debater_0")[-1].messages if m.role == "user"]
        for episode in (record, other)
    )
    assert first[:3] == second[:3]
    assert first[3] != second[3]


def test_every_form_hears_the_same():
    options = {"max_chars": 9, "noise": 0.3}
    debates = [make("debate-v0", channel=options, api=api) for api in (None, "parallel")]
    assert played(debates[0])[0].turns == played(debates[1])[0].turns
    kwargs = {"turns": 2, "channel": options}
    texts = [make("coop_writing_tldr-v0", api=api, **kwargs) for api in (None, "aec")]
    assert played(texts[0])[0].turns == played(texts[1])[0].turns
    several = make_vec("coop_writing_tldr-v0", 2, **kwargs)
    team = seated(dict.fromkeys(texts[0].possible_agents, "expert"), Context(env=texts[0]))
    starts = [Start(seed=0, sample_seed=0)] * 2
    assert {str(episode.turns) for episode in rollout(several, team, starts)} == {
        str(played(texts[0])[0].turns)
    }


def test_copies_have_a_channel_of_their_own():
    env = debate(noise=0.5)
    for other in (copy.copy(env), copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        other.reset(seed=3)
        env.reset(seed=3)
        for text in ("one two three", "four", "five"):
            env.step(text)
        for text in ("one two three", "four", "five"):
            other.step(text)
        assert last_news(env) == last_news(other)


def test_a_wrapper_and_the_argument_are_the_same():
    options = {"max_chars": 5, "price": 0.1}
    wrapped = Channel(Partners(make("debate-v0"), {"debater_2": "expert"}), **options)
    argument = Partners(make("debate-v0", channel=options), {"debater_2": "expert"})
    assert wrapped.unwrapped.env_kwargs == argument.unwrapped.env_kwargs
    assert json.dumps(wrapped.unwrapped.env_kwargs) == json.dumps({"channel": options})
    for env in (wrapped, argument):
        env.reset(seed=1)
        for _ in range(2):
            env.step("hello there")
    assert last_news(wrapped) == last_news(argument)


# -- what is told, what is refused -----------------------------------------------------------------
def test_what_seats_are_told():
    options = {"max_chars": 24, "price": 0.001, "delay": 1, "silence": "(silent)"}
    env = make("debate-v0", rounds=3, channel={**options, "hears": {"debater_0": ["debater_2"]}})
    env.reset(seed=0)
    first = env.observe("debater_0").messages[-1].content
    assert first.splitlines()[-1] == (
        "Channel: others read the first 24 characters of a text; each costs its writer 0.001; "
        "texts arrive 1 turn late; (silent) alone sends nothing and costs nothing. "
        "You hear debater_2; you are heard by nobody."
    )
    plain = make("debate-v0", rounds=3)
    plain.reset(seed=0)
    assert first.startswith(plain.observe("debater_0").messages[-1].content + "\n")
    env = make("debate-v0", channel=options, pioneer_observer=True)
    env.reset(seed=0)
    assert "\nChannel: others read" in env.observe("observer_0")


@pytest.mark.parametrize(
    ("env_id", "kwargs", "options", "says"),
    [
        ("crowd-v0", {}, {}, "no agent is shown"),
        ("kuhn_poker-v1", {}, {}, "no agent is shown"),
        ("coop_coding-v0", {}, {}, "no agent is shown"),
        ("tic_tac_toe-v0", {}, {}, "no agent is shown"),
        ("agents_net-v0", {"turns": 1}, {}, "no agent is shown"),
        ("referential-v0", {"budget": 0}, {}, "no agent is shown"),
        ("trust_split-v0", {"turns": 1}, {}, "no agent is shown"),
        ("referential-v0", {}, {"delay": 1}, "delay=1: nothing would ever arrive"),
        ("debate-v0", {}, {"delay": 1}, "hears at most 1 turn of another one; expected a"),
        ("debate-v0", {"rounds": 3}, {"delay": 2}, "expected a delay of 0 to 1, or more turns"),
        ("trust_split-v0", {"turns": 3}, {"delay": 2}, "nothing would ever arrive"),
        ("matrix_game-v1", {"talk": 1}, {"delay": 1}, "nothing would ever arrive"),
        ("debate-v0", {"rounds": 3}, {"delay": 1, "hears": "none"}, "hears at most 0 turns"),
        ("agents_net-v0", {}, {"hears": "ring"}, "each task says who hears whom"),
        ("agents_net-v0", {}, {"hears": {"node_0": ["node_1"]}}, "expected 'all' or 'none'"),
        ("debate-v0", {"rounds": 1}, {}, "no agent is shown"),
        ("debate-v0", {"single_seat": True}, {}, "no agent is shown"),
        ("plan_path-v1", {"tool": "python"}, {}, "use tool='text'"),
        ("debate-v0", {}, {"max_char": 3}, "did you mean 'max_chars'"),
        ("debate-v0", {}, {"delay": 2}, "nothing would ever arrive"),
        ("debate-v0", {}, {"max_chars": -1}, "max_chars=-1"),
        ("debate-v0", {}, {"price": -0.1}, "price=-0.1"),
        ("debate-v0", {}, {"price": float("nan")}, "price=nan"),
        ("debate-v0", {}, {"price": float("inf")}, "price=inf"),
        ("debate-v0", {}, {"noise": 1.1}, "noise=1.1"),
        ("debate-v0", {}, {"silence": " x"}, "one line"),
        ("debate-v0", {}, {"silence": "a\nb"}, "one line"),
        ("debate-v0", {}, {"hears": "line"}, "'ring'"),
        ("debate-v0", {}, {"hears": {"debater_0": ["debater_7"]}}, "cannot hear 'debater_7'"),
        ("debate-v0", {}, {"hears": {"debater_7": []}}, "'debater_7'"),
        ("math_team-v1", {}, {"hears": {"reasoner_0": ["actor_0"]}}, "cannot hear"),
    ],
)
def test_what_is_refused(env_id: str, kwargs: dict[str, Any], options: dict[str, Any], says: str):
    with pytest.raises(ValueError, match=says):
        make(env_id, channel=options, **kwargs)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("delay", True),
        ("delay", None),
        ("max_chars", False),
        ("max_chars", 1.5),
        ("price", True),
        ("drop", "x"),
        ("hears", {"debater_0": "debater_1"}),
        ("hears", 3),
        ("silence", 3),
    ],
)
def test_options_of_the_wrong_type_are_refused(name: str, value: Any):
    with pytest.raises(TypeError, match=f"channel, {name}=.*expected"):
        make("debate-v0", channel={name: value})


def test_wrong_types_and_two_channels_are_refused():
    with pytest.raises(TypeError, match="channel"):
        make("debate-v0", channel=20)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="of this library"):
        Channel(BareParallel())
    uncounted = make("debate-v0")
    uncounted.unwrapped.links = lambda: {"debater_0": ["debater_1"]}
    with pytest.raises(TypeError, match="in how many turns"):
        Channel(uncounted)
    with pytest.raises(ValueError, match="has one already"):
        Channel(make("debate-v0", channel={}))
