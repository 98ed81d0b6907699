"""Questions from rows: JSONL, GSM8K's schema through `datasets`, reasoning-gym's allowed sets."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

from llm_marl_envs import list_envs, make
from llm_marl_envs.core.tasks import ASKING
from llm_marl_envs.envs.questions import is_right, question_of, question_tasks, read_answer
from llm_marl_envs.envs.questions.reasoning_gym import ALLOWED

pytestmark = pytest.mark.full  # `make test-all` runs it

GSM = [
    {
        "question": f"Ann has {n} apples and buys {n}. How many has she?",
        "answer": f"She has {n} + {n} = <<{n}+{n}={2 * n}>>{2 * n}.\n#### {2 * n:,}",
    }
    for n in (3, 21, 700)
]


def test_rows_of_gsm8k() -> None:
    source = question_tasks(GSM, split="all")
    questions = [question_of(task) for task in source]
    assert [q.answer for q in questions] == ["6", "42", "1,400"]
    assert {q.kind for q in questions} == {"gsm8k"}
    assert is_right(questions[2], read_answer("It doubles.\nAnswer: 1400"))
    assert not is_right(questions[2], read_answer("It doubles.\n#### 1400"))


def test_a_jsonl_file(tmp_path: Path) -> None:
    file = tmp_path / "questions.jsonl"
    rows = [
        {"question": "Which?", "answer": "b", "choices": ["a", "b"], "evidence": ["x", "y", "z"]},
        {"question": "When?", "answer": "at noon", "also": ["12:00"]},
        {"text": "How many?", "answer": 7, "id": "seven", "level": 2, "shared": ["Not 8."]},
    ]
    file.write_text("\n".join(json.dumps(row) for row in rows), encoding="utf-8")
    one, also, two = (question_of(task) for task in question_tasks(str(file), split="all"))
    assert (one.answer, one.choices, one.evidence) == ("b", ("a", "b"), ("x", "y", "z"))
    assert one.text == "Which?\nChoices: [a][b]"
    assert (two.answer, two.level, two.shared) == ("7", 2, ("Not 8.",))
    assert question_tasks(str(file), split="all")[2].id == "seven"
    assert also.right == ("at noon", "12:00")
    assert is_right(also, "12:00")
    assert is_right(also, "At noon")
    assert not is_right(also, "at noon 12:00")


@pytest.mark.parametrize(
    ("row", "match"),
    [
        ({"answer": "1"}, "no question"),
        ({"question": "?", "answer": ""}, "answer"),
        ({"question": "?", "answer": True}, "answer"),
        ({"question": "?", "answer": "a\nb"}, "one line"),
        ({"question": "?", "answer": "so\n#### many"}, "number"),
        ({"question": "?", "answer": "c", "choices": ["a", "b"]}, "none of the choices"),
        ({"question": "?", "answer": "a", "also": ["c"], "choices": ["a", "b"]}, "'c' is none"),
        ({"question": "?", "answer": "a", "also": "b"}, "list of texts"),
        ({"question": "?", "answer": "a", "also": [""]}, "one line"),
        ({"question": "?", "answer": "a", "evidence": "abc"}, "list of texts"),
        ({"question": "?", "answer": "a", "evidence": 5}, "evidence: expected a list of texts"),
        ({"question": "?", "answer": "a", "evidence": {"x": "y"}}, "list of texts"),
        ({"question": "?", "answer": "a", "evidence": ["x", 1]}, "list of texts"),
        ({"question": "?", "answer": "[]"}, "no line 'Answer: ...' is read as it"),
        ({"question": "?", "answer": "a", "also": ["..."]}, "no line"),
        ({"question": "?", "answer": "a", "level": "hard"}, "integer"),
    ],
)
def test_unusable_rows_are_named(row: dict[str, Any], match: str) -> None:
    with pytest.raises(ValueError, match=match) as error:
        question_tasks([row], split="all")
    assert "row 1" in str(error.value)


def test_yes_or_no_rows_are_divided_over_the_splits() -> None:
    """They differ in their text alone; the order of choices does not make another question."""
    rows = [
        {"question": f"Is {n} prime?", "answer": "no", "choices": ["yes", "no"]} for n in range(40)
    ]
    sizes = [len(question_tasks(rows, split=split)) for split in ("train", "val", "test")]
    assert sum(sizes) == 40
    assert min(sizes) >= 2
    turned = [{**row, "choices": ["no", "yes"]} for row in rows]
    one, other = (question_tasks(given, split="all") for given in (rows, turned))
    assert [task.split for task in one] == [task.split for task in other]
    assert len({question_of(task).identity() for task in one}) == 40


def test_answers_with_brackets_or_a_full_stop_can_be_right() -> None:
    for answer in ("f[0]", "[1, 2, 3]", "Dr. No."):
        row = {"question": "?", "answer": answer, "choices": [answer, "other"]}
        question = question_of(question_tasks([row], split="all")[0])
        assert is_right(question, read_answer(f"Answer: {answer}"))
        assert not is_right(question, read_answer("Answer: other"))


def gsm_folder(folder: Path, configs: dict[str, list[dict[str, str]]]) -> str:
    """A local data set in the layout of `openai/gsm8k`: configurations with train and test."""
    header = ["configs:"]
    for config, rows in configs.items():
        header += [f"- config_name: {config}", "  data_files:"]
        (folder / config).mkdir(parents=True)
        for split in ("train", "test"):
            header += [f"  - split: {split}", f"    path: {config}/{split}.jsonl"]
            text = "\n".join(
                json.dumps({**row, "question": split + row["question"]}) for row in rows
            )
            (folder / config / f"{split}.jsonl").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text("\n".join(["---", *header, "---", ""]), encoding="utf-8")
    return str(folder)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path


def test_a_data_set_of_gsm8ks_layout(cache: Path) -> None:
    socratic = [{"question": "socratic", "answer": "#### 1"}]
    name = gsm_folder(cache / "gsm8k", {"main": GSM, "socratic": socratic})
    test = question_tasks(f"hub:{name}", split="test")
    assert [question_of(task).answer for task in test] == ["6", "42", "1,400"]
    assert question_of(test[0]).text.startswith("testAnn")
    other = question_tasks(f"hub:{name}#socratic", split="train")
    assert question_of(other[0]).text == "trainsocratic"
    with pytest.raises(ValueError, match="configurations"):
        question_tasks(f"hub:{name}#nothing", split="train")
    env = make("debate-v0", tasks=f"hub:{name}", split="test")
    assert env.info_mode == "full"
    env.reset(seed=0)


def test_configurations_without_a_main_one_must_be_named(cache: Path) -> None:
    name = gsm_folder(cache / "two", {"one": GSM, "other": GSM})
    with pytest.raises(ValueError, match="name one"):
        question_tasks(f"hub:{name}", split="train")


EXECUTE = {  # sets whose upstream scorers run the text of an answer
    *("spiral_matrix", "n_queens", "string_insertion", "binary_matrix", "countdown"),
    *("puzzle24", "polynomial_multiplication", "simple_integration", "intermediate_integration"),
}


def test_no_set_with_an_executing_scorer_can_be_named() -> None:
    assert not EXECUTE & set(ALLOWED)
    for name in (*EXECUTE, "codeio", "composite", "nothing"):
        with pytest.raises(ValueError, match="expected one of the sets"):
            question_tasks(f"reasoning-gym:{name}")


@pytest.mark.skipif(importlib.util.find_spec("reasoning_gym") is not None, reason="is installed")
def test_without_reasoning_gym_the_extra_is_named() -> None:
    for name in ("reasoning-gym:gcd", "reasoning_gym:gcd"):
        with pytest.raises(ImportError, match=r"llm-marl-envs\[reasoning-gym\]"):
            question_tasks(name)


@pytest.mark.parametrize("tasks", ["reasoning-gym:gcd", "reasoning_gym:gcd"])
def test_environments_that_ask_no_questions_name_those_that_do(tasks: str) -> None:
    asking = set()
    for env_id in list_envs():
        with pytest.raises(ValueError, match=r"reasoning.gym") as refused:
            make(env_id, tasks=tasks, split="ood")  # those that ask have no such split
        if "reasoning-gym's sets have ('train', 'val', 'test')" in str(refused.value):
            asking.add(env_id)
        else:
            assert str(refused.value) == (
                f"tasks={tasks!r}: these are questions, and this environment asks none; "
                "debate-v0, solve_and_evaluate-v0, solve_critique_refine-v0 do"
            )
    assert asking == {*ASKING, "debate_pro_con-v0"}
    with pytest.raises(ValueError, match=r"tasks='generated:order': these are questions"):
        make("coop_coding-v0", tasks="generated:order")


def test_two_sides_refuse_sets_without_evidence() -> None:
    pytest.importorskip("reasoning_gym")
    with pytest.raises(
        ValueError, match=r"two sides need a wrong answer: .* brings neither `choices` nor"
    ):
        make("debate_pro_con-v0", tasks="reasoning-gym:gcd").reset(seed=0)


@pytest.mark.parametrize("name", ALLOWED)
def test_allowed_sets_compare_and_never_execute(name: str, tmp_path: Path) -> None:
    package: Any = pytest.importorskip("reasoning_gym")

    def executed(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("an upstream scorer was called")

    for one in (package.create_dataset(name, seed=0, size=1),):
        one.__class__.score_answer, before = executed, one.__class__.score_answer
    try:
        questions = [
            question_of(task) for task in question_tasks(f"reasoning-gym:{name}", split="val")
        ]
        mark = tmp_path / "executed"
        payload = f"__import__('pathlib').Path({str(mark)!r}).touch()"
        for question in questions[:20]:
            assert is_right(question, read_answer(f"Answer: {question.answer}"))
            assert not is_right(question, read_answer(f"Answer: {payload}"))
            assert not is_right(question, f"{question.answer} or {payload}")
            assert not is_right(question, f"not {question.answer}")
        assert not mark.exists()
    finally:
        one.__class__.score_answer = before
    texts = {
        split: {question_of(t).text for t in question_tasks(f"reasoning-gym:{name}", split=split)}
        for split in ("val", "test")
    }
    assert not texts["val"] & texts["test"]
