"""How a vLLM server of a team is started and stopped. Owns the flags; the client is `vllm.py`."""

from __future__ import annotations

import atexit
import ctypes
import dataclasses
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_type_hints

from peft import PeftConfig

from llm_marl_envs.core.checks import check_types, refuse_unknown
from llm_marl_envs.files.atomic import make_folder
from llm_marl_envs.policies.json_server import EndpointError

STARTING = 1800.0
"""Seconds that a server may take to load its model."""
STOPPING = 20.0
"""Seconds that a server may take to end."""
QUOTED = 2000
"""Characters of a log that an error quotes."""
DEATH_SIGNAL = 1
"""`PR_SET_PDEATHSIG` of Linux."""
RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
"""Values that vLLM takes as --max-lora-rank."""
NOISE = "trainers.engines.vllm_noise:RowNoise"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerCall:
    """One server.

    Attributes:
        model: the base, as vLLM takes it.
        port: where it listens.
        adapters: how many policies it serves as LoRA adapters; 0 serves full weights.
        rank: of the adapters.
        exact: with this library's noise per row, in float32.
        python: of the environment that vLLM is installed in.
        dtype: of the weights, "auto" for what the model says; an exact server's is float32.
        max_model_len: most tokens of prompt and action; the model's own where None.
        cpu: one thread and a small cache, for a machine without a GPU.
    """

    model: str
    port: int = 8000
    adapters: int = 0
    rank: int = 8
    exact: bool = False
    python: str = "python"
    dtype: str = "auto"
    max_model_len: int | None = None
    cpu: bool = False

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def command(self) -> list[str]:
        """The words of the command.

        Raises:
            ValueError: a rank above what vLLM serves.
        """
        flags = ["--model", self.model, "--host", "127.0.0.1", "--port", str(self.port)]
        flags += ["--generation-config", "vllm", "--enable-scale-out"]
        flags += ["--dtype", "float32" if self.exact else self.dtype]
        flags += ["--logprobs-mode", "raw_logprobs" if self.exact else "processed_logprobs"]
        if self.max_model_len is not None:
            flags += ["--max-model-len", str(self.max_model_len)]
        if self.adapters:
            served = next((rank for rank in RANKS if rank >= self.rank), None)
            if served is None:
                raise ValueError(f"rank {self.rank}: vLLM serves adapters up to rank {RANKS[-1]}")
            kept = 3 * self.adapters  # two versions of each, and the start
            flags += ["--enable-lora", "--max-loras", str(kept), "--max-cpu-loras", str(2 * kept)]
            flags += ["--max-lora-rank", str(served)]
        if self.exact:
            flags += ["--no-enable-prefix-caching"]
            flags += ["--logits-processors", NOISE]
        if self.cpu:
            flags += ["--enforce-eager", "--max-num-seqs", "64"]
        return [self.python, "-m", "vllm.entrypoints.openai.api_server", *flags]

    @property
    def environment(self) -> dict[str, str]:
        """Variables that it needs; where the noise is wanted, this library must be found too."""
        variables = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if self.adapters else {}
        if not self.adapters:
            variables["VLLM_SERVER_DEV_MODE"] = "1"  # the routes that reload full weights
        if self.exact:
            variables["PYTHONPATH"] = str(Path(__file__).parents[2])
        if self.cpu:
            variables |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
            variables["OMP_NUM_THREADS"] = "1"
        return variables

    def __str__(self) -> str:
        """As a line of shell."""
        before = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*before, shlex.join(self.command)])

    def replace_this_process(self) -> None:
        """Become the server; does not return."""
        os.execvpe(self.command[0], self.command, {**os.environ, **self.environment})


