"""A real OpenAI-compatible server beside a test: `transformers serve` on a free port."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


def ask(url: str, body: dict[str, Any] | None = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


@contextmanager
def served(model: str) -> Iterator[str]:
    """The address of a server that offers the model of a folder, once it answers."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    main = "from transformers.cli.transformers import main; main()"
    command = [sys.executable, "-c", main, "serve", model]
    server = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(120):
            try:
                ask(f"{url}/health")
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.5)
        yield url
    finally:
        server.kill()
        server.wait()
