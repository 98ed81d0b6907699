"""# coop_writing_tldr-v0: two or three authors sum up a post.

## Description
`brief_0` writes a brief summary of a post, `detailed_0` a detailed one. They write at the same
time, and neither sees the other's text. A reader takes both texts. So the two authors must choose
the same topics. docs/writing.md has what was measured.

## An episode
Task `train/0`. The post has six topics. Each text may treat three. The brief's author knows the
gist of each topic, the other author knows one detail of each. One topic must be left out.

    brief_0 is told      Rent: Mia did not pay Tom.
                         Kitchen: Leo did not feed Mia.
                         Garden: Tom helped Leo.
                         Car: Tom followed Mia.
                         Office: Mia blamed Tom.
                         Band: Tom joined Mia.
                         Leave out: kitchen.
    detailed_0 is told   Rent: Mia sold the key.
                         Kitchen: Mia sold the pan.
                         Garden: Leo did not fix the hose.
                         Car: Mia fixed the map.
                         Office: Leo did not fix the desk.
                         Band: Leo fixed the amp.
                         Leave out: kitchen.

    brief_0 writes       Rent: Mia did not pay Tom.
                         Garden: Tom helped Leo.
                         Office: Mia blamed Tom.
    detailed_0 writes    Car: Mia fixed the map.
                         Office: Leo did not fix the desk.
                         Band: Leo fixed the amp.
    both earn            0.0

Every sentence is true. But only the office stands in both texts. It is worth a third, and the four
topics that stand in one text cost as much. Had `detailed_0` chosen the brief's topics:

    detailed_0 writes    Rent: Mia sold the key.
                         Garden: Leo did not fix the hose.
                         Office: Leo did not fix the desk.
    both earn            1.0

In three of ten posts topics are to be left out, so no fixed choice works for all. This is
`info="split"`, the default for generated posts. With `info="full"`, the default for rows and the
paper's setting, both are told everything. Then one author could write both texts.

## Three authors
Task `train/0` with `n_agents=3`. `detailed_1` alone knows another detail of each topic. A topic
counts where all three treat it.

    brief_0 is told      Rent: Tom did not pay Leo.
                         Kitchen: Mia fed Tom.
                         Garden: Leo did not help Mia.
                         Car: Tom followed Leo.
                         Office: Tom did not blame Mia.
                         Band: Mia joined Tom.
    detailed_0 is told   Rent: Leo sold the key.
                         Kitchen: Tom fixed the pan.
                         Garden: Leo fixed the hose.
                         Car: Mia fixed the map.
                         Office: Leo fixed the desk.
                         Band: Mia fixed the amp.
    detailed_1 is told   Rent: Mia fixed the key.
                         Kitchen: Mia did not fix the pan.
                         Garden: Tom did not fix the hose.
                         Car: Mia sold the map.
                         Office: Tom did not fix the desk.
                         Band: Tom sold the amp.

    brief_0 writes       Rent: Tom did not pay Leo.
                         Kitchen: Mia fed Tom.
                         Garden: Leo did not help Mia.
    detailed_0 writes    Rent: Leo sold the key.
                         Kitchen: Tom fixed the pan.
                         Garden: Leo fixed the hose.
    detailed_1 writes    Rent: Mia fixed the key.
                         Garden: Tom did not fix the hose.
                         Office: Tom did not fix the desk.
    all earn             0.5556

Rent and garden count, 0.6667. Two pairs of texts differ in two topics and one pair in none. That is
4/3 in the mean, of which each costs 1/12. Had `detailed_1` chosen the topics of the others:

    detailed_1 writes    Rent: Mia fixed the key.
                         Kitchen: Mia did not fix the pan.
                         Garden: Tom did not fix the hose.
    all earn             1.0

## Agents
`brief_0` and `detailed_0`, with `n_agents=3` also `detailed_1`, act at the same time (parallel;
`make(id, api="aec")` converts).

## Observations
Chat messages, append-only. The first is one user message: the agent's part of the task. Between
turns one more shows the partners' last texts.

## Actions
Any text. For a generated task it is read as plain English sentences. Text that states nothing earns
nothing and never raises an error. Text beyond `max_action_chars` is cut.

## Rewards
All agents get the team's number. The return is in [0, 3] for `paper`, in [0, 1] for all others.

`grounded` is the default of generated tasks, and for them alone. It reads what each text *states*
about the people and things of the post, as (subject, relation, object, polarity), in any order.
`writing/factual.py` has its thresholds.

| term | value |
|---|---|
| supported | topics that count / 3: the brief states the gist, each other its own details |
| contradicted | - (false and repeated statements) / 3, at most what is supported |
| together | - (topics that one text treats and the other does not) / 12, at most what is left; |
| | of three texts the mean over the pairs |
| form | what is lost by more than three topics, by too many words, and by words or verbs that |
| | state nothing; everything is lost by a word or form that the reader does not know |

Of other texts, bundled ones included, nobody knows the facts. They have no default: `make` asks for
a `reward`.

| reward | term | what it pays |
|---|---|---|
| `paper` | four, below | the published rules, which never look at the post |
| `reference` | `reference` | ROUGE against the row's own summary (or its pair of texts) |
| `nli:MODEL` | `supported`, `missed` | share of sentences that an entailment model finds |
| | | supported by the post, times the share of the post that it finds in the texts |
| `reward:MODEL` | `model` | the mean rating of a sequence classifier |
| `judge:ENDPOINT#MODEL` | `judge` | the mean of three grades that a model behind a server gives |

The terms of `paper` are `structure` 0.5, `length` 1.0 (ratio of the lengths), `vocabulary` 0.5
(ratio of distinct content words) and `style` 1.0. A term out of bounds stops those after it.
`writing/paper.py` has its numbers, and what was decided where paper, logger and code differ. Of
three texts each term is that of the pair with the brief that earns less of it.

Other packages add scorers through the entry points `llm_marl_envs.scorers`. docs/writing.md shows
how, and what attacks earn under each reward. Copies that step together are scored in batches.

**Several turns.** Every turn pays what it adds to the score of the texts that stand, term by term.
So the last texts decide, and good texts never return more by coming later.

**Entries of `info`.**

- `success`: the score is at least 85 % of the largest; None under a scorer, which has no such mark.
- `score`: of the texts that stand. `convention`: the choice of topics that the agent's own text
  follows (generated tasks). `action_read`: whether its text was read in this turn.

## Episode end
After `turns` turns. Never truncated.

## Arguments
`llm-marl spec coop_writing_tldr` lists them.

With three authors and `protocol="pipeline"` the first writes at turns 1, 4, ..., and each sees what
the others wrote before.

## Tasks and licence
Generated posts and `bundled:writing_posts` were written for this library and share its licence.
Rows have a licence of their own. They need a text in `post`, `prompt` or `text`; a "TL;DR:" at its
end is cut off. They may bring a summary (`summary`, `completion` or `highlights`) or one text of
each author (`brief`, `detailed`, `detailed_1`), which no agent sees, an id and a `split`.

## Version history
- v0: first version.
"""

