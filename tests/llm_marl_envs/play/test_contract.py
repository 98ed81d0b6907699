"""The contract, over all environments: a new one adds a line to `FORMS`.

`check_text_env` and PettingZoo's own tests, episodes that no process and no file changes, copies
that cost little. What an environment pays and shows is in its own test file.
"""

from __future__ import annotations

import copy
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    performance_benchmark,
    render_test,
    seed_test,
)
from pettingzoo.test.max_cycles_test import max_cycles_test
from pettingzoo.test.state_test import state_test
from support.pages import module_of

from llm_marl_envs import list_envs, make, spec
from llm_marl_envs.core.records import read_jsonl, write_jsonl
from llm_marl_envs.core.seeds import Start
from llm_marl_envs.core.spaces import TextSpace
from llm_marl_envs.play.replay import replay
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.testing import check_text_env, episode_digest
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy, RandomPolicy
from llm_marl_envs.policies.expert import AgreedPolicy, ExpertPolicy

Team = Callable[[Any], Mapping[str, Policy]]


def agreed(env: Any) -> dict[str, Policy]:
    """Experts who all follow each task's first convention."""
    return dict.fromkeys(env.possible_agents, AgreedPolicy(env))


def experts(env: Any) -> dict[str, Policy]:
    """Experts who draw their conventions."""
    return dict.fromkeys(env.possible_agents, ExpertPolicy(env))


CODING, DEBATE, NETWORK = "coop_coding-v0", "debate-v0", "agents_net-v0"
PRO_CON, REFINE, EVALUATE = "debate_pro_con-v0", "solve_critique_refine-v0", "solve_and_evaluate-v0"
ABSTRACTS, POSTS = "coop_writing_arxiv-v0", "coop_writing_tldr-v0"
MAZE, CROWD, KUHN, MATH, MATRIX = (
    "collab_maze-v0",
    "crowd-v0",
    "kuhn_poker-v1",
    "math_team-v1",
    "matrix_game-v1",
)
PATH, REGIME, SOKOBAN, SUDOKU = "plan_path-v1", "regime-v0", "sokoban-v0", "sudoku-v0"
TICTACTOE, TRUST = "tic_tac_toe-v0", "trust_split-v0"
LINE = {"problem": "cover", "edges": [[0, 1], [1, 2]]}
REFERENTIAL, RETRIEVE, CONSULT = "referential-v0", "retrieve_pipeline-v0", "consult-v0"
COMMONS, GOODS, DONOR = "commons-v0", "public_goods-v0", "donor-v0"
TABLE = {"payoffs": [[[1, 2], 0, {"either": [5, [6, 7]]}], [3, 4, 5]]}
OBJECTS = {"candidates": ["red kite", "blue kite", "red ball"], "target": "red ball"}
PUZZLE = "1 . 3 4\n3 4 . 2\n2 1 4 3\n4 3 2 ."
DIVIDED = {"values": [{"hat": 7, "pen": 2, "cup": 1}, {"hat": 3, "pen": 3, "cup": 4}]}
BUNDLED = {
    CODING: "bundled:coop_problems",
    ABSTRACTS: "bundled:writing_abstracts",
    POSTS: "bundled:writing_posts",
}
PARAGRAPHS = {"question": "Who?", "answer": "Ann", "documents": ["Ann did.", "Bob did not."]}
GSM = {"question": "What is 40 plus 2?", "answer": "They add up. #### 42"}
ILL = {
    "prompt": "A patient feels ill.",
    "facts": {"fever": "yes, for two days", "cough": "no"},
    "complaint": ["cough"],
    "classes": ["flu", "cold"],
    "answer": "flu",
}
WANTED = {
    "prompt": "Write round_up(x), which rounds x up to what the person says.",
    "facts": {"rounding": "to the next ten"},
    "entry_point": "round_up",
    "tests": "assert round_up(11) == 20\nassert round_up(30) == 30",
    "solution": "def round_up(x):\n    return -(-x // 10) * 10",
}
TOY = {
    "question": "What did the boy buy?",
    "choices": ["a kite", "a ball"],
    "answer": "a kite",
    "evidence": ["He looked at a ball. He paid for a kite.", "It is not true that he was ill."],
}

