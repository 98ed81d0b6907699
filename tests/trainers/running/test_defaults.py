"""Settings that depend on the model: what is chosen, why, and that a given one is left alone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.launch import finished, on_two_nodes
from support.models import SHORT, untrained

from llm_marl_envs import make
from trainers.running import defaults
from trainers.running.defaults import bytes_per_token, choices
from trainers.running.folder import newest_checkpoint
from trainers.train import read_run, run_train, settled
from trainers.weights.team_files import build_team_model
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer

ENV = "coop_writing_tldr-v0"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("model")
    for one in untrained():
        one.save_pretrained(folder)
    return str(folder)


def chosen(model: str, *, lora: bool = True, **given: Any) -> dict[str, Any]:
    return choices(given, [model], make(ENV), lora=lora, turns=1)


def test_what_is_given_is_left_alone(model: str) -> None:
    assert chosen(model, temperature=0.3, learning_rate=1.0, rows_per_micro_batch=3) == {}


def test_rates_and_temperatures(model: str, tmp_path: Path) -> None:
    found = chosen(model)
    assert found["learning_rate"].value == 2e-4
    assert chosen(model, lora=False)["learning_rate"].value == 2e-5
    assert found["temperature"].value == 1.0
    own, tokenizer = untrained()
    own.generation_config.do_sample, own.generation_config.temperature = True, 0.6
    own.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    assert chosen(str(tmp_path))["temperature"].value == 0.6
    mixed = choices({}, [model, str(tmp_path)], make(ENV), lora=True, turns=1)
    assert mixed["temperature"].value == 1.0


def test_rows_by_free_memory(model: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen(model)["rows_per_micro_batch"].value == defaults.MOST_ROWS
    found = []
    for mib in (0, 64, 128, 512):
        monkeypatch.setattr(defaults, "_free_bytes", lambda mib=mib: mib << 20)
        found.append(chosen(model, max_completion_length=100)["rows_per_micro_batch"].value)
    assert found[0] == 1
    assert found == sorted(found)
    assert found[1] < found[2]  # twice the memory, twice the rows
    assert all(rows & (rows - 1) == 0 for rows in found)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "texts"),
    [
        ("coop_coding-v0", {}, 1),
        ("coop_coding-v0", {"turns": 2, "feedback": "partner"}, 3),
        ("debate-v0", {"rounds": 2}, 4),  # two of its own, the first of each of the two others
    ],
)
def test_texts_of_others_are_counted(
    model: str, env_id: str, kwargs: dict[str, Any], texts: int
) -> None:
    env = make(env_id, **kwargs)
    turns = env.unwrapped.max_turns

    def tokens(most: int) -> int:
        given = {"temperature": 1.0, "learning_rate": 1.0, "max_completion_length": most}
        rows = choices(given, [model], env, lora=True, turns=turns)["rows_per_micro_batch"]
        return int(rows.why.split(" tokens")[0].rsplit(" ", 1)[-1].replace(",", ""))

    assert tokens(101) - tokens(1) == 100 * texts


@pytest.mark.parametrize("name", ["no/such", "/no/such/folder", "empty"])
def test_a_model_that_is_none_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its settings are looked at before it is loaded."""
    # As without a network, but for the half minute in which the client tries again.
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    (tmp_path / "empty").mkdir()
    model = str(tmp_path / name) if name == "empty" else name
    with pytest.raises(ValueError, match=f"model '{model}'"):
        settled({"model": model, "env": ENV, "trainer": {"use_cpu": True}})


def test_what_names_no_seat_is_refused_before_a_model_is_made(model: str) -> None:
    run: dict[str, Any] = {
        "model": model,
        "env": ENV,
        "warm_start": {"steps": 1},
        "trainer": {"use_cpu": True},
    }
    for changes, named in (
        ({"model": {"brieff": model, "detailed_0": model}}, "brieff"),
        ({"model": {"brief_0": model, "detailed_0": model}}, "weights"),
        ({"partners": {"brief": "expert"}}, "brief"),
        ({"partners": {"brief_0": "expret"}}, "expret"),
    ):
        with pytest.raises(ValueError, match=named):
            settled({**run, **changes})


OWN_CODE = """
from transformers import Qwen2Config
class OwnConfig(Qwen2Config):
    model_type = "own"
"""


def test_a_model_with_code_of_its_own(model: str, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(model, tmp_path / "own"))
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": "own", "auto_map": {"AutoConfig": "configuration_own.OwnConfig"}}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "configuration_own.py").write_text(OWN_CODE)
    trust: dict[str, Any] = {"trust_remote_code": True}
    both: list[dict[str, Any]] = [trust, {"model_init_kwargs": trust}]
    for given in both:
        assert "rows_per_micro_batch" in chosen(str(folder), **given)


OWN_TOKENIZER = """
from transformers import PreTrainedTokenizerFast
class OwnTokenizer(PreTrainedTokenizerFast):
    own = True
"""


