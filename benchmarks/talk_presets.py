"""The presets of referential-v0 and trust_split-v0: before and after training, beside controls.

    python benchmarks/talk_presets.py
    python benchmarks/talk_presets.py --first-seed 0 --seeds 1 --output runs/look --teams runs/look

Arms: `preset` trains as the preset says. `shuffled` deals the rewards of each group to its episodes
at random: what rises there does not come from the reward. Both begin with one warm start of the
seed. For trust_split-v0 there is `responder`: player_0 begins with the warm start, is paid its own
part, and learns beside player_1 of the seed's trained team, which does not learn.

Measured on split `test` before and after, at temperature 1, `EPISODES` episodes:

- `heard`: the team as it is. `blanked`: the same team, whose messages are empty texts.
- referential-v0: success, the share of answers that are an object of the list, the share of
  messages that describe the target in its own words, topographic similarity. `crossed` is no run:
  it is the trained speaker of a seed with the trained listener of the next one.
- trust_split-v0: the mean over both players of what each gets, the share of answers that are a
  choice, the share of claims that are true, the share of the social optimum reached; and what each
  of the scripted players `BESIDE` gets beside the team, over both seats.

One JSON file for each run; those that are there are not made again, so a stopped call goes on. The
trained teams lie in `--teams`, where `responder` and `crossed` look for them. No new run begins
after `--minutes`. Then prints the table. One process, one thread.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import mean
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from transformers.utils.logging import disable_progress_bar

from llm_marl_envs import make
from llm_marl_envs.evaluation import TeamResult, evaluate_team
from llm_marl_envs.evaluation.numbers.estimators import t_interval
from llm_marl_envs.files.json_files import read_json, write_json
from llm_marl_envs.policies import Policy, Team
from llm_marl_envs.policies.named import Context, named_policy
from llm_marl_envs.policies.scripted import SilentPolicy
from llm_marl_envs.records import Request, Response
from trainers.models.team_files import build_team_model, load_team
from trainers.models.token_policy import TokenPolicy
from trainers.train import build_trainer, model_path, read_run

REFERENTIAL, SHARES = "referential_tiny", "trust_split_tiny"
RESPONDER, CROSSED = "responder", "crossed"
ARMS: dict[str, tuple[str, ...]] = {
    REFERENTIAL: ("preset", "shuffled", CROSSED),
    SHARES: ("preset", "shuffled", RESPONDER),
}
CHANGES: dict[str, list[str]] = {
    "preset": [],
    "shuffled": ["shuffle_rewards=true"],
    RESPONDER: ["credit=own"],
}
"""Arm -> overrides of the preset."""
EPISODES = 200
MEASURE_SEED = 1234
BESIDE = ("taker", "liar", "breaker")


# -- measuring -------------------------------------------------------------------------------------
def held_out(run: Mapping[str, Any]) -> Any:
    """The environment of a run, with tasks that it has not learned from."""
    return make(run["env"], **{**run["env_kwargs"], "split": "test"})


def played(run: Mapping[str, Any], seats: Team) -> TeamResult:
    """`EPISODES` episodes or a few less: each held-out task as often, if there are fewer tasks."""
    env = held_out(run)
    tasks = min(EPISODES, len(env.unwrapped.source))
    return evaluate_team(
        env, seats, n_tasks=tasks, samples=max(1, EPISODES // tasks), seed=MEASURE_SEED
    )


def measured(preset: str, run: Mapping[str, Any], seats: Team) -> dict[str, Any]:
    """All numbers of a team but `crossed`."""
    if preset == REFERENTIAL:
        heard, blanked = played(run, seats), played(run, {**seats, "speaker_0": SilentPolicy()})
        return {"heard": names(heard), "blanked": names(blanked)}
    quiet = {agent: Quiet(policy) for agent, policy in seats.items()}
    found = {"heard": shares(played(run, seats)), "blanked": shares(played(run, quiet))}
    context = Context(env=held_out(run))
    beside = {plan: named_policy(f"expert:{plan}", context) for plan in BESIDE}
    found["beside"] = {
        plan: mean(pay(played(run, {**seats, seat: player}), seat) for seat in seats)
        for plan, player in beside.items()
    }
    return found


class Quiet:
    """A policy that says nothing while others listen, and chooses as another one does."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """The first text of a seat is talk, the second its choice."""
        talk = [all(one.role != "assistant" for one in request.messages) for request in requests]
        last = [request for request, first in zip(requests, talk, strict=True) if not first]
        chosen = iter(self.policy.act(last) if last else ())
        return [Response(text="") if first else next(chosen) for first in talk]


def names(result: TeamResult) -> dict[str, Any]:
    """What a team of referential-v0 did."""
    speaker = [one.turns[0].info for one in result.episodes]
    listener = [one.turns[-1].info for one in result.episodes]
    topography = result.topography.get("speaker_0")
    known = topography is not None and not topography.reason
    return {
        "success": result.success,
        "legal": mean(one["readable"] for one in listener),
        "described": mean(one["convention"] == "description" for one in speaker),
        "topography": topography.value if topography is not None and known else None,
        "episodes": len(result.episodes),
    }


def shares(result: TeamResult) -> dict[str, Any]:
    """What a team of trust_split-v0 did."""
    last = [turn.info for one in result.episodes for turn in one.turns if "readable" in turn.info]
    claims = [info["truthful"] for info in last if info["truthful"] is not None]
    return {
        "pay": result.mean_return,
        "optimum": result.success,
        "legal": mean(info["readable"] for info in last),
        "claims": len(claims) / len(last),
        "true": mean(claims) if claims else None,
        "episodes": len(result.episodes),
    }


def pay(result: TeamResult, seat: str) -> float:
    """What one seat gets."""
    return mean(one.undiscounted_return(seat) for one in result.episodes)


# -- runs ------------------------------------------------------------------------------------------
def run_one(args: argparse.Namespace, preset: str, arm: str, seed: int) -> dict[str, Any]:
    """One training from the seed's warm start, measured before and after."""
    begun = time.process_time()
    folder, team = args.teams / f"{preset}-{arm}-{seed}", team_of(args, preset, seed)
    changes = [*CHANGES[arm], *args.override, f"seed={seed}", f"output_dir={folder}/run"]
    changes += ["disable_tqdm=true", "transcript_every=0", "save_strategy=no"]
    changes += [f"partners={{player_1: {team}}}"] * (arm == RESPONDER)
    run = read_run(preset, changes)
    path = model_path(run, seed=seed)
    made = time.process_time()
    trainer = build_trainer({**run, "model": path})
    length = trainer.args.max_completion_length

    def numbers(policy: Policy) -> dict[str, Any]:
        seats: Team = dict.fromkeys(trainer.trained, policy)
        if arm != RESPONDER:
            return measured(preset, run, seats)
        frozen = TokenPolicy(load_team(team), max_completion_length=length)
        result = played(run, {**seats, "player_1": frozen})
        return {"heard": shares(result) | {"own": pay(result, "player_0")}}

    start = build_team_model(str(path), trainer.trained, weights="shared")
    before = numbers(TokenPolicy(start, max_completion_length=length))
    trainer.train()
    if trainer.stopped:
        raise SystemExit(f"stopped in {preset}, {arm}, seed {seed}: call again to begin it anew")
    after = numbers(trainer.token_policy)
    trainer.save_team(folder / "team")
    return {
        "preset": preset,
        "arm": arm,
        "seed": seed,
        "updates": trainer.state.global_step,
        "sampled_tokens": trainer.costs.tokens,
        "rewards": [log["reward"] for log in trainer.state.log_history if "reward" in log],
        "before": before,
        "after": after,
        "cpu_seconds": {"model": made - begun, "rest": time.process_time() - made},
    }


