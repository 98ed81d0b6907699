"""`Partners`: some seats are played by policies of this library, the others are left to learn.

    env = Partners(make("debate-v0"), {"debater_1": "expert"})
    env = Partners(make("coop_coding-v0"), {"helper_0": my_policy})

What is left keeps the form of the environment. A turn-based environment of which one seat is left
becomes parallel: its steps go from one turn of this seat to its next, and so do its rewards.
"""

from __future__ import annotations

import copy
import itertools
import random
from collections.abc import Mapping
from typing import Any

from pettingzoo import AECEnv
from pettingzoo.utils.conversions import turn_based_aec_to_parallel_wrapper
from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper

from llm_marl_envs.core.forms import as_played, messages_of
from llm_marl_envs.core.outcome import paid
from llm_marl_envs.core.records import Request
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.policies.base import Policy, ask, check_team
from llm_marl_envs.policies.named import Context, seated
from llm_marl_envs.wrappers.numbers import check_joint, check_text

DRAWS = 100
"""Episodes that are begun until one is left to the learners."""
_NUMBERS = itertools.count()
"""Of environments that share a policy, so that it tells their trajectories apart."""


class _Seated:
    """The policies in their seats, and what they draw from.

    Copies of an environment share their policies, which keep nothing of an episode: a model is in
    memory once, however many copies play.

    Args:
        team: agent -> policy.
    """

    def __init__(self, team: Mapping[str, Policy]) -> None:
        self.team = dict(team)
        self.rng = random.Random()
        self.number = next(_NUMBERS)
        self.begin(None)

    def __deepcopy__(self, memo: dict[int, Any]) -> _Seated:
        other = copy.copy(self)
        other.team, other.turns = dict(self.team), dict(self.turns)
        other.rng, other.number = copy.deepcopy(self.rng, memo), next(_NUMBERS)
        return other

    def begin(self, seed: int | None) -> None:
        """A new episode; its sampling follows from the reset seed, else from the one before."""
        if seed is not None:
            self.rng.seed(derive_seed("partners", seed))
        self.seed = self.rng.getrandbits(63)
        self.turns = dict.fromkeys(self.team, 0)

    def ask(self, env: Any, observations: Mapping[str, str]) -> dict[str, str]:
        """What partners say to what they see; a policy in several seats is asked once."""
        task = getattr(getattr(env.unwrapped, "task", None), "id", "")
        sheets = getattr(env.unwrapped, "tool_sheets", {})
        start = Start(sample_seed=self.seed)
        requests: list[Request] = []
        for agent, seen in observations.items():
            turn, self.turns[agent] = self.turns[agent], self.turns[agent] + 1
            request = Request(
                env_id=env_name(env),
                agent=agent,
                turn=turn,
                episode=self.number,
                task_id=task,
                messages=messages_of(seen),
                observation=str(seen),
                seed=start.action_seed(agent, turn),
                seat_seed=start.seat_seed(agent),
                tools=sheets.get(agent),
            )
            requests.append(request)
        texts = [response.text for response in ask(self.team, requests)]
        return dict(zip(observations, texts, strict=True))