# (environment, arguments, a team that solves it, the exact return of each agent or None, seeds)
FORMS: list[tuple[str, dict[str, Any], Team | None, float | None, tuple[int, ...]]] = [
    *(
        (CODING, {"turns": turns, "info": info, "reward": reward}, agreed, exact, (0, 1))
        for turns in (1, 3)
        for info, reward, exact in (
            ("split", "tests", 1.0),
            ("full", "tests", 1.0),
            ("split", "paper", 4.0),
            ("full", "contribution", None),  # depends on the task
        )
    ),
    *(
        (
            CODING,
            {"tasks": BUNDLED[CODING], "split": "all", "turns": turns, "reward": reward},
            agreed,
            exact,
            (0, 1),
        )
        for turns in (1, 3)
        for reward, exact in (("tests", 1.0), ("paper", 4.0))
    ),
    *(
        (env_id, {"turns": turns, "info": info}, agreed, 1.0, (0, 1))
        for env_id in (ABSTRACTS, POSTS)
        for turns in (1, 3)
        for info in ("split", "full")
    ),
    *(
        (env_id, kwargs, None, None, (0,))
        for env_id in (ABSTRACTS, POSTS)
        for kwargs in (
            {"reward": "paper"},
            {"protocol": "pipeline"},
            {"tasks": BUNDLED[env_id], "split": "all", "reward": "paper", "turns": 2},
        )
    ),
    (CODING, {"n_agents": 3}, agreed, 1.0, (0, 1)),
    (CODING, {"n_agents": 3, "reward": "contribution", "split": "ood"}, agreed, None, (0,)),
    (CODING, {"n_agents": 4, "turns": 2, "feedback": "partner"}, agreed, 1.0, (0,)),
    (CODING, {"n_agents": 4, "info": "full", "reward": "paper"}, agreed, 4.0, (0,)),
    *(
        (env_id, {"n_agents": 3, **kwargs}, team, exact, (0,))
        for env_id in (ABSTRACTS, POSTS)
        for kwargs, team, exact in (
            ({"turns": 3}, agreed, 1.0),
            ({"info": "full", "split": "ood"}, agreed, 1.0),
            ({"protocol": "pipeline", "turns": 5}, agreed, 1.0),
            ({"tasks": BUNDLED[env_id], "split": "all", "reward": "paper", "turns": 2}, None, None),
        )
    ),
    (DEBATE, {}, agreed, 1.0, (0, 1)),
    (DEBATE, {"n_agents": 5, "rounds": 3, "pay": "own"}, agreed, 1.0, (0, 1)),
    (DEBATE, {"n_agents": 2, "info": "full"}, agreed, 1.0, (0, 1)),
    (DEBATE, {"tasks": "generated:suspects,order,trail:2"}, agreed, 1.0, (0, 1)),
    (DEBATE, {"tasks": "generated:lost,games"}, agreed, 1.0, (0, 1)),
    (DEBATE, {"decides": "leader"}, agreed, 1.0, (0, 1)),
    (DEBATE, {"decides": "leader", "rounds": 1, "split": "ood"}, agreed, 1.0, (0,)),
    (DEBATE, {"decides": "leader", "n_agents": 2, "pay": "own"}, agreed, None, (0, 1)),
    (DEBATE, {"decides": "leader", "info": "full", "rounds": 3}, agreed, 1.0, (0,)),
    (PRO_CON, {}, experts, None, (0, 1)),
    (PRO_CON, {"judge": "seats", "rounds": 1}, experts, None, (0, 1)),
    (PRO_CON, {"judge": "scripted"}, experts, None, (0, 1)),
    (PRO_CON, {"info": "full", "quotes": 3, "speech": False}, experts, None, (0, 1)),
    (PRO_CON, {"judge": RandomPolicy()}, None, None, (0, 1)),
    (PRO_CON, {"tasks": [TOY], "split": "all"}, None, None, (0, 1)),
    (REFINE, {}, agreed, 1.0, (0, 1)),
    (REFINE, {"info": "full"}, agreed, 1.0, (0, 1)),
    (REFINE, {"n_agents": 6}, agreed, 1.0, (0, 1)),
    (REFINE, {"n_agents": 4, "credit": "difference"}, agreed, None, (0, 1)),
    (REFINE, {"split": "ood"}, agreed, 1.0, (0, 1)),
    (REFINE, {"tasks": [GSM], "split": "all"}, agreed, 1.0, (0, 1)),
    # Its sum is constant, so no team earns every seat the same.
    (EVALUATE, {}, agreed, None, (0, 1)),
    (EVALUATE, {"info": "full", "rounds": 1}, agreed, None, (0, 1)),
    (EVALUATE, {"n_agents": 5, "anchor": 0.5, "rounds": 3}, agreed, None, (0, 1)),
    (EVALUATE, {"ablate": "evaluation"}, None, None, (0, 1)),
    (EVALUATE, {"ablate": "scoring", "n_agents": 4}, agreed, None, (0, 1)),
    (EVALUATE, {"split": "ood"}, agreed, None, (0, 1)),
    (EVALUATE, {"tasks": [GSM], "split": "all"}, agreed, None, (0, 1)),
    (MAZE, {}, agreed, 1.0, (0, 1)),
    (MAZE, {"maze": {"walkers": 5}, "split": "val", "talk": 2}, agreed, 1.0, (0,)),
    (MAZE, {"info": "full", "rounds": 12, "moves": 1, "maze": {"walls": 0.4}}, agreed, 1.0, (0,)),
    (MAZE, {"split": "ood"}, agreed, 1.0, (0,)),
    (MAZE, {"tasks": [{"map": "S..\n##.\nG.."}], "split": "all"}, agreed, 1.0, (0,)),
    (CROWD, {}, agreed, 1.0, (0, 1)),
    (CROWD, {"arm": "pairs", "weights": [1.0] * 16, "choices": 8, "turns": 3}, agreed, 1.0, (0,)),
    (CROWD, {"weights": [1, 5], "split": "val"}, agreed, None, (0,)),
    # Units that cannot be divided go round, so seats earn the same in some tasks alone.
    (COMMONS, {}, agreed, None, (0, 1)),
    (COMMONS, {"tasks": [{"stock": 100}], "split": "all", "talk": 0}, agreed, 1.0, (0,)),
    (COMMONS, {"skin": "waste", "universal": True, "turns": 13}, agreed, None, (0,)),
    (COMMONS, {"end": 0.1, "n_agents": 3, "split": "ood", "talk": 2}, agreed, None, (0, 1)),
    (DONOR, {}, agreed, 1.0, (0, 1)),
    (DONOR, {"tasks": [{"endowment": 10}], "split": "all", "n_agents": 2}, agreed, 1.0, (0,)),
    (DONOR, {"punish": True, "trace": 3, "talk": 2, "turns": 8}, agreed, 1.0, (0,)),
    (DONOR, {"end": 0.2, "n_agents": 12, "factor": 3, "split": "ood"}, agreed, None, (0, 1)),
    # The facts of a case leave open what is right, so no team solves all of them.
    (CONSULT, {}, None, None, (0, 1)),
    (CONSULT, {"person": "script", "split": "ood", "turns": 4}, None, None, (0, 1)),
    (CONSULT, {"info": "full", "reward": "paper"}, None, None, (0,)),
    (CONSULT, {"kind": "build"}, agreed, 0.95, (0, 1)),
    (CONSULT, {"kind": "build", "person": "script", "split": "val"}, agreed, None, (0, 1)),
    (CONSULT, {"tasks": [ILL], "split": "all"}, agreed, 1.0, (0,)),
    (CONSULT, {"tasks": [WANTED], "split": "all", "kind": "build"}, agreed, 1.0, (0,)),
    # Its sum is 0.
    (KUHN, {}, experts, None, (0, 1, 2)),
    (KUHN, {"split": "val"}, agreed, None, (0,)),
    (KUHN, {"tasks": [{"deal": ["king", "jack"], "ante": 3}], "split": "all"}, None, None, (0,)),
    (NETWORK, {}, agreed, 1.0, (0, 1)),
    (NETWORK, {"nodes": 9, "turns": 10, "split": "ood"}, agreed, 1.0, (0,)),
    (NETWORK, {"tasks": [LINE], "split": "all", "nodes": 3}, agreed, 1.0, (0,)),
    (REGIME, {"bonus": 0}, agreed, 3.0, (0, 1)),
    (REGIME, {"turns": 5, "n_agents": 3, "choices": 5}, agreed, None, (0, 1)),  # the coin's
    (MATH, {}, agreed, 1.0, (0, 1)),
    (MATH, {"form": "solver_verifier", "level": 2, "turns": 3}, agreed, 1.0, (0, 1)),
    (MATH, {"form": "solver_verifier", "info": "full"}, agreed, 1.0, (0,)),
    (MATH, {"split": "ood", "turns": 2}, agreed, 1.0, (0,)),
    (MATH, {"tasks": [GSM], "split": "all", "compare": "exact"}, agreed, 1.0, (0, 1)),
    (MATRIX, {}, agreed, 11.0, (0, 1)),
    (MATRIX, {"game": "penalty", "scales": [0.1]}, agreed, 1.0, (0,)),
    (MATRIX, {"game": "risky", "talk": 1, "turns": 2}, agreed, 10.0, (0, 1)),
    (MATRIX, {"game": "prisoners_dilemma", "turns": 10}, agreed, 30.0, (0,)),
    (MATRIX, {"game": "stag_hunt", "split": "ood", "scales": [[1, 50]]}, agreed, None, (0,)),
    (MATRIX, {"tasks": [TABLE], "split": "all", "told": False}, None, None, (0, 1)),
    (PATH, {}, agreed, 1.0, (0, 1)),
    (PATH, {"tool": "python", "turns": 1, "split": "val"}, agreed, 1.0, (0,)),
    (PATH, {"info": "full", "level": "10x10", "turns": 5}, agreed, 1.0, (0,)),
    (PATH, {"split": "ood"}, agreed, 1.0, (0,)),
    (PATH, {"tasks": [{"map": "S..\n##.\nG.."}], "split": "all"}, agreed, 1.0, (0,)),
    (GOODS, {}, agreed, 1.0, (0, 1)),
    (GOODS, {"tasks": [{"endowment": 20}], "split": "all", "turns": 5}, agreed, 1.0, (0,)),
    (GOODS, {"punish": True, "turns": 12, "n_agents": 8, "split": "val"}, agreed, 1.0, (0,)),
    (GOODS, {"choose": True, "turns": 12, "talk": 2}, agreed, 1.0, (0,)),
    (
        GOODS,
        {"choose": True, "punish": True, "turns": 16, "end": 0.2, "split": "ood"},
        agreed,
        None,  # as chance ends it
        (0, 1),
    ),
    (REFERENTIAL, {}, agreed, 1.0, (0, 1)),
    (REFERENTIAL, {"language": "renamed", "seats": [2, 3], "split": "val"}, agreed, 1.0, (0,)),
    (REFERENTIAL, {"language": "words", "budget": 40, "split": "ood"}, agreed, 1.0, (0,)),
    (REFERENTIAL, {"tasks": [OBJECTS], "split": "all", "budget": 1}, agreed, 1.0, (0,)),
    (RETRIEVE, {}, agreed, 1.0, (0, 1)),
    (RETRIEVE, {"houses": 9, "most": 2, "split": "ood"}, agreed, 1.0, (0,)),
    (RETRIEVE, {"info": "full", "reward": "paper", "split": "val"}, agreed, 1.0, (0,)),
    (RETRIEVE, {"tasks": [PARAGRAPHS], "split": "all"}, agreed, 1.0, (0, 1)),
    (SOKOBAN, {}, agreed, 1.0, (0, 1)),
    (SOKOBAN, {"tool": "python", "turns": 1, "split": "val"}, agreed, 1.0, (0,)),
    (SOKOBAN, {"info": "full", "level": "8x8", "turns": 5}, agreed, 1.0, (0,)),
    (SOKOBAN, {"split": "ood", "boxes": 2}, agreed, 1.0, (0,)),
    (SOKOBAN, {"tasks": [{"map": "P..\n.B.\n..T"}], "split": "all"}, agreed, 1.0, (0,)),
    (SUDOKU, {}, agreed, 1.0, (0, 1)),
    (SUDOKU, {"tool": "python", "turns": 1, "split": "val"}, agreed, 1.0, (0,)),
    (SUDOKU, {"info": "full", "level": "9x9", "turns": 5}, agreed, 1.0, (0,)),
    (SUDOKU, {"split": "ood"}, agreed, 1.0, (0,)),
    (SUDOKU, {"tasks": [{"puzzle": PUZZLE}], "split": "all"}, agreed, 1.0, (0,)),
    # Its sum is 0.
    (TICTACTOE, {}, experts, None, (0, 1, 2)),
    (TICTACTOE, {"start": "empty"}, agreed, 0.0, (0,)),  # perfect play is a draw
    (TICTACTOE, {"split": "ood"}, agreed, None, (0, 1)),
    (TICTACTOE, {"tasks": [{"board": "X.. .O. ..."}], "split": "all"}, None, None, (0,)),
    (TRUST, {}, agreed, None, (0, 1)),  # its tasks differ in what honest players get
    (TRUST, {"n_agents": 16, "pay": "team", "info": "full"}, agreed, None, (0,)),
    (TRUST, {"tasks": [DIVIDED], "split": "all", "pay": "team"}, agreed, 1.4, (0,)),
]
# Options under which PettingZoo's tests run, the first in replays, too; absent: the default alone.
OPTIONS: dict[str, list[dict[str, Any]]] = {
    CODING: [{"turns": 3}],
    ABSTRACTS: [{"turns": 3}],
    POSTS: [{"turns": 3}],
    DEBATE: [{}, {"decides": "leader"}],
    PRO_CON: [{}, {"judge": "scripted"}, {"judge": "seats"}],
    REFINE: [{}, {"credit": "difference"}],
    EVALUATE: [{}, {"ablate": "scoring", "rounds": 1}],
    CONSULT: [{}, {"kind": "build"}, {"person": "script"}],
    COMMONS: [{}, {"skin": "weeds", "end": 0.2, "turns": 7, "n_agents": 2}],
    GOODS: [{}, {"choose": True, "punish": True, "turns": 7, "end": 0.2}],
    DONOR: [{}, {"punish": True, "talk": 1, "end": 0.2, "turns": 7, "n_agents": 3}],
    CROWD: [{"turns": 2, "weights": [1, 1], "arm": "pairs"}],
    REGIME: [{"turns": 1, "choices": 2}, {}],
    MATH: [{}, {"form": "solver_verifier", "turns": 3}],
    MATRIX: [{"game": "risky", "turns": 2, "talk": 1}],
}
each = pytest.mark.parametrize("env_id", list_envs())
each_form = pytest.mark.parametrize(
    ("env_id", "kwargs"),
    [(env_id, kwargs) for env_id in list_envs() for kwargs in OPTIONS.get(env_id, [{}])],
    ids=lambda value: value if isinstance(value, str) else name(value),
)


