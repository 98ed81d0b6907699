"""The embedded model: its tokenizer, its warm start, its cache, and that Transformers loads it."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from llm_marl_envs.play.registry import make
from trainers.weights import tiny
from trainers.weights.chat import ChatTemplate
from trainers.weights.shown import encoded

SMALL = tiny.TinySettings(
    vocab_size=400,
    hidden_size=32,
    num_layers=1,
    num_heads=2,
    intermediate_size=64,
    demonstrations=60,
    steps=3,
    batch_size=8,
)
CHAT = [{"role": "user", "content": "What is it?\nAnswer."}]


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    """At this size more threads only wait for each other, for minutes on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def demonstrations() -> list[tiny.Demonstration]:
    return tiny.demonstrations_of(["coop_coding-v0"], 60, seed=0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny.tiny_model(tmp_path_factory.mktemp("tiny") / "model", settings=SMALL))


def test_tokenizer_encodes_any_text_and_knows_chats() -> None:
    tokenizer = tiny.build_tokenizer(["user\n", "What is it?\nAnswer.", "assistant\n"] * 3, 300)
    for text in ("What is it?", "naïve\r\n\tλ 🙂", "", "  "):
        assert tokenizer.decode(tokenizer.encode(text)) == text
    prompt = tokenizer.apply_chat_template(CHAT, add_generation_prompt=True, tokenize=False)
    expected = "<|im_start|>user\nWhat is it?\nAnswer.<|im_end|>\n<|im_start|>assistant\n"
    assert prompt == expected
    assert tokenizer.eos_token == "<|im_end|>"
    ids = tokenizer.convert_tokens_to_ids([tiny.PAD, tiny.START, tiny.END])
    assert ids == [tiny.PAD_ID, 1, tiny.END_ID]
    assert (tokenizer.pad_token_id, tokenizer.eos_token_id) == (tiny.PAD_ID, tiny.END_ID)


def test_merges_cross_no_words_digits_or_brackets_but_within_whole_lines() -> None:
    texts = ["Write code.\nadd 35 twice\n    aux(xs)\n", "Write code.\n[red]\n", "red\n"] * 50
    tokenizer = tiny.build_tokenizer(texts, 400, ["Write code.", "[red]"])
    tokens = ["WriteĠcode.", "Ċ", "add", "Ġ3", "5", "Ġtwice", "ĊĠĠĠĠ", "aux", "(", "xs", ")", "Ċ"]
    assert tokenizer.tokenize(texts[0]) == tokens
    assert tokenizer.decode(tokenizer.encode(texts[0])) == texts[0]
    assert tokenizer.tokenize(texts[1]) == ["WriteĠcode.", "Ċ", "[red]", "Ċ"]
    assert tokenizer.tokenize("[red][red]\n") == ["[", "red", "]", "[", "red", "]", "Ċ"]


def test_tokens_of_two_words() -> None:
    texts = ["Rent: Mia paid the rent.\nadd 35 twice\n"] * 50
    tokenizer = tiny.build_tokenizer(texts, 400, words_per_token=2)
    tokens = ["Rent:ĠMia", "ĠpaidĠthe", "Ġrent.", "Ċ", "add", "Ġ3", "5", "Ġtwice", "Ċ"]
    assert tokenizer.tokenize(texts[0]) == tokens
    assert tokenizer.decode(tokenizer.encode("a b  c d e")) == "a b  c d e"
    with pytest.raises(ValueError, match="words_per_token=0: expected at least 1"):
        tiny.build_tokenizer(texts, words_per_token=0)


def test_whole_lines_are_those_that_many_prompts_have() -> None:
    demonstrations = [
        ([{"role": "user", "content": f"Add.\nThe number is {n}."}], "x") for n in range(30)
    ]
    assert tiny._repeated_lines(demonstrations) == ["Add."]


