"""The scorer `nli:MODEL`: what an entailment model finds supported by the source.

    score = supported * covered

supported: share of the authors' sentences that the source entails. covered: share of the source's
sentences that the authors' texts, together, entail. A sentence is entailed where the model's most
likely label is entailment. A premise longer than the model reads is cut into windows of whole
sentences, and one window suffices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from llm_marl_envs.envs.writing.words import sentences_of
from llm_marl_envs.scorers import Submission
from trainers.scorers.classifier import PairClassifier

MAX_SENTENCES = 64
"""Sentences that are judged of the source, and of what the authors wrote together; those beyond
count as not entailed."""


class EntailmentScorer:
    """Asks a sequence classifier whose labels name entailment.

    Args:
        model: a name or folder that `from_pretrained` takes.

    Raises:
        ValueError: no model, no classifier, or not one label that names entailment.
    """

    def __init__(self, model: str = "") -> None:
        if not model:
            raise ValueError("nli: expected nli:MODEL, a name or folder of an entailment model")
        self.classifier = PairClassifier(model)
        labels = self.classifier.labels
        named = [i for i, label in enumerate(labels) if _is_entailment(label)]
        if len(named) != 1:
            raise ValueError(f"nli:{model}: expected one label 'entailment', got {labels}")
        self.label = named[0]

    def score(self, batch: Sequence[Submission]) -> list[Mapping[str, float]]:
        """`supported` in [0, 1], and `missed` <= 0: what is lost where the source is not covered.

        The parts sum to supported * covered.
        """
        asked: dict[tuple[str, str], bool] = {}
        for entry in batch:
            asked |= dict.fromkeys([*self._said(entry), *self._kept(entry)], False)
        asked = self._entailed(list(asked))
        scores = []
        for entry in batch:
            supported = _share(self._said(entry), asked, "\n".join(entry.texts))
            covered = _share(self._kept(entry), asked, entry.source)
            scores.append({"supported": supported, "missed": supported * covered - supported})
        return scores

    def _said(self, entry: Submission) -> list[tuple[str, str]]:
        return [(entry.source, sentence) for sentence in _sentences("\n".join(entry.texts))]

    def _kept(self, entry: Submission) -> list[tuple[str, str]]:
        texts = "\n".join(entry.texts)
        return [(texts, sentence) for sentence in _sentences(entry.source)]

    def _entailed(self, pairs: list[tuple[str, str]]) -> dict[tuple[str, str], bool]:
        """Pair -> whether any window of the premise entails the sentence."""
        windows = [
            (number, window)
            for number, (premise, sentence) in enumerate(pairs)
            for window in self._windows(premise, sentence)
        ]
        logits = self.classifier.logits([(window, pairs[n][1]) for n, window in windows])
        entailed = dict.fromkeys(pairs, False)
        for (number, _), best in zip(windows, logits.argmax(dim=-1).tolist(), strict=True):
            entailed[pairs[number]] |= best == self.label
        return entailed

    def _windows(self, premise: str, sentence: str) -> list[str]:
        """The premise in as few pieces of whole sentences as the model can read."""
        if self.classifier.length(premise, sentence) <= self.classifier.max_length:
            return [premise]
        windows: list[str] = [""]
        for piece in sentences_of(premise):
            longer = f"{windows[-1]} {piece}".strip()
            if self.classifier.length(longer, sentence) <= self.classifier.max_length:
                windows[-1] = longer
            else:
                windows.append(piece)
        return [window for window in windows if window]


def _is_entailment(label: str) -> bool:
    label = label.lower()
    return "entail" in label and not label.startswith(("not", "non"))


def _sentences(text: str) -> list[str]:
    return sentences_of(text)[:MAX_SENTENCES]


def _share(
    pairs: Sequence[tuple[str, str]], entailed: Mapping[tuple[str, str], bool], text: str
) -> float:
    """The entailed of `pairs`, over all sentences of `text`."""
    return sum(entailed[pair] for pair in pairs) / max(len(sentences_of(text)), 1)
