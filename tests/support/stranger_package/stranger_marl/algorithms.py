"""Half of what MAGRPO says."""

from __future__ import annotations

import numpy as np

from trainers.algorithms import AdvantageInputs
from trainers.algorithms.magrpo import MAGRPO


class Halved(MAGRPO):
    """MAGRPO's advantages, halved."""

    name = "halved"

    def advantages(self, inputs: AdvantageInputs) -> np.ndarray:
        return super().advantages(inputs) / 2
