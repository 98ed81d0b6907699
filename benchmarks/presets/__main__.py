"""Presets of the embedded model on held-out tasks, before and after training, beside controls.

    python -m benchmarks.presets
    python -m benchmarks.presets --presets tic_tac_toe_tiny --first-seed 0 --seeds 1 \
        --output runs/look --teams runs/look/teams

Arms: `preset` trains as the preset says. `shuffled` deals the rewards of each group to its episodes
at random: what rises there does not come from the reward. `own` and `alignment` (the societies)
pay each seat its own part. All of these begin with one warm start of the seed (of all
seeds in debate_leader_tiny). `crossed` (referential_tiny) and `responder` (trust_split_tiny) need
the teams of `preset`. What is measured, at temperature 1, stands in the file of each preset in this
folder.

One JSON file for each run; those that are there are not made again, so a stopped call goes on, and
several calls with some of the `--presets` or `--arms` each can run side by side. The trained teams
lie in `--teams`. Then prints the tables, first the row of the page's overview. One process, one
thread. From the repository's root; needs the extra `train`.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.presets import (
    agents_net,
    commons,
    debate_leader,
    donor,
    public_goods,
    referential,
    tic_tac_toe,
    trust_split,
)
from benchmarks.presets.study import seeds_of, spread, table
from benchmarks.resumable import options, runs_of

STUDIES = {
    one.STUDY.preset: one.STUDY
    for one in (
        referential,
        trust_split,
        agents_net,
        tic_tac_toe,
        commons,
        public_goods,
        donor,
        debate_leader,
    )
}


def main() -> None:
    """Make the runs that are missing, then the tables."""
    arms = list(dict.fromkeys(arm for one in STUDIES.values() for arm in one.arms))
    folder = "benchmarks/results/presets"
    parser = options("presets", __doc__, output=folder, first_seed=None, seeds=None)
    parser.add_argument("--presets", nargs="+", default=list(STUDIES), choices=list(STUDIES))
    parser.add_argument("--arms", nargs="+", default=arms, choices=arms)
    parser.add_argument("--teams", type=Path, default=Path("runs/presets"), help="their folder")
    args = parser.parse_args()
    studies = [STUDIES[one] for one in args.presets]
    due = [
        (f"{study.preset}-{arm}-{seed}", partial(make_run, study, args, arm, seed))
        for study in studies
        for arm, make_run in study.arms.items()
        if arm in args.arms
        for seed in seeds_of(study, args)
    ]
    runs = runs_of(args, due)
    for study in studies:
        mine = [one for one in runs if one["preset"] == study.preset]
        print(f"{spread(study, mine)}\n\n{table(study, mine)}\n")


if __name__ == "__main__":
    main()
