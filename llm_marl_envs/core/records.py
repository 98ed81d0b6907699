"""The frozen records that stages exchange: requests, responses, turns, episodes, groups.

Owns their fields and their JSONL form. Nothing here drives an environment (`rollout.py`) or knows
tensors.
"""

from __future__ import annotations

import copy
import dataclasses
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np

from llm_marl_envs.core.outcome import summed
from llm_marl_envs.core.spaces import Message, ToolSheet
from llm_marl_envs.files.atomic import replacing
from llm_marl_envs.files.foreign import json_of
from llm_marl_envs.files.json_files import finite, from_json

Chance = Literal["group", "episode"]
"""Whether the episodes of a group share what chance deals (one reset seed), or each has its own."""
TRANSCRIPT_VERSION = 1
NEEDED = {"needed": True}
"""Of a field that has a default, and that every transcript holds."""
ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
"""Two surrogates that stand side by side in a text; in JSON they are one character."""


class StopReason(StrEnum):
    """Why an episode ended."""

    TERMINATED = "terminated"
    """Ended by the task."""
    TRUNCATED = "truncated"
    """Cut by a limit."""
    FAILED = "failed"
    """The environment raised; see `Episode.failure`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What a policy is asked: one agent's next action.

    Attributes:
        env_id: registered id, or the class name of an environment without one.
        agent: the seat, `<role>_<int>`.
        turn: k, how many actions this agent has taken in the episode before this one.
        episode: position of the episode in the rollout; with `agent` it names a trajectory.
        task_id: the task that the episode plays, "" where the environment names none.
        messages: the chat so far, oldest first.
        observation: the text the environment sent, before it became messages.
        seed: all randomness of the answer comes from this number, never from batch neighbours.
        before: the agent's turn before this one, where the policy was not asked for it (a branch
            plays it as recorded): one that keeps token ids goes on from its ids. Else None.
        tools: what the agent may call; None where it has no tools.
        seat_seed: what the agent draws once in an episode, as the convention of an expert, comes
            from this number: it is the same at each of its turns. Who acted before a branch keeps
            in it what was drawn there; the others draw anew. None where who asks knows of no
            episode; then it is `seed`.
    """

    env_id: str
    agent: str
    turn: int
    episode: int
    task_id: str
    messages: tuple[Message, ...]
    observation: str
    seed: int
    before: Turn | None = None
    tools: ToolSheet | None = None
    seat_seed: int | None = None

    @property
    def role(self) -> str:
        """The agent's role: its name without the trailing number."""
        return self.agent.rpartition("_")[0] or self.agent


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What a policy answers. Token fields are None for policies without tokens.

    Attributes:
        text: the action, as the environment receives it.
        prompt_ids: token ids the policy was conditioned on, from the start of the episode.
        completion_ids: token ids sampled for this action, EOS included where it was sampled.
        logprobs: behaviour log-prob of each completion token, natural log, <= 0.
        cut: True if the token limit ended the action instead of EOS.
        policy: name of the weights that acted, "" where there are none.
        usage: (prompt tokens, completion tokens) that the action cost, where they are not the
            lengths of the ids: counted by a server, or summed over several calls.
        id: what the server calls this answer, or the version of the weights that a sampling engine
            names; "" without one. Not in transcripts and no part of what is equal.
        written: what the model wrote, where `text` says it in other words: a call in the model's
            own format is a line `Call: ...` in `text`. Else "".
    """

    text: str
    prompt_ids: tuple[int, ...] | None = None
    completion_ids: tuple[int, ...] | None = None
    logprobs: tuple[float, ...] | None = None
    cut: bool = field(default=False, metadata=NEEDED)
    policy: str = field(default="", metadata=NEEDED)
    usage: tuple[int, int] | None = None
    id: str = field(default="", compare=False)
    written: str = ""

    @property
    def tokens(self) -> tuple[int, int] | None:
        """(prompt tokens, completion tokens) that the action cost, None where nobody counted."""
        if self.usage is None and self.prompt_ids is not None and self.completion_ids is not None:
            return len(self.prompt_ids), len(self.completion_ids)
        return self.usage


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One action of one agent and all that came of it.

    Attributes:
        agent: who acted.
        index: k, this agent's own count of actions before this one.
        messages: the chat the policy was shown.
        response: what it answered, token ids included.
        reward: paid to this agent from this action until its next one, summed.
        reward_terms: the named parts of `reward`; they sum to it.
        added_terms: what of it wrappers paid or charged, by name, as the price of a call. The task
            paid the rest, which alone is measured; what is learned from is `reward`.
        team_reward: the mean over agents of what every step paid from this action until the
            agent's next one; None in records made by hand, and then it is `reward`.
        info: the remaining info of the environment for this agent.
        given: nobody was asked: a branch took the action from a record, or was told it.
        step: number of the environment's step that took the action, from 0; actions of one step are
            taken at the same time. None in records made by hand and in transcripts.
        state: what the environment's `state()` said before the step; None where nobody asked for it
            (`rollout(states=True)`), and in transcripts.
    """

    agent: str
    index: int
    messages: tuple[Message, ...]
    response: Response
    reward: float
    reward_terms: Mapping[str, float] = field(default_factory=dict, metadata=NEEDED)
    team_reward: float | None = field(default=None, metadata=NEEDED)
    info: Mapping[str, Any] = field(default_factory=dict, metadata=NEEDED)
    given: bool = False
    step: int | None = field(default=None, compare=False)
    state: str | None = field(default=None, compare=False)
    added_terms: Mapping[str, float] = field(default_factory=dict)

    @property
    def action(self) -> str:
        """The text the agent sent."""
        return self.response.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Idle:
    """What an episode paid a seat that took no action in it.

    Attributes:
        reward: the sum.
        reward_terms: the named parts of `reward`; they sum to it.
        added_terms: what of it wrappers paid, as in `Turn`.
    """

    reward: float
    reward_terms: Mapping[str, float] = field(default_factory=dict)
    added_terms: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """Where an episode leaves a recorded one of its group, and how.

    All before the named action is as recorded, that one is another, and what comes later is sampled
    anew.

    Attributes:
        parent: the place of the recorded episode in its group.
        agent: whose action is the first that is not the recorded one.
        turn: which of its actions, k.
        held: whether those who act at the same time say what they said in the record; else they
            are asked anew.
        instead: what the agent says there, with the recorded ids where it said just that; None: it
            is asked.
    """

    parent: int
    agent: str
    turn: int
    held: bool = False
    instead: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Redraw:
    """Chance drawn anew in the middle of an episode (`TextEnv.redraw`).

    Attributes:
        step: number of the environment's step before which it was done, from 0.
        seed: that it was drawn from.
    """

    step: int
    seed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """Reset to end, all agents.

    Attributes:
        env_id: as in `Request`.
        env_kwargs: keyword arguments of `make`, enough to build the environment again.
        task_id: the task played, "" where the environment names none.
        seed: the reset seed.
        agents: all seats, in the environment's order.
        turns: every action, in the order taken (agents of one parallel step in seat order).
        stop_reason: why it ended.
        success: whether the task was solved, None where the environment does not say.
        failure: the traceback of what the environment raised, None where it raised nothing. Such an
            episode holds what was played before; its last actions may have earned nothing only
            because nobody judged them. Nothing is learned from it, and `measured` counts it.
        floor: of a failed episode, what a measurement counts it at: the smallest return that its
            environment declares (`reward_range`). None where it declares none, where something
            outside of it broke, and in transcripts of older releases.
        branch: where it left another episode of its group; None where it was played from its reset.
        idle: agent -> what it was paid, of those that were paid and never acted, as where a game
            ends with the first move. It counts in returns; nothing is learned from it.
        redraws: where chance was drawn anew, step after step: where this episode left another, and
            where that one had left a third before. Who plays it again draws there, too.

    Raises:
        ValueError: `failure` without `StopReason.FAILED`, or the other way round; or a `floor` of
            an episode that did not fail, or one that is no finite number.
    """

    env_id: str
    env_kwargs: Mapping[str, Any]
    task_id: str
    seed: int
    agents: tuple[str, ...]
    turns: tuple[Turn, ...]
    stop_reason: StopReason
    success: bool | None
    failure: str | None = None
    floor: float | None = None
    branch: Branch | None = None
    idle: Mapping[str, Idle] = field(default_factory=dict)
    redraws: tuple[Redraw, ...] = ()

    def __post_init__(self) -> None:
        if self.failed is not isinstance(self.failure, str):
            raise ValueError(
                f"an episode with stop_reason={str(self.stop_reason)!r} and a failure of type "
                f"{type(self.failure).__name__}: expected a text where it failed, else None"
            )
        if self.floor is not None and not (self.failed and finite(self.floor)):
            raise ValueError(
                f"floor={self.floor!r} of an episode with stop_reason={str(self.stop_reason)!r}: "
                "expected a number where it failed, else None"
            )

    @property
    def failed(self) -> bool:
        """Whether the environment raised."""
        return self.stop_reason is StopReason.FAILED

    def trajectory(self, agent: str) -> tuple[Turn, ...]:
        """One agent's view of the episode: its turns, in order."""
        return tuple(turn for turn in self.turns if turn.agent == agent)

    def undiscounted_return(self, agent: str) -> float:
        """Sum of the rewards of one agent, also where it never acted."""
        idle = self.idle[agent].reward if agent in self.idle else 0.0
        return float(sum(turn.reward for turn in self.turns if turn.agent == agent) + idle)

    def _paid(self, agent: str) -> list[Turn | Idle]:
        """Where one agent was paid."""
        idle = [self.idle[agent]] if agent in self.idle else []
        return [*self.trajectory(agent), *idle]

    def terms_of(self, agent: str) -> dict[str, float]:
        """Name -> sum of a reward term of one agent, also where it never acted."""
        return summed(*(paid.reward_terms for paid in self._paid(agent)))

    def added_terms_of(self, agent: str) -> dict[str, float]:
        """Name -> sum of what wrappers paid one agent, also where it never acted."""
        return summed(*(paid.added_terms for paid in self._paid(agent)))

    def task_return(self, agent: str) -> float:
        """What the task paid one agent in all: its undiscounted return without `added_terms`."""
        more = sum(self.added_terms_of(agent).values())
        return self.undiscounted_return(agent) - more

    @property
    def team_return(self) -> float:
        """Mean over agents of the undiscounted return (their number where it is shared)."""
        return sum(self.undiscounted_return(agent) for agent in self.agents) / len(self.agents)

    @property
    def team_task_return(self) -> float:
        """Mean over agents of what the task paid them: the return that measurements count."""
        return sum(self.task_return(agent) for agent in self.agents) / len(self.agents)

    @property
    def clusters(self) -> tuple[str, ...]:
        """What its task shares with others (`info["task_clusters"]`), one key per way of sharing.

        Empty where the environment names nothing, or nothing that can be read.
        """
        key = "task_clusters"
        named = next((turn.info[key] for turn in self.turns if key in turn.info), ())
        return tuple(map(str, named)) if isinstance(named, (list, tuple)) else ()

    @property
    def turns_per_agent(self) -> float:
        """Mean over agents of their own actions; everybody who counts turns counts these."""
        return len(self.turns) / len(self.agents)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpisodeGroup:
    """The episodes of one task from one reset seed: the G samples that GRPO compares.

    Attributes:
        task_id: the task they share.
        seed: the reset seed they share; with a chance of each episode's own, what theirs are drawn
            from.
        episodes: the G episodes, then their branches. Those that failed keep their places, so that
            element g of an array (P, G, ...) is episode g; nothing is learned from them.
        chance: whether they share the reset seed, and so what chance deals.

    Raises:
        ValueError: an episode of another task, or, where it is shared, of another reset seed.
    """

    task_id: str
    seed: int
    episodes: tuple[Episode, ...]
    chance: Chance = "group"

    def __post_init__(self) -> None:
        for episode in self.episodes:
            unnamed = episode.failed and not episode.task_id  # failed before it had a task
            task_id = self.task_id if unnamed else episode.task_id
            seed = episode.seed if self.chance == "group" else self.seed
            if (task_id, seed) != (self.task_id, self.seed):
                raise ValueError(
                    f"group of task {self.task_id!r}, seed {self.seed} holds an episode of task "
                    f"{episode.task_id!r}, seed {episode.seed}; a group shares both"
                )

    @property
    def living(self) -> tuple[tuple[int, Episode], ...]:
        """(g, episode) of those that did not fail."""
        return tuple((g, episode) for g, episode in enumerate(self.episodes) if not episode.failed)

    @property
    def roots(self) -> EpisodeGroup:
        """The group without its branches: the episodes that were played from their reset."""
        played = tuple(episode for episode in self.episodes if episode.branch is None)
        return dataclasses.replace(self, episodes=played)


