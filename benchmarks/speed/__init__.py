"""Benchmarks of speed, one file per question: docs/speed.md has the answers. One thread each."""

import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
sys.path.append(str(Path(__file__).parents[2] / "tests"))  # for `support`
