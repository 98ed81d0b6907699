"""Each kind of critic: what it may see, that it learns, what it keeps, and what it leaves alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.enumeration import algorithm_of, exact_gradient, expected, may_not_act, two_turns
from support.models import make_trainer, small, tiny_tokenizer, untrained, weights
from support.toys import BareAEC, Lower, Relay, WordPair
from transformers import AutoModel, BertModel, TrainerCallback

from llm_marl_envs.core.records import Episode, Request, Response
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from trainers.critics.base import CriticSettings, Seen
from trainers.critics.registry import load_critic, make_critic
from trainers.critics.sight import Sight
from trainers.weights.team_files import build_team_model, load_team, read_team_file

pytestmark = pytest.mark.full  # `make test-all` runs it

KINDS = ("words", "model", "head")
FEW_KINDS = ["words", "model", pytest.param("head", marks=pytest.mark.long)]


@pytest.fixture(scope="module")
def body(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The folder of a small causal model."""
    return saved(tmp_path_factory.mktemp("causal"), *untrained())


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    tokenizer = tiny_tokenizer()
    return saved(tmp_path_factory.mktemp("encoder"), small(BertModel, tokenizer), tokenizer)


def saved(folder: Path, model: Any, tokenizer: Any) -> str:
    for part in (model, tokenizer):
        part.save_pretrained(folder)
    return str(folder)


def critic_of(kind: str, body: str, **changes: Any) -> Any:
    """A critic on an untrained team of one policy."""
    own = {"model": {"body": body}, "head": {"sees": "own"}}.get(kind, {})
    critic = make_critic(AnySettings(**{"critic": kind, **own, **changes}), seed=1)
    critic.attach(build_team_model(body, ["left_0", "right_0"], weights="shared"))
    return critic


class AnySettings(CriticSettings):
    sights = ("joint", "state", "own")


def situation(text: str) -> Seen:
    tokenizer = tiny_tokenizer()
    return Seen((("a_0", text),), "shared", tuple(tokenizer(text)["input_ids"]))


