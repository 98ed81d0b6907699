"""A warm start of a model with a tokenizer of its own: what it learns, and that it goes on."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
from support import prepared
from support.gguf_file import write_gguf
from support.launch import ENVIRONMENT
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl.trainer.sft_trainer import SFTTrainer

from llm_marl_envs import make
from llm_marl_envs.core.experts import experts_of
from llm_marl_envs.play.demonstrations import demonstrations
from trainers.train import train
from trainers.weights import warm_start
from trainers.weights.chat import ChatTemplate
from trainers.weights.imported import import_model
from trainers.weights.shown import IGNORED, demonstrations_of, encoded
from trainers.weights.warm_start import WarmStart, warm_started

ENV = "coop_coding-v0"
SMALL = WarmStart(demonstrations=24, steps=6, batch_size=4, learning_rate=1e-2, lora_rank=4)


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    write_gguf(folder / "small.gguf")
    return str(import_model(str(folder / "small.gguf"), folder / "model"))


def weights(folder: str | Path) -> torch.Tensor:
    model = AutoModelForCausalLM.from_pretrained(folder)
    return torch.cat([parameter.detach().flatten() for parameter in model.parameters()])


@pytest.mark.parametrize("rank", [4, 0])
def test_it_is_a_plain_model_that_says_what_it_was_shown(
    base: str, tmp_path: Path, rank: int
) -> None:
    settings = WarmStart(**{**vars(SMALL), "lora_rank": rank})
    folder = warm_started(base, ENV, {"turns": 2}, settings, tmp_path / "warm")
    record = json.loads((Path(folder) / warm_start.RECORD).read_text())
    assert (record["base"], record["env_id"]) == (base, ENV)
    assert (record["env_kwargs"], record["steps"]) == ({"turns": 2}, 6)
    assert not torch.equal(weights(folder), weights(base))
    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.chat_template == AutoTokenizer.from_pretrained(base).chat_template
    own = AutoModelForCausalLM.from_pretrained(folder).generation_config
    assert (own.do_sample, own.temperature) == (True, 1.0)
    assert [path.name for path in tmp_path.iterdir()] == ["warm"]  # nothing is left beside it
    before = weights(folder)
    assert warm_started(base, ENV, {"turns": 2}, settings, folder) == folder
    with pytest.raises(ValueError, match="not this warm start"):
        warm_started(base, ENV, None, settings, folder)
    warm_started(base, ENV, None, settings, folder, fresh=True)
    assert not torch.equal(weights(folder), before)


def test_it_learns_the_answers(base: str, tmp_path: Path) -> None:
    longer = WarmStart(**{**vars(SMALL), "steps": 60, "lora_rank": 0})
    folder = warm_started(base, ENV, None, longer, tmp_path / "warm")
    loss = json.loads((Path(folder) / warm_start.RECORD).read_text())["loss"]
    shown = demonstrations_of((ENV,), 24, 0)
    assert loss < 0.5 * loss_on(base, shown)
    assert loss_on(folder, shown) == pytest.approx(loss, rel=0.3)


def loss_on(folder: str, shown: Any) -> float:
    """Mean cross-entropy of a token of the answers, in nats."""
    chat = ChatTemplate(AutoTokenizer.from_pretrained(folder))
    model = AutoModelForCausalLM.from_pretrained(folder)
    total = count = 0.0
    for demonstration in shown:
        ids, labels = (torch.tensor([x]) for x in encoded(chat, *demonstration))
        with torch.no_grad():
            tokens = int((labels != IGNORED).sum())
            total += tokens * float(model(input_ids=ids, labels=labels).loss)
            count += tokens
    return total / count


def test_one_that_was_stopped_goes_on(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = warm_started(base, ENV, None, SMALL, tmp_path / "whole")
    steps: list[int] = []
    after = warm_start._Bar.on_log

    def stop(bar: Any, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        steps.append(state.global_step)
        after(bar, args, state, *rest, **kwargs)
        if len(steps) == 4:
            raise KeyboardInterrupt

    monkeypatch.setattr(warm_start._Bar, "on_log", stop)
    with pytest.raises(KeyboardInterrupt):
        warm_started(base, ENV, None, SMALL, tmp_path / "cut")
    assert not (tmp_path / "cut").exists()
    cut = warm_started(base, ENV, None, SMALL, tmp_path / "cut")
    assert steps[4] == steps[3]  # the step after the last checkpoint, not the first one
    torch.testing.assert_close(weights(cut), weights(whole))


def test_a_checkpoint_that_is_not_whole_is_left_out(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped after the weights of a checkpoint were written, before the rest of it."""
    whole = warm_started(base, ENV, None, SMALL, tmp_path / "whole")
    save, steps = SFTTrainer._save_optimizer_and_scheduler, []

    def stop(trainer: Any, folder: str) -> None:
        steps.append(trainer.state.global_step)
        if len(steps) == 3:
            raise KeyboardInterrupt
        save(trainer, folder)

    monkeypatch.setattr(SFTTrainer, "_save_optimizer_and_scheduler", stop)
    with pytest.raises(KeyboardInterrupt):
        warm_started(base, ENV, None, SMALL, tmp_path / "cut")
    cut = warm_started(base, ENV, None, SMALL, tmp_path / "cut")
    assert steps[3] == steps[2]  # made again
    torch.testing.assert_close(weights(cut), weights(whole))


