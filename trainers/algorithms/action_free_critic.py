r"""A critic that knows what the others do, and not what it judges (after COMA, arXiv 1705.08926).

Formula: A_i,k^g = R_i,k^g - V(agent i, joint observation, actions of the *others* at turn k).

Comparison group: none. In simultaneous play the others' actions do not depend on the own one, so
they may stand in a baseline; what they explain of the return is noise less. The own action must
not: a test changes it and looks whether V moves. With `sees: state` V sees `state()` in place of
the chats, and the others' actions beside it.

Degenerate case: in turn-based play the others' actions of the same turn come before the own one,
and are seen by `central_critic` too, or after it, and are its consequences: then it is
`central_critic`.

Deviations from the paper:

1. COMA learns Q of the joint action and averages over the own one. Here V is fitted without it, and
   no average over texts is needed.
2. Those of `central_critic`.
"""

from __future__ import annotations

from typing import ClassVar

from trainers.algorithms.central_critic import UNBIASED, CentralCritic
from trainers.algorithms.relations import Kind, Relation


class ActionFreeCritic(CentralCritic):
    """Return minus V of the joint observation and the others' actions."""

    name = "action_free_critic"
    declares = (
        Relation(kind=Kind.ALIAS, of="central_critic", when="agents that act one after the other"),
        UNBIASED,
    )
    actions: ClassVar[bool] = True
