"""(environments, team, tasks, seeds) -> episodes: the one place that drives environments.

Many episodes advance in lockstep: every acting (episode, agent) is gathered, each policy is asked
once for all of its seats, then the environments step. Owns the chat that a policy sees where the
environment sends bare strings, and what becomes of an episode whose environment raises. No
gradients, no reward arithmetic.
"""

from __future__ import annotations

import errno
import socket
import ssl
import traceback
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, TypeVar, get_args
from urllib.error import URLError

from pettingzoo import AECEnv

from llm_marl_envs.core.checks import refuse_other
from llm_marl_envs.core.environment import TextEnv, task_source
from llm_marl_envs.core.errors import WorkFailedError
from llm_marl_envs.core.forms import acting, as_played
from llm_marl_envs.core.outcome import added, paid, summed
from llm_marl_envs.core.records import (
    Episode,
    Idle,
    Redraw,
    Request,
    Response,
    StopReason,
    Turn,
    countable,
)
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.specs import env_arguments, env_name
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.files.json_files import finite
from llm_marl_envs.play.branches import RecordedActions
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Team, ask, check_team
from llm_marl_envs.sandbox import SandboxError

Context = Literal["append", "fresh"]
CONTEXTS = get_args(Context)
NEWLINES = ("\n", "\r")
LONGEST_FAILURE = 20_000
"""Characters of a traceback that are kept, half of them from its end."""
INFRASTRUCTURE = (
    *(BrokenExecutor, ConnectionError, SandboxError, TimeoutError),
    *(socket.gaierror, socket.herror, ssl.SSLError),
)
"""What an environment raises where something outside of it broke: a pool, a server, the sandbox,
the network; `of_outside` knows the numbers of the system's other errors.

It says nothing of what agents did, and no text of an agent may lead to it. All else that an
environment raises is its own, a file that is not there, too.
"""
NETWORK = frozenset(
    {errno.ENETDOWN, errno.ENETUNREACH, errno.ENETRESET, errno.EHOSTDOWN, errno.EHOSTUNREACH}
    | {errno.EADDRNOTAVAIL, errno.ENOTCONN, errno.ENOBUFS, errno.EPROTO}
)
"""Numbers of an `OSError` that come of the network, beside those with a class of their own."""
REPEATS = 2
"""How often a measurement plays an episode again that ended so."""

T = TypeVar("T")


def of_outside(error: object) -> bool:
    """Whether what an environment raised is of `INFRASTRUCTURE` or `NETWORK`, also inside urllib's.

    An error that a server answers with is not: the environment may have asked for the wrong thing.
    """
    if isinstance(error, URLError):
        return of_outside(error.reason)
    network = isinstance(error, OSError) and error.errno in NETWORK
    return network or isinstance(error, INFRASTRUCTURE)


def appends(context: Context) -> bool:
    """Whether an agent's bare observations add to one chat; else each begins its own."""
    return context == "append"


class EpisodesFailedError(WorkFailedError):
    """So many environments raised that there is nothing, or too little, to go on with."""


class Failures:
    """Lets a rollout go on where an environment raises: that episode fails, the others play on.

    What counts is any `Exception` that comes of driving one environment: out of `reset`, `step` or
    `observe`, or because what they return is no observation, reward or info. What a policy raises
    is no failure of an episode.

    Learning drops such an episode. A measurement counts it (`records.measured`), so it refuses what
    cannot be counted, and plays again what `INFRASTRUCTURE` ended.

    Args:
        make_env: makes a fresh environment. It takes the place of the copy that raised, which may
            be in any state.
        repeats: how often an episode that `INFRASTRUCTURE` ended is played again, from its start.

    Attributes:
        first: what was raised first, in the order of the episodes; None so far.
        uncounted: the first that leaves an episode without a floor; None so far.
    """

    def __init__(self, make_env: Callable[[], Any], repeats: int = 0) -> None:
        self.make_env = make_env
        self.repeats = repeats
        self.first: Exception | None = None
        self.uncounted: Exception | None = None

    def refuse_if_all(self, episodes: Sequence[Episode]) -> None:
        """Check that some episode was played to its end.

        Raises:
            Exception: none was; what the first environment raised, with a note that says so.
            EpisodesFailedError: none was, and the first one failed in another process.
        """
        if episodes and all(episode.failed for episode in episodes):
            note = f"none of {len(episodes)} episodes was played to its end: the environment raised"
            raise _noted(self.first, episodes[0], note)

    def refuse_uncounted(self, episodes: Sequence[Episode]) -> None:
        """Check that a measurement can count every episode that failed.

        Raises:
            Exception: one has no floor; what its environment raised, with a note that says why.
            EpisodesFailedError: one has none, and it failed in another process.
        """
        lost = [episode for episode in episodes if not countable(episode)]
        if not lost:
            return
        note = (
            "an environment that raises is counted at the smallest return that it declares, and "
            "it declares no `reward_range`"
        )
        if of_outside(self.uncounted):
            note = f"something outside of the environment broke, {1 + self.repeats} times"
        raise _noted(self.uncounted, lost[0], note)


