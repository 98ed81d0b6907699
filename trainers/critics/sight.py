"""What a critic may look at when it judges a turn: chats, and actions that cannot be the own one.

Where all act at once (`at_once`), the turns of one index are simultaneous. Then the joint
observation is what every agent is shown before that turn; nobody's action of that turn is in it.
Where agents act one after the other, it is the own chat and, of every other agent, what it was last
shown and said *before*. The own action, and whatever came of it, is in neither.
"""

from __future__ import annotations

from dataclasses import dataclass

from llm_marl_envs.records import Episode, Turn

Parts = tuple[tuple[str, str], ...]
"""What is seen: (whose, text), for each chat and action."""


@dataclass(frozen=True, slots=True)
class Sight:
    """What a critic sees.

    Attributes:
        joint: the chats of all agents, else the own one alone.
        actions: also what the others do in the same turn, where all act at once.
    """

    joint: bool
    actions: bool = False

    def of(self, episode: Episode, place: int, at_once: bool) -> Parts:
        """What is seen of the turn at this place in `episode.turns`."""
        turn = episode.turns[place]
        parts = [(f"{turn.agent} acts", ""), (turn.agent, _chat(turn))]
        if not self.joint:
            return tuple(parts)
        for other in episode.agents:
            if other == turn.agent:
                continue
            if at_once:
                shown = [t for t in episode.turns if t.agent == other and t.index == turn.index]
            else:
                shown = [t for t in episode.turns[:place] if t.agent == other][-1:]
            for one in shown:
                parts.append((other, _chat(one)))
                if self.actions or not at_once:
                    parts.append((f"{other} says", one.action))
        return tuple(parts)


def _chat(turn: Turn) -> str:
    return "\n".join(f"{message.role}: {message.content}" for message in turn.messages)
