"""A server that notes every call and passes it on, as those of trainers do that record tokens."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from support.serving import ask


@dataclass
class Call:
    """One call: where it came to, under which key, what was told and what was answered."""

    path: str
    key: str
    messages: list[dict[str, str]]
    id: str = ""
    text: str = ""


@dataclass
class Recorder:
    """Its address, and the calls in the order in which they came."""

    url: str
    calls: list[Call] = field(default_factory=list)
    tokenizer: Any = None
    """Where it is given, `/generate` takes and gives ids as SGLang does."""


@contextmanager
def recording(server: str, model: str) -> Iterator[Recorder]:
    """In front of a server and its model; every path but `/generate` is a chat."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path == "/generate":
                prompts, sampling = body["input_ids"], body["sampling_params"]
                self.reply([self.generated(ids, sampling) for ids in prompts])
                return
            key = self.headers.get("Authorization", "").removeprefix("Bearer ")
            body.pop("return_token_ids", None)  # `transformers serve` refuses what it does not know
            call = Call(self.path, key, body["messages"])
            recorder.calls.append(call)
            answer = ask(f"{server}/v1/chat/completions", {**body, "model": model})
            call.id, call.text = answer["id"], answer["choices"][0]["message"]["content"]
            self.reply(answer)

        def generated(self, ids: list[int], sampling: dict[str, Any]) -> Any:
            """The model's own text, in ids again; the log-probs are made up."""
            body = {
                "model": model,
                "prompt": recorder.tokenizer.decode(ids),
                "max_tokens": sampling["max_new_tokens"],
                "temperature": sampling["temperature"],
            }
            (choice,) = ask(f"{server}/v1/completions", body)["choices"]
            said = recorder.tokenizer.encode(choice["text"])
            if choice["finish_reason"] == "stop":
                said.append(recorder.tokenizer.eos_token_id)
            scored = [[-0.5, token, None] for token in said]
            finish = {"type": choice["finish_reason"]}
            return {"meta_info": {"output_token_logprobs": scored, "finish_reason": finish}}

        def reply(self, answer: Any) -> None:
            content = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    recorder = Recorder(f"http://127.0.0.1:{http.server_address[1]}")
    threading.Thread(target=http.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield recorder
    finally:
        http.shutdown()
        http.server_close()
