"""A pretrained model in every seat: where do conventions come from? `plan.md` came before the runs.

    python -m benchmarks.pretrained --list
    python -m benchmarks.pretrained warm-0 team-0-0                # one unit is one run
    python -m benchmarks.pretrained.page                           # tables and pictures

A unit that was stopped goes on; one whose file is in `benchmarks/results/pretrained` is not made
again. What a unit leaves there is a JSON file and the seats' texts. Weights lie in
`runs/pretrained` and are not kept in the repository.
"""
