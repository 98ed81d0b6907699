"""donor_tiny: do seats give to others who give to others, paid together and paid alone?

What is measured and the arms are those of `commons.py`; nothing runs out here, so there is no
survival. `over_use` is to keep more than a half. Where nobody gives efficiency is 0.125.

Written down before the runs of the seeds that are reported, after one of seed 0 paid together (0.67
to 0.95). Paid together (`preset`) seats give: efficiency rises on each seed, to 0.9 or more. Paid
alone (`own`) they keep: efficiency falls on each seed, to at most 0.25.
"""

from __future__ import annotations

from benchmarks.presets.commons import ALONE, NUMBERS, measure
from benchmarks.presets.study import Study

STUDY = Study(
    preset="donor_tiny",
    first_seed=100,
    seeds=3,
    measure=measure,
    columns={name: f"society/{name}" for name in (*NUMBERS, "legal") if name != "survival"},
    rises=("efficiency", "over_use"),
    changed={"own": ALONE["own"]},
)
