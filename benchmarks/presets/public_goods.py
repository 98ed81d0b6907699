"""public_goods_tiny: do seats give, paid together and paid alone?

What is measured and the arms are those of `commons.py`; nothing runs out here, so there is no
survival. `over_use` is to give less than everything.

Written down before the runs of the seeds that are reported. Paid together (`preset`) seats give:
efficiency rises on each seed, to 0.9 or more. Paid alone (`own`) they keep: efficiency falls on
each seed, to where nobody gives (the mean of 1 over the factor, 0.522 in `test`) or at most 0.05
above it.
"""

from __future__ import annotations

from benchmarks.presets.commons import ALONE, NUMBERS, measure
from benchmarks.presets.study import Study

STUDY = Study(
    preset="public_goods_tiny",
    first_seed=100,
    seeds=3,
    measure=measure,
    columns={name: f"society/{name}" for name in (*NUMBERS, "legal") if name != "survival"},
    rises=("efficiency", "over_use"),
    changed={"own": ALONE["own"]},
)
