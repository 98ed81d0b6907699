"""Ways to play several seats with one policy and no training: prompts around it.

Each class is a policy that sits in every seat and asks the one inside, once or several times per
action; what that costs in tokens is summed in `Response.usage`. Which protocol makes sense where is
`measure/studies/baselines.py`.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llm_marl_envs.core.parsing import answer_of
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import derive_seed
from llm_marl_envs.core.spaces import Message, render_messages
from llm_marl_envs.policies.base import Policy

HEADER = re.compile(r"^=== (\S+) ===[ \t]*$", re.MULTILINE)
SINGLE_INTRO = "You write every part of this work alone. Each part has its own instructions."
SINGLE_TASK = (
    "Write every part. Put a line that holds only === NAME === before each, with the names {names}."
)
ALONE = "You answer alone. This is all that is known, as it was told to {names}."
ALONE_TASK = "Write one message with the final answer, in the format asked for."
PIPELINE_NOTE = "{agent} has already written this part:\n{text}"
DISCUSSION_NOTE = (
    "Before anything counts, the drafts of the others are shown to you.\n\n{drafts}\n\n"
    "Now write your own part, final, in the same format as before."
)


class SinglePolicy:
    """One call writes the parts of all seats that act at once, from all that these seats see.

    An answer without any header line is taken as every part: a program that holds all functions
    needs no headers. A part that is missing under headers is empty.
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request; one call of the policy inside for all seats of an episode."""
        episodes: dict[int, list[int]] = {}
        for place, request in enumerate(requests):
            episodes.setdefault(request.episode, []).append(place)
        asked = [self._joint([requests[p] for p in places]) for places in episodes.values()]
        responses: dict[int, Response] = {}
        for places, answer in zip(episodes.values(), self.policy.act(asked), strict=True):
            parts = parts_of(answer.text)
            for number, place in enumerate(places):
                text = parts.get(requests[place].agent, "") if parts else answer.text
                usage = answer.tokens if number == 0 or answer.tokens is None else (0, 0)
                responses[place] = replace(_without_ids(answer, usage), text=text)
        return [responses[place] for place in range(len(requests))]

    def _joint(self, requests: Sequence[Request]) -> Request:
        sections = [f"=== {r.agent} ===\n{render_messages(r.messages)}" for r in requests]
        task = SINGLE_TASK.format(names=", ".join(r.agent for r in requests))
        return _with_text(requests[0], "\n\n".join([SINGLE_INTRO, *sections, task]))


def parts_of(text: str) -> dict[str, str]:
    """Name -> what stands under its line `=== name ===`; {} where there is no such line."""
    pieces = HEADER.split(answer_of(text))
    return {name: body.strip("\n") for name, body in zip(pieces[1::2], pieces[2::2], strict=True)}


class AlonePolicy:
    """One call per episode answers for all seats and all turns, from what all seats are told first.

    For turn-based environments whose seats have the same part, such as a debate.

    Args:
        policy: asked once per episode, as the first seat.
        opening: task id -> agent -> its first messages.
    """

    def __init__(
        self, policy: Policy, opening: Callable[[str], Mapping[str, Sequence[Message]]]
    ) -> None:
        self.policy = policy
        self.opening = opening
        self._answers: dict[int, Response] = {}

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The episode's one answer, made at the first request of the first seat."""
        new = [r for r in requests if self._first(r)]
        answers = self.policy.act([self._all(r) for r in new]) if new else ()
        for request, answer in zip(new, answers, strict=True):
            self._answers[request.episode] = answer
        made = {request.episode: request.agent for request in new}
        responses = []
        for request in requests:
            answer = self._answers[request.episode]
            counts = made.get(request.episode) == request.agent or answer.tokens is None
            responses.append(_without_ids(answer, answer.tokens if counts else (0, 0)))
        return responses

    def _first(self, request: Request) -> bool:
        seat = next(iter(self.opening(request.task_id)))
        return request.turn == 0 and request.agent == seat

    def _all(self, request: Request) -> Request:
        opening = self.opening(request.task_id)
        sections = [f"=== {agent} ===\n{render_messages(chat)}" for agent, chat in opening.items()]
        intro = ALONE.format(names=", ".join(opening))
        return _with_text(request, "\n\n".join([intro, *sections, ALONE_TASK]))


