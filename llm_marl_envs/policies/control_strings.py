"""The control strings of known model families, and texts without them.

For servers that render and tokenise by themselves, so that nobody here knows their tokenizer. Who
knows it can break control strings up and need remove none.
"""

from __future__ import annotations

import re

LONGEST = 80
"""No control string below is longer."""
CONTROL = re.compile(
    "|".join(
        (
            r"<\|[^|<>\s]{1,64}\|>",  # ChatML, Llama 3 and 4, Phi, GLM, Granite, gpt-oss, Command R
            r"<\|[a-z_]{1,32}>|<[a-z_]{1,32}\|>",  # Gemma 4
            r"<\uff5c[^\uff5c<>\s]{1,64}\uff5c>",  # DeepSeek
            r"</?(?:s|bos|eos|pad|unk|mask|sop|eop|eoh|eoa|eom|eot)>",  # SentencePiece, InternLM
            r"<(?:start|end)_of_(?:turn|image|text|utterance)>",  # Gemma, SmolVLM
            # Mistral
            r"\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_(?:CALLS|RESULTS|CONTENT)|ARGS|CALL_ID"
            r"|MODEL_SETTINGS|PREFIX|MIDDLE|SUFFIX|IMG(?:_BREAK|_END)?|(?:BEGIN_)?AUDIO)\]",
            r"<</?SYS>>|\[g?MASK\]",  # Llama 2, GLM
            r"\]~!?b\[|\]~b\]|\[e~\[",  # MiniMax
            r"<0x[0-9a-f]{2}>",  # names of bytes
        )
    ),
    re.IGNORECASE,
)
THOUGHTS = re.compile(
    r"</?(?:[a-z]{1,16}:)?(?:think|thinking|thought|reasoning|tool_call|tool_response)>"
    r"|\[/?THINK\]",
    re.IGNORECASE,
)
CONTROL_AND_THOUGHTS = re.compile(f"{CONTROL.pattern}|{THOUGHTS.pattern}", re.IGNORECASE)


def without_control(text: str, *, own: bool = False) -> str:
    """The text without the control strings of known families, until none is left.

    Args:
        text: any text.
        own: the reader's own earlier action, whose marks of thinking and of tools stay.
    """
    pattern, position = CONTROL if own else CONTROL_AND_THOUGHTS, 0
    while match := pattern.search(text, position):
        text = text[: match.start()] + text[match.end() :]
        position = max(0, match.start() - LONGEST)  # what the removal joined begins here or later
    return text
