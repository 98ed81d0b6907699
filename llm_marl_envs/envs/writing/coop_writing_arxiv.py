"""# coop_writing_arxiv-v0: two or three authors write an abstract.

## Description
`background_0` and `method_0` write the two parts of an abstract. They write at the same time, and
neither sees the other's text. Together they must say everything, and nothing twice. docs/writing.md
has what was measured.

## An episode
Task `train/0`. The abstract has six facts. Each text may state three. The first fact is told to
`background_0` alone, the last to `method_0` alone. Here both know the four others, so they must
divide these without a word.

    background_0 is told   Problem: The encoder slows the sampler.
                           Gap: The parser ignores noise.
                           Data: The encoder does not need drift.
                           Model: The sampler reduces the encoder.
                           Result: The encoder improves the sampler.
                           You both know gap, data, model, result.
    method_0 is told       Gap: The parser ignores noise.
                           Data: The encoder does not need drift.
                           Model: The sampler reduces the encoder.
                           Result: The encoder improves the sampler.
                           Use: The parser supports the sampler.
                           You both know gap, data, model, result.

    background_0 writes    Problem: The encoder slows the sampler.
                           Gap: The parser ignores noise.
                           Data: The encoder does not need drift.
    method_0 writes        Gap: The parser ignores noise.
                           Data: The encoder does not need drift.
                           Use: The parser supports the sampler.
    both earn              0.3333

Every sentence is true. But gap and data are said twice, and model and result not at all. Four facts
of six are worth 0.6667. Two of these four stand in both texts, which costs half of it. Had
`method_0` taken the other facts:

    method_0 writes        Model: The sampler reduces the encoder.
                           Result: The encoder improves the sampler.
                           Use: The parser supports the sampler.
    both earn              1.0

In three of ten abstracts one or two of the four are told to one author only, so no fixed division
works for all. This is `info="split"`, the default for generated abstracts. With `info="full"`, the
default for rows and the paper's setting, both are told everything. Then one author could write both
texts.

## Three authors
Task `train/2` with `n_agents=3`. Each text may state two facts. All know the four between.

    background_0 is told   Problem: The sampler does not slow the parser.
                           Gap: The sampler ignores noise.
                           Data: The sampler needs the parser.
                           Model: The parser reduces the sampler.
                           Result: The sampler improves the encoder.
                           You all know gap, data, model, result.
    method_0 is told       Gap: The sampler ignores noise.
                           Data: The sampler needs the parser.
                           Model: The parser reduces the sampler.
                           Result: The sampler improves the encoder.
    results_0 is told      Gap: The sampler ignores noise.
                           Data: The sampler needs the parser.
                           Model: The parser reduces the sampler.
                           Result: The sampler improves the encoder.
                           Use: The parser does not support drift.

    background_0 writes    Problem: The sampler does not slow the parser.
                           Gap: The sampler ignores noise.
    method_0 writes        Gap: The sampler ignores noise.
                           Result: The sampler improves the encoder.
    results_0 writes       Result: The sampler improves the encoder.
                           Use: The parser does not support drift.
    all earn               0.3333

Four facts of six are stated, and two of the four by two authors. Had `method_0` taken the rest, but
all else stayed the same, everything would be said once:

    method_0 writes        Data: The sampler needs the parser.
                           Model: The parser reduces the sampler.
    results_0 writes       Result: The sampler improves the encoder.
                           Use: The parser does not support drift.
    all earn               1.0

## Agents
`background_0` and `method_0`, with `n_agents=3` also `results_0`, act at the same time (parallel;
`make(id, api="aec")` converts).

## Observations and actions
As in `coop_writing_tldr-v0`: a first message with the agent's part of the task, and between turns
the partners' last texts. An action is any text.

## Rewards
All agents get the team's number. The return is in [0, 3] for `paper`, in [0, 1] for all others.

`grounded` is the default of generated tasks, and for them alone. It reads what each text *states*,
as (subject, relation, object, polarity), in any order. `writing/factual.py` has its thresholds.

| term | value |
|---|---|
| supported | facts that any text states / all facts |
| contradicted | - (false and repeated statements) / all facts, at most what is supported |
| together | - what is left x facts in more than one text / facts in any |
| form | what is lost by more than three sections (with three authors: two), by too many words, |
| | and by words or verbs that state nothing; everything is lost by a word or form that the reader |
| | does not know |

Of other texts, bundled ones included, nobody knows the facts. They have no default: `make` asks for
a `reward`. It is one of those of `coop_writing_tldr-v0`, with the same terms: `paper` (`structure`,
`length`, `vocabulary`, `style`), `reference` (ROUGE against the abstract itself, or the row's pair
of texts), `nli:MODEL`, `reward:MODEL`, `judge:ENDPOINT#MODEL`. What several turns pay and what
`info` holds is said there, too.

## Episode end
After `turns` turns. Never truncated.

## Arguments
`llm-marl spec coop_writing_arxiv` lists them.

## Tasks and licence
Generated abstracts and `bundled:writing_abstracts` were written for this library and share its
licence. Rows have a licence of their own. They need a text in `abstract_text`, `abstract` or
`text`. They may bring reference texts (`background`, `method`, `results`), which no agent sees, an
id (`article_id`) and a `split`.

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

BACKGROUND, METHOD, RESULTS = "background_0", "method_0", "results_0"

WHO = {
    2: ("Two authors write an abstract. You write the {own} part, your partner the {others} part."),
    3: (
        "Three authors write an abstract. You write the {own} part, your partners the {others} "
        "parts."
    ),
}
SPLIT_PROMPT = (
    "{who}{blind} You know:\n{lines}{knowing} know {known}.\n"
    "Together state every fact once, {quota} sections each. One plain sentence for each fact, and "
    "nothing else."
)
FULL_PROMPT = (
    "{who}{blind} The facts:\n{lines}"
    "Together state every fact once, {quota} sections each. One plain sentence for each fact, and "
    "nothing else."
)
PARTS = ("background", "method", "results")
KNOWING = {2: "You both", 3: "You all"}
QUOTAS = {2: "three", 3: "two"}
TEXT_PROMPTS = (
    "Two authors rewrite this abstract. You write the background: the problem, why it matters and "
    "what was missing. Your partner writes the method and what follows from it; do not repeat that "
    "part.{blind} Use your own sentences and state only what the abstract "
    "says.\n\n{text}",
    "Two authors rewrite this abstract. Your partner writes the background: the problem and why it "
    "matters; do not repeat that part. You write the method, the results and what follows from "
    "them.{blind} Use your own sentences and state only what the abstract "
    "says.\n\n{text}",
)


THREE_TEXT_PROMPTS = tuple(
    f"Three authors rewrite this abstract. You write {own}. Your partners write {other}; do not "
    "repeat those parts.{blind} Use your own sentences and state only what "
    "the abstract says.\n\n{text}"
    for own, other in (
        ("the background: the problem and why it matters", "the method and the results"),
        ("the method", "the background and the results"),
        ("the results and what follows from them", "the background and the method"),
    )
)


class CoopWritingArxivOptions(WritingOptions):
    """The arguments of coop_writing_arxiv."""

    tasks: Any = tasks_field(
        "'bundled:writing_abstracts' and 'hub:OpenMLRL/arXiv_abstract' are such rows."
    )


class CoopWritingArxivEnv(CoopWritingEnv):
    """The environment of this page; arguments as listed there, errors as of `CoopWritingEnv`."""

    metadata: ClassVar[dict[str, Any]] = described("coop_writing_arxiv-v0")
    Options = CoopWritingArxivOptions
    kind = "abstract"
    known_seats = (BACKGROUND, METHOD, RESULTS)
    text_prompts: ClassVar = {2: TEXT_PROMPTS, 3: THREE_TEXT_PROMPTS}

    def prompt_of_document(self, document: Document, seat: int) -> str:
        """The sections that the seat is told, and which of them the partners are told too."""
        whole = not self.divided
        lines = (
            line("abstract", section.label, section.facts if whole else section.told[seat])
            for section in document.sections
            if whole or section.told[seat]
        )
        shared = [section.label for section in document.sections if all(section.told)]
        n = len(self.seats)
        others = " and ".join(part for part in PARTS[:n] if part != PARTS[seat])
        return (FULL_PROMPT if whole else SPLIT_PROMPT).format(
            who=WHO[n].format(own=PARTS[seat], others=others),
            blind=self.blind,
            lines="".join(lines),
            knowing=KNOWING[n],
            known=", ".join(shared),
            quota=QUOTAS[n],
        )


parallel_env, env = module_forms(CoopWritingArxivEnv)