class PartnersParallel(BaseParallelWrapper[str, Any, Any]):
    """The seats that are left of a simultaneous environment; see `Partners`."""

    def __init__(self, env: Any, team: Mapping[str, Policy]) -> None:
        super().__init__(env)
        self.spec = getattr(env, "spec", None)
        self.partners = _Seated(team)
        self.possible_agents = [a for a in env.possible_agents if a not in team]
        self._seen: Mapping[str, str] = {}

    @property
    def agents(self) -> list[str]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The seats left that are still playing."""
        return [a for a in self.env.agents if a in self.possible_agents]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode.

        Raises:
            RuntimeError: in none of 100 episodes it was a learner's turn.
        """
        first = self.env.reset(seed=seed, options=options)
        self.partners.begin(seed)
        for _ in range(DRAWS):
            self._seen = first[0]
            first = self._on(first)
            if self.agents:
                return self._left(first)
            first = self.env.reset(options=options)
            self.partners.begin(None)
        raise RuntimeError(_no_turn(self))

    def step(self, actions: Mapping[str, str]) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """The learners act, and with them the partners that are to act.

        Raises:
            TypeError: no dict of actions.
            ValueError: an action for a partner's seat; other errors as the environment inside.
        """
        check_joint(actions)
        taken = [agent for agent in actions if agent in self.partners.team]
        if taken:
            raise ValueError(
                f"actions for {taken}: partners play there; expected one for each of {self.agents}"
            )
        out = self._stepped(actions)
        while (
            self.env.agents and not self.agents
        ):  # partners act on alone, as where they call tools
            out = _joined(out, self._stepped({}))
        return self._left(out)

    def _stepped(self, actions: Mapping[str, str]) -> Any:
        waiting = {a: self._seen[a] for a in self.env.agents if a in self.partners.team}
        out = self.env.step({**actions, **self.partners.ask(self.env, waiting)})
        self._seen = out[0]
        return out

    def _on(self, first: Any) -> Any:
        """Past turns in which partners act alone, as in environments whose agents come and go."""
        while self.env.agents and not self.agents:
            out = self._stepped({})
            first = out[0], out[4]
        return first

    def _left(self, parts: Any) -> Any:
        return tuple({a: part[a] for a in self.possible_agents if a in part} for part in parts)


def _joined(first: Any, then: Any) -> Any:
    """What two steps gave, as one: rewards and their terms are summed, the rest is the later."""
    paid, infos = dict(first[1]), dict(first[4])
    for agent, reward in then[1].items():
        paid[agent] = paid.get(agent, 0.0) + reward
    for agent, info in then[4].items():
        terms = dict(infos.get(agent, {}).get("reward_terms", {}))
        for name, value in info.get("reward_terms", {}).items():
            terms[name] = terms.get(name, 0.0) + value
        infos[agent] = {**info, "reward_terms": terms} if terms else info
    parts = zip(first, then, strict=True)
    seen, _, ended, cut, _ = ({**before, **after} for before, after in parts)
    return seen, paid, ended, cut, infos


class PartnersAEC(BaseWrapper[str, Any, Any]):
    """The seats that are left of a turn-based environment; see `Partners`.

    Attributes:
        rewards: what a seat was paid since the last action of a seat that is left; after the first
            one also what partners earned it before. `reward_terms` in `infos` are of the same.
    """

    def __init__(self, env: Any, team: Mapping[str, Policy]) -> None:
        super().__init__(env)
        self.spec = getattr(env, "spec", None)
        self.partners = _Seated(team)
        self.possible_agents = [a for a in env.possible_agents if a not in team]

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Begin an episode, up to the first turn of a seat that is left.

        Raises:
            RuntimeError: in none of 100 episodes it was a learner's turn.
        """
        self.env.reset(seed=seed, options=options)
        self.partners.begin(seed)
        for _ in range(DRAWS):
            self.rewards = dict.fromkeys(self.possible_agents, 0.0)
            self._terms: dict[str, dict[str, float]] = {}
            self._on()
            if any(not (self.terminations[a] or self.truncations[a]) for a in self.agents):
                self._early, self._early_terms = self.rewards, self._terms
                self.rewards, self._terms = dict.fromkeys(self.agents, 0.0), {}
                self.infos = {a: self._info(a) for a in self.agents}
                return
            self.env.reset(options=options)
            self.partners.begin(None)
        raise RuntimeError(_no_turn(self))

    def step(self, action: Any) -> None:
        """A learner acts, then the partners do until it is a learner's turn again."""
        self.rewards = dict.fromkeys(self.possible_agents, 0.0) | self._early
        if action is not None:  # the last terms stay where agents of an ended episode leave
            self._terms = self._early_terms
        self._early, self._early_terms = {}, {}
        self._step(action)
        self._on()

    def _step(self, action: Any) -> None:
        """One step of the environment inside; what it pays is booked."""
        over = action is None
        self.env.step(action)
        if over:
            return
        for agent in self.possible_agents:
            self.rewards[agent] += paid(self.env.rewards.get(agent, 0.0), agent)
            booked = self._terms.setdefault(agent, {})
            for name, value in self.env.infos.get(agent, {}).get("reward_terms", {}).items():
                booked[name] = booked.get(name, 0.0) + value

    def _on(self) -> None:
        """Up to the turn of a seat that is left, or to the end."""
        env = self.env
        while env.agents and env.agent_selection not in self.possible_agents:
            agent = env.agent_selection
            if env.terminations[agent] or env.truncations[agent]:
                env.step(None)
                continue
            self._step(self.partners.ask(env, {agent: env.observe(agent) or ""})[agent])
        self.agents = [a for a in env.agents if a in self.possible_agents]
        self.agent_selection = env.agent_selection
        self.terminations = {a: env.terminations[a] for a in self.agents}
        self.truncations = {a: env.truncations[a] for a in self.agents}
        self._cumulative_rewards = {a: env._cumulative_rewards[a] for a in self.agents}
        self.rewards = {a: self.rewards[a] for a in self.agents}
        self.infos = {a: self._info(a) for a in self.agents}

    def _info(self, agent: str) -> dict[str, Any]:
        """The environment's, with the terms of what `rewards` holds."""
        info, terms = dict(self.env.infos[agent]), self._terms.get(agent, {})
        return {**info, "reward_terms": terms} if terms or "reward_terms" in info else info


