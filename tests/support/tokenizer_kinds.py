"""Small tokenizers of the kinds that real models come with, and the chat templates of families.

Each tokenizer is trained on the spot. `tokenizer(kind, family)` gives one with the control tokens
of that family, a thought's marks, a run of spaces and an ordinary word as added tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers
from tokenizers.trainers import BpeTrainer, WordPieceTrainer
from transformers import LlamaTokenizer, PreTrainedTokenizer, PreTrainedTokenizerFast

CORPUS = [
    "user question assistant answer system think INST the quick brown fox jumps over it | < > "
    "im_start im_end end_of_turn start USER: ASSISTANT: ### User: ### Response: hello world 1 2 3\n"
] * 20
BYTE_NAMES = [f"<0x{byte:02X}>" for byte in range(256)]
NOT_SPECIAL = ("<think>", "</think>", "    ", "hello")

CHATML = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (
    "<|begin_of_text|>{% for m in messages %}<|start_header_id|>{{ m['role'] }}<|end_header_id|>"
    "\n\n{{ m['content'] | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
MISTRAL = (
    "<s>{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }}[/INST]"
    "{% elif m['role'] == 'assistant' %} {{ m['content'] }}</s>"
    "{% else %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}"
)
GEMMA = (
    "<bos>{% for m in messages %}<start_of_turn>{{ 'model' if m['role'] == 'assistant' else 'user' "
    "}}\n{{ m['content'] | trim }}<end_of_turn>\n{% endfor %}"
    "{% if add_generation_prompt %}<start_of_turn>model\n{% endif %}"
)
# As Qwen3: looks into contents, drops earlier thoughts and writes an empty one.
THINKING = (
    "{% for m in messages %}{% set content = m['content'] %}"
    "{% if content.startswith('<tool_response>') %}tool{% endif %}"
    "<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and '</think>' in content %}"
    "{% set content = content.split('</think>')[-1].lstrip('\n') %}<think>\n\n</think>\n\n"
    "{% endif %}{{ content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Ordinary text around messages; what it looks for in contents it takes out.
PLAIN = (
    "{% for m in messages %}"
    "{% if m['role'] == 'assistant' %}### Response:\n{{ m['content'] }}</s>\n"
    "{% else %}### User:\n{{ m['content'].replace('/no_think', '') }}\n{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}### Response:\n{% endif %}"
)
FAMILIES: dict[str, tuple[str, tuple[str, ...]]] = {  # the last token ends a turn
    "ChatML": (CHATML, ("<|im_start|>", "<|im_end|>")),
    "Llama 3": (
        LLAMA3,
        ("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    ),
    "Mistral": (MISTRAL, ("<s>", "[INST]", "[/INST]", "</s>")),
    "Gemma": (GEMMA, ("<bos>", "<start_of_turn>", "<end_of_turn>")),
    "thinking": (THINKING, ("<tool_response>", "<|im_start|>", "<|im_end|>")),
    "plain text": (PLAIN, ("</s>",)),
}


def _byte_level(special: Sequence[str]) -> Tokenizer:
    one = Tokenizer(models.BPE())
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    one.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    one.train_from_iterator(
        CORPUS,
        BpeTrainer(
            vocab_size=400,
            special_tokens=list(special),
            initial_alphabet=alphabet,
            show_progress=False,
        ),
    )
    return one


def _with_bytes(special: Sequence[str]) -> Tokenizer:
    """SentencePiece's BPE with byte fallback; the names of bytes are no added tokens."""
    one = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    one.pre_tokenizer = pre_tokenizers.Metaspace()
    names = ["<unk>", *special, *BYTE_NAMES]
    one.train_from_iterator(
        CORPUS, BpeTrainer(vocab_size=600, special_tokens=names, show_progress=False)
    )
    described = json.loads(one.to_str())
    described["added_tokens"] = [
        token for token in described["added_tokens"] if token["content"] not in BYTE_NAMES
    ]
    return Tokenizer.from_str(json.dumps(described))


def _metaspace(special: Sequence[str], scheme: str) -> Tokenizer:
    one = _with_bytes(special)
    one.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
    one.decoder = decoders.Sequence(
        [decoders.Metaspace(prepend_scheme=scheme), decoders.ByteFallback(), decoders.Fuse()]
    )
    return one


def _prepended(special: Sequence[str]) -> Tokenizer:
    """As Llama 2: a normaliser writes a space before each text between added tokens."""
    one = _with_bytes(special)
    one.pre_tokenizer = None
    one.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    parts = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    one.decoder = decoders.Sequence([*parts, decoders.Strip(" ", 1, 0)])
    return one


