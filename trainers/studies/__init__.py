"""Experiments of many runs: the demo, sweeps, trained baselines."""
