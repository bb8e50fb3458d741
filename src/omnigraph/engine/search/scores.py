"""Ranked rows and their scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Scores:
    """Ranked rows with their scores: the best first, ties by id."""

    positions: NDArray[np.int64]
    values: Floats
