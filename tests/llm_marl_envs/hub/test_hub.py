"""Teams and episodes to the Hub and back, through the real client of another process."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.hub_server import TOKEN, Hub, hub

pytest.importorskip("trl", reason="needs the extra `train`")

from peft import LoraConfig
from support.models import settings, untrained

from trainers.trainer import MAGRPOTrainer
from trainers.weights.team_files import load_team, save_team
from trainers.weights.team_model import FullWeights

TESTS = Path(__file__).parents[2]
ENV = "matrix_game-v1"
NAME = "me/players"
Cli = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a team on an embedded model, an evaluation, and much that is nobody's business."""
    home = tmp_path_factory.mktemp("made")
    model, tokenizer = untrained()
    for name in ("tiny-0123", "own_model"):
        model.save_pretrained(home / name)
        tokenizer.save_pretrained(home / name)
    (home / "tiny-0123" / "tiny.json").write_text("{}")
    for run, base in (("run", "tiny-0123"), ("local", "own_model")):
        args = settings(home / run, max_steps=1)
        adapters = LoraConfig(r=4, lora_alpha=8, target_modules=["q_proj", "v_proj"])
        trainer = MAGRPOTrainer(str(home / base), ENV, args, peft_config=adapters)
        trainer.train()
        trainer.save_team(home / run / "team")
    team = home / "run" / "team"
    (team / ".env").write_text("API_KEY=nobody\n")
    (team / "optimizer.pt").write_bytes(b"state")
    (team / "player_0" / "notes.txt").write_text("private")
    (team / "player_0" / "training_args.bin").write_bytes(b"pickle")
    return home


@pytest.fixture
def server() -> Iterator[Hub]:
    with hub() as running:
        yield running


@pytest.fixture
def cli(server: Hub, tmp_path: Path) -> Cli:
    """Run `llm-marl` in another process, whose Hub is the server."""

    def run(*arguments: Any, **more: str) -> subprocess.CompletedProcess[str]:
        return in_process("-m", "llm_marl_envs.cli", *arguments, **more)

    def in_process(*arguments: Any, **more: str) -> subprocess.CompletedProcess[str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "HUGGING"))}
        paths = os.pathsep.join([str(TESTS.parent), str(TESTS)])
        own = {
            "HF_ENDPOINT": server.url,
            "HF_HOME": str(tmp_path / "hf"),
            "HF_HUB_DISABLE_XET": "1",  # which would send large files elsewhere
            "HF_TOKEN": TOKEN,
            "LLM_MARL_CACHE": str(tmp_path / "cache"),
            "PYTHONPATH": paths,
            "no_proxy": "127.0.0.1",
        }
        done = subprocess.run(
            [sys.executable, *map(str, arguments)],
            env={**kept, **own, **more},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert TOKEN not in done.stdout + done.stderr
        return done

    run.python = lambda source, **more: in_process("-c", source, **more)  # type: ignore[attr-defined]
    return run


def mistake(done: subprocess.CompletedProcess[str], *words: str) -> None:
    """The command ended with one line that says these words."""
    assert done.returncode in (1, 2), done.stdout + done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0], lines[0]


def evaluated(cli: Cli, team: Any, output: Path) -> list[dict[str, Any]]:
    done = cli("eval", ENV, "--team", team, "--tasks", "2", "--samples", "3", "--output", output)
    assert done.returncode == 0, done.stderr
    lines = (output / "episodes.jsonl").read_text().splitlines()
    episodes = [json.loads(line) for line in lines]
    return [{k: v for k, v in episode.items() if k != "evaluation"} for episode in episodes]


