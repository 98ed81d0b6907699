"""An episode over endpoints, for libraries that offer a server and leave the loop to the harness.

    episode = await play_episode(
        "debate-v0",
        "test/3",
        seats={"debater_0": Endpoint(base_url, "policy"), "debater_1": "expert", ...},
    )
    episode.trajectory("debater_0")

Seats that act at once are asked at once. Each request has its own time-out and retries. The record
is an `Episode`, as everywhere in this library: rewards, their terms, and per turn what was sent and
said, with token ids and log-probs where the option `token_ids` of an endpoint asks for them.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from typing import Any

from llm_marl_envs.core.records import Episode, Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.play.registry import make
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Policy, answers, by_policy, check_team
from llm_marl_envs.policies.endpoint import SEED_BITS, EndpointPolicy
from llm_marl_envs.policies.json_server import EndpointError
from llm_marl_envs.policies.named import Context, seated


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A model behind an OpenAI-compatible server; `EndpointPolicy` documents the fields.

    Attributes:
        base_url: with or without `/v1`.
        model: its name there; the only one that the server lists, where None.
        options: further fields of `EndpointPolicy`, e.g. {"temperature": 0.7, "timeout": 60.0};
            not shown by `repr`, for `key` may be among them.
    """

    base_url: str
    model: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def policy(self) -> EndpointPolicy:
        """The policy that asks it."""
        return EndpointPolicy(self.base_url, self.model, **self.options)


class _AtOnce:
    """Asks the policies of all seats that are to act at the same time, each policy once.

    Args:
        team: agent -> policy.
    """

    def __init__(self, team: Mapping[str, Policy]) -> None:
        self.team = team

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request."""
        policies = by_policy(self.team, requests)
        with ThreadPoolExecutor(len(policies), "seat") as pool:
            asked = [
                (places, pool.submit(answers, policy, [requests[place] for place in places]))
                for policy, places in policies
            ]
            responses = {
                place: response
                for places, future in asked
                for place, response in zip(places, future.result(), strict=True)
            }
        return [responses[place] for place in range(len(requests))]


class Awaited:
    """A policy that awaits a function in the event loop where it was made; for one episode.

        asked = Awaited(ask)  # async def ask(request: Request) -> Response
        with asked:
            episode = await play_episode(env, task, seats=dict.fromkeys(agents, asked))

    Requests of one turn are awaited together. Left, it answers nothing more: an episode that nobody
    waits for any longer ends at its next turn.
    """

    def __init__(self, ask: Callable[[Request], Awaitable[Response]]) -> None:
        self.ask = ask
        self.loop = asyncio.get_running_loop()
        # What libraries keep per task, e.g. whose log a model call goes to.
        self.context = copy_context()
        self.over = False

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request.

        Raises:
            RuntimeError: the episode is over for those who waited for it.
            Exception: what the function raises.
        """
        if self.over:
            raise RuntimeError("nobody waits for this episode any longer")

        async def answered() -> list[Response]:
            return list(await asyncio.gather(*map(self.ask, requests)))

        start = asyncio.run_coroutine_threadsafe
        return self.context.run(start, answered(), self.loop).result()

    def __enter__(self) -> Awaited:
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True


def _policy(agent: str, player: Endpoint | Policy | str, task: Any) -> Policy | str:
    """Who plays a seat; a server that does not answer is named with the seat."""
    if not isinstance(player, Endpoint):
        return player
    try:
        return player.policy()
    except EndpointError as error:
        raise EndpointError(f"task {task!r}, {agent}: {error}") from error


async def play_episode(
    env: Any,
    task: int | str | Task | None = None,
    *,
    seats: Mapping[str, Endpoint | Policy | str],
    seed: int = 0,
    sample_seed: int | None = None,
    env_kwargs: Mapping[str, Any] | None = None,
) -> Episode:
    """Play one episode in a worker thread; many can run at once.

    Args:
        env: an id or a text environment, which no other episode may use meanwhile; what is made of
            an id is closed at the end.
        task: index, id or `Task`; drawn from the seed where None.
        seats: agent -> who plays it, for every agent: a server, a policy, or a policy's name.
        seed: the reset seed.
        sample_seed: what requests' seeds follow from; drawn where None, for servers answer equal
            seeds equally, and the episodes of a group must differ.
        env_kwargs: arguments of `make` where `env` is an id.

    Raises:
        ValueError: no such environment or task, or seats that nobody plays.
        EndpointError: a server failed for good; the message names task, seat and turn.
        Exception: what the environment raises.
    """
    made = make(env, **(env_kwargs or {})) if isinstance(env, str) else env
    players = {agent: _policy(agent, player, task) for agent, player in seats.items()}
    team = seated(players, Context(env=made))
    check_team(team, made.possible_agents)
    everybody = dict.fromkeys(made.possible_agents, _AtOnce(team))
    drawn = secrets.randbits(SEED_BITS) if sample_seed is None else sample_seed
    start = Start(task=task, seed=seed, sample_seed=drawn)

    def play() -> Episode:
        try:
            return rollout(VectorTextEnv([made]), everybody, [start])[0]
        finally:
            if made is not env:
                made.close()

    return await asyncio.to_thread(play)
