"""# coop_writing_arxiv-v0: two authors write an abstract.

(doc to come)
"""

from __future__ import annotations

from typing import Any, ClassVar

from pettingzoo.utils.conversions import parallel_to_aec

from llm_marl_envs.core import RENDER_MODES
from llm_marl_envs.writing.documents import Document, line
from llm_marl_envs.writing.team import CoopWritingEnv

BACKGROUND, METHOD = "background_0", "method_0"

SPLIT_PROMPT = (
    "Two authors write an abstract. You write the {own} part, your partner the {other} part. "
    "Neither sees the other's text. You know:\n{lines}You both know {both}.\n"
    "Together state every fact once, three sections each. One plain sentence for each fact."
)
FULL_PROMPT = (
    "Two authors write an abstract. You write the {own} part, your partner the {other} part. "
    "Neither sees the other's text. The facts:\n{lines}"
    "Together state every fact once, three sections each. One plain sentence for each fact."
)
PARTS = ("background", "method")
TEXT_PROMPTS = (
    "Two authors rewrite this abstract. You write the background: the problem, why it matters and "
    "what was missing. Your partner writes the method and what follows from it; do not repeat that "
    "part. Neither sees the other's text. Use your own sentences and state only what the abstract "
    "says.\n\n{text}",
    "Two authors rewrite this abstract. Your partner writes the background: the problem and why it "
    "matters; do not repeat that part. You write the method, the results and what follows from "
    "them. Neither sees the other's text. Use your own sentences and state only what the abstract "
    "says.\n\n{text}",
)


class CoopWritingArxivEnv(CoopWritingEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, `info="split"` for rows, or unusable rows (the message
            names the row).
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "coop_writing_arxiv-v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": True,
    }
    kind = "abstract"
    seats = (BACKGROUND, METHOD)

    def prompt_of_document(self, document: Document, seat: int) -> str:
        """The sections that the seat is told, and which of them the partner is told too."""
        whole = self.info_mode == "full"
        lines = (
            line("abstract", section.label, section.facts if whole else section.told[seat])
            for section in document.sections
            if whole or section.told[seat]
        )
        both = [section.label for section in document.sections if all(section.told)]
        return (FULL_PROMPT if whole else SPLIT_PROMPT).format(
            own=PARTS[seat], other=PARTS[1 - seat], lines="".join(lines), both=", ".join(both)
        )

    def prompt_of_text(self, text: str, seat: int) -> str:
        """The whole abstract."""
        return TEXT_PROMPTS[seat].format(text=text)


def parallel_env(max_cycles: int = 1, **kwargs: Any) -> CoopWritingArxivEnv:
    """The environment under PettingZoo's name for the number of turns."""
    return CoopWritingArxivEnv(turns=max_cycles, **kwargs)


def env(max_cycles: int = 1, **kwargs: Any) -> Any:
    """As `parallel_env`, in AEC form."""
    made: Any = parallel_env(max_cycles, **kwargs)  # pettingzoo types AEC actions as `str | None`
    return parallel_to_aec(made)
