"""Rows of a load that are not written, because they are rejected or left out."""

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

import numpy as np

from omnigraph.spark.load.load_spec import Worker
from omnigraph.storage.columnar_sets import Positions


class LeftOutRows(NamedTuple):
    """Rows of one type and split that are not written, by their ordinals as packed 64-bit integers."""

    ordinals: bytes = b""
    key: str | None = None
    """The key of an object with more ordinals."""
    stored: int = -1
    """The number of ordinals at the start of that object; -1 if it has nothing else."""

    def read(self, worker: Worker) -> Positions:
        """Return all ordinals."""
        kept = np.frombuffer(b"" if self.key is None else worker.read_object(self.key), np.int64)
        if self.stored >= 0:
            kept = kept[: self.stored]
        return np.concatenate([np.frombuffer(self.ordinals, np.int64), kept])


LeftOut: TypeAlias = Mapping[int, Mapping[str, LeftOutRows]]
"""The rows that are not written, by split and type."""
