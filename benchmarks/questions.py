"""How many questions each kind has, and what a judge knows of them by heart: two tables.

    python benchmarks/questions.py

`docs/questions.md` holds both; a test compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent.parent / "tests"))

from support.lookup import accuracy_without_debate

from llm_marl_envs import make
from llm_marl_envs.core.tasks import SPLITS
from llm_marl_envs.envs.questions import question_of

ASKING = ("debate-v0", "debate_pro_con-v0", "solve_critique_refine-v0", "solve_and_evaluate-v0")


def row(*cells: object) -> str:
    """A line of a table."""
    return "| " + " | ".join(map(str, cells)) + " |"


def counts() -> str:
    """Environment and kind -> how many different questions each split has."""
    lines = [row("environment", "kind", *SPLITS), row(*["---"] * (2 + len(SPLITS)))]
    for env_id in ASKING:
        found: dict[str, dict[str, set[str]]] = {}
        for split in SPLITS:
            for task in make(env_id, split=split).source:
                question = question_of(task)
                asked = found.setdefault(question.kind, {name: set() for name in SPLITS})
                asked[split].add(question.identity())
        lines += [
            row(f"`{env_id}`", kind, *(len(asked[split]) for split in SPLITS))
            for kind, asked in found.items()
        ]
    return "\n".join(lines)


def known_by_heart() -> str:
    """Kind -> how often a judge is right that looks questions up, on two splits."""
    by_split = {split: accuracy_without_debate(split) for split in ("train", "test")}
    lines = [row("kind", *(f"right on {split}" for split in by_split)), row(*["---"] * 3)]
    lines += [
        row(kind, *(f"{one[kind]:.2f}" for one in by_split.values())) for kind in by_split["train"]
    ]
    return "\n".join(lines)


def main() -> None:
    """Print both tables."""
    print(counts(), known_by_heart(), sep="\n\n")


if __name__ == "__main__":
    main()