def living(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes that did not fail, in order: those that are learned from."""
    return [episode for episode in episodes if not episode.failed]


def countable(episode: Episode) -> bool:
    """Whether a measurement can count the episode: it did not fail, or it has a floor."""
    return not episode.failed or episode.floor is not None


def measured(episodes: Iterable[Episode]) -> list[Episode]:
    """The episodes as a measurement counts them, in order: one that failed earned its floor.

    It paid each agent that much, under the term `failed`, and nothing else. It did not solve its
    task, where one that did not fail says whether it did. Were it left out, a policy that is unsure
    would gain by whatever makes an environment raise.

    Raises:
        ValueError: one that failed has no floor.
    """
    episodes = list(episodes)
    says = any(episode.success is not None for episode in episodes if not episode.failed)
    floor = False if says else None
    return [_at_its_floor(episode, floor) if episode.failed else episode for episode in episodes]


def _at_its_floor(episode: Episode, success: bool | None) -> Episode:
    if episode.floor is None:
        raise ValueError(
            f"{episode.env_id}, task {episode.task_id!r}, reset seed {episode.seed} failed and has "
            "no floor, so no mean can count it: its environment declares no `reward_range`, "
            "something outside of it broke, or an older release recorded it; play it again"
        )
    floor = Idle(reward=episode.floor, reward_terms={"failed": episode.floor})
    return dataclasses.replace(
        episode,
        turns=tuple(
            dataclasses.replace(turn, reward=0.0, reward_terms={}, added_terms={}, team_reward=0.0)
            for turn in episode.turns
        ),
        idle=dict.fromkeys(episode.agents, floor),
        success=success,
    )


def episode_to_dict(episode: Episode, *, tokens: bool = False) -> dict[str, Any]:
    """A JSON-ready dict; token ids and log-probs only with `tokens=True` (they are large).

    JSON joins two surrogates that stand side by side into one character. Where texts hold such
    pairs, `apart` says where: [["turns", 0, "response", "text"], [3], false], the fourth character.
    """
    priced = terms_of_wrappers(episode.env_kwargs) is not None
    idle = {agent: _pay_to_dict(pay, priced) for agent, pay in episode.idle.items()}
    data = {
        "version": TRANSCRIPT_VERSION,
        "env_id": episode.env_id,
        "env_kwargs": plain(episode.env_kwargs),
        "task_id": episode.task_id,
        "seed": episode.seed,
        "agents": list(episode.agents),
        "stop_reason": str(episode.stop_reason),
        "success": episode.success,
        **({} if episode.failure is None else {"failure": episode.failure}),
        **({} if episode.floor is None else {"floor": episode.floor}),
        **({} if episode.branch is None else {"branch": dataclasses.asdict(episode.branch)}),
        "turns": [_turn_to_dict(turn, tokens, priced) for turn in episode.turns],
        **({"idle": idle} if idle else {}),
        **({"redraws": list(map(dataclasses.asdict, episode.redraws))} if episode.redraws else {}),
    }
    apart = [*_apart(data, ())]
    return {**data, "apart": apart} if apart else data


def _apart(value: Any, place: tuple[str | int, ...]) -> Iterator[list[Any]]:
    """Where texts hold pairs: [place, of each pair the index once all are joined, is it a key]."""
    if isinstance(value, str):
        found = _pairs(value)
        if found:
            yield [[*place], found, False]
    elif isinstance(value, (Mapping, list)):
        for key, one in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _apart(one, (*place, key))
            if isinstance(key, str) and _pairs(key):
                yield [[*place, key], _pairs(key), True]


def _pairs(text: str) -> list[int]:
    found = () if text.isascii() else PAIR.finditer(text)
    return [pair.start() - before for before, pair in enumerate(found)]


def _set_apart(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The record with its pairs of surrogates as they were before JSON joined them.

    Raises:
        LookupError, AttributeError, TypeError, ValueError: `apart` names what is not there.
    """
    data = copy.deepcopy(data)
    for place, indices, is_key in data["apart"]:  # a key comes after what lies below it
        inside, last = cast(Any, data), place[-1]
        for key in place[:-1]:
            inside = inside[key]
        value = inside[last]
        if is_key:
            entries = {_split(k, indices) if k == last else k: v for k, v in inside.items()}
            inside.clear()
            inside.update(entries)
        else:
            inside[last] = _split(value, indices)
    return data


def _split(text: str, indices: Sequence[int]) -> str:
    """The text, joined, whose characters at these places are two surrogates each."""
    parts = [*text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")]
    for index in indices:
        code = ord(parts[index])
        if code <= 0xFFFF:
            raise ValueError(f"`apart` names the character {parts[index]!r}, which is no pair")
        parts[index] = chr(0xD7C0 + (code >> 10)) + chr(0xDC00 + (code & 0x3FF))
    return "".join(parts)


def _pay_to_dict(pay: Turn | Idle, priced: bool) -> dict[str, Any]:
    """What somebody was paid; `added_terms` also where a wrapper could have and did not."""
    return {
        "reward": float(pay.reward),
        "reward_terms": plain(pay.reward_terms),
        **({"added_terms": plain(pay.added_terms)} if priced or pay.added_terms else {}),
    }


def terms_of_wrappers(env_kwargs: Mapping[str, Any]) -> set[str] | None:
    """Names of what a channel and tools pay or charge; None where there is neither.

    Transcripts of releases that did not tell them apart are read by these names.
    """
    tools = env_kwargs.get("tools")
    if tools is None and env_kwargs.get("channel") is None:
        return None
    names = {"channel"} if env_kwargs.get("channel") is not None else set()
    names |= {"calls"} if tools is not None else set()
    toolrl = isinstance(tools, Mapping) and tools.get("scheme") == "toolrl"
    return names | ({"format", "match"} if toolrl else set())


def _with_added(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """The dict of an episode in which everybody's `added_terms` are told, as releases now do."""
    kwargs = data.get("env_kwargs")
    names = terms_of_wrappers(kwargs) if isinstance(kwargs, Mapping) else None
    if names is None:
        return data

    def told(pay: Any) -> Any:
        terms = pay.get("reward_terms") if isinstance(pay, Mapping) else None
        if not isinstance(terms, Mapping) or "added_terms" in pay:
            return pay
        return {**pay, "added_terms": {name: terms[name] for name in terms if name in names}}

    turns, idle = data.get("turns"), data.get("idle")
    return {
        **data,
        "turns": [told(turn) for turn in turns] if isinstance(turns, list) else turns,
        "idle": {agent: told(one) for agent, one in idle.items()}
        if isinstance(idle, Mapping)
        else idle,
    }


def _turn_to_dict(turn: Turn, tokens: bool, priced: bool) -> dict[str, Any]:
    response = turn.response
    answer: dict[str, Any] = {"text": response.text, "cut": response.cut, "policy": response.policy}
    if tokens and response.completion_ids is not None:
        answer["prompt_ids"] = response.prompt_ids
        answer["completion_ids"] = response.completion_ids
        answer["logprobs"] = response.logprobs
        counted = response.usage
    else:
        counted = response.tokens
    if counted is not None:
        answer["usage"] = list(counted)
    if response.written:
        answer["written"] = response.written
    return {
        "agent": turn.agent,
        "index": turn.index,
        "messages": [_message_as_list(message) for message in turn.messages],
        "response": answer,
        **_pay_to_dict(turn, priced),
        "team_reward": turn.team_reward,
        "info": plain(turn.info),
        **({"given": True} if turn.given else {}),
    }


def _message_as_list(message: Message) -> list[str]:
    return [message.role, message.content, *([message.result_of] if message.result_of else [])]


def plain(value: Any) -> Any:
    """`value` as JSON can hold it: numpy numbers and arrays unpacked, the unknown by its `repr`.

    Environments of others put anything into `info`; a transcript must not fail on it. An address in
    a `repr` is left out: the same episode reads the same in every process.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    if isinstance(value, (set, frozenset)):
        return [plain(entry) for entry in sorted(value, key=repr)]
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if isinstance(value, (np.generic, np.ndarray)):
        return plain(value.tolist())
    if isinstance(value, str):
        return str(value)
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return ADDRESS.sub("", repr(value))


def episode_from_dict(data: Mapping[str, Any]) -> Episode:
    """The inverse of `episode_to_dict`.

    Raises:
        ValueError: another transcript version, no agents, or a field is missing or of the wrong
            kind.
    """
    if not isinstance(data, Mapping):
        raise ValueError(f"expected the object of an episode, got {type(data).__name__}")
    if data.get("version") != TRANSCRIPT_VERSION:
        raise ValueError(
            f"transcript version {data.get('version')!r:.80}: this release reads "
            f"{TRANSCRIPT_VERSION}"
        )
    try:
        data = _set_apart(data) if "apart" in data else data
    except (AttributeError, LookupError, TypeError) as error:
        raise ValueError(f"transcript: `apart` names what is not there: {error!s:.80}") from error
    episode: Episode = from_json(Episode, _with_added(data), "transcript", nan=True)
    if not episode.agents:
        raise ValueError("transcript: an episode without agents")
    return episode


def write_jsonl(path: str | Path, episodes: Iterable[Episode], *, tokens: bool = False) -> None:
    """Write a transcript, one episode a line; an existing file is replaced at once, never half.

    What JSON cannot hold in `info` or `env_kwargs` is written as `plain` says.
    """
    with replacing(path) as partial, open(partial, "w", encoding="utf-8") as file:
        for episode in episodes:
            file.write(json.dumps(episode_to_dict(episode, tokens=tokens)) + "\n")


def read_jsonl(path: str | Path) -> Iterator[Episode]:
    """Read a transcript written by `write_jsonl`.

    Raises:
        ValueError: a line is no JSON or no transcript; the message names the file and line.
    """
    with open(path, "rb") as file:  # decoded line by line, so that an error has its line
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield episode_from_dict(json_of(line))
            except ValueError as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
