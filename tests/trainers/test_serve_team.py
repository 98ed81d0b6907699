"""`llm-marl serve-team`: the servers of a run, started, stopped and checked."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from peft import LoraConfig
from support.engine_server import StubEngine
from support.models import make_trainer, untrained
from support.toys import Lower
from transformers import TrainerCallback

from llm_marl_envs.cli import main
from llm_marl_envs.policies.json_server import EndpointError
from trainers.engines import vllm_server
from trainers.engines.vllm import VLLMEngine
from trainers.engines.vllm_server import ServerCall, ServerProcess, calls_for
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_model import FullWeights

pytestmark = pytest.mark.full  # `make test-all` runs it

LORA = {"r": 2, "target_modules": ["q_proj", "v_proj"]}
# What a server's process does, without a model: it answers /health on the port it is told.
ANSWERS = """#!{python}
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers()
    def log_message(self, *given): pass
port = int(sys.argv[sys.argv.index("--port") + 1])
print("listening", flush=True)
http.server.HTTPServer(("127.0.0.1", port), Handler).serve_forever()
"""
FAILS = """#!{python}
raise SystemExit("no GPU with 80 GB here")
"""


@pytest.fixture
def base(tmp_path: Path) -> str:
    model, tokenizer = untrained()
    model.save_pretrained(tmp_path / "base")
    tokenizer.save_pretrained(tmp_path / "base")
    return str(tmp_path / "base")


def run_file(folder: Path, **changes: Any) -> str:
    trainer = {"output_dir": str(folder / "run"), "max_completion_length": 4, "use_cpu": True}
    run = {"model": "org/base", "env": "coop_coding-v0", "lora": LORA, "trainer": trainer}
    trainer |= changes.pop("trainer", {})
    file = folder / "run.yaml"
    file.write_text(yaml.safe_dump({**run, **changes}))
    return str(file)


def printed(capsys: Any, *arguments: str) -> list[str]:
    assert main(["serve-team", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


# -- the commands ----------------------------------------------------------------------------------
def test_one_server_holds_all_adapters(tmp_path: Path, capsys: Any):
    [line] = printed(capsys, run_file(tmp_path), "--exact", "--python", "env/bin/python")
    assert line.startswith("VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 ")
    for part in (
        "env/bin/python -m vllm.entrypoints.openai.api_server --model org/base ",
        " --port 8000 ",
        " --dtype float32 ",
        " --enable-lora --max-loras 6 ",  # two policies: two versions and the start of each
        " --max-lora-rank 8 ",  # 2, as far as vLLM can say it
        " --logits-processors trainers.engines.vllm_noise:RowNoise",
    ):
        assert part in line


def test_seats_of_partners_and_shared_adapters_are_not_counted(tmp_path: Path, capsys: Any):
    file = run_file(tmp_path, partners={"main_0": "expert"})
    assert " --max-loras 3 " in printed(capsys, file)[0]
    file = run_file(tmp_path, trainer={"weights": "shared"})
    assert " --max-loras 3 " in printed(capsys, file)[0]
    file = run_file(tmp_path, lora={**LORA, "rank_pattern": {"q_proj": 20}})
    assert " --max-lora-rank 32" in printed(capsys, file)[0]


def test_full_weights_are_reloaded_and_separate_ones_have_a_server_each(
    tmp_path: Path, capsys: Any
):
    [line] = printed(capsys, run_file(tmp_path, lora=None))
    assert line.startswith("VLLM_SERVER_DEV_MODE=1 ")
    assert "--enable-lora" not in line
    models = {"helper_0": "org/small", "main_0": "org/large"}
    file = run_file(tmp_path, lora=None, model=models, trainer={"weights": "separate"})
    lines = printed(capsys, file, "--port", "9000")
    assert ["--model org/small" in lines[0], "--port 9000" in lines[0]] == [True, True]
    assert ["--model org/large" in lines[1], "--port 9001" in lines[1]] == [True, True]
    assert main(["serve-team", file, "--start"]) == 2
    assert "2 servers: start each of these lines by itself" in capsys.readouterr().err


def test_a_rank_that_no_server_takes(tmp_path: Path, capsys: Any):
    assert main(["serve-team", run_file(tmp_path, lora={**LORA, "r": 1000})]) == 2
    assert "rank 1000: vLLM serves adapters up to rank 512" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ("env/bin/python", TypeError, "expected a map such as {python: PATH}"),
        ({"pyton": "x"}, ValueError, "did you mean 'python'"),
        ({"cpu": "yes"}, TypeError, "cpu"),
        ({"model": "x"}, ValueError, "'model'"),
    ],
)
def test_settings_of_a_start_that_are_wrong(options: Any, error: Any, words: str):
    with pytest.raises(error, match=words):
        calls_for({"": "base"}, [LoraConfig(r=2)], options, exact=True)


# -- processes -------------------------------------------------------------------------------------
def program(folder: Path, text: str) -> str:
    file = folder / "python"
    file.write_text(text.format(python=sys.executable))
    file.chmod(0o755)
    return str(file)


@pytest.fixture
def process(tmp_path: Path) -> Iterator[ServerProcess]:
    [call] = calls_for(
        {"": "base"}, [], {"python": program(tmp_path, ANSWERS)}, exact=False
    ).values()
    one = ServerProcess(call, tmp_path / "logs" / "server.log")
    yield one
    one.stop()


def answers(url: str) -> bool:
    try:
        urllib.request.urlopen(f"{url}/health", timeout=5).close()
    except OSError:
        return False
    return True


def test_a_server_is_started_once_and_stopped(process: ServerProcess):
    assert process.start()
    assert answers(process.url)
    assert process.log.read_text() == "listening\n"
    assert not process.start()
    process.stop()
    assert not answers(process.url)
    process.stop()
    assert process.start()


def test_a_server_that_died_is_started_again(process: ServerProcess):
    process.start()
    assert process.process is not None
    os.kill(process.process.pid, signal.SIGKILL)
    process.process.wait()
    assert process.start()
    assert answers(process.url)


def test_a_server_that_ends_or_is_not_there(tmp_path: Path):
    call = ServerCall(model="base", python=program(tmp_path, FAILS))
    with pytest.raises(EndpointError, match=r"before it answered; (.|\n)*no GPU with 80 GB"):
        ServerProcess(call, tmp_path / "log").start()
    call = ServerCall(model="base", python=str(tmp_path / "nowhere" / "python"))
    with pytest.raises(EndpointError, match="set python under start to that of an environment"):
        ServerProcess(call, tmp_path / "log").start()


def test_a_port_that_is_taken(process: ServerProcess, tmp_path: Path):
    process.start()
    with pytest.raises(EndpointError, match=f"port {process.call.port}: another program listens"):
        ServerProcess(process.call, tmp_path / "second").start()


def test_a_server_that_never_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(vllm_server, "STARTING", 0.5)
    call = ServerCall(model="base", python=program(tmp_path, "#!/bin/sh\nsleep 60\n"))
    one = ServerProcess(call, tmp_path / "log")
    with pytest.raises(EndpointError, match=r"gave no answer in 0 s|gave no answer in 1 s"):
        one.start()
    assert one.process is None


@pytest.mark.skipif(sys.platform != "linux", reason="a signal at the parent's death is Linux's")
@pytest.mark.long
def test_a_server_does_not_outlive_a_killed_run(tmp_path: Path):
    python = program(tmp_path, ANSWERS)
    code = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from trainers.engines.vllm_server import ServerProcess, calls_for\n"
        f"[call] = calls_for({{'': 'base'}}, [], {{'python': {python!r}}}, exact=False).values()\n"
        f"ServerProcess(call, Path({str(tmp_path / 'log')!r})).start()\n"
        "print(call.url, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    for _ in range(100):
        if not answers(done.stdout.strip()):
            return
        time.sleep(0.1)
    pytest.fail("the server still answers")


class Answers(TrainerCallback):
    """Whether a server answers after each evaluation of a training."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.found: list[bool] = []

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.found.append(answers(self.url))


