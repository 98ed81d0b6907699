"""Who speaks after whom in a chain of generator, critics and refiner, with and without shadows.

A *shadow* is a seat that acts in a world in which one seat's message was blank. Its world ends in
an answer of its own; the team's success minus the success of that world is what the blanked seat
was worth. The policy of a shadow should be that of the seat that it stands for.
"""

from __future__ import annotations

from dataclasses import dataclass

GENERATOR, CRITIC, REFINER = "generator", "critic", "refiner"
FIRST = "generator_0"
LAST = "refiner_0"


@dataclass(frozen=True, slots=True)
class Station:
    """One seat of the plan.

    Attributes:
        agent: the seat.
        share: which share of the evidence it is told.
        hears: (name shown, seat that wrote it) of every text it is shown; None: a blank text.
        without: the seat whose message is blank in its world, "" for the team itself.
    """

    agent: str
    share: int
    hears: tuple[tuple[str, str | None], ...] = ()
    without: str = ""

    @property
    def role(self) -> str:
        """The name without its number: generator, critic or refiner."""
        return self.agent.rpartition("_")[0]


def chain(n_agents: int) -> tuple[Station, ...]:
    """The team: `generator_0`, `n_agents` - 2 critics that read it, `refiner_0` that reads all."""
    critics = [f"{CRITIC}_{i}" for i in range(n_agents - 2)]
    speakers = [FIRST, *critics]
    return (
        Station(FIRST, 0),
        *(Station(critic, i, ((FIRST, FIRST),)) for i, critic in enumerate(critics, start=1)),
        Station(LAST, n_agents - 1, tuple((agent, agent) for agent in speakers)),
    )


def shadows(n_agents: int) -> tuple[Station, ...]:
    """One world per generator and critic, in which its message is blank to everybody.

    World i without a critic is one more refiner; the world without the generator has critics of its
    own too, because a critic reads the draft.
    """
    count = n_agents - 2
    critics = [f"{CRITIC}_{i}" for i in range(count)]
    stations = []
    for i, blank in enumerate(critics):
        hears = [(FIRST, FIRST), *((c, None if c == blank else c) for c in critics)]
        stations.append(Station(f"{REFINER}_{1 + i}", n_agents - 1, tuple(hears), blank))
    blind = [f"{CRITIC}_{count + i}" for i in range(count)]
    for i, critic in enumerate(blind, start=1):
        stations.append(Station(critic, i, ((FIRST, None),), FIRST))
    heard = ((FIRST, None), *zip(critics, blind, strict=True))
    return (*stations, Station(f"{REFINER}_{1 + count}", n_agents - 1, heard, FIRST))
