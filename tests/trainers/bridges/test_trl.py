"""TRL's own trainer on one seat: what it is given, and that the reward rises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
import trl
from support.digits import half_knowing, register_toys
from support.models import untrained
from support.toys import Relay
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.grpo_config import GRPOConfig
from trl.trainer.grpo_trainer import GRPOTrainer

from llm_marl_envs import register
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.policies import ScriptedPolicy
from llm_marl_envs.policies.named import register_policy
from trainers.bridges.trl import SeatRollout, episode_return, seat_dataset, seat_environment
from trainers.engines.base import Drawn
from trainers.engines.generate import GenerateEngine

FOUR_DIGITS = {"b_0": ScriptedPolicy(lambda request: "1234")}
TOOLS = Path(trl.__file__).parent / "chat_templates" / "qwen3_instruct_2507.jinja"

pytestmark = [
    pytest.mark.full,
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning"),
]


@pytest.fixture(autouse=True)
def toys(own_registry: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRL_EXPERIMENTAL_SILENCE", "1")
    register_toys()
    register("relay-v0", Relay, api="aec")


def settings(folder: Path, **changes: Any) -> GRPOConfig:
    fields: dict[str, Any] = {
        "max_steps": 1,
        "per_device_train_batch_size": 32,
        "num_generations": 8,
        "max_completion_length": 8,
        "learning_rate": 5e-3,
        "beta": 0.0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "seed": 0,
    }
    return GRPOConfig(str(folder), **{**fields, **changes})


def trainer_with(rollout: SeatRollout, folder: Path, **changes: Any) -> Any:
    return GRPOTrainer(
        half_knowing(),
        reward_funcs=episode_return,
        rollout_func=rollout,
        train_dataset=rollout.dataset(16),
        args=settings(folder, **changes),
    )


@pytest.mark.parametrize("turns", [1, 2])
def test_the_reward_rises(turns: int, tmp_path: Path):
    rollout = SeatRollout("digits-v0", FOUR_DIGITS, max_completion_length=6, turns=turns)
    trainer = trainer_with(rollout, tmp_path, max_steps=24)
    trainer.train()
    rewards = [entry["reward"] for entry in trainer.state.log_history if "reward" in entry]
    # The partner earns its half of the reward; what is left to the seat is 0.5.
    assert rewards[0] == pytest.approx(0.75, abs=0.08)
    assert sum(rewards[-3:]) / 3 > rewards[0] + 0.1


def test_rows_hold_what_was_sampled_and_mask_what_was_told(tmp_path: Path):
    rollout = SeatRollout("digits-v0", FOUR_DIGITS, max_completion_length=6, turns=2)
    trainer = trainer_with(rollout, tmp_path)
    tokenizer = AutoTokenizer.from_pretrained(half_knowing())
    trainer.model.train()
    out = rollout(["train/3", "train/3", "train/5"], trainer)
    assert trainer.model.training
    model = AutoModelForCausalLM.from_pretrained(half_knowing())
    for row in range(3):
        prompt, ids = out["prompt_ids"][row], out["completion_ids"][row]
        mask, logprobs = out["env_mask"][row], out["logprobs"][row]
        text = tokenizer.decode(prompt + ids)
        assert text.startswith("<|im_start|>user\nWrite four digits.<|im_end|>")
        assert text.count("<|im_start|>user\nAgain.<|im_end|>") == 1
        own = "".join(tokenizer.decode([i]) for i, m in zip(ids, mask, strict=True) if m)
        assert "Again." not in own
        actions = own.split("<|im_end|>")[:2]
        share = sum(sum(c.isdigit() for c in action[:4]) / 8 for action in actions)
        assert out["episode_return"][row] == pytest.approx((share + 1) / 2)
        with torch.no_grad():
            scores = model(torch.tensor([prompt + ids])).logits[0].log_softmax(-1)
        for place, (token, kept, logprob) in enumerate(zip(ids, mask, logprobs, strict=True)):
            expected = scores[len(prompt) + place - 1, token].item() if kept else 0.0
            assert logprob == pytest.approx(expected, abs=1e-4)


def test_draws_differ_within_a_group_and_repeat_with_the_step(tmp_path: Path):
    rollout = SeatRollout("digits-v0", FOUR_DIGITS, max_completion_length=6)
    trainer = trainer_with(rollout, tmp_path)
    first = rollout(["train/3"] * 8, trainer)["completion_ids"]
    assert len({tuple(ids) for ids in first}) > 4
    assert rollout(["train/3"] * 8, trainer)["completion_ids"] == first
    trainer.state.global_step = 1
    assert rollout(["train/3"] * 8, trainer)["completion_ids"] != first


@pytest.mark.parametrize("reason", ["control token", "cut"])
def test_a_row_ends_where_the_next_prompt_is_another(
    reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    rollout = SeatRollout("digits-v0", FOUR_DIGITS, max_completion_length=6, turns=2)
    trainer = trainer_with(rollout, tmp_path)
    whole = rollout(["train/3"] * 2, trainer)
    if reason == "cut":
        for env in rollout.envs:
            env.unwrapped.max_action_chars = 1
    else:
        inside = trainer.processing_class.encode("<|im_start|>")
        sample = GenerateEngine.sample

        def with_control(self: Any, draws: Any, **options: Any) -> Any:
            return [
                Drawn((*inside, *action.ids), (0.0, *action.logprobs))
                for action in sample(self, draws, **options)
            ]

        monkeypatch.setattr(GenerateEngine, "sample", with_control)
    out = rollout(["train/3"] * 2, trainer)
    for ids, mask, longer in zip(
        out["completion_ids"], out["env_mask"], whole["completion_ids"], strict=True
    ):
        assert len(ids) == len(mask) == sum(mask) < len(longer)  # no text of the environment


def test_partners_are_made_once(tmp_path: Path):
    made: list[str] = []

    def four_digits(argument: str, context: Any) -> ScriptedPolicy:
        made.append(argument)
        return FOUR_DIGITS["b_0"]

    register_policy("four", four_digits)
    rollout = SeatRollout("digits-v0", {"b_0": "four"}, max_completion_length=6)
    rollout(["train/3"] * 3, trainer_with(rollout, tmp_path))
    assert (len(rollout.envs), len(made)) == (3, 1)
    seat = seat_environment("digits-v0", {"b_0": "four"})
    for env in (seat(), seat()):
        env.reset(task="train/1")
        env.say("1234")
        assert env.get_reward() == 1.0
    assert len(made) == 2


def test_the_only_tool_is_say(tmp_path: Path):
    seat = seat_environment("digits-v0", FOUR_DIGITS)
    _, tokenizer = untrained()
    tokenizer.chat_template = TOOLS.read_text()
    trainer = GRPOTrainer(
        half_knowing(),
        environment_factory=seat,
        processing_class=tokenizer,
        train_dataset=seat_dataset("digits-v0", 8),
        args=settings(tmp_path),
    )
    assert [tool.__name__ for tool in trainer.tools] == ["say"]
    assert trainer.reward_func_names == ["SeatEnvironment"]


def test_the_tool_is_called_and_each_seat_is_paid_its_own(tmp_path: Path):
    trainer = GRPOTrainer(
        half_knowing(tool=True),
        environment_factory=seat_environment("digits_own-v0", {"b_0": "expert"}, turns=2),
        train_dataset=seat_dataset("digits_own-v0", 8, turns=2),
        args=settings(tmp_path, max_completion_length=96),
    )
    trainer.train()
    (entry,) = [entry for entry in trainer.state.log_history if "reward" in entry]
    assert entry["reward"] == pytest.approx(0.5, abs=0.1)  # it knows half; experts are not counted
    assert 1.7 < entry["tools/call_frequency"] <= 2.2  # one call a turn


def test_a_seat_that_is_played_by_a_tool():
    env = seat_environment("digits-v0", FOUR_DIGITS, turns=2)()
    assert env.reset(task="train/7", prompt="ignored") == "Write four digits."
    assert env.say("12ab") == "Again."
    assert env.get_reward() == pytest.approx((0.5 + 1) / 4)
    assert env.say("9999") == "The episode is over."
    assert env.get_reward() == pytest.approx((0.5 + 1) / 4 + 0.5)
    assert env.say("more") == "The episode is over."
    assert env.get_reward() == pytest.approx(0.875)
    env.reset(task="train/7")
    assert env.get_reward() == 0.0


def test_turn_based_environments():
    env = seat_environment("relay-v0", {"runner_1": "expert", "runner_2": "expert"})()
    word = env.reset(task="cedar-fig").removeprefix("The word: ")
    assert env.say(word) == "The episode is over."
    assert env.get_reward() == 1.0


def test_a_seat_is_told_all_that_came_since_it_spoke():
    class Loud(Relay):
        def play_one(self, agent: str, action: str) -> Outcome:
            others = [other for other in self.agents if other != agent]
            return Outcome(reward_terms={}, feedback=dict.fromkeys(others, f"{agent} spoke"))

    register("loud-v0", Loud, api="aec")
    team = {"runner_1": "expert", "runner_2": "expert"}
    env = seat_environment("loud-v0", team, rounds=2)()
    env.reset(task="cedar-fig")
    assert env.say("x") == "runner_1 spoke\n\nrunner_2 spoke"


def test_what_cannot_be():
    with pytest.raises(ValueError, match=r"\['runner_0', 'runner_1'\] are left without a partner"):
        SeatRollout("relay-v0", {"runner_2": "expert"})
    with pytest.raises(ValueError, match="n=65 tasks: expected 1 to 64"):
        SeatRollout("digits-v0", FOUR_DIGITS).dataset(65)
    assert SeatRollout("digits-v0").seat == "writer_0"
