"""Which strings are control to a tokenizer and its chat template, and texts in which none is.

Control tokens come from the template alone; what an agent or a task wrote is text. Before a
dialogue is rendered, a mark is put into each control string that a content spells. The rendered
text is cut at the marks and tokenised piece by piece, so no token reaches over a cut. Content that
spells none carries no mark: its ids are those that the tokenizer gives.

The *frame* are the lines that a template writes around messages. Control strings are

- added tokens that are special, that look like markup (`<think>`, `[INST]`), or that stand in the
  frame and are more than a word. Not those of white space alone or of one printable ASCII
  character, nor other added words and runs of spaces;
- ordinary text in the frame (`### User:`) or that looks like markup in the template's source
  (`<<SYS>>`), and the names of bytes (`<0x0A>`) where the vocabulary holds them.

A tokenizer may take other spellings for a control token (compatibility forms, other case), and
a template may join pieces of contents. So each dialogue is rendered once more, with marks around
every character that a control token could need. Both must show the same control tokens. Where they
do not, the messages to blame keep all these marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import lru_cache
from typing import Any

from jinja2 import Environment
from transformers import PreTrainedTokenizerBase

MARK = "\udc00"
"""Where a text is cut. A lone surrogate: no text that a tokenizer takes holds one."""
FOREIGN = "\ue000"
"""A character for private use: it belongs to no control string and merges with nothing."""
REPLACEMENT = "\ufffd"
MARKUP = re.compile(r"[<\[{|\uff5c].*\w.*[>\]}|\uff5c]", re.DOTALL)
MARKUP_IN_SOURCE = re.compile(r"<{1,2}[|/]?[^\s<>|'\"]{1,40}\|?>{1,2}|\[/?[A-Z_]{2,40}\]")
THOUGHT = re.compile(r"think|thought|reason", re.IGNORECASE)
THINK_TAGS = ("<think>", "</think>")
BYTES = tuple(f"<0x{byte:02X}>" for byte in range(256))
UNUSUAL = (
    *map(chr, range(1, 256)),
    "\u0378",
    "\u4e00",
    "\ufffe",
    FOREIGN,
    "\U0001f642",
    "\U000e0001",
)
"""Characters that a vocabulary may lack."""
PUNCTUATION = re.compile(r"[^\w\s]")
NO_LETTER = re.compile(r"[^A-Za-z0-9\s]")
KEPT_TEXTS = 1024
"""Marked texts that are kept for the next rendering."""


def cleaned(text: str) -> str:
    """The text as UTF-8 can hold it: a lone surrogate becomes a question mark."""
    return text.encode("utf-8", "replace").decode("utf-8")


def control_tokens(
    tokenizer: PreTrainedTokenizerBase, frame: Sequence[str]
) -> dict[str, int | None]:
    """Spelling -> id of the control tokens; None where honest text has the id too (unknown, bytes).

    Looks at the tokenizer's added tokens.
    """
    tokens = {str(t.content): (i, t.special) for i, t in tokenizer.added_tokens_decoder.items()}
    named = zip(tokenizer.all_special_tokens, tokenizer.all_special_ids, strict=True)
    tokens |= {str(spelling): (i, True) for spelling, i in named}
    unknown = _has_unknown(tokenizer)
    controls: dict[str, int | None] = {}
    for spelling, (number, special) in tokens.items():
        bare = spelling.strip()
        if not bare or (len(bare) == 1 and bare.isascii() and bare.isprintable()):
            continue
        written = len(bare) > 1 and not bare.isalnum() and any(bare in line for line in frame)
        if special or written or MARKUP.fullmatch(bare):
            shared = (number == tokenizer.unk_token_id and unknown) or spelling in BYTES
            controls[spelling] = None if shared else number
    vocabulary = tokenizer.get_vocab()
    return controls | {name: None for name in BYTES if name in vocabulary}


def _has_unknown(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether honest text can become the unknown token; not so where each byte has a token."""
    ids = tokenizer("".join(UNUSUAL), add_special_tokens=False)["input_ids"]
    return tokenizer.unk_token_id in ids


