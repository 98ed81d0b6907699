"""Make the table of `llm_marl_envs.writing.order` from plain English texts.

    python benchmarks/word_order.py sherlock.txt history.txt surgery.txt

Paragraphs are separated by empty lines; headlines and lines of a licence are to be cut off before.
The table holds counts of neighbouring word classes and nothing else of the texts.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from pathlib import Path

from llm_marl_envs.writing.order import END, LEAST, START, TABLE, class_of, tight
from llm_marl_envs.writing.words import sentences_of, words_of

SHORT = 60
"""Characters of the shortest paragraph that is read; shorter ones are mostly headlines."""


def counted(text: str) -> Counter[tuple[str, str]]:
    """Pairs of neighbouring classes in the sentences of `text`, ends of sentences included."""
    pairs: Counter[tuple[str, str]] = Counter()
    for paragraph in re.split(r"\n\s*\n", text):
        plain = " ".join(paragraph.split()).replace("_", "")
        if len(plain) < SHORT or plain.isupper():
            continue
        for sentence in sentences_of(plain):
            classes = [START, *map(class_of, tight(words_of(sentence))), END]
            pairs.update(zip(classes, classes[1:], strict=False))
    return pairs


def table(pairs: Counter[tuple[str, str]]) -> str:
    """The lines that `read_table` reads, in alphabetical order."""
    before: Counter[str] = Counter()
    after: Counter[str] = Counter()
    followers: dict[str, list[str]] = {}
    for (left, right), n in sorted(pairs.items()):
        before[left] += n
        after[right] += n
        if n >= LEAST:
            followers.setdefault(left, []).append(f"{right} {n}")
    names = sorted(before | after)
    rows = (
        (name, str(before[name]), str(after[name]), " ".join(followers.get(name, ())))
        for name in names
    )
    return "".join("\t".join(row) + "\n" for row in rows)


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", type=Path, help="plain text files, UTF-8")
    parser.add_argument("--out", type=Path, default=Path("llm_marl_envs/data") / TABLE)
    args = parser.parse_args()
    pairs: Counter[tuple[str, str]] = Counter()
    for path in args.texts:
        pairs += counted(path.read_text(encoding="utf-8", errors="replace"))
    args.out.write_text(table(pairs), encoding="utf-8")
    print(f"{sum(pairs.values())} pairs of words, {len(pairs)} of classes -> {args.out}")


if __name__ == "__main__":
    main()