def _unigram(special: Sequence[str]) -> Tokenizer:
    """Its model would take the names of bytes and of special tokens in a text for these."""
    scores = {"<unk>": -20.0, **dict.fromkeys(special, 0.0), **dict.fromkeys(BYTE_NAMES, -15.0)}
    scores |= {"\u2581": -3.0, **dict.fromkeys(("\u2581" + w for w in CORPUS[0].split()), -6.0)}
    scores |= {letter: -8.0 for letter in map(chr, range(33, 127)) if letter not in scores}
    one = Tokenizer(models.Unigram(list(scores.items()), unk_id=0, byte_fallback=True))
    one.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    one.decoder = decoders.Sequence(
        [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first"), decoders.Fuse()]
    )
    one.add_special_tokens([AddedToken(name, normalized=False) for name in special])
    return one


def _without_bytes(special: Sequence[str]) -> Tokenizer:
    """Runs of what it does not know become one special token, in honest texts too."""
    one = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    one.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
    one.decoder = decoders.Metaspace(prepend_scheme="first")
    names = ["<unk>", *special]
    one.train_from_iterator(
        CORPUS, BpeTrainer(vocab_size=400, special_tokens=names, show_progress=False)
    )
    return one


def _folding(special: Sequence[str]) -> Tokenizer:
    """Other spellings of its control tokens are these tokens, too."""
    one = _byte_level(())
    one.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase()])
    one.add_special_tokens([AddedToken(name, normalized=True) for name in special])
    return one


def _stripping(special: Sequence[str]) -> Tokenizer:
    one = _byte_level(())
    one.add_special_tokens([AddedToken(name, lstrip=True, rstrip=True) for name in special])
    return one


def _word_piece(special: Sequence[str]) -> Tokenizer:
    one = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    one.normalizer = normalizers.BertNormalizer()
    one.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    one.decoder = decoders.WordPiece()
    names = ["[UNK]", *special]
    one.train_from_iterator(
        CORPUS, WordPieceTrainer(vocab_size=300, special_tokens=names, show_progress=False)
    )
    return one


FAST: dict[str, Callable[[Sequence[str]], Tokenizer]] = {
    "byte-level BPE": _byte_level,
    "Metaspace": lambda special: _metaspace(special, "always"),
    "Metaspace first": lambda special: _metaspace(special, "first"),
    "prepended space": _prepended,
    "Unigram": _unigram,
    "no bytes": _without_bytes,
    "folding": _folding,
    "stripping": _stripping,
    "WordPiece": _word_piece,
}
KINDS = (*FAST, "LlamaTokenizer", "Python")


class Letters(PreTrainedTokenizer):
    """A tokenizer in Python: a token for each letter, 0 for what it does not know."""

    def __init__(self, **kwargs: Any) -> None:
        letters = ["<unk>", "\n", *map(chr, range(32, 127))]
        self.numbers = {letter: number for number, letter in enumerate(letters)}
        super().__init__(unk_token="<unk>", **kwargs)

    @property
    def vocab_size(self) -> int:
        return len(self.numbers)

    def get_vocab(self) -> dict[str, int]:
        return {**self.numbers, **self.added_tokens_encoder}

    def _tokenize(self, text: str, **kwargs: Any) -> list[str]:
        return list(text)

    def _convert_token_to_id(self, token: str) -> int:
        return self.numbers.get(token, 0)

    def _convert_id_to_token(self, index: int) -> str:
        return next(letter for letter, number in self.numbers.items() if number == index)

    def convert_tokens_to_string(self, tokens: list[str]) -> str:
        return "".join(tokens)


def tokenizer(kind: str, family: str, added: Sequence[AddedToken] = ()) -> Any:
    """A tokenizer of `KINDS` with the control tokens and the template of `FAMILIES`."""
    template, special = FAMILIES[family]
    shared: dict[str, Any] = {
        "eos_token": special[-1],
        "pad_token": special[-1],
        "chat_template": template,
        "clean_up_tokenization_spaces": False,
    }
    if kind == "Python":
        one: Any = Letters(additional_special_tokens=list(special), **shared)
    elif kind == "LlamaTokenizer":
        described = json.loads(_with_bytes(special).to_str())["model"]
        merges = [tuple(pair) for pair in described["merges"]]
        one = LlamaTokenizer(vocab=described["vocab"], merges=merges, **shared)
        one.add_special_tokens({"additional_special_tokens": list(special)})
    else:
        backend = FAST[kind](special)
        unknown = next((u for u in ("<unk>", "[UNK]") if backend.token_to_id(u) is not None), None)
        one = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token=unknown, **shared)
    one.add_tokens([AddedToken(name, normalized=False) for name in NOT_SPECIAL])
    one.add_tokens(list(added))
    return one
