"""Prompt-only protocols with policies whose answers are known, and which baselines run where."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.toys import BareParallel, Relay, WordPair

from llm_marl_envs import list_envs, make
from llm_marl_envs.cli import main
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.spaces import Message
from llm_marl_envs.measure import Plan, evaluate_team
from llm_marl_envs.measure.studies.baselines import (
    BASELINES,
    NotApplicableError,
    baseline_table,
    oracle_best,
    run_baselines,
    self_consistency_team,
    single_team,
    tokens_written,
)
from llm_marl_envs.policies import RandomPolicy, ScriptedPolicy
from llm_marl_envs.policies.expert import ExpertPolicy
from llm_marl_envs.policies.protocols import (
    DiscussionPolicy,
    PipelinePolicy,
    SelfConsistencyPolicy,
    SinglePolicy,
    parts_of,
    with_note,
)


class Model:
    """`script` as a model that reads 10 and writes 2 tokens per call; keeps what it was asked."""

    def __init__(self, script: Callable[[Request], str]) -> None:
        self.script = script
        self.batches: list[list[Request]] = []

    def act(self, requests: Sequence[Request]) -> list[Response]:
        self.batches.append(list(requests))
        return [Response(text=self.script(r), usage=(10, 2), policy="m") for r in requests]

    @property
    def asked(self) -> list[Request]:
        return [request for batch in self.batches for request in batch]


def seats(policy: Any, env: Any = WordPair) -> dict[str, Any]:
    return dict.fromkeys(env().possible_agents, policy)


def words(request: Request) -> list[str]:
    """Every word that the request tells, in order."""
    chat = "\n".join(message.content for message in request.messages)
    return [line.rpartition(": ")[2] for line in chat.split("\n") if line.startswith("Your word")]


def test_single_writes_all_parts_from_all_that_the_seats_see():
    def script(request: Request) -> str:
        left, right = words(request)
        return (
            f"<think>=== left_0 ===\nno</think>=== right_0 ===\n{right}\n=== left_0 ===\n{left}\n"
        )

    model = Model(script)
    result = evaluate_team(WordPair, seats(SinglePolicy(model)), n_tasks=6)
    assert result.success == 1.0
    assert len(model.asked) == 6  # one call for both seats
    assert (result.cost.prompt_tokens, result.cost.completion_tokens) == (10.0, 2.0)


def test_single_without_headers_and_with_missing_ones():
    whole = evaluate_team(WordPair, seats(SinglePolicy(Model(lambda r: words(r)[0]))), n_tasks=3)
    assert {turn.action for turn in whole.episodes[0].turns[:2]} == {words_of(whole)[0]}
    part = evaluate_team(
        WordPair, seats(SinglePolicy(Model(lambda r: "=== left_0 ===\nx"))), n_tasks=1
    )
    assert [turn.action for turn in part.episodes[0].turns[:2]] == ["x", ""]
    assert parts_of("a === b ===\n ===c===\n") == {}


def test_single_may_write_as_much_as_the_seats_together():
    class Short(Model):
        length = 5

        def stretched(self, factor: int) -> Short:
            other = Short(self.script)
            other.length = self.length * factor
            return other

    team = single_team(WordPair(), Short(lambda asked: "x"))
    assert team["left_0"].policy.length == 10  # type: ignore[attr-defined]


def words_of(result: Any) -> list[str]:
    return result.episodes[0].task_id.split("-")


def test_pipeline_shows_later_seats_the_parts_before():
    def script(request: Request) -> str:
        if request.agent == "left_0":
            assert "already" not in request.messages[-1].content
        elif "Again." not in request.messages[-1].content:
            assert "left_0 has already written this part:\nFIG" in request.messages[-1].content
        return "FIG"

    model = Model(script)
    team = seats(PipelinePolicy(model, WordPair().possible_agents))
    result = evaluate_team(WordPair, team, n_tasks=4)
    assert [len(batch) for batch in model.batches[:2]] == [4, 4]  # seat by seat, in batches
    assert [r.agent for r in model.batches[1]] == ["right_0"] * 4
    assert result.cost.completion_tokens == 2.0 * 2 * result.cost.turns_per_agent


def test_pipeline_does_not_mix_episodes():
    def script(request: Request) -> str:
        if request.agent == "left_0":
            return words(request)[0]
        return request.messages[-1].content.rpartition("\n")[2]  # what the other wrote

    result = evaluate_team(
        lambda: WordPair(turns=1),
        seats(PipelinePolicy(Model(script), ["left_0", "right_0"])),
        n_tasks=8,
    )
    for episode in result.episodes:
        assert [turn.action for turn in episode.turns] == [episode.task_id.split("-")[0]] * 2


def test_discussion_is_one_exchange_of_drafts():
    def script(request: Request) -> str:
        if request.messages[-1].role == "user" and "drafts" in request.messages[-1].content:
            assert request.messages[-2].role == "assistant"
            own = request.messages[-2].content
            assert own not in request.messages[-1].content
            return f"{own} and {request.messages[-1].content.count('has already written')}"
        return f"draft of {request.agent}"

    model = Model(script)
    result = evaluate_team(
        lambda: WordPair(turns=1), seats(DiscussionPolicy(model)), n_tasks=3, copies=3
    )
    first = result.episodes[0]
    assert [t.action for t in first.turns] == ["draft of left_0 and 1", "draft of right_0 and 1"]
    assert len(model.batches) == 2
    assert (result.cost.prompt_tokens, result.cost.completion_tokens) == (40.0, 8.0)
    drafts, finals = model.batches
    assert {r.seed for r in drafts}.isdisjoint({r.seed for r in finals})


def test_self_consistency_elects_the_most_frequent():
    answers = iter(["Answer: 1", "no", "Answer: 2", "Answer: 2.0", "x", "y", "z", "w"])
    model = Model(lambda request: next(answers))
    team = self_consistency_team(make("debate-v0"), model, 4)
    policy = team["debater_0"]
    chosen = policy.act([request(), request(seed=2)])
    assert [one.text for one in chosen] == ["Answer: 2", "x"]  # without an answer the first
    assert chosen[0].usage == (40, 8)
    assert len({asked.seed for asked in model.asked}) == 8
    tied = iter(["b", "a", "a", "b"])
    first = SelfConsistencyPolicy(Model(lambda r: next(tied)), 4, lambda text: text)
    assert first.act([request()])[0].text == "b"
    with pytest.raises(ValueError, match="n=0"):
        SelfConsistencyPolicy(model, 0, lambda text: text)


def request(seed: int = 1, **changes: Any) -> Request:
    fields: dict[str, Any] = {
        "env_id": "e",
        "agent": "debater_0",
        "turn": 0,
        "episode": 0,
        "task_id": "t",
        "messages": (Message("user", "?"),),
        "observation": "?",
        "seed": seed,
    }
    return Request(**{**fields, **changes})


def test_a_note_goes_to_the_end_of_what_is_told():
    assert with_note(request(), "") == request()
    assert with_note(request(), "n").messages == (Message("user", "?\n\nn"),)
    said = request(messages=(Message("user", "?"), Message("assistant", "!")))
    assert with_note(said, "n").messages[-1] == Message("user", "n")


def test_alone_answers_for_all_seats_from_all_evidence():
    def script(asked: Request) -> str:
        text = asked.messages[0].content
        return text.partition("The word: ")[2].split("\n")[0]

    model = Model(script)
    result = evaluate_team(Relay, dict(single_team(Relay(), model)), n_tasks=5, samples=2)
    assert result.success == 1.0
    assert len(model.asked) == 10  # one call per episode
    assert "=== runner_2 ===" in model.asked[0].messages[0].content
    assert result.cost.completion_tokens == 2.0


def test_reading_openings_does_not_touch_a_running_environment():
    class Marking(Relay):
        opened = 0

        def opening(self, task: Any) -> Any:
            self.opened += 1
            return super().opening(task)

    env = Marking()
    evaluate_team(Relay, dict(single_team(env, Model(lambda asked: "x"))), n_tasks=2)
    assert env.opened == 0


def test_debaters_alone_see_every_part_of_the_evidence():
    env = make("debate-v0", split="test")
    model = Model(lambda asked: "Answer: [nobody]")
    evaluate_team(lambda: make("debate-v0", split="test"), single_team(env, model), n_tasks=2)
    for asked in model.asked:
        opening = env.opening(env.source.find(asked.task_id))
        for chat in opening.values():
            assert chat[0].content in asked.messages[0].content


def test_the_oracle_is_the_best_of_n_and_costs_n():
    def script(asked: Request) -> str:
        return asked.observation.rpartition(" ")[2] if asked.seed % 3 == 0 else "?"

    found = run_baselines(
        lambda: WordPair(turns=1), Model(script), Plan(n_tasks=10), names=["parallel"], n=4
    )
    parallel, best = found.results["parallel"], found.results["oracle best of 4"]
    assert (parallel["resets"], best["resets"]) == (1, 1)  # it chooses no luck of the deal
    twice = run_baselines(
        lambda: WordPair(turns=1), Model(script), Plan(n_tasks=10, samples=2), n=4,
        names=["parallel", "random"],
    ).results  # fmt: skip
    assert {name: of["resets"] for name, of in twice.items()} == dict.fromkeys(twice, 2)
    dealt = [[task["resets"] for task in twice[name]["tasks"]] for name in ("parallel", "random")]
    assert [of[::4] for of in dealt[0]] == dealt[1]
    by_hand = [max(task["returns"]) for task in parallel["tasks"]]
    assert best["mean_return"] == pytest.approx(sum(by_hand) / 10)
    assert best["mean_return"] > parallel["mean_return"]
    assert best["success"] == pytest.approx(parallel["pass_at_k"]["4"])
    assert best["cost"]["completion_tokens"] == 4 * parallel["cost"]["completion_tokens"] == 16.0
    assert best["cost"]["seconds"] == parallel["cost"]["seconds"]
    assert tokens_written(found) == 10 * 4 * 2 * 2  # tasks, samples, seats, tokens; each once
    result = evaluate_team(WordPair, seats(Model(script)), n_tasks=2, samples=3)
    with pytest.raises(ValueError, match="multiple of 2"):
        oracle_best(result, 2)


@pytest.mark.parametrize("env_id", list_envs())
def test_every_baseline_runs_where_it_makes_sense(env_id: str):
    def env() -> Any:
        return make(env_id, split="test")

    found = run_baselines(env, Model(lambda asked: "I say nothing."), Plan(n_tasks=2), n=2)
    missing = {"random", "parallel", "oracle best of 2"} - set(found.results)
    assert not missing
    assert len(found.results) + len(found.skipped) == len(BASELINES) + 1
    table = baseline_table(found)
    for name in (*found.results, *found.skipped):
        assert name in table


def test_what_does_not_apply_says_why():
    skipped = run_baselines(
        Relay, Model(lambda asked: "x"), Plan(n_tasks=1), names=["pipeline", "discussion"], n=1
    ).skipped
    assert "turn-based" in skipped["pipeline"]
    assert "turn-based" in skipped["discussion"]
    scripts = run_baselines(WordPair, ExpertPolicy(WordPair()), Plan(n_tasks=1), n=1)
    assert {"single", "pipeline", "discussion"} < set(scripts.skipped)
    assert scripts.results["expert"]["n_tasks"] == 1
    with pytest.raises(NotApplicableError, match="no scripted experts"):
        BASELINES["expert"](BareParallel(), RandomPolicy())
    with pytest.raises(NotApplicableError, match="parts that one message cannot play"):
        single_team(make("debate_pro_con-v0"), Model(lambda asked: "x"))
    with pytest.raises(ValueError, match=r"baselines \['solo'\]"):
        run_baselines(WordPair, RandomPolicy(), Plan(n_tasks=1), names=["solo"])


def test_the_command_writes_tables_and_goes_on(tmp_path: Path, capsys: Any):
    command = ["baselines", "coop_writing_tldr-v0", "--policy", "random", "--tasks", "3"]
    command += ["--n", "2", "--output", str(tmp_path)]
    assert main(command) == 0
    first = capsys.readouterr().out
    assert "oracle best of 2" in first
    assert "pipeline: not here" in first
    whole = json.loads((tmp_path / "baselines.json").read_text())
    assert set(whole["results"]) == {"random", "expert", "parallel", "oracle best of 2"}
    episodes = tmp_path / "expert" / "episodes.jsonl"
    before = episodes.stat().st_mtime_ns
    assert main(command) == 0
    manifest = json.loads((tmp_path / "run_manifest.json").read_text())
    assert (manifest["kind"], manifest["config"]["policy"]) == ("baselines", "random")
    assert [one["status"] for one in manifest["sessions"]] == ["finished", "finished"]
    assert episodes.stat().st_mtime_ns == before
    expert, random = (str(tmp_path / name) for name in ("expert", "random"))
    assert main(["compare", random, expert]) == 0
    assert "of 3 tasks fewer than 6 are independent" in capsys.readouterr().out
    assert main([*command, "--only", "solo"]) == 2


def test_pipelines_of_scripts_are_only_refused_by_the_table():
    """The protocol itself takes any policy."""
    policy = PipelinePolicy(ScriptedPolicy(lambda asked: asked.agent), ["left_0", "right_0"])
    result = evaluate_team(WordPair, seats(policy), n_tasks=1)
    assert result.episodes[0].turns[1].action == "right_0"
