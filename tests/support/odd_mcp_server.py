"""A server that speaks the Model Context Protocol by hand; its answers are odd.

    python odd_mcp_server.py MODE PIDS

Most tools answer by their name. As "silent" it never answers and does not end by itself, nor do
its two children, of which one leaves its group. It writes the ids of its processes into a file.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

PAGE = 3
ITEM = {"a": [42, 'caf\u00e9 "x"']}
TEXT = {"type": "text", "text": "It is done."}
IMAGE = {"type": "image", "data": "aGk=", "mimeType": "image/png"}
AUDIO = {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}
LINK = {"type": "resource_link", "uri": "file:///a.txt", "name": "notes"}
INSIDE = {"uri": "file:///b", "mimeType": "text/plain", "text": "Oslo"}
BYTES = {"uri": "file:///c", "blob": "aGk="}
EMBEDDED, BLOB = ({"type": "resource", "resource": one} for one in (INSIDE, BYTES))
ANSWERS: dict[str, Any] = {
    "plain": {"content": [TEXT, {"type": "text", "text": "Twice."}]},
    "structured": {"content": [], "structuredContent": ITEM},
    "alone": {"structuredContent": ITEM},
    "beside": {"content": [TEXT], "structuredContent": ITEM},
    "both": {
        "content": [{"type": "text", "text": json.dumps(ITEM, indent=1)}],
        "structuredContent": ITEM,
    },
    "wrapped": {"content": [{"type": "text", "text": "5"}], "structuredContent": {"result": 5}},
    "failed": {"content": [], "structuredContent": ITEM, "isError": True},
    "embedded": {"content": [EMBEDDED]},
    "failed_embedded": {"content": [EMBEDDED], "isError": True},
    "mixed": {"content": [IMAGE, AUDIO, LINK, BLOB, EMBEDDED], "structuredContent": ITEM},
    "wrong": {"content": [{"type": "text"}]},
    "refused": None,
    "hangs": None,
    "blocks": None,
}


def silent() -> None:
    """Never answer, whoever asks, nor end."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    children = [
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]),
        subprocess.Popen(["sleep", "600"], start_new_session=True),
    ]
    Path(sys.argv[2]).write_text(" ".join(map(str, (os.getpid(), *(c.pid for c in children)))))
    time.sleep(600)


def answer(method: str, given: dict[str, Any]) -> dict[str, Any] | None:
    """The result of a request; None: there is none."""
    if method == "initialize":
        about = {"name": "odd", "version": "1"}
        version = given["protocolVersion"]
        return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": about}
    if method == "tools/list":
        names, at = [*ANSWERS], int(given.get("cursor") or 0)
        schema = {"type": "object", "properties": {"q": {"type": "string"}}}
        page = [{"name": n, "inputSchema": schema} for n in names[at % len(names) :][:PAGE]]
        more = at + PAGE < len(names) or sys.argv[1] == "endless"
        return {"tools": page} | ({"nextCursor": str(at + PAGE)} if more else {})
    if method == "tools/call":
        if given["name"] == "blocks":
            time.sleep(600)
        return ANSWERS[given["name"]]
    return None


def main() -> None:
    """Answer requests, with a stray line before each answer."""
    if sys.argv[1] == "silent":
        silent()
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" not in asked:
            continue
        given = asked.get("params") or {}
        if given.get("name") == "hangs":
            continue
        sys.stdout.buffer.write(b"a stray line \xff\n")
        found = answer(asked["method"], given)
        refused = {"error": {"code": -32602, "message": "q must be a town"}}
        said = refused if found is None else {"result": found}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}), flush=True)


if __name__ == "__main__":
    main()
