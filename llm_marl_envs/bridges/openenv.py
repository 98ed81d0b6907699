"""To and from OpenEnv: an environment as a server, and a server as an environment.

    served = app("debate-v0", split="test")  # then: uvicorn module:served
    env = RemoteTeam("http://localhost:8000")  # all seats of such a server
    env = OpenEnvSeat(server="http://localhost:8001")  # one seat, of any server that takes text

A server takes a joint action: one text for each seat that is to act, which in a turn-based
environment is one. It answers with the chats, rewards and infos of all seats, and who acts next.
Sessions go over its WebSocket, each with an environment of its own. Needs the extra `openenv`.
"""

# pyright: reportMissingImports=false

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar

from pettingzoo import AECEnv

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.environment import TextAECEnv, TextEnv, TextParallelEnv, described
from llm_marl_envs.core.extras import Extra
from llm_marl_envs.core.forms import acting, as_played, messages_of
from llm_marl_envs.core.outcome import Outcome, added
from llm_marl_envs.core.records import plain
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.core.tasks import (
    FIRST_SEEDS,
    IndexedSource,
    ListSource,
    NumberedSource,
    SeedSource,
    Task,
    TaskSource,
)
from llm_marl_envs.play.registry import make
from llm_marl_envs.policies.json_server import valid

with Extra("openenv", "OpenEnv's bridge"):
    from openenv.core.env_client import EnvClient
    from openenv.core.env_server.http_server import create_fastapi_app
    from openenv.core.env_server.interfaces import Environment
    from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
    from openenv.core.generic_client import GenericEnvClient
    from pydantic import WithJsonSchema
    from websockets.exceptions import ConnectionClosed

SEAT = "player_0"
"""The seat of `OpenEnvSeat`."""
OWN_FACTS = ("task_id", "turn", "action_truncated", "reward_terms", "success")
"""What an environment says itself in every info."""
REFUSED = ("(code: EXECUTION_ERROR)", "(code: VALIDATION_ERROR)")
"""How a client says that a server raised over an action, or that it has no such action."""
Text = Annotated[Any, WithJsonSchema({"type": "string"})]
"""A text, and the environment checks it: OpenEnv's own error would not say which seat is wrong."""
Server = str | Callable[[], Any]
"""An address, or a function that makes an OpenEnv client, of either kind."""


# -- an environment as a server --------------------------------------------------------------------
class JointAction(Action):
    """What the seats that are to act say.

    Attributes:
        actions: agent -> text, for each agent of `JointObservation.acting` and no other.
    """

    actions: dict[str, Text]


class JointObservation(Observation):
    """What a reset or a step leads to. `reward` is the mean over all seats; None after a reset.

    Attributes:
        acting: who must be in the next joint action; nobody after the end.
        agents: who is still playing.
        chats: agent -> all that it may see, {"role": ..., "content": ...} each, oldest first.
        rewards: agent -> what this step paid it.
        terminations: agent -> whether the task ended its episode.
        truncations: agent -> whether a limit cut it.
        infos: agent -> `reward_terms`, `success` and what else the environment says.
        task_pay: agent -> name -> what of `reward_terms` the task paid; None where nobody can tell.
    """

    acting: list[str]
    agents: list[str]
    chats: dict[str, list[dict[str, str]]]
    rewards: dict[str, float]
    terminations: dict[str, bool]
    truncations: dict[str, bool]
    infos: dict[str, dict[str, Any]]
    task_pay: dict[str, dict[str, float]] | None = None


class TeamState(State):
    """Where a session stands, and what it plays.

    Attributes:
        env_id: the environment's id.
        seats: all agents.
        turn_based: whether one agent acts at a time.
        facts: what `RemoteTeam` must know of an environment of this library; None of others.
    """

    env_id: str
    seats: list[str]
    turn_based: bool
    facts: dict[str, Any] | None