def plain_control(source: str, frame: Sequence[str], tokens: Collection[str]) -> set[str]:
    """Control strings that are no tokens: ordinary text that the template's `source` writes.

    `tokens` are the spellings of the control tokens.
    """
    strings = {match for text in literals(source) for match in MARKUP_IN_SOURCE.findall(text)}
    between = re.compile("|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or r"(?!)")
    for line in frame:
        strings |= {part.strip() for part in between.split(line)}
    return {s for s in strings - set(tokens) if re.search(r"\w", s) and PUNCTUATION.search(s)}


def literals(source: str) -> list[str]:
    """The texts in a template's source: what it writes as it stands, and its strings."""
    tokens = Environment().lexer.tokenize(source)
    return [str(token.value) for token in tokens if token.type in ("data", "string")]


class Spellings:
    """Strings that shall not stand whole in a text, each with the place of its cut."""

    def __init__(self, cuts: Mapping[str, int]) -> None:
        self._cuts = cuts
        self._lengths = sorted({len(spelling) for spelling in cuts})
        heads = re.escape("".join({spelling[0] for spelling in cuts}))
        self._heads = re.compile(f"[{heads}]" if heads else r"(?!)")

    def marked(self, text: str) -> str:
        """The text with the fewest marks, from the left, that break every string."""
        cuts: set[int] = set()
        for head in self._heads.finditer(text):
            start = head.start()
            for length in self._lengths:
                cut = self._cuts.get(text[start : start + length])
                if cut is not None and cuts.isdisjoint(range(start + 1, start + length)):
                    cuts.add(start + cut)
        places = [0, *sorted(cuts), len(text)]
        return MARK.join(text[a:b] for a, b in zip(places, places[1:], strict=False))


class Control:
    """The control strings of one tokenizer with one template, whose text is `source`.

    Attributes:
        ids: of the control tokens.
        not_own: those that no agent writes into its own action: all but marks of thinking.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, source: str, frame: Sequence[str]
    ) -> None:
        self.tokenizer = tokenizer
        tokens = control_tokens(tokenizer, frame)
        thoughts = {s for s, i in tokens.items() if THOUGHT.search(s) and i not in _ends(tokenizer)}
        self.ids = frozenset(i for i in tokens.values() if i is not None)
        self.not_own = self.ids - {tokens[s] for s in thoughts}
        self._single = {ord(s): REPLACEMENT for s in tokens if len(s.strip()) == 1 and len(s) == 1}
        plain = plain_control(source, frame, tokens)
        cuts = {s: len(s) - len(s.lstrip()) + 1 for s in tokens if len(s.strip()) > 1}
        cuts |= {s: self._cut_in(s) for s in plain}
        kept = thoughts | set(THINK_TAGS)
        own = {s: cut for s, cut in cuts.items() if s not in kept}
        self._broken = {False: Spellings(cuts), True: Spellings(own)}
        # What the template looks for in content decides what it writes, so it stays whole.
        looked_for = {s for s in literals(source) if re.search(r"\w", s) and PUNCTUATION.search(s)}
        looked_for -= set(cuts)
        needed = NO_LETTER if all(map(NO_LETTER.search, tokens)) else re.compile(".")
        self._loose = {False: _either(looked_for, needed), True: _either(looked_for | kept, needed)}
        # Rendering a dialogue marks all its texts, and each text is rendered many times.
        self._kept = lru_cache(maxsize=KEPT_TEXTS)(self._content)
        self._separator = next(
            (c for c in (FOREIGN, "\n") if not self._found([c.join(s) for s in tokens])), " "
        )

    def content(self, text: str, *, own: bool, strict: bool = False) -> str:
        """The text of one message with its marks.

        Args:
            text: any text.
            own: the reader's own earlier action, whose marks of thinking stay what they are.
            strict: marks around every character that a control token could need, too.
        """
        return self._kept(text, own, strict)

    def _content(self, text: str, own: bool, strict: bool) -> str:
        marked = self._broken[own].marked(cleaned(text).translate(self._single))
        if strict:
            return self._loose[own].sub(lambda m: m[1] or f"{MARK}{m[0]}{MARK}", marked)
        return marked

    def encode(self, render: Callable[[Collection[int]], str], count: int) -> list[int]:
        """Ids of a rendered dialogue in which all control tokens are the template's.

        Args:
            render: the dialogue as `content` marked it, with strict marks in the messages of the
                numbers given.
            count: the number of messages.
        """
        text, suspects = render(()), set(range(count))
        ids, strict = self._encode(text), render(suspects)
        if strict == text or not self.ids:
            return ids
        expected = self._controls(strict)
        if [token for token in ids if token in self.ids] == expected:
            return ids
        for number in range(count):
            if self._controls(render(suspects - {number})) == expected:
                suspects.remove(number)
        return self._encode(render(suspects))

    def _encode(self, marked: str) -> list[int]:
        """Ids of a text, cut at its marks."""
        first, *rest = marked.split(MARK)
        ids = self._plain([first])[0]
        pieces = list(dict.fromkeys(piece for piece in rest if piece))
        ids_of = dict(zip(pieces, self._continued(pieces), strict=True))
        for piece in rest:
            ids += ids_of.get(piece, [])
        return ids

    def _continued(self, pieces: Sequence[str]) -> list[list[int]]:
        """Ids of pieces that other text stands before.

        Tokenised behind a foreign character, for some tokenizers put a space before a text.
        """
        (lead,) = self._plain([FOREIGN])
        behind = self._plain([FOREIGN + piece for piece in pieces])
        bare = self._plain(pieces)
        return [
            ids[len(lead) :] if ids[: len(lead)] == lead else alone
            for ids, alone in zip(behind, bare, strict=True)
        ]

    def _plain(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids of each text, tokenised by itself."""
        if not texts:  # which tokenizers refuse
            return []
        ids = self.tokenizer([cleaned(text) for text in texts], add_special_tokens=False)
        return [list(row) for row in ids["input_ids"]]

    def _found(self, texts: Sequence[str]) -> list[int]:
        """The control tokens of texts."""
        return [token for ids in self._plain(texts) for token in ids if token in self.ids]

    def _controls(self, marked: str) -> list[int]:
        """The control tokens of a text, none of which reaches over a mark."""
        return self._found([marked.replace(MARK, self._separator)])

    def _cut_in(self, spelling: str) -> int:
        """Where a cut changes the ids of a string; 1 where none does."""
        (whole,) = self._plain([spelling])
        for cut in range(1, len(spelling)):
            if self._encode(f"{spelling[:cut]}{MARK}{spelling[cut:]}") != whole:
                return cut
        return 1


def _ends(tokenizer: PreTrainedTokenizerBase) -> tuple[Any, ...]:
    return tokenizer.bos_token_id, tokenizer.eos_token_id, tokenizer.pad_token_id


def _either(whole: Collection[str], needed: re.Pattern[str]) -> re.Pattern[str]:
    """Group 1 is a string that stays whole; else one character of `needed`, marks aside."""
    kept = "|".join(map(re.escape, sorted(whole, key=len, reverse=True))) or r"(?!)"
    return re.compile(rf"({kept})|(?!{MARK}){needed.pattern}", re.DOTALL)
