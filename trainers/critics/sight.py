"""What a critic may look at when it judges a turn: texts, and actions that cannot be the own one.

Where all act at once (`at_once`), the turns of one index are simultaneous. Then the joint
observation is what every agent is shown before that turn; nobody's action of that turn is in it.
Where agents act one after the other, it is the own chat and, of every other agent, what it was last
shown and said *before*. The state is what the environment's `state()` said before the turn's
actions. The solution is the task's, and stands beside the joint observation: alone it would not
tell how far the episode has come. The own action, and whatever came of it, is in none of these.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from llm_marl_envs.core.records import Episode, Turn
from trainers.critics.base import Parts, Seen


@dataclass(frozen=True, slots=True)
class Sight:
    """What a critic sees.

    Attributes:
        sees: "joint", "state", "solution" or "own", as in `CriticSettings`.
        actions: also what the others do in the same turn, where all act at once.
        solution: task id -> what solves it; asked for where `sees` is "solution".
    """

    sees: str = "joint"
    actions: bool = False
    solution: Callable[[str], str] = str

    def of(self, episode: Episode, place: int, at_once: bool) -> Seen:
        """What is seen of the turn at this place in `episode.turns`.

        Raises:
            ValueError: it sees states, and the episode was recorded without.
        """
        turn = episode.turns[place]
        parts: list[tuple[str, str]] = []
        if self.sees == "solution":
            parts.append(("solution", self.solution(episode.task_id)))
        for other in episode.agents:
            if other != turn.agent and self.sees != "own":
                parts += self._of_other(episode, place, other, at_once)
        if self.sees == "state":
            if turn.state is None:
                raise ValueError(f"turn {turn.index} of {turn.agent} was recorded without a state")
            parts.append(("state", turn.state))
        else:
            parts.append((turn.agent, _chat(turn)))
        ids = turn.response.prompt_ids if self.sees == "own" else None
        return Seen((*parts, (f"{turn.agent} acts", "")), turn.response.policy, ids)

    def _of_other(self, episode: Episode, place: int, other: str, at_once: bool) -> Parts:
        """The chat of another agent, and what it says that may be seen."""
        turn = episode.turns[place]
        if at_once:
            shown = [t for t in episode.turns if t.agent == other and t.index == turn.index]
        else:
            shown = [t for t in episode.turns[:place] if t.agent == other][-1:]
        parts = []
        for other_turn in shown:
            if self.sees != "state":
                parts.append((other, _chat(other_turn)))
            # Of those who acted before, a state holds what they said.
            if self.actions if at_once else self.sees != "state":
                parts.append((f"{other} says", other_turn.action))
        return tuple(parts)


def _chat(turn: Turn) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in turn.messages)