@pytest.mark.parametrize("kind", KINDS)
def test_a_critic_learns_what_a_situation_is_worth(kind: str, body: str):
    """Four situations worth 0 to 1000; the error falls below a hundredth of the variance."""
    critic = critic_of(kind, body)
    texts = ("an easy task", "a hard task", "an easy rest", "one more")
    seen = [situation(text) for text in texts]
    worth = np.array([1000.0, 0.0, 750.0, 250.0])
    assert critic.values(seen).tolist() == [0.0] * 4
    for _ in range(20 if kind == "model" else 40):
        critic.fit(seen, worth)
    error = ((critic.values(seen) - worth) ** 2).mean()
    assert error < worth.var() / 100
    assert critic.values(seen[::-1]) == pytest.approx(critic.values(seen)[::-1], rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_critic_learns_the_mean_of_what_it_cannot_tell_apart(kind: str, body: str):
    critic = critic_of(kind, body)
    seen = [situation(text) for text in ("here", "here", "here", "there")]
    for _ in range(20 if kind == "model" else 60):
        critic.fit(seen, np.array([3.0, 0.0, 0.0, 5.0]))
    values = critic.values(seen)
    assert values[0] == values[1] == values[2]
    assert values == pytest.approx([1.0, 1.0, 1.0, 5.0], abs=0.1)


class Told:
    """Says what a list holds, by (agent, turn)."""

    def __init__(self, actions: dict[tuple[str, int], str]) -> None:
        self.said = actions

    def act(self, requests: Any) -> list[Response]:
        return [self._one(request) for request in requests]

    def _one(self, request: Request) -> Response:
        text = self.said[request.agent, request.turn]
        prompt = "\n".join(m.content for m in request.messages)
        ids = tuple(tiny_tokenizer()(prompt)["input_ids"])
        return Response(text=text, policy="shared", prompt_ids=ids)


def played(make_env: Any, actions: dict[tuple[str, int], str]) -> Episode:
    env = make_env()
    team = dict.fromkeys(env.possible_agents, Told(actions))
    return rollout(VectorTextEnv([env]), team, [Start(task=0, seed=1)], states=True)[0]


@pytest.mark.parametrize(
    ("kind", "sees"),
    [(kind, sees) for kind in ("words", "model") for sees in ("joint", "state", "own")]
    + [("head", "own")],
)
@pytest.mark.parametrize("form", [Lower, lambda: Relay(rounds=2)], ids=["at once", "in turn"])
def test_v_does_not_move_with_the_own_action(kind: str, sees: str, form: Any, body: str):
    """One action of a real episode is another: V stays there, and moves somewhere afterwards."""
    critic = critic_of(kind, body, sees=sees, max_tokens=2000)
    at_once, sight = form is Lower, Sight(sees)
    agents = form().possible_agents
    actions = {(agent, turn): f"{agent} in {turn}" for agent in agents for turn in (0, 1)}
    episode = played(form, actions)
    judged = [sight.of(episode, place, at_once) for place in range(len(episode.turns))]
    critic.fit(judged, np.arange(len(judged)) * 1.0)
    before, moved = critic.values(judged), set()
    for place, turn in enumerate(episode.turns):
        other = played(form, {**actions, (turn.agent, turn.index): "something else"})
        now = [sight.of(other, at, at_once) for at in range(len(other.turns))]
        after = critic.values(now)
        for at, played_turn in enumerate(episode.turns):
            if played_turn.index <= turn.index if at_once else at <= place:
                assert before[at] == pytest.approx(after[at], abs=1e-6)  # of float32
        moved |= {at for at in range(len(now)) if abs(before[at] - after[at]) > 1e-4}
    assert moved


def test_states_are_recorded_before_the_actions_and_only_if_asked_for():
    actions = {(a, k): f"{a} says {k}" for a in ("left_0", "right_0") for k in (0, 1)}
    episode = played(WordPair, actions)
    first, beside, second, _ = episode.turns
    assert first.state == beside.state
    assert "says 0" not in str(first.state)
    assert "left_0 says 0" in str(second.state)
    assert "says 1" not in str(second.state)
    in_turn = played(Relay, {(f"runner_{i}", 0): f"word {i}" for i in range(3)})
    assert [str(turn.state).count("word ") for turn in in_turn.turns] == [0, 2, 4]
    team = dict.fromkeys(WordPair().possible_agents, Told(actions))
    plain = rollout(VectorTextEnv([WordPair()]), team, [Start(task=0, seed=1)])[0]
    assert plain == episode
    assert all(turn.state is None for turn in plain.turns)


# -- what V is worth to the estimate ---------------------------------------------------------------
@pytest.mark.parametrize("chosen", [("central_critic", "model"), ("iac", "model"), ("iac", "head")])
def test_with_any_weights_the_mean_estimate_is_the_gradient(chosen: tuple[str, str], body: str):
    """Every group of a game is enumerated; the critic's weights are drawn and stay."""
    name, kind = chosen
    own = {"body": body} if kind == "model" else {}
    for game, at_once in ((two_turns(), True), (may_not_act(), False)):
        algorithm = algorithm_of({"name": name, "critic": kind, **own})
        algorithm.attach(build_team_model(body, ["role0_0", "role1_0"], weights="shared"))
        algorithm.at_once = at_once
        critic = algorithm.critic
        draw = torch.Generator().manual_seed(5)
        heads = critic.heads.values() if kind == "head" else critic.head.parameters()
        with torch.no_grad():
            for head in heads:
                head.copy_(3 * torch.randn(head.shape, generator=draw))
        critic.scale.fitted = True
        judge, values = critic.values, []
        critic.values = lambda seen, judge=judge, kept=values: kept.append(judge(seen)) or kept[-1]
        critic.fit = lambda seen, targets: None
        gradient = expected(game, 2, lambda a=algorithm: a, told=True)
        assert np.allclose(gradient, exact_gradient(game), rtol=0, atol=1e-10)
        assert np.abs(values[0]).max() > 0.01  # else it would show nothing


class Noting(TrainerCallback):
    """Keeps the weights after each update."""

    trainer: Any

    def __init__(self) -> None:
        self.kept: list[dict[str, torch.Tensor]] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        self.kept.append(weights(self.trainer))


@pytest.mark.parametrize("kind", FEW_KINDS)
def test_learning_of_the_critic_leaves_the_policys_step_alone(kind: str, body: str, tmp_path: Path):
    """The first step is the same to the last bit, whatever its rate; later it is not."""
    each = []
    for rate in (1e-9, 1e-1):
        noting = Noting()
        own = {"name": "iac", "critic": kind, "rate": rate}
        own |= {"body": body} if kind == "model" else {}
        trainer: Any = make_trainer(tmp_path / str(rate), Lower, algorithm=own, callbacks=[noting])
        noting.trainer = trainer
        trainer.train()
        each.append(noting.kept)
    (first, second), (first_too, second_too) = each
    for policy in first:
        assert torch.equal(first[policy], first_too[policy])
        assert not torch.equal(second[policy], second_too[policy])


# -- what is kept and counted ----------------------------------------------------------------------
def chosen(kind: str, body: str) -> dict[str, Any]:
    """Settings of a run, which sees as much as the kind can."""
    if kind == "model":
        return {"name": "central_critic", "critic": kind, "sees": "state", "body": body}
    return {"name": "mappo", "critic": kind, "sees": "own", "trace": 0.5}


@pytest.mark.parametrize("kind", ["model", "head"])
def test_a_resumed_run_ends_as_the_unbroken_one(kind: str, body: str, tmp_path: Path):
    """To the last bit, from between two iterations over one rollout."""
    plan = {"max_steps": 5, "num_iterations": 2, "save_strategy": "steps", "save_steps": 3}
    plan |= {"algorithm": chosen(kind, body)}
    unbroken: Any = make_trainer(tmp_path, Lower, **plan)
    unbroken.train()
    resumed: Any = make_trainer(tmp_path, Lower, **plan)
    resumed.train(resume_from_checkpoint=str(tmp_path / "checkpoint-3"))
    end = weights(unbroken)
    assert all(torch.equal(value, end[policy]) for policy, value in weights(resumed).items())
    assert unbroken.costs.critic_tokens == resumed.costs.critic_tokens > 0
    seen = [situation(text) for text in ("Say it", "Again.")]
    seen = [Seen(turn.parts, "left_0", turn.prompt_ids) for turn in seen]
    now = [trainer.algorithm.critic.values(seen) for trainer in (unbroken, resumed)]
    assert np.array_equal(*now)
    assert now[0].std() > 0


@pytest.mark.parametrize("kind", FEW_KINDS)
def test_a_saved_team_has_its_critic_and_says_so(kind: str, body: str, tmp_path: Path):
    trainer: Any = make_trainer(tmp_path, Lower, algorithm=chosen(kind, body), adapters=False)
    trainer.train()
    trainer.save_team(tmp_path / "team")
    record = read_team_file(tmp_path / "team")["critic"]
    sees = "state" if kind == "model" else "own"
    assert record == {"kind": kind, "sees": sees, "file": "critic.json"}
    again = load_critic(tmp_path / "team", load_team(tmp_path / "team"))
    seen = [situation(text) for text in ("Say it", "Again, and again.")]
    values = trainer.algorithm.critic.values(seen)
    assert again.values(seen) == pytest.approx(values, rel=1e-6)
    assert values.std() > 0
    if kind == "model":
        AutoModel.from_pretrained(tmp_path / "team" / "critic.model")
    with pytest.raises(ValueError, match="trained without a critic"):
        load_critic(tmp_path)


def test_what_a_critic_costs_is_logged(body: str, tmp_path: Path):
    """Of the second update: one pass to judge and four to learn, over each text once."""
    trainer: Any = make_trainer(tmp_path, Lower, algorithm=chosen("model", body))
    tokens: list[int] = []
    forward = trainer.algorithm.critic.body.forward

    def counting(*args: Any, **kwargs: Any) -> Any:
        tokens.append(int(kwargs["attention_mask"].sum()))
        return forward(*args, **kwargs)

    trainer.algorithm.critic.body.forward = counting
    trainer.train()
    logs = [log for log in trainer.state.log_history if "cost/critic_tokens" in log]
    assert [log["cost/critic_tokens"] for log in logs][-1] == sum(tokens) > 0
    second = logs[1]
    assert (
        second["algorithm/critic_tokens"]
        == logs[1]["cost/critic_tokens"] - (logs[0]["cost/critic_tokens"])
    )
    assert second["algorithm/critic_rate"] == 1e-3
    assert second["algorithm/critic_cut"] == 0
    assert second["algorithm/critic_explained_variance"] <= 1


# -- the model that reads --------------------------------------------------------------------------
@pytest.mark.parametrize("which", ["body", "encoder"])
def test_neighbours_in_a_batch_do_not_matter(which: str, request: pytest.FixtureRequest):
    """Texts of several lengths, alone and together; and both kinds of models learn from them."""
    critic = critic_of("model", request.getfixturevalue("body"), rows=3, rate=3e-3)
    critic.body = None
    critic._open(request.getfixturevalue(which))
    texts = ["a", "a word", "a word and many more of them", "b", "c d e f"]
    seen = [Seen((("a_0", text),)) for text in texts]
    worth = np.arange(5.0)
    for _ in range(12):
        critic.fit(seen, worth)
    together = critic.values(seen)
    assert together == pytest.approx(worth, abs=0.5)
    for turn, value in zip(seen, together, strict=True):
        assert critic.values([turn]) == pytest.approx([value], abs=1e-5)


def test_a_long_text_loses_its_beginning_and_is_counted(body: str):
    critic = critic_of("model", body, max_tokens=40)
    end = "the end of it all is the same for both of them, word for word, as long as it is"
    texts = [f"one {end}", f"two {end}", "short"]
    seen = [Seen((("a_0", text), ("a_0 acts", ""))) for text in texts]
    critic.fit(seen, np.array([1.0, 2.0, 3.0]))
    assert critic.counters["cut"] == 2
    values = critic.values(seen)
    assert values[0] == pytest.approx(values[1], abs=1e-6)
    assert values[0] != pytest.approx(values[2], abs=1e-6)
    assert critic.counters["tokens"] % 5 == 0  # four passes that learn and one that judges
    ids, cut = critic._ids("x " * 50 + "a_0 acts")
    assert (cut, len(ids)) == (True, 40)
    assert critic.tokenizer.decode(ids).endswith("a_0 acts")


def test_what_spells_a_control_token_is_text(body: str):
    critic = critic_of("model", body)
    ids, _ = critic._ids("<|im_end|>")
    assert critic.tokenizer.eos_token_id not in ids


# -- refusals --------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("own", "words"),
    [
        ({"critic": "wrods"}, "no critic 'wrods'; did you mean 'words'"),
        ({"sees": "own"}, "expected one of .*for the own chat choose algorithm: iac"),
        ({"sees": "all"}, "sees='all': expected one of"),
        ({"critic": "head"}, "is shown the own chat alone; choose algorithm: iac"),
        ({"body": "x"}, "it has no model of its own; leave body out"),
        ({"critic": "model", "body": "/no/model"}, "body='/no/model': expected a name or folder"),
        ({"critic": "model", "rows": 0}, "critic, rows=0: expected a whole number, at least 1"),
    ],
    ids=str,
)
def test_wrong_settings_of_a_critic_say_what_is_wrong(own: dict[str, Any], words: str):
    with pytest.raises(ValueError, match=words):
        algorithm_of({"name": "central_critic", **own})


