"""Who may take a seat: a closed list, for what a page sends is never a name to be resolved freely.

A person, the scripted policies, saved teams and models that lie in the given folders, and what was
named when the program was started. Owns the weights that are kept in memory, and that one thread
at a time uses them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import PurePosixPath
from threading import Lock
from typing import Any, cast

from llm_marl_envs.app.folders import Folders
from llm_marl_envs.app.work import Work
from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.files.json_files import read_json
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.named import TEAM_FILE, Context, check_name, named_policy

YOU = "you"
SCRIPTED = {
    "expert": "expert, convention by lot",
    "agreed": "expert, first convention",
    "random": "random text",
    "silent": "says nothing",
}
WITHOUT_EXPERTS = ("random", "silent")
WEIGHTS_KEPT = 4
"""Players with weights that are kept in memory at once."""


@dataclass(frozen=True, slots=True)
class Player:
    """One that may be chosen: its name in forms, what people read, which seats it can take."""

    name: str
    label: str
    seats: tuple[str, ...]


def able(players: Sequence[Player], agent: str) -> list[Player]:
    """The players that can take a seat."""
    return [player for player in players if agent in player.seats]


class Seated:
    """A policy in a work's seats: asked only while the work goes on, by one thread at a time.

    Args:
        policy: who answers.
        lock: held while it does; what has weights has one for all works.
        work: stops the episode once it is closed.
    """

    def __init__(self, policy: Policy, lock: AbstractContextManager[Any], work: Work) -> None:
        self.policy = policy
        self.lock = lock
        self.work = work

    def act(self, requests: Sequence[Request]) -> Sequence[Response]:
        """What the policy answers."""
        with self.lock:
            self.work.check()  # it may have been left while others used the weights
            return self.policy.act(requests)


class Players:
    """Who may take a seat.

    Args:
        folders: where saved teams and models are looked for.
        named: further players, as `--team` of other commands takes them.

    Raises:
        ValueError: a name that no policy can have.
    """

    def __init__(self, folders: Folders, named: Sequence[str] = ()) -> None:
        for name in named:
            check_name(name)
        self.folders = folders
        self.named = tuple(named)
        self._lock = Lock()
        self._made: dict[tuple[str, str], tuple[Policy, Any]] = {}

    def of(self, env: Any, *, person: bool = True) -> list[Player]:
        """Those of an environment, in the order of a form."""
        seats = tuple(env.possible_agents)
        scripted = SCRIPTED if find_experts(env) is not None else WITHOUT_EXPERTS
        players = [Player(YOU, "you", seats)] if person else []
        players += [Player(name, SCRIPTED[name], seats) for name in scripted]
        if find_spec("torch") is not None:
            players += self.teams(env)
            models = self.models()
            players += [Player(f"folder:{place}", f"model {place}", seats) for place in models]
        return [*players, *(Player(f"named:{name}", name, seats) for name in self.named)]

    def labels(self, env: Any) -> dict[str, str]:
        """Name -> what people read, of all in an environment."""
        return {player.name: player.label for player in self.of(env)}

    def models(self) -> list[str]:
        """Places of Transformers models that have a tokenizer.

        Members of teams and of checkpoints are none.
        """
        read = {*self.folders.holding("tokenizer.json", "tokenizer_config.json")}
        inside = {*self.folders.holding(TEAM_FILE, "trainer_state.json", "settings.json")}
        return [
            place
            for place in self.folders.holding("config.json")
            if place in read
            and not inside & {parent.as_posix() for parent in PurePosixPath(place).parents}
        ]

    def teams(self, env: Any) -> list[Player]:
        """The saved teams that were trained in the environment."""
        env_id, players = env_name(env), []
        for place in self.folders.holding(TEAM_FILE):
            try:
                about = read_json(self.folders.path(place) / TEAM_FILE)
            except ValueError:  # being written, or no team's
                continue
            agents = about.get("agents")
            seats = tuple(map(str, agents)) if isinstance(agents, (list, dict)) else ()
            if about.get("env_id") == env_id and {*seats} & {*env.possible_agents}:
                players.append(Player(f"folder:{place}", f"team {place}", seats))
        return players

    def seated(self, env: Any, chosen: Mapping[str, str], *, person: bool = True) -> dict[str, str]:
        """Seat of the environment -> name of its player; other seats are left out.

        Raises:
            ValueError: seat -> name of something else.
        """
        players = self.of(env, person=person)
        for agent in env.possible_agents:
            names = tuple(player.name for player in able(players, agent))
            refuse_other(f"the player of {agent}", chosen.get(agent), names)
        return {agent: chosen[agent] for agent in env.possible_agents}

    def team(self, env: Any, chosen: Mapping[str, str], work: Work) -> dict[str, Policy]:
        """Seat -> policy; loads what has weights. Errors as `seated` and `named_policy`.

        Args:
            env: whose seats these are.
            chosen: seat -> name of its player.
            work: in which they play; it is the policy of people's seats where it is one.
        """
        person = isinstance(work, Policy)
        seats = self.seated(env, chosen, person=person)
        made = {name: self._policy(name, env, work) for name in dict.fromkeys(seats.values())}
        return {agent: made[name] for agent, name in seats.items()}

    def _policy(self, name: str, env: Any, work: Work) -> Policy:
        if name == YOU:
            return cast("Policy", work)
        kind, _, rest = name.partition(":")
        if kind not in ("folder", "named"):
            return Seated(named_policy(name, Context(env=env)), nullcontext(), work)
        with self._lock:
            key = (name, env_name(env))
            policy, lock = self._made.pop(key, None) or (self._loaded(kind, rest, env), Lock())
            self._made[key] = policy, lock  # the last one used is the last to go
            while len(self._made) > WEIGHTS_KEPT:
                del self._made[next(iter(self._made))]
        return Seated(policy, lock, work)

    def _loaded(self, kind: str, name: str, env: Any) -> Policy:
        source = str(self.folders.path(name)) if kind == "folder" else name
        return named_policy(source, Context(env=env))