def _noted(error: Exception | None, first: Episode, note: str) -> Exception:
    """What an environment raised, with a note; where it is lost, an error with the record's."""
    if error is None:
        return EpisodesFailedError(f"{note}. The first: {failure_of(first)}")
    error.add_note(f"{note} ({failure_name(first)})")
    return error


def failure_of(episode: Episode) -> str:
    """A failed episode's task, reset seed and traceback, to be read."""
    return f"{failure_name(episode)}\n\n{episode.failure}"


def failure_name(episode: Episode) -> str:
    """Environment, task and reset seed."""
    return f"{episode.env_id}, task {episode.task_id!r}, reset seed {episode.seed}"


@dataclass(slots=True)
class _Pay:
    """What an agent was paid while it is still arriving.

    Attributes:
        of_task: what the task paid of it, by name; None where nobody can tell, and all is its but
            for `beside`.
        beside: what something around the task paid and said so.
    """

    reward: float = 0.0
    reward_terms: dict[str, float] = field(default_factory=dict)
    of_task: dict[str, float] | None = None
    beside: dict[str, float] = field(default_factory=dict)

    def add(
        self, reward: float, of_task: Mapping[str, float] | None, beside: Mapping[str, float]
    ) -> None:
        """Book what a step paid."""
        self.reward += reward
        self.beside = summed(self.beside, beside)
        if of_task is not None:
            self.of_task = summed(self.of_task or {}, of_task)

    def idle(self) -> Idle:
        """The record of an agent that took no action."""
        return Idle(**self.fields())

    def fields(self) -> dict[str, Any]:
        """What records of pay hold, by name."""
        return {
            "reward": self.reward,
            "reward_terms": self.reward_terms,
            "added_terms": self.beside
            if self.of_task is None
            else added(self.reward, self.reward_terms, self.of_task),
        }


@dataclass(slots=True)
class _Draft:
    """A turn whose reward is still arriving."""

    agent: str
    index: int
    messages: tuple[Message, ...]
    response: Response
    given: bool
    step: int
    state: str | None
    paid: _Pay
    team_reward: float = 0.0
    info: dict[str, Any] = field(default_factory=dict)

    def turn(self) -> Turn:
        """The record so far; its fields have the same names."""
        own = {name: getattr(self, name) for name in self.__slots__ if name != "paid"}
        return Turn(**own, **self.paid.fields())


