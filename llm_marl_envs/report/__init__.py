"""Reports: one HTML file of what a demo, a training run or an evaluation wrote."""

from llm_marl_envs.report.page import write_report

__all__ = ["write_report"]