def test_a_tokenizer_with_code_of_its_own(model: str, tmp_path: Path) -> None:
    """Trusted code serves weights and tokenizer alike."""
    folder = Path(shutil.copytree(model, tmp_path / "own"))
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config |= {"tokenizer_class": "OwnTokenizer"}
    config |= {"auto_map": {"AutoTokenizer": [None, "tokenization_own.OwnTokenizer"]}}
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "tokenization_own.py").write_text(OWN_TOKENIZER)
    team = build_team_model(
        str(folder), ("a_0",), weights="separate", init_kwargs={"trust_remote_code": True}
    )
    assert team.tokenizers["a_0"].own
    with pytest.raises(ValueError, match="trust_remote_code"):
        build_team_model(str(folder), ("a_0",), weights="separate")


TWO = """
import os, sys
from trainers.running import defaults
from trainers.train import main
defaults._free_bytes = lambda: 64 << 20 if os.environ["RANK"] == "1" else 4 << 30
sys.exit(main(["--config", sys.argv[1]]))
"""


def test_processes_with_unlike_memory_plan_the_same_rows(model: str, tmp_path: Path) -> None:
    trainer = {**SHORT, "output_dir": str(tmp_path / "run"), "max_steps": 1}
    trainer |= {"tasks_per_update": 2, "max_completion_length": 64}
    run = {"model": model, "env": ENV, "lora": {"r": 2}, "trainer": trainer}
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(run))
    (tmp_path / "two.py").write_text(TWO)
    on_two_nodes(str(tmp_path / "two.py"), str(tmp_path / "run.yaml"))
    config = json.loads((tmp_path / "run" / "run_manifest.json").read_text())["config"]
    assert "64 MiB free" in config["chosen"]["rows_per_micro_batch"]
    assert config["trainer"]["rows_per_micro_batch"] < defaults.MOST_ROWS


MEASURE = """
import sys, torch
from trainers.running.memory import peak_mib
from transformers import AutoModelForCausalLM
torch.set_num_threads(1)
model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
rows = int(sys.argv[2])
if rows:
    ids = torch.randint(3, model.config.vocab_size, (rows, 128))
    model(input_ids=ids, labels=ids).loss.backward()
print(round(peak_mib(torch.device("cpu")) * 2**20))
"""


def test_memory_is_estimated_within_a_factor_of_two(tmp_path: Path) -> None:
    """Peak memory of a process, with and without a pass of 32 rows of 128 tokens."""
    sizes = TinySettings(vocab_size=4000, hidden_size=192, num_layers=6, intermediate_size=512)
    tokenizer = build_tokenizer([f"word{i}" for i in range(9000)], sizes.vocab_size)
    model = build_model(tokenizer, 0, sizes)
    model.save_pretrained(tmp_path)
    (tmp_path / "measure.py").write_text(MEASURE)

    def peak(rows: int) -> int:
        return int(finished(str(tmp_path / "measure.py"), str(tmp_path), str(rows)))

    few, many = peak(8), peak(40)  # gradients are in both
    measured = (many - few) / (32 * 128)
    assert 0.5 < bytes_per_token(model.config) / measured < 2


def test_a_run_says_and_records_them_and_a_resumed_one_keeps_them(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = {
        "model": model,
        "env": ENV,
        "lora": {"r": 2, "target_modules": "all-linear"},
        "trainer": {
            "output_dir": str(tmp_path / "run"),
            "max_steps": 1,
            **SHORT,
        },
    }
    path = tmp_path / "run.yaml"
    path.write_text(yaml.safe_dump(run))
    team = run_train(path)
    said = capsys.readouterr().out
    assert "learning_rate 0.0002: LoRA adapters" in said
    assert "rows_per_micro_batch 32: " in said
    config = json.loads((tmp_path / "run" / "run_manifest.json").read_text())["config"]
    assert set(config["chosen"]) == {"temperature", "learning_rate", "rows_per_micro_batch"}
    assert config["trainer"]["learning_rate"] == 2e-4
    assert json.loads((team / "team.json").read_text())["temperature"] == 1.0
    less = lambda: 1 << 20  # noqa: E731 - another program took the memory meanwhile
    monkeypatch.setattr(defaults, "_free_bytes", less)
    last = newest_checkpoint(tmp_path / "run")
    assert last is not None
    for resume in ("true", str(last)):
        again = settled(read_run(path, [f"resume_from_checkpoint={resume}"]), say=False)
        assert again["trainer"]["rows_per_micro_batch"] == 32
        assert set(again["chosen"]) == set(config["chosen"])
    resumed = settled(read_run(path, ["resume_from_checkpoint=true"]), say=False)
    assert resumed["trainer"]["rows_per_micro_batch"] == 32
    assert settled(read_run(path), say=False)["trainer"]["rows_per_micro_batch"] == 1
