"""Claims of papers, tested in small, one file per claim: docs/claims.md has the answers."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported
