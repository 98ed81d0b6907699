"""A server with the routes of vLLM that `VLLMEngine` uses, computed by transformers and PEFT.

It samples from the folders that were published to it, never from the trainer's own weights, with
this library's noise per row. `wrong` lets it be wrong in one way.
"""

from __future__ import annotations

import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from peft import PeftModel
from peft.utils import set_peft_model_state_dict
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.engines.row_sampler import gumbel_noise

BASE = "base"


class StubEngine:
    """Serves adapters of, or full weights in the place of, a base model.

    Attributes:
        url: of the server.
        wrong: "" or what goes wrong: see `_weights`, `_answer` and `_reply`.
        asked: path -> number of requests.
    """

    def __init__(self, base: str, *, noise: bool = True) -> None:
        self.base = base
        self.noise = noise
        self.wrong = ""
        self.asked: Counter[str] = Counter()
        self.folders: dict[str, str] = {}
        self.lock = threading.Lock()
        self.model: Any = AutoModelForCausalLM.from_pretrained(base).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.loaded: set[str] = set()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])) or "{}")
                stub._reply(self, body)

            def do_GET(self) -> None:
                stub._reply(self, None)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.http.shutdown()
        self.http.server_close()

    def _reply(self, handler: BaseHTTPRequestHandler, body: Any) -> None:
        path = handler.path.split("?")[0]
        with self.lock:
            self.asked[path] += 1
            if self.wrong.startswith("cut ") and path == "/inference/v1/generate":
                left = int(self.wrong.removeprefix("cut "))
                self.wrong = f"cut {left - 1}" if left > 1 else ""
                handler.connection.close()
                return
            code, answer = self._answer(path, body)
        content = (answer if isinstance(answer, str) else json.dumps(answer)).encode()
        handler.send_response(code)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    def _answer(self, path: str, body: Any) -> tuple[int, Any]:
        if path == "/v1/load_lora_adapter":
            name, place = body["lora_name"], body["lora_path"]
            if name in self.folders:
                return 400, {"error": f"The lora adapter '{name}' has already been loaded."}
            if not Path(place).is_dir():
                return 404, {"error": f"No adapter found for {place}"}
            self.folders[name] = place
            return 200, f"Success: LoRA adapter '{name}' added successfully."
        if path == "/v1/unload_lora_adapter":
            del self.folders[body["lora_name"]]
            return 200, "Success"
        if path == "/collective_rpc":
            if self.wrong != "publish is skipped":
                self._reload(body["kwargs"]["weights_path"])
            return 200, {"results": [None]}
        if path == "/inference/v1/generate":
            return self._generated(body)
        if path == "/v1/chat/completions":
            return self._chatted(body)
        if path == "/v1/models":
            return 200, {"data": [{"id": BASE, "max_model_len": 512}]}
        if path == "/version":
            return 200, {"version": "0.0-stub"}
        return 200, ""

    def _reload(self, folder: str) -> None:
        state: dict[str, torch.Tensor] = {}
        for file in sorted(Path(folder).glob("*.safetensors")):
            state |= safetensors.torch.load_file(file)
        if self.wrong == "stale head":  # as vLLM on a CPU: the head keeps its own packed copy
            head = self.model.get_output_embeddings().weight.detach().clone()
            self.model.load_state_dict(state, strict=False)
            self.model.get_output_embeddings().weight = torch.nn.Parameter(head)
            return
        self.model.load_state_dict(state, strict=False)
        self.model.tie_weights()

    def _weights(self, name: str) -> str:
        """The folder that serves a version."""
        versions = [one for one in self.folders if one.split("@")[0] == name.split("@")[0]]
        if self.wrong == "old adapter":
            return self.folders[versions[0]]
        if self.wrong == "adapters swapped":
            others = [one for one in self.folders if one.split("@")[0] != name.split("@")[0]]
            return self.folders[others[-1]]
        return self.folders[name]

    def _generated(self, body: Any) -> tuple[int, Any]:
        name = body.get("model", BASE)
        if name != BASE:
            if name not in self.folders:
                return 404, {"error": f"The model `{name}` does not exist."}
            self._activate(self._weights(name))
        ids, logprobs = self._sample(body["token_ids"], body["sampling_params"])
        if self.wrong == "one NaN":
            logprobs[0] = float("nan")
        content = [{"logprob": one} for one in logprobs]
        if self.wrong == "another model":
            name = "other@1-00000000"
        return 200, {
            "model": name,
            "choices": [{"token_ids": ids, "logprobs": {"content": content}}],
        }

    def _chatted(self, body: Any) -> tuple[int, Any]:
        prompt = self.tokenizer.apply_chat_template(
            body["messages"], add_generation_prompt=True, return_dict=False
        )
        settings = {
            "max_tokens": body["max_tokens"],
            "temperature": body["temperature"],
            "seed": body["seed"],
            "stop_token_ids": [self.tokenizer.eos_token_id],
        }
        asked = {"model": body["model"], "token_ids": prompt, "sampling_params": settings}
        code, answer = self._generated(asked)
        if code == 200:
            [choice] = answer["choices"]
            text = self.tokenizer.decode(choice["token_ids"], skip_special_tokens=True)
            choice["message"] = {"role": "assistant", "content": text}
            if not body.get("return_token_ids"):
                del choice["token_ids"], choice["logprobs"]
            else:
                answer["prompt_token_ids"] = prompt
        return code, answer

    def _activate(self, folder: str) -> None:
        if not isinstance(self.model, PeftModel):
            self.model = PeftModel.from_pretrained(self.model, folder, adapter_name="now").eval()
        state = safetensors.torch.load_file(Path(folder) / "adapter_model.safetensors")
        set_peft_model_state_dict(self.model, state, adapter_name="now")

    @torch.no_grad()
    def _sample(self, prompt: list[int], settings: Any) -> tuple[list[int], list[float]]:
        ids, logprobs = list(prompt), []
        seed = (settings.get("extra_args") or {}).get("row_seed") if self.noise else None
        seeds = torch.tensor([seed if seed is not None else settings.get("seed", 0)])
        noisy = seed is not None or settings["temperature"] > 0
        for position in range(settings["max_tokens"]):
            scores = self.model(input_ids=torch.tensor([ids])).logits[0, -1].float()
            scores = scores.log_softmax(-1)
            if self.wrong.startswith("disturbed "):  # another distribution than the trainer's
                scores = (scores * float(self.wrong.split()[1])).log_softmax(-1)
            noise = gumbel_noise(seeds, position, len(scores))[0] if noisy else 0.0
            token = int((scores + noise).argmax())
            ids.append(token)
            logprobs.append(float(scores[token]))
            if token in settings.get("stop_token_ids", ()):
                break
        return ids[len(prompt) :], logprobs