class _Live:
    """One running episode of either PettingZoo form; `keep` makes what it raises its end.

    `states`: whether turns hold what the environment's `state()` said before them.
    """

    def __init__(
        self, env: Any, start: Start, context: Context, *, keep: bool, states: bool = False
    ) -> None:
        env = as_played(env)
        self.env, self.start, self.keep = env, start, keep
        self.sheets = getattr(env.unwrapped, "tool_sheets", {})
        self.states = states
        self.state: str | None = None
        self.recorded = RecordedActions(start)
        self.redraws: list[Redraw] = []
        self.steps = 0
        self.context: Context = context
        self.error: Exception | None = None
        # Of an episode that failed.
        self.failure: str | None = None
        self.aec = isinstance(env, AECEnv)
        self.drafts: list[_Draft] = []
        # Each agent's own, so that long episodes of many agents stay linear.
        self.taken: dict[str, list[_Draft]] = {a: [] for a in env.possible_agents}
        self.early: dict[str, _Pay] = {}  # what arrives for an agent before its first action
        self.chats: dict[str, list[Message]] = {a: [] for a in env.possible_agents}
        self.seen: dict[str, str] = {}
        self.success: bool | None = None
        self.truncated = False
        self.observations: dict[str, str] = {}
        self.task_id = ""
        # Reward terms that are booked: an info may stand unchanged through several steps.
        self.booked: dict[str, tuple[Any, dict[str, float]]] = {}
        self.guarded(self._begin, None)

    def guarded(self, act: Callable[[], T], otherwise: T) -> T:
        """What driving the environment gives; `otherwise` once it has raised and that is kept."""
        if self.error is not None:
            return otherwise
        try:
            return act()
        except Exception as error:  # an environment may raise anything; it is kept in the record
            if not self.keep:
                raise
            self.error, self.failure = error, _shortened(error)
            return otherwise

    def _begin(self) -> None:
        env, start = self.env, self.start
        options = None if start.task is None else {"task": start.task}
        first = env.reset(seed=start.seed, options=options)
        self.observations = {} if self.aec else first[0]
        infos = env.infos if self.aec else first[1]
        self.task_id = str(next((i["task_id"] for i in infos.values() if "task_id" in i), ""))

    def requests(self, number: int) -> list[Request]:
        """What the agents that act now are asked; `number` is the episode's in the rollout."""
        requests, pending, name = [], self.pending(), env_name(self.env)
        if self.states and pending:
            self.state = self._state()
        for agent in pending:
            if agent not in self.chats:
                raise ValueError(
                    f"{name} wants an action of {agent!r}; its agents are {list(self.chats)}"
                )
            turn = len(self.taken[agent])
            before = self._open(agent)
            requests.append(
                Request(
                    env_id=name,
                    agent=agent,
                    turn=turn,
                    episode=number,
                    task_id=self.task_id,
                    messages=self.messages(agent),
                    observation=str(self.observations[agent]),
                    seed=self.start.action_seed(agent, turn),
                    seat_seed=self.start.seat_seed(agent),
                    before=before.turn() if before is not None and before.given else None,
                    tools=self.sheets.get(agent),
                )
            )
        return requests

    def _state(self) -> str:
        state = self.env.state()
        if not isinstance(state, str):
            raise TypeError(
                f"state() of {env_name(self.env)}: expected str, got {type(state).__name__}"
            )
        return state

    def pending(self) -> list[str]:
        """The agents to act now; dead agents of an AEC environment are stepped over."""
        agents = acting(self.env)
        if self.aec:
            self.observations = {agent: self.env.observe(agent) for agent in agents}
        return agents

    def messages(self, agent: str) -> tuple[Message, ...]:
        """The chat `agent` sees: the observation's own, or one built from bare strings."""
        if agent not in self.observations:
            raise ValueError(
                f"{env_name(self.env)} sent no observation for {agent}, which is to act; "
                f"there are some for {sorted(self.observations)}"
            )
        observation = self.observations[agent]
        own = getattr(observation, "messages", None)
        if own is not None:
            return own
        if not isinstance(observation, str):
            raise TypeError(
                f"observation of {agent}: expected str, got {type(observation).__name__}; "
                "only text environments can be rolled out, without `Choose` and `Tokenize`"
            )
        if not appends(self.context):
            return (Message("user", observation),)
        shown = _news(self.seen.get(agent, ""), observation)
        self.chats[agent].append(Message("user", shown))
        self.seen[agent] = observation
        return tuple(self.chats[agent])

    def replayed(self, requests: Sequence[Request]) -> dict[str, Response]:
        """Agent -> its recorded response, in a branch; errors as `RecordedActions.responses`."""
        if not self.recorded.on:
            return {}
        rewards = {(draft.agent, draft.index): draft.paid.reward for draft in self.drafts}
        return self.recorded.responses(requests, rewards)

    def note(
        self, agent: str, messages: tuple[Message, ...], response: Response, given: bool
    ) -> None:
        """Record an action before the environment judges it."""
        early = self.early.pop(agent, None) or _Pay()
        index = len(self.taken[agent])
        draft = _Draft(agent, index, messages, response, given, self.steps, self.state, early)
        self.drafts.append(draft)
        self.taken[agent].append(draft)
        self.chats[agent].append(Message("assistant", response.text))

    def step(self, actions: Mapping[str, str]) -> None:
        """Step the environment and book what it paid."""
        redraw = self.recorded.redraw(self.steps)
        self.steps += 1
        if redraw is not None:
            self.env.unwrapped.redraw(redraw.seed)
            self.redraws.append(redraw)
        if self.aec:
            self.env.step(next(iter(actions.values())))
            pays, infos = self.env.rewards, self.env.infos
            self.truncated |= any(self.env.truncations.values())
        else:
            self.observations, pays, _, cut, infos = self.env.step(actions)
            self.truncated |= any(cut.values())
        # The team's number is a mean over all seats, and it reaches those that have left: what the
        # team earns later is a consequence of what they did.
        seats, rewards = self.env.possible_agents, self._rewards(actions, pays)
        team = sum(rewards.values()) / len(seats)
        of_task, beside = self._task_pay()
        for agent in seats:
            own = None if of_task is None else of_task.get(agent, {})
            self._pay(agent, team, rewards.get(agent, 0.0), own, beside.get(agent, {}))
        for agent in rewards:
            self._inform(agent, infos.get(agent, {}))

    def _rewards(self, actions: Mapping[str, str], pays: Mapping[str, Any]) -> dict[str, float]:
        """What a step pays, checked before any of it is booked.

        Raises:
            ValueError: no finite number; or none for an agent that has just acted or, where agents
                act in turn, for one that is in play.
        """
        due = self.env.agents if self.aec else actions
        lost = [agent for agent in due if agent not in pays]
        if lost:
            there = f"the step paid {[*pays]}"
            raise ValueError(f"no reward of {lost[0]}, turn {self._turn(lost[0])}: {there:.120}")
        return {agent: paid(reward, agent, self._turn(agent)) for agent, reward in pays.items()}

    def _turn(self, agent: str) -> int:
        """The number of an agent's last action, -1 before its first."""
        return len(self.taken.get(agent, ())) - 1

    def _open(self, agent: str) -> _Draft | None:
        """The agent's last action, to which what comes now belongs."""
        taken = self.taken.get(agent)
        return taken[-1] if taken else None

    def _task_pay(
        self,
    ) -> tuple[dict[str, dict[str, float]] | None, dict[str, dict[str, float]]]:
        """What the task, and what stands around it, paid since the last step.

        The environment is asked for it inside all wrappers, so what these pay is told apart
        whatever they say. None where only the environment could tell what the task paid.
        """
        inner = self.env.unwrapped
        if not isinstance(inner, TextEnv) or not {*self.chats} <= {*inner.possible_agents}:
            return None, {}
        return inner.task_pay(), inner.added_pay()

    def _pay(self, agent: str, team: float, *paid: Any) -> None:
        """Book what a step paid the team, and the agent as `_Pay.add` takes it."""
        draft = self._open(agent)
        if draft is None:
            # What the team earned before is no consequence of this agent's actions.
            self.early.setdefault(agent, _Pay()).add(*paid)
            return
        draft.paid.add(*paid)
        draft.team_reward += team

    def _inform(self, agent: str, info: Mapping[str, Any]) -> None:
        draft = self._open(agent)
        rest = dict(info)
        terms = dict(rest.pop("reward_terms", {}))
        of, booked = self.booked.get(agent, (None, {}))
        if of is not info or booked != terms:
            to = self.early.setdefault(agent, _Pay()) if draft is None else draft.paid
            for name, value in terms.items():
                part = paid(value, agent, self._turn(agent), f"reward {name!r}")
                to.reward_terms[name] = to.reward_terms.get(name, 0.0) + part
            self.booked[agent] = (info, terms)
        if draft is None:
            return
        draft.info = rest
        if rest.get("success") is not None:
            self.success = bool(rest["success"])

    def episode(self) -> Episode:
        """The finished record."""
        return Episode(
            env_id=env_name(self.env),
            env_kwargs=env_arguments(self.env),
            task_id=self.task_id or ("" if self.error is None else _task_named(self)),
            seed=self.start.seed,
            agents=tuple(self.env.possible_agents),
            turns=tuple(draft.turn() for draft in self.drafts),
            stop_reason=self._stop_reason(),
            success=self.success if self.error is None else None,
            failure=self.failure,
            floor=self.floor,
            branch=self.start.branch,
            redraws=tuple(self.redraws),
            idle={
                agent: early.idle()
                for agent, early in self.early.items()
                if early.reward or any(early.reward_terms.values())
            },
        )

    @property
    def broken(self) -> bool:
        """Whether something outside of the environment ended it."""
        return of_outside(self.error)

    @property
    def floor(self) -> float | None:
        """What a measurement counts the episode at, where it failed by the environment's doing."""
        return None if self.error is None or self.broken else floor_of(self.env)

    def _stop_reason(self) -> StopReason:
        if self.error is not None:
            return StopReason.FAILED
        return StopReason.TRUNCATED if self.truncated else StopReason.TERMINATED


