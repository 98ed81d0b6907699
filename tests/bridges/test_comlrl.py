"""CoMLRL's own trainers on the bridge: what they score, in which order, over turns and epochs."""

from __future__ import annotations

import pytest

pytest.importorskip("comlrl", reason="make test-bridges installs it")

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from support.models import untrained
from support.toys import Relay, WordPair

from llm_marl_envs.bridges.comlrl import Branch, for_comlrl
from llm_marl_envs.core.environment import TextParallelEnv, described
from llm_marl_envs.core.outcome import Outcome
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.core.tasks import ListSource, Task
from llm_marl_envs.wrappers import Partners

actor_critic: Any = importlib.import_module("comlrl.trainers.actor_critic")
reinforce: Any = importlib.import_module("comlrl.trainers.reinforce")


class Heard(TextParallelEnv):
    """Pays by all that was said so far, so that no two branches are paid alike."""

    metadata: ClassVar[dict[str, Any]] = described("heard")
    reward_range = (0.0, 1.0)

    def __init__(self, turns: int = 2) -> None:
        tasks = [Task(f"train/{number}", "train", {"number": number}) for number in range(3)]
        source = ListSource(tasks, "train")
        super().__init__(
            agents=["a_0", "b_0"],
            source=source,
            max_turns=turns,
            max_action_chars=400,
            render_mode=None,
        )

    def opening(self, task: Task) -> Mapping[str, Sequence[Message]]:
        self.heard: list[str] = [str(task.data["number"])]
        return dict.fromkeys(self.possible_agents, (Message("user", f"Speak, {task.id}."),))

    def play(self, joint_action: Mapping[str, str]) -> Outcome:
        self.heard += joint_action.values()
        paid = worth("|".join(self.heard))
        return Outcome(
            reward_terms={agent: {"heard": paid} for agent in joint_action},
            feedback={agent: f"Heard: {joint_action[agent]}" for agent in joint_action},
        )


def worth(text: str) -> float:
    return sum(place * ord(c) for place, c in enumerate(text, 1)) % 997 / 997


CONFIG: dict[str, Any] = {
    "num_train_epochs": 2,
    "agent_learning_rate": 1e-3,
    "max_new_tokens": 4,
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": 0,
    "num_turns": 2,
    "early_termination_threshold": None,
    "eval_interval": 0,
}


class Spied:
    """The parts of a trainer, and all that they were asked and answered."""

    def __init__(self, env: Any, n: int = 3) -> None:
        self.tokenizer = untrained()[1]
        self.parts = for_comlrl(env, self.tokenizer, n)
        self.scores: list[tuple[str, tuple[Any, ...], float]] = []
        inner = self.parts["reward_func"]

        def reward(*completions: Any, batch_items: Any) -> Any:
            paid = inner(*completions, batch_items=batch_items)
            branch: Branch = batch_items[0]["prompt"]
            (texts,) = zip(*completions, strict=True)
            self.scores.append((str(branch), (*branch.said, texts), paid[0]))
            return paid

        self.parts["reward_func"] = reward


def magrpo(spied: Spied, **changes: Any) -> Any:
    config = reinforce.MAGRPOConfig(**{**CONFIG, "num_generations": 2, **changes})
    return reinforce.MAGRPOTrainer(
        agents=[untrained(seed)[0] for seed in range(2)],
        tokenizer=spied.tokenizer,
        args=config,
        **spied.parts,
    )


def right(task: str, turns: tuple[Any, ...]) -> float:
    number = task.removeprefix("train/")
    return worth("|".join([number, *(text for turn in turns for text in turn)]))