def test_an_evaluation_outside_of_a_training_leaves_no_server(
    process: ServerProcess, tmp_path: Path
):
    """The evaluations of a training leave it to the training."""
    seen = Answers(process.url)
    often = {"eval_strategy": "steps", "eval_steps": 1, "eval_tasks": 1}
    trainer = make_trainer(tmp_path, Lower, eval_env=Lower, callbacks=[seen], **often)
    engine: Any = trainer.engine
    engine.publish, engine.close = lambda update: process.start(), process.stop
    trainer.evaluate()
    trainer.train()
    trainer.evaluate()
    assert seen.found == [False, True, True, False]


# -- an engine that starts its own -----------------------------------------------------------------
class Args:
    output_dir = "run"
    process_index = 0
    world_size = 1


def test_an_engine_of_its_own_servers(base: str, tmp_path: Path):
    model, tokenizer = untrained()
    model.config.name_or_path = base
    seats = {"left_0": "left_0", "right_0": "right_0"}
    team = AdapterWeights(model, tokenizer, seats, LoraConfig(**LORA))
    settings = {"start": {"python": program(tmp_path, ANSWERS), "cpu": True}, "exact": True}
    engine = VLLMEngine.for_run(team, Args, settings)
    [process] = engine.processes
    assert (process.call.model, process.call.adapters, process.call.rank) == (base, 2, 2)
    assert (process.call.exact, process.call.cpu) == (True, True)
    urls = {server.base for servers in engine.servers.values() for server in servers}
    assert urls == {process.url}
    assert process.process is None, "it starts with the first publication"
    assert process.log == Path("run/engine/server.log")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "expected urls of servers"),
        ({"urls": ["http://a:1"], "start": {}}, "expected urls of servers"),
        ({"start": {"port": 1}}, "the model of shared has no folder or name"),
        ({"urls": ["localhost:8000"]}, "http://localhost:8000"),
        ({"url": ["http://a:1"]}, "did you mean 'urls'"),
    ],
)
def test_settings_of_an_engine_that_are_wrong(settings: Any, words: str):
    team = FullWeights(*untrained(), ["left_0"])
    team.module.config.name_or_path = ""
    with pytest.raises(ValueError, match=words):
        VLLMEngine.for_run(team, Args, settings)