def test_what_is_no_critic_is_refused():
    with pytest.raises(TypeError, match="expected a subclass of Critic"):
        algorithm_of({"name": "iac", "critic": "trainers.critics.sight:Sight"})


def test_weights_that_a_critic_cannot_work_with_are_refused(body: str, tmp_path: Path):
    with pytest.raises(ValueError, match="name a folder or a model as body"):
        make_trainer(tmp_path, Lower, algorithm={"name": "iac", "critic": "model"})
    team = build_team_model(body, ["a_0"], weights="shared")
    team.sharded = True
    with pytest.raises(ValueError, match="choose critic: words or model"):
        algorithm_of({"name": "iac", "critic": "head"}).attach(team)


def test_without_a_body_it_is_the_model_that_the_run_begins_with(body: str):
    algorithm = algorithm_of({"name": "iac", "critic": "model"})
    algorithm.attach(build_team_model(body, ["a_0"], weights="shared"))
    assert algorithm.critic.body.config.hidden_size == 32


class Stateful(BareAEC):
    """A stranger's environment with a state of numbers."""

    def state(self) -> Any:
        return np.zeros(3)


@pytest.mark.parametrize(
    ("env", "came"), [(BareAEC, "has no state()"), (Stateful, "a state() of type ndarray")]
)
def test_an_environment_without_a_state_of_text_is_refused(env: Any, came: str, tmp_path: Path):
    own = {"name": "central_critic", "sees": "state"}
    with pytest.raises(ValueError, match="or choose sees: joint") as refused:
        make_trainer(tmp_path, env, algorithm=own, max_steps=1)
    assert came in str(refused.value)
