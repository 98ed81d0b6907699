"""Prompts read once and rows that go on: the tokens of whole rows, and never a stale number."""

from __future__ import annotations

import random
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from support.models import DEEP, lora, make_trainer, small, tiny_tokenizer, untrained, weights
from support.toys import WordPair
from transformers import DynamicCache, GPT2LMHeadModel, LlamaForCausalLM

from trainers.batch.drift import EngineDriftError
from trainers.engines import generate, kept_rows
from trainers.engines.base import Draw, Drawn
from trainers.engines.generate import GenerateEngine
from trainers.weights.team_files import build_team_model
from trainers.weights.team_model import FullWeights, TeamModel

pytestmark = pytest.mark.full  # `make test-all` runs it

AGENTS = ["left_0", "right_0"]
MODES: dict[str, dict[str, Any]] = {
    "shared": {"weights": "shared"},
    "adapters": {"weights": "adapters", "peft_config": lora()},
    "adapters that PEFT mixes": {"weights": "adapters", "peft_config": lora()},
    "separate": {"weights": "separate"},
}


def team_of(mode: str) -> TeamModel:
    model, tokenizer = untrained(sizes=DEEP)
    team = build_team_model(model, AGENTS, tokenizer=tokenizer, **MODES[mode])
    stir(team, 0.05)
    return team


@torch.no_grad()
def stir(team: TeamModel, size: float) -> None:
    """Move every weight that is trained."""
    torch.manual_seed(int(1000 * size))
    for policy in team.policies:
        for parameter in team.parameters(policy):
            parameter.add_(size * torch.randn_like(parameter))


def openings(team: TeamModel) -> list[Draw]:
    """Two prompts of unlike lengths, each of three rows of either seat."""
    rng = random.Random(0)
    prompts = [tuple(rng.choices(range(64, 256), k=length)) for length in (23, 9)]
    return [
        Draw(team.policy_of[agent], prompt, seed=100 * place + 10 * row + seat)
        for place, prompt in enumerate(prompts)
        for row in range(3)
        for seat, agent in enumerate(AGENTS)
    ]


def later(draws: list[Draw], drawn: list[Drawn], added: int = 5) -> list[Draw]:
    """The next turn of each row, with what the environment adds: not as much to all."""
    next_draws = []
    for place, (draw, action) in enumerate(zip(draws, drawn, strict=True)):
        through = (*draw.prompt_ids, *action.ids)
        prompt = (*through, *range(70, 70 + added + place % 3))
        next_draws.append(Draw(draw.policy, prompt, draw.seed + 7, draw.start, len(through)))
    return next_draws


def sample(engine: GenerateEngine, draws: list[Draw]) -> list[Drawn]:
    return engine.sample(draws, max_tokens=6, temperature=1.0)


def whole(team: TeamModel, draws: list[Draw], *, alone: bool = False) -> list[Drawn]:
    """Each row anew, in one call or alone: nothing to share, nothing kept."""
    calls = [[draw] for draw in draws] if alone else [draws]
    return [one for call in calls for one in sample(GenerateEngine(team, shares=False), call)]


def assert_same(actions: list[Drawn], expected: list[Drawn]) -> None:
    assert [action.ids for action in actions] == [action.ids for action in expected]
    for action, other in zip(actions, expected, strict=True):
        assert action.logprobs == pytest.approx(other.logprobs, abs=1e-5)


@contextmanager
def counted(engine: GenerateEngine) -> Any:
    """Tokens that the model reads, of every row of every call."""
    tokens: list[int] = []

    def note(module: Any, args: Any, kwargs: Any) -> None:
        tokens.append(kwargs["input_ids"].numel())

    hooks = [m.register_forward_pre_hook(note, with_kwargs=True) for m in engine.team.bases]
    try:
        yield tokens
    finally:
        for hook in hooks:
            hook.remove()


