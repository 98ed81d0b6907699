"""Programs in processes of their own: one, several under one launcher, or one on each of two nodes.

A node is what its launcher takes for one: the two of `on_two_nodes` talk by the loopback device.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from tempfile import TemporaryFile

from support import prepared
from support.paths import ROOT

ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(
        [str(ROOT), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    ),
    "OMP_NUM_THREADS": "1",
}
LAUNCHER = ("-m", "torch.distributed.run")


def finished(*command: str, timeout: float = 600, python: str | None = None) -> str:
    """What a Python program prints, by default in a prepared process; it must end well."""
    done = subprocess.run(
        [python or prepared.python(), *command],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def under_one_launcher(*program: str, processes: int = 2) -> None:
    """Run a program in several processes of one node, each started as users start them."""
    one = ("--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0", f"--nproc_per_node={processes}")
    finished(*LAUNCHER, *one, *program, python=sys.executable)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def on_two_nodes(*program: str, timeout: float = 600) -> None:
    """Run a program in one process on each of two nodes: one launcher each, as in docs/howto."""
    start = (prepared.python(), *LAUNCHER, "--nnodes=2")
    rest = ("--nproc_per_node=1", "--master_addr=127.0.0.1", f"--master_port={free_port()}")
    with TemporaryFile("w+") as said:
        nodes = [
            subprocess.Popen(
                [*start, f"--node_rank={rank}", *rest, *program],
                env=ENVIRONMENT,
                stdout=said,
                stderr=said,
            )
            for rank in (0, 1)
        ]
        try:
            codes = [node.wait(timeout) for node in nodes]
        finally:
            for node in nodes:
                node.kill()
        said.seek(0)
        assert codes == [0, 0], said.read()[-12000:]
