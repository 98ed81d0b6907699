"""Critics by name. To add a critic: a file with one class, and one entry point.

    [project.entry-points."trainers.critics"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:MyCritic"

In a run file it is a setting of the algorithms that have a critic:

    algorithm: {name: central_critic, critic: model, sees: state, rate: 1e-3}
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from llm_marl_envs.core.plugins import Registry
from llm_marl_envs.files.json_files import read_json, write_json
from trainers.critics.base import Critic, CriticSettings
from trainers.weights.team_model import TeamModel

CRITICS = Registry("trainers.critics", "critic")
CRITIC_FILE = "critic.json"


def make_critic(settings: CriticSettings, seed: int) -> Critic:
    """The critic that the settings name.

    Raises:
        ValueError: no such critic; a setting that it does not work with.
        TypeError: the name stands for something else.
        ImportError: it cannot be imported.
    """
    kind = CRITICS.get(settings.critic)
    if not (isinstance(kind, type) and issubclass(kind, Critic)):
        raise TypeError(
            f"critic {settings.critic!r:.200}: expected a subclass of Critic, got {kind!r:.200}"
        )
    return kind(settings, seed)


def save_critic(critic: Critic, folder: Path, **facts: Any) -> None:
    """Write a critic into a team's folder: `critic.json`, and what its kind adds.

    Args:
        critic: what to save.
        folder: of the saved team.
        facts: further JSON values for `critic.json`.
    """
    # Not those of the algorithm.
    settings = {name: getattr(critic.settings, name) for name in CriticSettings.model_fields}
    kept = critic.save(folder)
    write_json(folder / CRITIC_FILE, {**facts, "settings": settings, "critic": kept})


def load_critic(folder: str | Path, team: TeamModel | None = None) -> Critic:
    """The critic in a folder written by `save_team`, to be asked for values.

    Args:
        folder: of the saved team.
        team: as `load_team` reads it from there; 'head' needs it.

    Raises:
        ValueError: there is none, or it needs `team`.
    """
    path = Path(folder) / CRITIC_FILE
    if not path.is_file():
        raise ValueError(f"{folder}: no {CRITIC_FILE} there; the team was trained without a critic")
    kept = read_json(path)
    settings = {**kept["settings"], "body": None}
    critic = make_critic(_Kept(**settings), seed=0)
    critic.load(Path(folder), kept["critic"])
    if team is not None:
        critic.attach(team)
    return critic


class _Kept(CriticSettings):
    """Settings that some algorithm took: it need not be known which."""

    sights = ("joint", "state", "solution", "own")
