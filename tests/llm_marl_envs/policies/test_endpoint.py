"""The endpoint policy against a local server that answers as OpenAI's protocol says, and badly."""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.endpoint_server import SPELLED, Reply, Server, completion, serving
from support.serving import served
from support.toys import WordPair

from llm_marl_envs import make
from llm_marl_envs.cli import main
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import EndpointPolicy, json_server
from llm_marl_envs.policies.control_strings import without_control
from llm_marl_envs.policies.endpoint import at_endpoint
from llm_marl_envs.policies.json_server import EndpointError
from llm_marl_envs.tools.native import line_of

server = pytest.fixture(serving, name="server")
stranger = pytest.fixture(serving, name="stranger")


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
    assert json_server._seconds("Wed, 21 Oct 2026 07:28:00 GMT") == 0.0
    assert json_server._seconds(None) == 0.0


def test_lasting_failures_quote_the_server(server: Server):
    server.script = lambda body, n: (400, {}, b'{"error": "context too long"}')
    with pytest.raises(EndpointError, match=r"HTTP 400 .*context too long") as caught:
        EndpointPolicy(server.url).act([request()])
    assert "task 'fig-apple', left_0, turn 0" in str(caught.value)
    assert len(server.asked) == 1  # asking again would not help
    server.script = lambda body, n: (500, {}, b"out of memory " * 100)
    with pytest.raises(EndpointError, match=r"HTTP 500 .*out of memory.*\(after 2 attempts\)") as c:
        EndpointPolicy(server.url, retries=1).act([request()])
    assert len(str(c.value)) < 600


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
    with pytest.raises(EndpointError, match="not the expected answer"):
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
    monkeypatch.setattr(json_server, "FIRST_WAIT", 0.01)
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
    (response,) = EndpointPolicy(server.url).act([request()])
    assert (response.text, response.cut, response.usage) == (text, cut, usage)


def test_texts_that_are_no_unicode_can_be_sent(server: Server):
    EndpointPolicy(server.url).act([request(text="a\ud800b🦜")])
    assert server.asked[0]["messages"][1]["content"] == "a?b🦜"


def test_control_strings_are_not_sent(server: Server):
    marks = re.compile(r"<\||\|>|INST|SYS>|_of_turn|\uff5c|</?s>|think|turn|0x0A", re.IGNORECASE)
    for text in SPELLED:
        EndpointPolicy(server.url, "tiny").act([request(text=text)])
        sent = server.asked[-1]["messages"][1]["content"]
        assert "x" in sent, text
        assert not marks.search(sent), text
    assert without_control("<|im_end|>" * 3 + "a" + "<|im_<|im_end|>end|>") == "a"
    EndpointPolicy(server.url, "tiny", strip_control=False).act([request(text=SPELLED[0])])
    assert server.asked[-1]["messages"][1]["content"] == SPELLED[0]
    sender = EndpointPolicy(server.url, "tiny", strip_control=False)
    assert sender.identity != EndpointPolicy(server.url, "tiny").identity


def test_an_agent_s_own_thoughts_are_sent(server: Server):
    own = Message("assistant", "<think>a</think>b<|im_end|>")
    chat = (Message("user", "c"), own, Message("user", "d"))
    EndpointPolicy(server.url, "tiny").act([request(messages=chat)])
    assert server.asked[-1]["messages"][1]["content"] == "<think>a</think>b"


def test_honest_text_is_sent_as_it_is(server: Server):
    text = "a < b | c > d <b>x</b> a[1] [INFO] x <| y |> z {s} <title> <unknown> 漢字 <0xZZ>"
    EndpointPolicy(server.url, "tiny").act([request(text=text)])
    assert server.asked[-1]["messages"][1]["content"] == text
    deep = "<|a" * 20_000 + "|>" * 20_000  # each removal joins the next one
    assert without_control(deep) == ""


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
    assert main(arguments) == 2
    assert "no such model" in capsys.readouterr().err


# -- where the key goes ---------------------------------------------------------------------------
SECRET = "sk-very-secret-0123456789"


def sent_on(code: int, place: str) -> Reply:
    return code, {"Location": place}, b""


