"""A judge that knows questions by heart and listens to nobody: what can be had without a debate."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import numpy as np

from llm_marl_envs import make, make_vec
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.tasks import Task
from llm_marl_envs.envs.debate.sides import claims_of
from llm_marl_envs.envs.questions import question_of
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.policies import ScriptedPolicy

ID = "debate_pro_con-v0"
CLAIM = re.compile(r"^\w+ claims: \[(.*)\]$", re.MULTILINE)
PLAYED = {"train": 256, "test": 1024}
"""Questions that a judge is asked; all of `test`."""


def words_of(*texts: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", " ".join(texts)))


class LookUp:
    """Takes the claim that was right in the nearest known question, by the number of shared words.

    Where question and both claims are known word for word, that is what counts. Else all questions
    that share most words vote, for the claim that is more like their right one than the wrong one.
    """

    def __init__(self, known: Iterable[Task]) -> None:
        self.right: list[tuple[str, str]] = []
        self.exact: dict[tuple[str, frozenset[str]], str] = {}
        rows: list[frozenset[str]] = []
        for task in known:
            question = question_of(task)
            claims = claims_of(question)
            wrong = claims.con if claims.pro_right else claims.pro
            self.right.append((claims.right, wrong))
            self.exact[question.text, frozenset({claims.right, wrong})] = claims.right
            rows.append(words_of(question.text, claims.right, wrong))
        self.places = {word: i for i, word in enumerate(sorted(frozenset().union(*rows)))}
        self.table = np.array([self.row(words) for words in rows])  # (questions, words)

    def row(self, words: Iterable[str]) -> np.ndarray:
        row = np.zeros(len(self.places), dtype=np.float32)
        row[[self.places[word] for word in words if word in self.places]] = 1
        return row

    def act(self, requests: Sequence[Request]) -> list[Response]:
        return [Response(text=f"Answer: [{self.verdict(request)}]") for request in requests]

    def verdict(self, request: Request) -> str:
        text = request.messages[0].content.partition("Question: ")[2]
        one, other = CLAIM.findall(request.messages[-1].content)
        by_heart = self.exact.get((text, frozenset({one, other})))
        if by_heart is not None:
            return by_heart
        shared = self.table @ self.row(words_of(text, one, other))
        votes = 0
        for place in np.flatnonzero(shared == shared.max()):
            right, wrong = map(words_of, self.right[place])
            for sign, claim in ((1, one), (-1, other)):
                votes += sign * (len(words_of(claim) & right) - len(words_of(claim) & wrong))
        return one if votes > 0 else other


@lru_cache(maxsize=2)
def accuracy_without_debate(split: str) -> dict[str, float]:
    """Kind -> how often a judge is right that knows all train questions, debaters being silent."""
    judge = LookUp(make(ID, split="train").source)
    silent = ScriptedPolicy(lambda request: "")
    copies = make_vec(ID, 32, split=split)
    team = {"pro_0": silent, "con_0": silent, "judge_0": judge}
    starts = [Start(task=index, seed=index) for index in range(PLAYED[split])]
    right: dict[str, list[float]] = {}
    for episode in rollout(copies, team, starts):
        info = episode.turns[-1].info
        right.setdefault(info["kind"], []).append(info["judge_accuracy"])
    return {kind: sum(some) / len(some) for kind, some in right.items()}
