"""Weights of a team: who acts with what, and folders that others can load."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel
from support.models import DEEP, lora, settings, untrained
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainers.batch.optimizer import own_parameters
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_files import build_team_model, load_team, save_team
from trainers.weights.team_model import TeamModel, check_policy_names

AGENTS = ["left_0", "right_0"]
ENV = {"env_id": "word_pair-v0", "env_kwargs": {}}
IDS = torch.tensor([[65, 66, 67, 68]])


def on_disk(folder: Path) -> str:
    model, tokenizer = untrained()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def stir(team: TeamModel) -> None:
    """Make every policy differ from its start and from the others."""
    for number, policy in enumerate(team.policies, start=1):
        with torch.no_grad():
            for parameter in team.parameters(policy):
                parameter.add_(0.05 * number)


def logits(team: TeamModel, policy: str) -> torch.Tensor:
    team.activate(policy)
    with torch.no_grad():
        return team.module(input_ids=IDS).logits


def test_every_adapter_stays_trainable_after_every_switch():
    model, tokenizer = untrained()
    team = build_team_model(
        model, AGENTS, weights="adapters", peft_config=lora(), tokenizer=tokenizer
    )
    trainable = {id(p) for p in team.module.parameters() if p.requires_grad}
    assert trainable == {id(p) for policy in AGENTS for p in team.parameters(policy)}
    for policy in ("right_0", "left_0", "right_0"):
        team.activate(policy)
        assert {id(p) for p in team.module.parameters() if p.requires_grad} == trainable
    shared = {id(p) for p in team.parameters("left_0")} & {
        id(p) for p in team.parameters("right_0")
    }
    assert not shared


def test_activation_decides_who_acts():
    model, tokenizer = untrained()
    team = build_team_model(
        model, AGENTS, weights="adapters", peft_config=lora(), tokenizer=tokenizer
    )
    stir(team)
    left, right = logits(team, "left_0"), logits(team, "right_0")
    assert not torch.allclose(left, right)
    assert torch.equal(logits(team, "left_0"), left)


def test_adapters_are_a_function_of_the_seed():
    def first(seed: int) -> torch.Tensor:
        model, tokenizer = untrained()
        team = build_team_model(
            model, AGENTS, weights="adapters", peft_config=lora(), tokenizer=tokenizer, seed=seed
        )
        return torch.cat([p.flatten() for p in team.parameters("right_0")])

    torch.manual_seed(123)
    kept = first(0)
    state = torch.get_rng_state()
    assert torch.equal(first(0), kept)
    assert torch.equal(torch.get_rng_state(), state), "the global generator was touched"
    assert not torch.equal(first(1), kept)


def test_saved_adapters_load_with_plain_peft(tmp_path: Path):
    base = on_disk(tmp_path / "base")
    team = build_team_model(base, AGENTS, weights="adapters", peft_config=lora())
    stir(team)
    save_team(team, tmp_path / "team", env=ENV)
    expected = logits(team, "right_0")
    plain = PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base), str(tmp_path / "team" / "right_0")
    )
    auto = AutoPeftModelForCausalLM.from_pretrained(str(tmp_path / "team" / "right_0"))
    again = load_team(tmp_path / "team")
    for model in (plain, auto):
        with torch.no_grad():
            assert torch.allclose(model(input_ids=IDS).logits, expected, atol=1e-6)
    assert torch.equal(logits(again, "right_0"), expected)
    assert again.policy_of == {"left_0": "left_0", "right_0": "right_0"}
    assert AutoTokenizer.from_pretrained(tmp_path / "team" / "left_0").chat_template


def test_saved_shared_weights_load_with_plain_transformers(tmp_path: Path):
    base = on_disk(tmp_path / "base")
    team = build_team_model(base, AGENTS, weights="shared")
    stir(team)
    save_team(team, tmp_path / "team", env=ENV)
    plain = AutoModelForCausalLM.from_pretrained(tmp_path / "team" / "shared")
    expected = logits(team, "shared")
    with torch.no_grad():
        assert torch.equal(plain(input_ids=IDS).logits, expected)
    assert torch.equal(logits(load_team(tmp_path / "team"), "shared"), expected)


def test_shared_with_an_adapter_is_one_policy(tmp_path: Path):
    model, tokenizer = untrained()
    team = build_team_model(
        model, AGENTS, weights="shared", peft_config=lora(), tokenizer=tokenizer
    )
    assert team.policies == ("shared",)
    assert team.policy_of == dict.fromkeys(AGENTS, "shared")


def test_team_json_says_what_the_team_is(tmp_path: Path):
    team = build_team_model(on_disk(tmp_path / "b"), AGENTS, weights="adapters", peft_config=lora())
    save_team(team, tmp_path / "team", env=ENV)
    description = json.loads((tmp_path / "team" / "team.json").read_text())
    assert description["weights"] == "adapters"
    assert description["env_id"] == "word_pair-v0"
    assert description["agents"] == {"left_0": "left_0", "right_0": "right_0"}


def test_errors_say_what_to_do(tmp_path: Path):
    model, tokenizer = untrained()
    with pytest.raises(ValueError, match="weights='each'"):
        build_team_model(model, AGENTS, weights="each", tokenizer=tokenizer)
    with pytest.raises(ValueError, match="needs another name"):
        AdapterWeights(model, tokenizer, {"left_0": "default"}, lora())
    with pytest.raises(ValueError, match=r"no team\.json"):
        load_team(tmp_path)
    (tmp_path / "team.json").write_text('{"version": 99}')
    with pytest.raises(ValueError, match="version 99"):
        load_team(tmp_path)
    (tmp_path / "team.json").write_text('{"version"')
    with pytest.raises(ValueError, match="no JSON"):
        load_team(tmp_path)
    with pytest.raises(ValueError, match="neither a folder"):
        build_team_model(str(tmp_path / "nowhere"), AGENTS, weights="shared")


OUTSIDE = (
    *("", ".", "..", "/tmp/x", "/", "../x", "a/b", "a/../../x", "..\\x", "a\\b", "C:", "C:x"),
    *("c:/x", "\\\\server\\x", "a\x00b", "a\nb", " a", "a ", "a.", "x" * 201, "é" * 101, "\ud800"),
)


@pytest.mark.parametrize("name", OUTSIDE)
def test_policy_names_stay_in_their_folder(name: str):
    with pytest.raises(ValueError, match=r"policy names .*expected names of folders"):
        check_policy_names(["fine", name])


def test_every_way_to_a_team_checks_its_names(tmp_path: Path):
    model, tokenizer = untrained()
    policies = {"left_0": "fine", "right_0": "/tmp/x"}
    for weights, config in (("adapters", lora()), ("separate", None)):
        with pytest.raises(ValueError, match=r"policy names \['/tmp/x'\]"):
            build_team_model(
                model,
                AGENTS,
                weights=weights,
                peft_config=config,
                tokenizer=tokenizer,
                policies=policies,
            )
    with pytest.raises(ValueError, match="choose others with policies="):
        settings(tmp_path / "run", policies=policies)
    with pytest.raises(ValueError, match="choose others with policies="):
        AdapterWeights(model, tokenizer, {"../left_0": "../left_0"}, lora())


def test_policy_names_that_one_folder_would_hold(tmp_path: Path):
    model, tokenizer = untrained()
    for names in (("Both", "both"), ("straße", "STRASSE")):
        policies = dict(zip(AGENTS, names, strict=True))
        with pytest.raises(ValueError, match="differ in case alone"):
            build_team_model(
                model, AGENTS, weights="separate", tokenizer=tokenizer, policies=policies
            )
    for names in (("both", "both"), ("the left", "right-0_é#@")):
        policies = dict(zip(AGENTS, names, strict=True))
        team = build_team_model(
            model, AGENTS, weights="separate", tokenizer=tokenizer, policies=policies
        )
        save_team(team, tmp_path / names[0], env=ENV)
        assert load_team(tmp_path / names[0]).policy_of == policies


def stolen(tmp_path: Path, weights: str) -> tuple[Path, Path]:
    """(a stranger's team of two seats, a loadable policy that lies beside it)."""
    config = lora() if weights == "adapters" else None
    base = on_disk(tmp_path / "base")
    team = build_team_model(base, AGENTS, weights=weights, peft_config=config)
    save_team(team, tmp_path / "stranger", env=ENV)
    shutil.copytree(tmp_path / "stranger" / "right_0", tmp_path / "private")
    return tmp_path / "stranger", tmp_path / "private"


@pytest.mark.parametrize("weights", ["adapters", "separate"])
def test_a_stranger_s_team_reads_nothing_outside_of_its_folder(tmp_path: Path, weights: str):
    folder, private = stolen(tmp_path, weights)
    description = json.loads((folder / "team.json").read_text())
    for name in ("../private", str(private), "left_0/../../private", "..\\private"):
        description["agents"]["right_0"] = name
        (folder / "team.json").write_text(json.dumps(description))
        with pytest.raises(ValueError, match=r"team\.json: policy names .*private") as caught:
            load_team(folder)
        assert "private" in str(caught.value)
    description["agents"]["right_0"] = "right_0"
    (folder / "team.json").write_text(json.dumps(description))
    load_team(folder)
    shutil.rmtree(folder / "right_0")
    (folder / "right_0").symlink_to(private)
    with pytest.raises(ValueError, match=r"'right_0' is a link to .*private, outside"):
        load_team(folder)
    (folder / "right_0").unlink()
    shutil.copytree(private, folder / "right_0", copy_function=os.symlink)  # as the Hub's cache
    load_team(folder)


@pytest.mark.parametrize(
    "agents",
    [None, [], {}, "x", {"left_0": 3}, {"left_0": ["left_0"]}, {"left_0": None}, {"left_0": {}}],
)
def test_a_damaged_team_file_is_named(tmp_path: Path, agents: Any):
    (tmp_path / "team.json").write_text(json.dumps({"version": 1, "agents": agents}))
    with pytest.raises(ValueError, match=r"team\.json: ('agents' is missing|policy names)"):
        load_team(tmp_path)
    for text, words in (("[1]", "expected a JSON object, got list"), ("[" * 100_000, "no JSON")):
        (tmp_path / "team.json").write_text(text)
        with pytest.raises(ValueError, match=words):
            load_team(tmp_path)
    (tmp_path / "team.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ValueError, match="no JSON"):
        load_team(tmp_path)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"weights": "nope"}, "'weights' is 'nope'"),
        ({"weights": None}, "'weights' is None"),
        ({"weights": {}}, "'weights' is {}"),
        ({"chat_template_kwargs": ["x"]}, "'chat_template_kwargs' is damaged"),
        ({"max_completion_length": "x"}, "'max_completion_length' is damaged"),
        ({"tool_format": 5}, "'tool_format' is damaged"),
        ({"base": 5}, "'base' is damaged"),
    ],
)
def test_a_damaged_entry_of_a_team_file_is_named(tmp_path: Path, change: Any, word: str):
    whole = {"version": 1, "agents": {"left_0": "a"}, "weights": "adapters", **change}
    (tmp_path / "team.json").write_text(json.dumps(whole))
    with pytest.raises(ValueError, match=word) as caught:
        load_team(tmp_path)
    assert len(str(caught.value)) < 300


