"""The pictures of played episodes in docs/environments, as `render_mode="html"` draws them.

    python benchmarks/episode_pictures.py

Each is an episode of its page, played to its end; those of societies are longer there.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llm_marl_envs import make


def month(word: str, *, last: str) -> tuple[str, ...]:
    """Texts of five seats that all say and name ten, but for the last one's amount."""
    return (*[word] * 5, *["10"] * 4, last)


def round_of(*gifts: str, fines: tuple[str, ...]) -> tuple[str, ...]:
    """Texts of four seats that promise everything, give, and punish."""
    return (*["I give 10."] * 4, *gifts, *fines)


QUIET = ("nobody",) * 4
FOLDER = Path(__file__).parents[1] / "docs" / "environments"
EPISODES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "agents_net": ({"turns": 1}, ("Answer: 3", "Answer: 1", "Answer: 2", "Answer: 2")),
    "collab_maze": (
        {},
        (
            "I name the way.",
            "For walker_0: ???... ?#?..? S???## .#??.? .??.?? .##?G?",
            "Answer: D D R R R D R",
            "Answer: D D R R R D R",
        ),
    ),
    "commons": (
        {},
        tuple(
            text
            for last in ("10", "10", "12", "12", "24", "Action: 60")
            for text in month("I catch 10.", last=last)
        ),
    ),
    "donor": (
        {},
        (
            *("10",) * 6,
            *("20", "20", "20", "10", "20", "20"),
            *("40", "40", "40", "10", "Action: 0", "40"),
            *("80", "80", "80", "20", "Action: 0", "40"),
            *("160", "0", "160", "20", "Action: 0", "40"),
            *("0", "0", "320", "20", "Action: 0", "0"),
        ),
    ),
    "plan_path": ({}, ("The map: .#... ..... ..#.# #.#.# .....", "Answer: U U U R U")),
    "public_goods": (
        {"turns": 15, "punish": True},
        (
            *round_of("10", "10", "10", "10", fines=QUIET),
            *round_of("10", "10", "10", "Action: 0", fines=QUIET),
            *round_of("10", "10", "10", "Action: 0", fines=("citizen_3 3", *QUIET[1:])),
            *round_of("10", "10", "10", "4", fines=("citizen_3 3", *QUIET[1:])),
            *round_of("10", "10", "10", "10", fines=QUIET),
        ),
    ),
    "referential": ({}, ("mo ku ba", "flat blue cross")),
    "sokoban": (
        {},
        (
            "The map: ###### #...## #...## #.#..# #...T# ######",
            "Answer: R R U R D D",
            "I read the map out by rows. The target is at row 5, column 5.",
            "Answer: U R D D U L L D D R R",
        ),
    ),
    "sudoku": (
        {},
        (
            "My digits: 2 1 4 1",
            "Answer: 3 2 4 3 1 4 2 3",
            "I read my digits out by rows: 2 and 1, then 4, then 1.",
            "Answer: 3 4 2 3 1 2 2 3",
        ),
    ),
    "tic_tac_toe": ({}, ("5", "Action: 1", "4")),
    "trust_split": (
        {},
        (
            "lamp 4, book 5, coat 1, drum 2",
            "lamp 2, book 3, coat 6, drum 1",
            "I take lamp, book, drum.",
            "I take coat.",
            "lamp, book, drum",
            "Action: lamp, book, coat, drum",
        ),
    ),
}
"""Page -> arguments and what the seats say, in their order."""
TASKS = {
    "collab_maze": "train/1",
    "plan_path": "train/3",
    "referential": "train/11",
    "sokoban": "train/18",
    "sudoku": "train/3",
}


def picture(name: str, kwargs: dict[str, Any], texts: Sequence[str]) -> str:
    """The picture after the last of these texts.

    Raises:
        ValueError: the episode is not over then.
    """
    env: Any = make(name, api="aec", **kwargs)
    env.reset(seed=0, options={"task": TASKS.get(name, "train/0")})
    for text in texts:
        env.step(text)
    if not all(env.terminations.values()):
        raise ValueError(f"{name}: the episode is not over after {len(texts)} texts")
    return f"{env.unwrapped.picture()}\n"


def path_of(name: str) -> Path:
    """Where the picture of a page lies."""
    return FOLDER / f"{name}_episode.svg"


def main() -> None:
    for name, (kwargs, texts) in EPISODES.items():
        path_of(name).write_text(picture(name, kwargs, texts), encoding="utf-8")


if __name__ == "__main__":
    main()