def test_a_dry_run_sends_nothing(made: Path, cli: Cli, server: Hub):
    done = cli("push-team", made / "run", NAME, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert server.asked == []
    size = (made / "run/team/player_0/adapter_model.safetensors").stat().st_size
    assert re.search(rf"{size:,} +player_0/adapter_model\.safetensors", done.stdout)
    assert not re.search(r"\.env|optimizer|notes|training_args", done.stdout)


@pytest.mark.full
def test_a_team_goes_there_and_plays_the_same_from_there(
    made: Path, cli: Cli, server: Hub, tmp_path: Path
):
    team = made / "run" / "team"
    here = evaluated(cli, team, tmp_path / "here")
    done = cli("push-team", made / "run", NAME, "--evaluation", tmp_path / "here")
    assert done.returncode == 0, done.stderr
    assert server.repos["model", NAME].private
    sent = server.files(NAME)
    of_policy = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"}
    for policy in ("player_0", "player_1"):
        assert of_policy <= {p.split("/")[1] for p in sent if p.startswith(f"{policy}/")}
    assert {p.split("/")[0] for p in sent} == {
        *("README.md", "team.json", "base_model", "player_0", "player_1")
    }
    assert not [
        path
        for path in sent
        if re.search(r"\.env|\.pt|\.bin|notes|README", path[1:]) and path != "README.md"
    ]
    everything = b"".join(sent.values())
    assert TOKEN.encode() not in everything
    assert str(made).encode() not in everything
    summary = json.loads((tmp_path / "here" / "summary.json").read_text())
    card = sent["README.md"].decode()
    assert f"{summary['mean_return']:.2f}" in card.partition("## Measured")[2]
    pulled = cli("pull-team", NAME, "pulled")
    assert pulled.returncode == 0, pulled.stderr
    for path, data in sent.items():
        assert (tmp_path / "pulled" / path).read_bytes() == data
    assert evaluated(cli, f"hub:{NAME}", tmp_path / "there") == here


def test_a_revision_stays_what_it_was_and_needs_no_network_twice(
    made: Path, cli: Cli, server: Hub, tmp_path: Path
):
    cli("push-team", made / "run", NAME)
    first = server.repos["model", NAME].commits[-1][0]
    again = shutil.copytree(made / "run" / "team", tmp_path / "again")
    described = json.loads((again / "team.json").read_text())
    described["agents"]["player_1"] = "player_0"
    (again / "team.json").write_text(json.dumps(described))
    shutil.rmtree(again / "player_1")
    assert cli("push-team", again, NAME).returncode == 0
    assert not [path for path in server.files(NAME) if path.startswith("player_1/")]
    source = f"from llm_marl_envs.hub.team_repository import team_folder as f\nprint(f('hub:{NAME}"
    old = cli.python(f"{source}@{first}'))").stdout.strip()  # type: ignore[attr-defined]
    new = cli.python(f"{source}'))").stdout.strip()  # type: ignore[attr-defined]
    assert (Path(old) / "player_1").is_dir()
    assert not (Path(new) / "player_1").exists()
    asked = len(server.asked)
    assert cli.python(f"{source}@{first}'))").stdout.strip() == old  # type: ignore[attr-defined]
    assert len(server.asked) == asked


def weights(header: dict[str, Any]) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


TEAM = {"version": 1, "weights": "adapters", "agents": {"player_0": "a"}, "base": "someone/model"}
GOOD = {
    "team.json": json.dumps(TEAM).encode(),
    "a/adapter_config.json": b'{"auto_mapping": null, "peft_type": "LORA"}',
    "a/adapter_model.safetensors": weights({}),
    "a/tokenizer.json": b'{"model": {"vocab": {"auto_map": 1}}}',
    "picture.png": b"png",
}


def changed(**team: Any) -> bytes:
    return json.dumps({**TEAM, **team}).encode()


HOSTILE: dict[str, tuple[dict[str, bytes | None], str]] = {
    "pickle": ({"a/pytorch_model.bin": b"x"}, "pytorch_model.bin"),
    "pickle_beside": ({"b/state.PT": b"x"}, "state.PT"),
    "code": ({"a/modeling_mine.py": b"x"}, "modeling_mine.py"),
    "upwards": ({"../.bashrc": b"x"}, ".."),
    "upwards_inside": ({"a/../../x.json": b"{}"}, ".."),
    "absolute": ({"/etc/passwd": b"x"}, "etc"),
    "windows": ({"a\\..\\x.json": b"x"}, "x.json"),
    "auto_map": ({"a/config.json": b'{"auto_map": {"AutoModel": "m.M"}}'}, "auto_map"),
    "auto_map_of_a_tokenizer": (
        {"a/tokenizer_config.json": b'{"auto_map": {"AutoTokenizer": ["t.T", null]}}'},
        "auto_map",
    ),
    "trust": ({"a/config.json": b'{"x": [{"trust_remote_code": true}]}'}, "trust_remote_code"),
    "auto_mapping": ({"a/adapter_config.json": b'{"auto_mapping": {"a": "os"}}'}, "auto_mapping"),
    "megatron": ({"a/adapter_config.json": b'{"megatron_config": {"a": 1}}'}, "megatron_config"),
    "kernel": (
        {"a/config.json": b'{"_attn_implementation": "evil/kernel"}'},
        "attn_implementation",
    ),
    "base_here": ({"team.json": changed(base="/home/somebody/model")}, "base model"),
    "base_upwards": ({"team.json": changed(base="../model")}, "base model"),
    "base_is_a_map": ({"team.json": changed(base={"a": 1})}, "base model"),
    "policy_upwards": ({"team.json": changed(agents={"player_0": ".."})}, "policy"),
    "policy_in_a_policy": ({"team.json": changed(agents={"player_0": "a/b"})}, "policy"),
    "policy_is_a_list": ({"team.json": changed(agents={"player_0": ["a"]})}, "policy"),
    "policy_is_a_map": ({"team.json": changed(resting=[{"a": 1}])}, "policy"),
    "policy_is_the_base": ({"team.json": changed(agents={"player_0": "base_model"})}, "policy"),
    "no_json": ({"a/adapter_config.json": b"{"}, "adapter_config.json"),
    "a_key_twice": ({"team.json": b'{"agents": {}, "agents": {}}'}, "team.json"),
    "no_safetensors": ({"a/adapter_model.safetensors": b"../../secret"}, "safetensors"),
    "weights_elsewhere": (
        {"a/model.safetensors.index.json": b'{"weight_map": {"x": "../../b/model.safetensors"}}'},
        "elsewhere",
    ),
    "no_team": ({"team.json": None}, "team.json"),
    "large_team_file": ({"team.json": changed(note="x" * 2**21)}, "bytes"),
}


def test_hostile_repositories_are_refused(server: Hub, cli: Cli, tmp_path: Path):
    server.holds("evil/good", GOOD)
    for case, (change, _) in HOSTILE.items():
        files = {**GOOD, **change}
        server.holds(f"evil/{case}", {p: data for p, data in files.items() if data is not None})
    server.holds("evil/link", {p: d for p, d in GOOD.items() if "safetensors" not in p}).odd = {
        "a/adapter_model.safetensors": "symlink"
    }
    cases = {**{case: word for case, (_, word) in HOSTILE.items()}, "link": "link"}
    source = (
        "import json\n"
        "from llm_marl_envs.hub.client import Repository\n"
        "from llm_marl_envs.hub.team_repository import pull_team\n"
        "said = {}\n"
        f"for case in {[*cases, 'good']!r}:\n"
        "    try: pull_team(Repository.named('evil/' + case), 'pulled/' + case)\n"
        "    except ValueError as error: said[case] = str(error)\n"
        "print(json.dumps(said))"
    )
    done = cli.python(source)  # type: ignore[attr-defined]
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert set(said) == set(cases)
    for case, word in cases.items():
        assert word in said[case], (case, said[case])
        assert "\n" not in said[case]
    left = sorted(p.relative_to(tmp_path / "pulled") for p in (tmp_path / "pulled").rglob("*.*"))
    assert {path.parts[0] for path in left} == {"good"}
    assert not [path for path in left if path.name == "picture.png"]
    mistake(cli("eval", ENV, "--team", "hub:evil/code"), "modeling_mine.py")
    mistake(cli("pull-team", "evil/auto_map", "x"), "auto_map")


def test_a_pull_says_sizes_and_has_a_bound(server: Hub, cli: Cli, tmp_path: Path):
    weights = GOOD["a/adapter_model.safetensors"] + b"x" * 50_000
    files = {**GOOD, "a/adapter_model.safetensors": weights}
    server.holds("some/team", files)
    mistake(cli("pull-team", "some/team", "x", "--most-gib", "0.00002"), "a/adapter_model.safet")
    mistake(cli("pull-team", "some/team", "x", "--most-gib", "much"), "GiB")
    server.repos["model", "some/team"].sizes["a/adapter_model.safetensors"] = 7
    mistake(cli("pull-team", "some/team", "x", "--most-gib", "0.00002"), "more than 21,474 bytes")
    assert not (tmp_path / "x").exists()
    server.repos["model", "some/team"].sizes.clear()
    done = cli("pull-team", "some/team", "x", "--most-gib", "0.001")
    assert done.returncode == 0, done.stderr
    assert f"{len(weights):,}  a/adapter_model.safetensors" in done.stdout
    assert re.search(r"[\d,]+  bytes in \d+ files", done.stdout)
    assert (tmp_path / "x" / "a" / "adapter_model.safetensors").read_bytes() == weights


def test_all_chat_templates_of_a_team_go_along(server: Hub, cli: Cli, tmp_path: Path):
    model, tokenizer = untrained()
    template = tokenizer.chat_template
    tokenizer.chat_template = {"default": template, "tool_use": f"{template} ", "rag.v2": template}
    team = FullWeights(model, tokenizer, ["player_0", "player_1"])
    env = {"env_id": ENV, "env_kwargs": {}, "max_completion_length": 4, "temperature": 1.0}
    save_team(team, tmp_path / "made", env=env)
    assert cli("push-team", "made", NAME).returncode == 0
    assert cli("pull-team", NAME, "pulled").returncode == 0
    pulled = load_team(tmp_path / "pulled").tokenizers["shared"]
    assert pulled.chat_template == tokenizer.chat_template


PLAY = """
from llm_marl_envs.app.folders import Folders
from llm_marl_envs.app.games import Game, Setup
from llm_marl_envs.app.players import Players

players = Players(Folders([]), ["hub:me/players"])
chosen = {"player_0": "named:hub:me/players", "player_1": "expert"}
game = Game(Setup(env_id="matrix_game-v1", env_kwargs={}, task=0), players, chosen)
game.begin()
game.rest(120)
assert game.error is None, game.error
print([turn.agent for turn in game.episode.turns if turn.response.completion_ids])
"""


@pytest.mark.full
def test_a_team_of_the_hub_takes_a_seat_in_the_app(made: Path, cli: Cli, server: Hub):
    assert cli("push-team", made / "run", NAME).returncode == 0
    done = cli.python(PLAY)  # type: ignore[attr-defined]
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "['player_0']"
    server.repos.clear()
    again = cli.python(PLAY)  # type: ignore[attr-defined]
    assert again.returncode != 0
    assert "me/players" in again.stderr


@pytest.mark.full
def test_the_base_of_a_strangers_team_brings_no_code(server: Hub, cli: Cli, tmp_path: Path):
    """Nor is it read from this machine, whoever changed the folder."""
    server.holds("evil/good", {**GOOD, "a/tokenizer.json": b"{}"})
    server.holds("someone/model", {"config.json": b'{"auto_map": {"AutoModelForCausalLM": "m.M"}}'})
    assert cli("pull-team", "evil/good", "pulled").returncode == 0
    source = (
        "from pathlib import Path\n"
        "from trainers.weights.team_files import _without_code\n"
        "for base in ('someone/model', '/tmp', './own'):\n"
        "    try: _without_code(Path('pulled'), base)\n"
        "    except ValueError as error: print(error)\n"
        "print(_without_code(Path('.'), '/tmp'))"
    )
    done = cli.python(source)  # type: ignore[attr-defined]
    first, second, third, own = done.stdout.splitlines()
    assert "auto_map" in first
    assert "base model" in second
    assert "base model" in third
    assert own == "{}"


def test_a_base_that_only_the_pusher_has_is_said(made: Path, cli: Cli, server: Hub):
    team = made / "local" / "team"
    mistake(cli("push-team", team, NAME), "own_model", "--base", "--with-base")
    assert server.asked == []
    mistake(cli("push-team", team, NAME, "--base", made / "own_model"), "--base")
    assert cli("push-team", team, NAME, "--base", "someone/model").returncode == 0
    sent = server.files(NAME)
    assert json.loads(sent["team.json"])["base"] == "someone/model"
    assert "base_model: someone/model" in sent["README.md"].decode()
    config = json.loads(sent["player_0/adapter_config.json"])
    assert config["base_model_name_or_path"] == "someone/model"
    assert cli("push-team", team, NAME, "--with-base").returncode == 0
    own = (made / "own_model" / "model.safetensors").read_bytes()
    assert server.files(NAME)["base_model/model.safetensors"] == own


@pytest.mark.full
def test_a_push_is_refused_where_it_would_do_harm(
    made: Path, cli: Cli, server: Hub, tmp_path: Path
):
    server.holds(NAME, {"model.safetensors": b"theirs"}).private = True
    mistake(cli("push-team", made / "run", NAME), NAME, "something else")
    server.holds("me/public", {"team.json": b"{}"})
    mistake(cli("push-team", made / "run", "me/public"), "public")
    assert cli("push-team", made / "run", "me/public", "--public").returncode == 0
    mistake(cli("push-team", made / "run", NAME, HF_TOKEN="hf_" + "w" * 30), NAME, "your token")
    mistake(cli("push-team", made / "run", NAME, HF_TOKEN=""), NAME, "logged in")
    mistake(cli("push-team", made / "run", "no-owner"), "owner/name")
    mistake(cli("push-team", made / "run", "me/x@main"), "main")
    mistake(cli("push-team", made, NAME), "team.json")
    unkept = shutil.copytree(made / "run" / "team", tmp_path / "unkept")
    (unkept / "README.md").write_text(f"# Mine\n\nlogin with {TOKEN}\n")
    mistake(cli("push-team", unkept, "me/new"), "README.md", "token")
    mistake(cli("push-team", unkept, "me/new", "--dry-run"), "README.md", "token")
    other = evaluated_elsewhere(tmp_path)
    mistake(cli("push-team", made / "run", "me/new", "--evaluation", other), "another team")
    linked = shutil.copytree(made / "run" / "team", tmp_path / "linked")
    (linked / "player_0" / "merges.txt").symlink_to(tmp_path / "unkept" / ".env")
    mistake(cli("push-team", linked, "me/new"), "link")
    assert ("model", "me/new") not in server.repos
    offline = cli("pull-team", NAME, "x", HF_ENDPOINT="http://127.0.0.1:9")
    mistake(offline, NAME)


def evaluated_elsewhere(folder: Path) -> Path:
    from llm_marl_envs.measure.runner import Plan
    from llm_marl_envs.measure.studies.measure import measure_team

    measure_team(ENV, team="random", plan=Plan(n_tasks=2), output=str(folder / "other"))
    return folder / "other"


def test_what_people_wrote_on_a_card_stays(made: Path, cli: Cli, server: Hub, tmp_path: Path):
    team = shutil.copytree(made / "run" / "team", tmp_path / "team")
    text = (team / "README.md").read_text()
    text = text.replace("---\n", "---\nlicense: mit\n", 1) + "\nOur team.\n"
    (team / "README.md").write_text(text)
    cli("push-team", team, NAME)
    card = server.files(NAME)["README.md"].decode()
    assert card.startswith("---\n")
    assert "license: mit" in card.split("---")[1]
    assert card.index("Our team.") < card.index("## Measured")


@pytest.mark.full
@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_episodes_become_a_dataset(made: Path, cli: Cli, server: Hub, tmp_path: Path, kind: str):
    played = evaluated(cli, made / "run" / "team", tmp_path / "here")
    done = cli("push-episodes", tmp_path / "here", "me/played", "--format", kind)
    assert done.returncode == 0, done.stderr
    sent = server.files("me/played", "dataset")
    assert set(sent) == {"README.md", "collection.json", f"data/test-00000000.{kind}"}
    source = (
        "import json\n"
        "from datasets import load_dataset\n"
        "from llm_marl_envs.measure.dataset import features\n"
        "rows = load_dataset('me/played', split='test')\n"
        "assert rows.features == features()\n"
        "print(json.dumps([(row['agent'], row['action']) for row in rows]))"
    )
    loaded = cli.python(source)  # type: ignore[attr-defined]
    assert loaded.returncode == 0, loaded.stderr
    told = [[turn["agent"], turn["response"]["text"]] for e in played for turn in e["turns"]]
    assert json.loads(loaded.stdout.splitlines()[-1]) == told
    assert "sha256" in json.loads(sent["collection.json"])["team"]["player_0"]
    assert "me/played" in sent["README.md"].decode()
    assert server.repos["dataset", "me/played"].private


@pytest.mark.full
def test_collections_and_trainings_can_be_pushed(made: Path, cli: Cli, server: Hub, tmp_path: Path):
    kept = ["collect", ENV, "--team", "random", "--tasks", "all", "--output", "kept"]
    assert cli(*kept).returncode == 0
    (tmp_path / "kept" / ".env").write_text("secret")
    assert cli("push-episodes", "kept", "me/kept").returncode == 0
    data = "data/train-00000000.jsonl"
    assert set(server.files("me/kept", "dataset")) == {"README.md", "collection.json", data}
    assert server.files("me/kept", "dataset")[data] == (tmp_path / "kept" / data).read_bytes()
    mistake(cli("push-episodes", made / "local", "me/none"), "no episodes")
    mistake(cli("push-episodes", "kept", "me/kept", "--public", HF_TOKEN=""), "logged in")


def test_without_the_client_the_extra_is_named(made: Path, cli: Cli, tmp_path: Path):
    (tmp_path / "huggingface_hub.py").write_text("raise ModuleNotFoundError('gone')")
    paths = os.pathsep.join([str(tmp_path), str(TESTS.parent)])
    mistake(cli("pull-team", NAME, "x", PYTHONPATH=paths), "llm-marl-envs[hub]")


@pytest.mark.full
def test_partners_of_a_measurement_stand_on_the_card(
    made: Path, cli: Cli, server: Hub, tmp_path: Path
):
    beside = ["--partner", "player_1=random", "--output", tmp_path / "beside"]
    team = made / "run" / "team"
    assert cli("eval", ENV, "--team", team, "--tasks", "2", *beside).returncode == 0
    assert cli("push-team", team, NAME, "--evaluation", tmp_path / "beside").returncode == 0
    measured = server.files(NAME)["README.md"].decode().partition("## Measured")[2]
    assert "Other seats: `player_1` by random." in measured
