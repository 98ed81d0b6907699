"""The vLLM engine against a server that computes from the published folders.

The stub has the routes of vLLM and the errors that vLLM was seen to make
(tests/support/engine_server.py). `make test-engines` runs the same against vLLM itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import IA3Config, LoraConfig
from support.engine_server import StubEngine
from support.models import lora, make_trainer, untrained, weights
from support.toys import Lower

from llm_marl_envs.policies import json_server
from llm_marl_envs.policies.json_server import EndpointError, LostServerError
from llm_marl_envs.policies.named import Context, Sampling, named_policy
from trainers.batch.drift import EngineDriftError
from trainers.engines.base import Draw
from trainers.engines.generate import GenerateEngine
from trainers.engines.vllm import VLLMEngine
from trainers.engines.vllm_weights import digest_of
from trainers.weights.adapters import AdapterWeights
from trainers.weights.team_files import read_team_file
from trainers.weights.team_model import FullWeights, SeparateWeights

pytestmark = pytest.mark.full  # `make test-all` runs it

SEATS = {"left_0": "left_0", "right_0": "right_0"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("base")
    model, tokenizer = untrained()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def stub(base: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[StubEngine]:
    monkeypatch.setattr(json_server, "FIRST_WAIT", 0.001)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = StubEngine(base)
    yield server
    server.close()


def adapters(changed: bool = True) -> AdapterWeights:
    model, tokenizer = untrained()
    team = AdapterWeights(model, tokenizer, SEATS, lora())
    for policy in team.policies if changed else ():
        move(team, policy)
    return team


def move(team: Any, policy: str) -> None:
    torch.manual_seed(len(policy))
    with torch.no_grad():
        for parameter in team.parameters(policy):
            parameter.add_(torch.randn_like(parameter) * 0.1)


def draws(*policies: str, seeds: int = 4, start: bool = False) -> list[Draw]:
    return [Draw(policy, (5, 6, 7 + s), s, start) for policy in policies for s in range(seeds)]


def drawn(engine: Any, asked: list[Draw], temperature: float = 1.0) -> list[Any]:
    return engine.sample(asked, max_tokens=6, temperature=temperature)


# -- the contract of every engine ------------------------------------------------------------------
@pytest.fixture(params=["generate", "vllm"])
def engine(request: Any, stub: StubEngine, tmp_path: Path) -> Any:
    team = adapters()
    if request.param == "generate":
        return GenerateEngine(team)
    return VLLMEngine(team, tmp_path, urls=[stub.url], exact=True)


def test_a_sample_is_a_function_of_weights_prompt_and_seed(engine: Any):
    engine.publish(0)
    asked = draws("left_0", "right_0")
    together = drawn(engine, asked)
    here = drawn(GenerateEngine(engine.team), asked)
    assert [action.ids for action in together] == [action.ids for action in here]
    for action, other in zip(together, here, strict=True):
        assert action.logprobs == pytest.approx(other.logprobs, abs=1e-5)
    assert [drawn(engine, [draw])[0].ids for draw in reversed(asked)] == [
        action.ids for action in reversed(together)
    ]
    assert len({action.ids for action in together}) > 4
    assert drawn(engine, []) == []


def test_actions_end_at_their_last_token(engine: Any):
    eos = list(range(60))  # of 300 tokens, so that some actions end
    engine.team.eos_ids = lambda policy: eos
    engine.publish(0)
    actions = drawn(engine, draws("left_0", seeds=12))
    ended = [action for action in actions if action.ids[-1] in eos]
    assert 0 < len(ended) < len(actions)
    assert all(token not in eos for action in actions for token in action.ids[:-1])
    assert all(len(action.ids) == 6 for action in actions if action not in ended)
    assert all(len(action.ids) == len(action.logprobs) for action in actions)


def test_new_weights_act_once_they_are_published(engine: Any):
    engine.publish(0)
    asked = draws("left_0", "right_0", seeds=8)
    before = drawn(engine, asked)
    move(engine.team, "left_0")
    engine.publish(1)
    after = drawn(engine, asked)
    assert [action.ids for action in before[:8]] != [action.ids for action in after[:8]]
    assert before[8:] == after[8:]


def test_greedy(engine: Any):
    engine.publish(0)
    asked = draws("left_0", seeds=2)
    asked[1] = Draw("left_0", asked[0].prompt_ids, 77)
    first, second = drawn(engine, asked, temperature=0.0)
    assert first.ids == second.ids


def test_seats_left_behind_act_with_the_start(engine: Any, stub: StubEngine):
    team = engine.team
    team.policy_of["right_0"] = "left_0"
    team.freeze(["right_0"])
    engine.publish(0)
    asked = draws("left_0", seeds=8, start=True)
    before = drawn(engine, asked)
    move(team, "left_0")
    engine.publish(1)
    assert [action.ids for action in drawn(engine, asked)] == [action.ids for action in before]
    now = drawn(engine, draws("left_0", seeds=8))
    assert [action.ids for action in now] != [action.ids for action in before]


# -- versions --------------------------------------------------------------------------------------
def test_only_what_changed_is_published_and_old_versions_go(stub: StubEngine, tmp_path: Path):
    engine = VLLMEngine(adapters(), tmp_path, urls=[stub.url])
    engine.publish(0)
    assert len(stub.folders) == 2
    for update in range(1, 5):
        move(engine.team, "left_0")
        engine.publish(update)
    names = sorted(stub.folders)
    assert [name.rsplit("-", 1)[0] for name in names] == ["left_0@3", "left_0@4", "right_0@0"]
    assert sorted(folder.name for folder in tmp_path.iterdir()) == names
    assert names[1].endswith(digest_of(engine.team, "left_0"))
    assert {action.version for action in drawn(engine, draws("left_0"))} == {names[1]}


def test_a_second_engine_finds_its_versions_loaded(stub: StubEngine, tmp_path: Path):
    """As after a resume: the names are those of the same weights."""
    team = adapters()
    VLLMEngine(team, tmp_path, urls=[stub.url], exact=True).publish(3)
    engine = VLLMEngine(team, tmp_path, urls=[stub.url], exact=True)
    engine.publish(3)
    assert len(stub.folders) == 2
    assert drawn(engine, draws("left_0"))


def test_several_servers_share_the_rows(stub: StubEngine, base: str, tmp_path: Path):
    other = StubEngine(base)
    try:
        engine = VLLMEngine(adapters(), tmp_path, urls=[stub.url, other.url], exact=True)
        engine.publish(0)
        asked = draws("left_0", "right_0")
        actions = drawn(engine, asked)
        assert [action.ids for action in actions] == [
            action.ids for action in drawn(GenerateEngine(engine.team), asked)
        ]
        route = "/inference/v1/generate"
        assert stub.asked[route] == other.asked[route]
    finally:
        other.close()


def test_processes_that_do_not_write_know_the_names(stub: StubEngine, tmp_path: Path):
    """They may come before the one that writes: nothing is asked of a server while publishing."""
    mine, writers = (adapters(), adapters())
    reader = VLLMEngine(mine, tmp_path, urls=[stub.url], exact=True, writes=False)
    writer = VLLMEngine(writers, tmp_path, urls=[stub.url], exact=True)
    reader.publish(0)
    assert not stub.asked
    writer.publish(0)
    asked = draws("left_0", "right_0")
    assert drawn(reader, asked) == drawn(writer, asked)
    assert len(stub.folders) == 2


def test_after_an_error_the_rows_that_wait_are_not_asked(stub: StubEngine, tmp_path: Path):
    engine = VLLMEngine(adapters(), tmp_path, urls=[stub.url], concurrency=1)
    engine.publish(0)
    stub.folders.clear()
    with pytest.raises(EndpointError):
        drawn(engine, draws("left_0", seeds=20))
    assert stub.asked["/inference/v1/generate"] < 10


def test_full_weights_take_the_place_of_the_old(stub: StubEngine, tmp_path: Path):
    team = FullWeights(*untrained(), ["left_0"])
    move(team, "shared")
    engine = VLLMEngine(team, tmp_path, urls=[stub.url], exact=True)
    engine.publish(0)
    asked = draws("shared")
    assert [action.ids for action in drawn(engine, asked)] == [
        action.ids for action in drawn(GenerateEngine(team), asked)
    ]
    order = ("/pause", "/collective_rpc", "/reset_prefix_cache", "/resume")
    assert [stub.asked[path] for path in order] == [1, 1, 1, 1]


# -- what is refused -------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("config", "reason"),
    [
        (LoraConfig(r=2, use_dora=True, target_modules=["q_proj"]), "DoRA"),
        (LoraConfig(r=2, bias="all", target_modules=["q_proj"]), "trained biases"),
        (
            LoraConfig(r=2, modules_to_save=["lm_head"], target_modules=["q_proj"]),
            "modules_to_save",
        ),
        (LoraConfig(r=2, lora_bias=True, target_modules=["q_proj"]), "the setting lora_bias"),
        (
            LoraConfig(r=2, alora_invocation_tokens=[5], target_modules=["q_proj"]),
            "the setting alora_invocation_tokens",
        ),
        (IA3Config(target_modules=["q_proj"], feedforward_modules=[]), "IA3 adapters"),
    ],
)
def test_what_no_server_can_hold(config: Any, reason: str, tmp_path: Path):
    team = AdapterWeights(*untrained(), dict.fromkeys(SEATS, "both"), config)
    with pytest.raises(ValueError, match=f"both has {reason}"):
        VLLMEngine(team, tmp_path, urls=["http://localhost:1"])


def test_servers_that_do_not_fit_the_team(tmp_path: Path):
    pair = {"left_0": untrained(0), "right_0": untrained(1)}
    models = {name: model for name, (model, _) in pair.items()}
    tokenizers = {name: tokenizer for name, (_, tokenizer) in pair.items()}
    separate = SeparateWeights(models, tokenizers, SEATS)
    with pytest.raises(ValueError, match="each policy needs servers of its own"):
        VLLMEngine(separate, tmp_path, urls=["http://localhost:1"])
    with pytest.raises(ValueError, match="no list of servers for right_0"):
        VLLMEngine(separate, tmp_path, urls={"left_0": ["http://localhost:1"]})
    with pytest.raises(ValueError, match=r"urls for \['middle_0'\]"):
        VLLMEngine(separate, tmp_path, urls={"middle_0": ["http://localhost:1"]})
    team = FullWeights(*untrained(), ["left_0", "right_0"])
    team.freeze(["right_0"])
    with pytest.raises(ValueError, match=r"\['right_0'\] play with the weights"):
        VLLMEngine(team, tmp_path, urls=["http://localhost:1"])


def test_a_server_without_the_noise_is_not_exact(base: str, tmp_path: Path):
    plain = StubEngine(base, noise=False)
    try:
        engine = VLLMEngine(adapters(), tmp_path, urls=[plain.url], exact=True)
        engine.publish(0)
        with pytest.raises(ValueError, match=r"of 8 probes differ, left_0, seed \d"):
            drawn(engine, draws("left_0"))
    finally:
        plain.close()


def test_errors_name_the_version(stub: StubEngine, tmp_path: Path):
    engine = VLLMEngine(adapters(), tmp_path, urls=[stub.url])
    engine.publish(0)
    name = engine.weights.version("left_0").name
    stub.folders.clear()
    with pytest.raises(EndpointError, match=f"version {name}: .* 404 .*does not exist") as refusal:
        drawn(engine, draws("left_0", seeds=1))
    assert not isinstance(refusal.value, LostServerError)
    engine.weights.forget()
    with pytest.raises(ValueError, match=r"left_0: no weights were published; call .*publish"):
        drawn(engine, draws("left_0", seeds=1))
    with pytest.raises(ValueError, match=r"temperature=0\.5"):
        drawn(VLLMEngine(adapters(), tmp_path, urls=[stub.url], exact=True), [], temperature=0.5)


# -- a run -----------------------------------------------------------------------------------------
def run(stub: StubEngine | None, folder: Path, *, exact: bool = True, **changes: Any) -> Any:
    if stub is not None:
        changes["engine"] = {"name": "vllm", "urls": [stub.url], "exact": exact, "retries": 0}
    sizes = {"tasks_per_update": 1, "num_generations": 2, "max_completion_length": 4}
    return make_trainer(folder, Lower, **sizes, **changes)


@pytest.mark.parametrize("weighed", ["adapters", "shared"])
def test_a_run_ends_at_the_weights_of_generate(weighed: str, stub: StubEngine, tmp_path: Path):
    mode = {"adapters": weighed == "adapters"}
    by_generate = run(None, tmp_path / "generate", **mode)
    by_vllm = run(stub, tmp_path / "vllm", **mode)
    by_generate.train()
    by_vllm.train()
    expected, other = weights(by_generate), weights(by_vllm)
    assert all(torch.equal(expected[policy], other[policy]) for policy in expected)
    by_vllm.save_team(tmp_path / "team")
    sampled = read_team_file(tmp_path / "team")["sampled_by"]
    record = {"dtype": "float32", "software": "vllm 0.0-stub"}
    assert sampled == {"name": "vllm", "exact": True, **record}
    entry = by_vllm.state.log_history[0]
    assert 0 <= entry["sampling/joint/mean"] < 1e-5
    assert entry["sampling/joint/size"] == pytest.approx(1)


def test_separate_models_have_servers_of_their_own(stub: StubEngine, base: str, tmp_path: Path):
    other = StubEngine(base)
    try:
        urls = {"left_0": [stub.url], "right_0": [other.url]}
        engine = {"name": "vllm", "urls": urls, "exact": True}
        mode = {"adapters": False, "weights": "separate"}
        by_vllm = run(None, tmp_path / "vllm", **mode, engine=engine)
        by_generate = run(None, tmp_path / "generate", **mode)
        by_vllm.train()
        by_generate.train()
        expected, other_weights = weights(by_generate), weights(by_vllm)
        assert all(torch.equal(expected[policy], other_weights[policy]) for policy in expected)
        assert stub.asked["/collective_rpc"] == other.asked["/collective_rpc"] == 2
    finally:
        other.close()


def test_measurements_are_of_the_present_weights(stub: StubEngine, tmp_path: Path):
    """Before the first update, while training and after it; such steps change what is said."""
    gradients = []
    evaluated = {"eval_env": Lower, "eval_tasks": 4, "eval_strategy": "steps", "eval_steps": 1}
    for name, engine in (("generate", None), ("vllm", stub)):
        trainer = run(engine, tmp_path / name, learning_rate=0.3, **evaluated)
        trainer.evaluate()
        trainer.train()
        log = [entry for entry in trainer.state.log_history if "eval_reward" in entry]
        groups = trainer.collector.play(9, trainer.seating)
        texts = [turn.response.text for episode in groups[0].episodes for turn in episode.turns]
        gradients.append(([entry["eval_reward"] for entry in log], texts))
    assert gradients[0] == gradients[1]
    assert len(set(gradients[0][0])) == 2


def test_a_lost_server_changes_nothing(stub: StubEngine, tmp_path: Path):
    whole = run(None, tmp_path / "whole")
    whole.train()
    broken = run(stub, tmp_path / "broken")
    stub.wrong = "cut 2"
    with pytest.warns(UserWarning, match="update 0 is played again"):
        broken.train()
    expected, other = weights(whole), weights(broken)
    assert all(torch.equal(expected[policy], other[policy]) for policy in expected)


def test_a_server_that_stays_lost_stops_the_run(stub: StubEngine, tmp_path: Path):
    trainer = run(stub, tmp_path)
    stub.wrong = "cut 1000000"
    with pytest.raises(LostServerError), pytest.warns(UserWarning, match="played again"):
        trainer.train()
    assert trainer.state.global_step == 0


def test_a_resumed_run_publishes_again(stub: StubEngine, base: str, tmp_path: Path):
    whole = run(None, tmp_path / "whole")
    whole.train()
    first = run(stub, tmp_path / "parts", save_strategy="steps", save_steps=1)
    first.args.max_steps = 1
    first.train()
    fresh = StubEngine(base)
    try:
        second = run(fresh, tmp_path / "parts", save_strategy="steps", save_steps=1)
        second.train(resume_from_checkpoint=True)
        expected, other = weights(whole), weights(second)
        assert all(torch.equal(expected[policy], other[policy]) for policy in expected)
    finally:
        fresh.close()


def test_trained_seats_behind_a_server_are_partners(stub: StubEngine, tmp_path: Path):
    """The team of one run plays with another run, which gets its token ids and log-probs."""
    first = run(stub, tmp_path / "first")
    first.train()
    first.engine.publish(first.args.max_steps)
    name = first.engine.weights.version("right_0").name
    env = Lower()
    short = Context(env=env, sampling=Sampling(max_completion_length=4))
    partner = named_policy(f"vllm:{stub.url}#{name}", short)
    second = run(None, tmp_path / "second", partners={"right_0": partner})
    groups = second.collector.play(0, second.seating)
    answers = [turn.response for episode in groups[0].episodes for turn in episode.turns[1:2]]
    assert {answer.policy for answer in answers} == {name}
    for answer in answers:
        assert answer.completion_ids
        assert answer.prompt_ids
        assert answer.logprobs
        ids = list(answer.completion_ids)
        assert stub.tokenizer.decode(ids, skip_special_tokens=True) == answer.text
        draw = Draw("right_0", answer.prompt_ids, 0)
        assert score(first, draw, answer.completion_ids) == pytest.approx(
            list(answer.logprobs), abs=1e-5
        )
    second.train()
    assert second.trained == ("left_0",)


def score(trainer: Any, draw: Draw, ids: Any) -> list[float]:
    trainer.team.activate(draw.policy)
    with torch.no_grad(), trainer.team.evaluating():
        tokens = torch.tensor([[*draw.prompt_ids, *ids]])
        logits = trainer.team.model_of(draw.policy)(input_ids=tokens).logits
    scores = logits[0, len(draw.prompt_ids) - 1 : -1].log_softmax(-1)
    return scores[range(len(ids)), list(ids)].tolist()


FULL = ("publish is skipped", "stale head")
LARGE, SMALL = 1e-2, 1e-5


@pytest.mark.parametrize(
    ("wrong", "rate"),
    [
        ("old adapter", LARGE),
        ("adapters swapped", LARGE),
        ("publish is skipped", LARGE),
        ("stale head", LARGE),
        ("one NaN", SMALL),
        ("another model", SMALL),
        ("disturbed 1.02", SMALL),
    ],
)
def test_a_wrong_server_stops_the_run_before_a_step(
    wrong: str, rate: float, stub: StubEngine, tmp_path: Path
):
    trainer = run(stub, tmp_path, learning_rate=rate, adapters=wrong not in FULL)
    go_wrong_after_a_step(trainer, stub, wrong)
    with pytest.raises((EngineDriftError, EndpointError, FloatingPointError)):
        trainer.train()
    assert trainer.state.global_step == 1


@pytest.mark.parametrize("wrong", ["adapters swapped", "publish is skipped"])
def test_after_a_small_step_the_numbers_miss_an_old_version(
    wrong: str, stub: StubEngine, tmp_path: Path
):
    """What the page on engines says: there the name in the answer is all that protects."""
    trainer = run(stub, tmp_path, learning_rate=SMALL, adapters=wrong not in FULL)
    go_wrong_after_a_step(trainer, stub, wrong)
    trainer.train()
    assert 0 < trainer.state.log_history[1]["sampling/joint/mean"] < 1e-3


def go_wrong_after_a_step(trainer: Any, stub: StubEngine, wrong: str) -> None:
    step = trainer.training_step

    def later(*args: Any, **more: Any) -> Any:
        if trainer.state.global_step == 1:
            stub.wrong = wrong
        return step(*args, **more)

    trainer.training_step = later
