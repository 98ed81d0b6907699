"""How a vLLM server of a team is started. Owns the flags; the client is `vllm.py`."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

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
        found = {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"} if self.adapters else {}
        if not self.adapters:
            found["VLLM_SERVER_DEV_MODE"] = "1"  # the routes that reload full weights
        if self.exact:
            found["PYTHONPATH"] = str(Path(__file__).parents[2])
        if self.cpu:
            found |= {"VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_CPU_OMP_THREADS_BIND": "nobind"}
            found["OMP_NUM_THREADS"] = "1"
        return found

    def __str__(self) -> str:
        """As a line of shell."""
        before = [f"{name}={shlex.quote(value)}" for name, value in self.environment.items()]
        return " ".join([*before, shlex.join(self.command)])

    def replace_this_process(self) -> None:
        """Become the server; does not return."""
        os.execvpe(self.command[0], self.command, {**os.environ, **self.environment})