def test_saved_folder_loads_with_auto_classes(folder: Path) -> None:
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForCausalLM.from_pretrained(folder)
    generation = GenerationConfig.from_pretrained(folder)
    record = json.loads((folder / "tiny.json").read_text())
    made = tiny.demonstrations_of(record["env_ids"], SMALL.demonstrations, record["seed"])
    lines = tiny._repeated_lines(made)
    ours = tiny.build_tokenizer(tiny._texts(made), SMALL.vocab_size, lines)
    for messages, answer in made[:9]:
        text = str(ours.apply_chat_template(list(messages), tokenize=False)) + answer
        assert tokenizer.encode(text) == ours.encode(text)
    assert tokenizer.chat_template == tiny.CHAT_TEMPLATE
    assert tokenizer.padding_side == "left"
    assert model.config.vocab_size == len(tokenizer) <= SMALL.vocab_size
    assert generation.eos_token_id == tokenizer.convert_tokens_to_ids("<|im_end|>")
    assert generation.pad_token_id == tokenizer.pad_token_id
    assert {p.dtype for p in model.parameters()} == {torch.float32}


def test_only_answers_and_their_end_carry_loss(demonstrations: list[tiny.Demonstration]) -> None:
    tokenizer = tiny.build_tokenizer(tiny._texts(demonstrations), 400)
    messages, answer = demonstrations[0]
    ids, labels = map(torch.tensor, encoded(ChatTemplate(tokenizer), messages, answer))
    taught = labels[labels != tiny.IGNORED]
    assert tokenizer.decode(taught) == f"{answer}<|im_end|>"
    assert torch.equal(ids[-len(taught) :], taught)


def test_warm_start_learns_and_is_deterministic(demonstrations: list[tiny.Demonstration]) -> None:
    tokenizer = tiny.build_tokenizer(tiny._texts(demonstrations), 400)
    longer = tiny.TinySettings(**{**vars(SMALL), "steps": 30, "learning_rate": 1e-2})
    weights = []
    losses = []
    for settings in (SMALL, longer, longer):
        torch.manual_seed(len(weights))  # the global generator must not matter
        state = torch.get_rng_state()
        model = tiny.build_model(tokenizer, 7, settings)
        losses.append(tiny.warm_start(model, tokenizer, demonstrations, 7, settings))
        weights.append(torch.cat([p.detach().flatten() for p in model.parameters()]))
        assert torch.equal(torch.get_rng_state(), state)
    assert losses[1] < 0.6 * losses[0]
    assert torch.equal(weights[1], weights[2])
    with pytest.raises(ValueError, match="no demonstrations"):
        tiny.warm_start(model, tokenizer, [], 0)


def test_demonstrations_are_of_the_train_split(demonstrations: list[tiny.Demonstration]) -> None:
    env = make("coop_coding-v0", split="train")
    shown = {m.content for task in env.source for ms in env.opening(task).values() for m in ms}
    assert len(demonstrations) == 60
    assert {messages[-1]["content"] for messages, _ in demonstrations} <= shown
    with pytest.raises(ValueError, match="env_ids"):
        tiny.demonstrations_of([], 5, 0)


def test_each_environment_can_have_arguments_of_its_own() -> None:
    ids, each = ["debate-v0"] * 2, [{"channel": {"max_chars": n}} for n in (2, 3)]
    demonstrations = tiny.demonstrations_of(ids, 60, 0, each)
    first, second = (tiny.demonstrations_of(ids[:1], 30, 0, kwargs) for kwargs in each)
    assert demonstrations == [*first, *second]
    assert first != second
    with pytest.raises(ValueError, match="got 1 env_kwargs, expected one for each"):
        tiny.demonstrations_of(ids, 60, 0, each[:1])


def test_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demonstrations: list[tiny.Demonstration]
) -> None:
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path / "cache"))
    first = Path(tiny.tiny_model(settings=SMALL))
    assert first.parent == tmp_path / "cache"
    written = (first / "model.safetensors").stat().st_mtime_ns
    assert tiny.tiny_model(settings=SMALL) == str(first)
    assert (first / "model.safetensors").stat().st_mtime_ns == written
    weights = (first / "model.safetensors").read_bytes()
    assert tiny.tiny_model(settings=SMALL, fresh=True) == str(first)
    assert (first / "model.safetensors").stat().st_mtime_ns != written
    assert (first / "model.safetensors").read_bytes() == weights
    assert tiny.tiny_model(settings=SMALL, seed=1) != str(first)
    assert not list(first.parent.glob("*.partial"))


def test_a_folder_with_something_else_is_left_alone(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError, match="is not this"):
        tiny.tiny_model(tmp_path, settings=SMALL, fresh=True)
    assert (tmp_path / "notes.txt").read_text() == "mine"
    with pytest.raises(ValueError, match="fresh"):
        tiny.tiny_model(folder, settings=SMALL, seed=5)