def team_of(args: argparse.Namespace, preset: str, seed: int) -> Path:
    """Where the trained team of a seed lies."""
    return args.teams / f"{preset}-preset-{seed}" / "team"


def crossed(args: argparse.Namespace, seed: int) -> dict[str, Any]:
    """The trained speaker of a seed with the trained listener of the next one."""
    begun = time.process_time()
    run, last = read_run(REFERENTIAL), args.first_seed + args.seeds - 1
    other = args.first_seed if seed == last else seed + 1
    length = run["trainer"]["max_completion_length"]
    speaker, listener = (
        TokenPolicy(load_team(team_of(args, REFERENTIAL, one)), max_completion_length=length)
        for one in (seed, other)
    )
    after = names(played(run, {"speaker_0": speaker, "listener_0": listener}))
    found = {"preset": REFERENTIAL, "arm": CROSSED, "seed": seed, "listener": other}
    return {**found, "after": {"heard": after}, "cpu_seconds": time.process_time() - begun}


# -- the table -------------------------------------------------------------------------------------
COLUMNS: dict[str, dict[str, tuple[str, str]]] = {
    REFERENTIAL: {
        "success": ("heard", "success"),
        "blanked": ("blanked", "success"),
        "legal": ("heard", "legal"),
        "described": ("heard", "described"),
        "topography": ("heard", "topography"),
    },
    SHARES: {
        "pay": ("heard", "pay"),
        "blanked": ("blanked", "pay"),
        "optimum": ("heard", "optimum"),
        "legal": ("heard", "legal"),
        "true": ("heard", "true"),
        "player_0": ("heard", "own"),
        **{f"{plan} beside": ("beside", plan) for plan in BESIDE},
    },
}
"""Preset -> column -> where the number lies in a point."""


