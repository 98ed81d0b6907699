"""The policies behind the names of `seating.py`: weights, past selves, opponents, partners.

A past self is sampled by its name (`TeamModel.keep`), an opponent is asked as any policy. What they
do is not trained on: their turns carry their names. Owns the files of past selves, too.
"""

from __future__ import annotations

import dataclasses
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import safetensors.torch
import torch

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.files.atomic import naming
from llm_marl_envs.policies.base import Policy, Team, answers
from llm_marl_envs.policies.named import Context, named_partners
from trainers.config import MAGRPOConfig
from trainers.engines.registry import engine_class
from trainers.experience.seating import Seating, past_self
from trainers.policies.token_policy import TokenPolicy
from trainers.weights.loading import check_state, read_tensors

FOLDER = "pool"
"""In a checkpoint: one file for each past self."""


class Players:
    """Who plays the episodes of a run.

    Args:
        policy: of the seats that play with the weights of this run.
        partners: agent -> policy, of the others.
        seating: who sits where, by name.
        env: one copy, for which opponents are made.
        branches: whether the algorithm samples branches.

    Attributes:
        opponents: name -> policy.
        kept: policy -> the updates before which its past selves were kept, oldest first.

    Raises:
        ValueError: the run has something that does not go together with a pool.
    """

    def __init__(
        self,
        policy: TokenPolicy,
        partners: Mapping[str, Policy],
        seating: Seating,
        env: Any,
        *,
        branches: bool = False,
    ) -> None:
        self.policy = policy
        self.weights = policy.team
        self.partners = dict(partners)
        self.seating = seating
        self.pool = seating.pool
        self.opponents: dict[str, Policy] = {}
        self.kept: dict[str, list[int]] = {}
        self._files: dict[str, Path] = {}
        if branches and seating.members is not None:
            raise ValueError(
                "schedules, population, size: this algorithm samples branches, which would have to "
                "be played by the line-up of their episode; choose one that does not, such as "
                "algorithm: magrpo"
            )
        if self.pool is None:
            return
        _refuse(seating.args, keeps=self.pool.keeps, branches=branches)
        for name in self.pool.opponents or {}:
            if name in self.weights.policies:
                raise ValueError(f"schedules, pool, opponents: {name!r} is a policy of this run")
            named = dict.fromkeys(seating.trained, name)
            self.opponents[name] = named_partners(named, Context(env=env))[seating.trained[0]]

    @property
    def team(self) -> dict[str, Policy]:
        """Agent -> policy, partners included, in the seats of the beginning."""
        return {**dict.fromkeys(self.weights.policy_of, self.policy), **self.partners}

    def keep(self, update: int) -> None:
        """Keep the present weights of every trained policy, where it is time."""
        if self.pool is None or not self.pool.keeps or update % self.pool.every:
            return
        for policy in self.weights.trained_policies:
            updates = self.kept.setdefault(policy, [])
            if update in updates:  # an update that is played again, or goes on
                continue
            if len(updates) == self.pool.size:
                seed = self.seating.args.seed
                place = self.pool.leaving(seed, policy, update, len(updates))
                self._forget(policy, updates.pop(place))
            self.weights.keep(policy, past_self(policy, update))
            updates.append(update)

    def line_ups(self, update: int) -> list[dict[str, str]]:
        """The line-up of each group of an update, those of all processes."""
        return self.seating.line_ups(update, self.kept)

    @contextmanager
    def seated(self, update: int) -> Iterator[Team]:
        """The team of this process's groups in an update, while the block runs."""
        begun_with = self.weights.policy_of
        self.weights.policy_of = self.seating.policies(update)
        try:
            yield self._beside_others(update)
        finally:
            self.weights.policy_of = begun_with
            self.policy.stand_ins = {}

    def _beside_others(self, update: int) -> Team:
        """The team, in whose trained seats past selves and opponents play as the pool says."""
        if self.pool is None and self.seating.members is None:
            return self.team
        own = self.line_ups(update)[self.seating.share]
        size = self.seating.args.num_generations
        seats = {
            (place * size + number, seat): name
            for place, line_up in enumerate(own)
            for seat, name in line_up.items()
            for number in range(size)
        }
        self.policy.stand_ins = {k: name for k, name in seats.items() if name not in self.opponents}
        others = {k: name for k, name in seats.items() if name in self.opponents}
        if self.seating.members is not None:
            return self.team
        shared = _Seats(self.policy, self.opponents, others)
        return {**self.team, **dict.fromkeys(self.seating.trained, shared)}

    def logged(self, update: int) -> dict[str, float]:
        """Seats, over all groups of the update, by who played: `pool/...`, `population/...`."""
        if self.pool is None and self.seating.members is None:
            return {}
        line_ups = self.line_ups(update)
        played = Counter(name for line_up in line_ups for name in line_up.values())
        if self.seating.members is not None:
            names = (name for own in self.seating.members.named.values() for name in own)
            return {f"population/{name}": float(played[name]) for name in names}
        present = len(line_ups) * len(self.seating.trained) - played.total()
        return {
            "pool/present": float(present),
            **{f"pool/{name}": float(played[name]) for name in (*self.names, *self.opponents)},
        }

    # -- files ------------------------------------------------------------------------------------
    @property
    def names(self) -> list[str]:
        """Of all past selves."""
        return [past_self(policy, n) for policy, updates in self.kept.items() for n in updates]

    def write(self, folder: Path) -> None:
        """Write every past self into a checkpoint that is being written.

        One that an earlier checkpoint holds is the same file, where the file system can do that.
        """
        for name in self.names:
            path = folder / FOLDER / f"{name}.safetensors"
            path.parent.mkdir(exist_ok=True)
            try:
                os.link(self._files[name], path)
            except (KeyError, OSError):  # new, gone with its checkpoint, or another file system
                weights = enumerate(self.weights.kept(name))
                state = {str(i): weight.detach().cpu().contiguous() for i, weight in weights}
                with naming(path):
                    safetensors.torch.save_file(state, path)
            # Where it will be once the checkpoint is moved to its place.
            self._files[name] = folder.parent.parent / folder.name / FOLDER / path.name

    @torch.no_grad()
    def restore(self, checkpoint: Path, kept: Mapping[str, Sequence[int]]) -> None:
        """Have the past selves of a checkpoint, and no others; `kept` as the attribute."""
        for policy, updates in self.kept.items():
            for update in updates:
                self._forget(policy, update)
        self.kept = {policy: list(updates) for policy, updates in kept.items()}
        for policy, updates in self.kept.items():
            for name in (past_self(policy, update) for update in updates):
                file = checkpoint / FOLDER / f"{name}.safetensors"
                state = read_tensors(file)
                self.weights.keep(policy, name)
                own = {str(i): weight for i, weight in enumerate(self.weights.kept(name))}
                check_state(str(file), state, own)
                for number, weight in own.items():
                    weight.copy_(state[number])
                self._files[name] = file

    def _forget(self, policy: str, update: int) -> None:
        name = past_self(policy, update)
        self.weights.forget(name)
        self._files.pop(name, None)


