"""Modules of the standard library that a zygote imports before it forks.

Every process of the sandbox has them, also where it may read no file. Owns the list alone.
"""

from __future__ import annotations

_NAMES = """
abc array ast bisect calendar cmath collections contextlib copy dataclasses datetime decimal enum
fractions functools heapq inspect io itertools json keyword math numbers operator os queue
random re statistics string struct sys textwrap threading time traceback types typing unicodedata
warnings collections.abc pprint reprlib
"""
PRELOADED = tuple(_NAMES.split())