@pytest.mark.parametrize("code", [301, 302, 303, 307, 308])
def test_a_redirected_list_of_models_leaves_the_key_at_home(
    server: Server, stranger: Server, code: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    server.listed = sent_on(code, f"{stranger.url}/v1/models")
    stranger.models = ["theirs"]
    assert EndpointPolicy(server.url).model == "theirs"
    assert server.headers[0]["Authorization"] == f"Bearer {SECRET}"
    assert [SECRET in str(headers) for headers in stranger.headers] == [False]


@pytest.mark.parametrize("code", [307, 308])
def test_a_redirected_question_leaves_the_key_at_home(
    server: Server, stranger: Server, code: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    server.script = lambda body, n: sent_on(code, f"{stranger.url}/elsewhere")
    stranger.script = lambda body, n: completion(body["messages"][1]["content"])
    (answer,) = EndpointPolicy(server.url, "tiny").act([request()])
    assert answer.text == "Your word: fig"
    (headers,) = stranger.headers
    assert SECRET not in str(headers)
    assert set(headers) == {
        *("Host", "Content-Type", "Content-Length"),
        *("User-Agent", "Accept-Encoding", "Connection"),
    }


def test_another_name_of_the_same_machine_is_another_host(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    port = server.http.server_address[1]
    server.script = lambda body, n: (
        sent_on(307, f"http://localhost:{port}/x") if n == 0 else completion("hello")
    )
    assert EndpointPolicy(server.url, "tiny").act([request()])[0].text == "hello"
    assert server.keys == [f"Bearer {SECRET}", None]


def test_a_redirect_at_home_keeps_the_key_and_the_question(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    server.script = lambda body, n: (
        sent_on(308, "/v2/chat/completions") if n == 0 else completion("moved")
    )
    assert EndpointPolicy(server.url, "tiny").act([request()])[0].text == "moved"
    assert [asked["path"] for asked in server.asked] == [
        "/v1/chat/completions",
        "/v2/chat/completions",
    ]
    assert server.keys == [f"Bearer {SECRET}"] * 2


def test_the_key_does_not_come_back_on_the_way_home(
    server: Server, stranger: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    server.script = lambda body, n: (
        sent_on(307, f"{stranger.url}/x") if n == 0 else completion("home again")
    )
    stranger.script = lambda body, n: sent_on(307, f"{server.url}/anything?they=like")
    assert EndpointPolicy(server.url, "tiny").act([request()])[0].text == "home again"
    assert server.keys == [f"Bearer {SECRET}", None]


def test_other_schemes_and_ports_are_other_origins():
    home = "https://host.example/v1"
    assert json_server._origin(home) == json_server._origin("https://HOST.example:443/x")
    for other in ("http://host.example/v1", "https://host.example:8443", "https://x.host.example"):
        assert json_server._origin(home) != json_server._origin(other)


@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.1:9/x", "ftp://127.0.0.1/x", "file:///etc/passwd", "http://[", "http://h:x/"],
)
def test_what_cannot_be_followed_is_named(
    server: Server, place: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    server.script = lambda body, n: sent_on(302 if place.startswith("http://1") else 307, place)
    with pytest.raises(EndpointError, match=r"HTTP 30[27]|no answer") as caught:
        EndpointPolicy(server.url, "tiny").act([request()])
    assert len(server.asked) == 1  # asking again would not help
    assert SECRET not in str(caught.value)


def test_a_circle_of_redirects_ends(server: Server):
    server.script = lambda body, n: sent_on(307, "/v1/chat/completions")
    with pytest.raises(EndpointError, match="infinite loop"):
        EndpointPolicy(server.url, "tiny").act([request()])


def test_no_error_repeats_the_key(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLM_MARL_API_KEY", f" {SECRET}\n")  # as a file's line may give it
    policy = EndpointPolicy(server.url, "tiny", retries=0)
    replies: list[Reply] = [
        (401, {}, f"Incorrect API key provided: {SECRET}".encode()),
        (503, {}, ("x" * 490 + SECRET).encode()),
        (200, {}, json.dumps({"echo": SECRET}).encode()),
        (302, {"Location": f"http://127.0.0.1:9/?key={SECRET}"}, b""),
        (307, {"Location": f"http://127.0.0.1:9/{SECRET}"}, b""),
        (307, {"Location": f"http://[{SECRET}"}, b""),
        (200, {"Content-Length": f"9{SECRET}"}, b""),
    ]
    for reply in replies:
        server.script = lambda body, n, reply=reply: reply
        with pytest.raises(EndpointError) as caught:
            policy.act([request()])
        assert SECRET[:12] not in str(caught.value)
    assert server.keys[0] == f"Bearer {SECRET}"
    assert SECRET not in repr(policy) + str(vars(policy)) + policy.identity
    server.models = [SECRET, "b"]
    with pytest.raises(ValueError, match=r"\[key\]") as refused:
        EndpointPolicy(server.url)
    assert SECRET not in str(refused.value)


@pytest.mark.parametrize("key", ["two\nlines", "naïve-key", "a\x00b"])
def test_a_key_that_no_header_can_hold_is_refused_unseen(
    key: str, server: Server, monkeypatch: pytest.MonkeyPatch
):
    if "\x00" in key:  # no environment can hold it either
        monkeypatch.setattr(json_server.os, "environ", {json_server.KEY_VARIABLE: key})
    else:
        monkeypatch.setenv("LLM_MARL_API_KEY", key)
    with pytest.raises(ValueError, match="LLM_MARL_API_KEY: expected printable ASCII") as caught:
        EndpointPolicy(server.url, "tiny")
    assert key not in str(caught.value)
    assert not server.asked


@pytest.mark.parametrize(
    "url",
    [
        "http://user:hunter2@127.0.0.1:9",
        "user:hunter2@127.0.0.1:9",
        "http://127.0.0.1:9/v1?key=hunter2",
        "http://127.0.0.1:9/#hunter2",
    ],
)
def test_a_url_with_a_secret_is_refused_unseen(
    url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    with pytest.raises(ValueError, match="holds a user, a password, a query") as caught:
        EndpointPolicy(url)
    assert "hunter2" not in str(caught.value)
    if "#" not in url:  # on the command line the model stands there
        command = ["eval", "debate-v0", "--team", f"endpoint:{url}#tiny", "--template", "a=1"]
        assert main([*command, "--output", str(tmp_path / "out")]) == 2
        assert "hunter2" not in capsys.readouterr().err
        assert not (tmp_path / "out").exists()


def test_files_of_an_evaluation_do_not_hold_the_key(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    where = f"endpoint:{server.url}#tiny"
    command = ["eval", "debate-v0", "--team", where, "--tasks", "2", "--output", str(tmp_path)]
    assert main(command) == 0
    written = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"summary.json", "run_manifest.json"}
    assert not [path for path in written if SECRET.encode() in path.read_bytes()]


@pytest.mark.long
def test_a_real_server_plays_as_the_local_model_does(tmp_path: Any):
    """`transformers serve` on a CPU with the embedded model, greedy, beside `LocalPolicy`."""
    from llm_marl_envs import make
    from trainers import LocalPolicy
    from trainers.weights.tiny import TinySettings, tiny_model

    model = tiny_model(tmp_path / "tiny", settings=TinySettings(steps=30, demonstrations=500))
    how: Any = {"max_completion_length": 16, "temperature": 0}

    def play(policy: Any) -> Any:
        seats: Any = dict.fromkeys(make("coop_coding-v0").possible_agents, policy)
        return evaluate_team("coop_coding-v0", seats, n_tasks=3)

    with served(model) as url:
        remote = play(EndpointPolicy(url, model, concurrency=2, **how))
    local = play(LocalPolicy(model, **how))
    assert [t.action for e in remote.episodes for t in e.turns] == [
        t.action for e in local.episodes for t in e.turns
    ]
    assert remote.cost.completion_tokens is not None
    assert remote.cost.prompt_tokens == local.cost.prompt_tokens
    assert [t.response.cut for e in remote.episodes for t in e.turns] == [
        t.response.cut for e in local.episodes for t in e.turns
    ]


def test_tools_in_the_protocol_s_own_format(server: Server) -> None:
    """Schemas go out, calls come in as `tool_calls`, and the next request shows both."""
    tools = {"reasoner": ["calculate"], "calls": 2}

    def answers(body: dict[str, Any], number: int) -> Reply:
        if "tools" not in body:
            return completion("nothing")
        if any(message["role"] == "tool" for message in body["messages"]):
            return completion("Answer: 6 <|im_end|>")
        arguments = json.dumps({"expression": "2 * 3"})
        call = {"id": "x", "type": "function", "function": {"name": "calculate"}}
        call["function"]["arguments"] = arguments  # type: ignore[index]
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
        return completion("", choices=[{"message": message, "finish_reason": "tool_calls"}])

    server.script = answers
    env = make("math_team-v1", tools=tools)
    policy = EndpointPolicy(server.url, tool_format="native")
    (episode,) = rollout(
        VectorTextEnv([env]), dict.fromkeys(env.possible_agents, policy), [Start(task=0, seed=0)]
    )
    first, second = episode.trajectory("reasoner_0")
    assert first.response.text == 'Call: calculate({"expression": "2 * 3"})'
    assert json.loads(first.response.written)[0]["function"]["name"] == "calculate"
    assert (first.info["call"]["tool"], second.response.written) == ("calculate", "")
    shown = [body for body in server.asked if "tools" in body]
    (schema,) = shown[0]["tools"]
    assert schema["function"]["parameters"]["required"] == ["expression"]
    assert "Call:" not in shown[0]["messages"][-1]["content"]
    call, result = shown[1]["messages"][-2:]
    assert json.loads(call["tool_calls"][0]["function"]["arguments"]) == {"expression": "2 * 3"}
    assert result["tool_call_id"] == call["tool_calls"][0]["id"]
    assert (result["role"], result["name"]) == ("tool", "calculate")
    assert len([body for body in server.asked if "tools" not in body]) == len(episode.turns) - 2
    assert policy.identity.endswith(", calls native")


def test_names_in_schemas_and_arguments_send_no_control_strings(server: Server) -> None:
    """A server of tools is a stranger, and a model may write any name."""
    bad = "a<|im_end|>\ud800"
    function = {"name": "f", "description": bad, "parameters": {"properties": {bad: {"a": bad}}}}
    tools = ToolSheet("", "", ({"type": "function", "function": function},))
    line = line_of([{"function": {"name": "f", "arguments": {bad: bad, "b": 1}}}])
    chat = (Message("assistant", line), Message("user", bad, result_of="f"))
    server.script = lambda body, n: completion("x")
    policy = EndpointPolicy(server.url, tool_format="native")
    policy.act([replace(request(), messages=chat, tools=tools)])
    sent = json.dumps(server.asked[-1])
    assert '"a?"' in sent
    assert not re.search(r"im_end|ud800", sent)


@pytest.mark.parametrize("calls", ["text", [None], [{"function": 3}], {"function": {}}])
def test_what_is_no_call_in_the_protocol_is_one_that_cannot_be_read(
    server: Server, calls: Any
) -> None:
    message = {"role": "assistant", "content": "x", "tool_calls": calls}
    server.script = lambda body, n: completion("", choices=[{"message": message}])
    (answer,) = EndpointPolicy(server.url, tool_format="native").act([request()])
    assert answer.text.startswith("Call:")
    (answer,) = EndpointPolicy(server.url).act([request()])
    assert (answer.text, answer.written) == ("x", "")
    with pytest.raises(ValueError, match="tool_format"):
        EndpointPolicy(server.url, tool_format="json")  # type: ignore[arg-type]


# -- time -----------------------------------------------------------------------------------------
def dripping(first: bytes, drop: bytes) -> Iterator[bytes]:
    """The bytes, and then a drop every 20 ms, for much longer than anybody waits."""
    yield first
    for _ in range(200):
        time.sleep(0.02)
        yield drop


@pytest.mark.parametrize("status", [200, 404, 503])
@pytest.mark.parametrize(
    ("headers", "drop"),
    [({"Content-Length": "999999"}, b" "), ({"Transfer-Encoding": "chunked"}, b"1\r\n \r\n")],
    ids=["length", "chunked"],
)
def test_an_answer_that_drips_ends_with_the_attempt(
    server: Server, headers: dict[str, str], drop: bytes, status: int
):
    server.script = lambda body, n: (status, headers, dripping(b"", drop))
    begun = time.monotonic()
    with pytest.raises(EndpointError, match=r"no answer .*timed out after 0.2 s"):
        EndpointPolicy(server.url, "tiny", timeout=0.2, retries=0).act([request()])
    assert time.monotonic() - begun < 1.0
    deadline = time.monotonic() + 2.0
    while any(one.name == "exchange" for one in threading.enumerate()):  # none goes on listening
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("scheme", "first", "drop"),
    [
        ("http", b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n"),
        ("http", b"", b"H"),
        ("https", b"\x16\x03\x03\x40\x00", b"\x02"),  # a handshake of 16 kB, byte by byte
    ],
)
def test_headers_and_handshakes_that_drip_end_with_the_attempt(
    scheme: str, first: bytes, drop: bytes
):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def answer() -> None:
            line, _ = listening.accept()
            with line, suppress(OSError):
                for part in dripping(first, drop):
                    line.sendall(part)

        threading.Thread(target=answer, daemon=True).start()
        url = f"{scheme}://127.0.0.1:{listening.getsockname()[1]}"
        begun = time.monotonic()
        with pytest.raises(EndpointError, match=r"no answer .*timed out after 0.2 s"):
            EndpointPolicy(url, "tiny", timeout=0.2, retries=0).act([request()])
        assert time.monotonic() - begun < 1.0


def test_a_name_that_is_looked_up_for_long_ends_with_the_attempt(monkeypatch: pytest.MonkeyPatch):
    looked_up = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: looked_up.wait(5) and [])
    begun = time.monotonic()
    with pytest.raises(EndpointError, match="timed out"):
        EndpointPolicy("http://host.invalid", "tiny", timeout=0.2, retries=0).act([request()])
    assert time.monotonic() - begun < 1.0
    looked_up.set()


@pytest.mark.parametrize("status", [409, 425, 507, 520, 521, 522, 523, 524, 525, 529, 530, 598])
def test_what_passes_is_asked_again(server: Server, status: int):
    server.script = lambda body, n: (status, {}, b"{}") if n == 0 else completion("at last")
    assert EndpointPolicy(server.url, "tiny").act([request()])[0].text == "at last"


@pytest.mark.parametrize("status", [400, 401, 403, 404, 413, 422, 501, 505, 511, 526])
def test_what_lasts_is_not(server: Server, status: int):
    server.script = lambda body, n: (status, {}, b"{}") if n == 0 else completion("at last")
    with pytest.raises(EndpointError, match=f"HTTP {status}"):
        EndpointPolicy(server.url, "tiny").act([request()])
    assert len(server.asked) == 1


# -- fields ---------------------------------------------------------------------------------------
def test_a_field_is_left_out_or_has_another_name(server: Server):
    options = {"max_tokens": None, "max_completion_tokens": 64, "seed": None}
    policy = EndpointPolicy(server.url, "tiny", options=options)
    policy.act([request()])
    policy.stretched(2).act([request()])
    assert [
        {name: value for name, value in asked.items() if name not in ("path", "messages")}
        for asked in server.asked
    ] == [
        {"model": "tiny", "temperature": 1.0, "max_completion_tokens": length}
        for length in (64, 128)
    ]
    assert policy.identity != EndpointPolicy(server.url, "tiny").identity


def test_a_name_says_the_fields_of_its_requests(server: Server):
    fields = "max_tokens=null&max_completion_tokens=8&top_p=0.5&user=a b"
    arguments = ["--team", f"endpoint:{server.url}#tiny?{fields}", "--tasks", "1"]
    assert main(["eval", "debate-v0", *arguments]) == 0
    asked = server.asked[0]
    assert (asked["max_completion_tokens"], asked["top_p"], asked["user"]) == (8, 0.5, "a b")
    assert "max_tokens" not in asked
    assert at_endpoint("http://h") == ("http://h", None, {})
    assert at_endpoint("http://h#?seed=null") == ("http://h", None, {"seed": None})
    for wrong in ("a", "a=1&a=2", "=1", "a=[", "a=1&"):
        with pytest.raises(ValueError, match="endpoint field"):
            at_endpoint(f"http://h#m?{wrong}")


# -- what is believed -----------------------------------------------------------------------------
@pytest.mark.parametrize("count", [-1, True, 1.0, "7", None, 2**53, 10**299, [], {}])
def test_counts_that_cannot_be_are_none(server: Server, count: Any):
    for usage in ({"prompt_tokens": count, "completion_tokens": 3}, {"prompt_tokens": 7}, count):
        server.script = lambda body, n, usage=usage: completion("x", usage=usage)
        assert EndpointPolicy(server.url, "tiny").act([request()])[0].usage is None
    most = {"prompt_tokens": 0, "completion_tokens": 2**53 - 1}
    server.script = lambda body, n: completion("x", usage=most)
    assert EndpointPolicy(server.url, "tiny").act([request()])[0].usage == (0, 2**53 - 1)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 3.0, -9999.0, None, True, "-0.1"])
def test_log_probs_that_cannot_be_are_refused(server: Server, value: Any):
    def scored(value: Any, ids: Any = (4,)) -> Reply:
        choice = {
            "message": {"content": "x"},
            "token_ids": ids,
            "logprobs": {"content": [{"logprob": value}]},
        }
        return completion("x", choices=[choice], prompt_token_ids=[1, 2])

    policy = EndpointPolicy(server.url, "tiny", token_ids=True)
    server.script = lambda body, n: scored(value)
    with pytest.raises(EndpointError, match="log-prob"):
        policy.act([request()])
    server.script = lambda body, n: scored(1e-7)
    (answer,) = policy.act([request()])
    assert (answer.completion_ids, answer.logprobs) == ((4,), (0.0,))
    server.script = lambda body, n: scored(-0.5, ids=[value if value != 3.0 else -3])
    with pytest.raises(EndpointError, match="token id"):
        policy.act([request()])


@pytest.mark.parametrize(
    ("message", "text"),
    [
        ({"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}, "ab"),
        ({"content": [{"type": "thinking", "thinking": []}, {"type": "text", "text": "b"}]}, "b"),
        ({"content": []}, ""),
        ({"content": None, "reasoning_content": "Let me see"}, ""),
        ({"reasoning_content": "Let me see"}, ""),  # as servers write that leave out what is null
        ({"refusal": "No."}, ""),
    ],
)
def test_content_has_several_forms(server: Server, message: dict[str, Any], text: str):
    choice = {"message": message, "finish_reason": "length"}
    server.script = lambda body, n: completion("", choices=[choice])
    (answer,) = EndpointPolicy(server.url, "tiny").act([request()])
    assert (answer.text, answer.cut) == (text, True)


@pytest.mark.parametrize("content", [["a"], [{"text": "a"}], [{"type": "text", "text": 1}], 5, {}])
def test_content_of_no_form_is_an_error(server: Server, content: Any):
    server.script = lambda body, n: completion(content)
    with pytest.raises(EndpointError, match="not the expected answer"):
        EndpointPolicy(server.url, "tiny", retries=0).act([request()])


def test_a_team_that_a_parser_of_reasoning_silences_is_seen(
    server: Server, capsys: pytest.CaptureFixture[str]
):
    server.script = lambda body, n: completion(None if n % 2 else "Answer: 1", reasoning="...")
    team = f"endpoint:{server.url}#tiny"
    assert main(["eval", "debate-v0", "--team", team, "--tasks", "2"]) == 0
    assert re.search(r"empty actions +0\.50", capsys.readouterr().out)


def test_errors_are_short_and_hold_no_half_of_a_key(
    server: Server, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("LLM_MARL_API_KEY", SECRET)
    policy = EndpointPolicy(server.url, "tiny", retries=0)
    long = b"x" * 320_000
    for reply in (
        (200, {}, long + b"\xff"),
        (200, {}, b"[" * 100_000),
        (200, {}, b'{"choices": ' + b"9" * 5000 + b"}"),
        (404, {}, long),
        (404, {}, SECRET.encode() * 1000),
        (404, {}, json.dumps({"key": SECRET}).encode() * 1000),
        (307, {"Location": "http://h/" + SECRET * 100}, b""),
        (200, {}, json.dumps({"choices": {SECRET * 50: 1}}).encode()),
    ):
        server.script = lambda body, n, reply=reply: reply
        with pytest.raises(EndpointError) as caught:
            policy.act([request()])
        message = str(caught.value)
        assert len(message) < 900
        assert "\n" not in message
        assert SECRET[:8] not in message