@pytest.mark.parametrize("size", [None, 5])
@pytest.mark.parametrize("mode", MODES)
def test_turns_are_those_of_whole_rows(
    mode: str, size: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    if mode == "adapters that PEFT mixes":
        monkeypatch.setattr("trainers.weights.adapters.why_not_stacked", lambda model: "asked for")
    team = team_of(mode)
    engine, draws = GenerateEngine(team, size), openings(team)
    for turn in range(4):
        before = engine.shared_tokens
        drawn = sample(engine, draws)
        assert_same(drawn, whole(team, draws, alone=size is None))
        if turn:  # at least what the row said the turn before, but for its last token
            assert engine.shared_tokens - before >= 12 * 5
        draws = later(draws, drawn)


def test_what_is_read() -> None:
    """12 rows of 2 policies and 2 prompts: 4 prompts of 23 columns, a last token of each row."""
    team = team_of("adapters")
    engine, draws = GenerateEngine(team), openings(team)
    with counted(engine) as tokens:
        drawn = sample(engine, draws)
    assert tokens[:2] == [4 * 23, 12]
    more = later(draws, drawn)
    left = max(len(draw.prompt_ids) - draw.through + 1 for draw in more)
    with counted(engine) as tokens:
        sample(engine, more)
    assert tokens[0] == 12 * left


@pytest.mark.parametrize("kind", [LlamaForCausalLM, GPT2LMHeadModel])
def test_other_models(kind: Any) -> None:
    tokenizer = tiny_tokenizer()
    team = FullWeights(small(kind, tokenizer, intermediate_size=32), tokenizer, AGENTS)
    engine, draws = GenerateEngine(team), openings(team)
    for _ in range(3):
        before = engine.shared_tokens
        drawn = sample(engine, draws)
        assert_same(drawn, whole(team, draws))
        assert engine.shared_tokens > before
        draws = later(draws, drawn)


def replace_data(team: TeamModel) -> None:
    for parameter in team.module.parameters():
        parameter.data = parameter.data + 0.05


def step(team: TeamModel) -> None:
    stir(team, 0.02)


def swap(team: TeamModel) -> None:
    """The two adapters change places."""
    left, right = ([p.detach().clone() for p in team.parameters(a)] for a in AGENTS)
    with torch.no_grad():
        for agent, values in zip(AGENTS, (right, left), strict=True):
            for parameter, value in zip(team.parameters(agent), values, strict=True):
                parameter.copy_(value)


def write_to_data(team: TeamModel) -> None:
    """Which leaves the tensor's version alone."""
    for parameter in team.parameters(AGENTS[0]):
        parameter.data.add_(0.05)


def fused_step(team: TeamModel) -> None:
    """The default optimiser of transformers; it leaves the version alone, too."""
    optimizer_step(team, fused=True)


def optimizer_step(team: TeamModel, **options: Any) -> None:
    optimizer = torch.optim.AdamW(team.parameters(AGENTS[0]), lr=0.1, **options)
    for parameter in team.parameters(AGENTS[0]):
        parameter.grad = torch.ones_like(parameter)
    optimizer.step()


def frozen(team: TeamModel) -> list[torch.nn.Parameter]:
    return [weight for weight in team.module.parameters() if not weight.requires_grad]


@torch.no_grad()
def write_to_frozen(team: TeamModel) -> None:
    for weight in frozen(team):
        weight.add_(0.05)


def replace_frozen(team: TeamModel) -> None:
    """Which are then elsewhere in memory, their version as before."""
    for weight in frozen(team):
        weight.data = weight.data + 0.05


CHANGES = [step, swap, optimizer_step, fused_step, write_to_data, replace_data]


@pytest.mark.parametrize("change", [*CHANGES, write_to_frozen, replace_frozen])
def test_weights_that_changed_read_everything_anew(change: Callable[[TeamModel], None]) -> None:
    team = team_of("adapters")
    engine, draws = GenerateEngine(team), openings(team)
    more = later(draws, sample(engine, draws))
    before = whole(team, more)
    change(team)
    shared = engine.shared_tokens
    actions = sample(engine, more)
    assert engine.shared_tokens == shared
    assert_same(actions, whole(team, more))
    assert [action.logprobs for action in actions] != [action.logprobs for action in before]


def test_the_smallest_step_is_seen() -> None:
    team = team_of("shared")
    engine, draws = GenerateEngine(team), openings(team)
    more = later(draws, sample(engine, draws))
    assert all(map(engine.kept.knows, more))
    weight = next(iter(team.module.parameters())).data
    weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(9.0))
    shared = engine.shared_tokens
    sample(engine, more)
    assert engine.shared_tokens == shared