class _Seats:
    """Plays the trained seats of a rollout: asks an opponent where one is seated, else the team.

    Args:
        policy: of the team.
        opponents: name -> policy.
        seated: (episode, agent) -> opponent.
    """

    def __init__(
        self,
        policy: TokenPolicy,
        opponents: Mapping[str, Policy],
        seated: Mapping[tuple[int, str], str],
    ) -> None:
        self.policy = policy
        self.opponents = opponents
        self.seated = seated

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """As `Policy`; an opponent's answers carry its name."""
        names = [self.seated.get((request.episode, request.agent), "") for request in requests]
        responses: dict[int, Response] = {}
        for name in dict.fromkeys(names):
            places = [place for place, other in enumerate(names) if other == name]
            asked = self.opponents[name] if name else self.policy
            answered: Any = answers(asked, [requests[place] for place in places])
            if name:
                answered = [dataclasses.replace(response, policy=name) for response in answered]
            responses |= zip(places, answered, strict=True)
        return [responses[place] for place in range(len(requests))]


def _refuse(args: MAGRPOConfig, *, keeps: bool, branches: bool) -> None:
    """What a pool does not go together with.

    Raises:
        ValueError: says what, and what to do.
    """
    if branches:
        raise ValueError(
            "schedules, pool: this algorithm samples branches, which would have to be played by "
            "the line-up of their episode; choose one that does not, such as algorithm: magrpo"
        )
    if args.random_partner:
        raise ValueError(
            "schedules, pool: random_partner pays every seat beside scripted experts, whoever "
            "plays; set one of the two"
        )
    if not keeps:
        return
    only = "or play fixed opponents alone (past: 0)"
    if engine_class(args.engine)[0].remote:
        raise ValueError(
            f"schedules, pool: the servers of this engine hold present weights, and no past "
            f"selves; set engine: generate, {only}"
        )
    if args.shard_weights:
        raise ValueError(
            "schedules, pool: past selves of divided weights are not supported; leave "
            f"shard_weights out, {only}"
        )
