"""TorchRL's bridge, with TorchRL."""

# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torchrl", reason="make test-bridges installs it")

import torch
from support.digits import Digits, half_knowing
from tensordict import lazy_stack
from torchrl.data.llm.history import History
from torchrl.modules.llm import TransformersWrapper
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_marl_envs import list_envs, make
from llm_marl_envs.bridges.torchrl import OnlyActing, TextChatEnv, trajectories
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.wrappers import Choose, Tokenize

IDS = [env_id for env_id in list_envs() if "/" not in env_id]
LONG = 100


def words(agent: str, messages: int) -> str:
    return f"naïve 漢字 🦜 {agent} {messages}"


class Speaker:
    """Says `words`, and notes who was asked; `extra` are roles of messages around the answer."""

    def __init__(self, *extra: str) -> None:
        self.asked: list[str] = []
        self.extra = extra

    def __call__(self, tensordict: Any) -> Any:
        for row in tensordict.unbind(0):
            prompt = row["history"].prompt
            answer = History(role="assistant", content=words(row["agent"], len(prompt)))
            before = [History(role="user", content="said by nobody")] * self.extra.count("user")
            after = [History(role="<none>", content="")] * self.extra.count("<none>")
            row["history"].full = lazy_stack([*prompt.unbind(0), *before, answer, *after])
            self.asked.append(row["agent"])
        return tensordict


def in_process(env_id: str, seed: int) -> Any:
    """The same episode without TorchRL."""
    env = make(env_id)
    same = ScriptedPolicy(lambda request: words(request.agent, len(request.messages)))
    team = dict.fromkeys(env.possible_agents, same)
    return rollout(VectorTextEnv([env]), team, [Start(seed=seed)])[0]


@pytest.mark.parametrize("env_id", IDS)
def test_episodes_are_those_in_process_and_nobody_is_asked_in_vain(env_id: str) -> None:
    speaker = Speaker()
    data = TextChatEnv(make(env_id), seed=3).rollout(LONG, policy=OnlyActing(speaker))
    seed = int(data[0, 0]["group"].split("/")[-1])
    episode = in_process(env_id, seed)
    assert speaker.asked == [turn.agent for turn in episode.turns]
    paths = trajectories(data)
    assert [path[0]["agent"] for path in paths] == list(episode.agents)
    for path in paths:
        turns = episode.trajectory(path[0]["agent"])
        assert path["next", "reward"].flatten().tolist() == pytest.approx([t.reward for t in turns])
        assert path["next", "done"].flatten().tolist() == [False] * (len(turns) - 1) + [True]
        for step, turn in zip(path.unbind(0), turns, strict=True):
            chat = [(m.role, m.content) for m in step["history"].prompt.unbind(0)]
            assert chat == [(m.role, m.content) for m in turn.messages]


def test_an_answer_that_nobody_hears_is_an_error() -> None:
    env = TextChatEnv(make("debate-v0"))
    with pytest.raises(ValueError, match=r"debater_1 answered, and debater_0 is to act; put Only"):
        env.rollout(LONG, policy=Speaker())


def test_a_seat_that_is_to_act_must_answer() -> None:
    def silent(tensordict: Any) -> Any:
        for row in tensordict.unbind(0):
            row["history"].full = row["history"].prompt
        return tensordict

    with pytest.raises(ValueError, match="brief_0 is to act; expected an answer"):
        TextChatEnv(make("coop_writing_tldr-v0")).rollout(LONG, policy=silent)


def test_the_answer_is_the_last_message() -> None:
    """TorchRL splits prompts that hold control tokens, and fills up with "<none>"."""
    plain, split = (
        TextChatEnv(make("debate-v0")).rollout(LONG, policy=OnlyActing(Speaker(*extra)))
        for extra in ((), ("user", "<none>"))
    )
    last = [data[2, -1]["next", "history"].prompt.content for data in (plain, split)]
    assert last[0] == last[1]
    assert "漢字" in str(last[0])