def name(kwargs: Mapping[str, Any]) -> str:
    """The same in every process, so that xdist's workers agree."""
    plain = {k: type(v).__name__ if isinstance(v, (list, Policy)) else v for k, v in kwargs.items()}
    return ",".join(f"{key}={value}" for key, value in plain.items()) or "default"


def test_every_environment_has_a_form() -> None:
    assert {env_id for env_id, *_ in FORMS} == set(list_envs())
    assert [make(env_id).spec.id for env_id in list_envs()] == list_envs()


def forms() -> Iterator[Any]:
    """The first two forms of each environment for `make test`, the others for `make test-all`."""
    counts: Counter[str] = Counter()
    for env_id, kwargs, *others in FORMS:
        counts[env_id] += 1
        marks = [pytest.mark.full] if counts[env_id] > 2 else []
        yield pytest.param(env_id, kwargs, *others, marks=marks, id=f"{env_id}-{name(kwargs)}")


@pytest.mark.parametrize(("env_id", "kwargs", "team", "exact", "seeds"), [*forms()])
def test_contract(
    env_id: str,
    kwargs: dict[str, Any],
    team: Team | None,
    exact: float | None,
    seeds: tuple[int, ...],
) -> None:
    check_text_env(
        lambda: make(env_id, **kwargs), solution=team, solution_return=exact, seeds=seeds
    )