class PipelinePolicy:
    """Seats that act at once act one after the other, each shown the parts before its own.

    Args:
        policy: asked for each seat.
        agents: the seats, in the order of the pipeline.
    """

    def __init__(self, policy: Policy, agents: Sequence[str]) -> None:
        self.policy = policy
        self.agents = list(agents)

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request; one call of the policy inside per seat."""
        responses: dict[int, Response] = {}
        written: dict[int, list[str]] = {}
        for agent in self.agents:
            places = [place for place, r in enumerate(requests) if r.agent == agent]
            asked = [
                with_note(requests[p], "\n\n".join(written.get(requests[p].episode, [])))
                for p in places
            ]
            for place, response in zip(
                places, self.policy.act(asked) if asked else (), strict=True
            ):
                responses[place] = _at_cost_of([response], response)
                note = PIPELINE_NOTE.format(agent=agent, text=answer_of(response.text))
                written.setdefault(requests[place].episode, []).append(note)
        return [responses[place] for place in range(len(requests))]


class DiscussionPolicy:
    """Every seat drafts, sees the others' drafts, and writes its part: one exchange a turn."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request; two calls of the policy inside."""
        drafting = [replace(r, seed=derive_seed(r.seed, "draft")) for r in requests]
        drafts = self.policy.act(drafting)
        asked = []
        for place, request in enumerate(requests):
            others = [
                PIPELINE_NOTE.format(agent=other.agent, text=answer_of(drafts[n].text))
                for n, other in enumerate(requests)
                if other.episode == request.episode and n != place
            ]
            note = DISCUSSION_NOTE.format(drafts="\n\n".join(others))
            chat = (
                *request.messages,
                Message("assistant", drafts[place].text),
                Message("user", note),
            )
            asked.append(replace(request, messages=chat, observation=render_messages(chat)))
        final = self.policy.act(asked)
        return [_at_cost_of([draft, last], last) for draft, last in zip(drafts, final, strict=True)]


class SelfConsistencyPolicy:
    """Samples several answers to each request and gives the most frequent one (Wang et al. 2023).

    Args:
        policy: asked `n` times per request, with different seeds.
        n: samples.
        read: text -> the answer it gives, in a form that equal answers share, None for none. The
            earliest sample with the most frequent answer is sent; the first where none answers.
    """

    def __init__(self, policy: Policy, n: int, read: Callable[[str], str | None]) -> None:
        if n < 1:
            raise ValueError(f"n={n}: expected at least 1")
        self.policy, self.n, self.read = policy, n, read

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One response per request."""
        asked = [
            replace(request, seed=derive_seed(request.seed, "vote", k))
            for request in requests
            for k in range(self.n)
        ]
        answers = self.policy.act(asked)
        groups = [answers[i : i + self.n] for i in range(0, len(answers), self.n)]
        return [_at_cost_of(group, self._elect(group)) for group in groups]

    def _elect(self, group: Sequence[Response]) -> Response:
        votes = [self.read(response.text) for response in group]
        counts = Counter(vote for vote in votes if vote is not None)
        if not counts:
            return group[0]
        winner = counts.most_common(1)[0][0]  # of equals, the one that came first
        return group[votes.index(winner)]


def with_note(request: Request, note: str) -> Request:
    """The request with a note at the end of what its agent is told; itself where it is empty."""
    if not note:
        return request
    *before, last = request.messages
    if last.role == "user":
        chat: tuple[Message, ...] = (*before, Message("user", f"{last.content}\n\n{note}"))
    else:
        chat = (*request.messages, Message("user", note))
    return replace(request, messages=chat, observation=render_messages(chat))


def _with_text(request: Request, text: str) -> Request:
    return replace(request, messages=(Message("user", text),), observation=text)


def _without_ids(response: Response, usage: tuple[int, int] | None) -> Response:
    """A response without token ids: the seat was shown something else."""
    return Response(text=response.text, cut=response.cut, policy=response.policy, usage=usage)


def _at_cost_of(paid: Sequence[Response], response: Response) -> Response:
    """A response without token ids, at the cost of all calls."""
    counts: list[Any] = [call.tokens for call in paid if call.tokens is not None]
    total = (sum(p for p, _ in counts), sum(c for _, c in counts)) if counts else None
    return _without_ids(response, total)