@pytest.mark.parametrize("passthrough", [False, True])
@pytest.mark.parametrize("joint_mode", ["aligned", "cross"])
def test_each_branch_is_paid_for_what_it_said(passthrough: bool, joint_mode: str):
    spied = Spied(Heard())
    magrpo(spied, external_prompt_passthrough=passthrough, joint_mode=joint_mode).train()
    joint = 2 if joint_mode == "aligned" else 4
    assert len(spied.scores) == 2 * 3 * (joint + joint * joint)
    for start in range(0, len(spied.scores), joint + joint * joint):
        episode = spied.scores[start : start + joint + joint * joint]
        roots = [path for _, path, _ in episode[:joint]]
        assert [len(root) for root in roots] == [1] * joint  # nothing of the epoch before
        for place, (task, path, paid) in enumerate(episode):
            assert paid == pytest.approx(right(task, path))
            if place >= joint:
                assert path[:1] == roots[(place - joint) // joint]


def test_what_the_seats_read_in_the_second_turn():
    spied = Spied(Heard())
    shown: list[list[str]] = []
    inner = spied.parts["external_transition"]

    def transition(**arguments: Any) -> Any:
        prompts = inner(**arguments)
        shown.append([arguments["agent_completions"], prompts])
        return prompts

    spied.parts["external_transition"] = transition
    magrpo(spied, num_train_epochs=1).train()
    assert len(shown) == 3 * 2
    for completions, prompts in shown:
        for text, prompt in zip(completions, prompts, strict=True):
            assert f"assistant\n{text}<|im_end|>\n<|im_start|>user\nHeard: {text}" in prompt


def test_evaluation_scores_whole_episodes():
    spied = Spied(Heard())
    turns: list[Any] = []

    def logger(agent_completions_turns: Any, **_: Any) -> list[Any]:
        turns.append(agent_completions_turns)
        return []

    trainer = magrpo(spied)
    trainer.eval_dataset = spied.parts["train_dataset"]
    trainer.eval_logger, trainer.eval_aggregator = logger, lambda *_, **__: {}
    metrics = trainer.evaluate(num_eval_samples=3)
    (texts,) = turns  # seat, task, turn
    returns = []
    for number in range(3):
        first, second = zip(texts[0][number], texts[1][number], strict=True)
        task = f"train/{number}"
        returns.append(right(task, (first,)) + right(task, (first, second)))
    assert metrics["eval/turn_1/expected_return"] == pytest.approx(sum(returns) / 3)


@pytest.mark.parametrize("kind", ["IAC", "MAAC"])
def test_actor_critics_of_two_turns(kind: str):
    spied = Spied(Heard())
    config = getattr(actor_critic, f"{kind}Config")(
        **{**CONFIG, "num_train_epochs": 1, "critic_learning_rate": 1e-3}
    )
    critics = [untrained(seed)[0] for seed in range(2 if kind == "IAC" else 1)]
    trainer = getattr(actor_critic, f"{kind}Trainer")(
        agents=[untrained(seed)[0] for seed in range(2)],
        critics=critics,
        tokenizer=spied.tokenizer,
        args=config,
        **spied.parts,
    )
    trainer.train()
    assert [len(path) for _, path, _ in spied.scores] == [1, 2] * 3
    for task, path, paid in spied.scores:
        assert paid == pytest.approx(right(task, path))


def test_one_seat_of_a_turn_based_environment():
    env = Partners(Relay(), {"runner_1": "expert", "runner_2": "expert"})
    spied = Spied(env)
    config = reinforce.MAGRPOConfig(
        **{**CONFIG, "num_generations": 2, "num_turns": 1, "num_agents": 1, "num_train_epochs": 1}
    )
    reinforce.MAGRPOTrainer(
        agents=[untrained()[0]],
        num_agents=1,
        tokenizer=spied.tokenizer,
        args=config,
        **spied.parts,
    ).train()
    assert len(spied.scores) == 3 * 2


def test_rows_are_new_each_time_that_they_are_read():
    rows = for_comlrl(WordPair(), untrained()[1], 4)["train_dataset"]
    first = rows[0]["prompt"]
    first.said = (("a", "b"),)
    assert (rows[0]["prompt"], rows[0]["prompt"].said) == (first, ())
    assert len(rows) == 4


def test_too_many_tasks_and_rows_of_others():
    with pytest.raises(ValueError, match="n=31 tasks: expected 1 to 30"):
        for_comlrl(WordPair(), untrained()[1], 31)
    parts = for_comlrl(WordPair(), untrained()[1], 4)
    with pytest.raises(ValueError, match="expected a row of the dataset that for_comlrl made"):
        parts["reward_func"](["a"], ["b"], batch_items=[{"prompt": "apple-birch"}])
