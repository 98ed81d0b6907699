"""Episodes over endpoints: who is asked when, what comes back, and what bad servers get."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import pytest
from support.endpoint_server import Server, completion, serving
from support.toys import Relay, SameCase, WordPair

from llm_marl_envs import make
from llm_marl_envs.bridges.harness import Awaited, Endpoint, play_episode
from llm_marl_envs.core.records import Episode, Request, Response, episode_to_dict
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.json_server import EndpointError
from llm_marl_envs.wrappers import Choose
from llm_marl_envs.wrappers.partners import divided

server = pytest.fixture(serving, name="server")
QUICK: dict[str, Any] = {"timeout": 5.0, "retries": 0}


def played(*args: Any, **kwargs: Any) -> Episode:
    return asyncio.run(play_episode(*args, **kwargs))


def own_word(body: dict[str, Any], number: int) -> Any:
    prompt = next(m["content"] for m in body["messages"] if m["role"] == "user")
    return completion(prompt.removeprefix("Your word: "))


def test_seats_that_act_at_once_are_asked_at_once(server: Server):
    together = threading.Barrier(2, timeout=10)  # broken where one seat waits for the other

    def script(body: dict[str, Any], number: int) -> Any:
        together.wait()
        return own_word(body, number)

    server.script = script
    seats: Any = dict.fromkeys(("left_0", "right_0"), Endpoint(server.url, "tiny"))
    episode = played(WordPair(), "fig-apple", seats=seats, seed=3)
    assert [turn.action for turn in episode.turns] == ["fig", "apple"]
    assert (episode.team_return, episode.success, episode.seed) == (1.0, True, 3)
    assert episode.trajectory("right_0")[0].reward_terms == {"words": 1.0}


def test_a_policy_in_several_seats_is_asked_once():
    calls: list[list[str]] = []

    class Noted:
        def act(self, requests: Sequence[Request]) -> list[Response]:
            calls.append([request.agent for request in requests])
            return [Response(text=request.agent) for request in requests]

    episode = played(WordPair(turns=1), seats=dict.fromkeys(("left_0", "right_0"), Noted()))
    assert calls == [["left_0", "right_0"]]
    assert [turn.action for turn in episode.turns] == ["left_0", "right_0"]


def test_what_is_made_of_an_id_is_closed(monkeypatch: pytest.MonkeyPatch):
    closed: list[Any] = []
    monkeypatch.setattr(WordPair, "close", lambda env: closed.append(env))
    seats: Any = dict.fromkeys(("left_0", "right_0"), "expert")
    played("support.toys:WordPair", seats=seats)
    assert len(closed) == 1
    played(WordPair(), seats=seats)
    assert len(closed) == 1


def test_servers_policies_and_names_play_together(server: Server):
    server.script = lambda body, n: completion("from the server")
    seats = {
        "runner_0": "expert",
        "runner_1": Endpoint(server.url + "/v1", options={"temperature": 0.0}),
        "runner_2": "expert",
    }
    episode = played(Relay(), "cedar-fig", seats=seats)
    assert [t.action for t in episode.turns] == ["cedar", "from the server", "cedar"]
    assert [body["temperature"] for body in server.asked] == [0.0]
    assert "You hear: cedar" in server.asked[0]["messages"][-1]["content"]


def test_many_episodes_run_at_once(server: Server):
    server.script = own_word
    seats: Any = dict.fromkeys(("left_0", "right_0"), Endpoint(server.url, "tiny"))

    async def all_of_them() -> list[Episode]:
        return await asyncio.gather(
            *(play_episode(WordPair(), index, seats=seats) for index in range(8))
        )

    episodes = asyncio.run(all_of_them())
    assert [episode.task_id for episode in episodes] == [WordPair().source[i].id for i in range(8)]
    assert all(episode.success for episode in episodes)


def test_episodes_of_a_group_are_sampled_anew(server: Server):
    """A server that answers equal seeds equally would make all episodes of a group one."""
    server.script = own_word

    def seeds(**how: Any) -> list[int]:
        server.asked.clear()
        seats: Any = {"left_0": Endpoint(server.url, "tiny"), "right_0": "expert"}
        played(WordPair(), "fig-apple", seats=seats, **how)
        return [body["seed"] for body in server.asked]

    assert seeds() != seeds()
    assert seeds(sample_seed=3) == seeds(sample_seed=3) != seeds(sample_seed=4)


def test_an_id_and_its_arguments():
    env = make("coop_writing_tldr-v0", split="test")
    seats = dict.fromkeys(env.possible_agents, "expert:first")
    arguments = {"split": "test"}
    episode = played("coop_writing_tldr-v0", "test/1", seats=seats, env_kwargs=arguments)
    assert (episode.task_id, episode.env_kwargs, episode.team_return) == ("test/1", arguments, 1.0)


def scored(**changes: Any) -> Any:
    choice = {
        "message": {"content": "fig"},
        "finish_reason": "stop",
        "token_ids": [5, 2],
        "logprobs": {"content": [{"logprob": -0.5}, {"logprob": -0.25}]},
        **changes,
    }
    return completion("", choices=[choice], prompt_token_ids=[1, 3, 4])


def test_token_ids_and_log_probs(server: Server):
    server.script = lambda body, n: scored()
    asking = Endpoint(server.url, "tiny", {"token_ids": True, **QUICK})
    episode = played(WordPair(), "fig-apple", seats={"left_0": asking, "right_0": "expert"})
    response = episode.trajectory("left_0")[0].response
    assert (response.prompt_ids, response.completion_ids) == ((1, 3, 4), (5, 2))
    assert (response.logprobs, response.tokens) == ((-0.5, -0.25), (7, 3))
    assert (server.asked[0]["return_token_ids"], server.asked[0]["logprobs"]) == (True, True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"token_ids": None}, "sent no token ids"),
        ({"logprobs": None}, "sent no token ids and log-probs"),
        ({"token_ids": [5]}, "1 token ids and 2 log-probs"),
    ],
)
def test_a_server_without_token_ids(server: Server, changes: dict[str, Any], message: str):
    server.script = lambda body, n: scored(**changes)
    asking = Endpoint(server.url, "tiny", {"token_ids": True})
    with pytest.raises(EndpointError, match=rf"task 'fig-apple', left_0, turn 0: .*{message}"):
        played(WordPair(), "fig-apple", seats={"left_0": asking, "right_0": "expert"})
    assert len(server.asked) == 1  # asking again would not help


def test_a_server_that_is_down(server: Server):
    server.script = lambda body, n: (500, {}, json.dumps({"error": "out of memory"}).encode())
    seats = {"left_0": Endpoint(server.url, "tiny", QUICK), "right_0": "expert"}
    with pytest.raises(EndpointError, match=r"task 'fig-apple', left_0.*HTTP 500.*out of memory"):
        played(WordPair(), "fig-apple", seats=seats)


@pytest.mark.parametrize("model", ["tiny", None], ids=["named", "to be asked for"])
def test_nobody_answers_there(model: str | None):
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    seats = {"left_0": "expert", "right_0": Endpoint(url, model, QUICK)}
    with pytest.raises(EndpointError, match=r"task 'fig-apple', right_0.*no answer.*refused"):
        played(WordPair(), "fig-apple", seats=seats)


def test_a_server_without_the_prefix_and_the_ids_of_its_answers(server: Server):
    server.script = lambda body, n: completion("wrong", id=f"answer-{n}")
    left = Endpoint(f"{server.url}/", "default", {"prefix": ""})
    episode = played(WordPair(turns=2), "fig-apple", seats={"left_0": left, "right_0": "expert"})
    assert [body["path"] for body in server.asked] == ["/chat/completions"] * 2
    responses = [turn.response for turn in episode.trajectory("left_0")]
    assert [response.id for response in responses] == ["answer-0", "answer-1"]
    assert responses[0] == responses[1]  # servers draw ids
    assert "answer-0" not in json.dumps(episode_to_dict(episode, tokens=True))


def test_each_endpoint_has_its_own_key(server: Server, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LLM_MARL_API_KEY", "of the environment")
    server.script = own_word
    seats = {
        "left_0": Endpoint(server.url, "tiny", {"key": "of-the-left"}),
        "right_0": Endpoint(server.url, "tiny"),
    }
    played(WordPair(), "fig-apple", seats=seats)
    assert sorted(map(str, server.keys)) == ["Bearer of the environment", "Bearer of-the-left"]
    assert "of-the-left" not in repr(seats)
    server.script = lambda body, n: (500, {}, b"you sent of-the-left")
    seats["left_0"] = Endpoint(server.url, "tiny", {"key": "of-the-left", **QUICK})
    with pytest.raises(EndpointError, match=r"you sent \[key\]"):
        played(WordPair(), "fig-apple", seats={**seats, "right_0": "expert"})
    with pytest.raises(ValueError, match=r"^key: expected printable ASCII"):
        Endpoint(server.url, "tiny", {"key": "caf\u00e9"}).policy()


def test_seats_that_nobody_plays():
    with pytest.raises(ValueError, match=r"missing \['right_0'\]"):
        played(WordPair(), seats={"left_0": "expert"})
    with pytest.raises(ValueError, match=r"unknown \['nobody_0'\]"):
        played(WordPair(), seats=dict.fromkeys(("left_0", "right_0", "nobody_0"), "expert"))
    with pytest.raises(TypeError, match=r"only text environments can be rolled out"):
        played(Choose(SameCase()), seats=dict.fromkeys(("left_0", "right_0"), "expert"))


def test_an_awaited_function_plays_seats_beside_partners():
    library: ContextVar[str] = ContextVar("library", default="none")
    asked: list[tuple[str, str, int]] = []

    async def run() -> Episode:
        library.set("this run's")
        both = asyncio.Event()

        async def ask(request: Request) -> Response:
            asked.append((request.agent, library.get(), threading.get_ident()))
            if len(asked) == 2:
                both.set()
            await asyncio.wait_for(both.wait(), 10)  # seats of one turn are asked together
            return Response(text=request.messages[-1].content.removeprefix("Your word: "))

        with Awaited(ask) as seat:
            seats: Any = dict.fromkeys(("left_0", "right_0"), seat)
            episode = await play_episode(WordPair(), "fig-apple", seats=seats)
            relay = {"runner_0": seat, "runner_1": "expert", "runner_2": "expert"}
            await play_episode(Relay(), "cedar-fig", seats=relay)
        return episode

    assert asyncio.run(run()).team_return == 1.0
    assert [agent for agent, _, _ in asked] == ["left_0", "right_0", "runner_0"]
    # In the loop's own thread, with what the library keeps for this task.
    assert {(run, thread) for _, run, thread in asked} == {("this run's", threading.get_ident())}


def test_what_an_awaited_function_raises_comes_through():
    async def ask(request: Request) -> Response:
        raise OSError(f"{request.agent} is down")

    async def run() -> None:
        with Awaited(ask) as seat:
            await play_episode(WordPair(), seats={"left_0": seat, "right_0": "expert"})

    with pytest.raises(OSError, match="left_0 is down"):
        asyncio.run(run())


def test_an_episode_that_nobody_waits_for_asks_no_more():
    asked: list[int] = []
    release = threading.Event()

    async def ask(request: Request) -> Response:
        asked.append(request.turn)
        return Response(text="wrong")

    class Slow:
        """Holds the episode until its caller has left."""

        def act(self, requests: Sequence[Request]) -> list[Response]:
            assert release.wait(10)
            return [Response(text="wrong") for _ in requests]

    async def run() -> None:
        with Awaited(ask) as seat:
            seats: Any = {"left_0": seat, "right_0": Slow()}
            waiting = asyncio.create_task(play_episode(WordPair(turns=2), seats=seats))
            while not asked:
                await asyncio.sleep(0.01)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
        release.set()
        await asyncio.sleep(0.2)

    asyncio.run(run())
    assert asked == [0]


def test_seats_are_divided_between_a_library_and_partners():
    left, partners = divided(Relay(), {"runner_1": "expert"})
    assert left == ["runner_0", "runner_2"]
    assert isinstance(partners["runner_1"], ExpertPolicy)
    assert divided(Relay(), None) == (list(Relay().possible_agents), {})
    with pytest.raises(ValueError, match=r"got \['runner_9'\]; expected some of \['runner_0'"):
        divided(Relay(), {"runner_9": "expert"})
    with pytest.raises(ValueError, match="at least one seat left"):
        divided(Relay(), dict.fromkeys(Relay().possible_agents, "expert"))
    nobody: Any = object()
    with pytest.raises(TypeError, match="policy of runner_1: expected an object with act"):
        divided(Relay(), {"runner_1": nobody})