def test_several_processes_start_no_server(base: str):
    class Two(Args):
        world_size = 2

    team = FullWeights(*untrained(), ["left_0"])
    with pytest.raises(ValueError, match="2 processes would each start servers"):
        VLLMEngine.for_run(team, Two, {"start": {}})


# -- the check -------------------------------------------------------------------------------------
def test_a_check_publishes_and_compares(base: str, tmp_path: Path, capsys: Any):
    stub = StubEngine(base)
    try:
        engine = {"name": "vllm", "urls": [stub.url], "exact": True}
        trainer = {"engine": engine, "max_steps": 1, "num_generations": 2}
        run = run_file(tmp_path, model=base, env="support.toys:Lower", trainer=trainer)
        lines = printed(capsys, run, "--check")
        assert [line.split(":")[0] for line in lines] == ["left_0", "right_0"]
        assert all("@0-" in line and "log-probs differ by" in line for line in lines)
        stub.noise = False
        assert main(["serve-team", run, "--check"]) == 2
        assert "of 8 probes differ" in capsys.readouterr().err
    finally:
        stub.close()


def test_doctor_asks_a_server_what_it_can_do(base: str, capsys: Any):
    stub = StubEngine(base)
    try:
        assert main(["doctor", "--engine", stub.url]) == 0
        said = [
            [line[:4].strip(), line[4:18].strip()] for line in capsys.readouterr().out.splitlines()
        ]
        assert said == [
            ["yes", "answers"],
            ["yes", "ids"],
            ["yes", "adapters"],
            ["yes", "full weights"],
            ["yes", "exact"],
        ]
        stub.noise = False
        assert main(["doctor", "--engine", stub.url]) == 0
        assert "no  exact         start it as" in capsys.readouterr().out
    finally:
        stub.close()
    assert main(["doctor", "--engine", stub.url]) == 1
    assert capsys.readouterr().out.startswith("no  answers")


def test_a_run_without_servers_cannot_be_checked(base: str, tmp_path: Path, capsys: Any):
    run = run_file(tmp_path, model=base, env="support.toys:Lower")
    assert main(["serve-team", run, "--check"]) == 2
    assert "engine 'generate' has no servers to check" in capsys.readouterr().err