class TeamServer(Environment[JointAction, JointObservation, TeamState]):
    """One session's environment; `app` makes them.

    Args:
        env_id: as `make`.
        kwargs: arguments of `make`.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env_id: str, kwargs: Mapping[str, Any]) -> None:
        super().__init__()
        self.env: Any = as_played(make(env_id, **kwargs))
        self.turn_based = isinstance(self.env, AECEnv)
        self.episode_id: str | None = None
        self.steps = 0

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        task: int | str | None = None,
        **unknown: Any,
    ) -> JointObservation:
        """Begin an episode.

        Args:
            seed: the reset seed.
            episode_id: what `state` calls the episode.
            task: index or id; drawn from the seed where None.
            unknown: anything else is refused.

        Raises:
            ValueError: no such task, or another argument.
        """
        if unknown:
            raise ValueError(f"reset: got {sorted(unknown)}; expected seed, episode_id or task")
        options = None if task is None else {"task": task}
        first = self.env.reset(seed=seed, options=options)
        self.episode_id, self.steps = episode_id, 0
        seen, infos = (self._observed(), self.env.infos) if self.turn_based else first
        return self._observation(seen, infos=infos)

    def step(
        self, action: JointAction, timeout_s: float | None = None, **_: Any
    ) -> JointObservation:
        """Those who are to act do.

        Raises:
            RuntimeError: no episode is running.
            ValueError: a seat is missing, unknown or not to act; the message names it.
            TypeError: a seat says no text; the message names it.
        """
        expected = acting(self.env)
        if not expected:
            raise RuntimeError(f"{env_name(self.env)}: no episode is running; send a reset")
        missing = [agent for agent in expected if agent not in action.actions]
        wrong = [agent for agent in action.actions if agent not in expected]
        if missing or wrong:
            raise ValueError(
                f"joint action: missing {missing}, not to act {wrong}; expected a text for each "
                f"of {expected} and no other"
            )
        texts = {a: valid(t) if isinstance(t, str) else t for a, t in action.actions.items()}
        self.steps += 1
        if not self.turn_based:
            seen, paid, ended, cut, infos = self.env.step(texts)
            return self._observation(seen, paid, ended, cut, infos)
        env = self.env
        env.step(texts[expected[0]])
        ends = dict(env.terminations), dict(env.truncations)
        return self._observation(self._observed(), dict(env.rewards), *ends, dict(env.infos))

    def _observed(self) -> dict[str, str]:
        return {agent: self.env.observe(agent) for agent in self.env.agents}

    def _observation(
        self,
        seen: Mapping[str, str],
        paid: Mapping[str, float] | None = None,
        ended: Mapping[str, bool] | None = None,
        cut: Mapping[str, bool] | None = None,
        infos: Mapping[str, Any] | None = None,
    ) -> JointObservation:
        chats = {
            agent: [{"role": m.role, "content": m.content} for m in messages_of(observation)]
            for agent, observation in seen.items()
        }
        rewards = {agent: float(reward) for agent, reward in (paid or {}).items()}
        inner = self.env.unwrapped
        return JointObservation(
            acting=acting(self.env),
            agents=list(self.env.agents),
            chats=chats,
            rewards=rewards,
            terminations=dict(ended or {}),
            truncations=dict(cut or {}),
            infos=plain(infos or {}),
            task_pay=plain(inner.task_pay()) if isinstance(inner, TextEnv) else None,
            reward=None if paid is None else sum(rewards.values()) / len(self.env.possible_agents),
            done=not self.env.agents,
        )

    @property
    def state(self) -> TeamState:
        """Where the episode stands, and what is played."""
        inner = self.env.unwrapped
        return TeamState(
            episode_id=self.episode_id,
            step_count=self.steps,
            env_id=env_name(self.env),
            seats=list(self.env.possible_agents),
            turn_based=self.turn_based,
            facts=_facts(inner) if isinstance(inner, TextEnv) else None,
        )

    def get_metadata(self) -> EnvironmentMetadata:
        """The environment's id and summary."""
        spec = getattr(self.env, "spec", None)
        summary = spec.summary if spec else ""
        return EnvironmentMetadata(name=env_name(self.env), description=summary)

    def close(self) -> None:
        """Close the environment."""
        self.env.close()


def app(env_id: str, *, sessions: int = 64, **kwargs: Any) -> Any:
    """A FastAPI application that serves an environment.

    Args:
        env_id: as `make`.
        sessions: most sessions at once.
        kwargs: arguments of `make`.

    Raises:
        ValueError, TypeError, ImportError: as `make`, at once.
    """
    make(env_id, **kwargs).close()
    served = partial(TeamServer, env_id, kwargs)
    return create_fastapi_app(served, JointAction, JointObservation, max_concurrent_envs=sessions)


def _facts(env: TextEnv) -> dict[str, Any]:
    """What makes the same environment at the other end."""
    ids = None if isinstance(env.source, IndexedSource) else [task.id for task in env.source]
    return {
        "turns": env.max_turns,
        "max_action_chars": env.max_action_chars,
        "reward_range": list(env.reward_range),
        "task_range": None if env.task_range is None else list(env.task_range),
        "append_only": env.append_only,
        "beside": bool(env.beside),
        "split": env.source.split,
        "tasks": len(env.source),
        "task_ids": ids,
    }


