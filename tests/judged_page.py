"""Writes docs/judged.md: the pages of three environments, each with an episode that was played.

`python tests/judged_page.py` writes it again; a test compares.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from support.lookup import accuracy_without_debate

from llm_marl_envs import make
from llm_marl_envs.policies import ExpertPolicy
from llm_marl_envs.questions import question_of
from llm_marl_envs.records import Episode
from llm_marl_envs.rollout import Start, rollout
from llm_marl_envs.tasks import SPLITS
from llm_marl_envs.vector import VectorTextEnv

PAGE = Path(__file__).parent.parent / "docs" / "judged.md"
HEAD = """# Debates with roles

Three environments in which somebody judges: two sides before a judge, a chain with a critic, and a
solver whose critics are paid what it is not. This page is made from the modules' docstrings and
from episodes of their scripted experts, by `python tests/judged_page.py`.
"""
QUESTIONS = """## Questions, and what can be known by heart

Different questions that each environment asks with its defaults, by what is asked (choices,
evidence, what everybody knows), not by wording or order. No question of one split is in another.

{counts}

A judge that is trained sees the train questions again and again, and can learn who is right in each
of them without listening. So its accuracy says something on held-out questions alone:
`llm-marl eval` measures on `test` unless told otherwise. The table shows a judge of
`debate_pro_con-v0` that hears nothing but the question and both claims, and looks them up among
the train questions: word for word, else by the number of shared words (`tests/support/lookup.py`).
Half is chance.

{known}
"""
ASKING = ("debate-v0", "debate_pro_con-v0", "solve_critique_refine-v0", "solve_and_evaluate-v0")
# Environment, its arguments, the convention that all experts follow.
SHOWN: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("debate_pro_con-v0", {"tasks": "generated:lost"}, "against"),
    ("solve_critique_refine-v0", {"tasks": "generated:cups", "credit": "difference"}, "full"),
    ("solve_and_evaluate-v0", {"tasks": "generated:meeting"}, "free"),
)


def transcript(episode: Episode) -> str:
    """Every turn: what was new to the seat, what it wrote, what it was paid."""
    parts = []
    for turn in episode.turns:
        new = [message.content for message in turn.messages]
        if turn.index:
            last = max(i for i, m in enumerate(turn.messages) if m.role == "assistant")
            new = new[last + 1 :]
        paid = ", ".join(f"{name} {value:+g}" for name, value in turn.reward_terms.items())
        shown = "\n".join(new)
        parts.append(f"=== {turn.agent} is shown ===\n{shown}\n=== it writes ===\n{turn.action}")
        if paid:
            parts.append(f"=== it is paid: {paid} ===")
    return "\n".join(parts)


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


def page() -> str:
    """The whole page."""
    parts = [HEAD, QUESTIONS.format(counts=counts(), known=known_by_heart())]
    for env_id, kwargs, convention in SHOWN:
        env = make(env_id, **kwargs)
        text = importlib.import_module(type(env).__module__).__doc__ or ""
        team = dict.fromkeys(env.possible_agents, ExpertPolicy(env, convention))
        episode = rollout(VectorTextEnv([env]), team, [Start(task=1, seed=1)])[0]
        given = "".join(f", {name}={value!r}" for name, value in kwargs.items())
        # Headings move down by one: the page has a title of its own.
        lines = [f"#{line}" if line.startswith("#") else line for line in text.strip().split("\n")]
        parts.append(
            "\n".join(lines)
            + f"\n\n### An episode\n`make({env_id!r}{given})`, task {episode.task_id}, experts "
            + f"of the convention {convention!r}:\n\n```text\n{transcript(episode)}\n```\n"
        )
    return "\n".join(parts)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