def floor_of(env: Any) -> float | None:
    """The smallest return of an episode that an environment declares, None where it declares none.

    What wrappers may charge is left out. A stranger's `reward_range` may be anything, (-inf, inf)
    too.
    """
    inner = getattr(env, "unwrapped", env)
    declared = getattr(inner, "task_range", None) or getattr(inner, "reward_range", None)
    if not isinstance(declared, (tuple, list)) or len(declared) != 2 or not finite(declared[0]):
        return None
    return float(declared[0])


def _shortened(error: Exception) -> str:
    """The traceback of an error as text; the middle of a very long one is left out."""
    text = "".join(traceback.format_exception(error))
    half, left = LONGEST_FAILURE // 2, len(text) - LONGEST_FAILURE
    return text if left <= 0 else f"{text[:half]}\n[{left} characters]\n{text[-half:]}"


def _task_named(live: _Live) -> str:
    """The task of an episode whose environment did not come to say it, "" if nobody can."""
    task = live.start.task
    if task is None or isinstance(task, str):
        return task or ""
    if isinstance(task, Task):
        return task.id
    with suppress(Exception):  # the tasks themselves may be what raised
        source = task_source(live.env)
        return "" if source is None else source[task].id
    return ""


def _news(before: str, observation: str) -> str:
    """The lines that an observation adds to the one before; all of it where it adds none.

    A cut inside a line would show "2" where "Score: 1" became "Score: 12", and an observation that
    did not change would be an empty message.
    """
    rest = observation.removeprefix(before)
    whole_lines = before.endswith(NEWLINES) or rest.startswith(NEWLINES)
    return rest if whole_lines and rest.strip() else observation