# -- a server as an environment --------------------------------------------------------------------
class Session:
    """A connection that is made when it is first needed; a copy makes its own.

    After an error that is no answer of the server, the next reset connects anew.

    Args:
        server: see `Server`.
        timeout: seconds that an answer to a message may take.
    """

    def __init__(self, server: Server, timeout: float) -> None:
        self.server = server
        self.connect = (
            partial(GenericEnvClient, server, message_timeout_s=timeout)
            if isinstance(server, str)
            else server
        )
        self.client: Any = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "client": None}

    def ask(self, what: str, *arguments: Any, **named: Any) -> Any:
        """The client's answer to `reset`, `step` or `state`.

        Raises:
            RuntimeError: the server refuses; the client's message quotes it.
            OSError: it cannot be reached.
        """
        if self.client is None:
            made = self.connect()
            self.client = made.sync() if isinstance(made, EnvClient) else made
        try:
            return getattr(self.client, what)(*arguments, **named)
        except Exception as error:
            if not str(error).endswith(REFUSED):
                self.close()
            if not isinstance(error, ConnectionClosed):
                raise
            raise ConnectionError(
                f"{self.server}: it closed the connection ({error}); it went down, or it has no "
                "room for another session: serve with more sessions="
            ) from error

    def close(self) -> None:
        """Leave the server."""
        client, self.client = self.client, None
        if client is not None:
            client.close()


class _Remote(TextEnv):
    """What both forms of a remote team share; `RemoteTeam` makes them."""

    metadata: ClassVar[dict[str, Any]] = described("openenv_team")
    blocking = True

    def __init__(self, session: Session, state: Any, render_mode: str | None) -> None:
        facts = state["facts"]
        self.session = session
        self.reward_range = tuple(facts["reward_range"])
        narrower = facts.get("task_range")  # older servers do not say
        self.task_range = None if narrower is None else tuple(narrower)
        self._seed: int | None = None
        self._acting: list[str] = []
        self._heard: dict[str, int] = {}
        super().__init__(
            agents=state["seats"],
            source=_tasks(facts),
            max_turns=facts["turns"],
            max_action_chars=facts["max_action_chars"],
            render_mode=render_mode,
        )

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Any:
        """As any environment's; the server gets the seed and the task."""
        self._seed = seed
        return super().reset(seed=seed, options=options)  # pyright: ignore[reportAttributeAccessIssue]

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What the server tells each seat."""
        seed = self.rng.getrandbits(32) if self._seed is None else self._seed
        observation = self.session.ask("reset", seed=seed, task=task.id).observation
        self._acting = observation["acting"]
        self._heard = {agent: len(chat) for agent, chat in observation["chats"].items()}
        return {
            agent: [Message(message["role"], message["content"]) for message in chat]
            for agent, chat in observation["chats"].items()
        }

    def _play(self, actions: Mapping[str, str]) -> Outcome:
        sent = {agent: valid(text) for agent, text in actions.items()}
        result = self.session.ask("step", {"actions": sent})
        observation = result.observation
        self._acting = observation["acting"] or self._acting
        infos = observation["infos"]
        successes = (info.get("success") for info in infos.values())
        paid = observation["rewards"]
        terms = {a: infos[a].get("reward_terms", {"reward": paid[a]}) for a in paid}
        of_task = observation.get("task_pay")  # older servers do not say
        own = terms if of_task is None else {a: of_task.get(a, {}) for a in paid}
        return Outcome(
            reward_terms=own,
            added_terms={a: added(paid[a], terms[a], own[a]) for a in paid},
            feedback=self._news(observation["chats"]),
            ended=result.done,
            success=next((success for success in successes if success is not None), None),
            facts={
                agent: {name: value for name, value in info.items() if name not in OWN_FACTS}
                for agent, info in infos.items()
            },
        )

    def _news(self, chats: Mapping[str, Sequence[Mapping[str, str]]]) -> dict[str, str]:
        """What seats were told since they were last heard of, but for their own words."""
        news = {}
        for agent, chat in chats.items():
            new = [m["content"] for m in chat[self._heard[agent] :] if m["role"] != "assistant"]
            self._heard[agent] = len(chat)
            if new:
                news[agent] = "\n\n".join(new)
        return news

    def close(self) -> None:
        """Leave the server."""
        self.session.close()


class RemoteParallel(_Remote, TextParallelEnv):
    """A remote team that acts at once; see `RemoteTeam`."""

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """What the server makes of it."""
        return self._play(joint_action)


class RemoteTurns(_Remote, TextAECEnv):
    """A remote team that acts in turns; see `RemoteTeam`."""

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        """As any environment's; the server says who begins."""
        super().reset(seed=seed, options=options)
        self.agent_selection = self._acting[0]

    def next_agent(self, agent: str) -> str:
        """Whom the server waits for."""
        return self._acting[0]

    def play_one(self, agent: str, action: str) -> Outcome:
        """What the server makes of it."""
        return self._play({agent: action})


