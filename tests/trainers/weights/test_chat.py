"""Tokens in, tokens out: what a template puts between actions, and templates that rewrite."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from jinja2 import TemplateError
from support.models import tiny_tokenizer
from support.templates import COUNTING, FORGETFUL

from llm_marl_envs.core.spaces import Message
from trainers.weights.chat import ChatTemplate


def test_the_pieces_join_to_what_the_template_renders():
    tokenizer = tiny_tokenizer()
    chat = ChatTemplate(tokenizer)
    question, answer, more = Message("user", "a"), Message("assistant", "b"), Message("user", "c")
    sampled = [*tokenizer("b", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    joined = (
        chat.opening([question]) + sampled + chat.between([more], closed_by=tokenizer.eos_token_id)
    )
    assert tokenizer.decode(joined) == (
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n"
        "<|im_start|>user\nc<|im_end|>\n<|im_start|>assistant\n"
    )
    assert joined == chat.opening([question, answer, more])


def test_a_cut_action_gets_its_end_from_the_environment():
    tokenizer = tiny_tokenizer()
    chat = ChatTemplate(tokenizer)
    eos = tokenizer.eos_token_id
    closed = chat.between([Message("user", "c")], closed_by=eos)
    assert chat.between([Message("user", "c")], closed_by=None) == [eos, *closed]
    # Ended by another token than the template's: the template's end still comes.
    assert chat.between([Message("user", "c")], closed_by=eos + 1) == [eos, *closed]


def test_a_template_that_drops_reasoning_is_found():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = FORGETFUL
    with pytest.warns(UserWarning, match="rewrites earlier turns"):
        assert not ChatTemplate(tokenizer).appends
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ChatTemplate(tiny_tokenizer()).appends


def test_a_template_that_counts_turns_is_encoded_anew():
    """It never rewrites, but what it adds to a third turn is not what it adds to a second."""
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = COUNTING
    with pytest.warns(UserWarning, match="rewrites earlier turns"):
        assert not ChatTemplate(tokenizer).appends


def test_no_template_no_training():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = None
    with pytest.raises(ValueError, match="no chat template"):
        ChatTemplate(tokenizer)


def test_a_lone_surrogate_does_not_break_the_tokenizer():
    assert ChatTemplate(tiny_tokenizer()).opening([Message("user", "\ud800")])


# As Mistral v3 writes it: the system text stands in the last user turn.
WANDERING = (
    "{% set ns = namespace(system='') %}{% for m in messages %}"
    "{% if m['role'] == 'system' %}{% set ns.system = m['content'] + ' ' %}"
    "{% elif m['role'] == 'user' %}"
    "[INST] {{ ns.system if loop.last else '' }}{{ m['content'] }} [/INST]"
    "{% else %} {{ m['content'] }}<|im_end|>{% endif %}{% endfor %}"
)
SPACED = (
    "{% for m in messages %}{% if m['role'] == 'user' %}[INST] {{ m['content'] }} [/INST]"
    "{% elif m['role'] == 'assistant' %} {{ m['content'] }}<|im_end|>"
    "{% else %}{{ raise_exception('no system role') }}{% endif %}{% endfor %}"
)
# Keeps the last four messages.
SHORT_SIGHTED = (
    "{% for m in messages[-4:] %}"
    "<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


@pytest.mark.parametrize("template", [WANDERING, SHORT_SIGHTED])
def test_templates_that_move_or_drop_messages_are_found(template: str):
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = template
    with pytest.warns(UserWarning, match="rewrites earlier turns"):
        assert not ChatTemplate(tokenizer).appends


def test_a_space_before_answers_is_not_put_into_prompts():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = SPACED
    chat = ChatTemplate(tokenizer)
    assert tokenizer.decode(chat.opening([Message("user", "a")])) == "[INST] a [/INST]"
    with pytest.raises(
        ValueError, match=r"refuses a dialogue of \['system', 'user'\]: no system role"
    ):
        chat.opening([Message("system", "s"), Message("user", "a")])


def test_a_dialogue_that_a_template_does_not_continue_is_told_apart():
    chat = ChatTemplate(tiny_tokenizer())
    dialogue = [Message("user", "a"), Message("assistant", "b")]
    assert chat.extends(dialogue, [Message("user", "c")])
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = SHORT_SIGHTED
    with pytest.warns(UserWarning, match="rewrites"):
        assert not ChatTemplate(tokenizer).extends(dialogue * 2, [Message("user", "c")])


# As Qwen3's: prompts are open, answers of the past begin with an empty thought.
THINKING = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and '</think>' not in m['content'] %}"
    "<think>\n\n</think>\n\n{% endif %}{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def test_a_prompt_is_what_the_template_says_and_not_what_it_writes_before_old_answers():
    tokenizer = tiny_tokenizer()
    tokenizer.chat_template = THINKING
    question = {"role": "user", "content": "a"}
    expected = tokenizer.apply_chat_template([question], tokenize=False, add_generation_prompt=True)
    ids = ChatTemplate(tokenizer).opening([Message("user", "a")])
    assert (
        tokenizer.decode(ids)
        == expected
        == "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.full
def test_the_templates_that_trl_ships_open_as_they_say():
    import trl

    folder = Path(trl.__file__).parent / "chat_templates"
    seen = 0
    for file in sorted(folder.glob("*.jinja")):
        tokenizer = tiny_tokenizer()
        tokenizer.chat_template = file.read_text(encoding="utf-8")
        question = [{"role": "user", "content": "a"}]
        try:
            prompt = tokenizer.apply_chat_template(
                question, tokenize=False, add_generation_prompt=True
            )
            bare = tokenizer.apply_chat_template(question, tokenize=False)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                chat = ChatTemplate(tokenizer)
        except (ValueError, TypeError, TemplateError):  # wants messages of another shape
            continue
        if prompt != bare:
            seen += 1
            assert tokenizer.decode(chat.opening([Message("user", "a")])) == prompt, file.name
    assert seen >= 5