def test_a_past_self_is_another_one() -> None:
    """Also one that is kept under a name that another had."""
    for mode in ("shared", "adapters"):
        team = team_of(mode)
        policy = team.policy_of["left_0"]
        engine, expected = GenerateEngine(team), []
        for size in (0.02, 0.04):
            if team.past:
                team.forget("past")
            team.keep(policy, "past")
            stir(team, size)
            draws = [Draw("past", draw.prompt_ids, draw.seed) for draw in openings(team)]
            more = later(draws, sample(engine, draws))
            now = [Draw(policy, draw.prompt_ids, draw.seed, through=draw.through) for draw in more]
            assert not any(map(engine.kept.knows, now))
            actions = sample(engine, [*more, *now])
            assert_same(actions, whole(team, [*more, *now]))
            expected.append(actions[0].logprobs)
        assert expected[0] != expected[1]


def test_a_seat_that_plays_as_it_began_is_another_one() -> None:
    team = team_of("shared")
    team.freeze(["right_0"])
    stir(team, 0.05)
    engine = GenerateEngine(team)
    draws = openings(team)
    more = later(draws, sample(engine, draws))
    began = [Draw(d.policy, d.prompt_ids, d.seed, True, d.through) for d in more]
    assert not any(map(engine.kept.knows, began))
    assert_same(sample(engine, began), whole(team, began))
    # And the other way round: what the weights of the start have read is not the present's.
    start = [Draw(d.policy, d.prompt_ids, d.seed + 1, True) for d in draws]
    more = later(start, sample(engine, start))
    now = [Draw(d.policy, d.prompt_ids, d.seed, False, d.through) for d in more]
    assert all(map(engine.kept.knows, more))
    assert not any(map(engine.kept.knows, now))
    assert_same(sample(engine, now), whole(team, now))


def test_rows_that_are_not_continued_are_read_whole() -> None:
    """Other ids at any place, or a row that nobody says was there before."""
    team = team_of("shared")
    engine, draws = GenerateEngine(team), openings(team)
    more = later(draws, sample(engine, draws))
    other = [(71, *draw.prompt_ids[1:]) for draw in more]
    changed = [
        Draw(d.policy, ids, d.seed, False, d.through) for d, ids in zip(more, other, strict=True)
    ]
    unsaid = [Draw(d.policy, d.prompt_ids, d.seed) for d in more]
    mixed = [*changed[:4], *more[4:8], *unsaid[8:]]
    assert [engine.kept.knows(draw) for draw in mixed] == [False] * 4 + [True] * 4 + [False] * 4
    assert_same(sample(engine, mixed), whole(team, mixed))


def test_rows_that_say_the_same_go_on_alike() -> None:
    team = team_of("shared")
    engine, opening = GenerateEngine(team), openings(team)[0]
    more = later([opening, opening, opening], sample(engine, [opening, opening, opening]))
    assert len({draw.prompt_ids[: draw.through] for draw in more}) == 1
    assert_same(sample(engine, more), whole(team, more))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_memory_stays_under_its_bound(most: int) -> None:
    team = team_of("shared")
    engine, draws = GenerateEngine(team, kept_mb=most), openings(team)
    engine.kept.most_bytes //= 4
    hits = 0
    for update in range(50):
        if update % 10 == 0:
            step(team)
            draws = openings(team)
        hits += sum(map(engine.kept.knows, draws))
        draws = later(draws, sample(engine, draws), added=1)
        assert engine.kept.bytes <= most * 2**18
    assert (hits > 0) is (most > 0)


