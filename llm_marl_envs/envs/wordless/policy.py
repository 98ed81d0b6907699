"""The policy `wordless`: the best known team that tells nothing, by environment."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.specs import env_name
from llm_marl_envs.envs.wordless.answers import best_number, first_object, own_part, shared_bets
from llm_marl_envs.envs.wordless.division import thresholds
from llm_marl_envs.envs.wordless.grids import blind_pushes, blind_walk, common_walk, counted_digits
from llm_marl_envs.envs.wordless.nodes import seats_and_lines
from llm_marl_envs.envs.wordless.texts import lone_background, lone_brief, lone_main
from llm_marl_envs.policies.named import Context, refuse_argument

Rule = Callable[[Request], str]
"""What a seat does, by what it was shown alone.

Raises:
    ValueError: another form of the environment than the benchmark's.
"""
RULES: dict[str, Rule] = {
    "agents_net": seats_and_lines,
    "collab_maze": common_walk,
    "coop_coding": lone_main,
    "coop_writing_arxiv": lone_background,
    "coop_writing_tldr": lone_brief,
    "debate": shared_bets,
    "math_team": best_number,
    "plan_path": blind_walk,
    "referential": first_object,
    "sokoban": blind_pushes,
    "solve_critique_refine": own_part,
    "sudoku": counted_digits,
    "trust_split": thresholds,
}
"""Environment, without its version -> the best rule known for the form that the benchmark plays."""


class WordlessPolicy:
    """Each seat acts on its own observation, and writes nothing that others could learn from.

    Args:
        env_id: of the environment; any version.

    Raises:
        ValueError: no rule is known.
    """

    def __init__(self, env_id: str) -> None:
        name = env_id.rpartition("-v")[0]
        if name not in RULES:
            raise ValueError(f"no wordless team of {env_id!r}; there are some of {[*RULES]}")
        self.rule = RULES[name]
        self.identity = f"wordless:{self.rule.__name__}"

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """One action per request."""
        return [Response(text=self.rule(request)) for request in requests]


def make_wordless(argument: str, context: Context) -> WordlessPolicy:
    """`wordless`: the best known team without messages.

    Raises:
        ValueError: an argument, or an environment for which none is known.
    """
    refuse_argument("wordless", argument)
    return WordlessPolicy(env_name(context.env))