def calls_for(
    models: Mapping[str, str],
    adapters: Sequence[PeftConfig],
    options: Any,
    *,
    exact: bool,
) -> dict[str, ServerCall]:
    """The servers of a team: one for each model, which serves all adapters.

    Args:
        models: name -> what vLLM loads.
        adapters: the configuration of each policy's; none for full weights.
        options: the other fields of `ServerCall`. Ports count up from `port`; without it each is
            one that is free now.
        exact: as in `ServerCall`.

    Raises:
        ValueError: an option that is unknown.
        TypeError: an option of the wrong type.
    """
    where, own = "engine vllm, start", ("model", "adapters", "rank", "exact")
    if not isinstance(options, Mapping):
        raise TypeError(f"{where}: expected a map such as {{python: PATH}}, got {options!r:.80}")
    names = [option.name for option in dataclasses.fields(ServerCall) if option.name not in own]
    refuse_unknown(where, options, names)
    check_types(where, options, get_type_hints(ServerCall))
    settings = dict(options)
    port = settings.pop("port", None)
    sizes = {"adapters": len(adapters), "rank": max(map(_rank, adapters))} if adapters else {}
    return {
        name: ServerCall(
            model=model,
            port=_free_port() if port is None else port + number,
            exact=exact,
            **sizes,
            **settings,
        )
        for number, (name, model) in enumerate(models.items())
    }


def _rank(config: Any) -> int:
    """The largest of an adapter."""
    return max([config.r, *(config.rank_pattern or {}).values()])


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False


class ServerProcess:
    """A server that this process starts and stops; it does not outlive this process.

    Args:
        call: how.
        log: where what it prints goes.
    """

    def __init__(self, call: ServerCall, log: Path) -> None:
        self.call = call
        self.log = log
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it answers."""
        return self.call.url

    def start(self) -> bool:
        """Start it unless it runs, wait until it answers; whether it had to be started.

        Raises:
            EndpointError: it cannot be started, ends, or does not answer; its log is quoted.
        """
        if self.process is not None and self.process.poll() is None:
            return False
        if _answers(self.call.port):
            raise EndpointError(
                f"port {self.call.port}: another program listens there; stop it, or choose "
                "another port under start"
            )
        make_folder(self.log.parent)
        print(f"starting {shlex.join(self.call.command)}\n  log: {self.log}", file=sys.stderr)
        with self.log.open("wb") as out:
            try:
                self.process = subprocess.Popen(
                    self.call.command,
                    env={**os.environ, **self.call.environment},
                    stdout=out,
                    stderr=out,
                    start_new_session=True,
                    preexec_fn=_end_with_parent if sys.platform == "linux" else None,
                )
            except OSError as error:
                raise EndpointError(
                    f"the server cannot be started: {error}; set python under start to that of an "
                    "environment with vLLM"
                ) from error
        atexit.register(self.stop)
        self._wait()
        return True

    def _wait(self) -> None:
        until = time.monotonic() + STARTING
        while time.monotonic() < until:
            if self.process is None or self.process.poll() is not None:
                raise EndpointError(f"the server ended before it answered; {self._said()}")
            with suppress(OSError):
                urllib.request.urlopen(f"{self.url}/health", timeout=1).close()
                if self.process.poll() is None:
                    return
            time.sleep(0.2)
        self.stop()
        raise EndpointError(f"the server gave no answer in {STARTING:.0f} s; {self._said()}")

    def _said(self) -> str:
        text = self.log.read_text(encoding="utf-8", errors="replace").rstrip()
        return f"{self.log} ends with:\n{text[-QUOTED:]}"

    def stop(self) -> None:
        """End it and the processes that it started."""
        atexit.unregister(self.stop)
        process, self.process = self.process, None
        if process is None:
            return
        for number, seconds in ((signal.SIGTERM, STOPPING), (signal.SIGKILL, None)):
            with suppress(ProcessLookupError):
                os.killpg(process.pid, number)
            with suppress(subprocess.TimeoutExpired):
                process.wait(seconds)


_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


def _end_with_parent() -> None:
    """In the child: be told to end where the parent is killed."""
    if _LIBC is not None:
        _LIBC.prctl(DEATH_SIGNAL, signal.SIGTERM)
