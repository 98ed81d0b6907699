"""What a branch says without being asked, and whether the environment replays.

An episode that leaves a recorded one is brought to that point by the recorded actions. Owns the
comparison of what the environment shows and pays on the way there with what the record holds. The
rollout (`rollout.py`) drives it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.core.records import Redraw, Request, Response, Turn
from llm_marl_envs.core.seeds import Start


class NotReplayableError(ValueError):
    """An environment did not do again what a record holds, although all was said again."""


class RecordedActions:
    """The actions of one episode that its record gives; none where it begins at its reset.

    Args:
        start: of the episode.

    Raises:
        ValueError: a branch without a record, a record without the action where the branch leaves
            it, or another reset seed.
    """

    def __init__(self, start: Start) -> None:
        self.branch, self.chance = start.branch, start.chance
        self.on = self.branch is not None
        self._turns: dict[tuple[str, int], Turn] = {}
        self._left = False
        self._redraws = {redraw.step: redraw.seed for redraw in start.redraws}
        if self.branch is None:
            return
        if start.record is None:
            raise ValueError("a start with a branch and no record: give the recorded episode")
        self.seed = start.record.seed
        self._turns = {(turn.agent, turn.index): turn for turn in start.record.turns}
        self._redraws = {redraw.step: redraw.seed for redraw in start.record.redraws}
        if (self.branch.agent, self.branch.turn) not in self._turns:
            raise ValueError(
                f"a branch at turn {self.branch.turn} of {self.branch.agent}: the recorded episode "
                "has no such action"
            )
        if start.seed != self.seed:
            raise ValueError(
                f"a branch with reset seed {start.seed} of an episode with reset seed {self.seed}"
            )

    def responses(
        self, requests: Sequence[Request], paid: Mapping[tuple[str, int], float]
    ) -> dict[str, Response]:
        """Agent -> what it says at this step, for those that are not asked.

        Args:
            requests: all of one step of the environment.
            paid: (agent, turn) -> the reward so far.

        Raises:
            NotReplayableError: the environment shows or paid something else than in the record.
        """
        branch = self.branch
        if branch is None or not self.on or not requests:
            return {}
        recorded = {request.agent: self._recorded(request, paid) for request in requests}
        if (branch.agent, branch.turn) not in {(r.agent, r.turn) for r in requests}:
            return recorded
        self.on = False
        responses = {a: r for a, r in recorded.items() if branch.held and a != branch.agent}
        if branch.instead is not None:
            response = recorded[branch.agent]
            same = branch.instead == response.text
            responses[branch.agent] = response if same else Response(text=branch.instead)
        return responses

    def _recorded(self, request: Request, paid: Mapping[tuple[str, int], float]) -> Response:
        turn = self._turns.get((request.agent, request.turn))
        if turn is None:
            raise self._other(request.task_id, request.agent, request.turn, "no such action", "one")
        if turn.messages != request.messages:
            then, now = _first_difference(turn, request)
            raise self._other(request.task_id, request.agent, request.turn, then, now)
        before = request.agent, request.turn - 1
        if before in self._turns and not _same(self._turns[before].reward, paid[before]):
            then, now = f"a reward of {self._turns[before].reward}", f"{paid[before]}"
            raise self._other(request.task_id, *before, then, now)
        return turn.response

    def _other(
        self, task_id: str, agent: str, turn: int, then: str, now: str
    ) -> NotReplayableError:
        return NotReplayableError(
            f"task {task_id!r}, reset seed {self.seed}, turn {turn} of {agent}: the record holds "
            f"{then} and the environment gives {now}, after the same actions. Only an environment "
            "that is a function of its reset seed and the actions can be branched"
        )

    def check_left(self, task_id: str) -> None:
        """Check, at the end of an episode, that it left its record.

        Raises:
            NotReplayableError: the environment did not come to that point.
        """
        if self.branch is not None and self.on:
            raise self._other(task_id, self.branch.agent, self.branch.turn, "an action", "none")

    def redraw(self, step: int) -> Redraw | None:
        """The redraw that is due before a step: as in the record, and once more on leaving it.

        A record that left another holds what was drawn there. Chance of a branch's own takes the
        place of all that the record drew from that step on.
        """
        if self.branch is not None and not self.on and not self._left:
            self._left = True
            if self.chance is not None:
                self._redraws = {step: self.chance}
        return Redraw(step=step, seed=self._redraws[step]) if step in self._redraws else None


def _same(then: float, now: float) -> bool:
    """Equal, or neither is a number: who judges rewards says what is wrong with that."""
    return then == now or (then != then and now != now)


def _first_difference(turn: Turn, request: Request) -> tuple[str, str]:
    """Both versions of the first message that differs, shortened."""
    for then, now in zip(turn.messages, request.messages, strict=False):
        if then != now:
            return f"{then.content!r:.80}", f"{now.content!r:.80}"
    return f"{len(turn.messages)} messages", f"{len(request.messages)}"