TWICE = """
import sys
from trainers.weights.warm_start import WarmStart, warm_started
settings = WarmStart(demonstrations=24, steps=6, batch_size=4, learning_rate=1e-2, lora_rank=4)
print(warm_started(sys.argv[1], "coop_coding-v0", None, settings, sys.argv[2]))
"""


def test_two_at_once_make_one(base: str, tmp_path: Path) -> None:
    whole = warm_started(base, ENV, None, SMALL, tmp_path / "whole")
    program = tmp_path / "twice.py"
    program.write_text(TWICE)
    command = [prepared.python(), str(program), base, str(tmp_path / "both")]
    both = [subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [process.wait() for process in both] == [0, 0]
    torch.testing.assert_close(weights(tmp_path / "both"), weights(whole), rtol=0, atol=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["both", "twice.py", "whole"]


def test_several_processes_take_what_one_has_made(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="llm-marl estimate"):
        warm_started(base, ENV, None, SMALL, tmp_path / "warm")
    assert not any(tmp_path.iterdir())
    monkeypatch.delenv("WORLD_SIZE")
    folder = warm_started(base, ENV, None, SMALL, tmp_path / "warm")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert warm_started(base, ENV, None, SMALL, tmp_path / "warm") == folder


def test_an_empty_folder_is_taken_and_another_split_refused(base: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="split"):
        warm_started(base, ENV, {"split": "test"}, SMALL, tmp_path)
    assert warm_started(base, ENV, {"split": "train"}, SMALL, tmp_path) == str(tmp_path)


def test_conventions_that_are_shown() -> None:
    env = make(ENV, split="train")
    experts = experts_of(env)
    for shown in (["item", "args", "list"], ["list", "pair"]):
        pairs = demonstrations(env, 60, 0, shown)
        asked = {chat: (task, agent) for task, agent, chat in prompts(env)}
        conventions = {experts.read(*asked[chat], answer) for chat, answer in pairs}
        assert conventions <= {*shown, None}
        assert len(conventions - {None}) > 1
    assert demonstrations(env, 20, 3) == demonstrations(
        env, 20, 3, ["item", "list", "args", "pair"]
    )
    with pytest.raises(ValueError, match="conventions="):
        demonstrations(env, 1, 0, ["tuple"])
    with pytest.raises(ValueError, match="conventions="):
        demonstrations(env, 1, 0, [])


def prompts(env: Any) -> Any:
    for index in range(len(env.source)):
        task = env.source[index]
        for agent, messages in env.first_words(task).items():
            yield task, agent, messages


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"step": 3}, "step"),
        ({"steps": 0}, "steps"),
        ({"steps": "many"}, "steps"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"lora_rank": -1}, "lora_rank"),
    ],
)
def test_refused_settings(given: dict[str, Any], named: str) -> None:
    with pytest.raises((ValueError, TypeError), match=named):
        WarmStart(**given)


def test_a_run_that_cannot_begin_is_refused_before_the_warm_start(
    base: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A warm start takes long: an occupied folder and adapters that fit no layer are seen first."""
    monkeypatch.setattr(warm_start, "warm_started", lambda *_, **__: pytest.fail("it began"))
    run: dict[str, Any] = {"model": base, "env": ENV, "warm_start": {"steps": 2}}
    run |= {"lora": {"r": 2}, "trainer": {"output_dir": str(tmp_path / "run"), "use_cpu": True}}
    with pytest.raises(ValueError, match="no_such_layer"):
        train({**run, "lora": {"r": 2, "target_modules": ["no_such_layer"]}})
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "log.jsonl").write_text("{}\n")
    with pytest.raises(ValueError, match="holds a run already"):
        train(run)