# -- PettingZoo -----------------------------------------------------------------------------------
@pytest.fixture
def quiet(capsys: pytest.CaptureFixture[str]) -> Iterator[None]:
    """Without PettingZoo's warnings (no Box space, unknown reset option) and what it prints."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    capsys.readouterr()


@each_form
@pytest.mark.usefixtures("quiet")
def test_pettingzoo_aec(env_id: str, kwargs: dict[str, Any]) -> None:
    api_test(make(env_id, api="aec", **kwargs), num_cycles=20)
    seed_test(lambda: make(env_id, api="aec", **kwargs), num_cycles=10)
    render_test(lambda **more: make(env_id, api="aec", **kwargs, **more))


@each_form
@pytest.mark.usefixtures("quiet")
def test_pettingzoo_parallel(env_id: str, kwargs: dict[str, Any]) -> None:
    parallel_api_test(make(env_id, api="parallel", **kwargs), num_cycles=20)
    parallel_seed_test(lambda: make(env_id, api="parallel", **kwargs), num_cycles=5)


@pytest.mark.parametrize("env_id", [i for i in list_envs() if spec(i).api == "parallel"])
@pytest.mark.usefixtures("quiet")
def test_pettingzoo_both_forms(env_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    state_test(make(env_id, api="aec", turns=3), make(env_id, turns=3), num_cycles=3)
    # Both forms must go on to the limit, so nobody may solve the task by luck.
    monkeypatch.setattr(TextSpace, "sample", lambda *_, **__: "no answer")
    max_cycles_test(module_of(env_id))


@each
@pytest.mark.long
def test_pettingzoo_performance(env_id: str, capsys: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        performance_benchmark(make(env_id, api="aec"))
    assert "Finished" in capsys.readouterr().out


# -- the same everywhere --------------------------------------------------------------------------
def test_episodes_do_not_depend_on_the_process(run_python: Any) -> None:
    # Simultaneous environments take `turns`, so that episodes of several can be compared.
    forms = {name: {"turns": 2} if spec(name).api == "parallel" else {} for name in list_envs()}
    here = {
        name: episode_digest(partial(make, name, **kwargs), range(4))
        for name, kwargs in forms.items()
    }
    program = (
        "from functools import partial\n"
        "from llm_marl_envs import make\nfrom llm_marl_envs.play.testing import episode_digest\n"
        f"for name, kwargs in {forms!r}.items():\n"
        "    print(name, episode_digest(partial(make, name, **kwargs), range(4)))"
    )
    lines = run_python(program, PYTHONHASHSEED="7").splitlines()
    assert dict(line.split() for line in lines) == here


@each
def test_a_written_transcript_replays(env_id: str, tmp_path: Path) -> None:
    kwargs = dict(OPTIONS.get(env_id, [{}])[0])
    if env_id == CODING:
        kwargs["feedback"] = "partner"
    envs = VectorTextEnv([make(env_id, **kwargs) for _ in range(4)])
    team = experts(envs.envs[0])  # conventions at random: some episodes fail and go on
    starts = [Start(task=i % len(envs.envs[0].source), seed=i, sample_seed=i) for i in range(12)]
    episodes = rollout(envs, team, starts)
    episodes += rollout(envs, dict.fromkeys(team, RandomPolicy()), starts[:2])
    verdicts = {episode.success for episode in episodes}
    assert len(verdicts) == 2 or verdicts == {None}  # where nothing is solved
    write_jsonl(tmp_path / "episodes.jsonl", episodes)
    for episode in read_jsonl(tmp_path / "episodes.jsonl"):
        again = replay(episode)
        assert [t.reward for t in again.turns] == [t.reward for t in episode.turns]
        assert [t.messages for t in again.turns] == [t.messages for t in episode.turns]
        assert again.success == episode.success


@each
def test_copies_are_cheap_and_share_their_tasks(env_id: str) -> None:
    make(env_id)
    best = float("inf")
    for _ in range(5):
        start = time.thread_time()
        copies = [make(env_id) for _ in range(64)]
        best = min(best, (time.thread_time() - start) / 64)
        copies += [copy.deepcopy(copies[0])]
        assert len({id(copied.source) for copied in copies}) == 1
    assert best < 0.002  # seconds of processor time each; measured 0.001
