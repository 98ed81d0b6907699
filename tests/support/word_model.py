"""A model that says its word, and twice where it is asked again: no two texts alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.models import tiny_tokenizer
from support.toys import WORDS

from trainers.weights.tiny import TinySettings, build_model, warm_start

SIZES = TinySettings(
    vocab_size=300,
    hidden_size=64,
    num_heads=2,
    num_layers=1,
    intermediate_size=128,
    max_position_embeddings=512,
    steps=110,
    learning_rate=1e-2,
)


def word_model_folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Its folder; a fixture."""
    shown: list[Any] = []
    for word in WORDS:
        told = [
            {"role": "system", "content": "Say your word."},
            {"role": "user", "content": f"Your word: {word}"},
        ]
        said = [{"role": "assistant", "content": word}, {"role": "user", "content": "Again."}]
        shown += [(told, word), ([*told, *said], word + word)]
    tokenizer = tiny_tokenizer()
    model = build_model(tokenizer, 0, SIZES)
    warm_start(model, tokenizer, shown * 20, 0, SIZES)
    folder: Path = tmp_path_factory.mktemp("word_model")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
