"""`check_text_env`: the contract of a text environment, shipped so that others can use it.

PettingZoo's own tests pass environments that are not deterministic after the first step, touch the
global random state or send observations outside of their space; these checks close the gaps.
"""

from __future__ import annotations

import copy
import hashlib
import math
import pickle
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from llm_marl_envs.core.experts import find_experts
from llm_marl_envs.core.records import Episode, Request, Response, Turn
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.core.spaces import Message, Observation, render_messages
from llm_marl_envs.play.demonstrations import demonstrations
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies.base import Policy
from llm_marl_envs.policies.expert import AgreedPolicy, ExpertPolicy
from llm_marl_envs.policies.scripted import RandomPolicy, ScriptedPolicy

# Model text that has broken parsers: empty, newlines, any script, controls, a lone surrogate,
# unclosed constructs. An environment answers each with a reward, never an exception.
JUNK = (
    "",
    "\n\n\n",
    "naïve “quotes” — 漢字 🦜",
    "\x00\x1b[31m",
    "\ud800",
    "```python\ndef",
    "(" * 5000,
    "}{{%s}",
)
REWARD_TOLERANCE = 1e-9
LEAST_ABOVE = 3
"""Episodes above their bounds that no chance explains, if all are."""
FIRST_MARK = 0x2C00
"""A letter of an alphabet that no environment writes in; its neighbours are more of them."""


def check_text_env(
    make_env: Callable[[], Any],
    *,
    solution: Callable[[Any], Mapping[str, Policy]] | None = None,
    solution_return: float | None = None,
    seeds: Sequence[int] = (0, 1, 2),
    say: Callable[[str], object] = print,
) -> None:
    """Check an environment against the contract, and say what was checked.

    Args:
        make_env: returns a fresh environment, parallel or AEC.
        solution: environment -> a team that solves it.
        solution_return: the exact undiscounted return per agent that the solution earns.
        seeds: reset seeds to try.
        say: is given what was checked, a text of some lines, once all held.

    Raises:
        AssertionError: what is broken, in words. What the environment itself raises while it is
            played passes through: an action of any text must never raise.
    """
    _check_declared(make_env())
    policies: list[Policy] = [RandomPolicy(), *(ScriptedPolicy(lambda r, j=j: j) for j in JUNK)]
    for seed in seeds:
        _check_first(make_env(), seed)
        for policy in policies:
            _check_pair(make_env, policy, seed)
    _check_misuse(make_env)
    env = make_env()
    teams = _experts(env, seeds)
    lines = [_played(env, name, team, seeds) for name, team in teams.items()]
    lines = lines or ["no scripted experts"]
    if solution is not None:
        judge = partial(_check_solution, expected=solution_return)
        lines.append(_played(env, "the solution", solution(env), seeds, judge))
    lines.append(_check_speech(make_env(), seeds[:1]))
    said = "\n".join(f"- {line}" for line in lines)
    say(
        f"{env.unwrapped.metadata['name']} holds on the reset seeds {[*seeds]}: spaces, chats, "
        f"infos, terms that sum to rewards,\nequal episodes of equal seeds and actions, "
        f"random text, {len(JUNK)} hostile texts, actions that are no text.\n{said}"
    )


def _check_declared(env: Any) -> None:
    """What an environment says of itself before it is played."""
    inner = env.unwrapped
    assert "name" in inner.metadata, "metadata lacks 'name'"
    low, high = inner.reward_range
    assert low < high, f"reward_range {(low, high)} is empty"
    for agent in env.possible_agents:
        role, _, number = agent.rpartition("_")
        assert role and number.isdecimal(), f"agent {agent!r}: expected <role>_<int>"
        for space in (env.observation_space, env.action_space):
            assert space(agent) is space(agent), "spaces must be kept, not made at each call"
    experts = find_experts(inner)
    if experts is not None and experts.conventions(inner.source[0]):
        assert demonstrations(inner, 2, 0) == demonstrations(inner, 2, 0), (
            "demonstrations depend on more than their seed"
        )


