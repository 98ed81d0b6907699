"""The app, served to a test; forms filled in as a browser sends them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import uvicorn

from llm_marl_envs.app.site import Site


@contextmanager
def served(folders: Sequence[Path], named: Sequence[str] = ()) -> Iterator[str]:
    """The address of a site that is served until the block ends."""
    config = uvicorn.Config(Site(folders, named).program(), port=0, log_level="warning")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive(), "the server did not start"
            time.sleep(0.02)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(timeout=20)
