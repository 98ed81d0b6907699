"""What attacks earn on texts under each reward, as a share of what honest texts earn.

Prints the table of docs/writing.md:

    python benchmarks/writing_attacks.py

`grounded` and `nli` are measured on generated documents of split `test`, whose honest texts are the
experts'; `nli` reads them as it would read texts from outside, and its model is the one of
`tests/support/entailment.py`, which is trained here on generated posts and has seen nothing else.
`paper` and `reference` are measured on the bundled texts and the pairs that people would write
(those in the package, and `tests/support/honest_pairs.jsonl`); posts are compared with their
summaries, abstracts with themselves. No judge and no reward model: the one that could be trained
here would only know what it was shown, and a grade of a model too small to read says nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import mean
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))  # the attacks and the entailment model are the tests'

from support.attacks import ATTACKS, Pair  # noqa: E402
from support.entailment import honest_rows, train_entailment  # noqa: E402

from llm_marl_envs.core.tasks import bundled_rows  # noqa: E402
from llm_marl_envs.envs.writing.documents import Document, Kind  # noqa: E402
from llm_marl_envs.envs.writing.factual import grounded_terms  # noqa: E402
from llm_marl_envs.envs.writing.generate import document_at  # noqa: E402
from llm_marl_envs.envs.writing.paper import paper_terms  # noqa: E402
from llm_marl_envs.scorers import Submission  # noqa: E402
from llm_marl_envs.scorers.reference import ReferenceScorer  # noqa: E402
from trainers.scorers.entailment import EntailmentScorer  # noqa: E402

GENERATED = 40
"""Generated documents of each column."""

KINDS: tuple[Kind, ...] = ("post", "abstract")
SEATS = {"post": ("brief", "detailed"), "abstract": ("background", "method")}


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A source, an honest pair, and what a reward needs to know beside them."""

    source: str
    honest: Pair
    summary: str = ""
    document: Document | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One reward on one set of texts."""

    name: str
    cases: Sequence[Case]
    score: Callable[[Case, Pair], float]


def generated(kind: Kind) -> list[Case]:
    """Documents of split `test`, as their facts in sentences."""
    rows, honest = honest_rows(kind, GENERATED)
    return [
        Case(
            source=row["text"],
            honest=texts,
            document=document_at(kind, 0, "test", index),
        )
        for index, (row, texts) in enumerate(zip(rows, honest, strict=True))
    ]


def bundled(kind: Kind) -> list[Case]:
    """Bundled texts for which there is an honest pair that is not the reference."""
    rows = bundled_rows(f"writing_{kind}s")
    pairs = {
        number: (row[SEATS[kind][0]], row[SEATS[kind][1]])
        for number, row in enumerate(rows)
        if SEATS[kind][0] in row
    }
    for line in (
        (ROOT / "tests" / "support" / "honest_pairs.jsonl").read_text(encoding="utf-8").splitlines()
    ):
        one = json.loads(line)
        if one["kind"] == kind:
            pairs[one["number"]] = (one["first"], one["second"])
    return [
        Case(source=rows[n][kind], honest=pairs[n], summary=rows[n].get("summary", rows[n][kind]))
        for n in sorted(pairs)
    ]


def quick_columns() -> Iterator[Column]:
    """The columns that need no model."""
    for kind in KINDS:
        yield Column(name=f"`grounded`, {kind}s", cases=generated(kind), score=_grounded)
    for kind in KINDS:
        if kind == "post":  # the bundled abstracts are shorter than the paper's rules allow
            yield Column(name="`paper`, posts", cases=bundled(kind), score=_paper)
        rouge = ReferenceScorer()
        yield Column(
            name=f"`reference`, {kind}s",
            cases=bundled(kind),
            score=lambda case, texts, kind=kind, rouge=rouge: _total(rouge, kind, case, texts),
        )


def entailment_column() -> Column:
    """An entailment model, trained for half a minute on generated posts."""
    with tempfile.TemporaryDirectory() as folder:
        scorer = EntailmentScorer(train_entailment("post", Path(folder)))
    return Column(
        name="`nli`, generated posts",
        cases=generated("post"),
        score=lambda case, texts: _total(scorer, "post", case, texts),
    )


def _grounded(case: Case, texts: Pair) -> float:
    assert case.document is not None
    return sum(grounded_terms(case.document, texts).values())


def _paper(case: Case, texts: Pair) -> float:
    return sum(paper_terms("post", texts).values())


def _total(scorer: Any, kind: Kind, case: Case, texts: Pair) -> float:
    submission = Submission(
        source=case.source,
        texts=texts,
        references=(case.summary,),
        together=kind == "abstract",
    )
    (score,) = scorer.score([submission])
    return sum(score.values())


def shares(column: Column) -> dict[str, float]:
    """Attack -> its mean reward over that of the honest texts, which is under "honest texts"."""
    honest = mean(column.score(case, case.honest) for case in column.cases)
    found = {"honest texts": honest}
    for name, attack in ATTACKS.items():
        paid = [
            column.score(case, attack(case.source, case.honest, Random(f"{name}/{number}")))
            for number, case in enumerate(column.cases)
        ]
        found[name] = mean(paid) / honest
    return found


def table(columns: Sequence[Column]) -> str:
    """Markdown: a row for each attack, a column for each reward."""
    found = [shares(column) for column in columns]
    head = [f"{column.name} ({len(column.cases)})" for column in columns]
    lines = [f"| texts of both authors | {' | '.join(head)} |", "|---" * (len(columns) + 1) + "|"]
    for name in found[0]:
        label = "honest texts: mean reward" if name == "honest texts" else name
        lines.append(f"| {label} | {' | '.join(f'{one[name]:.2f}' for one in found)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="without the entailment model")
    columns = list(quick_columns())
    if not parser.parse_args().quick:
        columns.append(entailment_column())
    print(table(columns))


if __name__ == "__main__":
    main()