def _check_first(env: Any, seed: int) -> None:
    """The observations of `reset`, as objects, and its infos."""
    returned = env.reset(seed=seed)
    turn_based = hasattr(env, "agent_selection")
    infos = env.infos if turn_based else returned[1]
    for agent in env.possible_agents:
        seen = env.observe(agent) if turn_based else returned[0][agent]
        assert isinstance(seen, Observation), f"{agent}: expected Observation, got {type(seen)}"
        for duplicate in (copy.deepcopy(seen), pickle.loads(pickle.dumps(seen))):
            assert duplicate == seen and duplicate.messages == seen.messages, (
                f"{agent}: the observation does not survive a copy"
            )
        assert infos[agent].get("task_id"), f"{agent}: the first info lacks task_id"
    assert env.state_space.contains(env.state()), "state() is not in state_space"


def _experts(env: Any, seeds: Sequence[int]) -> dict[str, Mapping[str, Policy]]:
    """Name -> team of scripted experts, with conventions of their own and with one; or nothing."""
    experts, inner = find_experts(env), env.unwrapped
    if experts is None:
        return {}
    try:
        for seed in seeds:
            env.reset(seed=seed)
            for agent in inner.possible_agents:
                experts.first(inner.task, agent, (*experts.conventions(inner.task), "")[0])
    except ValueError:  # there are none for this form or these tasks
        return {}
    teams: dict[str, Policy] = {
        "experts": ExpertPolicy(env),
        "experts who agree": AgreedPolicy(env),
    }
    return {name: dict.fromkeys(env.possible_agents, policy) for name, policy in teams.items()}


def _played(
    env: Any,
    name: str,
    team: Mapping[str, Policy],
    seeds: Sequence[int],
    judge: Callable[[Episode], None] = lambda episode: None,
) -> str:
    """One episode for each seed: returns against the range and the bounds; what came of it."""
    returns, above, solved = [], [], []
    for seed in seeds:
        episode = rollout(VectorTextEnv([env]), team, [Start(seed=seed, sample_seed=seed)])[0]
        judge(episode)
        _check_range(episode, env.unwrapped)
        for turn in episode.turns:
            _check_turn(turn)
        above.append(_above(episode, env.unwrapped))
        returns.append(episode.team_task_return)
        solved += [] if episode.success is None else [episode.success]
    low, high = env.unwrapped.reward_range
    line = f"{name}: returns {min(returns):g} to {max(returns):g}, in reward_range {low:g} to "
    line += f"{high:g}; {_check_bounds([one for one in above if one is not None], name)}"
    return line + (f"; solved {sum(solved)} of {len(solved)}" if solved else "")


def _check_range(episode: Episode, env: Any) -> None:
    low, high = env.reward_range
    for agent in episode.agents:
        paid = episode.undiscounted_return(agent)
        assert low - REWARD_TOLERANCE <= paid <= high + REWARD_TOLERANCE, (
            f"{agent} returned {paid}, outside of the documented range {(low, high)}"
        )


def _above(episode: Episode, env: Any) -> float | None:
    """How far the team came above the best of `bounds`; None where there are none."""
    try:
        bounds = env.bounds(env.task)
    except (AttributeError, ValueError):
        return None
    order = bounds.random, bounds.solo, bounds.team
    assert all(map(math.isfinite, order)) and bounds.solo <= bounds.team + REWARD_TOLERANCE, (
        f"bounds of task {env.task.id}: (random, solo, team) are {order}"
    )
    return episode.team_task_return - bounds.team


def _check_bounds(above: Sequence[float], name: str) -> str:
    """What was seen of the bounds. Where chance deals these are means, so one above says little."""
    if not above:
        return "no bounds()"
    assert len(above) < LEAST_ABOVE or min(above) <= REWARD_TOLERANCE, (
        f"{name} returned more than the best of bounds() in each of {len(above)} episodes, by "
        f"{min(above):g} and more"
    )
    return f"{max(above):+g} at most from the best of bounds()"


