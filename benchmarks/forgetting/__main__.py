"""Chats that are summed up: untrained notes lose a fact of the beginning, do trained ones keep it?

    python -m benchmarks.forgetting
    python -m benchmarks.forgetting --seeds 1 --first-seed 0 --output runs/forgetting

The bed is `bed.py`. The embedded model is warm-started on notes that hold a fact by lot, and on
right answers where the fact is in view. Then MAGRPO trains it, notes and answers alike. Measured on
tasks of `test`, at temperature 1: the trained and the untrained model in all four pairs of notes
and answers; the trained answers beside scripted notes (the first characters, the last, a fact by
lot, the fact that will be needed); and the bed without a window.

What is claimed, and when it holds, was written before these seeds were run: CRITERION.

One JSON file for each seed; those that are there are not made again. One process, one thread.
"""

from __future__ import annotations

import argparse
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import mean
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.forgetting import bed
from benchmarks.resumable import Run, options, runs_of, train_to_the_end
from llm_marl_envs.core.records import Request, Response
from llm_marl_envs.core.seeds import Start, derive_seed
from llm_marl_envs.measure import evaluate_team
from llm_marl_envs.play.rollout import rollout
from llm_marl_envs.play.vector import VectorTextEnv
from llm_marl_envs.policies import Policy
from trainers.config import MAGRPOConfig
from trainers.policies.token_policy import TokenPolicy
from trainers.trainer import MAGRPOTrainer
from trainers.weights.shown import Demonstration
from trainers.weights.tiny import TinySettings, build_model, build_tokenizer, warm_start

EARLY = 6
"""Facts of the first six turns are out of view at the end, unless notes keep them."""
CRITERION = (
    "In each of five fresh seeds, on facts of turns 1 to 6: trained notes with trained answers are "
    "right in at least 0.8 of the tasks, untrained notes with the same answers in at most 0.4."
)
SETTINGS = TinySettings(
    vocab_size=800,
    words_per_token=3,
    hidden_size=64,
    num_layers=2,
    num_heads=4,
    intermediate_size=128,
    steps=2000,
    learning_rate=4e-3,
)
DEMONSTRATED = 3000
"""Episodes of the warm start."""
TASKS = 400
LONGEST = 12
"""Tokens of an action."""


class NotesBy:
    """Plays with the notes of one policy and all else of another."""

    def __init__(self, notes: Policy, rest: Policy) -> None:
        self.notes, self.rest = notes, rest

    def act(self, requests: Sequence[Request]) -> list[Response]:
        """Each request to its policy."""
        asked = [r.messages[-1].content.startswith(bed.DEMAND) for r in requests]
        answers = {}
        for policy, noting in ((self.notes, True), (self.rest, False)):
            mine = [place for place, is_notes in enumerate(asked) if is_notes is noting]
            said = policy.act([requests[place] for place in mine]) if mine else []
            answers.update(zip(mine, said, strict=True))
        return [answers[place] for place in range(len(requests))]


def demonstrations(seed: int) -> list[Demonstration]:
    """What the warm start is shown: notes by lot, and right answers where the fact is in view."""
    numbers = range(seed * DEMONSTRATED, (seed + 1) * DEMONSTRATED)
    starts = [
        Start(task=n % bed.SIZES["train"], seed=n, sample_seed=derive_seed("forgetting", n))
        for n in numbers
    ]
    copies = VectorTextEnv([bed.bed() for _ in range(32)])
    episodes = rollout(copies, {bed.SEAT: bed.scripted(bed.any_fact)}, starts)
    return [
        ([{"role": m.role, "content": m.content} for m in turn.messages], turn.response.text)
        for episode in episodes
        for turn in episode.turns
        if turn.response.text != bed.OK or turn.index < 2
    ]


def trainer_of(seed: int, folder: str, changes: Mapping[str, Any]) -> MAGRPOTrainer:
    """On the warm-started model of a seed."""
    shown = demonstrations(seed)
    texts = [
        text for messages, answer in shown for text in (*(m["content"] for m in messages), answer)
    ]
    tokenizer = build_tokenizer(
        [*texts, "user\n", "assistant\n"], SETTINGS.vocab_size, (), SETTINGS.words_per_token
    )
    model = build_model(tokenizer, seed, SETTINGS)
    warm_start(model, tokenizer, shown, seed, SETTINGS)
    args = MAGRPOConfig(
        folder,
        **{
            "weights": "separate",
            "max_steps": 80,
            "tasks_per_update": 8,
            "num_generations": 8,
            "rows_per_micro_batch": 192,
            "learning_rate": 1e-3,
            "lr_scheduler_type": "linear",
            "max_completion_length": LONGEST,
            "max_grad_norm": 1.0,
            "transcript_every": 0,
            "disable_tqdm": True,
            "use_cpu": True,
            "seed": seed,
            **changes,
        },
    )
    return MAGRPOTrainer(model, bed.bed, args, processing_class=tokenizer)


