"""What a training run leaves to look at: its log, and groups with tokens and advantages.

Owns both files' form; `llm_marl_envs.report` reads them. An episode's line is that of
`records.write_jsonl`; each turn of a trained agent also holds

    "tokens": {"texts": [...], "advantages": [...], "logprobs": [...]}

one entry per sampled token: its text (joined they are the action, then the end token), the
advantage that its loss was weighted with, and its log-prob when it was sampled.

Episodes that failed are kept in files of their own (`failures.py`), tokens left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from transformers import TrainerCallback

from llm_marl_envs.core.records import EpisodeGroup, Turn, episode_to_dict
from llm_marl_envs.files.atomic import naming, replacing
from trainers.running.folder import LOG_FILE

REPLACEMENT = "\ufffd"


def write_group(
    path: str | Path,
    group: EpisodeGroup,
    advantages: np.ndarray,
    agents: Sequence[str],
    tokenizers: Mapping[str, Any],
) -> None:
    """Write one group of G episodes; an existing file is replaced at once, never half.

    `advantages` are (G, A, K), 0 for turns that are not trained on; `agents` the A trained agents.
    """
    lines = []
    own = advantages[: len(group.episodes)]  # another group may have more branches
    for episode, judged in zip(group.episodes, own, strict=True):
        data = episode_to_dict(episode)
        trained = () if episode.failed else agents
        for turn, written in zip(episode.turns, data["turns"], strict=True):
            known = turn.response.policy in tokenizers  # a past self or an opponent is not
            if turn.agent in trained and turn.response.completion_ids is not None and known:
                advantage = float(judged[agents.index(turn.agent), turn.index])
                tokenizer = tokenizers[turn.response.policy]
                written["tokens"] = _tokens(turn, advantage, tokenizer)
        lines.append(json.dumps(data) + "\n")
    with replacing(path) as partial:
        partial.write_text("".join(lines), encoding="utf-8")


def _tokens(turn: Turn, advantage: float, tokenizer: Any) -> dict[str, Any]:
    ids = turn.response.completion_ids or ()
    return {
        "texts": token_texts(ids, tokenizer),
        "advantages": [advantage] * len(ids),
        "logprobs": list(turn.response.logprobs or [0.0] * len(ids)),
    }


def token_texts(ids: Sequence[int], tokenizer: Any) -> list[str]:
    """The text that each id adds; joined they are the text of all ids.

    A character that several ids spell stands with the last of them.
    """
    texts: list[str] = []
    # Decoded from a few ids before, since some tokenizers drop the space before a first word.
    start, whole = 0, 0
    for end in range(1, len(ids) + 1):
        known = tokenizer.decode(ids[start:whole])
        text = tokenizer.decode(ids[start:end])
        if text.endswith(REPLACEMENT) and end < len(ids):
            texts.append("")
        else:
            texts.append(text[len(known) :])
            start, whole = whole, end
    return texts


class LogFile(TrainerCallback):
    """Keeps the run's log in a file, entry by entry, so that a killed run has one too.

    Evaluations before the training are no part of it: a folder with a log holds a run. Its first
    line, `{"engine": {...}}`, says who samples; it comes with the first entry.

    Args:
        folder: of the run.
        engine: what is known of the engine by then.
    """

    def __init__(self, folder: str | Path, engine: Callable[[], Mapping[str, Any]]) -> None:
        self.path = Path(folder) / LOG_FILE
        self.engine = engine
        self.begun = False

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Begin with what a resumed run has logged up to its checkpoint."""
        self.begun = True
        if state.is_world_process_zero:
            with replacing(self.path) as partial:
                partial.write_text(self._with_engine(state.log_history), encoding="utf-8")

    def on_log(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Add the newest entry."""
        if self.begun and state.is_world_process_zero:
            with naming(self.path), open(self.path, "a", encoding="utf-8") as file:
                newest = state.log_history[-1:]
                file.write(_lines(newest) if file.tell() else self._with_engine(newest))

    def _with_engine(self, entries: Sequence[Mapping[str, Any]]) -> str:
        """The beginning of the file; nothing as long as there is no entry."""
        return _lines([{"engine": dict(self.engine())}, *entries]) if entries else ""


def _lines(entries: Sequence[Mapping[str, Any]]) -> str:
    return "".join(json.dumps(entry) + "\n" for entry in entries)