def rollout(
    copies: VectorTextEnv,
    team: Team,
    starts: Sequence[Start],
    *,
    context: Context = "append",
    progress: Callable[[int], object] | None = None,
    chunks: int = 1,
    failures: Failures | None = None,
    states: bool = False,
) -> list[Episode]:
    """Play one episode per start.

    Args:
        copies: environment copies; as many episodes run at once.
        team: agent -> policy, for every agent.
        starts: one per episode. One with a record goes on from there: what was said before is
            played again, no policy being asked, and what the environment shows and pays must be
            what the record holds.
        context: for environments that send bare strings: "append" keeps the chat and adds each
            observation, or only its new lines where it is the one before with lines added; "fresh"
            shows the last observation alone.
        progress: called with the number of episodes just finished.
        chunks: parts into which the episodes that run at once are divided; each policy is asked for
            one part while the environments of the others step, if these block. The episodes are the
            same for any number, as long as an answer does not depend on its neighbours in a batch.
        failures: makes of an environment that raises a failed episode (`StopReason.FAILED`) with
            what was played so far and the traceback, and says what is played again; None raises it.
        states: whether turns hold what the environment's `state()` said before the step, a text.

    Returns:
        Episodes in the order of `starts`.

    Raises:
        ValueError: the team does not fit, an unknown context, a policy that answers another
            number of requests than it got, or a live agent without an observation.
        TypeError: observations or states that are no text, or answers that are no `Response`.
        NotReplayableError: the environment does not come to where a branch leaves its record, or
            comes there otherwise.
        Exception: what an environment raises, where `failures` is None.
    """
    refuse_other("context", context, CONTEXTS)
    if not (isinstance(chunks, int) and chunks >= 1):
        raise ValueError(f"chunks must be a whole number >= 1, got {chunks!r}")
    _check(copies.envs[0], team, starts)
    episodes: list[Episode] = []
    for first in range(0, len(starts), len(copies)):
        wave = starts[first : first + len(copies)]
        begun = partial(_Live, context=context, keep=failures is not None, states=states)
        live = [begun(copies.envs[i], start) for i, start in enumerate(wave)]
        play = partial(_play, copies, live, team, first, chunks)
        play()
        if failures is not None:
            _play_again(copies, live, begun, play, failures)
        _settle(copies, live, failures)
        episodes += [running.episode() for running in live]
        if progress is not None:
            progress(len(wave))
    return episodes