def share_right(policy: Policy, *, window: bool = True) -> dict[str, float]:
    """Share of right answers by the turn of the fact, and over early ones and all."""
    env = bed.bed("test", window=window)
    result = evaluate_team(env, {bed.SEAT: policy}, n_tasks=TASKS, seed=1234)
    by_turn: dict[int, list[float]] = defaultdict(list)
    for episode in result.episodes:
        by_turn[episode.turns[-1].info["fact_turn"]].append(float(bool(episode.success)))
    early = [right for turn, rights in by_turn.items() if turn <= EARLY for right in rights]
    shares = {str(turn): round(mean(rights), 3) for turn, rights in sorted(by_turn.items())}
    return {
        "early": mean(early),
        "all": mean(r for rights in by_turn.values() for r in rights),
        **shares,
    }


def run(args: argparse.Namespace, seed: int) -> Run:
    """Warm start, training, and all that is measured."""
    begun = time.process_time()
    changes = dict(change.split("=", 1) for change in args.override)
    changes = {
        name: float(value) if "." in value or "e" in value else int(value)
        for name, value in changes.items()
    }
    with TemporaryDirectory() as folder:
        trainer = trainer_of(seed, folder, changes)
        before = TokenPolicy(trainer.team, max_completion_length=LONGEST)
        untrained = TokenPolicy(_copied(trainer, folder), max_completion_length=LONGEST)
        first = share_right(before)
        train_to_the_end(trainer)
    trained = TokenPolicy(trainer.team, max_completion_length=LONGEST)
    measured = {
        "untrained notes, untrained answers": first,
        "untrained notes, trained answers": share_right(NotesBy(untrained, trained)),
        "trained notes, untrained answers": share_right(NotesBy(trained, untrained)),
        "trained notes, trained answers": share_right(trained),
        **{
            f"{name}, trained answers": share_right(NotesBy(bed.scripted(choice), trained))
            for name, choice in CONTROLS.items()
        },
        "no window, untrained": share_right(untrained, window=False),
        "no window, trained": share_right(trained, window=False),
    }
    rewards = [log["reward"] for log in trainer.state.log_history if "reward" in log]
    return {
        "seed": seed,
        "shares": measured,
        "rewards": rewards,
        "notes": shown_notes(trained),
        "sampled_tokens": trainer.costs.tokens,
        "cpu_seconds": time.process_time() - begun,
    }


CONTROLS = {
    "the first characters": bed.first,
    "the last characters": bed.last,
    "a fact by lot": bed.any_fact,
    "the fact that will be needed": bed.asked,
}


def _copied(trainer: MAGRPOTrainer, folder: str) -> Any:
    """The team as it is now, whatever training does to it."""
    from trainers.weights.team_files import load_team

    trainer.save_team(Path(folder) / "untrained")
    return load_team(Path(folder) / "untrained")


def shown_notes(policy: Policy) -> list[list[str]]:
    """Of three tasks: what was told first, then each of the notes."""
    episodes = evaluate_team(bed.bed("test"), {bed.SEAT: policy}, n_tasks=3, seed=1).episodes
    return [
        [e.turns[0].messages[0].content, *(t.response.text for t in e.turns if "notes" in t.info)]
        for e in islice(episodes, 3)
    ]


def table(runs: Sequence[Run]) -> str:
    """Markdown: each row over all seeds, lowest to highest, facts of turns 1 to 6."""
    lines = [
        "| notes and answers | facts of turns 1 to 6 | of turns 7 and 8, and those |",
        "|---|---|---|",
    ]
    for name in runs[0]["shares"]:
        early = sorted(run["shares"][name]["early"] for run in runs)
        whole = sorted(run["shares"][name]["all"] for run in runs)
        lines.append(
            f"| {name} | {early[0]:.2f} to {early[-1]:.2f} | {whole[0]:.2f} to {whole[-1]:.2f} |"
        )
    return "\n".join(lines)


def holds(runs: Sequence[Run]) -> bool:
    """Whether CRITERION does."""
    kept = [run["shares"]["trained notes, trained answers"]["early"] for run in runs]
    lost = [run["shares"]["untrained notes, trained answers"]["early"] for run in runs]
    return len(runs) >= 5 and min(kept) >= 0.8 and max(lost) <= 0.4


def main() -> None:
    """Make the runs that are missing, then the table."""
    parser = options("forgetting", __doc__, output="benchmarks/results/forgetting")
    args = parser.parse_args()
    seeds = range(args.first_seed, args.first_seed + args.seeds)
    runs = runs_of(args, [(f"forgetting-{seed}", partial(run, args, seed)) for seed in seeds])
    print(table(runs))
    print(f"\n{CRITERION}\n{'It holds.' if holds(runs) else 'It does not hold.'}")


if __name__ == "__main__":
    main()