def RemoteTeam(  # noqa: N802 - an environment, which has one class per form
    server: Server, *, timeout: float = 60.0, render_mode: str | None = None
) -> RemoteParallel | RemoteTurns:
    """A server of `app` as an environment with all its seats, in the form that it has there.

    Episodes are those that the environment plays in process, with the same seeds, tasks, rewards
    and infos. The rules stay on the server: there are no scripted experts and no bounds here.

    Args:
        server: its address, or a function that makes a client of it.
        timeout: seconds that an answer may take.
        render_mode: as every environment.

    Raises:
        OSError: the server cannot be reached.
        ValueError: it serves something else, or an environment whose chats are rewritten.
    """
    session = Session(server, timeout)
    state = session.ask("state")
    facts = state.get("facts") if isinstance(state, Mapping) else None
    if facts is None:
        session.close()
        raise ValueError(
            f"{server}: it serves no environment of this library; expected a server of "
            "bridges.openenv.app, or use OpenEnvSeat for one seat"
        )
    if not facts["append_only"] or facts["beside"]:
        session.close()
        raise ValueError(
            f"{server}: {state['env_id']} rewrites its chats, or its seats call tools; play it in "
            "process"
        )
    kind = RemoteTurns if state["turn_based"] else RemoteParallel
    return kind(session, state, render_mode)


def _tasks(facts: Mapping[str, Any]) -> TaskSource:
    split = facts["split"]
    if facts["task_ids"] is None:
        return NumberedSource(split, facts["tasks"])  # their data stays there
    return ListSource([Task(task_id, split, {}) for task_id in facts["task_ids"]], split)


def as_message(text: str) -> dict[str, Any]:
    """The action of many servers: {"message": text}."""
    return {"message": text}


def shown(observation: Any) -> str:
    """An observation as text: its only text, else all of it as JSON."""
    data = observation if isinstance(observation, Mapping) else observation.model_dump()
    fields = {name: data[name] for name in data if name not in ("reward", "done", "metadata")}
    texts = [value for value in fields.values() if isinstance(value, str)]
    return texts[0] if len(texts) == 1 else json.dumps(fields, ensure_ascii=False, indent=1)


class OpenEnvSeat(TextParallelEnv):
    """Any OpenEnv server whose action is text, as an environment with the one seat `player_0`.

    A task is a seed that the server is reset with. Whether equal seeds give equal episodes is the
    server's affair: one that ignores them fails `check_text_env` here. What a server raises over an
    action ends the episode: it pays the lower end of `reward_range`, and info has `error`.

    Args:
        server: its address, or a function that makes a client of it.
        to_action: text -> action of the server, {"message": text} by default.
        to_text: observation -> what the seat is told.
        reward_range: smallest and largest return of an episode, as the server has it.
        turns: most actions of an episode.
        split: "train", "val", "test" or "ood"; they differ in their seeds alone.
        size: how many seeds.
        render_mode: as every environment.

    Raises:
        ValueError: an argument out of range.
        OSError: at the first reset: the server cannot be reached.
    """

    metadata: ClassVar[dict[str, Any]] = described("openenv_seat")
    blocking = True

    def __init__(
        self,
        *,
        server: Server,
        to_action: Callable[[str], Any] = as_message,
        to_text: Callable[[Any], str] = shown,
        reward_range: tuple[float, float] = (0.0, 1.0),
        turns: int = 64,
        split: str = "train",
        size: int = 1000,
        render_mode: str | None = None,
    ) -> None:
        if reward_range[0] >= reward_range[1]:
            raise ValueError(f"reward_range={reward_range}: expected (smallest, largest)")
        refuse_other("split", split, tuple(FIRST_SEEDS))
        super().__init__(
            agents=[SEAT],
            source=SeedSource(split, size),
            max_turns=turns,
            max_action_chars=100_000,
            render_mode=render_mode,
        )
        self.session = Session(server, 60.0)
        self.to_action, self.to_text = to_action, to_text
        self.reward_range = reward_range

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        """What the server says to a reset with the task's seed."""
        result = self.session.ask("reset", seed=task.data["seed"])
        return {SEAT: (Message("user", valid(self.to_text(result.observation))),)}

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        """One step of the server."""
        action = self.to_action(valid(joint_action[SEAT]))
        try:
            result = self.session.ask("step", action)
        except RuntimeError as error:
            if not str(error).endswith(REFUSED):
                raise
            return Outcome(
                reward_terms={SEAT: {"error": self.reward_range[0]}},
                ended=True,
                facts={SEAT: {"error": str(error)[:300]}},
            )
        return Outcome(
            reward_terms={SEAT: {"server": float(result.reward or 0.0)}},
            feedback={SEAT: valid(self.to_text(result.observation))},
            ended=result.done,
        )

    def close(self) -> None:
        """Leave the server."""
        self.session.close()