class _Mute:
    """A `Line` through which nothing arrives; keeps who was to hear whom."""

    def __init__(self) -> None:
        self.pairs: set[tuple[str, str]] = set()

    def carry(self, speaker: str, text: str, listeners: Sequence[str]) -> dict[str, str]:
        """Empty texts."""
        self.pairs |= {(listener, speaker) for listener in listeners}
        return dict.fromkeys(listeners, "")

    def bill(self) -> dict[str, tuple[int, float]]:
        """Nothing was sent."""
        return {}

    def redraw(self, seed: int) -> None:
        """Nothing is drawn."""


def _check_speech(env: Any, seeds: Sequence[int]) -> str:
    """Whether what `links` names goes through `pass_on`, and nothing else of it is shown."""
    inner, mute = env.unwrapped, _Mute()
    try:
        links = inner.links()
    except ValueError as error:
        return f"links(): {error}"
    if not links:
        return "no links(): nobody is shown what another one wrote"
    named = {(listener, speaker) for listener, by in links.items() for speaker in by}
    inner.channel = lambda seed: mute
    marks = {agent: chr(FIRST_MARK + place) for place, agent in enumerate(env.possible_agents)}
    starts = [Start(seed=seed, sample_seed=seed) for seed in seeds]
    experts = _experts(env, seeds).get("experts", {})
    for texts in ({}, experts):
        witness = _Witness(_Marking(marks, texts))
        rollout(VectorTextEnv([env]), dict.fromkeys(marks, witness), starts)
        if texts and named - mute.pairs:  # their mark may have ended it early
            rollout(VectorTextEnv([env]), texts, starts)
        for request in witness.requests:
            told = "".join(m.content for m in request.messages if m.role != "assistant")
            for speaker, mark in marks.items():
                assert speaker == request.agent or mark not in told, (
                    f"{request.agent} was shown what {speaker} wrote where nothing arrives: show "
                    "what `pass_on` returns, not the text itself"
                )
    more, never = sorted(mute.pairs - named), sorted(named - mute.pairs)
    assert not more, f"{more[0][1]} passed a text on to {more[0][0]}, and links() has no such pair"
    assert inner.links_drawn or not never, (
        f"links() says that {never[0][0]} is shown texts of {never[0][1]}, and none was handed to "
        "`pass_on`"
    )
    pairs = f"{len(mute.pairs)} pair{'s' * (len(mute.pairs) != 1)}"
    return f"texts of {pairs} of links() went through pass_on, and no other way"


class _Marking:
    """Random text, or that of a team, with a mark of its seat.

    Args:
        marks: agent -> a character that nobody else writes.
        team: whose text; nobody's where it is empty.
    """

    def __init__(self, marks: Mapping[str, str], team: Mapping[str, Policy]) -> None:
        self.marks, self.team = marks, team

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One text for each request."""
        policies = [self.team.get(request.agent, RandomPolicy()) for request in requests]
        texts = [p.act([r])[0].text for p, r in zip(policies, requests, strict=True)]
        marks = [3 * self.marks[request.agent] for request in requests]
        return [Response(text=f"{m}\n{t}\n{m}") for m, t in zip(marks, texts, strict=True)]


def _check_solution(episode: Episode, expected: float | None) -> None:
    for agent in episode.agents:
        paid = episode.undiscounted_return(agent)
        assert expected is None or math.isclose(paid, expected, abs_tol=REWARD_TOLERANCE), (
            f"the solution earned {agent} {paid}, expected {expected} (task {episode.task_id}); "
            f"it said {[(turn.agent, turn.action) for turn in episode.turns]}"
        )
    assert episode.success is not False, f"the solution failed task {episode.task_id}"


class _Witness:
    """Passes requests on and keeps them: what was shown, as text and as messages."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.requests: list[Request] = []

    def act(self, requests: Sequence[Request]) -> Sequence[Response]:
        """As the policy it wraps."""
        self.requests += requests
        return self.policy.act(requests)