class _Alone(turn_based_aec_to_parallel_wrapper):
    """The one seat that is left of a turn-based environment, as a parallel environment."""

    def step(self, actions: Mapping[str, Any]) -> Any:
        """As PettingZoo's.

        Raises:
            TypeError: no dict of actions.
            ValueError: an action is missing, or there are others.
        """
        check_joint(actions, self.agents)
        return super().step(dict(actions))


def _no_turn(shell: Any) -> str:
    """Why no episode is left to the learners."""
    task = getattr(getattr(shell.unwrapped, "task", None), "id", "unknown")
    return (
        f"Partners: in {DRAWS} episodes {', '.join(shell.partners.team)} ended the episode before "
        f"{' or '.join(shell.possible_agents)} could act; the last one had task {task!r}"
    )


def divided(
    env: Any, partners: Mapping[str, Policy | str] | None
) -> tuple[list[str], dict[str, Policy]]:
    """The seats of an environment that are left, and the policies of the others.

    Args:
        env: the environment.
        partners: agent -> policy, or its name ("expert").

    Raises:
        ValueError: an unknown seat, no seat left, or no such policy.
        TypeError: a partner that is no policy.
    """
    players, seats = dict(partners or {}), list(env.possible_agents)
    left = [agent for agent in seats if agent not in players]
    if not left or not set(players) <= set(seats):
        raise ValueError(
            f"partners: got {sorted(players)}; expected some of {seats}, and at least one seat left"
        )
    policies = seated(players, Context(env=env))
    check_team(policies, [*players])
    return left, policies


def Partners(  # noqa: N802 - a wrapper, which has one class per form of environment
    env: Any, team: Mapping[str, Policy | str]
) -> Any:
    """`env` without the seats of `team`, which are played by their policies.

    Partners draw from seeds that follow from the reset seed, so an episode can be repeated. Where a
    partner ends an episode before a learner has acted, another one is begun, up to 100 times.

    Args:
        env: a text environment of either form.
        team: agent -> policy, or its name as `llm-marl eval --team` takes it ("expert").

    Raises:
        ValueError: no seats, all seats, or unknown ones; a name without a policy.
        TypeError: no environment of texts, no dict of partners, or one that is no policy.
    """
    check_text(env, "Partners")
    if not isinstance(team, Mapping):
        raise TypeError(f"Partners: expected a dict seat -> policy, got {team!r:.80}")
    if not team:
        raise ValueError(f"partners: got no policy; expected some of {env.possible_agents}")
    env = as_played(env)
    left, policies = divided(env, team)
    if not isinstance(env, AECEnv):
        return PartnersParallel(env, policies)
    turns = PartnersAEC(env, policies)
    if len(left) > 1:
        return turns
    alone: Any = _Alone(turns)
    alone.spec, alone.env_kwargs = turns.spec, getattr(env, "env_kwargs", {})
    return alone