def test_equal_adapters_have_equal_files(tmp_path: Path):
    """PEFT writes the names of modules in the order of a set, which each process has its own of."""
    model, tokenizer = untrained(sizes=DEEP)
    config = LoraConfig(r=2, target_modules="all-linear")
    team = build_team_model(
        model, ["a_0"], weights="adapters", peft_config=config, tokenizer=tokenizer
    )
    save_team(team, tmp_path, env={})
    written = json.loads((tmp_path / "a_0" / "adapter_config.json").read_text())
    assert written["target_modules"] == sorted(written["target_modules"])
    assert len(written["target_modules"]) == 2 * 7  # two layers


def team_of(weights: str) -> TeamModel:
    model, tokenizer = untrained()
    config = lora() if weights == "adapters" else None
    return build_team_model(model, AGENTS, weights=weights, peft_config=config, tokenizer=tokenizer)


@pytest.mark.parametrize("weights", ["shared", "adapters", "separate"])
@pytest.mark.parametrize("fails", [False, True])
def test_a_policy_acts_with_its_start_and_then_as_before(weights: str, fails: bool):
    team = team_of(weights)
    policy = team.policies[-1]
    team.remember_start([policy])
    started = logits(team, policy)
    stir(team)
    stirred = logits(team, policy)
    assert not torch.allclose(started, stirred)
    kept = [p.detach().clone() for p in team.parameters(policy)]
    places = [p.data_ptr() for p in team.parameters(policy)]

    def act() -> None:
        with team.at_start(policy):
            assert torch.equal(logits(team, policy), started)
            # The very memory that a sharded or wrapped module reads.
            assert [p.data_ptr() for p in team.parameters(policy)] == places
            if fails:
                raise OSError("in the block")

    if fails:
        with pytest.raises(OSError, match="in the block"):
            act()
    else:
        act()
    assert torch.equal(logits(team, policy), stirred)
    assert all(map(torch.equal, kept, team.parameters(policy)))
    assert all(p.requires_grad for p in team.parameters(policy))


@pytest.mark.parametrize("weights", ["shared", "adapters", "separate"])
def test_parameters_that_take_the_place_of_others_are_found(weights: str):
    """As when a module is sharded: what is trained, stepped and frozen are the new ones."""
    team = team_of(weights)
    policy = team.policies[-1]
    before = team.parameters(policy)
    optimizer = torch.optim.SGD(before, lr=0.1)
    assert own_parameters(team, policy, optimizer) == before
    others = {p: torch.nn.Parameter(p.detach().clone()) for p in team.module.parameters()}
    for module in team.module.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, others[parameter])
    team.activate(policy)
    after = team.parameters(policy)
    assert len(after) == len(before)
    assert not {id(p) for p in before} & {id(p) for p in after}
    assert {id(p) for p in after} <= {id(p) for p in team.module.parameters()}
    with pytest.raises(RuntimeError, match=r"does not step .* parameters of"):
        own_parameters(team, policy, optimizer)