def _check(env: Any, team: Team, starts: Sequence[Start]) -> None:
    """Refuse, before anything is played, what does not fit together."""
    seats = getattr(env, "possible_agents", None)
    if seats is None:
        raise TypeError(f"{type(env).__name__} has no `possible_agents`; a rollout needs all seats")
    check_team(team, seats)
    if any(map(_draws_anew, starts)) and not redraws(env):
        raise TypeError(
            f"{env_name(env)} has no redraw(seed): what chance deals after a branch can be drawn "
            "anew in environments of this library only; use chance='group'"
        )


def _draws_anew(start: Start) -> bool:
    record = start.record.redraws if start.record is not None else start.redraws
    return start.chance is not None or bool(record)


def redraws(env: Any) -> bool:
    """Whether chance can be drawn anew in the middle of an episode; see `TextEnv.redraw`."""
    return hasattr(getattr(env, "unwrapped", env), "redraw")


def _play_again(
    copies: VectorTextEnv,
    live: list[_Live],
    begun: Callable[..., _Live],
    play: Callable[[], None],
    failures: Failures,
) -> None:
    """Play what `INFRASTRUCTURE` ended from its start, in fresh environments."""
    for _ in range(failures.repeats):
        broken = [place for place, running in enumerate(live) if running.broken]
        for place in broken:
            copies.replace(place, failures.make_env())
            live[place] = begun(copies.envs[place], live[place].start)
        if broken:  # the others are at their ends and stay there
            play()


def _settle(copies: VectorTextEnv, live: Sequence[_Live], failures: Failures | None) -> None:
    """Check that branches left their records; fresh environments for those that raised."""
    for place, running in enumerate(live):
        if running.error is None:
            running.recorded.check_left(running.task_id)
        elif failures is not None:
            _replace_failed(copies, place, running, failures)


def _replace_failed(copies: VectorTextEnv, place: int, running: _Live, failures: Failures) -> None:
    """A fresh environment for one that raised, before the next episode begins there."""
    if failures.first is None:
        failures.first = running.error
    if failures.uncounted is None and running.floor is None:
        failures.uncounted = running.error
    try:
        copies.replace(place, failures.make_env())
    except Exception as error:  # noqa: BLE001 - kept in the record
        replacing = f"While the environment was replaced:\n{_shortened(error)}"
        running.failure = f"{running.failure}\n{replacing}"


def _play(
    copies: VectorTextEnv, live: Sequence[_Live], team: Team, first: int, chunks: int
) -> None:
    """Play the episodes to their ends; chunks take turns in a fixed order, whatever is faster."""
    size = -(-len(live) // chunks)
    waiting: deque[tuple[range, list[Callable[[], None]]]] = deque(
        (range(start, min(start + size, len(live))), []) for start in range(0, len(live), size)
    )
    try:
        while waiting:
            part, steps = waiting[0]
            while steps:
                steps.pop(0)()
            actions = _ask(live, part, team, first)
            waiting.popleft()
            if actions:
                step = partial(_step, live, actions)
                waiting.append((part, copies.submit(step, [*actions])))
    finally:
        # After an error no step goes on behind the caller's back; the first one is raised.
        for _, steps in waiting:
            for step in steps:
                with suppress(Exception):
                    step()


def _step(live: Sequence[_Live], actions: Mapping[int, Mapping[str, str]], index: int) -> None:
    live[index].guarded(partial(live[index].step, actions[index]), None)


def _ask(
    live: Sequence[_Live], part: Sequence[int], team: Team, first: int
) -> dict[int, dict[str, str]]:
    """Ask each policy once for what is pending in a part; position in `live` -> joint action."""
    pending: list[tuple[int, Request]] = []
    recorded: dict[int, dict[str, Response]] = {}
    for position in part:
        running = live[position]
        requests = running.guarded(partial(running.requests, first + position), [])
        pending += [(position, request) for request in requests]
        recorded[position] = running.replayed(requests)
    asked = [request for place, request in pending if request.agent not in recorded[place]]
    answers = iter(ask(team, asked))
    actions: dict[int, dict[str, str]] = {}
    for position, request in pending:
        replayed = recorded[position].get(request.agent)
        response = next(answers) if replayed is None else replayed
        live[position].note(request.agent, request.messages, response, replayed is not None)
        actions.setdefault(position, {})[request.agent] = response.text
    return actions
