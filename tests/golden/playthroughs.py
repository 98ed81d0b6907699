"""One episode of every form and team, as a text that can be read: what `tests/playthroughs` holds.

`episodes.py` keeps digests of more episodes, which say *that* something has changed; the
difference of two of these texts says *what*.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from golden.episodes import forms, start_of, teams
from golden.record import Things
from llm_marl_envs import make
from llm_marl_envs.core.records import Episode, Turn, plain
from llm_marl_envs.core.rendering import visible
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv

AGAIN = 200
"""Characters of a message from which on a form shows it once, and later says where it stood."""


def of_forms() -> Things:
    """A text for each environment: its forms, and in each the episode of every team."""
    for env_id, some in groupby(sorted(forms(), key=_env_id), key=_env_id):
        parts = [_form(env_id, kwargs) for _, kwargs in some]
        yield f"playthroughs/{env_id}", "\n".join(line for part in parts for line in part) + "\n"


def _env_id(form: tuple[str, dict[str, Any]]) -> str:
    return form[0]


def _form(env_id: str, kwargs: Mapping[str, Any]) -> Iterator[str]:
    given = ", ".join(f"{key}={_value(value)}" for key, value in kwargs.items())
    yield f"# {env_id}  {given}".rstrip()
    env = VectorTextEnv([make(env_id, **kwargs)])
    shown: dict[str, str] = {}
    for name, policy in sorted(teams(env.envs[0]).items()):
        team = dict.fromkeys(env.envs[0].possible_agents, policy)
        (episode,) = rollout(env, team, [start_of(0)])
        yield from ["", f"## {name}: task {episode.task_id}", *_told(episode, name, shown)]
    env.close()
    yield ""


def _told(episode: Episode, team: str, shown: dict[str, str]) -> Iterator[str]:
    """What each seat heard since its turn before, said and earned; then how it ended.

    Of the `info` of a turn it tells what the turn told before has not, or has otherwise.
    """
    heard: dict[str, Turn] = {}
    info: Mapping[str, Any] = {}
    for turn in episode.turns:
        known = len(heard[turn.agent].messages) + 1 if turn.agent in heard else 0
        for message in turn.messages[known:]:
            yield f"{turn.agent} hears ({message.role})"
            yield from _quoted(message.content, f"{team}, {turn.agent}, turn {turn.index}", shown)
        heard[turn.agent] = turn
        yield f"{turn.agent} says"
        yield from _indented(turn.action)
        yield f"{turn.agent} earns {_paid(turn.reward, turn.reward_terms)}"
        for key, value in turn.info.items():
            if key not in info or info[key] != value:
                yield f"    {key}: {_value(value)}"
        info = turn.info
    for agent, idle in episode.idle.items():
        yield f"{agent}, who never acted, earns {_paid(idle.reward, idle.reward_terms)}"
    returns = ", ".join(f"{a} {episode.undiscounted_return(a):.6g}" for a in episode.agents)
    yield f"{episode.stop_reason}, success {episode.success}; {returns}"
    if episode.failure is not None:
        yield from _indented(episode.failure.strip().splitlines()[-1])


def _quoted(text: str, where: str, shown: dict[str, str]) -> Sequence[str]:
    if text in shown:
        return [f"    (as in {shown[text]})"]
    if len(text) > AGAIN:
        shown[text] = where
    return _indented(text)


def _indented(text: str) -> list[str]:
    return [f"    {visible(line)}".rstrip() for line in text.split("\n")]


def _paid(reward: float, terms: Mapping[str, float]) -> str:
    named = ", ".join(f"{name} {value:.6g}" for name, value in terms.items())
    return f"{reward:.6g}" + (f" = {named}" if named else "")


def _value(value: Any) -> str:
    """As JSON writes it; numbers with six digits."""
    return visible(json.dumps(_short(plain(value)), ensure_ascii=False))


def _short(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _short(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_short(entry) for entry in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value
