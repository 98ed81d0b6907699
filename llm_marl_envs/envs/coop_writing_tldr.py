"""# coop_writing_tldr-v0: two authors sum up a post.

## Description
`brief_0` writes a brief summary of a post, `detailed_0` a detailed one, and neither sees the
other's text of the same turn. A reader takes both, so what the brief says must come back in the
details.

Generated posts have six topics of which each text may treat three. With `info="split"` (their
default) the brief's author alone is told the gist of each topic and the other alone the details: a
topic counts only where both treat it, so the two must choose the same ones, without a word. In
three of ten posts the outline leaves topics out, so no fixed choice works for all. With
`info="full"` (default for rows) both are told everything, as in the paper; then one author could
write both texts.

## Agents
`brief_0` and `detailed_0`, acting simultaneously (parallel; `make(id, api="aec")` converts).

## Observations
Chat messages. First one user message with the agent's part of the task; between turns one more with
the partner's last text. Append-only.

## Actions
Any text. Of a generated task it is read as plain English sentences; text that states nothing earns
nothing and never raises.
Longer than `max_action_chars`: cut.

## Rewards
Both agents get the team's number. Range of the return: [0, 3] for `paper`, [0, 1] else.

`grounded`, the default of generated tasks and for them alone, reads what each text *states* about
the people and things of the post, as (subject, relation, object, polarity), in any order of the
facts:

| term | value |
|---|---|
| supported | topics that count / 3: the brief states the gist, the other the details |
| contradicted | - (false and repeated statements) / 3, at most what is supported |
| together | - (topics that one text treats and the other does not) / 12, as above |
| form | what is lost by more than three topics, by too many words, by words or verbs that |
| | state nothing; all of it where a text holds a word or form that the reader does not know |

Of other texts nobody knows the facts. They have no default: `make` refuses without a `reward`, for
bundled texts too.

| reward | term | what it pays |
|---|---|---|
| `paper` | four, below | the published rules, which never look at the post |
| `reference` | `reference` | ROUGE against the row's own summary (or its pair of texts) |
| `nli:MODEL` | `supported`, `missed` | share of sentences that an entailment model finds |
| | | supported by the post, times the share of the post that it finds in the texts |
| `reward:MODEL` | `model` | the mean rating of a sequence classifier |
| `judge:ENDPOINT#MODEL` | `judge` | the mean of three grades that a model behind a server gives |

Further ones come through the entry-point group `llm_marl_envs.scorers`. docs/writing.md has a table
of what attacks earn under each, and an example of a scorer of your own. Copies of the environment
that step together are scored in batches.

`paper`: `structure` 0.5, `length` 1.0 (ratio of the lengths), `vocabulary` 0.5 (ratio of distinct
content words), `style` 1.0, each stopping the next where it is out of bounds. It never looks at the
post. Thresholds, slopes, caps and the decisions where paper, logger and code differ are in
`writing/paper.py`; those of `grounded` in `writing/factual.py`.

Every turn pays what it adds to the score of the texts that stand, term by term, so the last texts
decide and an earlier good pair never returns less than a later one.

`info["success"]`: the score is at least 85 % of the largest; None under a scorer, whose numbers
have no such mark. Further entries: `score` of the texts that stand, the `convention` that the
agent's own text follows (generated tasks), `action_read`.

## Episode end
After `turns` turns. Never truncated.

## Arguments
- `tasks`: None (generated), "bundled:writing_posts", a JSONL file, "hub:trl-lib/tldr", a list of
  rows or a `TaskSource`.
- `split`: "train", "val", "test", "ood" (words that occur in no other split, two details per
  topic), or "all"
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
Generated posts and `bundled:writing_posts` were written for this library and share its licence.
Rows need a text in `post`, `prompt` or `text`; a "TL;DR:" at its end is cut off. They may bring a
summary (`summary`, `completion` or `highlights`) or one text of each author (`brief`, `detailed`),
which are never shown, an id and a `split`; their licence is their own.

## Version history
- v0: first version.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

from llm_marl_envs.core import aec_form, described, parallel_form
from llm_marl_envs.writing.authors import CoopWritingEnv
from llm_marl_envs.writing.documents import Document, line

BRIEF, DETAILED = "brief_0", "detailed_0"

SPLIT_PROMPTS = (
    "Two authors sum up a post. You write the brief, your partner the details. "
    "Neither sees the other's text. You know:\n{lines}Leave out: {left_out}.\n"
    "Treat three topics, the same as your partner. One plain sentence for each fact, with names, "
    "and nothing else.",
    "Two authors sum up a post. Your partner writes the brief, you the details. "
    "Neither sees the other's text. You know:\n{lines}Leave out: {left_out}.\n"
    "Treat three topics, the same as your partner. One plain sentence for each fact, with names, "
    "and nothing else.",
)
FULL_PROMPTS = (
    "Two authors sum up a post. You write the brief, your partner the details. "
    "Neither sees the other's text. The post, by topic:\n{lines}Leave out: {left_out}.\n"
    "Treat three topics, the same as your partner. Of each, state the first fact; your partner "
    "states the others. One plain sentence for each fact, with names, "
    "and nothing else.",
    "Two authors sum up a post. Your partner writes the brief, you the details. "
    "Neither sees the other's text. The post, by topic:\n{lines}Leave out: {left_out}.\n"
    "Treat three topics, the same as your partner. Of each, your partner states the first fact; "
    "state the others. One plain sentence for each fact, with names, "
    "and nothing else.",
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

    metadata: ClassVar[dict[str, Any]] = described("coop_writing_tldr-v0")
    kind = "post"
    seats = (BRIEF, DETAILED)
    text_prompts = TEXT_PROMPTS

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


parallel_env = partial(parallel_form, CoopWritingTLDREnv)
env = partial(aec_form, CoopWritingTLDREnv)
