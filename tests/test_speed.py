"""The page of speed shows what was measured, and the guard fails where a ratio fell."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from support.paths import ROOT

pytestmark = pytest.mark.full  # `make test-all` runs it


@pytest.fixture
def record(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.speed import record

    return record


def test_the_page_holds_the_tables(record: ModuleType):
    page = record.PAGE.read_text()
    assert page == record.page(), "python -m benchmarks.speed.record"
    named = set(record.BLOCK.findall(page))
    assert {name for _, name, _ in named} == set(json.loads(record.RECORD.read_text()))


def test_a_table_by_hand(record: ModuleType):
    rows = [{"a": 1234.5, "raw": [1]}, {"a": 0.12345, "b": 20_000}, {"a": None, "b": "x"}]
    lines = ["| a | b |", "|---|---|", "| 1,234 |  |", "| 0.123 | 20,000 |", "|  | x |"]
    assert record.table(rows) == "\n".join(lines)


def test_ratios_and_exponents_by_hand(record: ModuleType):
    assert record.ratio([1.0, 9.0, 4.0], [1.0, 3.0, 2.0]) == 2.0
    assert record.exponent([1, 10, 100], [2.0, 200.0, 20_000.0]) == pytest.approx(2.0)


def test_jobs_take_turns_and_the_first_round_does_not_count(record: ModuleType):
    order: list[str] = []
    jobs = {name: lambda name=name: order.append(name) for name in "ab"}
    seconds = record.alternate(jobs, 2)
    assert order == list("ababab")
    assert [len(one) for one in seconds.values()] == [2, 2]


@pytest.mark.long
def test_no_ratio_fell():
    """What `make bench` runs."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.speed.guard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]


def test_a_fallen_ratio_is_seen(monkeypatch: pytest.MonkeyPatch):
    pytest.importorskip("trl")
    monkeypatch.syspath_prepend(str(ROOT))
    from benchmarks.speed.guard import Bound

    assert Bound(name="x", value=0.8, least=0.7).kept
    assert not Bound(name="x", value=0.6, least=0.7).kept
    assert not Bound(name="x", value=1.4, most=1.3).kept
    assert not Bound(name="x", value=float("nan"), most=1.3).kept


def problem(number: int) -> dict[str, str]:
    """A row in the schema of HumanEval."""
    name = f"plus_{number}"
    return {
        "task_id": f"Small/{number}",
        "prompt": f'def {name}(x: int) -> int:\n    """Add {number}."""\n',
        "entry_point": name,
        "canonical_solution": f"    return x + {number}\n",
        "test": f"def check(candidate):\n    assert candidate(2) == {number + 2}\n",
        "split": "test" if number < 2 else "train",
    }


@pytest.mark.long
def test_the_run_file_of_coop_humaneval_trains(tmp_path: Path):
    """Two updates and an evaluation of tiny models; what is short of the file is named here."""
    pytest.importorskip("trl")
    from support.models import SETTINGS, tiny_tokenizer

    from trainers.train import read_run, train
    from trainers.weights.tiny import build_model

    tokenizer = tiny_tokenizer()
    sizes = SETTINGS.changed(max_position_embeddings=4096)
    build_model(tokenizer, 0, sizes).save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(problem(k)) + "\n" for k in range(10)))
    changes = {
        "model": tmp_path / "model",
        "env_kwargs.tasks": rows,
        "trainer.output_dir": tmp_path / "run",
        "trainer.num_train_epochs": 1,
        "trainer.max_completion_length": 8,
        "trainer.eval_tasks": 2,
        "trainer.use_cpu": "true",
    }
    run = read_run(
        ROOT / "benchmarks" / "gpu" / "coop_humaneval.yaml",
        [f"{name}={value}" for name, value in changes.items()],
    )
    trained = train(run)
    log = trained.state.log_history
    assert [entry["step"] for entry in log if "reward" in entry] == [1, 2]
    assert [entry["step"] for entry in log if "eval_reward" in entry] == [2]
    assert trained.collector.env.possible_agents == ["helper_0", "main_0"]
    assert trained.team.mode == "separate"
