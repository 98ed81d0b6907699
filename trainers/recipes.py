"""What papers call an algorithm, made of parts of this library; a name that `algorithm` takes.

    algorithm: cory        # magrpo, one policy reads the other's answer, both change seats

A recipe names the estimator of its advantages, and what else it sets in the run. To add one: a
`Recipe`, and one entry point.

    [project.entry-points."trainers.recipes"]      # in this pyproject.toml or your package's
    mine = "my_package.mine:MINE"

A setting that the run gives itself stays as given; then the run is called `cory (modified)`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from llm_marl_envs.core.plugins import Registry
from trainers.algorithms import algorithm_name, chosen_algorithm
from trainers.batch.returns import make_returns, setting_of
from trainers.schedules.schedules import make_schedules, settings_of

RECIPES = Registry("trainers.recipes", "recipe")
MODIFIED = "(modified)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """An algorithm of a paper in parts.

    Attributes:
        title: as the field writes it.
        about: what it does, in one sentence.
        paper: authors, year, number.
        algorithm: whose advantages, as the setting `algorithm` takes it.
        trainer: what it sets in the trainer besides.
        env_kwargs: what it sets in the environment.
        deviations: from the paper, in the order of their numbers.
    """

    title: str
    about: str
    paper: str
    algorithm: str | Mapping[str, Any] = "magrpo"
    trainer: Mapping[str, Any] = field(default_factory=dict)
    env_kwargs: Mapping[str, Any] = field(default_factory=dict)
    deviations: tuple[str, ...] = ()


def recipe_named(chosen: Any) -> Recipe | None:
    """The recipe that a choice of `algorithm` names; None where it names an estimator.

    Raises:
        ValueError: settings beside the name, which a recipe has none of.
        TypeError: the name stands for something else.
        ImportError: it cannot be imported.
    """
    name = chosen.get("name") if isinstance(chosen, Mapping) else chosen
    if not isinstance(name, str) or name not in RECIPES:
        return None
    if isinstance(chosen, Mapping) and len(chosen) > 1:
        raise ValueError(
            f"algorithm={chosen!r:.200}: {name!r:.200} is a recipe and has no settings of its own; "
            "set what it sets under `trainer`, or choose its estimator"
        )
    found = RECIPES.get(name)
    if not isinstance(found, Recipe):
        raise TypeError(f"recipe {name!r:.200}: expected a Recipe, got {found!r:.80}")
    return found


def prepared(run: Mapping[str, Any]) -> dict[str, Any]:
    """A run file's contents, with what its recipe sets where the file does not say it.

    Args:
        run: keys as in `trainers.train`.
    """
    trainer = run.get("trainer") or {}
    recipe = recipe_named(trainer.get("algorithm"))
    if recipe is None:
        return dict(run)
    named = {"recipe": algorithm_name(trainer["algorithm"]), "algorithm": recipe.algorithm}
    env_kwargs = {**recipe.env_kwargs, **(run.get("env_kwargs") or {})}
    return {**run, "trainer": {**recipe.trainer, **trainer, **named}, "env_kwargs": env_kwargs}


def settle(args: Any, given: Collection[str]) -> None:
    """Let a config whose `algorithm` names a recipe follow it in what nobody gave.

    Args:
        args: a `MAGRPOConfig`; its `algorithm` and `recipe` change.
        given: names of the settings that somebody gave, which stay.
    """
    recipe = recipe_named(args.algorithm)
    if recipe is None:
        return
    args.recipe, args.algorithm = algorithm_name(args.algorithm), recipe.algorithm
    for name, value in recipe.trainer.items():
        if name not in given:
            setattr(args, name, value)


def label(args: Any, env_kwargs: Mapping[str, Any]) -> str | None:
    """What the run is called: its recipe, and whether it is modified; None without one.

    Args:
        args: a `MAGRPOConfig`, after its checks.
        env_kwargs: the arguments of the run's environment.
    """
    if args.recipe is None:
        return None
    name = args.recipe.removesuffix(MODIFIED).strip()
    recipe = recipe_named(name)
    if recipe is None:  # of a package that is not here
        return args.recipe
    wanted = {"algorithm": recipe.algorithm, **recipe.trainer}
    as_written = all(getattr(args, key) == _whole(key, value) for key, value in wanted.items())
    seated = all(env_kwargs.get(key) == value for key, value in recipe.env_kwargs.items())
    return name if as_written and seated else f"{name} {MODIFIED}"


def _whole(setting: str, value: Any) -> Any:
    """A value as the config writes it: settings of a part with nothing left out."""
    whole = {
        "algorithm": chosen_algorithm,
        "returns": lambda given: setting_of(make_returns(given)),
        "schedules": lambda given: settings_of(make_schedules(given)),
    }
    return whole[setting](value) if setting in whole else value


MAREINFORCE = Recipe(
    title="MAREINFORCE",
    about="Each turn is credited with its return, and nothing is subtracted from it.",
    paper="Liu et al., 2025, arXiv 2508.04652, a baseline of MAGRPO's paper",
    trainer={"baseline": "none"},
    deviations=(
        "CoMLRL 1.4.3, the paper's library, centres and scales the returns by default, which makes "
        "one number of MAREINFORCE, MAREMAX and MARLOO. Here nothing is centred.",
    ),
)
MAREMAX = Recipe(
    title="MAREMAX",
    about="From each return the largest of its group is subtracted.",
    paper="Liu et al., 2025, arXiv 2508.04652, a baseline of MAGRPO's paper",
    trainer={"baseline": "max"},
    deviations=(
        "CoMLRL 1.4.3 centres and scales, see MAREINFORCE. Here the largest return alone is "
        "subtracted, so the objective is E[R] - E[largest R of the G episodes] / G.",
    ),
)
MAPORL = Recipe(
    title="MAPoRL",
    about="Debaters are credited with who was right when, not with what was paid.",
    paper="Park et al., 2025, arXiv 2502.18439",
    trainer={"returns": {"name": "maporl"}},
    deviations=(
        "The paper learns by PPO with a value head for each agent. Here returns are compared "
        "within a group, as in MAGRPO.",
        "The paper's verifier is a model; here an answer is right or wrong.",
        "The bonus is a difference of potentials, so that no cycle of answers earns anything. "
        "`returns: {name: maporl, bonus: paper}` takes the paper's.",
        "An answer that cannot be read is wrong, no worse; the paper pays -10 for it.",
    ),
)
HAPPO = Recipe(
    title="HAPPO",
    about="Policies learn one after the other from one rollout, each knowing how far the earlier "
    "ones have moved.",
    paper="Kuba et al., ICLR 2022, arXiv 2109.11251, equation 11",
    algorithm="mappo",
    trainer={"schedules": {"sequential": {}}, "num_iterations": 2},
    deviations=(
        "The ratio is that of a whole turn, for one turn is one action.",
        "The critic is one of this library (`algorithm: {name: mappo, critic: ...}`), which reads "
        "texts.",
    ),
)
CORY = Recipe(
    title="CORY",
    about="A pioneer and an observer, who reads the pioneer's answer, do one task, and change "
    "seats.",
    paper="Ma et al., NeurIPS 2024, arXiv 2410.06101",
    trainer={"schedules": {"exchange": {"every": 5}}, "credit": "team", "beta": 0.01},
    env_kwargs={"pioneer_observer": True},
    deviations=(
        "The paper's learner is PPO with a value head, token by token. Here it is MAGRPO, or "
        "another estimator.",
        "The paper pays both the sum. `credit: team` pays the mean, half of it, so `beta` weighs "
        "twice as much: take half of the paper's.",
        "The paper takes the KL off the reward of each token. Here `beta` is a term of the loss, "
        "for each policy towards its own start.",
        "The paper's code saves both models and loads them crosswise, so the optimiser's moments "
        "are lost at every exchange. Here they stay with their weights.",
        "A saved team and evaluations have the seats of the beginning, whatever the last exchange "
        "was.",
        "The paper appends the answer to the query. Here it is a message of its own, quoted, "
        "without thinking; its control tokens are text.",
        "The paper's tasks are answered once. Where a task has several turns, the observer is "
        "shown all texts of the pioneer after its last.",
    ),
)
