"""A training of seconds that reports to trackers, in a process of its own.

    python -m support.tracked_run FOLDER NAMES UPDATES [CHECKPOINT]

Prints one line of JSON: the addresses outside of this machine that it tried to reach, and which
trackers were opened.
"""

from __future__ import annotations

import json
import sys
from typing import Any

OUTSIDE: list[str] = []
ASKS = ("socket.getaddrinfo", "socket.connect", "socket.gethostbyname")
HOME = ("127.0.0.1", "localhost", "::1", "0.0.0.0")


def note(event: str, arguments: tuple[Any, ...]) -> None:
    """Keep whom the process asks for, apart from itself and files that are sockets."""
    if event in ASKS:
        place = arguments[1] if event == "socket.connect" else arguments[0]
        host = place[0] if isinstance(place, tuple) else place
        if isinstance(host, str) and host not in HOME and not host.startswith(("/", "\0")):
            OUTSIDE.append(host)


def main(folder: str, names: str, updates: str, checkpoint: str = "") -> None:
    sys.addaudithook(note)
    from support.models import make_trainer
    from support.toys import Lower

    trainer = make_trainer(
        folder,
        Lower,
        report_to=names.split(",") if names else "none",
        max_steps=int(updates),
        transcript_every=2,
        save_strategy="steps",
        save_steps=2,
        eval_env=Lower,
        eval_tasks=2,
        eval_strategy="steps",
        eval_steps=2,
    )
    trainer.train(checkpoint or None)
    print(json.dumps({"outside": OUTSIDE, "name": trainer.args.run_name}))


if __name__ == "__main__":
    main(*sys.argv[1:])
