"""# coop_writing_tldr-v0: two authors sum up a post.

(doc to come)
"""

from __future__ import annotations

from typing import Any, ClassVar

from pettingzoo.utils.conversions import parallel_to_aec

from llm_marl_envs.core import RENDER_MODES
from llm_marl_envs.writing.documents import Document, line
from llm_marl_envs.writing.team import CoopWritingEnv

BRIEF, DETAILED = "brief_0", "detailed_0"

SPLIT_PROMPTS = (
    "Two authors sum up a post. You write the brief, your partner the details. "
    "Neither sees the other's text. You know:\n{lines}Leave out: {left_out}.\n"
    "Treat two topics, the same two as your partner. One plain sentence for each fact, with names.",
    "Two authors sum up a post. Your partner writes the brief, you the details. "
    "Neither sees the other's text. You know:\n{lines}Leave out: {left_out}.\n"
    "Treat two topics, the same two as your partner. One plain sentence for each fact, with names.",
)
FULL_PROMPTS = (
    "Two authors sum up a post. You write the brief, your partner the details. "
    "Neither sees the other's text. The post, by topic:\n{lines}Leave out: {left_out}.\n"
    "Treat two topics, the same two as your partner. Of each, state the first fact; your partner "
    "states the others. One plain sentence for each fact, with names.",
    "Two authors sum up a post. Your partner writes the brief, you the details. "
    "Neither sees the other's text. The post, by topic:\n{lines}Leave out: {left_out}.\n"
    "Treat two topics, the same two as your partner. Of each, your partner states the first fact; "
    "state the others. One plain sentence for each fact, with names.",
)
TEXT_PROMPTS = (
    "Two authors sum up this post. You write the brief: one or two sentences with what matters "
    "most. Your partner writes a detailed summary that contains what you say and more. Neither "
    "sees the other's text. Use your own sentences and state only what the post says.\n\n{text}",
    "Two authors sum up this post. Your partner writes a brief of one or two sentences. You write "
    "the detailed summary, two to four times as long: what matters most, and the details. Neither "
    "sees the other's text. Use your own sentences and state only what the post says.\n\n{text}",
)


class CoopWritingTLDREnv(CoopWritingEnv):
    """The environment of this page; arguments as listed there.

    Raises:
        ValueError: an argument out of range, `info="split"` for rows, or unusable rows (the message
            names the row).
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "coop_writing_tldr-v0",
        "render_modes": list(RENDER_MODES),
        "is_parallelizable": True,
    }
    kind = "post"
    seats = (BRIEF, DETAILED)

    def prompt_of_document(self, document: Document, seat: int) -> str:
        """The outline with the facts that the seat is told."""
        split = self.info_mode == "split"
        lines = (
            line("post", section.label, section.told[seat] if split else section.facts)
            for section in document.sections
        )
        left_out = [section.label for section in document.sections if not section.open]
        return (SPLIT_PROMPTS if split else FULL_PROMPTS)[seat].format(
            lines="".join(lines), left_out=", ".join(left_out) or "nothing"
        )

    def prompt_of_text(self, text: str, seat: int) -> str:
        """The whole post."""
        return TEXT_PROMPTS[seat].format(text=text)


def parallel_env(max_cycles: int = 1, **kwargs: Any) -> CoopWritingTLDREnv:
    """The environment under PettingZoo's name for the number of turns."""
    return CoopWritingTLDREnv(turns=max_cycles, **kwargs)


def env(max_cycles: int = 1, **kwargs: Any) -> Any:
    """As `parallel_env`, in AEC form."""
    made: Any = parallel_env(max_cycles, **kwargs)  # pettingzoo types AEC actions as `str | None`
    return parallel_to_aec(made)
