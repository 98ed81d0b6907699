"""The scorer `reference`: how much of a row's own text the authors' texts have (ROUGE).

Each text is compared with its own reference, or all of them with the one that the row has: joined
where they are parts of one text. The score is the mean of ROUGE-1, ROUGE-2 and ROUGE-L F-measures
(Lin 2004; package `rouge_score`, with its stemmer). It counts words and their order, not truth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.core.extras import Extra

from .base import Submission

ROUGES = ("rouge1", "rouge2", "rougeL")


class ReferenceScorer:
    """ROUGE against reference texts.

    Raises:
        ValueError: it was given an argument.
        ImportError: `rouge_score` is not installed; the message names the extra.
    """

    def __init__(self, argument: str = "") -> None:
        if argument:
            raise ValueError(f"reference:{argument}: expected 'reference' alone")
        with Extra("eval", "reward='reference'"):
            from rouge_score.rouge_scorer import RougeScorer
        self.rouge = RougeScorer(list(ROUGES), use_stemmer=True)

    def score(self, batch: Sequence[Submission]) -> list[Mapping[str, float]]:
        """`reference`: the mean over the texts, in [0, 1].

        Raises:
            ValueError: a submission without references, or with another number of them.
        """
        return [{"reference": self._one(submission)} for submission in batch]

    def _one(self, submission: Submission) -> float:
        texts, references = submission.texts, submission.references
        if len(references) == 1:
            texts = ("\n".join(texts),) if submission.together else texts
            references = references * len(texts)
        if len(references) != len(texts):
            raise ValueError(
                f"{len(references)} references for {len(texts)} texts: expected one for each, or "
                "one for all"
            )
        scores = [self._rouge(*pair) for pair in zip(texts, references, strict=True)]
        return sum(scores) / len(scores)

    def _rouge(self, text: str, reference: str) -> float:
        rouges = self.rouge.score(reference, text)
        return sum(rouges[name].fmeasure for name in ROUGES) / len(ROUGES)
