"""# coop_writing_arxiv-v0: two authors write an abstract.

## Description
`background_0` and `method_0` write the two parts of an abstract, and neither sees the other's text
of the same turn. Together they must say everything, and nothing twice.

Generated abstracts have six sections of which each text may treat three. With `info="split"` (their
default) the first section is told to `background_0` alone, the last to `method_0` alone, and most
of the others to both: who takes which is for the two to find out, without a word. In three of ten
abstracts one or two of the others are told to one author only, so no fixed division works for all.
With `info="full"` (default for rows) both are told everything, as in the paper; then one author
could write both texts.

## Agents
`background_0` and `method_0`, acting simultaneously (parallel; `make(id, api="aec")` converts).

## Observations
Chat messages. First one user message with the agent's part of the task; between turns one more with
the partner's last text. Append-only.

## Actions
Any text. Of a generated task it is read as plain English sentences; text that states nothing earns
nothing and never raises.
Longer than `max_action_chars`: cut.

## Rewards
Both agents get the team's number. Range of the return: [0, 3] for `paper`, [0, 1] else.

`grounded`, the default of generated tasks and for them alone, reads what each text *states*, as
(subject, relation, object, polarity), in any order of the facts:

| term | value |
|---|---|
| supported | facts that either text states / all facts |
| contradicted | - (false and repeated statements) / all facts, at most what is supported |
| together | - what is left x facts in both texts / facts in either |
| form | what is lost by more than three sections, by too many words, by words or verbs |
| | that state nothing; all of it where a text holds a word or form that the reader does not know |

Of other texts nobody knows the facts. They have no default: `make` refuses without a `reward`, for
bundled texts too.

| reward | term | what it pays |
|---|---|---|
| `paper` | four, below | the published rules, which never look at the abstract |
| `reference` | `reference` | ROUGE against the abstract itself (or the row's pair of texts) |
| `nli:MODEL` | `supported`, `missed` | share of sentences that an entailment model finds |
| | | supported by the abstract, times the share of the abstract that it finds in the texts |
| `reward:MODEL` | `model` | the mean rating of a sequence classifier |
| `judge:ENDPOINT#MODEL` | `judge` | the mean of three grades that a model behind a server gives |

Further ones come through the entry-point group `llm_marl_envs.scorers`. docs/writing.md has a table
of what attacks earn under each, and an example of a scorer of your own. Copies of the environment
that step together are scored in batches.

`paper`: `structure` 0.5, `length` 1.0 (ratio of the lengths), `vocabulary` 0.5 (ratio of distinct
content words), `style` 1.0, each stopping the next where it is out of bounds. It never looks at the
source. Thresholds, slopes, caps and the decisions where paper, logger and code differ are in
`writing/paper.py`; those of `grounded` in `writing/factual.py`.

Every turn pays what it adds to the score of the texts that stand, term by term, so the last texts
decide and an earlier good pair never returns less than a later one.

`info["success"]`: the score is at least 85 % of the largest; None under a scorer, whose numbers
have no such mark. Further entries: `score` of the texts that stand, the `convention` that the
agent's own text follows (generated tasks), `action_read`.

## Episode end
After `turns` turns. Never truncated.

## Arguments
- `tasks`: None (generated), "bundled:writing_abstracts", a JSONL file,
  "hub:OpenMLRL/arXiv_abstract", a list of rows or a `TaskSource`.
- `split`: "train", "val", "test", "ood" (words that occur in no other split, two facts per
  section), or "all"
  for rows.
- `info`: "split" (generated tasks only) or "full"; None takes the default.
- `reward`: None ("grounded", generated tasks only), "grounded", "paper", or for texts from outside
  a scorer as above.
- `turns`: K, at least 1; None is 1, with `protocol="pipeline"` 2.
- `protocol`: "discussion": all write at every turn, and between turns each sees the partner's last
  text. "pipeline": one writes at a time, the first seat at turns 1, 3, ..., the second, who sees
  that text, at turns 2, 4, ...; what the other answers meanwhile is not read
  (`info["action_read"]`).
- `max_action_chars`: Unicode code points.
- `render_mode`: None, "ansi", "human" or "html".

## Tasks and licence
Generated abstracts and `bundled:writing_abstracts` were written for this library and share its
licence. Rows need a text in `abstract_text`, `abstract` or `text` and may bring reference texts
(`background`, `method`), which are never shown, an id (`article_id`) and a `split`; their licence
is their own.

## Version history
- v0: first version.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from llm_marl_envs.core import aec_form, described, parallel_form
from llm_marl_envs.writing.authors import CoopWritingEnv
from llm_marl_envs.writing.documents import Document, line

BACKGROUND, METHOD = "background_0", "method_0"

SPLIT_PROMPT = (
    "Two authors write an abstract. You write the {own} part, your partner the {other} part. "
    "Neither sees the other's text. You know:\n{lines}You both know {both}.\n"
    "Together state every fact once, three sections each. One plain sentence for each fact, and "
    "nothing else."
)
FULL_PROMPT = (
    "Two authors write an abstract. You write the {own} part, your partner the {other} part. "
    "Neither sees the other's text. The facts:\n{lines}"
    "Together state every fact once, three sections each. One plain sentence for each fact, and "
    "nothing else."
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

    metadata: ClassVar[dict[str, Any]] = described("coop_writing_arxiv-v0")
    kind = "abstract"
    seats = (BACKGROUND, METHOD)
    text_prompts = TEXT_PROMPTS

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


parallel_env = partial(parallel_form, CoopWritingArxivEnv)
env = partial(aec_form, CoopWritingArxivEnv)