from __future__ import annotations

from typing import Any, ClassVar

from llm_marl_envs.core.environment import described
from llm_marl_envs.core.forms import module_forms
from llm_marl_envs.core.options import tasks_field
from llm_marl_envs.envs.writing.authors import CoopWritingEnv, WritingOptions
from llm_marl_envs.envs.writing.documents import Document, line

BRIEF, DETAILED, FURTHER = "brief_0", "detailed_0", "detailed_1"

WHO = {
    2: (
        "Two authors sum up a post. You write the brief, your partner the details.",
        "Two authors sum up a post. Your partner writes the brief, you the details.",
    ),
    3: (
        "Three authors sum up a post. You write the brief, your partners the details.",
        *(
            "Three authors sum up a post. Your partners write the brief and other details, you "
            "details.",
        )
        * 2,
    ),
}
SAME = {2: "the same as your partner", 3: "the same as your partners"}
SPLIT_PROMPT = (
    "{who}{blind} You know:\n{lines}"
    "Leave out: {left_out}.\n"
    "Treat three topics, {same}. One plain sentence for each fact, with names, and nothing else."
)
FULL_PROMPT = (
    "{who}{blind} The post, by topic:\n{lines}"
    "Leave out: {left_out}.\n"
    "Treat three topics, {same}. Of each, {share}. One plain sentence for each fact, with names, "
    "and nothing else."
)
SHARES = {
    2: (
        "state the first fact; your partner states the others",
        "your partner states the first fact; state the others",
    ),
    3: (
        "state the first fact; your partners state the others",
        "state the first half of the others; your partners state the rest",
        "state the second half of the others; your partners state the rest",
    ),
}
TEXT_PROMPTS = (
    "Two authors sum up this post. You write the brief: one or two sentences with what matters "
    "most. Your partner writes a detailed summary that contains what you say and more."
    "{blind} Use your own sentences and state only what the post says.\n\n{text}",
    "Two authors sum up this post. Your partner writes a brief of one or two sentences. You write "
    "the detailed summary, two to four times as long: what matters most, and the details."
    "{blind} Use your own sentences and state only what the post says.\n\n{text}",
)


THREE_TEXT_PROMPTS = tuple(
    f"Three authors sum up this post. {who}{{blind}} Use your own sentences "
    "and state only what the post says.\n\n{text}"
    for who in (
        "You write the brief: one or two sentences with what matters most. Your partners write "
        "details.",
        "Your partners write a brief of one or two sentences and the details of the second half. "
        "You write the details of the first half, two to four times as long as the brief.",
        "Your partners write a brief of one or two sentences and the details of the first half. "
        "You write the details of the second half, two to four times as long as the brief.",
    )
)


class CoopWritingTLDROptions(WritingOptions):
    """The arguments of coop_writing_tldr."""

    tasks: Any = tasks_field("'bundled:writing_posts' and 'hub:trl-lib/tldr' are such rows.")


class CoopWritingTLDREnv(CoopWritingEnv):
    """The environment of this page; arguments as listed there, errors as of `CoopWritingEnv`."""

    metadata: ClassVar[dict[str, Any]] = described("coop_writing_tldr-v0")
    Options = CoopWritingTLDROptions
    kind = "post"
    known_seats = (BRIEF, DETAILED, FURTHER)
    text_prompts: ClassVar = {2: TEXT_PROMPTS, 3: THREE_TEXT_PROMPTS}

    def prompt_of_document(self, document: Document, seat: int) -> str:
        """The outline with the facts that the seat is told."""
        lines = (
            line("post", section.label, section.told[seat] if self.divided else section.facts)
            for section in document.sections
        )
        left_out = [section.label for section in document.sections if not section.open]
        n = len(self.seats)
        return (SPLIT_PROMPT if self.divided else FULL_PROMPT).format(
            who=WHO[n][seat],
            blind=self.blind,
            same=SAME[n],
            share=SHARES[n][seat],
            lines="".join(lines),
            left_out=", ".join(left_out) or "nothing",
        )


parallel_env, env = module_forms(CoopWritingTLDREnv)
