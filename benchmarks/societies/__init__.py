"""Societies of tables: who cooperates when nobody shares a reward. docs/societies.md has answers."""

from benchmarks.claims.common import ROOT

FOLDER = ROOT / "benchmarks" / "results" / "societies"
"""Of the studies' files."""