def test_episodes_of_a_group_begin_alike() -> None:
    env = TextChatEnv(make("coop_writing_tldr-v0"), groups=2, seed=5)
    first = [env.reset()[0] for _ in range(4)]
    groups = [seat["group"] for seat in first]
    openings = [seat["history"].prompt[0].content for seat in first]
    assert groups[0] == groups[1] != groups[2] == groups[3]
    assert openings[0] == openings[1] != openings[2] == openings[3]
    env.set_seed(5)
    assert [env.reset()[0]["group"] for _ in range(4)] == groups
    env.set_seed(6)
    assert env.reset()[0]["group"] not in groups


@pytest.mark.parametrize("wrapper", [Choose, Tokenize])
def test_numbers_are_refused(wrapper: Any) -> None:
    with pytest.raises(TypeError, match=r"brief_0 acts in .*leave out Choose and Tokenize"):
        TextChatEnv(wrapper(make("coop_writing_tldr-v0")))


def test_what_else_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a PettingZoo environment, got str"):
        TextChatEnv("debate-v0")
    with pytest.raises(ValueError, match="groups=0: expected at least 1"):
        TextChatEnv(make("debate-v0"), groups=0)


def test_episodes_side_by_side_are_those_one_after_the_other() -> None:
    def played(data: Any) -> list[Any]:
        return [
            (path[0]["agent"], path[0]["group"], path["next", "reward"].tolist())
            for path in trajectories(data)
        ]

    policy = OnlyActing(Speaker())
    kinds = ["solve_and_evaluate-v0"] * 4
    alone = TextChatEnv(make(kinds[0]), groups=2, seed=5)
    beside = TextChatEnv([make(kind) for kind in kinds], groups=2, seed=5)
    one_by_one = [path for _ in kinds for path in played(alone.rollout(LONG, policy=policy))]
    assert played(beside.rollout(LONG, policy=policy)) == one_by_one
    assert len({group for _, group, _ in one_by_one}) == 6


def test_a_shorter_episode_waits_for_a_longer_one() -> None:
    speaker = Speaker()
    copies = [Digits(turns=turns) for turns in (1, 2)]
    data = TextChatEnv(copies).rollout(LONG, policy=OnlyActing(speaker))
    assert [len(path) for path in trajectories(data)] == [1, 1, 2, 2]
    assert len(speaker.asked) == 6


def test_copies_are_copies() -> None:
    env = make("debate-v0")
    with pytest.raises(ValueError, match="copies that are not the same"):
        TextChatEnv([env, env])
    with pytest.raises(ValueError, match="copies that are not the same"):
        TextChatEnv([])
    with pytest.raises(ValueError, match="the seats of the first"):
        TextChatEnv([env, make("coop_coding-v0")])


def test_a_model_writes_two_turns() -> None:
    folder = half_knowing()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder).eval()
    shared: dict[str, Any] = {"tokenizer": tokenizer, "return_log_probs": True}
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    sampling = {"do_sample": True, "max_new_tokens": 8, **ends}
    actor = TransformersWrapper(
        model,
        input_mode="history",
        chat_template=tokenizer.chat_template,
        generate_kwargs=sampling,
        **shared,
    )
    scorer = TransformersWrapper(
        model, input_mode="tokens", generate=False, pad_model_input=True, **shared
    )
    torch.manual_seed(0)
    with torch.no_grad():
        paths = trajectories(TextChatEnv(Digits(turns=2)).rollout(LONG, policy=OnlyActing(actor)))
        scored = [scorer(path.copy()) for path in paths]
    assert [len(path) for path in paths] == [2, 2]
    for path, again in zip(paths, scored, strict=True):
        prompt = path[1]["history"].prompt
        assert prompt.role == ["user", "assistant", "user"]
        assert prompt[1].content == path[0]["text"].response.removesuffix(tokenizer.eos_token)
        own, right = (
            path[0]["log_probs", "response"],
            again[0]["log_probs", "full"][-len(path[0]["tokens", "response"]) :],
        )
        assert torch.allclose(own[1:], right[1:], atol=1e-4)
        # What docs/bridges/torchrl.md warns of: the sampler writes 0 for the first token.
        assert own[0] == 0 > right[0]