def cell(run: Mapping[str, Any], place: tuple[str, str]) -> str:
    """`before -> after`, "-" for what was not measured."""
    points = [run[when] for when in ("before", "after") if when in run]
    found = [point.get(place[0], {}).get(place[1]) for point in points]
    if all(one is None for one in found):
        return "-"
    return " -> ".join("-" if one is None else f"{one:.2f}" for one in found)


def table(preset: str, runs: Sequence[Mapping[str, Any]]) -> str:
    """Markdown: every run, then the mean rise of each arm with Student's 95 % interval."""
    columns = COLUMNS[preset]
    lines = [f"| arm | seed | {' | '.join(columns)} |", "|" + "---|" * (len(columns) + 2)]
    for arm in ARMS[preset]:
        for run in (one for one in runs if one["arm"] == arm):
            cells = [arm, str(run["seed"]), *(cell(run, place) for place in columns.values())]
            lines.append(f"| {' | '.join(cells)} |")
    lines.append("")
    first, place = next(iter(columns.items()))
    for arm in ARMS[preset]:
        pairs = [(one["before"], one["after"]) for one in runs if one["arm"] == arm != CROSSED]
        rises = [new[place[0]][place[1]] - old[place[0]][place[1]] for old, new in pairs]
        if len(rises) > 1:
            low, high = t_interval(rises)
            lines.append(f"- {arm}, rise of {first}: {mean(rises):.2f} ({low:.2f} to {high:.2f})")
    return "\n".join(lines)


def main() -> None:
    """Make the runs that are missing, then the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--presets", nargs="+", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--arms", nargs="+", default=[*CHANGES, CROSSED])
    parser.add_argument("--first-seed", type=int, default=105)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--override", action="append", default=[], help="of the presets, all arms")
    parser.add_argument("--minutes", type=float, default=600.0)
    parser.add_argument("--output", type=Path, default=Path("benchmarks/results/talk_presets"))
    parser.add_argument("--teams", type=Path, default=Path("runs/talk_presets"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    disable_progress_bar()
    args.output.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + 60 * args.minutes
    for preset in args.presets:
        runs = []
        for arm in [one for one in ARMS[preset] if one in args.arms]:
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                path = args.output / f"{preset}-{arm}-{seed}.json"
                if not path.exists():
                    if time.monotonic() > end:
                        continue
                    made = crossed if arm == CROSSED else partial(run_one, preset=preset, arm=arm)
                    write_json(path, made(args, seed=seed))
                    print(path, flush=True)
                runs.append(read_json(path))
        print(table(preset, runs))


if __name__ == "__main__":
    main()
