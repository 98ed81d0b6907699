"""Weights of a team on vLLM servers: versions, by folder.

    publish: weights -> folder "policy@update-digest" -> every server -> answers name that version

Adapters are loaded beside each other, under names that never mean two contents. Full weights are
put in the place of the old ones; then an answer cannot name its version, and the measurement of
log-probs (`trainers.batch.drift`) is what notices a server that has others. Servers read the
folders, so they and the trainer share a file system.
"""

from __future__ import annotations

import hashlib
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from llm_marl_envs.files.atomic import make_folder
from llm_marl_envs.policies.json_server import EndpointError, JsonServer
from trainers.weights.adapters import AdapterWeights
from trainers.weights.sharding import as_bytes
from trainers.weights.team_model import TeamModel

KEPT = 2
"""Versions of a policy that servers keep: the present one and the one before."""
START = "start"
SECONDS_TO_SEE = 600
"""How long another node waits for a folder that is being written."""


@dataclass(frozen=True, slots=True)
class Version:
    """Weights of a policy as servers know them.

    Attributes:
        policy: whose they are.
        update: the update before which they were published, or "start".
        digest: of the weights, 8 hex digits.
    """

    policy: str
    update: int | str
    digest: str

    @property
    def name(self) -> str:
        """On servers, and of its folder."""
        return f"{self.policy}@{self.update}-{self.digest}"


class ServedWeights:
    """What servers hold of a team.

    Args:
        team: whose weights.
        folder: where versions are written; the servers must see it under the same path.
        servers: policy -> its servers.
        writes: whether this process writes; one of several does, all know the names.

    Attributes:
        loads: whether this process tells the servers to load; by default the one that writes.
        served: policy -> its versions, the present one last.
        starts: policy -> the version that it began with, where a frozen seat acts with that.
    """

    def __init__(
        self,
        team: TeamModel,
        folder: Path,
        servers: Mapping[str, Sequence[JsonServer]],
        *,
        writes: bool = True,
    ) -> None:
        self.team = team
        self.folder = folder
        self.servers = servers
        self.writes = self.loads = writes
        self.by_name = isinstance(team, AdapterWeights)
        self.served: dict[str, list[Version]] = {}
        self.starts: dict[str, Version] = {}

    def publish(self, update: int) -> None:
        """Serve the present weights of every policy whose weights are not served yet.

        All are written before any is loaded: what servers do wrong then keeps no process from
        bringing its part of sharded weights, and none waits for a folder that does not come.

        Raises:
            LostServerError: a server gives no answer.
            EndpointError: a server refuses the weights, or this process does not see them.
            OSError: they cannot be written.
        """
        behind = {self.team.policy_of[agent] for agent in self.team.left_behind}
        new: list[Version] = []
        for policy in sorted(behind - set(self.starts)):
            with self.team.at_start(policy):
                new.append(self._written(Version(policy, START, digest_of(self.team, policy))))
        for policy in self.team.policies:
            versions, digest = self.served.get(policy), digest_of(self.team, policy)
            if not versions or digest != versions[-1].digest:
                new.append(self._written(Version(policy, update, digest)))
        for version in new:
            self._load_everywhere(version)
            if version.update == START:
                self.starts[version.policy] = version
            else:
                versions = self.served.setdefault(version.policy, [])
                versions.append(version)
                self._drop_old(versions)

    def version(self, policy: str, *, start: bool = False) -> Version:
        """The version that acts.

        Raises:
            ValueError: none was published.
        """
        version = self.starts.get(policy) if start else (self.served.get(policy) or [None])[-1]
        if version is None:
            raise ValueError(
                f"{policy}: no weights were published; call the engine's publish(update) before "
                "it samples"
            )
        return version

    def forget(self) -> None:
        """The servers hold nothing any more: the next `publish` gives them everything."""
        self.served.clear()
        self.starts.clear()

    def _written(self, version: Version) -> Version:
        """The version, with its folder whole or absent; every process brings its part."""
        place = self.folder / version.name
        aside = place.with_name(f".{version.name}.partial")
        writes = self.writes and not place.exists()
        if writes:
            make_folder(self.folder)
            shutil.rmtree(aside, ignore_errors=True)
        self.team.save_policy(version.policy, aside, writes=writes)
        if writes:
            aside.rename(place)
        return version

    def _load_everywhere(self, version: Version) -> None:
        if not self.loads:
            return
        place, until = self.folder / version.name, time.monotonic() + SECONDS_TO_SEE
        while not place.is_dir():
            if time.monotonic() > until:
                raise EndpointError(
                    f"{place} is not there after {SECONDS_TO_SEE} s: every node must see the run's "
                    "folder under the same path"
                )
            time.sleep(0.1)
        for server in self.servers[version.policy]:
            self._load(server, version)

    def _load(self, server: JsonServer, version: Version) -> None:
        place = str(self.folder / version.name)
        if self.by_name:
            body = {"lora_name": version.name, "lora_path": place}
            try:
                tell(server, "/v1/load_lora_adapter", body)
            except EndpointError as error:
                if "already" not in str(error):  # a name means one content, so that is well
                    raise
            return
        reload = {"method": "reload_weights", "kwargs": {"weights_path": place}}
        tell(server, "/pause?mode=wait", {})
        tell(server, "/collective_rpc", reload)
        tell(server, "/reset_prefix_cache", {})
        tell(server, "/resume", {})

    def _drop_old(self, versions: list[Version]) -> None:
        """Unload and delete what is older than the versions that are kept."""
        while len(versions) > KEPT:
            old = versions.pop(0)
            for server in self.servers[old.policy] if self.by_name and self.loads else ():
                tell(server, "/v1/unload_lora_adapter", {"lora_name": old.name})
            if self.writes:
                shutil.rmtree(self.folder / old.name, ignore_errors=True)


def digest_of(team: TeamModel, policy: str) -> str:
    """8 hex digits of a policy's weights as they are now."""
    digest = hashlib.sha256()
    for parameter in team.parameters(policy):
        digest.update(as_bytes(parameter))
    return digest.hexdigest()[:8]


def tell(server: JsonServer, path: str, body: Mapping[str, Any] | None) -> None:
    """A request whose answer is no more than that it was done; errors as `JsonServer.ask`."""
    server.ask(path, body, lambda answer: answer, decode=bytes)
