"""Measure a saved team from Python: the names of `llm_marl_envs.evaluation.measure`, kept here.

>>> from trainers.evaluate import run_eval
"""

from __future__ import annotations

from llm_marl_envs.evaluation.json_files import write_json
from llm_marl_envs.evaluation.measure import run_all_baselines, run_eval

__all__ = ["run_all_baselines", "run_eval", "write_json"]
