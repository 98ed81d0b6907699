"""A task that a tiny model learns in seconds, and models that know half of it.

Two seats; the team is paid the share of digits in the first four letters of each, or each seat its
own. A model writes four letters, about half of them digits, as they are or in a call of the tool
`say`.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, ClassVar

import torch
import trl
from support.registries import restored
from torch.nn.utils.rnn import pad_sequence

from llm_marl_envs import register
from llm_marl_envs.core.environment import TextParallelEnv, described
from llm_marl_envs.core.experts import Experts
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from trainers.bridges.trl import seat_environment
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer, warm_start

DIGITS = "0123456789"
LETTERS = "01234567abcdefgh"
TOLD = {"role": "user", "content": "Write four digits."}
CALL = '<tool_call>\n{"name": "say", "arguments": {"text": "', '"}}\n</tool_call>'
TEMPLATE = Path(trl.__file__).parent / "chat_templates" / "qwen3_instruct_2507.jinja"


class DigitExperts(Experts):
    """Say four digits."""

    def first(self, task: Task, agent: str, convention: str) -> str:
        return "1234"


class Digits(TextParallelEnv):
    """See the module; each turn pays the share of its own texts, over the number of turns.

    `pay` is "team" or "own".
    """

    metadata: ClassVar[dict[str, Any]] = described("digits")
    reward_range = (0.0, 1.0)

    def __init__(
        self, *, turns: int = 1, pay: str = "team", render_mode: str | None = None
    ) -> None:
        self.pay = pay
        tasks = [Task(f"train/{number}", "train", {}) for number in range(64)]
        super().__init__(
            agents=["a_0", "b_0"],
            source=ListSource(tasks, "train"),
            max_turns=turns,
            max_action_chars=16,
            render_mode=render_mode,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        return dict.fromkeys(self.possible_agents, (Message("user", TOLD["content"]),))

    def experts(self) -> Experts | None:
        return DigitExperts()

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        own = {a: sum(c in DIGITS for c in text[:4]) / 4 for a, text in joint_action.items()}
        share = sum(own.values()) / len(own)
        paid = own if self.pay == "own" else dict.fromkeys(own, share)
        return Outcome(
            reward_terms={agent: {"digits": paid[agent] / self.max_turns} for agent in paid},
            feedback=dict.fromkeys(joint_action, "Again."),
            success=share == 1,
        )


def register_toys() -> None:
    """The ids "digits-v0", which pays the team, and "digits_own-v0", which pays each seat."""
    register("digits-v0", "support.digits:Digits")
    register("digits_own-v0", "support.digits:Digits", kwargs={"pay": "own"})


def toy(kind: bool | str) -> tuple[str, str]:
    """Environment and model of an example: True for a team, "seat" for one, "tool" for its tool."""
    return "digits-v0" if kind is True else "digits_own-v0", half_knowing(tool=kind == "tool")


@cache
def half_knowing(*, tool: bool = False) -> str:
    """The folder of the model, made once per process; with `tool` it calls `say`."""
    sizes = TinySettings(
        hidden_size=64,
        num_heads=2,
        intermediate_size=64,
        num_layers=1,
        steps=60,
        learning_rate=1e-2,
        max_position_embeddings=256,
    )
    tokenizer = build_tokenizer(["user\nWrite four digits.\nassistant\nAgain.\n"] * 9, 290)
    if tool:
        model = _calling(tokenizer, sizes)
    else:
        model = build_model(tokenizer, 0, sizes)
        warm_start(model, tokenizer, _shown_words(), 0, sizes)
    folder = Path(mkdtemp(prefix="half_knowing_"))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def _words() -> Iterator[str]:
    """Four letters each, half of them digits."""
    rng = random.Random(0)
    while True:
        yield "".join(rng.choice(LETTERS) for _ in range(4))


def _shown_words() -> list[Any]:
    """Words as first and as second turns."""
    word = _words()
    shown: list[Any] = []
    for number in range(400):
        again = [
            {"role": "assistant", "content": next(word)},
            {"role": "user", "content": "Again."},
        ]
        shown.append(([TOLD, *(again if number % 2 else [])], next(word)))
    return shown


def _calling(tokenizer: Any, sizes: TinySettings) -> Any:
    """A model that calls `say` with a word each turn, and ends with "." once it is over.

    What all chats share becomes three tokens: the tool's description, and both ends of a call. The
    warm start of the library's tiny model writes such markup out, so this one has its own.
    """
    with restored():
        register("half_knowing-v0", Digits)
        say = seat_environment("half_knowing-v0", {"b_0": "expert"})().say
    tokenizer.chat_template = TEMPLATE.read_text()
    text = tokenizer.apply_chat_template([TOLD], tools=[say], tokenize=False)
    offer = text.removeprefix("<|im_start|>system\n").partition("<|im_end|>")[0]
    tokenizer.add_tokens([offer, *CALL])
    model = build_model(tokenizer, 0, sizes)
    word = _words()
    rows: list[tuple[list[int], int]] = []  # ids, and where the answer begins
    for number in range(600):
        heard = ("", "Again.", "The episode is over.")[number % 3]
        told = [TOLD, *(_call_and(next(word), heard) if heard else [])]
        prompt = tokenizer.apply_chat_template(
            told, tools=[say], add_generation_prompt=True, return_dict=False
        )
        answer = "." if number % 3 == 2 else next(word).join(CALL)
        spoken = tokenizer.encode(answer, add_special_tokens=False)
        rows.append(([*prompt, *spoken, tokenizer.eos_token_id], len(prompt)))
    _taught(model, rows, sizes)
    return model


def _call_and(word: str, heard: str) -> list[dict[str, Any]]:
    """A call of the tool, and what it answered."""
    function = {"name": "say", "arguments": {"text": word}}
    call = {"role": "assistant", "tool_calls": [{"type": "function", "function": function}]}
    return [call, {"role": "tool", "name": "say", "content": heard}]


def _taught(model: Any, rows: Sequence[tuple[list[int], int]], sizes: TinySettings) -> None:
    """Teach the answers of rows, with a rate that falls to zero."""
    rng = random.Random(0)
    optimizer = torch.optim.AdamW(model.parameters(), sizes.learning_rate)
    for step in range(sizes.steps):
        batch = rng.sample(rows, sizes.batch_size)
        ids = [torch.tensor(row) for row, _ in batch]
        labels = [torch.tensor([-100] * at + row[at:]) for row, at in batch]
        optimizer.param_groups[0]["lr"] = sizes.learning_rate * (1 - step / sizes.steps)
        model(
            input_ids=pad_sequence(ids, batch_first=True, padding_value=0),
            attention_mask=pad_sequence([torch.ones_like(row) for row in ids], batch_first=True),
            labels=pad_sequence(labels, batch_first=True, padding_value=-100),
        ).loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