def read(*numbers: float, width: int = 8) -> DynamicCache:
    """What a call of as many rows has read: 2 x 4 bytes x `width` columns of each."""
    cache = DynamicCache()
    states = torch.tensor(numbers, dtype=torch.float32).view(-1, 1, 1, 1).repeat(1, 1, width, 1)
    cache.update(states, states.clone(), 0)
    return cache


@pytest.mark.parametrize("room", [0, 63, 64, 130, 192, 10**6])
def test_the_newest_calls_that_fit_are_held(room: int) -> None:
    """Four calls of a row, 64 bytes each; then one of five rows, of which the first ones fit."""
    kept = kept_rows.KeptRows(room)
    draws = [Draw("a", (*range(64, 71), 80 + n), seed=n) for n in range(9)]
    later = [Draw("a", (*d.prompt_ids, 90), d.seed, False, 9) for d in draws]
    said = Drawn((99,), (0.0,))
    for place, draw in enumerate(draws[:4]):
        kept.keep(read(place), [draw], [said], 8)
        assert kept.bytes <= room
        fit = min(place + 1, room // 64)
        assert [*map(kept.knows, later[: place + 1])] == [False] * (place + 1 - fit) + [True] * fit
    kept.keep(read(*range(5)), draws[4:], [said] * 5, 8)
    assert kept.bytes <= room
    fit = min(5, room // 64)
    assert [*map(kept.knows, later[4:])] == [True] * fit + [False] * (5 - fit)


# -- a number that is not of these weights is seen -------------------------------------------------
def scaled(layers: Any) -> Any:
    """As weights before a step would have made them."""
    return tuple((1.01 * keys, values) for keys, values in layers)


def moved(layers: Any) -> Any:
    """As at the positions before."""
    return tuple((keys.roll(1, dims=-2), values) for keys, values in layers)


def rounded(layers: Any) -> Any:
    """As kept in another dtype."""
    return tuple((keys.bfloat16().float(), values.bfloat16().float()) for keys, values in layers)


def exchanged(layers: Any) -> Any:
    """As read by the other adapter."""
    return tuple((keys.flip(0), values.flip(0)) for keys, values in layers)


@pytest.mark.parametrize("plant", [scaled, moved, rounded, exchanged, None])
def test_a_stale_cache_is_caught_by_compare_sampling(
    plant: Callable[[Any], Any] | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before a step is taken; the same run without a planted fault goes through."""
    trainer = make_trainer(
        tmp_path, WordPair, sizes=DEEP, compare_sampling=True, max_completion_length=8
    )
    stir(trainer.team, 0.3)
    begun = weights(trainer)
    keep = kept_rows._Call

    def planted(layers: Any) -> Any:
        return keep(layers if plant is None else plant(layers))

    monkeypatch.setattr(kept_rows, "_Call", planted)
    if plant is None:
        trainer.train()
        assert trainer.state.log_history[0]["sampling/joint/largest"] < 1e-5
        return
    with pytest.raises(EngineDriftError, match="no step was taken"):
        trainer.train()
    assert all(torch.equal(value, begun[policy]) for policy, value in weights(trainer).items())


@pytest.mark.parametrize("size", [None, 5])
@pytest.mark.parametrize("mode", MODES)
def test_rows_that_begin_join_the_call_of_rows_that_go_on(mode: str, size: int | None) -> None:
    team = team_of(mode)
    engine, draws = GenerateEngine(team, size), openings(team)
    drawn = sample(engine, draws)
    asked = later(draws, drawn)
    for row in (0, 1, 7):  # rewritten, so that they begin anew; the first two say the same
        asked[row] = Draw(asked[row].policy, tuple(range(64, 94)), asked[row].seed)
    with counted(engine) as tokens:
        actions = sample(engine, asked)
    assert_same(actions, whole(team, asked))
    calls = len(team.sampling_batches([draw.policy for draw in asked]))
    if size is None:  # one more pass than tokens are said: that reads what begins
        assert len(tokens) <= calls * (6 + 1)
    assert engine.kept.bytes <= engine.kept.most_bytes


def begin_alike(team: TeamModel, *, each: int) -> list[Draw]:
    """Prompts of unlike lengths that begin with 20 tokens of their seat, `each` rows of each."""
    rng = random.Random(1)
    sampled = []
    for seat, agent in enumerate(AGENTS):
        common = tuple(range(64 + seat, 84 + seat))
        for place, length in enumerate((9, 4, 11, 1)):
            prompt = (*common, *rng.choices(range(64, 256), k=length))
            for row in range(each):
                seed = 1000 * seat + 10 * place + row
                sampled.append(Draw(team.policy_of[agent], prompt, seed=seed))
    return sampled


@pytest.mark.parametrize("each", [1, 3])
@pytest.mark.parametrize("mode", MODES)
def test_a_common_beginning_is_read_once(
    mode: str, each: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    team = team_of(mode)
    draws = begin_alike(team, each=each)
    monkeypatch.setattr(generate, "WORTH", 0)
    engine = GenerateEngine(team)
    with counted(engine) as tokens:
        drawn = sample(engine, draws)
    assert_same(drawn, whole(team, draws))
    calls, seats = len(team.sampling_batches([draw.policy for draw in draws])), 2
    # A beginning has 20 tokens and is read with one more; of the longest prompt 11 are left.
    if mode != "shared":  # there both seats are one policy, whose prompts have nothing in common
        begun = sum(tokens[n * (len(tokens) // calls)] for n in range(calls))
        assert begun == seats * 21
        assert engine.shared_tokens > 0
    for _ in range(2):
        draws = later(draws, drawn)
        drawn = sample(engine, draws)
        assert_same(drawn, whole(team, draws))


def test_what_is_read_of_a_common_beginning(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four prompts of 31 columns, 20 of them alike: 21 tokens, then 11 of each."""
    team = team_of("adapters")
    draws = begin_alike(team, each=1)[:4]
    monkeypatch.setattr(generate, "WORTH", 0)
    engine = GenerateEngine(team)
    with counted(engine) as tokens:
        sample(engine, draws)
    assert tokens[:3] == [21, 4 * 11, 4]
    # The longest has 20 of its tokens in the cache; one that is shorter by n has 20 - n.
    assert engine.shared_tokens == 20 + (20 - 2) + (20 - 7) + (20 - 10) - 20


@pytest.mark.parametrize(
    "prompts",
    [
        [range(64, 84), range(64, 74)],  # one is the beginning of the other
        [range(64, 84), range(65, 84)],  # nothing in common
        [range(64, 65), range(65, 66)],  # a token each
        [range(64, 84), range(64, 83)],
    ],
)
def test_beginnings_at_the_edges(prompts: list[range], monkeypatch: pytest.MonkeyPatch) -> None:
    team = team_of("shared")
    (policy,) = team.policies
    draws = [Draw(policy, tuple(prompt), seed=n) for n, prompt in enumerate(prompts)]
    monkeypatch.setattr(generate, "WORTH", 0)
    assert_same(sample(GenerateEngine(team), draws), whole(team, draws))


def test_a_small_model_takes_no_call_for_a_beginning() -> None:
    team = team_of("shared")
    engine = GenerateEngine(team)
    draws = begin_alike(team, each=1)[:4]
    with counted(engine) as tokens:
        sample(engine, draws)
    assert tokens[0] == 4 * 31
    assert engine.shared_tokens == 0