def _check_pair(make_env: Callable[[], Any], policy: Policy, seed: int) -> None:
    """Play the same episode on used, fresh and side-by-side copies, and with its task named."""
    start = Start(seed=seed, sample_seed=seed)
    witness = _Witness(policy)
    before = _global_random_state(f"no environment seeds with this/{seed}")
    used = make_env()
    team = dict.fromkeys(used.possible_agents, witness)
    # The other episode first: whatever it leaves behind must not reach the one that counts.
    episodes = rollout(VectorTextEnv([used]), team, [Start(seed=seed + 1), start])[1:]
    pair = [make_env(), make_env()]
    episodes += rollout(VectorTextEnv(pair), team, [start, start])
    named = Start(task=episodes[0].task_id, seed=seed, sample_seed=seed)
    again = rollout(VectorTextEnv(pair[:1]), team, [named])[0]
    after = _global_random_state()
    assert before == after, "the environment touched a global random generator; own an RNG instead"
    for other in episodes[1:]:
        assert episodes[0] == other, f"two episodes with seed {seed} and equal actions differ"
    assert episodes[0] == again, f"with its task named, the episode with seed {seed} differs"
    inner = used.unwrapped
    for request in witness.requests:
        _check_request(request, inner)
    for turn in episodes[0].turns:
        _check_turn(turn)
    for agent in episodes[0].agents:
        _check_chat(episodes[0].trajectory(agent), inner)
    _check_range(episodes[0], inner)


def _global_random_state(seed: str | None = None) -> tuple[Any, bytes]:
    """The state of the process's generators, seeded first where `seed` is given."""
    if seed is not None:
        random.seed(seed)
        np.random.seed(derive_seed(seed) % 2**32)  # noqa: NPY002 - the global state is the subject
    state: Any = np.random.get_state()  # noqa: NPY002
    return random.getstate(), state[1].tobytes() + str(state[2]).encode()


def _check_request(request: Request, env: Any) -> None:
    where = f"{request.agent}, turn {request.turn}"
    text = request.observation
    assert env.observation_space(request.agent).contains(text), f"{where}: not in its space"
    assert request.messages and request.messages[-1].role == "user", f"{where}: nothing was asked"
    assert text == render_messages(request.messages), (
        f"{where}: the observation's text is not what its messages say"
    )


def _check_turn(turn: Turn) -> None:
    where = f"{turn.agent}, turn {turn.index}"
    total = sum(turn.reward_terms.values())
    assert math.isclose(total, turn.reward, abs_tol=REWARD_TOLERANCE), (
        f"{where}: reward terms sum to {total}, the reward is {turn.reward}"
    )
    assert "success" in turn.info and "action_truncated" in turn.info, f"{where}: info lacks keys"
    assert "action_mask" not in turn.info, f"{where}: PettingZoo would hand it to the text space"


def _check_chat(trajectory: Sequence[Turn], env: Any) -> None:
    if not env.append_only:
        return
    for earlier, later in zip(trajectory, trajectory[1:], strict=False):
        text = earlier.action[: env.max_action_chars]
        kept = (*earlier.messages, Message("assistant", text))
        assert later.messages[: len(kept)] == kept, (
            f"{later.agent}, turn {later.index}: the chat does not extend the one before"
        )


def _check_misuse(make_env: Callable[[], Any]) -> None:
    env = make_env()
    env.reset(seed=0)
    turn_based = hasattr(env, "agent_selection")
    bad: Any = 7 if turn_based else dict.fromkeys(env.possible_agents, 7)
    try:
        # A converted environment judges the joint action when the last agent has acted.
        for _ in env.possible_agents if turn_based else [None]:
            env.step(bad)
    except TypeError as error:
        assert "int" in str(error), f"the error does not say what came: {error}"
    except Exception as error:  # any other kind is the finding
        raise AssertionError(f"an int as action: expected TypeError, got {error!r}") from error
    else:
        raise AssertionError("an action that is no str was accepted")


def episode_digest(make_env: Callable[[], Any], seeds: Sequence[int] = (0, 1)) -> str:
    """A hash of whole random episodes: equal in every process, whatever PYTHONHASHSEED."""
    env = make_env()
    team = dict.fromkeys(env.possible_agents, RandomPolicy())
    starts = [Start(seed=s, sample_seed=derive_seed("digest", s)) for s in seeds]
    episodes = rollout(VectorTextEnv([env]), team, starts)
    return hashlib.sha256(repr(episodes).encode("utf-8", "backslashreplace")).hexdigest()
