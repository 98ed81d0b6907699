"""Societies of tables: who cooperates when nobody shares a reward; see docs/societies.md."""

from benchmarks.claims.common import ROOT

FOLDER = ROOT / "benchmarks" / "results" / "societies"
"""Of the studies' files."""
