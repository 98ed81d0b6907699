"""The endpoint policy against a local server that answers as OpenAI's protocol says, and badly."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from toys import WordPair

from llm_marl_envs.cli import main
from llm_marl_envs.evaluation import evaluate_team
from llm_marl_envs.policies import EndpointPolicy, endpoint
from llm_marl_envs.policies.endpoint import EndpointError
from llm_marl_envs.records import Request
from llm_marl_envs.spaces import Message

Reply = tuple[int, dict[str, str], bytes]


def completion(text: Any, **changes: Any) -> Reply:
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 7, "completion_tokens": 3},
        **changes,
    }
    return 200, {}, json.dumps(body).encode()


class Server:
    """Answers chats with `script(body, number of the request)`; keeps what it was asked."""

    def __init__(self) -> None:
        self.script: Callable[[dict[str, Any], int], Reply] = lambda body, n: completion("hello")
        self.models = ["tiny"]
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.most_at_once = 0
        self._now = 0
        self._lock = threading.Lock()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                listed = {"data": [{"id": name} for name in outer.models]}
                self.reply((200, {}, json.dumps(listed).encode()))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with outer._lock:
                    number = len(outer.asked)
                    outer.asked.append({"path": self.path, **body})
                    outer.keys.append(self.headers.get("Authorization"))
                    outer._now += 1
                    outer.most_at_once = max(outer.most_at_once, outer._now)
                try:
                    reply = outer.script(body, number)
                finally:
                    with outer._lock:
                        outer._now -= 1
                self.reply(reply)

            def reply(self, reply: Reply) -> None:
                status, headers, content = reply
                self.send_response(status)
                for name, value in {"Content-Length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, format: str, *args: Any) -> None:
                """Quiet."""

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        threading.Thread(target=self.http.serve_forever, daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setattr(endpoint, "FIRST_WAIT", 0.01)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    one = Server()
    yield one
    one.http.shutdown()
    one.http.server_close()


def request(seed: int = 1, text: str = "Your word: fig", **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "env_id": "word_pair-v0",
        "agent": "left_0",
        "turn": 0,
        "episode": 0,
        "task_id": "fig-apple",
        "messages": (Message("system", "Say your word."), Message("user", text)),
        "observation": text,
        "seed": seed,
    }
    return Request(**{**fields, **changes})


def test_what_is_sent_and_what_is_read(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLM_MARL_API_KEY", "secret")
    policy = EndpointPolicy(
        server.url, max_completion_length=16, temperature=0.5, options={"top_p": 0.9}
    )
    (answer,) = policy.act([request(seed=2**31 + 5)])
    assert (answer.text, answer.usage, answer.tokens) == ("hello", (7, 3), (7, 3))
    assert (answer.policy, answer.cut) == ("tiny", False)
    assert server.asked == [
        {
            "path": "/v1/chat/completions",
            "model": "tiny",
            "messages": [
                {"role": "system", "content": "Say your word."},
                {"role": "user", "content": "Your word: fig"},
            ],
            "max_tokens": 16,
            "temperature": 0.5,
            "seed": 5,
            "top_p": 0.9,
        }
    ]
    assert server.keys == ["Bearer secret"]  # before any further request
    assert policy.act([]) == []
    policy.stretched(3).act([request()])
    assert [asked["max_tokens"] for asked in server.asked[-1:]] == [48]
    assert "secret" not in policy.identity


def test_answers_keep_their_order_and_run_at_once(server: Server):
    def script(body: dict[str, Any], number: int) -> Reply:
        time.sleep(0.02 * (body["seed"] % 3))
        return completion(str(body["seed"]))

    server.script = script
    policy = EndpointPolicy(f"{server.url}/v1/", "tiny", concurrency=4)
    answers = policy.act([request(seed=i) for i in range(12)])
    assert [answer.text for answer in answers] == [str(i) for i in range(12)]
    assert 2 <= server.most_at_once <= 4


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_passing_failures_are_tried_again(server: Server, status: int):
    def script(body: dict[str, Any], number: int) -> Reply:
        return (status, {}, b"busy") if number < 2 else completion("at last")

    server.script = script
    assert EndpointPolicy(server.url).act([request()])[0].text == "at last"
    assert len(server.asked) == 3


def test_the_server_says_how_long_to_wait(server: Server):
    times: list[float] = []

    def script(body: dict[str, Any], number: int) -> Reply:
        times.append(time.monotonic())
        return (429, {"Retry-After": "0.3"}, b"") if number == 0 else completion("ok")

    server.script = script
    EndpointPolicy(server.url).act([request()])
    assert times[1] - times[0] >= 0.3
    assert endpoint._seconds("Wed, 21 Oct 2026 07:28:00 GMT") == 0.0
    assert endpoint._seconds(None) == 0.0


def test_lasting_failures_quote_the_server(server: Server):
    server.script = lambda body, n: (400, {}, b'{"error": "context too long"}')
    with pytest.raises(EndpointError, match=r"HTTP 400 .*context too long") as caught:
        EndpointPolicy(server.url).act([request()])
    assert "task 'fig-apple', left_0, turn 0" in str(caught.value)
    assert len(server.asked) == 1  # asking again would not help
    server.script = lambda body, n: (500, {}, b"out of memory " * 100)
    with pytest.raises(EndpointError, match=r"HTTP 500 .*out of memory.*\(after 2 attempts\)") as c:
        EndpointPolicy(server.url, retries=1).act([request()])
    assert len(str(c.value)) < 1000


@pytest.mark.parametrize(
    "content",
    [
        b"<html>gateway</html>",
        b'{"choices": [',
        b'{"choices": []}',
        b'{"choices": [{"message": {"content": 5}}]}',
        b"[]",
        b"null",
        b"\xff\xfe",
        b"",
    ],
)
def test_malformed_answers_are_tried_again_and_then_quoted(server: Server, content: bytes):
    server.script = lambda body, n: (200, {}, content) if n == 0 else completion("fine")
    assert EndpointPolicy(server.url).act([request()])[0].text == "fine"
    server.script = lambda body, n: (200, {}, content)
    with pytest.raises(EndpointError, match="not the expected JSON"):
        EndpointPolicy(server.url, retries=1).act([request()])


def test_an_answer_that_breaks_off_is_tried_again(server: Server):
    def script(body: dict[str, Any], number: int) -> Reply:
        status, _, content = completion("whole")
        return (status, {"Content-Length": "9999"}, content) if number == 0 else completion("whole")

    server.script = script
    policy = EndpointPolicy(server.url, timeout=0.5)
    assert policy.act([request()])[0].text == "whole"
    assert len(server.asked) == 2


def test_a_server_that_sleeps_times_out(server: Server):
    def script(body: dict[str, Any], number: int) -> Reply:
        time.sleep(1.0)
        return completion("late")

    server.script = script
    begun = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer .*timed out"):
        EndpointPolicy(server.url, "tiny", timeout=0.1, retries=1).act([request()])
    assert time.monotonic() - begun < 0.9


def test_nobody_listens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(endpoint, "FIRST_WAIT", 0.01)
    with pytest.raises(EndpointError, match="no answer"):
        EndpointPolicy("http://127.0.0.1:9", retries=1)


@pytest.mark.parametrize(
    ("answer", "text", "cut", "usage"),
    [
        (completion(None), "", False, (7, 3)),  # a refusal or a tool call has no content
        (completion("x", usage=None), "x", False, None),
        (completion("x", usage={"prompt_tokens": 1}), "x", False, None),
        (
            completion("x", choices=[{"message": {"content": "x"}, "finish_reason": "length"}]),
            "x",
            True,
            (7, 3),
        ),
    ],
)
def test_unusual_answers(server: Server, answer: Reply, text: str, cut: bool, usage: Any):
    server.script = lambda body, n: answer
    (found,) = EndpointPolicy(server.url).act([request()])
    assert (found.text, found.cut, found.usage) == (text, cut, usage)


def test_texts_that_are_no_unicode_can_be_sent(server: Server):
    EndpointPolicy(server.url).act([request(text="a\ud800b🦜")])
    assert server.asked[0]["messages"][1]["content"] == "a?b🦜"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"url": "localhost:8000"}, "expected e.g."),
        ({"url": "file:///etc/passwd"}, "expected e.g."),
        ({"url": "http://h", "model": "m", "concurrency": 0}, "concurrency=0"),
        ({"url": "http://h", "model": "m", "temperature": -1.0}, "temperature=-1"),
        ({"url": "http://h", "model": "m", "retries": -1}, "retries=-1"),
        ({"url": "http://h", "model": "m", "timeout": 0.0}, "timeout=0"),
    ],
)
def test_wrong_arguments(arguments: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        EndpointPolicy(**arguments)


def test_several_models_must_be_named(server: Server):
    server.models = ["a", "b"]
    with pytest.raises(ValueError, match=r"offers the models \['a', 'b'\]: name one"):
        EndpointPolicy(server.url)
    assert EndpointPolicy(server.url, "b").model == "b"


def test_one_failure_ends_the_batch(server: Server):
    server.script = lambda body, n: (401, {}, b"no key")
    with pytest.raises(EndpointError, match="no key"):
        EndpointPolicy(server.url, concurrency=2).act([request(seed=i) for i in range(50)])
    assert len(server.asked) < 10


def test_a_team_of_endpoints_is_measured(server: Server):
    def script(body: dict[str, Any], number: int) -> Reply:
        return completion(body["messages"][1]["content"].rpartition(" ")[2])

    server.script = script
    policy = EndpointPolicy(server.url)
    result = evaluate_team(WordPair, dict.fromkeys(WordPair().possible_agents, policy), n_tasks=5)
    assert result.success == 1.0
    assert (result.cost.prompt_tokens, result.cost.completion_tokens) == (14.0, 6.0)


def test_the_command_measures_an_endpoint_without_torch(
    server: Server, capsys: pytest.CaptureFixture[str], run_python: Callable[..., str]
):
    where = f"endpoint:{server.url}#tiny"
    arguments = ["eval", "debate-v0", "--team", where, "--tasks", "2", "--max-tokens", "8"]
    program = (
        "import sys; sys.modules['torch'] = None\n"
        f"from llm_marl_envs.cli import main\nassert main({arguments!r}) == 0"
    )
    assert "tokens written per episode" in run_python(program)
    assert server.asked[0]["max_tokens"] == 8
    server.script = lambda body, n: (404, {}, b"no such model")
    assert main(arguments) == 1
    assert "no such model" in capsys.readouterr().err


@pytest.mark.long
def test_a_real_server_plays_as_the_local_model_does(tmp_path: Any):
    """`transformers serve` on a CPU with the embedded model, greedy, beside `LocalPolicy`."""
    import socket
    import subprocess
    import sys
    from pathlib import Path

    from llm_marl_envs import make
    from llm_marl_envs.policies import LocalPolicy
    from trainers.tiny import TinySettings, tiny_model

    model = tiny_model(tmp_path / "tiny", settings=TinySettings(steps=30, demonstrations=500))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "transformers"), "serve", model]
    running = subprocess.Popen(
        [*command, "--host", "127.0.0.1", "--port", str(port)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        served = EndpointPolicy(  # its retries wait for the server to come up
            f"http://127.0.0.1:{port}",
            model,
            max_completion_length=16,
            temperature=0,
            concurrency=2,
            retries=9,
        )
        local = LocalPolicy(model, max_completion_length=16, temperature=0)

        def play(policy: Any) -> Any:
            seats: Any = dict.fromkeys(make("coop_coding-v0").possible_agents, policy)
            return evaluate_team("coop_coding-v0", seats, n_tasks=3)

        there, here = play(served), play(local)
    finally:
        running.kill()
        running.wait()
    assert [t.action for e in there.episodes for t in e.turns] == [
        t.action for e in here.episodes for t in e.turns
    ]
    assert there.cost.completion_tokens is not None
    assert there.cost.prompt_tokens == here.cost.prompt_tokens
    assert [t.response.cut for e in there.episodes for t in e.turns] == [
        t.response.cut for e in here.episodes for t in e.turns
    ]
